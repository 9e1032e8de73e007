"""PyIceberg's own unit tests with `accelerate` (``make pyiceberg-suite``).

The suite is in PyIceberg's source distribution, of the version that is installed. It is fetched by pip into the
user's cache, with the packages that only it needs. What passes without `accelerate` must pass with it, but for the
tests named below; so what fails with it runs again without it.
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
from typing import Any

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
            safe: dict[str, Any] = (
                {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            )  # from 3.11.4 on
            members.extractall(scratch, **safe)
        (unpacked,) = (path for path in Path(scratch).glob("pyiceberg-*") if path.is_dir())
        locked = tomllib.loads((unpacked / "uv.lock").read_text())[
            "package"
        ]  # other versions of DataFusion were seen to crash
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


def outcomes(suite: Path, scratch: Path, *options: str) -> dict[str, str]:
    """Each test that ran and its outcome; pytest's cache in `scratch` knows which tests failed last."""
    report = scratch / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(suite), *options]
    marks = "not integration and not s3 and not adls and not gcs"
    common = [
        "-o",
        f"cache_dir={scratch}/cache",
        "-W",
        "ignore",
        "-m",
        marks,
        "--tb=no",
        f"--junitxml={report}",
    ]
    path = os.pathsep.join(filter(None, (str(suite), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run([*command, *common, *TESTS], cwd=suite, env=environment, stdout=subprocess.DEVNULL)
    if not report.exists():
        sys.exit(f"PyIceberg's suite ended with {done.returncode} before its report")
    cases = ElementTree.parse(report).iter("testcase")
    return {f"{case.get('classname')}::{case.get('name')}": outcome(case) for case in cases}


def outcome(case: ElementTree.Element) -> str:
    return next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")


def main() -> None:
    suite = fetch()
    with tempfile.TemporaryDirectory() as scratch:
        accelerated = outcomes(suite, Path(scratch), "-p", "accelerated")
        failed = {test for test, result in accelerated.items() if result in ("failure", "error")}
        without = outcomes(suite, Path(scratch), "--last-failed") if failed else {}
    passed = sum(result == "passed" for result in accelerated.values())
    print(f"PyIceberg {version('pyiceberg')} with accelerate: {passed} of {len(accelerated)} passed")
    worse = {test for test in failed if without.get(test) == "passed"}
    print(f"{len(failed)} failed, {len(failed - worse)} of them without accelerate too")
    for test in sorted(worse | NAMED.keys()):
        print(f"  {test}: {accelerated.get(test)} with accelerate; {NAMED.get(test, 'no reason is known')}")
    if not passed or worse - NAMED.keys() or failed - without.keys():
        sys.exit("tests fail with accelerate that pass without it")


if __name__ == "__main__":
    main()
