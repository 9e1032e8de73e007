"""New data files of partitioned tables are in Hive's folders, from which Polars takes the partition values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast import delta, errors
from puffin_fast.delta.dml.partition_folders import partition_folder
from tests.conftest import require_module
from tests.delta.tables import Golden, refused
from tests.kit.rows import by_deltalake, by_duckdb, by_polars, by_us
from tests.kit.tables import delta_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TEXTS = ["plain", "a b", "x%y", "%20", "x/y", "ü€😀", "a=b", "q?#&", "{[^]}", "c:d", "it's \"q\"", "back\\slash",
         "new\nline", "tab\t", "~!@$()+,;<>|`*", "\x7f", ".", "..", "tr ", " lead", "end.", "", None]  # fmt: skip
VALUES = {
    "text": pa.array(TEXTS),
    "day": pa.array([date(2020, 1, 1), date(1, 1, 1), None]),
    "at": pa.array([datetime(2020, 1, 1, 1, 2, 3, 4), datetime(2020, 1, 1), None], pa.timestamp("us", "UTC")),
    "local": pa.array([datetime(2020, 1, 1, 1, 2, 3, 4), datetime(2020, 1, 1), None], pa.timestamp("us")),
    "amount": pa.array([Decimal("1.50"), Decimal("-2.00"), None]),
    "share": pa.array([0.1, float("inf"), -0.0, None]),
    "flag": pa.array([True, False, None]),
    "a%b": pa.array([-5, 2**31 - 1, None], pa.int32()),
}


VECTORS = {"delta.enableDeletionVectors": "true"}


def folders(table: Path) -> set[str]:
    return {path.name for path in table.iterdir() if path.name != "_delta_log" and path.is_dir()}


def agreed(table: Path, duckdb: DuckDBPyConnection, schema: pa.Schema) -> pa.Table:
    """The rows of a table in a schema, after DuckDB, deltalake and Polars have read the same."""
    read = (by_us(table), by_duckdb(duckdb, table), by_deltalake(table), by_polars(table))
    ours, *others = (pa.Table.from_pylist(rows).select(schema.names).cast(schema) for rows in read)
    assert all(theirs.equals(ours) for theirs in others)
    return ours


@pytest.mark.parametrize("name", VALUES)
def test_every_reader_finds_the_partition_of_rows_that_were_changed(
    name: str, tmp_path: Path, duckdb_delta: DuckDBPyConnection
) -> None:
    values = VALUES[name]
    n = len(values)
    rows = pa.table({"id": range(2 * n), "v": [0] * 2 * n, name: pa.chunked_array([values, values])})
    table = delta_table(tmp_path / "table", rows, partition=[name], properties=VECTORS, by="deltalake")
    before = {unquote(folder) for folder in folders(table)}
    assert delta.update(table, "id >= 0", {"v": 1}).rows_updated == 2 * n
    read = agreed(table, duckdb_delta, rows.schema)
    nulls = pa.chunked_array(
        [2 * [None if value == "" else value for value in values.to_pylist()]], values.type
    )
    assert read[name].to_pylist() == nulls.to_pylist()  # the log has no empty values
    if name not in ("at", "share"):  # deltalake writes times without a time zone, and "inf"
        assert {unquote(folder) for folder in folders(table)} == before
    given = rows.set_column(1, "v", pa.array([2] * 2 * n, pa.int64())).set_column(2, name, nulls)
    assert delta.upsert(table, given, "id").rows_updated == 2 * n
    assert agreed(table, duckdb_delta, rows.schema).drop_columns("v") == read.drop_columns("v")
    delta.delete(table, f"id < {n}")
    assert delta.purge(table).data_files >= n - 1
    assert agreed(table, duckdb_delta, rows.schema)["id"].to_pylist() == [*range(n, 2 * n)]
    live = set(delta.scan(table).files()["file_path"].to_pylist())
    assert all("=" in path for path in live)
    assert delta.orphan_files(table, older_than=timedelta(days=-1)).num_rows == 0
    opened: Any = require_module("deltalake").DeltaTable(str(table))
    assert opened.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert all(Path(path).exists() for path in live)


def test_folders_are_those_of_spark(partitioned: Path) -> None:
    before = folders(partitioned)
    assert len(before) > 1
    delta.update(partitioned, "id >= 0", {"v": "new"})
    assert folders(partitioned) == before


def test_the_change_data_feed_has_partition_folders(tmp_path: Path) -> None:
    properties = {"delta.enableChangeDataFeed": "true"}
    delta_table(tmp_path, {"id": [1, 2], "p": ["a b", None]}, partition=["p"], properties=properties)
    delta.update(tmp_path, "id > 0", {"id": 9})
    assert folders(tmp_path / "_change_data") == {"p=a b", "p=__HIVE_DEFAULT_PARTITION__"}


def test_tables_with_column_mapping_have_no_partition_folders(golden: Golden) -> None:
    table = golden("spark_many_features")
    before = folders(table)
    delta.update(table, "id >= 0", {"v": "new"})
    assert folders(table) - before == {"_change_data"}
    assert folders(table / "_change_data") == set()


def test_a_value_that_is_too_long_for_a_folder_is_refused(tmp_path: Path) -> None:
    table = delta_table(tmp_path, {"id": [1], "p": ["x" * 100]}, partition=["p"])
    with refused(table, errors.InvalidInputError, "p=x"):
        delta.upsert(table, pa.table({"id": [1], "p": ["x" * 300]}), "id")


@pytest.mark.parametrize(
    ("partition", "folder"),
    [
        ({}, ""),
        ({"a": "1", "b": None}, "a=1/b=__HIVE_DEFAULT_PARTITION__/"),
        ({"p": "%20 a=b/c:d"}, "p=%2520 a%3Db%2Fc%3Ad/"),
        ({"p": "{[^]}\"#'*?\\\n\x7f"}, "p=%7B%5B%5E%5D}%22%23%27%2A%3F%5C%0A%7F/"),
        ({"p": "é~!@$()+,;<>|`&."}, "p=é~!@$()+,;<>|`&./"),
        ({"a/b=c%": "x"}, "a%2Fb%3Dc%=x/"),
    ],
)
def test_values_are_escaped_as_spark_escapes_them(partition: dict[str, str | None], folder: str) -> None:
    assert partition_folder(partition) == folder


def test_partition_values_that_no_scan_can_read_are_reported(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "day": [date(2020, 1, at) for at in (1, 2, 3)]})
    table = delta_table(tmp_path / "table", rows, partition=["day"], by="deltalake")
    assert delta.verify(table) == []
    (commit,) = (table / "_delta_log").glob("*.json")
    text = commit.read_text()
    commit.write_text(
        text.replace('"day":"2020-01-01"', '"day":"+10000-01-01"').replace('"day":"2020-01-03"', '"day":"x"')
    )
    assert commit.read_text() != text
    with pytest.raises(
        errors.CorruptDataError, match=r"partition value of day.*(\+10000-01-01|'x')"
    ):  # the first in the log
        delta.scan(table).to_arrow()
    problems = {problem.message: problem.path for problem in delta.verify(table)}
    assert len(problems) == 2
    for value, day in (("+10000-01-01", 1), ("x", 3)):
        ((message, path),) = ((key, path) for key, path in problems.items() if value in key.split("found")[1])
        assert "partition value of day" in message
        assert f"day=2020-01-0{day}" in path


EMPTY = pa.table({"id": [1, 2, 3], "s": ["a", "", "b"]})
WRITES: dict[str, Callable[[Path], object]] = {
    "append": lambda table: delta.append(table, EMPTY),
    "append of a stream": lambda table: delta.append(table, EMPTY.to_reader()),
    "update": lambda table: delta.update(table, "id = 1", {"s": ""}),
    "update by an expression": lambda table: delta.update(
        table, "id = 1", {"s": pc.utf8_slice_codeunits(pc.field("s"), 0, 0)}
    ),
    "upsert by the column": lambda table: delta.upsert(table, EMPTY, "s"),
    "upsert": lambda table: delta.upsert(table, EMPTY, "id", update_columns=["s"]),
    "overwrite": lambda table: delta.overwrite(table, EMPTY),
    "overwrite of partitions": lambda table: delta.dynamic_partition_overwrite(table, EMPTY),
    "transaction": lambda table: in_transaction(table),
}


def in_transaction(table: Path) -> None:
    with delta.transaction(table) as together:
        together.delete("id = 5")
        together.append(EMPTY)


@pytest.mark.parametrize("property", ["delta.columnMapping.mode=name", "delta.enableChangeDataFeed=true"])
@pytest.mark.parametrize("verb", WRITES)
def test_an_empty_text_which_would_be_read_as_null_is_refused(
    verb: str, property: str, tmp_path: Path
) -> None:
    """With a key that comes back as null, an upsert would insert its row again each time."""
    rows = pa.table({"id": [1, 5], "s": ["a", None]})
    table = delta_table(tmp_path, rows, partition=["s"], properties=dict([property.split("=")]))
    with refused(table, errors.InvalidInputError, r"column s: expected no empty text, .* null, found 1"):
        WRITES[verb](table)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_zeros_of_both_signs_are_one_partition_for_every_reader(
    kind: pa.DataType, tmp_path: Path, duckdb_delta: DuckDBPyConnection
) -> None:
    """The kernel of other readers takes -0.0 and 0.0 for different partition values."""
    deltalake: Any = require_module("deltalake")
    rows = pa.table({"id": [1, 2, 3], "x": pa.array([0.0, -0.0, -1.5], kind)})
    delta_table(tmp_path, rows, partition=["x"])
    delta.update(tmp_path, "id = 3", {"x": -0.0})
    assert folders(tmp_path) - {"x=-1.5"} == {"x=0"}
    query = "SELECT count(*) FROM {} WHERE x = 0 AND x >= 0 AND x <= 0 AND x IN (0, 7)"
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(tmp_path)))
    found = [
        duckdb_delta.execute(query.format(f"delta_scan('{tmp_path}')")).fetchall()[0][0],
        pa.table(builder.execute(query.format("t")).read_all())[0][0].as_py(),
        delta.scan(tmp_path, "x = 0").count(),
    ]
    assert found == [3, 3, 3]
