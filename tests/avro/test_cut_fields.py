"""Fields cut out of the records of Avro blocks are those that fastavro decodes."""

from __future__ import annotations

import random
from io import BytesIO
from typing import Any

import fastavro
import pytest

from puffin_fast.avro.blocks import Block
from puffin_fast.avro.programs import cut_fields

PAIR = {
    "type": "record",
    "name": "pair",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
}
FIELDS: list[dict[str, Any]] = [
    {"name": "status", "type": "int"},
    {"name": "path", "type": "string"},
    {"name": "ratio", "type": "double"},
    {"name": "part", "type": ["null", "float"]},
    {"name": "bounds", "type": ["null", {"type": "array", "items": PAIR}]},
    {"name": "id", "type": {"type": "fixed", "name": "f", "size": 16}},
    {"name": "splits", "type": ["null", {"type": "array", "items": "long"}]},
]


def records(n: int, seed: int) -> list[dict[str, Any]]:
    random.seed(seed)
    return [
        {
            "status": random.randrange(3),
            "path": "p" * random.randrange(200),
            "ratio": random.random(),
            "part": random.choice([None, 1.5]),
            "bounds": random.choice([None, [], [{"key": 2**20 - i, "value": bytes(i)} for i in range(40)]]),
            "id": random.randbytes(16),
            "splits": random.choice([None, [], [2**62, -1]]),
        }
        for _ in range(n)
    ]


def encoded(fields: list[dict[str, Any]], rows: list[dict[str, Any]]) -> bytes:
    schema, out = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields}), BytesIO()
    for row in rows:
        fastavro.schemaless_writer(out, schema, {field["name"]: row[field["name"]] for field in fields})
    return out.getvalue()


@pytest.mark.parametrize("n", [0, 1, 50])
def test_any_fields_can_be_cut_out(n: int) -> None:
    rows = records(n, n)
    data = encoded(FIELDS, rows)
    for seed in range(20):
        names = random.Random(seed).sample([field["name"] for field in FIELDS], seed % len(FIELDS))
        found = cut_fields(FIELDS, names, [Block(n, data)])
        expected = encoded([field for field in FIELDS if field["name"] in names], rows)
        assert found is not None
        assert bytes(found[0].data) == expected


def test_blocks_that_do_not_hold_their_records_are_left_to_fastavro() -> None:
    rows = records(3, 7)
    data = encoded(FIELDS, rows)
    assert cut_fields(FIELDS, ["path"], [Block(2, data)]) is None
    assert cut_fields(FIELDS, ["path"], [Block(4, data)]) is None
    assert cut_fields(FIELDS, ["path"], [Block(3, data + b"\0")]) is None
    for end in range(len(data)):
        assert cut_fields(FIELDS, ["path"], [Block(3, data[:end])]) is None
    for at in range(len(data)):  # any bytes: refused or cut, without reading past the end
        cut_fields(FIELDS, ["bounds", "id"], [Block(3, data[:at] + b"\xff" + data[at + 1 :])])


def test_types_that_the_kernel_does_not_know_are_left_to_fastavro() -> None:
    assert cut_fields([*FIELDS, {"name": "flag", "type": "boolean"}], ["path"], [Block(0, b"")]) is None
