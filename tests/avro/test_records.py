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
from puffin_fast.avro.blocks import as_long
from puffin_fast.avro.columns import Field, Located, Records
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
    roles = bytes(avro.PLACE if field["name"] in names else 0 for field in FIELDS)
    starts, origins = np.empty(sum(counts), np.int64), np.empty(sum(counts), np.int64)
    places = np.empty((len(names), len(starts)), np.int64)
    found = avro.gather(
        blocks, counts, words, sizes, roles, starts, places, bytearray(), bytearray(), origins
    )
    return None if found is None else bytes(found[0]), starts, places


def fields_of(names: list[str] = NAMES) -> dict[str, Field]:
    return {field["name"]: Field(kernel_type(field["type"])) for field in FIELDS if field["name"] in names}


def at_places(names: list[str], places: Any) -> Located:
    return Located(dict(zip(names, places, strict=True)), {}, {}, {})


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
        fields = fields_of(names)
        found = Records(data, fields, starts, at_places(names, places), {}).values(names)
        again = Records(data, fields, starts, Located({}, {}, {}, {}), {}).values(names)
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
    for at in range(len(data)):
        for byte in (0xFF, 0x80, 0x01, data[at] ^ 1):
            found, starts, places = gathered([data[:at] + bytes([byte]) + data[at + 1 :]], [3])
            if found is not None:
                Records(found, fields_of(), starts, at_places(NAMES, places), {}).values(NAMES)


def test_offsets_outside_of_the_bytes_are_refused() -> None:
    data = b"".join(encoded(rows_of(3, 7)))
    for start in (-2, len(data) + 1, 1 << 62, len(data)):
        places = at_places(NAMES, [np.array([start])] * len(NAMES))
        records = Records(data, fields_of(), np.array([start]), places, {})
        for decode in (
            lambda records=records: records.values(["path"]),
            lambda records=records: records.integers("status"),
            lambda records=records: records.spans("path"),
            lambda records=records: records.entries_of("bounds", 1),
            lambda records=records: records.located(()).values(["path"]),
        ):
            with pytest.raises(ValueError, match=r"offset|the values|the bytes"):
                decode()


MIXED: list[dict[str, Any]] = [
    {"name": "number", "type": "long"},
    {"name": "left_out", "type": ["null", "long"]},
    {"name": "text", "type": ["null", "string"]},
    {"name": "skipped", "type": {"type": "array", "items": "string"}},
    {"name": "raw", "type": "bytes"},
    {"name": "late", "type": ["long", "null"]},
    {"name": "name", "type": ["null", "string"]},
]
ROLES = bytes([avro.INTEGER, avro.INTEGER, avro.TEXT, 0, avro.TEXT, avro.INTEGER, avro.NUMBER])
COPIED = {"number", "text", "raw"}


def mixed(n: int, seed: int, repeated: float = 0.0) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Rows, and their bytes; a value is that of the row before with a probability."""
    rng = random.Random(seed)
    rows = [
        {
            "number": rng.choice([0, -1, 2**63 - 1, -(2**63), 77]),
            "left_out": rng.choice([None, 5, 2**40]),
            "text": rng.choice([None, "", "ä" * 40, "a/b" * rng.randrange(60)]),
            "skipped": ["x" * rng.randrange(9)] * rng.randrange(3),
            "raw": rng.randbytes(rng.randrange(40)),
            "late": rng.choice([None, -3]),
            "name": rng.choice(["PARQUET", "ORC", "", "ä"]),
        }
        for _ in range(n)
    ]
    for before, row in pairwise(rows):
        row |= {name: before[name] for name in row if rng.random() < repeated}
    return rows, encoded_fields(rows)


def encoded_fields(rows: list[dict[str, Any]]) -> list[bytes]:
    fields = [field for field in MIXED if field["name"] in rows[0]]
    schema = fastavro.parse_schema({"type": "record", "name": "m", "fields": fields})
    found = []
    for row in rows:
        out = BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        found.append(out.getvalue())
    return found


def gathered_by_role(
    blocks: list[bytes], counts: list[int], origins: Any, chosen: Any = None
) -> tuple[bytearray | None, dict[str, list[Any]]]:
    words, sizes = array("q"), array("q")
    for field in MIXED:
        own = program(kernel_type(field["type"]))
        words.extend(own)
        sizes.append(len(own) if field["name"] in COPIED else -len(own))
    n = sum(counts) if chosen is None else int(chosen.sum())
    starts, slots, valid = np.empty(n, np.int64), np.empty((8, n), np.int64), np.empty((4, n), np.uint8)
    varies = np.empty(4, np.uint8)
    gathered = avro.gather(
        iter(blocks), counts, words, sizes, ROLES, starts, slots, valid, varies, origins, chosen
    )
    if gathered is None:
        return None, {}
    data, (names,) = gathered

    def integers(at: int, flags: int) -> list[int | None]:
        if n and not varies[flags]:
            slots[at], valid[flags] = slots[at, 0], valid[flags, 0]
        return [int(v) if ok else None for v, ok in zip(slots[at], valid[flags], strict=True)]

    def texts(at: int) -> list[bytes | None]:
        spans = zip(slots[at].tolist(), slots[at + 1].tolist(), strict=True)
        return [None if size < 0 else bytes(data[start : start + size]) for start, size in spans]

    return data, {
        "number": integers(0, 0),
        "left_out": integers(1, 1),
        "text": texts(2),
        "raw": texts(4),
        "late": integers(6, 2),
        "name": [None if at is None else names[at] for at in integers(7, 3)],
    }


@pytest.mark.parametrize("repeated", [0.0, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_integers_and_texts_are_decoded_while_records_are_gathered(seed: int, repeated: float) -> None:
    cuts = [0, 7, 7, 30, 40] if not repeated else [0, 1, 3, 6, 200, 300]
    n = cuts[-1]
    rows, every = mixed(n, seed, repeated)
    blocks, counts = [b"".join(every[a:b]) for a, b in pairwise(cuts)], [b - a for a, b in pairwise(cuts)]
    origins = np.empty(n, np.int64)
    data, found = gathered_by_role(blocks, counts, origins)
    assert data == b"".join(encoded_fields([{name: row[name] for name in COPIED} for row in rows]))
    assert [origins[at] for at in cuts[:-2]] == [0] * (len(cuts) - 2)
    chosen = np.array([random.Random(seed * 41 + at).random() < 0.3 for at in range(n)]).astype(np.uint8)
    _, some = gathered_by_role(blocks, counts, origins, chosen)
    for name, values in found.items():
        expected = [row[name].encode() if isinstance(row[name], str) else row[name] for row in rows]
        assert values == expected
        assert some[name] == [value for value, is_chosen in zip(expected, chosen, strict=True) if is_chosen]


def test_repeated_records_of_wrong_bytes_are_refused_or_decoded() -> None:
    _, every = mixed(40, 3, 0.95)
    block = b"".join(every)
    for at in range(len(block)):
        for wrong in (block[:at], block[:at] + bytes([block[at] ^ 1]) + block[at + 1 :]):
            data, found = gathered_by_role([wrong], [40], np.empty(40, np.int64))
            expected = decoded(wrong, 40)
            assert (data is None) == (expected is None)
            for name, values in found.items():
                assert values == [row[name] for row in expected or ()]


def decoded(block: bytes, n: int) -> list[dict[str, Any]] | None:
    """What fastavro decodes, texts as bytes; None if the bytes are not exactly the records."""
    schema = fastavro.parse_schema({"type": "record", "name": "m", "fields": MIXED})
    source, rows = BytesIO(block), []
    try:
        for _ in range(n):
            row: Any = fastavro.schemaless_reader(source, schema, None)
            rows.append({k: v.encode() if isinstance(v, str) else v for k, v in row.items()})
    except (EOFError, IndexError, ValueError, OverflowError, MemoryError):
        return None
    return rows if source.tell() == len(block) else None


def test_chosen_records_at_wrong_offsets_are_refused_or_decoded() -> None:
    _, every = mixed(3, 1)
    block, chosen = b"".join(every), np.ones(3, np.uint8)
    for origin in (-1, len(block) + 1, 1 << 62):
        assert gathered_by_role([block], [3], np.full(3, origin), chosen)[0] is None
    for origin in range(len(block)):
        assert gathered_by_role([block], [3], np.full(3, origin), chosen)[0] is None  # records do not overlap
        gathered_by_role([block], [3], np.array([0, origin, len(block)]), np.array([0, 1, 0], np.uint8))


def test_roles_that_do_not_fit_their_fields_are_refused() -> None:
    for kind, role in (("string", avro.INTEGER), ("long", avro.TEXT), ("long", avro.NUMBER), ("long", 9)):
        words, origins = array("q", program(kernel_type(kind))), np.empty(0, np.int64)
        slots = np.empty((2, 0), np.int64)
        with pytest.raises(ValueError, match="role does not fit"):
            avro.gather(
                [],
                [],
                words,
                array("q", [1]),
                bytes([role]),
                origins,
                slots,
                bytearray(),
                bytearray(),
                origins,
            )
    words, origins = array("q", program("string")), np.empty(0, np.int64)
    with pytest.raises(ValueError, match="left out"):
        avro.gather(
            [],
            [],
            words,
            array("q", [-1]),
            bytes([avro.TEXT]),
            origins,
            origins,
            bytearray(),
            bytearray(),
            origins,
        )


@given(
    st.lists(st.integers(0, 5).map(lambda n: n % 4), max_size=40), st.sampled_from([None, 0, -1, 2**63 - 1])
)
def test_integers_that_are_the_same_are_written_once(numbers: list[int], late: int | None) -> None:
    values = [None if number == 3 else late if number == 2 else 0 for number in numbers]
    schema = fastavro.parse_schema(["null", "long"])
    out = BytesIO()
    for value in values:
        fastavro.schemaless_writer(out, schema, value)
    n, words = len(values), array("q", program(kernel_type(["null", "long"])))
    starts, slots, valid, varies = np.empty(n, np.int64), np.full(n, 7), np.full(n, 9, np.uint8), bytearray(1)
    arguments = (words, array("q", [-len(words)]), bytes([avro.INTEGER]), starts, slots, valid, varies)
    assert avro.gather([out.getvalue()], [n], *arguments, np.empty(n, np.int64)) == (b"", [])
    assert bool(varies[0]) == (len({*values}) > 1)
    if not varies[0]:
        assert slots[1:].tolist() == [7] * len(values[1:])
        slots, valid = np.full(n, slots[:1].sum()), np.full(n, valid[:1].sum())
    assert slots.tolist() == [value or 0 for value in values]
    assert valid.tolist() == [value is not None for value in values]


def test_blocks_are_split_at_their_sync_markers() -> None:
    sync, bodies = bytes(range(16)), [(3, b"abc"), (0, b""), (200, b"x" * 300), (2**62, b"\0")]
    blocks = [as_long(n) + as_long(len(body)) + body + sync for n, body in bodies]
    data = b"".join(blocks)
    found, end = avro.split(data, sync)
    assert end == len(data)
    assert [(n, data[start:stop]) for _, n, start, stop in found] == bodies
    assert [at for at, *_ in found] == [sum(map(len, blocks[:n])) for n in range(len(blocks))]
    assert avro.split(data, sync, found[2][0]) == (found[2:], end)
    for cut in range(len(data)):
        whole = [place for place in found if place[-1] + 16 <= cut]
        assert avro.split(data[:cut], sync) == (whole, whole[-1][-1] + 16 if whole else 0)
    for wrong in (
        as_long(-1) + as_long(0),
        as_long(1) + as_long(-1),
        b"\xff" * 11,
        as_long(0) + as_long(2**62),
    ):
        assert avro.split(wrong + sync, sync) == ([], 0)
    with pytest.raises(ValueError, match="expected an offset"):
        avro.split(data, sync, len(data) + 1)


EDGES = bytes.fromhex("7f808f909fa0bfc1c2dfe0edeff0f4f5")


@given(
    st.one_of(st.binary(max_size=12), st.lists(st.sampled_from(EDGES), max_size=8).map(bytes)),
    st.integers(0, 63),
    st.integers(0, 63),
)
def test_strings_are_those_that_python_decodes(middle: bytes, before: int, after: int) -> None:
    text = b"a" * before + middle + b"b" * after
    words, sizes = array("q", [avro.STRING]), array("q", [1])
    block = as_long(len(text)) + text
    starts, origins = np.empty(1, np.int64), np.empty(1, np.int64)
    for role, n_slots in ((0, 0), (avro.PLACE, 1), (avro.TEXT, 2)):
        slots = np.empty((n_slots, 1), np.int64)
        found = avro.gather(
            [block], [1], words, sizes, bytes([role]), starts, slots, bytearray(), bytearray(), origins
        )
        try:
            text.decode()
        except UnicodeDecodeError:
            assert found is None
        else:
            assert found == (block, [])
            if role == avro.TEXT:
                assert slots[:, 0].tolist() == [len(block) - len(text), len(text)]


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
