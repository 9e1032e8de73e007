"""The tables of docs/spark-cost.md, made from ``costs.json`` and ``spark.json`` in ``benchmarks/results``."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from benchmarks.bench_spark_costs import COMMITTED, JOB
from benchmarks.figures import FRAME, OURS, RESULTS

FLOOR = "rows to Python, no work"
N_FRAME, N_TABLE, N_CONVERTED = 20_000_000, 40_000_000, 20_000_000
"""Rows of the DataFrame, rows of the table of `bench_spark_tables`, and its position deletes."""

FILES, ROWS, CORES = 10**6, 10**11, 1000
"""The table of the page, and the cluster."""


@cache
def _costs() -> dict[str, Any]:
    """The jobs that were measured, by name; those on Spark are published with others."""
    found: dict[str, Any] = {}
    for name in ("spark.json", "costs.json"):
        found |= json.loads((RESULTS / name).read_text())
    return found


def _driver(vectors: bool) -> dict[str, float]:
    found: dict[str, float] = _costs()[f"{JOB}{'with' if vectors else 'without'} vectors"]
    return found


def _spark(job: str, who: str = OURS) -> dict[str, float]:
    found: dict[str, float] = _costs()[job]["contenders"][who]
    return found


def _digits(number: float) -> str:
    """A number with two or three digits that say something."""
    if number >= 1000:
        return f"{round(number, -len(str(round(number))) + 3):,.0f}"
    return f"{number:.{0 if number >= 20 else 1 if number >= 2 else 2}f}"


def _ns_per_row(job: str, n_rows: int, who: str = OURS) -> float:
    return _spark(job, who)["cpu"] / n_rows * 1e9


_EVEN, _MANY = f"{FRAME}1000 files", f"{FRAME}files of 100 rows"
_DELETE, _CONVERT = "delete on Spark, 1000 files", "convert on Spark, 1000 files"


def unit_costs() -> str:
    """A table of the unit costs."""
    bare, full, worker = _driver(False), _driver(True), _costs()[f"{JOB}of a worker"]
    even, many = (_costs()[f"{JOB}of vectors, {shape}"] for shape in ("even", "many"))
    rows = [
        ("executor", "rows of (file_path, pos) to vectors, all steps, per row, *even*", _ns(_EVEN)),
        ("executor", "the same, *many*", _ns(_MANY)),
        ("executor", "of it: reading Parquet and sending the rows to Python", _ns(_EVEN, who=FLOOR)),
        ("executor", "shuffle, per deleted position, by Spark's metrics, *even*", _shuffled(_EVEN)),
        ("executor", "the same, *many*", _shuffled(_MANY)),
        (
            "executor",
            "writing a vector into a Puffin file, per vector, *even*",
            f"{_digits(even['write_us'])} µs",
        ),
        ("executor", "the same, *many*", f"{_digits(many['write_us'])} µs"),
        ("executor", "in Puffin files, per position, *even*", f"{_digits(even['position_bytes'])} bytes"),
        ("executor", "the same, *many*", f"{_digits(many['position_bytes'])} bytes"),
        (
            "executor",
            "`delete` by a filter, per row of the table: 40M rows in 1000 files, half deleted",
            _ns(_DELETE, N_TABLE),
        ),
        (
            "executor",
            "`convert_position_deletes`, per position: 20M in 1000 files",
            _ns(_CONVERT, N_CONVERTED),
        ),
        ("executor", "reading a data file's task", _both("unpack_us", "µs")),
        (
            "executor",
            "imports of a Python worker; Spark ends workers that are idle for a minute",
            f"{_digits(worker['imports_s'])} s",
        ),
        (
            "executor",
            "memory of a Python worker after its imports",
            f"{worker['imports_bytes'] / 1e6:.0f} MB",
        ),
        ("driver", "planning, per data file", _both("plan_us", "µs")),
        ("driver", "the columns that executors need, per data file", _both("columns_us", "µs")),
        (
            "driver",
            "jobs that find rows: dividing the columns into tasks, per data file",
            _both("bins_us", "µs"),
        ),
        ("driver", "the same: pickling and compressing them", _both("pack_us", "µs")),
        ("driver", "the same: bytes", _both("packed_bytes", "bytes")),
        ("driver", "jobs for given rows: a row to shuffle, per data file", _both("rows_us", "µs")),
        ("driver", "the same: bytes", _both("row_bytes", "bytes")),
        ("driver", "memory of the columns, per data file", _both("columns_bytes", "bytes")),
        ("driver", "making the changes of the commit, per vector", _both("changes_us", "µs")),
        (
            "driver",
            "the commit and its manifests, per first vector of a data file",
            f"{_digits(bare['commit_us'])} µs",
        ),
        ("driver", "the same, per vector that replaces another", f"{_digits(full['commit_us'])} µs"),
    ]
    return _table(("where", "step", "cost"), rows)


def _ns(job: str, n_rows: int = N_FRAME, who: str = OURS) -> str:
    return f"{_digits(_ns_per_row(job, n_rows, who))} ns"


def _shuffled(job: str) -> str:
    return f"{_digits(_spark(job)['shuffle_bytes'] / N_FRAME)} bytes"


def _both(name: str, unit: str) -> str:
    """A cost of a data file without and with a vector."""
    bare, full = (_digits(_driver(vectors)[name]) for vectors in (False, True))
    return f"{bare} {unit}; with a vector {full} {unit}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


def _before(vectors: bool, *steps: str) -> float:
    """µs of the driver for a data file before the job."""
    return sum(_driver(vectors)[step] for step in ("plan_us", "columns_us", *steps))


def _after(vectors: bool) -> float:
    """µs of the driver for a data file after the job."""
    return _driver(vectors)["changes_us"] + _driver(vectors)["commit_us"]


def _sum_of(vectors: bool, *names: str) -> str:
    return " + ".join(_digits(_driver(vectors)[name]) for name in names)


def by_position() -> str:
    """A table of the costs of a delete by position."""
    ns, bytes_shuffled = _ns_per_row(_EVEN, N_FRAME), _spark(_EVEN)["shuffle_bytes"] / N_FRAME
    even, rows, after = (
        _costs()[f"{JOB}of vectors, even"],
        ("plan_us", "columns_us", "rows_us"),
        ("changes_us", "commit_us"),
    )
    seconds, n_bytes = ROWS * ns / 1e9, ROWS * even["position_bytes"]
    first, again = _before(False, "rows_us") + _after(False), _before(True, "rows_us") + _after(True)
    of_columns, of_row = (_driver(True)[name] for name in ("columns_bytes", "row_bytes"))
    lines = [
        (
            "executors",
            f"10^11 rows x {_digits(ns)} ns",
            f"{_digits(seconds)} core seconds; {_digits(seconds / CORES)} s on {CORES} cores",
        ),
        (
            "shuffle, rows ordered by file",
            f"10^11 x {_digits(bytes_shuffled)} bytes",
            f"{_digits(ROWS * bytes_shuffled / 1e9)} GB",
        ),
        (
            "Puffin files",
            f"10^11 x {_digits(even['position_bytes'])} bytes, 64 MB each",
            f"{_digits(n_bytes / 1e9)} GB, {_digits(n_bytes / 64e6)} files",
        ),
        (
            "writing them",
            f"10^6 x {_digits(even['write_us'])} µs",
            f"{_digits(FILES * even['write_us'] / 1e6)} core seconds",
        ),
        (
            "driver, first vectors",
            f"10^6 x ({_sum_of(False, *rows, *after)}) µs",
            f"{_digits(FILES * first / 1e6)} s",
        ),
        (
            "driver, if all files have vectors",
            f"10^6 x ({_sum_of(True, *rows, *after)}) µs",
            f"{_digits(FILES * again / 1e6)} s",
        ),
        (
            "of it before the job",
            f"10^6 x ({_sum_of(True, *rows)}) µs",
            f"{_digits(FILES * _before(True, 'rows_us') / 1e6)} s",
        ),
        (
            "driver, memory",
            f"10^6 x ({_digits(of_columns)} + 2 x {_digits(of_row)}) bytes; rows in Python and in the JVM",
            f"{_digits(FILES * (of_columns + 2 * of_row) / 1e9)} GB, in addition to PyIceberg's metadata",
        ),
    ]
    return _table(("what", "arithmetic", "cost"), lines)


def by_search() -> str:
    """A table of the costs of jobs that find the rows themselves."""
    delete, convert = _ns_per_row(_DELETE, N_TABLE), _ns_per_row(_CONVERT, N_CONVERTED)
    steps = ("plan_us", "columns_us", "bins_us", "pack_us")
    lines = [
        (
            "`delete` of half of each file: 200,000 rows per file",
            f"2 x 10^11 rows x {_digits(delete)} ns",
            f"{_digits(2 * ROWS * delete / 1e9)} core seconds",
        ),
        (
            "`convert_position_deletes`",
            f"10^11 positions x {_digits(convert)} ns",
            f"{_digits(ROWS * convert / 1e9)} core seconds",
        ),
        (
            "driver of `delete`, before the job",
            f"10^6 x ({_sum_of(True, *steps)}) µs",
            f"{_digits(FILES * _before(True, 'bins_us', 'pack_us') / 1e6)} s",
        ),
        (
            "the same, sent to the executors",
            f"10^6 x {_digits(_driver(True)['packed_bytes'])} bytes",
            f"{_digits(FILES * _driver(True)['packed_bytes'] / 1e6)} MB",
        ),
        (
            "driver of both, after the job",
            f"10^6 x ({_sum_of(True, 'changes_us', 'commit_us')}) µs",
            f"{_digits(FILES * _after(True) / 1e6)} s",
        ),
    ]
    return _table(("what", "arithmetic", "cost"), lines)


def where() -> str:
    """Sentences on the machines and the tables."""
    on, of_spark, of_tables = (_cpu(job) for job in (JOB + "with vectors", _EVEN, _DELETE))
    others = "".join(
        f"; {what} on {cpu}"
        for what, cpu in (("rows to vectors", of_spark), ("`delete` by a filter and conversion", of_tables))
        if cpu != on
    )
    return (
        "Costs are CPU time of all processes, on two virtual cores with other load; the JVM is warm. They were\n"
        f"measured on {on}{others}.\n"
        f"Those of the driver are those of a table of 300,000 data files, those of a commit of {COMMITTED:,} vectors.\n"
    )


def _cpu(job: str) -> str:
    name: str = _costs()[job]["machine"]["cpu"]
    return name.replace("(R)", "").replace(" Processor", "").replace("GHz", " GHz")
