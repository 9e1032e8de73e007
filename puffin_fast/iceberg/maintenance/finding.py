"""What `verify` reports."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CORRUPT", "DANGLING", "DUPLICATE", "MISMATCH", "MISSING", "STALE", "SUPERSEDED", "Finding"]

MISSING, DUPLICATE, DANGLING, MISMATCH = "missing", "duplicate", "dangling", "mismatch"
SUPERSEDED, CORRUPT, STALE = "superseded", "corrupt", "stale"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a table's metadata or deletes.

    Attributes:
        kind: ``missing`` (a file or snapshot is not there), ``duplicate`` (several vectors of a data file),
            ``dangling`` (about no live data file), ``mismatch`` (manifest list, manifest, footer, blob and data
            file disagree), ``superseded`` (position deletes that a vector replaces and does not hold: these rows
            came back), ``corrupt`` (bytes that are no vector, no Puffin or no Parquet file), ``stale`` (a warning:
            a number that no reader needs is wrong, a manifest's length or a total of the snapshot summary. Some
            writers, DuckDB among them, keep wrong totals; otherwise manifests may be lost).
        data_file: whose deletes, where that is known.
        path: the metadata, delete or data file.
        offset: of the vector, where one is meant.
        message: what was expected and found.
    """

    kind: str
    data_file: str | None
    path: str
    offset: int | None
    message: str
