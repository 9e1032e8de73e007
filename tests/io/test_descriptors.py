"""Descriptors of local files: none is free, a file is closed while it is read, a file that cannot be read."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from puffin_fast import PositionBitmap, PuffinReader, delta
from puffin_fast.errors import CorruptDataError, InvalidInputError, PuffinFastError
from puffin_fast.puffin.vectors import write_vectors

N_ROWS = 100_000
"""So many that the end of the file, which is read first, does not have all of it."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path, rows = tmp_path / "t", pa.table({"id": range(N_ROWS)})
    delta.create_table(path, rows.schema)
    delta.append(path, rows)
    return path


def test_a_scan_without_a_free_descriptor_says_so(table: Path) -> None:
    assert delta.scan(table).to_arrow().num_rows == N_ROWS  # imports take descriptors, too
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(PuffinFastError, match="_delta_log: no file descriptor is free"):
            delta.scan(table)
        os.close(held.pop())
        with pytest.raises(PuffinFastError, match=r"parquet: .*Too many open files"):
            delta.scan(table).to_arrow()
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_reader_that_is_closed_while_it_reads_says_so(tmp_path: Path) -> None:
    path, wide = tmp_path / "x.puffin", PositionBitmap.from_positions(range(0, 1 << 26, 64))
    write_vectors(path, {"a": wide, "b": wide, "c": wide})
    reader = PuffinReader(path)
    found = reader.read_many()
    next(found)
    reader.close()
    with pytest.raises(InvalidInputError, match=r"x\.puffin: closed by another thread"):
        list(found)


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-4] + b"none", lambda data: data[: len(data) // 2], lambda data: b""],
    ids=["magic", "half", "empty"],
)
def test_a_file_that_is_no_parquet_file_is_closed_at_once(
    table: Path, damage: Callable[[bytes], bytes]
) -> None:
    (path,) = table.glob("*.parquet")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptDataError) as caught:
        delta.scan(table).to_arrow()
    assert caught.value.__traceback__ is not None  # its frames hold the objects that had the file
    places = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    assert str(path) not in [os.readlink(place) for place in places if os.path.exists(place)]
