"""Range reads: only the tail and the requested blobs are read."""

from __future__ import annotations

import dataclasses
import io
import pickle
import random
from pathlib import Path

import pytest

from puffin_fast.errors import CorruptDataError, InvalidInputError, LimitExceededError, NotFoundError
from puffin_fast.puffin import BlobMetadata, PuffinReader, PuffinWriter
from tests.puffin.conftest import CountingFile, raw_file

BIG = 200_000
"""A blob larger than the tail that is read first, and than any gap that is read."""


def puffin_of(*blobs: bytes, **properties: str) -> bytes:
    sink = io.BytesIO()
    with PuffinWriter(sink, properties=properties) as writer:
        for blob in blobs:
            writer.add(blob, type="t")
    return sink.getvalue()


@pytest.fixture(scope="module")
def big_blobs() -> list[bytes]:
    return [random.Random(i).randbytes(BIG) for i in range(8)]


def test_a_small_file_is_read_once(small_file: bytes) -> None:
    file = CountingFile(small_file)
    with PuffinReader(file) as reader:
        assert [len(data) for _, data in reader.read_many()] == [11, 80, 80]
    assert file.ranges == [(0, len(small_file))]


def test_opening_reads_the_tail_only(big_blobs: list[bytes]) -> None:
    data = puffin_of(*big_blobs)
    file = CountingFile(data)
    with PuffinReader(file) as reader:
        assert len(reader.blobs) == 8
    assert file.ranges == [(len(data) - 65536, len(data))]


def test_a_footer_larger_than_the_tail_takes_a_second_read(big_blobs: list[bytes]) -> None:
    data = puffin_of(*big_blobs, **{f"k{i}": "v" * 1000 for i in range(100)})
    file = CountingFile(data)
    with PuffinReader(file) as reader:
        start = len(data) - reader.footer_size
        assert reader.metadata.properties["k99"] == "v" * 1000
    assert file.ranges == [(len(data) - 65536, len(data)), (start, len(data) - 65536)]


def test_blobs_that_were_not_asked_for_are_never_read(big_blobs: list[bytes]) -> None:
    file = CountingFile(puffin_of(*big_blobs))
    with PuffinReader(file) as reader:
        del file.ranges[:]
        assert reader.read(2) == big_blobs[2]
        assert dict(reader.read_many([reader.blobs[5], 0])) == {
            reader.blobs[0]: big_blobs[0],
            reader.blobs[5]: big_blobs[5],
        }
        for index, blob in enumerate(reader.blobs):
            assert file.touched(blob.offset, blob.offset + blob.length) == (index in (0, 2, 5))


def test_neighbours_are_read_at_once(big_blobs: list[bytes]) -> None:
    file = CountingFile(puffin_of(*big_blobs))
    with PuffinReader(file) as reader:
        del file.ranges[:]
        assert [data for _, data in reader.read_many([3, 1, 2])] == big_blobs[1:4]
        assert file.ranges == [(4 + BIG, 4 + 4 * BIG)]


def test_the_head_is_checked_with_the_first_blob(big_blobs: list[bytes]) -> None:
    data = b"PFA2" + puffin_of(*big_blobs)[4:]
    with PuffinReader(io.BytesIO(data)) as reader:
        assert reader.read(1) == big_blobs[1]
        with pytest.raises(CorruptDataError, match="magic at the start"):
            reader.read(0)


def test_the_head_of_a_local_file_is_checked_at_once(tmp_path: Path, big_blobs: list[bytes]) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"PFA2" + puffin_of(*big_blobs)[4:])
    with pytest.raises(CorruptDataError, match="magic at the start") as caught:
        PuffinReader(path)
    assert (caught.value.path, caught.value.offset) == (str(path), 0)


def test_repeats_come_as_often_as_asked(small_file: bytes) -> None:
    with PuffinReader(io.BytesIO(small_file)) as reader:
        assert [data for _, data in reader.read_many([0, 0, 2, 0])] == [b"plain bytes"] * 3 + [b"ll" * 40]
        assert list(reader.read_many([])) == []


def test_blobs_may_share_bytes() -> None:
    payload = (
        b'{"blobs":[{"type":"t","fields":[],"snapshot-id":0,"sequence-number":0,"offset":4,"length":6},'
        b'{"type":"t","fields":[],"snapshot-id":0,"sequence-number":0,"offset":6,"length":2}]}'
    )
    with PuffinReader(io.BytesIO(raw_file(payload, blobs=b"abcdef"))) as reader:
        assert [data for _, data in reader.read_many()] == [b"abcdef", b"cd"]


@pytest.mark.parametrize("wrong", [3, -1, True, "0", None, 1.0])
def test_other_objects_are_refused_as_blobs(small_file: bytes, wrong: object) -> None:
    with PuffinReader(io.BytesIO(small_file)) as reader:
        with pytest.raises(InvalidInputError):
            reader.read(wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError):
            reader.read_many([0, wrong])  # type: ignore[list-item]


@pytest.mark.parametrize(("offset", "length"), [(0, 8), (-1, 5), (4, -1), (4, 10**6), (2**62, 1)])
def test_metadata_of_another_file_is_refused(small_file: bytes, offset: int, length: int) -> None:
    with PuffinReader(io.BytesIO(small_file)) as reader:
        foreign = dataclasses.replace(reader.blobs[0], offset=offset, length=length)
        with pytest.raises(CorruptDataError, match="range of a blob"):
            reader.read(foreign)


def test_blobs_beyond_the_limit_are_refused(small_file: bytes) -> None:
    with PuffinReader(io.BytesIO(small_file), max_blob_bytes=50) as reader:
        assert reader.read(0) == b"plain bytes"
        for index in (1, 2):  # small as stored, 80 bytes when decompressed
            with pytest.raises(LimitExceededError, match="limit is 50"):
                reader.read(index)
    with (
        PuffinReader(io.BytesIO(small_file), max_blob_bytes=10) as reader,
        pytest.raises(LimitExceededError, match="11 bytes"),
    ):
        reader.read(0)


def test_a_closed_reader_raises_and_leaves_the_callers_file_open(small_file: bytes) -> None:
    file = io.BytesIO(small_file)
    reader = PuffinReader(file)
    reader.close()
    reader.close()
    assert not file.closed
    assert len(reader.blobs) == 3
    with pytest.raises(InvalidInputError, match="closed"):
        reader.read(0)


def test_a_wrong_file_size_is_found(small_file: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(small_file)
    for source in (path, io.BytesIO(small_file)):
        for size in (len(small_file) - 1, len(small_file) + 1):
            with pytest.raises(CorruptDataError):
                PuffinReader(source, file_size=size)
        with PuffinReader(source, file_size=len(small_file)) as reader:
            assert reader.file_size == len(small_file)
    with pytest.raises(InvalidInputError):
        PuffinReader(path, file_size=-1)


def test_a_file_that_shrinks_while_it_is_read_is_corrupt(tmp_path: Path, big_blobs: list[bytes]) -> None:
    path = tmp_path / "x"
    path.write_bytes(puffin_of(*big_blobs))
    with PuffinReader(path) as reader:
        with path.open("r+b") as file:
            file.truncate(BIG)
        with pytest.raises(CorruptDataError, match="range beyond the end"):
            reader.read(3)


def test_other_objects_are_refused_as_files(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        PuffinReader(tmp_path / "missing")
    with pytest.raises(InvalidInputError, match="expected a regular file"):
        PuffinReader(tmp_path)
    for wrong in (None, 3, b"x", io.StringIO(), "", "a\0b"):
        with pytest.raises(InvalidInputError):
            PuffinReader(wrong)  # type: ignore[arg-type]


def test_metadata_is_plain_frozen_data(small_file: bytes) -> None:
    with PuffinReader(io.BytesIO(small_file)) as reader:
        blob = reader.blobs[0]
        assert pickle.loads(pickle.dumps(reader.metadata)) == reader.metadata
    assert blob == BlobMetadata("a", (1,), 5, 6, 4, 11)
    assert hash(blob) == hash(BlobMetadata("a", (1,), 5, 6, 4, 11))
    with pytest.raises(dataclasses.FrozenInstanceError):
        blob.offset = 5  # type: ignore[misc]
