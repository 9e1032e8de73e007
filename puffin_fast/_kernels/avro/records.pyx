"""Records of an Avro block walked without being decoded: whether they take exactly the block's bytes, or a part of them.

A program of int64 words describes a record. Each operation is followed by its operands:

    LONG | FLOAT | DOUBLE | BYTES | FIXED size | OPTIONAL index-of-null n-words words… | ARRAY n-words words…

Source: Avro specification, "Binary Encoding".
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from libc.string cimport memcpy

from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef enum Operation:
    OP_LONG = 0
    OP_FLOAT = 1
    OP_DOUBLE = 2
    OP_BYTES = 3
    OP_FIXED = 4
    OP_OPTIONAL = 5
    OP_ARRAY = 6

cdef enum:
    LONG_BYTES = 10             # of the longest varint of 64 bits
    MAX_DEPTH = 64              # of arrays and options within each other

LONG, FLOAT, DOUBLE, BYTES, FIXED, OPTIONAL, ARRAY = range(7)


cdef struct Reader:
    const uint8_t* at
    const uint8_t* stop


cdef inline bint take_long(Reader* reader, int64_t* value) noexcept nogil:
    """A zigzag varint; False when the bytes end, or it has more than 64 bits."""
    cdef uint64_t found = 0
    cdef int i
    cdef uint8_t byte
    for i in range(LONG_BYTES):
        if reader.at == reader.stop:
            return False
        byte = reader.at[0]
        reader.at += 1
        found |= <uint64_t>(byte & 0x7F) << (7 * i)
        if byte < 0x80:
            value[0] = <int64_t>(found >> 1) ^ -<int64_t>(found & 1)
            return i < LONG_BYTES - 1 or byte < 2
    return False


cdef inline bint pass_over(Reader* reader, int64_t n_bytes) noexcept nogil:
    if n_bytes < 0 or n_bytes > reader.stop - reader.at:
        return False
    reader.at += n_bytes
    return True


cdef bint walk(const int64_t* program, size_t n_words, Reader* reader, int depth) noexcept nogil:
    """Passes over one record; False when its bytes do not fit the program."""
    cdef const int64_t* end = program + n_words
    cdef int64_t value, count
    if depth > MAX_DEPTH:
        return False
    while program < end:
        if program[0] == OP_LONG:
            if not take_long(reader, &value):
                return False
            program += 1
        elif program[0] == OP_FLOAT or program[0] == OP_DOUBLE:
            if not pass_over(reader, 4 if program[0] == OP_FLOAT else 8):
                return False
            program += 1
        elif program[0] == OP_BYTES:
            if not take_long(reader, &value) or not pass_over(reader, value):
                return False
            program += 1
        elif program[0] == OP_FIXED:
            if not pass_over(reader, program[1]):
                return False
            program += 2
        elif program[0] == OP_OPTIONAL:
            if not take_long(reader, &value) or value < 0 or value > 1:
                return False
            if value != program[1] and not walk(program + 3, <size_t>program[2], reader, depth + 1):
                return False
            program += 3 + program[2]
        else:
            while True:
                # a negative count is followed by a size, which writers of manifests leave out
                if not take_long(reader, &count) or count < 0:
                    return False
                if count == 0:
                    break
                while count > 0:
                    if not walk(program + 2, <size_t>program[1], reader, depth + 1):
                        return False
                    count -= 1
            program += 2 + program[1]
    return True


cdef bint is_program(const int64_t* program, size_t n_words, int depth) noexcept nogil:
    """Whether the words are operations with their operands; items of arrays take a word or more."""
    cdef size_t at = 0, inner, head
    if depth > MAX_DEPTH:
        return False
    while at < n_words:
        if 0 <= program[at] <= OP_BYTES:
            at += 1
            continue
        head = 3 if program[at] == OP_OPTIONAL else 2
        if not OP_FIXED <= program[at] <= OP_ARRAY or at + head > n_words or program[at + head - 1] < 0:
            return False
        if program[at] != OP_FIXED:
            inner = <size_t>program[at + head - 1]
            if inner == 0 or inner > n_words - at - head or not is_program(program + at + head, inner, depth + 1):
                return False
            head += inner
        elif program[at + 1] == 0:
            return False
        at += head
    return True


def fits(data, n_records, program):
    """Whether a block's bytes are exactly n records.

    Args:
        data: the block without compression.
        n_records: what the block claims.
        program: int64 words, as above.
    """
    cdef Buffer block = buffer_of(data), words = buffer_of(program)
    cdef Reader reader
    cdef uint64_t left = n_records
    cdef size_t n_words = words.size // 8
    cdef const int64_t* first = <const int64_t*>words.data
    cdef bint sound
    reader.at = block.data
    reader.stop = block.data + block.size
    with nogil:
        sound = n_words > 0 and is_program(first, n_words, 0)
        while sound and left > 0:
            sound = walk(first, n_words, &reader, 0)
            left -= 1
    return bool(sound and reader.at == reader.stop)


def cut(data, n_records, program, fields):
    """Returns the bytes of some fields of a block's records; None if the block's bytes are not exactly n records.

    Args:
        data: the block without compression.
        n_records: what the block claims.
        program: int64 words, as above.
        fields: for each field of the record, the number of its words, negative if the field is left out, as int64.
    """
    cdef Buffer block = buffer_of(data), words = buffer_of(program), sizes = buffer_of(fields)
    cdef Reader reader
    cdef uint64_t left = n_records
    cdef size_t n_words = words.size // 8, n_fields = sizes.size // 8, i, total = 0
    cdef const int64_t* first = <const int64_t*>words.data
    cdef const int64_t* of_field = <const int64_t*>sizes.data
    cdef const int64_t* at
    cdef const uint8_t* start
    cdef int64_t size
    cdef bint sound
    found = bytearray(block.size)
    cdef Buffer out = writable(found)
    cdef uint8_t* end = <uint8_t*>out.data
    reader.at = block.data
    reader.stop = block.data + block.size
    with nogil:
        sound = n_words > 0 and is_program(first, n_words, 0)
        for i in range(n_fields):
            size = of_field[i] if of_field[i] > 0 else -of_field[i]
            sound = sound and 0 < size <= <int64_t>(n_words - total) and is_program(first + total, <size_t>size, 0)
            total += <size_t>size if sound else 0
        sound = sound and total == n_words
        while sound and left > 0:
            at = first
            for i in range(n_fields):
                size = of_field[i] if of_field[i] > 0 else -of_field[i]
                start = reader.at
                sound = walk(at, <size_t>size, &reader, 0)
                if not sound:
                    break
                if of_field[i] > 0:
                    memcpy(end, start, reader.at - start)
                    end += reader.at - start
                at += size
            left -= 1
    if not sound or reader.at != reader.stop:
        return None
    total = end - <uint8_t*>out.data
    del out
    del found[total:]
    return found
