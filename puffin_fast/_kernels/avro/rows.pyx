"""Rows of Avro blocks, decoded to the buffers of Arrow arrays.

A program describes the values of a record in their order, a node of four int64 words for each type:

    operation | size of a fixed, number of symbols of an enum | branch of null of a union, -1: no union | number of nodes

The last word counts the node and those inside it, which follow: the fields of a record, the items of an array, the values
of a map (whose keys are strings). The program of a file is the node of its record.

Source: Avro specification, "Binary Encoding".
"""

from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from puffin_fast._kernels.avro.reading cimport Reader, is_utf8, pass_over, take_count, take_long
from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "Python.h":
    object PyBytes_FromStringAndSize(const char* data, Py_ssize_t size)

cdef enum Operation:
    OP_NULL = 0
    OP_BOOLEAN = 1
    OP_INT = 2
    OP_LONG = 3
    OP_FLOAT = 4
    OP_DOUBLE = 5
    OP_BYTES = 6
    OP_STRING = 7
    OP_FIXED = 8
    OP_ENUM = 9
    OP_DECIMAL = 10         # bytes, a big-endian integer
    OP_FIXED_DECIMAL = 11
    OP_RECORD = 12
    OP_ARRAY = 13
    OP_MAP = 14

cdef enum:
    WORDS = 4               # of a node of a program
    MAX_DEPTH = 64
    DECIMAL_BYTES = 16
    BAD = -1                # bytes that are no record of the program
    NO_MEMORY = -2
    OVER_LIMIT = -3

NULL_, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING, FIXED, ENUM, DECIMAL, FIXED_DECIMAL, RECORD, ARRAY, MAP = range(15)


cdef struct Grown:
    uint8_t* data
    size_t size
    size_t capacity
    size_t* left            # bytes that may still be added to all values together

cdef struct Node:
    int64_t operation
    int64_t size
    int64_t null_branch
    size_t n_nodes
    bint is_wanted
    size_t count            # of values, nulls included
    size_t n_nulls
    Grown valid             # a byte for each value
    Grown values            # of fixed width, or the bytes of strings
    Grown ends              # of strings, arrays and maps, after each value


cdef int reserve(Grown* into, size_t n) noexcept nogil:
    """Makes room for n bytes, which are then added; for none, too, there is memory to point to."""
    cdef uint8_t* grown
    cdef size_t capacity
    if n > into.left[0]:
        return OVER_LIMIT
    if into.data != NULL and n <= into.capacity - into.size:
        into.left[0] -= n
        return 0
    capacity = max(2 * into.capacity, into.size + n, <size_t>256)
    grown = <uint8_t*>realloc(into.data, capacity)
    if grown == NULL:
        return NO_MEMORY
    into.data, into.capacity = grown, capacity
    into.left[0] -= n
    return 0


cdef inline int put(Grown* into, const void* data, size_t n) noexcept nogil:
    cdef int status = reserve(into, n)
    if status:
        return status
    memcpy(into.data + into.size, data, n)
    into.size += n
    return 0


cdef inline int put_zeros(Grown* into, size_t n) noexcept nogil:
    cdef int status = reserve(into, n)
    if status:
        return status
    memset(into.data + into.size, 0, n)
    into.size += n
    return 0


cdef inline int put_valid(Node* node, uint8_t valid) noexcept nogil:
    node.count += 1
    node.n_nulls += not valid
    return put(&node.valid, &valid, 1)


cdef inline size_t width_of(const Node* node) noexcept nogil:
    """Bytes of a value of fixed width; 0 for others."""
    if node.operation == OP_BOOLEAN:
        return 1
    if node.operation in (OP_INT, OP_FLOAT, OP_ENUM):
        return 4
    if node.operation in (OP_LONG, OP_DOUBLE):
        return 8
    if node.operation in (OP_DECIMAL, OP_FIXED_DECIMAL):
        return DECIMAL_BYTES
    return <size_t>node.size if node.operation == OP_FIXED else 0


cdef int put_null(Node* node) noexcept nogil:
    """A null value; the fields of a record are null in it, too."""
    cdef size_t at = 1
    cdef int64_t end
    cdef int status = put_valid(node, 0)
    if status:
        return status
    if node.operation == OP_RECORD:
        while at < node.n_nodes:
            status = put_null(node + at)
            if status:
                return status
            at += node[at].n_nodes
        return 0
    if node.operation in (OP_BYTES, OP_STRING):
        end = <int64_t>node.values.size
        return put(&node.ends, &end, 8)
    if node.operation in (OP_ARRAY, OP_MAP):
        end = <int64_t>node[1].count
        return put(&node.ends, &end, 8)
    return put_zeros(&node.values, width_of(node))


cdef int put_decimal(Node* node, const uint8_t* data, int64_t n) noexcept nogil:
    """A big-endian integer of n bytes, as a little-endian one of 16."""
    cdef uint8_t value[DECIMAL_BYTES]
    cdef int64_t i
    if n > DECIMAL_BYTES:
        return BAD
    memset(value, 0xFF if n and data[0] & 0x80 else 0, DECIMAL_BYTES)
    for i in range(n):
        value[i] = data[n - 1 - i]
    return put(&node.values, value, DECIMAL_BYTES)


cdef int take_items(Node* node, Reader* reader, int depth) noexcept nogil:
    """The items of an array, or the keys and values of a map; those of nodes that are not wanted are passed over."""
    cdef int64_t count, end, n_bytes
    cdef int status
    while True:
        if not take_count(reader, &count):
            return BAD
        if count == 0:
            break
        while count > 0:
            if node.operation == OP_MAP:
                status = take(node + 1, reader, depth + 1)
                if status == 0:
                    status = take(node + 2, reader, depth + 1)
            else:
                status = take(node + 1, reader, depth + 1)
            if status:
                return status
            count -= 1
    if not node.is_wanted:
        return 0
    end = <int64_t>node[1].count
    return put(&node.ends, &end, 8)


cdef int take(Node* node, Reader* reader, int depth) noexcept nogil:
    """Reads a value, and keeps it if it is wanted."""
    cdef int64_t value, end
    cdef int32_t small
    cdef size_t at = 1
    cdef int status
    if depth > MAX_DEPTH:
        return BAD
    if node.null_branch >= 0:
        if not take_long(reader, &value) or value < 0 or value > 1:
            return BAD
        if value == node.null_branch:
            return put_null(node) if node.is_wanted else 0
    if node.is_wanted:
        status = put_valid(node, node.operation != OP_NULL)
        if status:
            return status
    if node.operation == OP_LONG:
        if not take_long(reader, &value):
            return BAD
        return put(&node.values, &value, 8) if node.is_wanted else 0
    if node.operation in (OP_INT, OP_ENUM):
        if not take_long(reader, &value) or value < INT32_MIN or value > INT32_MAX:
            return BAD
        if node.operation == OP_ENUM and not 0 <= value < node.size:
            return BAD
        small = <int32_t>value
        return put(&node.values, &small, 4) if node.is_wanted else 0
    if node.operation in (OP_BYTES, OP_STRING, OP_DECIMAL):
        if not take_long(reader, &value) or not pass_over(reader, value):
            return BAD
        if not node.is_wanted:
            return 0
        if node.operation == OP_DECIMAL:
            return put_decimal(node, reader.at - value, value)
        if node.operation == OP_STRING and not is_utf8(reader.at - value, reader.at):
            return BAD
        status = put(&node.values, reader.at - value, <size_t>value)
        if status:
            return status
        end = <int64_t>node.values.size
        return put(&node.ends, &end, 8)
    if node.operation == OP_RECORD:
        while at < node.n_nodes:
            status = take(node + at, reader, depth + 1)
            if status:
                return status
            at += node[at].n_nodes
        return 0
    if node.operation in (OP_ARRAY, OP_MAP):
        return take_items(node, reader, depth)
    if node.operation == OP_NULL:
        return 0
    value = node.size if node.operation == OP_FIXED_DECIMAL else <int64_t>width_of(node)
    if not pass_over(reader, value):
        return BAD
    if node.operation == OP_BOOLEAN and (reader.at - 1)[0] > 1:
        return BAD
    if not node.is_wanted:
        return 0
    if node.operation == OP_FIXED_DECIMAL:
        return put_decimal(node, reader.at - value, value)
    return put(&node.values, reader.at - value, <size_t>value)


cdef bint is_program(const int64_t* words, size_t n_nodes, int depth) noexcept nogil:
    """Whether a node and those inside it are as the operations demand."""
    cdef int64_t operation = words[0]
    cdef size_t at = 1, n_inner = 0
    if depth > MAX_DEPTH or not OP_NULL <= operation <= OP_MAP or words[1] < 0 or not -1 <= words[2] <= 1:
        return False
    if words[3] < 1 or <size_t>words[3] != n_nodes:
        return False
    while at < n_nodes:
        if words[WORDS * at + 3] < 1 or <size_t>words[WORDS * at + 3] > n_nodes - at:
            return False
        if not is_program(words + WORDS * at, <size_t>words[WORDS * at + 3], depth + 1):
            return False
        n_inner += 1
        at += <size_t>words[WORDS * at + 3]
    if operation == OP_RECORD:
        return True
    if operation == OP_MAP:
        return n_inner == 2 and words[WORDS] == OP_STRING and words[WORDS + 2] == -1
    return n_inner == (operation == OP_ARRAY)


cdef class RowDecoder:
    """Decodes fields of the records of blocks. Values are kept until they are taken by `values`.

    Args:
        program: int64 words, as above.
        wanted: for each node a byte, not 0 if its values are kept; all nodes inside such a node are.
    """

    cdef Node* _nodes
    cdef size_t _n_nodes
    cdef size_t _held, _left    # bytes of the values that are kept, and that may be added

    def __cinit__(self, program, wanted):
        cdef Buffer words = buffer_of(program), flags = buffer_of(wanted)
        cdef const int64_t* first = <const int64_t*>words.data
        cdef size_t i
        self._n_nodes = words.size // (8 * WORDS)
        if self._n_nodes == 0 or flags.size != self._n_nodes or not is_program(first, self._n_nodes, 0):
            raise ValueError("the words are no program")
        self._nodes = <Node*>calloc(self._n_nodes, sizeof(Node))
        if self._nodes == NULL:
            raise MemoryError()
        for i in range(self._n_nodes):
            self._nodes[i].operation, self._nodes[i].size = first[WORDS * i], first[WORDS * i + 1]
            self._nodes[i].null_branch, self._nodes[i].n_nodes = first[WORDS * i + 2], <size_t>first[WORDS * i + 3]
            self._nodes[i].is_wanted = flags.data[i] != 0
            self._nodes[i].valid.left = self._nodes[i].values.left = self._nodes[i].ends.left = &self._left
        if self._nodes[0].operation != OP_RECORD or self._nodes[0].null_branch >= 0 or self._nodes[0].is_wanted:
            raise ValueError("expected the program of a record")
        if not self.are_whole():
            raise ValueError("a part of a wanted node is not wanted")

    cdef bint are_whole(self):
        cdef size_t i, k
        for i in range(self._n_nodes):
            if self._nodes[i].is_wanted:
                for k in range(i, i + self._nodes[i].n_nodes):
                    if not self._nodes[k].is_wanted:
                        return False
        return True

    def __dealloc__(self):
        cdef size_t i
        if self._nodes != NULL:
            for i in range(self._n_nodes):
                free(self._nodes[i].valid.data)
                free(self._nodes[i].values.data)
                free(self._nodes[i].ends.data)
            free(self._nodes)

    def scan(self, data, starts, size_t most):
        """Decodes all records of a block.

        Args:
            data: the bytes of the block, which must be exactly its records.
            starts: is filled with the offset of each record, as int64; its length is their number.
            most: the maximum number of bytes of all values that are kept.

        Raises:
            ValueError: the bytes are not such records.
            OverflowError: the values have more bytes.
        """
        cdef Buffer block = buffer_of(data), into = writable(starts)
        cdef int64_t* offsets = <int64_t*>into.data
        cdef size_t n = into.size // 8, i = 0
        cdef Reader reader
        cdef int status = 0
        reader.at, reader.stop = block.data, block.data + block.size
        self.allow(most)
        with nogil:
            while i < n and status == 0:
                offsets[i] = reader.at - block.data
                status = take(self._nodes, &reader, 0)
                i += 1
        self.check(BAD if status == 0 and reader.at != reader.stop else status)

    def pick(self, data, starts, size_t most):
        """Decodes some records of a block.

        Args:
            data: the bytes of the block.
            starts: the offsets of the records, by `scan`.
            most: the maximum number of bytes of all values that are kept.

        Raises:
            ValueError: the bytes are not such records.
            OverflowError: the values have more bytes.
        """
        cdef Buffer block = buffer_of(data), given = buffer_of(starts)
        cdef const int64_t* offsets = <const int64_t*>given.data
        cdef size_t n = given.size // 8, i = 0
        cdef Reader reader
        cdef int status = 0
        reader.stop = block.data + block.size
        self.allow(most)
        with nogil:
            while i < n and status == 0:
                if 0 <= offsets[i] <= <int64_t>block.size:
                    reader.at = block.data + offsets[i]
                    status = take(self._nodes, &reader, 0)
                else:
                    status = BAD
                i += 1
        self.check(status)

    cdef void allow(self, size_t most):
        """Sets the bytes that may be added; `check` counts those that were."""
        self._left = max(most, self._held) - self._held
        self._held += self._left

    cdef int check(self, int status) except -1:
        self._held -= self._left
        if status == NO_MEMORY:
            raise MemoryError()
        if status == OVER_LIMIT:
            raise OverflowError("the values of the records have more bytes than allowed")
        if status:
            raise ValueError("the bytes are no records of the program")
        return 0

    def values(self, size_t node):
        """Takes the values of a wanted node.

        Args:
            node: its number in the program.

        Returns:
            their number; a byte for each, 0 for null, or None if none is null; the bytes of the values; the end of each
            string, array or map, as int64 after a 0.
        """
        cdef Node* found
        cdef int64_t zero = 0
        if node >= self._n_nodes or not self._nodes[node].is_wanted:
            raise ValueError(f"node {node} is not wanted")
        found = self._nodes + node
        valid = taken(&found.valid) if found.n_nulls else None
        count, values, ends = found.count, taken(&found.values), (<char*>&zero)[:8] + taken(&found.ends)
        self._held -= bytes_of(found)
        found.count = found.n_nulls = found.valid.size = found.values.size = found.ends.size = 0
        return count, valid, values, ends


cdef inline size_t bytes_of(const Node* node) noexcept nogil:
    """The bytes of the values of a node."""
    return node.valid.size + node.values.size + node.ends.size


cdef bytes taken(Grown* found):
    return PyBytes_FromStringAndSize(<const char*>found.data, <Py_ssize_t>found.size)  # of no bytes the pointer is not read
