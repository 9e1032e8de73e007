"""Position-delete files are read in every encoding of their paths, of foreign writers too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast import iceberg
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.rows.files.parquet import dictionary_columns
from tests.kit.tables import path_of

N = 4000
IDS = {"file_path": 2147483546, "pos": 2147483545}
Write = Callable[[pa.Table, Path], None]


def by_pyarrow(**options: Any) -> Write:
    def write(rows: pa.Table, path: Path) -> None:
        pq.write_table(rows, path, store_schema=False, row_group_size=3000, **options)

    return write


def by_duckdb(version: str) -> Write:
    """Writes paths that repeat in the first row groups and do not in the last: one has a dictionary, the other none."""

    def write(rows: pa.Table, path: Path) -> None:
        import duckdb

        ids = ", ".join(f"{name}: {number}" for name, number in IDS.items())
        duckdb.from_arrow(rows).query(
            "deletes",
            f"COPY deletes TO '{path}' (FORMAT parquet, PARQUET_VERSION {version}, ROW_GROUP_SIZE 2048, "
            f"FIELD_IDS {{{ids}}})",
        )

    return write


WRITERS: dict[str, Write] = {
    **{
        f"{encoding} in pages {version}": by_pyarrow(
            use_dictionary=False, column_encoding={"file_path": encoding}, data_page_version=version
        )
        for encoding in ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")
        for version in ("1.0", "2.0")
    },
    "dictionary": by_pyarrow(),
    "dictionary, then plain": by_pyarrow(dictionary_pagesize_limit=100, data_page_size=500),
    "split positions": by_pyarrow(
        use_dictionary=["file_path"], column_encoding={"pos": "BYTE_STREAM_SPLIT"}, data_page_version="2.0"
    ),
    "DuckDB V1": by_duckdb("V1"),
    "DuckDB V2": by_duckdb("V2"),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_positions_are_read_in_every_encoding_of_the_paths(
    shared_catalog: SqlCatalog, namespace: str, write: Write
) -> None:
    rows = pa.table({"id": pa.array(range(N), pa.int64())})
    table = shared_catalog.create_table(
        f"{namespace}.t",
        rows.schema,
        properties={"format-version": "2", "write.delete.granularity": "partition"},
    )
    iceberg.append(table, rows)
    iceberg.append(table, rows)
    iceberg.delete(table, "id >= 40")
    (path,) = {entry.file_path for task in plan_files(table).tasks for entry in task.position_deletes}
    write(pq.read_table(path_of(path)), path_of(path))
    expected = sorted([*range(40)] * 2)
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == expected
    assert iceberg.scan(table).count() == 80
    assert not iceberg.verify(table)
    assert iceberg.delete(table, "id < 10").rows_deleted == 20
    with v3_metadata(shared_catalog):
        iceberg.upgrade(table)
    assert iceberg.convert_position_deletes(table).vectors_written == 2
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == [i for i in expected if i >= 10]


def test_a_row_group_without_dictionary_encodings_excludes_its_column(tmp_path: Path) -> None:
    by_duckdb("V2")(
        mixed := pa.table({"file_path": ["a"] * 2048 + [f"p{i}" for i in range(2048)], "pos": range(4096)}),
        tmp_path / "f",
    )
    footer = pq.read_metadata(tmp_path / "f")
    encodings = [footer.row_group(group).column(0).encodings for group in range(footer.num_row_groups)]
    assert encodings[0] != encodings[-1]
    assert dictionary_columns(footer, ["file_path", "pos"]) == []
    pq.write_table(mixed, tmp_path / "g")
    assert dictionary_columns(pq.read_metadata(tmp_path / "g"), ["file_path", "pos"]) == ["file_path"]


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_values_are_counted_in_every_encoding(
    shared_catalog: SqlCatalog, namespace: str, tmp_path: Path, encoding: str
) -> None:
    rows = pa.table(
        {
            "s": [f"a long text with a number {i % 7}" for i in range(N)],
            "t": [["y", "x"][i % 2] for i in range(N)],
            "b": [b"z" if i % 3 else None for i in range(N)],
        }
    )
    names = [*rows.column_names]
    table = shared_catalog.create_table(f"{namespace}.t", rows.schema)
    pq.write_table(
        rows, tmp_path / "f.parquet", use_dictionary=False, column_encoding=dict.fromkeys(names, encoding)
    )
    table.add_files([str(tmp_path / "f.parquet")])
    assert iceberg.collect_ndv(table).ndv == {"s": 7, "t": 2, "b": 1}
