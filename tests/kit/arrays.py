"""Random Arrow arrays of any type: of numbers, texts and their like, and of structs, lists and maps of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["random_array"]


def random_array(
    rng: np.random.Generator,
    n: int,
    kind: pa.DataType,
    *,
    nullable: bool = True,
    shares: Sequence[float] = (0, 0.1, 0.9, 1),
    lengths: tuple[int, int] = (0, 4),
) -> pa.Array:
    """An array of few or many different values.

    Args:
        rng: the source of chance.
        n: how many.
        kind: the type. What its fields do not allow to be null is not.
        nullable: whether the values themselves may be null.
        shares: at each level, one of them is the share of nulls.
        lengths: the least and the greatest one of lists and maps that are not null.
    """
    null = rng.random(n) < (rng.choice(shares) if nullable else 0)
    mask = pa.array(null)

    def inner(field: pa.Field, n_values: int) -> pa.Array:
        return random_array(
            rng, n_values, field.type, nullable=field.nullable, shares=shares, lengths=lengths
        )

    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([inner(field, n) for field in kind], fields=list(kind), mask=mask)
    if not pa.types.is_nested(kind):
        return pc.if_else(mask, None, _values(rng, n, kind))
    sizes = np.where(null, 0, rng.integers(lengths[0], lengths[1] + 1, n))
    offsets, n_values = np.concatenate([[0], np.cumsum(sizes)]), int(sizes.sum())
    if pa.types.is_map(kind):
        keys, items = inner(kind.key_field, n_values), inner(kind.item_field, n_values)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=kind, mask=mask)
    is_large = pa.types.is_large_list(kind)
    made = pa.LargeListArray if is_large else pa.ListArray
    starts = pa.array(offsets, pa.int64() if is_large else pa.int32())
    return made.from_arrays(starts, inner(kind.value_field, n_values), type=kind, mask=mask)


def _values(rng: np.random.Generator, n: int, kind: pa.DataType) -> pa.Array:
    numbers = rng.integers(0, rng.choice([3, 1 << 24]), n)
    if pa.types.is_boolean(kind):
        return pa.array(numbers % 2 == 0)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([int(number).to_bytes(kind.byte_width, "big") for number in numbers], kind)
    if pa.types.is_decimal(kind):
        return pa.array(numbers % 100_000).cast(pa.decimal128(30, 0)).cast(kind)
    if pa.types.is_floating(kind):
        return pa.array(numbers / 7).cast(kind)
    return pa.array(numbers.astype(np.int32) if kind == pa.date32() else numbers).cast(kind)
