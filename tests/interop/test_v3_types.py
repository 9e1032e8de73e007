"""Tables with version 3's types that Spark made: it reads them row for row after each of this package's verbs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import errors, iceberg

if TYPE_CHECKING:
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


class Made:
    """A table that Spark made, and loads again for each question."""

    def __init__(self, spark: SparkSession, catalog: SqlCatalog, name: str) -> None:
        self.spark, self.catalog, self.name = spark, catalog, name
        self.sql_name = f"{catalog.name}.{name}"

    def create(self, columns: dict[str, tuple[str, str]], *, properties: str = "", spec: str = "") -> Table:
        """Creates the table with two data files of `N` rows in total, and loads it."""
        kinds = "".join(f", {column} {kind}" for column, (kind, _) in columns.items())
        self.spark.sql(
            f"CREATE TABLE {self.sql_name} (id bigint NOT NULL{kinds}) USING iceberg {spec} TBLPROPERTIES "
            f"('format-version' = '3', 'write.delete.mode' = 'merge-on-read', "
            f"'read.parquet.vectorization.enabled' = 'false'{properties})"
        )
        values = "".join(f", {value} AS {column}" for column, (_, value) in columns.items())
        for start in (0, N // 2):
            rows = f"SELECT id{values} FROM range({start}, {start + N // 2}, 1, 1)"
            self.spark.sql(f"INSERT INTO {self.sql_name} {rows}")
        return self.load()

    def load(self) -> Table:
        return iceberg.load_table(self.catalog, self.name)

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
    iceberg.delete_keys(table, pa.table({"id": [4]}), on=["id"])
    place = iceberg.scan(table, "id = 7", selected_fields=["_file", "_pos"]).to_arrow()
    iceberg.delete_positions(table, place.rename_columns(["file_path", "pos"]))
    assert made.rows(*COLUMNS) == without(rows, 3, 4, 7, 40)
    iceberg.compact(table)
    assert made.rows(*COLUMNS) == without(rows, 3, 4, 7, 40)
    made.spark.sql(f"DELETE FROM {made.sql_name} WHERE variant_get(v, '$.a', 'int') = 11")
    table.refresh()
    left = without(rows, 3, 4, 7, 11, 40)
    assert ours(table, "v") == {id: row[:1] for id, row in made_json(left).items()}
    assert iceberg.verify(table) == []
    assert made.metadata()["schemas"] == schemas


def test_filters_on_variants_are_refused(made: Made) -> None:
    table = made.create(COLUMNS)
    before = table.metadata_location
    for row_filter in ("v is null", "v = 3", "s.v is not null", pa.compute.field("v").is_null()):
        with pytest.raises(errors.UnsupportedError, match=r"not supported on (v|s\.v), a variant"):
            iceberg.delete(table, row_filter)
    with pytest.raises(errors.InvalidInputError, match="v is a variant"):
        iceberg.delete_keys(table, pa.table({"v": [1]}), on=["v"])
    assert made.load().metadata_location == before


def test_shredded_variants_are_carried_but_not_read(made: Made) -> None:
    columns = {"v": ("variant", """parse_json(concat('{"a":', id, ',"b":"x"}'))""")}
    table = made.create(columns, properties=", 'write.parquet.shred-variants' = 'true'")
    rows = made.rows("v")
    iceberg.delete(table, "id < 5")
    iceberg.delete_keys(table, pa.table({"id": [50]}), on=["id"])
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
