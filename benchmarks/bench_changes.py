"""Benchmarks of row-level changes of merge-on-read tables. Run as a script; prints JSON.

    python -m benchmarks.bench_changes                   all jobs at full size: 40M rows in 1000 files
    python -m benchmarks.bench_changes --share 0.1       a tenth of the rows and of the files
    python -m benchmarks.bench_changes --only Delta      the jobs whose name holds this; given twice, both

1% of the rows, at random, is deleted by vectors, then another 1% is updated. Contenders take turns in one process:

- reading the same rows at positions that are known already, without pairing them
- the scans of both states, compared by DuckDB (`EXCEPT ALL` in both directions)
- deltalake's `load_cdf` of a twin whose change data feed was written; ours reads the table without a feed

Then all data files of the Iceberg table are rewritten, in a table of its own: net changes across the rewrite. A job on
metadata only: 10 of 100,000 data files have a new vector, in all manifests of deletes; compared with a plan.

`cpu` is what targets are about.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import bench_plan
from benchmarks.iceberg_tables import CATALOG
from benchmarks.jobs import Contenders, measure_job
from benchmarks.machine import report
from benchmarks.rounds import OURS, checked

ROWS, FILES = 40_000_000, 1000
POSITIONS, DUCKDB, DELTALAKE = (
    "rows at known positions",
    "DuckDB, two scans compared",
    "deltalake, with a feed",
)
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("v", pa.float64())])
ICEBERG_JOB, DELTA_JOB = "changes, Iceberg", "changes, Delta"
COUNT_JOB, REWRITE_JOB = "count of deletes, Iceberg", "net changes across a rewrite, Iceberg"
PLAN_JOB, PLANNED, PLAN = "plan of changes of 100,000 files", 100_000, "plan of the table"


def parts(n_rows: int, n_files: int) -> Iterator[pa.Table]:
    """Rows by file; `k` is random in 0 to 99."""
    per_file = n_rows // n_files
    for number in range(n_files):
        random = np.random.default_rng(number)
        columns = [
            np.arange(number * per_file, (number + 1) * per_file),
            random.integers(0, 100, per_file, np.int32),
            random.random(per_file),
        ]
        yield pa.table([pa.array(column) for column in columns], schema=SCHEMA)


def catalog_of(folder: Path) -> Any:
    """The catalog of the Iceberg tables."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(
        CATALOG, uri=f"sqlite:///{folder}/changes.db", warehouse=f"file://{folder}/warehouse"
    )
    catalog.create_namespace_if_not_exists("changes")
    return catalog


def iceberg_table(
    folder: Path, n_rows: int, n_files: int, *, rewritten: bool = False
) -> tuple[Any, list[int]]:
    """Makes the table once; returns it with its snapshots before and after the delete, the update and the rewrite."""
    from puffin_fast import iceberg

    catalog = catalog_of(folder)
    name = f"changes.{'r' if rewritten else 't'}{n_rows}_{n_files}"
    expected = n_files + 2 + rewritten
    if not catalog.table_exists(name) or len(catalog.load_table(name).metadata.snapshots) < expected:
        if catalog.table_exists(name):
            catalog.drop_table(name)
        table = iceberg.create_table(catalog, name, SCHEMA)
        for part in parts(n_rows, n_files):
            iceberg.append(table, part)
        iceberg.delete(table, "k = 0")
        iceberg.update(table, "k = 1", {"v": 2.0})
        if rewritten:
            iceberg.rewrite_data_files(table, min_deleted=0)
    table = catalog.load_table(name)
    history = [entry.snapshot_id for entry in table.metadata.snapshot_log]
    return table, history[-3 - rewritten :]


def delta_table(folder: Path, n_rows: int, n_files: int, *, feed: bool) -> str:
    """Makes the table once; its last two versions are the delete and the update."""
    from puffin_fast import delta

    root = folder / f"delta-{n_rows}-{n_files}-{feed}"
    if not root.exists() or delta.snapshot(root).version < n_files + 2:
        import shutil

        shutil.rmtree(root, ignore_errors=True)
        properties = {"delta.enableRowTracking": "true", "delta.enableChangeDataFeed": str(feed).lower()}
        delta.create_table(root, SCHEMA, properties=properties)
        for part in parts(n_rows, n_files):
            delta.append(root, part)
        delta.delete(root, "k = 0")
        delta.update(root, "k = 1", {"v": 2.0})
    return str(root)


def at_positions(changes: Any) -> Callable[[], int]:
    """Reads the rows of changes, whose positions are found before."""
    from puffin_fast.rows.changes.lines import read_tasks

    reader = changes.change_reader()
    tasks = []
    for commit in changes.plan:
        rows = reader.states.changed_rows(commit.files)
        tasks += [*rows.deleted, *rows.inserted]
    return lambda: sum(batch.num_rows for batch in read_tasks(reader.plain, tasks))


def compared(states: Callable[[], tuple[pa.Table, pa.Table]]) -> int:
    """Compares two states in DuckDB; returns the number of lines."""
    import duckdb

    before, after = states()
    with duckdb.connect() as connection:
        connection.register("before", before)
        connection.register("after", after)
        query = "SELECT count(*) FROM (FROM {} EXCEPT ALL FROM {})"
        pairs = (("before", "after"), ("after", "before"))
        return sum(int(connection.sql(query.format(*pair)).fetchall()[0][0]) for pair in pairs)


def iceberg_job(folder: Path, n_rows: int, n_files: int) -> Contenders:
    """The lines of the delete and of the update, into Arrow."""
    from puffin_fast import iceberg

    table, (start, _, end) = iceberg_table(folder, n_rows, n_files)
    lines = partial(iceberg.changes, table, start, end)
    expected = lines().count()

    def states() -> tuple[pa.Table, pa.Table]:
        return iceberg.scan(table, snapshot_id=start).to_arrow(), iceberg.scan(
            table, snapshot_id=end
        ).to_arrow()

    return {
        OURS: checked(lambda: lines().to_arrow().num_rows, expected),
        POSITIONS: checked(at_positions(lines()), expected),
        DUCKDB: checked(lambda: compared(states), expected),
    }


def count_job(folder: Path, n_rows: int, n_files: int) -> Contenders:
    """The number of lines of the delete, which needs no rows."""
    from puffin_fast import iceberg

    table, (start, middle, _) = iceberg_table(folder, n_rows, n_files)
    expected = iceberg.changes(table, start, middle).to_arrow().num_rows
    return {
        OURS: checked(lambda: iceberg.changes(table, start, middle).count(), expected),
        POSITIONS: checked(at_positions(iceberg.changes(table, start, middle)), expected),
    }


def rewrite_job(folder: Path, n_rows: int, n_files: int) -> Contenders:
    """The net lines across a rewrite of all data files."""
    from puffin_fast import iceberg

    table, (start, *_, end) = iceberg_table(folder, n_rows, n_files, rewritten=True)
    lines = partial(iceberg.changes, table, start, end, net=True)
    expected = lines().count()

    def states() -> tuple[pa.Table, pa.Table]:
        return iceberg.scan(table, snapshot_id=start).to_arrow(), iceberg.scan(table).to_arrow()

    return {
        OURS: checked(lambda: lines().to_arrow().num_rows, expected),
        DUCKDB: checked(lambda: compared(states), expected),
    }


def planned_table(root: Path) -> Any:
    """A table of metadata only, made once: each manifest of vectors was written again for one new vector."""
    from pyiceberg.table import StaticTable

    from puffin_fast.iceberg.manifest import manifests_of, read_manifests, write_manifest, write_manifest_list

    table = bench_plan.make(root, PLANNED, bounds=True)
    document = root / "metadata" / "v2.metadata.json"
    if not document.exists():
        io, metadata, parent = table.io, table.metadata, table.metadata.snapshots[0]
        spec, folder = metadata.spec(), f"file://{root}/metadata"
        write = partial(write_manifest, io, metadata=metadata, spec=spec, content=1, snapshot_id=2)
        kept = manifests_of(io, parent)
        made, added = [manifest for manifest in kept if manifest.content == 0], []
        for number, (_, (replaced, *others)) in enumerate(
            read_manifests(io, [manifest for manifest in kept if manifest.content], metadata.specs())
        ):
            entries = [
                replace(replaced, status=2, snapshot_id=2),
                *(replace(one, status=0) for one in others),
            ]
            made.append(write(path=f"{folder}/again{number}.avro", entries=entries))
            vector = replace(
                replaced, status=1, snapshot_id=None, sequence_number=None, file_sequence_number=None
            )
            added.append(replace(vector, file_path=f"{folder}/new.puffin", content_offset=4 + number * 5000))
        made.append(write(path=f"{folder}/added.avro", entries=added))
        ids = {"snapshot_id": 2, "parent_snapshot_id": 1, "sequence_number": 3, "first_row_id": 0}
        write_manifest_list(io, f"{folder}/snap2.avro", manifests=made, format_version=3, **ids)
        content = bench_plan.metadata_of(root)
        newer = {"snapshot-id": 2, "parent-snapshot-id": 1, "sequence-number": 3, "timestamp-ms": 2}
        newer |= {"manifest-list": f"{folder}/snap2.avro", "summary": {"operation": "delete"}}
        content["snapshots"].append(content["snapshots"][0] | newer)
        content |= {"current-snapshot-id": 2, "last-sequence-number": 3}
        content["refs"]["main"]["snapshot-id"] = 2
        document.write_text(json.dumps(content))
    return StaticTable.from_metadata(f"file://{document}")


def plan_job(folder: Path, n_rows: int, n_files: int) -> Contenders:
    """Which files changed, of a table of many; whatever the share."""
    from puffin_fast import iceberg

    table = planned_table(folder / f"plan-{PLANNED}")
    return {
        OURS: checked(lambda: len(iceberg.changes(table, 1).plan[0].files), 10),
        PLAN: checked(lambda: len(iceberg.plan_files(table).tasks), PLANNED),
    }


def delta_job(folder: Path, n_rows: int, n_files: int) -> Contenders:
    """The same lines of a Delta table without a feed."""
    import deltalake

    from puffin_fast import delta

    table, twin = (delta_table(folder, n_rows, n_files, feed=feed) for feed in (False, True))
    start = n_files + 1
    expected = delta.changes(table, start - 1).count()

    def states() -> tuple[pa.Table, pa.Table]:
        return delta.scan(table, snapshot_id=n_files).to_arrow(), delta.scan(table).to_arrow()

    def feed() -> int:
        return pa.table(deltalake.DeltaTable(twin).load_cdf(starting_version=start)).num_rows

    return {
        OURS: checked(lambda: delta.changes(table, start - 1).to_arrow().num_rows, expected),
        POSITIONS: checked(at_positions(delta.changes(table, start - 1)), expected),
        DUCKDB: checked(lambda: compared(states), expected),
        DELTALAKE: checked(feed, expected),
    }


JOBS: dict[str, tuple[Callable[[Path, int, int], Contenders], dict[str, float]]] = {
    ICEBERG_JOB: (iceberg_job, {POSITIONS: 0.5, DUCKDB: 20.0}),
    COUNT_JOB: (count_job, {POSITIONS: 1.0}),
    REWRITE_JOB: (rewrite_job, {DUCKDB: 20.0}),
    PLAN_JOB: (plan_job, {PLAN: 0.5}),
    DELTA_JOB: (delta_job, {POSITIONS: 0.5, DUCKDB: 20.0, DELTALAKE: 2.0}),
}
"""The jobs, with their targets."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("build/bench/changes"))
    parser.add_argument("--share", type=float, default=1.0, help="of the rows and of the files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="the jobs whose name holds this")
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    n_rows, n_files = int(ROWS * options.share), int(FILES * options.share)
    found = {
        (name if name == PLAN_JOB else f"{name}, {n_rows:,} rows in {n_files} files"): measure_job(
            name, make(options.folder.resolve(), n_rows, n_files), options.rounds, targets
        )
        for name, (make, targets) in JOBS.items()
        if all(word in name for word in options.only)
    }
    report(found, options.into)


if __name__ == "__main__":
    main()
