"""Verbs and scans give the same rows with a key index as without one."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import And, EqualTo, GreaterThan, In
from pyiceberg.table import Table
from pyiceberg.types import DecimalType, LongType, StringType

from puffin_fast import iceberg
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.index import lookup
from puffin_fast.iceberg.manifest.columns import FileColumns
from puffin_fast.key_index import making
from puffin_fast.puffin import PuffinReader
from puffin_fast.rows.files.reader import DataFiles
from tests.iceberg.index.indexed_tables import (
    EACH,
    KEYS,
    N,
    every_row,
    lookup_cache_cleared,
    make,
    numbers,
    pair,
    rows,
)
from tests.kit.faults import RacingCatalog


def alike(tables: tuple[Table, Table], run: Callable[[Table], Any], *counts: str) -> list[int]:
    """Runs a verb on two tables, and compares counts of the results and the rows; returns these counts."""
    results = [run(table) for table in tables]
    first, second = ([getattr(result, name) for name in counts] for result in results)
    assert first == second
    assert every_row(tables[0]).equals(every_row(tables[1]))
    return first


SEVERAL = [["i", "s"], ["s", "point.x"], ["day", "price", "id"]]


@pytest.mark.parametrize(
    ("columns", "indexed"),
    [
        *(([name], [name]) for name in [*KEYS, "point.x"]),
        *((columns, columns[:n]) for columns in SEVERAL for n in (len(columns), 1)),
    ],
    ids=str,
)
def test_keys_of_each_type_and_of_several_columns_are_deleted_as_without_an_index(
    racing: RacingCatalog, looked_up: list[int], columns: list[str], indexed: list[str]
) -> None:
    tables = pair(racing)
    index = iceberg.index_keys(tables[0], indexed)
    assert (index.data_files, index.rows, index.data_files_left, index.commit.id is not None) == (
        N,
        N * EACH,
        0,
        True,
    )
    keys = rows(0, 600).flatten().select(columns).slice(3, 9 if len(columns) == 1 else 40)
    for null_safe in (False, True):
        delete = partial(iceberg.delete_keys, keys=keys, join_cols=columns, null_safe=null_safe)
        assert alike(tables, delete, "rows_deleted") > [0]
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
    tables = pair(racing, "id", "s", "price", "day")
    for one in tables:
        iceberg.delete_keys(one, pa.table({"n": range(0, 999, 10)}), "n")
    found = [iceberg.scan(one, where, ["n"]) for one in tables]
    assert found[0].count() == found[1].count() > 0
    assert found[0].to_arrow().sort_by("n").equals(found[1].to_arrow().sort_by("n"))
    alike(tables, lambda one: iceberg.update(one, where, {"i": 77}), "rows_updated")
    alike(tables, lambda one: iceberg.delete(one, where), "rows_deleted")
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
    tables, given = pair(racing, "n"), rows(0, 5000).slice(1150, 100)
    changed = given.set_column(given.schema.get_field_index("i"), "i", pa.array([1] * 100, pa.int32()))
    for some in (given, changed):
        counts = ("rows_updated", "rows_inserted", "rows_unchanged")
        assert any(alike(tables, lambda one, some=some: iceberg.upsert(one, some, "n"), *counts))  # type: ignore[misc]
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


def test_forced_collisions_delete_no_other_row(
    racing: RacingCatalog, looked_up: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "REMAINDER_BITS", 1)
    monkeypatch.setattr(making, "_LEAST_HASH_BITS", 0)
    tables, keys = pair(racing, "s"), pa.table({"s": [f"name {i}" for i in range(0, 300, 3)]})
    assert alike(tables, lambda one: iceberg.delete_keys(one, keys, "s"), "rows_deleted") > [0]
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
    keys = pa.table({"p": pa.array([Decimal(20)], kind), "s": ["x6"]})
    assert iceberg.delete_keys(table, keys, ["p", "s"]).rows_deleted == 1
    assert iceberg.scan(table).count() == 97
    assert iceberg.verify(table, level="rows") == []
