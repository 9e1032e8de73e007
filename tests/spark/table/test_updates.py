"""Updates on executors give the rows, lineage and counts of the single machine, and those of Spark's UPDATE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from tests.iceberg.conftest import rows_of
from tests.iceberg.dml.example_rows import SCHEMA, check, made
from tests.kit.rows import by_pyiceberg
from tests.kit.tables import files_of
from tests.spark.results import facts, lineage
from tests.spark.table.delete_files import copy_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark


def text_of(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


@pytest.mark.parametrize(("version", "spec"), [(2, ()), (3, ("g",))], ids=["flat-2", "partitioned-3"])
def test_the_rows_and_lineage_of_the_single_machine(
    spark: SparkSession,
    racing: RacingCatalog,
    duckdb_iceberg: DuckDBPyConnection,
    version: int,
    spec: tuple[str, ...],
) -> None:
    from pyspark.sql import functions as f

    table = made(racing, "n", version=version, spec=spec)
    iceberg.delete(table, "id = 17 or id = 40")
    single = copy_of(racing, table)
    for filter, values, same in (
        (
            "id >= 15 and id < 25",
            {"g": "new", "x": pc.field("x") * 2 + pc.field("id")},
            None,
        ),
        ("g = 'new'", {"g": None, "tags": ["t", None], "s": {"a": 1, "b": None}}, None),
        (
            "id > 50",
            {"x": f.col("x") + f.col("id") * 1.5, "g": f.concat("g", f.lit("!"))},
            {
                "x": pc.field("x") + pc.field("id") * 1.5,
                "g": pc.binary_join_element_wise(pc.field("g"), text_of("!"), text_of("")),
            },
        ),
        (
            f.col("id").isin(1, 2, 59),
            {"g": f.upper("g"), "x": None},
            {"g": pc.utf8_upper(pc.field("g")), "x": None},
        ),
        ("pmod(id, 2) = 0 and id < 20", {"x": 0.5}, None),
    ):
        expected_filter = {"pmod(id, 2) = 0 and id < 20": "id in (0, 2, 4, 6, 8, 10, 12, 14, 16, 18)"}.get(
            filter if isinstance(filter, str) else "",
            filter if isinstance(filter, str) else "id in (1, 2, 59)",
        )
        planned = ps.update(spark, table, filter, values, dry_run=True)
        found = ps.update(spark, table, filter, values)
        expected = iceberg.update(single, expected_filter, same or values)
        written = (
            "data_files_written",
            "vectors_written",
            "position_delete_files_written",
        )  # depend on the number of tasks
        assert facts(found, *written) == facts(expected, *written)
        assert planned.rows_updated == found.rows_updated
        assert lineage(table) == lineage(single)
        assert iceberg.verify(table) == []
    check(table, duckdb_iceberg, by_pyiceberg(single))


@pytest.mark.jar
@pytest.mark.parametrize("version", [2, 3])
def test_the_rows_and_lineage_of_sparks_update(
    shared_catalog: SqlCatalog, namespace: str, iceberg_spark: SparkSession, version: int
) -> None:
    from pyspark.sql import functions as f

    tables = {}
    for who in ("ours", "theirs"):
        shared_catalog.create_namespace(f"{namespace}_{who}")
        tables[who] = made(shared_catalog, f"{namespace}_{who}", version=version, spec=("g",))
        with v3_metadata(shared_catalog):
            tables[who].transaction().set_properties(
                {"write.update.mode": "merge-on-read", "write.delete.mode": "merge-on-read"}
            ).commit_transaction()
    names = {who: f"{shared_catalog.name}.{namespace}_{who}.t" for who in tables}

    def agree() -> None:
        found = []
        for who, table in tables.items():
            table.refresh()
            more = ", _row_id, _last_updated_sequence_number" if version == 3 else ""
            rows = iceberg_spark.sql(f"SELECT *{more} FROM {names[who]} ORDER BY id").toArrow()
            found.append(rows.to_pylist())
            assert by_pyiceberg(table) == rows.select(SCHEMA.names).to_pylist()
        assert found[0] == found[1]

    ps.update(iceberg_spark, tables["ours"], "id < 10", {"x": pc.field("x") + 1, "g": "moved"})
    iceberg_spark.sql(f"UPDATE {names['theirs']} SET x = x + 1, g = 'moved' WHERE id < 10")
    agree()
    ps.update(
        iceberg_spark,
        tables["ours"],
        "id % 3 = 0",
        {"x": f.expr("sqrt(x)"), "tags": f.array(f.col("g")), "s": None},
    )
    iceberg_spark.sql(f"UPDATE {names['theirs']} SET x = sqrt(x), tags = array(g), s = NULL WHERE id % 3 = 0")
    agree()
    for name in names.values():  # Spark goes on in both
        iceberg_spark.sql(f"UPDATE {name} SET x = 0 WHERE id >= 5 AND id < 15")
        iceberg_spark.sql(f"DELETE FROM {name} WHERE id IN (7, 50)")
    agree()


def test_refusals_leave_table_and_files_as_they_were(spark: SparkSession, racing: RacingCatalog) -> None:
    from pyspark.sql import functions as f

    table = made(racing, "n")
    before, files = table.metadata_location, files_of(table)
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        ("id < 5", {}, InvalidInputError, "at least one column"),
        ("id < 5", {"nobody": 1}, NotFoundError, "nobody"),
        ("id < 5", {"x": "text"}, InvalidInputError, r"\(x\)"),
        ("id < 5", {"x": f.col("g")}, InvalidInputError, r"\(x\)"),
        ("id < 5", {"x": f.col("nobody")}, InvalidInputError, "nobody"),
        ("nobody < 5", {"x": 1.0}, InvalidInputError, "nobody"),
        ("id < 5", {"id": f.lit(1.5)}, InvalidInputError, "column id"),
    ]
    for filter, values, error, text in cases:
        with pytest.raises(error, match=text):
            ps.update(spark, table, filter, values)
    assert ps.update(spark, table, "id > 1000", {"x": 1.0}).commit.id is None
    assert ps.update(spark, table, "x = 0.0625", {"tags": ["t"]}).commit.id is None
    assert ps.update(spark, table, "id + 0 > 1000", {"x": f.lit(1.0)}).commit.id is None
    assert (table.refresh().metadata_location, files_of(table)) == (before, files)
    empty = iceberg.create_table(racing, "n.empty", SCHEMA)
    assert ps.update(spark, empty, "id > 1", {"x": f.lit(1.0)}).commit.id is None


def test_columns_of_every_kind_are_carried_through(spark: SparkSession, racing: RacingCatalog) -> None:
    """Spark has no type for some of them; only the columns that are set pass through Spark."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import FixedType, LongType, NestedField, TimestampNanoType, TimeType, UUIDType
    from pyspark.sql import functions as f

    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "u", UUIDType()),
        NestedField(3, "t", TimeType()),
        NestedField(4, "n", TimestampNanoType()),
        NestedField(5, "b", FixedType(3)),
    )
    table = iceberg.create_table(racing, "n.t", schema)
    given = {
        "id": pa.array([1, 2, 3], pa.int64()),
        "u": pa.array([bytes([i]) * 16 for i in range(3)], pa.uuid()),
        "t": pa.array([1, 2, 3], pa.time64("us")),
        "n": pa.array([1, 2, 3], pa.timestamp("ns")),
        "b": pa.array([b"abc", b"def", None], pa.binary(3)),
    }
    iceberg.append(table, pa.table(given))
    before = iceberg.scan(table).to_arrow().sort_by("id")
    assert ps.update(spark, table, "id >= 2", {"b": f.unhex(f.lit("787878"))}).rows_updated == 2
    after = iceberg.scan(table).to_arrow().sort_by("id")
    assert after["b"].to_pylist() == [b"abc", b"xxx", b"xxx"]
    assert after.drop(["b"]) == before.drop(["b"])
    assert after["n"].cast(pa.int64()).to_pylist() == [1, 2, 3]


def test_a_column_with_the_name_of_a_place_is_not_taken_for_one(
    spark: SparkSession, racing: RacingCatalog
) -> None:
    """Before, the values of the column were deleted as positions."""
    from pyspark.sql import functions as f

    schema = pa.schema([("id", pa.int64()), ("_pos", pa.int64())])
    with v3_metadata(racing):  # `create_table` refuses this name
        table = racing.create_table("n.t", schema, properties={"format-version": "3"})
    iceberg.append(table, pa.table({"id": [1, 2, 3], "_pos": [2, 0, 0]}))
    for job in (
        lambda: ps.delete(spark, table, f.col("id") * 1 == 1),
        lambda: ps.update(spark, table, "id = 1", {"id": f.lit(5)}),
    ):
        with pytest.raises(UnsupportedError, match="column _pos"):
            job()
    assert ps.update(spark, table, "id = 1", {"id": 5}).rows_updated == 1
    assert ps.delete(spark, table, "id = 5").rows_deleted == 1
    assert sorted(rows_of(table)["id"].to_pylist()) == [2, 3]
