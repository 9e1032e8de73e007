"""Applies partition transforms to columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.transforms import IdentityTransform, Transform, TruncateTransform, VoidTransform
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    IntegerType,
    LongType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from puffin_fast._alignment import aligned
from puffin_fast.errors import InvalidInputError

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType


def partition_values(
    transform: Transform[Any, Any], kind: IcebergType, source: pa.Array, name: str
) -> pa.Array:
    """As `transformed`, of a column with a name.

    Raises:
        InvalidInputError: a truncated number is below the range of its type; no reader would find its partition.
    """
    if isinstance(transform, TruncateTransform) and isinstance(kind, IntegerType | LongType | DecimalType):
        _check_truncated(transform, kind, source, name)
    return transformed(transform, kind, source)


def transformed(transform: Transform[Any, Any], kind: IcebergType, source: pa.Array) -> pa.Array:
    """Applies a transform to a column; returns the values as manifests have them: dates and times are integers.

    Nanoseconds are transformed as the microseconds that they are in, which the specification demands of buckets;
    PyIceberg has no hours of nanoseconds, and truncates no bytes: the first of them are the value (table specification,
    "Truncate Transform Details").
    """
    if isinstance(transform, TruncateTransform) and isinstance(kind, BinaryType):
        return pc.binary_slice(source, 0, transform.width)
    if isinstance(kind, TimestampNanoType | TimestamptzNanoType) and not isinstance(
        transform, IdentityTransform | VoidTransform
    ):
        # `floor_temporal` refuses the first nanoseconds of 1677
        source = floor_divided(source, 1000).cast(pa.timestamp("us", source.type.tz))
        kind = TimestampType() if isinstance(kind, TimestampNanoType) else TimestamptzType()
    found = transform.pyarrow_transform(kind)(aligned(source))
    if isinstance(found.type, pa.BaseExtensionType):
        return found.storage
    if pa.types.is_temporal(found.type):
        return found.view(pa.int32() if found.type.bit_width == 32 else pa.int64())
    return found


def floor_divided(numbers: pa.Array, divisor: int) -> pa.Array:
    """Integers, or values that are stored as such, divided and rounded down, as int64."""
    numbers = numbers.cast(pa.int64())
    found = pc.divide(numbers, divisor)  # rounds towards zero
    return pc.subtract(found, pc.less(numbers, pc.multiply(found, divisor)).cast(pa.int64()))


def _check_truncated(
    transform: TruncateTransform[Any], kind: IntegerType | LongType | DecimalType, source: pa.Array, name: str
) -> None:
    """Checks the lowest value: truncation keeps the order."""
    lowest = pc.min(source).as_py()
    if lowest is None:
        return
    if isinstance(kind, DecimalType):
        sign, digits, exponent = lowest.as_tuple()  # its methods round to 28 digits
        whole = int("".join(map(str, digits))) * 10 ** (int(exponent) + kind.scale)
        value, end = -whole if sign else whole, 1 - 10**kind.precision
    else:
        value, end = lowest, -(2**31) if isinstance(kind, IntegerType) else -(2**63)
    if value - value % transform.width < end:
        raise InvalidInputError(
            f"data: column {name}: {transform} of {lowest} is below the range of {kind}, so that the row has no "
            "partition"
        )
