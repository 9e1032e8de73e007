"""Laws of NDV statistics on tables whose schema, spec, references and writers change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from puffin_fast import errors, iceberg
from tests.iceberg.statistics.statistics import blob_of, make
from tests.kit import theta_oracle as oracle
from tests.kit.faults import RacingCatalog
from tests.kit.tables import path_of


def numbers(start: int, stop: int, kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"n": pa.array(range(start, stop), kind or pa.int64())})


def changed(catalog: RacingCatalog, table: Table, change: Callable[[Any], object]) -> None:
    with iceberg.v3_metadata(catalog), table.update_schema() as update:
        change(update)


def test_a_renamed_column_is_found_by_its_new_name(racing: RacingCatalog) -> None:
    table = make(racing, numbers(0, 5))
    changed(racing, table, lambda update: update.rename_column("n", "m"))
    assert iceberg.collect_ndv(table, ["m"]).ndv == {"m": 5}
    assert iceberg.ndv(table)["column"].to_pylist() == ["m"]
    snapshot_id = table.metadata.current_snapshot_id
    assert iceberg.ndv(table, ["n"], snapshot_id=snapshot_id)["column"].to_pylist() == ["n"]
    with pytest.raises(errors.NotFoundError, match=r"columns: no column n; .*the table has m"):
        iceberg.collect_ndv(table, ["n"])


def test_a_column_of_the_same_name_is_another_column(racing: RacingCatalog) -> None:
    table = make(racing, numbers(0, 5))
    changed(racing, table, lambda update: update.add_column("other", LongType()))
    iceberg.append(table, pa.table({"n": [7], "other": [8]}))
    iceberg.collect_ndv(table)
    changed(racing, table, lambda update: update.delete_column("n"))
    changed(racing, table, lambda update: update.add_column("n", StringType()))
    assert iceberg.ndv(table)["column"].to_pylist() == ["other"]
    with pytest.raises(errors.NotFoundError, match="column 'n': added after the snapshot"):
        iceberg.collect_ndv(table, ["n"])
    iceberg.append(table, pa.table({"n": ["a", "b"], "other": [8, 9]}))
    assert iceberg.collect_ndv(table).ndv == {"n": 2, "other": 2}
    assert blob_of(table, "n") == oracle.canonical(["a", "b"], "string")


def test_a_promoted_column_is_counted_anew_once_there_is_another_snapshot(racing: RacingCatalog) -> None:
    data = pa.table({"n": pa.array(range(100), pa.int32()), "other": pa.array(range(100), pa.int32())})
    table = make(racing, data)
    iceberg.collect_ndv(table)
    changed(racing, table, lambda update: update.update_column("n", LongType()))
    assert iceberg.collect_ndv(table).commit.id is None
    assert blob_of(table, "n") == oracle.canonical(range(100), "int")
    iceberg.append(table, pa.table({"n": range(90, 110), "other": pa.array(range(20), pa.int32())}))
    assert iceberg.collect_ndv(table).data_files_read == 1 + 2  # "other" reads one file, "n" both
    assert blob_of(table, "n") == oracle.canonical(range(110), "long")
    assert blob_of(table, "other") == oracle.canonical(range(100), "int")


def test_overlap_compares_the_types_that_were_hashed(racing: RacingCatalog) -> None:
    ints = make(racing, numbers(0, 5, pa.int32()), name="n.ints")
    longs = make(racing, numbers(3, 8), name="n.longs")
    iceberg.collect_ndv(ints)
    iceberg.collect_ndv(longs)
    changed(racing, ints, lambda update: update.update_column("n", LongType()))
    iceberg.append(ints, numbers(5, 7))  # n is a long now, but its statistics are of ints
    with pytest.raises(errors.InvalidInputError, match=r"'n' \(int, .*'n' \(long, .*not hashed alike"):
        iceberg.ndv_overlap((ints, "n"), (longs, "n"))
    iceberg.collect_ndv(ints)
    assert iceberg.ndv_overlap((ints, "n"), (longs, "n")).both.estimate == 4


def test_statistics_of_an_unknown_type_are_not_compared(racing: RacingCatalog) -> None:
    """The snapshot that was counted has expired, and the column had two types."""
    table = make(racing, numbers(0, 5, pa.int32()))
    changed(racing, table, lambda update: update.add_column("other", LongType()))
    iceberg.append(table, pa.table({"n": pa.array([5], pa.int32()), "other": [1]}))
    iceberg.collect_ndv(table, ["n"])
    counted = table.metadata.current_snapshot_id
    changed(racing, table, lambda update: update.update_column("n", LongType()))
    iceberg.append(table, pa.table({"n": [6], "other": [1]}))
    iceberg.collect_ndv(table, ["other"])  # carries the blob of "n" over
    with iceberg.v3_metadata(racing):
        table.maintenance.expire_snapshots().by_id(counted).commit()
    with pytest.raises(errors.InvalidInputError, match=f"its type in snapshot {counted}"):
        iceberg.ndv_overlap((table, "n"), (table, "other"))
    assert iceberg.collect_ndv(table, ["n"]).ndv == {"n": 7}
    assert blob_of(table, "n") == oracle.canonical(range(7), "long")


def test_identity_partition_columns_that_files_lack_are_counted(
    racing: RacingCatalog, tmp_path: Path
) -> None:
    """As Hive's files that were added to a table: the values are in the manifests alone."""
    import pyarrow.parquet as pq

    schema = Schema(NestedField(1, "p", StringType()), NestedField(2, "v", LongType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"))
    table = racing.create_table("n.t", schema, partition_spec=spec, properties={"format-version": "2"})
    for at, value in enumerate(["a", "b", "a", None]):
        table.append(pa.table({"p": pa.array([value], pa.string()), "v": pa.array([at], pa.int64())}))
    for task in iceberg.plan_files(table).tasks:
        path = path_of(task.data.file_path)
        pq.write_table(pq.read_table(path, partitioning=None).drop(["p"]), path)
    assert iceberg.collect_ndv(table).ndv == {"p": 2, "v": 4}
    assert blob_of(table, "p") == oracle.canonical(["a", "b"], "string")
    assert iceberg.collect_ndv(table, incremental=False, threads=1).ndv == {"p": 2, "v": 4}
