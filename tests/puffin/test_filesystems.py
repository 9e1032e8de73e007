"""The same laws on every kind of file: local, URI, pyarrow's and fsspec's filesystems, PyIceberg's FileIO."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import pyarrow.fs
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast import _io
from puffin_fast._io.location import errors_of
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.puffin import PuffinReader, PuffinWriter


class Place(NamedTuple):
    """A place for files: their names, their filesystem, and a listing."""

    name: Callable[[str], Any]
    filesystem: Any
    listing: Callable[[], set[str]]


def _memory(root: str) -> Callable[[], set[str]]:
    memory = fsspec.filesystem("memory")
    return lambda: {path.rpartition("/")[2] for path in memory.find(root)}


PLACES = [
    "path",
    "PathLike",
    "file:///",
    "file:/",
    "arrow local",
    "arrow local, URI",
    "arrow subtree",
    "arrow over fsspec",
    "fsspec local",
    "fsspec memory",
    "fsspec folder",
    "memory://",
    "memory://, filesystem",
    "PyArrowFileIO",
    "FsspecFileIO",
    "FsspecFileIO memory",
]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    root = f"/{uuid.uuid4().hex}"
    memory = fsspec.filesystem("memory")
    over_fsspec = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(memory))

    def local() -> set[str]:
        return {path.name for path in tmp_path.rglob("*") if path.is_file()}

    remote = _memory(root)
    yield {
        "path": Place(lambda name: f"{tmp_path}/{name}", None, local),
        "PathLike": Place(lambda name: tmp_path / name, None, local),
        "file:///": Place(lambda name: f"file://{tmp_path}/{name}", None, local),
        "file:/": Place(lambda name: f"file:{tmp_path}/{name}", None, local),
        "arrow local": Place(lambda name: f"{tmp_path}/{name}", pyarrow.fs.LocalFileSystem(), local),
        "arrow local, URI": Place(
            lambda name: f"file:{tmp_path}/{name}", pyarrow.fs.LocalFileSystem(), local
        ),
        "arrow subtree": Place(
            lambda name: name,
            pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem()),
            local,
        ),
        "arrow over fsspec": Place(lambda name: f"{root}/{name}", over_fsspec, remote),
        "fsspec local": Place(lambda name: f"{tmp_path}/{name}", fsspec.filesystem("file"), local),
        "fsspec memory": Place(lambda name: f"{root}/{name}", memory, remote),
        "fsspec folder": Place(lambda name: name, DirFileSystem(root, memory), remote),
        "memory://": Place(lambda name: f"memory:/{root}/{name}", None, remote),
        "memory://, filesystem": Place(lambda name: f"memory:/{root}/{name}", memory, remote),
        "PyArrowFileIO": Place(lambda name: f"file:{tmp_path}/{name}", PyArrowFileIO(), local),
        "FsspecFileIO": Place(lambda name: f"file://{tmp_path}/{name}", FsspecFileIO({}), local),
        "FsspecFileIO memory": Place(lambda name: f"memory:/{root}/{name}", _MemoryIO(), remote),
    }[request.param]
    if memory.exists(root):
        memory.rm(root, recursive=True)


class _MemoryIO(FsspecFileIO):
    """PyIceberg's FileIO on a scheme that it does not know by itself."""

    def __init__(self) -> None:
        super().__init__({})

    def _get_fs_from_uri(self, *_: Any) -> Any:
        return fsspec.filesystem("memory")


def test_written_bytes_are_read_back(place: Place) -> None:
    big = bytes(range(256)) * 1000
    with PuffinWriter(place.name("a b%20ü"), filesystem=place.filesystem) as writer:
        writer.add(big, type="big")
        writer.add(b"small", type="small", compression="zstd")
    assert place.listing() == {"a b%20ü"}
    for size in (None, writer.file_size):
        with PuffinReader(place.name("a b%20ü"), filesystem=place.filesystem, file_size=size) as reader:
            assert reader.metadata == writer.finish()
            assert reader.file_size == writer.file_size
            assert [data for _, data in reader.read_many()] == [big, b"small"]
            assert reader.read(1) == b"small"


def test_a_missing_file_is_named(place: Place) -> None:
    for size in (None, 1000):
        with pytest.raises(NotFoundError, match="missing: no such file"):
            PuffinReader(place.name("missing"), filesystem=place.filesystem, file_size=size)


def test_an_abort_leaves_no_file(place: Place) -> None:
    with (  # noqa: PT012
        pytest.raises(ZeroDivisionError),
        PuffinWriter(place.name("x"), filesystem=place.filesystem) as writer,
    ):
        writer.add(bytes(100_000), type="t")
        raise ZeroDivisionError
    assert place.listing() == set()


def test_an_existing_file_stays_unless_overwriting_is_asked_for(place: Place) -> None:
    for content in (b"first", b"second"):
        with PuffinWriter(place.name("x"), filesystem=place.filesystem, overwrite=True) as writer:
            writer.add(content, type="t")
        with pytest.raises(InvalidInputError, match="exists already"):
            PuffinWriter(place.name("x"), filesystem=place.filesystem)
        with PuffinReader(place.name("x"), filesystem=place.filesystem) as reader:
            assert reader.read(0) == content


def test_removing_is_idempotent(place: Place) -> None:
    with PuffinWriter(place.name("x"), filesystem=place.filesystem):
        pass
    for _ in range(2):
        _io.remove(place.name("x"), filesystem=place.filesystem)
        assert place.listing() == set()


def test_ranges_beyond_the_end_are_corrupt(place: Place) -> None:
    with PuffinWriter(place.name("x"), filesystem=place.filesystem) as writer:
        pass
    n_bytes = writer.file_size
    with _io.open_source(place.name("x"), filesystem=place.filesystem) as source:
        assert source.read_at(n_bytes - 4, 4) == b"PFA1"
        assert source.read_at(n_bytes, 0) == b""
        for offset, length in ((n_bytes - 4, 5), (n_bytes, 1), (n_bytes + 10, 1)):
            with pytest.raises(CorruptDataError, match=f"offset {offset}: range beyond the end of the file"):
                source.read_at(offset, length)
        for offset, length in ((-1, 5), (0, -1)):
            with pytest.raises(InvalidInputError, match="range"):
                source.read_at(offset, length)


@pytest.mark.parametrize(
    ("location", "parts"),
    [
        ("/a/b", ("", "", "/a/b")),
        ("a:b", ("", "", "a:b")),
        ("file:/a b", ("file", "", "/a b")),
        ("file:///a%20b", ("file", "", "/a%20b")),
        ("file://host/a", ("file", "host", "/a")),
        ("file://LocalHost/a", ("file", "", "/a")),
        ("s3://bucket/a?b#c", ("s3", "bucket", "/a?b#c")),
        ("S3A://bucket", ("s3a", "bucket", "")),
        ("odd name://x", ("", "", "odd name://x")),
    ],
)
def test_locations_are_not_decoded(location: str, parts: tuple[str, str, str]) -> None:
    assert _io.split_location(location) == parts


def test_unknown_schemes_and_hosts_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="pass a filesystem"):
        PuffinReader("nonsense://x/y")
    with pytest.raises(UnsupportedError, match="file of this machine"):
        PuffinReader("file://elsewhere/x")
    with pytest.raises(InvalidInputError, match="filesystem: expected"):
        PuffinReader("x", filesystem=3)
    with pytest.raises(InvalidInputError, match="expected None for an open file"):
        PuffinReader(io.BytesIO(), filesystem=pyarrow.fs.LocalFileSystem())


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(13, "Permission denied"),
        IsADirectoryError(21, "x"),
        OSError(30, "Read-only file system"),
    ],
)
def test_errors_that_a_caller_can_correct_are_translated(error: OSError) -> None:
    with pytest.raises(InvalidInputError, match=r"^somewhere: "), errors_of("somewhere"):
        raise error


def test_errors_of_a_disk_are_not_translated() -> None:
    with pytest.raises(OSError, match="Input/output error"), errors_of("somewhere"):
        raise OSError(5, "Input/output error")


def test_an_open_arrow_file_is_read_without_closing_it(tmp_path: Path, small_file: bytes) -> None:
    (tmp_path / "x").write_bytes(small_file)
    with pyarrow.fs.LocalFileSystem().open_input_file(str(tmp_path / "x")) as file:
        with PuffinReader(file) as reader:
            assert reader.read(0) == b"plain bytes"
        assert not file.closed


def test_joined_reads_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("puffin_fast._io.source.Source.span", 1000)

    class Spans(io.BytesIO):
        longest = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.longest = max(self.longest, size or 0)
            return super().read(size)

    file = Spans(bytes(range(256)) * 100)
    ranges = [(offset, 300) for offset in range(0, 20_000, 300)] + [(5, 0), (7, 3), (25_599, 1)]
    with _io.open_source(file) as source:
        for index, data in source.read_ranges(ranges):
            offset, length = ranges[index]
            assert data == file.getvalue()[offset : offset + length]
    assert file.longest <= 1000
