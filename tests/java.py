"""Calls Iceberg's Java classes in the JVM of a Spark session, to write and read files.

``python -m tests.java`` writes the golden blobs of ``tests/golden/dv`` again; tests only read them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from tests import jars
from tests.kit import oracle

GOLDEN = Path(__file__).parent / "golden" / "dv"
PACKAGE = "org.apache.iceberg.deletes"

SETS: dict[str, list[tuple[int, int, int]]] = {
    "empty": [],
    "reference": [(0, 1, 1), (5, 6, 1), (70_000, 70_001, 1), ((1 << 32) + 3, (1 << 32) + 4, 1)],
    "run": [(10, 5010, 1)],
    "gap": [((2 << 32) + 7, (2 << 32) + 8, 1)],
    "gap_between": [(9, 10, 1), ((3 << 32) + 70_000, (3 << 32) + 70_002, 1)],
    "array_4096": [(0, 8192, 2)],
    "bitmap_4097": [(1, 8195, 2)],
    "full_container": [(65_536, 131_072, 1)],
    "array_or_run_tie": [(0, 3, 1)],
    "array_over_run": [(0, 4, 1)],
    "runs_of_three": [(start, start + 3, 1) for start in range(0, 600, 4)],
    "three_containers_with_a_run": [(0, 1, 1), (65_536, 65_636, 1), (131_072, 131_272, 2)],
    "four_containers_with_a_run": [
        (0, 1, 1),
        (65_536, 65_636, 1),
        (131_072, 131_272, 2),
        (196_608, 262_144, 7),
    ],
    "nine_containers_with_runs": [(key << 16, (key << 16) + 20, 1 + key % 2) for key in range(9)],
}
"""Positions of each golden file, as ranges (start, stop, step)."""


def positions_of(ranges: Iterable[tuple[int, int, int]]) -> list[int]:
    return [position for start, stop, step in ranges for position in range(start, stop, step)]


class Verdict(NamedTuple):
    """What Java made of some bytes: positions, or why not."""

    positions: list[int] | None
    reason: str


class Java:
    """Package-private classes, reached by reflection.

    Args:
        jvm: py4j's view of a JVM whose context class loader knows Iceberg.
    """

    def __init__(self, jvm: Any) -> None:
        self.jvm = jvm
        # py4j asks the JVM about each part of a dotted name, so names are looked up once
        self._any = jvm.java.lang.Class.forName("java.lang.Object")
        self._new_array = jvm.java.lang.reflect.Array.newInstance
        self._wrap, self._little_endian = jvm.java.nio.ByteBuffer.wrap, jvm.java.nio.ByteOrder.LITTLE_ENDIAN
        self._longs, self._text = jvm.java.util.stream.LongStream.builder, jvm.java.util.Arrays.toString
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._index = jvm.java.lang.Class.forName(f"{PACKAGE}.BitmapPositionDeleteIndex", True, loader)
        bitmap = jvm.java.lang.Class.forName(f"{PACKAGE}.RoaringPositionBitmap", True, loader)
        (self._deserialize,) = (m for m in bitmap.getDeclaredMethods() if m.getName() == "deserialize")
        self._deserialize.setAccessible(True)

    def _new(self, cls: Any) -> Any:
        (constructor,) = (c for c in cls.getDeclaredConstructors() if c.getParameterCount() == 0)
        constructor.setAccessible(True)
        return constructor.newInstance(self._objects())

    def _objects(self, *values: Any) -> Any:
        """An `Object[]`: py4j fills no variable arguments."""
        objects = self._new_array(self._any, len(values))
        for i, value in enumerate(values):
            objects[i] = value
        return objects

    def encode(self, positions: Iterable[int]) -> bytes:
        """A blob of positions deleted one by one."""
        index = self._new(self._index)
        for position in positions:
            index.delete(position)
        return bytes(index.serialize().array())

    def decode(self, bitmap: bytes) -> Verdict:
        """The verdict of `RoaringPositionBitmap.deserialize` on a portable 64-bit bitmap."""
        buffer = self._wrap(bitmap).order(self._little_endian)
        return self._verdict(lambda: self._deserialize.invoke(None, self._objects(buffer)))

    def decode_blob(self, blob: bytes, cardinality: int) -> Verdict:
        """The verdict of `PositionDeleteIndex.deserialize`, for a declared cardinality."""
        iceberg = self.jvm.org.apache.iceberg
        file = (
            iceberg.FileMetadata.deleteFileBuilder(iceberg.PartitionSpec.unpartitioned())
            .ofPositionDeletes()
            .withFormat("PUFFIN")
            .withPath("dv.puffin")
            .withFileSizeInBytes(len(blob) + 100)
            .withRecordCount(cardinality)
            .withReferencedDataFile("data.parquet")
            .withContentOffset(4)
            .withContentSizeInBytes(len(blob))
            .build()
        )
        return self._verdict(lambda: iceberg.deletes.PositionDeleteIndex.deserialize(blob, file))

    def _verdict(self, read: Callable[[], Any]) -> Verdict:
        """Positions of what was read, or the exception as it is: Spark asks the JVM much about each."""
        from py4j import java_gateway, protocol

        with patch.object(java_gateway, "get_return_value", protocol.get_return_value):
            try:
                return Verdict(self._positions(read()), "")
            except protocol.Py4JJavaError as error:
                return Verdict(None, str(error))

    def _positions(self, read: Any) -> list[int]:
        found = self._longs()
        read.forEach(found)
        text = self._text(found.build().toArray())
        return [int(word) for word in text[1:-1].split(",") if word]


def main() -> None:
    """Writes each set's blob and a manifest that says where the bytes come from."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", ",".join(str(jar) for jar in jars.find("spark")))
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    try:
        java = Java(session.sparkContext._jvm)
        version = java.jvm.org.apache.iceberg.IcebergBuild.version()
        files = {}
        for name, ranges in SETS.items():
            blob = java.encode(positions_of(ranges))
            (GOLDEN / f"{name}.bin").write_bytes(blob)
            files[name] = {
                "sha256": hashlib.sha256(blob).hexdigest(),
                "cardinality": len(positions_of(ranges)),
                "ranges": ranges,
                "canonical": blob == oracle.encode_blob(positions_of(ranges)),
            }
        provenance = {
            "writer": f"{PACKAGE}.BitmapPositionDeleteIndex.serialize",
            "artifact": jars.SPARK[0],
            "version": version,
            "java": java.jvm.java.lang.System.getProperty("java.version"),
            "made_by": "python -m tests.java",
            "canonical": "false where Java fills the gaps between keys with empty bitmaps",
            "files": files,
        }
        (GOLDEN / "provenance.json").write_text(json.dumps(provenance, indent=1) + "\n")
        print(json.dumps({name: entry["canonical"] for name, entry in files.items()}), file=sys.stderr)
    finally:
        session.stop()


if __name__ == "__main__":
    main()
