"""Manifests and manifest lists that would crash the process, fill its memory or never end."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import zstandard

from puffin_fast.avro.blocks import as_long
from tests.hostile.avro_files import SYNC, avro, record
from tests.hostile.conftest import HostileTable

LIST_FIELDS = [
    {"name": "manifest_path", "type": "string", "field-id": 500},
    {"name": "manifest_length", "type": "long", "field-id": 501},
    {"name": "partition_spec_id", "type": "int", "field-id": 502},
]


@cache
def _deflated_zeros() -> bytes:
    stream = zlib.compressobj(9, wbits=-15)
    return stream.compress(ZEROS) + stream.flush()


RECURSIVE = {
    "optional": record("r", ("a", ["null", "r"])),
    "list": record("r", ("a", {"type": "array", "items": "r"})),
    "map": record("r", ("a", {"type": "map", "values": "r"})),
    "itself": record("r", ("a", "r")),
    "through another": record("r", ("a", record("s", ("b", ["null", "r"])))),
}
DEEP: Any = "long"
for _ in range(300):
    DEEP = {"type": "array", "items": DEEP}
WIDE = record("w0", ("a", "long"), ("b", "null"))
WIDE_FIELDS: list[Any] = [("w0", {"type": "array", "items": WIDE})]
for level in range(1, 40):
    inner = record(f"w{level}", ("a", f"w{level - 1}"), ("b", f"w{level - 1}"))
    WIDE_FIELDS.append((f"w{level}", {"type": "array", "items": inner}))
HOSTILE_SCHEMAS = {
    **{f"recursive: {name}": schema for name, schema in RECURSIVE.items()},
    "deep": record("r", ("a", DEEP)),
    "names that double 40 times": record("r", *WIDE_FIELDS),
}

ZEROS = bytes(400 << 20)
BOMBS: dict[str, Callable[[], bytes]] = {
    "zstandard": lambda: avro(
        record("r", ("a", "long")), [(len(ZEROS), zstandard.compress(ZEROS))], "zstandard"
    ),
    "deflate": lambda: avro(record("r", ("a", "long")), [(len(ZEROS), _deflated_zeros())], "deflate"),
    "many blocks": lambda: avro(
        record("r", ("a", "long")), [(1 << 20, zstandard.compress(bytes(1 << 20)))] * 400, "zstandard"
    ),
    "2^40 empty records": lambda: avro(record("r"), [(1 << 40, b"")]),
    "2^40 nulls": lambda: avro(record("r", ("a", "null")), [(1 << 40, b"")]),
    "2^40 records of one byte": lambda: avro(record("r", ("a", "long")), [(1 << 40, b"\0")]),
}

READ = """
table = StaticTable.from_metadata(metadata)
refuses((errors.CorruptDataError, errors.LimitExceededError), lambda: iceberg.scan(table).to_arrow(), path)
refuses((errors.CorruptDataError, errors.LimitExceededError), lambda: iceberg.verify(table), path)
refuses((errors.CorruptDataError, errors.LimitExceededError), lambda: iceberg.deletes(table), path)
"""


@pytest.mark.parametrize(
    ("which", "schema"),
    [
        *(("manifest_list", schema) for schema in HOSTILE_SCHEMAS),
        ("data_manifest", "recursive: itself"),
        ("delete_manifest", "recursive: list"),
    ],
)
def test_a_schema_that_a_manifest_does_not_need_is_refused(
    hostile: HostileTable, confined: Callable[..., int], which: str, schema: str
) -> None:
    path: Path = getattr(hostile, which)
    data = avro(HOSTILE_SCHEMAS[schema], [(1, b"\x02" * 2_000)])
    path.write_bytes(data + bytes(max(0, path.stat().st_size - len(data))))  # as long as its list says
    confined(READ, limit_mib=256, metadata=hostile.metadata, path=path.name)


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_manifest_takes_memory_that_follows_from_its_bytes(
    hostile: HostileTable, confined: Callable[..., int], bomb: str
) -> None:
    hostile.manifest_list.write_bytes(BOMBS[bomb]())
    confined(READ, limit_mib=256, metadata=hostile.metadata, path=hostile.manifest_list.name)


def test_manifests_that_are_longer_than_their_list_says_are_not_in_memory_together(
    tmp_path: Path, confined: Callable[..., int]
) -> None:
    setup = """
import os
from tests.kit.tables import iceberg_table, path_of, sqlite_catalog

table = iceberg_table(sqlite_catalog(folder), [{"id": [1]}] * 24)
for manifest in table.current_snapshot().manifests(table.io):
    os.truncate(path_of(manifest.manifest_path), 24 << 20)
"""
    action = """
try:
    iceberg.scan(table).count()
except errors.CorruptDataError:
    pass
else:
    raise AssertionError("zeros after the last block were accepted")
"""
    assert confined(action, limit_mib=1024, setup=setup, folder=str(tmp_path)) < 256


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_manifest_that_is_no_regular_file_is_refused(
    hostile: HostileTable, confined: Callable[..., int], kind: str
) -> None:
    hostile.manifest_list.unlink()
    if kind == "pipe":
        os.mkfifo(hostile.manifest_list)
    else:
        hostile.manifest_list.symlink_to("/dev/zero")
    read = READ.replace("(errors.CorruptDataError, errors.LimitExceededError)", "errors.InvalidInputError")
    confined(read, limit_mib=256, metadata=hostile.metadata, path=hostile.manifest_list.name)


def test_the_limit_of_decompression_is_adjustable(
    hostile: HostileTable, confined: Callable[..., int]
) -> None:
    read = """
from puffin_fast.avro.file import read_avro
plain = pyiceberg.io.pyarrow.PyArrowFileIO()
refuses(errors.LimitExceededError, lambda: read_avro(plain, path, {}), "the limit for")
wide = pyiceberg.io.pyarrow.PyArrowFileIO({"puffin-fast.limit.inflation-ratio": "100000"})
assert read_avro(wide, path, {}).n_records == 1 << 22
wrong = pyiceberg.io.pyarrow.PyArrowFileIO({"puffin-fast.limit.inflation-ratio": "-1"})
refuses(errors.InvalidInputError, lambda: read_avro(wrong, path, {}), "inflation-ratio")
"""
    zeros = bytes(1 << 22)
    hostile.manifest_list.write_bytes(
        avro(record("r", ("a", "long")), [(len(zeros), zstandard.compress(zeros))], "zstandard")
    )
    confined(read, limit_mib=256, path=f"file://{hostile.manifest_list}")


def column(kind: Any) -> dict[str, Any]:
    """The schema of a data file with one column."""
    return {"type": "record", "name": "table", "fields": [{"name": "id", "type": kind, "field-id": 1}]}


EMPTY = {"type": "record", "name": "empty", "fields": []}
DATA_FILES: dict[str, Callable[[], bytes]] = {
    "deflate": lambda: avro(column("long"), [(len(ZEROS), _deflated_zeros())], "deflate"),
    "zstandard": lambda: avro(column("long"), [(len(ZEROS), zstandard.compress(ZEROS))], "zstandard"),
    "2^40 rows of a byte": lambda: avro(column("long"), [(1 << 40, b"\2")]),
    "2^40 rows without bytes": lambda: avro(column(EMPTY), [(1 << 40, b"")]),
    "2^40 items without bytes": lambda: avro(
        column({"type": "array", "items": EMPTY, "element-id": 2}), [(1, as_long(1 << 40) + b"\0")]
    ),
    "a block of 2^62 bytes": lambda: avro(column("long"), []) + as_long(1) + as_long(1 << 62) + b"\2" + SYNC,
    "a header of 2^62 bytes": lambda: b"Obj\x01" + as_long(1) + as_long(1 << 62) + b"avro",
    "a text of 2^62 bytes": lambda: avro(column("string"), [(1, as_long(1 << 62))]),
    "recursive": lambda: avro(column(["null", "table"]), [(1, b"\2" * 2_000)]),
    "deep": lambda: avro(column(DEEP), [(1, b"\2" * 2_000)]),
}

OPEN = """
from puffin_fast.rows.files.reader import open_format
from puffin_fast.iceberg.manifest import ManifestEntry

entry = ManifestEntry(
    status=1, snapshot_id=1, sequence_number=1, file_sequence_number=1, content=0, file_path=path,
    file_format="AVRO", spec_id=0, partition=(), record_count=1 << 40, file_size_in_bytes=1,
)

def rows(properties=None):
    found = open_format(pyiceberg.io.pyarrow.PyArrowFileIO(properties or {}), entry)
    return sum(batch.num_rows for batch in found.batches(0, ["id"], 1 << 17, use_threads=False))
"""


@pytest.mark.parametrize("file", DATA_FILES)
def test_an_avro_data_file_takes_memory_that_follows_from_its_bytes(
    tmp_path: Path, confined: Callable[..., int], file: str
) -> None:
    path = tmp_path / "x.avro"
    path.write_bytes(DATA_FILES[file]())
    assert path.stat().st_size < 1 << 20
    action = "refuses((errors.CorruptDataError, errors.LimitExceededError), rows, path)"
    assert confined(action, limit_mib=192, setup=OPEN, path=str(path)) < 100


def long_rows(n_bytes: int, n_blocks: int) -> tuple[int, bytes]:
    """The number of rows of a data file whose blocks decompress to so many bytes, and the file."""
    row = as_long(1 << 60)
    n_rows = n_bytes // len(row)
    block = (n_rows, zstandard.compress(row * n_rows))
    return n_rows * n_blocks, avro(column("long"), [block] * n_blocks, "zstandard")


def test_blocks_of_an_avro_data_file_are_read_one_by_one(
    tmp_path: Path, confined: Callable[..., int]
) -> None:
    """Half a million rows in less than a kilobyte; each block is within the limit for any block."""
    path = tmp_path / "x.avro"
    n_rows, data = long_rows(1 << 20, 5)
    path.write_bytes(data)
    assert len(data) < 1 << 10
    assert confined(f"assert rows() == {n_rows}", limit_mib=192, setup=OPEN, path=str(path)) < 100


def test_the_limit_of_an_avro_data_file_is_adjustable(tmp_path: Path, confined: Callable[..., int]) -> None:
    path = tmp_path / "x.avro"
    n_rows, data = long_rows(2 << 20, 1)
    path.write_bytes(data)
    action = f"""
error = refuses(errors.LimitExceededError, rows, path, "1048576")
assert rows({{"puffin-fast.limit.inflation-ratio": "100000"}}) == {n_rows}
"""
    confined(action, limit_mib=192, setup=OPEN, path=str(path))
