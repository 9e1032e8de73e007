"""The kernel that reads lines of JSON as columns: what it accepts is what PyArrow reads; PyArrow reads the rest."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast._kernels.json import rows as kernel
from puffin_fast.delta.log import json_rows as rows
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import JSON_COLUMNS, json_rows
from tests.kit.cases import each

COLUMNS = rows.KernelColumns.of(JSON_COLUMNS)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "x": VALUES,
        "a": st.none() | st.integers(-(10**18) + 1, 10**18 - 1),
        "t": st.none() | st.text(),
        "o": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "t": st.text(),
                "z": VALUES,
                "n": st.integers(-(2**31), 2**31 - 1),
                "o": st.fixed_dictionaries({}, optional={"a": st.integers(0, 9), "b": VALUES}),
            },
        ),
    },
)


def read(text: bytes) -> pa.Table | None:
    assert COLUMNS is not None
    return COLUMNS.read(pa.py_buffer(text))


@given(st.lists(OBJECTS, min_size=1, max_size=5), st.booleans(), st.sampled_from([None, (" , ", " :\t")]))
def test_usual_lines_have_the_values_that_were_written(
    objects: list[dict[str, object]], ascii_only: bool, separators: tuple[str, str] | None
) -> None:
    lines = [json.dumps(one, ensure_ascii=ascii_only, separators=separators) for one in objects]
    try:
        data = "\n".join([*lines, ""]).encode()
    except UnicodeEncodeError:
        return
    found = read(data)
    if found is None:  # a name with escapes, or a repeated field after its escapes were read
        assert "\\" in data.decode()
        return
    expected = [{name: one.get(name) for name in ("a", "t")} for one in objects]
    assert found.select(["a", "t"]).to_pylist() == expected
    for found_one, one in zip(found["o"].to_pylist(), objects, strict=True):
        written = one.get("o")
        if written is None:
            assert found_one is None
        else:
            assert isinstance(written, dict)
            assert (found_one["n"], found_one["t"]) == (written.get("n"), written.get("t"))
            inner = written.get("o")
            assert found_one["o"] == (None if inner is None else {"a": inner.get("a")})


@pytest.mark.parametrize("seed", list(SEEDS["json_rows"]()))
def test_damaged_lines_are_read_as_pyarrow_reads_them(seed: bytes) -> None:
    for at in range(len(seed)):
        json_rows(seed[:at])
        for byte in (0, 0x0A, 0x22, 0x2C, 0x30, 0x5C, 0x7B, 0x7D, 0xFF, seed[at] ^ 1, seed[at] ^ 0x10):
            json_rows(seed[:at] + bytes([byte]) + seed[at + 1 :])


@each(
    "line",
    [
        b"",
        b"7",
        b"[]",
        b"{",
        b'{"a":1} x',
        b'{"a":01}',
        b'{"a":1.0}',
        b'{"a":1e2}',
        b'{"a":"1"}',
        b'{"a":1000000000000000000}',
        b'{"a":1,"a":1}',
        b'{"a":null,"a":1}',
        b'{"\\u0061":1}',
        b'{"t":7}',
        b'{"t":"\\x"}',
        b'{"t":"\\udc00"}',
        b'{"t":"\\ud800\\u0041"}',
        b'{"t":"\t"}',
        b'{"o":[]}',
        b'{"o":{"n":2147483648}}',
        b'{"x":NaN}',
        b'{"x":tru}',
        b'{"x":1.}',
        b'{"x":' + b"[" * 70 + b"]" * 70 + b"}",
    ],
)
def test_other_lines_are_left_to_pyarrow(line: bytes) -> None:
    assert read(b'{"a":1}\n' + line + b"\n") is None


def test_more_rows_than_one_chunk() -> None:
    n = 200_001
    data = b"".join(b'{"a":%d,"t":"\\"%d"}\n' % (at, at) for at in range(n))
    found = read(data)
    assert found is not None
    assert found["a"].to_pylist() == list(range(n))
    assert found["t"].to_pylist() == [f'"{at}' for at in range(n)]
    assert found["o"].null_count == n


def test_types_that_the_kernel_does_not_have_are_left_to_pyarrow() -> None:
    schema = pa.schema([("a", pa.float64())])
    assert rows.KernelColumns.of(schema) is None
    assert rows.read_rows(pa.py_buffer(b'{"a":1.5}\n'), schema)["a"].to_pylist() == [1.5]


@pytest.mark.parametrize("first", [b"null\n", b"\n \t\r\nnull\n", b"\xef\xbb\xbfnull\n", b"null\nnull\n"])
def test_null_in_the_first_line_is_read_as_in_later_lines(first: bytes) -> None:
    found = rows.read_rows(pa.py_buffer(first + b'{"a":1}\n'), JSON_COLUMNS)
    assert found["a"].to_pylist() == [None] * first.count(b"null") + [1]
    with pytest.raises(pa.ArrowInvalid):
        rows.read_rows(pa.py_buffer(b"nullx\n"), JSON_COLUMNS)


def test_the_kernel_checks_its_arguments() -> None:
    empty = bytearray()
    for data, nodes in (
        (b"{}", [0, 0, 0, 0, 0, 0]),  # no line feed
        (b"{}\n", []),
        (b"{}\n", [1, 0, 0, 0, 0, 0]),  # a line is an object
        (b"{}\n", [0, 1, 1, 0, 0, 0]),  # a child that does not exist
        (b"{}\n", [0, 0, 1, 0, 0, 0]),  # its own child
        (b"{}\n", [0, 0, 0, 0, 9, 0]),  # a name out of range
        (b"{}\n", [0, 0, 0, 0, 0, 0]),  # no space for flags
    ):
        words = b"".join(word.to_bytes(4, "little") for word in nodes)
        with pytest.raises(ValueError, match=r"expected|node 0"):
            kernel.rows_into(data, 0, 1, words, b"", empty, empty, empty, empty)
