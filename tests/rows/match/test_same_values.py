"""Values that are compared as an upsert compares them: null equals null, floats by their bits, in nested values too."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.rows.match.same_values import same_values
from tests.conftest import readable
from tests.kit.tables import iceberg_table, sqlite_catalog

ITEM = pa.struct([("x", pa.float64()), ("t", pa.string())])
KINDS = [
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.decimal128(9, 2),
    ITEM,
    pa.list_(pa.float32()),
    pa.large_list(ITEM),
    pa.list_(pa.float64(), 2),
    pa.list_(pa.list_(pa.int32())),
    pa.map_(pa.string(), pa.list_(pa.float64())),
    pa.struct([("l", pa.list_(ITEM)), ("m", pa.map_(pa.int32(), ITEM))]),
]


def some_value(rng: np.random.Generator, kind: pa.DataType) -> Any:
    if rng.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {field.name: some_value(rng, field.type) for field in kind}
    if pa.types.is_map(kind):
        keys = ["a", "b"] if kind.key_type == pa.string() else [1, 2]
        return [(key, some_value(rng, kind.item_type)) for key in keys[: rng.integers(0, 3)]]
    if pa.types.is_nested(kind):
        length = 2 if pa.types.is_fixed_size_list(kind) else rng.integers(0, 3)
        return [some_value(rng, kind.value_type) for _ in range(length)]
    if pa.types.is_floating(kind):
        return [0.0, -0.0, float("nan"), 1.5][rng.integers(4)]
    return ["", "a"][rng.integers(2)] if pa.types.is_string(kind) else int(rng.integers(0, 2))


def bits(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, dict):
        return {name: bits(one) for name, one in value.items()}
    return [bits(one) for one in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("kind", KINDS, ids=readable)
def test_nested_values_are_compared_by_their_bits(kind: pa.DataType) -> None:
    rng = np.random.default_rng(1)
    left, right = (pa.array([some_value(rng, kind) for _ in range(1000)], kind) for _ in range(2))
    for start, stop in ((0, 1000), (3, 900), (5, 5)):
        one, other = left[start:stop], right[start:stop]
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        expected = [bits(a) == bits(b) for a, b in pairs]
        assert same_values(one, other).tolist() == expected
        assert not expected or 0 < sum(expected) < len(expected)


def test_an_upsert_writes_a_zero_of_the_other_sign_and_leaves_nan(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    rows = pa.table({"id": [1, 2], "s": [{"x": float("nan")}, {"x": 0.0}]})
    table = iceberg_table(catalog, rows)
    result = iceberg.upsert(table, pa.table({"id": [1, 2], "s": [{"x": float("nan")}, {"x": -0.0}]}), "id")
    assert (result.rows_updated, result.rows_unchanged) == (1, 1)
    found = sorted(iceberg.scan(table).to_arrow().to_pylist(), key=lambda row: row["id"])
    assert np.signbit(found[1]["s"]["x"])
    catalog.close()
