"""Serialised bytes back into positions."""

from libc.stdint cimport uint8_t, uint64_t

cdef uint64_t* expand(const uint8_t* data, size_t size, uint64_t* out, uint64_t* end) noexcept nogil
