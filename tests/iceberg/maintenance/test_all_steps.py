"""`maintain` leaves the same rows, less to read and less in storage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg import MaintenancePolicy
from tests.iceberg.conftest import files_of, local

NOW = timedelta()
AT_ONCE = MaintenancePolicy(expire_older_than=NOW, clean_older_than=NOW)


def used(catalog: SqlCatalog, version: int) -> Table:
    schema = pa.schema([("id", pa.int64())])
    catalog.create_namespace_if_not_exists("n")
    table = catalog.create_table("n.t", schema, properties={"format-version": "2"})
    for first in range(0, 600, 100):
        iceberg.append(table, pa.table({"id": range(first, first + 100)}, schema))
    iceberg.delete(table, "id < 50 or id = 120")
    if version == 3:
        iceberg.upgrade(table)
        iceberg.delete(table, "id > 550")
    (local(table.location()) / "data" / "left.parquet").write_bytes(b"12345")
    return table


@pytest.mark.parametrize("version", [2, 3])
def test_rows_stay_and_files_go(racing: SqlCatalog, version: int) -> None:
    table = used(racing, version)
    live = sorted(iceberg.scan(table).to_arrow()["id"].to_pylist())
    before, location = files_of(table), table.metadata_location
    dry = iceberg.maintain(table, AT_ONCE, dry_run=True)
    assert (files_of(table), table.refresh().metadata_location) == (before, location)
    assert dry.data_files is not None
    assert dry.data_files.data_files == 6
    assert dry.n_bytes_freed == 5
    done = iceberg.maintain(table, AT_ONCE)
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == live
    assert iceberg.verify(table) == []
    assert len(table.metadata.snapshots) == 1
    assert iceberg.report(table).totals["data_files"] == 1
    assert done.orphan_files is not None
    assert done.n_bytes_freed > dry.n_bytes_freed
    assert len(files_of(table)) < len(before)
    assert (done.vectors is None, done.position_deletes is None) == (version == 2, version == 2)
    again = iceberg.maintain(table, AT_ONCE)
    assert again.data_files is not None
    assert again.data_files.snapshot_id is None


def test_only_the_steps_of_the_policy_run(racing: SqlCatalog) -> None:
    table = used(racing, 3)
    done = iceberg.maintain(table, MaintenancePolicy.of({"steps": ["expire"], "expire_older_than": 0}))
    assert done.snapshots is not None
    assert done.snapshots.snapshot_ids
    assert (done.data_files, done.vectors, done.orphan_files) == (None, None, None)


def test_the_rewrite_takes_as_many_commits_as_the_policy_says(racing: SqlCatalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("g", pa.int64())])
    table = iceberg.create_table(racing, "n.t", schema, partition_spec=("g",))
    for first in (0, 10):
        ids = range(first, first + 10)
        iceberg.append(table, pa.table({"id": ids, "g": [id % 3 for id in ids]}, schema))
    before = len(table.metadata.snapshots)
    policy = MaintenancePolicy(steps=("rewrite",), min_input_files=2, max_commits=2)
    done = iceberg.maintain(table, policy).data_files
    assert done is not None
    assert (done.commits, done.data_files, len(table.metadata.snapshots) - before) == (2, 6, 2)
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == list(range(20))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"step": ["expire"]}, "policy: no step"),
        ({"steps": "expire"}, "steps: expected some of"),
        ({"steps": ["tidy"]}, "steps: expected some of"),
        ({"clean_older_than": "3"}, "clean_older_than: expected a number of days"),
        ({"expire_older_than": -1}, "expire_older_than: expected a number of days"),
        ({"retain_last": 0}, "retain_last"),
        ({"min_deleted": 2}, "min_deleted"),
        ({"max_commits": 0}, "max_commits"),
    ],
)
def test_wrong_policies_are_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        MaintenancePolicy.of(values)


def test_a_branch_that_does_not_exist_is_refused(racing: SqlCatalog) -> None:
    table = used(racing, 3)
    before = files_of(table)
    with pytest.raises(NotFoundError, match="audit"):
        iceberg.maintain(table, AT_ONCE, branch="audit")
    assert files_of(table) == before
