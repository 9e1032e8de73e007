"""Fuzzes every target for a while on kernels with coverage counters.

    python -m tests.fuzz.run --seconds 60               each target for a minute
    python -m tests.fuzz.run --target bitmap --seconds 600

What is found stays in ``build/fuzz-corpus``; ``--merge`` takes what adds coverage and is small into the corpus
of the repository. An input that fails is written to ``build/fuzz-failures`` and named in the end.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.seeds import CORPUS, LARGEST, SEEDS
from tests.instrumented import ROOT, coverage_build

FOUND = ROOT / "build" / "fuzz-corpus"
FAILURES = ROOT / "build" / "fuzz-failures"
GRACE_S = 120
MAX_LENGTH = 4_096


class Outcome(NamedTuple):
    """What one target's run came to."""

    target: str
    executions: int
    per_second: int
    coverage: int
    corpus: int
    failed: bool
    log: str


def _last(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def fuzz(package: Path, target: str, seconds: int) -> Outcome:
    """One target, in a process of its own."""
    (FOUND / target).mkdir(parents=True, exist_ok=True)
    FAILURES.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.fuzz_one",
        target,
        str(FOUND / target),
        str(CORPUS / target),
        f"-max_total_time={seconds}",
        f"-max_len={MAX_LENGTH}",
        f"-artifact_prefix={FAILURES}/{target}-",
        "-print_final_stats=1",
        "-timeout=20",
        "-rss_limit_mb=4096",
    ]
    environment = os.environ | {"PYTHONPATH": str(package)}
    done = subprocess.run(
        command, cwd=package, env=environment, capture_output=True, text=True, errors="replace",
        timeout=seconds + GRACE_S, check=False,
    )  # fmt: skip
    log = done.stdout + done.stderr
    return Outcome(
        target,
        _last(r"stat::number_of_executed_units:\s*(\d+)", log),
        _last(r"stat::average_exec_per_sec:\s*(\d+)", log),
        _last(r"cov: (\d+)", log),
        len(list((FOUND / target).iterdir())),
        done.returncode != 0,
        log,
    )


def merge(package: Path, target: str) -> None:
    """Takes the small findings that add coverage into the repository's corpus."""
    command = [sys.executable, "-m", "tests.fuzz.fuzz_one", target, "-merge=1", f"-max_len={LARGEST}"]
    folders = [str(CORPUS / target), str(FOUND / target)]
    environment = os.environ | {"PYTHONPATH": str(package)}
    subprocess.run([*command, *folders], cwd=package, env=environment, capture_output=True, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--target", action="append", choices=sorted(SEEDS), default=[])
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0))))
    parser.add_argument("--merge", action="store_true")
    options = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        raise SystemExit("atheris is missing: pip install atheris (CPython 3.11 to 3.13 on Linux)")
    package = coverage_build()
    targets = options.target or sorted(SEEDS)
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda name: fuzz(package, name, options.seconds), targets))
    print(f"{'target':<14} {'executions':>11} {'per second':>11} {'coverage':>9} {'found':>6}")
    for outcome in outcomes:
        print(
            f"{outcome.target:<14} {outcome.executions:>11,} {outcome.per_second:>11,} "
            f"{outcome.coverage:>9,} {outcome.corpus:>6,}{'  FAILED' if outcome.failed else ''}"
        )
    if options.merge:
        for name in targets:
            merge(package, name)
    failed = [outcome for outcome in outcomes if outcome.failed]
    for outcome in failed:
        print(f"\n=== {outcome.target}\n{outcome.log[-4_000:]}", file=sys.stderr)
    if failed:
        raise SystemExit(f"failing inputs are in {FAILURES}")


if __name__ == "__main__":
    main()
