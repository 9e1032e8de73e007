"""The storage of Delta tables: conditional writes, and filesystems other than the local one."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest

from puffin_fast import delta, dv, errors, lance, open_table, paimon
from puffin_fast._io import sink
from puffin_fast._io.location import resolve
from puffin_fast._io.rename import rename_new
from puffin_fast._io.sink import put_if_absent
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.delta.log.storage import TableStorage
from tests.conftest import require_module
from tests.delta.conftest import GOLDEN
from tests.delta.tables import commit_of, write_lines
from tests.kit.tables import delta_table, files_of


@pytest.fixture
def memory() -> Any:
    """An fsspec filesystem in memory that holds a golden table."""
    filesystem = require_module("fsspec").filesystem("memory", skip_instance_cache=True)
    filesystem.store.clear()
    table = GOLDEN / "spark_many_features"
    for file in files_of(table):
        filesystem.pipe_file(f"/bucket/t/{file.relative_to(table)}", file.read_bytes())
    yield filesystem
    filesystem.store.clear()


def test_a_file_is_written_only_where_there_is_none(tmp_path: Path, memory: Any) -> None:
    for path, filesystem in ((str(tmp_path / "x"), None), ("/bucket/x", memory)):
        assert put_if_absent(path, b"1", filesystem=filesystem)
        assert not put_if_absent(path, b"2", filesystem=filesystem)
    assert (tmp_path / "x").read_bytes() == memory.cat_file("/bucket/x") == b"1"
    assert [file.name for file in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("has", ["links", "renames", "neither"])
def test_of_many_writers_at_once_one_writes(
    has: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On filesystems with and without hard links and renames that replace no file."""
    barrier = threading.Barrier(8)
    link = os.link

    def late(*paths: str) -> None:
        barrier.wait(10)
        if has != "links":
            raise OSError(errno.EPERM, "no hard links")
        link(*paths)

    monkeypatch.setattr(os, "link", late)
    if has == "neither":
        monkeypatch.setattr(sink, "rename_new", lambda path, to: False)
    for round in range(10):
        path, texts = tmp_path / str(round), [bytes([n]) * 1000 for n in range(8)]
        with ThreadPoolExecutor(8) as pool:
            written = pool.map(partial(put_if_absent, str(path)), texts)
        assert [text for text, is_written in zip(texts, written, strict=True) if is_written] == [
            path.read_bytes()
        ]


def test_without_hard_links_no_incomplete_file_has_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*paths: str) -> None:
        raise OSError(errno.EPERM, "no hard links")

    monkeypatch.setattr(os, "link", refused)
    path = tmp_path / "x"
    made: list[object] = []
    replace, open_ = os.replace, os.open
    monkeypatch.setattr(os, "replace", lambda *paths: made.append(paths) or replace(*paths))
    monkeypatch.setattr(os, "open", lambda *to: made.append(to) or open_(*to))
    assert put_if_absent(str(path), b"1")
    assert not put_if_absent(str(path), b"2")
    assert made == []
    assert path.read_bytes() == b"1"
    assert [file.name for file in tmp_path.iterdir()] == ["x"]


def test_a_rename_replaces_no_file(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"1")
    assert rename_new(str(one), str(other))
    one.write_bytes(b"2")
    with pytest.raises(FileExistsError):
        rename_new(str(one), str(other))
    assert (one.read_bytes(), other.read_bytes()) == (b"2", b"1")
    with pytest.raises(FileNotFoundError):
        rename_new(str(tmp_path / "none"), str(tmp_path / "new"))
    with pytest.raises(NotADirectoryError):
        rename_new(str(one), str(other / "x"))


def test_a_filesystem_that_cannot_promise_it_is_refused() -> None:
    filesystem = pyarrow.fs.PyFileSystem(
        pyarrow.fs.FSSpecHandler(require_module("fsspec").filesystem("memory"))
    )
    with pytest.raises(errors.UnsupportedError, match="no conditional writes"):
        put_if_absent("bucket/x", b"1", filesystem=filesystem)


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    with pytest.raises(errors.InvalidInputError):
        put_if_absent(str(tmp_path / "file" / "x"), b"1")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_table_on_another_filesystem_is_read_deleted_from_and_verified(memory: Any) -> None:
    table = "/bucket/t"
    assert delta.scan(open_table(table, filesystem=memory)).to_arrow().num_rows == 257
    assert delta.vectors(table, filesystem=memory).num_rows == 3
    assert delta.delete(open_table(table, filesystem=memory), "id < 30").rows_deleted == 26
    assert delta.scan(open_table(table, filesystem=memory)).to_arrow().num_rows == 231
    assert delta.verify(open_table(table, filesystem=memory)) == []


def test_a_thousand_files_with_vectors_are_planned_by_columns_and_read(tmp_path: Path) -> None:
    """Other readers were seen to hang on such tables."""
    n, rows = 1000, pa.table({"id": pa.array(range(10), pa.int64())})
    table = delta_table(tmp_path, rows)
    (add,) = commit_of(table, 1)["add"]
    data = (table / add["path"]).read_bytes()
    record = dv.delta.encode(PositionBitmap.from_positions([1, 5]))
    name = uuid.uuid4()
    (table / f"deletion_vector_{name}.bin").write_bytes(b"\1" + record * n)
    vector = {"storageType": "u", "pathOrInlineDv": dv.delta.z85_encode(name.bytes), "cardinality": 2}
    adds = []
    for number in range(n):
        (table / f"{number}.parquet").write_bytes(data)
        place = {"offset": 1 + number * len(record), "sizeInBytes": len(record) - 8}
        adds.append({"add": add | {"path": f"{number}.parquet", "deletionVector": vector | place}})
    write_lines(table, 1, adds)
    found = delta.scan(table)
    assert len(found.tasks()) == n
    assert found.to_arrow()["id"].to_pylist() == [0, 2, 3, 4, 6, 7, 8, 9] * n
    done = delta.delete_positions(table, pa.table({"file_path": ["7.parquet"] * 2, "pos": [0, 1]}))
    assert (done.rows_deleted, done.data_files) == (1, 1)


@pytest.mark.parametrize("host", ["", "localhost", "LocalHost"])
@pytest.mark.parametrize("through", ["nothing", "arrow", "fsspec"])
def test_files_of_this_machine_may_be_named_by_host(host: str, through: str, tmp_path: Path) -> None:
    table = shutil.copytree(GOLDEN / "hand_inline", tmp_path / "t")
    local = {"arrow": pyarrow.fs.LocalFileSystem(), "fsspec": require_module("fsspec").filesystem("file")}
    filesystem: Any = local.get(through)
    location = f"file://{host}{table}"
    assert delta.scan(open_table(location, filesystem=filesystem)).count() == 900
    assert delta.delete(open_table(location, filesystem=filesystem), "id < 15").rows_deleted > 0
    assert delta.verify(open_table(location, filesystem=filesystem)) == []
    with pytest.raises(errors.UnsupportedError, match="file of this machine, found authority other"):
        delta.scan(open_table(f"file://other{table}", filesystem=filesystem))


@pytest.mark.parametrize("host", ["localhost", "other"])
def test_a_data_file_of_another_machine_is_refused(host: str, tmp_path: Path) -> None:
    """A local file of the same path is another one."""
    table = shutil.copytree(GOLDEN / "hand_inline", tmp_path / "t")
    before = delta.scan(table, "id >= 0").to_arrow().num_rows
    (file,) = table.glob("*.parquet")
    for log in (table / "_delta_log").glob("*.json"):
        log.write_text(log.read_text().replace(f'"path":"{file.name}', f'"path":"file://{host}{file}'))
    if host == "localhost":
        assert delta.scan(table, "id >= 0").to_arrow().num_rows == before
        return
    for work in (lambda: delta.scan(table).to_arrow(), lambda: delta.delete(table, "id < 15")):
        with pytest.raises(errors.UnsupportedError, match="found authority other"):
            work()
    assert [problem.path for problem in delta.verify(table)] == [f"file://other{file}"]


def test_a_folder_whose_name_is_not_utf8_is_refused_by_all_formats() -> None:
    require_module("lance")
    verbs: list[Any] = [delta.scan, delta.verify, paimon.vectors, lance.vectors]
    for verb in verbs:
        with pytest.raises(errors.InvalidInputError, match="expected UTF-8"):
            verb("/folder/\udcff")


def test_a_table_in_memory_needs_no_filesystem() -> None:
    table = f"memory:///{uuid.uuid4()}/t"
    delta.create_table(table, pa.schema([("id", pa.int64())]))
    delta.append(table, pa.table({"id": [1, 2]}))
    delta.delete(table, "id = 1")
    assert delta.scan(table).to_arrow()["id"].to_pylist() == [2]
    assert not delta.verify(table)
    assert not delta.orphan_files(table, older_than=timedelta(0))


def test_a_table_without_its_first_version_is_not_created_again(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    delta.create_table(tmp_path, schema)
    log = tmp_path / "_delta_log"
    (log / f"{0:020}.json").rename(log / f"{12:020}.json")
    with pytest.raises(errors.InvalidInputError, match="a Delta table already exists"):
        delta.create_table(tmp_path, schema)
    assert [path.name for path in log.iterdir()] == [f"{12:020}.json"]


def test_nothing_is_sent_to_a_storage_that_cannot_be_listed(tmp_path: Path) -> None:
    class Unreachable(TableStorage):
        def names(self, folder: str) -> list[str]:
            raise errors.PuffinFastError(f"{self.root}/{folder}: the storage failed: connection refused")

    with pytest.raises(errors.PuffinFastError, match="connection refused") as caught:
        delta.create_table(Unreachable(str(tmp_path)), pa.schema([("id", pa.int64())]))
    assert type(caught.value) is errors.PuffinFastError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [None, pyarrow.fs.LocalFileSystem()], ids=["path", "filesystem"])
def test_data_files_on_a_local_disk_are_opened_as_those_of_iceberg(tmp_path: Path, given: Any) -> None:
    folder = str(delta_table(tmp_path / "t", {"id": [1, 2, 3]}))
    storage = TableStorage(folder, given)
    (data_file,) = tmp_path.glob("t/*.parquet")
    assert resolve(str(data_file), storage) == ("local", None, str(data_file))
    assert resolve(storage.add_inline("x", b""), storage)[0] == "pyiceberg"
    data_file.unlink()
    os.mkfifo(data_file)
    with pytest.raises(errors.InvalidInputError, match=r"\.parquet: expected a regular file"):
        delta.scan(open_table(folder, filesystem=given)).to_arrow()
