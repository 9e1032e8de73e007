"""Tables with types and transforms of format version 3 that PyIceberg refuses: loading them, and their metadata."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.types import GeometryType, ListType, MapType, NestedField

from puffin_fast import errors, iceberg
from puffin_fast._pyiceberg.v3_types import VariantType, read_v3_types
from tests.kit.tables import files_of, iceberg_table, path_of
from tests.rows.v3_tables import ONE, VARIANT, rewritten

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


def optional(number: int, name: str, kind: Any) -> dict[str, Any]:
    """A field of a schema in JSON."""
    return {"id": number, "name": name, "required": False, "type": kind}


SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.binary()), pa.field("g", pa.binary())])

FIELDS = [optional(1, "id", "long"), optional(2, "v", "variant"), optional(3, "g", "geometry(srid:3857)")]


def struct_of(number: int, kind: str) -> dict[str, Any]:
    return {"type": "struct", "fields": [optional(number, "v", kind)]}


SPEC = {
    "spec-id": 7,
    "fields": [
        {"source-ids": [1, 3], "field-id": 1000, "transform": "zorder[2]", "name": "z"},
        {"source-id": 1, "field-id": 1001, "transform": "fuzzy[8]", "name": "y"},
        {"source-ids": [1], "field-id": 1002, "transform": "identity", "name": "𠮷"},
    ],
}
POINT = struct.pack("<BIdd", 1, 1, 1.0, 2.0)
ORDER = {
    "order-id": 5,
    "fields": [
        {"source-ids": [1, 3], "transform": "hilbert", "direction": "desc", "null-order": "nulls-last"}
    ],
}


@pytest.fixture
def name(racing: SqlCatalog) -> str:
    """An empty table whose metadata has a variant, a geometry, and transforms that PyIceberg does not know."""

    def change(document: dict[str, Any]) -> None:
        document["schemas"][0]["fields"] = FIELDS
        document["partition-specs"].append(SPEC)
        document["sort-orders"].append(ORDER)

    table = iceberg.create_table(racing, "n.v3", SCHEMA)
    rewritten(table.metadata_location, change)
    return "n.v3"


def test_a_table_is_loaded_with_its_types(racing: SqlCatalog, name: str) -> None:
    table = iceberg.load_table(racing, name)
    assert table.schema().find_type("v") == VariantType()
    assert table.schema().find_type("g") == GeometryType("srid:3857")
    assert str(table.schema().find_type("g")) == "geometry(srid:3857)"
    assert schema_to_pyarrow(table.schema(), include_field_ids=False).field("v").type == VARIANT
    assert iceberg.scan(table).to_arrow().schema.names == ["id", "v", "g"]
    assert pickle.loads(pickle.dumps(table.metadata)) == table.metadata
    assert racing.load_table(name).refresh().metadata == table.metadata
    with iceberg.accelerate():
        assert racing.load_table(name).metadata == table.metadata
    assert racing.load_table(name).metadata == table.metadata


def test_commits_keep_the_words_of_schemas_specs_and_orders(racing: SqlCatalog, name: str) -> None:
    table = iceberg.load_table(racing, name)
    read = json.loads(path_of(table.metadata_location).read_text())
    rows = pa.table({"id": [1, 2], "v": pa.array([ONE, None], VARIANT), "g": [b"\x01", None]})
    iceberg.append(table, rows)
    iceberg.delete(table, "id = 2")
    iceberg.expire_snapshots(table)
    text = path_of(table.metadata_location).read_text("utf-8")
    assert "𠮷" in text
    document = json.loads(text)
    for key in ("schemas", "partition-specs", "sort-orders"):
        assert document[key] == read[key]
    assert SPEC in document["partition-specs"]
    assert ORDER in document["sort-orders"]
    assert iceberg.scan(iceberg.load_table(racing, name)).to_arrow().to_pylist() == rows.to_pylist()[:1]


def test_pyiceberg_knows_the_types_only_while_it_is_told_to(racing: SqlCatalog, name: str) -> None:
    """In a process of its own: in this one, tables were loaded before."""
    program = f"""
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ValidationError
from puffin_fast import iceberg

catalog = SqlCatalog("racing", uri={racing.properties["uri"]!r}, warehouse={racing.properties["warehouse"]!r})

def is_refused():
    try:
        catalog.load_table({name!r})
    except ValidationError:
        return True
    return False

assert is_refused()
with iceberg.accelerate():
    assert not is_refused()
assert is_refused()
with iceberg.accelerate():
    table = iceberg.load_table(catalog, {name!r})
assert not is_refused()
table.refresh()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_new_schemas_are_written_beside_the_earlier_ones(racing: SqlCatalog, name: str) -> None:
    from pyiceberg.types import LongType

    table = iceberg.load_table(racing, name)
    with iceberg.v3_metadata(racing), table.update_schema() as update:
        update.add_column("more", LongType())
    document = json.loads(path_of(table.metadata_location).read_text())
    earlier, now = document["schemas"]
    assert earlier["fields"] == FIELDS
    assert now["fields"] == [*FIELDS, {"id": 4, "name": "more", "type": "long", "required": False}]


@pytest.mark.parametrize("kind", ["vector(3)", "variant(1)", "geometry(a", 7])
def test_types_that_nobody_knows_are_refused(racing: SqlCatalog, kind: Any) -> None:
    table = iceberg.create_table(racing, "n.other", SCHEMA)
    rewritten(
        table.metadata_location,
        lambda document: document["schemas"][0]["fields"][1].update({"type": kind}),
    )
    with pytest.raises(errors.UnsupportedError, match=r"n\.other: PyIceberg cannot read the metadata"):
        iceberg.load_table(racing, "n.other")


def test_names_that_are_no_tables_are_refused(racing: SqlCatalog) -> None:
    with pytest.raises(errors.NotFoundError, match=r"n\.none"):
        iceberg.load_table(racing, "n.none")
    with pytest.raises(errors.InvalidInputError, match="expected a PyIceberg catalog"):
        iceberg.load_table("catalog", "n.none")  # type: ignore[arg-type]

    class WithViews(type(racing)):  # type: ignore[misc]
        def view_exists(self, identifier: object) -> bool:
            return True

        def load_table(self, identifier: object) -> Any:
            raise NoSuchTableError(f"{identifier}")

    views = object.__new__(WithViews)
    views.__dict__ = racing.__dict__
    with pytest.raises(errors.UnsupportedError, match=r"n\.view: a view; expected a table"):
        iceberg.load_table(views, "n.view")


def test_types_are_parsed_inside_of_others() -> None:
    read_v3_types()
    fields = [
        optional(1, "s", struct_of(3, "variant")),
        optional(2, "l", list_of(4, "variant")),
        optional(5, "m", map_of(6, "geography(OGC:CRS84, karney)")),
    ]
    fields[0]["type"]["fields"][0]["required"] = True
    document = {"type": "struct", "schema-id": 0, "identifier-field-ids": [], "fields": fields}
    schema = Schema.model_validate(document)
    assert json.loads(schema.model_dump_json()) == document
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert Schema(NestedField(1, "v", "variant")).find_type("v") == VariantType()
    assert ListType(4, "variant", False).element_type == VariantType()  # type: ignore[arg-type]
    assert MapType(1, "string", 2, "variant").value_type == VariantType()  # type: ignore[arg-type]
    assert PartitionField(1, 1000, "day", "d").source_id == 1  # type: ignore[arg-type]


def variant(number: int) -> dict[str, bytes]:
    """A variant: the object ``{"a": number}`` of a number of one byte."""
    return {"metadata": b"\x01\x01\x00\x01a", "value": b"\x02\x01\x00\x00\x02\x0c" + bytes([number])}


def test_duckdb_finds_rows_by_boxes_and_fields_of_variants(
    racing: SqlCatalog, duckdb_iceberg: DuckDBPyConnection
) -> None:
    kinds = {"id": "long", "g": "geometry", "q": "geometry(EPSG:3857)", "v": "variant"}
    with pytest.warns(errors.EngineSupportWarning):
        table = iceberg.create_table(racing, "n.duck", kinds)
    points = [struct.pack("<BIdd", 1, 1, float(n), 2.0) for n in range(10)]
    rows = pa.table({"id": range(10), "g": points, "q": points, "v": [variant(n) for n in range(10)]})
    for change in (
        lambda: iceberg.append(table, rows),
        lambda: iceberg.update(table, "id = 8", {"q": None}),
        lambda: iceberg.upsert(table, rows.slice(8, 1), "id"),
        lambda: iceberg.overwrite(table, rows.slice(0, 3), "id < 3"),
        lambda: iceberg.rewrite_data_files(table, sort_by=["id"]),
    ):
        change()
        files = f"iceberg_scan('{table.refresh().metadata_location}')"
        assert len(duckdb_iceberg.sql(f"SELECT * FROM {files}").fetchall()) == 10
        assert duckdb_iceberg.sql(f"SELECT sum(v.a::int) FROM {files}").fetchone() == (45,)
        for n in (0, 8, 9):
            box = f"g && 'POINT({n} 2)'::geometry"
            assert duckdb_iceberg.sql(f"SELECT id FROM {files} WHERE {box}").fetchall() == [(n,)]


class GeoArrow(pa.ExtensionType):  # type: ignore[misc]  # PyArrow has no types
    """What geoarrow-pyarrow registers: PyArrow reads annotated columns as it, and refuses values that it refuses."""

    def __init__(self, crs: bytes = b"{}") -> None:
        self._crs = crs
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return self._crs

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, crs: bytes) -> GeoArrow:
        return cls(crs)


@pytest.mark.parametrize("is_registered", [False, True])
def test_geometries_are_wkb_whatever_types_are_registered(
    racing: SqlCatalog, name: str, is_registered: bool
) -> None:
    table = iceberg.load_table(racing, name)
    points = pa.array([POINT, None, POINT], pa.binary())
    given = pa.ExtensionArray.from_storage(GeoArrow(), points)
    if is_registered:
        pa.register_extension_type(GeoArrow())
    try:
        iceberg.append(table, pa.table({"id": [1, 2, 3], "g": given}))
        iceberg.append(table, pa.table({"id": [4, 5, 6], "g": points}))
        path = iceberg.plan_files(table).tasks[0].data.file_path.removeprefix("file://")
        stored = pq.read_table(path)
        kinds = [field.type for field in stored.schema]
        kinds[2] = given.type
        schema = pa.schema([field.with_type(kind) for field, kind in zip(stored.schema, kinds, strict=True)])
        pq.write_table(
            pa.table([stored[0], stored[1], given], schema=schema), path
        )  # as geoarrow-pyarrow does
        assert str(pq.ParquetFile(path).schema.column(3).logical_type) == "Geometry(crs=)"
        assert iceberg.scan(table).to_arrow().field("g").type == pa.large_binary()
        assert sorted(iceberg.scan(table, "g is null").to_arrow()["id"].to_pylist()) == [2, 5]
        iceberg.update(table, "id = 3", {"id": 7})
        iceberg.delete(table, "id = 1")
        iceberg.rewrite_data_files(table, sort_by=["id"])
        assert iceberg.scan(table).to_arrow()["g"].to_pylist() == [None, POINT, None, POINT, POINT]
        (task,) = iceberg.plan_files(table).tasks
        group = pq.read_metadata(path_of(task.data.file_path)).row_group(0)
        assert group.column(3).statistics.null_count == 2
        assert iceberg.verify(table, level="rows") == []
    finally:
        if is_registered:
            pa.unregister_extension_type("geoarrow.wkb")


def test_a_default_of_null_is_written_where_an_initial_default_is_not(racing: SqlCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64()), ("w", pa.int32())]))
    rewritten(
        table.metadata_location,
        lambda document: document["schemas"][0]["fields"][1].update({"initial-default": 7}),
    )
    table = iceberg.load_table(racing, "n.t")
    iceberg.append(table, pa.table({"id": [1]}))
    assert iceberg.scan(table).to_arrow().to_pylist() == [{"id": 1, "w": None}]


def of_type(kind: Any, number: int = 10) -> dict[str, Any]:
    return optional(number, "x", kind)


def list_of(number: int, kind: Any) -> dict[str, Any]:
    return {"type": "list", "element-id": number, "element": kind, "element-required": False}


def map_of(number: int, kind: Any) -> dict[str, Any]:
    ids = {"key-id": number, "value-id": number + 1}
    return {"type": "map", **ids, "key": "string", "value": kind, "value-required": False}


NANOS = 1_510_871_468_123_456_789
AT = "2017-11-16T22:31:08.123456"
UUID_TEXT = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
INNER = {
    "type": "struct",
    "fields": [
        of_type("long", 11) | {"initial-default": 4, "write-default": 5},
        of_type("uuid", 12) | {"name": "u"},
    ],
}
OF_NANOS = map_of(21, "timestamp_ns")
DEFAULTS: list[tuple[Any, Any, str]] = [
    ("boolean", False, "false"),
    ("int", -34, "-34"),
    ("long", 2**62, str(2**62)),
    ("float", 1.5, "1.5"),
    ("double", 1, "1"),
    ("decimal(9, 2)", "14.20", "14.20"),
    ("decimal(38, 0)", "9" * 38, "9" * 38),
    ("date", "2017-11-16", "2017-11-16"),
    ("time", "22:31:08.123456", "22:31:08.123456"),
    ("timestamp", AT, AT.replace("T", " ")),
    ("timestamptz", f"{AT}+00:00", AT.replace("T", " ") + "Z"),
    ("timestamp_ns", f"{AT}789", AT.replace("T", " ") + "789"),
    ("timestamptz_ns", f"{AT}789+00:00", AT.replace("T", " ") + "789Z"),
    ("timestamp_ns", "1960-01-01T00:00:00.000000001", "1960-01-01 00:00:00.000000001"),
    ("string", "é\n", "é\n"),
    ("string", "", ""),
    ("uuid", UUID_TEXT, UUID_TEXT),
    ("fixed[4]", "000102ff", "000102ff"),
    ("binary", "000102ff", "000102ff"),
    ("binary", "", ""),
]


def shown(values: pa.ChunkedArray) -> list[Any]:
    """Values as text, as Arrow shows them to the last digit; those of bytes in hexadecimal."""
    values = values.combine_chunks()
    if isinstance(values, pa.ExtensionArray):
        return [str(value) for value in values.to_pylist()]
    if pa.types.is_large_binary(values.type) or pa.types.is_fixed_size_binary(values.type):
        return [value.hex() for value in values.to_pylist()]
    return values.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]


def with_default(catalog: SqlCatalog, name: str, kind: Any, default: Any) -> tuple[Table, dict[str, Any]]:
    """A table of one row whose file lacks a column with a default, and the field of that column."""
    table = iceberg_table(catalog, {"id": [1]}, name=name)
    field = of_type(kind) | {"initial-default": default, "write-default": default}

    def change(document: dict[str, Any]) -> None:
        document["schemas"][0]["fields"].append(field)
        document["last-column-id"] = 30

    rewritten(table.metadata_location, change)
    return catalog.load_table(name), field


def test_defaults_of_all_primitive_types_are_read_and_written_again(racing: SqlCatalog) -> None:
    for at, (kind, default, text) in enumerate(DEFAULTS):
        table, field = with_default(racing, f"n.t{at}", kind, default)
        iceberg.append(table, pa.table({"id": [2]}))
        assert shown(iceberg.scan(table).to_arrow()["x"]) == [text, text], kind
        assert iceberg.scan(table, "x is not null").count() == 2, kind
        assert iceberg.delete(table, "x is null").rows_deleted == 0, kind
        schema = table.schema().model_copy(update={"schema_id": 7})  # in PyIceberg's words
        assert json.loads(schema.model_dump_json())["fields"][1] == field, kind
        assert iceberg.verify(table) == [], kind
        if kind.startswith(("timestamp", "date")):
            assert iceberg.scan(table, f"x = '{default}'").count() == 2, kind


NESTED: list[tuple[Any, Any, Any]] = [
    (INNER, {}, {"x": 4, "u": None}),
    (list_of(20, "uuid"), [UUID_TEXT, None], [uuid.UUID(UUID_TEXT), None]),
    (list_of(20, "decimal(9, 2)"), [], []),
    (list_of(20, INNER), [{"11": 1}, {}, None], [{"x": 1, "u": None}, {"x": None, "u": None}, None]),
    (OF_NANOS, {"keys": ["a", "b"], "values": [f"{AT}789", None]}, [("a", NANOS), ("b", None)]),
]


def test_defaults_of_structs_lists_and_maps_are_read(racing: SqlCatalog) -> None:
    for at, (kind, default, wanted) in enumerate(NESTED):
        table, _ = with_default(racing, f"n.t{at}", kind, default)
        assert pickle.loads(pickle.dumps(table.schema())) == table.schema()
        column = iceberg.scan(table).to_arrow()["x"]
        if kind is OF_NANOS:
            column = column.cast(pa.map_(pa.string(), pa.int64()))
        assert column.to_pylist() == [wanted], kind
        if kind is INNER:
            assert iceberg.scan(table, "x.x = 4").count() == 1
            assert iceberg.scan(table, "x is null or x.x is null").count() == 0
            assert iceberg.delete(table, "x.u is null", dry_run=True).rows_deleted == 1
            iceberg.append(table, pa.table({"id": [2]}))
            assert iceberg.scan(table, "x.x = 5").to_arrow()["id"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("timestamp_ns", f"{AT}+00:00"),
        ("timestamptz_ns", AT),
        ("timestamp_ns", "2317-11-16T22:31:08"),
        ("timestamp_ns", 1.5),
        ("long", [1]),
        (INNER, {"11": 1}),
        (OF_NANOS, {"keys": ["a"], "values": []}),
        ("variant", 1),
        ("geometry", "POINT (1 2)"),
    ],
    ids=str,
)
def test_a_default_that_its_type_does_not_have_is_refused(
    racing: SqlCatalog, kind: Any, default: Any
) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64())]))
    field = of_type(kind) | {"initial-default": default}
    rewritten(table.metadata_location, lambda document: document["schemas"][0]["fields"].append(field))
    with pytest.raises((errors.UnsupportedError, errors.CorruptDataError), match=r"n\.t: |RacingCatalog"):
        iceberg.load_table(racing, "n.t")
    with pytest.raises((errors.UnsupportedError, errors.CorruptDataError), match=r"metadata\.json: "):
        iceberg.scan(table.metadata_location)


def test_structs_without_values_are_written(racing: SqlCatalog, name: str) -> None:
    added = [optional(5, "s", struct_of(6, "variant")), optional(7, "u", "unknown")]
    added[0]["type"]["fields"][0]["required"] = True
    table = iceberg.load_table(racing, name)
    rewritten(table.metadata_location, lambda document: document["schemas"][0].update(fields=FIELDS + added))
    table = iceberg.load_table(racing, name)
    nulls = pa.array([None], pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary())]))
    iceberg.append(table, pa.table({"id": [1], "v": nulls}))
    iceberg.append(table, pa.table({"id": [2], "s": pa.array([{"v": ONE}])}))
    iceberg.update(table, "id = 2", {"id": 3})
    empty = {"v": None, "g": None, "u": None}
    assert iceberg.scan(table).to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "s": None, **empty},
        {"id": 3, "s": {"v": ONE}, **empty},
    ]
    for half in ({"metadata": b"\x01\x00\x00", "value": None}, {"metadata": None, "value": b"\x00"}):
        given = pa.array([half], pa.struct([("metadata", pa.binary()), ("value", pa.binary())]))
        with pytest.raises(errors.InvalidInputError, match=r"a variant without (value|metadata)"):
            iceberg.append(table, pa.table({"id": [4], "v": given}))


def test_columns_of_type_unknown_inside_of_others_are_refused(racing: SqlCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64())]))
    before = table.metadata_location
    for more in ([optional(5, "s", struct_of(6, "unknown"))], None):

        def change(document: dict[str, Any], more: Any = more) -> None:
            fields = document["schemas"][0]["fields"]
            fields[0]["type"] = "long" if more else "unknown"
            fields[1:] = more or []

        rewritten(table.metadata_location, change)
        table = iceberg.load_table(racing, "n.t")
        rows = pa.table({"id": pa.array([1 if more else None], pa.int64() if more else pa.null())})
        with pytest.raises(errors.UnsupportedError, match=r"n\.t: (s\.v|id) of type unknown"):
            iceberg.append(table, rows)
    assert racing.load_table("n.t").metadata_location == before


MULTI = {"source-ids": [1, 2], "field-id": 1000, "transform": "bucket[4]", "name": "id_bucket"}
UNKNOWN = {"source-id": 1, "field-id": 1000, "transform": "fuzzy[8]", "name": "id_bucket"}


@pytest.mark.parametrize("field", [MULTI, UNKNOWN], ids=["several columns", "unknown"])
def test_tables_partitioned_by_unknown_transforms_are_read_only(
    racing: SqlCatalog, field: dict[str, Any]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("k", pa.int64())])
    table = iceberg.create_table(racing, "n.t", schema, partition_spec=["bucket[4](id)"])
    rows = pa.table({"id": range(100), "k": range(100)}, schema)
    iceberg.append(table, rows)
    iceberg.delete(table, "id = 7")
    rewritten(table.metadata_location, lambda document: document["partition-specs"][0].update(fields=[field]))
    table = iceberg.load_table(racing, "n.t")
    before, files = table.metadata_location, files_of(table)
    assert iceberg.scan(table).count() == 99
    assert iceberg.scan(table, "id = 5 or k in (6, 7)").to_arrow()["id"].to_pylist() == [5, 6]
    assert iceberg.scan(table, "id > 90").to_arrow().num_rows == 9
    assert iceberg.verify(table) == []
    assert iceberg.report(table).files.num_rows == 1
    assert iceberg.delete(table, "id = 8", dry_run=True).rows_deleted == 1
    for verb in (
        lambda: iceberg.append(table, rows),
        lambda: iceberg.delete(table, "id = 8"),
        lambda: iceberg.delete(table, "id >= 0"),
        lambda: iceberg.delete_keys(table, pa.table({"id": [8]}), join_cols=["id"]),
        lambda: iceberg.update(table, "id = 8", {"k": 1}),
        lambda: iceberg.upsert(table, rows, join_cols="id", when_matched_update_all=True),
        lambda: iceberg.rewrite_data_files(table, min_deleted=0.01),
    ):
        with pytest.raises(errors.UnsupportedError, match=r"field id_bucket: UnknownTransform.*read only"):
            verb()
    table = racing.load_table("n.t")
    assert table.metadata_location == before
    assert files_of(table) == files


def test_shredded_variants_are_refused_by_name_and_other_columns_work(racing: SqlCatalog, name: str) -> None:
    """Rows of such files are deleted; they are neither read nor rewritten without the shredded part."""
    table = iceberg.load_table(racing, name)
    rows = pa.table({"id": [1, 2, 3], "v": pa.array([ONE, None, ONE], VARIANT), "g": [b"\x01", None, None]})
    iceberg.append(table, rows)
    (task,) = iceberg.plan_files(table).tasks
    path = task.data.file_path.removeprefix("file://")
    plain = pq.read_table(path)
    shredded = pa.struct([*VARIANT, pa.field("typed_value", pa.int64())])
    field = pa.field("v", shredded, metadata=plain.schema.field("v").metadata)
    values = pa.array([{**ONE, "typed_value": 5}, None, {**ONE, "typed_value": 7}], shredded)
    pq.write_table(plain.set_column(1, field, values), path, store_schema=False)
    assert iceberg.delete(table, "id = 2").rows_deleted == 1
    assert iceberg.delete_keys(table, pa.table({"id": [3]}), "id").rows_deleted == 1
    assert iceberg.scan(table, selected_fields=["id"]).to_arrow()["id"].to_pylist() == [1]
    before, files = table.metadata_location, files_of(table)
    for job in (
        lambda: iceberg.scan(table).to_arrow(),
        lambda: iceberg.update(table, "id = 1", {"g": None}),
        lambda: iceberg.upsert(table, rows.slice(0, 1), "id"),
        lambda: iceberg.rewrite_data_files(table, min_deleted=0.1),
        lambda: iceberg.rewrite_data_files(table, sort_by=["id"]),
    ):
        with pytest.raises(errors.UnsupportedError, match="shredded variant"):
            job()
        assert (table.refresh().metadata_location, files_of(table)) == (before, files)
