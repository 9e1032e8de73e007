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
from tests.conftest import readable, require_module
from tests.kit import oracle, strategies
from tests.kit.cases import each
from tests.kit.damage import flipped_bits

LISTS = [
    [],
    [5],
    [0, 5, 70_000, (1 << 32) + 3],
    list(range(10, 5_010)),
    [3, 1, 3, 2],
    list(range(0, 20_000, 2)),
]
OUT_OF_RANGE = (-1, oracle.MAX_POSITION + 1, -(1 << 63))


SETS = [sorted(set(positions)) for positions in LISTS]
BLOBS = [oracle.encode_blob(positions) for positions in LISTS]
PATHS = ["a", "b", "a", "c/é", "", "b", "a", "a"]
ROWS = [5, 1 << 33, 3, 70_000, 0, 1, 5, 4]
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


# Every function ------------------------------------------------------------------------------------------


NOTHING = dv.iceberg.encode(PositionBitmap())


IN_EACH_ROW: dict[str, tuple[pa.DataType, list[Any], Callable[[Any], pa.Array], list[Any]]] = {
    "encode": (pa.list_(pa.int64()), LISTS, lambda column: arrow.encode(column), BLOBS),
    "decode": (pa.binary(), BLOBS, lambda column: arrow.decode(column), SETS),
    "cardinality": (pa.binary(), BLOBS, lambda column: arrow.cardinality(column), list(map(len, SETS))),
    "contains": (pa.binary(), BLOBS, lambda column: arrow.contains(column, 5), [5 in row for row in SETS]),
    "mask": (
        pa.binary(), BLOBS, lambda column: arrow.mask(column, 6),
        [[at in row for at in range(6)] for row in SETS],
    ),
    "difference": (pa.binary(), BLOBS, lambda column: arrow.difference(column, NOTHING), BLOBS),
    "subtracted": (
        pa.binary(), BLOBS, lambda column: arrow.difference(pa.repeat(BLOBS[1], arrow_length(column)), column),
        [oracle.encode_blob({5} - set(row)) for row in SETS],
    ),
    "union": (
        pa.list_(pa.binary()), [BLOBS[:2], BLOBS[2:], [], BLOBS, [BLOBS[3]]],
        lambda column: arrow.union(column),
        [oracle.encode_blob(p for one in row for p in one) for row in (SETS[:2], SETS[2:], [], SETS, [SETS[3]])],
    ),
}  # fmt: skip
"""Functions of one column: its type, values, the call, and the result for each value."""


def arrow_length(column: Any) -> int:
    return len(arrow.cardinality(column))


@strategies.costly
@given(
    st.lists(
        st.tuples(
            strategies.position_sets(max_chunks=2),
            strategies.position_sets(max_chunks=2),
            st.integers(0, 1 << 34),
        ),
        max_size=6,
    )
)
def test_functions_on_columns_are_those_on_each_row(
    rows: list[tuple[strategies.Positions, strategies.Positions, int]],
) -> None:
    left, right = ([set(row[side].tolist()) for row in rows] for side in (0, 1))
    one, other = (arrow.encode(lists([sorted(row) for row in side])) for side in (left, right))
    assert one.type == pa.binary()
    assert plain(one) == [oracle.encode_blob(row) for row in left]
    assert arrow.decode(one).type == pa.list_(pa.int64())
    assert plain(arrow.decode(one)) == [sorted(row) for row in left]
    assert arrow.cardinality(one).type == pa.int64()
    assert plain(arrow.cardinality(one)) == [len(row) for row in left]
    asked = [int(a[len(a) // 2]) if len(a) and number % 2 else number for a, _, number in rows]
    found = arrow.contains(one, pa.array(asked, pa.int64()))
    assert found.type == pa.bool_()
    assert plain(found) == [number in row for number, row in zip(asked, left, strict=True)]
    pairs = [*zip(left, right, strict=True)]
    assert plain(arrow.difference(one, other)) == [oracle.encode_blob(a - b) for a, b in pairs]
    single = oracle.encode_blob([3, 70_000])
    assert plain(arrow.difference(one, single)) == [oracle.encode_blob(a - {3, 70_000}) for a in left]
    united = arrow.union(pa.array([*zip(plain(one), plain(other), strict=True)], pa.list_(pa.binary())))
    assert united.type == pa.binary()
    assert plain(united) == [oracle.encode_blob(a | b) for a, b in pairs]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", IN_EACH_ROW)
def test_every_layout_is_taken_and_the_result_for_a_null_is_null(name: str, layout: str) -> None:
    kind, values, call, expected = IN_EACH_ROW[name]
    assert plain(call(LAYOUTS[layout](pa.array(values, kind)))) == expected
    if layout == "duckdb":  # makes other arrays of nulls
        return
    found = call(LAYOUTS[layout](pa.array([None, *(row for one in values for row in (one, None))], kind)))
    found.validate(full=True)
    assert plain(found) == [None, *(row for one in expected for row in (one, None))]
    assert plain(call(pa.nulls(2))) == [None, None]
    assert plain(call(pa.array([None], kind))) == [None]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_columns_of_every_layout_are_taken(layout: str) -> None:
    shape = LAYOUTS[layout]
    asked = pa.array([0, 5, 70_000, 9, 3, 19_998])
    assert plain(arrow.contains(shape(blobs()), shape(asked))) == [False, True, True, False, True, True]
    others = [*BLOBS[1:], BLOBS[0]]
    expected = [set(row) - set(other) for row, other in zip(SETS, [*SETS[1:], SETS[0]], strict=True)]
    assert plain(arrow.difference(shape(blobs()), shape(blobs(others)))) == [
        *map(oracle.encode_blob, expected)
    ]
    assert grouped(shape(pa.array(PATHS)), shape(pa.array(ROWS))) == expected_groups(PATHS, ROWS)


@pytest.mark.parametrize("kind", [*LIST_TYPES, pa.list_(pa.int64(), 1)], ids=str)
def test_encode_takes_every_list_type_with_nulls(kind: pa.DataType) -> None:
    rows = [[9], [5], None, [7], None, [8]]
    if not pa.types.is_fixed_size_list(kind):
        rows[1:1] = [[p for p in positions if p < 1 << 31] for positions in LISTS]
    column = pa.array(rows, kind)
    expected = [None if row is None else oracle.encode_blob(row) for row in rows]
    assert plain(arrow.encode(column)) == expected
    assert plain(arrow.encode(column.slice(1, len(rows) - 2))) == expected[1:-1]


def test_items_of_a_null_list_are_not_read() -> None:
    masked = pa.ListArray.from_arrays(
        pa.array([0, 1, 3], pa.int32()), pa.array([5, -1, None]), mask=pa.array([False, True])
    )
    assert plain(arrow.encode(masked)) == [oracle.encode_blob([5]), None]


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


@pytest.mark.parametrize(("row", "said"), [(None, "null"), *((bad, str(bad)) for bad in OUT_OF_RANGE)])
def test_a_null_position_or_one_out_of_range_is_refused_by_its_row(row: int | None, said: str) -> None:
    wrong = [3, row]
    for made in (
        lists([[1], [2], wrong]),
        pa.chunked_array([lists([[1], [2]]), lists([wrong])]),
        lists([[None], [1], [2], wrong]).slice(1),
    ):
        with pytest.raises(errors.InvalidInputError, match=r"\b2\b") as caught:
            arrow.encode(made)
        assert said in str(caught.value)


# Columns of blobs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*BINARY_TYPES, pa.binary(len(BLOBS[1]))], ids=str)
def test_every_binary_type_is_taken_with_nulls(kind: pa.DataType) -> None:
    rows = [BLOBS[1], None, BLOBS[1], None]
    if not pa.types.is_fixed_size_binary(kind):
        rows = [b"", *BLOBS, None, BLOBS[1], b"x"]
    column = pa.array(rows, kind)
    column = column.slice(1, len(rows) - 2)
    sets = [None if blob is None else oracle.decode_blob(blob) for blob in plain(column)]
    assert plain(arrow.decode(column)) == sets
    assert plain(arrow.cardinality(column)) == [None if held is None else len(held) for held in sets]
    coded = column.dictionary_encode() if kind == pa.binary() else column
    assert plain(arrow.contains(coded, 5)) == [None if held is None else 5 in held for held in sets]


def test_decode_takes_fixed_size_binary_and_dictionaries() -> None:
    same = [oracle.encode_blob([value]) for value in (1, 2, 3)]
    assert plain(arrow.decode(pa.array(same, pa.binary(len(same[0]))))) == [[1], [2], [3]]
    assert plain(arrow.decode(pa.array([*same, *same]).dictionary_encode())) == [[1], [2], [3]] * 2


@each("name", strategies.MALFORMED_BLOBS)
def test_a_malformed_blob_is_refused_by_its_side_and_row(name: str) -> None:
    whole, wrong = blobs(BLOBS[:5]), [*BLOBS[:4], strategies.MALFORMED_BLOBS[name]()]
    for made in (blobs(wrong), pa.chunked_array([blobs(wrong[:3]), blobs(wrong[3:])])):
        for call, side in (
            (arrow.decode, "blobs"),
            (arrow.cardinality, "blobs"),
            (lambda column: arrow.difference(column, whole), "blobs"),
            (lambda column: arrow.difference(whole, column), "others"),
        ):
            with pytest.raises(errors.CorruptDataError, match=f"{side}: row 4"):
                call(made)
    with pytest.raises(errors.CorruptDataError, match="row 1: item 4"):
        arrow.union(pa.array([BLOBS, wrong], pa.list_(pa.binary())))


@each("name", strategies.ACCEPTED_BLOBS)
def test_non_canonical_blobs_are_read(name: str) -> None:
    data, held = strategies.ACCEPTED_BLOBS[name]
    assert plain(arrow.decode(blobs([data, data]))) == [held, held]
    assert plain(arrow.cardinality(blobs([data]))) == [len(held)]
    others = blobs([BLOBS[0], data, data, oracle.encode_blob(held[:1])])
    found = arrow.difference(blobs([data, BLOBS[1], data, data]), others)
    expected = [set(held), {5} - set(held), set(), set(held[1:])]
    assert plain(found) == list(map(oracle.encode_blob, expected))


def test_nulls_in_lists_and_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"\b2\b"):
        arrow.union(pa.array([BLOBS, [], [BLOBS[0], None]], pa.list_(pa.binary())))
    with pytest.raises(errors.InvalidInputError, match="others: expected 6, one for each blob, found 1"):
        arrow.difference(blobs(), blobs(BLOBS[:1]))
    for asked in ([1], ["a"] * len(BLOBS)):
        with pytest.raises(errors.InvalidInputError):
            arrow.contains(blobs(), pa.array(asked))


@pytest.mark.parametrize(
    "value",
    [
        *(pa.array([1, 2]), pa.array([[1.0]]), pa.array([["a"]]), pa.array([[[1]]]), pa.array(["a"])),
        *(pa.array([[True]]), pa.array([None], pa.float64()), None, 5, "text", np.array([1, 2]), b"x"),
    ],
    ids=readable,
)
def test_other_objects_are_refused(value: Any) -> None:
    for call in (arrow.encode, arrow.decode, arrow.cardinality):
        with pytest.raises(errors.InvalidInputError):
            call(value)


@pytest.mark.parametrize("outer", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
@pytest.mark.parametrize("kind", BINARY_TYPES, ids=str)
def test_union_takes_every_type(outer: Any, kind: pa.DataType) -> None:
    made = pa.array([[b"x"], BLOBS[:2], BLOBS[2:4], [b""]], outer(kind)).slice(1, 2)
    assert plain(arrow.union(made)) == [oracle.encode_blob([*SETS[at], *SETS[at + 1]]) for at in (0, 2)]


def test_cardinality_checks_as_decode_checks() -> None:
    """A blob whose contents are broken has no cardinality."""
    for broken in flipped_bits(BLOBS[2]):
        with pytest.raises(errors.CorruptDataError):
            arrow.cardinality(blobs([broken]))


# null, type and codec --------------------------------------------------------------------------------------


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


grouped_input = st.lists(
    st.tuples(st.sampled_from(["a", "b", "file:///x/y.parquet", "é", ""]), st.integers(0, 1 << 33)),
    max_size=60,
)


@given(grouped_input)
def test_encode_grouped_is_encoding_each_group(pairs: list[tuple[str, int]]) -> None:
    paths, positions = [path for path, _ in pairs], [position for _, position in pairs]
    found = grouped(pa.array(paths, pa.string()), pa.array(positions, pa.int64()))
    assert found == expected_groups(paths, positions)


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


@pytest.mark.parametrize(
    ("paths", "positions"),
    [
        (pa.chunked_array([PATHS[:3], [], PATHS[3:]]), pa.chunked_array([ROWS[:5], ROWS[5:]])),
        (pa.chunked_array([pa.array(some).dictionary_encode() for some in (PATHS[:4], PATHS[4:])]), pa.array(ROWS)),
        (
            pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), pa.array(["a", "b", "a", "unused"])),
            pa.array([1, 2, 3, 4]),
        ),
        (pa.chunked_array([], pa.string()), pa.chunked_array([], pa.int64())),
        (pa.array([], pa.string()), pa.array([], pa.int64())),
    ],
    ids=["chunks that do not line up", "several dictionaries", "repeats and values unused", "no chunks", "nothing"],
)  # fmt: skip
def test_encode_grouped_takes_columns_in_other_chunks_and_codes(paths: Any, positions: Any) -> None:
    assert grouped(paths, positions) == expected_groups(paths.to_pylist(), positions.to_pylist())


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


def replaced(values: list[Any], by: Any) -> list[Any]:
    return [*values[:6], by, *values[7:]]


@pytest.mark.parametrize(
    ("column", "paths", "positions"),
    [
        ("file_path", replaced(PATHS, None), ROWS),
        ("pos", PATHS, replaced(ROWS, None)),
        *(("pos", PATHS, replaced(ROWS, bad)) for bad in OUT_OF_RANGE),
    ],
)
def test_encode_grouped_refuses_values_by_column_and_row(column: str, paths: Any, positions: Any) -> None:
    coded = pa.array(paths).dictionary_encode()
    in_dictionary = pa.DictionaryArray.from_arrays(
        pa.array(range(len(paths))), pa.array(paths)
    )  # where the null is a value
    for given_paths in (pa.array(paths), pa.chunked_array([paths[:4], paths[4:]]), coded, in_dictionary):
        for given_positions in (pa.array(positions), pa.chunked_array([positions[:3], positions[3:]])):
            with pytest.raises(errors.InvalidInputError, match=rf"{column}.*\b6\b|\b6\b.*{column}"):
                arrow.encode_grouped(given_paths, given_positions)


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
