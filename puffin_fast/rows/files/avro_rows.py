"""Columns of an Avro data file, which a kernel decodes to Arrow arrays.

The blocks of the rows that are read are kept until the next rows are read. The first columns of these rows are decoded
while the blocks are walked. Other columns are then decoded for the wanted rows only, from the offsets that were found.

A schema that the kernel does not know, and bytes that are not its records, raise `NotDecodedError`: fastavro reads the
file then, and says what is wrong with it.

A null takes a byte in the file, and as much as any value in an array: as many rows are read at once as take some MiB
if all are null, and values that take more than a limit are refused.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._kernels.avro import rows as kernel
from puffin_fast.avro.blocks import Block, Bytes
from puffin_fast.errors import LimitExceededError

_MOST_FIXED = 1 << 12
"""Bytes of a fixed: a null, which takes a byte in the file, has as many in an array."""

DECODED_BYTES = 16 << 20
"""Bytes of blocks, and of the nulls of their rows, that are decoded at once, but `LEAST_ROWS` rows at least."""

LEAST_ROWS = 1 << 10
"""Number of rows with wide nulls that are decoded at once at least."""

LEAST_ALLOWED = 1 << 28
"""Bytes of values that are always allowed for rows that are decoded at once."""

_WIDTHS = {
    "int": (kernel.INT, 32),
    "long": (kernel.LONG, 64),
    "float": (kernel.FLOAT, 32),
    "double": (kernel.DOUBLE, 64),
}
"""Operation and bits of a value, by the type in the file."""


class NotDecodedError(ValueError):
    """The kernel does not decode a schema, or the bytes of a block."""


@dataclass
class _Node:
    """A type of the file.

    Attributes:
        at: its number in the program.
        type: the type of its arrays.
        inner: the fields of a record, the items of an array, or the keys and the values of a map.
        symbols: of an enum.
    """

    at: int
    type: pa.DataType
    inner: tuple[_Node, ...] = ()
    symbols: pa.Array | None = None


class _Program:
    """The words that describe the records of a schema to the kernel."""

    def __init__(self) -> None:
        self.words = array("q")

    def _begin(self, operation: int, size: int, null: int) -> int:
        self.words.extend((operation, size, null, 1))
        return len(self.words) // 4 - 1

    def _end(self, at: int) -> None:
        self.words[4 * at + 3] = len(self.words) // 4 - at

    def add(self, written: Any, kind: pa.DataType | None, null: int = -1) -> _Node:
        """Adds a type.

        Args:
            written: the type in the file's schema, without logical types except decimal.
            kind: the plain type of its arrays; None if it is only passed over.
            null: the branch of null of the union around it, -1 if there is none.

        Raises:
            NotDecodedError: the kernel does not know it.
        """
        if isinstance(written, list):
            if null >= 0 or len(written) != 2 or written.count("null") != 1:
                raise NotDecodedError(f"union {written}")
            null = written.index("null")
            return self.add(written[1 - null], kind, null)
        name = written["type"] if isinstance(written, dict) else written
        if isinstance(name, dict | list):
            return self.add(name, kind, null)
        if name == "record":
            return self._record(written, kind, null)
        if name == "array":
            return self._array(written, kind, null)
        if name == "map":
            at = self._begin(kernel.MAP, 0, null)
            _check(kind is None or pa.types.is_map(kind), written, kind)
            key = self.add("string", None if kind is None else kind.key_type)
            item = self.add(written["values"], None if kind is None else kind.item_type)
            self._end(at)
            return _Node(at, kind, (key, item))
        return self._leaf(written, name, kind, null)

    def _record(self, written: Any, kind: pa.DataType | None, null: int) -> _Node:
        at, fields = self._begin(kernel.RECORD, 0, null), written["fields"]
        _check(kind is None or (pa.types.is_struct(kind) and kind.num_fields == len(fields)), written, kind)
        inner = [
            self.add(field["type"], None if kind is None else kind.field(number).type)
            for number, field in enumerate(fields)
        ]
        self._end(at)
        return _Node(at, kind, tuple(inner))

    def _array(self, written: Any, kind: pa.DataType | None, null: int) -> _Node:
        at = self._begin(kernel.ARRAY, 0, null)
        items = kind
        if kind is not None and pa.types.is_map(kind):
            items = pa.struct([kind.key_field, kind.item_field])
        elif kind is not None:
            _check(pa.types.is_large_list(kind), written, kind)
            items = kind.value_type
        inner = self.add(written["items"], items)
        self._end(at)
        return _Node(at, kind, (inner,))

    def _leaf(self, written: Any, name: str, kind: pa.DataType | None, null: int) -> _Node:
        is_decimal = isinstance(written, dict) and written.get("logicalType") == "decimal"
        operation, size, symbols = kernel.NULL_, 0, None
        if name in _WIDTHS:
            operation, bits = _WIDTHS[name]
            _check(kind is None or _bits(kind) == bits, written, kind)
        elif name == "boolean":
            operation = kernel.BOOLEAN
            _check(kind is None or pa.types.is_boolean(kind), written, kind)
        elif name == "string":
            operation = kernel.STRING
            _check(kind is None or pa.types.is_large_string(kind), written, kind)
        elif name == "bytes" and is_decimal:
            operation = kernel.DECIMAL
            _check(kind is None or pa.types.is_decimal128(kind), written, kind)
        elif name == "bytes":
            operation = kernel.BYTES
            _check(kind is None or pa.types.is_large_binary(kind), written, kind)
        elif name == "fixed":
            size = written["size"]
            operation = kernel.FIXED_DECIMAL if is_decimal else kernel.FIXED
            same = kind is None or (
                pa.types.is_decimal128(kind)
                if is_decimal
                else pa.types.is_fixed_size_binary(kind) and kind.byte_width == size
            )
            _check(same and 0 < size <= _MOST_FIXED, written, kind)
        elif name == "enum":
            operation, symbols = kernel.ENUM, pa.array(written["symbols"], pa.large_string())
            size = len(symbols)
            _check(kind is None or pa.types.is_large_string(kind), written, kind)
        else:
            _check(name == "null" and null < 0 and (kind is None or pa.types.is_null(kind)), written, kind)
        return _Node(self._begin(operation, size, null), kind, symbols=symbols)


def _check(fits: bool, written: Any, kind: pa.DataType | None) -> None:
    if not fits:
        raise NotDecodedError(f"{written} as {kind}")


def _bits(kind: pa.DataType) -> int:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind)
    return int(kind.bit_width) if is_number else 0


class FieldDecoder:
    """Decodes some fields of records.

    Args:
        schema: the record of the file, without logical types except decimal.
        fields: the wanted fields, in plain types.

    Raises:
        NotDecodedError: the kernel does not know a type.
    """

    def __init__(self, schema: Any, fields: Sequence[pa.Field]) -> None:
        kinds, names = (
            {field.name: field.type for field in fields},
            [field["name"] for field in schema["fields"]],
        )
        if len(set(names)) < len(names):
            raise NotDecodedError(f"names {names}")
        program = _Program()
        root = program.add({**schema, "fields": []}, None)
        nodes = {
            field["name"]: program.add(field["type"], kinds.get(field["name"])) for field in schema["fields"]
        }
        program._end(root.at)
        wanted = bytearray(len(program.words) // 4)
        self._nodes = [nodes[field.name] for field in fields]
        for node in self._nodes:
            stop = node.at + program.words[4 * node.at + 3]
            wanted[node.at : stop] = b"\1" * (stop - node.at)
        self._names = [field.name for field in fields]
        self._kernel = kernel.RowDecoder(program.words, wanted)

    def scan(self, data: Bytes, starts: npt.NDArray[np.int64], most: int = 0) -> None:
        """Decodes the records of a block, and fills in their offsets; all values have at most `most` bytes."""
        self._kernel.scan(data, starts, most)

    def pick(self, data: Bytes, starts: npt.NDArray[np.int64], most: int) -> None:
        """Decodes some records of a block, by their offsets; all values have at most `most` bytes."""
        self._kernel.pick(data, starts, most)

    def arrays(self) -> dict[str, pa.Array]:
        """The values that were decoded since the last call, by name.

        Raises:
            pa.ArrowInvalid: a decimal has more digits than its type.
        """
        return {name: self._array(node) for name, node in zip(self._names, self._nodes, strict=True)}

    def _array(self, node: _Node) -> pa.Array:
        n, valid, values, ends = self._kernel.values(node.at)
        kind, inner = node.type, [self._array(child) for child in node.inner]
        bits = None if valid is None else _packed(valid)
        if pa.types.is_null(kind):
            return pa.nulls(n)
        if pa.types.is_struct(kind):
            return pa.Array.from_buffers(kind, n, [bits], children=inner)
        if pa.types.is_map(kind):
            if len(inner) == 2:
                inner = [
                    pa.Array.from_buffers(
                        pa.struct([kind.key_field, kind.item_field]), len(inner[0]), [None], children=inner
                    )
                ]
            offsets = pa.py_buffer(_offsets(ends, np.int32))
            return pa.Array.from_buffers(kind, n, [bits, offsets], children=inner)
        if pa.types.is_large_list(kind):
            return pa.Array.from_buffers(kind, n, [bits, pa.py_buffer(ends)], children=inner)
        if node.symbols is not None:
            numbers = pa.Array.from_buffers(pa.int32(), n, [bits, pa.py_buffer(values)])
            return pc.take(node.symbols, numbers)
        if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
            return pa.Array.from_buffers(kind, n, [bits, pa.py_buffer(ends), pa.py_buffer(values)])
        if pa.types.is_boolean(kind):
            return pa.Array.from_buffers(kind, n, [bits, _packed(values)])
        array = pa.Array.from_buffers(kind, n, [bits, pa.py_buffer(values)])
        if pa.types.is_decimal(kind):
            array.validate(full=True)
        return array


def null_bytes(kind: pa.DataType) -> int:
    """Returns the bytes that a null takes in an array of a plain type."""
    if pa.types.is_struct(kind):
        return 1 + sum(null_bytes(field.type) for field in kind)
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
        return 1 + int(kind.byte_width)
    return 9


def value_bytes(value: Any, kind: pa.DataType) -> int:
    """Returns about the bytes that nulls inside a value of fastavro take in an array of a plain type."""
    if value is None or not pa.types.is_nested(kind):
        return null_bytes(kind)
    if pa.types.is_struct(kind):
        return 1 + sum(value_bytes(value[field.name], field.type) for field in kind)
    if pa.types.is_map(kind):
        items = value.values() if isinstance(value, dict) else (pair["value"] for pair in value)
        return 9 + sum(value_bytes(item, kind.item_type) for item in items)
    return 9 + sum(value_bytes(item, kind.value_type) for item in value)


def rows_at_once(kinds: Iterable[pa.DataType], n_rows: int) -> int:
    """Returns how many of some rows are decoded at once, so that their nulls take `DECODED_BYTES`."""
    width = sum(map(null_bytes, kinds))
    return min(n_rows, max(DECODED_BYTES // max(width, 1), LEAST_ROWS))


def too_wide(path: str, n_rows: int, most: int) -> LimitExceededError:
    """Makes the error for values of rows that take more bytes than allowed."""
    return LimitExceededError(
        f"{path}: values of {n_rows} rows that take more than {most} bytes, the limit for the decompressed bytes of "
        "their Avro blocks"
    )


def _packed(flags: bytes) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.frombuffer(flags, np.uint8), bitorder="little"))


def _offsets(ends: bytes, kind: type[np.int32]) -> npt.NDArray[np.int32]:
    found = np.frombuffer(ends, np.int64)
    if found[-1] > np.iinfo(kind).max:
        raise NotDecodedError(f"{found[-1]} entries of maps")
    return found.astype(kind)


@dataclass
class HeldRows:
    """A block in memory: its first row, number of rows, bytes, and the offset of each record, if they are known."""

    first: int
    n_rows: int
    data: Bytes
    starts: npt.NDArray[np.int64] | None = None


class SharedBlocks:
    """The blocks of the rows that are read, for all columns of one read of a file.

    Args:
        blocks: the blocks of the file.
    """

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks, self._held, self._forgotten, self.n_rows = blocks, list[HeldRows](), 0, 0

    def of(self, first: int, n_rows: int, most: int | None = None) -> list[HeldRows]:
        """Returns the blocks of some rows. Those before them are forgotten.

        Args:
            first, n_rows: the rows.
            most: number of bytes of blocks after which no other is read; None: all blocks of the rows are.

        Raises:
            NotDecodedError: the rows are forgotten.
        """
        if first < self._forgotten:
            raise NotDecodedError(f"row {first} of a file whose first {self._forgotten} rows were left")
        self._forgotten = first
        self._held = [rows for rows in self._held if rows.first + rows.n_rows > first]
        n_bytes = sum(len(rows.data) for rows in self._held)
        while self.n_rows < first + n_rows and (most is None or n_bytes < most):
            block = next(self._blocks, None)
            if block is None:
                break
            rows = HeldRows(self.n_rows, block.n_records, block.data)
            self.n_rows += block.n_records
            if self.n_rows > first:
                self._held.append(rows)
                n_bytes += len(block.data)
        return [rows for rows in self._held if rows.first < first + n_rows]

    def rows_at_once(self, first: int, n_rows: int) -> int:
        """Returns how many of some rows are in blocks of about `DECODED_BYTES`."""
        if first < self._forgotten:
            return n_rows
        found = self.of(first, n_rows, DECODED_BYTES)
        return min(n_rows, found[-1].first + found[-1].n_rows - first) if found else n_rows

    @property
    def is_new(self) -> bool:
        """Whether no row was read."""
        return self.n_rows == 0

    def count_all(self) -> int:
        """Passes over all blocks that are left; returns the number of rows of the file."""
        for block in self._blocks:
            self.n_rows += block.n_records
        return self.n_rows
