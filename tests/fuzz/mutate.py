"""Mutates the files of a table and reads them, in processes with limited memory.

    python -m tests.fuzz.mutate --seconds 30                  every kind of file in turn
    python -m tests.fuzz.mutate --target manifest --seconds 600

A failure is an exception that is none of this package's, a crash, a case of more than 20 seconds, memory past the
limit, or anything printed on stderr. Its input is written to ``build/fuzz-failures``; put it into the corpus when it
is fixed: ``tests/fuzz/corpus/<target>``. The other cases are counted by `Outcome`; of the inputs that changed the
answer undetected, some are written to the same folder.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.mutations import WELL_FORMED, mutated
from tests.fuzz.seeds import CORPUS
from tests.fuzz.table_targets import TABLE_TARGETS, Outcome, own_file

FAILURES = Path(__file__).parents[2] / "build" / "fuzz-failures"
MEMORY = 2 << 30
"""Bytes of address space beyond what the process uses when it starts."""
CASE_S = 20
GRACE_S = 300
SHOW_S = 300
"""Seconds between two tables of counts."""
SHOWN = 40
"""Inputs of a target that changed the answer undetected, kept in `FAILURES`."""


@dataclass
class Tally:
    """What the cases of a target came to."""

    cases: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    slowest_s: float = 0.0
    peak: int = 0

    def __str__(self) -> str:
        counts = " ".join(f"{self.outcomes[outcome]:>10,}" for outcome in Outcome)
        return f"{self.cases:>10,} {counts} {self.slowest_s:>10.2f} {self.peak >> 20:>10,}"


NAME = 24
_NAMES = (f"{name:>10}" for name in ("cases", *(one.value for one in Outcome), "slowest s", "peak MiB"))
HEAD = f"{'target':<{NAME}} {' '.join(_NAMES)}"


def status(key: str) -> int:
    """Bytes that the kernel reports for this process."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024


def child(targets: list[str], end: float, seed: int, current: Path) -> None:
    """Mutates until `time.monotonic` says `end`; the input in hand stands in `current`, should the process die."""
    seeds = {name: [own_file(name)] for name in targets}
    for name in targets:
        seeds[name] += [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]
        TABLE_TARGETS[name](seeds[name][0])  # imports what is imported lazily
    limit = status("VmSize") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    tallies = {name: Tally() for name in targets}
    try:
        _run(tallies, seeds, end, seed, current)
    finally:
        _show(tallies)
    current.unlink(missing_ok=True)


def _show(tallies: dict[str, Tally]) -> None:
    lines = [HEAD, *(f"{name:<{NAME}} {tally}" for name, tally in tallies.items())]
    print("\n".join(lines), flush=True)


def _run(
    tallies: dict[str, Tally], seeds: dict[str, list[bytes]], end: float, seed: int, current: Path
) -> None:
    choose = random.Random(seed)
    show = time.monotonic() + SHOW_S
    while (start := time.monotonic()) < end:
        if start > show:
            _show(tallies)
            show += SHOW_S
        name = choose.choice(list(tallies))
        data = _case(name, seeds[name], choose)
        current.write_bytes(name.encode() + b"\n" + data)
        before = _forget_peak()
        signal.alarm(CASE_S)
        outcome = TABLE_TARGETS[name](data)
        signal.alarm(0)
        tally = tallies[name]
        tally.cases += 1
        tally.outcomes[outcome] += 1
        tally.slowest_s = max(tally.slowest_s, time.monotonic() - start)
        tally.peak = max(tally.peak, status("VmHWM") - before)
        if outcome is Outcome.UNDETECTED and tally.outcomes[outcome] <= SHOWN:
            (FAILURES / f"undetected-{name}-{seed}-{tally.cases}").write_bytes(data)


def _case(name: str, seeds: list[bytes], choose: random.Random) -> bytes:
    if name in WELL_FORMED and choose.random() < 0.5:
        with contextlib.suppress(Exception):  # a value that its schema does not allow
            return WELL_FORMED[name](seeds[0], choose)
    return mutated(choose.choice(seeds), choose)


def _forget_peak() -> int:
    """Resets the peak of resident memory, and returns what is resident."""
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--target", action="append", choices=sorted(TABLE_TARGETS), default=[])
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--keep-going", action="store_true", help="start again after a failure")
    parser.add_argument("--end", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--current", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    targets = options.target or sorted(TABLE_TARGETS)
    if options.current:
        try:
            child(targets, options.end, options.seed, options.current)
        except BaseException:
            traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)  # at once: the input in hand is the failing one
        return
    FAILURES.mkdir(parents=True, exist_ok=True)
    end, failures, seed = time.monotonic() + options.seconds, [], options.seed
    while not failures or (options.keep_going and time.monotonic() < end):
        current = FAILURES / f"mutate-{seed}"
        left = max(1.0, end - time.monotonic())
        command = [
            sys.executable,
            "-W",
            "ignore::UserWarning",
            "-m",
            "tests.fuzz.mutate",
            "--end",
            str(max(end, time.monotonic() + 1)),
            "--seed",
            str(seed),
        ]
        command += ["--current", str(current), *(f"--target={name}" for name in targets)]
        done = subprocess.run(
            command,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=left + GRACE_S,
            check=False,
        )
        if done.returncode == 0 and not done.stderr:
            break
        failures.append(
            f"=== seed {seed}: exit status {done.returncode}, input {current}\n{done.stderr[-3000:]}"
        )
        seed += 1
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main()
