"""Radix sorts, least significant digit first unless a function says otherwise. Digits that are equal in all values are
skipped."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum:
    DIGIT_BITS = 11
    DIGITS = 2048
    SMALL_DIGIT_BITS = 8
    SMALL = 1024                # for fewer values a histogram of 2,048 counts costs more than it saves
    SMALL_LOW = 512             # the same for values of 32 bits
    INSERTION = 24
    PER_BUCKET = 2              # values that a bucket should have, for an insertion sort
    WIDE_BITS = 14
    WIDE = 16384                # buckets; more do not stay in the caches
    MAX_DEPTH = 3


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
    if n <= INSERTION or n >> 32 != 0:
        memcpy(out, x, n * sizeof(uint64_t))
        sort_u64(out, spare, n)
    elif (every ^ some) >> 32 == 0:
        sort_low(x, n, every ^ some, every, out, <uint32_t*>spare)
    else:
        memcpy(spare, x, n * sizeof(uint64_t))
        sort_wide(spare, n, out)


cdef void sort_wide(uint64_t* x, size_t n, uint64_t* out) noexcept nogil:
    """Writes n < 2^32 values that are spread over more than 32 bits to `out`, ascending. x is overwritten."""
    cdef uint32_t places[WIDE]
    sort_by_buckets(x, n, out, places, WIDE_BITS, 0)


cdef void sort_crowded(uint64_t* x, size_t n, uint64_t* out, int depth) noexcept nogil:
    """As `sort_wide`, of a bucket with many values."""
    cdef uint32_t places[DIGITS]
    if depth < MAX_DEPTH:
        sort_by_buckets(x, n, out, places, DIGIT_BITS, depth)
    else:
        memcpy(out, x, n * sizeof(uint64_t))
        sort_u64(out, x, n)


cdef void sort_by_buckets(uint64_t* x, size_t n, uint64_t* out, uint32_t* places, int most, int depth) noexcept nogil:
    """Sorts by the most significant digit, of at most `most` bits, first, and the values of a bucket by insertion.

    Where values are spread, buckets have few of them.
    """
    cdef uint64_t every = ~<uint64_t>0, some = 0
    cdef uint32_t mask, at = 0, count, d
    cdef int bits = 1, shift = 0
    cdef size_t i
    for i in range(n):
        every &= x[i]
        some |= x[i]
    while bits < most and n >> bits > PER_BUCKET:
        bits += 1
    while (every ^ some) >> shift >> bits != 0:
        shift += 1
    mask = (<uint32_t>1 << bits) - 1
    memset(places, 0, (<size_t>1 << bits) * sizeof(uint32_t))
    for i in range(n):
        places[(x[i] >> shift) & mask] += 1
    for d in range(mask + 1):
        count = places[d]
        places[d] = at
        at += count
    for i in range(n):
        d = (x[i] >> shift) & mask
        out[places[d]] = x[i]
        places[d] += 1
    if shift == 0:
        return
    at = 0
    for d in range(mask + 1):
        count = places[d] - at
        if count > INSERTION:
            memcpy(x + at, out + at, count * sizeof(uint64_t))
            sort_crowded(x + at, count, out + at, depth + 1)
        elif count > 1:
            insertion_u64(out + at, count)
        at += count


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
