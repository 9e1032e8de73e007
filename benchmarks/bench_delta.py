"""Benchmarks of Delta tables with deletion vectors, compared with other engines. Run as a script; prints JSON.

    python -m benchmarks.bench_delta                     all jobs at full size
    python -m benchmarks.bench_delta --only plan         the jobs whose name holds this; given twice, both
    python -m benchmarks.bench_delta --share 0.1         a tenth of the rows and of the planned files

Contenders take turns in one process; `cpu` is what targets are about. deltalake and Polars were seen to hang on tables
with many vectors, so they do not read these. The table of the planning job has metadata only: DuckDB and
deltalake plan it with a filter that no file passes, and deltalake also lists the files, without their vectors.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.engines import duckdb_with_delta
from benchmarks.jobs import Contenders, measure_job
from benchmarks.machine import report
from benchmarks.rounds import OURS

DELETED = 0.1
"""Share of the rows that is deleted, at random."""
FILES = 10
"""Data files of the table of the large scan and of the delete."""
MANY = (1000, 5000)
TINY_ROWS = 100
PLANNED = 100_000
PER_COMMIT = 10_000
ROWS_PER_PLANNED = 40_000
JOBS = (
    "Delta scan, 10 files",
    *(f"Delta scan, {n} files" for n in MANY),
    "Delta scan, 1000 tiny files",
    "Delta plan",
    "Delta plan, as objects",
    "Delta plan, a filter",
    "Delta delete",
)
"""The names of all jobs."""
DUCKDB, DELTALAKE, POLARS, LISTING = "DuckDB", "deltalake", "Polars", "deltalake, files only"
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int32())])


# Tables ------------------------------------------------------------------------------------------------------


def _header() -> Iterator[dict[str, Any]]:
    """The actions of a new table with deletion vectors."""
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    yield {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("k", "integer"))
    ]
    metadata = {
        "id": str(uuid.UUID(int=0)),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {"delta.enableDeletionVectors": "true"},
        "createdTime": 1,
    }
    yield {"metaData": metadata}


def _add(path: str, size: int, first: int, n_rows: int, vector: dict[str, Any] | None) -> dict[str, Any]:
    stats = {
        "numRecords": n_rows,
        "minValues": {"id": first, "k": 0},
        "maxValues": {"id": first + n_rows - 1, "k": 999},
        "nullCount": {"id": 0, "k": 0},
        "tightBounds": vector is None,
    }
    found = {
        "path": path,
        "partitionValues": {},
        "size": size,
        "modificationTime": 1,
        "dataChange": True,
        "stats": json.dumps(stats, separators=(",", ":")),
    }
    return {"add": found if vector is None else {**found, "deletionVector": vector}}


def _write_log(root: Path, adds: Sequence[dict[str, Any]]) -> None:
    """Commits of at most `PER_COMMIT` files."""
    log = root / "_delta_log"
    log.mkdir()
    for version, start in enumerate(range(0, len(adds), PER_COMMIT)):
        actions = [*(_header() if version == 0 else ()), *adds[start : start + PER_COMMIT]]
        text = "\n".join(json.dumps(action, separators=(",", ":")) for action in actions)
        (log / f"{version:020d}.json").write_text(text + "\n")


class _Vectors:
    """The vectors of a table, in one `.bin` file."""

    def __init__(self) -> None:
        self.name, self.data = uuid.UUID(int=1), bytearray(b"\1")

    def descriptor(self, positions: np.ndarray[Any, Any]) -> dict[str, Any]:
        from puffin_fast import PositionBitmap, dv

        record = dv.delta.encode(PositionBitmap.from_positions(positions))
        self.data += record
        return {
            "storageType": "u",
            "pathOrInlineDv": dv.delta.z85_encode(self.name.bytes),
            "offset": len(self.data) - len(record),
            "sizeInBytes": len(record) - 8,
            "cardinality": len(positions),
        }

    def write(self, root: Path) -> None:
        (root / f"deletion_vector_{self.name}.bin").write_bytes(self.data)


def rows_table(folder: Path, n_files: int, n_rows: int, *, deleted: float) -> Path:
    """Makes a table with the given numbers of rows and files, once."""
    root = folder / f"rows-{n_files}-{n_rows}-{deleted:g}"
    if not (root / "_delta_log").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        rng, vectors, adds, per_file = np.random.default_rng(0), _Vectors(), [], n_rows // n_files
        for number in range(n_files):
            first = number * per_file
            ids, k = np.arange(first, first + per_file), rng.integers(0, 1000, per_file, dtype=np.int32)
            path = root / f"part-{number:05d}.snappy.parquet"
            pq.write_table(pa.table([ids, k], schema=SCHEMA), path, compression="snappy")
            gone = np.flatnonzero(rng.random(per_file) < deleted)
            vector = vectors.descriptor(gone) if len(gone) else None
            adds.append(_add(path.name, path.stat().st_size, first, per_file, vector))
        vectors.write(root)
        _write_log(root, adds)
    return root


def planned_table(folder: Path, n_files: int) -> Path:
    """Makes a table that has only a log, with the given number of files with vectors, once."""
    root = folder / f"planned-{n_files}"
    if not (root / "_delta_log").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        vectors = _Vectors()
        vector = vectors.descriptor(np.arange(0, ROWS_PER_PLANNED, 10))
        adds = []
        for number in range(n_files):
            own = vector | {"pathOrInlineDv": _file_name(number // 1000), "offset": 1 + number % 1000 * 64}
            path = f"part-{number:05d}-abcdef01-2345-6789-abcd-ef0123456789-c000.snappy.parquet"
            adds.append(_add(path, 1_000_000, number * ROWS_PER_PLANNED, ROWS_PER_PLANNED, own))
        _write_log(root, adds)
    return root


def _file_name(number: int) -> str:
    from puffin_fast import dv

    return dv.delta.z85_encode(uuid.UUID(int=number).bytes)


# Jobs --------------------------------------------------------------------------------------------------------


def scan_job(duckdb: Any, table: Path, *, others: bool) -> Contenders:
    """All live rows into Arrow."""
    import deltalake
    import polars

    from puffin_fast import delta

    query = f"FROM delta_scan('{table}')"
    n_rows, total = duckdb.sql(f"SELECT count(id), sum(id)::BIGINT FROM ({query})").fetchone()

    def checked(found: pa.Table) -> Callable[[], None]:
        def check() -> None:
            assert (found.num_rows, pc.sum(found["id"]).as_py()) == (n_rows, total)

        return check

    def with_deltalake() -> Any:
        builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table)))
        return checked(pa.table(builder.execute("SELECT * FROM t").read_all()))

    found: Contenders = {
        OURS: lambda: checked(delta.scan(table).to_arrow()),
        DUCKDB: lambda: checked(duckdb.sql(query).to_arrow_table()),
    }
    if others:
        found[DELTALAKE] = with_deltalake
        found[POLARS] = lambda: checked(polars.scan_delta(str(table)).collect().to_arrow())
    return found


def plan_job(
    duckdb: Any, table: Path, n_files: int, *, filtered: bool = False, objects: bool = False
) -> Contenders:
    """The files of a scan, each with the location of its vector, as columns or as objects; or those that a filter
    leaves, which are none."""
    import deltalake

    from puffin_fast import delta

    def ours() -> None:
        scan = delta.scan(table, "id < 0") if filtered else delta.scan(table)
        if objects:
            tasks = list(scan.tasks())
            n_vectors = sum(task.vector is not None for task in tasks)
        else:
            files = scan.files()
            n_vectors = files.num_rows - files["vector_path"].null_count
        assert n_vectors == (0 if filtered else n_files)

    def with_duckdb() -> Any:
        found = duckdb.sql(f"SELECT id FROM delta_scan('{table}') WHERE id < 0").fetchall()
        assert found == []

    def with_deltalake() -> Any:
        builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table)))
        assert pa.table(builder.execute("SELECT id FROM t WHERE id < 0").read_all()).num_rows == 0

    def listing() -> Any:
        found = pa.table(deltalake.DeltaTable(str(table)).get_add_actions(flatten=True))
        assert found.num_rows == n_files

    return {OURS: ours, DUCKDB: with_duckdb, DELTALAKE: with_deltalake, LISTING: listing}


def delete_job(folder: Path, table: Path, runs: int) -> Contenders:
    """A tenth of the rows of every file, each time from a new copy of the table, whose data files are links."""
    import deltalake

    from puffin_fast import delta

    shutil.rmtree(folder, ignore_errors=True)
    n_rows = delta.scan(table).to_arrow().num_rows
    expected = delta.scan(table, "k < 100").to_arrow().num_rows
    copies = itertools.count()

    def copied() -> Path:
        return Path(shutil.copytree(table, folder / str(next(copies)), copy_function=os.link))

    ready = {name: iter([copied() for _ in range(runs)]) for name in (OURS, DELTALAKE)}

    def checked(copy: Path, deleted: int) -> Callable[[], None]:
        def check() -> None:
            assert deleted == expected
            assert delta.scan(copy).to_arrow().num_rows == n_rows - expected
            shutil.rmtree(copy)

        return check

    def ours() -> Any:
        copy = next(ready[OURS])
        return checked(copy, delta.delete(copy, "k < 100").rows_deleted)

    def with_deltalake() -> Any:
        copy = next(ready[DELTALAKE])
        return checked(copy, deltalake.DeltaTable(str(copy)).delete("k < 100")["num_deleted_rows"])

    return {OURS: ours, DELTALAKE: with_deltalake}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("build/bench/delta"))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--share", type=float, default=1.0, help="of the rows and of the planned files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="the jobs whose name holds this")
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    folder, rounds = options.folder.resolve(), options.rounds
    n_rows, n_planned = int(options.rows * options.share), int(PLANNED * options.share)
    ahead = {DUCKDB: 1.0, DELTALAKE: 1.0, POLARS: 1.0}
    with ExitStack() as stack:
        duckdb = stack.enter_context(duckdb_with_delta())

        def scan_of(n_files: int, rows: int, *, others: bool = False) -> Contenders:
            return scan_job(duckdb, rows_table(folder, n_files, rows, deleted=DELETED), others=others)

        def plan_of(**options: bool) -> Contenders:
            return plan_job(duckdb, planned_table(folder, n_planned), n_planned, **options)

        def delete() -> Contenders:
            table = rows_table(folder, FILES, n_rows, deleted=0)
            return delete_job(folder / "deletes", table, rounds + 1)

        makers: list[tuple[Callable[[], Contenders], dict[str, float]]] = [
            (lambda: scan_of(FILES, n_rows, others=True), ahead),
            *((partial(scan_of, n, n_rows), ahead) for n in MANY),
            (lambda: scan_of(MANY[0], MANY[0] * TINY_ROWS), ahead),
            (plan_of, {**ahead, LISTING: 1.0}),
            (lambda: plan_of(objects=True), {**ahead, LISTING: 1.0}),
            (lambda: plan_of(filtered=True), ahead),
            (delete, {DELTALAKE: 20.0}),
        ]
        found = {
            name: measure_job(name, make(), rounds, targets)
            for name, (make, targets) in zip(JOBS, makers, strict=True)
            if all(word in name for word in options.only)
        }
    report(found, options.into)


if __name__ == "__main__":
    main()
