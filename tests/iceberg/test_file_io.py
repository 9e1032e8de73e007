"""All bytes of a table are read and written through its FileIO, whatever the scheme of a location is."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast import iceberg
from puffin_fast.rows.files.parquet import open_parquet
from tests.kit.tables import path_of

KEY = 0x5A


def crypt(data: bytes) -> bytes:
    return bytes(byte ^ KEY for byte in data)


class Sink(BytesIO):
    """An output stream that encrypts its bytes when it is closed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def close(self) -> None:
        if not self.closed:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(crypt(self.getvalue()))
        super().close()


class Encrypted(InputFile, OutputFile):
    """A local file whose bytes are encrypted."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.path = Path(location.removeprefix("file:").replace("//", "/"))

    def __len__(self) -> int:
        return self.path.stat().st_size

    def exists(self) -> bool:
        return self.path.exists()

    def open(self, seekable: bool = True) -> InputStream:
        return BytesIO(crypt(self.path.read_bytes()))

    def to_input_file(self) -> InputFile:
        return self

    def create(self, overwrite: bool = False) -> OutputStream:
        return Sink(self.path)


class EncryptingFileIO(FileIO):
    """A custom FileIO: the bytes that it reads differ from those on disk."""

    def new_input(self, location: str) -> InputFile:
        return Encrypted(location)

    def new_output(self, location: str) -> OutputFile:
        return Encrypted(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        Encrypted(location if isinstance(location, str) else location.location).path.unlink()


@pytest.fixture(params=["file://", "file:", ""], ids=["three slashes", "one slash", "no scheme"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlCatalog]:
    io = {"py-io-impl": f"{__name__}.EncryptingFileIO"}
    catalog = SqlCatalog(
        "c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"{request.param}{tmp_path}/wh", **io
    )
    catalog.create_namespace("n")
    yield catalog
    catalog.engine.dispose()


def test_no_verb_passes_a_custom_file_io_by(catalog: SqlCatalog, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("w", pa.string())])
    table = iceberg.create_table(catalog, "n.t", schema)
    for first in (0, 100, 200):
        iceberg.append(table, pa.table({"id": range(first, first + 100), "w": ["old"] * 100}, schema))
    iceberg.delete(table, "id < 10")
    iceberg.delete_keys(table, pa.table({"id": [50, 150]}), ["id"])
    iceberg.upsert(table, pa.table({"id": [60, 300], "w": ["new", "new"]}, schema), ["id"])
    iceberg.compact(table)
    assert iceberg.verify(table) == []
    expected = set(range(10, 301)) - {50, 150}
    assert set(iceberg.scan(table, "id < 1000").to_arrow()["id"].to_pylist()) == expected
    assert set(table.scan().to_arrow()["id"].to_pylist()) == expected
    with iceberg.accelerate():
        assert set(table.scan().to_arrow()["id"].to_pylist()) == expected
    files = [path for path in (tmp_path / "wh").rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not any(path.read_bytes()[:4] in (b"PAR1", b"PFA1", b"Obj\x01") for path in files)


def test_position_and_equality_deletes_are_read_through_a_custom_file_io(catalog: SqlCatalog) -> None:
    properties = {"format-version": "2"}
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64())]), properties=properties)
    iceberg.append(table, pa.table({"id": range(100)}))
    iceberg.delete(table, "id < 10")
    iceberg.upgrade(table)
    iceberg.convert_position_deletes(table)
    assert iceberg.scan(table).to_arrow()["id"].to_pylist() == list(range(10, 100))


def test_the_default_scheme_applies_to_a_path_without_scheme(racing: SqlCatalog, tmp_path: Path) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64())]))
    iceberg.append(table, pa.table({"id": range(3)}))
    (task,) = iceberg.plan_files(table).tasks
    path = path_of(task.data.file_path)
    io = PyArrowFileIO({"DEFAULT_SCHEME": "hdfs", "DEFAULT_NETLOC": "host"})
    asked: list[Any] = []

    def filesystem(scheme: str, netloc: str | None) -> pa.fs.FileSystem:
        asked.append((scheme, netloc))
        return pa.fs.LocalFileSystem()

    io.fs_by_scheme = filesystem  # there is no HDFS here
    assert open_parquet(io, str(path)).metadata.num_rows == 3
    assert asked == [("hdfs", "host")]
    assert open_parquet(io, path.as_uri()).metadata.num_rows == 3
    assert asked == [("hdfs", "host")]
