"""Rows, and verbs that change any table of these rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from puffin_fast import iceberg

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "w": [f"w{i % 9}" for i in range(100)]})
NEW = pa.table({"id": pa.array([3, 700], pa.int64()), "w": ["new", "new"]})


def position(table: Any) -> pa.Table:
    """One row of the first data file."""
    return pa.table({"file_path": [iceberg.plan_files(table).tasks[0].data.file_path], "pos": [1]})


WRITES: dict[str, Callable[..., Any]] = {
    "append": lambda table, **more: iceberg.append(table, NEW.slice(1), **more),
    "delete": lambda table, **more: iceberg.delete(table, "id < 10", **more),
    "delete_keys": lambda table, **more: iceberg.delete_keys(table, NEW.select(["id"]), ["id"], **more),
    "update": lambda table, **more: iceberg.update(table, "id < 10", {"w": "new"}, **more),
    "upsert": lambda table, **more: iceberg.upsert(table, NEW, ["id"], **more),
    "overwrite": lambda table, **more: iceberg.overwrite(table, NEW, "id < 10", **more),
    "delete_positions": lambda table, **more: iceberg.delete_positions(table, position(table), **more),
}

REWRITES: dict[str, Callable[..., Any]] = {
    "compact": iceberg.compact,
    "convert_equality_deletes": iceberg.convert_equality_deletes,
    "convert_position_deletes": iceberg.convert_position_deletes,
    "repair": iceberg.repair,
    "rewrite_data_files": lambda table, **more: iceberg.rewrite_data_files(table, min_deleted=0.01, **more),
}
"""Verbs that leave the rows as they are."""
