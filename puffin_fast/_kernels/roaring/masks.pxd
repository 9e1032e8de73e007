"""Between serialised bytes and one flag per row."""

from libc.stdint cimport uint8_t, uint64_t

cdef void fill_bits(const uint8_t* data, size_t size, uint64_t first, uint64_t n_rows, uint8_t* out) noexcept nogil
