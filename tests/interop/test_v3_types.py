"""Tables with version 3's types that Spark made: it reads them row for row after each of this package's verbs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import errors, iceberg
from tests.interop.conftest import errors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jar, pytest.mark.spark]

N = 60
VARIANT = """parse_json(concat('{"a":', id, ',"b":[1,"x",null,{"c":', id, '.5}],"long":"', repeat('y', 70), '"}'))"""
NESTED = {
    "s": ("struct<v: variant, x: int>", f"if(id % 4 = 0, null, named_struct('v', {VARIANT}, 'x', 1))"),
    "l": ("array<variant>", "array(parse_json('1'), null, parse_json('null'))"),
    "m": ("map<string, variant>", "map('k', parse_json('{\"q\":1}'), 'none', null)"),
}
COLUMNS = {"v": ("variant", f"if(id % 5 = 0, null, {VARIANT})"), **NESTED}
Row = tuple[Any, ...]

POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
"""A point as WKB."""


class Made:
    """A table that Spark made, and loads again for each question."""

    def __init__(self, spark: SparkSession, catalog: SqlCatalog, name: str) -> None:
        self.spark, self.catalog, self.name = spark, catalog, name
        self.sql_name = f"{catalog.name}.{name}"

    def create(
        self, columns: dict[str, tuple[str, str]], *, properties: str = "", vectorized: bool = False
    ) -> Table:
        """Creates the table with two data files of `N` rows in total, and loads it.

        Args:
            columns: the type of each, and an expression for its values.
            properties: more table properties.
            vectorized: whether Spark reads it by its vectorized reader, which has no variants inside of other types.
        """
        kinds = "".join(f", {column} {kind}" for column, (kind, _) in columns.items())
        self.spark.sql(
            f"CREATE TABLE {self.sql_name} (id bigint NOT NULL{kinds}) USING iceberg TBLPROPERTIES "
            f"('format-version' = '3', 'write.delete.mode' = 'merge-on-read', "
            f"'read.parquet.vectorization.enabled' = '{str(vectorized).lower()}'{properties})"
        )
        values = "".join(f", {value} AS {column}" for column, (_, value) in columns.items())
        for start in (0, N // 2):
            rows = f"SELECT id{values} FROM range({start}, {start + N // 2}, 1, 1)"
            self.spark.sql(f"INSERT INTO {self.sql_name} {rows}")
        return self.load()

    def load(self) -> Table:
        return iceberg.load_table(self.catalog, self.name)

    def java(self) -> Any:
        """The table as a Java object."""
        catalog = self.spark._jsparkSession.sessionState().catalogManager().catalog(self.catalog.name)
        names = self.spark.sparkContext._gateway.new_array(self.spark._jvm.java.lang.String, 2)
        names[0], names[1] = self.name.split(".")
        of = self.spark._jvm.org.apache.iceberg.catalog.TableIdentifier.of
        return catalog.icebergCatalog().loadTable(of(names))

    def types(self) -> Any:
        """Java's class of types."""
        return self.spark._jvm.org.apache.iceberg.types.Types

    def add(self, name: str, kind: Any, default: Any = None) -> None:
        """Adds a column; both of its defaults are the given value."""
        update = self.java().updateSchema()
        if default is None:
            update.addColumn(name, kind).commit()
        else:
            literal = self.spark._jvm.org.apache.iceberg.expressions.Expressions.lit(default)
            update.addColumn(name, kind, literal.to(kind)).commit()

    def generic_rows(self) -> dict[int, Row]:
        """The rows as Java's generic reader reads them, as text, by id; for types that Spark does not have."""
        table = self.java()
        found = self.spark._jvm.org.apache.iceberg.data.IcebergGenerics.read(table).build().iterator()
        places = range(1, table.schema().columns().size())  # columns that deletes need come after them
        rows = {}
        while found.hasNext():
            row = found.next()
            rows[row.get(0)] = tuple(self._text(row.get(at)) for at in places)
        return rows

    def _text(self, value: Any) -> str | None:
        if value is None or isinstance(value, str):
            return value
        if value.getClass().getName().startswith("java.nio"):
            array: bytes = self.spark._jvm.org.apache.iceberg.util.ByteBuffers.toByteArray(value)
            return array.hex()
        return str(value.toString())

    def rows(self, *columns: str) -> dict[int, Row]:
        """The rows as Spark reads them, by id; each column as JSON."""
        shown = "".join(f", to_json(struct({column}))" for column in columns)
        found = self.spark.sql(f"SELECT id{shown} FROM {self.sql_name}").collect()
        assert len({row[0] for row in found}) == len(found)
        return {row[0]: tuple(row)[1:] for row in found}

    def metadata(self) -> dict[str, Any]:
        """The newest metadata file."""
        path = self.load().metadata_location.removeprefix("file:")
        document: dict[str, Any] = json.loads(Path(path).read_text())
        return document


@pytest.fixture
def made(iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str) -> Made:
    return Made(iceberg_spark, shared_catalog, f"{namespace}.t")


def made_json(rows: dict[int, Row]) -> dict[int, Row]:
    """The rows of `Made.rows` with the JSON of the columns parsed."""
    return {
        id: tuple(next(iter(json.loads(text).values()), None) for text in row) for id, row in rows.items()
    }


def ours(table: Table, column: str) -> dict[int, Row]:
    """A variant column as this package reads it and PySpark decodes it, by id."""
    from pyspark.sql.types import VariantVal

    def decoded(value: dict[str, bytes] | None) -> Any:
        return None if value is None else json.loads(VariantVal(value["value"], value["metadata"]).toJson())

    found = iceberg.scan(table, selected_fields=["id", column]).to_arrow().to_pylist()
    return {row["id"]: (decoded(row[column]),) for row in found}


def without(rows: dict[int, Row], *ids: int) -> dict[int, Row]:
    return {id: row for id, row in rows.items() if id not in ids}


def test_variants_are_scanned_and_survive_deletes(made: Made) -> None:
    table = made.create(COLUMNS)
    schemas = made.metadata()["schemas"]
    rows = made.rows(*COLUMNS)
    assert ours(table, "v") == {id: row[:1] for id, row in made_json(rows).items()}
    iceberg.delete(table, "id in (3, 40)")
    iceberg.delete_keys(table, pa.table({"id": [4]}), join_cols=["id"])
    place = iceberg.scan(table, "id = 7", selected_fields=["_file", "_pos"]).to_arrow()
    iceberg.delete_positions(table, place.rename_columns(["file_path", "pos"]))
    assert made.rows(*COLUMNS) == without(rows, 3, 4, 7, 40)
    iceberg.compact(table)
    assert made.rows(*COLUMNS) == without(rows, 3, 4, 7, 40)
    made.spark.sql(f"DELETE FROM {made.sql_name} WHERE variant_get(v, '$.a', 'int') = 11")
    table.refresh()
    left = without(rows, 3, 4, 7, 11, 40)
    assert ours(table, "v") == {id: row[:1] for id, row in made_json(left).items()}
    assert errors_of(table) == []
    assert made.metadata()["schemas"] == schemas


def test_filters_on_variants_are_refused(made: Made) -> None:
    table = made.create(COLUMNS)
    before = table.metadata_location
    for row_filter in ("v is null", "v = 3", "s.v is not null", pa.compute.field("v").is_null()):
        with pytest.raises(errors.UnsupportedError, match=r"not supported on (v|s\.v), a variant"):
            iceberg.delete(table, row_filter)
    with pytest.raises(errors.InvalidInputError, match="v is a variant"):
        iceberg.delete_keys(table, pa.table({"v": [1]}), join_cols=["v"])
    assert made.load().metadata_location == before


def test_shredded_variants_are_carried_but_not_read(made: Made) -> None:
    columns = {"v": ("variant", """parse_json(concat('{"a":', id, ',"b":"x"}'))""")}
    table = made.create(columns, properties=", 'write.parquet.shred-variants' = 'true'")
    rows = made.rows("v")
    iceberg.delete(table, "id < 5")
    iceberg.delete_keys(table, pa.table({"id": [50]}), join_cols=["id"])
    left = without(rows, *range(5), 50)
    assert made.rows("v") == left
    assert set(iceberg.scan(table, selected_fields=["id"]).to_arrow()["id"].to_pylist()) == set(left)
    before = table.metadata_location
    for verb in (
        lambda: iceberg.scan(table).to_arrow(),
        lambda: iceberg.rewrite_data_files(table, min_input_files=2),
    ):
        with pytest.raises(errors.UnsupportedError, match=r"parquet: field 2 \(v\): a shredded variant"):
            verb()
    assert made.load().metadata_location == before


def test_avro_files_with_variants_are_refused(made: Made) -> None:
    table = made.create({"v": COLUMNS["v"]}, properties=", 'write.format.default' = 'avro'")
    before = table.metadata_location
    for verb in (lambda: iceberg.scan(table).to_arrow(), lambda: iceberg.delete(table, "id = 3")):
        with pytest.raises(errors.UnsupportedError, match=r"avro: .*variant"):
            verb()
    assert made.load().metadata_location == before


def test_variants_are_written_and_rewritten(made: Made) -> None:
    table = made.create(COLUMNS)
    schemas = made.metadata()["schemas"]
    rows = made.rows(*COLUMNS)
    arrow = iceberg.scan(table, "id in (1, 2, 5)").to_arrow().sort_by("id")
    more = arrow.set_column(0, "id", pa.array([100, 2, 500]))
    lineage = "SELECT id, _row_id FROM {} WHERE id IN (2, 7, 1007, 9)"

    found = iceberg.upsert(table, more, join_cols="id")
    assert (found.rows_inserted, found.rows_unchanged, found.rows_updated) == (2, 1, 0)
    found = iceberg.upsert(table, more.slice(0, 1).set_column(0, "id", pa.array([2])), join_cols="id")
    assert found.rows_updated == 1
    iceberg.append(table, arrow.select(["id", "v"]).set_column(0, "id", pa.array([101, 102, 105])))
    ids = {row[0]: row[1] for row in made.spark.sql(lineage.format(made.sql_name)).collect()}
    iceberg.update(table, "id = 7", {"id": 1007})
    iceberg.delete(table, "id = 8")
    empty = ("{}",) * len(NESTED)
    expected = without(rows, 7, 8) | {1007: rows[7], 2: rows[1], 100: rows[1], 500: rows[5]}
    expected |= {101: rows[1][:1] + empty, 102: rows[2][:1] + empty, 105: rows[5][:1] + empty}
    assert made.rows(*COLUMNS) == expected
    assert iceberg.rewrite_data_files(table, min_input_files=2).data_files > 2
    assert made.rows(*COLUMNS) == expected
    now = {row[0]: row[1] for row in made.spark.sql(lineage.format(made.sql_name)).collect()}
    assert now == {**{id: ids[id] for id in (2, 9)}, 1007: ids[7]}
    assert iceberg.verify(table) == []
    assert made.metadata()["schemas"] == schemas


def test_values_that_are_no_variants_are_refused(made: Made) -> None:
    table = made.create({"v": COLUMNS["v"]})
    before = table.metadata_location
    struct = pa.struct([("value", pa.binary()), ("typed_value", pa.int64()), ("metadata", pa.binary())])
    half = pa.struct([("value", pa.binary())])
    for kind in (pa.string(), pa.int64(), half, struct, pa.list_(pa.binary())):
        with pytest.raises(errors.InvalidInputError, match=r"data: .*\(v\)"):
            iceberg.append(table, pa.table({"id": [1], "v": pa.nulls(1, kind)}))
    assert made.load().metadata_location == before


def test_defaults_are_read_and_written(made: Made) -> None:
    made.create({"s": ("struct<a: int>", "named_struct('a', cast(id AS int))")})
    types, jvm = made.types(), made.spark._jvm
    defaults = {
        "w": (types.IntegerType.get(), 7),
        "t": (types.StringType.get(), "hé"),
        "dec": (types.DecimalType.of(9, 2), jvm.java.math.BigDecimal("1.25")),
        "day": (types.DateType.get(), "2020-01-02"),
        "at": (types.TimestampType.withZone(), "2020-01-02T03:04:05.000006+00:00"),
        "raw": (types.BinaryType.get(), jvm.java.nio.ByteBuffer.wrap(b"\x00\xff")),
        "f": (types.DoubleType.get(), 1.5),
        "yes": (types.BooleanType.get(), True),
    }
    for name, (kind, value) in defaults.items():
        made.add(name, kind, value)
    java = jvm.org.apache.iceberg.expressions.Expressions
    made.java().updateSchema().updateColumnDefault("w", java.lit(9)).commit()
    table, schemas = made.load(), made.metadata()["schemas"]
    names = ("s", *defaults)

    def agree() -> None:
        sql = made.spark.sql(f"SELECT id, {', '.join(names)} FROM {made.sql_name} ORDER BY id").toArrow()
        ours = iceberg.scan(table).to_arrow().sort_by("id")
        assert ours.to_pylist() == sql.to_pylist()

    agree()
    assert iceberg.scan(table, "w = 7 and t = 'hé' and day = '2020-01-02'").count() == N
    assert iceberg.scan(table, "w is null or f > 2").count() == 0
    iceberg.append(table, pa.table({"id": [100], "t": ["given"]}))
    iceberg.append(table, pa.table({"id": [101], "w": pa.nulls(1, pa.int32())}))
    agree()
    assert iceberg.collect_ndv(table, columns=["w", "t"], dry_run=True).ndv == {"w": 2, "t": 2}
    found = iceberg.scan(table, "id >= 100").to_arrow().sort_by("id")
    assert found["w"].to_pylist() == [9, None]
    assert found["t"].to_pylist() == ["given", "hé"]
    more = iceberg.scan(table, "id in (5, 100)").to_arrow().sort_by("id")
    iceberg.upsert(table, more.set_column(0, "id", pa.array([200, 5])), join_cols="id")
    iceberg.update(table, "id = 6", {"w": 60})
    iceberg.delete(table, "w = 7 and id < 4")
    iceberg.delete_keys(table, pa.table({"w": pa.array([7], pa.int32()), "id": [4]}), join_cols=["w", "id"])
    agree()
    assert iceberg.scan(table, "id in (5, 6, 7, 200)").to_arrow().sort_by("id")["w"].to_pylist() == [
        9,
        60,
        7,
        7,
    ]
    iceberg.rewrite_data_files(table, min_input_files=2)
    agree()
    assert iceberg.scan(table, "w = 7").count() == N - 6
    assert made.metadata()["schemas"] == schemas


def test_columns_of_type_unknown_are_not_stored(made: Made) -> None:
    table = made.create({"x": ("void", "null"), "k": ("int", "cast(id AS int)")}, vectorized=True)
    rows = made.rows("x", "k")
    assert iceberg.scan(table).to_arrow()["x"].null_count == N
    assert iceberg.scan(table, "x is null").count() == N
    assert iceberg.scan(table, "x is not null").count() == 0
    iceberg.append(table, pa.table({"id": [100], "x": pa.nulls(1), "k": pa.array([1], pa.int32())}))
    iceberg.append(table, pa.table({"id": [101]}))
    iceberg.upsert(table, iceberg.scan(table, "id in (5, 6)").to_arrow(), join_cols="id")
    iceberg.update(table, "id = 7", {"k": 70})
    iceberg.delete(table, "id = 8")
    expected = without(rows, 8) | {100: rows[1], 101: ("{}", "{}"), 7: (rows[7][0], '{"k":70}')}
    assert made.rows("x", "k") == expected
    iceberg.rewrite_data_files(table, min_input_files=2)
    assert made.rows("x", "k") == expected
    made.spark.sql(f"DELETE FROM {made.sql_name} WHERE id = 9")
    table.refresh()
    assert iceberg.scan(table).count() == len(expected) - 1
    with pytest.raises(errors.InvalidInputError, match=r"\(x\): expected null, found"):
        iceberg.append(table, pa.table({"id": [1], "x": [1]}))


def test_geometries_and_nanoseconds_are_carried(made: Made) -> None:
    made.create({})
    types = made.types()
    for name, kind in {
        "geo": types.GeometryType.crs84(),
        "other": types.GeometryType.of("srid:3857"),
        "geog": types.GeographyType.crs84(),
        "ns": types.TimestampNanoType.withoutZone(),
        "nsz": types.TimestampNanoType.withZone(),
        "us": types.TimestampType.withZone(),
    }.items():
        made.add(name, kind)
    table, schemas = made.load(), made.metadata()["schemas"]
    points = {name: [POINT, None] for name in ("geo", "other", "geog")}
    times = {
        "ns": pa.array([1_500_000_000_000_000_001, -1], pa.timestamp("ns")),
        "nsz": pa.array([1_500_000_000_000_000_001, None], pa.timestamp("ns", "UTC")),
        "us": pa.array([1_500_000_000_000_001, None], pa.timestamp("us", "UTC")),
    }
    iceberg.append(table, pa.table({"id": [100, 101], **points, **times}))
    iceberg.delete(table, "id < 10")
    iceberg.delete(table, "ns > '2017-07-14T02:40:00.000000002' or id = 11")
    iceberg.update(table, "ns = '2017-07-14T02:40:00.000000001'", {"us": None})
    row = {"id": [20], "geo": [POINT], **{name: pa.nulls(1) for name in ("other", "geog", *times)}}
    iceberg.upsert(table, pa.table(row), join_cols="id")
    for row_filter in ("geo = 'x'", "geog > 'x'", "geo in ('x', 'y')"):
        with pytest.raises(errors.InvalidInputError, match="geo"):
            iceberg.scan(table, row_filter)
    assert iceberg.scan(table, "geo is not null").count() == 2

    def agree() -> None:
        found = made.generic_rows()
        assert set(found) == {100, 101, *range(10, N)} - {11}
        first, moment = "2017-07-14T02:40:00.000000001", "1969-12-31T23:59:59.999999999"
        assert found[100] == (*[POINT.hex()] * 3, first, f"{first}Z", None)
        assert found[101] == (None, None, None, moment, None, None)
        assert found[20] == (POINT.hex(), None, None, None, None, None)
        assert {found[id] for id in range(21, N)} == {(None,) * 6}

    agree()
    iceberg.rewrite_data_files(table, min_input_files=2)
    agree()
    assert iceberg.verify(table) == []
    assert made.metadata()["schemas"] == schemas


CHANGES: dict[str, Callable[[Table], Any]] = {
    "nothing": lambda table: None,
    "update": lambda table: iceberg.update(table, "id = 8", {"k": 5}),
    "append": lambda table: iceberg.append(table, iceberg.scan(table, "id = 3").to_arrow()),
    "upsert": lambda table: iceberg.upsert(
        table,
        iceberg.scan(table, "id = 9").to_arrow().set_column(1, "k", pa.array([9], pa.int32())),
        "id",
    ),
    "overwrite": lambda table: iceberg.overwrite(table, iceberg.scan(table, "id < 9").to_arrow(), "id < 9"),
    "rewrite": lambda table: iceberg.rewrite_data_files(table, sort_by=["id"]),
}
"""One after the other, on a table of Spark."""


def test_duckdb_and_spark_read_the_same_variants(made: Made, duckdb_iceberg: DuckDBPyConnection) -> None:
    value = "parse_json(concat('{\"a\":', id, '}'))"
    columns = {
        "k": ("int", "1"),
        "v": ("variant", f"if(id = 4, null, {value})"),
        "s": ("struct<v: variant>", f"named_struct('v', {value})"),
        "l": ("array<variant>", f"array({value}, null)"),
        "m": ("map<string, variant>", f"map('k', {value})"),
    }
    table = made.create(columns)
    places = {"v": "v.a", "s.v": "s.v.a", "l[0]": "l[1].a", "m['k']": "m['k'].a"}
    for name, change in CHANGES.items():
        change(table)
        shown = ", ".join(f"sum(variant_get({place}, '$.a', 'int'))" for place in places)
        theirs = tuple(made.spark.sql(f"SELECT {shown} FROM {made.sql_name}").collect()[0])
        files = f"iceberg_scan('{table.refresh().metadata_location}')"
        shown = ", ".join(f"sum(({place})::int)" for place in places.values())
        assert duckdb_iceberg.sql(f"SELECT {shown} FROM {files}").fetchone() == theirs, name
        kinds = {row[0]: row[1] for row in duckdb_iceberg.sql(f"DESCRIBE SELECT * FROM {files}").fetchall()}
        assert [kinds[one] for one in "vlm"] == ["VARIANT", "VARIANT[]", "MAP(VARCHAR, VARIANT)"], name
        assert theirs[0] == sum(range(N)) - 4 + 3 * (name not in ("nothing", "update")), name


@pytest.fixture
def geospatial(iceberg_spark: SparkSession) -> Iterator[None]:
    iceberg_spark.conf.set("spark.sql.geospatial.enabled", "true")
    yield
    iceberg_spark.conf.unset("spark.sql.geospatial.enabled")


@pytest.mark.usefixtures("geospatial")
@pytest.mark.parametrize("with_geography", [False, True], ids=["geometry", "geography"])
def test_geometries_of_spark_stay_readable(
    made: Made, duckdb_iceberg: DuckDBPyConnection, with_geography: bool
) -> None:
    """DuckDB reads no table with a geography, whatever wrote it."""
    point = f"st_setsrid(st_geomfromwkb(X'{POINT.hex()}'), 4326)"
    columns = {
        "k": ("int", "1"),
        "p": ("geometry(4326)", f"if(id = 4, null, {point})"),
        "q": ("geometry(3857)", f"st_setsrid(st_geomfromwkb(X'{POINT.hex()}'), 3857)"),
        "s": ("struct<p: geometry(4326)>", f"named_struct('p', {point})"),
        "l": ("array<geometry(4326)>", f"array({point}, null)"),
    }
    if with_geography:
        columns = {"k": columns["k"], "g": ("geography(4326)", f"st_geogfromwkb(X'{POINT.hex()}')")}
    table, one = made.create(columns), "g" if with_geography else "p"
    for name, change in CHANGES.items():
        change(table)
        made.spark.sql(f"REFRESH TABLE {made.sql_name}")
        more = name not in ("nothing", "update")
        found = made.spark.sql(f"SELECT *, hex(st_asbinary({one})) AS shown FROM {made.sql_name}").collect()
        assert len(found) == N + more, name
        assert {row["shown"] for row in found} == (
            {POINT.hex().upper()} if with_geography else {POINT.hex().upper(), None}
        )
        metrics = made.spark.sql(
            f"SELECT readable_metrics.{one}.*, record_count FROM {made.sql_name}.files WHERE content = 0"
        ).collect()
        assert [row["value_count"] for row in metrics] == [row["record_count"] for row in metrics], name
        assert {(row["lower_bound"], row["upper_bound"]) for row in metrics} == {(None, None)}, name
        assert iceberg.verify(table) == []
        if not with_geography:
            files = f"iceberg_scan('{table.refresh().metadata_location}')"
            rows = duckdb_iceberg.sql(f"SELECT * FROM {files}").fetchall()
            assert len(rows) == N + more, name
            assert {row[2] for row in rows} == {POINT, None}, name
