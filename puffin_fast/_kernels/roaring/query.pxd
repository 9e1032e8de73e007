"""Queries of one checked bitmap."""

from libc.stdint cimport uint32_t

from puffin_fast._kernels.roaring.containers cimport Container

cdef bint has(const Container* c, uint32_t value) noexcept nogil
