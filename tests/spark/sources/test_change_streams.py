"""Streams of changes: each change once, through restarts and failures; what is lost or unknown is an error."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from puffin_fast import delta, iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.spark.session.executor_calls import unpack
from puffin_fast.spark.session.sessions import pyspark_version
from puffin_fast.spark.sources import commits
from tests.conftest import require_module
from tests.kit.changes import lines_of
from tests.spark.sources.streams import begun
from tests.spark.table.scans import COLUMNS, every_type
from tests.verbs.applied_changes import Source, made, of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.spark.sources.changes import ChangesReader

pytestmark = pytest.mark.spark

SCHEMA = of([]).schema


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    found = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    found.create_namespace("n")
    yield found
    found.engine.dispose()


@pytest.fixture
def options(catalog: SqlCatalog) -> dict[str, str]:
    """The options of the table n.source."""
    given = {f"catalog.{name}": catalog.properties[name] for name in ("uri", "warehouse")}
    return {"catalog": "c", "table": "n.source", "poll_interval_s": "0", **given}


def rows(*ids: int) -> pa.Table:
    return of([{"id": id, "g": "a", "x": 0.5} for id in ids])


def stream(**options: str) -> ChangesReader:
    """The reader of a stream, as Spark makes it."""
    from puffin_fast.spark.sources.changes import ChangesDataSource

    source = ChangesDataSource(options)
    reader: Any = source.streamReader(source.schema())
    return reader


def lines(reader: ChangesReader, start: dict[str, Any], end: dict[str, Any]) -> Counter[tuple[str, int]]:
    """The kinds and ids of a batch."""
    found: Counter[tuple[str, int]] = Counter()
    for part in reader.partitions(*(json.loads(json.dumps(offset)) for offset in (start, end))):
        for batch in reader.read(part):
            found.update(zip(batch["_change_type"].to_pylist(), batch["id"].to_pylist(), strict=True))
    return found


# Offsets, without Spark -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verbs", [iceberg, delta], ids=["iceberg", "delta"])
def test_the_beginning_is_all_rows_or_now_or_the_oldest_commit_or_a_state(
    catalog: SqlCatalog, options: dict[str, str], tmp_path: Path, verbs: Any
) -> None:
    source = made(verbs, (catalog, "n"), tmp_path, "source")
    given = options if verbs is iceberg else {"path": source, "poll_interval_s": "0"}
    verbs.append(source, rows(1, 2))
    at = Source(verbs, source, 0).position()
    verbs.delete(source, "id = 1")
    states: dict[str, str] = {"from_snapshot_id_exclusive": str(at)}
    live, gone = ("insert", 2), ("delete", 1)
    followed = []
    for more, first in (
        ({}, [live]),
        ({"start": "earliest"}, [("insert", 1), live, gone]),
        ({"start": "latest"}, []),
        (states, [gone]),
    ):
        reader = stream(**given, **more)
        start = reader.initialOffset()
        end = reader.latestOffset(start)
        assert lines(reader, start, end) == Counter(first), more
        followed.append((reader, end))
    verbs.append(source, rows(3))
    for reader, end in followed:
        then = reader.latestOffset(end)
        assert lines(reader, end, then) == Counter([("insert", 3)])
        assert reader.latestOffset(then) == then
    reader = stream(**given, net="true", updates="false", row_filter="id < 2", selected_fields="id, g")
    start = reader.initialOffset()
    assert lines(reader, start, reader.latestOffset(start)) == Counter()


def test_a_first_batch_that_is_repeated_begins_where_it_began(
    catalog: SqlCatalog, options: dict[str, str]
) -> None:
    table = made(iceberg, (catalog, "n"), Path(), "source")
    iceberg.append(table, rows(1))
    reader = stream(**options, start="latest")
    start = reader.initialOffset()
    iceberg.append(table, rows(2))
    end = reader.latestOffset(start)
    iceberg.append(table, rows(3))
    again = stream(**options, start="latest")
    beginning = again.initialOffset()
    assert beginning != start
    assert lines(again, beginning, end) == Counter([("insert", 2)])
    assert lines(again, end, again.latestOffset(end)) == Counter([("insert", 3)])


def test_an_empty_table_is_followed_from_its_first_snapshot(
    catalog: SqlCatalog, options: dict[str, str]
) -> None:
    table = made(iceberg, (catalog, "n"), Path(), "source")
    for start in ("table", "latest", "earliest"):
        reader = stream(**options, start=start)
        first = reader.initialOffset()
        assert reader.latestOffset(first) == first
        assert reader.partitions(first, first) == []
    iceberg.append(table, rows(1))
    assert lines(reader, first, reader.latestOffset(first)) == Counter([("insert", 1)])


@pytest.mark.parametrize("verbs", [iceberg, delta], ids=["iceberg", "delta"])
def test_the_earliest_changes_are_those_after_the_oldest_state_that_is_left(
    catalog: SqlCatalog, options: dict[str, str], tmp_path: Path, verbs: Any
) -> None:
    source = made(verbs, (catalog, "n"), tmp_path, "source")
    given = options if verbs is iceberg else {"path": source, "poll_interval_s": "0"}
    for id in range(4):
        verbs.append(source, rows(id))
    repeated = stream(**given)
    begin = repeated.initialOffset()
    planned = repeated.latestOffset(begin)
    if verbs is iceberg:
        iceberg.append(source, rows(4))
        iceberg.expire_snapshots(source, older_than=timedelta(0), retain_last=2)
        wanted = [("insert", 4)]
    else:
        require_module("deltalake").DeltaTable(source).create_checkpoint()
        for at in (0, 1, 2):
            (Path(source) / "_delta_log" / f"{at:020d}.json").unlink()
        wanted = [("insert", 2), ("insert", 3)]
        planned["version"] = 1
    reader = stream(**given, start="earliest")
    start = reader.initialOffset()
    assert lines(reader, start, reader.latestOffset(start)) == Counter(wanted)
    if verbs is iceberg:
        iceberg.append(source, rows(5))
        iceberg.expire_snapshots(source, older_than=timedelta(0), retain_last=1)
    with pytest.raises(NotFoundError, match=r"batch up to .*Changes are lost: .*start='table'"):
        stream(**given).partitions(begin, planned)


@pytest.mark.parametrize("verbs", [iceberg, delta], ids=["iceberg", "delta"])
def test_a_batch_has_at_most_the_given_number_of_commits(
    catalog: SqlCatalog, options: dict[str, str], tmp_path: Path, verbs: Any
) -> None:
    source = made(verbs, (catalog, "n"), tmp_path, "source")
    given = options if verbs is iceberg else {"path": source}
    for id in range(5):
        verbs.append(source, rows(id))
    reader = stream(**given, start="earliest", maxSnapshotsPerTrigger="2")
    sizes, position = [], None
    for _ in range(5):  # as PySpark before 4.2: without arguments, and it first plans the last batch again
        end = reader.latestOffset()
        start = reader.initialOffset() if position is None else position
        sizes.append(lines(reader, start, end).total())
        position = end
    assert sizes in ([2, 2, 1, 0, 0], [1, 2, 2, 0, 0])  # Delta's first version has no rows
    again = stream(**given, start="earliest", maxSnapshotsPerTrigger="2")
    assert again.partitions(position, position) == []  # type: ignore[arg-type]
    assert again.latestOffset() == position


def test_an_idle_stream_asks_once_in_its_interval(
    catalog: SqlCatalog, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    load = SqlCatalog.load_table

    def counted(self: SqlCatalog, name: Any) -> Any:
        asked.append(name)
        return load(self, name)

    monkeypatch.setattr(SqlCatalog, "load_table", counted)
    table = made(iceberg, (catalog, "n"), Path(), "source")
    iceberg.append(table, rows(1))
    for interval, requests in (("3600", 1), ("0", 51)):
        reader = stream(**{**options, "poll_interval_s": interval})
        asked.clear()
        position = reader.latestOffset(reader.initialOffset())
        lines(reader, reader.initialOffset(), position)
        for _ in range(49):
            assert reader.latestOffset(position) == position
        assert len(asked) == requests


def test_an_idle_stream_of_a_delta_table_lists_its_log_once_in_its_interval(
    catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = []
    find = commits.LogListing.of

    def counted(storage: Any) -> Any:
        listed.append(storage)
        return find(storage)

    path = made(delta, (catalog, "n"), tmp_path, "d")
    delta.append(path, rows(1))
    monkeypatch.setattr(commits.LogListing, "of", counted)
    for interval, requests in (("3600", 0), ("0", 49)):
        reader = stream(path=path, poll_interval_s=interval)
        position = reader.latestOffset(reader.initialOffset())
        lines(reader, reader.initialOffset(), position)
        listed.clear()
        for _ in range(49):
            assert reader.latestOffset(position) == position
        assert len(listed) == requests


def test_what_the_stream_lost_is_an_error_that_says_what_to_do(
    catalog: SqlCatalog, options: dict[str, str], tmp_path: Path
) -> None:
    table = made(iceberg, (catalog, "n"), Path(), "source")
    for id in range(3):
        iceberg.append(table, rows(id))
    reader = stream(**options)
    position = reader.latestOffset(reader.initialOffset())
    first = table.metadata.snapshots[0].snapshot_id
    with iceberg.v3_metadata(catalog):
        table.refresh().manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(NotFoundError, match=r"rolled back or replaced.*net=True") as raised:
        reader.latestOffset(position)
    assert f"from_snapshot_id_exclusive={first}" in str(raised.value)
    missing = {**position, "snapshot_id": 5}
    with pytest.raises(NotFoundError, match=r"snapshot 5.*Changes are lost: .*start='table'"):
        reader.latestOffset(missing)
    catalog.drop_table("n.source")
    iceberg.append(made(iceberg, (catalog, "n"), Path(), "source"), rows(1))
    with pytest.raises(NotFoundError, match="replaced by another one"):
        reader.latestOffset(position)
    path = made(delta, (catalog, "n"), tmp_path, "d")
    for id in range(4):
        delta.append(path, rows(id))
    reader = stream(path=path, poll_interval_s="0")
    position = reader.latestOffset(reader.initialOffset())
    with pytest.raises(NotFoundError, match="no version 77"):
        reader.latestOffset({**position, "version": 77})
    require_module("deltalake").DeltaTable(path).create_checkpoint()
    for at in (0, 1, 2):
        (Path(path) / "_delta_log" / f"{at:020d}.json").unlink()
    with pytest.raises(NotFoundError, match=r"commit of version 1, .*start='table'"):
        stream(path=path).latestOffset({**position, "version": 0})


def test_columns_that_change_during_a_query_are_an_error(
    catalog: SqlCatalog, options: dict[str, str]
) -> None:
    from pyiceberg.types import LongType

    table = made(iceberg, (catalog, "n"), Path(), "source")
    iceberg.append(table, rows(1))
    reader = stream(**options)
    start = reader.initialOffset()
    with iceberg.v3_metadata(catalog), table.update_schema() as schema:
        schema.add_column("more", LongType())
    with pytest.raises(UnsupportedError, match=r"more.*start the query again"):
        reader.partitions(start, reader.latestOffset(start))
    again = stream(**options)
    assert lines(again, start, again.latestOffset(start)) == Counter([("insert", 1)])


def test_wrong_options_are_refused_by_name(catalog: SqlCatalog, options: dict[str, str]) -> None:
    made(iceberg, (catalog, "n"), Path(), "source")
    for more, message in (
        ({"pol_interval_s": "1"}, r"'pol_interval_s': unknown; expected path, table"),
        ({"path": "/x"}, "found both"),
        ({"start": "now"}, "expected table, latest or earliest, found 'now'"),
        ({"start": "latest", "from_snapshot_id_exclusive": "5"}, "expected one of them"),
        ({"from_snapshot_id_exclusive": "x"}, "from_snapshot_id_exclusive"),
        ({"storage.key": "1"}, r"'storage\.key'"),
        ({"maxSnapshotsPerTrigger": "0"}, "maxSnapshotsPerTrigger.*from 1 on, found '0'"),
        ({"poll_interval_s": "-1"}, "poll_interval_s"),
        ({"updates": "yes"}, "'updates': expected true or false"),
        ({"row_filter": "id > 1.0"}, "may mean something else in Spark's SQL"),
        ({"branch": "twig"}, "twig"),
        ({"table": "n.nobody"}, "nobody"),
        ({"selected_fields": "nobody"}, "nobody"),
    ):
        with pytest.raises((InvalidInputError, NotFoundError), match=message):
            stream(**{**options, **more})
    with pytest.raises(InvalidInputError, match="found neither"):
        stream()
    with pytest.raises(InvalidInputError, match="'branch': a table of Delta has none"):
        stream(path="/x", branch="main")


def test_only_partitions_have_state(catalog: SqlCatalog, options: dict[str, str]) -> None:
    import pickle

    table = made(iceberg, (catalog, "n"), Path(), "source")
    iceberg.append(table, rows(1))
    reader = stream(**options)
    start = reader.initialOffset()
    (part,) = pickle.loads(pickle.dumps(reader.partitions(start, reader.latestOffset(start))))
    other = pickle.loads(pickle.dumps(reader))
    catalog.drop_table("n.source")
    assert len(unpack(part.changes)) == 1
    (batch,) = other.read(part)
    assert batch["id"].to_pylist() == [1]


# Streams ------------------------------------------------------------------------------------------------------------


def test_each_change_comes_once_through_restarts_and_failures(
    spark: SparkSession, catalog: SqlCatalog, options: dict[str, str], tmp_path: Path
) -> None:
    machine = Source(iceberg, made(iceberg, (catalog, "n"), tmp_path, "source"), 3)
    got: dict[int, pa.Table] = {}
    state = {"fails": False}

    def each(df: DataFrame, number: int) -> None:
        found = df.toArrow()
        if state["fails"]:
            raise RuntimeError("as if killed")
        assert number not in got
        got[number] = found

    def check() -> None:
        whole = lines_of(iceberg.changes(machine.table))
        assert sum((Counter(lines_of_arrow(one)) for one in got.values()), Counter()) == whole

    given = {**options, "start": "earliest"}
    for round in range(3):
        for _ in range(4):
            machine.step()
        state["fails"] = round == 1
        query = begun(spark, tmp_path, each, given, availableNow=True)
        if state["fails"]:
            with pytest.raises(Exception, match="as if killed"):
                query.awaitTermination()
            state["fails"] = False
            machine.step()
            begun(spark, tmp_path, each, given, availableNow=True).awaitTermination()
        else:
            query.awaitTermination()
        if pyspark_version() < (4, 2):  # after a failure only that batch is repeated
            begun(spark, tmp_path, each, given, availableNow=True).awaitTermination()
        check()
    query = begun(spark, tmp_path, each, given)
    try:
        machine.step()
        query.processAllAvailable()
        check()
    finally:
        query.stop()


def test_a_stream_has_the_types_of_a_scan(
    spark: SparkSession, catalog: SqlCatalog, options: dict[str, str], tmp_path: Path
) -> None:
    fields = [NestedField(at, name, kind) for at, (name, (kind, _, _)) in enumerate(COLUMNS.items(), 1)]
    table = iceberg.create_table(catalog, "n.source", Schema(*fields))
    iceberg.append(table, every_type(table))
    got: list[pa.Table] = []
    begun(
        spark, tmp_path, lambda df, _: got.append(df.toArrow()), options, availableNow=True
    ).awaitTermination()
    wanted = ps.changes(spark, table).toArrow()
    assert got[0].schema == wanted.schema
    assert sorted(map(str, got[0].to_pylist())) == sorted(map(str, wanted.to_pylist()))


class _Lines:
    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def to_arrow(self) -> pa.Table:
        return self._rows


def lines_of_arrow(rows: pa.Table) -> Any:
    return lines_of(_Lines(rows))
