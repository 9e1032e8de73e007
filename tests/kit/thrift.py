"""Thrift's compact protocol as trees, and Parquet files whose footer and page headers have fields of no specification.

A struct is a list of fields (id, kind, value); a list or set is (kind of its items, items); a map is (kind of its keys,
kind of its values, pairs).
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
_BYTES = {BYTE: 1, DOUBLE: 8, UUID: 16}
KINDS = range(1, 14)

Field = tuple[int, int, Any]
Struct = list[Field]


class Reader:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def take(self, n: int) -> bytes:
        self.at += n
        return self.data[self.at - n : self.at]

    def varint(self) -> int:
        value = shift = 0
        while (byte := self.take(1)[0]) > 127:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def integer(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def struct(self) -> Struct:
        fields, number = [], 0
        while head := self.take(1)[0]:
            number = number + (head >> 4) if head >> 4 else self.integer()
            kind = head & 15
            fields.append((number, kind, kind if kind in (TRUE, FALSE) else self.value(kind)))
        return fields

    def value(self, kind: int) -> Any:
        if kind == STRUCT:
            return self.struct()
        if kind in (I16, I32, I64):
            return self.integer()
        if kind == BINARY:
            return self.take(self.varint())
        if kind in (LIST, SET):
            head = self.take(1)[0]
            count = self.varint() if head >> 4 == 15 else head >> 4
            return head & 15, [self.item(head & 15) for _ in range(count)]
        if kind == MAP:
            count = self.varint()
            kinds = self.take(1)[0] if count else 0
            pairs = [(self.item(kinds >> 4), self.item(kinds & 15)) for _ in range(count)]
            return kinds >> 4, kinds & 15, pairs
        return self.take(_BYTES[kind])

    def item(self, kind: int) -> Any:
        return self.take(1)[0] if kind in (TRUE, FALSE) else self.value(kind)


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def integer(value: int) -> bytes:
    return varint(value * 2 if value >= 0 else -value * 2 - 1)


def encode(kind: int, value: Any) -> bytes:
    if kind == STRUCT:
        parts, last = [], 0
        for number, inner, content in value:
            delta = number - last
            parts.append(bytes([delta << 4 | inner]) if 0 < delta < 16 else bytes([inner]) + integer(number))
            parts.append(b"" if inner in (TRUE, FALSE) else encode(inner, content))
            last = number
        return b"".join(parts) + b"\0"
    if kind in (I16, I32, I64):
        return integer(value)
    if kind == BINARY:
        return varint(len(value)) + value
    if kind in (LIST, SET):
        inner, items = value
        short = len(items) < 15
        head = bytes([(len(items) if short else 15) << 4 | inner]) + (b"" if short else varint(len(items)))
        return head + b"".join(_item(inner, item) for item in items)
    if kind == MAP:
        key, inner, pairs = value
        if not pairs:
            return b"\0"
        body = b"".join(_item(key, one) + _item(inner, other) for one, other in pairs)
        return varint(len(pairs)) + bytes([key << 4 | inner]) + body
    return bytes(value)


def _item(kind: int, value: Any) -> bytes:
    return bytes([value]) if kind in (TRUE, FALSE) else encode(kind, value)


def any_value(chance: random.Random, kind: int, depth: int = 0, kinds: Any = KINDS) -> Any:
    """A value of a kind, of few items."""
    inner = [chance.choice(kinds if depth < 3 else range(1, 9)) for _ in range(2)]
    count = chance.choice([0, 1, 2, 17])
    match kind:
        case 1 | 2:
            return kind
        case 4 | 5 | 6:
            return chance.choice([0, -1, 1, 2 ** (8 * 2 ** (kind - 3) - 1) - 1])
        case 8:
            return chance.randbytes(count)
        case 9 | 10:
            return inner[0], [any_value(chance, inner[0], depth + 1, kinds) for _ in range(count)]
        case 11:
            pairs = [tuple(any_value(chance, one, depth + 1, kinds) for one in inner) for _ in range(count)]
            return (*inner, pairs) if pairs else (0, 0, [])
        case 12:
            return [any_field(chance, depth + 1, kinds) for _ in range(count)]
    return chance.randbytes(_BYTES[kind])


def any_field(chance: random.Random, depth: int = 0, kinds: Any = KINDS) -> Field:
    """A field that no struct of Parquet has; Photon's own have the id -16384."""
    kind = chance.choice(kinds)
    number = chance.choice([-16384, -32768, -1, 0, 200, 32767])
    return number, kind, any_value(chance, kind, depth, kinds)


def with_unknown_fields(chance: random.Random, fields: Struct, kinds: Any = KINDS) -> Struct:
    """The same struct with other fields among its own, at every level."""
    found: Struct = []
    for number, kind, value in fields:
        found += [any_field(chance, kinds=kinds) for _ in range(chance.choice([0, 0, 1, 2]))]
        if kind == STRUCT:
            value = with_unknown_fields(chance, value, kinds)
        elif kind == LIST and value[0] == STRUCT:
            value = STRUCT, [with_unknown_fields(chance, item, kinds) for item in value[1]]
        found.append((number, kind, value))
    return [*found, any_field(chance, kinds=kinds)]


def get(fields: Struct, number: int) -> Any:
    return next((value for one, _, value in fields if one == number), None)


def footer_of(data: bytes) -> Struct:
    n_bytes = int.from_bytes(data[-8:-4], "little")
    return Reader(data, len(data) - 8 - n_bytes).struct()


def with_footer(data: bytes, footer: Struct, *, body: bytes | None = None) -> bytes:
    """A Parquet file with another footer."""
    stored = encode(STRUCT, footer)
    before = data[: -8 - int.from_bytes(data[-8:-4], "little")] if body is None else body
    return before + stored + len(stored).to_bytes(4, "little") + data[-4:]


class Page(NamedTuple):
    """A page of a Parquet file.

    Attributes:
        column: path of its leaf.
        at: where its header starts.
        body: where its bytes start.
        stop: where they end.
        header: its fields.
    """

    column: str
    at: int
    body: int
    stop: int
    header: Struct


def pages_of(data: bytes) -> Iterator[Page]:
    """The pages of a Parquet file."""
    for group in get(footer_of(data), 4)[1]:
        for fields in get(group, 1)[1]:
            yield from _pages_of_chunk(data, get(fields, 3))


def _pages_of_chunk(data: bytes, chunk: Struct) -> Iterator[Page]:
    column = b".".join(get(chunk, 3)[1]).decode()
    at = min(filter(None, (get(chunk, 9), get(chunk, 11))))
    stop = at + get(chunk, 7)
    while at < stop:
        reader = Reader(data, at)
        header = reader.struct()
        yield Page(column, at, reader.at, reader.at + get(header, 3), header)
        at = reader.at + get(header, 3)


def with_checksums(data: bytes) -> bytes:
    """A Parquet file whose page headers have the CRC-32 of their pages."""

    def change(header: Struct, page: bytes) -> Struct:
        sum = zlib.crc32(page)
        field = 4, I32, sum - (1 << 32) if sum >> 31 else sum
        return sorted([*[known for known in header if known[0] != 4], field], key=lambda known: known[0])

    return with_page_headers(data, change)


def with_page_headers(data: bytes, change: Any) -> bytes:
    """A Parquet file with other page headers.

    Args:
        data: the file, without indexes of pages.
        change: returns another header for a header and the bytes of its page.
    """
    body = bytearray(b"PAR1")

    def moved(chunk: Struct) -> Struct:
        places, first = {}, len(body)
        for page in _pages_of_chunk(data, chunk):
            places[page.at] = len(body)
            stored = data[page.body : page.stop]
            body.extend(encode(STRUCT, change(page.header, stored)) + stored)
        new = {7: len(body) - first, 9: places[get(chunk, 9)], 11: places.get(get(chunk, 11))}
        new[6] = get(chunk, 6) + new[7] - get(chunk, 7)
        return [(one, kind, new.get(one, value)) for one, kind, value in chunk]

    def group(fields: Struct) -> Struct:
        chunks = [
            [(one, kind, moved(value) if one == 3 else value) for one, kind, value in chunk]
            for chunk in get(fields, 1)[1]
        ]
        return [
            (one, kind, (STRUCT, chunks) if one == 1 else value) for one, kind, value in fields if one != 5
        ]

    footer = [
        (one, kind, (STRUCT, [group(item) for item in value[1]]) if one == 4 else value)
        for one, kind, value in footer_of(data)
    ]
    return with_footer(data, footer, body=bytes(body))
