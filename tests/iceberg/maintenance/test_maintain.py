"""`maintain` leaves the same rows, less to read and less in storage."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg import MaintenancePolicy
from tests.iceberg.conftest import refused, unchanged
from tests.kit.faults import RacingCatalog, failing
from tests.kit.tables import files_of, iceberg_table, parts, path_of

AT_ONCE = MaintenancePolicy(expire_older_than=timedelta(), clean_older_than=timedelta())


def used(catalog: RacingCatalog, version: int) -> Table:
    table = iceberg_table(catalog, parts(pa.table({"id": range(600)}), 6), version=2)
    iceberg.delete(table, "id < 50 or id = 120")
    if version == 3:
        iceberg.upgrade(table)
        iceberg.delete(table, "id > 550")
    (path_of(table.location()) / "data" / "left.parquet").write_bytes(b"12345")
    return table


@pytest.mark.parametrize("version", [2, 3])
def test_rows_stay_and_files_go(racing: RacingCatalog, version: int) -> None:
    table = used(racing, version)
    live = sorted(iceberg.scan(table).to_arrow()["id"].to_pylist())
    before = files_of(table)
    with refused(table, NotFoundError, "audit"):
        iceberg.maintain(table, AT_ONCE, branch="audit")
    with unchanged(table):
        dry = iceberg.maintain(table, AT_ONCE, dry_run=True)
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
    assert again.data_files.commit.id is None


def test_only_the_steps_of_the_policy_run(racing: RacingCatalog) -> None:
    table = used(racing, 3)
    done = iceberg.maintain(table, MaintenancePolicy.of({"steps": ["expire"], "expire_older_than": 0}))
    assert done.snapshots is not None
    assert done.snapshots.snapshot_ids
    assert (done.data_files, done.vectors, done.orphan_files) == (None, None, None)


def test_the_rewrite_takes_as_many_commits_as_the_policy_says(racing: RacingCatalog) -> None:
    rows = pa.table({"id": range(20), "g": [id % 3 for id in range(20)]})
    table = iceberg_table(racing, parts(rows, 2), partition=["g"])
    before = len(table.metadata.snapshots)
    policy = MaintenancePolicy(steps=("rewrite",), min_input_files=2, max_commits=2)
    done = iceberg.maintain(table, policy).data_files
    assert done is not None
    assert (done.commits, done.data_files, len(table.metadata.snapshots) - before) == (2, 6, 2)
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == list(range(20))


def test_an_error_names_the_steps_that_were_done(racing: RacingCatalog) -> None:
    table = used(racing, 3)
    done = "steps that were done before: position deletes, equality deletes, data files, vectors"
    steps = ("convert", "rewrite", "compact", "expire")
    expected: list[tuple[tuple[str, ...], bool, list[str]]] = [
        (steps, True, []),
        (steps[-1:], False, []),
        (steps, False, [done]),
    ]
    for some, dry_run, notes in expected:
        with (
            failing("puffin_fast.iceberg.maintenance.maintain.expire_snapshots", OSError("no disk")),
            pytest.raises(OSError, match="no disk") as caught,
        ):
            iceberg.maintain(table, replace(AT_ONCE, steps=some), dry_run=dry_run)
        assert getattr(caught.value, "__notes__", []) == notes


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


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"gc.enabled": "false"}, UnsupportedError),
        ({"history.expire.max-snapshot-age-ms": "soon"}, InvalidInputError),
    ],
)
def test_wrong_properties_are_refused_before_the_first_step(
    racing: RacingCatalog, properties: dict[str, str], error: type[Exception]
) -> None:
    table = iceberg_table(racing, {"id": range(10)}, properties=properties)
    iceberg.delete(table, "id < 5")
    with refused(table, error):
        iceberg.maintain(table)
