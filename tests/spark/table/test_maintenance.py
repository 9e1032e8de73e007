"""Maintenance on executors has the results of the single machine; jobs are described and logged."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import UnsupportedError
from tests.kit.rows import by_pyiceberg
from tests.spark.results import facts
from tests.spark.table.delete_files import copy_of
from tests.spark.table.tables import made

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("level", ["files", "rows"])
def test_executors_find_what_the_single_machine_finds(
    spark: SparkSession, racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch, level: Any
) -> None:
    table = made(racing, "n")
    assert ps.verify(spark, table, level=level) == iceberg.verify(table, level=level) == []
    first, second, *_ = (
        Path(task.data.file_path.removeprefix("file://")) for task in iceberg.plan_files(table).tasks
    )
    data = first.read_bytes()
    first.write_bytes(data[: len(data) // 2] + data[len(data) // 2 + 1 :])
    second.unlink()
    found, here = ps.verify(spark, table, level=level), iceberg.verify(table, level=level)
    assert found == here
    assert len(found) >= 2
    assert (found.level, found.data_files, found.unchecked) == (here.level, here.data_files, here.unchecked)


def test_maintenance_does_the_steps_of_the_single_machine(spark: SparkSession, racing: RacingCatalog) -> None:
    table = made(racing, "n")
    iceberg.delete(table, "id % 2 = 0")
    assert ps.report(spark, table).totals == iceberg.report(table).totals
    assert ps.expire_snapshots(spark, table, retain_last=1, dry_run=True).dry_run
    assert ps.remove_orphan_files(spark, table).dry_run
    twin = copy_of(racing, table)
    files = (
        "convert",
        "rewrite",
        "compact",
        "index",
    )  # the twin has the same files, so that none may be removed
    policy = iceberg.MaintenancePolicy(files, min_deleted=0.1)
    for dry_run in (True, False):
        done = ps.maintain(spark, table, policy, dry_run=dry_run)
        here = iceberg.maintain(twin, policy, dry_run=dry_run)
        assert done.data_files is not None
        assert here.data_files is not None
        assert facts(done.data_files) == facts(here.data_files)
        assert done.dry_run == dry_run
    assert by_pyiceberg(table) == by_pyiceberg(twin)
    with pytest.raises(UnsupportedError, match="VACUUM"):
        ps.expire_snapshots(spark, "/no/delta/table")


def test_jobs_are_logged_and_described(
    spark: SparkSession, racing: RacingCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(racing, "n")
    context: Any = spark.sparkContext
    context.setJobDescription("of the caller")
    try:
        with caplog.at_level(logging.INFO, logger="puffin_fast"):
            result = ps.delete(spark, table, "id < 9")
        assert context.getLocalProperty("spark.job.description") == "of the caller"
    finally:
        context.setJobDescription(None)
    assert result.rows_deleted == 9
    lines = [record.getMessage() for record in caplog.records if "spark" in record.name]
    began, ended = lines
    assert began.startswith("delete-")
    assert "data file" in began
    assert "ended after" in ended


def test_all_verbs_are_listed() -> None:
    assert {*ps.__all__} == {*dir(ps)}
    verbs: list[Callable[..., Any]] = [getattr(ps, name) for name in ps.__all__ if name != "functions"]
    assert all(callable(verb) and verb.__doc__ for verb in verbs)
