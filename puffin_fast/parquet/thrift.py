"""Thrift's compact protocol, as far as Parquet's page headers and footers need it."""

from __future__ import annotations

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = range(1, 14)
_BYTES = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8, _UUID: 16}
"""Bytes of a value that has no length; a boolean in a list, set or map has a byte of its own."""
_MAX_DEPTH = 64


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
        field_id = 0
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError(f"structs nested deeper than {_MAX_DEPTH} levels")
        while head := self._byte():
            delta, kind = head >> 4, head & 15
            field_id = field_id + delta if delta else self._integer()
            fields[field_id] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)
        self._depth -= 1
        return fields

    def _value(self, kind: int) -> object:
        if kind in (_I16, _I32, _I64):
            return self._integer()
        if kind == _STRUCT:
            return self.struct()
        if kind in (_LIST, _SET):
            return self._list()
        if kind == _MAP:
            self._map()
            return None
        n_bytes = self._unsigned() if kind == _BINARY else _BYTES.get(kind)
        if n_bytes is None:
            raise ValueError(f"Thrift type {kind}")
        self.at += n_bytes
        return None

    def _list(self) -> list[object]:
        head = self._byte()
        n = head >> 4
        if n == 15:
            n = self._unsigned()
        return self._items(n, head & 15)

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

    def _integer(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
