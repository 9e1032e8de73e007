"""`repair` deletes what the vectors of a data file say, and makes them readable for all engines; no delete is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from duckdb import DuckDBPyConnection
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import CorruptDataError
from puffin_fast.iceberg.maintenance import puffin_checks
from puffin_fast.iceberg.manifest import ManifestEntry, manifests_of, read_manifest, write_manifest
from puffin_fast.iceberg.plan import inventory
from puffin_fast.puffin import PuffinReader
from puffin_fast.puffin.vectors import check_vectors
from tests.iceberg.conftest import current_snapshot, rows_of, rows_of_duckdb, summary_of, unchanged
from tests.iceberg.maintenance.maintained import N, add_vector, flip, ids, kinds, made, tasks
from tests.kit.faults import RacingCatalog
from tests.kit.tables import iceberg_table, parts, path_of


@pytest.mark.parametrize(
    "wrong",
    [{"record_count": 4}, {"content_offset": 5}, {"content_size_in_bytes": 30}, {"file_size_in_bytes": 1}],
    ids=str,
)
def test_a_wrong_entry_is_found_and_repaired(racing: RacingCatalog, wrong: dict[str, int]) -> None:
    table = made(racing, 2)
    add_vector(table, tasks(table)[0].data, [3, 4, 5], **wrong)
    assert set(kinds(table)) == {"mismatch"}
    result = iceberg.repair(table)
    if "file_size_in_bytes" not in wrong:
        assert (result.vectors_written, result.rows_deleted, result.not_rewritten) == (1, 0, ())
        assert summary_of(table)["operation"] == "replace"
        assert iceberg.verify(table) == []
    assert ids(table) == set(range(200)) - {3, 4, 5}


def test_positions_past_the_rows_are_found_and_not_repaired(racing: RacingCatalog) -> None:
    table = made(racing, 1)
    add_vector(table, tasks(table)[0].data, [3, N])
    assert kinds(table) == ["mismatch"]
    result = iceberg.repair(table)
    assert result.commit.id is None
    assert "less than 100 rows" in result.not_rewritten[0]


def test_several_vectors_of_a_data_file_become_their_union(
    racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection
) -> None:
    table = made(racing, 3)
    first, second, _ = (task.data for task in tasks(table))
    for positions in ([1, 2], [2, 3], [50]):
        add_vector(table, first, positions)
    add_vector(table, second, [9])
    assert kinds(table) == ["duplicate"]
    with pytest.raises(CorruptDataError, match="two deletion vectors"):
        ids(table)
    with unchanged(table):
        dry = iceberg.repair(table, dry_run=True)
    assert (dry.vectors_written, dry.commit.id, dry.dry_run) == (1, None, True)
    result = iceberg.repair(table)
    assert (result.vectors_written, result.vectors_removed, result.positions) == (1, 3, 4)
    expected = set(range(300)) - {1, 2, 3, 50, 109}
    assert ids(table) == expected == set(rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist())
    assert iceberg.verify(table) == []
    assert iceberg.repair(table).commit.id is None


def test_several_vectors_are_not_united_when_one_cannot_be_read(racing: RacingCatalog) -> None:
    table = made(racing, 2)
    first, second = (task.data for task in tasks(table))
    add_vector(table, first, [1, 2])
    flip(add_vector(table, first, [3]), 4)
    for positions in ([5], [6]):
        add_vector(table, second, positions)
    result = iceberg.repair(table)
    assert (result.vectors_written, result.vectors_removed) == (1, 2)
    assert first.file_path in result.not_rewritten[0]
    assert set(kinds(table)) == {"duplicate", "corrupt"}


def test_a_delete_during_a_repair_is_kept(racing: RacingCatalog) -> None:
    table = made(racing, 2)
    first, second = (task.data for task in tasks(table))
    for positions in ([1], [2]):
        add_vector(table, first, positions)
    other = racing.load_table("n.t")
    racing.before = [lambda: add_vector(other, first, [3]), lambda: add_vector(other, second, [4])]
    assert iceberg.repair(table).commit.attempts == 2
    assert ids(table) == set(range(200)) - {1, 2, 3, 104}


# Vectors that this package reads, and others perhaps not ------------------------------------------------------

LIVE = [i for i in range(30) if i not in (1, 11, 12, 21)]


def with_vectors(catalog: RacingCatalog, target_file_size: int = 1) -> Table:
    """Three data files of the rows LIVE, each with a vector in a Puffin file of its own."""
    properties = {"write.delete.target-file-size-bytes": str(target_file_size)}
    table = iceberg_table(catalog, parts(pa.table({"id": range(30)}), 3), properties=properties)
    iceberg.delete(table, "id in (1, 11, 12, 21)")
    with iceberg.v3_metadata(catalog), table.transaction() as transaction:
        transaction.remove_properties("write.delete.target-file-size-bytes")
    return table


def in_one_file(catalog: RacingCatalog) -> Table:
    """The same table with the three vectors in one Puffin file."""
    table = with_vectors(catalog, 1000)
    assert len({vector.file_path for vector in vectors_of(table)}) == 1
    return table


def change_vectors(table: Table, change: Callable[[ManifestEntry], ManifestEntry]) -> None:
    """Writes the delete manifest anew."""
    snapshot = current_snapshot(table)
    (manifest,) = (m for m in manifests_of(table.io, snapshot) if m.content)
    write_manifest(
        table.io,
        manifest.path,
        metadata=table.metadata,
        spec=table.spec(),
        content=1,
        snapshot_id=snapshot.snapshot_id,
        entries=list(map(change, read_manifest(table.io, manifest, table.specs()))),
    )


def without_frame(table: Table, paths: set[str], name: str = "-bare") -> None:
    """Moves the vectors of some Puffin files to the start of files that have only their bytes."""

    def moved(vector: ManifestEntry) -> ManifestEntry:
        if vector.file_path not in paths:
            return vector
        at, size = vector.content_offset or 0, vector.content_size_in_bytes or 0
        path = vector.file_path.replace("-deletes.puffin", name)
        path_of(path).write_bytes(path_of(vector.file_path).read_bytes()[at : at + size])
        return replace(vector, file_path=path, content_offset=0, file_size_in_bytes=size)

    change_vectors(table, moved)


def vectors_of(table: Table) -> list[ManifestEntry]:
    return [task.vector for task in iceberg.plan_files(table).tasks if task.vector is not None]


def is_repaired(table: Table) -> None:
    """Checks that a table has findings, and after `repair` none, and its rows."""
    assert iceberg.verify(table) != []
    assert iceberg.repair(table).commit.id is not None
    assert iceberg.verify(table) == []
    assert rows_of(table)["id"].to_pylist() == LIVE


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", ["-bare.puffin", "-bare.bin", "-bare"])
@pytest.mark.parametrize("verb", [iceberg.repair, iceberg.compact])
def test_a_vector_without_frame_is_written_to_a_puffin_file(
    racing: RacingCatalog, verb: Any, name: str, n: int
) -> None:
    table = with_vectors(racing)
    without_frame(table, {vector.file_path for vector in vectors_of(table)[:n]}, name)
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == LIVE
    assert verb(table).commit.id is not None
    for vector in vectors_of(table):
        with PuffinReader(vector.file_path, filesystem=table.io) as reader:
            assert vector.content_offset in {blob.offset for blob in reader.blobs}
    assert iceberg.verify(table) == []
    assert rows_of(table)["id"].to_pylist() == LIVE
    assert iceberg.repair(table).commit.id is None


@pytest.mark.parametrize("what", ["footer", "head", "size", "other vectors"])
def test_a_vector_whose_puffin_file_has_findings_is_repaired(racing: RacingCatalog, what: str) -> None:
    table = with_vectors(racing)
    first, second, _ = vectors_of(table)
    path = path_of(first.file_path)
    data = path.read_bytes()
    if what == "footer":
        path.write_bytes(data[:-4] + b"PFA2")
    elif what == "head":
        path.write_bytes(b"PFA2" + data[4:])
    elif what == "size":
        change_vectors(table, lambda v: replace(v, file_size_in_bytes=v.file_size_in_bytes + 1))
    else:  # a footer that names other data files
        size = first.content_size_in_bytes or 0
        other = path_of(second.file_path).read_bytes()
        assert second.content_size_in_bytes is not None
        path.write_bytes(other[:4] + data[4 : 4 + size] + other[4 + second.content_size_in_bytes :])
    is_repaired(table)


def change_footer(path: Path, change: Callable[[list[Any]], object]) -> None:
    """Changes the blobs in the footer of a Puffin file: magic, JSON, its length, flags, magic."""
    data = path.read_bytes()
    n_bytes = int.from_bytes(data[-12:-8], "little")
    start = len(data) - 12 - n_bytes
    footer = json.loads(data[start:-12])
    change(footer["blobs"])
    payload = json.dumps(footer, separators=(",", ":")).encode().ljust(n_bytes)
    path.write_bytes(data[:start] + payload + len(payload).to_bytes(4, "little") + data[-8:])


@pytest.mark.parametrize("change", [{"length": 60}, {"compression-codec": "zstd"}], ids=str)
def test_vectors_of_a_footer_with_findings_are_repaired(
    racing: RacingCatalog, change: dict[str, Any]
) -> None:
    """A blob that overlaps the next one, and a codec, which vectors do not have."""
    table = in_one_file(racing)
    change_footer(path_of(vectors_of(table)[0].file_path), lambda blobs: blobs[0].update(change))
    change_vectors(table, lambda v: replace(v, file_size_in_bytes=path_of(v.file_path).stat().st_size))
    is_repaired(table)


def test_repair_checks_each_puffin_file_once(racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = in_one_file(racing)
    monkeypatch.setattr(inventory, "PER_GROUP", 1)
    checked: list[str] = []

    def check(path: str, **named: Any) -> Any:
        checked.append(path)
        return check_vectors(path, **named)

    monkeypatch.setattr(puffin_checks, "check_vectors", check)
    assert iceberg.repair(table).commit.id is None
    assert len(checked) == 1


def test_compact_writes_a_vector_anew_whose_footer_has_unknown_flags(racing: RacingCatalog) -> None:
    table = with_vectors(racing)
    without_frame(table, {vector.file_path for vector in vectors_of(table)[1:]})
    iceberg.compact(table)
    (path,) = {vector.file_path for vector in vectors_of(table)}
    data = path_of(path).read_bytes()
    path_of(path).write_bytes(data[:-8] + b"\x02\0\0\0" + data[-4:])
    assert iceberg.compact(table).commit.id is not None
    assert iceberg.verify(table) == []
    assert rows_of(table)["id"].to_pylist() == LIVE


def test_a_vector_that_cannot_be_read_is_named(racing: RacingCatalog) -> None:
    table = with_vectors(racing)
    without_frame(table, {vectors_of(table)[0].file_path})
    (bare,) = (v for v in vectors_of(table) if v.file_path.endswith("-bare"))
    flip(bare, (bare.content_size_in_bytes or 0) - 1)
    (message,) = iceberg.repair(table).not_rewritten
    assert "not repaired" in message
    assert path_of(bare.file_path).name in message
