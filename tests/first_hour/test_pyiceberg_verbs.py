"""PyIceberg's own verbs on tables of format version 3 under `accelerate` do what they do on tables of version 2."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, EqualTo, GreaterThan, In
from pyiceberg.table import CreateTableTransaction, Table, Transaction, UpsertResult
from pyiceberg.table.update.snapshot import ManageSnapshots
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import StringType

import puffin_fast as pf
from tests.kit.rows import by_pyiceberg, by_us

ROWS = pa.table(
    {"id": pa.array(range(6), pa.int64()), "part": list("aabbcc"), "word": ["u", "v", None, "x", "y", "z"]}
)


@pytest.fixture
def tables(catalog: SqlCatalog) -> Iterator[tuple[Table, Table]]:
    """A table of version 2 and one of version 3, partitioned and with two commits each; PyIceberg is accelerated."""
    new = pf.iceberg.create_table(catalog, "shop.new", ROWS.schema, partition_spec=["part"])
    old = catalog.create_table("shop.old", new.schema(), partition_spec=new.spec())
    with pf.iceberg.accelerate():
        for table in (old, new):
            table.append(ROWS.slice(0, 4))
            table.append(ROWS.slice(4))
        yield old, new


def run(table: Table, *verbs: Callable[[Transaction], object]) -> None:
    with table.transaction() as tx:
        for verb in verbs:
            verb(tx)


def given(**columns: Any) -> pa.Table:
    return pa.table(columns).cast(ROWS.schema)


CHANGED = given(id=[1, 9], part=["a", "b"], word=["changed", "new"])
VERBS = {
    "append": lambda to: to.append(CHANGED, snapshot_properties={"why": "test"}),
    "append a reader": lambda to: to.append(CHANGED),
    "append nothing": lambda to: to.append(ROWS.slice(0, 0)),
    "delete": lambda to: to.delete("id > 4 or word is null", snapshot_properties={"why": "test"}),
    "delete by an expression": lambda to: to.delete(And(GreaterThan("id", 1), EqualTo("part", "b"))),
    "delete a partition": lambda to: to.delete(EqualTo("part", "a")),
    "delete all": lambda to: to.delete("true"),
    "overwrite": lambda to: to.overwrite(CHANGED),
    "overwrite some": lambda to: to.overwrite(CHANGED, In("id", (0, 1, 4))),
    "overwrite by text": lambda to: to.overwrite(CHANGED, overwrite_filter="ID >= 2", case_sensitive=False),
    "dynamic_partition_overwrite": lambda to: to.dynamic_partition_overwrite(CHANGED),
    "upsert": lambda to: to.upsert(CHANGED, ["id"], snapshot_properties={"why": "test"}),
    "upsert, update only": lambda to: to.upsert(CHANGED, ["id"], when_not_matched_insert_all=False),
    "upsert, insert only": lambda to: to.upsert(CHANGED, ["id"], when_matched_update_all=False),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_verbs_do_what_they_do_on_version_2(tables: tuple[Table, Table], verb: Any) -> None:
    old, new = tables
    assert verb(new) == verb(old)
    assert by_us(new) == by_us(old)
    if old.current_snapshot().summary.get("why"):  # type: ignore[union-attr]
        assert new.current_snapshot().summary["why"] == "test"  # type: ignore[union-attr,index]
    assert by_pyiceberg(new) == by_us(old)
    assert not pf.iceberg.verify(new)


def test_transactions(tables: tuple[Table, Table]) -> None:
    old, new = tables
    n_snapshots = len(new.snapshots())
    for table in tables:
        with table.transaction() as tx:
            assert isinstance(tx, Transaction)
            tx.delete("id = 0", snapshot_properties={"first": "1"})
            tx.append(given(id=[20, 21], part=["d", "d"], word=["p", "q"]))
            found = tx.upsert(given(id=[20, 30], part=["d", "e"], word=["r", "s"]), ["id"])
            assert found == UpsertResult(rows_updated=1, rows_inserted=1)
            tx.overwrite(
                given(id=[5], part=["c"], word=["over"]), "id = 5", snapshot_properties={"last": "2"}
            )
            before = by_us(table)
        assert before != by_us(table)
    assert by_us(new) == by_us(old)
    assert len(new.snapshots()) == n_snapshots + 1
    summary = new.current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    assert (summary["first"], summary["last"]) == ("1", "2")


def test_a_failed_transaction_changes_nothing(tables: tuple[Table, Table]) -> None:
    _, new = tables
    before, location = by_us(new), new.metadata_location
    with pytest.raises(pf.NotFoundError, match="nope"):
        run(new, lambda tx: tx.delete("id = 0"), lambda tx: tx.delete("nope = 1"))
    assert (by_us(new), new.refresh().metadata_location) == (before, location)
    with pytest.raises(pf.NotFoundError, match="nope"):
        new.delete("nope = 1")
    assert new.refresh().metadata_location == location


def test_branches(tables: tuple[Table, Table], catalog: SqlCatalog) -> None:
    for table in tables:
        with pf.iceberg.v3_metadata(catalog), table.manage_snapshots() as change:
            change.create_branch(table.current_snapshot().snapshot_id, "side")  # type: ignore[union-attr]
        table.append(CHANGED.slice(1), branch="side")
        table.delete("id = 2", branch="side")
    old, new = tables
    assert by_us(new, branch="side") == by_us(old, branch="side")
    assert by_us(new) == ROWS.to_pylist()
    with pytest.raises(pf.UnsupportedError, match="one branch"):
        run(new, lambda tx: tx.append(CHANGED), lambda tx: tx.append(CHANGED, branch="side"))
    with pytest.raises(pf.NotFoundError, match="twig"):
        new.append(CHANGED, branch="twig")


def test_deletes_are_deletion_vectors_unless_the_table_says_otherwise(
    tables: tuple[Table, Table], catalog: SqlCatalog
) -> None:
    _, new = tables
    files = {task.data.file_path for task in pf.iceberg.plan_files(new).tasks}
    new.delete("id = 0")
    assert {task.data.file_path for task in pf.iceberg.plan_files(new).tasks} == files
    assert pf.iceberg.deletes(new).num_rows == 1
    with pf.iceberg.v3_metadata(catalog), new.transaction() as change:
        change.set_properties({"write.delete.mode": "copy-on-write"})
    with pytest.raises(
        pf.UnsupportedError, match=r"write\.delete\.mode=copy-on-write: expected merge-on-read"
    ):
        new.delete("id = 1")
    new.append(CHANGED)


def test_a_delete_without_matches_warns_as_pyiceberg_does(tables: tuple[Table, Table]) -> None:
    for table in tables:
        with pytest.warns(UserWarning, match="did not match any records"):
            table.delete("id = 77")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tables[1].delete("id = 1")


def with_note(tx: Transaction) -> None:
    with tx.update_schema() as update:
        update.add_column("note", StringType())


NOTED = pa.table({"id": [8], "part": ["z"], "word": ["w"], "note": ["n"]})

MIXED = {
    "schema, then rows": [with_note, lambda tx: tx.append(NOTED), lambda tx: tx.delete("id = 0")],
    "rows, then schema": [lambda tx: tx.append(CHANGED), with_note],
    "properties around rows": [
        lambda tx: tx.set_properties(a="b"),
        lambda tx: tx.delete("id < 2"),
        lambda tx: tx.set_properties(c="d"),
    ],
    "renamed, then by its name": [
        lambda tx: tx.update_schema().rename_column("word", "term").commit(),
        lambda tx: tx.delete("term = 'x'"),
    ],
    "spec, then rows": [
        lambda tx: tx.update_spec().add_field("id", BucketTransform(4)).commit(),
        lambda tx: tx.append(CHANGED),
    ],
    "no rows": [with_note, lambda tx: tx.append(NOTED.slice(0, 0))],
}


@pytest.mark.parametrize("verbs", MIXED.values(), ids=MIXED)
def test_metadata_and_rows_change_in_one_commit(tables: tuple[Table, Table], verbs: list[Any]) -> None:
    old, new = tables
    n_logged = len(new.metadata.metadata_log)
    for table in tables:
        run(table, *verbs)
        assert table.metadata == table.refresh().metadata
    assert by_us(new) == by_us(old)
    assert new.schema().column_names == old.schema().column_names
    assert new.properties.get("c") == old.properties.get("c")
    assert new.spec().fields == old.spec().fields
    assert len(new.metadata.metadata_log) == n_logged + 1
    assert not pf.iceberg.verify(new, level="rows")


def test_metadata_and_rows_are_planned_again_on_a_new_head(
    tables: tuple[Table, Table], catalog: SqlCatalog
) -> None:
    _, new = tables
    with new.transaction() as tx:
        with_note(tx)
        tx.append(NOTED)
        pf.iceberg.append(pf.iceberg.load_table(catalog, "shop.new"), CHANGED.slice(1))
    assert [row["note"] for row in by_us(new)] == [None] * 6 + ["n", None]
    assert not pf.iceberg.verify(new, level="rows")


def test_metadata_that_another_commit_changed_is_a_conflict(
    tables: tuple[Table, Table], catalog: SqlCatalog
) -> None:
    _, new = tables
    other = pf.iceberg.load_table(catalog, "shop.new")

    def change_schema(_: Transaction) -> None:
        with other.update_schema() as update:
            update.add_column("other", StringType())

    with pytest.raises(pf.ConflictError, match="schema"):
        run(new, with_note, lambda tx: tx.append(NOTED), change_schema)
    assert new.refresh().schema().column_names == ["id", "part", "word", "other"]
    assert pf.iceberg.scan(new).count() == ROWS.num_rows
    with pytest.raises(pf.PuffinFastError):
        run(new, with_note, change_schema_back(other), lambda tx: tx.append(NOTED))
    assert pf.iceberg.scan(new).count() == ROWS.num_rows
    assert not pf.iceberg.orphan_files(new, older_than=timedelta(0)).num_rows


def change_schema_back(other: Table) -> Callable[[Transaction], None]:
    def change(_: Transaction) -> None:
        with other.refresh().update_schema() as update:
            update.delete_column("other")

    return change


def test_a_failed_transaction_of_both_changes_nothing(tables: tuple[Table, Table]) -> None:
    _, new = tables
    before, location = by_us(new), new.metadata_location
    with pytest.raises(pf.NotFoundError, match="nope"):
        run(new, with_note, lambda tx: tx.append(NOTED), lambda tx: tx.delete("nope = 1"))
    assert (by_us(new), new.refresh().metadata_location) == (before, location)


def test_what_no_transaction_can_do_is_refused(tables: tuple[Table, Table]) -> None:
    _, new = tables
    snapshot_id = new.metadata.snapshots[0].snapshot_id
    location = new.metadata_location
    tag = [lambda tx: ManageSnapshots(tx).create_tag(snapshot_id, "t").commit()]
    append = [lambda tx: tx.append(CHANGED)]
    for verbs, message in (
        (tag + append, "a transaction for each"),
        (append + tag, "a transaction for each"),
        ([*append, with_note, *append], "rows first or metadata first"),
    ):
        with pytest.raises(pf.UnsupportedError, match=f"nothing was committed: expected {message}"):
            run(new, *verbs)
    assert new.refresh().metadata_location == location


def test_an_upgrade_and_rows_are_one_commit(catalog: SqlCatalog) -> None:
    with pf.iceberg.accelerate():
        table = catalog.create_table("shop.t", ROWS.schema)
        table.append(ROWS)
        with table.transaction() as tx:
            tx.upgrade_table_version(3)
            tx.delete("id = 0")
            tx.append(CHANGED.slice(1))
        assert (table.format_version, len(table.snapshots())) == (3, 2)
        assert [row["id"] for row in by_us(table)] == [1, 2, 3, 4, 5, 9]
        assert not pf.iceberg.verify(table, level="rows")
        only = catalog.create_table("shop.only", ROWS.schema)
        with only.transaction() as tx:
            tx.upgrade_table_version(3)
        assert only.format_version == 3
        with pytest.raises(ValueError, match="Cannot downgrade"), only.transaction() as tx:
            tx.upgrade_table_version(2)


def test_a_table_is_created_with_its_rows(catalog: SqlCatalog) -> None:
    def creation(name: str) -> CreateTableTransaction:
        properties = {"format-version": "3", "owner": "me"}
        return catalog.create_table_transaction(f"shop.{name}", ROWS.schema, properties=properties)

    def create(name: str, *verbs: Callable[[Transaction], object]) -> None:
        with creation(name) as tx:
            for verb in verbs:
                verb(tx)

    append: Callable[[Transaction], None] = lambda tx: tx.append(ROWS)  # noqa: E731
    with pf.iceberg.accelerate():
        create("t", with_note, lambda tx: tx.append(NOTED))
        create("empty")
        with pytest.raises(pf.ConflictError, match="already exists"):
            create("race", append, lambda _: catalog.create_table("shop.race", ROWS.schema))
        with pytest.raises(ZeroDivisionError):
            create("no", append, lambda _: 1 / 0)
    table = catalog.load_table("shop.t")
    assert (table.format_version, table.properties["owner"], len(table.snapshots())) == (3, "me", 1)
    assert by_us(table) == NOTED.to_pylist()
    assert not pf.iceberg.verify(table, level="rows")
    assert catalog.load_table("shop.empty").format_version == 3
    assert catalog.load_table("shop.race").format_version == 2
    assert not catalog.table_exists("shop.no")


def test_without_accelerate_pyiceberg_refuses(catalog: SqlCatalog) -> None:
    table = pf.iceberg.create_table(catalog, "shop.t", ROWS.schema)
    with pytest.raises(ValueError, match="Cannot write manifest for table version: 3"):
        table.append(ROWS)
    with pf.iceberg.accelerate():
        table.append(ROWS.to_reader())
    with pytest.raises(ValueError, match="Cannot write manifest for table version: 3"):
        table.append(ROWS)
    assert pf.iceberg.scan(table).count() == 6


def test_changes_of_metadata_are_those_of_version_2(tables: tuple[Table, Table]) -> None:
    for table in tables:
        rows = by_us(table)
        first = table.metadata.snapshots[0].snapshot_id
        with table.update_schema() as update:
            update.add_column("note", StringType())
        with table.transaction() as tx:
            tx.set_properties(owner="me")
            with tx.update_schema() as update:
                update.rename_column("word", "term")
        table.maintenance.expire_snapshots().by_id(first).commit()
        table.refresh()
        assert table.schema().column_names == ["id", "part", "term", "note"]
        assert table.properties["owner"] == "me"
        assert first not in {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        assert by_us(table) == [
            {"id": row["id"], "part": row["part"], "term": row["word"], "note": None} for row in rows
        ]
        table.append(pa.table({"id": [7], "part": ["d"], "term": ["new"], "note": ["n"]}))
        assert by_us(table)[-1] == {"id": 7, "part": "d", "term": "new", "note": "n"}
    assert [table.metadata.format_version for table in tables] == [2, 3]


def test_catalogs_create_tables_of_version_3(catalog: SqlCatalog) -> None:
    def description() -> dict[str, Any]:
        """New ones: PyIceberg removes the version from the properties that it is given."""
        return {"schema": ROWS.schema, "properties": {"format-version": "3", "owner": "me"}}

    with pytest.raises(NotImplementedError, match="Writing V3"):
        catalog.create_table("shop.t", **description())
    with pf.iceberg.accelerate():
        table = catalog.create_table("shop.t", **description())
        assert catalog.create_table_if_not_exists("shop.t", **description()).metadata == table.metadata
        table.append(ROWS)
        table.delete("id = 0")
        assert catalog.create_table("shop.old", ROWS.schema).format_version == 2
        with pf.iceberg.v3_metadata(catalog):
            assert catalog.create_table("shop.inside", **description()).format_version == 3
    assert (table.format_version, table.properties["owner"]) == (3, "me")
    assert pf.iceberg.scan(table).count() == 5
    assert not pf.iceberg.verify(table)
    with pytest.raises(NotImplementedError, match="Writing V3"):
        catalog.create_table("shop.u", **description())


@pytest.mark.jar
def test_a_rest_catalog_takes_metadata_and_rows_in_one_request(
    rest_catalog: RestCatalog, rest_namespace: str
) -> None:
    name = f"{rest_namespace}.t"
    with pf.iceberg.accelerate():
        properties = {"format-version": "3"}
        with rest_catalog.create_table_transaction(name, ROWS.schema, properties=properties) as tx:
            tx.append(ROWS)
        table = rest_catalog.load_table(name)
        run(table, with_note, lambda tx: tx.append(NOTED), lambda tx: tx.delete("id = 0"))
        old = rest_catalog.create_table(f"{rest_namespace}.old", ROWS.schema)
        old.append(ROWS)
        run(old, lambda tx: tx.upgrade_table_version(3), lambda tx: tx.delete("id = 0"))
    assert (table.format_version, len(table.snapshots())) == (3, 2)
    assert [row["id"] for row in by_us(table)] == [1, 2, 3, 4, 5, 8]
    assert not pf.iceberg.verify(table, level="rows")
    assert (old.format_version, len(by_us(old))) == (3, 5)
    assert not pf.iceberg.verify(old, level="rows")
