"""Decompresses raw deflate data (RFC 1951) that is in memory as a whole, into memory that is used again.

A code is looked up by its bits, the first one lowest, in a table for the shortest codes; longer ones continue in a table of
their own. An entry of a table is a word:

    bits 0 to 7    number of bits of the whole code, 0: there is no such code; for `MORE`, of the index in the next table
    bits 8 to 11   number of extra bits that follow the code
    bits 12 to 14  `MORE`: a table follows; `LITERAL`: a byte; `END`: of the block
    bits 16 to 31  the byte, the base of a length or distance, or where the next table begins
"""

import zlib

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from puffin_fast._kernels.bytes cimport load64
from puffin_fast._kernels.views cimport Buffer, buffer_of

cdef extern from *:
    int __builtin_clz(uint32_t word) noexcept nogil

cdef enum:
    MOST_BITS = 15              # of a code
    LENGTH_BITS = 11            # of the first table of literals and lengths
    DISTANCE_BITS = 8           # of the first table of distances
    HEAD_BITS = 7               # of the codes of code lengths, all in one table
    # Each further table has two codes or more, of the same number of bits: the rest of the longest code.
    LENGTH_WORDS = 2048 + 144 * 16
    DISTANCE_WORDS = 256 + 16 * 128
    N_LENGTHS = 288             # literals, the end of the block, and lengths; two of them do not occur
    N_DISTANCES = 32            # two of them do not occur
    END_OF_BLOCK = 256
    MOST_LENGTHS = 286          # in the head of a block
    MOST_DISTANCES = 30
    LONGEST = 258               # bytes of a copy
    SLACK = 32                  # bytes after the output that may be written
    FEWEST_BYTES = 1 << 16      # of the output at first

cdef enum Flag:
    MORE = 1 << 12
    LITERAL = 1 << 13
    END = 1 << 14

cdef enum:
    GOES_ON = -1                # beside the states

cdef uint16_t[31] LENGTH_BASES
cdef uint8_t[31] LENGTH_EXTRA
cdef uint16_t[32] DISTANCE_BASES
cdef uint8_t[32] DISTANCE_EXTRA
cdef uint8_t[19] HEAD_ORDER
LENGTH_BASES[:] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258, 0, 0
]
LENGTH_EXTRA[:] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0, 0, 0]
DISTANCE_BASES[:] = [
    1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193,
    12289, 16385, 24577, 0, 0
]
DISTANCE_EXTRA[:] = [
    0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 0, 0
]
HEAD_ORDER[:] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]

cdef enum State:
    COMPLETE = 0
    OVER_SPACE = 1              # there are more bytes than the output has
    TRUNCATED = 2
    WRONG = 3

cdef enum What:
    LENGTHS = 0
    DISTANCES = 1
    HEAD = 2


cdef struct Tables:
    uint32_t[LENGTH_WORDS] of_lengths
    uint32_t[DISTANCE_WORDS] of_distances
    bint are_fixed              # they are those of the codes that the format defines


cdef struct Bits:
    const uint8_t* at
    const uint8_t* stop
    uint64_t word               # the next bits, the first one lowest
    uint32_t n                  # number of bits in `word` that count


cdef inline uint32_t entry_of(What what, uint32_t symbol) noexcept nogil:
    """An entry of a table without the number of bits of the code; 0 for symbols that do not occur."""
    if what == HEAD:
        return LITERAL | symbol << 16
    if what == DISTANCES:
        if symbol >= MOST_DISTANCES:
            return 0
        return <uint32_t>DISTANCE_BASES[symbol] << 16 | <uint32_t>DISTANCE_EXTRA[symbol] << 8
    if symbol < END_OF_BLOCK:
        return LITERAL | symbol << 16
    if symbol == END_OF_BLOCK:
        return END
    if symbol >= MOST_LENGTHS:
        return 0
    return <uint32_t>LENGTH_BASES[symbol - 257] << 16 | <uint32_t>LENGTH_EXTRA[symbol - 257] << 8


cdef bint make_table(What what, const uint8_t* sizes, uint32_t n, uint32_t* table, uint32_t n_bits) noexcept nogil:
    """Makes the table of a code; False if it has no code, or bits that are none.

    As in zlib, a code of lengths or distances may have a single code, of one bit, and that of distances none.
    """
    cdef uint32_t[MOST_BITS + 1] count
    cdef uint32_t[MOST_BITS + 2] begin
    cdef uint16_t[N_LENGTHS] ordered
    cdef uint32_t i, size, code = 0, bit, longest = 0, entry, prefix = 0xFFFFFFFFU, n_more = 0, next_table, at, step
    cdef int left = 1
    memset(count, 0, sizeof(count))
    for i in range(n):
        count[sizes[i]] += 1
    count[0] = 0
    begin[1] = 0
    for size in range(1, MOST_BITS + 1):
        begin[size + 1] = begin[size] + count[size]
        left = 2 * left - <int>count[size]
        if left < 0:
            return False
        if count[size]:
            longest = size
    if left > 0 and (what == HEAD or longest > 1 or (longest == 0 and what == LENGTHS)):
        return False
    for i in range(n):
        if sizes[i]:
            ordered[begin[sizes[i]]] = <uint16_t>i
            begin[sizes[i]] += 1
    table[0] = table[1] = 0
    next_table = 1U << n_bits
    i = 0
    for size in range(1, longest + 1):
        if 1 < size <= n_bits:          # the same codes, followed by 0 or 1
            memcpy(table + (1U << (size - 1)), table, (1U << (size - 1)) * sizeof(uint32_t))
        n_more = count[size]
        while n_more:
            n_more -= 1
            entry = entry_of(what, ordered[i])
            i += 1
            if size <= n_bits:
                table[code] = entry | size if entry else 0
            else:
                if code & ((1U << n_bits) - 1) != prefix:
                    prefix = code & ((1U << n_bits) - 1)
                    table[prefix] = MORE | next_table << 16 | (longest - n_bits)
                    memset(table + next_table, 0, (1U << (longest - n_bits)) * sizeof(uint32_t))
                    next_table += 1U << (longest - n_bits)
                at = next_table - (1U << (longest - n_bits)) + (code >> n_bits)
                step = 1U << (size - n_bits)
                while at < next_table:
                    table[at] = entry | size if entry else 0
                    at += step
            # the next code: bits are counted from the last one on, which is the highest one here
            bit = code ^ ((1U << size) - 1)
            if bit == 0:
                break                   # that was the last one
            bit = 1U << (31 - __builtin_clz(bit))
            code = (code & (bit - 1)) | bit
    size = longest if longest > 1 else 1
    while size < n_bits:
        memcpy(table + (1U << size), table, (1U << size) * sizeof(uint32_t))
        size += 1
    return True


cdef inline void fill(Bits* bits) noexcept nogil:
    """Takes at least 56 bits, or all that are left."""
    if bits.stop - bits.at >= 8:
        bits.word |= load64(bits.at) << bits.n
        bits.at += (63 - bits.n) >> 3
        bits.n |= 56
        return
    while bits.n <= 56 and bits.at != bits.stop:
        bits.word |= <uint64_t>bits.at[0] << bits.n
        bits.at += 1
        bits.n += 8


cdef inline uint32_t take(Bits* bits, uint32_t n) noexcept nogil:
    cdef uint32_t found = <uint32_t>(bits.word & ((<uint64_t>1 << n) - 1))
    bits.word >>= n
    bits.n -= n
    return found


cdef int read_codes(Bits* bits, Tables* tables) noexcept nogil:
    """Reads the head of a block with codes of its own."""
    cdef uint8_t[MOST_LENGTHS + MOST_DISTANCES] sizes
    cdef uint8_t[19] of_head
    cdef uint32_t[1 << HEAD_BITS] table
    cdef uint32_t n_lengths, n_distances, n_head, i, entry, symbol, n, value
    tables.are_fixed = False
    fill(bits)
    if bits.n < 14:
        return TRUNCATED
    n_lengths, n_distances, n_head = take(bits, 5) + 257, take(bits, 5) + 1, take(bits, 4) + 4
    if n_lengths > MOST_LENGTHS or n_distances > MOST_DISTANCES:
        return WRONG
    memset(of_head, 0, sizeof(of_head))
    for i in range(n_head):
        if bits.n < 3:
            fill(bits)
            if bits.n < 3:
                return TRUNCATED
        of_head[HEAD_ORDER[i]] = <uint8_t>take(bits, 3)
    if not make_table(HEAD, of_head, 19, table, HEAD_BITS):
        return WRONG
    i = 0
    while i < n_lengths + n_distances:
        fill(bits)
        entry = table[bits.word & ((1 << HEAD_BITS) - 1)]
        if (entry & 0xFF) == 0:
            return WRONG
        symbol = entry >> 16 & 0xFF
        value = 2 if symbol == 16 else 3 if symbol == 17 else 7 if symbol == 18 else 0
        if bits.n < (entry & 0xFF) + value:
            return TRUNCATED
        take(bits, entry & 0xFF)
        if symbol < 16:
            sizes[i] = <uint8_t>symbol
            i += 1
            continue
        n = take(bits, value) + (11 if symbol == 18 else 3)
        if n > n_lengths + n_distances - i or (symbol == 16 and i == 0):
            return WRONG
        memset(sizes + i, sizes[i - 1] if symbol == 16 else 0, n)
        i += n
    if sizes[END_OF_BLOCK] == 0:
        return WRONG
    if not make_table(LENGTHS, sizes, n_lengths, tables.of_lengths, LENGTH_BITS):
        return WRONG
    if not make_table(DISTANCES, sizes + n_lengths, n_distances, tables.of_distances, DISTANCE_BITS):
        return WRONG
    return COMPLETE


cdef void set_fixed_codes(Tables* tables) noexcept nogil:
    cdef uint8_t[N_LENGTHS] sizes
    if tables.are_fixed:
        return
    memset(sizes, 8, 144)
    memset(sizes + 144, 9, 112)
    memset(sizes + 256, 7, 24)
    memset(sizes + 280, 8, 8)
    make_table(LENGTHS, sizes, N_LENGTHS, tables.of_lengths, LENGTH_BITS)
    memset(sizes, 5, N_DISTANCES)
    make_table(DISTANCES, sizes, N_DISTANCES, tables.of_distances, DISTANCE_BITS)
    tables.are_fixed = True


cdef inline void copy_before(uint8_t* out, size_t distance, size_t n) noexcept nogil:
    """Copies bytes from before `out`; may write `SLACK` bytes more."""
    cdef const uint8_t* source = out - distance
    cdef uint8_t* end = out + n
    if distance >= 16:
        while out < end:
            memcpy(out, source, 16)
            memcpy(out + 16, source + 16, 16)
            out += 32
            source += 32
    elif distance >= 8:
        while out < end:
            memcpy(out, source, 8)
            out += 8
            source += 8
    elif distance == 1:
        memset(out, source[0], n)
    else:
        while out < end:
            out[0] = source[0]
            out += 1
            source += 1


cdef inline int decode(
    Bits* bits, const Tables* tables, const uint8_t* first, uint8_t** into, const uint8_t* stop, bint is_careful
) noexcept nogil:
    """Decodes a byte, a copy or the end of a block.

    Unless it is careful, there are 8 bytes to read at least, and room for `LONGEST` bytes.
    """
    cdef uint32_t entry, n_bits
    cdef size_t length, distance
    fill(bits)
    entry = tables.of_lengths[bits.word & ((1 << LENGTH_BITS) - 1)]
    if entry & MORE:
        entry = tables.of_lengths[(entry >> 16) + (bits.word >> LENGTH_BITS & ((1U << (entry & 0xFF)) - 1))]
    n_bits = entry & 0xFF
    if n_bits == 0:
        return WRONG
    if is_careful and bits.n < n_bits + (entry >> 8 & 0xF):
        return TRUNCATED
    take(bits, n_bits)
    if entry & LITERAL:
        if is_careful and into[0] == stop:
            return OVER_SPACE
        into[0][0] = <uint8_t>(entry >> 16)
        into[0] += 1
        return GOES_ON
    if entry & END:
        return COMPLETE
    length = (entry >> 16) + take(bits, entry >> 8 & 0xF)
    entry = tables.of_distances[bits.word & ((1 << DISTANCE_BITS) - 1)]
    if entry & MORE:
        entry = tables.of_distances[(entry >> 16) + (bits.word >> DISTANCE_BITS & ((1U << (entry & 0xFF)) - 1))]
    n_bits = entry & 0xFF
    if n_bits == 0:
        return WRONG
    if is_careful and bits.n < n_bits + (entry >> 8 & 0xF):
        return TRUNCATED
    take(bits, n_bits)
    distance = (entry >> 16) + take(bits, entry >> 8 & 0xF)
    if distance > <size_t>(into[0] - first):
        return WRONG
    if is_careful and length > <size_t>(stop - into[0]):
        return OVER_SPACE
    copy_before(into[0], distance, length)
    into[0] += length
    return GOES_ON


cdef int inflate_codes(
    Bits* given, const Tables* tables, const uint8_t* first, uint8_t** into, const uint8_t* stop
) noexcept nogil:
    """Decodes a block up to its end. `SLACK` bytes after `stop` may be written."""
    cdef Bits bits = given[0]           # in registers
    cdef uint8_t* out = into[0]
    cdef int state = GOES_ON
    while state == GOES_ON and bits.stop - bits.at >= 8 and stop - out >= LONGEST:
        state = decode(&bits, tables, first, &out, stop, False)
    while state == GOES_ON:
        state = decode(&bits, tables, first, &out, stop, True)
    given[0], into[0] = bits, out
    return state


cdef int inflate_stored(Bits* bits, uint8_t** into, const uint8_t* stop) noexcept nogil:
    """Copies a block without compression."""
    cdef size_t size
    bits.at -= bits.n >> 3              # the bytes that were not begun
    bits.word, bits.n = 0, 0
    if bits.stop - bits.at < 4:
        return TRUNCATED
    size = bits.at[0] | <size_t>bits.at[1] << 8
    if size != (0xFFFF ^ (bits.at[2] | <size_t>bits.at[3] << 8)):
        return WRONG
    bits.at += 4
    if size > <size_t>(bits.stop - bits.at):
        return TRUNCATED
    if size > <size_t>(stop - into[0]):
        return OVER_SPACE
    memcpy(into[0], bits.at, size)
    into[0] += size
    bits.at += size
    return COMPLETE


cdef int inflate_into(
    const uint8_t* data, size_t size, Tables* tables, uint8_t* out, size_t space, size_t* n_out
) noexcept nogil:
    """Inflates to at most `space` bytes; `SLACK` bytes after them may be written. Bytes after the last block are ignored."""
    cdef Bits bits
    cdef uint8_t* end = out
    cdef uint32_t kind
    cdef bint is_last = False
    cdef int state = COMPLETE
    bits.at, bits.stop, bits.word, bits.n = data, data + size, 0, 0
    while state == COMPLETE and not is_last:
        fill(&bits)
        if bits.n < 3:
            return TRUNCATED
        is_last, kind = take(&bits, 1), take(&bits, 2)
        if kind == 0:
            state = inflate_stored(&bits, &end, out + space)
            continue
        if kind == 1:
            set_fixed_codes(tables)
        else:
            state = read_codes(&bits, tables) if kind == 2 else WRONG
        if state == COMPLETE:
            state = inflate_codes(&bits, tables, out, &end, out + space)
    n_out[0] = end - out
    return state


cdef class Inflated:
    """Inflates blocks of a file, one after another, each to the memory of the one before. Bytes after a stream are ignored.

        for block in Inflated(data, places, limit):
            memoryview(block)

    Args:
        data: the bytes of the file.
        places: of each block a tuple; its last two items are the offsets where the stream begins and ends.
        limit: the maximum number of inflated bytes of all blocks.

    Raises:
        zlib.error: a block is no raw deflate stream, or is truncated.
        OverflowError: the blocks have more bytes than the limit.
        BufferError: the bytes of the block before are in use.
    """

    cdef Buffer _data
    cdef list _places
    cdef size_t _left, _at, _space, _n
    cdef uint8_t* _out
    cdef Tables* _tables
    cdef Py_ssize_t _n_views

    def __cinit__(self, data, list places, size_t limit):
        self._data, self._places, self._left = buffer_of(data), places, limit
        self._tables = <Tables*>malloc(sizeof(Tables))
        if self._tables == NULL:
            raise MemoryError
        self._tables.are_fixed = False

    def __dealloc__(self):
        free(self._out)
        free(self._tables)

    def __iter__(self):
        return self

    def __len__(self):
        return self._n

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self._out, self._n, 1, flags)
        self._n_views += 1

    def __releasebuffer__(self, Py_buffer* view):
        self._n_views -= 1

    def __next__(self):
        cdef tuple place
        cdef size_t start, stop, space
        cdef int state
        cdef void* moved
        if self._at == <size_t>len(self._places):
            raise StopIteration
        if self._n_views:
            raise BufferError("the bytes of the block before are in use")
        place = <tuple?>self._places[self._at]
        start, stop = place[len(place) - 2], place[len(place) - 1]
        if start > stop or stop > self._data.size:
            raise ValueError(f"a block from {start} to {stop} in {self._data.size} bytes")
        self._at += 1
        self._n = 0
        space = max(self._space, max(FEWEST_BYTES, 8 * (stop - start)))
        while True:
            space = min(space, self._left + 1)      # one byte more shows that there are too many
            if space > self._space:
                moved = realloc(self._out, space + SLACK)
                if moved == NULL:
                    raise MemoryError
                self._out, self._space = <uint8_t*>moved, space
            with nogil:
                state = inflate_into(self._data.data + start, stop - start, self._tables, self._out, space, &self._n)
            if state != OVER_SPACE or space > self._left:
                break
            space *= 2
        if state != COMPLETE or self._n > self._left:
            self._n = 0
            if state == TRUNCATED:
                raise zlib.error("the deflate stream is truncated")
            if state == WRONG:
                raise zlib.error("the bytes are no deflate stream")
            raise OverflowError(f"blocks of more than {self._left} bytes")
        self._left -= self._n
        return self
