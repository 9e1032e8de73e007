"""Changes as DataFrames: the lines of the single machine, from tasks of limited size."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo

from puffin_fast import delta, iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.spark.session.sessions import own_errors
from puffin_fast.spark.table.changes import change_bins
from tests.iceberg.scans.row_groups import ROWS, table
from tests.kit.changes import frozen
from tests.kit.histories import history_in
from tests.kit.tables import path_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession


pytestmark = pytest.mark.spark
__all__ = ["table"]


def rows_of(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    at = rows.column_names.index("_commit_timestamp")
    rows = rows.set_column(at, "_commit_timestamp", rows["_commit_timestamp"].cast(pa.int64()))
    return Counter(tuple(map(frozen, row.values())) for row in rows.to_pylist())


def collected(df: DataFrame) -> Counter[tuple[Any, ...]]:
    with own_errors():
        return rows_of(df.toArrow())


def check_iceberg(spark: SparkSession, table: Table, chance: random.Random) -> None:
    """Compares the changes of each branch, and between pairs of snapshots."""
    known = [s.snapshot_id for s in table.metadata.snapshots]
    ranges: list[dict[str, Any]] = [
        {str(reference.snapshot_ref_type): name} for name, reference in table.metadata.refs.items()
    ]
    for _ in range(3):
        first, last = chance.choice(known), chance.choice(known)
        ranges.append({"from_snapshot_id_exclusive": first, "to_snapshot_id_inclusive": last, "net": True})
    for given in ranges:
        try:
            here = iceberg.changes(table, **given)
        except NotFoundError:  # PyIceberg expired the beginning
            with pytest.raises(NotFoundError, match="has expired"):
                ps.changes(spark, table, **given)
            continue
        assert collected(ps.changes(spark, table, **given)) == rows_of(here.to_arrow()), given
        some = {**given, "updates": chance.random() < 0.5, "selected_fields": ["*", "_row_id", "_pos"]}
        if chance.random() < 0.5:
            some["row_filter"] = EqualTo(table.schema().fields[0].name, 3)
        expected = rows_of(iceberg.changes(table, **some).to_arrow())
        assert collected(ps.changes(spark, table, **some)) == expected, some


@pytest.mark.parametrize("seed", range(2))
def test_random_histories_have_the_lines_of_the_single_machine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("puffin_fast.spark.table.changes.TASK_BYTES", 2000)
    monkeypatch.setattr("puffin_fast.spark.table.job.TASK_BYTES", 2 << 20)
    monkeypatch.setattr("puffin_fast.spark.table.changes.PAIRED_BYTES", 500 * (1 - seed) + 1)
    with history_in(tmp_path, "iceberg partitioned", seed, 16) as history:
        check_iceberg(spark, history.target, random.Random(seed))


@pytest.mark.parametrize("kind", ["delta plain", "delta feed", "delta tracked", "delta mapped"])
def test_random_histories_of_delta_have_the_lines_of_the_single_machine(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    with history_in(tmp_path, kind, 7, 10) as history:
        path = history.target
        last = delta.snapshot(path).version
        for given in (
            {},
            {"from_snapshot_id_exclusive": last // 2, "net": True},
            {"selected_fields": ["*", "_file", "_pos"], "updates": False},
            {"row_filter": "s = 'a'", "to_snapshot_id_inclusive": last - 1, "join_cols": ["id", "s"]},
        ):
            options: Any = given
            expected = rows_of(delta.changes(path, **options).to_arrow())
            assert collected(ps.changes(spark, path, **options)) == expected, given


def test_a_large_commit_without_updates_is_read_by_several_tasks(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("puffin_fast.spark.table.changes.TASK_BYTES", 1000)
    monkeypatch.setattr("puffin_fast.spark.table.job.TASK_BYTES", 1000)
    with iceberg.transaction(table) as transaction:
        for start in range(0, 300, 100):
            transaction.append(ROWS.slice(start, 100))
    iceberg.delete(table, "id < 250")
    appended = table.metadata.snapshots[-2]
    found = iceberg.changes(table, appended.parent_snapshot_id, appended.snapshot_id)
    assert len(change_bins(found)) == 3
    assert len(change_bins(iceberg.changes(table, appended.snapshot_id))) > 1
    expected = rows_of(iceberg.changes(table).to_arrow())
    assert collected(ps.changes(spark, table)) == expected
    iceberg.update(table, "id > 900", {"s": "new"})
    assert len(change_bins(iceberg.changes(table, table.metadata.snapshots[-2].snapshot_id))) == 1


def test_nothing_changed_has_a_schema(spark: SparkSession, table: Table) -> None:
    df = ps.changes(spark, table, table.metadata.current_snapshot_id, selected_fields=["id", "_file"])
    assert df.count() == 0
    assert df.columns == [
        "id",
        "_change_type",
        "_commit_snapshot_id",
        "_commit_timestamp",
        "_change_ordinal",
        "_file",
    ]


def test_what_is_wrong_is_said(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    for options, error, message in (
        ({"row_filter": EqualTo("nobody", 1)}, NotFoundError, "nobody"),
        ({"row_filter": "id > 1.0"}, InvalidInputError, "DataFrame.where"),
        ({"row_filter": "upper(s) = 'A'"}, InvalidInputError, "upper"),
        ({"selected_fields": ["nobody"]}, NotFoundError, "nobody"),
        ({"from_snapshot_id_exclusive": 5}, NotFoundError, "snapshot 5"),
        ({"branch": "twig"}, NotFoundError, "twig"),
        ({"net": 1}, InvalidInputError, "net"),
    ):
        with pytest.raises(error, match=message):
            ps.changes(spark, table, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="SparkSession"):
        ps.changes(None, table)  # type: ignore[arg-type]
    delta.create_table(str(tmp_path / "d"), ROWS.schema)
    with pytest.raises(UnsupportedError, match="branch"):
        ps.changes(spark, tmp_path / "d", branch="main")
    df = ps.changes(spark, table)
    path = path_of(iceberg.plan_files(table).tasks[0].data.file_path)
    path.unlink()
    with pytest.raises(NotFoundError, match=path.name), own_errors():
        df.toArrow()
