"""Segments of key indexes: compared with a slow implementation and a dict, merged, damaged, with forced collisions."""

from __future__ import annotations

import datetime
import io
import math
import os
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast._kernels.key_index import blocks as kernel
from puffin_fast.errors import CorruptDataError, InvalidInputError, PuffinFastError, UnsupportedError
from puffin_fast.key_index import (
    CoveredFile,
    Segment,
    encode,
    in_memory,
    kind_of,
    lookup,
    making,
    merge,
    merge_into,
)
from puffin_fast.key_index.canonical import HASH_BITS
from puffin_fast.key_index.making import widened
from tests.kit import key_index_oracle
from tests.kit.cases import each
from tests.kit.memory import MIB, peak_growth

GOLDEN = Path(__file__).parents[1] / "golden" / "key_index"


def covered(*rows: int) -> list[CoveredFile]:
    return [CoveredFile(f"s3://bucket/data/{at}.parquet", 1000 + n, n) for at, n in enumerate(rows)]


def opened(blob: bytes) -> Segment:
    return Segment(in_memory(blob), len(blob))


def known(blob: bytes) -> tuple[Segment, Any]:
    """A segment and its bytes, as `merge` takes them."""
    return opened(blob), in_memory(blob)


def rows_with(column: pa.Array, keys: pa.Array) -> list[int]:
    """The rows with one of the keys, as a dict finds them."""
    places: dict[Any, list[int]] = {}
    for row, value in enumerate(column.to_pylist()):
        places.setdefault(_key(value), []).append(row)
    return sorted({row for key in keys.to_pylist() for row in places.get(_key(key), [])})


def _key(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


COLUMNS = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-50, 50),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(datetime.date(1700, 1, 1)),
    pa.time64("us"): st.times(),
    pa.timestamp("us"): st.datetimes(),
    pa.decimal128(9, 2): st.decimals(-9999, 9999, places=2),
    pa.decimal128(38, 2): st.decimals(-(10**30), 10**30, places=2).filter(
        lambda n: len(n.as_tuple().digits) <= 38
    ),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.large_string(): st.text(max_size=40),
    pa.large_binary(): st.binary(max_size=40),
    pa.binary(16): st.binary(min_size=16, max_size=16),
}


@given(st.data())
def test_a_lookup_finds_the_rows_that_a_dict_finds(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(COLUMNS)))
    value = st.none() | COLUMNS[kind]
    column = pa.array(data.draw(st.lists(value, max_size=40)), kind)
    other = pa.array(data.draw(st.lists(COLUMNS[kind], max_size=10)), kind)
    half = len(column) // 2
    blob = encode([column], covered(half, len(column) - half))
    keys = pa.concat_arrays([other, column.slice(half // 2, 5)])
    assert lookup(blob, [keys]).tolist() == rows_with(column, keys)


@given(
    st.lists(st.none() | st.integers(-(2**39), 2**39) | st.integers(-3, 3), max_size=60),
    st.integers(0, 60),
)
def test_a_segment_of_integers_is_that_of_the_oracle(values: list[int | None], first: int) -> None:
    first = min(first, len(values))
    files = covered(first, len(values) - first)
    blob = encode([pa.array(values, pa.int64())], files)
    b, t, r, *_ = opened(blob)._form
    assert blob == key_index_oracle.encode(values, [tuple(file) for file in files], "integer", (b, t, r))


@given(st.lists(st.none() | st.text(max_size=20), max_size=60), st.integers(1, 20), st.integers(3, 8))
def test_a_segment_of_texts_is_that_of_the_oracle(
    values: list[str | None], remainder: int, slot: int
) -> None:
    files = covered(len(values))
    column = pa.array(values, pa.large_string())
    blob = encode([column], files, slot_bits=slot, remainder_bits=remainder)
    b, t, r, *_ = opened(blob)._form
    assert (t, r) == (slot, remainder)
    assert blob == key_index_oracle.encode(values, [tuple(file) for file in files], "text", (b, t, r))


@pytest.mark.parametrize("name", ["integers", "texts"])
def test_golden_segments_are_read_and_written_byte_for_byte(name: str) -> None:
    golden = (GOLDEN / f"{name}.bin").read_bytes()
    values: list[Any] = [5, -7, None, 5, 1 << 33] if name == "integers" else ["a", "", None, "ä", "a"]
    column = pa.array(values, pa.int64() if name == "integers" else pa.large_string())
    assert lookup(golden, [column.slice(0, 1)]).tolist() == ([0, 3] if name == "integers" else [0, 4])
    assert opened(golden).nulls.to_numpy().tolist() == [2]
    assert _without_tables(encode([column], opened(golden).files)) == _without_tables(golden)


def _without_tables(blob: bytes) -> bytes:
    """Another version of zstd may compress the tables to other bytes."""
    n_bytes = int.from_bytes(blob[12:16], "little")
    return blob[:12] + blob[16:44] + blob[48 + n_bytes :]


@given(st.integers(1, 64), st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_the_mix_is_a_bijection(bits: int, values: list[int]) -> None:
    masked = np.array(values, np.uint64) & np.uint64((1 << bits) - 1)
    words = masked.copy()
    kernel.mix(words, bits)
    assert words.tolist() == [key_index_oracle.mix(value, bits) for value in masked.tolist()]
    kernel.unmix(words, bits)
    assert (words & np.uint64((1 << bits) - 1)).tolist() == masked.tolist()


def test_forced_collisions_only_add_rows() -> None:
    values = [f"key {at}" for at in range(5000)]
    column = pa.array(values, pa.large_string())
    blob = encode([column], covered(5000), remainder_bits=1)
    found = lookup(blob, [column.slice(0, 1000)])
    assert set(range(1000)) <= set(found.tolist())
    assert len(found) > 1000


def test_a_key_of_a_million_rows_is_found() -> None:
    rng = random.Random(3)
    values = pa.array(np.where(np.arange(300_000) % 3 == 0, 7, np.arange(300_000)), pa.int64())
    blob = encode([values], covered(100_000, 200_000))
    keys = pa.array([7, rng.randrange(10**9, 10**10)])
    assert lookup(blob, [keys]).tolist() == rows_with(values, keys)


def test_keys_of_several_columns_are_joined_in_their_order() -> None:
    left, right = pa.array([1, 1, 2, None], pa.int64()), pa.array(["a", "b", "a", "a"], pa.large_string())
    blob = encode([left, right], covered(4))
    assert lookup(blob, [pa.array([1], pa.int64()), pa.array(["b"], pa.large_string())]).tolist() == [1]
    assert lookup(blob, [pa.array([None], pa.int64()), pa.array(["b"], pa.large_string())]).tolist() == [3]


@pytest.mark.parametrize("least", [1, 1 << 31, 1 << 39, 1 << 47, 1 << 62])
def test_a_block_without_slots_is_searched(least: int) -> None:
    values = pa.array([least, -least, least - 1, 0, least], pa.int64())  # remainders of up to 64 bits
    blob = encode([values], covered(5), slot_bits=0)
    assert lookup(blob, [values.slice(0, 1)]).tolist() == [0, 4]
    assert lookup(blob, [values]).tolist() == [*range(5)]
    assert lookup(blob, [pa.array([7, least + 2], pa.int64())]).tolist() == []
    merged = merge([known(blob)])
    assert lookup(merged, [values.slice(0, 1)]).tolist() == [0, 4]


def test_a_key_outside_of_the_stored_integers_is_absent() -> None:
    blob = encode([pa.array([1, 2, 3], pa.int32())], covered(3))
    far = pa.array([1 + (1 << 32), 2**63 - 1, -(2**63)], pa.int64())
    assert lookup(blob, [far]).tolist() == []


def test_decimals_of_greater_precision_are_found_by_their_value() -> None:
    blob = encode([pa.array([Decimal("1.50"), Decimal("-2.25")], pa.decimal128(9, 2))], covered(2))
    keys = pa.array([Decimal("-2.25"), Decimal("1" + "0" * 30 + ".00")], pa.decimal128(38, 2))
    assert lookup(blob, [keys]).tolist() == [1]


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.int64(), pa.decimal128(9, 2), pa.large_string(), pa.float64()]
)
def test_parts_of_keys_are_ranges_of_hashes(kind: pa.DataType) -> None:
    values = pa.array([None if n % 7 == 3 else n * 1999 for n in range(5000)], pa.int64())
    column = values.cast(pa.decimal128(38, 2)).cast(kind) if pa.types.is_decimal(kind) else values.cast(kind)
    blob = encode([column], covered(5000))
    found = opened(blob)
    parts = found.parts_of([column])
    _, ordinals = found.entries(in_memory(blob), 0, found.n_blocks)
    assert (np.diff(parts[ordinals]) >= 0).all()
    assert len(np.unique(parts)) > 2000
    assert parts.max() < 1 << 12
    assert not parts[3::7].any()
    if kind == pa.int32():
        assert found.parts_of([pa.array([2**40, -(2**63)], pa.int64())]).max() < 1 << 12


def test_zeros_and_nan_are_one_key_each() -> None:
    nan = np.frombuffer(np.array([0x7FF8000000000123], np.uint64).tobytes(), np.float64)[0]
    column = pa.array(np.array([0.0, -0.0, math.nan, nan, 1.0]))
    blob = encode([column], covered(5))
    assert lookup(blob, [pa.array([-0.0])]).tolist() == [0, 1]
    assert lookup(blob, [pa.array([math.nan])]).tolist() == [2, 3]


@given(
    st.lists(
        st.lists(st.none() | st.integers(-(2**40), 2**40) | st.integers(0, 9), max_size=20),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_a_merge_is_the_segment_of_the_files_that_are_kept(
    parts: list[list[int | None]], drops: bool
) -> None:
    files = covered(*map(len, parts))
    segments = [encode([pa.array(part, pa.int64())], [file]) for part, file in zip(parts, files, strict=True)]
    kept = files[:-1] if drops else files
    merged = merge([*map(known, segments)], lambda file: file in kept)
    values = [value for part in parts[: len(kept)] for value in part]
    expected = encode([pa.array(values, pa.int64())], kept)
    if opened(expected).hash_bits < opened(merged).hash_bits:  # of a segment that is merged
        same, read = widened(opened(expected), in_memory(expected), opened(merged).hash_bits)
        ((_, expected),) = read([(0, same.n_bytes)])
    assert merged == expected


@each("sizes", [(20_000, 300, 5), (700, 9000), (4000, 4000, 4000), (5, 3000, 0, 90_000)])
@each("kind", ["int", "wide", "text"])
@each("drops", [False, True])
def test_a_merge_in_pieces_is_the_segment_of_the_files_that_are_kept(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], kind: str, drops: bool
) -> None:
    monkeypatch.setattr(making, "MERGED_ENTRIES", 1024)
    random = np.random.default_rng(len(sizes))
    columns, files, segments = [], [], []
    for at, n in enumerate(sizes):
        numbers = random.integers(0, 1 << (62 if kind == "wide" else 14), n)
        numbers[:1] = 1 << (62 if kind == "wide" else 14)  # as many bits in each
        column = pa.array(numbers, mask=numbers % 7 == 3)
        column = column.cast(pa.large_string()) if kind == "text" else column
        parts = [n // 3, 0, n - n // 3]
        some = [CoveredFile(f"{at} {part}", 1, size) for part, size in enumerate(parts)]
        segments.append(encode([column], some))
        for file, first in zip(some, (0, parts[0], parts[0]), strict=True):
            if not drops or file.location[-1] != "0":
                files.append(file)
                columns.append(column.slice(first, file.n_rows))
    out = io.BytesIO(b"before")
    out.seek(0, io.SEEK_END)
    n_bytes = merge_into(out, [*map(known, segments)], lambda file: file in files)
    assert out.tell() == 6 + n_bytes
    assert out.getvalue() == b"before" + encode([pa.concat_arrays(columns)], files)


def test_a_damaged_block_is_not_merged() -> None:
    blobs = [encode([pa.array(range(n))], [CoveredFile(str(n), 1, n)]) for n in (5000, 400)]
    whole = [*map(known, blobs)]
    for at, blob in enumerate(blobs):
        for where in random.Random(at).sample(range(_blocks_at(blob), len(blob)), 20):
            changed = bytearray(blob)
            changed[where] ^= 16
            some = [*whole]
            some[at] = whole[at][0], in_memory(bytes(changed))
            with pytest.raises(CorruptDataError, match="block"):
                merge(some)


def test_columns_that_cannot_be_keys_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="expected a type whose values can be keys, found list"):
        kind_of(pa.list_(pa.int64()))
    with pytest.raises(InvalidInputError, match="expected 3 rows"):
        encode([pa.array([1, 2])], covered(3))
    with pytest.raises(InvalidInputError, match="expected one length"):
        encode([pa.array([1, 2]), pa.array([1])], covered(2))
    blob = encode([pa.array([1, 2])], covered(2))
    with pytest.raises(InvalidInputError, match="expected integer, found text"):
        lookup(blob, [pa.array(["a"])])


def test_another_version_is_refused() -> None:
    blob = bytearray(encode([pa.array([1, 2])], covered(2)))
    blob[4] = 1
    with pytest.raises(UnsupportedError, match="version 1; expected 2"):
        opened(bytes(blob))


def test_a_merge_keeps_the_places_of_pages() -> None:
    files, places = covered(3, 2, 4), [[[4, 30, 50, 3]], [], [[4, 0, 60, 1, 90, 3], [500, 0, 40, 4]]]
    assert opened(encode([pa.array(range(9))], files, pages=places)).pages == tuple(places)
    segments = [
        encode([pa.array(range(file.n_rows))], [file], pages=[some])
        for file, some in zip(files, places, strict=True)
    ]
    kept = merge([*map(known, segments)], lambda file: file != files[1])
    assert opened(kept).pages == (places[0], places[2])
    same, _ = widened(opened(kept), in_memory(kept), 64)
    assert same.pages == (places[0], places[2])


@pytest.mark.parametrize(
    "places",
    [
        [[[4, 0, 1, 2]]],
        [[], 5],
        [[], [[4, 0]]],
        [[], [[4, 0, 1]]],
        [[], [[4, 0, -1, 2]]],
        [[], [[4, 0, 1.5, 2]]],
    ],
)
def test_places_that_are_none_are_refused(places: Any) -> None:
    with pytest.raises(CorruptDataError, match="tables"):
        opened(encode([pa.array([1, 2, 3])], covered(2, 1), pages=places))


def answers(blob: bytes, keys: Sequence[pa.Array]) -> list[Any] | None:
    try:
        return [*(lookup(blob, [key]).tolist() for key in keys), opened(blob).pages]
    except PuffinFastError:
        return None


MUTATIONS = int(os.environ.get("PUFFIN_FAST_OPERATIONS", "2500"))


@pytest.mark.parametrize("text", [False, True])
def test_damaged_bytes_are_refused_or_give_the_same_rows(text: bool) -> None:
    values: list[Any] = [None if at % 11 == 0 else at * 7919 % 500 for at in range(2000)]
    column = pa.array(values, pa.int64())
    if text:
        column = pa.array([None if v is None else f"key {v}" for v in values], pa.large_string())
    blob = encode([column], covered(900, 1100), pages=[[[4, 100, 500, 900]], [[4, 0, 700, 1100]]])
    keys = [column.slice(at, 3) for at in range(0, 60, 3)] + [column]
    expected = answers(blob, keys)
    rng = random.Random(7)
    refused = 0
    for _ in range(MUTATIONS):
        changed = bytearray(blob)
        for _ in range(rng.choice((1, 1, 1, 4))):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        kind = rng.randrange(5)
        if kind == 0:
            del changed[rng.randrange(len(changed)) :]
        elif kind == 1:
            at, n = rng.randrange(len(changed)), rng.randrange(1, 40)
            changed[at : at + n] = changed[rng.randrange(len(changed)) :][:n]
        found = answers(bytes(changed), keys)
        refused += found is None
        assert found is None or found == expected
    assert refused > 0.9 * MUTATIONS


@pytest.mark.parametrize("n", [0, 1, 200])
def test_truncated_bytes_are_refused(n: int) -> None:
    blob = encode([pa.array(range(n), pa.int64())], covered(n))
    for size in range(len(blob)):
        with pytest.raises(CorruptDataError):
            opened(blob[:size])


def test_blocks_belong_to_the_data_files_of_one_segment() -> None:
    column = pa.array(range(1000), pa.int64())
    files = covered(400, 600)
    one = encode([column], files)
    for other in (
        encode(
            [column.take(pa.array(range(999, -1, -1)))],
            [file._replace(location="other") for file in files[:1]] + files[1:],
        ),
        encode([column.take(pa.array(range(999, -1, -1)))], files, [7]),
    ):
        start, end = (_blocks_at(blob) for blob in (one, other))
        mixed = one[:start] + other[end:]
        with pytest.raises(CorruptDataError, match="block"):
            lookup(mixed, [pa.array([5], pa.int64())])
        with pytest.raises(CorruptDataError, match="block"):
            opened(mixed).check(in_memory(mixed))


def _blocks_at(blob: bytes) -> int:
    return opened(blob)._blocks_at


MANY_ROWS = 5_000_000
MANY_KEYS = """
    import numpy as np
    import pyarrow as pa
    from puffin_fast.key_index import CoveredFile, KeyWords, Segment, encode_words, in_memory, kind_of, merge_into

    def parts(n):
        words = np.random.default_rng(n).integers(0, 1 << bits, n * 1_000_000, np.uint64)
        return [KeyWords(some.copy(), None, 50_000) for some in np.array_split(words, 20 * n)]

    def covered(n, name=""):
        return [CoveredFile(name + str(at), 1, 50_000) for at in range(20 * n)]

    kinds, bits = (kind_of(pa.{0}),), {1}
    encode_words(kinds, parts(1), covered(1))
"""
KINDS_OF_MANY = pytest.mark.parametrize(
    ("kind", "bits"), [("int64()", 39), ("int64()", 63), ("string()", HASH_BITS)]
)


@KINDS_OF_MANY
def test_memory_of_a_new_segment_is_24_bytes_for_each_row(kind: str, bits: int) -> None:
    growth = peak_growth(
        MANY_KEYS.format(kind, bits) + "\n    keys, files = parts(5), covered(5)",
        "blob = encode_words(kinds, keys, files)",
    )
    assert growth < (24 - 8) * MANY_ROWS + 16 * MIB  # the keys were there before


@KINDS_OF_MANY
def test_memory_of_a_merge_does_not_depend_on_the_rows(kind: str, bits: int) -> None:
    growth = peak_growth(
        MANY_KEYS.format(kind, bits)
        + """
    import tempfile
    known = []
    for n in (4, 1):
        blob = encode_words(kinds, parts(n), covered(n, str(n)))
        known.append((Segment(in_memory(blob), len(blob)), in_memory(blob)))
    out = tempfile.TemporaryFile()
    """,
        "merge_into(out, known)",
    )
    assert growth < 32 * MIB
