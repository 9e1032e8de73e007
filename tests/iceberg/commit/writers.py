"""A table of two data files for commits that race, another writer's view of it, and the files that it names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from puffin_fast.iceberg.dml.tables import append, create_table
from puffin_fast.iceberg.manifest import read_manifest_list
from puffin_fast.iceberg.plan.files import plan_files
from tests.iceberg.conftest import RacingCatalog, local

if TYPE_CHECKING:
    from pyiceberg.table import Table


ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "half": pa.array([i // 50 for i in range(100)])})


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    """A table of two data files: ids 0 to 49 and 50 to 99."""
    made = create_table(
        racing,
        "n.t",
        ROWS.schema,
        properties={"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "5"},
    )
    append(made, ROWS.slice(0, 50))
    append(made, ROWS.slice(50))
    return made


def other(racing: RacingCatalog) -> Table:
    """The table as another writer holds it."""
    return racing.load_table("n.t")


def reachable(table: Table) -> set[Path]:
    """Every file that some snapshot or the metadata names."""
    found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        found |= {manifest.path for manifest in read_manifest_list(table.io, snapshot.manifest_list)}
        for task in plan_files(table, snapshot_id=snapshot.snapshot_id).tasks:
            found |= {task.data.file_path, *(entry.file_path for entry in task.deletes)}
    return {local(location) for location in found}


class Unsure(Exception):
    """The connection broke."""


def broken() -> None:
    raise Unsure("the connection broke")
