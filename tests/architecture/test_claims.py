"""Each ratio in the tables of README.md and docs/performance.md is one of benchmarks/results, rounded as shown."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"

JAVA, TABLE_STATS = "Java on Spark local[2]", "Java compute_table_stats"
DISTINCT = "DuckDB approx_count_distinct"
NUMPY, SCATTER = "pyroaring from NumPy", "pyroaring decode + NumPy scatter"


def kernels(job: str, workloads: str, peer: str, count: str = "10,000,000") -> list[tuple[str, str]]:
    return [(f"{job} | {letter} {count}", peer) for letter in workloads]


LINEITEM = "lineitem at scale 0.5, "
SHARED = {
    "encode 10M positions: sparse, 10%, 50%": kernels("encode sorted", "abc", NUMPY),
    "decode the same, all checks on": kernels("decode, out=", "abc", "pyroaring"),
    "scan 10M rows, 1M deleted, into Arrow": [("scan, 1M deleted", "PyIceberg")],
    "scan 40M rows in 1000 files, half deleted": [("scan, 1000 files", "DuckDB")],
    "scan 3M rows of lineitem, 16 columns: 10% deleted; 95% deleted": [
        (LINEITEM + "all columns", "DuckDB"),
        (LINEITEM + "95% deleted", "DuckDB"),
    ],
    "delete half of 40M rows by a filter": [
        ("delete half, 1000 files", "DuckDB"),
        ("delete half, 1000 files", JAVA),
    ],
    "convert 20M position deletes to deletion vectors": [("convert, 1000 files", JAVA)],
    "the same on Spark `local[2]`": [("convert on Spark, 1000 files", JAVA)],
    "NDV statistics of 12M rows x 16 columns": [
        ("NDV, lineitem x 2", TABLE_STATS),
        ("NDV, lineitem x 2", DISTINCT),
    ],
}
PERFORMANCE = {
    "encode sorted: sparse, 10%, 50%, runs, contiguous, 64 keys": kernels("encode sorted", "abcdef", NUMPY),
    "encode shuffled: 10%, sparse in 4G": kernels("encode unsorted", "gh", "CRoaring"),
    "decode, all checks on, into `out=`: the same six": kernels("decode, out=", "abcdef", "pyroaring"),
    "packed mask: 10%, 50%, runs": kernels("packed mask", "bcd", SCATTER),
    "union of two blobs: sparse, 10%, 50% (target 3), runs": kernels("union of 2", "abcd", "CRoaring"),
    "contains, 2M random queries: the first six": kernels("contains, random queries", "abcdef", "CRoaring"),
    "200,000 vectors of 100 positions": [("batch encode | 200,000 vectors of 100", "loop")],
    "40M rows in 1000 files, half deleted, into Arrow (target 1.3)": [("scan, 1000 files", "DuckDB")],
    "of 40M rows in 1000 files, deleting 2M by keys; upserting 2M (target 2); updating 1% by a filter (target 2)": [
        ("delete 5% by key, 1000 files", "DuckDB"),
        ("upsert 5%, 1000 files", "DuckDB"),
        ("update 1%, 1000 files", "DuckDB"),
    ],
    "3M rows of lineitem into Arrow: 10% deleted; 95% deleted (target 3)": [
        (LINEITEM + "all columns", "DuckDB"),
        (LINEITEM + "95% deleted", "DuckDB"),
    ],
    "the same, 10% deleted: 3 columns; 11 numeric columns (target 2); a filter that 2% pass (target 1.5)": [
        (LINEITEM + "3 columns", "DuckDB"),
        (LINEITEM + "11 numeric columns", "DuckDB"),
        (LINEITEM + "2% filter", "DuckDB"),
    ],
    "deleting what that filter selects of the same rows": [(LINEITEM + "delete by the 2% filter", "DuckDB")],
    "10M rows, 1M deleted, into Arrow: `scan`; PyIceberg's own scan under `accelerate()`": [
        ("scan, 1M deleted", "PyIceberg"),
        ("scan, 1M deleted", "PyIceberg, to accelerated"),
    ],
    "planning 100,000 files with as many vectors; with a filter that a tenth pass": [
        ("plan 100000 files with as many vectors", "PyIceberg"),
        ("plan a tenth of 100000 files", "PyIceberg"),
    ],
    "one vector to a mask of bits; of bytes (target 100)": [
        ("vector to Arrow mask", "PyIceberg"),
        ("vector to mask", "PyIceberg"),
    ],
    "deleting half of 40M rows; then a third of the rest": [
        ("delete half, 1000 files", "DuckDB"),
        ("delete a third, 1000 files", "DuckDB"),
    ],
    "the same | Iceberg's Java on Spark": [
        ("delete half, 1000 files", JAVA),
        ("delete a third, 1000 files", JAVA),
    ],
    "20M position deletes of 1000 files to vectors": [("convert, 1000 files", JAVA)],
    "the same, a delete by a filter, 2M keys, all on Spark": [
        ("convert on Spark, 1000 files", JAVA),
        ("delete on Spark, 1000 files", JAVA),
        ("keys on Spark, 1000 files", JAVA),
    ],
    "20M rows of a DataFrame to vectors, on Spark: 1000 files, half in one, 200,000 files": [
        ("DataFrame to vectors, 20,000,000 rows, 1000 files", "naive pyroaring"),
        ("DataFrame to vectors, 20,000,000 rows, 1000 files, half in one", "naive pyroaring"),
        ("DataFrame to vectors, 20,000,000 rows, files of 100 rows", "naive pyroaring"),
    ],
    "Delta, 10M rows with 1M deleted into Arrow: 10 files; 1000; 5000": [
        ("Delta scan, 10 files", "DuckDB"),
        ("Delta scan, 1000 files", "DuckDB"),
        ("Delta scan, 5000 files", "DuckDB"),
    ],
    "the same 10 files": [
        ("Delta scan, 10 files", "deltalake"),
        ("Delta scan, 10 files", "Polars"),
    ],
    "Delta, 1000 files of 100 rows (target 1)": [("Delta scan, 1000 tiny files", "DuckDB")],
    "Delta, planning 100,000 files with as many vectors and a filter that none passes": [
        ("Delta plan, a filter", "DuckDB"),
        ("Delta plan, a filter", "deltalake"),
    ],
    "the same without a filter, as columns; beside the peers' filter": [
        ("Delta plan", "DuckDB"),
        ("Delta plan", "deltalake"),
    ],
    "the same as 100,000 objects": [
        ("Delta plan, as objects", "DuckDB"),
        ("Delta plan, as objects", "deltalake"),
    ],
    "Delta, deleting 1M of 10M rows in 10 files (target 20)": [("Delta delete", "deltalake")],
    "NDV statistics of 12M rows x 16 columns; without dictionary pages (AVX-512)": [
        ("NDV, lineitem x 2", TABLE_STATS),
        ("NDV, decoding, lineitem x 2", TABLE_STATS),
    ],
    "the same | DuckDB's `approx_count_distinct`": [
        ("NDV, lineitem x 2", DISTINCT),
        ("NDV, decoding, lineitem x 2", DISTINCT),
    ],
    "the same on Spark `local[2]`": [("NDV on Spark, lineitem x 2", TABLE_STATS)],
    "NDV statistics after an append of 1%": [("NDV, append of 1%, lineitem x 2", "full run")],
}
CLAIMS = {"README.md": SHARED, "docs/performance.md": PERFORMANCE}
"""By document and the first cell of a row (with the second, where rows share it) the cases and peers of its ratios."""

ELSEWHERE = ("sketches of 12M values in memory",)
"""Rows whose figures are printed by a command that the page names, and not stored."""


@cache
def measured() -> dict[tuple[str, str], float]:
    """The CPU ratios by case and peer."""
    found: dict[tuple[str, str], float] = {}
    for file in ("tables.json", "spark.json"):
        cases: dict[str, dict[str, Any]] = json.loads((RESULTS / file).read_text())
        for case, result in cases.items():
            contenders = result["contenders"]
            for peer, contender in contenders.items():
                found[case, peer] = contender.get("cpu", 0) / contenders["puffin_fast"]["cpu"]
            for target in result["targets"]:
                found[case, target["peer"]] = target.get("cpu_ratio", target["ratio"])
    for row in json.loads((RESULTS / "results.json").read_text())["rows"]:
        for peer, ratio in row["ratios"].items():
            found[f"{row['job']} | {row['workload']}", peer] = ratio
    return found


def rows(document: str) -> list[tuple[str, str, list[str]]]:
    """The rows of the tables with a column of ratios: first cell, second cell, ratios as they are shown."""
    found, is_table = [], False
    for line in (ROOT / document).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells[-1:] == ["times faster"]:
            is_table = True
        elif not cells:
            is_table = False
        elif is_table and not set(cells[-1]) <= {"-"}:
            found.append((cells[0], cells[1], re.findall(r"\d+(?:\.\d+)?", cells[-1])))
    return found


ROWS = [pytest.param(name, *row, id=f"{name}: {row[0]}, {row[1]}") for name in CLAIMS for row in rows(name)]


def test_the_tables_are_found() -> None:
    for document, claims in CLAIMS.items():
        assert len(rows(document)) >= len(claims)


@pytest.mark.parametrize(("document", "job", "peer", "shown"), ROWS)
def test_a_ratio_is_a_measured_one(document: str, job: str, peer: str, shown: list[str]) -> None:
    if job.startswith(ELSEWHERE):
        return
    claims = CLAIMS[document]
    cases = claims.get(f"{job} | {peer}") or claims[job]
    ratios = [measured()[case] for case in cases]
    digits = [len(number.partition(".")[2]) for number in shown]
    assert shown == [f"{ratio:.{places}f}" for ratio, places in zip(ratios, digits, strict=True)]
