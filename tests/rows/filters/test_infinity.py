"""Infinity in columns of floats: PyIceberg takes it for a value beyond the range of 32 bits."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.expressions import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
)
from pyiceberg.table import Table

from puffin_fast import iceberg
from tests.kit.tables import sqlite_catalog

VALUES = [inf, -inf, 1.0, 3.4e38, None, nan]
COMPARISONS: list[tuple[Any, Callable[[float, float], bool]]] = [
    (EqualTo, operator.eq),
    (NotEqualTo, operator.ne),
    (LessThan, operator.lt),
    (LessThanOrEqual, operator.le),
    (GreaterThan, operator.gt),
    (GreaterThanOrEqual, operator.ge),
    (lambda name, value: In(name, [value, 2.0]), operator.eq),
    (lambda name, value: NotIn(name, [value, 2.0]), operator.ne),
]


@pytest.fixture(params=[(), ("k",)], ids=["flat", "partitioned"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    """Each value in a row group of its own, of 32 and of 64 bits."""
    catalog = sqlite_catalog(tmp_path)
    schema = pa.schema([("i", pa.int64()), ("k", pa.float32()), ("d", pa.float64())])
    properties = {"write.parquet.row-group-limit": "1"}
    found = iceberg.create_table(catalog, "n.t", schema, partition_spec=request.param, properties=properties)
    iceberg.append(found, pa.table([range(len(VALUES)), VALUES, VALUES], schema=schema))
    yield found
    catalog.close()


@pytest.mark.parametrize("literal", [inf, -inf, 1e300, -1e300])
def test_comparisons_have_the_rows_of_python(table: Table, literal: float) -> None:
    for column, width in (("k", np.float32), ("d", np.float64)):
        for make, holds in COMPARISONS:
            found = iceberg.scan(table, make(column, literal)).to_arrow()["i"].to_pylist()
            expected = [
                at
                for at, value in enumerate(VALUES)
                if value is not None and not isnan(value) and holds(float(width(value)), literal)
            ]
            assert sorted(at for at in found if at != 5) == expected, (column, make, literal)


@pytest.mark.parametrize("keys", [[inf], [-inf], [inf, -inf], [1.0, inf], [inf, nan], [inf, None]])
def test_infinity_is_a_key(table: Table, keys: list[float | None]) -> None:
    for column in ("k", "d"):
        given = pa.table({column: pa.array(keys, table.schema().as_arrow().field(column).type)})
        counted = iceberg.delete_keys(table, given, column, null_safe=True, dry_run=True)
        assert counted.rows_deleted == len(keys), column
    rows = pa.table({"i": [7] * len(keys), "k": pa.array(keys, pa.float32()), "d": keys})
    if None not in keys:
        result = iceberg.upsert(table, rows, "k")
        assert (result.rows_updated, result.rows_inserted) == (len(keys), 0)


@pytest.mark.parametrize("text", ["1e400", "-1e400", "'1e400'", "9" * 400, "1e999999999"])
def test_infinity_differs_from_numbers_beyond_the_range_of_doubles(table: Table, text: str) -> None:
    for column in ("k", "d"):
        finite_or_beyond = {f"{column} < {text}": 1, f"{column} <= {text}": 1, f"{column} > {text}": -1}
        for row_filter, side in finite_or_beyond.items():
            below = (side > 0) == (not text.startswith("-"))
            expected = [1, 2, 3] if below and side > 0 else [0, 2, 3] if below else [1 if side > 0 else 0]
            found = iceberg.scan(table, row_filter).to_arrow()["i"].to_pylist()
            assert sorted(found) == expected, row_filter
        for row_filter in (f"{column} = {text}", f"{column} in ({text}, 5)"):
            assert iceberg.scan(table, row_filter).to_arrow().num_rows == 0, row_filter
        assert iceberg.scan(table, f"{column} <> {text}").to_arrow().num_rows == 5
