"""The bounds of all row groups, compared at once, leave out those that PyIceberg's evaluator leaves out one by one."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

import puffin_fast as pf
from puffin_fast.rows.files.reader import DataFiles
from puffin_fast.rows.filters.filters import RowFilter
from tests.kit import thrift
from tests.kit.seeds import seeds
from tests.kit.tables import table_of_files
from tests.rows.files.random_files import random_rows, row_filter

GROUP = 40


@pytest.mark.parametrize("seed", seeds(10))
def test_bounds_of_all_row_groups_are_those_of_each(
    tmp_path: Path, catalog: InMemoryCatalog, seed: int
) -> None:
    rng = random.Random(seed)
    path, rows = tmp_path / "data.parquet", random_rows(rng, in_order=True).drop_columns(["l", "m"])
    writer = rng.choice(["pyarrow", "pyarrow", "integers", "polars", "without"])
    if writer == "polars":
        polars.DataFrame(rows).write_parquet(path, row_group_size=GROUP)
    else:
        options: dict[str, Any] = {"write_statistics": ["i", "t"]} if writer == "without" else {}
        pq.write_table(
            rows, path, row_group_size=GROUP, store_decimal_as_integer=writer == "integers", **options
        )
    found = table_of_files(catalog, path)
    (task,) = pf.iceberg.plan_files(found).tasks
    schema, left_out = found.schema(), 0
    for _ in range(60):
        where, _ = row_filter(rng, rows)
        bound = RowFilter.bind(where, schema)
        one, all_at_once = (
            DataFiles(
                found.io, found.metadata, schema, bound.field_ids, bound.may_match(schema), None, pruner
            ).open(task.data)
            for pruner in (None, bound.pruner(schema))
        )
        assert one.excluded == all_at_once.excluded, where
        left_out += len(one.excluded)
    assert left_out > 0


def with_deprecated_bounds(data: bytes) -> bytes:
    """A file of one column of texts as parquet-mr 1.8 writes it: bounds are the extremes of signed bytes."""

    def signed(text: bytes) -> list[int]:
        return [byte - 256 if byte > 127 else byte for byte in text]

    def replaced(fields: thrift.Struct, number: int, change: Callable[[Any], Any]) -> thrift.Struct:
        return [(one, kind, change(value) if one == number else value) for one, kind, value in fields]

    def statistics(fields: thrift.Struct) -> thrift.Struct:
        ordered = sorted((thrift.get(fields, 5), thrift.get(fields, 6)), key=signed)
        return [(1, thrift.BINARY, ordered[1]), (2, thrift.BINARY, ordered[0]), (3, thrift.I64, 0)]

    def of_chunk(fields: thrift.Struct) -> thrift.Struct:
        return replaced(fields, 3, lambda about: replaced(about, 12, statistics))

    def of_group(fields: thrift.Struct) -> thrift.Struct:
        return replaced(fields, 1, lambda chunks: (thrift.STRUCT, [*map(of_chunk, chunks[1])]))

    footer = replaced(thrift.footer_of(data), 4, lambda groups: (thrift.STRUCT, [*map(of_group, groups[1])]))
    footer = replaced(footer, 6, lambda _: b"parquet-mr version 1.8.1 (build 4aba4da)")
    return thrift.with_footer(data, [field for field in footer if field[0] != 7])


def test_deprecated_bounds_of_texts_leave_nothing_out(tmp_path: Path, catalog: InMemoryCatalog) -> None:
    """Their order is that of signed bytes: the lower bound is the greater text here."""
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"t": ["a", "é"] * 4}), path, row_group_size=2)
    path.write_bytes(with_deprecated_bounds(path.read_bytes()))
    assert pq.read_metadata(path).row_group(0).column(0).statistics is None
    table = table_of_files(catalog, path)
    for where, expected in {"t < 'b'": "a", "t <= 'a'": "a", "t = 'a'": "a", "t > 'b'": "é"}.items():
        assert pf.iceberg.scan(table, row_filter=where).to_arrow()["t"].to_pylist() == [expected] * 4, where
