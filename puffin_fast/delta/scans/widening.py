"""Type widening: values of files that were written before a column's type changed (protocol, "Type Widening")."""

from __future__ import annotations

import pyarrow as pa

from puffin_fast.rows.files.conversion import Convert, stored

_EXACT_BITS = 32
"""Bits of the widest integers that a double holds exactly."""


def widened(found: pa.DataType, wanted: pa.DataType) -> Convert | None:
    """Returns the conversion of a file's values to the table's type; a `Cast`.

    Besides what Iceberg's schema evolution changes, integers become doubles and decimals.

    Raises:
        ProjectionError: there is no such conversion.
    """
    if pa.types.is_integer(found) and (
        pa.types.is_decimal(wanted) or (wanted == pa.float64() and found.bit_width <= _EXACT_BITS)
    ):
        return lambda array, constants: array.cast(wanted)
    return stored(found, wanted)
