"""Containers inside serialised bytes: the checks, and the writer of new ones.

The 64-bit portable format, all words little-endian:

    u64 number of 32-bit bitmaps | { u32 key | 32-bit bitmap }*

and a 32-bit bitmap:

    u32 12346 | u32 count | { u16 key, u16 cardinality - 1 }* | u32 offset * | containers
    u32 12347 | (count - 1) << 16 | run flags, (count + 7) / 8 bytes | { key, cardinality - 1 }*
        | u32 offset *, only when count >= 4 | containers

    array: u16 value *      bitmap: u64 word * 1024      run: u16 number | { u16 start, u16 length - 1 }*

Source: https://github.com/RoaringBitmap/RoaringFormatSpec and the Puffin specification, `deletion-vector-v1`.

One module because the checks, the cursor and the writer share structs, and calls between modules cannot be
inlined.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from puffin_fast._kernels.bytes cimport (
    ARRAY, ARRAY_MAX, BITMAP, BITMAP_BYTES, CHUNK, COOKIE_PLAIN, COOKIE_RUNS, COUNT_BYTES, KEY_BYTES, MAX_CONTAINERS, MAX_KEY,
    MAX_POSITION,
    OFFSETS_MIN_COUNT, RUN, Kind, choose, container_size, header_size, load16, load32, load64, plain_size,
    run_size, store16, store32, store64,
)

from puffin_fast.errors import CorruptDataError

cdef extern from "arrays.h" nogil:
    int pf_array_check(const uint8_t* values, size_t n, uint32_t* adjacent)
    uint32_t pf_runs_check(const uint8_t* pairs, size_t n, int* touching)
    uint32_t pf_runs_of_array(const uint8_t* values, size_t n, uint8_t* out)

cdef extern from "bitmap_combine.h" nogil:
    void pf_set_range(uint8_t* bits, uint64_t start, uint64_t end)

cdef extern from "bitmap_count.h" nogil:
    uint32_t pf_bitmap_cardinality(const uint8_t* bits)
    uint32_t pf_bitmap_runs(const uint8_t* bits)

cdef extern from "bitmap_expand.h" nogil:
    size_t pf_values_of_bitmap(const uint8_t* bits, uint8_t* out, size_t capacity)
    void pf_runs_of_bitmap(const uint8_t* bits, uint8_t* out, uint32_t n_runs)

cdef extern from "simd.h" nogil:
    int pf_choose_level()

cdef extern from "memory.h" nogil:
    void pf_ask_for_huge_pages(void* data, size_t size)

cdef enum FaultCode:
    TRUNCATED = 1
    TOO_MANY_BITMAPS
    KEY_ORDER
    KEY_RANGE
    COOKIE
    COUNT
    CONTAINER_ORDER
    OFFSET
    ARRAY_ORDER
    BITMAP_CARDINALITY
    RUN_ORDER
    RUN_RANGE
    RUN_CARDINALITY
    POSITION_RANGE
    TRAILING

_FAULTS = (
    "",
    "truncated: bytes needed from here, bytes left",
    "number of 32-bit bitmaps is more than the bytes can hold",
    "keys of 32-bit bitmaps must ascend strictly: above the one before",
    "key of a 32-bit bitmap is above 2^31 - 2, the largest that Java reads",
    "cookie of a 32-bit bitmap (12347 in the low 16 bits is the other one allowed)",
    "number of containers is more than 65536",
    "container keys must ascend strictly: above the one before",
    "offset table disagrees with where the container lies",
    "array container's values must ascend strictly",
    "bitmap container's set bits disagree with its cardinality",
    "runs must ascend and not overlap: start at or after",
    "run passes 65535",
    "run container's lengths disagree with its cardinality",
    "largest position is above what Java writes",
    "trailing bytes after the last container",
)


cdef object corrupt(const Fault* fault, object path, uint64_t base):
    """Makes the exception for a `Fault`. base is added to its offset."""
    return CorruptDataError(
        _FAULTS[fault.code], path=path, offset=fault.offset + base, expected=fault.expected, found=fault.found
    )


cdef inline int fail(Fault* fault, int code, size_t offset, uint64_t expected, uint64_t found) noexcept nogil:
    fault.code = code
    fault.offset = offset
    fault.expected = expected
    fault.found = found
    return code


cdef struct Header:
    # Of a 32-bit bitmap.
    const uint8_t* flags        # which containers are runs; NULL for none
    const uint8_t* descriptors
    const uint8_t* offsets      # of each container; NULL where there is no table
    uint32_t count
    size_t size


cdef struct Found:
    # The result of the check of one container.
    Kind kind
    size_t size
    uint32_t first              # values
    uint32_t last


cdef int check_header(const uint8_t* data, size_t size, size_t at, Header* header, Summary* summary,
                      Fault* fault) noexcept nogil:
    """Reads the header of the 32-bit bitmap at `at`, which has at least 8 bytes, and checks that it is complete."""
    cdef uint32_t cookie = load32(data + at)
    if cookie & 0xFFFF == COOKIE_RUNS:
        header.count = (cookie >> 16) + 1
        header.size = header_size(header.count, True)
        if size - at < header.size:
            return fail(fault, TRUNCATED, at, header.size, size - at)
        header.flags = data + at + 4
        header.descriptors = header.flags + (header.count + 7) // 8
        header.offsets = header.descriptors + 4 * <size_t>header.count if header.count >= OFFSETS_MIN_COUNT else NULL
        if header.count & 7 and header.flags[header.count >> 3] >> (header.count & 7):
            summary.non_canonical = True
        return 0
    if cookie != COOKIE_PLAIN:
        return fail(fault, COOKIE, at, COOKIE_PLAIN, cookie)
    header.count = load32(data + at + 4)
    if header.count > MAX_CONTAINERS:
        return fail(fault, COUNT, at + 4, MAX_CONTAINERS, header.count)
    header.size = header_size(header.count, False)
    if size - at < header.size:
        return fail(fault, TRUNCATED, at, header.size, size - at)
    header.flags = NULL
    header.descriptors = data + at + 8
    header.offsets = header.descriptors + 4 * <size_t>header.count
    return 0


cdef int check_run(const uint8_t* data, size_t size, size_t at, uint32_t cardinality, Found* found, Summary* summary,
                   Fault* fault) noexcept nogil:
    """A run container: its runs ascend, do not overlap, and hold as many values as stated."""
    cdef const uint8_t* pairs = data + at + 2
    cdef uint32_t runs, total
    cdef int touching = 0
    if size - at < 2:
        return fail(fault, TRUNCATED, at, 2, size - at)
    runs = load16(data + at)
    found.kind = RUN
    found.size = run_size(runs)
    if size - at < found.size:
        return fail(fault, TRUNCATED, at, found.size, size - at)
    total = pf_runs_check(pairs, runs, &touching) if runs > 0 else 0
    if total == 0 and runs > 0:
        return fail_runs(fault, data, at, runs)
    if total != cardinality:
        return fail(fault, RUN_CARDINALITY, at, cardinality, total)
    if touching or choose(cardinality, runs) != RUN:
        summary.non_canonical = True
    found.first = load16(pairs)
    found.last = load16(pairs + 4 * <size_t>(runs - 1)) + load16(pairs + 4 * <size_t>(runs - 1) + 2)
    return 0


cdef int fail_runs(Fault* fault, const uint8_t* data, size_t at, uint32_t n_runs) noexcept nogil:
    """Finds the run that overlaps the one before it or passes 65535."""
    cdef const uint8_t* pairs = data + at + 2
    cdef uint32_t i, start, end = 0
    for i in range(n_runs):
        start = load16(pairs + 4 * <size_t>i)
        if start < end:
            return fail(fault, RUN_ORDER, pairs + 4 * <size_t>i - data, end, start)
        end = start + load16(pairs + 4 * <size_t>i + 2) + 1
        if end > CHUNK:
            return fail(fault, RUN_RANGE, pairs + 4 * <size_t>i - data, CHUNK - 1, end - 1)
    return fail(fault, RUN_ORDER, at, 0, 0)     # only if another thread changes the bytes


cdef int check_array(const uint8_t* data, size_t size, size_t at, uint32_t cardinality, Found* found, Summary* summary,
                     Fault* fault) noexcept nogil:
    """An array container: its values ascend."""
    cdef uint32_t adjacent
    found.kind = ARRAY
    found.size = plain_size(cardinality)
    if size - at < found.size:
        return fail(fault, TRUNCATED, at, found.size, size - at)
    if not pf_array_check(data + at, cardinality, &adjacent):
        return fail_array(fault, data, at, cardinality)
    if choose(cardinality, cardinality - adjacent) != ARRAY:
        summary.minimal = False
    found.first = load16(data + at)
    found.last = load16(data + at + found.size - 2)
    return 0


cdef int check_bitmap(const uint8_t* data, size_t size, size_t at, uint32_t cardinality, bint is_first, Found* found,
                      Fault* fault) noexcept nogil:
    """A bitmap container: its cardinality is right. Its first value is looked up if it is the bitmap's first container."""
    cdef uint32_t bits_set
    found.kind = BITMAP
    found.size = BITMAP_BYTES
    if size - at < found.size:
        return fail(fault, TRUNCATED, at, found.size, size - at)
    bits_set = pf_bitmap_cardinality(data + at)
    if bits_set != cardinality:
        return fail(fault, BITMAP_CARDINALITY, at, cardinality, bits_set)
    found.first = bitmap_first(data + at) if is_first else 0
    found.last = bitmap_last(data + at)
    return 0


cdef int validate(const uint8_t* data, size_t size, Summary* summary, Fault* fault) noexcept nogil:
    """Checks every rule of the format in all of `size` bytes. Reads no byte past them and allocates nothing.

    Refused: truncation at any place, trailing bytes, keys or container keys out of order or repeated, a key or
    position above Java's maximum, an unknown cookie, more than 65,536 containers, a wrong offset table, arrays or runs
    out of order or overlapping, a wrong cardinality. Accepted, though this package never writes them (`non_canonical`): 32-bit
    bitmaps without containers, run containers no smaller than the array or bitmap would be, runs that touch, the run
    cookie without a run container, run flags past the last container.

    Returns 0, or the fault's code.
    """
    cdef uint64_t n_bitmaps, b, before = 0, base
    cdef uint32_t i, key, last_key, cardinality
    cdef size_t at, start, last_container = 0
    cdef Header header
    cdef Found found
    cdef const uint8_t* descriptor
    cdef bint has_run
    memset(summary, 0, sizeof(Summary))
    summary.minimal = True
    fault.code = 0
    if size < COUNT_BYTES:
        return fail(fault, TRUNCATED, 0, COUNT_BYTES, size)
    n_bitmaps = load64(data)
    at = COUNT_BYTES
    # the smallest bitmap is a key and an empty 12346 header
    if n_bitmaps > (size - at) // (KEY_BYTES + 8):
        return fail(fault, TOO_MANY_BITMAPS, 0, (size - at) // (KEY_BYTES + 8), n_bitmaps)
    for b in range(n_bitmaps):
        if size - at < KEY_BYTES + 8:
            return fail(fault, TRUNCATED, at, KEY_BYTES + 8, size - at)
        key = load32(data + at)
        if b > 0 and key <= before:
            return fail(fault, KEY_ORDER, at, before, key)
        if key > MAX_KEY:
            return fail(fault, KEY_RANGE, at, MAX_KEY, key)
        before = key
        at += KEY_BYTES
        start = at
        if check_header(data, size, at, &header, summary, fault) != 0:
            return fault.code
        at += header.size
        last_key = 0
        has_run = False
        for i in range(header.count):
            descriptor = header.descriptors + 4 * <size_t>i
            key = load16(descriptor)
            cardinality = <uint32_t>load16(descriptor + 2) + 1
            if i > 0 and key <= last_key:
                return fail(fault, CONTAINER_ORDER, descriptor - data, last_key, key)
            last_key = key
            if header.offsets != NULL and load32(header.offsets + 4 * <size_t>i) != at - start:
                return fail(fault, OFFSET, header.offsets + 4 * <size_t>i - data, at - start,
                            load32(header.offsets + 4 * <size_t>i))
            if header.flags != NULL and (header.flags[i >> 3] >> (i & 7)) & 1:
                has_run = True
                if check_run(data, size, at, cardinality, &found, summary, fault) != 0:
                    return fault.code
            elif cardinality <= ARRAY_MAX:
                if check_array(data, size, at, cardinality, &found, summary, fault) != 0:
                    return fault.code
            elif check_bitmap(data, size, at, cardinality, summary.cardinality == 0, &found, fault) != 0:
                return fault.code
            base = before << 32 | <uint64_t>key << 16
            if summary.cardinality == 0:
                summary.first = base | found.first
            summary.last = base | found.last
            summary.n_containers[<int>found.kind] += 1
            summary.cardinality += cardinality
            last_container = at
            at += found.size
        if header.count == 0 or (header.flags != NULL and not has_run):
            summary.non_canonical = True
    if summary.non_canonical or summary.n_containers[<int>BITMAP] > 0:
        summary.minimal = False
    if summary.cardinality > 0 and summary.last > MAX_POSITION:
        return fail(fault, POSITION_RANGE, last_container, MAX_POSITION, summary.last)
    if at != size:
        return fail(fault, TRAILING, at, 0, size - at)
    return 0


cdef int fail_array(Fault* fault, const uint8_t* data, size_t at, uint32_t cardinality) noexcept nogil:
    """Finds the value that is not above the one before it."""
    cdef uint32_t i
    cdef uint16_t before = load16(data + at), value
    for i in range(1, cardinality):
        value = load16(data + at + 2 * <size_t>i)
        if value <= before:
            return fail(fault, ARRAY_ORDER, at + 2 * <size_t>i, before + 1, value)
        before = value
    return fail(fault, ARRAY_ORDER, at, 0, 0)


cdef uint32_t bitmap_first(const uint8_t* bits) noexcept nogil:
    cdef uint32_t i = 0, bit = 0
    while i < BITMAP_BYTES - 1 and bits[i] == 0:    # bounded, because another thread may clear the bits
        i += 1
    while bit < 7 and not (bits[i] >> bit) & 1:
        bit += 1
    return 8 * i + bit


cdef uint32_t bitmap_last(const uint8_t* bits) noexcept nogil:
    cdef uint32_t i = BITMAP_BYTES - 1, bit = 7
    while i > 0 and bits[i] == 0:
        i -= 1
    while bit > 0 and not (bits[i] >> bit) & 1:
        bit -= 1
    return 8 * i + bit


# ---- growing buffers ------------------------------------------------------------------------------------------

cdef bint grow(Bytes* buffer, size_t need) noexcept nogil:
    """Allocates at least `need` bytes and twice the capacity. False when memory is out; the bytes are kept."""
    cdef size_t capacity = 2 * buffer.capacity
    cdef void* grown
    if capacity < need:
        capacity = need
    if capacity < 256:
        capacity = 256
    grown = realloc(buffer.data, capacity)
    if grown == NULL:
        return False
    buffer.data = <uint8_t*>grown
    buffer.capacity = capacity
    pf_ask_for_huge_pages(grown, capacity)
    return True


cdef void trim(Bytes* buffer) noexcept nogil:
    """Frees the memory past size, if it is more than an eighth."""
    cdef void* fitted
    if buffer.size > 0 and buffer.capacity - buffer.size > buffer.size // 8:
        fitted = realloc(buffer.data, buffer.size)
        if fitted != NULL:
            buffer.data = <uint8_t*>fitted
            buffer.capacity = buffer.size


cdef void release(Bytes* buffer) noexcept nogil:
    free(buffer.data)
    buffer.data = NULL
    buffer.size = 0
    buffer.capacity = 0


# ---- the writer: containers in ascending order of key, each in the smallest form -----------

cdef enum:
    REUSED_MAX = 16777216         # bytes of payloads, and of records, whose memory the next call may reuse

cdef Writer reusable                # new pages cost more than the set operations that write to them; guarded by the GIL


cdef bint writer_start(Writer* writer, size_t expected):
    """Prepares a writer with memory for the expected bytes of payload. False when memory is out."""
    writer[0] = reusable
    memset(&reusable, 0, sizeof(Writer))
    writer.payload.size = 0
    writer.records.size = 0
    writer.cardinality = 0
    writer.broken = False
    return reserve(&writer.payload, expected)


cdef void writer_end(Writer* writer):
    """Frees a writer, or keeps its memory for the next one."""
    global reusable
    if (writer.payload.capacity <= REUSED_MAX and writer.records.capacity <= REUSED_MAX
            and writer.payload.capacity >= reusable.payload.capacity):
        writer_free(&reusable)
        reusable = writer[0]
        memset(writer, 0, sizeof(Writer))
    else:
        writer_free(writer)


cdef void writer_free(Writer* writer) noexcept nogil:
    release(&writer.payload)
    release(&writer.records)


cdef uint8_t* writer_reserve(Writer* writer, size_t size) noexcept nogil:
    """Reserves `size` bytes for the next payload and returns their address; NULL when memory is out."""
    if not reserve(&writer.payload, size):
        return NULL
    return writer.payload.data + writer.payload.size


cdef bint writer_record(Writer* writer, uint64_t key, uint32_t cardinality, Kind kind, size_t size) noexcept nogil:
    """Appends a container whose payload of `size` bytes is already in the reserved space."""
    cdef Record* record
    if not reserve(&writer.records, sizeof(Record)):
        return False
    record = <Record*>(writer.records.data + writer.records.size)
    record.key = key
    record.cardinality = cardinality
    record.size_and_kind = <uint32_t>(size << 2) | <uint32_t>kind
    writer.records.size += sizeof(Record)
    writer.payload.size += size
    writer.cardinality += cardinality
    return True


cdef bint writer_array(Writer* writer, uint64_t key, const uint8_t* values, uint32_t n) noexcept nogil:
    """Writes a container of n <= 4,096 ascending values; none for n = 0. The values are outside of the writer's memory.

    They are checked after they were copied. Values that another thread has changed set `broken`.
    """
    cdef uint32_t adjacent, n_runs
    cdef uint8_t* out
    if n == 0:
        return True
    if n > ARRAY_MAX:
        writer.broken = True
        return True
    out = writer_reserve(writer, plain_size(n))
    if out == NULL:
        return False
    memcpy(out, values, plain_size(n))
    if not pf_array_check(out, n, &adjacent):
        writer.broken = True
        return True
    n_runs = n - adjacent
    if choose(n, n_runs) == RUN:
        return writer_record(writer, key, n, RUN, array_to_runs(out, n, n_runs))
    return writer_record(writer, key, n, ARRAY, plain_size(n))


cdef size_t array_to_runs(uint8_t* container, uint32_t n, uint32_t n_runs) noexcept nogil:
    """Writes a run container over an array container, which is larger. Returns its size."""
    cdef uint8_t pairs[2 * ARRAY_MAX]
    pf_runs_of_array(container, n, pairs)
    store16(container, <uint16_t>n_runs)
    memcpy(container + 2, pairs, 4 * <size_t>n_runs)
    return run_size(n_runs)


cdef bint store_bits(Writer* writer, uint64_t key, const uint8_t* bits, uint32_t cardinality, uint32_t n_runs) noexcept nogil:
    """Writes a container of `cardinality` > 0 bits, which are outside of the writer's memory."""
    cdef Kind kind = choose(cardinality, n_runs)
    cdef size_t size = container_size(kind, cardinality, n_runs)
    cdef uint8_t* out = writer_reserve(writer, size)
    if out == NULL:
        return False
    if kind == RUN:
        store16(out, <uint16_t>n_runs)
        pf_runs_of_bitmap(bits, out + 2, n_runs)
    elif kind == ARRAY:
        pf_values_of_bitmap(bits, out, cardinality)
    else:
        memcpy(out, bits, BITMAP_BYTES)
    return writer_record(writer, key, cardinality, kind, size)


cdef bint writer_bitmap(Writer* writer, uint64_t key, const uint8_t* bits) noexcept nogil:
    """Writes a container of the set bits; none when no bit is set. The bits are outside of the writer's memory."""
    cdef uint32_t cardinality = pf_bitmap_cardinality(bits)
    return cardinality == 0 or store_bits(writer, key, bits, cardinality, pf_bitmap_runs(bits))


cdef bint writer_bits(Writer* writer, uint64_t key, uint32_t cardinality) noexcept nogil:
    """As `writer_bitmap`, of `cardinality` bits in the memory that `writer_reserve` has returned."""
    cdef uint8_t bits[BITMAP_BYTES]
    cdef const uint8_t* reserved = writer.payload.data + writer.payload.size
    cdef uint32_t n_runs
    if cardinality == 0:
        return True
    n_runs = pf_bitmap_runs(reserved)
    if choose(cardinality, n_runs) == BITMAP:
        return writer_record(writer, key, cardinality, BITMAP, BITMAP_BYTES)
    memcpy(bits, reserved, BITMAP_BYTES)
    return store_bits(writer, key, bits, cardinality, n_runs)


cdef bint writer_runs(Writer* writer, uint64_t key, const uint8_t* pairs, uint32_t n_runs) noexcept nogil:
    """Writes a container of n_runs ascending runs that neither overlap nor touch; none for n_runs = 0."""
    cdef uint32_t cardinality = 0, i, j, start, length
    cdef size_t size
    cdef Kind kind
    cdef uint8_t* out
    cdef uint8_t* to
    if n_runs == 0:
        return True
    for i in range(n_runs):
        cardinality += <uint32_t>load16(pairs + 4 * <size_t>i + 2) + 1
    kind = choose(cardinality, n_runs)
    size = container_size(kind, cardinality, n_runs)
    out = writer_reserve(writer, size)
    if out == NULL:
        return False
    if kind == RUN:
        store16(out, <uint16_t>n_runs)
        memcpy(out + 2, pairs, 4 * <size_t>n_runs)
        return writer_record(writer, key, cardinality, RUN, size)
    if kind == BITMAP:
        memset(out, 0, BITMAP_BYTES)
    to = out
    for i in range(n_runs):
        start = load16(pairs + 4 * <size_t>i)
        length = <uint32_t>load16(pairs + 4 * <size_t>i + 2) + 1
        if kind == BITMAP:
            pf_set_range(out, start, start + length)
        else:
            for j in range(length):
                store16(to, <uint16_t>(start + j))
                to += 2
    return writer_record(writer, key, cardinality, kind, size)


cdef uint32_t join_runs(const Container* container, uint8_t* pairs, bint* broken) noexcept nogil:
    """Copies the container's runs and joins those that touch. Returns their number. Sets broken when they overlap."""
    cdef uint32_t i, n = 0, start, end, last_end = 0
    for i in range(container.n_runs):
        start = load16(container.payload + 4 * <size_t>i)
        end = start + load16(container.payload + 4 * <size_t>i + 2) + 1
        if start < last_end or end > CHUNK:
            broken[0] = True
            return 0
        if n > 0 and start == last_end:
            n -= 1
            start = load16(pairs + 4 * <size_t>n)
        store16(pairs + 4 * <size_t>n, <uint16_t>start)
        store16(pairs + 4 * <size_t>n + 2, <uint16_t>(end - start - 1))
        last_end = end
        n += 1
    return n


cdef bint writer_copy(Writer* writer, const Container* container) noexcept nogil:
    """Appends a copy of a container, in the form that this package writes."""
    cdef Bytes scratch
    cdef uint8_t* out
    cdef bint done
    cdef size_t size
    if container.minimal:
        size = container_size(container.kind, container.cardinality, container.n_runs)
        out = writer_reserve(writer, size)
        if out == NULL:
            return False
        memcpy(out, container.payload - (2 if container.kind == RUN else 0), size)
        return writer_record(writer, container.key, container.cardinality, container.kind, size)
    if container.kind == ARRAY:
        return writer_array(writer, container.key, container.payload, container.cardinality)
    if container.kind == BITMAP:
        out = writer_reserve(writer, BITMAP_BYTES)
        if out == NULL:
            return False
        memcpy(out, container.payload, BITMAP_BYTES)    # counted after it was copied: the payload may change
        return writer_bits(writer, container.key, pf_bitmap_cardinality(out))
    memset(&scratch, 0, sizeof(Bytes))
    if not reserve(&scratch, 4 * <size_t>container.n_runs):
        return False
    done = writer_runs(writer, container.key, scratch.data, join_runs(container, scratch.data, &writer.broken))
    release(&scratch)
    return done


cdef size_t writer_size(const Writer* writer) noexcept nogil:
    """Exact size of the serialised bitmap."""
    cdef const Record* records = <const Record*>writer.records.data
    cdef size_t n = writer.records.size // sizeof(Record), i = 0, first
    cdef size_t size = COUNT_BYTES + writer.payload.size
    cdef bint has_run
    while i < n:
        first = i
        has_run = False
        while i < n and records[i].key >> 16 == records[first].key >> 16:
            has_run |= records[i].size_and_kind & 3 == <uint32_t>RUN
            i += 1
        size += KEY_BYTES + header_size(<uint32_t>(i - first), has_run)
    return size


cdef uint8_t* store_header(uint8_t* out, uint32_t count, bint has_run) noexcept nogil:
    """Writes cookie and count, and zeros the run flags. Returns the address of the descriptors."""
    if not has_run:
        store32(out, COOKIE_PLAIN)
        store32(out + 4, count)
        return out + 8
    store32(out, COOKIE_RUNS | ((count - 1) << 16))
    memset(out + 4, 0, (count + 7) // 8)
    return out + 4 + (count + 7) // 8


cdef void writer_store(const Writer* writer, uint8_t* out) noexcept nogil:
    """Writes the `writer_size` bytes of the serialised bitmap."""
    cdef const Record* records = <const Record*>writer.records.data
    cdef const uint8_t* payload = writer.payload.data
    cdef size_t n = writer.records.size // sizeof(Record), i = 0, first, j, offset, total
    cdef uint64_t n_bitmaps = 0
    cdef uint32_t count
    cdef bint has_run
    cdef uint8_t* at = out + COUNT_BYTES
    cdef uint8_t* start
    cdef uint8_t* descriptors
    while i < n:
        first = i
        has_run = False
        total = 0
        while i < n and records[i].key >> 16 == records[first].key >> 16:
            has_run |= records[i].size_and_kind & 3 == <uint32_t>RUN
            total += records[i].size_and_kind >> 2
            i += 1
        count = <uint32_t>(i - first)
        store32(at, <uint32_t>(records[first].key >> 16))
        start = at + KEY_BYTES
        descriptors = store_header(start, count, has_run)
        offset = header_size(count, has_run)
        for j in range(count):
            if has_run and records[first + j].size_and_kind & 3 == <uint32_t>RUN:
                start[4 + (j >> 3)] |= <uint8_t>(1 << (j & 7))
            store16(descriptors + 4 * j, <uint16_t>records[first + j].key)
            store16(descriptors + 4 * j + 2, <uint16_t>(records[first + j].cardinality - 1))
            if not has_run or count >= OFFSETS_MIN_COUNT:
                store32(descriptors + 4 * count + 4 * j, <uint32_t>offset)
            offset += records[first + j].size_and_kind >> 2
        memcpy(start + header_size(count, has_run), payload, total)
        payload += total
        at = start + offset
        n_bitmaps += 1
    store64(out, n_bitmaps)


cdef bytes new_bytes(size_t size):
    """Makes a bytes object whose bytes are not yet written."""
    cdef bytes result = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
    pf_ask_for_huge_pages(PyBytes_AsString(result), size)
    return result


cdef bytes finish(const Writer* writer):
    """Returns the bytes of the written bitmap."""
    cdef size_t size = writer_size(writer)
    cdef bytes result = new_bytes(size)
    cdef uint8_t* out = <uint8_t*>PyBytes_AsString(result)
    if size < BRIEF:
        writer_store(writer, out)
    else:
        with nogil:
            writer_store(writer, out)
    return result


pf_choose_level()
