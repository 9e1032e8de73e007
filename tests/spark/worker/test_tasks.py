"""Tasks of a job are of similar size, start without reading the archives of PySpark again, and report their files."""

from __future__ import annotations

import sys
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from puffin_fast import spark as puffin_spark
from puffin_fast._io.run_folder import RunFolder
from puffin_fast.errors import PuffinFastError
from puffin_fast.rows.scan.bins import bins_of_tasks
from puffin_fast.spark.dataframe.write import collect_report
from puffin_fast.spark.session.executor_calls import forget_archives, sent_by
from puffin_fast.spark.session.workers import TASK_BYTES
from puffin_fast.spark.worker.pack import Place, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

MB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([MB] * 195, [98, 97]),
        ([100 * MB] * 3, [1, 1, 1]),
        ([80 * MB] * 3, [1, 1, 1]),
        ([MB] * 127, [127]),
        ([500 * MB, MB, MB], [1, 2]),
        ([0, 0], [2]),
        ([], []),
    ],
)
def test_tasks_are_of_similar_size(sizes: Sequence[int], expected: Sequence[int]) -> None:
    numbered = [*enumerate(sizes)]
    groups = bins_of_tasks(numbered, lambda item: (), TASK_BYTES, lambda item: item[1])
    assert [item for group in groups for item in group] == numbered
    assert [len(group) for group in groups] == expected
    assert all(len(group) == 1 or sum(size for _, size in group) <= TASK_BYTES for group in groups)


def test_importers_of_sparks_archives_are_forgotten_and_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyspark.zip", "py4j-9-src.zip", "users.zip"):
        package = f"in_{name.partition('.')[0].replace('-', '_')}"
        with ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(f"{package}/__init__.py", "")
            archive.writestr(f"{package}/more.py", "value = 5")
        monkeypatch.syspath_prepend(str(tmp_path / name))
        import_module(package)
    ours = {path for path in sys.path_importer_cache if path.startswith(str(tmp_path))}
    assert len(ours) >= 3
    forget_archives()
    left = ours & sys.path_importer_cache.keys()
    assert left
    assert all("users.zip" in path for path in left)
    invalidate_caches()
    assert import_module("in_pyspark.more").value == 5


@pytest.mark.spark
def test_vectors_of_one_data_file_from_two_writers_are_refused_and_removed(
    spark: SparkSession, tmp_path: Path
) -> None:
    deletes = spark.createDataFrame([("a", 1), ("b", 2)], "file_path string, pos long")
    vectors = puffin_spark.encode_deletes(deletes).select("file_path", "blob").coalesce(1)
    folder = RunFolder(str(tmp_path), "twice-0123456789ab")
    once = sent_by(vectors, pack, memory=1 << 20, place=Place(folder, 1 << 20), filesystem=None)
    report = collect_report(once, folder, None)
    assert sorted(report.changed()) == ["a", "b"]
    assert {Path(path).name for path in report.files()} == {path.name for path in tmp_path.iterdir()}
    with pytest.raises(PuffinFastError, match="two deletion vectors for one data file; none was used"):
        collect_report(once.unionAll(once), folder, None)
    assert not [*tmp_path.iterdir()]
