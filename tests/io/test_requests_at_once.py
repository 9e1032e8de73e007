"""Requests that do not need each other's answer run at the same time: a store's answer takes long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.fsspec import FsspecFileIO

from puffin_fast import iceberg
from puffin_fast._io import source
from puffin_fast.avro.file import read_bytes
from puffin_fast.errors import CorruptDataError, NotFoundError, PuffinFastError
from puffin_fast.iceberg.compat.metadata_file import read_metadata_file
from puffin_fast.rows.deletes import loader
from tests.kit.tables import iceberg_table

WAIT_S = 60
"""Seconds until a request gives up to wait for the one that must run at the same time."""


class Store(MemoryFileSystem):  # type: ignore[misc]
    """A filesystem in memory whose requests for the size of a file are answered when its bytes were requested, too.

    Attributes:
        together: the ends of paths of which this is expected.
        alone: the files whose bytes were not requested meanwhile.
    """

    cachable = False
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.together: tuple[str, ...] = ()
        self.alone: list[str] = []
        self.read: dict[str, threading.Event] = {}

    def event(self, path: str) -> threading.Event:
        return self.read.setdefault(path.rpartition("/")[2], threading.Event())

    def size(self, path: str) -> Any:
        if path.endswith(self.together) and not self.event(path).wait(WAIT_S):
            self.alone.append(path)
        return super().size(path)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        self.event(path).set()
        file = self.store.get(self._strip_protocol(path))
        if file is None:
            raise FileNotFoundError(path)
        return bytes(file.getvalue()[start:end])


@pytest.fixture
def store() -> Iterator[Store]:
    filesystem = Store()
    filesystem.store.clear()
    yield filesystem
    filesystem.store.clear()


@pytest.fixture
def catalog(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlCatalog]:
    monkeypatch.setattr(FsspecFileIO, "_get_fs_from_uri", lambda *_: store)
    properties = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO", "uri": f"sqlite:///{tmp_path}/c.db"}
    made = SqlCatalog("c", warehouse="memory://bucket", **properties)
    made.create_namespace("n")
    yield made
    made.engine.dispose()


def test_the_bytes_of_a_file_of_unknown_size_are_requested_along_with_it(
    store: Store, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = iceberg_table(catalog, {"id": range(10)})
    snapshot = table.current_snapshot()
    assert snapshot is not None
    for head_bytes in (source.HEAD_BYTES, 1000, 1):  # all of them, or a part
        monkeypatch.setattr(source, "HEAD_BYTES", head_bytes)
        store.together, store.read = (".metadata.json", ".avro"), {}
        assert iceberg.scan(table).to_arrow()["id"].to_pylist() == [*range(10)]
        assert read_metadata_file(table.io, table.metadata_location)["location"] == table.location()
        data = store.store[store._strip_protocol(snapshot.manifest_list)].getvalue()
        assert read_bytes(table.io, snapshot.manifest_list) == data
    assert store.alone == []


def test_a_file_that_is_missing_empty_or_answered_in_part(
    store: Store, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    io = FsspecFileIO({})
    with pytest.raises(NotFoundError, match="nothing"):
        read_bytes(io, "memory://bucket/nothing")
    store.pipe_file("/bucket/empty", b"")
    assert read_bytes(io, "memory://bucket/empty") == b""
    store.pipe_file("/bucket/some", bytes(range(250)) * 4)
    monkeypatch.setattr(Store, "size", lambda self, path: 1001)
    with pytest.raises(CorruptDataError, match="1001"):
        read_bytes(io, "memory://bucket/some")
    inner = Store.cat_file

    def failing(self: Store, *given: Any, **options: Any) -> bytes:
        if threading.current_thread().name.startswith("puffin_fast"):
            raise OSError("busy")
        return inner(self, *given, **options)

    monkeypatch.setattr(Store, "cat_file", failing)
    monkeypatch.setattr(Store, "size", lambda self, path: 1000)
    assert read_bytes(io, "memory://bucket/some") == bytes(range(250)) * 4


def test_vectors_are_requested_while_data_files_are_opened(
    store: Store, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = iceberg_table(catalog, {"id": range(1000)})
    iceberg.delete(table, "id < 990")
    (task,) = iceberg.plan_files(table).tasks
    inner, waited = loader.read_ranges, []

    def waiting(path: str, *given: Any, **options: Any) -> Any:
        waited.append(store.event(task.data.file_path).wait(WAIT_S))
        return inner(path, *given, **options)

    monkeypatch.setattr(loader, "read_ranges", waiting)
    for threads in (None, 1):
        store.read = {}
        found = iceberg.scan(table, row_filter="id < 995", threads=threads).to_arrow()
        assert found["id"].to_pylist() == [990, 991, 992, 993, 994]
        assert iceberg.scan(table, threads=threads).to_arrow().num_rows == 10
    assert waited == [True] * len(waited) != []
    assert iceberg.scan(table, row_filter="id >= 0", limit=3).to_arrow().num_rows == 3


def test_a_vector_that_cannot_be_read_is_an_error(store: Store, catalog: SqlCatalog) -> None:
    table = iceberg_table(catalog, {"id": range(1000)})
    iceberg.delete(table, "id < 990")
    (task,) = iceberg.plan_files(table).tasks
    assert task.vector is not None
    path = store._strip_protocol(task.vector.file_path)
    data = store.store[path].getvalue()
    for damaged in (None, data[: (task.vector.content_offset or 0) + 9], bytes(len(data))):
        store.store.pop(path)
        if damaged is not None:
            store.pipe_file(path, damaged)
        with pytest.raises(PuffinFastError):
            iceberg.scan(table).to_arrow()
        store.pipe_file(path, data)
    assert iceberg.scan(table).to_arrow().num_rows == 10
