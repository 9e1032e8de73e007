"""Benchmarks of scans of one large data file with deletes, compared with other engines. Run as a script; prints JSON.

    python -m benchmarks.bench_scan                       10M rows with 0, 100k, 1M and 5M deletes
    python -m benchmarks.bench_scan --with pyiceberg      beside PyIceberg and Polars, plain and accelerated

The scan of 1000 data files beside DuckDB is a job of `bench_iceberg`.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.jobs import Contenders, measure_job
from benchmarks.machine import report
from benchmarks.rounds import OURS
from benchmarks.timing import Case, Target, measure

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast import PositionBitmap

NONE_DELETED = "no deletes"
SHARES = {"100k": 0.01, "1M": 0.1, "5M": 0.5}
"""Names at full size, and the share of the rows that is deleted."""


def tables(folder: Path, n_rows: int) -> dict[str, Table]:
    """A table without deletes, and one per share; made once, then kept."""
    from pyiceberg.catalog.sql import SqlCatalog

    from puffin_fast import iceberg

    root = folder / f"rows-{n_rows}"
    new = not (root / "done").exists()
    if new:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/wh")
    names = {NONE_DELETED: "n.none", **{name: f"n.t{name}" for name in SHARES}}
    if new:
        catalog.create_namespace("n")
        rng = np.random.default_rng(0)
        rows = pa.table({"id": np.arange(n_rows), "k": rng.integers(0, 1000, n_rows, dtype=np.int32)})
        for name, identifier in names.items():
            table = iceberg.create_table(catalog, identifier, rows.schema)
            iceberg.append(table, rows)
            if name in SHARES:
                (task,) = iceberg.plan_files(table).tasks
                deleted = rng.choice(n_rows, int(n_rows * SHARES[name]), replace=False)
                paths = pa.DictionaryArray.from_arrays(
                    pa.array(np.zeros(len(deleted), np.int32)), [task.data.file_path]
                )
                iceberg.delete_positions(
                    table, pa.table({"file_path": paths.cast(pa.string()), "pos": deleted})
                )
        (root / "done").touch()
    return {name: catalog.load_table(identifier) for name, identifier in names.items()}


def contenders(table: Table, none: Table, beside: bool) -> Contenders:
    """Scans of a table with deletes, and ours of the same rows without any."""
    from puffin_fast import iceberg
    from puffin_fast.puffin.vectors import read_vector

    n_rows = iceberg.scan(none).to_arrow().num_rows
    (vector,) = [task.vector for task in iceberg.plan_files(table).tasks]
    left = np.arange(n_rows)  # the ids
    if vector is not None:
        where = vector.file_path, vector.content_offset, vector.content_size_in_bytes
        left = left[~read_vector(*where, filesystem=table.io).mask(n_rows).astype(bool)]

    def checked(found: pa.Table, ids: Any) -> Callable[[], None]:
        def check() -> None:
            assert (found["id"].to_numpy() == ids).all(), found.num_rows
            assert found["k"].null_count == 0

        return check

    def accelerated() -> Any:
        with iceberg.accelerate():
            return checked(table.scan().to_arrow(), left)

    result: Contenders = {
        OURS: lambda: checked(iceberg.scan(table).to_arrow(), left),
        NONE_DELETED: lambda: checked(iceberg.scan(none).to_arrow(), np.arange(n_rows)),
        "PyIceberg accelerated": accelerated,
    }
    if beside:
        result["PyIceberg"] = lambda: checked(table.scan().to_arrow(), left)
    return result


def vectors(table: Table, expected: int) -> dict[str, Contenders]:
    """One vector to a mask of its data file's rows, NumPy's of bytes and Arrow's of bits, which its filters take;
    and Polars' own function that loads vectors."""
    from polars.io.iceberg._utils import load_puffin_deletion_file
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
    from pyiceberg.table.puffin import PuffinFile

    from puffin_fast import iceberg
    from puffin_fast.puffin.vectors import read_vector

    (task,) = iceberg.plan_files(table).tasks
    assert task.vector is not None
    vector, n_rows = task.vector, task.data.record_count
    offset, length = vector.content_offset, vector.content_size_in_bytes
    assert offset is not None
    assert length is not None
    local = Path(vector.file_path.removeprefix("file://"))
    mask = np.zeros(n_rows, bool)  # of both, so that neither pays for fresh memory

    def read() -> PositionBitmap:
        return read_vector(vector.file_path, offset, length, filesystem=table.io)

    def ours() -> np.ndarray[Any, Any]:
        return read().mask(n_rows, out=mask)

    def theirs() -> np.ndarray[Any, Any]:
        (found,) = deletion_vectors_from_puffin_file(PuffinFile(local.read_bytes()))
        mask[:] = False
        mask[found.to_vector().to_numpy()] = True
        return mask

    def our_bits() -> pa.BooleanArray:
        bits = pa.py_buffer(read().mask_packed(n_rows))
        return pa.BooleanArray.from_buffers(pa.bool_(), n_rows, [None, bits])

    def their_bits() -> pa.BooleanArray:
        return pa.array(theirs())

    assert ours().sum() == expected
    assert (ours().copy() == theirs()).all()
    assert our_bits().equals(their_bits())

    def polars() -> None:
        ((_, _, positions),) = load_puffin_deletion_file(local.read_bytes())
        assert len(positions) == expected

    def polars_accelerated() -> None:
        with iceberg.accelerate():
            polars()

    return {
        "vector to mask": {OURS: ours, "PyIceberg": theirs},
        "vector to Arrow mask": {OURS: our_bits, "PyIceberg": their_bits},
        "Polars loads a vector": {OURS: polars_accelerated, "Polars": polars},
    }


def short(job: str, those: Contenders, targets: dict[str, float]) -> dict[str, Any]:
    """A job of milliseconds: each call is repeated, and medians are taken."""
    peers = tuple(Target(peer, ratio) for peer, ratio in targets.items() if peer in those)
    result = measure(Case(job, "one vector", "vector", 1, lambda: those, peers), budget_s=3)
    return {
        "contenders": {name: {"cpu": ns / 1e9} for name, ns in result.ns_per_unit.items()},
        "targets": [
            {"peer": target.peer, "target": target.ratio, "ratio": ratio, "met": met}
            for target, ratio, met in result.verdicts()
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("build/bench/scan"))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--with", dest="beside", action="append", default=[], choices=["pyiceberg"])
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    made, n = tables(options.folder.resolve(), options.rows), options.rows
    jobs = {}
    for name in SHARES:
        beside = bool(options.beside) and name == "1M"
        targets = {NONE_DELETED: 1 / 1.3, "PyIceberg": 40.0}
        job, those = f"scan, {name} deleted", contenders(made[name], made[NONE_DELETED], beside)
        jobs[job] = measure_job(job, those, 1 if beside else options.rounds, targets)
        if beside:
            found = jobs[job]["contenders"]
            ratio = found["PyIceberg"]["cpu"] / found["PyIceberg accelerated"]["cpu"]
            verdict = {
                "peer": "PyIceberg, to accelerated",
                "target": 20.0,
                "ratio": ratio,
                "met": ratio >= 20,
            }
            jobs[job]["targets"].append(verdict)
    for job, those in vectors(made["1M"], int(n * SHARES["1M"])).items():
        jobs[job] = short(job, those, {"PyIceberg": 100.0, "Polars": 20.0})
    report(jobs, options.into)


if __name__ == "__main__":
    main()
