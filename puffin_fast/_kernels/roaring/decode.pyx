"""Serialised bytes back into positions: checked once, then read in place."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from puffin_fast._kernels.bytes cimport ARRAY, BITMAP, BITMAP_WORDS, RUN, load16
from puffin_fast._kernels.roaring.containers cimport Container, Cursor, cursor_next, cursor_start

cdef extern from "bitmap_expand.h" nogil:
    size_t pf_expand(const uint8_t* bits, size_t n_words, uint64_t base, uint64_t* out, size_t capacity)

cdef extern from "positions.h" nogil:
    void pf_widen(const uint8_t* values, size_t n, uint64_t base, uint64_t* out)
    void pf_sequence(uint64_t first, size_t n, uint64_t* out)

cdef extern from "simd.h" nogil:
    int pf_choose_level()


cdef uint64_t* expand(const uint8_t* data, size_t size, uint64_t* out, uint64_t* end) noexcept nogil:
    """Writes all positions of `size` checked bytes, ascending, up to the address `end`. Returns where it stopped.

    It stops before the end, or at it with positions left, only if another thread changes the bytes.
    """
    cdef Cursor cursor
    cdef Container container
    cdef uint64_t base
    cdef uint32_t i, length
    cursor_start(&cursor, data, size)
    while cursor_next(&cursor, &container):
        base = container.key << 16
        if container.kind == ARRAY:
            if <size_t>(end - out) < container.cardinality:
                break
            pf_widen(container.payload, container.cardinality, base, out)
            out += container.cardinality
        elif container.kind == BITMAP:
            out += pf_expand(container.payload, BITMAP_WORDS, base, out, end - out)
        else:
            for i in range(container.n_runs):
                length = <uint32_t>load16(container.payload + 4 * <size_t>i + 2) + 1
                if <size_t>(end - out) < length:
                    return out
                pf_sequence(base + load16(container.payload + 4 * <size_t>i), length, out)
                out += length
    return out


pf_choose_level()
