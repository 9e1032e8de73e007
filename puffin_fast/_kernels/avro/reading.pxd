"""Values of Avro's binary encoding, read from memory. Every function is False for bytes that do not have the form.

Source: Avro specification, "Binary Encoding".
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from puffin_fast._kernels.bytes cimport load32, load64

cdef extern from *:
    int __builtin_ctzll(uint64_t word) noexcept nogil

cdef enum:
    LONG_BYTES = 10             # of the longest varint of 64 bits


cdef struct Reader:
    const uint8_t* at
    const uint8_t* stop


cdef inline bint take_varint(Reader* reader, int64_t* value) noexcept nogil:
    """As `take_long`, byte by byte: for the last bytes and the longest numbers."""
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


cdef inline uint64_t last_bytes(const uint8_t* at) noexcept nogil:
    """Which of 8 bytes are below 0x80, as their highest bits: those that end a varint."""
    return ~load64(at) & 0x8080808080808080ULL


cdef inline bint take_long(Reader* reader, int64_t* value) noexcept nogil:
    """A zigzag varint; False when the bytes end, or it has more than 64 bits."""
    cdef uint64_t found, ends
    if reader.at == reader.stop:
        return False
    if reader.at[0] < 0x80:
        found = reader.at[0]
        reader.at += 1
    else:
        ends = last_bytes(reader.at) if reader.stop - reader.at >= 8 else 0
        if ends == 0:
            return take_varint(reader, value)
        found = load64(reader.at) & (ends ^ (ends - 1)) & 0x7F7F7F7F7F7F7F7FULL
        found = (found & 0x007F007F007F007FULL) | (found & 0x7F007F007F007F00ULL) >> 1
        found = (found & 0x00003FFF00003FFFULL) | (found & 0x3FFF00003FFF0000ULL) >> 2
        found = (found & 0x0FFFFFFF) | (found & 0x0FFFFFFF00000000ULL) >> 4
        reader.at += (__builtin_ctzll(ends) >> 3) + 1
    value[0] = <int64_t>(found >> 1) ^ -<int64_t>(found & 1)
    return True


cdef inline bint pass_long(Reader* reader) noexcept nogil:
    """Passes over a long, under the conditions of `take_long`.

    Branches by the number of bytes are faster than arithmetic: a processor guesses them, and goes on.
    """
    cdef int64_t value
    if reader.stop - reader.at >= 4:
        if reader.at[0] < 0x80:
            reader.at += 1
            return True
        if reader.at[1] < 0x80:
            reader.at += 2
            return True
        if reader.at[2] < 0x80:
            reader.at += 3
            return True
        if reader.at[3] < 0x80:
            reader.at += 4
            return True
    return take_long(reader, &value)


cdef inline bint pass_over(Reader* reader, int64_t n_bytes) noexcept nogil:
    if n_bytes < 0 or n_bytes > reader.stop - reader.at:
        return False
    reader.at += n_bytes
    return True


cdef inline bint take_count(Reader* reader, int64_t* count) noexcept nogil:
    """The number of items of a block of an array; a negative one is followed by the block's size."""
    cdef int64_t size
    if not take_long(reader, count) or count[0] == -<int64_t>0x7FFFFFFFFFFFFFFF - 1:
        return False
    if count[0] < 0:
        count[0] = -count[0]
        return take_long(reader, &size)
    return True


cdef inline bint is_ascii(const uint8_t* at, const uint8_t* stop) noexcept nogil:
    cdef uint64_t bits = 0
    if stop - at >= 8:
        bits = load64(stop - 8)
        while stop - at >= 32:
            bits |= load64(at) | load64(at + 8) | load64(at + 16) | load64(at + 24)
            at += 32
        while stop - at >= 8:
            bits |= load64(at)
            at += 8
    elif stop - at >= 4:
        bits = load32(at) | <uint64_t>load32(stop - 4) << 32
    else:
        while at < stop:
            bits |= at[0]
            at += 1
    return bits & 0x8080808080808080ULL == 0


cdef inline bint is_utf8(const uint8_t* at, const uint8_t* stop) noexcept nogil:
    """Whether bytes are UTF-8 as Python decodes it: shortest forms, no surrogates, at most U+10FFFF."""
    cdef uint8_t byte, low, high
    cdef int left
    if is_ascii(at, stop):
        return True
    while at < stop:
        while stop - at >= 8 and load64(at) & 0x8080808080808080ULL == 0:
            at += 8
        if at == stop:
            break
        byte = at[0]
        at += 1
        if byte < 0x80:
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= byte <= 0xDF:
            left = 1
        elif 0xE0 <= byte <= 0xEF:
            left = 2
            low = 0xA0 if byte == 0xE0 else 0x80
            high = 0x9F if byte == 0xED else 0xBF
        elif 0xF0 <= byte <= 0xF4:
            left = 3
            low = 0x90 if byte == 0xF0 else 0x80
            high = 0x8F if byte == 0xF4 else 0xBF
        else:
            return False
        if stop - at < left or at[0] < low or at[0] > high:
            return False
        while left > 1:
            left -= 1
            at += 1
            if at[0] & 0xC0 != 0x80:
                return False
        at += 1
    return True
