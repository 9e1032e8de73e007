"""Deletes from tables of format version 2: position-delete files that all engines read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.dml.tables import upgrade
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.tables.delete import delete, delete_positions
from puffin_fast.tables.overwrite import append
from puffin_fast.tables.scan import scan
from tests.iceberg.conftest import current_snapshot, refused, rows_of
from tests.iceberg.delete_files.position_files import GRANULARITY, ROWS, N, check, made, position_files
from tests.kit.tables import path_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_deletes_in_turn_leave_the_right_rows(
    shared_catalog: SqlCatalog,
    namespace: str,
    duckdb_iceberg: DuckDBPyConnection,
    granularity: str,
    partitioned: bool,
) -> None:
    table = made(shared_catalog, namespace, partitioned=partitioned, **{GRANULARITY: granularity})
    n_files = len(plan_files(table).tasks)
    first = delete(table, pc.bit_wise_and(pc.field("id"), 3) == 0)
    assert (first.rows_deleted, first.data_files, first.vectors_written) == (75, n_files, 0)
    expected_files = n_files if granularity == "file" else (4 if partitioned else 1)
    assert first.position_delete_files_written == len(position_files(table)) == expected_files
    left = [i for i in range(N) if i % 4]
    check(table, duckdb_iceberg, left)
    second = delete(table, "id < 40")
    left = [i for i in left if i >= 40]
    assert (second.rows_deleted, second.vectors_merged) == (30, 1)
    assert len(position_files(table)) == (expected_files if granularity == "file" else expected_files + 1)
    check(table, duckdb_iceberg, left)
    some = scan(table, "id > 290", ("_file", "_pos")).to_arrow()
    third = delete_positions(
        table, pa.table({"file_path": some["_file"].cast(pa.string()), "pos": some["_pos"]})
    )
    left = [i for i in left if i <= 290]
    assert third.rows_deleted == some.num_rows
    check(table, duckdb_iceberg, left)
    assert delete(table, "id < 40").commit.id is None
    append(table, ROWS.slice(0, 5))
    check(table, duckdb_iceberg, sorted([*left, *range(5)]))
    gone = delete(table, "true")
    assert (gone.data_files_dropped, plan_files(table).tasks) == (n_files + 1, [])


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_the_files_are_what_the_specification_says(
    shared_catalog: SqlCatalog, namespace: str, granularity: str
) -> None:
    table = made(shared_catalog, namespace, **{GRANULARITY: granularity})
    delete(table, "id in (250, 3, 120, 2, 299)")
    rows = []
    for path, entry in position_files(table).items():
        file = pq.ParquetFile(path_of(path))
        kinds = [(f.name, f.type, f.nullable, f.metadata[b"PARQUET:field_id"]) for f in file.schema_arrow]
        assert kinds == [
            ("file_path", pa.string(), False, b"2147483546"),
            ("pos", pa.int64(), False, b"2147483545"),
        ]
        pairs = list(zip(*file.read().to_pydict().values(), strict=True))
        assert pairs == sorted(pairs)
        assert (entry.record_count, entry.file_size_in_bytes) == (len(pairs), path_of(path).stat().st_size)
        assert entry.sequence_number == table.metadata.last_sequence_number
        assert entry.lower_bounds is None or entry.lower_bounds[2147483546].decode() == pairs[0][0]
        assert entry.upper_bounds is None or entry.upper_bounds[2147483546].decode() == pairs[-1][0]
        rows += pairs
    assert sorted(pos for _, pos in rows) == [2, 3, 20, 50, 99]
    snapshot = current_snapshot(table)
    assert snapshot.summary is not None
    summary = snapshot.summary.additional_properties
    assert summary["added-position-deletes"] == summary["total-position-deletes"] == "5"
    assert summary["added-position-delete-files"] == ("3" if granularity == "file" else "1")
    assert "added-dvs" not in summary


def test_large_files_are_cut_and_sorted(
    shared_catalog: SqlCatalog, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from puffin_fast.iceberg.delete_files import position_files as module

    monkeypatch.setattr(module, "ROW_GROUP_ROWS", 40)
    table = made(
        shared_catalog, namespace, **{GRANULARITY: "partition", "write.delete.target-file-size-bytes": "500"}
    )
    done = delete(table, pc.bit_wise_and(pc.field("id"), 15) != 7)
    assert done.rows_deleted == N - len(range(7, N, 16))
    files = sorted(position_files(table))
    assert done.position_delete_files_written == len(files) > 2
    pairs = [row for path in files for row in pq.read_table(path_of(path)).to_pylist()]
    assert pairs == sorted(pairs, key=lambda row: (row["file_path"], row["pos"]))
    assert rows_of(table)["id"].to_pylist() == list(range(7, N, 16))


CODEC = "write.delete.parquet.compression-codec"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (GRANULARITY, "row", "expected one of file, partition, found 'row'"),
        (CODEC, "LZO", "expected one of zstd, .* none, found 'LZO'"),
    ],
)
def test_an_unknown_property_is_refused_and_changes_nothing(
    shared_catalog: SqlCatalog, namespace: str, name: str, value: str, message: str
) -> None:
    table = made(shared_catalog, namespace, files=1, **{name: value})
    with refused(table, InvalidInputError, f"{name}: {message}"):
        delete(table, "id = 1")


@pytest.mark.parametrize(("value", "codec"), [("UNCOMPRESSED", "UNCOMPRESSED"), ("Gzip", "GZIP")])
def test_codecs_are_named_in_any_case(
    shared_catalog: SqlCatalog, namespace: str, value: str, codec: str
) -> None:
    table = made(shared_catalog, namespace, files=1, **{CODEC: value})
    delete(table, "id = 1")
    (path,) = position_files(table)
    assert pq.read_metadata(path_of(path)).row_group(0).column(1).compression == codec
    assert len(rows_of(table)) == N - 1


@pytest.mark.jar
@pytest.mark.spark
@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_spark_and_we_delete_in_turn_then_the_table_is_upgraded(
    shared_catalog: SqlCatalog,
    namespace: str,
    iceberg_spark: SparkSession,
    duckdb_iceberg: DuckDBPyConnection,
    granularity: str,
    partitioned: bool,
) -> None:
    properties = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
    table = made(
        shared_catalog, namespace, partitioned=partitioned, **{GRANULARITY: granularity}, **properties
    )
    name = f"{shared_catalog.name}.{namespace}.t"
    left = list(range(N))

    def agree(gone: set[int]) -> None:
        nonlocal left
        left = [i for i in left if i not in gone]
        table.refresh()
        theirs = iceberg_spark.sql(f"SELECT id FROM {name} ORDER BY id").toArrow()["id"].to_pylist()
        assert theirs == left
        check(table, duckdb_iceberg, left)

    delete(table, "id >= 20 and id < 120")
    agree(set(range(20, 120)))
    iceberg_spark.sql(f"DELETE FROM {name} WHERE id % 5 = 0")
    agree(set(range(0, N, 5)))
    delete(table, pc.bit_wise_and(pc.field("id"), 7) == 1)
    agree(set(range(1, N, 8)))
    iceberg_spark.sql(f"DELETE FROM {name} WHERE id > 280")
    agree(set(range(281, N)))
    listed = iceberg_spark.sql(
        f"SELECT content, file_format, record_count FROM {name}.delete_files"
    ).toArrow()
    assert set(listed["file_format"].to_pylist()) == {"PARQUET"}
    with v3_metadata(shared_catalog):
        upgrade(table)
    done = delete(table, "id > 2 and id < 200 and word != 'w3'")
    assert done.vectors_written > 0
    agree(set(range(3, 200)))
