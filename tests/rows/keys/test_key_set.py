"""Sets of keys, compared with Python's dictionaries."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.types import LongType, NestedField

from puffin_fast.key_index import hash_bytes
from puffin_fast.rows.keys import key_set
from puffin_fast.rows.keys.integers import sorted_distinct
from puffin_fast.rows.keys.key_set import KeySet

LOW, HIGH = -(2**63), 2**63 - 1
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [None, LOW, HIGH, 0, -1, 1, 1 << 40, *range(100, 200)]),
    "int": (pa.int32(), [None, -(2**31), 2**31 - 1, *range(-50, 50)]),
    "date": (pa.date32(), [None, *(date(1969, 12, 1) + timedelta(days=i) for i in range(90))]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [None, *(datetime(1970, 1, 1) + timedelta(i) for i in range(90))],
    ),
    "string": (pa.large_string(), [None, "", *(f"w{i}" for i in range(90))]),
    "binary": (pa.large_binary(), [None, b"", b"\xff", *(bytes([i]) * 3 for i in range(90))]),
    "uuid": (pa.binary(16), [None, bytes(16), *(i.to_bytes(16, "little") for i in range(1, 90))]),
    "decimal": (pa.decimal128(10, 2), [None, *(Decimal(i) / 100 for i in range(-40, 40))]),
}


@pytest.fixture(params=["hash tables", "Arrow's hash tables", "bitmaps"])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small and large sets are stored in different ways: runs a test with both."""
    for name in ("MAX_HASH_TABLE_VALUES", "MOST_HASHED_BYTES"):
        monkeypatch.setattr(key_set, name, 0 if request.param == "bitmaps" else 1 << 15)
    if request.param != "hash tables":
        monkeypatch.setattr(key_set, "FEW_VALUES", -1)


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", [None, "long", "string"])
def test_a_key_set_finds_the_keys_that_a_dictionary_finds(first: str, second: str | None) -> None:
    rng = random.Random(f"{first} {second}")
    kinds = [KINDS[name] for name in (first, second) if name is not None]
    fields = [NestedField(at, f"f{at}", LongType()) for at in range(len(kinds))]
    for n_keys in (1, 7, 60):
        keys = list(dict.fromkeys(tuple(rng.choice(pool) for _, pool in kinds) for _ in range(n_keys)))
        known = {key: at for at, key in enumerate(keys)}
        columns = [pa.array([key[at] for key in keys], kind) for at, (kind, _) in enumerate(kinds)]
        made = KeySet.of(fields, [pa.chunked_array([column[:3], column[3:]]) for column in columns])
        assert len(made) == len(keys)
        rows = [tuple(rng.choice(pool) for _, pool in kinds) for _ in range(300)] + keys
        values = {at: pa.array([row[at] for row in rows], kind) for at, (kind, _) in enumerate(kinds)}
        assert made.contains(values).tolist() == [row in known for row in rows]
        assert made.index(values).to_pylist() == [known.get(row) for row in rows]
        sliced = {at: column.slice(5, 40) for at, column in values.items()}
        assert made.index(sliced).to_pylist() == [known.get(row) for row in rows[5:45]]
        assert made.contains(sliced).tolist() == [row in known for row in rows[5:45]]


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.large_string(), pa.binary(16), pa.decimal128(30, 2)], ids=str
)
def test_no_hash_table_of_many_keys_is_made_for_each_batch(kind: pa.DataType) -> None:
    numbers = pa.array(range(5000), pa.int64())
    keys = (
        pa.array([n.to_bytes(16, "big") for n in range(5000)], kind)
        if kind == pa.binary(16)
        else numbers.cast(kind)
    )
    made = KeySet.of([NestedField(1, "f", LongType())], [keys], most_hashed=1000)
    assert made.batch_rows == 1
    assert made.index({1: keys.slice(4990, 5)}).to_pylist() == [4990, 4991, 4992, 4993, 4994]


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("kind", ["long", "int", "date", "timestamp"])
def test_repeated_keys_and_nulls_are_numbered_by_their_first_occurrence(kind: str) -> None:
    type_, pool = KINDS[kind]
    rng = random.Random(kind)
    field = NestedField(1, "f", LongType())
    for _ in range(50):
        keys = [rng.choice(pool) for _ in range(rng.randrange(2, 200))]
        if rng.random() < 0.3:
            keys = sorted(key for key in keys if key is not None)
        known = {key: at for at, key in enumerate(dict.fromkeys(keys))}
        array = pa.array(keys, type_)
        made = KeySet.of([field], [array])
        rows = [rng.choice(pool) for _ in range(100)]
        assert made.index({1: pa.array(rows, type_)}).to_pylist() == [known.get(row) for row in rows]
        assert made.columns[0] == pa.array(list(known), type_)
        without_null = sorted(known.keys() - {None})
        assert sorted_distinct(array) == pa.array(without_null + [None] * (None in known), type_)
        assert sorted_distinct(pa.chunked_array([array, array])) == sorted_distinct(array)
        numbers = pa.array(without_null, type_).cast(pa.int32() if kind in ("int", "date") else pa.int64())
        assert list(made.sorted(0).values) == numbers.to_pylist()


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("lowest", [-(2**63), -70, 0, 2**63 - 800])
@pytest.mark.parametrize("step", [1, 7, 31, 32, 60, 400])
def test_integers_are_found_at_the_ends_of_their_type(lowest: int, step: int) -> None:
    keys = [key for key in range(lowest, lowest + 3 * step, step) if key < 2**63]
    made = KeySet.of([NestedField(1, "f", LongType())], [pa.array(keys, pa.int64())])
    near = {key + by for key in (*keys, -(2**63), 0, 2**63 - 1) for by in range(-9, 10)}
    rows = [None, *sorted(row for row in near if -(2**63) <= row < 2**63)]
    array = pa.array(rows, pa.int64())
    assert made.contains({1: array}).tolist() == [row in keys for row in rows]
    assert made.contains({1: array.slice(3)}).tolist() == [row in keys for row in rows[3:]]
    assert made.index({1: array}).to_pylist() == [keys.index(row) if row in keys else None for row in rows]


VALUES = [
    "",
    "a",
    "b",
    "ab",
    "ba",
    "aa",
    "\0",
    "\0\0",
    "a\0",
    "x" * 100,
    "x" * 99 + "y",
    "ä",
    *map(str, range(50)),
]


def test_a_hash_does_not_depend_on_the_offset_of_the_value() -> None:
    rng = random.Random(1)
    alone = {value: int(hash_bytes(pa.array([value], pa.large_string()))[0]) for value in VALUES}
    assert len(set(alone.values())) == len(VALUES)
    values = [rng.choice(VALUES) for _ in range(200)]
    array = pa.array(values, pa.large_string())
    assert hash_bytes(array).tolist() == [alone[value] for value in values]
    assert hash_bytes(array[31:170]).tolist() == [alone[value] for value in values[31:170]]
    assert hash_bytes(array.cast(pa.large_binary())).tolist() == hash_bytes(array).tolist()
    assert hash_bytes(array[:0]).tolist() == []
    assert len(hash_bytes(pa.nulls(3, pa.large_string()))) == 3


@pytest.mark.parametrize("step", [1, key_set.BITS_PER_VALUE, key_set.BITS_PER_VALUE + 1, 1 << 50])
@pytest.mark.parametrize("order", ["ascending", "shuffled", "repeated", "with null"])
def test_integers_of_any_range_are_numbered_by_their_first_row(
    monkeypatch: pytest.MonkeyPatch, step: int, order: str
) -> None:
    monkeypatch.setattr(key_set, "MAX_HASH_TABLE_VALUES", 0)
    keys: list[int | None] = [(at - 50) * step for at in range(100)]
    if order != "ascending":
        random.Random(step).shuffle(keys)
    if order == "repeated":
        keys += keys[10:40]
    if order == "with null":
        keys[30:30] = [None, None]
    made = KeySet.of([NestedField(1, "f", LongType())], [pa.array(keys, pa.int64())])
    distinct = list(dict.fromkeys(keys))
    assert made.columns[0].to_pylist() == distinct
    assert made.sorted(0).values.tolist() == sorted(key for key in distinct if key is not None)
    rows = [*keys[::-1], LOW, HIGH, None, 1, -1, 99 * step, -51 * step]
    values = {1: pa.array(rows, pa.int64())}
    known = {key: at for at, key in enumerate(distinct)}
    assert made.index(values).to_pylist() == [known.get(row) for row in rows]
    assert made.contains(values).tolist() == [row in known for row in rows]


@pytest.mark.parametrize(
    ("spoilt", "kind"),
    [
        (lambda values: np.array([len(v or "") for v in values.to_pylist()], np.uint64), "_Strings"),
        (lambda values: np.zeros(len(values), np.uint64), "_Values"),
    ],
)
def test_values_with_equal_hashes_are_distinguished(
    monkeypatch: pytest.MonkeyPatch, spoilt: Callable[[pa.Array], Any], kind: str
) -> None:
    monkeypatch.setattr(key_set, "MAX_HASH_TABLE_VALUES", 0)
    monkeypatch.setattr(key_set, "hash_bytes", spoilt)
    keys = ["", "a", "bb", None, "ccc"]
    made = KeySet.of([NestedField(1, "f", LongType())], [pa.array(keys, pa.large_string())])
    assert type(made._columns[0]).__name__ == kind
    rows = ["a", "b", "", "bb", "bc", None, "ccc", "dddd"]
    found = made.index({1: pa.array(rows, pa.large_string())})
    assert found.to_pylist() == [keys.index(row) if row in keys else None for row in rows]


@pytest.mark.usefixtures("storage")
def test_null_only_matches_null() -> None:
    field, rows = NestedField(1, "f", LongType()), {1: pa.array([None, 5, 9], pa.int64())}
    for keys, expected in (
        ([5, 5, 9], [False, True, True]),
        ([None, 5, None], [True, True, False]),
        ([None, None], [True, False, False]),
    ):
        made = KeySet.of([field], [pa.array(keys, pa.int64())])
        assert len(made) == len({*keys})
        assert made.contains(rows).tolist() == expected
