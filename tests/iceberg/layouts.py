"""Columns in every layout that Arrow has for the values of an Iceberg table, each with four values."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

__all__ = ["LAYOUTS", "Layout"]


class Layout(NamedTuple):
    """A column as it may be given, and the same values as the table has them."""

    array: pa.Array
    stored: pa.Array


def _layouts() -> dict[str, Layout]:
    text: list[Any] = ["a", None, "", "bé"]
    found: dict[str, Layout] = {}

    def add(name: str, array: pa.Array, kind: pa.DataType) -> None:
        found[name] = Layout(array, pa.array(array.to_pylist(), kind))

    def add_values(name: str, values: list[Any], given: pa.DataType, kind: pa.DataType) -> None:
        add(name, pa.array(values, given), kind)

    lists: list[Any] = [[1, 2], None, [], [None, 3]]
    words: list[Any] = [["a"], None, [], [None, "b"]]
    add_values("string_view", text, pa.string_view(), pa.string())
    add_values("large_string", text, pa.large_string(), pa.string())
    add_values("binary_view", [b"a", None, b"", b"b"], pa.binary_view(), pa.binary())
    add_values("large_binary", [b"a", None, b"", b"b"], pa.large_binary(), pa.binary())
    add_values("fixed_size_binary", [b"ab", None, b"cd", b"ef"], pa.binary(2), pa.binary())
    for name, make in (
        ("list", pa.list_),
        ("large_list", pa.large_list),
        ("list_view", pa.list_view),
        ("large_list_view", pa.large_list_view),
    ):
        add_values(name, lists, make(pa.int64()), pa.list_(pa.int64()))
        add_values(f"{name}_of_views", words, make(pa.string_view()), pa.list_(pa.string()))
    add_values(
        "fixed_size_list", [[1, 2], None, [3, 4], [None, 5]], pa.list_(pa.int64(), 2), pa.list_(pa.int64())
    )
    structs: list[Any] = [{"x": "a"}, None, {"x": None}, {"x": "b"}]
    add_values(
        "struct_of_views", structs, pa.struct([("x", pa.string_view())]), pa.struct([("x", pa.string())])
    )
    add_values(
        "map_of_views",
        [[("k", "v")], None, [], [("k", None)]],
        pa.map_(pa.string_view(), pa.string_view()),
        pa.map_(pa.string(), pa.string()),
    )
    codes = pa.array([0, None, 1, 0], pa.uint8())
    for name, kind in (("string", pa.string()), ("view", pa.string_view()), ("large", pa.large_string())):
        values = pa.array(["a", "b"], kind)
        add(f"dictionary_of_{name}", pa.DictionaryArray.from_arrays(codes, values), pa.string())
        runs = pa.array(["a", None, "b"], kind)
        ends = pa.array([1, 2, 4], pa.int16())
        add(f"runs_of_{name}", pa.RunEndEncodedArray.from_arrays(ends, runs), pa.string())
    numbers = pa.DictionaryArray.from_arrays(codes, pa.array([7, 8], pa.int64()))
    add("dictionary_of_numbers", numbers, pa.int64())
    in_list = pa.list_(pa.dictionary(pa.int32(), pa.string()))
    add_values("list_of_dictionary", words, in_list, pa.list_(pa.string()))
    prices: list[Any] = [Decimal("1.25"), None, Decimal("-2.50"), Decimal("0.00")]
    for width, precision in ((32, 9), (64, 18), (128, 38), (256, 40)):
        given = getattr(pa, f"decimal{width}")(precision, 2)
        add_values(f"decimal{width}", prices, given, pa.decimal128(min(precision, 38), 2))
    add_values("half_float", [1.5, None, -2.0, 0.0], pa.float16(), pa.float32())
    for width in (8, 16, 32):
        add_values(f"int{width}", [1, None, -2, 0], getattr(pa, f"int{width}")(), pa.int32())
    for width in (8, 16):
        add_values(f"uint{width}", [1, None, 2, 0], getattr(pa, f"uint{width}")(), pa.int32())
    for width in (32, 64):
        add_values(f"uint{width}", [1, None, 2, 0], getattr(pa, f"uint{width}")(), pa.int64())
    moments: list[Any] = [datetime.datetime(2024, 1, 2, 3, 4, 5), None, datetime.datetime(1969, 12, 31), None]
    for unit in ("s", "ms", "us", "ns"):
        add(f"timestamp_{unit}", pa.array(moments, pa.timestamp(unit)), pa.timestamp("us"))
        zone = pa.array(moments, pa.timestamp(unit)).cast(pa.timestamp(unit, "UTC"))
        add(f"timestamptz_{unit}", zone, pa.timestamp("us", "UTC"))
    times: list[Any] = [datetime.time(1, 2, 3), None, datetime.time(0), datetime.time(23, 59, 59)]
    for given in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        add_values(f"time_{given.unit}", times, given, pa.time64("us"))
    add_values(
        "date64", [datetime.date(2024, 1, 2), None, datetime.date(1970, 1, 1), None], pa.date64(), pa.date32()
    )
    return found


LAYOUTS = _layouts()
"""By name."""
