"""Tasks that die and are retried, executors that lack the package: never two vectors, never a stray file."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from puffin_fast import read_vectors
from puffin_fast import spark as ps
from tests.spark.flaky import Flaky
from tests.spark.laws import expected, frame, some_deletes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("harm", ["raise", "kill"])
def test_attempts_that_wrote_and_failed_leave_nothing(harm: str, spark: SparkSession, tmp_path: Path) -> None:
    deletes = some_deletes(5_000)
    report = ps.write_deletion_vectors(
        frame(spark, deletes),
        f"flaky://{tmp_path}/out",
        target_file_size=1_000,
        filesystem=Flaky(harm),
    )
    there = {f"flaky://{path}" for path in (tmp_path / "out").iterdir()}
    assert there == set(report["path"].to_pylist())
    vectors = {p: set(b) for path in (tmp_path / "out").iterdir() for p, b in read_vectors(path).items()}
    assert vectors == expected(deletes)
    assert (tmp_path / "harmed").exists()


def test_a_jobs_files_are_found_and_removed_by_name(spark: SparkSession, tmp_path: Path) -> None:
    report = ps.write_deletion_vectors(frame(spark, [("a", 1), ("b", 2)]), tmp_path, job_id="nightly")
    kept = set(report["path"].to_pylist())
    dead = "nightly-0123456789ab-00000-99-0000.puffin"
    strays = {tmp_path / dead, tmp_path / f".{dead}.0123456789abcdef.tmp"}
    others = {
        tmp_path / "nightly-00001-0123456789ab-00000-99-0000.puffin",  # of a job named nightly-00001
        tmp_path / f"{dead}.crc",
        tmp_path / "weekly-0123456789ab-00000-99-0000.puffin",
    }
    for path in strays | others:
        path.write_bytes(b"")
    assert set(map(Path, ps.job_files(tmp_path, "nightly"))) == set(map(Path, kept)) | strays
    assert set(map(Path, ps.remove_job_files(tmp_path, "nightly", keep=kept))) == strays
    assert set(tmp_path.iterdir()) == set(map(Path, kept)) | others


def test_executors_without_the_package_are_named(tmp_path: Path) -> None:
    """The driver finds the package, the workers do not: its folder is on one path only."""
    script = tmp_path / "driver.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path.insert(0, {str(ROOT)!r})
            import importlib.metadata
            from pyspark.sql import SparkSession
            from puffin_fast import spark as ps
            from puffin_fast.errors import MissingExtraError
            spark = (
                SparkSession.builder.master("local[1]").config("spark.ui.enabled", False)
                .config("spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF").getOrCreate()
            )
            df = spark.createDataFrame([("a", 1)], "file_path string, pos long")
            try:
                ps.write_deletion_vectors(df, {str(tmp_path / "out")!r})
            except MissingExtraError as error:
                print("SAID", error)
            """
        )
    )
    # -S leaves out the editable install of this checkout; the workers get the site's packages by PYTHONPATH
    import pyspark

    site = str(Path(pyspark.__file__).parents[1])
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    wrapper.chmod(0o755)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "PYSPARK_PYTHON": str(wrapper),
            "PYTHONPATH": site,
            **{name: os.environ[name] for name in ("JAVA_HOME", "HOME") if name in os.environ},
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "SAID puffin_fast on the executor" in done.stdout, done.stdout + done.stderr[-3000:]
    assert str(wrapper) in done.stdout or sys.executable in done.stdout
    assert not (tmp_path / "out").exists()
