"""The findings of `verify`."""

from __future__ import annotations

from dataclasses import dataclass

from puffin_fast.errors import NotFoundError, PuffinFastError, UnsupportedError

MISSING, DUPLICATE, DANGLING, MISMATCH = "missing", "duplicate", "dangling", "mismatch"
SUPERSEDED, CORRUPT, STALE, UNSUPPORTED = "superseded", "corrupt", "stale", "unsupported"


@dataclass(frozen=True, slots=True)
class Finding:
    """An error in a table's metadata or deletes.

    Attributes:
        kind: ``missing`` (a file or snapshot does not exist), ``duplicate`` (a data file has several
            vectors), ``dangling`` (a vector or equality-delete file applies to no live data file, or a
            position-delete file not to one that it names), ``mismatch`` (manifest list,
            manifest, footer, blob and data file disagree), ``superseded`` (position deletes are superseded by
            a vector that does not contain them: these rows came back), ``corrupt`` (bytes are not a valid
            vector, Puffin file or Parquet file), ``unsupported`` (a file that this package does not read,
            such as an encrypted one), ``stale`` (a warning: a number that no reader needs is
            wrong, such as a manifest's length or a total of the snapshot summary. Some writers, such as
            DuckDB, write wrong totals; otherwise manifests may be lost).
        data_file: the data file that the deletes are about; None if unknown.
        path: the path of the metadata, delete or data file.
        offset: the offset of the vector; None if the finding is not about a vector.
        message: what was expected and found.
    """

    kind: str
    data_file: str | None
    path: str
    offset: int | None
    message: str


def kind_of(error: PuffinFastError) -> str:
    """The kind of finding for a file that cannot be read."""
    if isinstance(error, UnsupportedError):
        return UNSUPPORTED
    return MISSING if isinstance(error, NotFoundError) else CORRUPT
