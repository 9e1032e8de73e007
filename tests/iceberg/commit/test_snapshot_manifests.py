"""Manifests are merged by the table properties that Java reads; no file, number or row id changes by it."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.errors import ConflictError, CorruptDataError, InvalidInputError, NotFoundError
from puffin_fast.iceberg.manifest import (
    ADDED,
    DELETED,
    EXISTING,
    ManifestEntry,
    ManifestFile,
    manifests_of,
    read_manifest,
)
from tests.iceberg.conftest import add_branch, current_snapshot, refused, rows_of, set_properties
from tests.kit.faults import RacingCatalog
from tests.kit.tables import files_of, iceberg_table, path_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int64())])
LEAST = "commit.manifest.min-count-to-merge"
SIZE = "commit.manifest.target-size-bytes"
ENABLED = "commit.manifest-merge.enabled"
OLD = "write.metadata.delete-after-commit.enabled"
MAX = "write.metadata.previous-versions-max"


def some(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "part": [i % 2 for i in ids]}, SCHEMA)


def make(catalog: RacingCatalog, version: int = 3, properties: dict[str, str] | None = None) -> Table:
    return iceberg_table(catalog, SCHEMA, version=version, properties={LEAST: "4", **(properties or {})})


def manifests(table: Table, content: int = 0) -> list[ManifestFile]:
    snapshot = current_snapshot(table.refresh())
    return [m for m in manifests_of(table.io, snapshot) if m.content == content]


def entries(table: Table, content: int = 0) -> list[ManifestEntry]:
    found = (read_manifest(table.io, m, table.specs(), live_only=False) for m in manifests(table, content))
    return [entry for some in found for entry in some]


def append_each(table: Table, *numbers: int) -> None:
    """Appends rows with the ids of a range, each in a commit of its own."""
    for n in range(*numbers):
        iceberg.append(table, some(n))


def identity(entry: ManifestEntry) -> tuple[Any, ...]:
    """All that no merge may change."""
    fields = {name: getattr(entry, name) for name in ManifestEntry.__slots__ if name != "status"}
    return tuple(sorted((name, str(value)) for name, value in fields.items()))


@pytest.mark.parametrize("version", [2, 3])
def test_manifests_stay_few_and_entries_keep_their_ids_and_numbers(
    racing: RacingCatalog, version: int
) -> None:
    table = make(racing, version)
    known: set[tuple[Any, ...]] = set()
    for n in range(14):
        iceberg.append(table, some(n, 100 + n))
        now = set(map(identity, entries(table)))
        assert known < now
        assert len(now) == n + 1
        known = now
        assert len(manifests(table)) <= 4
    assert rows_of(table)["id"].to_pylist() == [*range(14), *range(100, 114)]
    assert {e.status for e in entries(table)} == {ADDED, EXISTING}
    assert iceberg.verify(table) == []
    ids = sorted((e.first_row_id, e.record_count) for e in entries(table)) if version == 3 else []
    assert all(a + n <= b for (a, n), (b, _) in pairwise(ids))
    assert {path for path in files_of(table) if "-m" in path.name} == all_manifests(table)


def all_manifests(table: Table) -> set[Any]:
    """Every manifest that a snapshot of the table lists."""
    return {path_of(m.path) for snapshot in table.snapshots() for m in manifests_of(table.io, snapshot)}


@pytest.mark.parametrize("version", [2, 3])
def test_delete_manifests_are_merged_apart_and_still_apply(racing: RacingCatalog, version: int) -> None:
    table = make(racing, version)
    for n in range(9):
        iceberg.append(table, some(*range(10 * n, 10 * n + 10)))
        iceberg.delete(table, f"id = {10 * n + 3}")
    assert len(manifests(table, 0)) < 5
    assert len(manifests(table, 1)) < 5
    expected = [i for i in range(90) if i % 10 != 3]
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == expected
    assert rows_of(table)["id"].to_pylist() == expected
    assert iceberg.verify(table) == []


def test_entries_that_earlier_commits_removed_are_dropped_and_those_of_this_one_stay(
    racing: RacingCatalog,
) -> None:
    table = make(racing)
    for n in range(4):
        iceberg.append(table, some(10 * n, 10 * n + 2))
    assert len(manifests(table)) == 1
    iceberg.delete(table, "id < 9")
    assert [e.status for e in entries(table)].count(DELETED) == 1
    head = current_snapshot(table)
    assert {e.snapshot_id for e in entries(table) if not e.is_live} == {head.snapshot_id}
    for n in range(4, 8):
        iceberg.append(table, some(10 * n))
    assert [e for e in entries(table) if not e.is_live] == []
    assert rows_of(table)["id"].to_pylist() == [10, 12, 20, 22, 30, 32, 40, 50, 60, 70]


def test_manifests_of_another_spec_are_never_merged_into_one(racing: RacingCatalog) -> None:
    table = make(racing)
    append_each(table, 3)
    with iceberg.v3_metadata(racing), table.update_spec() as update:
        update.add_identity("part")
    append_each(table, 3, 9)
    assert {m.spec_id for m in manifests(table)} == {0, 1}
    assert len([m for m in manifests(table) if m.spec_id == 0]) == 1
    assert len(manifests(table)) <= 5
    assert rows_of(table)["id"].to_pylist() == list(range(9))
    assert iceberg.scan(table, "part = 1").to_arrow()["id"].sort().to_pylist() == [1, 3, 5, 7]


@pytest.mark.parametrize("properties", [{ENABLED: "false"}, {SIZE: "1"}, {LEAST: "100"}])
def test_properties_that_leave_each_manifest_alone(racing: RacingCatalog, properties: dict[str, str]) -> None:
    table = make(racing, properties=properties)
    append_each(table, 6)
    assert len(manifests(table)) == 6


@pytest.mark.parametrize("least", ["-1", "0", "1", "2"])
def test_each_commit_merges_if_two_manifests_are_enough(racing: RacingCatalog, least: str) -> None:
    table = make(racing, properties={LEAST: least})
    for n in range(4):
        iceberg.append(table, some(n))
        assert len(manifests(table)) == 1
    assert rows_of(table)["id"].to_pylist() == [0, 1, 2, 3]


def test_a_merged_manifest_has_at_most_the_target_size(racing: RacingCatalog) -> None:
    table = make(racing, properties={LEAST: "2"})
    iceberg.append(table, some(0))
    (first,) = manifests(table)
    set_properties(table, {SIZE: str(first.length * 5 // 2)})
    append_each(table, 1, 12)
    assert len(manifests(table)) < 12
    assert all(m.length <= first.length * 5 // 2 for m in manifests(table))
    assert rows_of(table)["id"].to_pylist() == list(range(12))


@pytest.mark.parametrize("name", [LEAST, SIZE, ENABLED, OLD, MAX])
def test_a_value_that_is_not_allowed_is_refused_before_the_commit(racing: RacingCatalog, name: str) -> None:
    table = make(racing, properties={name: "many"})
    with refused(table, InvalidInputError, f"property {name}.*found 'many'"):
        iceberg.append(table, some(1))


def test_a_retry_merges_the_manifests_of_both_commits(racing: RacingCatalog) -> None:
    table, other = make(racing), racing.load_table("n.t")
    append_each(table, 3)
    racing.before.append(lambda: iceberg.append(other, some(100)))
    assert iceberg.append(table, some(3)).commit.attempts == 2
    assert rows_of(table)["id"].to_pylist() == [0, 1, 2, 3, 100]
    assert {path for path in files_of(table) if "-m" in path.name} == all_manifests(table)


def test_a_retry_reuses_a_merged_manifest_of_unchanged_ones(racing: RacingCatalog) -> None:
    """The older bin is the same in both attempts; the newest one has the manifest of the other commit."""
    table, other = make(racing, properties={ENABLED: "false"}), racing.load_table("n.t")
    append_each(table, 12)
    lengths = [m.length for m in manifests(table)]
    add_branch(table, "side")
    set_properties(table, {ENABLED: "true", SIZE: str(5 * max(lengths)), LEAST: "100"})
    written: list[set[Path]] = []

    def meanwhile() -> None:
        written.append(files_of(table))
        iceberg.append(other, some(100), branch="side")

    racing.before.append(meanwhile)
    assert iceberg.append(table, some(12)).commit.attempts == 2
    merged = {path_of(m.path) for m in manifests(table) if (m.existing_files_count or 0) > 1}
    assert len(merged) == 2  # two bins of old manifests
    assert merged <= written[0]
    assert rows_of(table)["id"].to_pylist() == list(range(13))
    assert {path for path in files_of(table) if "-m" in path.name} == all_manifests(table)


def bins_of_five(table: Table) -> None:
    """Lets the next commits merge older manifests by five, and never the newest ones."""
    longest = max(m.length for m in manifests(table))
    set_properties(table, {ENABLED: "true", SIZE: str(5 * longest), LEAST: "100"})


def test_a_retry_keeps_the_row_ids_that_another_commit_assigned(racing: RacingCatalog) -> None:
    """After an upgrade, a commit that merges nothing gives row ids to the manifests that the lost attempt merged."""
    table = make(racing, 2, properties={ENABLED: "false"})
    for n in range(6):
        iceberg.append(table, some(n, 100 + n))
    iceberg.upgrade(table)
    bins_of_five(table)
    assigned: set[tuple[Any, ...]] = set()

    def meanwhile() -> None:
        other = racing.load_table("n.t")
        set_properties(other, {ENABLED: "false"})
        iceberg.append(other, some(7))
        assigned.update(map(identity, entries(table)))
        set_properties(other, {ENABLED: "true"})

    racing.before.append(meanwhile)
    assert iceberg.append(table, some(8)).commit.attempts == 2
    assert len(manifests(table)) < 8
    assert assigned < set(map(identity, entries(table)))


def test_no_file_of_a_lost_attempt_is_left_after_a_merge_that_is_not_reused(racing: RacingCatalog) -> None:
    table, other = make(racing, properties={ENABLED: "false"}), racing.load_table("n.t")
    append_each(table, 12)
    bins_of_five(table)

    def meanwhile() -> None:
        iceberg.append(other, some(100))
        racing.before.append(lambda: iceberg.append(other, some(101)))

    racing.before.append(meanwhile)
    assert iceberg.append(table, some(12)).commit.attempts == 3
    lists = {path_of(snapshot.manifest_list) for snapshot in table.snapshots()}
    assert {path for path in files_of(table) if path.suffix == ".avro"} == all_manifests(table) | lists


def test_a_conflict_between_a_merge_and_a_commit_is_that_of_their_files(racing: RacingCatalog) -> None:
    """A manifest that another commit merged away is no conflict; its files decide."""
    table, other = make(racing), racing.load_table("n.t")
    for n in range(3):
        iceberg.append(table, some(10 * n, 10 * n + 1))
    racing.before.append(lambda: iceberg.append(other, some(30, 31)))  # merges all manifests
    assert iceberg.delete(table, "id in (0, 11)").rows_deleted == 2
    assert len(manifests(table)) == 1
    assert rows_of(table)["id"].to_pylist() == [1, 10, 20, 21, 30, 31]
    racing.before.append(lambda: iceberg.delete(other, "id = 30"))
    assert iceberg.delete(table, "id = 21").rows_deleted == 1
    assert rows_of(table)["id"].to_pylist() == [1, 10, 20, 31]
    assert iceberg.verify(table) == []


def metadata_files(table: Table) -> set[str]:
    return {path.name for path in files_of(table) if path.name.endswith(".metadata.json")}


def logged(table: Table) -> set[str]:
    log = table.refresh().metadata.metadata_log
    return {path_of(path).name for path in (table.metadata_location, *(e.metadata_file for e in log))}


def test_old_metadata_files_are_removed_if_the_table_says_so(racing: RacingCatalog) -> None:
    table = make(racing, properties={OLD: "true", MAX: "3"})
    append_each(table, 6)
    iceberg.delete(table, "id = 2")
    assert metadata_files(table) == logged(table)
    assert len(logged(table)) == 4
    iceberg.expire_snapshots(table, older_than=timedelta(0))
    assert metadata_files(table) == logged(table)
    assert rows_of(table)["id"].to_pylist() == [0, 1, 3, 4, 5]


def test_old_metadata_files_stay_by_default(racing: RacingCatalog) -> None:
    table = make(racing, properties={MAX: "2"})
    append_each(table, 5)
    assert len(logged(table)) == 3
    assert len(metadata_files(table)) == 6


def test_a_commit_that_does_not_happen_removes_no_old_metadata_file(racing: RacingCatalog) -> None:
    table = make(racing, properties={OLD: "true", MAX: "2", "commit.retry.num-retries": "0"})
    append_each(table, 4)
    other, before = racing.load_table("n.t"), metadata_files(table)
    racing.before.append(lambda: iceberg.append(other, some(9)))
    with pytest.raises(ConflictError):
        iceberg.append(table, some(10))
    assert metadata_files(table) == logged(table)
    assert len(before & metadata_files(table)) == len(before) - 1


@pytest.mark.parametrize("damage", ["cut", "changed", "removed"])
@pytest.mark.parametrize("content", [0, 1])
def test_a_manifest_that_cannot_be_read_is_left_out_of_the_merge_and_stays_listed(
    racing: RacingCatalog, damage: str, content: int
) -> None:
    table = make(racing, properties={LEAST: "100"})
    iceberg.append(table, some(*range(20)))
    for n in range(3):
        iceberg.append(table, some(100 + n))
        iceberg.delete(table, f"id = {n}") if content else None
    set_properties(table, {LEAST: "2"})
    damaged = manifests(table, content)[-1]
    known = set(map(identity, entries(table, content)))
    path = path_of(damaged.path)
    whole = path.read_bytes()
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(whole[:-30] if damage == "cut" else whole[:-30] + bytes(30))
    iceberg.append(table, some(1000))
    found = manifests(table, content)
    assert damaged in found
    if content == 0:
        assert len(found) == 2
    with pytest.raises((CorruptDataError, NotFoundError), match=re.escape(path.name)):
        iceberg.verify(table)
    path.write_bytes(whole)
    assert known <= set(map(identity, entries(table, content)))
    iceberg.append(table, some(1001))
    if content == 0:
        assert len(manifests(table, content)) == 1
    ids = [*range(3 if content else 0, 20), 100, 101, 102, 1000, 1001]
    assert rows_of(table)["id"].to_pylist() == ids
    assert iceberg.verify(table) == []
