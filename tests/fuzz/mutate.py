"""Mutates the files of a table and reads them, in processes with limited memory.

    python -m tests.fuzz.mutate --seconds 30                  every kind of file in turn
    python -m tests.fuzz.mutate --target manifest --seconds 600

A failure is an exception that is none of this package's, a crash, a case of more than 20 seconds, memory past the
limit, or anything printed on stderr. Its input is written to ``build/fuzz-failures``; put it into the corpus when it
is mended: ``tests/fuzz/corpus/<target>``.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

from tests.fuzz.seeds import CORPUS
from tests.fuzz.table_targets import TABLE_TARGETS, own_file

FAILURES = Path(__file__).parents[2] / "build" / "fuzz-failures"
MEMORY = 2 << 30
"""Bytes of address space beyond what the process uses when it starts."""
CASE_S = 20
GRACE_S = 60
_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)


def mutated(data: bytes, choose: random.Random) -> bytes:
    """The bytes with one to four changes."""
    result = bytearray(data)
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        at = choose.randrange(len(result)) if result else 0
        kind = choose.randrange(8)
        if kind <= 2 and result:
            result[at] ^= 1 << choose.randrange(8)
        elif kind == 3 and result:
            result[at] = choose.choice(_NUMBERS[:5])
        elif kind == 4:
            width = choose.choice((2, 4, 8))
            word = (choose.choice(_NUMBERS) & ((1 << 8 * width) - 1)).to_bytes(width, "little")
            result[at : at + width] = word
        elif kind == 5:
            del result[at : at + choose.choice((1, 2, 8, 64, len(result)))]
        elif kind == 6:
            result[at:at] = bytes(choose.randrange(256) for _ in range(choose.choice((1, 2, 9))))
        else:
            other = choose.randrange(len(result) + 1)
            part = result[other : other + choose.choice((1, 4, 16, 200))]
            result[at : at + len(part)] = part
    return bytes(result)


def child(targets: list[str], seconds: float, seed: int, current: Path) -> None:
    """Mutates until the time is over; the input in hand stands in `current`, should the process die."""
    choose = random.Random(seed)
    seeds = {name: [own_file(name)] for name in targets}
    for name in targets:
        seeds[name] += [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]
        TABLE_TARGETS[name](seeds[name][0])  # imports what is imported lazily
    used = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmSize" in line)
    limit = int(used.split()[1]) * 1024 + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    counts = dict.fromkeys(targets, 0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name = choose.choice(targets)
        data = mutated(choose.choice(seeds[name]), choose)
        current.write_bytes(name.encode() + b"\n" + data)
        signal.alarm(CASE_S)
        TABLE_TARGETS[name](data)
        signal.alarm(0)
        counts[name] += 1
    current.unlink()
    for name, count in counts.items():
        print(f"{name:<18} {count:>8,}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--target", action="append", choices=sorted(TABLE_TARGETS), default=[])
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--keep-going", action="store_true", help="start again after a failure")
    parser.add_argument("--current", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    targets = options.target or sorted(TABLE_TARGETS)
    if options.current:
        try:
            child(targets, options.seconds, options.seed, options.current)
        except BaseException:
            traceback.print_exc()
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
            "--seconds",
            f"{left:.0f}",
            "--seed",
            str(seed),
        ]
        command += ["--current", str(current), *(f"--target={name}" for name in targets)]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=left + GRACE_S, check=False
        )
        print(done.stdout, end="")
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
