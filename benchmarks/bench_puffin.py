"""Benchmarks of the footers of Puffin files, compared with PyIceberg's `PuffinFile`."""

from __future__ import annotations

import functools
import gc
import io
from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.table.puffin import PuffinFile

from benchmarks.rounds import OURS
from benchmarks.timing import Case, Contenders, Target
from puffin_fast.puffin import PuffinReader, footer
from puffin_fast.puffin.metadata import BlobMetadata, FileMetadata

BLOBS = 100_000
PYICEBERG = "PyIceberg PuffinFile"
PARSE = f"{PYICEBERG}, parsing"


@functools.lru_cache(maxsize=2)
def metadata(n: int) -> FileMetadata:
    """The footer of a file of n vectors, paths as long as Iceberg's."""
    return FileMetadata(
        tuple(
            BlobMetadata(
                "deletion-vector-v1",
                (2147483645,),
                -1,
                -1,
                4 + 100 * i,
                100,
                None,
                {
                    "referenced-data-file": f"s3://bucket/warehouse/db/table/data/part={i % 100}/00000-{i}-"
                    "5bb8e446-3763-4665-b94b-62216fe73f93-00001.parquet",
                    "cardinality": str(i),
                },
            )
            for i in range(n)
        ),
        {"created-by": "benchmark"},
    )


@functools.lru_cache(maxsize=2)
def file(n: int) -> bytes:
    return b"PFA1" + bytes(100 * n) + footer.encode(metadata(n))


def collecting(call: Callable[[], Any]) -> Callable[[], Any]:
    """With the garbage collector on, as programs run, whatever the timing does."""

    def run() -> Any:
        gc.enable()
        try:
            return call()
        finally:
            gc.disable()

    return run


def parse(n: int) -> Case:
    def prepare() -> Contenders:
        data = file(n)
        assert PuffinReader(io.BytesIO(data)).metadata == metadata(n)
        assert [blob.offset for blob in PuffinFile(data).footer.blobs] == [
            b.offset for b in metadata(n).blobs
        ]
        return {
            OURS: collecting(lambda: PuffinReader(io.BytesIO(data))),
            PYICEBERG: collecting(lambda: PuffinFile(data)),
        }

    return Case("parse a footer", f"{n:,} blobs", "blob", n, prepare, (Target(PYICEBERG, 2),))


def write(n: int) -> Case:
    """PyIceberg does not write Puffin files, so the time in which it parses one is the target."""

    def prepare() -> Contenders:
        content, data = metadata(n), file(n)
        assert data.endswith(footer.encode(content))
        return {
            OURS: collecting(lambda: footer.encode(content)),
            PARSE: collecting(lambda: PuffinFile(data)),
        }

    return Case("write a footer", f"{n:,} blobs", "blob", n, prepare, (Target(PARSE, 2),))


def cases(quick: bool = False) -> list[Case]:
    n = BLOBS // 10 if quick else BLOBS
    return [parse(n), write(n)]


@pytest.mark.parametrize("case", cases(quick=True), ids=lambda case: case.name)
def test_puffin(benchmark: Any, case: Case) -> None:
    benchmark.group = case.name
    benchmark(case.prepare()[OURS])
