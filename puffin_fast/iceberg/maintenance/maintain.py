"""All maintenance of a table in one call: convert, rewrite, compact, index, expire, clean."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from puffin_fast._concurrency.workers import workers_of
from puffin_fast.iceberg.commit.job import open_table
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.index.build import encode_by, index_keys
from puffin_fast.iceberg.index.properties import indexed_columns
from puffin_fast.iceberg.maintenance.compact import compact
from puffin_fast.iceberg.maintenance.convert import convert_equality_deletes, convert_position_deletes
from puffin_fast.iceberg.maintenance.expire_snapshots import expire_snapshots
from puffin_fast.iceberg.maintenance.orphan_files import remove_orphans
from puffin_fast.iceberg.maintenance.removal import check_may_remove
from puffin_fast.iceberg.maintenance.retention import Retention
from puffin_fast.iceberg.maintenance.rewrite_data_files import rewritten
from puffin_fast.iceberg.maintenance.unknown_metadata import check_newest
from puffin_fast.verbs.maintenance import MaintenancePolicy

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

VECTOR_STEPS = ("convert", "compact")
"""Steps for deletion vectors: tables of format version 2 do not have them."""


def maintained(
    table: Table,
    policy: MaintenancePolicy,
    steps: Collection[str],
    *,
    branch: str,
    threads: int | None,
    workers: Executor | SparkSession | None,
    dry_run: bool,
) -> Iterator[tuple[str, Any]]:
    """Does the steps of a table; yields their results, each with its name in `MaintainResult`.

    For what expiry and clean-up refuse a table (properties, newer metadata that the catalog does not have), it is
    refused before the first step.

    Args:
        table, policy, branch, threads, workers, dry_run: as `maintain`.
        steps: the steps.
    """
    who = workers_of(workers, threads)
    working = open_table(table, oldest=2)
    version = working.metadata.format_version
    steps = [step for step in steps if version > 2 or step not in VECTOR_STEPS]
    if not {"expire", "clean"}.isdisjoint(steps):
        check_may_remove(working)
    if "expire" in steps:
        Retention.of(working.properties, older_than=policy.expire_older_than, retain_last=policy.retain_last)
    if "clean" in steps:
        check_newest(working, threads)
    notes: list[str] = []
    schemas = working.metadata.schemas
    indexes = (
        indexed_columns(working.properties, working.schema(), schemas, notes) if "index" in steps else ()
    )
    here: dict[str, Any] = {"threads": threads, "dry_run": dry_run}
    job = here | {"branch": branch, "workers": workers}
    if "convert" in steps:
        yield "position_deletes", convert_position_deletes(table, **job)
        yield "equality_deletes", convert_equality_deletes(table, **job)
    if "rewrite" in steps:
        request = Request(verb="rewrite_data_files", branch=branch)
        # one commit for each index, of the last snapshot
        encode = None if "index" in steps else encode_by(who, table)
        yield "data_files", rewritten(table, policy.terms(), request, who, encode, dry_run=dry_run)
    if "compact" in steps:
        yield "vectors", compact(table, **job)
    if indexes and branch in table.metadata.refs:
        yield "key_indexes", tuple(index_keys(table, names, **job) for names in indexes)
    if "expire" in steps:
        yield (
            "snapshots",
            expire_snapshots(
                table, older_than=policy.expire_older_than, retain_last=policy.retain_last, **here
            ),
        )
    if "clean" in steps:
        yield "orphan_files", remove_orphans(table, policy.clean_older_than, **here)
    yield "notes", tuple(notes)
