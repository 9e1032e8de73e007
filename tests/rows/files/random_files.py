"""Random rows, filters of them, and Parquet files of several writers, which tests of this folder share."""

from __future__ import annotations

import datetime as dt
import functools
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.kit.tables import parquet_file

N = 3000
DAY = dt.datetime(2020, 1, 1)
NESTED = ("x", "s", "l", "m")
"""Columns that not all writers write alike."""


def random_rows(rng: random.Random, n: int = N, *, in_order: bool = False) -> pa.Table:
    """Columns of every type, with nulls (some rows in turn have nothing else), NaN and -0.0.

    Args:
        rng: the source of chance.
        n: how many.
        in_order: whether values ascend roughly; by chance otherwise.
    """
    spread, end = 60 if in_order else rng.choice([1, 50, 4000]), rng.choice(["", "é" * 9, "x" * 40])
    numbers = [at + rng.randint(-spread, spread) for at in range(n)]
    if not in_order and rng.random() < 0.3:
        rng.shuffle(numbers)

    def column(kind: pa.DataType, make: Callable[[int], Any]) -> pa.Array:
        nulls, block = rng.choice([0.0, 0.0, 0.1, 0.9]), rng.randrange(n)
        has_none = [rng.random() < nulls or block <= at < block + 400 * (nulls > 0) for at in range(n)]
        return pa.array(
            [None if none else make(number) for none, number in zip(has_none, numbers, strict=True)], kind
        )

    def text(n_values: int) -> Callable[[int], str]:
        return lambda number: f"{number % n_values:05}{end}" if number % 50 else ""

    return pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "i": column(pa.int32(), lambda number: number),
            "k": pa.array([rng.randrange(10) for _ in range(n)], pa.int64()),
            "f": column(pa.float32(), lambda number: rng.choice([float("nan"), -0.0, 0.0, number / 4])),
            "d": column(pa.float64(), lambda number: float("nan") if number % 9 == 0 else number / 4),
            "t": column(pa.string(), text(rng.choice([1, 3, 200, n]))),
            "u": column(pa.large_string(), text(rng.choice([3, n]))),
            "b": column(pa.binary(), lambda number: number.to_bytes(4, "big", signed=True) + b"\xff" * (number % 70)),
            "n": column(pa.decimal128(rng.choice([9, 18, 20]), 2), lambda number: Decimal(number).scaleb(-2)),
            "o": column(pa.bool_(), lambda number: number > n // 2),
            "day": column(pa.date32(), lambda number: DAY.date() + dt.timedelta(number)),
            "at": column(pa.timestamp("us"), lambda number: DAY + dt.timedelta(hours=number)),
            "x": column(pa.binary(4), lambda number: number.to_bytes(4, "big", signed=True)),
            "s": column(
                pa.struct([("x", pa.int64()), ("y", pa.string())]),
                lambda number: {"x": rng.choice([number % 100, None]), "y": f"{number % 7}"},
            ),
            "l": column(pa.list_(pa.int64()), lambda number: [number] * (number % 4)),
            "m": column(pa.map_(pa.string(), pa.int64()), lambda number: [(f"{number % 3}", number)]),
        }
    )  # fmt: skip


def literal(value: Any) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return f"'{value.isoformat()}'"
    return f"'{value}'" if isinstance(value, str | dt.date) else str(value).lower()


def another(value: Any) -> Any:
    """A value of the same type, which a column has seldom."""
    if isinstance(value, str | bytes):
        return value + ("?" if isinstance(value, str) else b"?")[: 0 if len(value) == 4 else 1]
    if isinstance(value, dt.date):
        return value + dt.timedelta(days=1)
    return not value if isinstance(value, bool) else value + 1


def condition(rng: random.Random, rows: pa.Table) -> tuple[str, pa.Array]:
    """A condition of one column, and for which rows it is true, false or unknown, as Arrow computes it."""
    name = rng.choice([name for name in rows.column_names if name not in ("l", "m")])
    name, path = ("s.x", ("s", "x")) if name == "s" else (name, (name,))
    column = rows[path[0]].combine_chunks()
    column = pc.struct_field(column, path[1:]) if path[1:] else column
    known = [value for value in column.to_pylist() if value is not None and value == value]
    if not known or rng.random() < 0.1:
        is_null = rng.random() < 0.5
        return f"{name} is {'' if is_null else 'not '}null", (pc.is_null if is_null else pc.is_valid)(column)
    some = sorted(rng.choice(known) for _ in range(rng.choice([1, 2, 3, 30])))
    some[0] = another(some[0]) if rng.random() < 0.4 else some[0]
    text, scalars = literal(some[0]), [pa.scalar(value, column.type) for value in some]
    if pa.types.is_boolean(column.type):
        return f"{name} = {text}", pc.equal(column, scalars[0])
    if column.type in (pa.string(), pa.large_string()) and rng.random() < 0.2:
        pattern = rng.choice(["0%", "%1", "%0_é%"])
        return f"{name} like '{pattern}'", pc.match_like(column, pattern)
    if rng.random() < 0.3:
        found = functools.reduce(pc.or_, [pc.equal(column, scalar) for scalar in scalars])
        negated = rng.random() < 0.3
        listed = f"{name} {'not ' if negated else ''}in ({', '.join(map(literal, some))})"
        return listed, pc.invert(found) if negated else found
    if rng.random() < 0.2:
        both = pc.greater_equal(column, scalars[0]), pc.less_equal(column, scalars[-1])
        return f"{name} between {text} and {literal(some[-1])}", pc.and_(*both)
    compare = {"=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater}
    sign = rng.choice([*compare, "=", "="])
    return f"{name} {sign} {text}", compare[sign](column, scalars[0])


def row_filter(rng: random.Random, rows: pa.Table) -> tuple[str, pa.Array]:
    """Conditions with AND, OR and NOT, and for which rows they are true, false or unknown."""
    text, found = condition(rng, rows)
    for _ in range(rng.choice([0, 1, 2])):
        other, those = condition(rng, rows)
        word = rng.choice(["and", "and", "or"])
        text = f"({text}) {word} ({other})"
        found = pc.and_kleene(found, those) if word == "and" else pc.or_kleene(found, those)
    return (f"not ({text})", pc.invert(found)) if rng.random() < 0.15 else (text, found)


def write(rng: random.Random, path: Path, rows: pa.Table) -> pa.Table:
    """Writes a file of one of four writers, with random options; returns the rows in it, perhaps of fewer columns."""
    group = rng.choice([len(rows), len(rows) // 2, 700, 50])
    flat = rows.drop_columns([*NESTED])
    match rng.choice(["arrow"] * 4 + ["duckdb", "polars", "arrow-rs"]):
        case "duckdb" as by:  # makes filters of column chunks with a dictionary
            options: dict[str, Any] = {
                "row_group_size": max(group, 100),
                "bloom_filter_false_positive_ratio": 0.01,
                "dictionary_size_limit": rng.choice([1, 50, 100_000]),
            }
        case "polars" as by:
            options = {"row_group_size": max(group, 100), "data_page_size": 2000, "statistics": "full"}
        case "arrow-rs" as by:
            filters = deltalake.BloomFilterProperties(
                True, fpp=rng.choice([0.01, 0.5]), ndv=rng.choice([1, N])
            )
            columns = deltalake.ColumnProperties(
                bloom_filter_properties=filters, dictionary_enabled=rng.choice([True, False])
            )
            options = {
                "default_column_properties": columns,
                "max_row_group_size": group,
                "dictionary_page_size_limit": rng.choice([100, 1 << 20]),
                "data_page_size_limit": rng.choice([500, 1 << 20]),
                "write_batch_size": rng.choice([50, 1024]),
            }
        case _:
            by = "pyarrow"
    if by != "pyarrow":
        parquet_file(path, flat, by=by, **options)
        return flat
    pq.write_table(
        rows,
        path,
        row_group_size=group,
        bloom_filter_options={
            name: {"ndv": rng.choice([1, 50, N]), "fpp": rng.choice([0.01, 0.5])}
            for name in ("i", "t", "u", "b", "n", "day") if rng.random() < 0.5
        },
        compression=rng.choice(["zstd", "snappy", "none", "gzip"]),
        use_dictionary=rng.choice([True, True, False, ["t"]]),
        dictionary_pagesize_limit=rng.choice([1, 1000, 1 << 20]),  # then pages without the dictionary
        data_page_size=rng.choice([1, 500, 4000, 1 << 20]),
        write_batch_size=rng.choice([1, 7, 100]),
        data_page_version=rng.choice(["1.0", "2.0"]),
        store_decimal_as_integer=rng.choice([True, False]),
        write_page_index=rng.choice([True, True, False]),
        write_statistics=rng.choice([True, True, ["i", "t"], False]),
    )  # fmt: skip
    return rows
