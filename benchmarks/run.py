"""Runs all cases and their peers, prints whether each target is met, writes JSON and plots.

    python -m benchmarks.run                 everything, with the targets, into build/bench
    python -m benchmarks.run --quick         a smoke run: middle sizes, no targets
    python -m benchmarks.run -k union        only cases whose name holds a word
    python -m benchmarks.run --publish       writes into benchmarks/results, which the README shows

``PUFFIN_FAST_REALDATA=…`` adds CRoaring's real sets: a folder with one folder of ``.txt`` files for each set. The
cases of two threads need two free cores; beside other work, ``chrt -f 5 python -m benchmarks.run -k threads`` gives
them two.

Cases whose name holds ``NDV`` are those of `bench_theta` on a table; they need Iceberg's jar for Spark and take
minutes. Those whose name holds ``Delta`` are the jobs of `bench_delta`; ``lineitem``, of `bench_lineitem` on 3M rows;
``object store``, of `bench_object_store`. All stand in ``tables.json``.

The part ``portable`` runs the cases that have targets once more in a process whose kernels are held to the
portable C path; half of each target is asked of it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import benchmarks
from benchmarks import bench_lineitem, bench_object_store
from benchmarks.bench_delta import JOBS as DELTA_JOBS
from benchmarks.machine import machine
from benchmarks.rounds import OURS
from benchmarks.timing import Case, Result, measure

HERE = Path(__file__).parent
PORTABLE = "portable"
NDV = "NDV"
PORTABLE_SHARE = 0.5
"""The share of a target that the portable path must reach."""

WITHOUT_TARGET_BUDGET_S, TARGET_BUDGET_S, QUICK_BUDGET_S = 0.4, 1.5, 0.05


def collect(quick: bool, words: list[str]) -> list[Case]:
    """The cases of every ``bench_*`` module that lists some."""
    found: list[Case] = []
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if module.name.startswith("bench_"):
            listed: Callable[[bool], list[Case]] | None = getattr(
                importlib.import_module(f"benchmarks.{module.name}"), "cases", None
            )
            found += listed(quick) if listed else []
    wanted = [case for case in found if all(word in case.name for word in words)]
    return [replace(case, targets=()) for case in wanted] if quick else wanted


def run(cases: list[Case], *, quick: bool, share: float) -> list[dict[str, Any]]:
    """Measures and prints the cases; a job's name stands above its workloads."""
    rows = []
    job = ""
    for case in cases:
        if case.job != job:
            job = case.job
            print(f"\n{job}, ns per {case.unit}", flush=True)
        budget = QUICK_BUDGET_S if quick else TARGET_BUDGET_S if case.targets else WITHOUT_TARGET_BUDGET_S
        try:
            result = measure(case, budget)
        except Exception as error:  # one broken case must not hide the others; the run fails in the end
            print(f"  {case.workload:<34} FAILED {type(error).__name__}: {error}", flush=True)
            rows.append({"job": case.job, "workload": case.workload, "error": repr(error)})
            continue
        rows.append(_row(result, share))
        print(_line(result, share), flush=True)
    return rows


def _row(result: Result, share: float) -> dict[str, Any]:
    case = result.case
    return {
        "job": case.job,
        "workload": case.workload,
        "unit": case.unit,
        "count": case.count,
        "rounds": result.rounds,
        "ns_per_unit": result.ns_per_unit,
        "ratios": {peer: result.ratio(peer) for peer in result.ns_per_unit if peer != OURS},
        "targets": [
            {
                "peer": target.peer,
                "target": target.ratio * share,
                "ratio": ratio,
                "met": ratio >= target.ratio * share,
            }
            for target, ratio, _ in result.verdicts()
        ],
    }


def _line(result: Result, share: float) -> str:
    text = f"  {result.case.workload:<34} {result.ns_per_unit[OURS]:>9.3f}"
    for peer, value in result.ns_per_unit.items():
        if peer != OURS:
            text += f" | {peer} {value:.3f} ({result.ratio(peer):.1f}x)"
    for target, ratio, _ in result.verdicts():
        asked = target.ratio * share
        text += f"\n  {'':<34} target {asked:g}x {target.peer}: {ratio:.2f}x {'met' if ratio >= asked else 'MISSED'}"
    return text


def _portable(words: list[str]) -> dict[str, Any]:
    """The same cases in a process of the portable kernels."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            sys.executable,
            "-m",
            "benchmarks.run",
            "--only-with-targets",
            "--part",
            PORTABLE,
            "--out",
            scratch,
        ]
        words_given = [part for word in words for part in ("-k", word)]
        environment = os.environ | {"PUFFIN_FAST_SIMD": PORTABLE}
        subprocess.run([*command, *words_given], env=environment, check=False)
        written = Path(scratch) / "results.json"
        return (
            dict(json.loads(written.read_text())) if written.exists() else {"rows": [{"error": "no result"}]}
        )


def ndv(out: Path, *, quick: bool) -> list[dict[str, Any]]:
    """NDV statistics of a table, in a process that may start Spark."""
    options = ["--scale", "0.05", "--rounds", "1"] if quick else []
    return _jobs("bench_theta", options, out, quick=quick, wanted=lambda name: name.startswith(NDV))


def delta(out: Path, words: list[str], *, quick: bool) -> list[dict[str, Any]]:
    """The jobs of Delta tables whose names hold all words."""
    options = ["--share", "0.01", "--rounds", "1", "--folder", str(out / "delta-quick")] if quick else []
    return _chosen("Delta tables", "bench_delta", DELTA_JOBS, options, out, words, quick=quick)


def lineitem(out: Path, words: list[str], *, quick: bool) -> list[dict[str, Any]]:
    """The jobs of lineitem whose names hold all words, on 3M rows."""
    scale, n_files = (0.02, 2) if quick else (0.5, 12)
    options = ["--scale", str(scale), "--files", str(n_files), *(["--rounds", "1"] if quick else [])]
    names = (*bench_lineitem.JOBS, bench_lineitem.COUNT, bench_lineitem.DELETE)
    jobs = [bench_lineitem.job_name(scale, name) for name in names]
    return _chosen("lineitem", "bench_lineitem", jobs, options, out, words, quick=quick)


def object_store(out: Path, words: list[str], *, quick: bool) -> list[dict[str, Any]]:
    """The scans on an object store whose names hold all words."""
    options = ["--files", "2", "--rounds", "1"] if quick else []
    jobs = [bench_object_store.job_name(name) for name in bench_object_store.JOBS]
    return _chosen("an object store", "bench_object_store", jobs, options, out, words, quick=quick)


def _chosen(
    title: str,
    module: str,
    jobs: Iterable[str],
    options: list[str],
    out: Path,
    words: list[str],
    *,
    quick: bool,
) -> list[dict[str, Any]]:
    """The jobs whose names hold all words, in a process that loads their engines."""
    names = {name for name in jobs if all(word in name for word in words)}
    if not names:
        return []
    print(f"\n=== {title}", flush=True)
    options = options + [part for word in words for part in ("--only", word)]
    return _jobs(module, options, out, quick=quick, wanted=names.__contains__)


def _jobs(
    module: str, options: list[str], out: Path, *, quick: bool, wanted: Callable[[str], bool]
) -> list[dict[str, Any]]:
    """The jobs of a module that is run as a script; its results stand in ``tables.json``."""
    written = out / "tables.json"
    command = [sys.executable, "-m", f"benchmarks.{module}", "--into", str(written), *options]
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
        return [{"job": module, "workload": "tables", "error": "no result"}]
    jobs = {name: job for name, job in json.loads(written.read_text()).items() if wanted(name)}
    return [
        {"job": name, "workload": "", **job, **({"targets": []} if quick else {})}
        for name, job in jobs.items()
    ]


def summary(title: str, rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Prints every target in one list; returns how many are met, and of how many."""
    judged = [(row, target) for row in rows for target in row.get("targets", ())]
    met = sum(target["met"] for _, target in judged)
    if judged:
        print(f"\n{title}: {met} of {len(judged)} targets met")
    for row, target in judged:
        verdict, case = "met   " if target["met"] else "MISSED", f"{row['job']}: {row['workload']}"
        print(f"  {verdict} {case:<50} {target['ratio']:>8.2f}x of {target['target']:g}x {target['peer']}")
    return met, len(judged)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="middle sizes, no targets, seconds")
    parser.add_argument(
        "-k", dest="words", action="append", default=[], help="only cases whose name holds this"
    )
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "bench")
    parser.add_argument("--publish", action="store_true", help="write into benchmarks/results")
    parser.add_argument("--only-with-targets", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--part", default="", help=argparse.SUPPRESS)
    parser.add_argument(
        "--no-portable", action="store_true", help="leave out the run of the portable kernels"
    )
    options = parser.parse_args()
    began = time.perf_counter()
    out = HERE / "results" if options.publish else options.out
    out.mkdir(parents=True, exist_ok=True)
    share = PORTABLE_SHARE if options.part == PORTABLE else 1.0
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()))

    cases = collect(options.quick, options.words)
    if options.only_with_targets:
        cases = [case for case in cases if case.targets and "threads" not in case.job]
    report: dict[str, Any] = {"machine": about, "rows": run(cases, quick=options.quick, share=share)}
    whole = not (options.quick or options.part or options.no_portable)
    if whole:
        print(f"\n=== the portable path ({PORTABLE_SHARE:g} of each target)", flush=True)
        report["portable"] = _portable(options.words)["rows"]
    if not options.part and not options.words:
        from benchmarks import growth

        report["growth"] = growth.measure(quick=options.quick)
    (out / "results.json").write_text(json.dumps(report, indent=1) + "\n")
    on_tables: list[dict[str, Any]] = []
    if not options.part and all(word in NDV for word in options.words):
        print(f"\n=== {NDV} of lineitem", flush=True)
        on_tables = ndv(out, quick=options.quick)
    if not options.part:
        for jobs in (delta, lineitem, object_store):
            on_tables += jobs(out, options.words, quick=options.quick)
    if not options.part:
        from benchmarks import plots

        for path in plots.draw(report, out):
            print(f"wrote {path}")
        summary("Kernels", report["rows"])
        summary("Portable kernels", report.get("portable", []))
        summary("Tables", on_tables)
        print(f"\n{len(report['rows'])} cases in {time.perf_counter() - began:.0f} s, {out / 'results.json'}")
    failed = [row for row in [*report["rows"], *report.get("portable", []), *on_tables] if "error" in row]
    if failed:
        raise SystemExit(f"{len(failed)} cases failed")


if __name__ == "__main__":
    main()
