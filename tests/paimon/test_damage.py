"""Damaged, hostile and foreign metadata of Paimon tables: writes name what is wrong, and the table is unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffin_fast import errors, paimon
from tests.paimon.tables import APPEND, LIES, newest_snapshot, rewrite, state

pytestmark = pytest.mark.pypaimon


@pytest.mark.parametrize("name", APPEND)
def test_torn_index_files_are_named_and_nothing_changes(
    name: str, warehouse: Path, accelerated: None
) -> None:
    folder = warehouse / "d.db" / name
    for path in (folder / "index").iterdir():
        path.write_bytes(path.read_bytes()[:-3])
    before = state(warehouse)
    with pytest.raises(errors.CorruptDataError, match="index-"):
        paimon.delete(folder, "id >= 0")
    assert state(warehouse) == before


@pytest.mark.parametrize("call", ["delete", "delete_positions", "convert_vectors"])
@pytest.mark.parametrize(("lie", "message"), LIES)
def test_an_index_manifest_that_would_hide_vectors_is_refused_and_nothing_changes(
    call: str, lie: Callable[[dict[str, Any]], object], message: str, warehouse: Path
) -> None:
    folder = warehouse / "d.db" / "app_v2"
    (name, *_) = paimon.vectors(folder)["file_name"].to_pylist()
    manifest = rewrite(folder, lie)
    before = state(warehouse)
    arguments: dict[str, tuple[Any, ...]] = {"delete": ("id >= 0",), "delete_positions": ({name: [3]},)}
    with pytest.raises(errors.CorruptDataError, match=message) as caught:
        getattr(paimon, call)(folder, *arguments.get(call, ()))
    assert caught.value.path == str(manifest)
    assert state(warehouse) == before


def test_damaged_data_files_manifests_and_snapshots_are_named_and_nothing_changes(
    warehouse: Path, accelerated: None
) -> None:
    folder = warehouse / "d.db" / "app_v2"
    newest = newest_snapshot(folder)
    manifests = folder / "manifest" / json.loads(newest.read_text())["baseManifestList"]
    data_files = list(folder.glob("bucket-*/data-*"))
    assert data_files
    cases: list[tuple[Path, bool, type[Exception], str]] = [
        *((path, True, errors.CorruptDataError, f"rows of a data file.*{path.name}") for path in data_files),
        *((path, False, errors.NotFoundError, path.name) for path in data_files),
        (manifests, False, errors.NotFoundError, "app_v2, a manifest of snapshot"),
        (newest, True, errors.CorruptDataError, "newest snapshot"),
    ]
    for path, torn, error, match in cases:
        content = path.read_bytes()
        path.write_bytes(content[:20]) if torn else path.unlink()
        before = state(warehouse)
        with pytest.raises(error, match=match):
            paimon.delete(folder, "id >= 0")
        assert state(warehouse) == before
        path.write_bytes(content)


def test_torn_and_missing_index_manifests_are_refused_and_nothing_changes(warehouse: Path) -> None:
    folder = warehouse / "d.db" / "app_v2"
    manifest = rewrite(folder, lambda entry: None)
    data = manifest.read_bytes()
    for torn in (b"", data[:30], data[:-1]):
        manifest.write_bytes(torn)
        before = state(warehouse)
        with pytest.raises(errors.CorruptDataError, match=manifest.name):
            paimon.delete(folder, "id >= 0")
        assert state(warehouse) == before
    manifest.unlink()
    before = state(warehouse)
    with pytest.raises(errors.NotFoundError, match=manifest.name):
        paimon.delete(folder, "id >= 0")
    assert state(warehouse) == before


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        (lambda entry: entry.update(_BUCKET=5), "partition and bucket of the vector of data-.* found .*, 5"),
        (
            lambda entry: entry.update(_PARTITION=bytes([*entry["_PARTITION"][:12], 7, *bytes(7)])),
            r"partition and bucket of the vector of data-.* found \(\(7,\), 0\)",
        ),
        (lambda entry: entry.update(_PARTITION=entry["_PARTITION"][:10]), "partition of index file index-"),
    ],
)
def test_a_vector_for_another_bucket_or_partition_is_refused_and_nothing_changes(
    lie: Callable[[dict[str, Any]], object], message: str, warehouse: Path
) -> None:
    folder = warehouse / "d.db" / "app_v1_part"
    rewrite(folder, lie)
    before = state(warehouse)
    with pytest.raises(errors.CorruptDataError, match=message):
        paimon.delete(folder, "id >= 0")
    assert state(warehouse) == before
