"""Files of this package read by Iceberg's Java classes, and the reverse, through Spark's JVM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table.puffin import PuffinFile

from puffin_fast.puffin import PuffinReader, PuffinWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jar]


@pytest.fixture
def jvm(iceberg_spark: SparkSession) -> Any:
    return iceberg_spark._jvm


def read_with_java(jvm: Any, path: Path) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
    """File properties and, for each blob, its metadata and bytes, as Java reads them."""
    java_file = jvm.org.apache.iceberg.Files.localInput(str(path))
    reader = jvm.org.apache.iceberg.puffin.Puffin.read(java_file).build()
    try:
        metadata = reader.fileMetadata()
        blobs = list(metadata.blobs())
        # readAll takes an Iterable of metadata and gives pairs of (metadata, ByteBuffer)
        chosen = jvm.java.util.ArrayList()
        for blob in blobs:
            chosen.add(blob)
        buffers = {}
        pairs = reader.readAll(chosen).iterator()
        while pairs.hasNext():
            pair = pairs.next()
            content = jvm.org.apache.iceberg.util.ByteBuffers.toByteArray(pair.second())
            buffers[pair.first().offset(), pair.first().length()] = bytes(content)
        return dict(metadata.properties()), [
            (
                blob.type(),
                tuple(blob.inputFields()),
                blob.snapshotId(),
                blob.sequenceNumber(),
                blob.compressionCodec(),
                dict(blob.properties()),
                buffers[blob.offset(), blob.length()],
            )
            for blob in blobs
        ]
    finally:
        reader.close()


def test_java_and_pyiceberg_read_what_we_write(jvm: Any, tmp_path: Path) -> None:
    path = tmp_path / "ours.puffin"
    contents = [(b"plain", None), (b"zz" * 5000, "zstd"), (b"", "zstd"), (b"\0\xff" * 7, None)]
    with PuffinWriter(path, properties={"name": 'größer "\\\n'}) as writer:
        for index, (data, codec) in enumerate(contents):
            writer.add(
                data,
                type=f"type {index}",
                fields=(index, 2147483645),
                snapshot_id=2**62 + index,
                sequence_number=-1,
                compression=codec,
                properties={"i": str(index), "ü🐦": "\t"} if index else None,
            )
    expected = [
        (
            f"type {index}",
            (index, 2147483645),
            2**62 + index,
            -1,
            codec,
            {"i": str(index), "ü🐦": "\t"} if index else {},
            data,
        )
        for index, (data, codec) in enumerate(contents)
    ]
    assert read_with_java(jvm, path) == (writer.finish().properties, expected)
    theirs = PuffinFile(path.read_bytes())
    assert [theirs.get_blob_payload(blob) for blob in theirs.footer.blobs] == [data for data, _ in contents]


def test_java_reads_a_file_without_blobs(jvm: Any, tmp_path: Path) -> None:
    with PuffinWriter(tmp_path / "x") as writer:
        pass
    assert read_with_java(jvm, tmp_path / "x") == (writer.finish().properties, [])


def test_we_read_what_java_writes(jvm: Any, tmp_path: Path) -> None:
    path = tmp_path / "java.puffin"
    puffin = jvm.org.apache.iceberg.puffin
    codecs = puffin.PuffinCompressionCodec
    output = jvm.org.apache.iceberg.Files.localOutput(str(path))
    writer = puffin.Puffin.write(output).createdBy("java").set("k", "v").build()
    fields = jvm.java.util.ArrayList()
    fields.add(3)
    properties = jvm.java.util.HashMap()
    properties.put("a", "b")
    contents = [b"plain", bytes(100_000), b"", bytes(range(256)) * 100]
    for data in contents:
        for codec in (codecs.NONE, codecs.ZSTD):
            buffer = jvm.java.nio.ByteBuffer.wrap(data)
            writer.add(puffin.Blob("t", fields, 7, 8, buffer, codec, properties))
    writer.finish()
    sizes = writer.fileSize(), writer.footerSize()
    writer.close()
    with PuffinReader(path) as reader:
        assert (reader.file_size, reader.footer_size) == sizes
        assert reader.metadata.properties == {"created-by": "java", "k": "v"}
        assert [reader.read(i) for i in range(8)] == [data for data in contents for _ in range(2)]
        assert {blob.compression_codec for blob in reader.blobs} == {None, "zstd"}
        assert all((b.type, b.fields, b.properties) == ("t", (3,), {"a": "b"}) for b in reader.blobs)


def test_java_refuses_lz4_that_we_read(jvm: Any, tmp_path: Path) -> None:
    """This is why lz4 is not the default. The test fails when Java can read it."""
    from pyspark.errors.exceptions.captured import UnsupportedOperationException

    with PuffinWriter(tmp_path / "footer", compress_footer=True):
        pass
    with PuffinWriter(tmp_path / "blob") as writer:
        writer.add(b"x", type="t", compression="lz4")
    for name in ("footer", "blob"):
        assert len(PuffinReader(tmp_path / name).blobs) == (name == "blob")
        with pytest.raises(UnsupportedOperationException, match="LZ4"):
            read_with_java(jvm, tmp_path / name)
