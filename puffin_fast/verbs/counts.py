"""The counts of an action, from which each format makes its results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts of one action; the results of the public functions document the names."""

    rows_deleted: int = 0
    rows_updated: int = 0
    rows_inserted: int = 0
    rows_unchanged: int = 0
    rows_appended: int = 0
    keys_deleted: int = 0
    rows_superseded: int = 0
    rows_dangling: int = 0
    data_files: int = 0
    data_files_dropped: int = 0
    data_files_written: int = 0
    vectors_written: int = 0
    vectors_merged: int = 0
    position_delete_files_written: int = 0
    files: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    # an `Explanation` or None; of that type, mappings of counts would not replace fields
    explanation: Any = None
