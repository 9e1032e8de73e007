"""Laws of theta sketches: the same bytes as the oracle's, for any order, chunks, types and SIMD level."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import math
import os
import pickle
import subprocess
import sys
import threading
import uuid
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import puffin_fast as pf
from puffin_fast import arrow, errors
from puffin_fast._kernels.theta import sketches as kernel
from puffin_fast.theta import ThetaSketch, ThetaSketchBuilder
from tests.kit import theta_oracle as oracle
from tests.kit.cases import each

DAY = datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)
UTC = datetime.UTC
NAN, OTHER_NAN = np.frombuffer(b"\0\0\xc0\x7f\1\0\xc0\x7f", np.float32)


def unscaled(value: int) -> decimal.Decimal:
    """value / 100, whatever the precision of the context."""
    return decimal.Decimal((value < 0, tuple(map(int, str(abs(value)))), -2))


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False, None, True]),
    "int": (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), None, 1]),
    "long": (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), None, 1]),
    "float": (pa.float32(), [0.0, -0.0, 1.5, math.inf, -math.inf, None]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, math.inf, math.nan, None]),
    "date": (pa.date32(), [DAY.date(), datetime.date(1969, 12, 31), None]),
    "time": (pa.time64("us"), [DAY.time(), datetime.time(0), None]),
    "timestamp": (pa.timestamp("us"), [DAY, datetime.datetime(1969, 12, 31), None]),
    "timestamptz": (pa.timestamp("us", "UTC"), [DAY.replace(tzinfo=UTC), None]),
    "timestamp_ns": (pa.timestamp("ns"), [DAY, None]),
    "string": (pa.string(), ["", "a", "é" * 9, "x" * 15, "x" * 16, "x" * 17, "y" * 300, None]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", bytes(range(256)), None]),
    "uuid": (pa.binary(16), [uuid.UUID(int=1).bytes, uuid.UUID(int=2**127 + 5).bytes, None]),
    "fixed[5]": (pa.binary(5), [b"12345", b"\0\0\0\0\0", None]),
    "decimal(38, 2)": (
        pa.decimal128(38, 2),
        [
            unscaled(sign * n + shift)
            for n in (0, 2**7, 2**15, 2**31, 2**63, 2**64, 2**71, 2**119)
            for sign in (1, -1)
            for shift in (-1, 0, 1)
        ]
        + [None],
    ),
}


def repeated(name: str, n: int = 61) -> pa.Array:
    """More values than SIMD lanes hold, at every place of a vector."""
    kind, values = VALUES[name]
    rng = np.random.default_rng(len(name))
    return pa.array([values[i] for i in rng.integers(0, len(values), n * len(values))], kind)


def spread(n: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.default_rng(seed).permutation(n).astype(np.int64)


@pytest.mark.parametrize("name", VALUES)
def test_values_in_every_layout_are_hashed_as_their_single_value_serialisation(name: str) -> None:
    kind, values = VALUES[name]
    expected = oracle.canonical(values, name)
    assert ThetaSketch.from_arrow(pa.array(values, kind), name).to_bytes() == expected
    column = repeated(name)
    assert ThetaSketch.from_arrow(column, name).to_bytes() == expected
    for start, stop in ((0, 1), (3, 29), (7, 8), (9, len(column)), (len(column), len(column))):
        part = column[start:stop]
        whole = ThetaSketch.from_arrow(pa.array(part.to_pylist(), part.type), name)
        chunks = pa.chunked_array([part[:2], part[2:2], part[2:]])
        for layout in (part, column.dictionary_encode()[start:stop], chunks, pc.run_end_encode(part)):
            assert ThetaSketch.from_arrow(layout, name) == whole


@pytest.mark.parametrize("name", ["boolean", "int", "long", "float", "double", "date", "string", "binary"])
def test_the_type_follows_from_arrow_where_it_is_not_given(name: str) -> None:
    kind, values = VALUES[name]
    column = pa.array(values, kind)
    assert ThetaSketch.from_arrow(column) == ThetaSketch.from_arrow(column, name)
    assert ThetaSketch.from_arrow(column.dictionary_encode()) == ThetaSketch.from_arrow(column, name)


@pytest.mark.parametrize(
    ("column", "name"),
    [
        (pa.array([1, 200, -3], pa.int16()), "int"),
        (pa.array([1, 200, -3], pa.int32()), "long"),
        (pa.array([1.5, -0.0], pa.float32()), "double"),
        (pa.array([DAY], pa.timestamp("ns")), "timestamp"),
        (pa.array(["a", "bc"], pa.string_view()), "string"),
        (pa.array([decimal.Decimal("1.50")], pa.decimal64(9, 2)), "decimal(12, 2)"),
        (pa.array([decimal.Decimal("1.50")], pa.decimal256(50, 2)), "decimal(12, 2)"),
    ],
    ids=str,
)
def test_other_arrow_types_are_hashed_as_the_iceberg_type(column: pa.Array, name: str) -> None:
    values = column.to_pylist()
    if name == "timestamp":
        values = [value.to_pydatetime() if hasattr(value, "to_pydatetime") else value for value in values]
    assert ThetaSketch.from_arrow(column, name).to_bytes() == oracle.canonical(values, name)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9, 1023, 1024, 1025, 4095, 4096, 4097, 10_241, 30_000])
def test_a_sketch_holds_the_smallest_hashes_and_the_next_as_theta(n: int) -> None:
    assert ThetaSketch.from_arrow(spread(n), "long").to_bytes() == oracle.canonical(range(n), "long")


def test_nulls_and_empty_strings_are_not_counted() -> None:
    empty = ThetaSketch()
    assert ThetaSketch.from_arrow(pa.nulls(5)) == empty
    assert ThetaSketch.from_arrow(pa.nulls(5, pa.int64())) == empty
    assert ThetaSketch.from_arrow(["", None], "string") == empty
    five = ThetaSketch.from_arrow([5])
    assert arrow.theta_union(pa.array([None, *[five.to_bytes()] * 2], pa.binary())) == five
    assert empty.estimate == 0
    assert not empty
    assert empty.bounds() == (0, 0, 0)


def test_nan_payloads_and_zeros_of_either_sign_are_different_values() -> None:
    assert ThetaSketch.from_arrow(np.array([NAN, OTHER_NAN, NAN], np.float32)).estimate == 2
    assert ThetaSketch.from_arrow([0.0, -0.0, 0.0]).estimate == 2


@pytest.mark.parametrize("n_parts", [1, 2, 7, 40])
@pytest.mark.parametrize("n", [3000, 60_000])
def test_the_union_of_the_parts_is_the_whole(n: int, n_parts: int) -> None:
    values = spread(n, n_parts)
    whole = ThetaSketch.from_arrow(values)
    parts = [ThetaSketch.from_arrow(part) for part in np.array_split(values, n_parts)]
    assert ThetaSketch.union_all(parts).to_bytes() == whole.to_bytes()
    assert arrow.theta_union([part.to_bytes() for part in parts]).to_bytes() == whole.to_bytes()
    assert arrow.theta_sketch(values) == whole


def test_union_is_commutative_associative_and_idempotent() -> None:
    a, b, c = (ThetaSketch.from_arrow(np.arange(start, start + 20_000)) for start in (0, 10_000, 25_000))
    assert a | b == b | a
    assert (a | b) | c == a | (b | c) == ThetaSketch.union_all((c, a, b)) == a.union(b, c)
    assert (a & b & c, a - b - c) == (a.intersection(b, c), a.difference(b, c))
    assert a.union() == a.intersection() == a.difference() == a
    for method in ("union", "intersection", "difference"):
        for call in (getattr(a, method), getattr(ThetaSketch, method)):
            with pytest.raises(errors.InvalidInputError, match=r"found list; write union\(\*sketches\)"):
                call([b])
    assert a | a == a
    assert (a | ThetaSketch()).to_bytes() == a.to_bytes()


def test_sets_of_exact_sketches_are_exact() -> None:
    a, b = ThetaSketch.from_arrow(np.arange(1000)), ThetaSketch.from_arrow(np.arange(600, 1500))
    assert (a & b).to_bytes() == ThetaSketch.from_arrow(np.arange(600, 1000)).to_bytes()
    assert (a - b).to_bytes() == ThetaSketch.from_arrow(np.arange(600)).to_bytes()
    assert (a - a).to_bytes() == (a & ThetaSketch()).to_bytes() == ThetaSketch().to_bytes()
    assert a.jaccard(b) == (400 / 1500, 400 / 1500, 400 / 1500)
    assert ThetaSketch().jaccard(ThetaSketch()) == (1, 1, 1)
    assert a.jaccard(ThetaSketch()).estimate == 0


def test_intersections_and_differences_of_estimates_stay_within_their_bounds() -> None:
    a, b = ThetaSketch.from_arrow(np.arange(60_000)), ThetaSketch.from_arrow(np.arange(30_000, 90_000))
    for sketch, truth in ((a & b, 30_000), (a - b, 30_000), (a | b, 90_000)):
        lower, estimate, upper = sketch.bounds(3)
        assert lower <= truth <= upper
        assert lower <= estimate <= upper
    lower, _, upper = a.jaccard(b, 3)
    assert lower <= 1 / 3 <= upper


@pytest.mark.parametrize("n", [5000, 200_000])
def test_the_error_stays_within_three_standard_deviations(n: int) -> None:
    rng = np.random.default_rng(n)
    errors_ = []
    for _ in range(60):
        sketch = ThetaSketch.from_arrow(rng.integers(-(2**63), 2**63 - 1, n))
        lower, _, upper = sketch.bounds(3)
        errors_.append((sketch.estimate / n - 1, lower <= n <= upper))
    rms = math.sqrt(sum(error * error for error, _ in errors_) / len(errors_))
    assert rms < 1.3 * math.sqrt((1 - 4096 / n) / 4096)
    assert sum(inside for _, inside in errors_) >= 58


def test_bounds_widen_with_deviations_and_close_when_exact() -> None:
    sketch = ThetaSketch.from_arrow(np.arange(100_000))
    one, two, three = (sketch.bounds(n) for n in (1, 2, 3))
    assert three.lower < two.lower < one.lower < one.estimate < one.upper < two.upper < three.upper
    assert ThetaSketch.from_arrow(range(4096)).bounds() == (4096, 4096, 4096)
    with pytest.raises(errors.InvalidInputError, match="n_std_dev: expected 1, 2 or 3, found 4"):
        sketch.bounds(4)


def test_sketches_are_values() -> None:
    a, b = ThetaSketch.from_arrow([1, 2]), ThetaSketch.from_arrow([2, 1, 2])
    assert a == b
    assert hash(a) == hash(b)
    assert a != ThetaSketch.from_arrow([1])
    assert a != 2
    assert pickle.loads(pickle.dumps(a)).to_bytes() == a.to_bytes()
    assert "estimate=2" in repr(a)
    assert pf.ThetaSketch is ThetaSketch


def test_threads_with_a_builder_each_unite_to_the_same_bytes() -> None:
    values = spread(400_000)
    builders = [ThetaSketchBuilder("long") for _ in range(4)]

    def run(builder: ThetaSketchBuilder, part: Any) -> None:
        for piece in np.array_split(part, 5):
            builder.update(piece)

    threads = [
        threading.Thread(target=run, args=pair)
        for pair in zip(builders, np.array_split(values, 4), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    united = ThetaSketch.union_all(builder.sketch() for builder in builders)
    assert united.to_bytes() == ThetaSketch.from_arrow(values).to_bytes()


LEVELS = """
import hashlib, numpy as np, pyarrow as pa
from puffin_fast.theta import ThetaSketch
from tests.theta.test_sketch import VALUES, repeated, spread
found = hashlib.sha256()
for name in VALUES:
    found.update(ThetaSketch.from_arrow(repeated(name), name).to_bytes())
found.update(ThetaSketch.from_arrow(spread(50_000)).to_bytes())
found.update(ThetaSketch.from_arrow([str(i) * (i % 40) for i in range(6_000)]).to_bytes())
print(found.hexdigest())
"""


@cache
def digest() -> str:
    """What `LEVELS` prints, computed by the oracle."""
    found = hashlib.sha256()
    for name in VALUES:
        found.update(oracle.canonical(VALUES[name][1], name))
    found.update(oracle.canonical(range(50_000), "long"))
    found.update(oracle.canonical([str(i) * (i % 40) for i in range(6_000)], "string"))
    return found.hexdigest()


@pytest.mark.parametrize("level", ["portable", "avx2", "avx512"])
def test_the_simd_level_does_not_change_a_byte(level: str) -> None:
    environment = os.environ | {"PUFFIN_FAST_SIMD": level}
    ran = subprocess.run(
        [sys.executable, "-c", LEVELS], check=True, capture_output=True, text=True, env=environment
    )
    assert ran.stdout.strip() == digest()


@pytest.mark.parametrize(
    ("values", "name", "message"),
    [
        ([1], "list<int>", "iceberg_type: expected a primitive Iceberg type, found 'list<int>'"),
        ([1], "decimal(39, 0)", "iceberg_type"),
        (["a"], "int", "expected what Iceberg's int stands for, found Arrow's string"),
        ([2**40], "int", "Arrow's int64 as Iceberg's int"),
        ([b"123"], "uuid", "Arrow's binary as Iceberg's uuid"),
        ([[1]], None, "no Iceberg type stands for Arrow's list"),
        (pa.array([1], pa.uint64()), None, "no Iceberg type stands for Arrow's uint64"),
        ([1, "a"], None, "expected an Arrow array"),
        (5, None, "expected an Arrow array"),
    ],
    ids=str,
)
def test_values_without_a_sketch_are_refused(values: Any, name: str | None, message: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=message.replace("(", r"\(").replace(")", r"\)")):
        ThetaSketch.from_arrow(values, name)


def test_dictionary_indices_outside_of_the_dictionary_are_refused() -> None:
    for index in (2, -1, 2**31 - 1):
        indices = pa.array([0, index], pa.int32())
        column = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
        with pytest.raises(errors.InvalidInputError, match="expected dictionary indices from 0 to 1"):
            ThetaSketch.from_arrow(column)


def test_only_used_entries_of_a_dictionary_count() -> None:
    indices = pa.array([1, None, 3, 1], pa.int8())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b", "c", None, "e"]))
    assert ThetaSketch.from_arrow(column) == ThetaSketch.from_arrow(["b"])


@each("offsets", [[0, 3, 1], [0, 9], [-1, 2], [5, 2], [0, 2**31 - 1]], ids=str)
@each("n_before", [0, 8, 24])
@each("kind", [np.int32, np.int64])
def test_offsets_that_leave_the_data_are_refused(offsets: list[int], n_before: int, kind: type) -> None:
    ends, data = np.array([*[0] * n_before, *offsets], kind), b"x" * 8
    assert not kernel.Accumulator().add_strings(data, ends, kind is np.int64, None, 0, len(ends) - 1)
    nulls = bytes(len(ends) // 8 + 1)
    assert kernel.Accumulator().add_strings(data, ends, kind is np.int64, nulls, 0, len(ends) - 1)


def test_offsets_inside_of_an_array_are_checked() -> None:
    ends = pa.py_buffer(np.array([0, 3, 1, 8], np.int32))
    column = pa.Array.from_buffers(pa.binary(), 3, [None, ends, pa.py_buffer(b"x" * 8)])
    with pytest.raises(errors.InvalidInputError, match="offsets of binary point outside of its data"):
        ThetaSketch.from_arrow(column)


def test_kernels_refuse_buffers_that_are_too_short() -> None:
    accumulator = kernel.Accumulator()
    for call in (
        lambda: accumulator.add_words(b"x" * 15, 8, None, 0, 2),
        lambda: accumulator.add_words(b"x" * 16, 8, None, 2, 1),
        lambda: accumulator.add_words(b"x" * 16, 3, None, 0, 1),
        lambda: accumulator.add_words(b"x" * 128, 8, b"\xff", 8, 1),
        lambda: accumulator.add_words(b"x" * 128, 8, None, 2**61, 2**62),
        lambda: accumulator.add_strings(b"", b"\0" * 8, False, None, 0, 2),
        lambda: kernel.mark_used(b"\0" * 3, 4, None, 0, 1, bytearray(1)),
    ):
        with pytest.raises(ValueError):
            call()
    assert accumulator.result() == ((1 << 63) - 1, b"")
