"""Scans of tables that Spark with Iceberg's runtime wrote return the same rows as Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast.errors import UnsupportedError
from puffin_fast.iceberg import delete, plan_files, scan, upsert

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jar]

MERGE_ON_READ = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', "
    "'write.merge.mode'='merge-on-read'"
)

EVERY_TYPE = """
    SELECT id, CAST(id AS INT) AS i, CAST(id AS BIGINT) * 1000000007 AS l, CAST(id / 3 AS FLOAT) AS f,
      CASE WHEN id % 7 = 0 THEN CAST('NaN' AS DOUBLE) ELSE id / 7 END AS d, id % 2 = 0 AS b,
      CASE WHEN id % 5 = 0 THEN NULL ELSE concat('name-', id) END AS s,
      CAST(concat('b', id) AS BINARY) AS bin, date_add(DATE'2020-01-01', CAST(id AS INT)) AS dt,
      timestamp_seconds(id * 3600) AS ts, CAST(timestamp_seconds(id * 60) AS TIMESTAMP_NTZ) AS tn,
      CAST(id / 4 AS DECIMAL(9,2)) AS d9, CAST(id * 12345678901 / 7 AS DECIMAL(30,4)) AS d30,
      CASE WHEN id % 4 = 0 THEN NULL ELSE named_struct('a', CAST(id AS INT), 'b', concat('x', id)) END AS st,
      CASE WHEN id % 3 = 0 THEN NULL ELSE array(id, NULL, id + 1) END AS li,
      CASE WHEN id % 6 = 0 THEN NULL
        ELSE array(named_struct('p', id, 'q', CAST(id AS INT)), NULL) END AS ls,
      CASE WHEN id % 9 = 0 THEN NULL
        ELSE map(concat('k', id), named_struct('v', CAST(id AS INT))) END AS m
    FROM range(0, {n}, 1, 2)
"""


@pytest.fixture
def run(iceberg_spark: SparkSession) -> Callable[[str], Any]:
    """Runs SQL statements, separated by semicolons."""

    def run(text: str) -> Any:
        for statement in filter(str.strip, text.split(";")):
            result = iceberg_spark.sql(statement)
        return result

    return run


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


def agree(table: Any, answer: Any, *arguments: Any, **named: Any) -> pa.Table:
    """Returns our result after checking that it equals Spark's."""
    ours = scan(table, *arguments, **named).to_arrow()
    ours.validate(full=True)
    expected = answer if isinstance(answer, pa.Table) else answer.toArrow()
    assert ours.schema.names == expected.schema.names
    fields = zip(expected.schema, ours.schema, strict=True)
    plain = [
        pa.field(
            theirs.name,
            theirs.type if pa.types.is_nested(mine.type) or pa.types.is_dictionary(mine.type) else mine.type,
        )
        for theirs, mine in fields
    ]
    expected = expected.cast(pa.schema(plain))
    assert sorted_rows(ours) == sorted_rows(expected)
    return ours


def agree_where(table: Any, run: Callable[[str], Any], name: str, filters: dict[str, str]) -> None:
    """All rows, and those of each filter: our text, and Spark's, which one query computes for each row."""
    columns = "".join(f", {sql} AS `filter {at}`" for at, sql in enumerate(filters.values()))
    found = run(f"SELECT *{columns} FROM {name}").toArrow()
    rows = found.select(found.column_names[: -len(filters)])
    agree(table, rows)
    for at, filter in enumerate(filters):
        agree(table, rows.filter(found[f"filter {at}"]), filter)


@pytest.mark.parametrize(
    ("version", "partition"),
    [
        (1, "PARTITIONED BY (truncate(2, s), dt)"),
        (2, ""),
        (2, "PARTITIONED BY (b, bucket(3, s), months(ts))"),
        (3, "PARTITIONED BY (truncate(2, s), d9)"),
        (3, "PARTITIONED BY (d, dt)"),
    ],
)
def test_every_type_and_partitioning_is_read_as_spark_reads_it(
    run: Callable[[str], Any], shared_catalog: SqlCatalog, namespace: str, version: int, partition: str
) -> None:
    name = f"shared.{namespace}.t"
    run(
        f"CREATE TABLE {name} USING iceberg {partition} "
        f"TBLPROPERTIES ('format-version'='{version}', {MERGE_ON_READ}) AS {EVERY_TYPE.format(n=60)}"
    )
    if version > 1:
        run(f"DELETE FROM {name} WHERE id % 3 = 1; UPDATE {name} SET s = 'changed' WHERE id % 10 = 0")
    table = shared_catalog.load_table(f"{namespace}.t")
    filters = {text: text for text in ("b = true", "s = 'changed'", "d9 > 4.50", "id in (3, 4, 12)")}
    filters["ts < '1970-01-02T00:00:00+00:00'"] = "ts < TIMESTAMP'1970-01-02 00:00:00 UTC'"
    agree_where(table, run, name, filters)
    nested = run(f"SELECT id, named_struct('b', st.b) AS st FROM {name} WHERE st.b IS NOT NULL")
    agree(table, nested, "st.b is not null", ("id", "st.b"))
    plan = plan_files(table)
    if version == 3:
        assert any(task.vector for task in plan.tasks)
    if version == 2:
        assert any(task.position_deletes for task in plan.tasks)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("format", ["orc", "avro"])
def test_data_and_delete_files_in_orc_and_avro_are_read_as_spark_reads_them(
    run: Callable[[str], Any], shared_catalog: SqlCatalog, namespace: str, version: int, format: str
) -> None:
    name = f"shared.{namespace}.t"
    run(
        f"CREATE TABLE {name} USING iceberg PARTITIONED BY (b) TBLPROPERTIES ('format-version'='{version}', "
        f"'write.format.default'='{format}', 'write.delete.format.default'='{format}', {MERGE_ON_READ}) "
        f"AS {EVERY_TYPE.format(n=600)};"
        f"DELETE FROM {name} WHERE id % 3 = 1; UPDATE {name} SET s = 'changed' WHERE id % 10 = 0"
    )
    table = shared_catalog.load_table(f"{namespace}.t")
    assert {task.data.file_format for task in plan_files(table).tasks} == {format.upper()}
    agree_where(table, run, name, {"s = 'changed'": "s = 'changed'"})
    agree(table, run(f"SELECT id, _file, _pos FROM {name}"), selected_fields=("id", "_file", "_pos"))
    if version == 3:
        lineage = ("id", "_row_id", "_last_updated_sequence_number")
        agree(table, run(f"SELECT {', '.join(lineage)} FROM {name}"), selected_fields=lineage)
    delete(table, "id in (5, 6, 300)")
    with pytest.raises(UnsupportedError, match=f"write.format.default={format}; expected parquet"):
        upsert(table, scan(table, "id in (8, 9)").to_arrow(), "id", skip_unchanged=False)
    run(f"REFRESH TABLE {name}")
    agree(table, run(f"SELECT * FROM {name}"))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_metadata_columns_agree_with_spark(
    run: Callable[[str], Any], shared_catalog: SqlCatalog, namespace: str, version: int, granularity: str
) -> None:
    name = f"shared.{namespace}.t"
    run(
        f"CREATE TABLE {name} (id BIGINT, k INT) USING iceberg PARTITIONED BY (bucket(2, k)) "
        f"TBLPROPERTIES ('format-version'='{version}', 'write.delete.granularity'='{granularity}', {MERGE_ON_READ});"
        f"INSERT INTO {name} SELECT id, id % 10 FROM range(0, 1000, 1, 3);"
        f"INSERT INTO {name} SELECT id, id % 10 FROM range(1000, 1500, 1, 2);"
        f"DELETE FROM {name} WHERE id % 4 = 0;"
        f"UPDATE {name} SET k = k + 1 WHERE id % 10 = 3;"
        f"DELETE FROM {name} WHERE id % 7 = 0;"
        f"MERGE INTO {name} t USING (SELECT * FROM range(1490, 1510)) u ON t.id = u.id "
        "WHEN MATCHED THEN UPDATE SET k = 99 WHEN NOT MATCHED THEN INSERT (id, k) VALUES (u.id, 5)"
    )
    table = shared_catalog.load_table(f"{namespace}.t")
    agree(table, run(f"SELECT id, k, _file, _pos FROM {name}"), selected_fields=("id", "k", "_file", "_pos"))
    agree(table, run(f"SELECT k, _pos FROM {name} WHERE id > 700"), "id > 700", ("k", "_pos"))
    if version == 3:
        lineage = ("id", "_row_id", "_last_updated_sequence_number")
        answer = f"SELECT {', '.join(lineage)} FROM {name}"
        ours = agree(table, run(answer), selected_fields=lineage)
        assert ours["_row_id"].null_count == 0
        run(
            f"CALL shared.system.rewrite_data_files(table => '{namespace}.t', options => map('rewrite-all', 'true'))"
        )
        table.refresh()
        again = agree(table, run(answer), selected_fields=lineage)
        assert sorted_rows(again) == sorted_rows(ours)


@pytest.mark.parametrize("version", [2, 3])
def test_an_evolved_schema_is_read_by_field_ids(
    run: Callable[[str], Any], shared_catalog: SqlCatalog, namespace: str, version: int
) -> None:
    name = f"shared.{namespace}.t"
    run(
        f"CREATE TABLE {name} USING iceberg PARTITIONED BY (bucket(2, id)) "
        f"TBLPROPERTIES ('format-version'='{version}', {MERGE_ON_READ}) AS {EVERY_TYPE.format(n=50)};"
        f"DELETE FROM {name} WHERE id % 5 = 2;"
        f"ALTER TABLE {name} RENAME COLUMN s TO was_s; ALTER TABLE {name} ALTER COLUMN i TYPE BIGINT;"
        f"ALTER TABLE {name} ALTER COLUMN f TYPE DOUBLE; ALTER TABLE {name} ALTER COLUMN d30 TYPE DECIMAL(38,4);"
        f"ALTER TABLE {name} DROP COLUMN b; ALTER TABLE {name} ADD COLUMN b STRING;"
        f"ALTER TABLE {name} ADD COLUMN st.c DOUBLE; ALTER TABLE {name} RENAME COLUMN st.a TO z;"
        f"ALTER TABLE {name} DROP COLUMN st.b; ALTER TABLE {name} ALTER COLUMN st.z TYPE BIGINT;"
        f"ALTER TABLE {name} ADD COLUMN ls.element.r STRING; ALTER TABLE {name} DROP COLUMN ls.element.p;"
        f"ALTER TABLE {name} ADD COLUMN m.value.w INT; ALTER TABLE {name} RENAME COLUMN m.value.v TO vv;"
        f"ALTER TABLE {name} ALTER COLUMN l FIRST"
    )
    table = shared_catalog.load_table(f"{namespace}.t")
    agree(table, run(f"SELECT * FROM {name}"))
    run(f"INSERT INTO {name} SELECT * FROM {name} WHERE id < 20; DELETE FROM {name} WHERE id % 7 = 3")
    table.refresh()
    filters = "was_s = 'name-11'", "i > 30", "b is null and f < 5", "st.z > 20", "st.c is null and id > 40"
    agree_where(table, run, name, {filter: filter for filter in filters})


@pytest.mark.parametrize("version", [1, 2, 3])
def test_partition_evolution_keeps_deletes_with_their_files(
    run: Callable[[str], Any], shared_catalog: SqlCatalog, namespace: str, version: int
) -> None:
    name = f"shared.{namespace}.t"
    delete = (lambda where: f"DELETE FROM {name} WHERE {where};") if version > 1 else (lambda where: "")
    run(
        f"CREATE TABLE {name} (id BIGINT, k INT, s STRING) USING iceberg PARTITIONED BY (k) "
        f"TBLPROPERTIES ('format-version'='{version}', {MERGE_ON_READ});"
        f"INSERT INTO {name} SELECT id, id % 3, concat('s', id % 5) FROM range(0, 90, 1, 1);"
        + delete("id % 10 = 1")
        + f"ALTER TABLE {name} REPLACE PARTITION FIELD k WITH bucket(2, id);"
        f"INSERT INTO {name} SELECT id, id % 3, concat('s', id % 5) FROM range(90, 150, 1, 1);"
        + delete("id % 10 = 2")
        + f"ALTER TABLE {name} DROP PARTITION FIELD bucket(2, id);"
        f"INSERT INTO {name} SELECT id, id % 3, concat('s', id % 5) FROM range(150, 200, 1, 1);"
        + delete("id % 10 = 3")
        + f"ALTER TABLE {name} ADD PARTITION FIELD s;"
        f"INSERT INTO {name} SELECT id, id % 3, concat('s', id % 5) FROM range(200, 240, 1, 1);"
        + delete("id % 10 = 4 AND s = 's4'")
    )
    table = shared_catalog.load_table(f"{namespace}.t")
    filters = "s = 's4'", "id >= 100 and id <= 160"
    agree_where(table, run, name, {filter: filter for filter in filters})


def test_snapshots_branches_and_tags_are_read_as_they_were(
    run: Callable[[str], Any], shared_catalog: SqlCatalog, namespace: str
) -> None:
    name = f"shared.{namespace}.t"
    run(
        f"CREATE TABLE {name} (id BIGINT, k INT) USING iceberg "
        f"TBLPROPERTIES ('format-version'='3', {MERGE_ON_READ});"
        f"INSERT INTO {name} SELECT id, id % 10 FROM range(100);"
        f"ALTER TABLE {name} CREATE TAG first; ALTER TABLE {name} CREATE BRANCH side;"
        f"DELETE FROM {name} WHERE k = 3; DELETE FROM {name}.branch_side WHERE k = 4;"
        f"ALTER TABLE {name} RENAME COLUMN k TO kk; ALTER TABLE {name} ADD COLUMN n INT;"
        f"DELETE FROM {name} WHERE kk = 5"
    )
    table = shared_catalog.load_table(f"{namespace}.t")
    agree(table, run(f"SELECT * FROM {name}"))
    agree(table, run(f"SELECT * FROM {name} VERSION AS OF 'first'"), tag="first")
    agree(table, run(f"SELECT * FROM {name}.branch_side"), branch="side")
    agree(
        table,
        run(f"SELECT * FROM {name}.branch_side WHERE id < 50"),
        "n is null and id < 50",
        branch="side",
    )
    for snapshot in table.metadata.snapshots:
        answer = run(f"SELECT * FROM {name} VERSION AS OF {snapshot.snapshot_id}")
        agree(table, answer, snapshot_id=snapshot.snapshot_id)
    entry = table.metadata.snapshot_log[1]
    agree(
        table,
        run(f"SELECT * FROM {name} VERSION AS OF {entry.snapshot_id}"),
        as_of=entry.timestamp_ms,
    )
