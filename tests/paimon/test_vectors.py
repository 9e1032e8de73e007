"""Paimon's deletion vectors, read from tables that Paimon in Java wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from puffin_fast import arrow, errors, paimon

GOLDEN = Path(__file__).parents[1] / "golden" / "paimon"
ANSWERS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "expected.json").read_text())
TABLES = sorted(ANSWERS)


def folder(name: str) -> Path:
    return GOLDEN / "d.db" / name


@pytest.mark.parametrize("name", TABLES)
def test_the_vectors_of_each_golden_table_are_the_answers(name: str) -> None:
    found = paimon.vectors(folder(name))
    read = {
        row["file_name"]: (deleted, row["version"], row["cardinality"])
        for row, deleted in zip(found.to_pylist(), arrow.decode(found["blob"]).to_pylist(), strict=True)
    }
    assert read == {
        file: (answer["deleted"], answer["version"], len(answer["deleted"]))
        for file, answer in ANSWERS[name]["files"].items()
        if answer["deleted"]
    }
    (newest,) = [paimon.vectors(folder(name), snapshot=ANSWERS[name]["snapshot"])]
    assert newest == found


def test_what_is_no_table_or_snapshot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match="no Paimon table"):
        paimon.vectors(tmp_path)
    with pytest.raises(errors.NotFoundError, match="no snapshot 99"):
        paimon.vectors(folder("app_v2"), snapshot=99)


@pytest.mark.parametrize("name", ["app_v1_part", "app_v2", "app_mix"])
def test_torn_and_missing_index_files_are_named(name: str, tmp_path: Path) -> None:
    table = Path(shutil.copytree(folder(name), tmp_path / name))
    used = set(paimon.vectors(table)["index_file"].to_pylist())
    for file in sorted(used):
        path = table / "index" / file
        data = path.read_bytes()
        for altered in (data[:20], data[:-1], data[:12] + bytes([data[12] ^ 1]) + data[13:]):
            path.write_bytes(altered)
            with pytest.raises(errors.CorruptDataError, match=file):
                paimon.vectors(table)
        path.unlink()
        with pytest.raises(errors.NotFoundError, match=file):
            paimon.vectors(table)
        path.write_bytes(data)
    for manifest in (table / "manifest").glob("index-manifest-*"):
        manifest.write_bytes(manifest.read_bytes()[:30])
    with pytest.raises(errors.CorruptDataError, match=r"index-manifest-.* of an Avro file"):
        paimon.vectors(table)
