"""A storage that answers fewer bytes than asked is noticed: an error that names the file, or the right rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from pyarrow import orc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.fsspec import FsspecFileIO

from puffin_fast import delta, iceberg
from puffin_fast.avro.file import read_bytes
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.errors import PuffinFastError
from puffin_fast.puffin import PuffinReader, PuffinWriter
from puffin_fast.rows.files.avro import AvroReader
from puffin_fast.rows.files.files import FormatReader, reading
from puffin_fast.rows.files.orc import OrcReader
from puffin_fast.rows.files.parquet import ParquetReader
from tests.delta.conftest import GOLDEN

ROWS = pa.table({"id": pa.array(range(900), pa.int64()), "items": [[n] for n in range(900)]})


class Short(MemoryFileSystem):  # type: ignore[misc]
    """A filesystem in memory. Attributes:

    n_answers: number of reads so far.
    cut: the number of the read whose answer is cut; -1: none.
    """

    cachable = False
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    n_answers, cut = 0, -1

    def answer(self, data: bytes) -> bytes:
        self.n_answers += 1
        return data[: len(data) // 2] if self.n_answers - 1 == self.cut else data

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        return self.answer(self.store[self._strip_protocol(path)].getvalue()[start:end])

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        file = super()._open(path, mode, **options)
        return Reading(self, path, file.getvalue()) if mode == "rb" else file


class Reading(MemoryFile):  # type: ignore[misc]
    def read(self, size: int | None = -1) -> bytes:
        before, data = self.tell(), super().read(size)
        found = self.fs.answer(data)
        self.seek(before + len(found))
        return found


@pytest.fixture
def short() -> Iterator[Short]:
    filesystem = Short()
    filesystem.store.clear()
    yield filesystem
    filesystem.store.clear()


def check(short: Short, run: Callable[[], Any]) -> None:
    """Runs a call with each of its answers cut in turn: what is read again is right, everything else an error."""
    short.cut, short.n_answers = -1, 0
    expected, n = run(), short.n_answers
    assert n
    for short.cut in range(n):
        short.n_answers = 0
        found, message = None, ""
        try:
            found = run()
        except PuffinFastError as error:
            message = str(error)
        assert "/t" in message or found == expected, (short.cut, message)


def of_table(short: Short, name: str) -> str:
    for file in (GOLDEN / name).rglob("*"):
        if file.is_file():
            short.pipe_file(f"/bucket/t/{file.relative_to(GOLDEN / name)}", file.read_bytes())
    return "/bucket/t"


def test_delta_tables(short: Short) -> None:
    table = of_table(short, "spark_many_features")
    check(short, lambda: delta.scan(table, filesystem=short).to_arrow().sort_by("id").to_pylist())
    check(short, lambda: delta.vectors(table, filesystem=short).to_pylist())


def test_a_version_of_which_a_part_is_answered_is_no_other_version(short: Short) -> None:
    short.pipe_file("/bucket/t/x", b"0123456789")
    storage = TableStorage("/bucket/t", short)
    check(short, lambda: storage.holds("x", b"0123456789"))
    assert not storage.holds("x", b"012345678")
    assert not storage.holds("x", b"0123a")


def test_puffin_files(short: Short) -> None:
    with PuffinWriter("/bucket/t.puffin", filesystem=short) as writer:
        writer.add(b"a" * 100_000, type="x", fields=[], snapshot_id=-1, sequence_number=-1)

    def read() -> bytes:
        with PuffinReader("/bucket/t.puffin", filesystem=short) as reader:
            return reader.read(0)

    check(short, read)


def test_iceberg_tables(short: Short, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FsspecFileIO, "_get_fs_from_uri", lambda *_: short)
    properties = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO", "uri": f"sqlite:///{tmp_path}/c.db"}
    catalog = SqlCatalog("c", warehouse="memory://bucket", **properties)
    catalog.create_namespace("n")
    table = iceberg.create_table(catalog, "n.t", ROWS.schema)
    iceberg.append(table, ROWS)
    iceberg.delete(table, "id < 30")
    check(short, lambda: iceberg.scan(table).to_arrow().to_pylist())
    check(short, lambda: iceberg.scan(table, row_filter="id > 880").count())
    (manifest,) = {m.manifest_path for m in table.current_snapshot().manifests(table.io) if m.content == 0}
    n_bytes = len(table.io.new_input(manifest))
    for size in (n_bytes, n_bytes - 1, n_bytes + 1, None):
        check(short, lambda size=size: read_bytes(table.io, manifest, size))  # type: ignore[misc]


@pytest.mark.parametrize("format", ["avro", "orc", "parquet"])
def test_data_files_of_each_format(short: Short, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    monkeypatch.setattr(FsspecFileIO, "_get_fs_from_uri", lambda *_: short)
    io, path = FsspecFileIO({}), f"memory://bucket/t.{format}"
    with short.open(path, "wb") as file:
        if format == "avro":
            fields = [{"name": "id", "type": "long", "field-id": 1}]
            schema = {"type": "record", "name": "r", "fields": fields}
            fastavro.writer(file, schema, ROWS.select(["id"]).to_pylist(), sync_interval=1000)
        elif format == "orc":
            orc.write_table(ROWS.select(["id"]), file)
        else:
            pq.write_table(ROWS, file, compression="none")

    def read() -> Any:
        reader: FormatReader
        if format == "avro":
            reader = AvroReader(io, path, ROWS.num_rows)
        elif format == "orc":
            with reading(path, "ORC"):
                reader = OrcReader(io, path)
        else:
            reader = ParquetReader(io, path)
        with reading(path, format.upper()):
            return [batch.to_pylist() for batch in reader.batches(0, ["id"], 1000, use_threads=False)]

    check(short, read)
