"""The set bits of packed flags, least significant first (Arrow's booleans), as indexes for Arrow's take."""

from libc.stdint cimport uint8_t, uint32_t

from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "set_bits.h" nogil:
    size_t pf_count_runs(const uint8_t* bits, size_t start, size_t n)
    size_t pf_rows(const uint8_t* bits, size_t start, size_t n, uint32_t* out, size_t capacity)

cdef extern from "simd.h" nogil:
    int pf_choose_level()


cdef int inside(size_t from_bit, size_t n_rows, size_t n_bytes) except -1:
    if n_rows > <size_t>1 << 31 or from_bit > 8 * n_bytes or n_rows > 8 * n_bytes - from_bit:
        raise ValueError(f"{n_rows} rows from {from_bit} on are not inside a buffer of {n_bytes} bytes")
    return 0


def count_runs(bits, size_t from_bit, size_t n_rows):
    """The number of runs of set bits in n_rows bits from bit from_bit on."""
    cdef Buffer source = buffer_of(bits)
    cdef size_t count = 0
    inside(from_bit, n_rows, source.size)
    if n_rows > 0:
        with nogil:
            count = pf_count_runs(source.data, from_bit, n_rows)
    return count


def rows_into(bits, size_t from_bit, size_t n_rows, out):
    """Writes the indexes i < n_rows whose bit from_bit + i is set, ascending, 4 bytes each. Returns their number.

    Args:
        bits: a contiguous buffer.
        from_bit: the first row's bit.
        n_rows: how many rows, at most 2^31.
        out: a writable buffer with capacity for exactly or more than so many indexes as bits are set.
    """
    cdef Buffer source = buffer_of(bits), target = writable(out)
    cdef size_t count = 0
    inside(from_bit, n_rows, source.size)
    if n_rows > 0:
        with nogil:
            count = pf_rows(source.data, from_bit, n_rows, <uint32_t*>target.data, target.size // 4)
    return count


pf_choose_level()
