"""Containers inside serialised bytes: the checks, the cursor that walks checked bytes, the writer of new ones."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from puffin_fast._kernels.bytes cimport (
    ARRAY, ARRAY_MAX, BITMAP, COOKIE_RUNS, COUNT_BYTES, KEY_BYTES, OFFSETS_MIN_COUNT, RUN, Kind,
    header_size, load16, load32, load64, plain_size, run_size,
)

cdef enum:
    BRIEF = 65536               # bytes that are read or written in less time than other threads need to take the GIL


cdef struct Container:
    uint64_t key                # position >> 16
    const uint8_t* payload      # RUN: the first (start, length - 1) pair, past the u16 number of runs
    uint32_t cardinality
    uint32_t n_runs             # of a RUN container
    Kind kind
    bint minimal                # known to be in its smallest form, so that a copy need not look for another


cdef struct Cursor:
    const uint8_t* stop         # past the last byte that may be read
    const uint8_t* at           # cookie of the open 32-bit bitmap
    uint64_t bitmaps_left
    uint64_t key                # of the open bitmap << 16
    const uint8_t* flags        # which of its containers are runs; NULL for none
    const uint8_t* descriptors
    const uint8_t* offsets      # of each container from the cookie; NULL where there is no table
    const uint8_t* payload      # of its next container
    uint32_t index
    uint32_t count
    bint minimal                # of all containers; False unless the caller sets it after `cursor_start`


cdef struct Summary:
    uint64_t cardinality
    uint64_t n_containers[3]    # by Kind
    uint64_t first              # positions; undefined when cardinality is 0
    uint64_t last
    bint non_canonical          # valid, but in a form that this package never writes (listed at `validate`)
    bint minimal                # each container is known to be in its smallest form: bitmap containers are not examined


cdef struct Fault:
    int code                    # 0 for none, else an index into the messages in containers.pyx
    uint64_t offset             # of the failed check, from the start of the bytes
    uint64_t expected
    uint64_t found


cdef struct Bytes:
    # A growing buffer of malloc. Starts zeroed.
    uint8_t* data
    size_t size
    size_t capacity


cdef struct Record:
    # A container that was written. Its payload is in the writer's buffer.
    uint64_t key
    uint32_t cardinality
    uint32_t size_and_kind      # size << 2 | kind


cdef struct Writer:
    Bytes payload
    Bytes records               # of Record
    uint64_t cardinality
    bint broken                 # values did not ascend: another thread changed them after they were checked


cdef int validate(const uint8_t* data, size_t size, Summary* summary, Fault* fault) noexcept nogil
cdef object corrupt(const Fault* fault, object path, uint64_t base)

cdef bint grow(Bytes* buffer, size_t need) noexcept nogil
cdef void trim(Bytes* buffer) noexcept nogil
cdef void release(Bytes* buffer) noexcept nogil

cdef bint writer_start(Writer* writer, size_t expected)
cdef void writer_end(Writer* writer)
cdef void writer_free(Writer* writer) noexcept nogil
cdef uint8_t* writer_reserve(Writer* writer, size_t size) noexcept nogil
cdef bint writer_record(Writer* writer, uint64_t key, uint32_t cardinality, Kind kind, size_t size) noexcept nogil
cdef bint writer_array(Writer* writer, uint64_t key, const uint8_t* values, uint32_t n) noexcept nogil
cdef bint writer_bitmap(Writer* writer, uint64_t key, const uint8_t* bits) noexcept nogil
cdef bint writer_bits(Writer* writer, uint64_t key, uint32_t cardinality) noexcept nogil
cdef bint writer_runs(Writer* writer, uint64_t key, const uint8_t* pairs, uint32_t n_runs) noexcept nogil
cdef bint writer_copy(Writer* writer, const Container* container) noexcept nogil
cdef size_t writer_size(const Writer* writer) noexcept nogil
cdef void writer_store(const Writer* writer, uint8_t* out) noexcept nogil
cdef bytes new_bytes(size_t size)
cdef bytes finish(const Writer* writer)
cdef uint8_t* store_header(uint8_t* out, uint32_t count, bint has_run) noexcept nogil


cdef inline bint reserve(Bytes* buffer, size_t extra) noexcept nogil:
    """Reserves `extra` bytes past size. False when memory is out; the bytes are kept."""
    return buffer.size + extra <= buffer.capacity or grow(buffer, buffer.size + extra)


cdef inline void cursor_start(Cursor* cursor, const uint8_t* data, size_t size) noexcept nogil:
    """Sets a cursor before the first container of `size` bytes that `validate` has accepted.

    Another thread may have changed them since. A cursor may then return other containers, but none that passes the
    bytes' end.
    """
    cursor.stop = data + size
    cursor.bitmaps_left = load64(data)
    cursor.at = data + COUNT_BYTES
    cursor.payload = cursor.at
    cursor.key = 0
    cursor.flags = NULL
    cursor.descriptors = NULL
    cursor.offsets = NULL
    cursor.index = 0
    cursor.count = 0
    cursor.minimal = False


cdef inline bint cursor_open(Cursor* cursor) noexcept nogil:
    """Moves before the first container of the next 32-bit bitmap, which may have none. False after the last one.

    The cursor is past the last container of the open bitmap.
    """
    cdef uint32_t cookie
    cdef size_t need
    if cursor.bitmaps_left == 0 or cursor.stop - cursor.payload < KEY_BYTES + 8:
        return False
    cursor.bitmaps_left -= 1
    cursor.key = <uint64_t>load32(cursor.payload) << 16
    cursor.at = cursor.payload + KEY_BYTES
    cookie = load32(cursor.at)
    cursor.index = 0
    if cookie & 0xFFFF == COOKIE_RUNS:
        cursor.count = (cookie >> 16) + 1
        cursor.flags = cursor.at + 4
        cursor.descriptors = cursor.flags + (cursor.count + 7) // 8
        cursor.offsets = cursor.descriptors + 4 * <size_t>cursor.count if cursor.count >= OFFSETS_MIN_COUNT else NULL
    else:
        cursor.count = load32(cursor.at + 4)
        cursor.flags = NULL
        cursor.descriptors = cursor.at + 8
        cursor.offsets = cursor.descriptors + 4 * <size_t>cursor.count
    need = header_size(cursor.count, cursor.flags != NULL)
    if <size_t>(cursor.stop - cursor.at) < need:
        cursor.count = 0
        cursor.bitmaps_left = 0
        return False
    cursor.payload = cursor.at + need
    return True


cdef inline bint cursor_take(Cursor* cursor, Container* container) noexcept nogil:
    """Moves past the next container of the open 32-bit bitmap, which has one. False only for bytes that have changed."""
    cdef const uint8_t* descriptor = cursor.descriptors + 4 * <size_t>cursor.index
    cdef size_t left = cursor.stop - cursor.payload, need
    container.key = cursor.key | load16(descriptor)
    container.cardinality = <uint32_t>load16(descriptor + 2) + 1
    container.payload = cursor.payload
    container.minimal = cursor.minimal
    if cursor.flags != NULL and (cursor.flags[cursor.index >> 3] >> (cursor.index & 7)) & 1:
        container.kind = RUN
        container.n_runs = load16(cursor.payload) if left >= 2 else 0
        container.payload += 2
        need = run_size(container.n_runs)
    else:
        container.kind = ARRAY if container.cardinality <= ARRAY_MAX else BITMAP
        container.n_runs = 0
        need = plain_size(container.cardinality)
    if left < need:
        return False
    cursor.payload += need
    cursor.index += 1
    return True


cdef inline bint cursor_next(Cursor* cursor, Container* container) noexcept nogil:
    """Moves to the next container. False after the last one. Bitmaps without containers are skipped."""
    while cursor.index == cursor.count:
        if not cursor_open(cursor):
            return False
    return cursor_take(cursor, container)


cdef inline bint cursor_go(Cursor* cursor, uint32_t index) noexcept nogil:
    """Moves before a later container of the open 32-bit bitmap. False only for bytes that have changed."""
    cdef Container passed
    cdef size_t offset
    if cursor.offsets != NULL and cursor.index != index:
        offset = load32(cursor.offsets + 4 * <size_t>index)
        if offset > <size_t>(cursor.stop - cursor.at):
            return False
        cursor.payload = cursor.at + offset
        cursor.index = index
    while cursor.index < index:
        if not cursor_take(cursor, &passed):
            return False
    return True


cdef inline bint cursor_close(Cursor* cursor) noexcept nogil:
    """Moves past the last container of the open 32-bit bitmap. False where no other one follows."""
    cdef Container passed
    if cursor.bitmaps_left == 0:
        cursor.index = cursor.count
        return False
    return cursor.index == cursor.count or (cursor_go(cursor, cursor.count - 1) and cursor_take(cursor, &passed))
