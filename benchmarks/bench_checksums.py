"""What the comparison of page checksums adds to the CPU time of a scan. Run as a script; prints JSON.

    python -m benchmarks.bench_checksums                      2M rows of each kind of column, each compression
    python -m benchmarks.bench_checksums --kinds lists        one kind

The same rows are appended to two tables, to one of them without checksums. The scans run in turn.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import report
from benchmarks.rounds import take_turns, timed

if TYPE_CHECKING:
    from pyiceberg.table import Table

CODECS = ("uncompressed", "snappy", "zstd", "gzip", "brotli")
MOST_PERCENT = 2.0
"""Of the CPU time of a scan."""


def column(kind: str, n_rows: int) -> pa.Array:
    """A column of one kind; lists and structs are decoded by PyArrow, the others by this package."""
    chance = np.random.default_rng(0)
    numbers = pa.array(chance.integers(0, 1 << 40, n_rows))
    match kind:
        case "numbers":
            return numbers
        case "nulls":
            return pa.array(chance.integers(0, 1 << 40, n_rows), mask=chance.random(n_rows) < 0.2)
        case "texts":
            return pa.array([f"text number {n}" for n in numbers.to_pylist()])
        case "repeated":
            return pa.array([f"value {n}" for n in chance.integers(0, 1000, n_rows)])
        case "lists":
            offsets = pa.array(np.arange(0, n_rows + 1, 4, dtype=np.int32))
            return pa.ListArray.from_arrays(offsets, numbers)
        case "structs":
            return pa.StructArray.from_arrays([numbers], names=["x"])
    raise ValueError(kind)


KINDS = ("numbers", "nulls", "texts", "repeated", "lists", "structs")


def tables(folder: Path, kind: str, codec: str, n_rows: int) -> dict[str, Table]:
    """The same rows in a table without checksums and in one with them."""
    from pyiceberg.catalog.sql import SqlCatalog

    from puffin_fast import iceberg

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/wh")
    catalog.create_namespace("n")
    rows = pa.table({"c": column(kind, n_rows)})
    options = {"properties": {"write.parquet.compression-codec": codec, "format-version": "2"}}
    without, with_sums = (catalog.create_table(f"n.{name}", rows.schema, **options) for name in ("a", "b"))
    writer = pq.ParquetWriter
    plain = lambda *args, **kwargs: writer(*args, **kwargs | {"write_page_checksum": False})  # noqa: E731
    with mock.patch.object(pq, "ParquetWriter", plain):
        iceberg.append(without, rows)
    iceberg.append(with_sums, rows)
    return {"without checksums": without, "with checksums": with_sums}


def scanned(table: Table, expected: int, _: int) -> float:
    from puffin_fast import iceberg

    figures, found = timed(lambda: iceberg.scan(table).to_arrow())
    assert found.num_rows == expected
    return figures["cpu"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("build/bench/checksums"))
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--codecs", nargs="+", choices=CODECS, default=CODECS)
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    jobs: dict[str, Any] = {}
    for kind in options.kinds:
        for codec in options.codecs:
            made = tables(options.folder.resolve(), kind, codec, options.rows)
            n_rows = options.rows // 4 if kind == "lists" else options.rows
            scans: dict[str, Callable[[int], float]] = {
                name: partial(scanned, table, n_rows) for name, table in made.items()
            }
            samples = take_turns(scans, rounds=options.rounds, warm_up=2)
            without, with_sums = map(statistics.median, samples.values())
            percent = 100 * (with_sums / without - 1)
            jobs[f"scan, {kind}, {codec}"] = {
                "contenders": {name: {"cpu": statistics.median(found)} for name, found in samples.items()},
                "percent": round(percent, 1),
                "met": percent <= MOST_PERCENT,
            }
            print(f"{kind:9} {codec:12} {without * 1e3:7.1f} ms {percent:+5.1f}%", flush=True)
    shutil.rmtree(options.folder, ignore_errors=True)
    report(jobs, options.into)


if __name__ == "__main__":
    main()
