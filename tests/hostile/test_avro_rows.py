"""Avro data files whose rows take far more memory than their bytes: nulls of wide types, and blocks that inflate."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, ListType, LongType, NestedField, StringType, StructType

from puffin_fast.avro.blocks import as_long
from tests.hostile.avro_files import avro, record
from tests.kit.tables import sqlite_catalog
from tests.rows.files.formats import named_by_mapping, register

N = 1 << 20
"""Bytes that a block may always have."""

WIDE = 4096
"""Bytes of the widest fixed that the kernel decodes."""


class Bomb(NamedTuple):
    """A data file of one column."""

    kind: Any
    avro_type: Any
    blocks: list[tuple[int, bytes]]
    codec: str
    batches: bool
    """Whether its rows are returned in batches of bounded memory, or the file is refused."""


def deflated(data: bytes) -> bytes:
    stream = zlib.compressobj(9, wbits=-15)
    return stream.compress(data) + stream.flush()


def fixed(size: int) -> Any:
    return {"type": "fixed", "name": "f", "size": size}


def one_list(size: int) -> Bomb:
    """A row with a list of a million nulls."""
    n = N - 10
    data = as_long(n) + bytes(n) + b"\0"
    kind = ListType(100, FixedType(size), element_required=False)
    return Bomb(
        kind, {"type": "array", "items": ["null", fixed(size)]}, [(1, deflated(data))], "deflate", False
    )


def nulls_of(kind: Any, avro_type: Any, *, batches: bool) -> Bomb:
    return Bomb(kind, ["null", avro_type], [(N, deflated(bytes(N)))], "deflate", batches)


N_FIELDS = 3_000
STRUCT = StructType(*(NestedField(100 + at, f"f{at}", LongType()) for at in range(N_FIELDS)))
RECORD = record("s", *((f"f{at}", "long") for at in range(N_FIELDS)))
LARGE_TEXT = zstandard.compress(as_long(N - 3) + b"x" * (N - 3))

BOMBS: dict[str, Callable[[], Bomb]] = {
    "null fixed values": lambda: nulls_of(FixedType(WIDE), fixed(WIDE), batches=True),
    "null structs": lambda: nulls_of(STRUCT, RECORD, batches=True),
    "null fixed values that fastavro reads": lambda: nulls_of(
        FixedType(1 << 30), fixed(1 << 30), batches=False
    ),
    "a list of nulls": lambda: one_list(WIDE),
    "a list of nulls that fastavro reads": lambda: one_list(WIDE + 1),
    "blocks of one text": lambda: Bomb(StringType(), "string", [(1, LARGE_TEXT)] * 1_000, "zstandard", True),
}

READ = """
table = StaticTable.from_metadata(metadata)
def read():
    return sum(batch.num_rows for batch, at in zip(iceberg.scan(table).to_batches(), range(20)))
if batches:
    assert read()
else:
    refuses(errors.LimitExceededError, read, path, "limit")
"""


@pytest.mark.parametrize("bomb", BOMBS)
def test_rows_of_an_avro_file_take_memory_that_follows_from_its_bytes(
    tmp_path: Path, confined: Callable[..., int], bomb: str
) -> None:
    found = BOMBS[bomb]()
    catalog = sqlite_catalog(tmp_path)
    schema = Schema(NestedField(1, "a", found.kind))
    table, path, local = named_by_mapping(catalog, "n", schema, "AVRO")
    local.write_bytes(avro(record("r", ("a", found.avro_type)), found.blocks, found.codec))
    register(table, path, "AVRO", sum(n for n, _ in found.blocks))
    catalog.engine.dispose()
    used = confined(
        READ, limit_mib=3_072, metadata=table.metadata_location, path=local.name, batches=found.batches
    )
    assert used < 1_024
