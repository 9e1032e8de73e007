"""The functions on arrays give the same results as one call for each vector."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast import arrow, dv, errors
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import conversion
from tests import oracle, strategies
from tests.conftest import readable, require_module
from tests.kit.cases import each

LISTS = [
    [],
    [5],
    [0, 5, 70_000, (1 << 32) + 3],
    list(range(10, 5_010)),
    [3, 1, 3, 2],
    list(range(0, 20_000, 2)),
]
BLOBS = [oracle.encode_blob(positions) for positions in LISTS]
MANY = [LISTS[i % len(LISTS)][: 50 + i] for i in range(60)]


def lists(values: Any = LISTS, kind: Any = None) -> pa.Array:
    return pa.array(values, kind or pa.list_(pa.int64()))


def blobs(values: Any = BLOBS, kind: Any = None) -> pa.Array:
    return pa.array(values, kind or pa.binary())


def plain(array: pa.Array) -> Any:
    """Python values, however the array is laid out."""
    return array.to_pylist()


class Streamed:
    """Has only the stream method of the Arrow C interface, as objects of other libraries."""

    def __init__(self, array: pa.ChunkedArray) -> None:
        self._array = array

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._array.__arrow_c_stream__(requested_schema)


class Exported:
    """The same with the array half."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self._array.__arrow_c_array__(requested_schema)


def polars_series(array: pa.Array) -> Any:
    return require_module("polars").Series("c", array)


def arro3_array(array: pa.Array) -> Any:
    return require_module("arro3.core", "pip install arro3-core").Array.from_arrow(array)


def duckdb_column(array: pa.Array) -> Any:
    """A DuckDB result of one column, which is a stream of record batches."""
    connection = require_module("duckdb").connect()
    rows = pa.table({"c": array})
    assert rows.num_rows
    return connection.execute("select c from rows").to_arrow_table().column(0)


def dictionary(array: pa.Array) -> pa.DictionaryArray:
    """Each value from a dictionary in which all are twice."""
    return pa.DictionaryArray.from_arrays(pa.array(range(len(array))), pa.concat_arrays([array, array]))


def runs(array: pa.Array) -> pa.RunEndEncodedArray:
    """A run of each value."""
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(array) + 1), pa.int32()), array)


LAYOUTS: dict[str, Callable[[pa.Array], Any]] = {
    "array": lambda array: array,
    "sliced": lambda array: pa.concat_arrays([array[:2], array, array[:3]]).slice(2, len(array)),
    "chunked": lambda array: pa.chunked_array([array[:2], array[2:2], array[2:3], array[3:]]),
    "chunked_and_sliced": lambda array: pa.chunked_array([array[-1:], array, array]).slice(1, len(array)),
    "one_chunk": lambda array: pa.chunked_array([array]),
    "c_array": Exported,
    "c_stream": lambda array: Streamed(pa.chunked_array([array[:2], array[2:]])),
    "polars": polars_series,
    "arro3": arro3_array,
    "duckdb": duckdb_column,
    "dictionary": dictionary,
    "dictionary_chunked": lambda array: pa.chunked_array([dictionary(array[:3]), dictionary(array[3:])]),
    "runs": runs,
    "runs_sliced": lambda array: runs(pa.concat_arrays([array[:2], array, array[:3]])).slice(2, len(array)),
    "runs_chunked": lambda array: pa.chunked_array([runs(array[:2]), runs(array)[2:3], runs(array[3:])]),
    "runs_of_dictionary": lambda array: runs(dictionary(array)),
}

LIST_TYPES = [
    factory(item)
    for factory in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)
    for item in (pa.int64(), pa.uint64(), pa.int32(), pa.uint32())
]
BINARY_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]


# encode --------------------------------------------------------------------------------------------------


@given(st.lists(strategies.position_sets(max_chunks=2), max_size=8))
def test_encode_is_encoding_each(sets: list[strategies.Positions]) -> None:
    found = arrow.encode(pa.array([positions.astype(np.int64) for positions in sets], pa.list_(pa.int64())))
    assert found.type == pa.binary()
    assert plain(found) == [dv.iceberg.encode(PositionBitmap.from_positions(positions)) for positions in sets]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_encode_takes_every_layout(layout: str) -> None:
    assert plain(arrow.encode(LAYOUTS[layout](lists()))) == BLOBS


@pytest.mark.parametrize("kind", LIST_TYPES, ids=str)
def test_encode_takes_every_list_type(kind: pa.DataType) -> None:
    small = [[p for p in positions if p < 1 << 31] for positions in LISTS]
    expected = [oracle.encode_blob(positions) for positions in small]
    assert plain(arrow.encode(lists(small, kind))) == expected
    assert plain(arrow.encode(lists([[9], *small, [8]], kind).slice(1, len(small)))) == expected


def test_encode_takes_fixed_size_lists_and_dictionaries() -> None:
    fixed = pa.array([[3, 1, 2], [70_000, 5, 5]], pa.list_(pa.int64(), 3))
    expected = [oracle.encode_blob([1, 2, 3]), oracle.encode_blob([5, 70_000])]
    assert plain(arrow.encode(fixed)) == expected
    assert plain(arrow.encode(fixed.slice(1))) == expected[1:]
    coded = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), lists())
    assert plain(arrow.encode(coded)) == [BLOBS[1], BLOBS[0], BLOBS[1]]


def test_encode_of_lists_over_offset_values() -> None:
    values = pa.array([99, 98, 1, 2, 3, 97]).slice(2, 3)
    made = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), values)
    assert plain(arrow.encode(made)) == [oracle.encode_blob([1]), oracle.encode_blob([2, 3])]


def test_encode_of_views_that_overlap_and_go_backwards() -> None:
    values = pa.array([1, 2, 3, 4, 5])
    views = pa.ListViewArray.from_arrays(
        pa.array([3, 0, 1], pa.int32()), pa.array([2, 3, 3], pa.int32()), values
    )
    assert plain(arrow.encode(views)) == [oracle.encode_blob(v) for v in ([4, 5], [1, 2, 3], [2, 3, 4])]


def test_encode_of_nothing_is_nothing() -> None:
    for empty in (lists([]), pa.chunked_array([], pa.list_(pa.int64())), lists().slice(3, 0)):
        found = arrow.encode(empty)
        assert len(found) == 0
        assert found.type == pa.binary()
    assert plain(arrow.encode(lists([[], []]))) == [oracle.encode_blob([])] * 2


def test_unsorted_lists_of_every_size_are_encoded() -> None:
    rng = np.random.default_rng(0)
    sets = [rng.integers(0, int(10 ** rng.uniform(1, 10)), int(10 ** rng.uniform(0, 4))) for _ in range(200)]
    found = arrow.encode(pa.array(sets, pa.list_(pa.int64())))
    for blob, positions in zip(plain(found), sets, strict=True):
        assert blob == dv.iceberg.encode(PositionBitmap.from_positions(positions))


def test_a_null_position_is_refused_by_its_row() -> None:
    for made in (
        lists([[1], [2, None], [3]]),
        pa.chunked_array([lists([[1]]), lists([[2, None], [3]])]),
        lists([[None], [1], [2, None]]).slice(1),
    ):
        with pytest.raises(errors.InvalidInputError, match=r"\b1\b"):
            arrow.encode(made)


def test_nulls_outside_the_slice_do_not_matter() -> None:
    made = lists([None, [1, 2], [5], None]).slice(1, 2)
    assert plain(arrow.encode(made)) == [oracle.encode_blob([1, 2]), oracle.encode_blob([5])]
    sliced = lists([[None], [1, 2], [5]]).slice(1)
    assert plain(arrow.encode(sliced)) == [oracle.encode_blob([1, 2]), oracle.encode_blob([5])]


@pytest.mark.parametrize("bad", [-1, oracle.MAX_POSITION + 1, -(1 << 63)])
def test_a_position_out_of_range_is_refused_by_its_row(bad: int) -> None:
    for made in (lists([[1], [2], [3, bad]]), pa.chunked_array([lists([[1], [2]]), lists([[3, bad]])])):
        with pytest.raises(errors.InvalidInputError, match=r"\b2\b") as caught:
            arrow.encode(made)
        assert str(bad) in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        pa.array([1, 2]),
        pa.array([[1.0]]),
        pa.array([["a"]]),
        pa.array([[[1]]]),
        pa.array(["a"]),
        pa.array([[True]]),
        pa.array([None], pa.float64()),
        None,
        5,
        "text",
        np.array([1, 2]),
    ],
    ids=readable,
)
def test_other_objects_are_refused_as_lists_of_positions(value: Any) -> None:
    with pytest.raises(errors.InvalidInputError):
        arrow.encode(value)


# decode and cardinality -----------------------------------------------------------------------------------


@given(st.lists(strategies.position_sets(max_chunks=2), max_size=8))
def test_decode_is_decoding_each(sets: list[strategies.Positions]) -> None:
    made = blobs([dv.iceberg.encode(PositionBitmap.from_positions(positions)) for positions in sets])
    found = arrow.decode(made)
    assert found.type == pa.list_(pa.int64())
    assert plain(found) == [positions.tolist() for positions in sets]
    counted = arrow.cardinality(made)
    assert counted.type == pa.int64()
    assert plain(counted) == [len(positions) for positions in sets]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_decode_and_cardinality_take_every_layout(layout: str) -> None:
    expected = [sorted(set(positions)) for positions in LISTS]
    assert plain(arrow.decode(LAYOUTS[layout](blobs()))) == expected
    assert plain(arrow.cardinality(LAYOUTS[layout](blobs()))) == [len(positions) for positions in expected]


@pytest.mark.parametrize("kind", BINARY_TYPES, ids=str)
def test_decode_takes_every_binary_type(kind: pa.DataType) -> None:
    expected = [sorted(set(positions)) for positions in LISTS]
    assert plain(arrow.decode(blobs(kind=kind))) == expected
    assert plain(arrow.decode(blobs([b"", *BLOBS, b"x"], kind).slice(1, len(BLOBS)))) == expected
    assert plain(arrow.cardinality(blobs(kind=kind))) == [len(positions) for positions in expected]


def test_decode_takes_fixed_size_binary_and_dictionaries() -> None:
    same = [oracle.encode_blob([value]) for value in (1, 2, 3)]
    assert plain(arrow.decode(pa.array(same, pa.binary(len(same[0]))))) == [[1], [2], [3]]
    assert plain(arrow.decode(pa.array([*same, *same]).dictionary_encode())) == [[1], [2], [3]] * 2


def test_decode_of_nothing_is_nothing() -> None:
    assert plain(arrow.decode(blobs([]))) == []
    assert arrow.decode(blobs([])).type == pa.list_(pa.int64())
    assert plain(arrow.cardinality(blobs([]))) == []
    assert plain(arrow.decode(pa.chunked_array([], pa.binary()))) == []


@each("name", strategies.MALFORMED_BLOBS)
def test_a_malformed_blob_is_refused_by_its_row(name: str) -> None:
    values = [*BLOBS[:4], strategies.MALFORMED_BLOBS[name](), *BLOBS[4:]]
    for call in (arrow.decode, arrow.cardinality):
        for made in (blobs(values), pa.chunked_array([blobs(values[:3]), blobs(values[3:])])):
            with pytest.raises(errors.CorruptDataError, match=r"\b4\b"):
                call(made)


@each("name", strategies.ACCEPTED_BLOBS)
def test_non_canonical_blobs_are_read(name: str) -> None:
    data, held = strategies.ACCEPTED_BLOBS[name]
    assert plain(arrow.decode(blobs([data, data]))) == [held, held]
    assert plain(arrow.cardinality(blobs([data]))) == [len(held)]


def test_cardinality_checks_as_decode_checks() -> None:
    """A blob whose contents are broken has no cardinality."""
    for flipped in range(8 * len(BLOBS[2])):
        broken = bytearray(BLOBS[2])
        broken[flipped // 8] ^= 1 << flipped % 8
        with pytest.raises(errors.CorruptDataError):
            arrow.cardinality(blobs([bytes(broken)]))


@pytest.mark.parametrize(
    "value", [pa.array([1]), pa.array([[1]]), pa.array(["text"]), None, 5, b"x"], ids=readable
)
def test_other_objects_are_refused_as_arrays_of_blobs(value: Any) -> None:
    for call in (arrow.decode, arrow.cardinality):
        with pytest.raises(errors.InvalidInputError):
            call(value)


# union ---------------------------------------------------------------------------------------------------


@strategies.costly
@given(st.lists(st.lists(strategies.position_sets(max_chunks=2), max_size=4), max_size=5))
def test_union_is_the_union_of_each(rows: list[list[strategies.Positions]]) -> None:
    made = [[dv.iceberg.encode(PositionBitmap.from_positions(p)) for p in row] for row in rows]
    found = arrow.union(pa.array(made, pa.list_(pa.binary())))
    assert found.type == pa.binary()
    assert plain(found) == [oracle.encode_blob([int(p) for ps in row for p in ps]) for row in rows]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_union_takes_every_layout(layout: str) -> None:
    rows = [BLOBS[:2], BLOBS[2:], [], BLOBS, [BLOBS[3]]]
    expected = [oracle.encode_blob([p for blob in row for p in oracle.decode_blob(blob)]) for row in rows]
    assert plain(arrow.union(LAYOUTS[layout](pa.array(rows, pa.list_(pa.binary()))))) == expected


@pytest.mark.parametrize("outer", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
@pytest.mark.parametrize("kind", BINARY_TYPES, ids=str)
def test_union_takes_every_type(outer: Any, kind: pa.DataType) -> None:
    made = pa.array([[b"x"], BLOBS[:2], BLOBS[2:4], [b""]], outer(kind)).slice(1, 2)
    assert plain(arrow.union(made)) == [
        oracle.encode_blob(LISTS[0] + LISTS[1]),
        oracle.encode_blob(LISTS[2] + LISTS[3]),
    ]


def test_union_refuses_nulls_in_lists_and_malformed_blobs_by_their_row() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"\b2\b"):
        arrow.union(pa.array([BLOBS, [], [BLOBS[0], None]], pa.list_(pa.binary())))
    for build in strategies.MALFORMED_BLOBS.values():
        with pytest.raises(errors.CorruptDataError, match=r"\b2\b"):
            arrow.union(pa.array([BLOBS, [], [BLOBS[0], build()]], pa.list_(pa.binary())))


# contains ------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(strategies.small_position_sets(), st.integers(0, 1 << 34)), max_size=8))
def test_contains_is_contains_of_each(pairs: list[tuple[strategies.Positions, int]]) -> None:
    asked = [int(p[len(p) // 2]) if len(p) and q % 2 else q for p, q in pairs]
    found = arrow.contains(
        blobs([oracle.encode_blob(p.tolist()) for p, _ in pairs]), pa.array(asked, pa.int64())
    )
    assert found.type == pa.bool_()
    assert plain(found) == [q in set(p.tolist()) for (p, _), q in zip(pairs, asked, strict=True)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_contains_takes_every_layout(layout: str) -> None:
    asked = pa.array([0, 5, 70_000, 9, 3, 19_998])
    shape = LAYOUTS[layout]
    assert plain(arrow.contains(shape(blobs()), shape(asked))) == [False, True, True, False, True, True]


def test_contains_refuses_arrays_of_different_lengths() -> None:
    with pytest.raises(errors.InvalidInputError):
        arrow.contains(blobs(), pa.array([1]))
    with pytest.raises(errors.InvalidInputError):
        arrow.contains(blobs(), pa.array(["a"] * len(BLOBS)))


# difference ----------------------------------------------------------------------------------------------


@strategies.costly
@given(st.lists(st.tuples(strategies.position_sets(max_chunks=2), strategies.position_sets(max_chunks=2))))
def test_difference_is_the_difference_of_each(
    pairs: list[tuple[strategies.Positions, strategies.Positions]],
) -> None:
    left, right = ([oracle.encode_blob(pair[side].tolist()) for pair in pairs] for side in (0, 1))
    found = arrow.difference(blobs(left), blobs(right))
    assert found.type == pa.binary()
    assert plain(found) == [oracle.encode_blob(set(a.tolist()) - set(b.tolist())) for a, b in pairs]
    one = oracle.encode_blob([3, 70_000])
    expected = [oracle.encode_blob(set(a.tolist()) - {3, 70_000}) for a, _ in pairs]
    assert plain(arrow.difference(blobs(left), one)) == expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_difference_takes_every_layout(layout: str) -> None:
    shape = LAYOUTS[layout]
    others = [BLOBS[(row + 1) % len(BLOBS)] for row in range(len(BLOBS))]
    expected = [set(LISTS[row]) - set(LISTS[(row + 1) % len(LISTS)]) for row in range(len(LISTS))]
    assert plain(arrow.difference(shape(blobs()), shape(blobs(others)))) == list(
        map(oracle.encode_blob, expected)
    )


@pytest.mark.parametrize("name", strategies.ACCEPTED_BLOBS)
def test_difference_of_non_canonical_blobs_is_canonical(name: str) -> None:
    data, held = strategies.ACCEPTED_BLOBS[name]
    everything = [data, BLOBS[1], data, data]
    found = arrow.difference(blobs(everything), blobs([BLOBS[0], data, data, oracle.encode_blob(held[:1])]))
    expected = [set(held), {5} - set(held), set(), set(held[1:])]
    assert plain(found) == list(map(oracle.encode_blob, expected))


def test_difference_refuses_lengths_and_malformed_blobs_by_side_and_row() -> None:
    with pytest.raises(errors.InvalidInputError, match="others: expected 6, one for each blob, found 1"):
        arrow.difference(blobs(), blobs(BLOBS[:1]))
    for build in strategies.MALFORMED_BLOBS.values():
        with pytest.raises(errors.CorruptDataError, match="blobs: row 1"):
            arrow.difference(blobs([BLOBS[0], build()]), blobs(BLOBS[:2]))
        with pytest.raises(errors.CorruptDataError, match="others: row 1"):
            arrow.difference(blobs(BLOBS[:2]), blobs([BLOBS[0], build()]))


# null, type and codec --------------------------------------------------------------------------------------


NULL_LAYOUTS = {name: LAYOUTS[name] for name in LAYOUTS if name not in ("duckdb",)}
ONE_NULL_IN = {
    "encode": (lists, lambda column: arrow.encode(column), BLOBS),
    "decode": (blobs, lambda column: arrow.decode(column), [sorted(set(row)) for row in LISTS]),
    "cardinality": (blobs, lambda column: arrow.cardinality(column), [len(set(row)) for row in LISTS]),
    "contains": (blobs, lambda column: arrow.contains(column, 5), [5 in row for row in LISTS]),
    "mask": (blobs, lambda column: arrow.mask(column, 6), [[at in row for at in range(6)] for row in LISTS]),
    "difference": (blobs, lambda column: arrow.difference(column, BLOBS[0]), BLOBS),
    "subtracted": (
        blobs,
        lambda column: arrow.decode(arrow.difference(blobs([BLOBS[1]] * (2 * len(BLOBS) + 1)), column)),
        [[5] if 5 not in row else [] for row in LISTS],
    ),
    "union": (
        lambda values, kind: pa.array([None if one is None else [one] for one in values], pa.list_(kind)),
        lambda column: arrow.union(column),
        BLOBS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", NULL_LAYOUTS)
@pytest.mark.parametrize("name", ONE_NULL_IN)
def test_the_result_for_a_null_is_null(name: str, layout: str) -> None:
    make, call, expected = ONE_NULL_IN[name]
    rows = [row for value in (LISTS if name == "encode" else BLOBS) for row in (value, None)]
    kind = pa.list_(pa.int64()) if name == "encode" else pa.binary()
    found = call(NULL_LAYOUTS[layout](make([None, *rows], kind)))
    found.validate(full=True)
    assert plain(found) == [None, *(row for value in expected for row in (value, None))]
    if name != "subtracted":
        assert plain(call(pa.nulls(2))) == [None, None]
        assert plain(call(make([None], kind))) == [None]


@pytest.mark.parametrize("kind", [*LIST_TYPES, pa.list_(pa.int64(), 1)], ids=str)
def test_null_lists_of_every_type_are_null(kind: pa.DataType) -> None:
    column = pa.array([[9], [5], None, [7], None], kind)
    one, other = oracle.encode_blob([5]), oracle.encode_blob([7])
    assert plain(arrow.encode(column.slice(1))) == [one, None, other, None]
    if pa.types.is_list(kind) and kind.value_type == pa.int64():  # a null over items that would be refused
        masked = pa.ListArray.from_arrays(
            pa.array([0, 1, 3], pa.int32()), pa.array([5, -1, None]), mask=pa.array([False, True])
        )
        assert plain(arrow.encode(masked)) == [one, None]


@pytest.mark.parametrize("kind", [*BINARY_TYPES, pa.binary(len(BLOBS[1]))], ids=str)
def test_null_blobs_of_every_type_are_null(kind: pa.DataType) -> None:
    column = pa.array([BLOBS[1], None, BLOBS[1], None], kind)
    for one in (column, column.slice(1)):
        expected = [None if blob is None else [5] for blob in plain(one)]
        assert plain(arrow.decode(one)) == expected
        assert plain(arrow.contains(one.dictionary_encode() if kind == pa.binary() else one, 5)) == [
            None if blob is None else True for blob in plain(one)
        ]
        assert arrow.theta_union(pa.array([None, theta_of(5), theta_of(5)], pa.binary())).estimate == 1


def theta_of(value: int) -> bytes:
    return arrow.theta_sketch([value]).to_bytes()


@pytest.mark.parametrize(
    "numbers", [[5, None, 6], pa.array([5, None, 6]), pa.chunked_array([[5], [None, 6]])]
)
def test_null_positions_and_row_counts_are_null(numbers: Any) -> None:
    column = blobs([BLOBS[1]] * 3)
    assert plain(arrow.contains(column, numbers)) == [True, None, False]
    assert plain(arrow.contains(column.dictionary_encode(), numbers)) == [True, None, False]
    assert plain(arrow.contains(BLOBS[1], numbers)) == [True, None, False]
    assert plain(arrow.mask(column, numbers)) == [[False] * 5, None, [False] * 5 + [True]]
    assert plain(arrow.contains(column, pa.nulls(3))) == [None] * 3
    for empty in (column[:0], pa.nulls(3, column.type)):
        assert plain(arrow.contains(empty.dictionary_encode(), 5)) == [None] * len(empty)


def test_errors_name_the_row_beside_nulls() -> None:
    with pytest.raises(errors.CorruptDataError, match="blobs: row 2"):
        arrow.decode(blobs([None, BLOBS[0], b"x" * 40]))
    with pytest.raises(errors.InvalidInputError, match="lists: row 2"):
        arrow.encode(lists([None, [1], [-1]]))
    with pytest.raises(errors.CorruptDataError, match="lists: row 1: item 1"):
        arrow.union(pa.array([None, [BLOBS[0], b"x" * 40]], pa.list_(pa.binary())))


def test_the_type_of_a_result_is_the_one_asked_for() -> None:
    for kind in (
        pa.large_list(pa.int64()),
        pa.list_(pa.uint64()),
        pa.list_(pa.int32()),
    ):
        found = arrow.decode(blobs(BLOBS[:2]), type=kind)
        assert found.type == kind
        assert plain(found) == [[], [5]]
        found = arrow.mask(blobs(BLOBS[:1]), 1, type=pa.large_list(pa.bool_()))
        assert found.type == pa.large_list(pa.bool_())
    for kind in BINARY_TYPES:
        for found in (
            arrow.encode(lists(), type=kind),
            arrow.union(pa.array([[blob] for blob in BLOBS]), type=kind),
            arrow.difference(blobs(), BLOBS[0], type=kind),
        ):
            assert found.type == kind
            assert plain(found) == BLOBS
    for wrong, message in (
        (pa.list_(pa.int8()), "type: list<item: int64>"),
        ("list", "expected an Arrow type"),
    ):
        with pytest.raises(errors.InvalidInputError, match=message):
            arrow.decode(blobs(), type=wrong)  # type: ignore[arg-type]


def test_lists_past_32_bits_are_large_unless_a_type_is_given() -> None:
    one, n_rows = blobs(BLOBS[1:2]), 1 << 31
    found = arrow.mask(one, n_rows)
    assert found.type == pa.large_list(pa.bool_())
    assert len(found.values) == n_rows
    with pytest.raises(
        errors.InvalidInputError, match="type: large_list<item: bool> of 1 rows as list<item: bool>"
    ):
        arrow.mask(one, n_rows, type=pa.list_(pa.bool_()))


@pytest.mark.parametrize("codec", conversion.FORMATS)
def test_a_codec_makes_and_reads_blobs(codec: str) -> None:
    rows = [[], [5], [0, 5, 70_000], None, list(range(10, 5_010))]
    encode = conversion.codec_of(codec)[0]
    made = arrow.encode(lists(rows), codec=codec)
    assert plain(made) == [None if row is None else encode(PositionBitmap(row)) for row in rows]
    assert plain(arrow.decode(made, codec=codec)) == rows
    assert plain(arrow.cardinality(made, codec=codec)) == [None if row is None else len(row) for row in rows]
    asked = [None if row is None else 5 in row for row in rows]
    assert plain(arrow.contains(made, 5, codec=codec)) == asked
    assert plain(arrow.contains(made.dictionary_encode(), 5, codec=codec)) == asked
    assert plain(arrow.contains(made[2].as_py(), [5, 6], codec=codec)) == [True, False]
    assert plain(arrow.mask(made[2].as_py(), 2, codec=codec)) == [True, False]
    assert plain(arrow.mask(made[1:2], 6, codec=codec)) == [[False] * 5 + [True]]
    two = pa.array([[made[1].as_py(), made[2].as_py()]], pa.list_(pa.binary()))
    assert plain(arrow.union(two, codec=codec)) == [made[2].as_py()]
    assert plain(arrow.difference(made, made[1].as_py(), codec=codec))[2] == encode(
        PositionBitmap([0, 70_000])
    )
    grouped = arrow.encode_grouped(["a", "b"], [0, 5], codec=codec)
    assert plain(grouped["blob"]) == [encode(PositionBitmap([position])) for position in (0, 5)]


def test_other_records_of_a_codec_are_read() -> None:
    """Delta's native payload, Paimon's first version."""
    v1 = dv.paimon.encode(PositionBitmap([1, 5]), version=1)
    assert plain(arrow.decode([v1, dv.paimon.encode(PositionBitmap([7]))], codec="paimon")) == [[1, 5], [7]]
    body = PositionBitmap([1, 5]).to_bytes()[12:]
    payload = dv.delta.NATIVE_MAGIC + struct.pack("<II", 1, len(body)) + body
    native = struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
    assert plain(arrow.decode([BLOBS[1], native], codec="delta")) == [[5], [1, 5]]
    with pytest.raises(errors.CorruptDataError, match="blobs: row 1"):
        arrow.decode([BLOBS[1], native])


def test_wrong_codecs_and_positions_of_a_codec_are_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="codec: expected one of iceberg, delta"):
        arrow.decode(blobs(), codec="roaring")
    with pytest.raises(errors.InvalidInputError, match="codec: expected one of iceberg, delta"):
        arrow.encode(lists(), codec="roaring")
    with pytest.raises(errors.LimitExceededError, match=r"lists: row 1: .*found 2147483648"):
        arrow.encode([[1], [1 << 31]], codec="paimon-v1")
    with pytest.raises(errors.CorruptDataError, match="blobs: row 1"):
        arrow.cardinality([arrow.encode([[1]], codec="lance")[0].as_py(), b"x"], codec="lance")


# encode_grouped -------------------------------------------------------------------------------------------


def grouped(paths: Any, positions: Any) -> dict[str, tuple[bytes, int]]:
    batch = arrow.encode_grouped(paths, positions)
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema.names == ["file_path", "blob", "cardinality"]
    assert batch.schema.field("blob").type == pa.binary()
    assert batch.schema.field("cardinality").type == pa.int64()
    rows = {row["file_path"]: (row["blob"], row["cardinality"]) for row in batch.to_pylist()}
    assert len(rows) == batch.num_rows, "a path has two rows"
    return rows


def expected_groups(paths: list[str], positions: list[int]) -> dict[str, tuple[bytes, int]]:
    members: dict[str, set[int]] = {}
    for path, position in zip(paths, positions, strict=True):
        members.setdefault(path, set()).add(position)
    return {path: (oracle.encode_blob(held), len(held)) for path, held in members.items()}


PATHS = ["a", "b", "a", "c/é", "", "b", "a", "a"]
ROWS = [5, 1 << 33, 3, 70_000, 0, 1, 5, 4]

grouped_input = st.lists(
    st.tuples(st.sampled_from(["a", "b", "file:///x/y.parquet", "é", ""]), st.integers(0, 1 << 33)),
    max_size=60,
)


@given(grouped_input)
def test_encode_grouped_is_encoding_each_group(pairs: list[tuple[str, int]]) -> None:
    paths, positions = [path for path, _ in pairs], [position for _, position in pairs]
    found = grouped(pa.array(paths, pa.string()), pa.array(positions, pa.int64()))
    assert found == expected_groups(paths, positions)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_encode_grouped_takes_every_layout(layout: str) -> None:
    shape = LAYOUTS[layout]
    assert grouped(shape(pa.array(PATHS)), shape(pa.array(ROWS))) == expected_groups(PATHS, ROWS)


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.uint8(), pa.large_string()),
        pa.dictionary(pa.int64(), pa.string()),
    ],
    ids=str,
)
@pytest.mark.parametrize("integer", [pa.int64(), pa.uint64()], ids=str)
def test_encode_grouped_takes_every_type(kind: pa.DataType, integer: pa.DataType) -> None:
    paths = pa.array(["z", *PATHS, "z"]).cast(kind).slice(1, len(PATHS))
    positions = pa.array([9, *ROWS, 9], integer).slice(1, len(ROWS))
    assert grouped(paths, positions) == expected_groups(PATHS, ROWS)


def test_encode_grouped_takes_chunks_that_do_not_line_up() -> None:
    paths = pa.chunked_array([PATHS[:3], [], PATHS[3:]])
    positions = pa.chunked_array([ROWS[:5], ROWS[5:]])
    assert grouped(paths, positions) == expected_groups(PATHS, ROWS)


def test_encode_grouped_unites_dictionaries_of_different_chunks() -> None:
    chunks = [pa.array(PATHS[:4]).dictionary_encode(), pa.array(PATHS[4:]).dictionary_encode()]
    assert grouped(pa.chunked_array(chunks), pa.array(ROWS)) == expected_groups(PATHS, ROWS)


def test_encode_grouped_takes_dictionaries_with_repeats_and_values_unused() -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), pa.array(["a", "b", "a", "unused"]))
    assert grouped(coded, pa.array([1, 2, 3, 4])) == expected_groups(["a", "b", "a", "a"], [1, 2, 3, 4])


def test_encode_grouped_of_nothing_is_nothing() -> None:
    assert grouped(pa.array([], pa.string()), pa.array([], pa.int64())) == {}
    assert grouped(pa.chunked_array([], pa.string()), pa.chunked_array([], pa.int64())) == {}


def test_encode_grouped_of_many_small_groups() -> None:
    rng = np.random.default_rng(0)
    paths = [f"s3://bucket/table/data/part-{i:05d}.parquet" for i in rng.integers(0, 5_000, 100_000)]
    positions = rng.integers(0, 1_000_000, 100_000).tolist()
    assert grouped(pa.array(paths), pa.array(positions)) == expected_groups(paths, positions)


def test_encode_grouped_of_one_large_group_among_small_ones() -> None:
    positions = np.concatenate([np.arange(3_000_000), [1, 2, 3]])
    paths = pa.DictionaryArray.from_arrays(
        pa.array(np.concatenate([np.zeros(3_000_000, np.int32), [1, 2, 1]]), pa.int32()),
        pa.array(["a", "b", "c"]),
    )
    order = np.random.default_rng(0).permutation(len(positions))
    found = grouped(paths.take(pa.array(order)), pa.array(positions[order]))
    whole = dv.iceberg.encode(PositionBitmap.from_range(0, 3_000_000))
    assert found == {
        "a": (whole, 3_000_000),
        "b": (oracle.encode_blob([1, 3]), 2),
        "c": (oracle.encode_blob([2]), 1),
    }


@pytest.mark.parametrize("column", ["file_path", "pos"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_null_is_refused_by_column_and_row(column: str, chunked: bool) -> None:
    paths: list[Any] = list(PATHS)
    positions: list[Any] = list(ROWS)
    (paths if column == "file_path" else positions)[6] = None
    args: list[Any] = [pa.array(paths), pa.array(positions)]
    if chunked:
        args = [pa.chunked_array([arg[:4], arg[4:]]) for arg in args]
    with pytest.raises(errors.InvalidInputError, match=rf"{column}.*\b6\b|\b6\b.*{column}"):
        arrow.encode_grouped(*args)


def test_a_null_in_a_dictionary_is_refused() -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    with pytest.raises(errors.InvalidInputError, match=r"file_path.*\b1\b|\b1\b.*file_path"):
        arrow.encode_grouped(coded, pa.array([1, 2, 3]))


@pytest.mark.parametrize("bad", [-1, oracle.MAX_POSITION + 1])
def test_a_grouped_position_out_of_range_is_refused_by_row(bad: int) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"pos.*\b2\b|\b2\b.*pos"):
        arrow.encode_grouped(pa.array(["a", "b", "a"]), pa.array([1, 2, bad]))


def test_encode_grouped_refuses_columns_that_do_not_fit() -> None:
    for paths, positions in (
        (pa.array(["a", "b"]), pa.array([1])),
        (pa.array([1, 2]), pa.array([1, 2])),
        (pa.array(["a", "b"]), pa.array([1.0, 2.0])),
        (pa.array(["a", "b"]), pa.array(["1", "2"])),
        (None, pa.array([1])),
        (pa.array(["a"]), None),
    ):
        with pytest.raises(errors.InvalidInputError):
            arrow.encode_grouped(paths, positions)


# All of them ----------------------------------------------------------------------------------------------


def test_results_are_valid_arrow() -> None:
    for result in (
        arrow.encode(lists(MANY)),
        arrow.decode(arrow.encode(lists(MANY))),
        arrow.cardinality(blobs()),
        arrow.contains(blobs(), pa.array([1] * len(BLOBS))),
        arrow.union(pa.array([BLOBS, []], pa.list_(pa.binary()))),
        arrow.difference(blobs(), BLOBS[2]),
        arrow.mask(blobs(), 9),
        arrow.encode_grouped(pa.array(PATHS), pa.array(ROWS)),
    ):
        result.validate(full=True)


def test_results_outlive_their_inputs() -> None:
    made = lists(MANY)
    expected = plain(made)
    encoded = arrow.encode(made)
    decoded = arrow.decode(encoded)
    del made, encoded
    assert plain(decoded) == [sorted(set(positions)) for positions in expected]


# Run ends and empty dictionaries ---------------------------------------------------------------------------


def run_ends(ends: list[int], values: pa.Array) -> pa.RunEndEncodedArray:
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values)


@pytest.mark.parametrize("kind", BINARY_TYPES, ids=str)
def test_runs_are_their_rows(kind: pa.DataType) -> None:
    column = run_ends([2, 5, 9], blobs(BLOBS[1:4], kind))
    rows = [*BLOBS[1:2] * 2, *BLOBS[2:3] * 3, *BLOBS[3:4] * 4]
    positions = run_ends([4, 9], pa.array([5, 70_000]))
    asked = [5] * 4 + [70_000] * 5
    for start in range(10):
        for stop in range(start, 10):
            own, plain_rows = column[start:stop], blobs(rows[start:stop])
            chunks = pa.chunked_array([own, column[:1]])
            assert plain(arrow.decode(own)) == plain(arrow.decode(plain_rows))
            assert plain(arrow.cardinality(chunks)) == plain(
                arrow.cardinality(blobs([*rows[start:stop], rows[0]]))
            )
            found = arrow.contains(own, positions[start:stop])
            assert plain(found) == plain(arrow.contains(plain_rows, asked[start:stop]))
            assert plain(arrow.mask(own, positions[start:stop])) == plain(
                arrow.mask(plain_rows, asked[start:stop])
            )


def test_runs_of_paths_and_positions_are_grouped() -> None:
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        paths = run_ends([2, 3, 5], pa.array(["b", "a", "b"], kind))
        positions = run_ends([1, 5], pa.array([7, 3]))
        for given_paths in (paths, pa.chunked_array([paths[:1], paths[1:]])):
            found = arrow.encode_grouped(given_paths, positions).to_pylist()
            wanted = {"b": [3, 7], "a": [3]}
            assert {row["file_path"]: row["blob"] for row in found} == {
                k: oracle.encode_blob(v) for k, v in wanted.items()
            }
    assert list(PositionBitmap.from_positions(run_ends([2, 3], pa.array([9, 4])))) == [4, 9]


def test_a_null_position_in_runs_is_refused_by_its_row() -> None:
    with pytest.raises(errors.InvalidInputError, match="row 2 is null"):
        PositionBitmap.from_positions(run_ends([2, 5], pa.array([1, None])))


@pytest.mark.parametrize("kind", [*BINARY_TYPES, pa.binary(2)], ids=str)
def test_empty_encoded_columns_have_no_rows(kind: pa.DataType) -> None:
    one = blobs([b"ab"], kind)
    coded = pa.DictionaryArray.from_arrays(pa.array([0]), one)
    for column in (coded[:0], run_ends([1], one)[:0]):
        for empty in (column, pa.chunked_array([], column.type), pa.chunked_array([column, column])):
            for read in (
                arrow.decode,
                arrow.cardinality,
                lambda c: arrow.contains(c, 5),
                lambda c: arrow.mask(c, 5),
            ):
                assert plain(read(empty)) == []
            assert arrow.theta_union(empty).estimate == 0
    assert arrow.encode_grouped(pa.array([], pa.dictionary(pa.int32(), pa.string())), []).num_rows == 0
