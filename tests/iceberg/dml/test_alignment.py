"""Rows in buffers of any alignment give the tables, keys, vectors and sketches of the same rows in aligned buffers."""

from __future__ import annotations

import uuid
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import puffin_fast as pf
from puffin_fast import iceberg
from puffin_fast._alignment import aligned
from tests.iceberg.layouts import LAYOUTS
from tests.kit.cases import each
from tests.kit.rows import by_pyiceberg

N = 6


def shifted(rows: pa.Table, n_bytes: int) -> pa.Table:
    """The rows as a message of Arrow IPC that begins at any byte, as Flight and sockets deliver it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    message = sink.getvalue()
    memory = pa.allocate_buffer(message.size + n_bytes)  # at a multiple of 64
    np.frombuffer(memoryview(memory), np.uint8)[n_bytes:] = np.frombuffer(message, np.uint8)
    return pa.ipc.open_stream(memory.slice(n_bytes)).read_all()


def rows(first: int, word: str) -> pa.Table:
    ids = range(first, first + N)
    prices = pa.array([Decimal(i % 7) / 4 if i % 9 else None for i in ids], pa.decimal128(10, 2))
    times = [datetime(2024, 1, 1 + i % 20) for i in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "price": prices,
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "word": pa.array([f"{word}{i % 5}" for i in ids]),
            "key": pa.array([uuid.UUID(int=i % 4).bytes for i in ids], pa.uuid()),
            "s": pa.array([{"d": Decimal(i)} for i in ids], pa.struct([("d", pa.decimal128(20, 0))])),
        }
    )


@pytest.mark.parametrize(
    "spec",
    [
        "bucket[3](price)",
        "truncate[50](price)",
        "bucket[2](id)",
        "day(at)",
        "truncate[2](word)",
        "bucket[2](key)",
    ],
)
def test_every_verb_takes_rows_of_any_alignment(racing: Any, spec: str) -> None:
    table = iceberg.create_table(racing, "n.t", rows(0, "a").schema, partition_spec=[spec])
    for number, n_bytes in enumerate((1, 8)):
        given = shifted(rows(N * number, "a"), n_bytes)
        iceberg.append(table, given.to_reader() if number else given)
    iceberg.upsert(table, shifted(rows(N // 2, "b"), 24), "id")
    iceberg.delete_keys(table, shifted(rows(0, "a").slice(0, 2), 4), ["at", "id"])
    expected = pa.concat_tables([rows(0, "a").slice(2, 1), rows(N // 2, "b"), rows(N, "a").slice(N // 2)])
    assert by_pyiceberg(table) == expected.to_pylist()
    assert iceberg.verify(table) == []


@each("n_bytes", (1, 2, 4, 8, 12, 24, 48))
def test_vectors_and_sketches_of_arrays_of_any_alignment(n_bytes: int) -> None:
    positions = pa.table({"pos": [[5, 1, 2**33], [], [7]], "price": rows(0, "a")["price"].slice(0, 3)})
    expected, found = (shifted(positions, offset) for offset in (0, n_bytes))
    blobs = pf.arrow.encode(expected["pos"])
    assert pf.arrow.encode(found["pos"]).equals(blobs)
    assert pf.arrow.decode(shifted(pa.table({"blob": blobs}), n_bytes)["blob"]).equals(pf.arrow.decode(blobs))
    sketches = [pf.arrow.theta_sketch(some["price"]).to_bytes() for some in (expected, found)]
    assert sketches[0] == sketches[1]


@each("name", LAYOUTS)
def test_a_copy_is_made_only_of_what_is_not_aligned_and_has_the_same_values(name: str) -> None:
    array = LAYOUTS[name].array
    assert aligned(array) is array
    for n_bytes in (1, 8):
        (found,) = shifted(pa.table({"c": array}), n_bytes)["c"].chunks
        assert aligned(found).equals(array)
        for buffer in aligned(found).buffers():
            assert buffer is None or buffer.address % 8 == 0
