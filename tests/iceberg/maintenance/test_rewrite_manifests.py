"""Manifests that are rewritten have the same files in the order of their partitions and paths."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StringType

import puffin_fast as pf
from puffin_fast.errors import NotFoundError
from puffin_fast.iceberg.manifest import DATA, DELETES, EXISTING, ManifestEntry, manifests_of, read_manifest
from puffin_fast.iceberg.plan.files import plan_files
from tests.iceberg.conftest import current_snapshot, rows_of, rows_of_duckdb, summary_of
from tests.kit.faults import RacingCatalog

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


def made(
    catalog: Catalog,
    name: str,
    *,
    version: int = 3,
    n: int = 6,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Table:
    """A table of many small manifests, whose files have deletes."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "word", StringType()))
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(3), "id_bucket"))
    properties = {"format-version": str(version), "commit.manifest-merge.enabled": "false", **more}
    create = pf.iceberg.create_table if version == 3 else type(catalog).create_table
    table: Table = create(catalog, name, schema, partition_spec=spec, properties=properties)
    for number in range(n):
        ids = range(number, 200, n)
        pf.iceberg.append(
            table, pa.table({"id": pa.array(ids, pa.int64()), "word": [f"w{i % 7}" for i in ids]})
        )
        if number % 2:
            pf.iceberg.delete(table, f"word = 'w{number}'")
    return table


def entries(table: Table, content: int) -> list[tuple[str, list[ManifestEntry]]]:
    head = current_snapshot(table)
    return [
        (manifest.path, read_manifest(table.io, manifest, table.specs(), live_only=False))
        for manifest in manifests_of(table.io, head)
        if manifest.content == content
    ]


def facts(found: list[tuple[str, list[ManifestEntry]]]) -> list[Any]:
    """All fields of live files but their status, which is not that of the snapshot that added them."""
    live = [entry for _, some in found for entry in some if entry.is_live]
    return sorted(
        [[getattr(e, name) for name in e.__dataclass_fields__ if name != "status"] for e in live], key=repr
    )


@pytest.mark.parametrize("version", [2, 3])
def test_the_files_stay_and_are_sorted_by_partition_and_path(racing: RacingCatalog, version: int) -> None:
    table = made(racing, "n.t", version=version)
    before = {content: entries(table, content) for content in (DATA, DELETES)}
    rows, n = pf.iceberg.scan(table).to_arrow().sort_by("id"), sum(map(len, before.values()))
    planned = pf.iceberg.rewrite_manifests(table, dry_run=True)
    kept = planned.manifests_kept  # that of deletes, if it happens to be in order
    assert kept < 2
    assert (planned.manifests_removed, planned.manifests_written) == (n - kept, 2 - kept)
    assert planned.commit.id is None
    result = pf.iceberg.rewrite_manifests(table, job_id="nightly")
    repeated = pf.iceberg.rewrite_manifests(table, job_id="nightly")
    assert (repeated.commit.repeated, repeated.commit.id) == (True, result.commit.id)
    found = (result.manifests_removed, result.manifests_written, result.manifests_kept)
    assert found == (n - kept, 2 - kept, kept)
    for content in (DATA, DELETES):
        ((_, after),) = entries(table, content)
        assert facts([("", after)]) == facts(before[content])
        if not kept:
            assert {entry.status for entry in after} == {EXISTING}
        after = [entry for entry in after if entry.is_live]
        places = [(e.partition, e.referenced_data_file or e.file_path) for e in after]
        first: dict[str, tuple[object, str]] = {}
        for entry, place in sorted(zip(after, places, strict=True), key=lambda pair: pair[1]):
            first.setdefault(entry.file_path, place)
        keys = [(first[e.file_path], e.file_path, e.content_offset or 0) for e in after]
        assert keys == sorted(keys)  # the vectors of a Puffin file are together, in its order
        assert result.entries >= len(after) or kept
    assert rows_of(table) == rows
    assert pf.iceberg.verify(table) == []
    again = pf.iceberg.rewrite_manifests(table)
    assert (again.commit.id, again.manifests_removed, again.manifests_kept) == (None, 0, 2)
    assert summary_of(table)["operation"] == "replace"


def test_entries_of_removed_files_are_left_out_though_the_others_are_in_order(racing: RacingCatalog) -> None:
    table = made(racing, "n.t", n=1)
    pf.iceberg.rewrite_manifests(table)
    (_, some), *_ = entries(table, DATA)
    pf.iceberg.delete_positions(table, {some[0].file_path: range(some[0].record_count)})
    assert any(not entry.is_live for _, some in entries(table, DATA) for entry in some)
    pf.iceberg.rewrite_manifests(table)
    assert all(entry.is_live for _, some in entries(table, DATA) for entry in some)
    assert pf.iceberg.rewrite_manifests(table).commit.id is None


def test_manifests_have_about_the_target_size(racing: RacingCatalog) -> None:
    table = made(racing, "n.t", more={"commit.manifest.target-size-bytes": "12000"})
    n = len(entries(table, DATA)[0][1])
    result = pf.iceberg.rewrite_manifests(table)
    found = entries(table, DATA)
    assert 2 <= len(found) < 6
    assert result.manifests_written + result.manifests_kept == len(found) + len(entries(table, DELETES))
    assert all(len(some) > n for _, some in found[:-1])
    paths = [(entry.partition, entry.file_path) for _, some in found for entry in some]
    assert paths == sorted(paths)


def test_commits_of_others_are_kept(racing: RacingCatalog) -> None:
    table, other = made(racing, "n.t"), racing.load_table("n.t")
    racing.before += [
        lambda: pf.iceberg.append(other, pa.table({"id": [1000], "word": ["new"]})),
        lambda: pf.iceberg.delete(other, "id < 10"),
    ]
    left = pf.iceberg.scan(table, "id >= 10").count()
    result = pf.iceberg.rewrite_manifests(table)
    assert result.commit.attempts == 2
    assert pf.iceberg.scan(table).count() == left + 1
    assert pf.iceberg.scan(table, "id = 1000 or id < 10").count() == 1
    assert len(entries(table, DATA)) == 1
    assert pf.iceberg.verify(table) == []


def test_rows_deleted_after_a_rewrite_stay_deleted(racing: RacingCatalog) -> None:
    table = made(racing, "n.t")
    before = pf.iceberg.scan(table).count()
    pf.iceberg.rewrite_manifests(table)
    task = next(task for task in plan_files(table).tasks if task.vector is not None)
    gone = pf.iceberg.delete_positions(
        table, pa.table({"file_path": [task.data.file_path] * 10, "pos": range(10)})
    )
    assert gone.rows_deleted
    assert pf.iceberg.scan(table).count() == before - gone.rows_deleted
    pf.iceberg.append(table, pa.table({"id": [1000], "word": ["new"]}))
    assert pf.iceberg.rewrite_manifests(table).manifests_removed
    assert pf.iceberg.scan(table).count() == before - gone.rows_deleted + 1
    again = pf.iceberg.rewrite_manifests(table)
    assert (again.commit.id, again.manifests_removed) == (None, 0)


def test_a_table_without_snapshots_has_nothing_to_do_and_a_wrong_branch_is_not_found(
    racing: RacingCatalog,
) -> None:
    table = made(racing, "n.t", n=0)
    assert pf.iceberg.rewrite_manifests(table).commit.id is None
    with pytest.raises(NotFoundError, match="lost"):
        pf.iceberg.rewrite_manifests(table, branch="lost")


@pytest.mark.spark
@pytest.mark.jar
def test_other_engines_read_and_change_the_table(
    shared_catalog: SqlCatalog,
    namespace: str,
    iceberg_spark: SparkSession,
    duckdb_iceberg: DuckDBPyConnection,
) -> None:
    table = made(shared_catalog, f"{namespace}.t")
    name = f"{shared_catalog.name}.{namespace}.t"
    wanted = sorted(pf.iceberg.scan(table).to_arrow()["id"].to_pylist())
    row_ids = pf.iceberg.scan(table, selected_fields=("id", "_row_id")).to_arrow().to_pydict()
    ids = dict(zip(row_ids["id"], row_ids["_row_id"], strict=True))
    pf.iceberg.rewrite_manifests(table)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == wanted
    assert rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist() == wanted
    found = iceberg_spark.sql(f"SELECT id, _row_id FROM {name}").toArrow().to_pydict()
    assert dict(zip(found["id"], found["_row_id"], strict=True)) == ids
    iceberg_spark.sql(f"DELETE FROM {name} WHERE id % 5 = 0")
    left = [one for one in wanted if one % 5]
    assert sorted(pf.iceberg.scan(table.refresh()).to_arrow()["id"].to_pylist()) == left
    iceberg_spark.sql(f"CALL {shared_catalog.name}.system.rewrite_manifests('{namespace}.t')")
    assert sorted(pf.iceberg.scan(table.refresh()).to_arrow()["id"].to_pylist()) == left
    pf.iceberg.rewrite_manifests(table)
    assert rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist() == left
