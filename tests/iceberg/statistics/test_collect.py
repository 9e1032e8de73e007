"""Laws of `collect_ndv`: the sketches are those of the live rows, whatever the table's version, deletes and history."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from pyiceberg.types import LongType

from puffin_fast import errors, iceberg
from puffin_fast.puffin import PuffinReader, PuffinWriter
from puffin_fast.theta import BLOB_TYPE, ThetaSketch
from tests.iceberg.conftest import current_snapshot, refused, rows_of, unchanged
from tests.iceberg.statistics.statistics import blob_of, blobs_of, make
from tests.kit import theta_oracle as oracle
from tests.kit.faults import RacingCatalog
from tests.kit.tables import files_of, path_of
from tests.rows.deletes.equality_deletes import delete_equal

UTC = datetime.UTC
DAY = datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)

COLUMNS: dict[str, tuple[pa.DataType, str, Any]] = {
    "b": (pa.bool_(), "boolean", lambda i: i % 2 == 0),
    "i": (pa.int32(), "int", lambda i: i % 100),
    "l": (pa.int64(), "long", lambda i: i),
    "f": (pa.float32(), "float", lambda i: i / 2),
    "d": (pa.float64(), "double", lambda i: -i / 4),
    "price": (pa.decimal128(12, 2), "decimal(12, 2)", lambda i: decimal.Decimal(i - 500).scaleb(-2)),
    "wide": (pa.decimal128(38, 0), "decimal(38, 0)", lambda i: decimal.Decimal((i - 9) * 10**30)),
    "day": (pa.date32(), "date", lambda i: DAY.date() + datetime.timedelta(i % 365)),
    "t": (pa.time64("us"), "time", lambda i: (DAY + datetime.timedelta(seconds=i)).time()),
    "ts": (pa.timestamp("us"), "timestamp", lambda i: DAY + datetime.timedelta(microseconds=i)),
    "tz": (pa.timestamp("us", "UTC"), "timestamptz", lambda i: DAY.replace(tzinfo=UTC, year=1970 + i % 50, day=1)),
    "s": (pa.string(), "string", lambda i: f"name {i % 300}"),
    "long_text": (pa.string(), "string", lambda i: f"{i} " * 20),
    "bin": (pa.binary(), "binary", lambda i: bytes([i % 256]) * (i % 7)),
    "fixed": (pa.binary(4), "fixed[4]", lambda i: i.to_bytes(4, "big")),
    "u": (pa.uuid(), "uuid", lambda i: uuid.UUID(int=i)),
}  # fmt: skip
"""A column of each primitive type: Arrow type, Iceberg type, value of a row."""


def rows(start: int, stop: int) -> pa.Table:
    """Rows of COLUMNS, every eleventh value null; and a struct, a list and a map."""
    values = {
        name: pa.array([None if i % 11 == 5 else value(i) for i in range(start, stop)], kind)
        for name, (kind, _, value) in COLUMNS.items()
    }
    numbers = range(start, stop)
    tags = [None if i % 4 == 0 else ["a", f"b{i % 6}", None] for i in numbers]
    point = [None if i % 5 == 0 else {"x": i % 50, "tag": f"t{i % 3}"} for i in numbers]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            **values,
            "point": pa.array(point, pa.struct([("x", pa.int32()), ("tag", pa.string())])),
            "tags": pa.array(tags, pa.list_(pa.string())),
            "props": pa.array([[(f"k{i % 3}", i % 8)] for i in numbers], pa.map_(pa.string(), pa.int64())),
        }
    )  # fmt: skip


def expected(kept: list[int], name: str) -> bytes:
    _, kind, value = COLUMNS[name]
    return oracle.canonical([value(i) for i in kept if i % 11 != 5], kind)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_sketches_are_those_of_the_live_rows(racing: RacingCatalog, version: int) -> None:
    data = rows(0, 700)
    if version < 3:
        data = data.drop(["u"])  # PyIceberg's append
    table = make(racing, data, version=version)
    result = iceberg.collect_ndv(table)
    for name in COLUMNS.keys() & set(data.column_names):
        assert blob_of(table, name) == expected(list(range(700)), name), name
    assert result.ndv["id"] == 700
    assert (
        result.ndv["point.x"] == ThetaSketch.from_arrow([i % 50 for i in range(700) if i % 5], "int").estimate
    )
    assert result.commit.id is not None
    assert result.data_files_read == 1
    assert not result.notes
    again = racing.load_table("n.t")
    assert rows_of(again).num_rows == 700
    assert again.metadata.statistics == table.metadata.statistics


def test_the_blobs_say_what_the_specification_asks(racing: RacingCatalog) -> None:
    table = make(racing, rows(0, 50))
    iceberg.collect_ndv(table, ["id"])
    snapshot = current_snapshot(table)
    (statistics,) = table.metadata.statistics
    (blob,) = statistics.blob_metadata
    assert blob.properties == {"ndv": "50"}
    assert (blob.snapshot_id, blob.sequence_number) == (snapshot.snapshot_id, snapshot.sequence_number)
    with PuffinReader(path_of(statistics.statistics_path)) as reader:
        assert reader.blobs[0].compression_codec == "zstd"
    assert path_of(statistics.statistics_path).name.startswith(str(snapshot.snapshot_id))


def test_leaves_of_lists_and_maps_are_counted_when_named(racing: RacingCatalog) -> None:
    table = make(racing, rows(0, 60))
    names = ["tags.element", "props.key", "props.value", "point.tag"]
    result = iceberg.collect_ndv(table, names)
    assert result.ndv == {"tags.element": 7, "props.key": 3, "props.value": 8, "point.tag": 3}
    assert not set(names[:3]) & iceberg.collect_ndv(table).ndv.keys()


@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_are_not_counted(racing: RacingCatalog, version: int) -> None:
    without = ["u"] if version == 2 else []  # PyIceberg's append
    table = make(racing, rows(0, 300).drop(without), version=version)
    iceberg.append(table, rows(300, 400).drop(without))
    iceberg.delete(table, "id >= 50 and id < 120")
    iceberg.delete(table, "id >= 300")
    iceberg.collect_ndv(table)
    kept = [i for i in range(300) if not 50 <= i < 120]
    for name in COLUMNS.keys() & set(table.schema().column_names):
        assert blob_of(table, name) == expected(kept, name), name


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("n_files", [1, 9])
def test_files_row_groups_and_threads_do_not_change_a_byte(
    racing: RacingCatalog, n_files: int, threads: int
) -> None:
    numbers = np.random.default_rng(3).permutation(30_000)
    data = pa.table(
        {"n": numbers, "s": [f"{n % 9_000} x" for n in numbers], "few": [f"v{n % 5}" for n in numbers]}
    )
    table = iceberg.create_table(racing, "n.t", data.schema)
    for part in np.array_split(np.arange(len(data)), n_files):
        iceberg.append(table, data.take(pa.array(part)))
    iceberg.collect_ndv(table, threads=threads)
    for name in data.column_names:
        assert blob_of(table, name) == ThetaSketch.from_arrow(data[name]).to_bytes(), name


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_append_reads_only_its_files_and_gives_the_bytes_of_a_full_run(
    racing: RacingCatalog, version: int
) -> None:
    def some(start: int, stop: int) -> pa.Table:
        return pa.table({"n": np.arange(start, stop), "s": [f"s{n}" for n in range(start, stop)]})

    table = make(racing, some(0, 9_000), version=version)
    assert iceberg.collect_ndv(table).data_files_read == 1
    for start in (9_000, 9_500):
        table.append(some(start, start + 500)) if version < 3 else iceberg.append(
            table, some(start, start + 500)
        )
    result = iceberg.collect_ndv(table)
    assert result.data_files_read == 2
    assert result.upper_bounds == ()
    incremental = blobs_of(table)
    assert iceberg.collect_ndv(table, incremental=False).data_files_read == 3
    assert blobs_of(table) == incremental
    assert blob_of(table, "n") == oracle.canonical(range(10_000), "long")


def test_a_dry_run_writes_nothing_and_a_second_run_does_nothing(racing: RacingCatalog) -> None:
    table = make(racing, rows(0, 40))
    with unchanged(table):
        dry = iceberg.collect_ndv(table, dry_run=True)
    assert (dry.statistics_path, dry.commit.id is not None, dry.dry_run) == (None, False, True)
    done = iceberg.collect_ndv(table)
    assert (done.ndv, done.data_files_read, done.commit.id is not None) == (
        dry.ndv,
        dry.data_files_read,
        True,
    )
    for dry_run in (True, False):
        with unchanged(table):
            again = iceberg.collect_ndv(table, dry_run=dry_run)
        assert (again.commit.id is not None, again.data_files_read, again.ndv) == (False, 0, done.ndv)
        assert again.statistics_path == done.statistics_path


def test_counts_after_deletes_are_said_to_be_upper_bounds(racing: RacingCatalog) -> None:
    table = make(racing, rows(0, 100))
    iceberg.collect_ndv(table, ["id", "s"])
    iceberg.delete(table, "id < 30")
    iceberg.append(table, rows(100, 150))
    result = iceberg.collect_ndv(table, ["id"])
    assert result.upper_bounds == ("id",)
    assert result.ndv["id"] == 150
    found = iceberg.ndv(table, ["id"]).to_pylist()[0]
    assert (found["ndv"], found["is_upper_bound"]) == (150, True)
    iceberg.append(table, rows(150, 160))
    assert iceberg.collect_ndv(table, ["id"]).upper_bounds == ("id",)  # and stay so
    exact = iceberg.collect_ndv(table, ["id"], incremental=False)
    assert (exact.upper_bounds, exact.ndv["id"]) == ((), 130)


def test_compaction_keeps_counts_exact(racing: RacingCatalog) -> None:
    table = make(racing, rows(0, 100))
    iceberg.delete(table, "id < 30")
    iceberg.delete(table, "id < 60")
    iceberg.collect_ndv(table, ["id"])
    iceberg.compact(table)
    assert iceberg.collect_ndv(table, ["id"]).upper_bounds == ()


def test_a_new_column_counts_its_default_and_a_dropped_one_leaves(racing: RacingCatalog) -> None:
    table = make(racing, rows(0, 30))
    iceberg.collect_ndv(table, ["id", "s"])
    with iceberg.v3_metadata(racing), table.update_schema() as update:
        update.add_column("fresh", LongType(), default_value=7)
        update.delete_column("s")
    iceberg.append(table, rows(30, 40).drop(["s"]).append_column("fresh", pa.array([1] * 10, pa.int64())))
    result = iceberg.collect_ndv(table, ["id", "fresh"])
    assert result.ndv == {"id": 40, "fresh": 2}
    assert len(blobs_of(table)) == 2


def test_blobs_of_other_columns_are_carried_over(racing: RacingCatalog) -> None:
    table = make(racing, rows(0, 100))
    first = table.metadata.current_snapshot_id
    iceberg.collect_ndv(table, ["id"])
    iceberg.collect_ndv(table, ["s"])
    assert len(blobs_of(table)) == 2
    iceberg.append(table, rows(100, 120))
    iceberg.collect_ndv(table, ["id"])
    assert len(blobs_of(table)) == 2
    by_name = {row["column"]: row for row in iceberg.ndv(table).to_pylist()}
    assert by_name["id"]["snapshot_id"] == table.metadata.current_snapshot_id
    assert by_name["s"]["snapshot_id"] == first
    assert iceberg.collect_ndv(table, ["s"]).data_files_read == 1  # from where it was counted
    assert {row["snapshot_id"] for row in iceberg.ndv(table).to_pylist()} == {
        table.metadata.current_snapshot_id
    }


def test_other_snapshots_have_statistics_of_their_own(racing: RacingCatalog) -> None:
    """Branches, tags and times select them as in `scan`."""
    table = make(racing, rows(0, 20))
    first = table.metadata.snapshots[0]
    moment = datetime.datetime.fromtimestamp(first.timestamp_ms / 1000, UTC)
    with iceberg.v3_metadata(racing):
        table.manage_snapshots().create_branch(first.snapshot_id, "old").create_tag(
            first.snapshot_id, "v1"
        ).commit()
    iceberg.append(table, rows(20, 50))
    done = iceberg.collect_ndv(table, ["id"], tag="v1")
    assert (done.snapshot_id, done.ndv) == (first.snapshot_id, {"id": 20})
    assert iceberg.collect_ndv(table, ["id"], branch="main").data_files_read == 1
    assert len(table.metadata.statistics) == 2
    for selected in (
        {"snapshot_id": first.snapshot_id},
        {"branch": "old"},
        {"tag": "v1"},
        {"as_of": first.timestamp_ms},
        {"as_of": moment.isoformat()},
    ):
        assert iceberg.collect_ndv(table, ["id"], **selected).commit.id is None
        assert iceberg.ndv(table, ["id"], **selected)["ndv"].to_pylist() == [20]
    with pytest.raises(errors.InvalidInputError, match="expected one of"):
        iceberg.ndv(table, tag="v1", branch="main")


def test_the_superseded_file_is_an_orphan_after_the_commit(racing: RacingCatalog) -> None:
    table = make(racing, rows(0, 20))
    first = iceberg.collect_ndv(table, ["id"]).statistics_path
    second = iceberg.collect_ndv(table, ["s"]).statistics_path
    orphans = iceberg.orphan_files(table, older_than=datetime.timedelta(0))["path"].to_pylist()
    assert first in orphans
    assert second not in orphans


def test_commits_in_between_are_kept_and_the_statistics_too(racing: RacingCatalog) -> None:
    table = make(racing, rows(0, 20))
    racing.before.append(lambda: iceberg.append(racing.load_table("n.t"), rows(20, 30)))
    racing.before.append(lambda: iceberg.collect_ndv(racing.load_table("n.t"), ["s"], snapshot_id=first))
    first = table.metadata.current_snapshot_id
    result = iceberg.collect_ndv(table, ["id"])
    fresh = racing.load_table("n.t")
    assert rows_of(fresh).num_rows == 30
    assert [s.snapshot_id for s in fresh.metadata.statistics] == [result.snapshot_id] == [first]
    assert sorted(iceberg.ndv(table, snapshot_id=first)["column"].to_pylist()) == ["id", "s"]
    assert len([path for path in files_of(fresh) if path.suffix == ".stats"]) == 2  # one is superseded


def test_an_expired_snapshot_gets_no_statistics_and_no_file(racing: RacingCatalog) -> None:
    table = make(racing, rows(0, 20))
    first = table.metadata.current_snapshot_id
    iceberg.append(table, rows(20, 30))

    def expire() -> None:
        with iceberg.v3_metadata(racing):
            racing.load_table("n.t").maintenance.expire_snapshots().by_id(first).commit()

    racing.before.append(expire)
    with pytest.raises(errors.NotFoundError, match="expired"):
        iceberg.collect_ndv(table, ["id"], snapshot_id=first)
    assert not [path for path in files_of(table) if path.suffix == ".stats"]
    assert not racing.load_table("n.t").metadata.statistics


def write_sketch(path: Path, table: Table, sketch: bytes, **options: Any) -> None:
    """Writes a statistics file of one sketch of the first column."""
    path.unlink()
    with PuffinWriter(path) as writer:
        snapshot_id = table.metadata.current_snapshot_id or 0
        writer.add(sketch, type=BLOB_TYPE, fields=[1], snapshot_id=snapshot_id, **options)


N_HASHES = (1 << 24) + 8  # of one bit each in the file, and of 8 bytes in memory
LARGE_SKETCH = (
    bytes([1, 4, 3, 1, 4, 0x1A, 0xCC, 0x93]) + N_HASHES.to_bytes(4, "little") + bytes(N_HASHES // 8)
)
DAMAGE: dict[str, Callable[[Path, Table], object]] = {
    "missing": lambda path, _: path.unlink(),
    "torn": lambda path, _: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zeros": lambda path, _: path.write_bytes(bytes(path.stat().st_size)),
    "no sketch": lambda path, table: write_sketch(path, table, b"\3" * 40),
    "a sketch beyond the limits": lambda path, table: write_sketch(
        path, table, LARGE_SKETCH, compression="zstd"
    ),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_statistics_file_that_cannot_be_read_is_computed_anew_and_said(
    racing: RacingCatalog, how: str
) -> None:
    table = make(racing, rows(0, 20))
    path = path_of(iceberg.collect_ndv(table, ["id"]).statistics_path)
    DAMAGE[how](path, table)
    is_large = how == "a sketch beyond the limits"
    kinds = (errors.LimitExceededError,) if is_large else (errors.NotFoundError, errors.CorruptDataError)
    with pytest.raises(kinds, match="compressed hashes" if is_large else path.name):
        iceberg.ndv(table, ["id"])
    iceberg.append(table, rows(20, 30))
    result = iceberg.collect_ndv(table, ["id"])
    assert (result.ndv["id"], result.data_files_read) == (30, 2)
    (note,) = result.notes
    assert ("compressed hashes" if is_large else path.name) in note


def test_uuids_of_a_foreign_writer_are_counted_anew(racing: RacingCatalog) -> None:
    table = make(racing, rows(0, 20))
    path = path_of(iceberg.collect_ndv(table, ["u", "id"]).statistics_path)
    with PuffinReader(path) as reader:
        blobs = list(reader.read_many())
    path.unlink()
    with PuffinWriter(path, properties={"created-by": "Apache Spark 4.1"}) as writer:
        for blob, data in blobs:
            writer.add(data, type=blob.type, fields=blob.fields, snapshot_id=blob.snapshot_id,
                       sequence_number=blob.sequence_number, properties=blob.properties)  # fmt: skip
    iceberg.append(table, rows(20, 30))
    assert iceberg.collect_ndv(table, ["id"]).data_files_read == 1
    carried = {row["column"]: row["writer"] for row in iceberg.ndv(table).to_pylist()}
    assert carried["u"] == "Apache Spark 4.1"
    assert carried["id"].startswith("puffin_fast")
    assert iceberg.collect_ndv(table, ["u"]).data_files_read == 2
    assert blob_of(table, "u") == expected(list(range(30)), "u")


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"columns": ["nope"]}, errors.NotFoundError, "columns: no column nope; the table has id, "),
    ({"columns": ["point"]}, errors.InvalidInputError, "name what is inside: point.x, point.tag"),
    ({"columns": ["tags"]}, errors.InvalidInputError, "name what is inside: tags.element"),
    ({"columns": []}, errors.InvalidInputError, "expected one or more names"),
    ({"columns": "id"}, errors.InvalidInputError, "a sequence of names"),
    ({"columns": ["ID"]}, errors.NotFoundError, "no column ID; did you mean id"),
    ({"snapshot_id": 5}, errors.NotFoundError, "no snapshot 5"),
    ({"branch": "nope"}, errors.NotFoundError, "branch 'nope'"),
    ({"branch": "main", "snapshot_id": 5}, errors.InvalidInputError, "expected one of"),
    ({"incremental": True}, errors.InvalidInputError, "incremental: expected 'auto' or False, found True"),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), BAD, ids=str)
def test_bad_arguments_are_refused_and_the_table_is_unchanged(
    racing: RacingCatalog, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    table = make(racing, rows(0, 5))
    with refused(table, kind, message):
        iceberg.collect_ndv(table, **arguments)


def test_names_agree_without_case_when_asked(racing: RacingCatalog) -> None:
    table = make(racing, rows(0, 5))
    assert iceberg.collect_ndv(table, ["ID"], case_sensitive=False).ndv == {"id": 5}
    assert iceberg.ndv(table, ["Id"], case_sensitive=False)["column"].to_pylist() == ["id"]


def test_a_table_without_snapshots_is_refused(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", rows(0, 1).schema)
    for verb in (iceberg.collect_ndv, iceberg.ndv):
        with pytest.raises(errors.NotFoundError, match="no snapshots"):
            verb(table)


def test_a_table_whose_rows_are_all_deleted_has_zeros(racing: RacingCatalog) -> None:
    table = make(racing, rows(0, 20))
    iceberg.delete(table, "id >= 0")
    result = iceberg.collect_ndv(table)
    assert set(result.ndv.values()) == {0}
    assert blob_of(table, "id") == bytes.fromhex("01030300001e0000")


def test_equality_deletes_are_applied(racing: RacingCatalog) -> None:
    table = make(racing, pa.table({"id": range(30)}), version=2)
    iceberg.collect_ndv(table)
    delete_equal(table, [1], [(3,), (4,)])
    assert iceberg.collect_ndv(table).upper_bounds == ("id",)
    assert iceberg.collect_ndv(table, incremental=False).ndv == {"id": 28}
    assert blob_of(table, "id") == oracle.canonical([i for i in range(30) if i not in (3, 4)], "long")


def test_the_only_row_no_row_and_rows_of_nulls(racing: RacingCatalog) -> None:
    kind = pa.schema([("id", pa.int64()), ("s", pa.string())])
    for at, (values, count) in enumerate([([7], 1), ([], 0), ([None] * 9, 0)]):
        data = pa.table([values, pa.array(map(str, values)) if count else values], schema=kind)
        table = racing.create_table(f"n.t{at}", kind, properties={"format-version": "2"})
        table.append(data)
        assert iceberg.collect_ndv(table).ndv == {"id": count, "s": count}
        assert iceberg.ndv(table)["upper"].to_pylist() == [count, count]


def test_ndv_tells_bounds_and_what_is_missing(racing: RacingCatalog) -> None:
    data = pa.table({"n": np.arange(50_000), "m": np.arange(50_000) % 10})
    table = make(racing, data)
    assert iceberg.ndv(table).num_rows == 0
    iceberg.collect_ndv(table, ["n"])
    (row,) = iceberg.ndv(table, n_std_dev=3).to_pylist()
    assert row["lower"] <= 50_000 <= row["upper"]
    assert row["lower"] < row["ndv"] < row["upper"]
    assert row["writer"].startswith("puffin_fast")
    with pytest.raises(errors.NotFoundError, match=r"n.t: no NDV statistics of m .*collect_ndv makes them"):
        iceberg.ndv(table, ["n", "m"])


def test_overlap_says_how_many_values_two_columns_share(racing: RacingCatalog) -> None:
    left = make(racing, pa.table({"a": np.arange(40_000), "u": ["x"] * 40_000}), name="n.left")
    right = make(
        racing,
        pa.table({"b": np.arange(30_000, 70_000), "c": np.arange(40_000, dtype=np.int32)}),
        name="n.right",
    )
    for table in (left, right):
        iceberg.collect_ndv(table)
    found = iceberg.ndv_overlap((left, "a"), (right, "b"), n_std_dev=3)
    assert found.both.lower <= 10_000 <= found.both.upper
    assert found.either.lower <= 70_000 <= found.either.upper
    assert found.jaccard.lower <= 1 / 7 <= found.jaccard.upper
    assert not found.is_upper_bound
    with pytest.raises(errors.InvalidInputError, match="not hashed alike"):
        iceberg.ndv_overlap((left, "a"), (right, "c"))
    with pytest.raises(errors.NotFoundError, match="no column nope"):
        iceberg.ndv_overlap((left, "nope"), (right, "c"))


@pytest.mark.jar
def test_a_rest_catalog_takes_statistics(rest_catalog: RestCatalog, rest_namespace: str) -> None:
    table = iceberg.create_table(rest_catalog, f"{rest_namespace}.t", rows(0, 1).schema)
    iceberg.append(table, rows(0, 50))
    assert iceberg.collect_ndv(table, ["id"]).ndv == {"id": 50}
    iceberg.append(table, rows(50, 60))
    result = iceberg.collect_ndv(table, ["id", "s"])
    assert result.data_files_read == 1 + 2  # "id" reads one file, "s" both
    fresh = rest_catalog.load_table(f"{rest_namespace}.t")
    assert sorted(iceberg.ndv(fresh)["ndv"].to_pylist()) == sorted(result.ndv.values())
    assert len(fresh.metadata.statistics) == 2
