"""Checks of the vectors and data files of Paimon tables, which Paimon in Java wrote."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from puffin_fast import paimon
from puffin_fast.errors import InvalidInputError
from tests.paimon.tables import TABLES, folder, rewrite


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], Path]:
    """Copies a golden table, to damage it."""
    return lambda name: Path(shutil.copytree(folder(name), tmp_path / name))


@pytest.mark.parametrize("level", ["metadata", "files", "rows"])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_java_has_no_problem(name: str, level: str) -> None:
    found = paimon.verify(folder(name), level=level)
    assert (list(found), found.level) == ([], level)
    assert (
        found.data_files == len({path.name for path in folder(name).rglob("bucket-*/data-*.parquet")})
        or name == "pk_v2"
    )
    assert bool(found.unchecked) is (level != "rows")


@pytest.mark.parametrize("name", ["app_v2", "app_v1_part"])
def test_a_data_file_that_is_missing_or_has_other_rows_is_found(
    copy: Callable[[str], Path], name: str
) -> None:
    table = copy(name)
    one, other = sorted(table.rglob("bucket-*/data-*.parquet"))[:2]
    one.unlink()
    pq.write_table(pq.ParquetFile(other).read().slice(1), other)
    assert list(paimon.verify(table, level="metadata")) == []
    found = paimon.verify(table)
    assert {problem.kind for problem in found if one.name in problem.path} == {"missing"}
    assert {problem.kind for problem in found if problem.path == str(other)} == {"mismatch"}
    messages = [problem.message for problem in found if problem.path == str(other)]
    assert any("size: expected" in message for message in messages)
    assert any("rows: expected" in message for message in messages)


def test_damaged_pages_are_found_by_their_rows(copy: Callable[[str], Path]) -> None:
    table = copy("app_v2")
    path = next(iter(sorted(table.rglob("bucket-*/data-*.parquet"))))
    data = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(0).column(0)
    at = column.dictionary_page_offset or column.data_page_offset
    data[at : at + 8] = bytes(8)
    path.write_bytes(data)
    assert list(paimon.verify(table)) == []
    assert [(one.kind, one.path) for one in paimon.verify(table, level="rows")] == [("corrupt", str(path))]


def test_a_vector_of_no_live_data_file_is_found(copy: Callable[[str], Path]) -> None:
    table = copy("app_v2")

    def rename(entry: dict[str, object]) -> None:
        entry["_DELETIONS_VECTORS_RANGES"][0]["f0"] = "data-x.parquet"  # type: ignore[index]

    rewrite(table, rename)
    found = paimon.verify(table, level="metadata")
    stated = ("dangling", "data-x.parquet: expected a live data file")
    assert [(problem.kind, problem.message) for problem in found] == [stated]


def test_a_damaged_vector_does_not_hide_the_others(copy: Callable[[str], Path]) -> None:
    table = copy("app_v2")
    (path,) = (Path(table, "index", name) for name in {*paimon.vectors(table)["index_file"].to_pylist()})
    path.write_bytes(bytes(path.stat().st_size))
    assert len(paimon.verify(table, level="metadata")) == 2


def test_another_level_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="level: expected 'metadata', 'files' or 'rows'"):
        paimon.verify(folder("app_v2"), level="all")  # type: ignore[arg-type]
