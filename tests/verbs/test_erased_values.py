"""After the steps of the tutorial no file below a table has an erased value; without one of them, some file has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from puffin_fast import iceberg
from tests.architecture.pages import ROOT, blocks
from tests.stored_values import found

PAGE = ROOT / "docs" / "tutorials" / "erase-customers.md"
IDS = (490_000_000_000, 490_000_001_204, 490_000_003_999)
ADDRESSES = [f"{number} {street} Street" for number in IDS for street in ("Main", "Side")]
VALUES = [*IDS, *ADDRESSES, *(text[:16] for text in ADDRESSES)]

FOLDERS = {"iceberg": "warehouse/erase", "delta": "erase-delta"}
STEPS = {
    "iceberg": ("rewrite_data_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"),
    "delta": ("purge", "cleanup_metadata", "delta.remove_orphan_files"),
}


def erase(without: str | None = None) -> None:
    """Runs the page's blocks but one. The Iceberg table has indexes and sketches before the deletes."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(PAGE)):
        if without is None or f"{without}(" not in block:
            exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
        if not number:
            for _ in range(2):  # the second one replaces the file of the first
                iceberg.index_keys(names["table"], "customer")
                iceberg.collect_ndv(names["table"])
            for folder in FOLDERS.values():
                assert not Path(folder).exists() or {value for _, value in found(Path(folder), VALUES)} >= {
                    *IDS
                }


def test_no_file_has_an_erased_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    erase()
    assert {format: found(tmp_path / folder, VALUES) for format, folder in FOLDERS.items()} == {
        "iceberg": set(),
        "delta": set(),
    }


@pytest.mark.parametrize(
    ("format", "step"), [(format, step) for format, steps in STEPS.items() for step in steps]
)
def test_each_step_is_needed(format: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    erase(without=f"{'iceberg.' if format == 'iceberg' else ''}{step}")
    assert found(tmp_path / FOLDERS[format], VALUES)
