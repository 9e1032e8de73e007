"""Integers that no column and no argument can hold are refused by errors of this package, however long they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

import puffin_fast as pf
from tests.kit.tables import delta_table, iceberg_table

LONG, HUGE = 2**70, 10**5000

CALLS: dict[str, Callable[[Any, str, str], object]] = {
    "append": lambda table, path, file: pf.iceberg.append(table, [{"id": LONG}]),
    "append columns": lambda table, path, file: pf.iceberg.append(table, {"id": [HUGE]}),
    "keys": lambda table, path, file: pf.iceberg.delete_keys(table, [LONG], "id"),
    "huge keys": lambda table, path, file: pf.iceberg.delete_keys(table, [HUGE], "id"),
    "update": lambda table, path, file: pf.iceberg.update(table, "id = 1", {"id": HUGE}),
    "snapshot_id": lambda table, path, file: pf.iceberg.scan(table, snapshot_id=HUGE),
    "limit": lambda table, path, file: pf.iceberg.scan(table, limit=HUGE),
    "expire": lambda table, path, file: pf.iceberg.expire_snapshots(table, snapshot_ids=[HUGE]),
    "positions": lambda table, path, file: pf.iceberg.delete_positions(table, {file: [HUGE]}),
    "target_file_size": lambda table, path, file: pf.iceberg.rewrite_data_files(table, target_file_size=HUGE),
    "min_deleted": lambda table, path, file: pf.iceberg.rewrite_data_files(table, min_deleted=HUGE),
    "older_than": lambda table, path, file: pf.iceberg.expire_snapshots(table, older_than=HUGE),
    "changes": lambda table, path, file: pf.iceberg.changes(table, from_snapshot_id_exclusive=HUGE),
    "bitmap": lambda table, path, file: pf.PositionBitmap.from_positions([HUGE]),
    "Delta append": lambda table, path, file: pf.delta.append(path, [{"id": LONG}]),
    "Delta update": lambda table, path, file: pf.delta.update(path, "id = 1", {"id": HUGE}),
    "Delta version": lambda table, path, file: pf.delta.scan(path, snapshot_id=HUGE),
}


def test_integers_that_fit_nowhere_are_refused(
    shared_catalog: SqlCatalog, namespace: str, tmp_path: Path
) -> None:
    table = iceberg_table(shared_catalog, {"id": [1, 2]}, name=f"{namespace}.t")
    path = str(delta_table(tmp_path / "t", {"id": [1]}))
    file = pf.iceberg.plan_files(table).tasks[0].data.file_path
    for name, call in CALLS.items():
        with pytest.raises((pf.InvalidInputError, pf.NotFoundError)) as caught:
            call(table, path, file)
        assert len(str(caught.value)) < 600, name
    assert pf.iceberg.scan(table).count() == 2
    assert pf.delta.scan(path).count() == 1
