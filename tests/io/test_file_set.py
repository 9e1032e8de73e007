"""A `FileSet` finds a file by any spelling of its location."""

from __future__ import annotations

from pathlib import Path

import pytest

from puffin_fast._io import FileSet

SPELLINGS = [
    ("file:///t/a", "/t/a"),
    ("file:/t/a", "file://localhost/t/a"),
    ("/t//d/./a", "/t/d/a"),
    ("/t/x/../d/a", "file:/t/d/a"),
    ("s3a://b/t/a", "s3://b/t/a"),
    ("s3://b/t//a", "s3n://b/t/a"),
    ("S3://b/t/a", "s3://b/t/a"),
    ("s3://b/t/a", "/b/t/a"),  # DEFAULT_SCHEME
    ("hdfs://host:8020/t/a", "hdfs:///t/a"),
    ("hdfs://host/t/a", "/t/a"),
    ("abfs://c@x.dfs.core.windows.net/t/a", "abfss://c@x.dfs.core.windows.net/t/a"),
    ("s3://b/p=a%20b/c", "s3://b/p=a b/c"),
    ("/t/ü%2Fx", "/t/ü/x"),
]


@pytest.mark.parametrize(("first", "second"), SPELLINGS)
def test_two_spellings_of_a_location_are_one_file(first: str, second: str) -> None:
    assert second in FileSet([first])
    assert first in FileSet([second])


@pytest.mark.parametrize("other", ["s3://b/t/ab", "s3://b/t", "s3://b/t/a/a", "s3://b/t/A"])
def test_other_locations_are_other_files(other: str) -> None:
    assert other not in FileSet(["s3://b/t/a"])


def test_local_links_are_the_files_that_they_lead_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file, other = tmp_path / "real" / "a", tmp_path / "real" / "b"
    for path in (file, other):
        path.write_bytes(b"")
    (tmp_path / "folder").symlink_to("real")
    (tmp_path / "link").symlink_to(file)
    for spelling in (tmp_path / "folder" / "a", tmp_path / "link"):
        assert file.as_uri() in FileSet([str(spelling)])
        assert str(spelling) in FileSet([file.as_uri()])
        assert str(other) not in FileSet([str(spelling)])
    assert str(other) not in FileSet([str(tmp_path / "gone"), "/no/such/folder"])
