"""The statistics of new data files: bounds that hold for every reader, of the columns that Spark has them for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.types import DoubleType, FloatType

from puffin_fast import delta
from puffin_fast.delta.scans.statistics import Statistics
from tests.conftest import require_module

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def statistics(table: Path) -> list[dict[str, Any]]:
    """The statistics of each live file."""
    base = delta.snapshot(table)
    return [json.loads(add["stats"]) for add in base.adds(range(base.files.num_rows))]


def signed(value: float) -> tuple[float, float]:
    return value, math.copysign(1, value)


ZEROS = ([-0.0, 0.0], [0.0, -0.0], [-0.0], [0.0], [-3.0, -0.0], [0.0, 2.0], [None, -0.0])


def append(table: Path, rows: pa.Table) -> None:
    delta.append(table, rows)


def update(table: Path, rows: pa.Table) -> None:
    delta.append(table, rows.set_column(2, "n", pa.array([7] * len(rows))))
    delta.update(table, "n = 7", {"n": 0})


def upsert(table: Path, rows: pa.Table) -> None:
    delta.append(table, pa.table({"id": [0]}))
    delta.upsert(table, rows, "id")


def overwrite(table: Path, rows: pa.Table) -> None:
    delta.overwrite(table, rows)


def rewrite(table: Path, rows: pa.Table) -> None:
    delta.append(table, pa.concat_tables([rows, rows.set_column(2, "n", pa.array([7] * len(rows)))]))
    delta.delete(table, "n = 7")
    assert delta.rewrite_data_files(table, min_deleted=0.1).data_files == 1


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("write", [append, update, upsert, overwrite, rewrite])
def test_a_bound_of_zero_has_the_sign_that_excludes_no_zero(
    write: Callable[[Path, pa.Table], None],
    kind: pa.DataType,
    tmp_path: Path,
    duckdb_delta: DuckDBPyConnection,
) -> None:
    """Delta's kernel for Rust compares bounds in an order in which -0.0 is less than 0.0."""
    deltalake: Any = require_module("deltalake")
    for number, values in enumerate(ZEROS):
        n, table = len(values), tmp_path / str(number)
        nested = pa.array([{"y": value} for value in values], pa.struct([("y", kind)]))
        columns = {"id": range(n), "x": pa.array(values, kind), "n": [0] * n, "s": nested}
        delta.create_table(table, pa.table(columns).schema)
        write(table, pa.table(columns))
        for found in statistics(table):
            for low, high in (
                (found["minValues"]["x"], found["maxValues"]["x"]),
                (found["minValues"]["s"]["y"], found["maxValues"]["s"]["y"]),
            ):
                assert low != 0 or signed(low) == signed(-0.0)
                assert high != 0 or signed(high) == signed(0.0)
        reader = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table)))
        for name in ("x", "s.y"):
            for condition, expected in (
                (f"{name} = 0", values.count(0.0)),
                (f"{name} >= 0", sum(value is not None and value >= 0 for value in values)),
                (f"{name} <= 0", sum(value is not None and value <= 0 for value in values)),
            ):
                query = f"SELECT count(*) FROM {{}} WHERE {condition}"
                ((theirs,),) = duckdb_delta.execute(query.format(f"delta_scan('{table}')")).fetchall()
                theirs_too = pa.table(reader.execute(query.format("t")).read_all())[0][0].as_py()
                assert [theirs, theirs_too, delta.scan(table, condition).count()] == [expected] * 3, condition


@pytest.mark.parametrize("kind", [FloatType(), DoubleType()])
def test_bounds_of_zero_of_other_writers_are_widened_to_both_zeros(kind: Any) -> None:
    """They become bounds of an Iceberg table, whose readers may compare in such an order, too."""
    ends = [(0.0, -0.0), (-0.0, 0.0), (0.0, 2.0), (-3.0, -0.0)]
    texts = [json.dumps({"minValues": {"x": low}, "maxValues": {"x": high}}) for low, high in ends]
    found = Statistics.of(pa.chunked_array([[*texts, "{}"]]), {1: (("x",), kind)}, "table")
    lower, upper = found.lower[1].to_pylist(), found.upper[1].to_pylist()
    assert list(map(signed, lower[:-1])) == [signed(low or -0.0) for low, _ in ends]
    assert list(map(signed, upper[:-1])) == [signed(high or 0.0) for _, high in ends]
    assert (lower[-1], upper[-1]) == (None, None)
