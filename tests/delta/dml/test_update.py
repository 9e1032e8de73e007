"""Updates of Delta tables, and what all verbs that write rows do: the log, row ids, the change data feed."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from puffin_fast import delta, errors
from puffin_fast.delta.log.protocol import check_text_compared
from tests.delta.conftest import TABLES
from tests.delta.tables import (
    Golden,
    alter_fields,
    commit_of,
    configure,
    logical_names,
    refused,
    stored_row_ids,
    write_lines,
)
from tests.kit.cases import each
from tests.kit.faults import RacingStorage
from tests.kit.rows import agreed, by_us
from tests.kit.tables import delta_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SPARK = [name for name in TABLES if name.startswith("spark") and name != "spark_containers"]


def test_a_part_of_a_column_of_maps_that_are_all_empty_is_appended(tmp_path: Path) -> None:
    maps = pa.array([[("a", 1)]] * 20 + [[], []], pa.map_(pa.string(), pa.int32()))
    table = delta_table(tmp_path, pa.table({"id": range(22), "m": maps}).slice(20, 2))
    assert delta.scan(table).to_arrow()["m"].to_pylist() == [[], []]


# Update ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPARK)
def test_an_update_sets_its_rows_and_no_others(
    name: str, golden: Golden, duckdb_delta: DuckDBPyConnection
) -> None:
    table = golden(name)
    before = by_us(table)
    done = delta.update(table, "id >= 40 and id < 60", {"v": "new", "part": "p 1"})
    wanted = [row | {"v": "new", "part": "p 1"} if 40 <= row["id"] < 60 else row for row in before]
    assert agreed(table, duckdb_delta) == wanted
    assert done.rows_updated == sum(40 <= row["id"] < 60 for row in before) > 0
    assert (done.commit.id, done.data_files_written, done.commit.attempts) == (4, 1, 1)
    assert by_us(table, snapshot_id=3) == before


def test_an_update_computes_from_the_old_row(partitioned: Path) -> None:
    table, before = partitioned, by_us(partitioned)
    done = delta.update(table, pc.field("id") > 250, {"id": pc.field("id") + 1000, "v": None})
    assert done.rows_updated == sum(row["id"] > 250 for row in before)
    wanted = [row | ({"id": row["id"] + 1000, "v": None} if row["id"] > 250 else {}) for row in before]
    assert by_us(table) == wanted


@each(
    "values, error, message",
    [
        ({}, errors.InvalidInputError, "at least one column"),
        ({"nothing": 1}, errors.NotFoundError, "no column nothing"),
        ({"id": "x"}, errors.InvalidInputError, r"values: .*\bid\b"),
        ({"id": 1 << 70}, errors.InvalidInputError, "column id"),
        ({"v": pc.field("gone")}, errors.InvalidInputError, "column v"),
    ],
)
def test_values_that_do_not_fit_are_refused(
    values: dict[str, Any], error: type[Exception], message: str, partitioned: Path
) -> None:
    for row_filter in ("id < 60", "id < 0"):
        with refused(partitioned, error, message):
            delta.update(partitioned, row_filter, values)


@pytest.mark.parametrize(
    ("property", "metadata", "nullable", "message"),
    [
        ("constraints.c", {}, True, "delta.constraints.c"),
        ("", {"delta.generationExpression": "1"}, True, "column v has delta.generationExpression"),
        ("", {"delta.identity.start": 1}, True, "column v has delta.identity.start"),
        ("", {"delta.invariants": "{}"}, True, "column v has delta.invariants"),
        ("", {}, False, "column v: expected no null"),
    ],
)
def test_what_only_sql_can_check_is_refused_by_name(
    property: str, metadata: dict[str, Any], nullable: bool, message: str, partitioned: Path
) -> None:
    if property:
        configure(partitioned, **{property: "id > 0"})
    alter_fields(partitioned, lambda fields: fields[1].update(metadata=metadata, nullable=nullable))
    rows = pa.table({"id": [5], "v": pa.array([None], pa.string()), "part": ["p 2"]})
    with refused(partitioned, errors.PuffinFastError, message):
        delta.update(partitioned, "id < 60", {"v": None})
    with refused(partitioned, errors.PuffinFastError, message):
        delta.upsert(partitioned, rows, "id")


@pytest.mark.parametrize("kind", [pa.struct([("a", pa.string())]), pa.list_(pa.struct([("a", pa.string())]))])
def test_texts_of_limited_length_inside_of_other_types_are_refused(kind: pa.DataType, tmp_path: Path) -> None:
    """Spark has the lengths of a field that ``ALTER TABLE`` adds to a struct in the metadata of that field."""
    table = delta_table(tmp_path, pa.schema([("id", pa.int64()), ("s", kind)]))
    found: list[dict[str, Any]] = []

    def edit(fields: list[dict[str, Any]]) -> None:
        inner = fields[1]["type"]
        inner.get("elementType", inner)["fields"][0]["metadata"]["__CHAR_VARCHAR_TYPE_STRING"] = "char(3)"
        found.extend(fields)

    alter_fields(table, edit)
    rows = pa.table({"id": [5], "s": pa.array([None], kind)})
    for run in (lambda: delta.append(table, rows), lambda: delta.update(table, "id = 5", {"s": None})):
        with refused(table, errors.UnsupportedError, r"column a is char\(3\) for Spark, which checks"):
            run()
    with pytest.raises(errors.UnsupportedError, match=r"column a is char\(3\) for Spark, which pads"):
        check_text_compared(found, "s.a = 'x'", "t")
    check_text_compared(found, "id = 1", "t")


# Row tracking and the change data feed ---------------------------------------------------------------------


def test_rows_keep_their_ids_and_new_rows_get_new_ones(golden: Golden) -> None:
    table = golden("spark_many_features")
    before = stored_row_ids(table)
    assert len(set(before.values())) == len(before) == 257
    delta.update(table, "id >= 40 and id < 60", {"v": "new"})
    assert stored_row_ids(table) == before
    highest = max(before.values())
    delta.upsert(table, pa.table({"id": [70, 5000], "v": ["a", "b"], "part": ["p 1", "p 1"]}), "id")
    after = stored_row_ids(table)
    assert {i: after[i] for i in before} == before
    assert after[5000] > highest
    delta.purge(table, min_deleted=1e-9)
    assert stored_row_ids(table) == after
    marks = [a["domainMetadata"] for v in (4, 5, 6) for a in [commit_of(table, v)] if "domainMetadata" in a]
    highest = max(json.loads(mark["configuration"])["rowIdHighWaterMark"] for (mark,) in marks)
    assert highest >= max(after.values())
    assert len(set(after.values())) == len(after)


def test_row_ids_of_others_are_passed_over(golden: Golden) -> None:
    table = golden("spark_many_features")

    mark = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":7000}', "removed": False}
    info = {"operation": "WRITE", "isBlindAppend": True}
    other = partial(write_lines, table, 4, [{"commitInfo": info}, {"domainMetadata": mark}])
    rows = pa.table({"id": [5000], "v": ["b"], "part": ["p 1"]})
    result = delta.upsert(RacingStorage(table, other), rows, "id")
    assert result.commit.attempts > 1
    (add,) = commit_of(table, 5)["add"]
    assert (add["baseRowId"], add["defaultRowCommitVersion"]) == (7001, 5)


def test_the_change_data_feed_has_the_rows_before_and_after(golden: Golden) -> None:
    table = golden("spark_many_features")
    configure(table, enableChangeDataFeed="true")
    mapping = logical_names(table)

    def feed(version: int) -> list[tuple[str, int, str]]:
        found = []
        for action in commit_of(table, version)["cdc"]:
            assert action["path"].startswith("_change_data/")
            assert action["dataChange"] is False
            for row in pq.ParquetFile(table / action["path"]).read().to_pylist():
                named = {mapping.get(name, name): value for name, value in row.items()}
                found.append((named["_change_type"], named["id"], named["v"]))
        return sorted(found)

    delta.update(table, "id = 53", {"v": "new"})
    assert feed(4) == [("update_postimage", 53, "new"), ("update_preimage", 53, "v4")]
    given = {"id": [53, 51, 5000], "v": ["up", "v2", "in"], "part": ["p 2", "p 0", "p 1"]}
    delta.upsert(table, pa.table(given), "id")
    assert feed(5) == [("insert", 5000, "in"), ("update_postimage", 53, "up"), ("update_preimage", 53, "new")]
    delta.purge(table, min_deleted=1e-9)
    assert "cdc" not in commit_of(table, 6)


def test_files_have_the_field_ids_that_the_log_gives_and_no_others(golden: Golden) -> None:
    table = golden("spark_iceberg_compat_v3")
    delta.update(table, "id = 41", {"v": "new"})
    (add,) = commit_of(table, 4)["add"][-1:]
    stored = pq.ParquetFile(table / add["path"]).schema_arrow
    given = {
        f["metadata"]["delta.columnMapping.physicalName"]: f["metadata"]["delta.columnMapping.id"]
        for f in delta.snapshot(table).delta_schema["fields"]
    }
    found = {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in stored if f.metadata}
    assert found == given  # the partition's column too: IcebergCompatV3 asks for it
    assert add["tags"] == {"ICEBERG_COMPAT_VERSION": "3"}
