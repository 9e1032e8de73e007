"""Laws of `index_keys`: verbs and scans give the same rows with an index as without one, whatever becomes of it."""

from __future__ import annotations

import datetime
import random
import uuid
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import And, EqualTo, GreaterThan, In
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, LongType, NestedField, StringType

from puffin_fast import errors, iceberg, key_index
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.index import build, lookup, segment_maker
from puffin_fast.iceberg.index.properties import KEY_INDEXES, indexed_columns
from puffin_fast.iceberg.index.stored import NAME_END
from puffin_fast.iceberg.maintenance import rewrite_job
from puffin_fast.iceberg.manifest.columns import FileColumns
from puffin_fast.key_index import making
from puffin_fast.puffin import PuffinReader, PuffinWriter
from puffin_fast.rows.files.reader import DataFiles
from tests.iceberg.conftest import RacingCatalog, files_of, local, rows_of
from tests.rows.deletes.equality_deletes import FIELDS, delete_equal

if TYPE_CHECKING:
    from pyiceberg.table import Table

UTC = datetime.UTC
DAY = datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)
N, EACH = 4, 300

KEYS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "id": (pa.int64(), lambda i: i * 7919 % 1000),
    "i": (pa.int32(), lambda i: i % 400 - 200),
    "b": (pa.bool_(), lambda i: i % 2 == 0),
    "day": (pa.date32(), lambda i: DAY.date() + datetime.timedelta(i % 500)),
    "t": (pa.time64("us"), lambda i: (DAY + datetime.timedelta(seconds=i % 333)).time()),
    "ts": (pa.timestamp("us"), lambda i: DAY + datetime.timedelta(microseconds=i % 444)),
    "tz": (pa.timestamp("us", "UTC"), lambda i: DAY.replace(tzinfo=UTC, year=1970 + i % 50, day=1)),
    "price": (pa.decimal128(12, 2), lambda i: Decimal(i % 250 - 50).scaleb(-2)),
    "wide": (pa.decimal128(38, 0), lambda i: Decimal((i % 99 - 9) * 10**30)),
    "f": (pa.float32(), lambda i: (i % 50 - 25) / 2),
    "d": (pa.float64(), lambda i: float("nan") if i % 100 == 1 else -0.0 if i % 100 == 2 else (i % 70) / 4),
    "s": (pa.string(), lambda i: f"name {i % 300}"),
    "bin": (pa.binary(), lambda i: bytes([i % 256]) * (i % 7)),
    "u": (pa.uuid(), lambda i: uuid.UUID(int=i % 200)),
}  # fmt: skip


def rows(start: int, stop: int) -> pa.Table:
    """Rows of KEYS, every eleventh value null, a struct with a key, and the row's number."""
    columns = {
        name: pa.array([None if i % 11 == 5 else value(i) for i in range(start, stop)], kind)
        for name, (kind, value) in KEYS.items()
    }
    point = [None if i % 5 == 0 else {"x": i % 60, "tag": f"t{i % 3}"} for i in range(start, stop)]
    kind = pa.struct([("x", pa.int64()), ("tag", pa.string())])
    return pa.table(
        {**columns, "point": pa.array(point, kind), "n": pa.array(range(start, stop), pa.int64())}
    )


def make(catalog: RacingCatalog, name: str = "n.t") -> Table:
    table = iceberg.create_table(catalog, name, rows(0, 1).schema)
    for at in range(N):
        iceberg.append(table, rows(at * EACH, (at + 1) * EACH))
    return table


def numbers(table: Table) -> list[int]:
    found: list[int] = iceberg.scan(table, selected_fields=["n"]).to_arrow()["n"].to_pylist()
    return sorted(found)


def every_row(table: Table) -> pa.Table:
    """All columns but the one with NaN, which equals nothing."""
    return rows_of(table, order="n").drop(["d"])


@pytest.fixture(autouse=True)
def every_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates narrow small data files, too."""
    monkeypatch.setattr(lookup, "ROWS_PER_CANDIDATE", 0)


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many data files were narrowed to candidates or left out, for each plan that used an index."""
    counts: list[int] = []
    run = lookup._Lookup.run

    def counted(self: lookup._Lookup, plan: Any) -> Any:
        found = run(self, plan)
        covered = {path for stored in self._segments for path in stored.segment.numbers}
        counts.append(
            len(covered.difference(task.data.file_path for task in found if task.candidates is None))
        )
        return found

    monkeypatch.setattr(lookup._Lookup, "run", counted)
    return counts


@pytest.mark.parametrize("name", [*KEYS, "point.x"])
def test_keys_of_each_type_are_deleted_as_without_an_index(
    racing: RacingCatalog, looked_up: list[int], name: str
) -> None:
    table, plain = make(racing), make(racing, "n.plain")
    index = iceberg.index_keys(table, name)
    assert (index.data_files, index.rows, index.data_files_left, index.committed) == (N, N * EACH, 0, True)
    column = rows(0, 600)[name.partition(".")[0]]
    values = pa.compute.struct_field(column.combine_chunks(), "x") if name == "point.x" else column
    keys = pa.table({name: values.slice(3, 9)})
    for null_safe in (False, True):
        results = [iceberg.delete_keys(one, keys, name, null_safe=null_safe) for one in (table, plain)]
        assert results[0].rows_deleted == results[1].rows_deleted > 0
        assert numbers(table) == numbers(plain)
    assert len(looked_up) == 2
    assert all(looked_up)


@pytest.mark.parametrize("columns", [["i", "s"], ["s", "point.x"], ["day", "price", "id"]])
@pytest.mark.parametrize("indexed", [slice(None), slice(0, 1)])
def test_keys_of_several_columns_are_deleted_as_without_an_index(
    racing: RacingCatalog, looked_up: list[int], columns: list[str], indexed: slice
) -> None:
    table, plain = make(racing), make(racing, "n.plain")
    iceberg.index_keys(table, columns[indexed])
    keys = rows(0, 1200).slice(2, 1100).flatten().flatten()
    keys = pa.table({name: keys[name] for name in columns}).slice(0, 40)
    for null_safe in (False, True):
        results = [iceberg.delete_keys(one, keys, columns, null_safe=null_safe) for one in (table, plain)]
        assert results[0].rows_deleted == results[1].rows_deleted > 0
        assert numbers(table) == numbers(plain)
    assert len(looked_up) == 2
    assert all(looked_up)


INDEXED: list[Any] = [
    "id = 838",
    "id in (838, 757, 5000)",
    "s = 'name 5' and i > 0",
    "price = 0.25",
    "day = '2024-03-02'",
    "s in ('name 1', 'name 2') and id in (1, 2, 919, 838)",
    EqualTo("id", 838),
    And(In("s", ["name 5", "name 6"]), GreaterThan("i", 0)),
    pc.field("id") == 838,
    (pc.scalar("name 5") == pc.field("s")) & (pc.field("i") + 1 > 0),
    pc.field("id").isin([838, 757, 2**33]) & (pc.field("n") >= 0),
    pc.field("price") == Decimal("0.250"),
    pc.field("day") == datetime.date(2024, 3, 2),
]
OTHERS: list[Any] = [
    "id = 838 or s = 'name 5'",
    "not (id = 838)",
    pc.field("s").isin(["name 1", None]),
    (pc.field("id") == 838) | (pc.field("id") == 757),
    ~(pc.field("id") == 838),
    pc.field("id") == 838.0,
]


@pytest.mark.parametrize(
    ("where", "uses"), [*((where, True) for where in INDEXED), *((where, False) for where in OTHERS)]
)
def test_scans_deletes_and_updates_by_filter_are_those_without_an_index(
    racing: RacingCatalog, looked_up: list[int], where: Any, uses: bool
) -> None:
    table, plain = make(racing), make(racing, "n.plain")
    for name in ("id", "s", "price", "day"):
        iceberg.index_keys(table, name)
    for one in (table, plain):
        iceberg.delete_keys(one, pa.table({"n": range(0, 999, 10)}), "n")
    found = [iceberg.scan(one, where, ["n"]) for one in (table, plain)]
    assert found[0].count() == found[1].count() > 0
    assert found[0].to_arrow().sort_by("n").equals(found[1].to_arrow().sort_by("n"))
    updated = [iceberg.update(one, where, {"i": 77}) for one in (table, plain)]
    assert updated[0].rows_updated == updated[1].rows_updated
    assert every_row(table).equals(every_row(plain))
    deleted = [iceberg.delete(one, where) for one in (table, plain)]
    assert deleted[0].rows_deleted == deleted[1].rows_deleted
    assert numbers(table) == numbers(plain)
    assert any(looked_up) is uses


def test_an_expression_is_evaluated_for_live_rows_that_may_match(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64()), ("n", pa.int64())]))
    iceberg.append(table, pa.table({"id": [7, 7, 8, 9] * 50, "n": [0, 5, 0, 5] * 50}))
    iceberg.index_keys(table, "id")
    iceberg.delete(table, "id = 7 and n = 0")  # a division of these rows would fail
    where = (pc.field("id") == 7) & (pc.scalar(10) / pc.field("n") == 2)
    assert iceberg.scan(table, where).count() == 50
    assert iceberg.scan(table, where).explain()["key index"].rows == 100
    assert iceberg.delete(table, where).rows_deleted == 50
    assert iceberg.scan(table).count() == 100


def test_an_upsert_is_that_without_an_index(racing: RacingCatalog, looked_up: list[int]) -> None:
    table, plain = make(racing), make(racing, "n.plain")
    iceberg.index_keys(table, "n")
    given = rows(0, 5000).slice(1150, 100)
    results = [iceberg.upsert(one, given, "n") for one in (table, plain)]
    changed = given.set_column(given.schema.get_field_index("i"), "i", pa.array([1] * 100, pa.int32()))
    results += [iceberg.upsert(one, changed, "n") for one in (table, plain)]
    for first, second in (results[:2], results[2:]):
        assert (first.rows_updated, first.rows_inserted, first.rows_unchanged) == (
            second.rows_updated,
            second.rows_inserted,
            second.rows_unchanged,
        )
    assert every_row(table).equals(every_row(plain))
    assert len(looked_up) == 2
    assert all(looked_up)


def test_a_transaction_finds_rows_that_its_own_verbs_added(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    with iceberg.transaction(table) as tx:
        assert tx.delete_keys([5, 6], "n").rows_deleted == 2
        tx.append(rows(5, 7))
        assert tx.delete_keys([6, 7], "n").rows_deleted == 2
    assert numbers(table) == [n for n in range(N * EACH) if n not in (6, 7)]


@pytest.mark.parametrize("most_keys", [lookup.FEW_KEYS, 0])
def test_few_keys_plan_only_the_data_files_that_may_have_one(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch, most_keys: int
) -> None:
    made: list[int] = []

    def entries(self: FileColumns) -> list[Any]:
        found = entries_of(self)
        made.append(len(found))
        return found

    table = iceberg.create_table(racing, "n.t", rows(0, 1).schema)
    every = rows(0, 800)
    for at in range(8):  # the bounds of all data files include most keys
        iceberg.append(table, every.take(list(range(at, 800, 8))))
        if at == 6:
            iceberg.index_keys(table, "n")
    entries_of = FileColumns.entries
    monkeypatch.setattr(FileColumns, "entries", entries)
    monkeypatch.setattr(lookup, "FEW_KEYS", most_keys)
    assert iceberg.scan(table, "n = 401").to_arrow()["n"].to_pylist() == [401]
    assert sum(made) == (2 if most_keys else 8)  # no segment covers the last one
    made.clear()
    found = iceberg.scan(table, "n in (402, 403, 407)")
    assert sorted(found.to_arrow()["n"].to_pylist()) == [402, 403, 407]
    assert sum(made) == (3 if most_keys else 8)
    explained = found.explain()
    assert (explained.read.data_files, explained.table.data_files) == (3, 8)


def test_rows_of_equality_deletes_stay_deleted(racing: RacingCatalog) -> None:
    schema = pa.schema([(FIELDS[id].name, pa.int64() if id == 1 else pa.string()) for id in (1,)])
    table = iceberg.create_table(racing, "n.t", schema)
    name = FIELDS[1].name
    iceberg.append(table, pa.table({name: range(500)}))
    iceberg.index_keys(table, name)
    delete_equal(table, [1], [(7,)])
    table.refresh()
    assert iceberg.scan(table, f"{name} = 7").count() == 0
    assert iceberg.delete_keys(table, [7, 8], name).rows_deleted == 1


def test_data_files_that_came_later_are_searched_and_then_indexed_alone(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    iceberg.append(table, rows(5000, 5100))
    assert iceberg.delete_keys(table, [3, 5003], "n").rows_deleted == 2
    index = iceberg.index_keys(table, "n")
    assert (index.data_files_read, index.segments, index.data_files) == (1, 2, N + 1)
    assert iceberg.delete_keys(table, [4, 5004], "n").rows_deleted == 2
    assert not iceberg.index_keys(table, "n", dry_run=True).committed
    iceberg.index_keys(table, "n")
    assert not iceberg.index_keys(table, "n").committed
    assert iceberg.index_keys(table, "n", incremental=False).data_files_read == N + 1


def test_many_segments_are_merged_and_dead_ones_leave(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", rows(0, 1).schema)
    for at in range(12):
        iceberg.append(table, rows(at * 10, at * 10 + 10))
        index = iceberg.index_keys(table, "n")
        assert index.segments <= build.MOST_SEGMENTS
    assert index.data_files == 12
    assert iceberg.delete_keys(table, [5, 55, 119], "n").rows_deleted == 3
    iceberg.rewrite_data_files(table, min_input_files=2)
    index = iceberg.index_keys(table, "n")
    assert (index.data_files, index.segments) == (1, 1)
    assert iceberg.delete_keys(table, [6, 56, 118], "n").rows_deleted == 3


def test_little_memory_makes_more_segments_with_the_same_rows(racing: RacingCatalog) -> None:
    table = make(racing)
    table.io.properties["puffin-fast.limit.key-index-bytes"] = str(build.ROW_BYTES * EACH)
    index = iceberg.index_keys(table, "n")
    assert (index.segments, index.data_files) == (N, N)
    assert iceberg.delete_keys(table, [5, 305, 605, 905], "n").rows_deleted == 4


def test_segments_of_little_memory_are_merged_as_long_as_their_bytes_fit(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("n", pa.int64())]))
    with iceberg.transaction(table) as transaction:
        for at in range(12):
            transaction.append(pa.table({"n": range(at * 500, at * 500 + 500)}))
    limit = {"puffin-fast.limit.key-index-bytes": str(build.ROW_BYTES * 600)}
    table.io.properties |= limit
    index = iceberg.index_keys(table, "n")
    assert 1 < index.segments < build.MOST_SEGMENTS
    monkeypatch.setattr(build, "MOST_SEGMENTS", 1)
    iceberg.append(
        table, pa.table({"n": [1 << 50]})
    )  # of more bits: others would be made anew, in more memory
    table.io.properties |= limit
    after = iceberg.index_keys(table, "n")
    assert 1 < after.segments <= index.segments + 1
    assert iceberg.verify(table, level="rows") == []
    assert iceberg.delete_keys(table, [5, 1400, 5999, 6000, 1 << 50], "n").rows_deleted == 4


def blobs(table: Table) -> list[tuple[str, tuple[int, ...], bytes]]:
    snapshot_id = table.metadata.current_snapshot_id
    (statistics,) = (s for s in table.metadata.statistics if s.snapshot_id == snapshot_id)
    with PuffinReader(local(statistics.statistics_path)) as reader:
        assert (statistics.file_size_in_bytes, statistics.file_footer_size_in_bytes) == (
            reader.file_size,
            reader.footer_size,
        )
        return [(blob.type, blob.fields, reader.stored(blob)) for blob in reader.blobs]


def test_sketches_and_segments_keep_each_other_byte_for_byte(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.collect_ndv(table, ["id", "s"])
    sketches, named = blobs(table), table.metadata.statistics[0].blob_metadata
    iceberg.index_keys(table, "n")
    assert blobs(table)[:2] == sketches
    assert table.metadata.statistics[0].blob_metadata == named
    iceberg.index_keys(table, "s")
    assert [blob[:2] for blob in blobs(table)[2:]] == [
        (key_index.BLOB_TYPE, (16,)),
        (key_index.BLOB_TYPE, (12,)),
    ]
    before = blobs(table)[2:]
    iceberg.collect_ndv(table, ["day"])
    assert [blob for blob in blobs(table) if blob[0] == key_index.BLOB_TYPE] == before
    assert set(sketches) < set(blobs(table))
    assert table.metadata.statistics[0].statistics_path.endswith(NAME_END)
    assert iceberg.ndv(table)["column"].to_pylist() == ["id", "day", "s"]
    assert not iceberg.index_keys(table, "n").committed


def test_the_metadata_names_no_blob_that_pyiceberg_does_not_know(racing: RacingCatalog) -> None:
    iceberg.index_keys(make(racing), "n")
    again = racing.load_table("n.t")
    assert [statistics.blob_metadata for statistics in again.metadata.statistics] == [[]]
    assert again.scan().to_arrow().num_rows == N * EACH


def test_statistics_that_are_committed_meanwhile_are_kept(racing: RacingCatalog) -> None:
    table = make(racing)
    racing.before.append(lambda: iceberg.collect_ndv(racing.load_table("n.t"), ["id"]))
    iceberg.index_keys(table, "n")
    assert [kind for kind, *_ in blobs(table)] == ["apache-datasketches-theta-v1", key_index.BLOB_TYPE]
    racing.before.append(lambda: iceberg.index_keys(racing.load_table("n.t"), "s"))
    iceberg.collect_ndv(table, ["s"])
    assert sorted(fields for kind, fields, _ in blobs(table) if kind == key_index.BLOB_TYPE) == [(12,), (16,)]


def test_a_dry_run_and_a_failed_commit_leave_nothing(racing: RacingCatalog) -> None:
    table = make(racing)
    before = files_of(table)
    assert iceberg.index_keys(table, "n", dry_run=True).data_files_left == N
    assert files_of(table) == before

    def fail() -> None:
        raise KeyboardInterrupt

    racing.before.append(fail)
    with pytest.raises(KeyboardInterrupt):
        iceberg.index_keys(table, "n")
    left = files_of(table) - before
    assert all(path.name.endswith((NAME_END, ".metadata.json")) for path in left)
    assert iceberg.delete_keys(table, [5], "n").rows_deleted == 1


def stored(table: Table) -> Path:
    (path,) = {local(s.statistics_path) for s in table.metadata.statistics}
    return path


@pytest.mark.parametrize("loss", ["missing", "empty", "cut", "other bytes", "zeros", "folder"])
def test_a_lost_index_loses_no_rows(racing: RacingCatalog, loss: str) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    path = stored(table)
    data = path.read_bytes()
    path.unlink()
    changed = {
        "empty": b"",
        "cut": data[:-9],
        "other bytes": bytes(reversed(data)),
        "zeros": bytes(len(data)),
    }
    if loss == "folder":
        path.mkdir()
    elif loss != "missing":
        path.write_bytes(changed[loss])
    assert iceberg.delete_keys(table, [5, 700], "n").rows_deleted == 2
    assert iceberg.scan(table, "n = 9").count() == 1
    index = iceberg.index_keys(table, "n")
    assert (index.data_files_read, len(index.notes)) == (N, 1)
    assert iceberg.delete_keys(table, [6, 701], "n").rows_deleted == 2


@pytest.mark.parametrize("name", ["n", "s"])
def test_damaged_bytes_of_an_index_lose_and_add_no_rows(racing: RacingCatalog, name: str) -> None:
    table = make(racing)
    iceberg.index_keys(table, name)
    path = stored(table)
    data = path.read_bytes()
    chance = random.Random(5)
    where = "n = 500" if name == "n" else "s = 'name 200'"
    expected = iceberg.scan(table, where, ["n"]).to_arrow()
    for _ in range(60):
        lookup_cache_cleared()
        changed = bytearray(data)
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        assert iceberg.scan(table, where, ["n"]).to_arrow().equals(expected)


def lookup_cache_cleared() -> None:
    from puffin_fast.iceberg.index import stored as known

    known._known.clear()


def replaced(table: Table, make_blob: Callable[[bytes], bytes]) -> None:
    """Writes other segments to the place of the stored ones."""
    path = stored(table)
    with PuffinReader(path) as reader:
        found = [(blob, reader.read(blob)) for blob in reader.blobs]
    lookup_cache_cleared()
    with PuffinWriter(path, overwrite=True) as writer:
        for blob, data in found:
            writer.add(make_blob(data), type=blob.type, fields=blob.fields)
    (known,) = table.metadata.statistics
    changed = known.model_copy(update={"file_size_in_bytes": path.stat().st_size})
    table.metadata = table.metadata.model_copy(update={"statistics": [changed]})  # not committed


def test_a_segment_of_files_of_another_size_or_row_count_is_not_used(racing: RacingCatalog) -> None:
    for wrong in ("n_bytes", "n_rows"):
        table = make(racing, f"n.{wrong}")
        iceberg.index_keys(table, "n")

        def other(data: bytes, wrong: str = wrong) -> bytes:
            known = key_index.Segment(key_index.in_memory(data), len(data))
            files = [file._replace(**{wrong: getattr(file, wrong) + 1}) for file in known.files]
            n_rows = sum(file.n_rows for file in files)
            return key_index.encode([pa.array([10**6] * n_rows, pa.int64())], files, known.fields)

        replaced(table, other)
        assert iceberg.scan(table, "n = 5").count() == 1


def test_forced_collisions_delete_no_other_row(
    racing: RacingCatalog, looked_up: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "REMAINDER_BITS", 1)
    monkeypatch.setattr(making, "_LEAST_HASH_BITS", 0)
    table, plain = make(racing), make(racing, "n.plain")
    iceberg.index_keys(table, "s")
    keys = pa.table({"s": [f"name {i}" for i in range(0, 300, 3)]})
    results = [iceberg.delete_keys(one, keys, "s") for one in (table, plain)]
    assert results[0].rows_deleted == results[1].rows_deleted
    assert numbers(table) == numbers(plain)
    assert looked_up == [N]


def test_an_index_outlives_promotions_renames_and_new_columns(
    racing: RacingCatalog, looked_up: list[int]
) -> None:
    table = make(racing)
    iceberg.index_keys(table, "i")
    iceberg.index_keys(table, "price")
    with v3_metadata(racing), table.update_schema() as change:
        change.update_column("i", LongType())
        change.update_column("price", DecimalType(30, 2))
        change.rename_column("s", "text")
        change.add_column("new", StringType())
    far = pa.table({"i": pa.array([7, 2**40], pa.int64())})
    expected = sum(1 for i in range(N * EACH) if i % 11 != 5 and i % 400 - 200 == 7)
    assert iceberg.delete_keys(table, far, "i").rows_deleted == expected
    wide = pa.table({"price": pa.array([Decimal("0.25"), Decimal(10**25)], pa.decimal128(30, 2))})
    left = [i for i in range(N * EACH) if not (i % 11 != 5 and i % 400 - 200 == 7)]
    expected = sum(1 for i in left if i % 11 != 5 and i % 250 - 50 == 25)
    assert iceberg.delete_keys(table, wide, "price").rows_deleted == expected
    assert len(looked_up) == 2
    assert all(looked_up)
    iceberg.append(table, pa.table({"n": [10**6], "new": ["x"]}))
    index = iceberg.index_keys(table, "new")
    assert index.data_files == N + 1
    assert iceberg.delete_keys(table, ["x"], "new").rows_deleted == 1
    nulls = pa.table({"new": pa.array([None], pa.string())})
    assert iceberg.delete_keys(table, nulls, "new", null_safe=True).rows_deleted == len(left) - expected


def test_an_index_whose_snapshot_expired_costs_time_only(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    iceberg.append(table, rows(5000, 5010))
    iceberg.expire_snapshots(table, older_than=datetime.timedelta(0), retain_last=1)
    assert table.metadata.statistics == []
    assert iceberg.delete_keys(table, [5, 5005], "n").rows_deleted == 2
    assert iceberg.index_keys(table, "n").data_files_read == N + 1


def test_a_branch_has_an_index_of_its_own(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    with v3_metadata(racing):
        table.manage_snapshots().create_branch(table.metadata.current_snapshot_id or 0, "b").commit()
    iceberg.append(table, rows(5000, 5010), branch="b")
    index = iceberg.index_keys(table, "n", branch="b")
    assert (index.data_files_read, index.data_files) == (1, N + 1)
    assert iceberg.delete_keys(table, [5, 5005], "n", branch="b").rows_deleted == 2
    assert iceberg.delete_keys(table, [5, 5005], "n").rows_deleted == 1


def test_what_cannot_be_indexed_is_refused(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", rows(0, 1).schema)
    with pytest.raises(errors.NotFoundError, match="no snapshots"):
        iceberg.index_keys(table, "n")
    iceberg.append(table, rows(0, 10))
    with pytest.raises(errors.NotFoundError, match="no column m"):
        iceberg.index_keys(table, "m")
    with pytest.raises(errors.InvalidInputError, match="no identifier fields"):
        iceberg.index_keys(table)
    with pytest.raises(errors.InvalidInputError, match="expected a primitive type"):
        iceberg.index_keys(table, "point")


def test_a_lookup_reads_few_bytes_of_the_index(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64())]))
    iceberg.append(table, pa.table({"id": range(200_000)}))
    index = iceberg.index_keys(table, "id")
    lookup_cache_cleared()
    read: list[int] = []
    inner = PuffinReader.ranges_of

    def counted(self: PuffinReader, blob: Any) -> Any:
        reads = inner(self, blob)

        def of(ranges: Any) -> Any:
            for number, data in reads(ranges):
                read.append(len(data))
                yield number, data

        return of

    monkeypatch.setattr(PuffinReader, "ranges_of", counted)
    assert iceberg.scan(table, "id = 77777").count() == 1
    assert sum(read) < index.n_bytes / 50
    before = len(read)
    assert iceberg.scan(table, "id = 77778").count() == 1
    assert len(read) - before == 1  # one block: header and directory are in memory


def test_exact_entries_are_deleted_without_reading_a_data_file(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    iceberg.delete_keys(table, [5, 6], "n")
    with monkeypatch.context() as patch:
        patch.setattr(DataFiles, "open", None)
        found = iceberg.delete_keys(table, [6, 7, 700, 10**9], "n")
    assert (found.rows_deleted, found.data_files) == (2, 2)
    assert numbers(table) == [n for n in range(N * EACH) if n not in (5, 6, 7, 700)]
    keys = pa.table({"n": [8, 9], "s": ["name 8", "another"]})
    assert iceberg.delete_keys(table, keys, ["n", "s"]).rows_deleted == 1  # the rows are read


def with_ids(table: Table, *names: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        iceberg.scan(table, selected_fields=[*names, "_row_id"]).to_arrow().sort_by("_row_id").to_pylist()
    )
    return found


@pytest.mark.parametrize("version", [2, 3])
def test_rows_whose_exact_keys_are_indexed_are_replaced_unread(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    pair = []
    for name in ("n.t", "n.plain"):
        schema = pa.schema([("n", pa.int64()), ("v", pa.string())])
        create = racing.create_table if version == 2 else partial(iceberg.create_table, racing)
        table = create(name, schema)
        for at in range(N):
            iceberg.append(
                table, pa.table({"n": range(at * EACH, (at + 1) * EACH), "v": ["old"] * EACH}, schema=schema)
            )
        iceberg.delete_keys(table, [3, 700], "n")
        pair.append(table)
    iceberg.index_keys(pair[0], "n")

    def upsert(round: int, keys: list[int]) -> None:
        given = pa.table({"n": keys, "v": [f"round {round}"] * len(keys)}, schema=schema)
        found = []
        for table in pair:
            with monkeypatch.context() as patch:
                if table is pair[0] and round == 0:
                    patch.setattr(DataFiles, "open", None)
                result = iceberg.upsert(table, given, "n", skip_unchanged=False)
            found.append((result.rows_updated, result.rows_inserted))
        assert found[0] == found[1]

    upsert(0, [2, 3, 4, 700, 701, 5000])
    iceberg.index_keys(pair[0], "n")  # covers files that store row ids
    upsert(1, [4, 5, 3, 701, 900, 6000])
    upsert(2, [5, 4, 902])  # of files that the index does not cover, too
    assert iceberg.verify(pair[0], level="rows") == []
    if version == 3:
        assert with_ids(pair[0], "n", "v") == with_ids(pair[1], "n", "v")
    assert rows_of(pair[0], order="n").equals(rows_of(pair[1], order="n"))


EXACT = {
    "bool": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [-(2**31), -1, 0, 7, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), -(2**40), 5, 2**63 - 1]),
    "date": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)]),
    "time": (pa.time64("us"), [datetime.time(0, 0), DAY.time()]),
    "timestamp": (pa.timestamp("us"), [DAY, datetime.datetime(1900, 1, 1)]),
    "timestamptz": (pa.timestamp("us", "UTC"), [DAY.replace(tzinfo=UTC)]),
    "decimal": (pa.decimal128(12, 2), [Decimal("-9.99"), Decimal("1234567890.12")]),
}


@pytest.mark.parametrize("name", EXACT)
def test_rows_of_each_exact_type_are_replaced_as_without_an_index(racing: RacingCatalog, name: str) -> None:
    kind, values = EXACT[name]
    schema = pa.schema([("k", kind), ("v", pa.int64())])
    pair = []
    for table_name in ("n.t", "n.plain"):
        table = iceberg.create_table(racing, table_name, schema)
        iceberg.append(table, pa.table({"k": values, "v": range(len(values))}, schema=schema))
        pair.append(table)
    iceberg.index_keys(pair[0], "k")
    for table in pair:
        given = pa.table({"k": values, "v": [-at for at in range(len(values))]}, schema=schema)
        assert iceberg.upsert(table, given, "k", skip_unchanged=False).rows_updated == len(values)
    assert with_ids(pair[0], "k", "v") == with_ids(pair[1], "k", "v")


def test_verify_finds_nothing_wrong_with_an_index(racing: RacingCatalog) -> None:
    table = make(racing)
    for columns in ("n", "s", ["i", "point.x"], "d", "wide", "price"):
        iceberg.index_keys(table, columns)
    iceberg.delete_keys(table, [5, 6], "n")
    iceberg.append(table, rows(5000, 5010))
    for level in ("metadata", "files", "rows"):
        assert list(iceberg.verify(table, level=level)) == []


def test_an_index_of_an_older_layout_is_ignored_by_name_and_built_again(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    replaced(table, lambda data: data[:4] + b"\1" + data[5:])
    (advice,) = [one for one in iceberg.report(table).advice if "index_keys" in one]
    assert "key index of version 1; expected 2" in advice
    (note,) = iceberg.scan(table, "n = 7").explain().notes
    assert "key index of version 1; expected 2" in note
    (finding,) = iceberg.verify(table)
    assert finding.kind == "unsupported"
    assert iceberg.delete_keys(table, [7], "n").rows_deleted == 1
    index = iceberg.index_keys(table, "n")
    assert (index.data_files_read, len(index.notes)) == (N, 1)
    assert iceberg.report(table).key_indexes["share_of_rows"].to_pylist() == [1.0]


def test_verify_names_damage_of_an_index(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    path = stored(table)
    data = path.read_bytes()
    with PuffinReader(path) as reader:
        (blob,) = reader.blobs
    changed = bytearray(data)
    changed[blob.offset + blob.length - 9] ^= 1
    path.write_bytes(changed)
    (finding,) = iceberg.verify(table)
    assert (finding.kind, finding.offset) == ("corrupt", blob.offset)
    assert "key index: block" in finding.message
    assert list(iceberg.verify(table, level="metadata")) == []
    path.write_bytes(data[:-3])
    (finding,) = iceberg.verify(table, level="metadata")
    assert (finding.kind, finding.offset) == ("corrupt", None)
    path.unlink()
    (finding,) = iceberg.verify(table)
    assert finding.kind == "missing"


@pytest.mark.parametrize("name", ["n", "s"])
def test_verify_compares_an_index_with_the_rows(racing: RacingCatalog, name: str) -> None:
    table = make(racing)
    iceberg.index_keys(table, name)

    def other(data: bytes) -> bytes:
        known = key_index.Segment(key_index.in_memory(data), len(data))
        values = rows(0, N * EACH)[name].combine_chunks()
        return key_index.encode([values], known.files, known.fields)  # whose data files are in another order

    replaced(table, other)
    assert list(iceberg.verify(table)) == []
    found = iceberg.verify(table, level="rows")
    assert {finding.kind for finding in found} == {"mismatch"}
    assert "expected the keys of" in found[0].message


def test_maintain_keeps_the_indexes_that_a_property_names(racing: RacingCatalog) -> None:
    schema = rows(0, 1).schema
    table = iceberg.create_table(racing, "n.t", schema, properties={KEY_INDEXES: "n; s , i;"})
    policy = iceberg.MaintenancePolicy(expire_older_than=datetime.timedelta(0), retain_last=1)
    assert iceberg.maintain(table, policy).key_indexes == ()
    for at in range(6):
        iceberg.append(table, rows(at * 10, at * 10 + 10))
    dry = iceberg.maintain(table, policy, dry_run=True).key_indexes
    assert [(index.columns, index.committed) for index in dry] == [(("n",), False), (("s", "i"), False)]
    found = iceberg.maintain(table, policy).key_indexes
    assert [(index.columns, index.data_files, index.data_files_left) for index in found] == [
        (("n",), 1, 0),
        (("s", "i"), 1, 0),
    ]
    assert len(table.metadata.snapshots) == 1
    assert not any(index.committed for index in iceberg.maintain(table, policy).key_indexes)
    iceberg.append(table, rows(100, 110))
    assert [index.data_files_read for index in iceberg.maintain(table, policy).key_indexes] == [1, 1]


def test_a_rewrite_keeps_the_indexes_that_a_property_names(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = rows(0, 1).schema
    table = iceberg.create_table(racing, "n.t", schema, properties={KEY_INDEXES: "n; s,i; id"})
    for at in range(4):
        iceberg.append(table, rows(at * 10, at * 10 + 10))
    assert iceberg.rewrite_data_files(table, min_input_files=2).key_indexes == ()  # none exists
    iceberg.index_keys(table, "n")
    iceberg.index_keys(table, ["s", "i"])
    for at in range(4, 8):
        iceberg.append(table, rows(at * 10, at * 10 + 10))
    iceberg.delete(table, "n in (5, 45)")
    opened: list[str] = []
    inner = DataFiles.open

    def watched(self: DataFiles, data: Any, *rest: Any) -> Any:
        opened.append(data.file_path)
        return inner(self, data, *rest)

    monkeypatch.setattr(DataFiles, "open", watched)
    with monkeypatch.context() as patch:
        patch.setattr(build, "MOST_SEGMENTS", 1)
        done = iceberg.rewrite_data_files(table, "n >= 40", min_deleted=1, min_input_files=2)
    assert [(one.columns, one.data_files_read, one.data_files_left) for one in done.key_indexes] == [
        (("n",), 1, 0),
        (("s", "i"), 1, 0),
    ]
    assert done.notes == ()
    new = {task.file.file_path for task in table.scan().plan_files()} - set(opened[:4])
    assert set(opened[-2:]) <= new
    monkeypatch.undo()
    assert not iceberg.index_keys(table, "n").committed
    assert iceberg.verify(table, level="rows") == []
    assert iceberg.delete_keys(table, [5, 6, 46, 79], "n").rows_deleted == 3
    iceberg.compact(table)
    assert iceberg.report(table).key_indexes["share_of_rows"].to_pylist() == [1.0, 1.0]


def test_a_rewrite_is_committed_though_its_index_is_not(racing: RacingCatalog) -> None:
    schema = rows(0, 1).schema
    table = iceberg.create_table(racing, "n.t", schema, properties={KEY_INDEXES: "n"})
    for at in range(4):
        iceberg.append(table, rows(at * 10, at * 10 + 10))
    iceberg.index_keys(table, "n")

    def fail() -> None:
        raise OSError("the disk is full")

    racing.before.append(lambda: racing.before.append(fail))
    before = racing.load_table("n.t").metadata.current_snapshot_id
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert done.snapshot_id == racing.load_table("n.t").metadata.current_snapshot_id != before
    assert (done.key_indexes, len(done.notes)) == ((), 1)
    with v3_metadata(racing), table.update_schema() as update:
        update.rename_column("n", "m")
    iceberg.append(table, rows(40, 50).rename_columns({"n": "m"}))
    (note,) = iceberg.rewrite_data_files(table, min_input_files=2).notes
    assert "no column n" in note
    with v3_metadata(racing), table.update_schema() as update:
        update.rename_column("m", "n")
    assert numbers(table) == list(range(50))
    assert iceberg.delete_keys(table, [5], "n").rows_deleted == 1


def test_a_rewrite_is_committed_though_reading_its_keys_raises_an_error_of_another_library(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = iceberg.create_table(racing, "n.t", rows(0, 1).schema, properties={KEY_INDEXES: "n"})
    for at in range(2):
        iceberg.append(table, rows(at * 10, at * 10 + 10))
    iceberg.index_keys(table, "n")

    def lost(*_: Any) -> None:
        raise RuntimeError("an executor was lost")

    monkeypatch.setattr(segment_maker, "key_words", lost)
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert (done.data_files, done.key_indexes) == (2, ())
    assert "an executor was lost" in done.notes[0]


def test_a_cancelled_index_says_that_the_rewrite_is_committed(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = iceberg.create_table(racing, "n.t", rows(0, 1).schema)
    for at in range(2):
        iceberg.append(table, rows(at * 10, at * 10 + 10))

    def cancelled(*_: Any, **__: Any) -> None:
        raise errors.JobInterruptedError("Spark's job was cancelled, nothing was committed")

    monkeypatch.setattr(rewrite_job, "extend_indexes", cancelled)
    with pytest.raises(errors.JobInterruptedError) as caught:
        iceberg.rewrite_data_files(table, min_input_files=2)
    head = table.refresh().current_snapshot()
    assert head is not None
    assert str(caught.value) == (
        f"the rewritten data files are committed up to snapshot {head.snapshot_id}; "
        "the key indexes do not have them, because Spark's job was cancelled"
    )


@pytest.mark.parametrize("named", ["n,", " n ; ", ";n;;", "n, ,"])
def test_separators_of_the_property_name_no_column(named: str) -> None:
    schema = Schema(NestedField(1, "n", LongType()))
    assert indexed_columns({KEY_INDEXES: named}, schema) == [["n"]]


def test_a_wrong_property_is_refused_before_the_first_step(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", rows(0, 1).schema, properties={KEY_INDEXES: "nothing"})
    iceberg.append(table, rows(0, 10))
    before = files_of(table)
    with pytest.raises(errors.NotFoundError, match=r"puffin-fast.key-indexes: .*no column nothing"):
        iceberg.maintain(table)
    assert files_of(table) == before


@pytest.mark.parametrize("indexed", [[1], [2], [1, 2]])
def test_equality_deletes_are_converted_as_without_an_index(
    racing: RacingCatalog, looked_up: list[int], indexed: list[int]
) -> None:
    tables = []
    for name in ("n.t", "n.plain"):
        table = iceberg.create_table(racing, name, Schema(*(FIELDS[id] for id in (1, 2))))
        kinds = table.schema().as_arrow()
        for at in range(4):
            values = [[None if i % 9 == 4 else i % 70 for i in range(at * 50, at * 50 + 50)] for _ in kinds]
            arrays = [pa.array(column).cast(field.type) for column, field in zip(values, kinds, strict=True)]
            iceberg.append(table, pa.table(arrays, schema=kinds))
        if name == "n.t":
            for id in indexed:
                iceberg.index_keys(table, FIELDS[id].name)
        texts = pa.array([3, 68, 5]).cast(kinds.field(1).type).to_pylist()
        firsts = pa.array([3, 11, 60]).cast(kinds.field(0).type).to_pylist()
        delete_equal(table, [1], [(first,) for first in firsts[:2]])
        table.refresh()
        delete_equal(table, [2], [(text,) for text in texts[1:]] + [(None,)])
        table.refresh()
        delete_equal(table, [1, 2], [(firsts[0], texts[0])])
        table.refresh()
        tables.append(table)
    before = [rows_live(table) for table in tables]
    results = [iceberg.convert_equality_deletes(table) for table in tables]
    assert results[0].equality_delete_files_removed == results[1].equality_delete_files_removed == 3
    assert [rows_live(table) for table in tables] == before
    assert before[0] == before[1]
    assert bool(looked_up)


@pytest.mark.parametrize("rewritten", [False, True])
def test_a_key_that_came_back_after_its_equality_delete_stays(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch, rewritten: bool
) -> None:
    table = iceberg.create_table(racing, "n.t", Schema(FIELDS[1], FIELDS[3]))
    for deleted in (7, 9):
        for some in (range(50), range(50, 100)):
            iceberg.append(table, pa.table({"id": some, "s": [f"before {deleted}"] * 50}))
        if rewritten:  # so that the data file stores row ids
            iceberg.rewrite_data_files(table, f"s = 'before {deleted}'", min_input_files=2)
        delete_equal(table, [1], [(deleted,)])
        table.refresh()
    iceberg.index_keys(table, "id")
    before, opened = rows_live(table), []

    def watched(self: DataFiles, data: Any, *rest: Any) -> Any:
        opened.append(data.file_path)
        return open_data_file(self, data, *rest)

    open_data_file = DataFiles.open
    monkeypatch.setattr(DataFiles, "open", watched)
    iceberg.convert_equality_deletes(table)
    assert len(opened) == rewritten
    monkeypatch.undo()
    assert rows_live(table) == before
    assert {"id": 7, "s": "before 9"} in before


def test_a_conversion_of_equality_deletes_knows_the_places_of_pages(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = Schema(*(FIELDS[id] for id in (1, 2, 3)))
    table = iceberg.create_table(racing, "n.t", schema)
    values = [range(5000), pa.array(range(5000), pa.int32()), [f"key {number}" for number in range(5000)]]
    iceberg.append(table, pa.table(values, names=["id", "k", "s"]))
    iceberg.index_keys(table, "s")
    delete_equal(table, [3], [("key 7",), ("key 4900",)])
    table.refresh()
    places = []

    def watched(self: DataFiles, data: Any, fields: Any, live: Any = None, pages: Any = ()) -> Any:
        places.append(pages)
        return open_data_file(self, data, fields, live, pages)

    open_data_file = DataFiles.open
    monkeypatch.setattr(DataFiles, "open", watched)
    assert iceberg.convert_equality_deletes(table).rows_deleted == 2
    ((chunk,),) = places
    assert sum(chunk[3::2]) == 5000  # the rows of its data pages


def rows_live(table: Table) -> list[Any]:
    return sorted(iceberg.scan(table).to_arrow().to_pylist(), key=str)


def test_hashed_decimals_of_more_digits_are_read_from_the_files(racing: RacingCatalog) -> None:
    data = pa.table(
        {
            "p": pa.array([Decimal(n) for n in range(100)], pa.decimal128(10, 2)),
            "s": [f"x{n % 7}" for n in range(100)],
            "n": range(100),
        }
    )
    table = iceberg.create_table(racing, "n.decimals", data.schema)
    iceberg.append(table, data)
    for columns in (["p", "s"], ["p"]):
        iceberg.index_keys(table, columns)
    with v3_metadata(racing), table.update_schema() as update:
        update.update_column("p", field_type=DecimalType(20, 2))
    kind = pa.decimal128(20, 2)
    for columns in (["p", "s"], ["p"]):
        given = pa.table({"p": pa.array([Decimal(6)], kind), "s": ["x6"], "n": [-len(columns)]})
        result = iceberg.upsert(table, given, columns)
        assert (result.rows_updated, result.rows_inserted) == (1, 0)
        key = {"p": pa.array([Decimal(7 + len(columns))], kind), "s": [f"x{len(columns) % 7}"]}
        keys = pa.table({name: key[name] for name in columns})
        assert iceberg.delete_keys(table, keys, columns).rows_deleted == 1
    iceberg.index_keys(table, ["p", "s"])  # what no key of the new form finds is indexed again
    assert (
        iceberg.delete_keys(
            table, pa.table({"p": pa.array([Decimal(20)], kind), "s": ["x6"]}), ["p", "s"]
        ).rows_deleted
        == 1
    )
    assert iceberg.scan(table).count() == 97
    assert iceberg.verify(table, level="rows") == []


def test_verify_compares_decimals_that_have_more_digits_now(racing: RacingCatalog) -> None:
    data = pa.table({"p": pa.array([Decimal(n) for n in range(100)], pa.decimal128(10, 2))})
    table = iceberg.create_table(racing, "n.decimals", data.schema)
    iceberg.append(table, data)
    iceberg.index_keys(table, "p")
    with v3_metadata(racing), table.update_schema() as update:
        update.update_column("p", field_type=DecimalType(20, 2))
    assert iceberg.verify(table, level="rows") == []

    def other(blob: bytes) -> bytes:
        known = key_index.Segment(key_index.in_memory(blob), len(blob))
        return key_index.encode([data["p"].combine_chunks()[::-1]], known.files, known.fields)

    replaced(table, other)
    (finding,) = iceberg.verify(table, level="rows")
    assert "expected the keys of" in finding.message


def test_values_of_the_partition_are_not_indexed(racing: RacingCatalog) -> None:
    schema = pa.schema([("p", pa.int64()), ("n", pa.int64())])
    table = iceberg.create_table(racing, "n.parts", schema, partition_spec=["p"])
    iceberg.append(table, pa.table({"p": [1] * 5, "n": range(5)}))
    (task,) = table.scan().plan_files()
    path = local(task.file.file_path)
    pq.write_table(pq.read_table(path).select(["n"]), path)
    result = iceberg.index_keys(table, "p")
    assert (result.segments, result.data_files_left) == (0, 1)
    assert "values of its partition" in result.notes[0]
    assert iceberg.delete_keys(table, [1], "p").rows_deleted == 5


def test_a_footer_that_names_another_column_is_damage(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.footers", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    iceberg.append(table, pa.table({"a": range(100), "b": range(100, 0, -1)}))
    path = local(str(iceberg.index_keys(table, "a").statistics_path))
    found = bytearray(path.read_bytes())
    at = found.rindex(b'"fields"')
    found[found.index(b"1", at)] = ord("2")
    path.write_bytes(found)
    assert iceberg.delete_keys(table, [5], "b").rows_deleted == 1
    rows = iceberg.scan(table).to_arrow()
    assert 5 not in rows["b"].to_pylist()
    assert 5 in rows["a"].to_pylist()
    (finding,) = iceberg.verify(table)
    assert "key columns of a key index" in finding.message
