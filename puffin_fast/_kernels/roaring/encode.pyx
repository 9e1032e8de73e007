"""Positions into serialised bytes: measure the exact size, allocate, fill.

Sorted positions without repeats are read twice and not copied. The first pass finds each chunk of 65,536 positions,
proves the order and counts runs, from which the kind and size of every container follow. The second pass writes them.
Unsorted positions are first partitioned into buckets of 2^16 to 2^22 positions. A dense bucket becomes a bitmap without
a sort. A sparse bucket is sorted as u32. Very sparse sets are sorted whole.

Memory besides the result, in bytes that are written to:

    always                                          4 per container, 24 per 32-bit bitmap, and 64 KiB
    sorted with repeats                             8 per position
    unsorted                                        the containers once more, and 16 per container
    unsorted, dense or sparse                       4 per position, and 512 KiB
    unsorted, very sparse or fewer than 65,536      16 per position

Buffers grow by doubling, so that they take up to twice that in address space.

Positions are the caller's memory and are read more than once. They must not change during a call. If another thread
changes them all the same, no byte is written outside of the measured size, and the result is either `CHANGED` or bytes
that hold other positions.

One module because `encoder_measure` and `encoder_store` share one plan of containers.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from puffin_fast._kernels.bytes cimport (
    ARRAY, ARRAY_MAX, BITMAP, BITMAP_BYTES, CHUNK, COUNT_BYTES, KEY_BYTES, OFFSETS_MIN_COUNT, RUN, Kind, choose,
    container_size, header_size, store16, store32, store64,
)
from puffin_fast._kernels.roaring.containers cimport (
    Bytes, Writer, release, reserve, store_header, writer_array, writer_bitmap, writer_free, writer_size,
    writer_store,
)
from puffin_fast._kernels.order cimport sort_to, sort_u32

cdef extern from "flags.h" nogil:
    void pf_pack_marks(uint8_t* marks, uint8_t* bits)

cdef extern from "positions.h" nogil:
    size_t pf_scan_chunk(const uint64_t* x, size_t n, uint32_t* adjacent, uint64_t* disorder)
    void pf_narrow(const uint64_t* x, size_t n, uint8_t* out)
    void pf_scatter(const uint64_t* x, size_t n, uint8_t* marks)
    uint32_t pf_runs_of_positions(const uint64_t* x, size_t n, uint8_t* out, uint32_t capacity)

cdef extern from "simd.h" nogil:
    int pf_choose_level()
    void pf_prefetch_to_write(void* at)

cdef enum:
    BUCKET_BITS_MIN = 16        # a chunk
    BUCKET_BITS_MAX = 22        # 64 chunks: 512 KiB as bits, which fits a second-level cache
    MANY_BUCKETS = 256          # more and narrower buckets are not faster
    MAX_BUCKETS = 4096
    BUCKET_GOOD = 4096          # positions from which another bucket pays off
    BUCKET_MIN = 256            # with fewer positions per bucket, one sort is cheaper
    DENSE_SHIFT = 6             # from one in 64 on, setting bits is faster than sorting
    SAMPLED = 64                # positions from which the width of buckets is estimated
    PARTITION_MIN = 65536       # fewer positions are sorted at once
    AT_ONCE = 8                 # positions whose targets fit into registers
    RUNS_SHIFT = 18             # of the number of runs in a container's plan: below 2,048 where runs are the smallest form

cdef struct BitmapPlan:
    size_t payload              # bytes of its containers
    uint32_t key
    uint32_t count
    uint32_t has_run


cdef bint need_marks(Encoder* encoder) noexcept nogil:
    if encoder.marks.data != NULL:
        return True
    if not reserve(&encoder.marks, CHUNK):
        return False
    memset(encoder.marks.data, 0, CHUNK)
    return True


cdef bint measure_sorted(Encoder* encoder, const uint64_t* x, size_t n, uint64_t maximum, int* status) noexcept nogil:
    """The first pass. False when the positions do not ascend strictly up to the maximum, or memory is out (*status)."""
    cdef size_t i = 0, found, size = COUNT_BYTES, bytes_
    cdef uint32_t adjacent, n_runs, cardinality
    cdef uint64_t disorder, key
    cdef Kind kind
    cdef BitmapPlan* plan
    encoder.bitmaps.size = 0
    encoder.containers.size = 0
    while i < n:
        key = x[i] >> 32
        if not reserve(&encoder.bitmaps, sizeof(BitmapPlan)):
            status[0] = OUT_OF_MEMORY
            return False
        plan = <BitmapPlan*>(encoder.bitmaps.data + encoder.bitmaps.size)
        encoder.bitmaps.size += sizeof(BitmapPlan)
        memset(plan, 0, sizeof(BitmapPlan))
        plan.key = <uint32_t>key
        while i < n and x[i] >> 32 == key:
            # up to the maximum, no step into or out of a chunk can be mistaken for a step inside it
            if x[i] > maximum:
                return False
            found = pf_scan_chunk(x + i, n - i, &adjacent, &disorder)
            # found is larger than a chunk only if the positions change during the scan
            if disorder >> 16 or found > CHUNK or (i + found < n and x[i + found] <= x[i + found - 1]):
                return False
            cardinality = <uint32_t>found
            n_runs = cardinality - adjacent
            kind = choose(cardinality, n_runs)
            if kind == BITMAP and not need_marks(encoder):
                status[0] = OUT_OF_MEMORY
                return False
            bytes_ = container_size(kind, cardinality, n_runs)
            if not reserve(&encoder.containers, 4):
                status[0] = OUT_OF_MEMORY
                return False
            (<uint32_t*>(encoder.containers.data + encoder.containers.size))[0] = (
                (cardinality - 1) | (<uint32_t>kind << 16) | (n_runs << RUNS_SHIFT if kind == RUN else 0)
            )
            encoder.containers.size += 4
            plan.payload += bytes_
            plan.count += 1
            plan.has_run |= kind == RUN
            i += found
        size += KEY_BYTES + header_size(plan.count, plan.has_run) + plan.payload
    encoder.size = size
    encoder.cardinality = n
    encoder.positions = x
    encoder.by_writer = False
    return True


cdef int store_sorted(Encoder* encoder, uint8_t* out) noexcept nogil:
    """The second pass. Writes as many bytes as were measured, also when the positions have changed since."""
    cdef const uint64_t* x = encoder.positions
    cdef const uint32_t* containers = <const uint32_t*>encoder.containers.data
    cdef const BitmapPlan* plans = <const BitmapPlan*>encoder.bitmaps.data
    cdef size_t n_bitmaps = encoder.bitmaps.size // sizeof(BitmapPlan), b
    cdef uint32_t i, cardinality, n_runs, count, kind
    cdef uint8_t* at = out + COUNT_BYTES
    cdef uint8_t* start
    cdef uint8_t* descriptors
    cdef bint offsets
    store64(out, n_bitmaps)
    for b in range(n_bitmaps):
        count = plans[b].count
        store32(at, plans[b].key)
        start = at + KEY_BYTES
        descriptors = store_header(start, count, plans[b].has_run)
        offsets = not plans[b].has_run or count >= OFFSETS_MIN_COUNT
        at = start + header_size(count, plans[b].has_run)
        for i in range(count):
            cardinality = (containers[i] & 0xFFFF) + 1
            kind = (containers[i] >> 16) & 3
            store16(descriptors + 4 * <size_t>i, <uint16_t>(x[0] >> 16))
            store16(descriptors + 4 * <size_t>i + 2, <uint16_t>(cardinality - 1))
            if offsets:
                store32(descriptors + 4 * <size_t>count + 4 * <size_t>i, <uint32_t>(at - start))
            if cardinality == 1:        # an array: a run takes more bytes
                store16(at, <uint16_t>x[0])
                at += 2
            elif kind == <uint32_t>ARRAY:
                pf_narrow(x, cardinality, at)
                at += 2 * <size_t>cardinality
            elif kind == <uint32_t>BITMAP:
                pf_scatter(x, cardinality, encoder.marks.data)
                pf_pack_marks(encoder.marks.data, at)
                at += BITMAP_BYTES
            else:
                start[4 + (i >> 3)] |= <uint8_t>(1 << (i & 7))
                n_runs = containers[i] >> RUNS_SHIFT
                if pf_runs_of_positions(x, cardinality, at + 2, n_runs) != n_runs:
                    return CHANGED
                store16(at, <uint16_t>n_runs)
                at += 2 + 4 * <size_t>n_runs
            x += cardinality
        containers += count
    return ENCODED


cdef int measure_ascending(Encoder* encoder, uint64_t* x, size_t n) noexcept nogil:
    """Drops repeats of n ascending positions in place, then measures them."""
    cdef size_t i, n_distinct = 1
    cdef uint64_t value, before = x[0]
    cdef int status = ENCODED
    for i in range(1, n):
        value = x[i]
        x[n_distinct] = value
        n_distinct += value != before
        before = value
    if not measure_sorted(encoder, x, n_distinct, ~<uint64_t>0 >> 1, &status):
        return status if status != ENCODED else CHANGED
    return ENCODED


cdef int measure_by_sort(Encoder* encoder, const uint64_t* x, size_t n, uint64_t maximum, bint ascending) noexcept nogil:
    """Measures a sorted copy of n > 0 positions without repeats."""
    cdef uint64_t* copy
    encoder.sorted.size = 0
    encoder.spare.size = 0
    if not reserve(&encoder.sorted, 8 * n) or (not ascending and not reserve(&encoder.spare, 8 * n)):
        return OUT_OF_MEMORY
    copy = <uint64_t*>encoder.sorted.data
    if ascending:
        memcpy(copy, x, 8 * n)
    else:
        sort_to(x, n, copy, <uint64_t*>encoder.spare.data)
    return OUT_OF_RANGE if copy[n - 1] > maximum else measure_ascending(encoder, copy, n)


cdef bint write_sorted_bucket(Encoder* encoder, uint64_t key, const uint32_t* x, size_t n) noexcept nogil:
    """Writes the containers of n ascending 22-bit values, repeats allowed. key is that of the bucket's first chunk."""
    cdef uint8_t values[2 * ARRAY_MAX + 2]
    cdef uint8_t bits[BITMAP_BYTES]
    cdef size_t i = 0, j
    cdef uint32_t chunk, n_distinct
    while i < n:
        chunk = x[i] >> 16
        j = i
        n_distinct = 0
        while j < n and x[j] >> 16 == chunk and n_distinct <= ARRAY_MAX:
            if j == i or x[j] != x[j - 1]:
                if n_distinct < ARRAY_MAX:
                    store16(values + 2 * <size_t>n_distinct, <uint16_t>x[j])
                n_distinct += 1
            j += 1
        if n_distinct <= ARRAY_MAX:
            if not writer_array(&encoder.writer, key + chunk, values, n_distinct):
                return False
            i = j
            continue
        while i < n and x[i] >> 16 == chunk:
            encoder.marks.data[x[i] & 0xFFFF] = 1
            i += 1
        pf_pack_marks(encoder.marks.data, bits)
        if not writer_bitmap(&encoder.writer, key + chunk, bits):
            return False
    return True


cdef struct InputSummary:
    # The result of one pass over unsorted positions.
    uint64_t low
    uint64_t high
    bint ascending
    int bits                        # of a bucket
    uint32_t counts[MAX_BUCKETS]    # by bucket modulo MAX_BUCKETS: exact when the span has no more buckets


cdef int bucket_bits(uint64_t span, size_t n) noexcept nogil:
    """Returns the width in bits that buckets of n positions should have."""
    cdef int bits = BUCKET_BITS_MAX
    cdef uint64_t most = min(<uint64_t>MANY_BUCKETS, n // BUCKET_GOOD)
    while bits > BUCKET_BITS_MIN and span >> (bits - 1) < most:
        bits -= 1
    return bits


cdef uint64_t estimate_span(const uint64_t* x, size_t n) noexcept nogil:
    """The span of a sample of n >= SAMPLED positions; that of all is as large or larger."""
    cdef uint64_t low = x[0], high = x[0]
    cdef size_t i
    for i in range(1, SAMPLED):
        low = min(low, x[i * (n // SAMPLED)])
        high = max(high, x[i * (n // SAMPLED)])
    return high - low


cdef bint is_very_sparse(uint64_t n_buckets, size_t n) noexcept nogil:
    return n_buckets > MAX_BUCKETS or n // n_buckets < BUCKET_MIN


cdef void summarise_input(const uint64_t* x, size_t n, int bits, InputSummary* found) noexcept nogil:
    cdef uint64_t low = x[0], high = x[0], before = x[0], value
    cdef size_t i
    cdef uint32_t descents = 0
    memset(found.counts, 0, sizeof(found.counts))
    for i in range(n):
        value = x[i]
        descents += value < before
        before = value
        low = value if value < low else low
        high = value if value > high else high
        found.counts[(value >> bits) & (MAX_BUCKETS - 1)] += 1
    found.low = low
    found.high = high
    found.bits = bits
    found.ascending = descents == 0


cdef inline bint scatter(const uint64_t* x, size_t some, int bits, uint32_t* places, uint32_t* parts, size_t n) noexcept nogil:
    """Puts up to AT_ONCE positions into their buckets. False when a bucket is full.

    All targets are computed before the first store: while the address of a store is not known, a processor delays
    or repeats the loads that follow it.
    """
    cdef uint32_t to[AT_ONCE]
    cdef size_t i, b
    for i in range(some):
        b = (x[i] >> bits) & (MAX_BUCKETS - 1)
        to[i] = places[b]
        places[b] += 1
    for i in range(some):
        if to[i] >= n:
            return False
        parts[to[i]] = <uint32_t>x[i] & ((<uint32_t>1 << bits) - 1)
        pf_prefetch_to_write(parts + to[i] + 16)    # the bucket's next cache line: hardware does not prefetch so many streams
    return True


cdef int measure_by_partition(Encoder* encoder, const uint64_t* x, size_t n, const InputSummary* found) noexcept nogil:
    """Scatters positions into buckets and writes bucket after bucket.

    If positions have changed since they were counted, a bucket may overflow into the next one, but never past the last
    one. That is noticed (CHANGED).
    """
    cdef uint32_t places[MAX_BUCKETS]   # where the next position of each bucket is stored
    cdef int bits = found.bits
    cdef uint64_t first = found.low >> bits, bucket
    cdef uint64_t* words
    cdef uint32_t* parts
    cdef uint32_t* part
    cdef size_t i, count, b, largest_sparse = 0, chunk, place = 0
    cdef size_t n_buckets = <size_t>((found.high >> bits) - first) + 1
    cdef size_t n_chunks = <size_t>1 << (bits - 16), dense = <size_t>1 << (bits - DENSE_SHIFT)
    cdef uint32_t value
    encoder.sorted.size = 0
    encoder.spare.size = 0
    if not reserve(&encoder.sorted, 4 * n):
        return OUT_OF_MEMORY
    parts = <uint32_t*>encoder.sorted.data
    for b in range(MAX_BUCKETS):
        places[b] = <uint32_t>n
    for b in range(n_buckets):
        count = found.counts[(first + b) & (MAX_BUCKETS - 1)]
        places[(first + b) & (MAX_BUCKETS - 1)] = <uint32_t>place
        place += count
        if count < dense and count > largest_sparse:
            largest_sparse = count
    # the same memory holds the bits of a dense bucket or the scratch of a sparse bucket's sort
    if not reserve(&encoder.spare, max(n_chunks * BITMAP_BYTES, 4 * largest_sparse)) or not need_marks(encoder):
        return OUT_OF_MEMORY
    i = 0
    while i + AT_ONCE <= n:
        if not scatter(x + i, AT_ONCE, bits, places, parts, n):
            return CHANGED
        i += AT_ONCE
    if not scatter(x + i, n - i, bits, places, parts, n):
        return CHANGED
    place = 0
    for b in range(n_buckets):
        place += found.counts[(first + b) & (MAX_BUCKETS - 1)]
        if places[(first + b) & (MAX_BUCKETS - 1)] != place:
            return CHANGED
    encoder.writer.payload.size = 0
    encoder.writer.records.size = 0
    encoder.writer.cardinality = 0
    part = parts
    for bucket in range(first, first + n_buckets):
        count = found.counts[bucket & (MAX_BUCKETS - 1)]
        if count >= dense:
            memset(encoder.spare.data, 0, n_chunks * BITMAP_BYTES)
            words = <uint64_t*>encoder.spare.data
            for i in range(count):
                value = part[i]
                words[value >> 6] |= <uint64_t>1 << (value & 63)
            for chunk in range(n_chunks):
                if not writer_bitmap(&encoder.writer, (bucket << (bits - 16)) + chunk,
                                     encoder.spare.data + chunk * BITMAP_BYTES):
                    return OUT_OF_MEMORY
        elif count > 0:
            sort_u32(part, <uint32_t*>encoder.spare.data, count, bits)
            if not write_sorted_bucket(encoder, bucket << (bits - 16), part, count):
                return OUT_OF_MEMORY
        part += count
    encoder.by_writer = True
    encoder.size = writer_size(&encoder.writer)
    encoder.cardinality = encoder.writer.cardinality
    return ENCODED


cdef int encoder_measure(Encoder* encoder, const uint64_t* x, size_t n, uint64_t maximum) noexcept nogil:
    """Measures n positions in any order, with or without repeats. Sets size and cardinality.

    The positions must stay in memory until `encoder_store`.
    """
    cdef int status = ENCODED
    if measure_sorted(encoder, x, n, maximum, &status):
        return ENCODED if n == 0 or x[n - 1] <= maximum else OUT_OF_RANGE
    if status != ENCODED:
        return status
    if n < PARTITION_MIN:
        return measure_by_sort(encoder, x, n, maximum, False)
    return measure_unsorted(encoder, x, n, maximum)


cdef int measure_unsorted(Encoder* encoder, const uint64_t* x, size_t n, uint64_t maximum) noexcept nogil:
    cdef InputSummary found
    cdef uint64_t span = estimate_span(x, n), n_buckets
    cdef int bits = bucket_bits(span, n)
    cdef size_t i = 1
    if is_very_sparse((span >> bits) + 1, n):
        while i < n and x[i - 1] <= x[i]:
            i += 1
        return measure_by_sort(encoder, x, n, maximum, i == n)
    summarise_input(x, n, bits, &found)
    if found.high > maximum:
        return OUT_OF_RANGE
    bits = bucket_bits(found.high - found.low, n)
    if bits > found.bits + 1:   # the sample missed positions that are far away
        summarise_input(x, n, bits, &found)
        if found.high > maximum:
            return OUT_OF_RANGE
    n_buckets = (found.high >> found.bits) - (found.low >> found.bits) + 1
    # counts are 32 bits wide
    if found.ascending or is_very_sparse(n_buckets, n) or n >> 32:
        return measure_by_sort(encoder, x, n, maximum, found.ascending)
    return measure_by_partition(encoder, x, n, &found)


cdef int encoder_store(Encoder* encoder, uint8_t* out) noexcept nogil:
    """Writes the `size` bytes that were measured last. Returns ENCODED or CHANGED."""
    if encoder.by_writer:
        writer_store(&encoder.writer, out)
        return ENCODED
    return store_sorted(encoder, out)


cdef void encoder_free(Encoder* encoder) noexcept nogil:
    release(&encoder.bitmaps)
    release(&encoder.containers)
    release(&encoder.sorted)
    release(&encoder.spare)
    release(&encoder.marks)
    writer_free(&encoder.writer)


pf_choose_level()
