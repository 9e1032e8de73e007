"""NaN as a key: one value, whatever its sign and payload, which depend on the library that wrote it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from puffin_fast import delta, errors, iceberg
from tests.conftest import require_module
from tests.kit.tables import sqlite_catalog
from tests.rows.deletes.equality_deletes import SCHEMA, delete_equal

BITS = np.array([0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 1, (0x7FF0 << 48) + 1], np.uint64)
"""The NaN of Python, of 0/0 on x86, with a payload, and a signalling one."""
ROWS = pa.table({"id": range(6), "x": np.append(BITS.view(np.float64), [0.0, 1.0])})

Made = tuple[Any, Any]


def in_iceberg(folder: Path) -> Made:
    catalog = sqlite_catalog(folder)
    table = iceberg.create_table(catalog, "n.t", ROWS.schema)
    table = catalog.load_table("n.t")
    iceberg.append(table, ROWS)
    return iceberg, table


def in_delta(folder: Path) -> Made:
    deltalake: Any = require_module("deltalake")
    path = str(folder / "t")
    deltalake.write_deltalake(path, ROWS)
    delta.enable(path)
    return delta, path


@pytest.fixture(params=[in_iceberg, in_delta])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    make: Callable[[Path], Made] = request.param
    return make(tmp_path)


@pytest.mark.parametrize("bits", BITS.tolist())
@pytest.mark.parametrize("columns", [["x"], ["x", "id"]])
def test_each_nan_is_found(made: Made, bits: int, columns: list[str]) -> None:
    verbs, table = made
    x = np.full(4, bits, np.uint64).view(np.float64)
    keys = pa.table({"x": x, "id": range(4)}).select(columns)
    verbs.delete_keys(table, keys, columns)
    assert verbs.scan(table).to_arrow()["id"].to_pylist() == [4, 5]


def test_an_upsert_sees_every_nan(made: Made) -> None:
    verbs, table = made
    row = pa.table({"id": [7], "x": [float("nan")]})
    with pytest.raises(errors.InvalidInputError, match="4 in all"):
        verbs.upsert(table, row, "x")
    verbs.delete(table, "id < 3")
    done = verbs.upsert(table, row, "x")
    assert (done.rows_updated, done.rows_inserted) == (1, 0)
    two = pa.table({"id": [8, 9], "x": BITS[:2].view(np.float64)})
    with pytest.raises(errors.InvalidInputError, match="expected each key once"):
        verbs.upsert(table, two, "x")


def test_equality_deletes_of_nan(tmp_path: Path) -> None:
    """Java compares with `Double.equals`: any NaN is the same, and 0.0 differs from -0.0."""
    catalog = sqlite_catalog(tmp_path)
    table = catalog.create_table("n.t", SCHEMA, properties={"format-version": "2"})
    iceberg.append(table, ROWS)
    delete_equal(table, [4], [(float("nan"),), (-0.0,)])
    assert iceberg.scan(table).to_arrow()["id"].to_pylist() == [4, 5]
