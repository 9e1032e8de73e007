"""The kernel of Avro records gathers fields as fastavro encodes them, and reads no byte outside of its buffers."""

from __future__ import annotations

import random
from array import array
from io import BytesIO
from itertools import pairwise
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast._kernels.avro import records as avro
from puffin_fast.avro.columns import Records
from puffin_fast.avro.programs import kernel_type, program

PAIR = {
    "type": "record",
    "name": "kv",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
}
FIELDS: list[dict[str, Any]] = [
    {"name": "status", "type": "int"},
    {"name": "path", "type": "string"},
    {"name": "ratio", "type": "double"},
    {"name": "part", "type": ["null", "float"]},
    {"name": "flag", "type": ["boolean", "null"]},
    {"name": "bounds", "type": ["null", {"type": "array", "items": PAIR}]},
    {"name": "id", "type": {"type": "fixed", "name": "f", "size": 16}},
    {"name": "splits", "type": ["null", {"type": "array", "items": "long"}]},
]
NAMES = [field["name"] for field in FIELDS]


def rows_of(n: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            "status": rng.randrange(-3, 300),
            "path": rng.choice(["p", "ä", "漢", "😀"]) * rng.randrange(100),
            "ratio": rng.random(),
            "part": rng.choice([None, 1.5]),
            "flag": rng.choice([None, True, False]),
            "bounds": rng.choice([None, [], [{"key": 2**20 - i, "value": bytes(i)} for i in range(40)]]),
            "id": rng.randbytes(16),
            "splits": rng.choice([None, [], [2**62, -1]]),
        }
        for _ in range(n)
    ]


def encoded(rows: list[dict[str, Any]], names: list[str] = NAMES) -> list[bytes]:
    fields = [field for field in FIELDS if field["name"] in names]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    found = []
    for row in rows:
        out = BytesIO()
        fastavro.schemaless_writer(out, schema, {name: row[name] for name in names})
        found.append(out.getvalue())
    return found


def gathered(
    blocks: list[bytes], counts: list[int], names: list[str] = NAMES
) -> tuple[bytes | None, np.ndarray, np.ndarray]:
    words, sizes = array("q"), array("q")
    for field in FIELDS:
        own = program(kernel_type(field["type"]))
        words.extend(own)
        sizes.append(len(own) if field["name"] in names else -len(own))
    located = bytes(field["name"] in names for field in FIELDS)
    starts = np.empty(sum(counts), np.int64)
    places = np.empty((sum(located), len(starts)), np.int64)
    return avro.gather(blocks, counts, words, sizes, located, starts, places), starts, places


@pytest.mark.parametrize("n", [0, 1, 50])
def test_any_fields_are_gathered_from_any_blocks(n: int) -> None:
    rows = rows_of(n, n)
    every = encoded(rows)
    for seed in range(20):
        rng = random.Random(seed)
        chosen = rng.sample(NAMES, seed % len(FIELDS))
        names = [name for name in NAMES if name in chosen]
        cuts = sorted([0, n, *(rng.randrange(n + 1) for _ in range(3))])
        ranges = list(pairwise(cuts))
        data, starts, places = gathered(
            [b"".join(every[a:b]) for a, b in ranges], [b - a for a, b in ranges], names
        )
        expected = encoded(rows, names)
        assert data == b"".join(expected)
        assert starts.tolist() == np.cumsum([0, *map(len, expected)])[:-1].tolist()
        kinds = {field["name"]: kernel_type(field["type"]) for field in FIELDS if field["name"] in names}
        found = Records(data, kinds, starts, dict(zip(names, places, strict=True)), {}).values(names)
        again = Records(data, kinds, starts, {}, {}).values(names)
        assert found == again
        for name in names:
            values = [row[name] for row in rows]
            if name == "bounds":
                values = [None if v is None else {p["key"]: p["value"] for p in v} for v in values]
            assert found[name] == values


def test_blocks_that_do_not_hold_their_records_are_left_to_fastavro() -> None:
    data = b"".join(encoded(rows_of(3, 7)))
    assert gathered([data], [3])[0] == data
    assert gathered([data], [2])[0] is None
    assert gathered([data], [4])[0] is None
    assert gathered([data, b"\0"], [3, 0])[0] is None
    assert gathered([data + b"\0"], [3])[0] is None
    for end in range(len(data)):
        assert gathered([data[:end]], [3])[0] is None


def test_any_bytes_are_refused_or_decoded() -> None:
    data = b"".join(encoded(rows_of(3, 7)))
    kinds = {field["name"]: kernel_type(field["type"]) for field in FIELDS}
    for at in range(len(data)):
        for byte in (0xFF, 0x80, 0x01, data[at] ^ 1):
            found, starts, places = gathered([data[:at] + bytes([byte]) + data[at + 1 :]], [3])
            if found is not None:
                Records(found, kinds, starts, dict(zip(NAMES, places, strict=True)), {}).values(NAMES)


def test_offsets_outside_of_the_bytes_are_refused() -> None:
    data = b"".join(encoded(rows_of(3, 7)))
    kinds = {field["name"]: kernel_type(field["type"]) for field in FIELDS}
    for start in (-2, len(data) + 1, 1 << 62, len(data)):
        records = Records(data, kinds, np.array([start]), {name: np.array([start]) for name in NAMES}, {})
        for decode in (
            lambda records=records: records.values(["path"]),
            lambda records=records: records.integers("status"),
            lambda records=records: records.spans("path"),
            lambda records=records: records.entries_of("bounds", 1),
            lambda records=records: records.with_places(()).values(["path"]),
        ):
            with pytest.raises(ValueError, match=r"offset|the values|the bytes"):
                decode()


EDGES = bytes.fromhex("7f808f909fa0bfc1c2dfe0edeff0f4f5")


@given(st.one_of(st.binary(max_size=12), st.lists(st.sampled_from(EDGES), max_size=8).map(bytes)))
def test_strings_are_those_that_python_decodes(text: bytes) -> None:
    words, sizes = array("q", [avro.STRING]), array("q", [1])
    block = bytes([2 * len(text)]) + text
    starts, places = np.empty(1, np.int64), np.empty((0, 1), np.int64)
    found = avro.gather([block], [1], words, sizes, b"\0", starts, places)
    try:
        text.decode()
    except UnicodeDecodeError:
        assert found is None
    else:
        assert found == block


@pytest.mark.parametrize(
    "words",
    [
        [],
        [99],
        [-1],
        [avro.FIXED],
        [avro.FIXED, 0],
        [avro.OPTIONAL, 0, 5, 1],
        [avro.ARRAY, 0],
        [avro.MAP, 3, 1],
    ],
)
def test_words_that_are_no_program_are_refused(words: list[int]) -> None:
    with pytest.raises(ValueError, match="no program"):
        avro.values(b"\0", np.array([0]), array("q", words))
