"""Reads files that Iceberg's Java classes wrote (see tests/golden/puffin/PROVENANCE.md)."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.table.puffin import PuffinFile

from puffin_fast.puffin import BlobMetadata, PuffinReader, PuffinWriter

GOLDEN = Path(__file__).parent.parent / "golden" / "puffin"

JAVA = {"created-by": "puffin golden"}


def test_an_empty_file_has_no_blobs() -> None:
    with PuffinReader(GOLDEN / "java-empty.puffin") as reader:
        assert reader.blobs == ()
        assert reader.metadata.properties == JAVA
        assert (reader.file_size, reader.footer_size) == (76, 72)


def test_uncompressed_blobs_are_read_with_their_metadata() -> None:
    with PuffinReader(GOLDEN / "java-uncompressed.puffin") as reader:
        assert (reader.file_size, reader.footer_size) == (516, 431)
        assert reader.metadata.properties == {**JAVA, "table": "t"}
        assert reader.blobs == (
            BlobMetadata("some-blob", (1,), 2, 1, 4, 9),
            BlobMetadata("some-other-blob", (2, 3), 2**62, 3, 13, 72, None, {"äöü": '"quoted"\n\\ 🐦'}),
            BlobMetadata("empty", (), -1, -1, 85, 0),
        )
        assert [data for _, data in reader.read_many()] == [
            b"abcdefghi",
            bytes(range(64)) + "größer".encode(),
            b"",
        ]


def test_zstd_blobs_are_decompressed() -> None:
    with PuffinReader(GOLDEN / "java-zstd.puffin") as reader:
        assert [blob.compression_codec for blob in reader.blobs] == ["zstd", "zstd", None, "zstd"]
        assert [reader.read(i) for i in range(4)] == [b"abc" * 100, b"xyz" * 1000, b"plain", b""]


def test_what_java_wrote_is_written_again_byte_for_byte(tmp_path: Path) -> None:
    for name in ("java-empty", "java-uncompressed", "spark-delete"):
        golden = GOLDEN / f"{name}.puffin"
        with (
            PuffinReader(golden) as reader,
            PuffinWriter(tmp_path / name, properties=reader.metadata.properties) as writer,
        ):
            for blob, data in reader.read_many():
                writer.add(
                    data,
                    type=blob.type,
                    fields=blob.fields,
                    snapshot_id=blob.snapshot_id,
                    sequence_number=blob.sequence_number,
                    properties=blob.properties,
                )
        assert (tmp_path / name).read_bytes() == golden.read_bytes()


def test_pyiceberg_reads_the_same_of_every_golden_file() -> None:
    for golden in sorted(GOLDEN.glob("*.puffin")):
        theirs = PuffinFile(golden.read_bytes())
        with PuffinReader(golden) as reader:
            assert [
                (b.type, tuple(b.fields), b.offset, b.length, b.properties) for b in theirs.footer.blobs
            ] == [(b.type, b.fields, b.offset, b.length, b.properties) for b in reader.blobs]
            for index, blob in enumerate(theirs.footer.blobs):
                assert theirs.get_blob_payload(blob) == reader.read(index)
