"""Updates, upserts and purges of Delta tables: the log, and the rows that all readers return."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from puffin_fast import delta, errors
from puffin_fast.delta.log.protocol import check_text_compared
from tests.delta.conftest import TABLES
from tests.delta.maintenance.maintained import KILLED
from tests.delta.tables import agreed, alter, append, commit_of, files_of, row_ids, rows_of
from tests.kit.faults import RacingStorage

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SPARK = [name for name in TABLES if name.startswith("spark") and name != "spark_containers"]


def test_a_part_of_a_column_of_maps_that_are_all_empty_is_appended(tmp_path: Path) -> None:
    maps = pa.array([[("a", 1)]] * 20 + [[], []], pa.map_(pa.string(), pa.int32()))
    rows = pa.table({"id": range(22), "m": maps}).slice(20, 2)
    delta.create_table(tmp_path / "t", rows.schema)
    delta.append(tmp_path / "t", rows)
    assert [row["m"] for row in rows_of(tmp_path / "t")] == [[], []]


# Update ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPARK)
def test_an_update_sets_its_rows_and_no_others(
    name: str, golden: Callable[[str], Path], duckdb_delta: DuckDBPyConnection
) -> None:
    table = golden(name)
    before = rows_of(table)
    done = delta.update(table, "id >= 40 and id < 60", {"v": "new", "part": "p 1"})
    wanted = [row | {"v": "new", "part": "p 1"} if 40 <= row["id"] < 60 else row for row in before]
    assert agreed(table, duckdb_delta) == wanted
    assert done.rows_updated == sum(40 <= row["id"] < 60 for row in before) > 0
    assert (done.version, done.data_files_written, done.attempts) == (4, 1, 1)
    assert rows_of(table, version=3) == before


def test_an_update_computes_from_the_old_row(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before = rows_of(table)
    done = delta.update(table, pc.field("id") > 250, {"id": pc.field("id") + 1000, "v": None})
    assert done.rows_updated == sum(row["id"] > 250 for row in before)
    wanted = [row | ({"id": row["id"] + 1000, "v": None} if row["id"] > 250 else {}) for row in before]
    assert rows_of(table) == wanted


def test_a_dry_run_counts_rows_and_writes_nothing(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before, n = files_of(table), sum(row["id"] > 250 for row in rows_of(table))
    done = delta.update(table, "id > 250", {"v": None}, dry_run=True)
    assert (done.version, done.rows_updated, n > 0) == (None, n, True)
    assert files_of(table) == before
    with pytest.raises(errors.InvalidInputError, match=r"values: .*\bid\b"):
        delta.update(table, "id > 250", {"id": "x"}, dry_run=True)


def test_an_update_of_nothing_commits_nothing(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before = files_of(table)
    done = delta.update(table, "id < 0", {"v": "x"})
    assert (done.version, done.rows_updated) == (None, 0)
    with pytest.raises(errors.InvalidInputError, match="v"):
        delta.update(table, "id < 0", {"v": 5})
    assert files_of(table) == before


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({}, errors.InvalidInputError, "at least one column"),
        ({"nothing": 1}, errors.NotFoundError, "no column nothing"),
        ({"id": "x"}, errors.InvalidInputError, r"values: .*\bid\b"),
        ({"id": 1 << 70}, errors.InvalidInputError, "column id"),
        ({"v": pc.field("gone")}, errors.InvalidInputError, "column v"),
    ],
)
def test_values_that_do_not_fit_are_refused(
    values: dict[str, Any], error: type[Exception], message: str, golden: Callable[[str], Path]
) -> None:
    table = golden("spark_partitioned")
    before = files_of(table)
    with pytest.raises(error, match=message):
        delta.update(table, "id < 60", values)
    assert files_of(table) == before


@pytest.mark.parametrize(
    ("configuration", "metadata", "nullable", "message"),
    [
        ({"delta.constraints.c": "id > 0"}, {}, True, "delta.constraints.c"),
        ({}, {"delta.generationExpression": "1"}, True, "column v has delta.generationExpression"),
        ({}, {"delta.identity.start": 1}, True, "column v has delta.identity.start"),
        ({}, {"delta.invariants": "{}"}, True, "column v has delta.invariants"),
        ({}, {}, False, "column v: expected no null"),
    ],
)
def test_what_only_sql_can_check_is_refused_by_name(
    configuration: dict[str, str],
    metadata: dict[str, Any],
    nullable: bool,
    message: str,
    golden: Callable[[str], Path],
) -> None:
    table = golden("spark_partitioned")

    def edit(action: dict[str, Any]) -> None:
        action["configuration"].update(configuration)
        schema = json.loads(action["schemaString"])
        field = next(f for f in schema["fields"] if f["name"] == "v")
        field["metadata"].update(metadata)
        field["nullable"] = nullable
        action["schemaString"] = json.dumps(schema)

    alter(table, "metaData", edit)
    before = files_of(table)
    rows = pa.table({"id": [5], "v": pa.array([None], pa.string()), "part": ["p 2"]})
    for run in (
        lambda: delta.update(table, "id < 60", {"v": None}),
        lambda: delta.upsert(table, rows, "id"),
    ):
        with pytest.raises(errors.PuffinFastError, match=message):
            run()
    assert files_of(table) == before


@pytest.mark.parametrize("kind", [pa.struct([("a", pa.string())]), pa.list_(pa.struct([("a", pa.string())]))])
def test_texts_of_limited_length_inside_of_other_types_are_refused(kind: pa.DataType, tmp_path: Path) -> None:
    """Spark has the lengths of a field that ``ALTER TABLE`` adds to a struct in the metadata of that field."""
    table = tmp_path / "t"
    delta.create_table(table, pa.schema([("id", pa.int64()), ("s", kind)]))
    found: list[dict[str, Any]] = []

    def edit(action: dict[str, Any]) -> None:
        schema = json.loads(action["schemaString"])
        inner = schema["fields"][1]["type"]
        (field,) = inner.get("elementType", inner)["fields"]
        field["metadata"]["__CHAR_VARCHAR_TYPE_STRING"] = "char(3)"
        found.extend(schema["fields"])
        action["schemaString"] = json.dumps(schema)

    alter(table, "metaData", edit)
    before = files_of(table)
    rows = pa.table({"id": [5], "s": pa.array([None], kind)})
    for run in (lambda: delta.append(table, rows), lambda: delta.update(table, "id = 5", {"s": None})):
        with pytest.raises(errors.UnsupportedError, match=r"column a is char\(3\) for Spark, which checks"):
            run()
    assert files_of(table) == before
    with pytest.raises(errors.UnsupportedError, match=r"column a is char\(3\) for Spark, which pads"):
        check_text_compared(found, "s.a = 'x'", "t")
    check_text_compared(found, "id = 1", "t")


# Upsert ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPARK)
def test_an_upsert_leaves_each_given_row_once(
    name: str, golden: Callable[[str], Path], duckdb_delta: DuckDBPyConnection
) -> None:
    table = golden(name)
    before = {row["id"]: row for row in rows_of(table)}
    given = {i: {"id": i, "v": "up", "part": f"p {i % 3}"} for i in (*range(50, 60), *range(990, 1000))}
    same = before[101]
    data = pa.Table.from_pylist([*given.values(), same])
    assert delta.upsert(table, data, "id", dry_run=True).version is None
    done = delta.upsert(table, data, "id")
    updated = sum(i in before for i in given)
    assert (done.rows_updated, done.rows_inserted, done.rows_unchanged) == (updated, len(given) - updated, 1)
    assert agreed(table, duckdb_delta) == sorted((before | given).values(), key=lambda row: row["id"])
    again = delta.upsert(table, data, "id")
    assert (again.version, again.rows_unchanged) == (None, len(given) + 1)


def test_an_upsert_replaces_several_rows_by_one_only_if_told(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    append(table, 4)
    assert len([row for row in rows_of(table) if row["id"] == 99]) == 2
    data, before = pa.table({"id": [99, 98], "v": ["one", "one"], "part": ["p 0"] * 2}), files_of(table)
    for options in ({}, {"dry_run": True}, {"skip_unchanged": False}, {"duplicate_keys": "refuse"}):
        with pytest.raises(
            errors.InvalidInputError, match="found id: 1 of the given keys have several rows there, 2 in all"
        ):
            delta.upsert(table, data, ["id"], **options)
    assert files_of(table) == before
    assert delta.upsert(table, data, "id", when_matched_update_all=False).rows_unchanged == 2
    with pytest.raises(
        errors.InvalidInputError, match="duplicate_keys: expected 'refuse' or 'replace', found 'all'"
    ):
        delta.upsert(table, data, "id", duplicate_keys="all")
    done = delta.upsert(table, data.slice(0, 1), ["id"], duplicate_keys="replace")
    assert (done.rows_updated, done.rows_deleted) == (1, 2)
    assert [row["v"] for row in rows_of(table) if row["id"] == 99] == ["one"]


def test_a_row_that_others_add_meanwhile_is_one_of_several(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    data = pa.table({"id": [99], "v": ["mine"], "part": ["p 0"]})
    with pytest.raises(errors.InvalidInputError, match="1 of the given keys have several rows there"):
        delta.upsert(RacingStorage(table, lambda: append(table, 4)), data, "id")
    assert sum(row["id"] == 99 for row in rows_of(table)) == 2
    assert delta.orphan_files(table, older_than=timedelta()).num_rows == 0


def test_keys_that_others_add_meanwhile_are_searched(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    data = pa.table({"id": [0], "v": ["mine"], "part": ["p 0"]})  # row 0 was deleted before
    done = delta.upsert(RacingStorage(table, lambda: append(table, 4)), data, "id")
    assert (done.version, done.rows_updated, done.rows_inserted) == (5, 1, 0)
    assert [row["v"] for row in rows_of(table) if row["id"] == 0] == ["mine"]


def test_a_job_of_each_verb_is_done_once(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    data = pa.table({"id": [1000], "v": ["x"], "part": ["p 0"]})
    assert delta.upsert(table, data, "id", job_id="u").version == 4
    assert delta.update(table, "id = 1000", {"v": "y"}, job_id="d").version == 5
    assert delta.purge(table, min_deleted=1e-9, job_id="p").version == 6
    before = files_of(table)
    assert delta.upsert(table, data, "id", job_id="u").repeated
    assert delta.update(table, "id = 1000", {"v": "z"}, job_id="d").repeated
    assert delta.purge(table, min_deleted=1e-9, job_id="p").repeated
    assert files_of(table) == before


# Purge -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_a_purge_drops_the_vectors_and_no_row(
    name: str, golden: Callable[[str], Path], duckdb_delta: DuckDBPyConnection
) -> None:
    table = golden(name)
    before = rows_of(table)
    n_vectors = delta.vectors(table).num_rows
    purged = sum(delta.vectors(table)["cardinality"].to_pylist())
    version = delta.snapshot(table).version
    assert delta.purge(table, min_deleted=1e-9, dry_run=True).data_files == n_vectors
    done = delta.purge(table, min_deleted=1e-9)
    assert (done.data_files, done.rows_purged, done.version) == (n_vectors, purged, version + 1)
    assert delta.vectors(table).num_rows == 0
    assert agreed(table, duckdb_delta) == before
    actions = commit_of(table, version + 1)
    assert not any(action["dataChange"] for action in [*actions["add"], *actions["remove"]])
    for add in actions["add"]:
        stats = json.loads(add["stats"])
        assert stats["tightBounds"] is True
        stored = pq.ParquetFile(table / unquote(add["path"])).read()
        assert stats["numRecords"] == stored.num_rows
        for column, low in stats["minValues"].items():
            assert low == min(stored[column].to_pylist())
            assert stats["maxValues"][column] == max(stored[column].to_pylist())
    assert delta.purge(table, min_deleted=1e-9).version is None
    assert delta.orphan_files(table).num_rows == 0


def test_files_with_few_deletes_are_left(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    delta.delete(table, "part = 'p 1' and id < 200")
    done = delta.purge(table, min_deleted=0.5)
    assert done.data_files == 1
    with pytest.raises(errors.InvalidInputError, match="share"):
        delta.purge(table, min_deleted=0)


# Row tracking and the change data feed ---------------------------------------------------------------------


def test_rows_keep_their_ids_and_new_rows_get_new_ones(golden: Callable[[str], Path]) -> None:
    table = golden("spark_many_features")
    before = row_ids(table)
    assert len(set(before.values())) == len(before) == 257
    delta.update(table, "id >= 40 and id < 60", {"v": "new"})
    assert row_ids(table) == before
    highest = max(before.values())
    delta.upsert(table, pa.table({"id": [70, 5000], "v": ["a", "b"], "part": ["p 1", "p 1"]}), "id")
    after = row_ids(table)
    assert {i: after[i] for i in before} == before
    assert after[5000] > highest
    delta.purge(table, min_deleted=1e-9)
    assert row_ids(table) == after
    marks = [a["domainMetadata"] for v in (4, 5, 6) for a in [commit_of(table, v)] if "domainMetadata" in a]
    highest = max(json.loads(mark["configuration"])["rowIdHighWaterMark"] for (mark,) in marks)
    assert highest >= max(after.values())
    assert len(set(after.values())) == len(after)


def test_row_ids_of_others_are_passed_over(golden: Callable[[str], Path]) -> None:
    table = golden("spark_many_features")

    def other() -> None:
        domain = {
            "domain": "delta.rowTracking",
            "configuration": '{"rowIdHighWaterMark":7000}',
            "removed": False,
        }
        lines = [{"commitInfo": {"operation": "WRITE", "isBlindAppend": True}}, {"domainMetadata": domain}]
        text = "\n".join(map(json.dumps, lines))
        (table / "_delta_log" / f"{4:020d}.json").write_text(text + "\n")

    result = delta.upsert(
        RacingStorage(table, other), pa.table({"id": [5000], "v": ["b"], "part": ["p 1"]}), "id"
    )
    assert result.attempts > 1
    (add,) = commit_of(table, 5)["add"]
    assert (add["baseRowId"], add["defaultRowCommitVersion"]) == (7001, 5)


def test_the_change_data_feed_has_the_rows_before_and_after(golden: Callable[[str], Path]) -> None:
    table = golden("spark_many_features")
    alter(table, "metaData", lambda m: m["configuration"].update({"delta.enableChangeDataFeed": "true"}))

    def feed(version: int) -> list[tuple[str, int, str]]:
        mapping = {
            f["metadata"].get("delta.columnMapping.physicalName", f["name"]): f["name"]
            for f in delta.snapshot(table).delta_schema["fields"]
        }
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
    delta.upsert(
        table, pa.table({"id": [53, 51, 5000], "v": ["up", "v2", "in"], "part": ["p 2", "p 0", "p 1"]}), "id"
    )
    assert feed(5) == [("insert", 5000, "in"), ("update_postimage", 53, "up"), ("update_preimage", 53, "new")]
    delta.purge(table, min_deleted=1e-9)
    assert "cdc" not in commit_of(table, 6)


# Kills -----------------------------------------------------------------------------------------------------

VERBS = {
    "update": 'delta.update(table, "id >= 40 and id < 60", {"v": "new"})',
    "upsert": 'delta.upsert(table, pa.table({"id": [41, 5000], "v": ["new", "new"], "part": ["p 2", "p 0"]}), "id")',
    "purge": "delta.purge(table, min_deleted=1e-9)",
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "step",
    ["while_vectors_are_written", "before_the_commit", "while_the_commit_is_written", "after_the_commit"],
)
def test_a_killed_job_is_whole_or_not_there(verb: str, step: str, golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    whole = golden("spark_v1_checkpoint")
    before = rows_of(table)
    assert rows_of(whole) == before
    exec(VERBS[verb], {"delta": delta, "pa": pa, "table": str(whole)})
    killed = KILLED.replace('delta.delete(table, "id < 30")', "import pyarrow as pa\n" + VERBS[verb])
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", killed, step, str(table)], env=environment, check=False)
    assert done.returncode == 9
    assert rows_of(table) == (rows_of(whole) if step == "after_the_commit" else before)
    assert delta.verify(table) == []
    orphans = delta.orphan_files(table, older_than=timedelta(days=-1))
    assert (orphans.num_rows > 0) == (step in ("before_the_commit", "while_the_commit_is_written"))
    if step != "after_the_commit":
        exec(VERBS[verb], {"delta": delta, "pa": pa, "table": str(table)})
        assert rows_of(table) == rows_of(whole)


def test_files_have_the_field_ids_that_the_log_gives_and_no_others(golden: Callable[[str], Path]) -> None:
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
