"""Serialised bytes back into positions: checked once, then read in place."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from puffin_fast._kernels.bytes cimport ARRAY, BITMAP, BITMAP_WORDS, RUN, load16
from puffin_fast._kernels.containers cimport (
    Container, Cursor, Fault, Summary, corrupt, cursor_next, cursor_start, summarised, validate,
)
from puffin_fast._kernels.views cimport Buffer, Span, span_of, writable

cdef extern from "bitmap_expand.h" nogil:
    size_t pf_expand(const uint8_t* bits, size_t n_words, uint64_t base, uint64_t* out, size_t capacity)

cdef extern from "positions.h" nogil:
    void pf_widen(const uint8_t* values, size_t n, uint64_t base, uint64_t* out)
    void pf_sequence(uint64_t first, size_t n, uint64_t* out)

cdef extern from "simd.h" nogil:
    int pf_choose_level()


def check(bytes data not None, size_t start, size_t stop, path=None, uint64_t base=0):
    """Checks the serialised 64-bit bitmap at data[start:stop].

    Args:
        data: the bytes, which the summary keeps.
        path: the file it came from, for the error.
        base: the offset of data[start] in that file, for the error.

    Returns:
        A `BitmapSummary`.

    Raises:
        CorruptDataError: a rule of the format is broken; nothing is allocated before this is known.
    """
    cdef Span source = span_of(data)
    cdef Summary summary
    cdef Fault fault
    if start > stop or stop > source.size:
        raise ValueError(f"[{start}, {stop}) is not inside a buffer of {source.size} bytes")
    with nogil:
        validate(source.data + start, stop - start, &summary, &fault)
    if fault.code != 0:
        raise corrupt(&fault, path, base)
    return summarised(data, start, stop, &summary)


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


def decode_into(bytes data not None, size_t start, out, uint64_t cardinality):
    """Writes the positions of checked bytes at data[start:] to `out`, a writable buffer of 8-byte integers."""
    cdef Span source = span_of(data)
    cdef Buffer target = writable(out)
    cdef uint64_t* first = <uint64_t*>target.data
    if target.size // 8 < cardinality:
        raise ValueError(f"out has {target.size} bytes, {8 * cardinality} are needed")
    if cardinality > 0:
        with nogil:
            expand(source.data + start, source.size - start, first, first + cardinality)


pf_choose_level()
