"""Delete files that are missing or truncated: jobs raise an error that names the file, and the table is unchanged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import CorruptDataError, NotFoundError, PuffinFastError
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.spark.session.sessions import own_errors
from tests.iceberg.maintenance.delete_files import delete_by_file, three_files
from tests.kit.tables import files_of, path_of
from tests.rows.deletes.equality_deletes import delete_equal
from tests.spark.laws import frame

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark
Made = tuple["Table", str]
"""A table, and a location of what is to be damaged."""


def by_vector(catalog: RacingCatalog) -> Made:
    table, (first, *_) = three_files(catalog)
    iceberg.upgrade(table)
    for filter in ("id = 5", "id = 105"):
        iceberg.delete(table, filter)
    (path,) = (t.vector.file_path for t in plan_files(table).tasks if t.vector and t.data.file_path == first)
    return table, path


def by_shared_file(catalog: RacingCatalog) -> Made:
    table, (first, second, _) = three_files(catalog)
    path = delete_by_file(table, [(first, 5), (second, 6)])
    return iceberg.upgrade(table), path


def by_file_of_its_own(catalog: RacingCatalog) -> Made:
    table, _ = three_files(catalog)
    iceberg.delete(table, "id = 5 or id = 105")
    path = next(entry.file_path for task in plan_files(table).tasks for entry in task.position_deletes)
    return iceberg.upgrade(table), path


def by_equality(catalog: RacingCatalog) -> Made:
    table, _ = three_files(catalog)
    delete_equal(table, [1], [(5,), (105,)])
    iceberg.upgrade(table)
    return table, next(entry.file_path for task in plan_files(table).tasks for entry in task.equality_deletes)


def places(spark: SparkSession, table: Table) -> Any:
    return frame(spark, [(task.data.file_path, 7) for task in plan_files(table).tasks])


JOBS: dict[str, Callable[[SparkSession, Table], Any]] = {
    "scan": lambda spark, table: ps.scan(spark, table).toArrow(),
    "delete": lambda spark, table: ps.delete(spark, table, "id in (7, 107, 207)"),
    "delete_positions": lambda spark, table: ps.delete_positions(places(spark, table), table),
    "compact": lambda spark, table: ps.compact(spark, table),
    "convert_position_deletes": lambda spark, table: ps.convert_position_deletes(spark, table),
    "convert_equality_deletes": lambda spark, table: ps.convert_equality_deletes(spark, table),
}

CASES = [
    (by_vector, NotFoundError, ("scan", "delete_positions", "compact")),
    (by_vector, CorruptDataError, ("delete", "compact")),
    (by_shared_file, NotFoundError, ("scan", "convert_position_deletes")),
    (by_shared_file, CorruptDataError, ("delete", "convert_position_deletes")),
    (by_file_of_its_own, NotFoundError, ("convert_position_deletes",)),
    (by_file_of_its_own, CorruptDataError, ("delete_positions", "convert_position_deletes")),
    (by_equality, NotFoundError, ("delete", "convert_equality_deletes")),
    (by_equality, CorruptDataError, ("scan", "convert_equality_deletes")),
]
"""What is damaged, what is said when it is gone and when it is torn, and by whom."""


@pytest.mark.parametrize(("make", "error", "jobs"), CASES)
def test_jobs_name_what_is_damaged_and_change_nothing(
    spark: SparkSession,
    racing: RacingCatalog,
    make: Callable[[RacingCatalog], Made],
    error: type[PuffinFastError],
    jobs: Iterable[str],
) -> None:
    table, location = make(racing)
    path = path_of(location)
    if error is NotFoundError:
        path.unlink()
    else:
        os.truncate(path, 10)
    before, files = table.metadata_location, files_of(table)
    for job in jobs:
        with pytest.raises(error, match=path.name), own_errors():
            JOBS[job](spark, table)
        assert (racing.load_table("n.t").metadata_location, files_of(table)) == (before, files), job
