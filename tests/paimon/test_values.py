"""Values of every kind in place of those of snapshots, schemas and manifests."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastavro
import pytest

from puffin_fast import errors, paimon
from tests.kit.values import KINDS, avro_cases, avro_replaced, places, replaced
from tests.paimon.tables import TABLES, folder, newest_snapshot

N_CASES = int(os.environ.get("PUFFIN_FAST_OPERATIONS", 100))


def cases(path: Path) -> list[tuple[Path, Any]]:
    """The places in a metadata file, and the values that are written there."""
    data = path.read_bytes()
    if path.parent.name == "manifest":
        return [(path, case) for case in avro_cases(data)]
    return [(path, (at, kind)) for at in places(json.loads(data)) for kind in KINDS]


def check(path: Path, case: Any, *verbs: Callable[[], object]) -> None:
    """Verbs raise only errors of this package after a value of a file was replaced."""
    before = path.read_bytes()
    if path.parent.name == "manifest":
        data = avro_replaced(before, case)
    else:
        data = json.dumps(replaced(json.loads(before), *case)).encode()
    path.write_bytes(before if data is None else data)
    try:
        for verb in verbs:
            with suppress(errors.PuffinFastError):
                verb()
    except Exception as error:
        error.add_note(f"{path.name}: {case}")
        raise
    path.write_bytes(before)


@pytest.mark.parametrize("name", TABLES)
def test_values_of_snapshots_and_index_manifests_are_refused_or_read(name: str, tmp_path: Path) -> None:
    table = Path(shutil.copytree(folder(name), tmp_path / name))
    snapshot = newest_snapshot(table)
    known = cases(snapshot)
    if paimon.vectors(table).num_rows:
        known += cases(table / "manifest" / json.loads(snapshot.read_bytes())["indexManifest"])
    for path, case in random.Random(name).sample(known, N_CASES // len(TABLES)):
        check(path, case, lambda: paimon.vectors(table))


@pytest.mark.pypaimon
@pytest.mark.parametrize("name", ["app_v1_part", "app_v2"])
def test_values_of_all_metadata_are_refused_or_read(name: str, tmp_path: Path) -> None:
    table = Path(shutil.copytree(folder(name), tmp_path / "d.db" / name))
    assert paimon.delete(table, "id >= 0 and id < 5", dry_run=True).rows_deleted == 4
    snapshot = newest_snapshot(table)
    document = json.loads(snapshot.read_bytes())
    manifests = table / "manifest"
    lists = [manifests / document["baseManifestList"], manifests / document["deltaManifestList"]]
    reader: Any
    files = [
        snapshot,
        table / "schema" / f"schema-{document['schemaId']}",
        manifests / document["indexManifest"],
    ]
    for path in lists:
        reader = fastavro.reader(io.BytesIO(path.read_bytes()))
        if named := [manifests / entry["_FILE_NAME"] for entry in reader]:
            files += [path, *named]
    for path in files:
        known = cases(path)
        for _, case in random.Random(path.parent.name).sample(known, min(len(known), N_CASES // 10)):
            check(
                path,
                case,
                lambda: paimon.delete(table, "id >= 0 and id < 5", dry_run=True),
                lambda: paimon.convert_vectors(table, version=1, dry_run=True),
            )


@pytest.mark.pypaimon
@pytest.mark.parametrize("value", [0, "", {}])
def test_writers_refuse_an_index_manifest_without_name(value: object, tmp_path: Path) -> None:
    table = Path(shutil.copytree(folder("app_v2"), tmp_path / "d.db" / "app_v2"))
    snapshot = newest_snapshot(table)
    snapshot.write_text(json.dumps(json.loads(snapshot.read_bytes()) | {"indexManifest": value}))
    with pytest.raises(errors.CorruptDataError, match="expected the name of a file"):
        paimon.delete(table, "id = 3")
    assert newest_snapshot(table) == snapshot


@pytest.mark.parametrize("value", [0, False, "", [], {}, 5])
def test_an_index_manifest_without_name_does_not_bring_deleted_rows_back(
    value: object, tmp_path: Path
) -> None:
    table = Path(shutil.copytree(folder("app_v2"), tmp_path / "t"))
    snapshot = newest_snapshot(table)
    snapshot.write_text(json.dumps(json.loads(snapshot.read_bytes()) | {"indexManifest": value}))
    with pytest.raises(errors.CorruptDataError, match=f"{snapshot.name}.*expected the name of a file"):
        paimon.vectors(table)
