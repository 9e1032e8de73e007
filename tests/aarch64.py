"""Builds the kernels for aarch64 and runs their tests in an emulator (``make aarch64``).

    apt-get install gcc-aarch64-linux-gnu qemu-user

The cross-compiled kernels use what every aarch64 processor has: NEON, by GCC's vectoriser. A Python for aarch64 with
its C library comes from Debian by apt, the packages that the tests import from the package index as wheels; both go
below ``build/aarch64``, nothing is installed. Arguments choose other tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests import instrumented

ROOT = instrumented.ROOT / "build" / "aarch64"
CROSS = "aarch64-linux-gnu-gcc"
EMULATOR = "qemu-aarch64"
PYTHON = "3.11"
"""The version of Debian's Python; abi3 modules run on each since 3.11."""

TEST_PACKAGES = ("pytest", "hypothesis", "pyroaring", "datasketches")
TESTS = ("tests/bitmap/test_bitmap.py", "tests/dv/test_codecs.py", "tests/dv/test_formats.py",
         "tests/bitmap/test_sets.py", "tests/theta/test_sketch.py", "tests/puffin/test_footer.py")  # fmt: skip


def require(tools: dict[str, str]) -> None:
    """Ends with the command that installs what is missing."""
    missing = [package for tool, package in tools.items() if not shutil.which(tool)]
    if missing:
        raise SystemExit(f"missing for aarch64: apt-get install {' '.join(missing)}")


def interpreter() -> Path:
    """A folder with Debian's Python for aarch64 and the libraries that it needs."""
    system = ROOT / "system"
    if system.exists():
        return system
    apt = ROOT / "apt"
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
        "Dir::State": apt / "state",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
    }
    command = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    subprocess.run([*command, "update"], check=True)
    wanted = [f"python{PYTHON}", f"libpython{PYTHON}-stdlib", "libstdc++6"]
    install = ["install", "--yes", "--no-install-recommends", "--download-only", *wanted]
    subprocess.run([*command, *install], check=True, stdout=subprocess.DEVNULL)
    fresh = ROOT / "unpacked"
    shutil.rmtree(fresh, ignore_errors=True)
    for package in sorted((apt / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", package, fresh], check=True)
    fresh.rename(system)
    return system


def packages() -> Path:
    """A folder with the wheels for aarch64 that the package and its tests import."""
    folder = ROOT / "packages"
    if not folder.exists():
        project = tomllib.loads((instrumented.ROOT / "pyproject.toml").read_text())["project"]
        options: list[str | Path] = ["--target", folder, "--only-binary=:all:", "--python-version", PYTHON]
        for glibc in ("2_17", "2_28", "2_34"):
            options += ["--platform", f"manylinux_{glibc}_aarch64"]
        wanted = [*project["dependencies"], *TEST_PACKAGES]
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", *options, *wanted], check=True)
    return folder


def main(arguments: list[str]) -> int:
    require({CROSS: "gcc-aarch64-linux-gnu", EMULATOR: "qemu-user", "apt-get": "apt", "dpkg-deb": "dpkg"})
    target = instrumented.build(
        "aarch64/tree",
        {
            "CC": CROSS,
            "LDSHARED": f"{CROSS} -shared",
            "CFLAGS": "",
            "_PYTHON_HOST_PLATFORM": "linux-aarch64",
        },
    )
    system = interpreter()
    python = system / "usr" / "bin" / f"python{PYTHON}"
    command: list[str | Path] = [EMULATOR, "-L", system, python, "-m", "pytest", "-q"]
    # a process that the emulated Python starts is not emulated
    chosen = ["-m", "not jar and not spark and not slow", "-k", "not simd_level"]
    options = ["-p", "no:cacheprovider", *chosen]
    path = os.pathsep.join(map(str, (target, packages())))
    environment = os.environ | {"PYTHONPATH": path, "HYPOTHESIS_PROFILE": "quick"}
    done = subprocess.run(
        [*command, *options, *(arguments or TESTS)], cwd=target, env=environment, check=False
    )
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
