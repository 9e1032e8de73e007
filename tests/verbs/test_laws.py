"""The verbs mean the same for tables of each format: random ones leave the rows that a plain list has after them."""

from __future__ import annotations

import pkgutil
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta
from puffin_fast.errors import ConflictError, InvalidInputError, UnsupportedError
from tests.verbs.random_verbs import (
    OPERATIONS_OF,
    SCHEMA,
    TRACKED,
    AnyTable,
    DeltaTable,
    IcebergTable,
    Model,
    Single,
    agree,
    append,
    of,
    row,
)

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

OPERATIONS = 24


KINDS = (
    "iceberg",
    "iceberg partitioned",
    "iceberg 2",
    "delta",
    "delta partitioned",
    "delta mapped",
    "delta tracked",
)


@pytest.fixture(params=KINDS)
def made(
    request: pytest.FixtureRequest, tmp_path: Path, shared_catalog: SqlCatalog, namespace: str
) -> AnyTable:
    kind = request.param
    partition = ["g"] if kind.endswith(("partitioned", "tracked")) else []
    if kind.startswith("iceberg"):
        return IcebergTable(shared_catalog, namespace, partition, "2" if kind.endswith("2") else "3")
    mapped = {"delta.columnMapping.mode": "name"} if kind.endswith("mapped") else None
    return DeltaTable(tmp_path / "t", partition, TRACKED if kind.endswith("tracked") else mapped)


@pytest.mark.parametrize("seed", [1, 2])
def test_verbs_and_transactions_leave_the_rows_of_a_list(made: AnyTable, seed: int) -> None:
    chance, model = random.Random(seed), Model()
    for number in range(OPERATIONS):
        if number % 3 == 2:
            with made.verbs.transaction(made.table) as tx:
                for _ in range(chance.randrange(1, 5)):
                    chance.choice(OPERATIONS_OF)(made, tx, model, chance)
        else:
            (append if number < 2 else chance.choice(OPERATIONS_OF))(made, Single(made), model, chance)
        agree(made, model)
    for rows in made.others():
        assert sorted(rows, key=lambda one: one["id"]) == sorted(model.values(), key=lambda one: one["id"])


def test_positions_are_deleted_in_a_transaction_and_alone(made: AnyTable) -> None:
    chance, model = random.Random(3), Model()
    append(made, Single(made), model, chance)
    append(made, Single(made), model, chance)
    places = [(one["_file"], one["_pos"], one["id"]) for one in made.read(["id", "_file", "_pos"])]
    gone = places[::3]
    with made.verbs.transaction(made.table) as tx:
        tx.delete(f"id = {gone[0][2]}")
        rows = pa.table({"file_path": [one[0] for one in gone], "pos": [one[1] for one in gone]})
        assert tx.delete_positions(rows).rows_deleted == len(gone) - 1
    for _, _, id in gone:
        del model[id]
    agree(made, model)


def test_row_ids_stay_through_updates(made: AnyTable) -> None:
    if isinstance(made, IcebergTable) and made.table.metadata.format_version < 3:
        return
    if (
        isinstance(made, DeltaTable)
        and "rowTracking" not in delta.snapshot(made.table).protocol.writer_features
    ):
        return
    chance, model = random.Random(4), Model()
    append(made, Single(made), model, chance)
    before = {one["id"]: one["_row_id"] for one in made.read(["id", "_row_id"])}
    assert len(set(before.values())) == len(model)
    with made.verbs.transaction(made.table) as tx:
        tx.update("id >= 0", {"x": 5.0})
        tx.append(of([row(chance, 3000)]))
        tx.update("id >= 500", {"x": 6.0})
        tx.upsert(of([row(chance, 3000), row(chance, min(model))]), "id")
    after = {one["id"]: one["_row_id"] for one in made.read(["id", "_row_id"])}
    new = after.pop(3000)
    assert after == before
    assert new > max(before.values())


def test_a_failed_or_dry_transaction_changes_nothing(made: AnyTable) -> None:
    chance, model = random.Random(5), Model()
    append(made, Single(made), model, chance)
    folder = made.folder()
    files = {path for path in folder.rglob("*") if path.is_file()}

    def fail() -> None:
        with made.verbs.transaction(made.table) as tx:
            tx.append(of([row(chance, 4000)]))
            tx.update("id >= 0", {"x": 1.25})
            raise InvalidInputError("gone")

    with pytest.raises(InvalidInputError, match="gone"):
        fail()
    with made.verbs.transaction(made.table, dry_run=True) as tx:
        tx.append(of([row(chance, 4000)]))
        assert tx.delete("id >= 0").rows_deleted == len(model) + 1
    assert tx.committed is None
    for name in ("append", "overwrite"):
        done = getattr(made.verbs, name)(made.table, of([row(chance, 4000)]), dry_run=True)
        assert done is None or getattr(done, "version", None) is None
    assert {path for path in folder.rglob("*") if path.is_file()} == files
    agree(made, model)


def test_an_interrupt_in_a_verb_or_before_the_commit_leaves_nothing(
    made: AnyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, model = random.Random(6), Model()
    append(made, Single(made), model, chance)
    folder = made.folder()
    files = {path for path in folder.rglob("*") if path.is_file()}

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    def run(place: str, verbs: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(place, interrupted)
            verbs.update("id >= 0", {"x": 1.25})

    for place in made.places:
        with pytest.raises(KeyboardInterrupt) as caught:
            run(place, Single(made))
        (note,) = caught.value.__notes__
        assert re.fullmatch(r"nothing was committed, (\d+ files were|1 file was) removed", note)
        with pytest.raises(KeyboardInterrupt) as caught, made.verbs.transaction(made.table) as tx:
            run(made.places[0], tx)
        assert caught.value.__notes__[0].startswith("nothing was committed, ")
        assert {path for path in folder.rglob("*") if path.is_file()} == files
    agree(made, model)


@pytest.mark.parametrize("happens", [False, True])
def test_an_interrupt_while_the_commit_is_sent_says_what_is_known(
    made: AnyTable, monkeypatch: pytest.MonkeyPatch, happens: bool
) -> None:
    chance, model = random.Random(6), Model()
    append(made, Single(made), model, chance)
    place = "pyiceberg.catalog.sql.SqlCatalog.commit_table"
    if isinstance(made, DeltaTable):
        place = "puffin_fast.delta.log.commit.put_version"
    send: Any = pkgutil.resolve_name(place)

    def interrupted(*arguments: Any, **options: Any) -> None:
        if happens:
            send(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            Single(made).update("id >= 0", {"x": 1.25})
    (note,) = caught.value.__notes__
    if not happens:
        assert note.startswith("nothing was committed, ")
    else:
        assert re.search("it is unknown whether the commit .* happened.*no file was removed", note)
    if happens:
        model = {id: one | {"x": 1.25} for id, one in model.items()}
    if isinstance(made, IcebergTable):
        made.table.refresh()
    agree(made, model)


@pytest.mark.parametrize("on_conflict", ["refuse", "merge"])
def test_a_transaction_is_refused_or_runs_again_on_another_commit(made: AnyTable, on_conflict: Any) -> None:
    made.verbs.append(made.table, of([row(random.Random(6), id) for id in range(10)]))

    def run() -> Any:
        with made.verbs.transaction(made.table, on_conflict=on_conflict) as tx:
            tx.append(of([row(random.Random(6), id) for id in range(10, 14)]))
            tx.update("id < 12", {"x": 9.25})
            made.verbs.delete(made.table, "id = 3")
        return tx

    if on_conflict == "refuse":
        with pytest.raises(ConflictError):
            run()
        assert {one["id"] for one in made.read(["id"])} == {*range(10)} - {3}
    else:
        tx = run()
        assert [found and found.rows_updated for found in tx.results] == [None, 11]
        assert {one["id"]: one["x"] == 9.25 for one in made.read(["id", "x"])} == {
            id: id < 12 for id in range(14) if id != 3
        }
    for rows in made.others():
        assert len(rows) == (9 if on_conflict == "refuse" else 13)


def test_rows_that_another_commit_adds_are_searched_by_the_transaction(made: AnyTable) -> None:
    made.verbs.append(made.table, of([row(random.Random(7), id) for id in range(10)]))
    with made.verbs.transaction(made.table) as tx:
        tx.upsert(of([row(random.Random(8), 20)]), "id")
        tx.append(of([row(random.Random(7), 30)]))
        made.verbs.append(made.table, of([row(random.Random(9), 20)]))
    assert sorted(one["id"] for one in made.read(["id"])) == [*range(10), 20, 30]


def test_a_job_is_done_once(made: AnyTable) -> None:
    for _ in range(2):
        done = made.verbs.append(made.table, of([row(random.Random(1), 1)]), job_id="a")
    assert done.repeated
    for _ in range(2):
        with made.verbs.transaction(made.table, job_id="b") as tx:
            tx.append(of([row(random.Random(1), 2)]))
            tx.delete("id = 1")
    assert tx.results[1].repeated
    assert tx.committed.repeated
    assert [one["id"] for one in made.read(["id"])] == [2]
    with pytest.raises(InvalidInputError, match="job_id 'b'"):
        made.verbs.delete(made.table, "id = 2", job_id="b")


# What only one format has -----------------------------------------------------------------------------------


def test_a_new_delta_table_is_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t"
    made = delta.create_table(
        path,
        pa.schema(
            [pa.field("id", pa.int64(), nullable=False), ("a b", pa.timestamp("us")), ("p", pa.date32())]
        ),
        partition_columns=["p"],
        properties={"delta.columnMapping.mode": "name", "delta.enableInCommitTimestamps": "true", "own": "x"},
    )
    assert {"columnMapping", "deletionVectors", "timestampNtz"} == made.protocol.reader_features
    assert made.configuration["own"] == "x"
    delta.append(path, [{"id": 1, "a b": None, "p": None}])
    with pytest.raises(InvalidInputError, match="column id"):
        delta.append(path, [{"id": None}])
    with pytest.raises(InvalidInputError, match="already exists"):
        delta.create_table(path, SCHEMA)
    assert delta.scan(path).to_arrow().to_pylist() == [{"id": 1, "a b": None, "p": None}]
    assert delta.verify(path) == []


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"schema": pa.schema([("a b", pa.int64())])}, InvalidInputError, "column mapping"),
        ({"schema": pa.schema([("a", pa.int64()), ("A", pa.int64())])}, InvalidInputError, "apart from case"),
        ({"schema": pa.schema([("t", pa.time64("us"))])}, UnsupportedError, "column t"),
        ({"partition_columns": ["id", "g", "x", "s"]}, InvalidInputError, "others beside"),
        ({"partition_columns": ["s"]}, UnsupportedError, "column s"),
        ({"properties": {"delta.enableIcebergCompatV2": "true"}}, UnsupportedError, "IcebergCompat"),
        ({"properties": {"delta.enableChangeDataFeed": "yes"}}, InvalidInputError, "'yes'"),
    ],
)
def test_a_delta_table_that_cannot_be_is_refused(
    options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        delta.create_table(tmp_path / "t", **{"schema": SCHEMA, **options})
    assert not (tmp_path / "t").exists()


def test_a_streamed_append_writes_files_of_the_target_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delta.create_table(tmp_path / "t", {"id": "long"})
    monkeypatch.setattr("puffin_fast.delta.dml.attempt.TARGET_FILE_SIZE", 800)
    batches = [pa.record_batch({"id": pa.array(range(at, at + 100))}) for at in range(0, 500, 100)]
    done = delta.append(tmp_path / "t", pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert (done.version, done.data_files_written) == (1, 5)
    assert sorted(one["id"] for one in delta.scan(tmp_path / "t").to_arrow().to_pylist()) == [*range(500)]


def test_two_deletes_of_nothing_commit_nothing(made: AnyTable) -> None:
    with made.verbs.transaction(made.table) as tx:
        tx.delete("id = 1")
        tx.delete("id = 2")
    assert tx.committed is None
