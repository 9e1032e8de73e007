"""Radix sorts, least significant digit first. Digits that are equal in all values are skipped."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum:
    DIGIT_BITS = 11
    DIGITS = 2048
    SMALL_DIGIT_BITS = 8
    SMALL = 1024                # for fewer values a histogram of 2,048 counts costs more than it saves
    SMALL_LOW = 512             # the same for values of 32 bits
    INSERTION = 24


cdef void insertion_u64(uint64_t* x, size_t n) noexcept nogil:
    cdef size_t i, j
    cdef uint64_t value
    for i in range(1, n):
        value = x[i]
        j = i
        while j > 0 and x[j - 1] > value:
            x[j] = x[j - 1]
            j -= 1
        x[j] = value


cdef void sort_u64(uint64_t* x, uint64_t* spare, size_t n) noexcept nogil:
    """Sorts n values in place. spare has space for n values."""
    cdef size_t counts[DIGITS]
    cdef uint64_t every = ~<uint64_t>0, some = 0, varying, mask
    cdef uint64_t* source = x
    cdef uint64_t* target = spare
    cdef uint64_t* swap
    cdef size_t i, at, count
    cdef int bits, shift = 0, d, digits
    if n <= INSERTION:
        insertion_u64(x, n)
        return
    for i in range(n):
        every &= x[i]
        some |= x[i]
    varying = every ^ some
    bits = SMALL_DIGIT_BITS if n < SMALL else DIGIT_BITS
    digits = 1 << bits
    mask = digits - 1
    while shift < 64 and varying >> shift:
        if not (varying >> shift) & mask:
            shift += bits
            continue
        memset(counts, 0, digits * sizeof(size_t))
        for i in range(n):
            counts[(source[i] >> shift) & mask] += 1
        at = 0
        for d in range(digits):
            count = counts[d]
            counts[d] = at
            at += count
        for i in range(n):
            d = <int>((source[i] >> shift) & mask)
            target[counts[d]] = source[i]
            counts[d] += 1
        swap = source
        source = target
        target = swap
        shift += bits
    if source != x:
        memcpy(x, source, n * sizeof(uint64_t))


cdef void sort_to(const uint64_t* x, size_t n, uint64_t* out, uint64_t* spare) noexcept nogil:
    """Writes n > 0 values to `out`, ascending. spare has space for n values.

    Values that differ only in 32 bits are sorted as these. Another thread may change x; then other values are written.
    """
    cdef uint64_t every = ~<uint64_t>0, some = 0
    cdef size_t i
    for i in range(n):
        every &= x[i]
        some |= x[i]
    if (every ^ some) >> 32 == 0 and n > INSERTION and n >> 32 == 0:
        sort_low(x, n, every ^ some, every, out, <uint32_t*>spare)
        return
    memcpy(out, x, n * sizeof(uint64_t))
    sort_u64(out, spare, n)


cdef void sort_low(const uint64_t* x, size_t n, uint64_t varying, uint64_t base, uint64_t* out,
                   uint32_t* spare) noexcept nogil:
    """As `sort_to`, of values that are equal to `base` except for the 32 bits `varying`. spare has space for 2n values."""
    cdef uint32_t places[DIGITS]
    cdef int most = SMALL_DIGIT_BITS if n < SMALL_LOW else DIGIT_BITS
    cdef int width = 0, passes, bits, k, shift
    cdef uint32_t* source = spare
    cdef uint32_t* target = spare + n
    cdef uint32_t* swap
    cdef uint32_t value, mask, at, count, d
    cdef size_t i
    while varying >> width != 0:
        width += 1
    passes = max(1, (width + most - 1) // most)
    bits = max(1, (width + passes - 1) // passes)
    mask = (<uint32_t>1 << bits) - 1
    base &= ~<uint64_t>0 << width
    for i in range(n):
        source[i] = <uint32_t>(x[i] & ((<uint64_t>1 << width) - 1))
    for k in range(passes):
        shift = k * bits
        memset(places, 0, (<size_t>1 << bits) * sizeof(uint32_t))
        for i in range(n):
            places[(source[i] >> shift) & mask] += 1
        at = 0
        for d in range(mask + 1):
            count = places[d]
            places[d] = at
            at += count
        if k == passes - 1:
            for i in range(n):
                d = source[i] >> shift
                out[places[d]] = base | source[i]
                places[d] += 1
            return
        for i in range(n):
            value = source[i]
            d = (value >> shift) & mask
            target[places[d]] = value
            places[d] += 1
        swap = source
        source = target
        target = swap


cdef void sort_u32(uint32_t* x, uint32_t* spare, size_t n, int bits) noexcept nogil:
    """Sorts n values below 2^bits (at most 22) in place in two passes. spare has space for n values."""
    cdef size_t low[DIGITS]
    cdef size_t high[DIGITS]
    cdef size_t i, at_low = 0, at_high = 0, count
    cdef int half = (bits + 1) // 2, d
    cdef uint32_t mask = (1 << half) - 1, value
    memset(low, 0, (<size_t>1 << half) * sizeof(size_t))
    memset(high, 0, (<size_t>1 << half) * sizeof(size_t))
    for i in range(n):
        low[x[i] & mask] += 1
        high[x[i] >> half] += 1
    for d in range(1 << half):
        count = low[d]
        low[d] = at_low
        at_low += count
        count = high[d]
        high[d] = at_high
        at_high += count
    for i in range(n):
        value = x[i]
        spare[low[value & mask]] = value
        low[value & mask] += 1
    for i in range(n):
        value = spare[i]
        x[high[value >> half]] = value
        high[value >> half] += 1
