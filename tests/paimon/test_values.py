"""Values of every kind in place of those of snapshots and index manifests."""

from __future__ import annotations

import json
import os
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from puffin_fast import errors, paimon
from tests.paimon.test_vectors import TABLES, folder, newest_snapshot
from tests.values import KINDS, avro_cases, avro_replaced, places, replaced

N_CASES = int(os.environ.get("PUFFIN_FAST_OPERATIONS", 100))


@pytest.mark.parametrize("name", TABLES)
def test_values_of_snapshots_and_index_manifests_are_refused_or_read(name: str, tmp_path: Path) -> None:
    table = Path(shutil.copytree(folder(name), tmp_path / name))
    snapshot = newest_snapshot(table)
    document = json.loads(snapshot.read_bytes())
    cases = [(snapshot, (at, kind)) for at in places(document) for kind in KINDS]
    n_rows = paimon.vectors(table).num_rows
    if n_rows:
        path = table / "manifest" / document["indexManifest"]
        cases += [(path, case) for case in avro_cases(path.read_bytes())]
    for path, case in random.Random(name).sample(cases, min(len(cases), N_CASES // len(TABLES))):
        before = path.read_bytes()
        data = (
            json.dumps(replaced(document, *case)).encode()
            if path == snapshot
            else avro_replaced(before, case)
        )
        path.write_bytes(before if data is None else data)
        try:
            with suppress(errors.PuffinFastError):
                paimon.vectors(table)
        except Exception as error:
            error.add_note(f"{path.name}: {case}")
            raise
        path.write_bytes(before)


@pytest.mark.parametrize("value", [0, False, "", [], {}, 5])
def test_an_index_manifest_without_name_does_not_bring_deleted_rows_back(
    value: object, tmp_path: Path
) -> None:
    table = Path(shutil.copytree(folder("app_v2"), tmp_path / "t"))
    snapshot = newest_snapshot(table)
    snapshot.write_text(json.dumps(json.loads(snapshot.read_bytes()) | {"indexManifest": value}))
    with pytest.raises(errors.CorruptDataError, match=f"{snapshot.name}.*expected the name of a file"):
        paimon.vectors(table)
