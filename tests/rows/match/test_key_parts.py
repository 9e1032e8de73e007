"""Keys and rows that memory does not hold: parts in temporary files give the result of one part."""

from __future__ import annotations

import gc
import logging
import random
import tempfile
import weakref
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from duckdb import DuckDBPyConnection
from pyiceberg.table import Table

from puffin_fast import delta, iceberg
from puffin_fast.errors import ConflictError, InvalidInputError, PuffinFastError
from puffin_fast.limits import Limit
from puffin_fast.rows.keys.key_set import KeySet
from puffin_fast.rows.match import key_parts
from tests.iceberg.conftest import rows_of
from tests.iceberg.dml.example_rows import SCHEMA, START, check, made, of, row
from tests.kit.faults import RacingCatalog
from tests.kit.tables import files_of, iceberg_table

FEED = pa.schema([*SCHEMA, ("gone", pa.bool_()), ("at", pa.int64())])

LIMIT = "puffin-fast.limit.key-bytes"


@pytest.fixture
def few(racing: RacingCatalog) -> RacingCatalog:
    """A catalog in whose tables some tens of keys are held at a time."""
    racing.properties[LIMIT] = "1500"
    return racing


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, which is empty again after the test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def n_parts(caplog: pytest.LogCaptureFixture, temporary: Path) -> Iterator[Callable[[], list[int]]]:
    """The numbers of parts that were made so far."""
    caplog.set_level(logging.INFO, "puffin_fast")

    def found() -> list[int]:
        return [int(record.args[1]) for record in caplog.records if "parts in" in record.msg]  # type: ignore[index,arg-type,call-overload]

    yield found
    assert list(temporary.iterdir()) == []


def stream(rows: pa.Table) -> pa.RecordBatchReader:
    """The rows in batches of seven."""
    return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=7))


def row_ids(table: Table) -> dict[int, int]:
    """The row id of each id; none in a table of format version 2."""
    if table.format_version < 3:
        return {}
    found = iceberg.scan(table, selected_fields=("id", "_row_id")).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["_row_id"].to_pylist(), strict=True))


NAN, INF = float("nan"), float("inf")
KINDS: dict[str, list[Any]] = {
    "int": [pa.int32(), *range(-50, 250)],
    "date": [pa.date32(), *(date.fromordinal(730_000 + at) for at in range(300))],
    "string": [pa.string(), *(f"word {at}" * (at % 5) for at in range(300))],
    "binary": [pa.binary(), *(bytes([at % 7]) * at for at in range(300))],
    "float": [pa.float32(), INF, -INF, 0.0, -0.0, NAN, *(at / 4 for at in range(300))],
    "double": [pa.float64(), 0.0, -0.0, NAN, *(at / 3 for at in range(300))],
    "decimal": [pa.decimal128(20, 3), *(Decimal(at * 10**12) / 1000 for at in range(-150, 150))],
    "uuid": [pa.uuid(), *(bytes([at % 256, at // 256]) * 8 for at in range(300))],
    "bool": [pa.bool_(), True, False],
}


@pytest.mark.parametrize("null_safe", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_int", [False, True], ids=["alone", "two"])
def test_parts_of_keys_delete_what_one_part_deletes(
    few: RacingCatalog, n_parts: Callable[[], list[int]], kind: str, null_safe: bool, with_int: bool
) -> None:
    random.seed(f"{kind}{null_safe}{with_int}")
    type, *values = KINDS[kind]
    columns = ["k", "n"] if with_int else ["k"]

    def rows(n: int) -> pa.Table:
        some = pa.array(random.choices([*values, None], k=n), type)
        numbers = pa.array(random.choices([*range(4), None], k=n), pa.int64())
        return pa.table({"k": some, "n": numbers, "id": pa.array(range(n), pa.int64())})

    tables = [iceberg.create_table(few, f"n.{name}", rows(1).schema) for name in ("parts", "whole")]
    given = rows(200).select(columns)
    for _ in range(3):
        some = rows(150)
        for table in tables:
            iceberg.append(table, some)
    counts = []
    for table, limit in zip(tables, (few.properties[LIMIT], str(1 << 30)), strict=True):
        few.properties[LIMIT] = limit
        counts.append(iceberg.delete_keys(table, stream(given), columns, null_safe=null_safe).rows_deleted)
    assert counts[0] == counts[1] > 0
    assert len(n_parts()) <= 1, "the second table has all keys in memory"
    left = [
        iceberg.scan(table).to_arrow().sort_by([("id", "ascending"), ("n", "ascending")]) for table in tables
    ]
    assert left[0].equals(left[1]) or str(left[0].to_pylist()) == str(left[1].to_pylist())
    if kind != "bool":
        assert n_parts()[0] > 3
    assert iceberg.verify(tables[0]) == []


def test_a_key_given_twice_in_two_batches_is_refused(
    few: RacingCatalog, n_parts: Callable[[], list[int]]
) -> None:
    table = made(few, "n")
    before = files_of(table)
    rows = [row(id, "new") for id in range(100)]
    with pytest.raises(InvalidInputError, match=r"two rows with one key \(id\)"):
        iceberg.upsert(table, stream(of([*rows, rows[3]])), "id")
    assert n_parts()[0] > 3
    assert files_of(table) == before
    assert rows_of(table).num_rows == len(START)


def test_the_keys_that_several_rows_have_are_counted_in_all_parts(
    few: RacingCatalog, n_parts: Callable[[], list[int]]
) -> None:
    table = made(few, "n")
    iceberg.append(table, of([row(8, "else"), row(30, "other"), row(30, "more")]))
    before = files_of(table)
    given = of([row(id, "new") for id in range(100)])
    with pytest.raises(InvalidInputError, match="2 of the given keys have several rows there, 5 in all"):
        iceberg.upsert(table, stream(given), "id")
    assert n_parts()[0] > 3
    assert files_of(table) == before
    done = iceberg.upsert(table, stream(given), "id", duplicate_keys="replace")
    assert (done.rows_updated, done.rows_deleted, rows_of(table).num_rows) == (60, 63, 100)


def test_a_concurrent_delete_has_the_parts_read_again(
    few: RacingCatalog, n_parts: Callable[[], list[int]], duckdb_iceberg: DuckDBPyConnection
) -> None:
    table = made(few, "n")
    given = of([row(id, "new") for id in range(1, 90, 2)])
    for verb, rows, others in (
        (iceberg.delete_keys, of(START[::2]).select(["id"]), ("id = 32 or id = 33", "id = 34 or id = 35")),
        (iceberg.upsert, given, ("id = 37", "id = 39")),
    ):
        few.before = [lambda gone=others[0]: iceberg.delete(few.load_table("n.t"), gone)]
        with pytest.raises(ConflictError):
            verb(table, stream(rows), "id")
        few.before = [lambda gone=others[1]: iceberg.delete(few.load_table("n.t"), gone)]
        assert verb(table, stream(rows), "id", on_conflict="merge").commit.attempts == 2
    assert min(n_parts()) > 1
    check(table, duckdb_iceberg, given.to_pylist())
    assert iceberg.verify(table) == []


def test_a_concurrent_append_of_a_key_between_the_given_ones_is_searched(
    few: RacingCatalog, n_parts: Callable[[], list[int]]
) -> None:
    table = made(few, "n")
    few.before = [lambda: iceberg.append(few.load_table("n.t"), of([row(20), row(1000)]))]
    done = iceberg.delete_keys(table, stream(of(START[:40])), "id")
    assert (done.rows_deleted, done.commit.attempts) == (41, 2)
    assert rows_of(table)["id"].to_pylist() == [*range(40, 60), 1000]
    assert min(n_parts()) > 1


def test_many_rows_of_few_keys(few: RacingCatalog, n_parts: Callable[[], list[int]]) -> None:
    table = made(few, "n")
    keys = pa.table({"id": pa.array([7, 8, 9, 1000] * 5_000, pa.int64())})
    assert iceberg.delete_keys(table, stream(keys), "id").rows_deleted == 3
    assert n_parts() == []  # repeated keys are dropped, the others fit
    given = of([row(7)]).append_column("at", pa.array([0], pa.int64()))
    given = pa.concat_tables([given.set_column(5, "at", pa.array([at], pa.int64())) for at in range(500)])
    done = iceberg.upsert(table, stream(given), "id", order_column="at")
    assert (done.rows_inserted, done.rows_superseded, n_parts()) == (1, 499, [1])


def test_delta_tables_take_keys_in_parts(
    tmp_path: Path, n_parts: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_parts, "KEY_BYTES", Limit(LIMIT, 1000))
    path = str(tmp_path / "delta")
    rows = pa.table({"id": range(300), "w": [f"w{at}" for at in range(300)]})
    deltalake.write_deltalake(path, rows, configuration={"delta.enableDeletionVectors": "true"})
    keys = pa.table({"w": [f"w{at}" for at in range(0, 600, 3)]})
    assert delta.delete_keys(path, stream(keys), "w").rows_deleted == 100
    assert n_parts()[0] > 3
    assert sorted(delta.scan(path).to_arrow()["id"].to_pylist()) == [at for at in range(300) if at % 3]


@pytest.mark.parametrize("verb", [iceberg.delete_keys, iceberg.upsert])
def test_temporary_files_that_cannot_be_written(
    few: RacingCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: Callable[..., object]
) -> None:
    table = made(few, "n")
    before = files_of(table)
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    what = "keys" if verb is iceberg.delete_keys else "data"
    with pytest.raises(PuffinFastError, match=f"{what}: could not be written to temporary files"):
        verb(table, of([row(id) for id in range(100)]), "id")
    assert files_of(table) == before


def test_an_error_of_the_stream_is_raised_as_it_is(
    few: RacingCatalog, n_parts: Callable[[], list[int]]
) -> None:
    table = made(few, "n")

    def batches() -> Iterator[pa.RecordBatch]:
        yield from of([row(id) for id in range(100)]).to_batches(max_chunksize=7)
        raise OSError("the line is cut")

    with pytest.raises(OSError, match="the line is cut"):
        iceberg.upsert(table, pa.RecordBatchReader.from_batches(of([]).schema, batches()), "id")
    assert rows_of(table).num_rows == len(START)


@pytest.mark.parametrize("verb", ["delete_keys", "upsert"])
def test_the_keys_of_one_part_are_in_memory_at_a_time(
    few: RacingCatalog, n_parts: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Also where Python's collector of cycles does not run: it knows nothing of the bytes of arrays."""
    alive: weakref.WeakSet[KeySet] = weakref.WeakSet()
    most, make = [0], KeySet.of.__func__  # type: ignore[attr-defined]

    def counted(cls: type[KeySet], *arguments: Any) -> KeySet:
        made: KeySet = make(cls, *arguments)
        alive.add(made)
        most.append(len(alive))
        return made

    rows = pa.table({"id": range(300), "v": [0] * 300})
    table = iceberg_table(few, rows)
    monkeypatch.setattr(KeySet, "of", classmethod(counted))
    gc.disable()
    try:
        getattr(iceberg, verb)(table, rows.set_column(1, "v", pa.array([1] * 300)), "id")
    finally:
        gc.enable()
    assert n_parts()[0] > 3
    assert len(most) > 4
    assert max(most) == 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("version", [2, 3])
def test_a_feed_changes_what_a_dictionary_changes_in_parts_or_as_a_whole(
    few: RacingCatalog,
    n_parts: Callable[[], list[int]],
    duckdb_iceberg: DuckDBPyConnection,
    version: int,
    seed: int,
) -> None:
    random.seed(seed)
    in_parts = seed < 2
    few.properties[LIMIT] = "1500" if in_parts else str(1 << 30)
    table = made(few, "n", version=version, spec=("g",) if seed % 2 else ())
    iceberg.delete(table, "id >= 5 and id < 9")
    expected = {found["id"]: found for found in START if not 5 <= found["id"] < 9}
    stayed, had = set(expected), row_ids(table)
    for columns, inserts in ((None, True), (["g"], False), (["g", "x"], True)):
        rows = [
            row(random.randrange(90), f"g{random.randrange(4)}", random.choice([0.5, None]))
            for _ in range(120)
        ]
        numbered = [{**one, "gone": random.random() < 0.3, "at": at} for at, one in enumerate(rows)]
        last = {one["id"]: one for one in numbered}
        random.shuffle(numbered)
        options: dict[str, Any] = {"update_columns": columns, "when_not_matched_insert_all": inserts}
        options |= {"delete_column": "gone", "order_column": "at"}
        given = pa.Table.from_pylist(numbered, FEED)
        n_snapshots = len(table.metadata.snapshots)
        done = iceberg.upsert(table, stream(given), "id", **options)
        assert len(table.metadata.snapshots) == n_snapshots + 1
        deleted = {id for id, one in last.items() if one["gone"]}
        kept = {id: rows[one["at"]] for id, one in last.items() if id not in deleted}
        both = kept.keys() & expected.keys()
        changed = {
            id: expected[id] | {name: kept[id][name] for name in columns or SCHEMA.names} for id in both
        }
        changed = {id: one for id, one in changed.items() if one != expected[id]}
        new = {id: one for id, one in kept.items() if inserts and id not in both}
        assert done.rows_superseded == len(rows) - len(last)
        assert done.keys_deleted == len(deleted & expected.keys())
        assert (done.rows_inserted, done.rows_updated) == (len(new), len(changed))
        assert done.rows_unchanged == len(both) - len(changed)
        expected = {id: one for id, one in expected.items() if id not in deleted} | changed | new
        stayed -= deleted
        check(table, duckdb_iceberg, list(expected.values()))
        if version == 3:
            number = iceberg.scan(table, selected_fields=("id", "_last_updated_sequence_number")).to_arrow()
            is_last = pc.equal(number[1], table.metadata.last_sequence_number)
            assert {*number.filter(is_last)["id"].to_pylist()} == changed.keys() | new.keys()
        again = iceberg.upsert(table, stream(given), "id", **options)
        n_given = len(both) + len(new)
        assert (again.commit.id, again.keys_deleted, again.rows_unchanged) == (None, 0, n_given)
        written = iceberg.upsert(table, stream(given), "id", skip_unchanged=False, **options)
        assert (written.rows_updated, written.rows_unchanged) == (n_given, 0)
        check(table, duckdb_iceberg, list(expected.values()))
    assert iceberg.verify(table) == []
    assert [n > 3 for n in n_parts()] == [True] * 9 * in_parts
    if version == 3:
        has = row_ids(table)
        assert len(set(has.values())) == len(has)
        assert {id: has[id] for id in stayed} == {id: had[id] for id in stayed}
