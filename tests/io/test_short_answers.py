"""A storage that answers fewer bytes than asked is noticed: an error that names the file, or the right rows."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyarrow.fs import FSSpecHandler, PyFileSystem
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast import delta, iceberg, open_table
from puffin_fast._io import Source, open_source
from puffin_fast.avro.file import read_bytes
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.puffin import PuffinReader, PuffinWriter
from puffin_fast.rows.files.avro import AvroReader
from puffin_fast.rows.files.files import FormatReader, reading
from puffin_fast.rows.files.orc import OrcReader
from puffin_fast.rows.files.parquet import ParquetReader
from tests.delta.conftest import GOLDEN
from tests.kit.faults import ShortAnswers, with_each_answer_cut
from tests.kit.tables import iceberg_table

ROWS = pa.table({"id": pa.array(range(900), pa.int64()), "items": [[n] for n in range(900)]})


@pytest.fixture
def short() -> Iterator[ShortAnswers]:
    filesystem = ShortAnswers()
    filesystem.store.clear()
    yield filesystem
    filesystem.store.clear()


def of_table(short: ShortAnswers, name: str) -> str:
    for file in (GOLDEN / name).rglob("*"):
        if file.is_file():
            short.pipe_file(f"/bucket/t/{file.relative_to(GOLDEN / name)}", file.read_bytes())
    return "/bucket/t"


def test_delta_tables(short: ShortAnswers) -> None:
    table = of_table(short, "spark_many_features")
    with_each_answer_cut(
        short, lambda: delta.scan(open_table(table, filesystem=short)).to_arrow().sort_by("id").to_pylist()
    )
    with_each_answer_cut(short, lambda: delta.vectors(table, filesystem=short).to_pylist())


def test_a_version_of_which_a_part_is_answered_is_no_other_version(short: ShortAnswers) -> None:
    short.pipe_file("/bucket/t/x", b"0123456789")
    storage = TableStorage("/bucket/t", short)
    with_each_answer_cut(short, lambda: storage.holds("x", b"0123456789"))
    assert not storage.holds("x", b"012345678")
    assert not storage.holds("x", b"0123a")


def test_puffin_files(short: ShortAnswers) -> None:
    with PuffinWriter("/bucket/t.puffin", filesystem=short) as writer:
        writer.add(b"a" * 100_000, type="x", fields=[], snapshot_id=-1, sequence_number=-1)

    def read() -> bytes:
        with PuffinReader("/bucket/t.puffin", filesystem=short) as reader:
            return reader.read(0)

    with_each_answer_cut(short, read)


def test_iceberg_tables(short: ShortAnswers, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FsspecFileIO, "_get_fs_from_uri", lambda *_: short)
    properties = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO", "uri": f"sqlite:///{tmp_path}/c.db"}
    catalog = SqlCatalog("c", warehouse="memory://bucket", **properties)
    catalog.create_namespace("n")
    table = iceberg_table(catalog, ROWS)
    iceberg.delete(table, "id < 30")
    with_each_answer_cut(short, lambda: iceberg.scan(table).to_arrow().to_pylist())
    with_each_answer_cut(short, lambda: iceberg.scan(table, row_filter="id > 880").count())
    (manifest,) = {m.manifest_path for m in table.current_snapshot().manifests(table.io) if m.content == 0}
    n_bytes = len(table.io.new_input(manifest))
    for size in (n_bytes, n_bytes - 1, n_bytes + 1, None):
        with_each_answer_cut(short, lambda size=size: read_bytes(table.io, manifest, size))  # type: ignore[misc]


@pytest.mark.parametrize("format", ["avro", "orc", "parquet"])
def test_data_files_of_each_format(short: ShortAnswers, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
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

    with_each_answer_cut(short, read)


def test_filesystems_of_pyarrow(short: ShortAnswers) -> None:
    filesystem = PyFileSystem(FSSpecHandler(short))
    table = of_table(short, "spark_many_features")
    with_each_answer_cut(
        short,
        lambda: delta.scan(open_table(table, filesystem=filesystem)).to_arrow().sort_by("id").to_pylist(),
    )
    short.pipe_file("/bucket/t.bin", BYTES)
    with_each_answer_cut(short, lambda: ranges(open_source("/bucket/t.bin", filesystem=filesystem)))


BYTES = bytes(range(256)) * 1000


def ranges(source: Source) -> list[bytes]:
    with source:
        found = dict(source.read_ranges([(0, 10), (200_000, 50_000), (90_000, 1)]))
        return [found[at] for at in range(3)] + [source.read_at(1000, 70_000)]


class Server(BaseHTTPRequestHandler):
    """Serves `BYTES`; `how` says which answers to requests for ranges are wrong."""

    how = "right"
    n_ranges = 0

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BYTES)))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()

    def do_GET(self) -> None:
        Server.n_ranges += 1
        start, stop = (int(part) for part in self.headers["Range"].removeprefix("bytes=").split("-"))
        asked = BYTES[start : stop + 1]
        data = {"short": asked[:-1], "empty": b"", "long": BYTES[start : stop + 2], "whole": BYTES}.get(
            self.how, asked
        )
        self.send_response(200 if self.how == "whole" else 206)
        self.send_header("Content-Length", str(len(asked) if self.how == "ended" else len(data)))
        self.send_header("Content-Range", f"bytes {start}-{stop}/{len(BYTES)}")
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if self.how == "ended" else data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/t.bin"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("how", ["right", "short", "empty", "long", "whole", "ended"])
def test_servers_of_http(server: str, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    filesystem = fsspec.filesystem("http", skip_instance_cache=True)
    monkeypatch.setattr(Server, "how", how)
    monkeypatch.setattr(Server, "n_ranges", 0)

    def read() -> list[bytes]:
        return ranges(open_source(server, filesystem=filesystem))

    if how == "right":
        assert read() == [BYTES[:10], BYTES[200_000:250_000], BYTES[90_000:90_001], BYTES[1000:71_000]]
    else:
        with pytest.raises(PuffinFastError) as caught:
            read()
        assert server in str(caught.value)
    assert Server.n_ranges


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_local_files_that_become_shorter_while_they_are_open(tmp_path: Path, size: int) -> None:
    path = tmp_path / "t.bin"
    opened: list[Callable[[], Any]] = [lambda: path.open("rb"), lambda: pa.OSFile(str(path))]
    for of_file in (nullcontext, *opened):
        path.write_bytes(BYTES)
        with of_file() as file, open_source(str(path) if file is None else file) as source:
            assert source.size == len(BYTES)
            os.truncate(path, size)
            message = "range beyond the end of the file: expected 70000 bytes, found"
            with pytest.raises(CorruptDataError, match=message):
                source.read_at(90_000, 70_000)


def test_data_files_that_become_shorter_while_they_are_open(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(ROWS, path, compression="none", use_dictionary=False)
    data = path.read_bytes()
    for name in ROWS.column_names:
        for size in range(0, len(data), len(data) // 7):
            path.write_bytes(data)
            reader = ParquetReader(PyArrowFileIO(), str(path))
            os.truncate(path, size)
            try:
                with reading(str(path)):
                    found = reader.columns(0, [name], 900, use_threads=False).read(0, 900, None)[name]
            except PuffinFastError as error:
                assert str(path) in str(error)  # noqa: PT017
            else:
                assert found.equals(ROWS[name].combine_chunks())
