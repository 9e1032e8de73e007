"""Tasks that fail and are retried write one vector for each data file and leave no orphan file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from puffin_fast import read_vectors
from puffin_fast import spark as ps
from tests.spark.faults.flaky import Flaky
from tests.spark.laws import expected, frame, some_deletes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("fault", ["raise", "kill"])
def test_attempts_that_wrote_and_failed_leave_nothing(
    fault: str, spark: SparkSession, tmp_path: Path
) -> None:
    deletes = some_deletes(5_000)
    report = ps.write_deletion_vectors(
        frame(spark, deletes),
        f"flaky://{tmp_path}/out",
        target_file_size=1_000,
        filesystem=Flaky(fault),
    )
    there = {f"flaky://{path}" for path in (tmp_path / "out").iterdir()}
    assert there == set(report["path"].to_pylist())
    vectors = {p: set(b) for path in (tmp_path / "out").iterdir() for p, b in read_vectors(path).items()}
    assert vectors == expected(deletes)
    assert (tmp_path / "faulted").exists()


def test_a_jobs_files_are_found_and_removed_by_name(spark: SparkSession, tmp_path: Path) -> None:
    report = ps.write_deletion_vectors(frame(spark, [("a", 1), ("b", 2)]), tmp_path, job_id="nightly")
    kept = set(report["path"].to_pylist())
    dead = "nightly-0123456789ab-00000-99-0000.puffin"
    strays = {tmp_path / dead, tmp_path / f".{dead}.0123456789abcdef.tmp"}
    strays |= {tmp_path / f"nightly-0123456789ab-{by}-89abcdef-0000.puffin" for by in ("00000-99", "driver")}
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
