"""PyArrow expressions as filters: they are evaluated for live rows only, and one that fails is named."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast import delta, iceberg
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.filters.filters import RowFilter
from tests.rows.deletes.equality_deletes import delete_equal

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

N = 5000
BAD = {*random.Random(3).sample(range(N), 300), *range(2000, 3100)}
NUMBER = pc.field("s").cast(pa.int64())


def rows_of(first: int, n: int) -> pa.Table:
    """Texts that are numbers, except of the ids in `BAD`."""
    ids = range(first, first + n)
    return pa.table({"id": pa.array(ids, pa.int64()), "s": ["bad" if i in BAD else f"{i}" for i in ids]})


def ids_of(table: Table, row_filter: Any = "true", threads: int | None = None) -> list[int]:
    return sorted(iceberg.scan(table, row_filter, threads=threads).to_arrow()["id"].to_pylist())


def made(catalog: SqlCatalog, *, version: int = 3) -> Table:
    """A table `t` of several row groups and two data files."""
    properties = {"format-version": "2", "write.parquet.row-group-limit": "700"}
    table = catalog.create_table("n.t", rows_of(0, 1).schema, properties=properties)
    if version > 2:
        iceberg.upgrade(table)
    iceberg.append(table, rows_of(0, N - 1000))
    iceberg.append(table, rows_of(N - 1000, 1000))
    return table


DELETED: dict[str, tuple[int, str | None, bool]] = {
    "positions": (3, "s = 'bad'", False),
    "a position file": (2, "s = 'bad'", False),
    "equality deletes": (3, None, True),
    "both": (3, "s = 'bad' and id < 2500", True),
}
"""A format version, the filter of a delete, and whether equality deletes have all keys of bad rows."""


@pytest.fixture(params=DELETED.values(), ids=DELETED)
def without_bad(request: pytest.FixtureRequest, racing: SqlCatalog) -> Table:
    """A table whose rows in `BAD` are deleted."""
    version, row_filter, by_keys = request.param
    table = made(racing, version=version)
    if row_filter is not None:
        iceberg.delete(table, row_filter)
    if by_keys:
        delete_equal(table, [1], [(i,) for i in sorted(BAD)])
    return table


@pytest.fixture
def in_delta(tmp_path: Path) -> str:
    """The same rows in a Delta table."""
    path = str(tmp_path / "t")
    delta.create_table(path, rows_of(0, 1).schema)
    delta.append(path, rows_of(0, N))
    return path


@pytest.mark.parametrize("threads", [1, 3])
def test_a_filter_that_fails_for_deleted_rows_only_selects_the_live_ones(
    without_bad: Table, threads: int
) -> None:
    table = without_bad
    live = [i for i in range(N) if i not in BAD]
    wanted = [i for i in live if i % 3 == 0]
    third = pc.equal(NUMBER, pc.multiply(pc.divide(NUMBER, 3), 3))
    options: dict[str, Any] = {"threads": threads, "dry_run": True}
    assert ids_of(table, third, threads) == wanted
    assert iceberg.scan(table, third, threads=threads).count() == len(wanted)
    assert iceberg.update(table, third, {"s": "new"}, **options).rows_updated == len(wanted)
    assert iceberg.overwrite(table, rows_of(0, 1), third, **options).rows_deleted == len(wanted)
    assert iceberg.delete(table, third, threads=threads).rows_deleted == len(wanted)
    assert ids_of(table) == [i for i in live if i % 3]
    assert iceberg.delete(table, third, threads=threads).commit.id is None
    assert not iceberg.verify(table)


def test_delta_tables_evaluate_a_filter_for_live_rows_only(in_delta: str) -> None:
    for call in (
        lambda: delta.scan(in_delta, NUMBER > 1).count(),
        lambda: delta.delete(in_delta, NUMBER > 1),
        lambda: delta.update(in_delta, NUMBER > 1, {"s": "new"}),
    ):
        with pytest.raises(InvalidInputError, match=r"filter .*: .*bad"):
            call()
    delta.delete(in_delta, "s = 'bad'")
    assert delta.delete(in_delta, NUMBER >= 4000).rows_deleted == len(set(range(4000, N)) - BAD)
    assert delta.scan(in_delta).count() == len(set(range(4000)) - BAD)


FAILING: dict[str, tuple[pc.Expression, str]] = {
    "text that is no number": (NUMBER > 1, "bad"),
    "overflow": (pc.field("id") * (2**62) > 3, "overflow"),
    "division by zero": (pc.divide(pc.field("id"), 0) > 1, "zero"),
    "division of constants": (pc.divide(pc.scalar(1), 0) == pc.scalar(1), "zero"),
    "list of another type": (pc.field("id").isin(["a"]), "string"),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_filter_that_fails_is_named(racing: SqlCatalog, name: str) -> None:
    failing, said = FAILING[name]
    table = made(racing)
    before = table.metadata_location
    calls: list[Callable[[], Any]] = [
        lambda: iceberg.scan(table, failing).to_arrow(),
        lambda: iceberg.scan(table, failing).count(),
        lambda: iceberg.delete(table, failing),
        lambda: iceberg.update(table, failing, {"s": "new"}),
        lambda: iceberg.overwrite(table, rows_of(0, 1), failing),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match=rf"(?s)filter .*: .*{said}"):
            call()
    table.refresh()
    assert table.metadata_location == before


@pytest.mark.parametrize("constant", [True, False])
def test_a_filter_without_columns_is_the_same_for_every_row(racing: SqlCatalog, constant: bool) -> None:
    table = made(racing)
    for row_filter in (pc.scalar(constant), pc.scalar(1) + 1 == (2 if constant else 3)):
        assert RowFilter.bind(row_filter, table.schema()).mask({}, 3).tolist() == [constant] * 3
        assert iceberg.scan(table, row_filter).count() == N * constant
        assert iceberg.scan(table, row_filter).to_arrow().num_rows == N * constant
        assert iceberg.delete(table, row_filter, dry_run=True).rows_deleted == N * constant
