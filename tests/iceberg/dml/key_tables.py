"""Tables, readers and cases that several tests share with `test_delete_keys`."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.kit.tables import iceberg_table, parts

if TYPE_CHECKING:
    from pyiceberg.table import Table


N = 240


NAN = float("nan")


STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])


ROWS = pa.table(
    {
        "id": pa.array(range(N), pa.int64()),
        "small": pa.array([None if i % 7 == 0 else i % 50 for i in range(N)], pa.int32()),
        "word": pa.array([None if i % 11 == 0 else f"w{i % 13}" for i in range(N)]),
        "day": pa.array([datetime.date(1969, 12, 1) + datetime.timedelta(i % 60) for i in range(N)]),
        "time": pa.array([datetime.datetime(1970, 1, 1) + datetime.timedelta(hours=i) for i in range(N)]),
        "at": pa.array(range(0, N * 10**6, 10**6), pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal(i) / 4 for i in range(N)], pa.decimal128(12, 2)),
        "x": pa.array([[NAN, 0.0, -0.0, None, 1.5][i % 5] for i in range(N)], pa.float64()),
        "raw": pa.array([bytes([i]) for i in range(N)], pa.binary()),
        "fixed": pa.array([bytes([i, 0, 1]) for i in range(N)], pa.binary(3)),
        "flag": pa.array([i % 2 == 0 for i in range(N)]),
        "s": pa.array([None if i % 9 == 0 else {"a": i % 20, "b": f"b{i % 3}"} for i in range(N)], STRUCT),
        "l": pa.array([[i] for i in range(N)], pa.list_(pa.int64())),
    }
)


def made(catalog: Any, namespace: str, *, spec: tuple[str, ...] = (), files: int = 3) -> Table:
    return iceberg_table(catalog, parts(ROWS, files), name=f"{namespace}.t", partition=spec)


def same(left: Any, right: Any) -> bool:
    return left == right or (left != left and right != right)


def left_after(keys: pa.Table, on: list[str], *, null_safe: bool = False) -> list[int]:
    """Ids of the rows that no key finds, by a nested loop."""

    def get(row: dict[str, Any], name: str) -> Any:
        value: Any = row.get(name) if name in row else row
        if name not in row:
            for part in name.split("."):
                value = None if value is None else value[part]
        return value

    wanted = [[get(row, name) for name in on] for row in keys.to_pylist()]
    left = []
    for row in ROWS.to_pylist():
        mine = [get(row, name) for name in on]
        hit = any(
            all(same(a, b) and (null_safe or a is not None) for a, b in zip(mine, key, strict=True))
            for key in wanted
        )
        if not hit:
            left.append(row["id"])
    return left


KEYS: dict[str, tuple[pa.Table, list[str]]] = {
    "long": (pa.table({"id": [5, 5, 100, 239, 240, -1, None]}), ["id"]),
    "narrow": (pa.table({"id": pa.array([5, 200], pa.uint8())}), ["id"]),
    "wide": (pa.table({"small": pa.array([3, 3 + 2**32, 2**40, 49], pa.int64())}), ["small"]),
    "unsigned": (pa.table({"id": pa.array([2**64 - 1, 2**63, 9], pa.uint64())}), ["id"]),
    "null": (pa.table({"small": pa.array([None, 7], pa.int32())}), ["small"]),
    "only null": (pa.table({"small": pa.nulls(3)}), ["small"]),
    "string": (pa.table({"word": ["w1", "w12", "nothing", None]}), ["word"]),
    "dictionary": (pa.table({"word": pa.array(["w1", "w1", "w7"]).dictionary_encode()}), ["word"]),
    "view": (pa.table({"word": pa.array(["w1", "w7"]).cast(pa.string_view())}), ["word"]),
    "day": (pa.table({"day": [datetime.date(1969, 12, 5), datetime.date(1970, 1, 20)]}), ["day"]),
    "seconds": (pa.table({"time": pa.array([3600, 7200, 7201], pa.timestamp("s"))}), ["time"]),
    "decimal": (
        pa.table({"price": pa.array([Decimal("1.25"), Decimal("2.001")], pa.decimal128(20, 3))}),
        ["price"],
    ),
    "decimal of more digits": (
        pa.table({"price": pa.array([Decimal("1.25"), Decimal(10) ** 10], pa.decimal128(38, 4))}),
        ["price"],
    ),
    "float": (pa.table({"x": [0.0, 7.0]}), ["x"]),
    "minus zero": (pa.table({"x": [-0.0]}), ["x"]),
    "nan": (pa.table({"x": [NAN]}), ["x"]),
    "single": (pa.table({"x": pa.array([1.5, NAN], pa.float32())}), ["x"]),
    "bytes": (pa.table({"raw": pa.array([b"\x05", b"\x06\x07"], pa.large_binary())}), ["raw"]),
    "fixed": (pa.table({"fixed": pa.array([b"\x05\x00\x01", b"\x06", None], pa.binary())}), ["fixed"]),
    "flag": (pa.table({"flag": [True]}), ["flag"]),
    "two": (pa.table({"small": [1, 2, 3, None], "word": ["w1", "w2", "w0", "w5"]}), ["small", "word"]),
    "three": (ROWS.select(["day", "word", "x"]).slice(20, 60), ["day", "word", "x"]),
    "other columns": (pa.table({"more": [[1], [2]], "id": [1, 2]}), ["id"]),
    "dotted": (pa.table({"s.a": [1, 2, None]}), ["s.a"]),
    "nested": (pa.table({"s": pa.array([{"a": 4, "b": "b1"}, None], STRUCT)}), ["s.b", "s.a"]),
    "zone": (pa.table({"at": pa.array([5, 6, 1000], pa.timestamp("s", "Europe/Berlin"))}), ["at"]),
    "none": (pa.table({"id": pa.array([], pa.int64())}), ["id"]),
}
