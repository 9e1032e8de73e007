"""Metadata columns: the file, position and lineage of a row (specification, "Reserved Field IDs")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.columns.plain_types import array_of
from puffin_fast.dv.iceberg import ROW_POSITION_FIELD_ID

if TYPE_CHECKING:
    from puffin_fast.rows.tasks import DataFile


@dataclass(frozen=True, slots=True)
class Metadata:
    """The rows of a batch that are selected.

    Attributes:
        data: their data file.
        n_rows: their number.
        positions: int64; None if no requested column needs them.
    """

    data: DataFile
    n_rows: int
    positions: pa.Array | None


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """A metadata column.

    Attributes:
        name: the name under which a scan selects it.
        field_id: the reserved id; rewritten files store the lineage columns under it.
        type: its Arrow type.
        needs_positions: whether `inherited` uses the positions of rows.
        inherited: computes the values of rows for which the file stores none.
    """

    name: str
    field_id: int
    type: pa.DataType
    needs_positions: bool
    inherited: Callable[[Metadata], pa.Array]

    def array(self, batch: Metadata, stored: pa.Array | None) -> pa.Array:
        """The column's values: those stored in the file, else the inherited ones."""
        if stored is None:
            return self.inherited(batch)
        stored = stored.cast(self.type)
        return pc.coalesce(stored, self.inherited(batch)) if stored.null_count else stored


def _file(batch: Metadata) -> pa.Array:
    indices = pa.array(np.zeros(batch.n_rows, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([batch.data.file_path]))


def _pos(batch: Metadata) -> pa.Array:
    return batch.positions


def _row_id(batch: Metadata) -> pa.Array:
    first: Any = batch.data.first_row_id
    if first is None:
        return pa.nulls(batch.n_rows, pa.int64())
    array = batch.positions
    assert array is not None
    positions = np.frombuffer(array.buffers()[1], np.int64, batch.n_rows, 8 * array.offset)
    return array_of(positions + first, pa.int64())


def _last_updated(batch: Metadata) -> pa.Array:
    if batch.data.first_row_id is None:
        return pa.nulls(batch.n_rows, pa.int64())
    return pa.repeat(pa.scalar(batch.data.file_sequence_number, pa.int64()), batch.n_rows)


METADATA_COLUMNS = {
    column.name: column
    for column in (
        MetadataColumn("_file", 2147483646, pa.dictionary(pa.int32(), pa.string()), False, _file),
        MetadataColumn("_pos", ROW_POSITION_FIELD_ID, pa.int64(), True, _pos),
        MetadataColumn("_row_id", 2147483540, pa.int64(), True, _row_id),
        MetadataColumn("_last_updated_sequence_number", 2147483539, pa.int64(), False, _last_updated),
    )
}
"""The metadata columns that a scan can return, by name."""

RESERVED_NAMES = frozenset({*METADATA_COLUMNS, "_deleted", "_partition", "_spec_id"})
"""The names of the metadata columns of a table: Java's readers refuse tables with columns of these names, and rewritten
files cannot store both. The other reserved columns are those of delete files and changes, and no names of a table's."""
