"""Reads ORC data and delete files with PyArrow.

Iceberg writes field ids as the attribute ``iceberg.id`` of each type (specification, "Appendix A: ORC").
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.rows.files.files import BatchColumns, open_input, reading
from puffin_fast.rows.files.projection import FIELD_ID

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

    from puffin_fast.rows.files.projection import FileSchema
    from puffin_fast.rows.filters.pruning import Pruner

ORC_ID = b"iceberg.id"


class OrcReader:
    """An open ORC file; see `FormatReader`.

    PyArrow does not report the row count of a stripe before the stripe is read. The file is one row group
    therefore.
    """

    def __init__(self, io: FileIO, location: str) -> None:
        try:
            from pyarrow import orc
        except ImportError as error:
            raise UnsupportedError(f"{location}: ORC; this PyArrow is built without ORC") from error
        self._io, self._location = io, location
        with reading(location, "ORC"):
            self._file = orc.ORCFile(open_input(io, location))
            self.schema = pa.schema([_with_parquet_ids(field) for field in self._file.schema])
        self.schema_bytes: bytes = self.schema.serialize().to_pybytes()
        self.n_rows: int = self._file.nrows
        self.group_rows: tuple[int, ...] = (self.n_rows,)

    def groups_that_may_match(
        self,
        known: FileSchema,
        schema: Schema,
        field_ids: Iterable[int],
        may_match: Callable[[Any], bool],
        pruner: Pruner | None = None,
    ) -> Iterable[int]:
        """Returns the only row group: its statistics are not read."""
        return (0,)

    def batches(
        self, group: int, columns: Sequence[str], batch_rows: int, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of all stripes."""
        # Arrow takes a name with a dot for a field of a struct
        names = None if any("." in name for name in self.schema.names) else list(columns)
        try:
            for stripe in range(self._file.nstripes):
                rows = self._file.read_stripe(stripe, columns=names).select(columns)
                for first in range(0, rows.num_rows, batch_rows):
                    yield rows.slice(first, batch_rows)
        except pa.ArrowInvalid as error:
            # Arrow reads timestamps of ORC as nanoseconds only
            if "out of range for nanosecond" in str(error):
                raise UnsupportedError(
                    f"{self._location}: ORC; PyArrow {pa.__version__} cannot read this: {error}"
                ) from error
            raise CorruptDataError(f"ORC file: {error}", path=self._location) from error

    def columns(
        self,
        group: int,
        names: Sequence[str],
        batch_rows: int,
        *,
        use_threads: bool,
        views: bool = False,
        wanted: object = None,
        is_late: bool = False,
        ahead: Sequence[str] = (),
        codes: Collection[str] = (),
    ) -> BatchColumns:
        """Returns columns of the file."""
        batches = self.batches(group, names, batch_rows, use_threads=use_threads)
        return BatchColumns(batches, group, self.n_rows, self._location)

    def rows_at_once(self, first: int, n_rows: int) -> int:
        """Returns how many of some rows are read at once: all."""
        return n_rows

    def reopen(self) -> OrcReader:
        """Opens the same file again, for another thread."""
        return OrcReader(self._io, self._location)


def _with_parquet_ids(field: pa.Field) -> pa.Field:
    """The field with its ids, at every depth, under the metadata key of Parquet's reader."""
    number = (field.metadata or {}).get(ORC_ID)
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_with_parquet_ids(child) for child in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_with_parquet_ids(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(_with_parquet_ids(kind.key_field), _with_parquet_ids(kind.item_field))
    return pa.field(field.name, kind, field.nullable, None if number is None else {FIELD_ID: number})
