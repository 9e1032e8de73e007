"""Logical types that are set in footers: only these change, and the bounds of columns without order go."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Mapping
from typing import Any

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast.errors import CorruptDataError
from puffin_fast.parquet.logical_types import (
    VARIANT,
    AnnotatedStream,
    Annotation,
    ColumnPath,
    annotated_end,
    annotated_footer,
    geography,
    geometry,
)
from tests.kit.thrift import Struct, encode, footer_of, get, with_footer, with_unknown_fields
from tests.rows.v3_tables import ONE
from tests.rows.v3_tables import VARIANT as STORED

POINTS = [struct.pack("<BIdd", 1, 1, x, 2) for x in (1, 2)]
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "g": pa.array([POINTS[0], None, POINTS[1]], pa.binary()),
        "v": pa.array([ONE, None, ONE], STORED),
        "s": pa.array(
            [{"v": ONE, "g": POINTS[0]}, None, {"v": None, "g": None}],
            pa.struct([("v", STORED), ("g", pa.large_binary())]),
        ),
        "l": pa.array([[ONE, None], None, []], pa.list_(STORED)),
        "m": pa.array([[("k", POINTS[1])], None, []], pa.map_(pa.string(), pa.binary())),
        "a.b": pa.array(["x", None, "y"]),
        **{f"c{n}": pa.array([n] * 3) for n in range(12)},
    }
)
TYPES: dict[ColumnPath, Annotation] = {
    ("g",): geometry("OGC:CRS84"),
    ("v",): VARIANT,
    ("s", "v"): VARIANT,
    ("s", "g"): geography("EPSG:4326", "karney"),
    ("l", "list", "element"): VARIANT,
    ("m", "key_value", "value"): geometry("srid:3857"),
}
SHOWN = {
    "g": "Geometry(crs=OGC:CRS84)",
    "s.g": "Geography(crs=EPSG:4326, algorithm=karney)",
    "m.key_value.value": "Geometry(crs=srid:3857)",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "indexes": {"write_page_index": True, "write_page_checksum": True, "data_page_version": "2.0"},
    "Bloom": {"bloom_filter_options": {"id": {"ndv": 10, "fpp": 0.1}}, "write_page_index": True},
    "no statistics": {"write_statistics": False, "store_schema": False},
}


def write(sink: Any, rows: pa.Table, *, groups: int = 2, **options: Any) -> None:
    writer = pq.ParquetWriter(sink, rows.schema, **options)
    for _ in range(groups):
        writer.write_table(rows)
    if isinstance(sink, AnnotatedStream):
        sink.hold()
    writer.close()


def plain_and_annotated(
    rows: pa.Table, types: Mapping[ColumnPath, Annotation], **options: Any
) -> list[bytes]:
    """The same file, as PyArrow writes it and annotated while it was written."""
    found = []
    for annotated in (False, True):
        sink = pa.BufferOutputStream()
        if annotated:
            with AnnotatedStream(Kept(sink), types) as stream:
                write(stream, rows, **options)
        else:
            write(sink, rows, **options)
        found.append(sink.getvalue().to_pybytes())
    return found


class Kept:
    """A stream that stays open."""

    def __init__(self, sink: Any) -> None:
        self.write = sink.write

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def chunks(footer: Struct) -> list[Struct]:
    return [chunk for group in get(footer, 4)[1] for chunk in get(group, 1)[1]]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("rows", [ROWS, ROWS.slice(0, 0), ROWS.slice(1, 1)], ids=["all", "none", "nulls"])
def test_only_types_and_bounds_of_the_footer_change(rows: pa.Table, options: dict[str, Any]) -> None:
    plain, annotated = plain_and_annotated(rows, TYPES, **options)
    start = len(plain) - 8 - int.from_bytes(plain[-8:-4], "little")
    assert annotated[:start] == plain[:start]
    before, now = footer_of(plain), footer_of(annotated)
    assert [field for field in now if field[0] not in (2, 4)] == [
        field for field in before if field[0] not in (2, 4)
    ]
    elements = list(zip(get(before, 2)[1], get(now, 2)[1], strict=True))
    changed = [(get(one, 4), new[-1]) for one, new in elements if one != new]
    assert all(new in (one, [*one, new[-1]]) for one, new in elements)
    assert [name for name, _ in changed] == [b"g", b"v", b"v", b"g", b"element", b"value"]
    unordered = {path.encode() for path in SHOWN}
    for one, new in zip(chunks(before), chunks(now), strict=True):
        if b".".join(get(get(new, 3), 3)[1]) not in unordered:
            assert new == one
            continue
        assert new == [
            (number, kind, stripped(value) if number == 3 else value)
            for number, kind, value in one
            if number not in (6, 7)
        ]


def stripped(chunk: Struct) -> Struct:
    return [
        (number, kind, [field for field in value if field[0] in (3, 4)] if number == 12 else value)
        for number, kind, value in chunk
    ]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_other_readers_see_the_types_and_the_same_rows(options: dict[str, Any], tmp_path: Any) -> None:
    plain, annotated = plain_and_annotated(ROWS, TYPES, **options)
    file = pq.ParquetFile(pa.BufferReader(annotated), page_checksum_verification=True)
    columns = [file.schema.column(at) for at in range(len(file.schema))]
    assert {c.path: str(c.logical_type) for c in columns if "Geo" in str(c.logical_type)} == SHOWN
    assert str(file.schema).count("(Variant(1))") == 3
    assert file.read() == pq.read_table(pa.BufferReader(plain))
    path = tmp_path / "t.parquet"
    path.write_bytes(annotated)
    with duckdb.connect() as con:
        kinds = {row[0]: row[1] for row in con.sql(f"DESCRIBE FROM '{path}'").fetchall()}
        assert kinds["v"] == "VARIANT"
        assert kinds["l"] == "VARIANT[]"
        assert kinds["g"] == "GEOMETRY('OGC:CRS84')"
        assert con.sql(f"SELECT v, s.v, l FROM '{path}' LIMIT 1").fetchall() == [(1, 1, [1, None])]
        assert con.sql(f"SELECT count(*) FROM '{path}' WHERE g IS NULL AND id = 2").fetchall() == [(2,)]


def test_numbers_of_nulls_stay_where_bounds_go() -> None:
    _, annotated = plain_and_annotated(ROWS, TYPES, write_page_index=True)
    group = pq.ParquetFile(pa.BufferReader(annotated)).metadata.row_group(0)
    for at in range(group.num_columns):
        statistics = group.column(at).statistics
        is_unordered = group.column(at).path_in_schema in SHOWN
        assert statistics.has_null_count
        assert statistics.has_min_max is not is_unordered
        assert group.column(at).has_offset_index
        assert group.column(at).has_column_index is not is_unordered


def test_annotated_columns_may_be_required() -> None:
    kinds = [("g", pa.binary()), ("v", STORED), ("s", pa.struct([pa.field("v", STORED, False)]))]
    schema = pa.schema([pa.field(name, kind, False) for name, kind in kinds])
    rows = pa.table({"g": POINTS[:1], "v": [ONE], "s": [{"v": ONE}]}, schema)
    types = {path: kind for path, kind in TYPES.items() if path in (("g",), ("v",), ("s", "v"))}
    _, annotated = plain_and_annotated(rows, types)
    file = pq.ParquetFile(pa.BufferReader(annotated))
    assert file.read().slice(1).to_pylist() == rows.to_pylist()
    assert str(file.schema).count("required group field_id=-1 v (Variant(1))") == 2


@pytest.mark.parametrize("sink", ["file", "PyArrow", "fsspec"])
def test_every_kind_of_stream_is_annotated_and_closed(sink: str, tmp_path: Any) -> None:
    path = str(tmp_path / "t.parquet")
    stream: Any = {
        "file": lambda: io.FileIO(path, "wb"),
        "PyArrow": lambda: pa.OSFile(path, "wb"),
        "fsspec": lambda: fsspec.filesystem("file").open(path, "wb"),
    }[sink]()
    with AnnotatedStream(stream, TYPES) as annotated:
        write(annotated, ROWS)
    assert stream.closed
    assert str(pq.read_metadata(path).schema).count("Variant(1)") == 3


def test_a_file_whose_writer_fails_has_no_footer() -> None:
    sink = io.BytesIO()

    def fail() -> None:
        with AnnotatedStream(Kept(sink), TYPES) as stream:
            write(stream, ROWS)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert sink.getvalue().startswith(b"PAR1")
    assert not sink.getvalue().endswith(b"PAR1")


def test_pages_are_passed_on_before_the_file_is_closed() -> None:
    sink = io.BytesIO()
    with AnnotatedStream(Kept(sink), TYPES) as stream:
        writer = pq.ParquetWriter(stream, ROWS.schema)
        writer.write_table(ROWS)
        assert len(sink.getvalue()) == stream.tell() > 500
        stream.hold()
        writer.close()


@pytest.mark.parametrize("seed", range(5))
def test_fields_that_are_not_known_stay(seed: int) -> None:
    plain, annotated = plain_and_annotated(ROWS, TYPES)
    chance = random.Random(seed)
    footer = with_unknown_fields(chance, footer_of(plain))
    state = chance.getstate()
    changed = footer_of(annotated_end(with_footer(plain, footer), TYPES))
    chance.setstate(state)
    known = footer_of(annotated)
    assert without_unknown(changed, known) == known
    assert {field[0] for field in changed} == {field[0] for field in footer}


def without_unknown(fields: Any, known: Any) -> Any:
    """The fields of a struct whose numbers are among those of another one, at every level."""
    found = []
    for number, kind, value in known:
        mine = next(one for one in fields if one[0] == number)[2]
        if kind == 12:
            mine = without_unknown(mine, value)
        elif kind == 9 and value[0] == 12:
            mine = 12, [without_unknown(*pair) for pair in zip(mine[1], value[1], strict=True)]
        found.append((number, kind, mine))
    return found


def test_other_logical_types_are_replaced() -> None:
    """PyArrow annotates a type named geoarrow.wkb; a footer is annotated twice."""
    _, annotated = plain_and_annotated(ROWS, TYPES)
    again = annotated_end(annotated, {("g",): geometry("EPSG:1"), ("v",): VARIANT})
    assert "Geometry(crs=EPSG:1)" in str(pq.read_metadata(pa.BufferReader(again)).schema)
    assert pq.read_table(pa.BufferReader(again)) == pq.read_table(pa.BufferReader(annotated))


def test_bytes_that_are_no_footer_and_missing_columns_are_errors() -> None:
    plain, _ = plain_and_annotated(ROWS, TYPES)
    footer = encode(12, footer_of(plain))
    for n in range(len(footer)):
        with pytest.raises(CorruptDataError, match="footer"):
            annotated_footer(footer[:n], TYPES)
    for path in (("x",), ("s", "x"), ("a", "b"), ("v", "value", "x")):
        with pytest.raises(CorruptDataError, match="expected columns"):
            annotated_footer(footer, {path: VARIANT})
    for data in (b"", b"PAR1", b"\xff\xff\xff\x7fPAR1"):
        with pytest.raises(CorruptDataError, match="footer"):
            annotated_end(data, TYPES)
