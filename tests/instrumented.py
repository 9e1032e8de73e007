"""Builds the kernels with a sanitizer or with coverage counters, in addition to the ordinary build.

A copy of the package and its tests under ``build/<name>`` is compiled in place there, so that the tree's own
modules stay as they are.

    python -m tests.instrumented sanitize    ASan and UBSan; then runs the kernels' tests on them, once per SIMD level

``SANITIZE_LEVELS="portable avx512"`` leaves levels out; arguments choose other tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "puffin_fast", "tests")
COVERAGE_SOURCE = Path(__file__).parent / "fuzz" / "coverage.c"
MEASURED = "encoding_takes or decoding_and_masks or nothing_leaks or other_threads_run or test_memory_of"
"""Tests of memory and time, which are those of the sanitizer here; their inputs occur in other tests too."""

COVERAGE_FLAGS = "-fsanitize-coverage=trace-pc,trace-cmp"


def compiler() -> list[str]:
    return os.environ.get("CC", "cc").split()


def copy(name: str) -> Path:
    """A fresh copy of the sources, with the C files that Cython made of them; newer compiled modules stay.

    Python's compiled files come along: with a sanitizer, each process would take longer to compile the modules and to
    rewrite their assertions than many tests take.
    """
    target = ROOT / "build" / name
    target.mkdir(parents=True, exist_ok=True)
    ignore = shutil.ignore_patterns("*.so", "*.html", "corpus")
    for entry in COPIED:
        source = ROOT / entry
        if source.is_dir():
            shutil.copytree(source, target / entry, ignore=ignore, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy2(source, target / entry)
    return target


def build(name: str, environment: dict[str, str]) -> Path:
    """Compiles the copy in place.

    Returns:
        the folder to put first in ``PYTHONPATH``.
    """
    target = copy(name)
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=target, env=os.environ | environment, check=True)
    return target


def library(name: str) -> str:
    """Path of one of the compiler's run-time libraries."""
    found = subprocess.run(
        [*compiler(), f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    path = found.stdout.strip()
    if not Path(path).is_absolute():
        raise SystemExit(f"{name} is missing: install GCC's sanitizer libraries (apt-get install gcc)")
    return path


def sanitize(arguments: list[str]) -> int:
    """Builds with ASan and UBSan and runs the kernels' tests on the result, single-process.

    Leaks are not looked for: the interpreter itself never frees everything. Freed memory is kept back for a short
    while only, so that other tests that bound a process's growth hold here too.
    """
    target = build("sanitize", {"PUFFIN_FAST_SANITIZE": "1"})
    environment = os.environ | {
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')} {library('libstdc++.so.6')}",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:abort_on_error=1:quarantine_size_mb=4",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PUFFIN_FAST_SANITIZED": "1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(target),
        # what hypothesis computes once, such as its table of characters, is there from other runs
        "HYPOTHESIS_STORAGE_DIRECTORY": str(ROOT / ".hypothesis"),
    }
    failures = 0
    for level in os.environ.get("SANITIZE_LEVELS", "portable avx2 avx512").split():
        print(f"=== sanitized kernels, PUFFIN_FAST_SIMD={level}", flush=True)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "auto",
            "-p",
            "no:cacheprovider",
            "-m",
            "not jar and not spark",
            "-k",
            f"not ({MEASURED})",
        ]
        done = subprocess.run(
            [
                *command,
                *(
                    arguments
                    or [
                        "tests/arrow",
                        "tests/bitmap",
                        "tests/dv",
                        "tests/first_hour/test_refused_arguments.py",
                        "tests/kernels",
                        "tests/key_index",
                        "tests/theta",
                        "tests/avro/test_records.py",
                        "tests/hostile/test_arrow.py",
                        "tests/rows/files/test_avro_rows.py",
                    ]
                ),
            ],
            cwd=target,
            env=environment | {"PUFFIN_FAST_SIMD": level},
            check=False,
        )
        failures += done.returncode != 0
    return failures


def coverage_build(name: str = "fuzz") -> Path:
    """Builds with counters that libFuzzer reads: GCC has the callbacks, ``coverage.c`` the counters."""
    folder = ROOT / "build" / name
    folder.mkdir(parents=True, exist_ok=True)
    counters = folder / "coverage.o"
    before = counters.read_bytes() if counters.exists() else b""
    subprocess.run([*compiler(), "-O2", "-fPIC", "-c", str(COVERAGE_SOURCE), "-o", str(counters)], check=True)
    if (
        counters.read_bytes() != before
    ):  # the modules' sources did not change, so nothing else would link anew
        for module in (folder / "puffin_fast" / "_kernels").rglob("*.so"):
            module.unlink()
    return build(
        name,
        {
            "CFLAGS": f"{os.environ.get('CFLAGS', '')} {COVERAGE_FLAGS}",
            "LDFLAGS": f"{os.environ.get('LDFLAGS', '')} {counters}",
        },
    )


if __name__ == "__main__":
    if sys.argv[1:2] != ["sanitize"]:
        raise SystemExit(__doc__)
    raise SystemExit(sanitize(sys.argv[2:]))
