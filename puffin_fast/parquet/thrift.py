"""Thrift's compact protocol, as far as Parquet's page headers and footers need it.

struct = (head, value) ... 0        head = steps from the id of the field before, type: 4 bits each
                                    for 0 or more than 15 steps: type, the id as an integer
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

_TRUE, _FALSE, BYTE, _I16, I32, _I64, _DOUBLE, BINARY, _LIST, _SET, _MAP, STRUCT, _UUID = range(1, 14)
_BYTES = {_TRUE: 1, _FALSE: 1, BYTE: 1, _DOUBLE: 8, _UUID: 16}
"""Bytes of a value that has no length; a boolean in a list, set or map has a byte of its own."""
_MAX_DEPTH = 64


class StoredField(NamedTuple):
    """A field of a struct.

    Attributes:
        id, kind: its id and type.
        value: the bytes of its value; empty for booleans, whose value is their type.
    """

    id: int
    kind: int
    value: bytes


def struct_bytes(fields: Iterable[StoredField]) -> bytes:
    """Encodes a struct."""
    parts, before = [], 0
    for id, kind, value in fields:
        step = id - before
        parts += [bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + integer_bytes(id), value]
        before = id
    return b"".join((*parts, b"\0"))


def integer_bytes(value: int) -> bytes:
    """Encodes an integer."""
    return _unsigned_bytes(value << 1 if value >= 0 else ~value << 1 | 1)


def binary_bytes(value: bytes) -> bytes:
    """Encodes a text in UTF-8 or a binary value."""
    return _unsigned_bytes(len(value)) + value


def _unsigned_bytes(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


class ThriftReader:
    """Integers, booleans, lists, sets and structs; of all other values, None.

    Attributes:
        at: the next byte.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._depth = 0
        self.at = 0

    def struct(self) -> dict[int, object]:
        """The fields of a struct by id.

        Raises:
            IndexError: the bytes end.
            ValueError: an unknown type, or structs that are nested too deeply.
        """
        fields: dict[int, object] = {}
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError(f"structs nested deeper than {_MAX_DEPTH} levels")
        field_id = 0
        while head := self._byte():  # not by `fields`: a generator takes a fifth longer
            kind = head & 15
            field_id = field_id + (head >> 4) if head >> 4 else self.integer()
            fields[field_id] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)
        self._depth -= 1
        return fields

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yields the id and the type of each field of a struct, when `at` is at its value; the caller moves `at` on."""
        field_id = 0
        while head := self._byte():
            field_id = field_id + (head >> 4) if head >> 4 else self.integer()
            yield field_id, head & 15

    def stored_fields(self) -> list[StoredField]:
        """The fields of a struct with the bytes of their values."""
        found = []
        for field_id, kind in self.fields():
            start = self.at
            self.skip(kind)
            found.append(StoredField(field_id, kind, self._data[start : self.at]))
        return found

    def list_head(self) -> int:
        """The number of items of a list or set, whose first item is then at `at`."""
        head = self._byte()
        return self._unsigned() if head >> 4 == 15 else head >> 4

    def binary(self) -> bytes:
        """The bytes of a text or binary value."""
        n_bytes = self._unsigned()
        self.at += n_bytes
        return self._data[self.at - n_bytes : self.at]

    def skip(self, kind: int) -> None:
        """Moves past the value of a field."""
        if kind not in (_TRUE, _FALSE):
            self._value(kind)

    def _value(self, kind: int) -> object:
        if kind in (_I16, I32, _I64):
            return self.integer()
        if kind == STRUCT:
            return self.struct()
        if kind in (_LIST, _SET):
            return self._list()
        if kind == _MAP:
            self._map()
            return None
        n_bytes = self._unsigned() if kind == BINARY else _BYTES.get(kind)
        if n_bytes is None:
            raise ValueError(f"Thrift type {kind}")
        self.at += n_bytes
        return None

    def _list(self) -> list[object]:
        kind = self._data[self.at] & 15
        return self._items(self.list_head(), kind)

    def _map(self) -> None:
        if n := self._unsigned():
            kinds = self._byte()
            self._items(2 * n, kinds >> 4, kinds & 15)

    def _items(self, n: int, *kinds: int) -> list[object]:
        """Values of the kinds in turn."""
        found = []
        for at in range(n):  # each element has at least one byte
            if self.at >= len(self._data):
                raise IndexError("a list, set or map that ends early")
            found.append(self._value(kinds[at % len(kinds)]))
        return found

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def integer(self) -> int:
        """An integer."""
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
