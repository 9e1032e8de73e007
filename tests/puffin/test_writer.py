"""Files are written sequentially, and completely or not at all."""

from __future__ import annotations

import gc
import io
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast import __version__
from puffin_fast.errors import InvalidInputError
from puffin_fast.puffin import BlobMetadata, PuffinReader, PuffinWriter


class Pipe(io.RawIOBase):
    """Takes at most 7 bytes at a time, cannot seek."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.data += bytes(data[:7])
        return min(len(data), 7)


class Full(io.BytesIO):
    """A disk that is full after some bytes."""

    def __init__(self, n_free: int) -> None:
        super().__init__()
        self.capacity = n_free

    def write(self, data: Any, /) -> int:
        if self.tell() + len(data) > self.capacity:
            raise OSError(28, "No space left on device")
        return super().write(data)


blobs = st.lists(
    st.tuples(
        st.binary(max_size=300),
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=10),
        st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
        st.integers(-(2**63), 2**63 - 1),
        st.dictionaries(
            st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")), max_size=2
        ),
        st.sampled_from([None, "zstd", "lz4"]),
    ),
    max_size=5,
)


def test_stored_blobs_are_copied_whole_or_in_parts() -> None:
    first, sink = io.BytesIO(), io.BytesIO()
    with PuffinWriter(first) as writer:
        writer.add(bytes(1000), type="t", fields=[1], properties={"a": "b"}, compression="zstd")
        writer.add(b"abcdef", type="u")
    with PuffinReader(first) as reader, PuffinWriter(sink) as writer:
        for blob in reader.blobs:
            data = reader.stored(blob)
            writer.add_stored(data, blob)
            writer.add_stored(iter([data[:2], b"", memoryview(data)[2:]]), blob)
        with pytest.raises(InvalidInputError, match="expected 6 bytes, found 5"):
            writer.add_stored(b"abcde", reader.blobs[1])
    with PuffinReader(sink) as copies:
        assert [copies.read(i) for i in range(4)] == [bytes(1000)] * 2 + [b"abcdef"] * 2
        assert [(blob.type, blob.fields, blob.properties) for blob in copies.blobs[::2]] == [
            (blob.type, blob.fields, blob.properties) for blob in reader.blobs
        ]


@pytest.mark.parametrize("parts", [[b"abcde"], [b"abcdef", b"g"], [b"abc", None]])
def test_parts_that_are_not_a_blob_leave_no_file(tmp_path: Path, parts: list[Any]) -> None:
    blob = BlobMetadata("t", (), -1, -1, 4, 6)
    with pytest.raises(InvalidInputError, match="data: expected"), PuffinWriter(tmp_path / "x") as writer:
        writer.add_stored(iter(parts), blob)
    with pytest.raises(InvalidInputError, match="aborted"):
        writer.finish()
    assert list(tmp_path.iterdir()) == []


@given(blobs, st.booleans())
def test_what_is_written_is_read_back(given_blobs: list[Any], compress_footer: bool) -> None:
    sink = io.BytesIO()
    with PuffinWriter(sink, compress_footer=compress_footer, properties={"a": "b"}) as writer:
        added = [
            writer.add(
                data,
                type=kind,
                fields=fields,
                snapshot_id=snapshot,
                sequence_number=snapshot,
                properties=properties,
                compression=codec,
            )
            for data, kind, fields, snapshot, properties, codec in given_blobs
        ]
    with PuffinReader(sink) as reader:
        assert reader.metadata == writer.finish()
        assert reader.metadata.properties == {"created-by": f"puffin_fast {__version__}", "a": "b"}
        assert list(reader.blobs) == added
        assert [reader.read(i) for i in range(len(added))] == [data for data, *_ in given_blobs]
        assert (reader.file_size, reader.footer_size) == (writer.file_size, writer.footer_size)
        assert writer.file_size == len(sink.getvalue())


def test_a_sink_need_not_seek_nor_take_all_at_once() -> None:
    pipe = Pipe()
    with PuffinWriter(pipe) as writer:  # type: ignore[arg-type]
        writer.add(bytes(1000), type="t")
    with PuffinReader(io.BytesIO(pipe.data)) as reader:
        assert reader.read(0) == bytes(1000)


def test_any_contiguous_buffer_is_taken() -> None:
    sink = io.BytesIO()
    with PuffinWriter(sink) as writer:
        for data in (b"abcd", bytearray(b"abcd"), memoryview(b"abcd"), np.frombuffer(b"abcd", np.uint16)):
            for codec in (None, "zstd", "lz4"):
                writer.add(data, type="t", compression=codec)
        with pytest.raises(InvalidInputError, match="contiguous"):
            writer.add(np.arange(8)[::2], type="t")
        with pytest.raises(InvalidInputError, match="buffer"):
            writer.add("abcd", type="t")  # type: ignore[arg-type]
    with PuffinReader(sink) as reader:
        assert {data for _, data in reader.read_many()} == {b"abcd"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"type": ""}, "type: expected"),
        ({"type": 3}, "type: expected"),
        ({"type": "\ud800"}, "type: expected text that UTF-8 has"),
        ({"fields": [1, 2**31]}, r"fields\[1\]: expected an integer of 32 bits, found 2147483648"),
        ({"fields": [True]}, r"fields\[0\]: expected"),
        ({"fields": ["1"]}, r"fields\[0\]: expected"),
        ({"snapshot_id": 2**63}, "snapshot_id: expected an integer of 64 bits"),
        ({"sequence_number": 1.0}, "sequence_number: expected"),
        ({"properties": {"a": 1}}, "properties: expected strings"),
        ({"properties": {1: "a"}}, "properties: expected strings"),
        ({"properties": {"a": "\udc00"}}, r"properties\['a'\]: expected text"),
        ({"compression": "gzip"}, "compression: expected None"),
    ],
)
def test_a_wrong_argument_is_refused_and_the_writer_goes_on(arguments: dict[str, Any], message: str) -> None:
    sink = io.BytesIO()
    with PuffinWriter(sink) as writer:
        with pytest.raises(InvalidInputError, match=message):
            writer.add(b"x", **{"type": "t", **arguments})
        writer.add(b"y", type="t")
    with PuffinReader(sink) as reader:
        assert [data for _, data in reader.read_many()] == [b"y"]


def test_properties_of_the_file_are_the_callers_or_refused_before_a_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="properties"):
        PuffinWriter(tmp_path / "x", properties={"a": 1})  # type: ignore[dict-item]
    assert list(tmp_path.iterdir()) == []
    with PuffinWriter(tmp_path / "x", properties={"created-by": "me 1"}):
        pass
    with PuffinReader(tmp_path / "x") as reader:
        assert reader.metadata.properties == {"created-by": "me 1"}


def test_the_name_appears_when_the_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "x"
    with PuffinWriter(path) as writer:
        writer.add(bytes(100_000), type="t")
        assert not path.exists()
    assert [entry.name for entry in path.parent.iterdir()] == ["x"]
    assert path.stat().st_size == writer.file_size


def test_after_a_failed_write_no_footer_follows() -> None:
    sink = Full(50)
    with pytest.raises(InvalidInputError, match="aborted"), PuffinWriter(sink) as writer:  # noqa: PT012
        writer.add(b"x" * 40, type="t")
        with pytest.raises(OSError, match="No space"):
            writer.add(b"x" * 40, type="t")
        with pytest.raises(InvalidInputError, match="aborted"):
            writer.add(b"", type="t")
        sink.capacity = 10_000  # and the caller goes on after the error
    assert sink.getvalue() == b"PFA1" + b"x" * 40


def test_an_existing_name_is_kept_unless_overwriting_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"precious")
    with pytest.raises(InvalidInputError, match="exists already"):
        PuffinWriter(path)
    with pytest.raises(ZeroDivisionError), PuffinWriter(path, overwrite=True):
        raise ZeroDivisionError
    assert path.read_bytes() == b"precious"
    with PuffinWriter(path, overwrite=True):
        pass
    assert PuffinReader(path).blobs == ()
    with pytest.raises(InvalidInputError):
        PuffinWriter(tmp_path, overwrite=True)


def test_of_two_writers_of_one_name_the_first_to_finish_wins(tmp_path: Path) -> None:
    path = tmp_path / "x"
    first, second = PuffinWriter(path), PuffinWriter(path)
    second.add(b"second", type="t")
    second.finish()
    with pytest.raises(InvalidInputError, match="exists already"):
        first.finish()
    assert PuffinReader(path).read(0) == b"second"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_killed_writer_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from puffin_fast.puffin import PuffinWriter\n"
        "w = PuffinWriter(sys.argv[1])\n"
        "w.add(bytes(1 << 20), type='t')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "x"
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not path.exists()
    with PuffinWriter(path):
        pass
    assert path.exists()


def test_a_temporary_name_contains_the_final_name_and_is_not_too_long(tmp_path: Path) -> None:
    for name in ("x.puffin", "y" * 255, "ä" * 127):
        with PuffinWriter(tmp_path / name):
            (temporary,) = [entry.name for entry in tmp_path.iterdir() if entry.name.endswith(".tmp")]
            assert temporary.startswith(f".{name[:110]}")
    assert len(list(tmp_path.iterdir())) == 3


def test_finish_may_be_called_twice(tmp_path: Path) -> None:
    writer = PuffinWriter(tmp_path / "x")
    with pytest.raises(InvalidInputError, match="after finish"):
        _ = writer.file_size
    assert writer.finish() == writer.finish()
    writer.abort()
    assert (tmp_path / "x").stat().st_size == writer.file_size
    with pytest.raises(InvalidInputError, match="finished"):
        writer.add(b"", type="t")


def test_a_file_object_must_be_at_its_start() -> None:
    sink = io.BytesIO(b"head")
    sink.seek(4)
    with pytest.raises(InvalidInputError, match="found position 4"):
        PuffinWriter(sink)
    with pytest.raises(InvalidInputError, match="text"):
        PuffinWriter(io.StringIO())  # type: ignore[arg-type]


def test_a_reader_and_a_writer_say_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "v.puffin"
    with PuffinWriter(path) as writer:
        writer.add(b"abc", type="x")
        assert repr(writer) == f"PuffinWriter('{path}', 1 blob, 7 bytes, open)"
    assert repr(writer) == f"PuffinWriter('{path}', 1 blob, {writer.file_size} bytes, finished)"
    with PuffinReader(path) as reader:
        assert repr(reader) == f"PuffinReader('{path}', 1 blob, {reader.file_size} bytes)"
    assert repr(reader).endswith(", closed)")
    aborted = PuffinWriter(tmp_path / "w.puffin")
    aborted.abort()
    assert repr(aborted).endswith(", aborted)")


@pytest.mark.parametrize("how", ["exception", "dropped", "abort"])
def test_a_file_that_is_not_finished_leaves_nothing(tmp_path: Path, how: str) -> None:
    writer = PuffinWriter(tmp_path / "x")
    writer.add(bytes(100_000), type="t")
    if how == "dropped":
        del writer
        gc.collect()
    elif how == "abort":
        with writer:
            writer.abort()
    else:
        with pytest.raises(ZeroDivisionError), writer:
            raise ZeroDivisionError
        for use in (writer.finish, lambda: writer.add(b"", type="t")):
            with pytest.raises(InvalidInputError, match="aborted"):
                use()
    assert list(tmp_path.iterdir()) == []
