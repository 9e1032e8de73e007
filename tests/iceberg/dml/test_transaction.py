"""Several verbs in one commit, compared with rows in Python; PyIceberg and DuckDB read the results."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.manifest import ADDED, manifests_of, read_manifests
from tests.iceberg.conftest import current_snapshot, rows_of, rows_of_duckdb, set_properties, unchanged
from tests.kit.tables import files_of, iceberg_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.table import Table

    from tests.kit.faults import RacingCatalog

SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.string())])
LINEAGE = ("*", "_row_id", "_last_updated_sequence_number")


def rows(first: int, last: int, g: str = "a") -> pa.Table:
    return pa.table({"id": range(first, last), "g": [g] * (last - first)}, SCHEMA)


def made(catalog: RacingCatalog, *, version: int = 3, spec: tuple[str, ...] = ()) -> Table:
    """Two data files with the ids 0 to 19."""
    return iceberg_table(catalog, [rows(0, 10), rows(10, 20, "b")], version=version, partition=spec)


def found(table: Table, **which: Any) -> dict[int, str]:
    read = iceberg.scan(table, **which).to_arrow().to_pylist()
    assert len({row["id"] for row in read}) == len(read)
    return {row["id"]: row["g"] for row in read}


def nothing_is_left_over(table: Table) -> None:
    """Every file in the table's folder belongs to a snapshot, and agrees with it."""
    assert iceberg.orphan_files(table, older_than=timedelta(0))["path"].to_pylist() == []
    assert iceberg.verify(table) == []


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [(), ("g",)], ids=["flat", "partitioned"])
def test_all_verbs_make_one_snapshot_that_all_readers_agree_on(
    racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection, version: int, spec: tuple[str, ...]
) -> None:
    table = made(racing, version=version, spec=spec)
    where = iceberg.scan(table, "id = 9", ("_file", "_pos")).to_arrow()
    place = where.rename_columns(["file_path", "pos"])
    before = len(table.metadata.snapshots)
    with iceberg.transaction(table, snapshot_properties={"who": "me"}) as tx:
        assert tx.delete_positions(place).rows_deleted == 1
        assert tx.delete_keys(pa.table({"id": [0, 1]}), "id").rows_deleted == 2
        tx.append(rows(20, 40, "c"))
        assert tx.delete("id >= 18 and id < 25").rows_deleted >= 6
        assert tx.update("id >= 30 and id < 35 or id = 5", {"g": "u"}).rows_updated == 6
        assert tx.delete("id = 5 or id = 31").rows_deleted == 2
        done = tx.upsert(pa.concat_tables([rows(2, 4, "x"), rows(31, 33, "x"), rows(50, 52, "x")]), "id")
        assert (done.rows_updated, done.rows_inserted) == (3, 3)
    assert tx.committed is not None
    assert len(table.metadata.snapshots) == before + 1
    snapshot = current_snapshot(table)
    assert snapshot.summary is not None
    assert snapshot.snapshot_id == tx.committed.snapshot_id
    assert (snapshot.summary.operation.value, snapshot.summary["who"]) == ("overwrite", "me")
    expected = {id: "a" if id < 10 else "b" if id < 20 else "c" for id in range(2, 40)}
    gone = [id for id in expected if 18 <= id < 25 or id == 5]
    expected |= dict.fromkeys((30, 33, 34), "u") | dict.fromkeys((2, 3, 31, 32, 50, 51), "x")
    for id in {*gone, 9}:
        del expected[id]
    assert found(table) == expected
    nothing_is_left_over(table)
    plain = pa.table({"id": sorted(expected), "g": [expected[id] for id in sorted(expected)]}, SCHEMA)
    assert rows_of(table).cast(SCHEMA).equals(plain)
    assert rows_of_duckdb(duckdb_iceberg, table).cast(SCHEMA).equals(plain)
    vectors = Counter(
        entry.referenced_data_file
        for _, entries in read_manifests(table.io, manifests_of(table.io, snapshot), table.specs())
        for entry in entries
        if entry.is_vector
    )
    assert set(vectors.values()) == ({1} if version == 3 else set())


def test_rows_keep_their_ids_and_new_rows_get_theirs_once(racing: RacingCatalog) -> None:
    table = made(racing)
    before = {row["id"]: row for row in iceberg.scan(table, selected_fields=LINEAGE).to_arrow().to_pylist()}
    with iceberg.transaction(table) as tx:
        tx.append(rows(20, 25))
        tx.update("id >= 18 and id < 22", {"g": "u"})
        tx.update("id >= 17 and id < 23", {"g": pc.field("g")})
        tx.upsert(rows(19, 21, "x"), "id")
    after = {row["id"]: row for row in iceberg.scan(table, selected_fields=LINEAGE).to_arrow().to_pylist()}
    assert all(after[id]["_row_id"] == before[id]["_row_id"] for id in before)
    changed = {id for id, row in after.items() if row["_last_updated_sequence_number"] == 3}
    assert changed == set(range(17, 25))
    assert len({row["_row_id"] for row in after.values()}) == 25
    snapshot = current_snapshot(table)
    assert snapshot.first_row_id == 20
    assert min(after[id]["_row_id"] for id in range(20, 25)) >= 20


def test_added_files_have_status_added_and_the_commits_sequence_number(racing: RacingCatalog) -> None:
    table = made(racing)
    with iceberg.transaction(table) as tx:
        tx.append(rows(20, 30))
        tx.delete("id > 25")
    snapshot = current_snapshot(table)
    own = [m for m in manifests_of(table.io, snapshot) if m.added_snapshot_id == snapshot.snapshot_id]
    entries = [entry for _, some in read_manifests(table.io, own, table.specs()) for entry in some]
    assert {(e.status, e.sequence_number, e.file_sequence_number) for e in entries} == {(ADDED, 3, 3)}
    assert sorted(e.content for e in entries) == [0, 1]


def test_what_is_appended_and_deleted_again_is_no_commit(racing: RacingCatalog) -> None:
    table = made(racing)
    with unchanged(table), iceberg.transaction(table) as tx:
        tx.append(rows(20, 30))
        tx.delete("id = 25")
        tx.delete("id > 19")
        tx.overwrite(rows(70, 80), "id > 19")
        tx.overwrite(rows(0, 0), "id > 69")
    assert tx.committed is None
    with unchanged(table), iceberg.transaction(table):
        pass


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_an_exception_leaves_nothing(racing: RacingCatalog, error: type[BaseException]) -> None:
    table = made(racing)
    files, tx = files_of(table), iceberg.transaction(table)

    def run() -> None:
        with tx:
            tx.delete("id < 5")
            tx.append(rows(20, 30))
            tx.update("id > 15", {"g": "u"})
            assert files_of(table) > files
            raise error

    with unchanged(table), pytest.raises(error):
        run()
    with unchanged(table), pytest.raises(InvalidInputError, match="outside of it"):
        tx.delete("id = 1")


def test_an_interrupt_in_a_verb_or_in_the_commit_leaves_nothing(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(racing)
    files = files_of(table)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    def run(place: str) -> None:
        with iceberg.transaction(table) as tx:
            tx.append(rows(20, 30))
            tx.delete("id < 5")
            tx.delete("id < 6")
            with monkeypatch.context() as patch:
                patch.setattr(place, interrupted)
                tx.update("id > 15", {"g": "u"})
                tx.commit_transaction()

    for place in (
        "puffin_fast.iceberg.dml.attempt.IcebergWriter.stage",
        "puffin_fast.iceberg.commit.protocol.write_manifest_list",
        "puffin_fast.iceberg.dml.attempt.IcebergAttempt._remove_superseded",
    ):
        with pytest.raises(KeyboardInterrupt):
            run(place)
        assert files_of(table) == files
    assert len(found(table)) == 20


def test_a_verb_that_fails_leaves_the_verbs_before_it(racing: RacingCatalog) -> None:
    table = made(racing)
    with iceberg.transaction(table) as tx:
        tx.delete("id < 5")
        for wrong, verb in (
            (NotFoundError, lambda: tx.delete("nothing = 1")),
            (InvalidInputError, lambda: tx.append(pa.table({"id": ["x"]}))),
            (InvalidInputError, lambda: tx.update("id = 7", {"id": "text"})),
            (InvalidInputError, lambda: tx.upsert(pa.concat_tables([rows(1, 2)] * 2), "id")),
            (NotFoundError, lambda: tx.delete_positions(pa.table({"file_path": ["x"], "pos": [0]}))),
        ):
            with pytest.raises(wrong):
                verb()
        tx.append(rows(20, 21))
    assert len(tx.results) == 2
    assert sorted(found(table)) == list(range(5, 21))
    nothing_is_left_over(table)


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_rows_of_another_commit_are_deleted_as_the_isolation_level_says(
    racing: RacingCatalog, isolation: str
) -> None:
    table = made(racing)
    set_properties(table, {"write.delete.isolation-level": isolation})
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.append(other, rows(100, 110)))
    with iceberg.transaction(table) as tx:
        tx.append(rows(20, 30))
        tx.delete("id > 15 and id != 25")
    expected = {*range(16), 25}
    assert sorted(found(table)) == sorted(
        expected if isolation == "serializable" else {*expected, *range(100, 110)}
    )
    nothing_is_left_over(table)


def test_another_commit_that_does_not_conflict_is_not_disturbed(racing: RacingCatalog) -> None:
    table = made(racing)
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.append(other, rows(100, 105)))
    with iceberg.transaction(table) as tx:
        tx.append(rows(20, 30))
        tx.delete("id = 3 or id = 28")
    after = iceberg.scan(table, selected_fields=LINEAGE).to_arrow()
    assert sorted(after["id"].to_pylist()) == sorted({*range(30), *range(100, 105)} - {3, 28})
    assert len(set(after["_row_id"].to_pylist())) == after.num_rows
    nothing_is_left_over(table)


def test_an_upgrade_in_between_makes_vectors(racing: RacingCatalog) -> None:
    table = made(racing, version=2)
    other = racing.load_table("n.t")
    with iceberg.transaction(table) as tx:
        tx.append(rows(20, 30))
        tx.delete("id = 3 or id = 28")
        tx.delete("id = 4 or id = 27")
        iceberg.upgrade(other)
    assert sorted(found(table)) == sorted({*range(30)} - {3, 4, 27, 28})
    assert {row["kind"] for row in iceberg.deletes(table).to_pylist()} == {"vector"}
    nothing_is_left_over(table)


def test_a_dry_run_writes_nothing_and_a_missing_branch_is_refused(racing: RacingCatalog) -> None:
    table = made(racing)
    with unchanged(table), iceberg.transaction(table, dry_run=True) as tx:
        tx.append(rows(20, 30))
        assert tx.delete("id < 25").rows_deleted == 25
    assert tx.committed is None
    with pytest.raises(NotFoundError), iceberg.transaction(table, branch="none"):
        pass


def test_an_empty_table_is_filled_and_changed_in_one_commit(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", SCHEMA)
    with iceberg.transaction(table) as tx:
        assert tx.delete("id = 1").rows_deleted == 0
        tx.upsert(rows(0, 10), "id")
        assert tx.upsert(rows(5, 12, "x"), "id").rows_updated == 5
        tx.delete("id = 3")
    assert found(table) == {id: "a" if id < 5 else "x" for id in range(12) if id != 3}
    assert len(table.metadata.snapshots) == 1
    nothing_is_left_over(table)


def test_a_stream_is_run_again_after_a_conflict(racing: RacingCatalog) -> None:
    table = made(racing)
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.append(other, rows(100, 105)))
    with iceberg.transaction(table) as tx:
        tx.append(rows(20, 30).to_reader())
        tx.delete("id > 99")
    assert sorted(found(table)) == [*range(30)]


def test_a_transaction_is_used_once_and_inside_of_its_block(racing: RacingCatalog) -> None:
    table = made(racing)
    tx = iceberg.transaction(table)
    with pytest.raises(InvalidInputError, match="outside of it"):
        tx.append(rows(1, 2))
    with tx:
        tx.delete("id = 1")
        tx.commit_transaction()
        with pytest.raises(InvalidInputError, match="outside of it"):
            tx.delete("id = 2")
    assert len(found(table)) == 19
    with pytest.raises(InvalidInputError, match="begun before"), tx:
        pass


def test_verbs_take_the_arguments_of_the_functions() -> None:
    def names(function: Callable[..., Any]) -> dict[str, Any]:
        return {name: one.default for name, one in inspect.signature(function).parameters.items()}

    own, this = {*names(iceberg.transaction)}, {("self", inspect.Parameter.empty)}
    verbs = {name for name in dir(iceberg.Transaction) if hasattr(iceberg, name) and name[0] != "_"}
    assert len(verbs) == 8
    for verb in verbs:
        expected = names(getattr(iceberg, verb)).items()
        found = names(getattr(iceberg.Transaction, verb)).items() - this
        assert found == {(name, default) for name, default in expected if name not in own}, verb
