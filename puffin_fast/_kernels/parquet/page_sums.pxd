"""The CRC-32 of the pages of a Parquet column chunk."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef bint is_sound(const int64_t* header, const uint8_t* stored, uint32_t* found) noexcept nogil
cdef int check_sum(const int64_t* header, const uint8_t* stored, path, column, int64_t offset) except -1
