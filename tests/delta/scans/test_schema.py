"""Types of columns: what a column may have been when a data file was written, and columns without a type."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, LessThan

import puffin_fast as pf
from puffin_fast import delta, errors
from tests.delta.tables import alter, refused, write_lines

FEATURES = ["deletionVectors", "timestampNtz", "typeWidening"]


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def write(folder: Path, types: dict[str, Any], files: list[tuple[pa.Table, dict[str, Any]]]) -> Path:
    """A table with deletion vectors enabled, of columns by name and files with their statistics."""
    fields = [field(name, kind) for name, kind in types.items()]
    features = {"readerFeatures": FEATURES, "writerFeatures": FEATURES}
    metadata = {
        "id": "0",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {"delta.enableDeletionVectors": "true"},
    }
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"metaData": metadata},
    ]
    (folder / "_delta_log").mkdir(parents=True)
    for number, (rows, stats) in enumerate(files):
        path = folder / f"{number}.parquet"
        pq.write_table(rows, path, row_group_size=2)
        stats = {"numRecords": rows.num_rows, **stats}
        add = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 0}
        actions.append({"add": {**add, "dataChange": True, "stats": json.dumps(stats)}})
    write_lines(folder, 0, actions)
    return folder


WIDENINGS: list[tuple[pa.DataType, list[Any], str, list[Any]]] = [
    (pa.int8(), [-128, 5, 127, None], "double", [-128.0, 5.0, 127.0, None]),
    (pa.int16(), [-5, 0, 300, None], "double", [-5.0, 0.0, 300.0, None]),
    (pa.int32(), [-(2**31), 7, 2**31 - 1, None], "double", [-(2.0**31), 7.0, 2.0**31 - 1, None]),
    (pa.int8(), [-128, 5, 127, None], "decimal(4,1)", [Decimal(-128), Decimal(5), Decimal(127), None]),
    (pa.int32(), [-7, 0, 2**31 - 1, None], "decimal(10,0)", [Decimal(-7), 0, Decimal(2**31 - 1), None]),
    (pa.int64(), [-(2**63), 1, 2, None], "decimal(21,1)", [Decimal(-(2**63)), Decimal(1), Decimal(2), None]),
    (pa.int8(), [-128, 5, 127, None], "long", [-128, 5, 127, None]),
    (pa.float32(), [-0.5, 0.25, 1e30, None], "double", [-0.5, 0.25, 1.0000000150474662e30, None]),
    (
        pa.decimal128(10, 2),
        [Decimal("1.25")] * 3 + [None],
        "decimal(20,5)",
        [Decimal("1.25000")] * 3 + [None],
    ),
    (
        pa.date32(),
        [date(2024, 9, 9), date(1969, 12, 31), date(2030, 1, 1), None],
        "timestamp_ntz",
        [datetime(2024, 9, 9), datetime(1969, 12, 31), datetime(2030, 1, 1), None],
    ),
]


@pytest.mark.parametrize(
    ("before", "values", "kind", "after"), WIDENINGS, ids=[f"{w[0]}-{w[2]}" for w in WIDENINGS]
)
def test_files_of_before_a_type_was_widened_are_read(
    before: pa.DataType, values: list[Any], kind: str, after: list[Any], tmp_path: Path
) -> None:
    """Values, filters on them by row group, and deletes (protocol, "Type Widening")."""
    rows = pa.table({"id": range(4), "x": pa.array(values, before)})
    ends = [str(end) if before == pa.date32() else end for end in (min(values[:3]), max(values[:3]))]
    stats: dict[str, Any] = {"nullCount": {"x": 1}}
    if not pa.types.is_decimal(before):
        stats |= {"minValues": {"x": ends[0]}, "maxValues": {"x": ends[1]}}
    table = write(tmp_path / "t", {"id": "long", "x": kind}, [(rows, stats)])
    found = delta.scan(table).to_arrow()
    assert found["x"].to_pylist() == after
    for value in found["x"][:3]:
        literal = value.as_py().isoformat() if before == pa.date32() else value.as_py()
        for compare, row_filter in (
            (pc.equal, pc.field("x") == value),
            (pc.less, pc.field("x") < value),
            (pc.equal, EqualTo("x", literal)),
            (pc.less, LessThan("x", literal)),
            (pc.greater_equal, GreaterThanOrEqual("x", literal)),
        ):
            expected = found.filter(compare(found["x"], value))["id"].to_pylist()
            assert delta.scan(table, row_filter).to_arrow()["id"].to_pylist() == expected
    assert delta.verify(table) == []
    delta.delete(table, pc.field("x") == found["x"][2])
    left = [at for at in range(4) if after[at] != after[2]]
    assert delta.scan(table).to_arrow()["id"].to_pylist() == left


def test_integers_that_a_double_does_not_hold_are_not_widened(tmp_path: Path) -> None:
    rows = pa.table({"x": pa.array([1, 2**62 + 1], pa.int64())})
    table = write(tmp_path / "t", {"x": "double"}, [(rows, {})])
    with pytest.raises(errors.CorruptDataError, match="expected double, found int64"):
        delta.scan(table).to_arrow()


def test_a_column_without_a_type_is_null_and_is_not_written(tmp_path: Path) -> None:
    """Spark writes no such column to data files."""
    rows = pa.table({"id": pa.array(range(4), pa.int64())})
    table = write(tmp_path / "t", {"id": "long", "nothing": "void"}, [(rows, {"nullCount": {"nothing": 4}})])
    found = delta.scan(table, "id > 1").to_arrow()
    assert found.to_pylist() == [{"id": 2, "nothing": None}, {"id": 3, "nothing": None}]
    assert delta.scan(table, "nothing is null").to_arrow().num_rows == 4
    assert delta.delete(table, "id = 2").rows_deleted == 1
    given = pa.table({"id": pa.array([1], pa.int64()), "nothing": pa.nulls(1)})
    for write_rows in (
        lambda: delta.update(table, "id = 1", {"id": 9}),
        lambda: delta.upsert(table, given, "id"),
        lambda: delta.purge(table, min_deleted=0.01),
    ):
        with refused(table, errors.UnsupportedError, "column nothing is of type void"):
            write_rows()


VALUE = {"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}
STORED = pa.struct([pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)])


def test_variants_are_read(tmp_path: Path) -> None:
    variants = [VALUE, None, VALUE | {"value": b"\x00"}]
    rows = pa.table({"id": pa.array(range(3), pa.int64()), "v": pa.array(variants, STORED)})
    table = write(tmp_path / "t", {"id": "long", "v": "variant"}, [(rows, {"nullCount": {"id": 0, "v": 1}})])
    found = delta.scan(table).to_arrow()
    assert found["v"].to_pylist() == variants
    assert found.schema.field("v").type.names == ["metadata", "value"]
    assert delta.scan(table, "id > 0", ("id",)).to_arrow()["id"].to_pylist() == [1, 2]
    assert delta.scan(table).files().num_rows == 1
    assert delta.delete(table, "id = 0").rows_deleted == 1
    assert delta.delete_keys(table, pa.table({"id": [1]}), "id").rows_deleted == 1
    assert delta.scan(table).to_arrow()["v"].to_pylist() == variants[2:]
    assert delta.vectors(table)["cardinality"].to_pylist() == [2]
    assert delta.report(table)
    assert delta.verify(table) == []
    for work, message in (
        (lambda: delta.scan(table, "v is null"), "v"),
        (lambda: delta.scan(table, pc.field("v").is_null()), "v, a variant"),
        (lambda: delta.delete_keys(table, found, "v"), "v"),
    ):
        with refused(table, errors.PuffinFastError, message):
            work()


VARIANTS: dict[str, Any] = {
    "id": "long",
    "v": "variant",
    "s": {
        "type": "struct",
        "fields": [
            field("w", "variant"),
            field("l", {"type": "array", "elementType": "variant", "containsNull": True}),
        ],
    },
    "m": {"type": "map", "keyType": "string", "valueType": "variant", "valueContainsNull": True},
}


def test_new_tables_have_variants(tmp_path: Path) -> None:
    stored = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
    for vectors, others in (("true", {"deletionVectors"}), ("false", set())):
        table = tmp_path / vectors
        with pytest.warns(pf.EngineSupportWarning, match=r"Polars cannot read .* variant \(v\)") as said:
            delta.create_table(
                table, {"id": "long", "v": "variant"}, properties={"delta.enableDeletionVectors": vectors}
            )
        assert said[0].filename == __file__
        protocol = delta.snapshot(table).protocol
        assert protocol.reader_features == {"variantType", *others} <= protocol.writer_features
        delta.append(table, pa.table({"id": range(3), "v": pa.array([VALUE, None, VALUE], stored)}))
        assert delta.scan(table, "id > 0").to_arrow()["v"].to_pylist() == [None, VALUE]
    found = deltalake.DeltaTable(table).to_pyarrow_table().sort_by("id")
    assert found["v"].to_pylist() == [VALUE, None, VALUE]


def test_variants_are_written_annotated_at_every_depth(tmp_path: Path) -> None:
    inner = pa.struct([("w", STORED), ("l", pa.list_(STORED))])
    rows = pa.table(
        {
            "id": pa.array(range(4), pa.int64()),
            "v": pa.array([VALUE, None, VALUE, None], STORED),
            "s": pa.array(
                [{"w": VALUE, "l": [VALUE, None]}, None, {"w": None, "l": []}, {"w": None, "l": None}], inner
            ),
            "m": pa.array([[("k", VALUE)], None, [], [("k", None)]], pa.map_(pa.string(), STORED)),
        }
    )
    table = write(tmp_path / "t", VARIANTS, [(rows, {})])
    given = {path.name for path in table.glob("*.parquet")}
    before = delta.scan(table).to_arrow().sort_by("id")
    delta.append(table, before.set_column(0, "id", pa.array(range(4, 8), pa.int64())))
    delta.update(table, "id = 0", {"id": 8})
    delta.upsert(table, before.slice(0, 1).set_column(0, "id", pa.array([3], pa.int64())), "id")
    delta.overwrite(table, before.slice(1, 1), "id = 1")
    delta.purge(table, min_deleted=0.01)
    found = delta.scan(table).to_arrow().sort_by("id")
    assert found["id"].to_pylist() == list(range(1, 9))
    for name in ("v", "s", "m"):
        old = before[name].to_pylist()
        assert found[name].to_pylist() == [old[1], old[2], old[0], *old, old[0]]
    assert delta.rewrite_data_files(table, min_input_files=2).data_files > 1
    assert delta.scan(table).to_arrow().sort_by("id") == found
    assert delta.verify(table, level="rows") == []
    new = [pq.read_metadata(path) for path in table.glob("*.parquet") if path.name not in given]
    assert len(new) > 4
    assert {str(file.schema).count("(Variant(1))") for file in new} == {4}
    (add,) = delta.snapshot(table).adds([0])
    stats = json.loads(add["stats"])
    assert stats["nullCount"] == {"id": 0, "v": 3, "s": {"w": 5, "l": 3}, "m": 2}
    assert stats["minValues"].keys() == stats["maxValues"].keys() == {"id"}


@pytest.mark.parametrize(("columns", "found"), [(["p", "p"], "p twice"), (["p", "q"], "found q")])
def test_partition_columns_that_do_not_agree_with_the_schema_are_refused(
    columns: list[str], found: str, tmp_path: Path
) -> None:
    table = write(tmp_path / "t", {"id": "long", "p": "string"}, [(pa.table({"id": [1]}), {})])
    alter(table, "metaData", lambda metadata: metadata.update(partitionColumns=columns))
    for call in (delta.verify, delta.scan, lambda path: delta.delete(path, "id = 1")):
        with pytest.raises(errors.CorruptDataError, match=f"partition column.*{found}"):
            call(table)


def test_only_types_require_features(tmp_path: Path) -> None:
    names = pa.struct([("timestamp_ntz", pa.int64())])
    for at, (kind, needed) in enumerate(
        [
            (names, False),
            (pa.string(), False),
            (pa.timestamp("us"), True),
            (pa.list_(pa.struct([("a", pa.timestamp("us"))])), True),
            (pa.map_(pa.string(), pa.timestamp("us")), True),
        ]
    ):
        schema = pa.schema([("id", pa.int64()), ("timestamp_ntz", kind)])
        made = delta.create_table(tmp_path / str(at), schema)
        assert ("timestampNtz" in made.protocol.writer_features) is needed, kind
