"""Bringing unsorted integers into order."""

from libc.stdint cimport uint32_t, uint64_t

cdef void sort_to(const uint64_t* x, size_t n, uint64_t* out, uint64_t* spare) noexcept nogil
cdef void sort_u64(uint64_t* x, uint64_t* spare, size_t n) noexcept nogil
cdef void sort_u32(uint32_t* x, uint32_t* spare, size_t n, int bits) noexcept nogil
