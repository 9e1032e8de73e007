"""The rows that executors exchange with each other and with the driver; ``kind`` is the kind of a row.

Between executors, `MARKED`:

=========  ==================  ====================================================================
kind       columns in use      meaning
=========  ==================  ====================================================================
PARTIAL    file_path, blob     a partial vector of a data file
TASK       file_path, extra    the pickled task of a data file, once per data file
DANGLING   extra               the number of rows that name no data file of the table
NAN        extra               the number of rows with NaN in a column of the condition
=========  ==================  ====================================================================

From executors to the driver, `REPORT`:

============  ======================  =============================================================
kind          columns in use          meaning
============  ======================  =============================================================
VECTOR        those of `WRITTEN`,     the data file has this new deletion vector, which deletes
              n_rows                  ``n_rows`` rows that were live before
EMPTIED       data_file, n_rows       all rows of the data file are deleted; the last ``n_rows`` now
BY_FILES      data_file, n_rows       position-delete files hold the new deletes of the data file
DELETE_FILE   path, entry             a position-delete file was written; its pickled manifest entry
SUPERSEDED    data_file, n_rows       the data file stays as it is: its deletion vector does not hold
                                      ``n_rows`` positions of position-delete files that it supersedes
UNKNOWN_ROWS  n_rows                  number of rows that name no data file of the table
NAN_ROWS      n_rows                  number of rows with NaN in a column of the condition
DATA_FILE     path, entry             a new data file, and its pickled entry unless that is in a group
GROUP         entry                   a pickled `RewrittenGroup`
MATCHED       entry                   a pickled `MatchedFile`
INSERTED      n_rows                  given rows whose key is new
SAVED         path, file_size, or     a file of rows that the job reads again, or the rows themselves;
              entry; n_rows, length   their number, and their bytes in memory
============  ======================  =============================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

PARTIAL, TASK, DANGLING, NAN = range(4)
"""Kinds of rows of `MARKED`."""

(
    VECTOR,
    EMPTIED,
    BY_FILES,
    DELETE_FILE,
    SUPERSEDED,
    UNKNOWN_ROWS,
    DATA_FILE,
    GROUP,
    MATCHED,
    INSERTED,
    SAVED,
    NAN_ROWS,
) = range(12)
"""Kinds of rows of `REPORT`."""

MARKED = pa.schema(
    [
        pa.field("kind", pa.int8()),
        pa.field("file_path", pa.string()),
        pa.field("blob", pa.binary()),
        pa.field("extra", pa.binary()),
    ]
)
"""The rows that are shuffled."""

WRITTEN = pa.schema(
    [
        pa.field("data_file", pa.string()),
        pa.field("path", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("cardinality", pa.int64()),
        pa.field("file_size", pa.int64()),
    ]
)
"""The locations of deletion vectors that a task wrote."""

REPORT = pa.schema(
    [
        pa.field("kind", pa.int8()),
        *WRITTEN,
        pa.field("n_rows", pa.int64()),
        pa.field("entry", pa.binary()),
    ]
)
"""What a task reports to the driver."""


class ReportRow(NamedTuple):
    """A row of `REPORT`; the columns that its kind does not use are None."""

    kind: int
    data_file: str | None = None
    path: str | None = None
    offset: int | None = None
    length: int | None = None
    cardinality: int | None = None
    file_size: int | None = None
    n_rows: int | None = None
    entry: bytes | None = None


def partial_rows(partials: pa.RecordBatch) -> pa.RecordBatch:
    """Partial vectors (file_path, blob) as rows of `MARKED`."""
    n_rows = partials.num_rows
    kind = pa.repeat(pa.scalar(PARTIAL, pa.int8()), n_rows)
    arrays = [kind, partials["file_path"], partials["blob"], pa.nulls(n_rows, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=MARKED)


def count_row(kind: int, n_rows: int) -> pa.RecordBatch:
    """One row of `MARKED` with a number of rows: `DANGLING` or `NAN`."""
    row = {"kind": kind, "file_path": None, "blob": None, "extra": n_rows.to_bytes(8, "little")}
    return pa.RecordBatch.from_pylist([row], schema=MARKED)


def report_rows(rows: Sequence[ReportRow]) -> Iterator[pa.RecordBatch]:
    """Yields rows of `REPORT` as one batch, or nothing if there are no rows."""
    if rows:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(c, field.type) for c, field in zip(columns, REPORT, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=REPORT)


def vector_rows(written: pa.RecordBatch, n_rows: Sequence[int]) -> pa.RecordBatch:
    """Locations of vectors (`WRITTEN`) and the rows that each newly deletes, as rows of `REPORT`."""
    arrays = [
        pa.repeat(pa.scalar(VECTOR, pa.int8()), written.num_rows),
        *written.columns,
        pa.array(n_rows, pa.int64()),
        pa.nulls(written.num_rows, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=REPORT)
