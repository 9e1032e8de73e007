"""Vectors in files without Puffin's frame: this package reads them, and `repair` and `compact` mend them for others."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.iceberg.maintenance import puffin_checks
from puffin_fast.iceberg.manifest import ManifestEntry, manifests_of, read_manifest, write_manifest
from puffin_fast.iceberg.plan import inventory
from puffin_fast.puffin import PuffinReader
from puffin_fast.puffin.vectors import check_vectors
from tests.iceberg.conftest import RacingCatalog, local, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table


def make(catalog: RacingCatalog, target_file_size: int = 1) -> Table:
    """Three data files, each with a vector in a Puffin file of its own."""
    properties = {"write.delete.target-file-size-bytes": str(target_file_size)}
    table = iceberg.create_table(catalog, "n.t", pa.schema([("id", pa.int64())]), properties=properties)
    for first in (0, 10, 20):
        iceberg.append(table, pa.table({"id": range(first, first + 10)}))
    iceberg.delete(table, "id in (1, 11, 12, 21)")
    with iceberg.v3_metadata(catalog), table.transaction() as transaction:
        transaction.remove_properties("write.delete.target-file-size-bytes")
    return table


def change_vectors(table: Table, change: Callable[[ManifestEntry], ManifestEntry]) -> None:
    """Writes the delete manifest anew."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
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


def without_frame(vector: ManifestEntry, name: str) -> ManifestEntry:
    """The same vector at the start of a file that has only its bytes."""
    at, size = vector.content_offset or 0, vector.content_size_in_bytes or 0
    path = vector.file_path.replace("-deletes.puffin", name)
    local(path).write_bytes(local(vector.file_path).read_bytes()[at : at + size])
    return replace(vector, file_path=path, content_offset=0, file_size_in_bytes=size)


def vectors_of(table: Table) -> list[ManifestEntry]:
    return [task.vector for task in iceberg.plan_files(table).tasks if task.vector is not None]


LIVE = [i for i in range(30) if i not in (1, 11, 12, 21)]


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", ["-bare.puffin", "-bare.bin", "-bare"])
@pytest.mark.parametrize("verb", ["repair", "compact"])
def test_a_vector_without_frame_is_written_to_a_puffin_file(
    racing: RacingCatalog, verb: str, name: str, n: int
) -> None:
    table = make(racing)
    bare = vectors_of(table)[:n]
    paths = {vector.file_path for vector in bare}
    change_vectors(table, lambda v: without_frame(v, name) if v.file_path in paths else v)
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == LIVE
    result = getattr(iceberg, verb)(table)
    assert result.snapshot_id is not None
    for vector in vectors_of(table):
        with PuffinReader(vector.file_path, filesystem=table.io) as reader:
            assert vector.content_offset in {blob.offset for blob in reader.blobs}
    assert iceberg.verify(table) == []
    assert rows_of(table)["id"].to_pylist() == LIVE
    assert iceberg.repair(table).snapshot_id is None


@pytest.mark.parametrize("what", ["footer", "head", "size", "other vectors"])
def test_a_vector_whose_puffin_file_has_findings_is_repaired(racing: RacingCatalog, what: str) -> None:
    table = make(racing)
    first, second, _ = vectors_of(table)
    path = local(first.file_path)
    data = path.read_bytes()
    if what == "footer":
        path.write_bytes(data[:-4] + b"PFA2")
    elif what == "head":
        path.write_bytes(b"PFA2" + data[4:])
    elif what == "size":
        change_vectors(table, lambda v: replace(v, file_size_in_bytes=v.file_size_in_bytes + 1))
    else:  # a footer that names other data files
        size = first.content_size_in_bytes or 0
        other = local(second.file_path).read_bytes()
        assert second.content_size_in_bytes is not None
        path.write_bytes(other[:4] + data[4 : 4 + size] + other[4 + second.content_size_in_bytes :])
    assert iceberg.verify(table) != []
    assert iceberg.repair(table).snapshot_id is not None
    assert iceberg.verify(table) == []
    assert rows_of(table)["id"].to_pylist() == LIVE


def in_one_file(catalog: RacingCatalog) -> Table:
    """The same table with the three vectors in one Puffin file."""
    table = make(catalog, 1000)
    assert len({vector.file_path for vector in vectors_of(table)}) == 1
    return table


def change_footer(path: Path, change: Callable[[list[Any]], object]) -> None:
    """Changes the blobs in the footer of a Puffin file: magic, JSON, its length, flags, magic."""
    data = path.read_bytes()
    n_bytes = int.from_bytes(data[-12:-8], "little")
    start = len(data) - 12 - n_bytes
    footer = json.loads(data[start:-12])
    change(footer["blobs"])
    payload = json.dumps(footer, separators=(",", ":")).encode().ljust(n_bytes)
    path.write_bytes(data[:start] + payload + len(payload).to_bytes(4, "little") + data[-8:])


@pytest.mark.parametrize("change", [{"length": 60}, {"compression-codec": "zstd"}])
def test_vectors_of_a_footer_with_findings_are_repaired(
    racing: RacingCatalog, change: dict[str, Any]
) -> None:
    """A blob that overlaps the next one, and a codec, which vectors do not have."""
    table = in_one_file(racing)
    first, _, _ = vectors_of(table)
    change_footer(local(first.file_path), lambda blobs: blobs[0].update(change))
    change_vectors(table, lambda v: replace(v, file_size_in_bytes=local(v.file_path).stat().st_size))
    assert iceberg.verify(table) != []
    assert iceberg.repair(table).snapshot_id is not None
    assert iceberg.verify(table) == []
    assert rows_of(table)["id"].to_pylist() == LIVE


def test_repair_checks_each_puffin_file_once(racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = in_one_file(racing)
    monkeypatch.setattr(inventory, "PER_GROUP", 1)
    checked: list[str] = []

    def check(path: str, **named: Any) -> Any:
        checked.append(path)
        return check_vectors(path, **named)

    monkeypatch.setattr(puffin_checks, "check_vectors", check)
    assert iceberg.repair(table).snapshot_id is None
    assert len(checked) == 1


def test_compact_writes_a_vector_anew_whose_footer_has_unknown_flags(racing: RacingCatalog) -> None:
    table = make(racing)
    (path,) = {vector.file_path for vector in vectors_of(table)[:1]}
    change_vectors(table, lambda v: without_frame(v, "-bare") if v.file_path != path else v)
    iceberg.compact(table)
    (path,) = {vector.file_path for vector in vectors_of(table)}
    data = local(path).read_bytes()
    local(path).write_bytes(data[:-8] + b"\x02\0\0\0" + data[-4:])
    assert iceberg.compact(table).snapshot_id is not None
    assert iceberg.verify(table) == []
    assert rows_of(table)["id"].to_pylist() == LIVE


def test_a_vector_that_cannot_be_read_is_named(racing: RacingCatalog) -> None:
    table = make(racing)
    first, *_ = vectors_of(table)
    change_vectors(table, lambda v: without_frame(v, "-bare") if v.file_path == first.file_path else v)
    (bare,) = (v for v in vectors_of(table) if v.file_path.endswith("-bare"))
    path = local(bare.file_path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (message,) = iceberg.repair(table).not_rewritten
    assert "not repaired" in message
    assert path.name in message
