"""How many bytes the pages of a Parquet column chunk are decoded to, by their headers and the lengths in them.

    dictionary page   length, text | length, text …                     each as often as data pages refer to it
    DELTA_BYTE_ARRAY  lengths of prefixes | lengths of suffixes | suffixes      a prefix is that of the text before
    lengths           block size, parts, count, first | smallest step, widths, steps …        (DELTA_BINARY_PACKED)

Source: Parquet format specification, "Data Pages", "Delta Strings", "Delta Encoding".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from puffin_fast._kernels.parquet import pages
from puffin_fast.parquet.page_codecs import CODECS

_DICTIONARY_PAGE, _DATA_PAGE_V2 = 2, 3
_DICTIONARY_ENCODINGS = (2, 8)
_DELTA_BYTE_ARRAY = 7

_MOST_BLOCK = 1 << 16
"""Lengths in a block; all writers have 128 or 256."""

_MOST_LENGTH = (1 << 31) - 1
_CODECS: dict[str, Callable[[Any, int], Any]] = CODECS | {
    "BROTLI": lambda data, n_bytes: pa.decompress(data, n_bytes, "brotli")
}


class StoredPage(NamedTuple):
    """A page of a column chunk.

    Attributes:
        kind: page type.
        encoding: the encoding of its values.
        n_values: number of them, nulls included.
        raw_bytes: bytes without compression.
        level_bytes: bytes of levels before the values, which are not compressed; of pages of version 2.
        is_compressed: whether the bytes after them are.
        data: the page as stored.
    """

    kind: int
    encoding: int
    n_values: int
    raw_bytes: int
    level_bytes: int
    is_compressed: bool
    data: memoryview


def stored_pages(chunk: memoryview) -> list[StoredPage]:
    """Returns the pages of a column chunk, up to where none begins."""
    found: list[StoredPage] = []
    at = 0
    while at < len(chunk):
        try:
            header = pages.page_header(chunk, at)
        except ValueError:
            break
        kind, raw, stored, n_values, encoding, _, _, _, definition, repetition, is_compressed, *_ = header
        n_header = header[-1]
        first = at + n_header
        if min(raw, stored, n_values) < 0 or stored > len(chunk) - first:
            break
        levels = max(definition, 0) + max(repetition, 0) if kind == _DATA_PAGE_V2 else 0
        at = first + stored
        found.append(StoredPage(kind, encoding, n_values, raw, levels, is_compressed != 0, chunk[first:at]))
    return found


def repeated_bytes(found: list[StoredPage], codec: str, *, repeats: bool, is_optional: bool) -> int:
    """The bytes of texts that their pages do not hold: entries of a dictionary, and beginnings of texts before.

    Args:
        found: the pages of a column chunk.
        codec: its compression.
        repeats: whether the column has repetition levels.
        is_optional: whether it has definition levels.

    Returns:
        an upper bound; each value of a dictionary counts as much as the longest one.

    Raises:
        ValueError: a page does not have the expected form, or its compression is not known.
    """
    if codec not in _CODECS:
        raise ValueError(f"compression {codec}")
    n_bytes = longest = 0
    for page in found:
        if page.kind == _DICTIONARY_PAGE:
            longest = _longest(bytes(_raw(page, codec)), page.n_values)
        elif page.encoding in _DICTIONARY_ENCODINGS:
            n_bytes += page.n_values * longest
        elif page.encoding == _DELTA_BYTE_ARRAY:
            data = bytes(_raw(page, codec))
            at = 0
            for has_levels in (repeats, is_optional) if page.kind != _DATA_PAGE_V2 else ():
                at += 4 + int.from_bytes(data[at : at + 4], "little") if has_levels else 0
            n_bytes += _sum(data, at)
    return n_bytes


def _raw(page: StoredPage, codec: str) -> Any:
    """The bytes of a page after the levels that are not compressed."""
    data, n_bytes = page.data[page.level_bytes :], page.raw_bytes - page.level_bytes
    if n_bytes < 0 or len(page.data) < page.level_bytes:
        raise ValueError(f"{page.level_bytes} bytes of levels in {page.raw_bytes}")
    return _CODECS[codec](data, n_bytes) if page.is_compressed and n_bytes else data


def _longest(data: bytes, n_values: int) -> int:
    """The length of the longest entry of a dictionary."""
    at = longest = 0
    for _ in range(n_values):
        if at + 4 > len(data):
            raise ValueError(f"{len(data)} bytes for {n_values} values of a dictionary")
        length = int.from_bytes(data[at : at + 4], "little")
        at, longest = at + 4 + length, max(longest, length)
    return longest


def _sum(data: bytes, at: int) -> int:
    """The sum of the lengths that begin at an offset."""
    block, at = _varint(data, at)
    n_parts, at = _varint(data, at)
    count, at = _varint(data, at)
    value, at = _zigzag(data, at)
    if not 0 < n_parts <= block or block % n_parts or block // n_parts % 8 or block > _MOST_BLOCK:
        raise ValueError(f"blocks of {block} values in {n_parts} parts")
    if not 0 <= value <= _MOST_LENGTH:
        raise ValueError("lengths of more than 31 bits")
    part, left = block // n_parts, count - 1
    total = value if count else 0
    while left > 0:
        least, at = _zigzag(data, at)
        if abs(least) > _MOST_LENGTH:
            raise ValueError("lengths of more than 31 bits")
        widths = data[at : at + n_parts]
        at += n_parts
        for width in widths:
            if left <= 0:
                break
            stop = at + part * width // 8
            if width > 32 or stop > len(data):
                raise ValueError(f"lengths of {width} bits")
            bits = np.unpackbits(np.frombuffer(data, np.uint8, stop - at, at), bitorder="little")
            steps = bits.reshape(part, width)[:left] @ (1 << np.arange(width, dtype=np.int64))
            values = value + np.cumsum(steps + least)
            if values.min() < 0 or values.max() > _MOST_LENGTH:
                raise ValueError("lengths of more than 31 bits")
            value, at, left = int(values[-1]), stop, left - len(values)
            total += int(values.sum())
        if len(widths) < n_parts:
            raise ValueError("lengths that end early")
    return total


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        found, at, shift = found | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return found, at
    raise ValueError("a number that does not end")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    found, at = _varint(data, at)
    return found >> 1 ^ -(found & 1), at
