"""The buffers of Python objects as pointers. All kernels take buffers through this module."""

from cpython.bytes cimport PyBytes_AsString, PyBytes_Size
from libc.stdint cimport uint8_t

cdef extern from *:
    """
    static const uint8_t pf_nothing[8] __attribute__((unused)) = {0};
    """
    const uint8_t pf_nothing[8]


cdef class Buffer:
    # Contiguous bytes of a Python object; released together with this object.
    cdef Py_buffer view
    cdef uint8_t* data          # never NULL, so that empty buffers may be passed to memcpy
    cdef size_t size

cdef struct Span:
    # What a `bytes` object holds. Valid as long as there is a reference to the object.
    const uint8_t* data
    size_t size


cdef inline Span span_of(bytes source) noexcept:
    """The bytes of a `bytes` object, which cannot change: without the cost of a `Buffer`."""
    cdef Span span
    span.data = <const uint8_t*>PyBytes_AsString(source)
    span.size = <size_t>PyBytes_Size(source)
    return span


cdef Buffer buffer_of(object source)
cdef Buffer writable(object target)
