"""Reads lines of JSON as Arrow columns: integers and texts by a kernel, everything else with PyArrow.

The kernel accepts what writers of Delta tables usually write, and checks each line. All other lines, and types of
columns, are left to PyArrow, which has the same result and the messages about damage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json as pj

from puffin_fast._kernels.json import rows as kernel

_CHUNK_ROWS = 1 << 16
"""Rows that are read at a time."""
_LEAST_ROW = 3
"""Bytes of the shortest line."""
_NULL_FIRST = re.compile(rb"\A(\xef\xbb\xbf)?[ \t\r\n]*null")
"""Matches lines whose first value is null. It is replaced by an empty object, as which PyArrow reads a later null."""
_LEAST_BLOCK, _MOST_BLOCK = 1 << 20, (1 << 31) - 1
_KINDS = {pa.int64(): kernel.INTEGER, pa.int32(): kernel.INTEGER, pa.string(): kernel.TEXT}


def read_rows(data: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """Reads a row for each line that is not blank; fields that the schema does not have are ignored.

    Args:
        data: lines of JSON objects; each ends with a line feed.
        schema: the schema of the columns.

    Raises:
        pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError: a line is not a JSON object, or a value does not fit its
            column.
    """
    if not data.size:
        return schema.empty_table()
    columns = KernelColumns.of(schema)
    found = None if columns is None else columns.read(data)
    return read_any(data, schema) if found is None else found


def read_any(data: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """Reads the rows with PyArrow; as `read_rows`, but a line may be null: a row of nulls."""
    if _NULL_FIRST.match(data):
        data = pa.py_buffer(_NULL_FIRST.sub(b"{}", data.to_pybytes()))
    block = min(max(_LEAST_BLOCK, data.size), _MOST_BLOCK)  # one block makes one chunk
    while True:
        try:
            return pj.read_json(
                pa.BufferReader(data),
                read_options=pj.ReadOptions(use_threads=False, block_size=block),
                parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
        except pa.ArrowInvalid as error:
            if "straddl" not in str(error) or block > data.size:
                raise
            block = min(8 * block, _MOST_BLOCK)  # a line is longer than a block


@dataclass(frozen=True)
class KernelColumns:
    """The columns of a schema as nodes of the kernel.

    Attributes:
        schema: the columns.
        types: the types of each node.
        nodes: as the kernel takes them, int32 of shape (nodes, 6).
        names: the names of all nodes.
    """

    schema: pa.Schema
    types: list[pa.DataType] = field(default_factory=list)
    nodes: list[list[int]] = field(default_factory=list)
    names: bytearray = field(default_factory=bytearray)

    @classmethod
    def of(cls, schema: pa.Schema) -> KernelColumns | None:
        """Returns None if there is a column that the kernel does not read."""
        tree = cls(schema)
        tree._add(pa.struct(list(schema)), "")
        at = 0
        while at < len(tree.nodes):  # children are consecutive, so breadth first
            kind = tree.types[at]
            if pa.types.is_struct(kind):
                tree.nodes[at][1:3] = len(tree.nodes), kind.num_fields
                for child in kind:
                    tree._add(child.type, child.name)
            elif kind not in _KINDS:
                return None
            at += 1
        return tree

    def _add(self, kind: pa.DataType, name: str) -> None:
        encoded = name.encode()
        node_kind = _KINDS.get(kind, kernel.OBJECT)
        column = 0 if node_kind == kernel.OBJECT else sum(node[0] == node_kind for node in self.nodes)
        self.types.append(kind)
        self.nodes.append([node_kind, 0, 0, len(self.names), len(encoded), column])
        self.names.extend(encoded)

    def read(self, data: pa.Buffer) -> pa.Table | None:
        """Returns the rows; None if they are left to PyArrow."""
        if data.size > kernel.SIZE_BITS:
            return None
        nodes = np.array(self.nodes, np.int32)
        batches, at = [], 0
        while at < data.size:
            chunk = _Chunk(self, data, at, min(_CHUNK_ROWS, -(-(data.size - at) // _LEAST_ROW)))
            end = chunk.read(nodes)
            if end is None:
                return None
            arrays = chunk.children(0)
            if arrays is None:
                return None
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
            at = end
        return pa.Table.from_batches(batches, self.schema)


class _Chunk:
    """The values of consecutive lines.

    Args:
        tree: the columns.
        data, start: the lines, and where the first one begins.
        capacity: the maximum number of rows.
    """

    def __init__(self, tree: KernelColumns, data: pa.Buffer, start: int, capacity: int) -> None:
        self._tree, self._data, self._start, self._n = tree, data, start, capacity
        kinds = [node[0] for node in tree.nodes]
        n_texts = kinds.count(kernel.TEXT)
        self._valid = np.zeros((len(kinds), capacity), np.uint8)
        self._integers = np.zeros((kinds.count(kernel.INTEGER), capacity), np.int64)
        self._starts, self._sizes = np.zeros((2, n_texts, capacity), np.uint32)

    def read(self, nodes: npt.NDArray[np.int32]) -> int | None:
        """Reads the values; returns where the next chunk begins, or None if lines are left to PyArrow."""
        values = self._valid, self._integers, self._starts, self._sizes
        found = kernel.rows_into(self._data, self._start, self._n, nodes, self._tree.names, *values)
        if found is None:
            return None
        self._n, end = found
        return end

    def children(self, number: int) -> list[pa.Array] | None:
        """Returns the columns of an object; None if a value does not fit its type."""
        first, n_children = self._tree.nodes[number][1:3]
        found = [self._array(child) for child in range(first, first + n_children)]
        return None if any(array is None for array in found) else found

    def _array(self, number: int) -> pa.Array | None:
        kind, column = self._tree.types[number], self._tree.nodes[number][5]
        valid = self._valid[number, : self._n]
        n_valid = int(np.count_nonzero(valid))
        if n_valid == 0:
            return pa.nulls(self._n, kind)
        validity = None if n_valid == self._n else pa.py_buffer(np.packbits(valid, bitorder="little"))
        if pa.types.is_struct(kind):
            children = self.children(number)
            return None if children is None else _struct(kind, self._n, validity, children)
        if pa.types.is_integer(kind):
            values = self._integers[column, : self._n]
            narrow = values.astype(kind.to_pandas_dtype())
            if narrow.dtype != values.dtype and not np.array_equal(narrow, values):
                return None
            return pa.Array.from_buffers(kind, self._n, [validity, pa.py_buffer(narrow)])
        starts, sizes = self._starts[column, : self._n], self._sizes[column, : self._n]
        most = int(np.bitwise_and(sizes, kernel.SIZE_BITS).sum(dtype=np.int64))
        offsets, out = pa.allocate_buffer(4 * (self._n + 1)), pa.allocate_buffer(most, resizable=True)
        used = kernel.copy_texts(self._data, self._start, starts, sizes, self._n, offsets, out)
        out.resize(used, shrink_to_fit=2 * used < most)
        return pa.Array.from_buffers(kind, self._n, [validity, offsets, out])


def _struct(kind: pa.DataType, n: int, validity: Any, children: Sequence[pa.Array]) -> pa.Array:
    return pa.Array.from_buffers(kind, n, [validity], children=list(children))
