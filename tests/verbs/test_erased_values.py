"""After the steps of the tutorial no file below a table has an erased value; without one of them, some file has."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from tests.architecture.pages import ROOT, blocks
from tests.kit.tables import sqlite_catalog
from tests.rows.deletes.equality_deletes import delete_equal
from tests.verbs.stored_values import found

if TYPE_CHECKING:
    from pyiceberg.table import Table

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


def _delete(table: Table) -> None:
    iceberg.delete(table, f"id in ({IDS[0]}, {IDS[1]}, {IDS[2]})")


def _delete_by_equality(table: Table) -> None:
    delete_equal(table, [1], [(number,) for number in IDS])
    iceberg.convert_equality_deletes(table)


@pytest.mark.parametrize(
    ("version", "delete", "spec"),
    [(2, _delete, ()), (3, _delete, ()), (3, _delete, ("id",)), (3, _delete_by_equality, ())],
)
def test_all_kinds_of_tables_are_erased_but_the_names_of_folders(
    version: int, delete: Any, spec: tuple[str, ...], tmp_path: Path
) -> None:
    rows = pa.table({"id": [*IDS, IDS[0] + 7, IDS[0] + 3998], "s": ["a"] * 5})
    catalog = sqlite_catalog(tmp_path)
    try:
        if version == 2:
            table = catalog.create_table("n.t", rows.schema, properties={"format-version": "2"})
        else:
            table = iceberg.create_table(catalog, "n.t", rows.schema, partition_spec=spec)
        iceberg.append(table, rows)
        delete(table)
        iceberg.index_keys(table, "id")
        iceberg.collect_ndv(table)
        iceberg.rewrite_data_files(table, min_deleted=1e-9)
        iceberg.rewrite_manifests(table)
        iceberg.expire_snapshots(table, older_than=timedelta(0), retain_last=1)
        iceberg.remove_orphan_files(table, older_than=timedelta(0), dry_run=False)
    finally:
        catalog.engine.dispose()
    assert all((tmp_path / "wh" / name).is_dir() and spec for name, _ in found(tmp_path / "wh", IDS))
    assert iceberg.verify(table) == []
