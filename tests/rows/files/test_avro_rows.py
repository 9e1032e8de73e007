"""Columns of Avro files that the kernel decodes are those that fastavro reads, for any schema and any rows."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast.errors import PuffinFastError
from puffin_fast.rows.files.avro import AvroColumns, AvroReader
from puffin_fast.rows.files.avro_rows import NotDecodedError, SharedBlocks
from puffin_fast.rows.files.files import BatchColumns
from tests.kit.seeds import seeds

N = 400


class Made:
    """Random types of Avro, and values of them."""

    def __init__(self, seed: int) -> None:
        self.choose, self.n = random.Random(seed), 0

    def named(self, **node: Any) -> dict[str, Any]:
        self.n += 1
        return {"name": f"t{self.n}", **node}

    def type_of(self, depth: int = 0) -> Any:
        kinds = ["plain"] * 4 + ["optional"] * 4 + ["record", "array", "map", "pairs"] * (depth < 3)
        match self.choose.choice(kinds):
            case "optional":
                inner = self.type_of(depth + 1)
                if isinstance(inner, list) or inner == "null":
                    return inner
                return ["null", inner] if self.choose.random() < 0.5 else [inner, "null"]
            case "record":
                fields = [
                    {"name": f"f{at}", "type": self.type_of(depth + 1), "field-id": 1000 + self.n * 10 + at}
                    for at in range(self.choose.randint(1, 3))
                ]
                return self.named(type="record", fields=fields)
            case "array":
                return {"type": "array", "items": self.type_of(depth + 1), "element-id": 5}
            case "map":
                return {"type": "map", "values": self.type_of(depth + 1), "key-id": 6, "value-id": 7}
            case "pairs":
                fields = [
                    {"name": "key", "type": "long", "field-id": 8},
                    {"name": "value", "type": self.type_of(depth + 1), "field-id": 9},
                ]
                items = self.named(type="record", fields=fields)
                return {"type": "array", "logicalType": "map", "items": items}
        return self.choose.choice(
            [
                *("boolean", "int", "long", "float", "double", "bytes", "string"),
                {"type": "int", "logicalType": "date"},
                {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
                {"type": "long", "logicalType": "timestamp-millis"},
                {"type": "long", "logicalType": "time-micros"},
                {"type": "string", "logicalType": "uuid"},
                {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
                self.named(type="fixed", size=9, logicalType="decimal", precision=18, scale=2),
                self.named(type="fixed", size=4),
                self.named(type="fixed", size=16, logicalType="uuid"),
                self.named(type="enum", symbols=["RED", "GREEN"]),
            ]
        )

    def value(self, kind: Any) -> Any:
        choose = self.choose
        if isinstance(kind, list):
            return (
                None if choose.random() < 0.3 else self.value(next(part for part in kind if part != "null"))
            )
        name = kind if isinstance(kind, str) else kind["type"]
        if isinstance(kind, dict) and kind.get("logicalType") == "decimal":
            return Decimal(choose.randint(-(10**16), 10**16)) / 10 ** kind["scale"]
        if isinstance(kind, dict) and (kind.get("logicalType"), name) == ("uuid", "string"):
            return f"{choose.getrandbits(128):032x}"[:8] + "-0000-4000-8000-000000000000"
        if isinstance(kind, dict) and kind.get("logicalType") == "time-micros":
            return choose.randrange(86_400_000_000)
        match name:
            case "record":
                return {field["name"]: self.value(field["type"]) for field in kind["fields"]}
            case "array":
                return [self.value(kind["items"]) for _ in range(choose.randint(0, 3))]
            case "map":
                return {f"k{at}": self.value(kind["values"]) for at in range(choose.randint(0, 3))}
            case "fixed":
                return choose.randbytes(kind["size"])
            case "enum":
                return choose.choice(kind["symbols"])
            case "boolean":
                return choose.random() < 0.5
            case "float" | "double":
                return float(choose.randint(-1000, 1000))
            case "string":
                return choose.choice(["", "a", "wörter", "x" * 100])
            case "bytes":
                return choose.randbytes(choose.randint(0, 20))
        return (
            choose.randint(0, 10**6) if choose.random() < 0.5 else choose.randint(-(1 << 31), (1 << 31) - 1)
        )


def written(seed: int, path: Path) -> Made:
    made = Made(seed)
    fields = [
        {"name": f"c{at}", "type": made.type_of(), "field-id": 1 + at}
        for at in range(made.choose.randint(1, 6))
    ]
    schema = {"type": "record", "name": "row", "fields": fields}
    records = [{field["name"]: made.value(field["type"]) for field in fields} for _ in range(N)]
    parsed = fastavro.parse_schema(schema)
    codec = made.choose.choice(["null", "deflate"])
    with path.open("wb") as file:
        fastavro.writer(
            file, parsed, records, codec=codec, sync_interval=made.choose.choice([100, 2000, 1 << 20])
        )
    return made


def outcome(read: Any) -> dict[str, pa.Array] | str:
    try:
        found: dict[str, pa.Array] = read()
    except PuffinFastError as error:
        return type(error).__name__
    return found


def by_fastavro(reader: AvroReader, names: list[str]) -> dict[str, pa.Array]:
    return BatchColumns(reader.batches(0, names, N, use_threads=False), 0, N, reader.location).read(
        0, N, None
    )


def not_called() -> BatchColumns:
    raise AssertionError("the kernel does not decode this")


@pytest.mark.parametrize("seed", seeds(20))
def test_columns_are_those_of_fastavro(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "f.avro"
    made = written(seed, path)
    reader = AvroReader(PyArrowFileIO(), str(path), N)
    names = reader.schema.names
    expected = by_fastavro(reader, names)
    early = made.choose.sample(names, made.choose.randint(0, len(names)))
    shared = SharedBlocks(reader._blocks())
    columns = [
        AvroColumns(reader, some, shared, not_called)
        for some in (early, [name for name in names if name not in early])
        if some
    ]
    first = 0
    while first < N:
        n_rows, share = made.choose.randint(1, N - first), made.choose.choice([0, 0.01, 0.5, 1])
        rows = np.flatnonzero(np.random.default_rng(seed).random(n_rows) < share).astype(np.int32)
        for at, some in enumerate(columns):
            chosen = None if share == 1 or (at == 0 and made.choose.random() < 0.5) else rows
            taken = pa.array(np.arange(first, first + n_rows) if chosen is None else rows + first)
            for name, array in some.read(first, n_rows, chosen).items():
                array.validate(full=True)
                assert array.equals(expected[name].take(taken)), name
        first += n_rows


@pytest.mark.parametrize("seed", seeds(6))
def test_altered_bytes_have_the_same_outcome_as_with_fastavro(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "f.avro"
    made = written(seed, path)
    data = path.read_bytes()
    for _ in range(30):
        at = made.choose.randrange(len(data) // 2, len(data))
        path.write_bytes(data[:at] + made.choose.randbytes(1) + data[at + 1 :])
        reader = AvroReader(PyArrowFileIO(), str(path), N)
        names = reader.schema.names
        fastavros = outcome(lambda reader=reader, names=names: by_fastavro(reader, names))
        ours = outcome(
            lambda reader=reader, names=names: reader.columns(0, names, N, use_threads=False).read(0, N, None)
        )
        if isinstance(ours, str) or isinstance(fastavros, str):
            assert ours == fastavros
        else:
            assert all(ours[name].equals(fastavros[name]) or has_nan(ours[name]) for name in names)


def has_nan(array: pa.Array) -> bool:
    return "nan" in str(array.to_pylist())


def test_rows_that_were_left_are_read_by_fastavro(tmp_path: Path) -> None:
    path = tmp_path / "f.avro"
    written(3, path)
    reader = AvroReader(PyArrowFileIO(), str(path), N)
    names = reader.schema.names
    expected = by_fastavro(reader, names)
    one, other = (reader.columns(0, names, N, use_threads=False) for _ in range(2))
    one.read(0, 10, None)
    one.read(200, 10, None)
    again = other.read(0, 10, None)
    assert all(again[name].equals(expected[name].slice(0, 10)) for name in names)


def test_large_fixed_types_are_left_to_fastavro(tmp_path: Path) -> None:
    path, size = tmp_path / "f.avro", 1 << 13
    kind = {"type": "fixed", "name": "large", "size": size}
    schema = {"type": "record", "name": "row", "fields": [{"name": "a", "type": kind, "field-id": 1}]}
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [{"a": b"x" * size}] * 3)
    reader = AvroReader(PyArrowFileIO(), str(path), 3)
    shared = SharedBlocks(reader._blocks())
    with pytest.raises(NotDecodedError):
        AvroColumns(reader, ["a"], shared, not_called)
    assert (
        reader.columns(0, ["a"], N, use_threads=False).read(1, 2, None)["a"].to_pylist() == [b"x" * size] * 2
    )


def test_blocks_without_records_have_no_rows(tmp_path: Path) -> None:
    path, sync = tmp_path / "f.avro", b"s" * 16
    schema = {"type": "record", "name": "row", "fields": [{"name": "a", "type": "long", "field-id": 1}]}
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [{"a": 1}], sync_marker=sync)
        file.write(b"\0\0" + sync + b"\2\2\4" + sync)  # no record, and another one
    reader = AvroReader(PyArrowFileIO(), str(path), 2)
    batches = pa.Table.from_batches(reader.batches(0, ["a"], N, use_threads=False))
    columns = reader.columns(0, ["a"], N, use_threads=False).read(0, 2, None)
    assert batches["a"].to_pylist() == columns["a"].to_pylist() == [1, 2]
