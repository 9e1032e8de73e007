"""Many vectors a call: columns of lists, blobs and groups, in and out as flat buffers with offsets (Arrow's layout).

Each function takes contiguous buffers, works without the GIL, and returns `Block`s that Arrow wraps without a copy.
Offsets are int64, n + 1 of them; each function checks that they ascend inside what they point into, since what comes
through Arrow's C interface may have any offsets. Scratch is that of the largest single vector.

Blobs are checked and then read where they lie. Arrow's buffers are immutable by its specification; where another
thread writes to them during a call nevertheless, no memory but the result's is written to and no other is read, and
the result is an error or holds some other positions: cursors stop at the blob's end, what is written is bounded by
what was counted, and unions check what they have written.

Each function is one entry point over whole columns, and all share `Block`, `_Blobs` and their checks.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from puffin_fast._kernels.roaring.containers cimport (
    Bytes, Cursor, Container, Fault, Summary, Writer, cursor_next, cursor_start, release, reserve, trim, writer_free,
    writer_size, writer_store,
)
from puffin_fast._kernels.roaring.decode cimport expand
from puffin_fast._kernels.roaring.encode cimport (
    CHANGED, ENCODED, OUT_OF_MEMORY, OUT_OF_RANGE, Encoder, encoder_free, encoder_measure, encoder_store,
)
from puffin_fast._kernels.roaring.frames cimport FRAME_BYTES, HEAD_BYTES, MAGIC_BYTES, MAX_LENGTH, check_blob, corrupt_blob, store_frame
from puffin_fast._kernels.roaring.masks cimport fill_bits
from puffin_fast._kernels.roaring.query cimport has
from puffin_fast._kernels.roaring.setops cimport (
    N_SCRATCH, PF_ANDNOT, SCRATCH, UNION_OUT_OF_MEMORY, UNITED, UnionScratch, UnionStatus, Vector, combine_all, union_all,
    union_free, union_ready,
)
from puffin_fast._kernels.views cimport Buffer, buffer_of, pf_nothing

from puffin_fast.errors import InvalidInputError, LimitExceededError

cdef extern from "flags.h" nogil:
    void pf_append_bits(const uint8_t* bits, size_t n_bits, uint8_t* out, size_t at)

cdef extern from "simd.h" nogil:
    int pf_choose_level()

cdef enum Limit:
    MOST_ROWS = 0x0FFFFFFFFFFFFFFF      # of all masks of a call together

cdef enum:
    LIST_BYTES = 64             # of a blob, beside two for each position
    TOO_LONG = 100              # beside EncodeStatus: a blob past what its length field may say


cdef class Block:
    """Owned bytes with the buffer protocol; read-only from outside."""

    cdef Bytes bytes_

    def __dealloc__(self):
        release(&self.bytes_)

    def __len__(self):
        return self.bytes_.size

    def __getbuffer__(self, Py_buffer* view, int flags):
        cdef uint8_t* data = self.bytes_.data
        if data == NULL:
            data = <uint8_t*>pf_nothing
        PyBuffer_FillInfo(view, self, data, <Py_ssize_t>self.bytes_.size, 1, flags)


cdef Block new_block(size_t size):
    """A block of exactly `size` bytes, not yet written."""
    cdef Block block = Block()
    if not reserve(&block.bytes_, max(size, <size_t>1)):
        raise MemoryError(f"a result of {size} bytes")
    block.bytes_.size = size
    return block


cdef bint append_blob(Bytes* blobs, size_t vector_size, uint8_t** vector) noexcept nogil:
    """Reserves memory for one more framed vector and returns the address of the vector; False when memory is out."""
    if not reserve(blobs, FRAME_BYTES + vector_size):
        return False
    vector[0] = blobs.data + blobs.size + HEAD_BYTES
    return True


cdef bint seal_blob(Bytes* blobs, size_t vector_size) noexcept nogil:
    """Frames the vector in the reserved memory and appends it. False when memory is out."""
    if not store_frame(blobs.data + blobs.size, vector_size):
        return False
    blobs.size += FRAME_BYTES + vector_size
    return True


cdef int append_written(Bytes* blobs, const Writer* writer) noexcept nogil:
    """Frames what a set operation has written and appends it; returns ENCODED, OUT_OF_MEMORY or TOO_LONG."""
    cdef size_t size = writer_size(writer)
    cdef uint8_t* vector
    if MAGIC_BYTES + size > MAX_LENGTH:
        return TOO_LONG
    if not append_blob(blobs, size, &vector):
        return OUT_OF_MEMORY
    writer_store(writer, vector)
    return ENCODED if seal_blob(blobs, size) else OUT_OF_MEMORY


cdef void restart(Writer* writer) noexcept nogil:
    """Empties a writer and keeps its memory."""
    writer.payload.size = 0
    writer.records.size = 0
    writer.cardinality = 0


cdef int check_offsets(Buffer offsets, size_t n, uint64_t limit) except -1:
    """Refuses n + 1 int64 offsets that do not ascend from 0 or more to `limit` at most."""
    cdef const int64_t* bounds = <const int64_t*>offsets.data
    cdef size_t i, bad
    if offsets.size // 8 < n + 1:
        raise ValueError(f"expected {n + 1} offsets, found {offsets.size // 8}")
    bad = n + 1
    with nogil:
        for i in range(n):
            if bounds[i + 1] < bounds[i]:
                bad = i
                break
    if bad <= n:
        raise InvalidInputError(f"row {bad}: offsets must ascend: found {bounds[bad]}, then {bounds[bad + 1]}")
    if bounds[0] < 0 or <uint64_t>bounds[n] > limit:
        raise InvalidInputError(f"offsets: expected 0 to {limit}, found {bounds[0]} to {bounds[n]}")
    return 0


cdef int encode_all(const uint64_t* values, const int64_t* offsets, size_t n, uint64_t maximum, Bytes* blobs,
                    int64_t* ends, int64_t* cardinalities, size_t* bad) noexcept nogil:
    cdef Encoder encoder
    cdef size_t i
    cdef int status = ENCODED
    cdef uint8_t* vector
    memset(&encoder, 0, sizeof(Encoder))
    ends[0] = 0
    # what sorted lists of a few chunks need at most; address space until it is written, given back at the end
    if not reserve(blobs, 2 * <size_t>(offsets[n] - offsets[0]) + LIST_BYTES * n):
        return OUT_OF_MEMORY
    for i in range(n):
        bad[0] = i
        status = encoder_measure(&encoder, values + offsets[i], <size_t>(offsets[i + 1] - offsets[i]), maximum)
        if status == ENCODED and MAGIC_BYTES + encoder.size > MAX_LENGTH:
            status = TOO_LONG
        if status == ENCODED and not append_blob(blobs, encoder.size, &vector):
            status = OUT_OF_MEMORY
        if status != ENCODED:
            break
        status = encoder_store(&encoder, vector)
        if status == ENCODED and not seal_blob(blobs, encoder.size):
            status = OUT_OF_MEMORY
        if status != ENCODED:
            break
        ends[i + 1] = <int64_t>blobs.size
        cardinalities[i] = <int64_t>encoder.cardinality
    encoder_free(&encoder)
    trim(blobs)
    return status


cdef object too_long(size_t i):
    return LimitExceededError(f"vector {i}: expected at most {MAX_LENGTH} bytes of magic and vector, found more")


def encode_lists(values, offsets, size_t n, uint64_t maximum):
    """A framed blob for each of n lists of positions.

    Args:
        values: 8-byte integers. offsets: n + 1 int64 into them.

    Returns:
        (blobs, their offsets, cardinalities), or the index of a list with a position out of range.

    Raises:
        InvalidInputError: offsets that do not ascend inside the values; or another thread changed a list meanwhile
            (where that was noticed).
        LimitExceededError: a blob past 2 GiB.
    """
    cdef Buffer numbers = buffer_of(values), bounds = buffer_of(offsets)
    cdef Block blobs = Block()
    cdef Block ends = new_block(8 * (n + 1))
    cdef Block cardinalities = new_block(8 * n)
    cdef size_t bad = 0
    cdef int status
    check_offsets(bounds, n, numbers.size // 8)
    with nogil:
        status = encode_all(<const uint64_t*>numbers.data, <const int64_t*>bounds.data, n, maximum, &blobs.bytes_,
                            <int64_t*>ends.bytes_.data, <int64_t*>cardinalities.bytes_.data, &bad)
    if status == OUT_OF_RANGE:
        return bad
    if status == OUT_OF_MEMORY:
        raise MemoryError(f"encoding vector {bad}")
    if status == CHANGED:
        raise InvalidInputError(f"row {bad}: changed by another thread while it was encoded")
    if status == TOO_LONG:
        raise too_long(bad)
    return blobs, ends, cardinalities


def group(ids, values, size_t n_groups):
    """The values of each group in their order of appearance, group after group.

    Args:
        ids: int32, below n_groups. values: as many 8-byte integers.

    Returns:
        (values, offsets).

    Raises:
        InvalidInputError: an id that is no group's, or another thread changed the ids meanwhile.
    """
    cdef Buffer keys = buffer_of(ids), numbers = buffer_of(values)
    cdef Block offsets = new_block(8 * (n_groups + 1))
    cdef Block grouped
    cdef int64_t* at = <int64_t*>offsets.bytes_.data
    cdef const int32_t* id_of
    cdef const uint64_t* value_of
    cdef uint64_t* out
    cdef size_t i, n, g, bad
    cdef uint32_t id_
    n = keys.size // 4
    if numbers.size // 8 < n:
        raise ValueError(f"{n} ids and {numbers.size // 8} values")
    bad = n
    grouped = new_block(8 * n)
    id_of = <const int32_t*>keys.data
    value_of = <const uint64_t*>numbers.data
    out = <uint64_t*>grouped.bytes_.data
    with nogil:
        memset(at, 0, 8 * (n_groups + 1))
        for i in range(n):
            id_ = <uint32_t>id_of[i]        # a negative one is above all groups
            if id_ >= n_groups:
                bad = i
                break
            at[id_ + 1] += 1
        if bad == n:
            for g in range(n_groups):
                at[g + 1] += at[g]
            for i in range(n):
                id_ = <uint32_t>id_of[i]
                if id_ >= n_groups or <size_t>at[id_] >= n:     # it was not when it was counted
                    bad = i
                    break
                out[at[id_]] = value_of[i]
                at[id_] += 1
            g = n_groups    # each start has moved to its end: move them back
            while g > 0:
                at[g] = at[g - 1]
                g -= 1
            at[0] = 0
    if bad < n:
        raise InvalidInputError(f"row {bad}: expected one of {n_groups} groups, found {id_of[bad]}")
    return grouped, offsets


cdef size_t check_all(const uint8_t* data, const int64_t* bounds, size_t n, int64_t* cardinalities, int* code,
                      Fault* fault) noexcept nogil:
    """Checks n blobs; returns the index of the first that is not sound (code != 0), or n."""
    cdef size_t i
    cdef Summary summary
    for i in range(n):
        code[0] = check_blob(data + bounds[i], <size_t>(bounds[i + 1] - bounds[i]), &summary, fault)
        if code[0] != 0:
            return i
        cardinalities[i] = <int64_t>summary.cardinality
    return n


cdef class _Blobs:
    """A column of blobs for the time of one call; where(i) names blob i in errors."""

    cdef Buffer source
    cdef Buffer offsets
    cdef const uint8_t* data
    cdef const int64_t* bounds
    cdef Block cardinalities
    cdef size_t n
    cdef object where

    def __cinit__(self, data, offsets, size_t n, where):
        self.n = n
        self.where = where
        self.source = buffer_of(data)
        self.offsets = buffer_of(offsets)
        check_offsets(self.offsets, n, self.source.size)
        self.data = self.source.data
        self.bounds = <const int64_t*>self.offsets.data

    cdef size_t size(self, size_t i) noexcept nogil:
        """Bytes of blob i."""
        return <size_t>(self.bounds[i + 1] - self.bounds[i])

    cdef int check(self) except -1:
        """Checks every blob, and counts its positions."""
        cdef int code = 0
        cdef Fault fault
        cdef size_t bad
        self.cardinalities = new_block(8 * self.n)
        with nogil:
            bad = check_all(self.data, self.bounds, self.n, <int64_t*>self.cardinalities.bytes_.data, &code, &fault)
        if code != 0:
            raise corrupt_blob(code, &fault, self.where(bad), 0)
        return 0


def cardinality(data, offsets, size_t n, where):
    """The cardinality of each of n blobs, as int64; all are checked."""
    cdef _Blobs blobs = _Blobs(data, offsets, n, where)
    blobs.check()
    return blobs.cardinalities


def decode_blobs(data, offsets, size_t n, where):
    """The positions of n blobs, one after the other; returns (values, their offsets)."""
    cdef _Blobs blobs = _Blobs(data, offsets, n, where)
    cdef Block ends = new_block(8 * (n + 1))
    cdef Block values
    cdef int64_t* end = <int64_t*>ends.bytes_.data
    cdef const int64_t* cardinalities
    cdef uint64_t* out
    cdef size_t i, bad = n
    blobs.check()
    cardinalities = <const int64_t*>blobs.cardinalities.bytes_.data
    end[0] = 0
    for i in range(n):
        end[i + 1] = end[i] + cardinalities[i]
    values = new_block(8 * <size_t>end[n])
    out = <uint64_t*>values.bytes_.data
    with nogil:
        for i in range(n):
            if expand(blobs.data + blobs.bounds[i] + HEAD_BYTES, blobs.size(i) - FRAME_BYTES, out + end[i],
                      out + end[i + 1]) != out + end[i + 1]:
                bad = i
                break
    if bad < n:
        raise changed(where(bad))
    return values, ends


cdef object changed(where):
    return InvalidInputError(f"{where}: changed by another thread while it was read")


cdef int check_list(_Blobs blobs, size_t first, size_t n, Vector* vectors, Fault* fault, size_t* bad) noexcept nogil:
    """Checks n neighbouring blobs; returns a FrameFault, and which blob has it."""
    cdef Summary summary
    cdef size_t i
    cdef int code
    for i in range(n):
        vectors[i].data = blobs.data + blobs.bounds[first + i] + HEAD_BYTES
        vectors[i].size = blobs.size(first + i) - FRAME_BYTES
        vectors[i].minimal = False
        code = check_blob(vectors[i].data - HEAD_BYTES, blobs.size(first + i), &summary, fault)
        if code != 0:
            bad[0] = first + i
            return code
    return 0


def union_blobs(data, offsets, size_t n_blobs, lists, size_t n, where):
    """A framed blob for each of n lists of blobs: their union.

    Args:
        offsets: n_blobs + 1 into data. lists: n + 1 into the blobs; the empty list gives the empty vector.

    Returns:
        (blobs, their offsets, cardinalities).
    """
    cdef _Blobs blobs = _Blobs(data, offsets, n_blobs, where)
    cdef Block out = Block()
    cdef Block ends = new_block(8 * (n + 1))
    cdef Block cardinalities = new_block(8 * n)
    cdef Buffer groups = buffer_of(lists)
    cdef UnionScratch scratch
    cdef Writer writer
    cdef Vector* members = NULL
    cdef Fault fault
    cdef int code = 0
    cdef const int64_t* bounds
    cdef int64_t* end = <int64_t*>ends.bytes_.data
    cdef size_t i, count, bad = 0, largest = 1
    cdef int status = ENCODED
    cdef UnionStatus united
    memset(&scratch, 0, sizeof(UnionScratch))
    memset(&writer, 0, sizeof(Writer))
    try:
        check_offsets(groups, n, n_blobs)
        bounds = <const int64_t*>groups.data
        for i in range(n):
            largest = max(largest, <size_t>(bounds[i + 1] - bounds[i]))
        members = <Vector*>malloc(largest * sizeof(Vector))
        if members == NULL or not union_ready(&scratch, largest):
            raise MemoryError(f"a union of {largest} vectors")
        end[0] = 0
        with nogil:
            for i in range(n):
                count = <size_t>(bounds[i + 1] - bounds[i])
                code = check_list(blobs, <size_t>bounds[i], count, members, &fault, &bad)
                if code != 0:
                    break
                restart(&writer)
                united = union_all(members, count, &writer, &scratch)
                if united != UNITED:
                    status = OUT_OF_MEMORY if united == UNION_OUT_OF_MEMORY else CHANGED
                    break
                status = append_written(&out.bytes_, &writer)
                if status != ENCODED:
                    break
                end[i + 1] = <int64_t>out.bytes_.size
                (<int64_t*>cardinalities.bytes_.data)[i] = <int64_t>writer.cardinality
        if status == OUT_OF_MEMORY:
            raise MemoryError(f"uniting the vectors of row {i}")
        if code != 0:
            raise corrupt_blob(code, &fault, where(bad), 0)
        if status == CHANGED:
            raise changed(f"row {i}")
        if status == TOO_LONG:
            raise too_long(i)
    finally:
        free(members)
        union_free(&scratch)
        writer_free(&writer)
    return out, ends, cardinalities


cdef int copy_blob(_Blobs blobs, size_t i, Bytes* copy, Vector* vector, Writer* writer, UnionScratch* scratch,
                   Fault* fault, int* status) noexcept nogil:
    """Copies blob i, which another thread may change, and checks the copy; returns a FrameFault.

    A vector in a form that is never written is written anew, because `combine_all` has no memory for it.
    """
    cdef Summary summary
    cdef size_t size = blobs.size(i)
    cdef int code
    copy.size = 0
    if not reserve(copy, max(size, <size_t>1)):
        status[0] = OUT_OF_MEMORY
        return 0
    memcpy(copy.data, blobs.data + blobs.bounds[i], size)
    code = check_blob(copy.data, size, &summary, fault)
    if code != 0:
        return code
    vector.data = copy.data + HEAD_BYTES
    vector.size = size - FRAME_BYTES
    vector.minimal = False
    if summary.non_canonical:
        restart(writer)
        if union_all(vector, 1, writer, scratch) != UNITED or not reserve(copy, writer_size(writer)):
            status[0] = OUT_OF_MEMORY
            return 0
        writer_store(writer, copy.data)
        vector.data = copy.data
        vector.size = writer_size(writer)
    return 0


def difference_blobs(data, offsets, size_t n, others, other_offsets, size_t n_others, where, where_other):
    """A framed blob for each of n pairs of blobs: the positions of the first that are not in the other.

    Args:
        offsets: n + 1 into data. other_offsets: n_others + 1 into others. n_others: n, or 1: a blob for all pairs.

    Returns:
        (blobs, their offsets).
    """
    cdef _Blobs blobs = _Blobs(data, offsets, n, where)
    cdef _Blobs subtracted = _Blobs(others, other_offsets, n_others, where_other)
    cdef Block out = Block()
    cdef Block ends = new_block(8 * (n + 1))
    cdef int64_t* end = <int64_t*>ends.bytes_.data
    cdef Block copy = Block(), other_copy = Block()
    cdef Vector left, right
    cdef UnionScratch united
    cdef Writer writer
    cdef Fault fault
    cdef uint8_t* scratch = <uint8_t*>malloc(N_SCRATCH * SCRATCH)
    cdef size_t i = 0
    cdef int code = 0, other_code = 0, status = ENCODED
    memset(&united, 0, sizeof(UnionScratch))
    memset(&writer, 0, sizeof(Writer))
    try:
        if n_others != n and n_others != 1:
            raise ValueError(f"expected {n} others or 1, found {n_others}")
        if scratch == NULL or not union_ready(&united, 1):
            raise MemoryError("a difference of vectors")
        end[0] = 0
        with nogil:
            for i in range(n):
                code = copy_blob(blobs, i, &copy.bytes_, &left, &writer, &united, &fault, &status)
                if code == 0 and status == ENCODED and (i == 0 or n_others > 1):
                    other_code = copy_blob(
                        subtracted, i, &other_copy.bytes_, &right, &writer, &united, &fault, &status
                    )
                if code != 0 or other_code != 0 or status != ENCODED:
                    break
                restart(&writer)
                if not combine_all(PF_ANDNOT, &left, &right, &writer, scratch):
                    status = OUT_OF_MEMORY
                    break
                status = append_written(&out.bytes_, &writer)
                if status != ENCODED:
                    break
                end[i + 1] = <int64_t>out.bytes_.size
        if status == OUT_OF_MEMORY:
            raise MemoryError(f"subtracting the vectors of row {i}")
        if code != 0:
            raise corrupt_blob(code, &fault, where(i), 0)
        if other_code != 0:
            raise corrupt_blob(other_code, &fault, where_other(i), 0)
        if status == TOO_LONG:
            raise too_long(i)
    finally:
        free(scratch)
        union_free(&united)
        writer_free(&writer)
    return out, ends


cdef bint vector_has(const uint8_t* vector, size_t size, uint64_t position) noexcept nogil:
    cdef Cursor cursor
    cdef Container container
    cursor_start(&cursor, vector, size)
    while cursor_next(&cursor, &container) and container.key <= position >> 16:
        if container.key == position >> 16:
            return has(&container, position & 0xFFFF)
    return False


def contains_each(data, offsets, size_t n, positions, where):
    """Whether blob i contains position i (8-byte integers), as n bytes of 0 and 1."""
    cdef _Blobs blobs = _Blobs(data, offsets, n, where)
    cdef Block answers = new_block(n)
    cdef Buffer queries = buffer_of(positions)
    cdef size_t i
    blobs.check()
    if queries.size // 8 < n:
        raise ValueError(f"{n} vectors and {queries.size // 8} positions")
    with nogil:
        for i in range(n):
            answers.bytes_.data[i] = vector_has(
                blobs.data + blobs.bounds[i] + HEAD_BYTES, blobs.size(i) - FRAME_BYTES,
                (<const uint64_t*>queries.data)[i]
            )
    return answers


def mask_blobs(data, offsets, size_t n, rows, where):
    """One bit a row of n vectors, one after the other, least significant first.

    Args:
        rows: n + 1 int64 offsets: vector i covers the rows 0 … rows[i + 1] - rows[i] - 1 of its file.
    """
    cdef _Blobs blobs = _Blobs(data, offsets, n, where)
    cdef Buffer offsets_of_rows = buffer_of(rows)
    cdef const int64_t* bounds = <const int64_t*>offsets_of_rows.data
    cdef Block bits
    cdef Block one = Block()
    cdef uint8_t* out
    cdef const uint8_t* vector
    cdef size_t i, total, largest = 0
    blobs.check()
    check_offsets(offsets_of_rows, n, MOST_ROWS)
    total = <size_t>bounds[n]
    bits = new_block((total + 7) // 8)
    out = bits.bytes_.data
    for i in range(n):
        if bounds[i] & 7:
            largest = max(largest, <size_t>(bounds[i + 1] - bounds[i]))
    one = new_block((largest + 7) // 8)
    with nogil:
        memset(out, 0, bits.bytes_.size)
        for i in range(n):
            vector = blobs.data + blobs.bounds[i] + HEAD_BYTES
            if bounds[i + 1] == bounds[i]:
                continue
            if bounds[i] & 7:
                fill_bits(vector, blobs.size(i) - FRAME_BYTES, 0, <uint64_t>(bounds[i + 1] - bounds[i]), one.bytes_.data)
                pf_append_bits(one.bytes_.data, <size_t>(bounds[i + 1] - bounds[i]), out, <size_t>bounds[i])
            else:
                fill_bits(vector, blobs.size(i) - FRAME_BYTES, 0, <uint64_t>(bounds[i + 1] - bounds[i]), out + (bounds[i] >> 3))
    return bits


pf_choose_level()
