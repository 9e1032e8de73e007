"""Files of Delta, Paimon and Lance tables, and sketches, that declare wrong sizes."""

from __future__ import annotations

import gzip
import io
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from puffin_fast import ThetaSketch, dv
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import lance
from tests.hostile.avro_files import avro, record
from tests.hostile.conftest import HostileTable
from tests.kit import thrift


def lance_file(n_rows: int, codec: str | None, n_batches: int = 1) -> bytes:
    """An Arrow file of row ids that are all 0."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.array(np.zeros(n_rows, np.uint32))], schema=lance.SCHEMA)
    with pa.ipc.new_file(sink, lance.SCHEMA, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        for _ in range(n_batches):
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def claiming(data: bytes, n_bytes: int, claimed: int) -> bytes:
    """The file with another decompressed size of its buffer."""
    old = struct.pack("<q", n_bytes)
    assert data.count(old) == 1
    return data.replace(old, struct.pack("<q", claimed))


LANCE: dict[str, Callable[[], bytes]] = {
    "zstd": lambda: lance_file(1 << 28, "zstd"),
    "lz4": lambda: lance_file(1 << 26, "lz4"),
    "many batches": lambda: lance_file(1 << 20, "zstd", 200),
    "a claim of 2^33 bytes": lambda: claiming(lance_file(7_777, "zstd"), 4 * 7_777, 1 << 33),
    "a claim of 2^62 bytes": lambda: claiming(lance_file(7_777, "zstd"), 4 * 7_777, 1 << 62),
    "a claim of fewer bytes": lambda: claiming(lance_file(7_777, "zstd"), 4 * 7_777, 12),
}


@pytest.mark.parametrize("file", LANCE)
def test_a_lance_deletion_file_takes_memory_that_follows_from_its_bytes(
    tmp_path: Path, confined: Callable[..., int], file: str
) -> None:
    path = tmp_path / "x.arrow"
    path.write_bytes(LANCE[file]())
    action = """
data = open(path, "rb").read()
refuses((errors.CorruptDataError, errors.LimitExceededError), lambda: pf.dv.lance.decode(data, path=path), path)
"""
    grown = confined(action, limit_mib=512, path=str(path))
    assert grown < 64 + 2 * (path.stat().st_size >> 20)


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
def test_compressed_lance_deletion_files_are_read(codec: str | None) -> None:
    sink = pa.BufferOutputStream()
    rows = np.random.default_rng(5).permutation(100_000).astype(np.uint32)
    with pa.ipc.new_file(sink, lance.SCHEMA, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        for first in range(0, 100_000, 30_000):
            writer.write_batch(pa.record_batch([pa.array(rows[first : first + 30_000])], schema=lance.SCHEMA))
    assert len(lance.decode(sink.getvalue())) == 100_000


# Paimon ----------------------------------------------------------------------------------------------------

RANGES = {
    "type": "array",
    "items": record("range", ("f0", "string"), ("f1", "int"), ("f2", "int"), ("_CARDINALITY", "long")),
}
INDEX_FIELDS = (
    ("_VERSION", "int"),
    ("_KIND", "int"),
    ("_INDEX_TYPE", "string"),
    ("_FILE_NAME", "string"),
    ("_PARTITION", "bytes"),
    ("_BUCKET", "int"),
    ("_DELETIONS_VECTORS_RANGES", RANGES),
)


def index_manifest(**changes: object) -> bytes:
    """An index manifest of one vector, with other values of its range."""
    entry = {
        "_VERSION": 1,
        "_KIND": 0,
        "_INDEX_TYPE": "DELETION_VECTORS",
        "_FILE_NAME": "index-0",
        "_PARTITION": bytes(12),
        "_BUCKET": 0,
        "_DELETIONS_VECTORS_RANGES": [{"f0": "d.orc", "f1": 1, "f2": 40, "_CARDINALITY": 4} | changes],
    }
    sink = io.BytesIO()
    fastavro.writer(sink, record("index", *INDEX_FIELDS), [entry])
    return sink.getvalue()


PAIMON: dict[str, Callable[[], bytes]] = {
    "a bomb": lambda: avro(
        record("r", ("a", "long")), [(1 << 28, zstandard.compress(bytes(1 << 28)))], "zstandard"
    ),
    "2^40 entries": lambda: avro(record("r"), [(1 << 40, b"")]),
    "another type": lambda: avro(record("r", *INDEX_FIELDS[:-1], ("_DELETIONS_VECTORS_RANGES", "long")), []),
    "no field": lambda: avro(record("r", *INDEX_FIELDS[:-1]), []),
    "recursive": lambda: avro(record("r", ("a", ["null", "r"])), [(1, b"\2" * 2_000)]),
    "a length of 2^31 - 1": lambda: index_manifest(f2=(1 << 31) - 1),
    "an offset of 2^31 - 1": lambda: index_manifest(f1=(1 << 31) - 1),
    "a negative offset": lambda: index_manifest(f1=-5),
    "another cardinality": lambda: index_manifest(f2=72, _CARDINALITY=1 << 62),
}


@pytest.mark.parametrize("file", PAIMON)
def test_a_paimon_index_takes_memory_that_follows_from_its_bytes(
    tmp_path: Path, confined: Callable[..., int], file: str
) -> None:
    for folder in ("snapshot", "manifest", "index"):
        (tmp_path / folder).mkdir()
    (tmp_path / "snapshot" / "snapshot-1").write_text('{"indexManifest": "index-manifest-0"}')
    (tmp_path / "manifest" / "index-manifest-0").write_bytes(PAIMON[file]())
    vector = dv.paimon.encode(PositionBitmap.from_positions([0, 5, 70_000, (1 << 32) + 3]))
    (tmp_path / "index" / "index-0").write_bytes(b"\1" + vector)
    action = """
refuses((errors.CorruptDataError, errors.LimitExceededError), lambda: puffin_fast.paimon.vectors(path), path)
"""
    assert confined(action, limit_mib=256, path=str(tmp_path)) < 64


# Delta -----------------------------------------------------------------------------------------------------

ACTIONS = (
    b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
    b'{"metaData":{"id":"x","format":{"provider":"parquet","options":{}},"partitionColumns":[],"configuration":{},'
    b'"schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":[]}"}}',
)
LINES: dict[str, bytes] = {
    "arrays": b'{"x":' + b"[" * 2_000_000,
    "objects": b'{"metaData":' + b'{"a":' * 200_000 + b"1" + b"}" * 200_001,
    "a schema of arrays": ACTIONS[1].replace(b'\\"fields\\":[', b'\\"fields\\":' + b"[" * 100_000),
    "statistics of arrays": b'{"add":{"path":"a","stats":"' + b"[" * 1_000_000 + b'"}}',
}


@pytest.mark.parametrize("line", LINES)
def test_a_delta_commit_may_nest_as_it_likes(tmp_path: Path, confined: Callable[..., int], line: str) -> None:
    (tmp_path / "_delta_log").mkdir()
    commit = tmp_path / "_delta_log" / f"{0:020}.json"
    commit.write_bytes(b"\n".join([*ACTIONS, LINES[line]]))
    action = """
refuses(errors.CorruptDataError, lambda: puffin_fast.delta.scan(path).to_arrow(), path)
refuses(errors.CorruptDataError, lambda: puffin_fast.delta.vectors(path), path)
"""
    assert confined(action, limit_mib=512, path=str(tmp_path)) < 200


def test_a_delta_commit_has_a_limit(tmp_path: Path, confined: Callable[..., int]) -> None:
    (tmp_path / "_delta_log").mkdir()
    commit = tmp_path / "_delta_log" / f"{0:020}.json"
    commit.write_bytes(b"")
    os.truncate(commit, 40 << 30)
    action = """
refuses(errors.LimitExceededError, lambda: puffin_fast.delta.snapshot(path), path, "the limit")
"""
    assert confined(action, limit_mib=256, path=str(tmp_path)) < 16


def repeated(times: int, length: int) -> pa.DictionaryArray:
    """A long text many times."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int32()), ["p" * length])


def one_map(texts: pa.Array) -> pa.MapArray:
    """All texts in one row, as keys and as values."""
    return pa.MapArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts, texts)


def spread(maps: pa.MapArray, n_rows: int) -> pa.MapArray:
    """The same row among many empty ones."""
    empty = pa.array([[]] * n_rows, maps.type)
    return pa.concat_arrays([empty, maps, empty])


def stating_few_bytes(data: bytes) -> bytes:
    """A Parquet file whose footer states that each column chunk has 100 bytes without compression."""
    footer = thrift.footer_of(data)
    for group in thrift.get(footer, 4)[1]:
        for column in thrift.get(group, 1)[1]:
            chunk = thrift.get(column, 3)
            chunk[:] = [(one, kind, 100 if one == 6 else value) for one, kind, value in chunk]
    return thrift.with_footer(data, footer)


CHECKPOINTS: dict[str, Callable[[], pa.Array]] = {
    "bomb": lambda: pa.StructArray.from_arrays([repeated(1 << 14, 100_000)], ["path"]),
    "longer bomb": lambda: pa.StructArray.from_arrays([repeated(1 << 12, 10_000_000)], ["path"]),
    "bomb in a map": lambda: pa.StructArray.from_arrays(
        [one_map(repeated(1 << 12, 10_000_000))], ["partitionValues"]
    ),
    "bomb of common beginnings": lambda: pa.StructArray.from_arrays(
        [one_map(pa.repeat(pa.scalar("x" * (1 << 12)), 100_000))], ["partitionValues"]
    ),
    "bomb of common beginnings among rows without": lambda: pa.StructArray.from_arrays(
        [spread(one_map(pa.repeat(pa.scalar("x" * (1 << 16)), 5_000)), 100_000)], ["partitionValues"]
    ),
    "bomb of items": lambda: pa.StructArray.from_arrays(
        [one_map(repeated(20_000_000, 1))], ["partitionValues"]
    ),
    "footer that states few bytes": lambda: pa.StructArray.from_arrays(
        [repeated(1 << 12, 1_000_000)], ["path"]
    ),
    "one long value": lambda: pa.StructArray.from_arrays([pa.array(["p" * 200_000_000])], ["path"]),
    "bomb of actions": lambda: pa.StructArray.from_arrays([repeated(1 << 14, 100_000)], ["schemaString"]),
    "another type": lambda: pa.StructArray.from_arrays([pa.array([1.5])], ["path"]),
    "no struct": lambda: pa.array([5]),
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_a_delta_checkpoint_takes_memory_that_follows_from_its_bytes(
    tmp_path: Path, confined: Callable[..., int], kind: str
) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    checkpoint = log / f"{0:020}.checkpoint.parquet"
    column = CHECKPOINTS[kind]()
    leaves = [f"add.partitionValues.key_value.{leaf}" for leaf in ("key", "value")]
    common: dict[str, Any] = {
        "use_dictionary": False,
        "column_encoding": dict.fromkeys(leaves, "DELTA_BYTE_ARRAY"),
    }
    action = "metaData" if kind == "bomb of actions" else "add"
    pq.write_table(
        pa.table({action: column}),
        checkpoint,
        store_schema=False,
        compression="zstd",
        write_statistics=False,
        **(common if "common beginnings" in kind else {}),
    )
    if kind == "footer that states few bytes":
        checkpoint.write_bytes(stating_few_bytes(checkpoint.read_bytes()))
    assert checkpoint.stat().st_size < 1 << 20
    (log / f"{0:020}.json").write_bytes(b"\n".join(ACTIONS))
    (log / "_last_checkpoint").write_text('{"version":0,"size":1}')
    bomb = kind not in ("another type", "no struct")
    kinds = "errors.LimitExceededError" if bomb else "(errors.CorruptDataError, errors.InvalidInputError)"
    action = f"""
refuses({kinds}, lambda: puffin_fast.delta.snapshot(path), path)
"""
    confined(action, limit_mib=256, path=str(tmp_path))


# Sketches --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [-1, 0, 2, 4, (1 << 31) - 1])
def test_a_sketch_that_lies_about_its_count_is_refused(confined: Callable[..., int], count: int) -> None:
    sketch = bytearray(ThetaSketch.from_arrow(pa.array([1, 2, 3])).to_bytes())
    sketch[8:12] = struct.pack("<i", count)
    action = """
from puffin_fast import ThetaSketch
refuses(errors.CorruptDataError, lambda: ThetaSketch.from_bytes(sketch), "count of hashes", "3 by size")
refuses(errors.CorruptDataError, lambda: arrow.theta_union(pa.array([sketch], pa.binary())))
"""
    assert confined(action, limit_mib=64, sketch=bytes(sketch)) < 16


# Metadata of other tables ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gzip", "arrays", "a pipe"])
def test_metadata_files_beside_a_tables_own_take_memory_that_follows_from_their_bytes(
    hostile: HostileTable, confined: Callable[..., int], kind: str
) -> None:
    path = hostile.manifest_list.parent / "other.metadata.json"
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(gzip.compress(b"[" * (200 << 20)) if kind == "gzip" else b"[" * (1 << 20))
    action = """
import datetime
table = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/wh").load_table("n.t")
if kind == "gzip":
    refuses(errors.LimitExceededError, lambda: iceberg.orphan_files(table, older_than=datetime.timedelta(0)), path)
else:
    iceberg.orphan_files(table, older_than=datetime.timedelta(0))
"""
    grown = confined(action, limit_mib=1024, folder=str(hostile.folder), path=path.name, kind=kind)
    assert grown < 150
