"""What `verify` finds in a table of any format, or in a file of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from puffin_fast.errors import NotFoundError, PuffinFastError, UnsupportedError

MISSING: Final = "missing"
DUPLICATE: Final = "duplicate"
DANGLING: Final = "dangling"
MISMATCH: Final = "mismatch"
SUPERSEDED: Final = "superseded"
CORRUPT: Final = "corrupt"
UNSUPPORTED: Final = "unsupported"
STALE: Final = "stale"

Kind: TypeAlias = Literal[
    "missing", "duplicate", "dangling", "mismatch", "superseded", "corrupt", "unsupported", "stale"
]
"""The kinds of findings."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An error in a table's metadata, deletes or data files, or in a file of vectors.

    Attributes:
        kind: one of these words, of all table formats:

            - ``missing``: a file or snapshot does not exist;
            - ``duplicate``: a data file has several vectors, or is in the table several times;
            - ``dangling``: a vector or equality-delete file applies to no live data file, or a position-delete file not
              to one that it names;
            - ``mismatch``: manifest list, manifest, log, footer, blob and data file disagree;
            - ``superseded``: position deletes are superseded by a vector that does not contain them: these rows came
              back (Iceberg);
            - ``corrupt``: bytes or metadata are not valid in their format;
            - ``unsupported``: a file that this package does not read, such as an encrypted one;
            - ``stale``: a warning (Iceberg): a number that no reader needs is wrong, such as a manifest's length or a
              total of the snapshot summary. Some writers, such as DuckDB, write wrong totals; otherwise manifests may
              be lost. Or a Puffin file has live vectors and superseded ones, and Java's API may delete it.
        data_file: the data file that the deletes are about; None if unknown.
        path: the path of the metadata, delete or data file.
        offset: the offset of the vector; None if the finding is not about a vector.
        message: what was expected and found.
    """

    kind: Kind
    data_file: str | None
    path: str
    offset: int | None
    message: str


def kind_of(error: PuffinFastError) -> Kind:
    """The kind of finding for a file that cannot be read."""
    if isinstance(error, UnsupportedError):
        return UNSUPPORTED
    return MISSING if isinstance(error, NotFoundError) else CORRUPT
