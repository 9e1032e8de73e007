"""Benchmarks of planning, compared with PyIceberg. Run as a script; prints JSON.

    python -m benchmarks.bench_plan                    100,000 data files with as many vectors
    python -m benchmarks.bench_plan --files 1000
    python -m benchmarks.bench_plan --files 300000 --with java    beside Iceberg's Java, whose planning is warm
    python -m benchmarks.bench_plan --files 2500000 --with none

The tables have metadata only. Vectors with path bounds as we and DuckDB write them, and without as Java writes
them: then PyIceberg gives every vector to every data file of the partition, so that job is kept small. The last data
file has no vector, so that one can be committed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from benchmarks.jobs import measure_job
from benchmarks.machine import report
from benchmarks.rounds import OURS, Figures

ROWS_PER_FILE = 40_000
PER_MANIFEST = 10_000
PER_PUFFIN = 1000
PATH_ID = 2147483546
BAR = 10.0
FILES_WITHOUT_BOUNDS = 2000
PYICEBERG, ACCELERATED, JAVA = "PyIceberg", "PyIceberg accelerated", "Iceberg's Java, warm"
MOST_CHECKED = 300_000
"""Tasks of a plan that are made to be checked: of more, they would take most of the memory."""
WARM_UP = 12
"""Plans after which Java's compiler has done its work."""


def metadata_of(root: Path) -> dict[str, Any]:
    """Table metadata of format version 3 with one snapshot, as JSON."""
    snapshot = {
        "snapshot-id": 1,
        "timestamp-ms": 1,
        "sequence-number": 2,
        "first-row-id": 0,
        "added-rows": 0,
        "summary": {"operation": "append"},
        "manifest-list": f"file://{root}/metadata/snap.avro",
        "schema-id": 0,
    }
    columns = [("id", "long"), ("k", "int")]
    fields = [
        {"id": n, "name": name, "required": False, "type": kind} for n, (name, kind) in enumerate(columns, 1)
    ]
    return {
        "format-version": 3,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": f"file://{root}",
        "last-sequence-number": 2,
        "next-row-id": 0,
        "last-updated-ms": 1,
        "last-column-id": 2,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "snapshots": [snapshot],
        "current-snapshot-id": 1,
        "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
    }


def make(root: Path, n_files: int, *, bounds: bool, vectors: bool = True) -> Any:
    """A table of that many data files, all but the last with a vector; made once, then kept."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.table import StaticTable
    from pyiceberg.table.metadata import TableMetadataUtil

    from puffin_fast.iceberg.manifest import write_manifest, write_manifest_list

    document = root / "metadata" / "v1.metadata.json"
    if not document.exists():
        shutil.rmtree(root, ignore_errors=True)
        document.parent.mkdir(parents=True)
        content = metadata_of(root)
        metadata, io = TableMetadataUtil.parse_obj(content), PyArrowFileIO()
        manifests = [
            write_manifest(
                io,
                f"file://{root}/metadata/m{kind}-{start}.avro",
                metadata=metadata,
                spec=metadata.spec(),
                content=kind,
                snapshot_id=1,
                entries=[
                    _vector(root, n, bounds) if kind else _data(root, n)
                    for n in range(start, min(n_files - kind, start + PER_MANIFEST))
                ],
            )
            for kind in range(1 + vectors)
            for start in range(0, n_files, PER_MANIFEST)
        ]
        write_manifest_list(
            io,
            f"file://{root}/metadata/snap.avro",
            snapshot_id=1,
            parent_snapshot_id=None,
            sequence_number=2,
            manifests=manifests,
            first_row_id=0,
            format_version=3,
        )
        document.write_text(json.dumps(content))
    return StaticTable.from_metadata(f"file://{document}")


def _path(root: Path, number: int) -> str:
    return f"file://{root}/data/00000-{number}-abcdef01-2345-6789-abcd-ef0123456789-00001.parquet"


def _entry(content: int, path: str, kind: str, rows: int, size: int, **more: Any) -> Any:
    from puffin_fast.iceberg.manifest import ADDED, ManifestEntry

    return ManifestEntry(ADDED, None, None, None, content, path, kind, 0, (), rows, size, **more)


def _data(root: Path, number: int) -> Any:
    first = number * ROWS_PER_FILE
    return _entry(
        0,
        _path(root, number),
        "PARQUET",
        ROWS_PER_FILE,
        1_000_000,
        column_sizes={1: 500_000, 2: 300_000},
        value_counts={1: ROWS_PER_FILE, 2: ROWS_PER_FILE},
        null_value_counts={1: 0, 2: 0},
        lower_bounds={1: struct.pack("<q", first), 2: struct.pack("<i", 0)},
        upper_bounds={1: struct.pack("<q", first + ROWS_PER_FILE - 1), 2: struct.pack("<i", 9)},
        split_offsets=[4],
    )


def _vector(root: Path, number: int, bounds: bool) -> Any:
    data = _path(root, number)
    bound = {PATH_ID: data.encode()} if bounds else None
    return _entry(
        1,
        f"file://{root}/data/{number // PER_PUFFIN}-deletes.puffin",
        "PUFFIN",
        ROWS_PER_FILE // 2,
        9_000_000,
        lower_bounds=bound,
        upper_bounds=bound,
        referenced_data_file=data,
        content_offset=4 + number % PER_PUFFIN * 5000,
        content_size_in_bytes=5000,
    )


def _vector_of(path: str, n_files: int) -> tuple[str, int] | None:
    """The Puffin file and the offset where `make` says that the vector of a data file is; None of the last file."""
    number = int(path.rpartition("/")[2].split("-")[1])
    if number == n_files - 1:
        return None
    puffin = f"{path.rpartition('/')[0]}/{number // PER_PUFFIN}-deletes.puffin"
    return puffin, 4 + number % PER_PUFFIN * 5000


def contenders(
    table: Any, n_files: int, n_wanted: int | None = None, *, bounds: bool = True
) -> dict[str, Any]:
    """Ours, PyIceberg, and PyIceberg while `accelerate` is on; a filter leaves `n_wanted` neighboring files."""
    from puffin_fast import iceberg

    wanted = n_files if n_wanted is None else n_wanted
    first, last = wanted_ids(n_files, n_wanted)
    where = None if n_wanted is None else f"id >= {first} and id < {last}"

    def checked(found: Sequence[Any], is_right: Callable[[Any], bool]) -> Callable[[], None]:
        def check() -> None:
            assert len(found) == wanted, len(found)
            assert all(map(is_right, found[:: max(1, len(found) // MOST_CHECKED)]))

        return check

    def ours() -> Callable[[], None]:
        plan = iceberg.plan_files(table) if where is None else iceberg.plan_files(table, row_filter=where)
        return checked(plan.tasks, has_its_vector)

    def theirs() -> Callable[[], None]:
        scan = table.scan() if where is None else table.scan(where)
        return checked(list(scan.plan_files()), has_its_puffin_file)

    def has_its_vector(task: Any) -> bool:
        vector = task.vector and (task.vector.file_path, task.vector.content_offset)
        return bool(vector == _vector_of(task.data.file_path, n_files))

    def has_its_puffin_file(task: Any) -> bool:
        """PyIceberg's entries know no offset; without bounds it gives every Puffin file to every data file."""
        puffins = {entry.file_path for entry in task.delete_files}
        vector = _vector_of(task.file.file_path, n_files)
        if vector is None or not bounds:
            return vector is None or vector[0] in puffins
        return puffins == {vector[0]}

    def accelerated() -> Callable[[], None]:
        with iceberg.accelerate():
            return theirs()

    return {OURS: ours, PYICEBERG: theirs, ACCELERATED: accelerated}


class Java:
    """A process of Java that plans scans of a table."""

    def __init__(self, table: Any) -> None:
        from tests import jars

        path = f"{jars.folder('spark')}/*:{files('pyspark')}/jars/*"
        command = [
            "java",
            "-Xmx4g",
            "-cp",
            path,
            Path(__file__).with_name("PlanFiles.java"),
            table.metadata_location,
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def plans(self, n_files: int, n_wanted: int | None = None) -> Callable[[], Figures]:
        """Plans the files that `contenders` plans; the first plans are not measured."""
        first, last = wanted_ids(n_files, n_wanted)

        def plan() -> Figures:
            assert self._process.stdin
            assert self._process.stdout
            self._process.stdin.write(f"{first} {last}\n")
            self._process.stdin.flush()
            found, _, cpu, seconds = map(float, self._process.stdout.readline().split())
            assert found == (n_wanted or n_files)
            return {"seconds": seconds, "cpu": cpu}

        for _ in range(WARM_UP):
            plan()
        return plan

    def close(self) -> None:
        self._process.communicate()


def wanted_ids(n_files: int, n_wanted: int | None) -> tuple[int, int]:
    """The ids of `n_wanted` neighboring files: the first, and the one after the last; equal if all are wanted."""
    if n_wanted is None:
        return 0, 0
    first = (n_files - n_wanted) // 2 * ROWS_PER_FILE
    return first, first + n_wanted * ROWS_PER_FILE


def committed(table: Any, n_files: int) -> dict[str, Any]:
    """Ours deletes one row of one data file; no other library commits deletion vectors by position."""
    from pyiceberg.catalog.memory import InMemoryCatalog

    from puffin_fast import iceberg

    root = Path(table.metadata_location.removeprefix("file://")).parents[1]
    rows = {"file_path": [_path(root, n_files - 1)], "pos": [7]}

    def files() -> set[Path]:
        return {path for path in root.rglob("*") if path.is_file()}

    def ours() -> Callable[[], None]:
        before = files()
        catalog = InMemoryCatalog("bench")
        catalog.create_namespace("n")
        found = iceberg.delete_positions(catalog.register_table("n.t", table.metadata_location), rows)

        def check() -> None:
            for path in files() - before:
                path.unlink()
            assert (found.rows_deleted, found.vectors_written, found.commit.attempts) == (1, 1, 1), found

        return check

    return {OURS: ours}


BOUNDS = {300_000: 0.25, 2_500_000: 7.0}
"""CPU seconds by number of files: to delete a row of one of 300,000, commit included; to plan 2,500,000."""


def beside_java(table: Any, n: int, options: argparse.Namespace) -> dict[str, Any]:
    """Plans and a delete beside Iceberg's Java, or beside the CPU time that they may take."""
    java = Java(table) if options.peer == "java" else None
    bound, found = {f"{BOUNDS[n]:g} s": BOUNDS[n]} if n in BOUNDS else {}, {}
    for name, wanted, target in (
        ("plan {} files with as many vectors", None, 3.0),
        ("plan 10 of {} files", 10, 20.0),
    ):
        ours, job = {OURS: contenders(table, n, wanted)[OURS]}, name.format(n)
        if java:
            peer = {JAVA: java.plans(n, wanted)}
            found[job] = measure_job(job, ours, options.rounds, {JAVA: target}, elsewhere=peer)
        else:
            limits = {} if wanted else bound
            found[job] = measure_job(job, ours, options.rounds, dict.fromkeys(limits, 1.0), bounds=limits)
    if java:
        job = f"delete a row of one of {n} files"
        found[job] = measure_job(
            job, committed(table, n), options.rounds, dict.fromkeys(bound, 1.0), bounds=bound
        )
        java.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("build/bench/plan"))
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--with", dest="peer", default="pyiceberg", choices=["pyiceberg", "java", "none"])
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    n, few, folder = options.files, min(options.files, FILES_WITHOUT_BOUNDS), options.folder.resolve()
    bounded = make(folder / f"paths-{n}", n, bounds=True)
    if options.peer != "pyiceberg":
        report(beside_java(bounded, n, options), options.into)
        return
    unbounded = make(folder / f"no-paths-{few}", few, bounds=False)
    jobs = {
        f"plan {n} files with as many vectors": contenders(bounded, n),
        f"plan a tenth of {n} files": contenders(bounded, n, n // 10),
        f"plan 10 of {n} files": contenders(bounded, n, 10),
        f"delete a row of one of {n} files": committed(bounded, n),
        f"plan {few} files with vectors without bounds": contenders(unbounded, few, bounds=False),
    }
    report(
        {
            job: measure_job(job, those, options.rounds, {PYICEBERG: BAR} if PYICEBERG in those else {})
            for job, those in jobs.items()
        },
        options.into,
    )


if __name__ == "__main__":
    main()
