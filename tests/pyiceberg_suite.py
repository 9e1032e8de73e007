"""PyIceberg's own unit tests with and without `accelerate` (``make pyiceberg-suite``).

The suite is in PyIceberg's source distribution, of the version that is installed. It is fetched by pip into the
user's cache, with the packages that only it needs. What passes without `accelerate` must pass with it, but for the
tests named below.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from pathlib import Path

TESTS = (
    "tests/io/test_pyarrow.py",
    "tests/table",
    "tests/catalog/test_sql.py",
    "tests/catalog/test_catalog_behaviors.py",
)
PACKAGES = ("pytest-lazy-fixtures", "requests-mock", "pytest-mock", "datafusion")
"""What the suite imports and this project does not."""

NAMED: dict[str, str] = {}
"""Tests that may fail under `accelerate`, and why."""

PLUGIN = """
from puffin_fast import iceberg

def pytest_configure(config):
    iceberg.accelerate()
"""


def cache() -> Path:
    """The cache's folder for the installed PyIceberg."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "puffin_fast" / f"pyiceberg-suite-{version('pyiceberg')}"


def fetch() -> Path:
    """Brings suite and packages into the cache unless they are there; returns the folder of both."""
    final = cache()
    if final.exists():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "-q"]
    with tempfile.TemporaryDirectory(dir=final.parent) as scratch:
        target = Path(scratch) / "suite"
        source = [
            "--no-build-isolation",
            "--no-deps",
            "--no-binary",
            ":all:",
            f"pyiceberg=={version('pyiceberg')}",
        ]
        subprocess.run([*pip, "download", "-d", scratch, *source], check=True)
        (archive,) = Path(scratch).glob("pyiceberg-*.tar.gz")
        with tarfile.open(archive) as members:
            members.extractall(scratch, filter="data")
        (unpacked,) = (path for path in Path(scratch).glob("pyiceberg-*") if path.is_dir())
        locked = tomllib.loads((unpacked / "uv.lock").read_text())[
            "package"
        ]  # DataFusion's other versions crash
        wanted = [
            f"{package['name']}=={package['version']}" for package in locked if package["name"] in PACKAGES
        ]
        subprocess.run([*pip, "install", "--no-deps", "--target", str(target), *wanted], check=True)
        (unpacked / "tests").rename(target / "tests")
        for folder in [target / "tests", *(target / "tests").rglob("*/")]:
            (folder / "__init__.py").touch()  # so that they come before this project's own tests
        (target / "accelerated.py").write_text(PLUGIN)
        target.rename(final)
    return final


def outcomes(suite: Path, *plugin: str) -> dict[str, str]:
    """Each test of the suite and its outcome."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(suite), *plugin]
        marks = "not integration and not s3 and not adls and not gcs"
        options = ["-p", "no:cacheprovider", "-W", "ignore", "-m", marks, "--tb=no", f"--junitxml={report}"]
        path = os.pathsep.join(filter(None, (str(suite), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PYTHONPATH": path}
        done = subprocess.run(
            [*command, *options, *TESTS], cwd=suite, env=environment, stdout=subprocess.DEVNULL
        )
        if not report.exists():
            sys.exit(f"PyIceberg's suite ended with {done.returncode} before its report")
        cases = ElementTree.parse(report).iter("testcase")
        return {f"{case.get('classname')}::{case.get('name')}": outcome(case) for case in cases}


def outcome(case: ElementTree.Element) -> str:
    return next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")


def main() -> None:
    suite = fetch()
    without, accelerated = outcomes(suite), outcomes(suite, "-p", "accelerated")
    for name, found in (("without", without), ("with", accelerated)):
        passed = sum(result == "passed" for result in found.values())
        print(f"PyIceberg {version('pyiceberg')} {name} accelerate: {passed} of {len(found)} passed")
    worse = {
        test for test, result in without.items() if result == "passed" and accelerated.get(test) != result
    }
    for test in sorted(worse | NAMED.keys()):
        print(f"  {test}: {accelerated.get(test)} with accelerate; {NAMED.get(test, 'no reason is known')}")
    if not without or worse - NAMED.keys():
        sys.exit("tests fail with accelerate that pass without it")


if __name__ == "__main__":
    main()
