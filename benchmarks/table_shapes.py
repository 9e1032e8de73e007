"""The tables of `bench_shapes`: rows from a seed, and what is asked of them; a line for each shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Shape:
    """A table and what is asked of it.

    Attributes:
        rows: makes the rows of some number.
        n_rows: their number at full size.
        where: the filter, as our library and PyIceberg take it.
        columns: the columns that are read alone; those of structs with a dot.
        sql: the filter for DuckDB and Polars, if it differs.
        format: of the data files: parquet, avro, orc; or delta for a Delta table of Parquet files.
        n_files: number of data files.
        group_rows: rows of a row group; 0: all.
        codec: of the pages or blocks.
        options: others of PyArrow's Parquet writer.
        partition: the partition fields; the rows are then appended.
        older: columns that a first half of the rows does not have.
        deleted: a filter; the rows that match are deleted after all are written.
    """

    rows: Callable[[np.random.Generator, int], pa.Table]
    n_rows: int
    where: str
    columns: Sequence[str]
    sql: str = ""
    format: str = "parquet"
    n_files: int = 1
    group_rows: int = 0
    codec: str = "zstd"
    options: Mapping[str, Any] = field(default_factory=dict)
    partition: Sequence[str] = ()
    older: Sequence[str] = ()
    deleted: str = ""


# Rows --------------------------------------------------------------------------------------------------------


def flat(rng: np.random.Generator, n: int) -> pa.Table:
    words = pa.array([f"word {at}" for at in range(5000)]).take(pa.array(rng.integers(0, 5000, n)))
    return pa.table(
        {
            "id": pa.array(np.arange(n)),
            "k": pa.array(rng.integers(0, 1000, n, dtype=np.int32)),
            "x": pa.array(rng.random(n)),
            "day": pa.array(rng.integers(0, 9000, n).astype(np.int32), pa.date32()),
            "word": words,
            "text": pa.array([f"{value:x}" for value in rng.integers(0, 1 << 60, n)]),
        }
    )


def struct(rng: np.random.Generator, n: int, *, share: float = 0) -> pa.Table:
    leaves = [pa.array(rng.random(n), mask=rng.random(n) < share) for _ in range(20)]
    mask = pa.array(rng.random(n) < share) if share else None
    whole = pa.StructArray.from_arrays(leaves, [f"f{at}" for at in range(20)], mask=mask)
    return pa.table({"id": pa.array(np.arange(n)), "s": whole})


def events(rng: np.random.Generator, n: int) -> pa.Table:
    base = flat(rng, n)
    place = pa.StructArray.from_arrays([base["x"].combine_chunks(), pa.array(rng.random(n))], ["lat", "lon"])
    user = pa.StructArray.from_arrays(
        [base["k"].combine_chunks(), base["word"].combine_chunks(), place], ["number", "name", "place"]
    )
    return pa.table({"id": base["id"], "day": base["day"], "user": user, "text": base["text"]})


def _offsets(lengths: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def lists(rng: np.random.Generator, n: int) -> pa.Table:
    lengths = rng.integers(0, 11, n)
    values = pa.array(rng.integers(0, 1000, int(lengths.sum())))
    return pa.table(
        {
            "id": np.arange(n),
            "k": rng.integers(0, 1000, n),
            "l": pa.ListArray.from_arrays(_offsets(lengths), values),
        }
    )


def maps(rng: np.random.Generator, n: int) -> pa.Table:
    lengths = rng.integers(0, 6, n)
    numbers = np.concatenate([np.arange(length) for length in lengths]) if n else np.array([], np.int64)
    keys = pa.array([f"key {at}" for at in range(6)]).take(pa.array(numbers))
    made = pa.MapArray.from_arrays(_offsets(lengths), keys, pa.array(rng.random(len(numbers))))
    return pa.table({"id": np.arange(n), "k": rng.integers(0, 1000, n), "m": made})


def records(rng: np.random.Generator, n: int) -> pa.Table:
    lengths = rng.integers(0, 5, n)
    n_values = int(lengths.sum())
    inner = pa.StructArray.from_arrays(
        [pa.array(rng.random(n_values)), pa.array(rng.integers(0, 100, n_values)).cast(pa.string())],
        ["price", "sku"],
    )
    return pa.table(
        {
            "id": np.arange(n),
            "k": rng.integers(0, 1000, n),
            "items": pa.ListArray.from_arrays(_offsets(lengths), inner),
        }
    )


def vectors(rng: np.random.Generator, n: int) -> pa.Table:
    values = pa.array(rng.standard_normal(n * 768).astype(np.float32))
    return pa.table(
        {
            "id": np.arange(n),
            "k": rng.integers(0, 1000, n),
            "v": pa.ListArray.from_arrays(_offsets(np.full(n, 768)), values),
        }
    )


def wide(rng: np.random.Generator, n: int, *, n_columns: int) -> pa.Table:
    return pa.table({"id": np.arange(n), **{f"c{at}": rng.random(n) for at in range(n_columns - 1)}})


def _masked(values: pa.Array, rng: np.random.Generator, nulls: str) -> pa.Array:
    """Values with nulls: few, most, all, or in runs of 1,000 rows."""
    n = len(values)
    runs = np.repeat(rng.random(n // 1000 + 1) < 0.5, 1000)[:n]
    mask = {
        "few": rng.random(n) < 0.1,
        "most": rng.random(n) < 0.9,
        "all": np.ones(n, np.bool_),
        "runs": runs,
    }
    return pc.if_else(pa.array(mask[nulls]), pa.scalar(None, values.type), values)


def column(rng: np.random.Generator, n: int, kind: str) -> pa.Array:
    """Random values of a kind."""
    numbers = rng.integers(0, 1 << 30, n)
    match kind.split():
        case ["int"]:
            return pa.array(numbers.astype(np.int32))
        case ["long"]:
            return pa.array(rng.integers(-(1 << 62), 1 << 62, n))
        case ["sequence"]:
            return pa.array(np.arange(n) * 7)
        case ["small"]:
            return pa.array(numbers % 100)
        case ["float"]:
            return pa.array(rng.random(n).astype(np.float32))
        case ["double"]:
            return pa.array(rng.standard_normal(n))
        case ["boolean"]:
            return pa.array(numbers % 3 == 0)
        case ["decimal", digits]:
            unscaled = np.stack([numbers % 10 ** min(int(digits), 9), np.zeros(n, np.int64)], axis=1)
            return pa.Array.from_buffers(pa.decimal128(int(digits), 2), n, [None, pa.py_buffer(unscaled)])
        case ["date"]:
            return pa.array((numbers % 20_000).astype(np.int32), pa.date32())
        case ["time"]:
            return pa.array(numbers * 80, pa.time64("us"))
        case ["timestamp", *zone]:
            return pa.array(numbers * 1_000_000 + numbers % 999, pa.timestamp("us", *zone))
        case ["word", count]:
            return pa.array([f"word {at}" for at in range(int(count))]).take(pa.array(numbers % int(count)))
        case ["text", size]:
            return pa.array([f"{number:x}".ljust(int(size), "-") for number in numbers.tolist()])
        case ["binary", size]:
            width = int(size)
            return pa.Array.from_buffers(pa.binary(width), n, [None, pa.py_buffer(rng.bytes(width * n))])
    raise ValueError(kind)


def typed(rng: np.random.Generator, n: int, *kinds: str, nulls: str = "") -> pa.Table:
    """Columns `c0`, `c1`, … of some kinds after the columns `id` and `k`, which has 1,000 values."""
    values = [column(rng, n, kind) for kind in kinds]
    if nulls:
        values = [_masked(one, rng, nulls) for one in values]
    names = [f"c{at}" for at in range(len(values))]
    return pa.table(
        {"id": np.arange(n), "k": rng.integers(0, 1000, n), **dict(zip(names, values, strict=True))}
    )


def deep(rng: np.random.Generator, n: int, *, of: str) -> pa.Table:
    """A column `v` of nested types: lists of lists, lists of texts, structs of lists, maps of structs."""
    base = typed(rng, n, "double", "word 50")
    lengths = rng.integers(0, 5, n)
    n_items = int(lengths.sum())
    numbers, words = column(rng, n_items, "small"), column(rng, n_items, "word 500")
    if of == "lists":
        inner = rng.integers(0, 4, n_items)
        values = column(rng, int(inner.sum()), "double")
        found = pa.ListArray.from_arrays(_offsets(lengths), pa.ListArray.from_arrays(_offsets(inner), values))
    elif of == "texts":
        found = pa.ListArray.from_arrays(_offsets(lengths), words)
    elif of == "structs of lists":
        some = [pa.ListArray.from_arrays(_offsets(lengths), one) for one in (numbers, words)]
        found = pa.StructArray.from_arrays([*some, base["c0"].combine_chunks()], ["numbers", "words", "x"])
    else:
        ends = np.cumsum(lengths)
        keys = pa.array(np.arange(n_items) - np.repeat(ends - lengths, lengths)).cast(pa.string())
        items = pa.StructArray.from_arrays([numbers, words], ["number", "word"])
        found = pa.MapArray.from_arrays(_offsets(lengths), keys, items)
    return base.append_column("v", found)


def of(*kinds: str, n: int = 400_000, nulls: str = "", **options: Any) -> Shape:
    """A shape of columns of some kinds; one row of a hundred matches the filter."""
    columns = ("id", *(f"c{at}" for at in range(0, len(kinds), 2)))
    return Shape(lambda rng, n_rows: typed(rng, n_rows, *kinds, nulls=nulls), n, "k < 10", columns, **options)


def _in(values: Sequence[Any]) -> str:
    return ", ".join(repr(value) for value in values)


_KEYS = np.random.default_rng(1).integers(0, 4_000_000, 10_000).tolist()
_FLAT = ("id", "x", "word")

SHAPES: dict[str, Shape] = {
    "struct of 20": Shape(struct, 200_000, "s.f3 < 0.01", ("id", "s.f1", "s.f2", "s.f5")),
    "struct of 20, nulls": Shape(
        partial(struct, share=0.1), 200_000, "s.f3 < 0.01", ("id", "s.f1", "s.f2", "s.f5")
    ),
    "events": Shape(events, 200_000, "user.place.lat < 0.01", ("id", "user.name", "user.place.lon")),
    "lists": Shape(lists, 200_000, "k < 10", ("id", "l")),
    "maps": Shape(maps, 100_000, "k < 10", ("id", "m")),
    "lists of structs": Shape(records, 100_000, "k < 10", ("id", "items")),
    "vectors of 768 floats": Shape(vectors, 20_000, "k < 10", ("id", "v")),
    "500 columns": Shape(partial(wide, n_columns=500), 20_000, "c7 < 0.01", ("id", "c1", "c400"), n_files=4),
    "5,000 columns": Shape(
        partial(wide, n_columns=5000), 2_000, "c7 < 0.01", ("id", "c1", "c4000"), n_files=2
    ),
    "IN of 1,000": Shape(flat, 400_000, f"id in ({_in(_KEYS[:1000])})", _FLAT),
    "IN of 10,000": Shape(flat, 400_000, f"id in ({_in(_KEYS)})", _FLAT),
    "IN of 1,000 texts": Shape(
        flat, 400_000, f"word in ({_in([f'word {at}' for at in range(0, 5000, 5)])})", _FLAT
    ),
    "Avro": Shape(flat, 100_000, "k < 10", _FLAT, format="avro"),
    "2,000 tiny files": Shape(flat, 200_000, "k < 10", _FLAT, n_files=2000),
    "2,000 row groups": Shape(flat, 200_000, "k < 10", _FLAT, group_rows=100),
    "brotli": Shape(flat, 200_000, "k < 10", _FLAT, codec="brotli"),
    "snappy": Shape(flat, 200_000, "k < 10", _FLAT, codec="snappy"),
    "gzip": Shape(flat, 200_000, "k < 10", _FLAT, codec="gzip"),
    "Delta, struct of 20": Shape(
        struct, 200_000, "s.f3 < 0.01", ("id", "s.f1", "s.f2", "s.f5"), format="delta"
    ),
    "Delta, events": Shape(
        events, 200_000, "user.place.lat < 0.01", ("id", "user.name", "user.place.lon"), format="delta"
    ),
    "ints": of("int", "int", "int", "int"),
    "longs": of("long", "long", "long", "long"),
    "longs, plain": of("long", "long", "long", "long", codec="none", options={"use_dictionary": False}),
    "longs, lz4": of("small", "long", "sequence", codec="lz4"),
    "sequences": of("sequence", "sequence", "small", "small"),
    "floats": of("float", "float", "double", "double"),
    "booleans": of("boolean", "boolean", "boolean", "boolean"),
    "decimals of 9 digits": of("decimal 9", "decimal 9", "decimal 9"),
    "decimals of 18 digits": of("decimal 18", "decimal 18", "decimal 18"),
    "decimals of 38 digits": of("decimal 38", "decimal 38", "decimal 38"),
    "decimals as integers": of("decimal 9", "decimal 18", options={"store_decimal_as_integer": True}),
    "dates and times": of("date", "time", "date", "time"),
    "timestamps": of("timestamp", "timestamp UTC", "timestamp", "timestamp UTC"),
    "words, 10": of("word 10", "word 10", "word 10", "word 10"),
    "words, 5,000": of("word 5000", "word 5000", "word 5000", "word 5000"),
    "texts of 8": of("text 8", "text 8", "text 8"),
    "texts of 200": of("text 200", "text 200", n=100_000),
    "texts, plain": of("text 8", "word 10", "text 20", codec="none", options={"use_dictionary": False}),
    "uuids": of("binary 16", "binary 16"),
    "few nulls": of("long", "double", "word 100", "text 8", nulls="few"),
    "most are nulls": of("long", "double", "word 100", "text 8", nulls="most"),
    "all are nulls": of("long", "double", "word 100", "text 8", nulls="all"),
    "runs of nulls": of("long", "double", "word 100", "text 8", nulls="runs"),
    "100 columns": Shape(partial(wide, n_columns=100), 100_000, "c7 < 0.01", ("id", "c1", "c50")),
    "pages of version 2": of("small", "long", "word 100", options={"data_page_version": "2.0"}),
    "page index": of(
        "sequence", "double", "text 8", options={"write_page_index": True, "data_page_size": 20_000}
    ),
    "delta encodings": of(
        "sequence",
        "double",
        "text 8",
        options={
            "use_dictionary": False,
            "column_encoding": {
                "id": "DELTA_BINARY_PACKED",
                "k": "DELTA_BINARY_PACKED",
                "c0": "DELTA_BINARY_PACKED",
                "c1": "BYTE_STREAM_SPLIT",
                "c2": "DELTA_BYTE_ARRAY",
            },
        },
    ),
    "200 files": of("long", "double", "word 100", n_files=200),
    "row groups of 10,000": of("long", "double", "word 100", group_rows=10_000),
    "lists of lists": Shape(partial(deep, of="lists"), 100_000, "k < 10", ("id", "v")),
    "lists of texts": Shape(partial(deep, of="texts"), 100_000, "k < 10", ("id", "v")),
    "structs of lists": Shape(partial(deep, of="structs of lists"), 100_000, "k < 10", ("id", "v")),
    "structs of lists, a leaf": Shape(
        partial(deep, of="structs of lists"), 100_000, "v.x < -2.33", ("id", "v.x")
    ),
    "maps of structs": Shape(partial(deep, of="maps"), 100_000, "k < 10", ("id", "v")),
    "partitioned": of("small", "double", "word 100", n=100_000, partition=("truncate[100](k)",)),
    "columns added": of("long", "double", "word 100", older=("c0", "c2")),
    "1% deleted": of("long", "double", "word 100", deleted="id % 100 = 0"),
    "half deleted": of("long", "double", "word 100", deleted="id % 2 = 0"),
    "half deleted, clustered": of("long", "double", "word 100", deleted="id < 200000"),
    "vectors of 768 floats, 1% deleted": Shape(
        vectors, 20_000, "k < 10", ("id", "v"), deleted="id % 100 = 0"
    ),
    "Avro, decimals and times": of("decimal 18", "timestamp", "date", "word 100", n=50_000, format="avro"),
    "Avro, nulls": of("long", "double", "text 8", n=50_000, nulls="few", format="avro", codec="deflate"),
    "ORC": of("long", "double", "word 100", "text 8", format="orc"),
    "Delta, flat": Shape(flat, 200_000, "k < 10", _FLAT, format="delta"),
    "Delta, lists": Shape(lists, 200_000, "k < 10", ("id", "l"), format="delta"),
    "Delta, partitioned": of("small", "double", n=100_000, partition=("p",), format="delta"),
    "Delta, 1% deleted": of("long", "double", "word 100", deleted="id % 100 = 0", format="delta"),
}
