"""The counts of an action, from which each format makes its results."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")


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
    n_bytes: int = 0
    seconds: float = 0.0
    # an `Explanation` or None; of that type, mappings of counts would not replace fields
    explanation: Any = None

    @property
    def delete_files_written(self) -> int:
        """The number of deletion vectors or position-delete files."""
        return self.vectors_written + self.position_delete_files_written


def result_of(kind: type[Result], counts: Counts, **commit: Any) -> Result:
    """Makes a result from those counts that it has as fields, and from the fields of the commit.

    Args:
        kind: the dataclass of the result.
        counts: the counts of the action.
        commit: values of other fields; they replace counts of the same name.
    """
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    counted = {name: getattr(counts, name) for name in names if name not in commit and hasattr(counts, name)}
    return kind(**counted, **commit)
