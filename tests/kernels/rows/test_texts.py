"""Numbered byte strings, compared with a dict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast._kernels.rows.texts import Texts

texts = st.one_of(st.none(), st.binary(max_size=3), st.binary(max_size=40), st.sampled_from([b"", b"a" * 16]))


def columns(values: list[bytes | None]) -> tuple[bytes, np.ndarray, np.ndarray]:
    sizes = np.array([-1 if value is None else len(value) for value in values], np.int64)
    present = np.maximum(sizes, 0)
    return b"".join(value or b"" for value in values), np.cumsum(present) - present, sizes


@given(parts=st.lists(st.lists(texts, max_size=60), max_size=5), asked=st.lists(texts, max_size=60))
def test_texts_are_numbered_in_their_order(
    parts: list[list[bytes | None]], asked: list[bytes | None]
) -> None:
    made, numbers = Texts(), dict[bytes, int]()
    for part in parts:
        out = np.full(len(part), 7, np.int64)
        made.add(*columns(part), out)
        wanted = [-1 if text is None else numbers.setdefault(text, len(numbers)) for text in part]
        assert out.tolist() == wanted
        assert len(made) == len(numbers)
    every = [*asked, *(text for part in parts for text in part)]
    out = np.full(len(every), 7, np.int64)
    made.find(*columns(every), out)
    assert out.tolist() == [-1 if text is None else numbers.get(text, -1) for text in every]


def test_many_texts_that_differ_in_one_byte_are_told_apart() -> None:
    values: list[bytes | None] = [b"file:///data/part-%07d.parquet" % n for n in range(50_000)]
    made, out = Texts(), np.empty(len(values), np.int64)
    for start in range(0, len(values), 7_000):
        made.add(*columns(values[start : start + 7_000]), out[start : start + 7_000])
    assert out.tolist() == [*range(len(values))]
    made.find(*columns(values[::-1]), out)
    assert out.tolist() == [*range(len(values))][::-1]


@pytest.mark.parametrize(("start", "size"), [(0, 5), (4, 1), (-1, 1), (5, 0), (1, 1 << 40), (1 << 62, 1)])
@pytest.mark.parametrize("verb", ["add", "find"])
def test_a_text_outside_of_its_buffer_is_refused(verb: str, start: int, size: int) -> None:
    made = Texts()
    made.add(*columns([b"x"]), np.empty(1, np.int64))
    with pytest.raises(ValueError, match="not within its buffer"):
        getattr(made, verb)(b"abcd", np.array([start]), np.array([size]), np.empty(1, np.int64))


def test_an_output_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="a number for each text"):
        Texts().add(b"ab", np.array([0, 1]), np.array([1, 1]), np.empty(1, np.int64))
