"""Vectors in files: written completely, read by footer or by range, and checked."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow.fs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError, PuffinFastError
from puffin_fast.puffin import PuffinReader, PuffinWriter
from puffin_fast.puffin.vectors import (
    DeletionVectorLocation,
    check_vectors,
    read_ranges,
    read_vector,
    read_vectors,
    write_vectors,
)
from tests.kit.damage import flipped_bits
from tests.puffin.conftest import CountingFile, raw_file

GOLDEN = Path(__file__).parents[1] / "golden" / "puffin" / "spark-delete.puffin"

PROPERTIES = {"referenced-data-file": "d", "cardinality": "2"}


def bitmap(*positions: int) -> PositionBitmap:
    return PositionBitmap.from_positions(np.array(positions, np.int64))


@pytest.fixture
def vectors() -> dict[str, PositionBitmap]:
    return {
        "s3://b/1.parquet": bitmap(0, 5, 70_000, 2**32 + 3),
        "s3://b/2.parquet": PositionBitmap.from_range(10, 5010),
        "größer/3.parquet": PositionBitmap.from_positions(np.arange(0, 300_000, 3)),
        "empty": bitmap(),
    }


def one_blob(path: Path, data: bytes, properties: dict[str, str], **settings: Any) -> Path:
    with PuffinWriter(path, overwrite=True) as writer:
        writer.add(data, type=codec.BLOB_TYPE, properties=properties, **settings)
    return path


positions = st.lists(st.integers(0, 2**40), max_size=50)


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), positions, max_size=4))
def test_vectors_round_trip(given_positions: dict[str, list[int]]) -> None:
    sink = io.BytesIO()
    given_vectors = {name: bitmap(*values) for name, values in given_positions.items()}
    written = write_vectors(sink, given_vectors.items())
    assert read_vectors(sink) == given_vectors
    for entry in written:
        assert entry.cardinality == len(given_vectors[entry.data_file])
        assert entry.file_size == len(sink.getvalue())
        vector = read_vector(sink, entry.offset, entry.length, cardinality=entry.cardinality)
        assert vector == given_vectors[entry.data_file]


def test_the_footer_says_what_the_specification_demands(
    tmp_path: Path, vectors: dict[str, PositionBitmap]
) -> None:
    written = write_vectors(tmp_path / "x", vectors.items(), properties={"job": "7"})
    with PuffinReader(tmp_path / "x") as reader:
        assert reader.metadata.properties["job"] == "7"
        for blob, entry in zip(reader.blobs, written, strict=True):
            assert entry == DeletionVectorLocation(
                entry.data_file,
                str(tmp_path / "x"),
                blob.offset,
                blob.length,
                len(vectors[entry.data_file]),
                reader.file_size,
            )
            assert (blob.type, blob.fields) == ("deletion-vector-v1", (2147483645,))
            assert (blob.snapshot_id, blob.sequence_number, blob.compression_codec) == (-1, -1, None)
            assert list(blob.properties.items()) == [
                ("referenced-data-file", entry.data_file),
                ("cardinality", str(entry.cardinality)),
            ]


def test_pyiceberg_reads_our_vectors(tmp_path: Path, vectors: dict[str, PositionBitmap]) -> None:
    del vectors["empty"]  # PyIceberg makes an Arrow array of no chunks of it, and fails
    write_vectors(tmp_path / "x", vectors.items())
    theirs = deletion_vectors_from_puffin_file(PuffinFile((tmp_path / "x").read_bytes()))
    found = {vector.referenced_data_file: vector.to_vector() for vector in theirs}
    assert {name: chunks.to_pylist() for name, chunks in found.items()} == {
        name: vector.to_numpy().tolist() for name, vector in vectors.items()
    }


def test_a_delete_of_spark_is_read_by_footer_and_by_range() -> None:
    expected = [np.arange(0, 100, 3), np.arange(2, 60, 3)]  # ids 0..99, and 100..4999 at position 0
    by_footer = read_vectors(GOLDEN)
    assert [vector.to_numpy().tolist() for vector in by_footer.values()] == [e.tolist() for e in expected]
    assert read_vector(GOLDEN, 4, 108, cardinality=34) == bitmap(*expected[0])
    assert read_vector(GOLDEN, 112, 80, cardinality=20) == bitmap(*expected[1])
    assert list(check_vectors(GOLDEN)) == []


def test_vectors_of_spark_are_written_again_byte_for_byte(tmp_path: Path) -> None:
    with PuffinReader(GOLDEN) as reader:
        properties = reader.metadata.properties
    write_vectors(tmp_path / "x", read_vectors(GOLDEN).items(), properties=properties)
    assert (tmp_path / "x").read_bytes() == GOLDEN.read_bytes()


def test_a_range_needs_no_puffin_file_around_it(tmp_path: Path) -> None:
    vector = bitmap(1, 2, 2**33)
    blob = codec.encode(vector)
    for head in (b"", b"\1", b"whatever it may be"):
        for tail in (b"", b"more"):
            (tmp_path / "x.bin").write_bytes(head + blob + tail)
            assert read_vector(tmp_path / "x.bin", len(head), len(blob), cardinality=3) == vector


def test_ranges_come_in_the_order_of_the_file(tmp_path: Path, vectors: dict[str, PositionBitmap]) -> None:
    written = write_vectors(tmp_path / "x", vectors.items())
    ranges = [(entry.offset, entry.length, entry.cardinality) for entry in reversed(written)]
    found = list(read_ranges(tmp_path / "x", ranges))
    assert [index for index, _ in found] == [3, 2, 1, 0]
    assert [vector for _, vector in found] == list(vectors.values())


def test_filesystems_are_passed_on(tmp_path: Path, vectors: dict[str, PositionBitmap]) -> None:
    folder = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    for filesystem, name in ((folder, "x"), (fsspec.filesystem("memory"), "/files/x")):
        written = write_vectors(name, vectors.items(), filesystem=filesystem, overwrite=True)
        assert read_vectors(name, filesystem=filesystem) == vectors
        entry = written[1]
        found = read_vector(name, entry.offset, entry.length, filesystem=filesystem)
        assert found == vectors[entry.data_file]
        assert list(check_vectors(name, filesystem=filesystem)) == []


def test_blobs_are_taken_as_they_are(tmp_path: Path, vectors: dict[str, PositionBitmap]) -> None:
    blobs = [(name, codec.encode(vector)) for name, vector in vectors.items()]
    written = write_vectors(tmp_path / "x", [(name, memoryview(blob)) for name, blob in blobs])
    assert [entry.cardinality for entry in written] == [len(vector) for vector in vectors.values()]
    assert read_vectors(tmp_path / "x") == vectors


def test_no_vectors_make_an_empty_file(tmp_path: Path) -> None:
    assert write_vectors(tmp_path / "x", []) == []
    assert read_vectors(tmp_path / "x") == {}
    assert list(check_vectors(tmp_path / "x")) == []


def test_nothing_is_left_when_a_vector_is_refused(tmp_path: Path) -> None:
    good = ("a", bitmap(1))
    blob = bytearray(codec.encode(bitmap(1)))
    blob[-1] ^= 1

    def failing() -> Iterator[tuple[str, PositionBitmap]]:
        yield good
        raise ZeroDivisionError("vectors")

    cases: list[tuple[Any, type[Exception], str]] = [
        ([good, ("a", bitmap(2))], InvalidInputError, "two for a"),
        ([good, ("b", [1, 2])], InvalidInputError, "b: expected a PositionBitmap"),
        ([good, ("", bitmap(2))], InvalidInputError, "location"),
        ([good, (None, bitmap(2))], InvalidInputError, "location"),
        ([good, ("b", bytes(blob))], CorruptDataError, "vector of b"),
        (failing(), ZeroDivisionError, "vectors"),
    ]
    for given_vectors, error, said in cases:
        with pytest.raises(error, match=said):
            write_vectors(tmp_path / "x", given_vectors)
        assert list(tmp_path.iterdir()) == []


def test_the_location_of_a_vector_reads_it(tmp_path: Path, vectors: dict[str, PositionBitmap]) -> None:
    local = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    for path, filesystem in ((tmp_path / "x", None), ((tmp_path / "y").as_uri(), None), ("z", local)):
        for place in write_vectors(path, vectors, filesystem=filesystem):
            assert read_vector(place, filesystem=filesystem) == vectors[place.data_file]
            for changed in ({"cardinality": 77}, {"file_size": 3}, {"length": place.length - 1}):
                with pytest.raises(CorruptDataError):
                    read_vector(dataclasses.replace(place, **changed), filesystem=filesystem)
    with pytest.raises(InvalidInputError, match="expected none beside a location"):
        read_vector(place, place.offset, place.length)
    for given_range in ((), (4,)):
        with pytest.raises(InvalidInputError, match="expected both for a path"):
            read_vector(tmp_path / "x", *given_range)


def test_a_range_that_lies_is_refused_with_path_and_offset(tmp_path: Path) -> None:
    (entry,) = write_vectors(tmp_path / "x", [("a", bitmap(1, 2, 3))])
    for offset, length, cardinality in (
        (entry.offset, entry.length, 4),
        (entry.offset, entry.length - 1, 3),
        (entry.offset, entry.length + 1, 3),
        (entry.offset + 1, entry.length, 3),
        (0, entry.length, 3),
        (entry.offset, 10**6, 3),
        (10**6, entry.length, 3),
        (entry.offset, 0, 0),
    ):
        with pytest.raises(CorruptDataError) as caught:
            read_vector(tmp_path / "x", offset, length, cardinality=cardinality)
        assert caught.value.path == str(tmp_path / "x")
    with pytest.raises(PuffinFastError):
        read_vector(tmp_path / "x", 4, 2**62)
    with pytest.raises(InvalidInputError):
        read_vector(tmp_path / "x", -1, 5)
    with pytest.raises(NotFoundError, match="missing"):
        read_vector(tmp_path / "missing", 4, 30)


def test_two_vectors_for_one_data_file_need_a_manifest(tmp_path: Path) -> None:
    blob = codec.encode(bitmap(1, 2))
    with PuffinWriter(tmp_path / "x") as writer:
        for _ in range(2):
            writer.add(blob, type=codec.BLOB_TYPE, properties=PROPERTIES)
    with pytest.raises(CorruptDataError, match="two for d"):
        read_vectors(tmp_path / "x")
    (problem,) = check_vectors(tmp_path / "x")
    assert problem.message == "a second vector, the first is at 4"
    assert (problem.path, problem.offset, problem.data_file) == (str(tmp_path / "x"), 4 + len(blob), "d")


def test_other_blobs_are_passed_over(tmp_path: Path) -> None:
    with PuffinWriter(tmp_path / "x") as writer:
        writer.add(b"sketch", type="apache-datasketches-theta-v1", compression="zstd")
        writer.add(codec.encode(bitmap(1, 2)), type=codec.BLOB_TYPE, fields=(7,), properties=PROPERTIES)
    assert read_vectors(tmp_path / "x") == {"d": bitmap(1, 2)}
    assert list(check_vectors(tmp_path / "x")) == []


@pytest.mark.parametrize(
    ("properties", "settings", "said"),
    [
        ({"cardinality": "2"}, {}, "property referenced-data-file"),
        ({"referenced-data-file": "d"}, {}, "property cardinality"),
        ({**PROPERTIES, "cardinality": "3"}, {}, "cardinality"),
        ({**PROPERTIES, "cardinality": "02"}, {}, "decimal digits"),
        ({**PROPERTIES, "cardinality": " 2"}, {}, "decimal digits"),
        ({**PROPERTIES, "cardinality": "-2"}, {}, "decimal digits"),
        ({**PROPERTIES, "cardinality": "٢"}, {}, "decimal digits"),
        ({**PROPERTIES, "cardinality": "9" * 5000}, {}, "decimal digits"),
        (PROPERTIES, {"compression": "zstd"}, "compression-codec of a deletion vector"),
    ],
)
def test_what_the_specification_demands_of_a_vector_is_checked(
    tmp_path: Path, properties: dict[str, str], settings: dict[str, str], said: str
) -> None:
    path = one_blob(tmp_path / "x", codec.encode(bitmap(1, 2)), properties, **settings)
    with pytest.raises(CorruptDataError, match=said):
        read_vectors(path)
    (problem,) = check_vectors(path)
    assert said in problem.message
    assert problem.offset == 4


def test_any_flipped_bit_of_a_vector_is_found(tmp_path: Path) -> None:
    blob = codec.encode(bitmap(1, 2))
    for changed in flipped_bits(blob):
        path = one_blob(tmp_path / "x", changed, PROPERTIES)
        assert len(list(check_vectors(path))) == 1


def test_a_file_that_is_no_puffin_file_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"nonsense" * 10)
    (problem,) = check_vectors(tmp_path / "x")
    assert "magic" in problem.message
    (problem,) = check_vectors(GOLDEN, file_size=100)
    assert "file size: expected 100, found 832" in problem.message
    with pytest.raises(NotFoundError):
        list(check_vectors(tmp_path / "missing"))


def file_of(blob: bytes, *entries: tuple[str, int, int, str]) -> bytes:
    """A Puffin file of some bytes, and entries of (type, offset, length, data file) in its footer."""
    blobs = [
        {
            "type": kind,
            "fields": [],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": offset,
            "length": length,
            "properties": {"referenced-data-file": name, "cardinality": "2"},
        }
        for kind, offset, length, name in entries
    ]
    return raw_file(json.dumps({"blobs": blobs}).encode(), blobs=blob)


def test_overlapping_vectors_are_a_problem(tmp_path: Path) -> None:
    blob = codec.encode(bitmap(1, 2))
    (tmp_path / "x").write_bytes(file_of(blob, ("other", 4, 8, "d"), (codec.BLOB_TYPE, 4, len(blob), "d")))
    assert ["overlaps" in problem.message for problem in check_vectors(tmp_path / "x")] == [True]


def test_what_was_read_can_be_written(tmp_path: Path) -> None:
    written = write_vectors(tmp_path / "a", {"x": bitmap(1, 2), "y": bitmap(3)})
    assert [location.data_file for location in written] == ["x", "y"]
    write_vectors(tmp_path / "b", read_vectors(tmp_path / "a"))
    assert read_vectors(tmp_path / "b") == read_vectors(tmp_path / "a")
    write_vectors(tmp_path / "b", read_vectors(tmp_path / "b"), overwrite=True)
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()


@pytest.mark.parametrize("vectors", [["x"], [("x",)], [("x", 1, 2)], [1], 1, None, "x"])
def test_what_are_no_pairs_is_refused_by_our_error(tmp_path: Path, vectors: Any) -> None:
    with pytest.raises(InvalidInputError, match="vectors: expected"):
        write_vectors(tmp_path / "x", vectors)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shift", [0, 1])
def test_checking_overlapping_vectors_reads_no_byte_twice(shift: int) -> None:
    n, blob = 2000, codec.encode(PositionBitmap.from_positions(range(0, 100_000, 2)))
    entries = [(codec.BLOB_TYPE, 4 + at * shift, len(blob) - n, f"d{at}") for at in range(n)]
    file = CountingFile(file_of(blob, *entries))
    problems = list(check_vectors(file))
    assert sum("overlaps the previous blob" in problem.message for problem in problems) == n - 1
    assert sum(stop - start for start, stop in file.ranges) < 2 * len(file.getvalue())
    with pytest.raises(CorruptDataError, match="the end of another vector"):
        read_vectors(file)


def test_a_blob_is_the_vector_of_one_data_file(tmp_path: Path) -> None:
    blob = codec.encode(bitmap(1, 2))
    (tmp_path / "x").write_bytes(file_of(blob, *((codec.BLOB_TYPE, 4, len(blob), name) for name in "ab")))
    with pytest.raises(CorruptDataError, match=f"offset 4: .* an offset of {4 + len(blob)} or more"):
        read_vectors(tmp_path / "x")
