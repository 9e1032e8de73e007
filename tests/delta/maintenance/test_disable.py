"""Deletion vectors that are disabled again: no reader meets one, and no row changes."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import puffin_fast as pf
from puffin_fast import delta, errors, iceberg
from puffin_fast.delta.log.protocol import Protocol, without_vectors
from puffin_fast.delta.log.storage import TableStorage
from tests.conftest import require_module
from tests.delta.conftest import TABLES
from tests.delta.tables import Golden, commit_of, stored_row_ids, unchanged
from tests.kit.faults import failing
from tests.kit.rows import agreed, by_us
from tests.kit.tables import delta_table, files_of, sqlite_catalog

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"


def made(table: Path, properties: dict[str, str] | None = None, *, deletes: bool = True) -> Path:
    delta_table(table, pa.table({"id": range(10), "s": ["a", "b"] * 5}), properties=properties)
    if deletes:
        delta.delete(table, "id < 3")
    return table


def pandas_ids(table: Path) -> list[int]:
    deltalake: Any = require_module("deltalake")
    opened = deltalake.DeltaTable(str(table))
    found: list[int] = sorted(opened.to_pandas()["id"].tolist())
    assert sorted(opened.to_pyarrow_table()["id"].to_pylist()) == found
    assert opened.to_pyarrow_dataset().count_rows() == len(found)
    return found


@pytest.mark.parametrize("name", TABLES)
def test_every_version_keeps_its_rows_and_the_newest_has_no_vector(
    name: str, golden: Golden, duckdb_delta: DuckDBPyConnection
) -> None:
    table = golden(name)
    before = delta.snapshot(table)
    kept = {version: by_us(table, snapshot_id=version) for version in range(before.version + 1)}
    tracked = "rowTracking" in before.protocol.writer_features
    ids = (
        stored_row_ids(table)
        if tracked and before.configuration.get("delta.columnMapping.mode") != "id"
        else {}
    )
    n_vectors = delta.vectors(table).num_rows
    done = delta.disable(table)
    after = delta.snapshot(table)
    assert (done.commit.id, done.data_files) == (after.version, n_vectors)
    assert done.keeps_checkpoints == ("checkpointProtection" in after.protocol.writer_features)
    assert after.configuration.get(PROTECTED) == (str(after.version) if done.keeps_checkpoints else None)
    assert delta.vectors(table).num_rows == 0
    had, has = (one.protocol.reader_features | one.protocol.writer_features for one in (before, after))
    assert has - {"checkpointProtection"} == had - {"deletionVectors", "checkpointProtection"}
    assert "delta.enableDeletionVectors" not in after.configuration
    assert {version: by_us(table, snapshot_id=version) for version in kept} == kept
    assert agreed(table, duckdb_delta) == kept[before.version]
    assert not ids or stored_row_ids(table) == ids
    if after.protocol.reader_features <= {"timestampNtz"}:
        assert pandas_ids(table) == [row["id"] for row in kept[before.version]]
    assert delta.disable(table) == delta.DisableResult()


def test_readers_without_vectors_start_after_all_versions_with_vectors(tmp_path: Path) -> None:
    """At least three checkpoints, without a vector, between the last vector and the protocol's change."""
    table = made(tmp_path)
    vector_files = {path for path in files_of(table) if path.suffix == ".bin"}
    done = delta.disable(table)
    assert (done.rows_purged, done.rows, done.data_files_written) == (3, 7, 1)
    assert pandas_ids(table) == list(range(3, 10))
    with_vectors = [
        version
        for version in range(done.commit.id + 1)
        for action in commit_of(table, version).get("add", []) + commit_of(table, version).get("remove", [])
        if action.get("deletionVector")
    ]
    checkpoints = sorted(int(path.name[:20]) for path in table.rglob("*.checkpoint.parquet"))
    assert len([version for version in checkpoints if max(with_vectors) < version < done.commit.id]) == 3
    for path in table.rglob("*.checkpoint.parquet"):
        adds = [add for add in pq.read_table(path)["add"].to_pylist() if add]
        assert not any(add["deletionVector"] for add in adds)
    last = commit_of(table, done.commit.id)
    assert last["commitInfo"][0]["operation"] == "DROP FEATURE"
    assert last["protocol"] == [
        {
            "minReaderVersion": 1,
            "minWriterVersion": 7,
            "writerFeatures": ["appendOnly", "checkpointProtection", "invariants"],
        }
    ]
    assert {
        table / action["path"] for action in last["remove"]
    } == vector_files  # for vacuums that know no vectors
    assert delta.orphan_files(table, older_than=timedelta(0)).num_rows == 0
    delta.append(table, pa.table({"id": [77], "s": ["z"]}))
    assert 77 in pandas_ids(table)
    with pytest.raises(errors.UnsupportedError, match="deletion vectors are not enabled"):
        delta.delete(table, "id = 5")
    delta.enable(table)
    assert delta.delete(table, "id = 5").rows_deleted == 1
    assert delta.disable(table).rows_purged == 1


def test_a_table_that_never_had_a_vector_stays_writable_for_all(tmp_path: Path) -> None:
    table = made(tmp_path, deletes=False)
    done = delta.disable(table)
    assert (done.data_files, done.keeps_checkpoints, done.commits) == (0, False, 2)
    protocol = delta.snapshot(table).protocol
    assert (protocol.reader, protocol.writer) == (1, 2)
    delta_table(table, {"id": [77], "s": ["z"]}, by="deltalake")
    assert pandas_ids(table) == [*range(10), 77]
    first = table / "_delta_log" / f"{0:020d}.json"
    delta.enable(table)
    first.unlink()  # earlier versions may have had vectors
    assert delta.disable(table).keeps_checkpoints


def test_a_job_is_done_once_and_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    table = made(tmp_path)
    with unchanged(table):
        dry = delta.disable(table, dry_run=True)
    assert dry.dry_run
    assert (dry.commit.id, dry.data_files, dry.rows, dry.rows_purged, dry.commits) == (None, 1, 7, 3, 0)
    done = delta.disable(table, job_id="j", snapshot_properties={"why": "pandas"})
    why = [commit_of(table, at)["commitInfo"][0]["why"] for at in range(3, done.commit.id + 1)]
    assert why == ["pandas"] * 5
    assert delta.disable(table, job_id="j") == delta.DisableResult(delta.Commit(repeated=True))
    with pytest.raises(errors.InvalidInputError, match="expected a job of rewrite_data_files"):
        delta.purge(table, job_id="j")


@pytest.mark.parametrize("call", range(1, 10))
def test_what_failed_goes_on_where_it_is_called_again(call: int, tmp_path: Path) -> None:
    table, put = made(tmp_path), "puffin_fast.delta.log.storage.TableStorage.put"
    with failing(put, PermissionError, call=call), pytest.raises((errors.PuffinFastError, OSError)):
        delta.disable(table)
    assert [row["id"] for row in by_us(table)] == list(range(3, 10))
    delta.disable(table)
    assert pandas_ids(table) == list(range(3, 10))
    assert delta.verify(table) == []


@pytest.mark.parametrize("at", range(5))
def test_rows_that_others_append_meanwhile_stay(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, put, calls = made(tmp_path), TableStorage.put, count()

    def late(storage: TableStorage, path: str, data: bytes) -> bool:
        if path.endswith(".json") and next(calls) == at:
            delta.append(table, pa.table({"id": [77], "s": ["z"]}))
        return put(storage, path, data)

    monkeypatch.setattr(TableStorage, "put", late)
    delta.disable(table)
    assert pandas_ids(table) == [*range(3, 10), 77]


@pytest.mark.parametrize(
    ("readers", "writers", "versions"),
    [
        ((), ("appendOnly", "invariants"), (1, 2)),
        ((), ("appendOnly", "checkConstraints", "invariants"), (1, 3)),
        ((), ("appendOnly",), (1, 7)),
        ((), ("appendOnly", "invariants", "rowTracking"), (1, 7)),
        (("columnMapping",), ("columnMapping",), (2, 7)),
        (("timestampNtz",), ("timestampNtz",), (3, 7)),
        (("columnMapping", "timestampNtz"), ("columnMapping", "timestampNtz"), (3, 7)),
    ],
)
def test_the_protocol_is_the_lowest_that_has_the_other_features(
    readers: tuple[str, ...], writers: tuple[str, ...], versions: tuple[int, int]
) -> None:
    vectors = frozenset({"deletionVectors"})
    found = without_vectors(Protocol(3, 7, vectors | set(readers), vectors | set(writers)), protected=False)
    assert (found.reader, found.writer) == versions
    assert Protocol.of(json.loads(json.dumps(found.action())), "t") == found


def test_what_closes_a_table_for_readers_says_so(tmp_path: Path) -> None:
    rows = pa.table({"id": [1]})
    message = "to_pandas, to_pyarrow_table and to_pyarrow_dataset cannot read .*puffin_fast.delta.disable"
    with pytest.warns(pf.EngineSupportWarning, match=f"{tmp_path}/new: deltalake's {message}") as said:
        delta.create_table(tmp_path / "new", rows.schema)
    assert said[0].filename == __file__
    with pytest.raises(Exception, match="deletionVectors"):
        pandas_ids(tmp_path / "new")
    delta_table(tmp_path / "theirs", rows, by="deltalake")
    for dry_run in (True, False):
        with pytest.warns(pf.EngineSupportWarning, match=message) as said:
            delta.enable(tmp_path / "theirs", dry_run=dry_run)
        assert said[0].filename == __file__
    catalog = sqlite_catalog(tmp_path)
    table = iceberg.create_table(catalog, "n.t", rows.schema)
    with pytest.warns(pf.EngineSupportWarning, match=message) as said:
        delta.from_iceberg(table, tmp_path / "converted")
    assert said[0].filename == __file__
    catalog.engine.dispose()


def test_a_table_without_vectors_is_made_without_a_warning(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    properties = {"delta.enableDeletionVectors": "false"}
    delta_table(tmp_path, pa.table({"id": [1]}), properties=properties)
    assert pandas_ids(tmp_path) == [1]
    assert delta.enable(tmp_path) is not None
    assert delta.enable(tmp_path) is None
    assert len([warning for warning in recwarn if warning.category is pf.EngineSupportWarning]) == 1
