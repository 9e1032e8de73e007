"""Checks the column chunks of a Parquet footer before PyArrow makes objects of them.

`RowGroupMetaData.column` of PyArrow ends the process if a column chunk contradicts the schema: C++ raises an exception
that the binding does not expect. (Functions that read rows report the same contradictions as errors.)
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from puffin_fast._kernels import footers
from puffin_fast.errors import CorruptDataError, UnsupportedError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from puffin_fast._runtime import Source

__all__ = ["AFTER_FOOTER", "MAGIC_BYTES", "check_footer"]

_WIDTHS = {
    "BOOLEAN": 1,
    "INT32": 4,
    "INT64": 8,
    "INT96": 12,
    "FLOAT": 4,
    "DOUBLE": 8,
    "BYTE_ARRAY": 0,
    "FIXED_LEN_BYTE_ARRAY": 0,
}
"""Bytes of a value, 0 if these vary; the physical types are in the order of the format's enumeration."""
_NUMBERS = {name: number for number, name in enumerate(_WIDTHS)}
AFTER_FOOTER = 8
"""Bytes of the footer's length and of the magic."""
MAGIC_BYTES = 4


def check_footer(footer: pq.FileMetaData, source: Source, path: str) -> None:
    """Checks the column chunks of all row groups. Reads the footer once more.

    Args:
        footer: of the file.
        source: the file.
        path: of the file, for messages.

    Raises:
        CorruptDataError: a column chunk contradicts the schema.
        UnsupportedError: a column chunk is encrypted.
    """
    n_bytes = footer.serialized_size
    tail = source.read_tail(n_bytes + AFTER_FOOTER)
    stated = int.from_bytes(tail[-AFTER_FOOTER:-MAGIC_BYTES], "little")
    if stated != n_bytes:
        raise CorruptDataError("bytes of a Parquet footer", path=path, expected=stated, found=n_bytes)
    leaves = array("i")
    for column in map(footer.schema.column, range(footer.num_columns)):
        kind = column.physical_type
        width = column.length if kind == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(kind, 0)
        leaves.extend(
            (_NUMBERS.get(kind, -1), column.max_repetition_level, column.max_definition_level, width)
        )
    status = footers.check_chunks(tail[:n_bytes], leaves)
    if status == footers.ENCRYPTED:
        raise UnsupportedError(f"{path}: columns are encrypted")
    if status:
        expected = (
            "types, levels and bounds of the schema" if status == footers.CONTRADICTION else "Thrift structs"
        )
        raise CorruptDataError(
            "column chunks of a Parquet footer", path=path, expected=expected, found="others"
        )
