"""The bounds of all row groups, compared at once, leave out those that PyIceberg's evaluator leaves out one by one."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

import puffin_fast as pf
from puffin_fast.rows.files.reader import DataFiles
from puffin_fast.rows.filters.filters import RowFilter
from tests import thrift
from tests.seeds import seeds

N, GROUP = 800, 40
DAY = datetime.date(2020, 1, 1)
TIME = datetime.datetime(2020, 1, 1)
VALUES: dict[str, tuple[pa.DataType, Callable[[int], Any], Callable[[int], str]]] = {
    "i": (pa.int32(), lambda n: n - 300, lambda n: str(n - 300)),
    "l": (pa.int64(), lambda n: (n - 300) << 40, lambda n: str((n - 300) << 40)),
    "f": (pa.float32(), lambda n: [float("nan"), -0.0, n / 8][min(n, 2)], lambda n: str(n / 8)),
    "d": (pa.float64(), lambda n: [float("nan"), 0.0, n / 8][min(n, 2)], lambda n: str(n / 8)),
    "b": (pa.bool_(), lambda n: n % 5 == 0, lambda n: "true"),
    "t": (pa.string(), lambda n: f"{n:04} é" + "x" * (n % 90), lambda n: f"'{n:04}'"),
    "r": (pa.binary(), lambda n: bytes([n % 256, 255]), lambda n: f"X'{n % 256:02x}'"),
    "n": (pa.decimal128(9, 2), lambda n: Decimal(n - 300) / 100, lambda n: str(Decimal(n - 300) / 100)),
    "w": (
        pa.decimal128(30, 3),
        lambda n: Decimal(n - 300) * 10**15,
        lambda n: f"{Decimal(n - 300) * 10**15}",
    ),
    "day": (pa.date32(), lambda n: DAY + datetime.timedelta(n), lambda n: f"'{DAY + datetime.timedelta(n)}'"),
    "at": (
        pa.timestamp("us"),
        lambda n: TIME + datetime.timedelta(hours=n),
        lambda n: f"'{(TIME + datetime.timedelta(hours=n)).isoformat()}'",
    ),
}


def rows(rng: random.Random) -> pa.Table:
    """Columns in rough order, so that bounds differ; row groups without nulls, with some, and of nulls only."""
    columns: dict[str, pa.Array] = {"id": pa.array(range(N), pa.int64())}
    for name, (kind, value, _) in VALUES.items():
        share, block = rng.choice([0.0, 0.2]), rng.randrange(N)
        numbers = [max(0, at + rng.randrange(-60, 60)) for at in range(N)]
        columns[name] = pa.array(
            [
                None if rng.random() < share or block <= at < block + 100 else value(n)
                for at, n in enumerate(numbers)
            ],
            kind,
        )
    inner = pa.StructArray.from_arrays([columns["l"]], ["x"])
    return pa.table({**columns, "s": inner})


def condition(rng: random.Random) -> str:
    name = rng.choice([*VALUES, "s.x"])
    literal = VALUES["l" if name == "s.x" else name][2]
    some = [literal(rng.randrange(N)) for _ in range(3)]
    return rng.choice(
        [
            f"{name} {rng.choice(['=', '<>'])} {some[0]}",
            *[f"{name} {operator} {some[0]}" for operator in ("<", "<=", ">", ">=") if name != "b"],
            f"{name} {rng.choice(['', 'not '])}in ({', '.join(some)})",
            f"{name} is {rng.choice(['', 'not '])}null",
            *(["t like '01%'", "t not like '02%'"] if name == "t" else []),
        ]
    )


@pytest.mark.parametrize("seed", seeds(10))
def test_bounds_of_all_row_groups_are_those_of_each(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path, table = tmp_path / "data.parquet", rows(rng)
    match rng.choice(["pyarrow", "pyarrow", "integers", "polars", "without"]):
        case "polars":
            polars.from_arrow(table).write_parquet(path, row_group_size=GROUP)  # type: ignore[union-attr]
        case "integers":
            pq.write_table(table, path, row_group_size=GROUP, store_decimal_as_integer=True)
        case "without":
            pq.write_table(table, path, row_group_size=GROUP, write_statistics=["i", "t"])
        case _:
            pq.write_table(table, path, row_group_size=GROUP)
    with InMemoryCatalog("c", warehouse=f"file://{tmp_path}") as catalog:
        catalog.create_namespace("n")
        found = catalog.create_table("n.t", pq.read_schema(path), properties={"format-version": "2"})
        found.add_files([f"file://{path}"])
    (task,) = pf.iceberg.plan_files(found).tasks
    schema, left_out = found.schema(), 0
    for _ in range(60):
        where = " ".join(
            [
                condition(rng),
                *(f"{rng.choice(['and', 'or'])} {condition(rng)}" for _ in range(rng.randrange(3))),
            ]
        )
        bound = RowFilter.bind(where, schema)
        one, all_at_once = (
            DataFiles(
                found.io, found.metadata, schema, bound.field_ids, bound.may_match(schema), None, pruner
            ).open(task.data)
            for pruner in (None, bound.pruner(schema))
        )
        assert one.excluded == all_at_once.excluded, where
        left_out += len(one.excluded)
    assert left_out > 0


def with_deprecated_bounds(data: bytes) -> bytes:
    """A file of one column of texts as parquet-mr 1.8 writes it: bounds are the extremes of signed bytes."""

    def signed(text: bytes) -> list[int]:
        return [byte - 256 if byte > 127 else byte for byte in text]

    def replaced(fields: thrift.Struct, number: int, change: Callable[[Any], Any]) -> thrift.Struct:
        return [(one, kind, change(value) if one == number else value) for one, kind, value in fields]

    def statistics(fields: thrift.Struct) -> thrift.Struct:
        ordered = sorted((thrift.get(fields, 5), thrift.get(fields, 6)), key=signed)
        return [(1, thrift.BINARY, ordered[1]), (2, thrift.BINARY, ordered[0]), (3, thrift.I64, 0)]

    def of_chunk(fields: thrift.Struct) -> thrift.Struct:
        return replaced(fields, 3, lambda about: replaced(about, 12, statistics))

    def of_group(fields: thrift.Struct) -> thrift.Struct:
        return replaced(fields, 1, lambda chunks: (thrift.STRUCT, [*map(of_chunk, chunks[1])]))

    footer = replaced(thrift.footer_of(data), 4, lambda groups: (thrift.STRUCT, [*map(of_group, groups[1])]))
    footer = replaced(footer, 6, lambda _: b"parquet-mr version 1.8.1 (build 4aba4da)")
    return thrift.with_footer(data, [field for field in footer if field[0] != 7])


def test_deprecated_bounds_of_texts_leave_nothing_out(tmp_path: Path) -> None:
    """Their order is that of signed bytes: the lower bound is the greater text here."""
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"t": ["a", "é"] * 4}), path, row_group_size=2)
    path.write_bytes(with_deprecated_bounds(path.read_bytes()))
    assert pq.read_metadata(path).row_group(0).column(0).statistics is None
    with InMemoryCatalog("c", warehouse=f"file://{tmp_path}") as catalog:
        catalog.create_namespace("n")
        table = catalog.create_table("n.t", pq.read_schema(path), properties={"format-version": "2"})
        table.add_files([f"file://{path}"])
    for where, expected in {"t < 'b'": "a", "t <= 'a'": "a", "t = 'a'": "a", "t > 'b'": "é"}.items():
        assert pf.iceberg.scan(table, row_filter=where).to_arrow()["t"].to_pylist() == [expected] * 4, where
