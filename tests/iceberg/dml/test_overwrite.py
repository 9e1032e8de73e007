"""Overwrites by a filter and by partitions: the rows are those of PyIceberg's own overwrite of a copy of the table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from tests.iceberg.conftest import refused, rows_of, rows_of_duckdb, set_properties, summary_of
from tests.kit.tables import iceberg_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.table import Table

    from tests.kit.faults import RacingCatalog

SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.string()), ("h", pa.int64())])


pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match any records")


def rows(first: int, last: int, g: str | None = "a") -> pa.Table:
    ids = range(first, last)
    return pa.table({"id": ids, "g": [g] * len(ids), "h": [id % 2 for id in ids]}, SCHEMA)


def made(catalog: RacingCatalog, *, version: int = 3, spec: tuple[str, ...] = (), name: str = "n.t") -> Table:
    """Ids 0 to 29 in the groups a, b and null."""
    commits = [rows(0, 10), rows(10, 20, "b"), rows(20, 30, None)]
    return iceberg_table(catalog, commits, name=name, version=version, partition=spec)


def ids(table: Table, **which: Any) -> list[int]:
    return sorted(iceberg.scan(table, **which).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [(), ("g",)], ids=["flat", "partitioned"])
@pytest.mark.parametrize(
    "row_filter", ["id < 5", "id >= 5 and id < 25", "g = 'a'", "g is null", "id > 99", None]
)
def test_an_overwrite_has_the_rows_of_pyicebergs(
    racing: RacingCatalog,
    duckdb_iceberg: DuckDBPyConnection,
    version: int,
    spec: tuple[str, ...],
    row_filter: str | None,
) -> None:
    table, theirs = (
        made(racing, version=version, spec=spec),
        made(racing, version=2, spec=spec, name="n.theirs"),
    )
    given, where = rows(100, 103, "b"), AlwaysTrue() if row_filter is None else row_filter
    n_snapshots, n_rows = len(table.metadata.snapshots), len(ids(table))
    done = iceberg.overwrite(table, given, where)
    theirs.overwrite(given, where)
    expected = rows_of(theirs)
    assert rows_of(table).cast(SCHEMA).equals(expected.cast(SCHEMA))
    assert rows_of_duckdb(duckdb_iceberg, table).cast(SCHEMA).equals(expected.cast(SCHEMA))
    assert (done.rows_deleted, done.rows_appended) == (n_rows + 3 - expected.num_rows, 3)
    assert len(table.metadata.snapshots) == n_snapshots + 1
    assert iceberg.verify(table) == []
    assert summary_of(table)["operation"] == ("overwrite" if done.rows_deleted else "append")
    if row_filter is None:
        assert (done.data_files_dropped, done.vectors_written) == (3, 0)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [("g",), ("g", "h")])
@pytest.mark.parametrize("groups", [["a"], ["b", None], ["new"], []])
def test_partitions_are_replaced_as_by_pyiceberg(
    racing: RacingCatalog, version: int, spec: tuple[str, ...], groups: list[str | None]
) -> None:
    table, theirs = (
        made(racing, version=version, spec=spec),
        made(racing, version=2, spec=spec, name="n.theirs"),
    )
    given = pa.concat_tables(
        [rows(100 + 2 * n, 101 + 2 * n, g) for n, g in enumerate(groups)] or [rows(0, 0)]
    )
    done = iceberg.dynamic_partition_overwrite(table, given)
    theirs.dynamic_partition_overwrite(given)
    assert rows_of(table).cast(SCHEMA).equals(rows_of(theirs).cast(SCHEMA))
    assert (done.commit.id is None) == (not groups)
    assert done.vectors_written == 0
    assert iceberg.verify(table) == []


def test_rows_of_earlier_specs_are_replaced_by_their_values(racing: RacingCatalog) -> None:
    table = made(racing)
    iceberg.append(table, rows(5, 7, "b"))
    with iceberg.v3_metadata(racing), table.update_spec() as update:
        update.add_identity("g")
    iceberg.append(table, rows(30, 40))
    done = iceberg.dynamic_partition_overwrite(
        table, pa.concat_tables([rows(100, 101), rows(101, 102, None)])
    )
    assert done.rows_deleted == 30
    assert ids(table) == sorted([*range(10, 20), 5, 6, 100, 101])
    assert iceberg.verify(table) == []


def test_nan_is_a_partition_and_zeros_are_one(racing: RacingCatalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64())])
    table = iceberg.create_table(racing, "n.t", schema, partition_spec=("x",))
    iceberg.append(table, pa.table({"id": range(5), "x": [math.nan, -0.0, 0.0, 1.0, None]}, schema))
    iceberg.dynamic_partition_overwrite(table, pa.table({"id": [10], "x": [math.nan]}, schema))
    assert ids(table) == [1, 2, 3, 4, 10]
    iceberg.dynamic_partition_overwrite(table, pa.table({"id": [11], "x": [0.0]}, schema))
    assert ids(table) == [3, 4, 10, 11]


@pytest.mark.parametrize("spec", [(), ("bucket[4](id)",), ("g", "truncate[1](g)")])
def test_other_partition_specs_are_refused(racing: RacingCatalog, spec: tuple[str, ...]) -> None:
    table = made(racing, spec=spec)
    with refused(table, (InvalidInputError, UnsupportedError), r"n\.t: .*expected a"):
        iceberg.dynamic_partition_overwrite(table, rows(0, 1))


def test_rows_and_filters_that_do_not_fit_are_refused(racing: RacingCatalog) -> None:
    table = made(racing, spec=("g",))
    wrong: list[tuple[type[Exception], Callable[[], object]]] = [
        (InvalidInputError, lambda: iceberg.overwrite(table, pa.table({"nothing": [1]}), "id = 1")),
        (InvalidInputError, lambda: iceberg.overwrite(table, pa.table({"id": ["x"]}), "id = 1")),
        (NotFoundError, lambda: iceberg.overwrite(table, rows(0, 1), "nothing = 1")),
        (InvalidInputError, lambda: iceberg.dynamic_partition_overwrite(table, pa.table({"x": [1]}))),
    ]
    for error, verb in wrong:
        with refused(table, error):
            verb()


def test_a_filter_that_is_false_appends_and_no_rows_delete(racing: RacingCatalog) -> None:
    table = made(racing)
    assert iceberg.overwrite(table, rows(50, 51), AlwaysFalse()).rows_deleted == 0
    assert iceberg.overwrite(table, rows(0, 0), "id < 29").rows_deleted == 29
    assert ids(table) == [29, 50]
    assert iceberg.overwrite(table, rows(0, 0), "id = 99").commit.id is None
    assert iceberg.overwrite(table, rows(0, 0)).rows_deleted == 2
    assert ids(table) == []


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_rows_that_came_meanwhile_are_replaced_as_the_isolation_level_says(
    racing: RacingCatalog, isolation: str
) -> None:
    table = made(racing, spec=("g",))
    set_properties(table, {"write.update.isolation-level": isolation})
    other = racing.load_table("n.t")
    for number, overwrite in enumerate(
        (
            lambda: iceberg.overwrite(table, rows(100, 101), "g = 'a'"),
            lambda: iceberg.dynamic_partition_overwrite(table, rows(100, 101)),
        )
    ):
        racing.before.append(lambda: iceberg.append(other, rows(200, 202)))
        done = overwrite()
        kept = [] if isolation == "serializable" else [200, 201]
        assert ids(table, row_filter="g = 'a'") == [100, *kept]
        assert done.rows_deleted == (10, 1)[number] + (2 - len(kept) if number == 0 else 2)
