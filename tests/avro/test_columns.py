"""Records by columns: the kernel and fastavro read equal values, and hostile bytes raise an error of the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast.avro import columns as avro_columns
from puffin_fast.avro.blocks import SYNC_BYTES, as_long
from puffin_fast.avro.columns import Field, Located, Records
from puffin_fast.avro.file import AvroFile, parse_avro, read_avro
from puffin_fast.avro.programs import kernel_type
from puffin_fast.avro.schema import PlainSchema
from puffin_fast.errors import CorruptDataError, PuffinFastError
from tests.hostile.avro_files import avro
from tests.kit.tables import path_of

IO = PyArrowFileIO()
Outcome = dict[str, list[Any]] | None


def record(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def pairs(key: Any, value: Any, name: str) -> dict[str, Any]:
    return {
        "type": "array",
        "logicalType": "map",
        "items": record(name, ("key", key), ("value", value)),
    }


ENTRY = record(
    "entry",
    ("status", "int"),
    ("nothing", "null"),
    (
        "file",
        record(
            "inner",
            ("path", "string"),
            (
                "part",
                record("part", ("day", ["null", {"type": "int", "logicalType": "date"}]), ("x", "double")),
            ),
            ("counts", ["null", pairs("int", "long", "kv1")]),
            ("bounds", [pairs("int", "bytes", "kv2"), "null"]),
            ("offsets", ["null", {"type": "array", "items": "long"}]),
            ("code", ["null", {"type": "fixed", "name": "code", "size": 3}]),
            ("small", "float"),
        ),
    ),
)
FLAT = ("status", "nothing", "path", "day", "x", "counts", "bounds", "offsets", "code", "small")


def entry(n: int) -> dict[str, Any]:
    gone = n % 3 == 0
    return {
        "status": n % 3,
        "nothing": None,
        "file": {
            "path": f"file:///ä/{n}.parquet",
            "part": {"day": None if gone else n - 50, "x": n / 7},
            "counts": None if gone else [{"key": k, "value": n << 33} for k in range(n % 4)],
            "bounds": None if n % 5 == 0 else [{"key": 2147483546, "value": bytes([n % 256] * (n % 9))}],
            "offsets": None if gone else list(range(n % 3)),
            "code": None if gone else b"abc",
            "small": n * 0.5,
        },
    }


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., AvroFile]:
    def write(
        records: list[Any], schema: Any = ENTRY, codec: str = "deflate", change: Any = None
    ) -> AvroFile:
        path = tmp_path / "x.avro"
        with path.open("wb") as stream:
            fastavro.writer(stream, schema, records, codec=codec, sync_interval=3000)
        if change is not None:
            path.write_bytes(change(path.read_bytes()))
        return read_avro(IO, f"file://{path}", dict(enumerate(FLAT, 1000)))

    return write


def read(file: AvroFile, names: Sequence[str] = FLAT) -> dict[str, list[Any]]:
    return Records.of(file, names).values(names)


def by_kernel(monkeypatch: pytest.MonkeyPatch, file: AvroFile, names: Sequence[str] = FLAT) -> Outcome:
    """None if the kernel does not read the file."""
    with monkeypatch.context() as patch:
        patch.setattr(avro_columns, "_encoded", lambda *_: None)
        try:
            return read(file, names)
        except AttributeError:
            return None


def by_fastavro(file: AvroFile, names: Sequence[str] = FLAT) -> dict[str, list[Any]]:
    records = list(file.records())
    found = {name: [record.get(name) for record in records] for name in names}
    for name in {"counts", "bounds"}.intersection(names):
        found[name] = [
            None if pairs is None else {pair["key"]: pair["value"] for pair in pairs} for pairs in found[name]
        ]
    return found


@pytest.mark.parametrize("n_records", [0, 1, 3, 500])
@pytest.mark.parametrize("codec", ["deflate", "null", "zstandard"])
def test_both_readers_read_equal_values(
    written: Callable[..., AvroFile], monkeypatch: pytest.MonkeyPatch, n_records: int, codec: str
) -> None:
    records = [entry(n) for n in range(n_records)]
    file = written(records, codec=codec)
    found = by_kernel(monkeypatch, file)
    assert found is not None
    assert found == by_fastavro(file)
    assert set(found) == set(FLAT)
    assert found["path"] == [r["file"]["path"] for r in records]
    assert found["day"] == [r["file"]["part"]["day"] for r in records]
    maps = [r["file"]["counts"] and {p["key"]: p["value"] for p in r["file"]["counts"]} for r in records]
    assert found["counts"] == [{} if found == [] else found for found in maps]


@pytest.mark.parametrize("names", [("path",), ("nothing",), ("counts", "status"), ("small", "not there"), ()])
def test_only_the_named_columns_are_read(written: Callable[..., AvroFile], names: tuple[str, ...]) -> None:
    file = written([entry(n) for n in range(20)])
    records = Records.of(file, names)
    assert [name in records for name in FLAT] == [name in names for name in FLAT]
    assert records.values(FLAT) == by_fastavro(file, [name for name in names if name in FLAT])


def test_columns_of_some_records_are_those_of_the_whole_file(written: Callable[..., AvroFile]) -> None:
    every = [entry(n) for n in range(300)]
    records = Records.of(written(every), FLAT, ("status", "path"))
    rows = np.array([299, 0, 17, 17, 4])
    for some in (records.take(rows), records.located(()).take(rows)):
        whole = records.values(FLAT)
        assert some.values(FLAT) == {name: [whole[name][row] for row in rows] for name in FLAT}
        assert some.integers("day").to_list() == [whole["day"][row] for row in rows]
        starts, sizes = some.spans("path")
        texts = [bytes(some.data[start : start + size]) for start, size in zip(starts, sizes, strict=True)]
        assert texts == [whole["path"][row].encode() for row in rows]
        found = some.entries_of("bounds", 2147483546)
        assert found is not None
        bounds = [bytes(some.data[s : s + n]) if n >= 0 else None for s, n in zip(*found, strict=True)]
        assert bounds == [(whole["bounds"][row] or {}).get(2147483546) for row in rows]
        assert some.entries_of("counts", 1) is None


def at_paths(paths: Sequence[str]) -> list[dict[str, Any]]:
    every = [entry(n) for n in range(len(paths))]
    for row, path in zip(every, paths, strict=True):
        row["file"]["path"] = path
    return every


def test_few_distinct_strings_are_numbered(written: Callable[..., AvroFile]) -> None:
    for most, is_known in ((1, True), (8, True), (9, False)):
        paths = [f"{n // 2 % most}" * (n // 2 % most) for n in range(300)]
        records = Records.of(written(at_paths(paths)), ("status",), ("status", "path"))
        found, some = records.numbered("path"), records.take(np.array([9, 2])).numbered("path")
        assert (found is not None) == (some is not None) == is_known
        if found is not None and some is not None:
            texts, numbers = found
            assert [texts[number].decode() for number in numbers.values] == paths
            assert [texts[number].decode() for number in some[1].values] == [paths[9], paths[2]]
            assert len({*texts}) == len(texts) == most
    for path, is_known in (("x" * 32, True), ("x" * 33, False), ("", True)):
        file = written(at_paths([path] * 3))
        assert (Records.of(file, (), ("path",)).numbered("path") is not None) == is_known
        assert Records.of(file, ("path",), ("path",)).numbered("path") is None


def test_chosen_records_are_gathered_with_other_fields(
    written: Callable[..., AvroFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written([entry(n) for n in range(300)])
    whole, rows = read(file), np.array([0, 17, 18, 299])
    expected = {name: [values[row] for row in rows] for name, values in whole.items()}
    first = Records.of(file, ("path",), ("path", "status"))
    assert Records.of(file, FLAT, ("status",), (first, rows)).values(FLAT) == expected
    monkeypatch.setattr(avro_columns, "_gathered", lambda *_: None)
    assert Records.of(file, FLAT, (), (Records.of(file, ("path",)), rows)).values(FLAT) == expected


def test_arrays_in_blocks_with_their_size_are_read() -> None:
    """Writers may give an array in several blocks, each with a negative count and its size in bytes."""
    pairs_of_long = {"type": "array", "items": record("kv", ("key", "long"), ("value", "long"))}
    fields = {"counts": Field(kernel_type(pairs_of_long))}
    data = bytes([3, 4, 2, 10, 4, 20, 1, 4, 6, 30, 0])  # -2, 4 bytes: 1:5, 2:10; -1, 4 bytes: 3:15; end
    records = Records(data, fields, np.array([0]), Located({}, {}, {}, {}), {})
    assert records.values(["counts"]) == {"counts": [{1: 5, 2: 10, 3: 15}]}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, ["A", "B"]),
        ({"type": "fixed", "name": "none", "size": 0}, [b"", b""]),
        ("int", [2**31 - 1, -(2**31)]),
        (["long", "null"], [None, -(2**63)]),
        (["null", "boolean"], [True, False]),
    ],
)
def test_types_of_other_encodings_are_read(
    written: Callable[..., AvroFile], kind: Any, values: list[Any]
) -> None:
    schema = record("r", ("status", "long"), ("x", kind))
    file = written([{"status": n, "x": value} for n, value in enumerate(values)], schema)
    assert read(file, ("status", "x")) == {"status": [0, 1], "x": values}


@pytest.mark.parametrize(
    ("kind", "values"),
    [({"type": "map", "values": "long"}, [{"a": 1}, {}]), (["null", "long", "string"], [1, "x"])],
)
def test_types_that_no_manifest_has_are_left_out(
    written: Callable[..., AvroFile], kind: Any, values: list[Any]
) -> None:
    schema = record("r", ("status", "long"), ("x", kind))
    file = written([{"status": n, "x": value} for n, value in enumerate(values)], schema)
    assert read(file, ("status", "x")) == {"status": [0, 1]}


def outcome(read: Callable[[], Any]) -> str:
    try:
        return repr(sorted(read().items()))  # compared as text, because NaN does not equal NaN
    except PuffinFastError as error:
        return f"{type(error).__name__}: {error}".partition(" at 0x")[0]


def start_of_blocks(data: bytes) -> int:
    """The end of the header of an Avro file, which is that of the first of its sync markers."""
    return data.index(data[-SYNC_BYTES:]) + SYNC_BYTES


def flipped(at: int, bit: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


@pytest.mark.parametrize("codec", ["deflate", "null"])
def test_altered_bytes_have_the_same_outcome_as_with_fastavro(
    written: Callable[..., AvroFile], codec: str
) -> None:
    records = [entry(n) for n in range(4)]
    whole = written(records, codec=codec)
    data = path_of(whole.path).read_bytes()
    refused = accepted = 0
    for at in range(start_of_blocks(data), len(data)):
        bit = 1 << at * 5 % 8
        try:
            file = written(records, codec=codec, change=flipped(at, bit))
        except CorruptDataError:
            refused += 1
            continue
        slow = outcome(partial(by_fastavro, file))
        fast = outcome(partial(read, file))
        refused += slow.startswith("CorruptDataError")
        accepted += not slow.startswith("CorruptDataError")
        assert fast == slow, (at, bit)
    assert refused
    assert accepted


def test_a_block_that_declares_more_records_than_bytes_allocates_no_memory(
    written: Callable[..., AvroFile],
) -> None:
    count = bytes.fromhex("feffffffffff7f")  # 2^47 - 1

    def lie(data: bytes) -> bytes:
        start = start_of_blocks(data)
        return data[:start] + count + data[start + 1 :]

    with pytest.raises(
        CorruptDataError, match=r"x\.avro: offset \d+: records of an Avro block: expected at most 7"
    ):
        written([entry(1)], codec="null", change=lie)


def test_a_block_that_declares_too_few_records_does_not_shift_other_blocks(
    written: Callable[..., AvroFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [entry(n) for n in range(3)]
    file = written(records, codec="null")

    def lie(data: bytes) -> bytes:
        start = start_of_blocks(data)
        assert data[start] == 2 * len(records)
        return data[:start] + bytes([2 * (len(records) - 1)]) + data[start + 1 :]

    assert by_kernel(monkeypatch, file) is not None
    assert by_kernel(monkeypatch, written(records, codec="null", change=lie)) is None


@pytest.mark.parametrize(
    "items",
    [
        "null",
        record("none"),
        record("nulls", ("a", "null"), ("b", record("deep", ("c", "null")))),
        {"type": "fixed", "name": "nought", "size": 0},
    ],
)
def test_items_that_take_no_bytes_are_refused_at_any_depth(
    written: Callable[..., AvroFile], items: Any
) -> None:
    schema = record("r", ("status", "long"), ("x", {"type": "array", "items": items}))
    with pytest.raises(CorruptDataError, match="take no bytes"):
        written([], schema)
    if isinstance(items, dict):
        named = record("r", ("status", items), ("x", {"type": "array", "items": items["name"]}))
        with pytest.raises(CorruptDataError, match="take no bytes"):
            written([], named)


def test_a_fixed_larger_than_the_file_allocates_no_memory(
    written: Callable[..., AvroFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = {"type": "fixed", "name": "code", "size": 8}
    schema = record("r", ("status", "long"), ("code", fixed))

    file = written([{"status": 1, "code": b"12345678"}], schema)
    assert by_kernel(monkeypatch, file, ("status",)) == {"status": [1]}
    large = {**fixed, "size": 1 << 40}
    file = replace(
        file, plain=PlainSchema(record("r", ("status", "long"), ("code", large)), {1: "status", 2: "code"})
    )
    assert by_kernel(monkeypatch, file, ("status",)) is None
    with pytest.raises(CorruptDataError, match="EOFError"):
        read(file, ("status",))


def test_a_block_with_records_that_are_not_counted_is_refused() -> None:
    """Avro's arrays are read in parts of stated lengths, and a part may follow a block's records."""
    records = as_long(5) + as_long(1) + as_long(7)
    file = parse_avro(avro(record("r", ("status", "long")), [(1, records)]), "a file", {})
    with pytest.raises(CorruptDataError, match="2 records"):
        list(file.records())
    with pytest.raises(CorruptDataError, match="2 records"):
        Records.of(file, ["status"], ["status"])
