"""Appends and overwrites of DataFrames by executors give the rows of the single machine, in files as the table says."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import IdentityTransform

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import ConflictError, InvalidInputError, NotFoundError
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from tests.kit.tables import files_of, path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark
DAY = datetime.date(2024, 1, 15)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("g", pa.string()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("price", pa.decimal128(20, 2)),
        ("s", pa.struct([("a", pa.int32())])),
    ]
)


def rows(first: int, n: int) -> pa.Table:
    random_ = random.Random(first)
    numbers = range(first, first + n)
    return pa.table(
        {
            "id": numbers,
            "g": [random_.choice([None, "a", "b", "ü"]) for _ in numbers],
            "day": [random_.choice([None, DAY, DAY + datetime.timedelta(40)]) for _ in numbers],
            "ts": [
                datetime.datetime(2024, 1, 14) + datetime.timedelta(hours=random_.randrange(48))
                for _ in numbers
            ],
            "price": [Decimal(random_.randrange(-(10**17), 10**17)).scaleb(-2) for _ in numbers],
            "s": [random_.choice([None, {"a": 1}]) for _ in numbers],
        },
        SCHEMA,
    )


def frame(spark: SparkSession, data: pa.Table, tasks: int = 3) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(data.schema, prefer_timestamp_ntz=True)
    return spark.createDataFrame(data, schema).repartition(tasks)


def stored(table: Table) -> list[dict[str, Any]]:
    return iceberg.scan(table).to_arrow().sort_by("id").to_pylist()


SPECS: dict[str, Sequence[str]] = {
    "flat": (),
    "identity": ("g",),
    "several": ("bucket[3](id)", "month(day)"),
    "decimals": ("truncate[1000](price)", "day(ts)"),
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_appends_are_those_of_the_single_machine(
    spark: SparkSession, racing: RacingCatalog, spec: Sequence[str]
) -> None:
    ours, single = (
        iceberg.create_table(racing, f"n.{name}", SCHEMA, partition_spec=spec) for name in ("ours", "single")
    )
    for first, n in ((0, 60), (60, 1)):
        data = rows(first, n)
        committed = ps.append(frame(spark, data.select(data.column_names[::-1])), ours)
        iceberg.append(single, data)
        assert committed is not None
        assert committed.commit.id == ours.metadata.current_snapshot_id
        assert stored(ours) == stored(single)
    for table in (ours, single):
        table.refresh()
    partitions = [{task.file.partition for task in table.scan().plan_files()} for table in (ours, single)]
    assert partitions[0] == partitions[1]
    first = ours.metadata.snapshots[0]
    summary: Any = first.summary
    if spec and spec != SPECS["decimals"]:
        assert int(summary["added-data-files"]) == len(  # one task writes a partition
            {task.file.partition for task in ours.scan(snapshot_id=first.snapshot_id).plan_files()}
        )
    assert iceberg.verify(ours, level="rows") == []
    lineage = iceberg.scan(ours, selected_fields=["_row_id"]).to_arrow()["_row_id"].to_pylist()
    assert sorted(lineage) == list(range(61))


@pytest.mark.parametrize("spec", [(), ("g",)], ids=["flat", "partitioned"])
def test_rows_of_a_data_file_are_in_the_order_of_the_table(
    spec: Sequence[str], spark: SparkSession, racing: RacingCatalog
) -> None:
    """Whichever verb writes them, rewrites too."""
    table = iceberg.create_table(racing, "n.t", SCHEMA, partition_spec=spec)
    with v3_metadata(racing), table.update_sort_order() as update:
        update.desc("price", IdentityTransform())
    updated = frame(spark, rows(10, 30))
    for write in (
        lambda: ps.append(frame(spark, rows(0, 50)), table),
        lambda: ps.overwrite(frame(spark, rows(50, 30)), table, "id < 5"),
        lambda: ps.upsert(updated, table, "id"),
        lambda: ps.update(spark, table, "id > 20", {"s": None}),
        lambda: ps.rewrite_data_files(spark, table, min_input_files=2),
    ):
        write()
        for entry in (task.data for task in iceberg.plan_files(table).tasks):
            assert entry.sort_order_id == table.sort_order().order_id
            prices = pq.read_table(path_of(entry.file_path))["price"].to_pylist()
            assert prices == sorted(prices, reverse=True)
    assert iceberg.verify(table, level="rows") == []


def test_columns_that_are_missing_are_null(spark: SparkSession, racing: RacingCatalog) -> None:
    for name, spec in (("flat", ()), ("partitioned", ("g", "day(day)"))):
        table = iceberg.create_table(racing, f"n.{name}", SCHEMA, partition_spec=spec)
        ps.append(frame(spark, rows(0, 4).select(["id", "price"])), table)
        assert [(row["id"], row["g"], row["day"]) for row in stored(table)] == [
            (n, None, None) for n in range(4)
        ]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda df: df.drop("id"), InvalidInputError, "id"),
        (lambda df: df.withColumnRenamed("g", "nope"), InvalidInputError, "nope"),
        (lambda df: df.selectExpr("id", "id AS g"), InvalidInputError, "g"),
        (lambda df: df.selectExpr("nullif(id, 3) AS id", "g"), InvalidInputError, "id is required"),
        (lambda df: df.selectExpr("id", "cast(price * 10 as decimal(22, 3)) AS price"), InvalidInputError, "price"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit_are_refused_and_leave_nothing(
    spark: SparkSession, racing: RacingCatalog, change: Any, error: type[Exception], message: str
) -> None:
    table = iceberg.create_table(racing, "n.t", SCHEMA, partition_spec=["g"])
    before = files_of(table)
    wrong = change(
        frame(spark, rows(0, 9).set_column(4, "price", pa.array([Decimal("1.25")] * 9, pa.decimal128(20, 2))))
    )
    if message == "price":
        wrong = wrong.withColumn("price", wrong.price + Decimal("0.001"))
    for job in (ps.append, ps.overwrite):
        with pytest.raises(error, match=message):
            job(wrong, table)
    assert files_of(table) == before
    with pytest.raises(NotFoundError, match="nope"):
        ps.append(frame(spark, rows(0, 1)), table, branch="nope")


@pytest.mark.parametrize("spec", [(), ("g",)], ids=["flat", "partitioned"])
def test_overwrites_are_those_of_the_single_machine(
    spark: SparkSession, racing: RacingCatalog, spec: Sequence[str]
) -> None:
    from pyspark.sql import functions as f

    ours, single = (
        iceberg.create_table(racing, f"n.{name}", SCHEMA, partition_spec=spec) for name in ("ours", "single")
    )
    for table in (ours, single):
        for first in (0, 30):
            iceberg.append(table, rows(first, 30))
    for given, same, data in (
        ("id % 5 = 1 or g = 'a'", "id % 5 = 1 or g = 'a'", rows(100, 4)),
        (f.col("id") < 20, "id < 20", rows(200, 2)),
        ("id > 10000", "id > 10000", rows(300, 1)),
        (None, "true", rows(400, 7)),
    ):
        filters = () if given is None else (given,)
        planned = ps.overwrite(frame(spark, data), ours, *filters, dry_run=True)
        found = ps.overwrite(frame(spark, data), ours, *filters)
        expected = iceberg.overwrite(single, data, same)
        counts = [(result.rows_deleted, result.rows_appended) for result in (planned, found, expected)]
        assert counts[0] == counts[1] == counts[2]
        assert stored(ours) == stored(single)
    with pytest.raises(InvalidInputError, match="Spark would have to evaluate it"):
        ps.overwrite(frame(spark, rows(0, 1)), ours, "pmod(id, 2) = 1")
    assert iceberg.verify(ours) == []


def test_a_dataframe_may_read_the_table_that_it_overwrites(
    spark: SparkSession, racing: RacingCatalog
) -> None:
    table = iceberg.create_table(racing, "n.t", SCHEMA)
    iceberg.append(table, rows(0, 20))
    before = stored(table)
    renamed = ps.scan(spark, table, "id < 10").selectExpr("id", "'new' AS g", "day", "ts", "price", "s")
    assert ps.overwrite(renamed, table, "id < 10").rows_appended == 10
    assert stored(table) == [{**row, "g": "new"} if row["id"] < 10 else row for row in before]


def test_another_commit_does_not_compute_the_rows_again(spark: SparkSession, racing: RacingCatalog) -> None:
    from pyspark.sql import functions as f

    table = iceberg.create_table(racing, "n.t", SCHEMA)
    iceberg.append(table, rows(0, 10))
    counted = spark.sparkContext.accumulator(0) if hasattr(spark, "_jsc") else None

    def seen(batches: Any) -> Any:
        for batch in batches:
            if counted is not None:
                counted.add(batch.num_rows)
            yield batch

    data = frame(spark, rows(50, 5)).mapInArrow(seen, frame(spark, rows(50, 5)).schema)
    racing.before = [lambda: iceberg.append(racing.load_table("n.t"), rows(20, 1))]
    assert ps.append(data, table) is not None
    racing.before = [lambda: iceberg.delete(racing.load_table("n.t"), "id = 3")]
    result = ps.overwrite(data, table, f.col("id") < 5, on_conflict="merge")
    assert (result.rows_deleted, result.rows_appended, result.commit.attempts) == (4, 5, 2)
    assert counted is None or counted.value == 10
    assert [row["id"] for row in stored(table)] == [*range(5, 10), 20, *sorted([*range(50, 55)] * 2)]
    before = files_of(table)
    racing.before = [lambda: iceberg.delete(racing.load_table("n.t"), "id = 6")]
    with pytest.raises(ConflictError):
        ps.overwrite(data, table, "id < 8")
    assert not {path for path in files_of(table) - before if path.suffix == ".parquet"}
