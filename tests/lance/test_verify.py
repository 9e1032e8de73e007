"""Checks of the deletion files and data files of Lance datasets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from puffin_fast.lance import verify
from tests.conftest import require_module


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A dataset of two fragments, one with deletions."""
    lance = require_module("lance", "pip install 'puffin-fast[lance]'")
    rows = pa.table({"id": pa.array(range(100), pa.int64())})
    lance.write_dataset(rows, tmp_path / "d", max_rows_per_file=50)
    lance.dataset(tmp_path / "d").delete("id < 10")
    return tmp_path / "d"


@pytest.mark.parametrize("level", ["metadata", "files", "rows"])
def test_a_dataset_of_pylance_has_no_problem(path: Path, level: str) -> None:
    found = verify(path, level=level)
    assert (list(found), found.data_files, bool(found.unchecked)) == ([], 2, level != "rows")


def test_missing_and_cut_data_files_are_found(path: Path) -> None:
    one, other = sorted((path / "data").iterdir())
    one.unlink()
    other.write_bytes(other.read_bytes()[:-1])
    assert list(verify(path, level="metadata")) == []
    found = {problem.path: problem for problem in verify(path)}
    assert {name: problem.kind for name, problem in found.items()} == {
        str(one): "missing",
        str(other): "mismatch",
    }
    assert "size: expected" in found[str(other)].message


def test_a_damaged_deletion_file_is_found(path: Path) -> None:
    (file,) = (path / "_deletions").iterdir()
    file.write_bytes(file.read_bytes()[:-8])
    (problem,) = verify(path, level="metadata")
    assert (problem.kind, problem.path) == ("corrupt", str(file))
