"""Counts without reading rows, and strings as views, agree with the rows of a scan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast.iceberg import delete, scan
from puffin_fast.rows.files import reader
from tests.kit.cases import each
from tests.kit.tables import iceberg_table, parts

N = 3_000

FILTERS = [
    "id >= 0",
    "id < 1500",
    "name = 'name 7'",
    "name like 'name 1%' and id > 100",
    "name is null",
    "value > 0.5",
    "id < 0",
    "id >= 3000 or name = 'name 3'",
]


@pytest.fixture
def table(racing: SqlCatalog) -> Table:
    """Four data files with text, bytes, nulls and lists; deletes in three of them."""
    rng = np.random.default_rng(0)
    names = [None if n % 11 == 0 else f"name {n % 40}" * (1 + n % 3) for n in range(N)]
    rows = pa.table(
        {
            "id": range(N),
            "name": pa.array(names, pa.string()),
            "raw": pa.array([b"ab" if n % 9 == 0 else bytes([n % 256]) * 20 for n in range(N)]),
            "value": pa.array(rng.choice([0.1, 0.9, float("nan")], N)),
            "tags": pa.array([[f"{n}"] * (n % 3) for n in range(N)]),
        }
    )
    made = iceberg_table(racing, parts(rows, 4))
    delete(made, "id < 100 or (id >= 800 and value < 0.5) or id = 2999")
    return racing.load_table("n.t")


@each("row_filter", FILTERS)
def test_a_count_is_the_number_of_rows(table: Table, row_filter: str) -> None:
    assert scan(table, row_filter).count() == scan(table, row_filter).to_arrow().num_rows
    assert scan(table, row_filter, limit=5).count() == scan(table, row_filter, limit=5).to_arrow().num_rows


def test_a_count_reads_no_data_file_where_manifests_and_vectors_suffice(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    open_format = reader.open_format

    def watched(io: Any, entry: Any) -> Any:
        opened.append(entry.file_path)
        return open_format(io, entry)

    expected = scan(table).to_arrow().num_rows
    below = scan(table, "id < 1000").to_arrow().num_rows
    monkeypatch.setattr(reader, "open_format", watched)
    assert scan(table).count() == expected
    assert not opened
    assert scan(table, "id < 1000").count() == below
    assert len(opened) == 1  # the file that the filter cuts through


@each("row_filter", [*FILTERS, None])
@each("threads", [1, 2])
def test_views_hold_the_same_values(table: Table, row_filter: str | None, threads: int) -> None:
    options: dict[str, Any] = {} if row_filter is None else {"row_filter": row_filter}
    usual = scan(table, **options).to_arrow()
    made = scan(table, threads=threads, string_views=True, **options)
    assert [made.schema.field(name).type for name in ("name", "raw")] == [pa.string_view(), pa.binary_view()]
    for found in (made.to_arrow(), pa.table(made)):
        found.validate(full=True)
        assert found.schema == made.schema
        for name in usual.column_names:
            left, right = found[name].to_pylist(), usual[name].to_pylist()
            assert left == (pytest.approx(right, nan_ok=True) if name == "value" else right)


def test_engines_accept_views(table: Table) -> None:
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    expected = pc.sum(pc.utf8_length(scan(table).to_arrow()["name"])).as_py()
    made = scan(table, string_views=True)
    assert duckdb.from_arrow(made.to_reader()).sum("length(name)").fetchall()[0][0] == expected
    assert polars.DataFrame(made)["name"].str.len_chars().sum() == expected
