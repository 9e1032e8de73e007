"""Python's buffers as pointers: the one place that speaks the buffer protocol for the kernels."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t

cdef extern from *:
    """
    static const uint8_t pf_nothing[8] = {0};
    """
    const uint8_t pf_nothing[8]


cdef class Buffer:
    # Contiguous bytes of a Python object, which lives as long as this one does.
    cdef Py_buffer view
    cdef uint8_t* data          # never NULL, so that empty buffers may be passed to memcpy
    cdef size_t size

cdef Buffer buffer_of(object source)
cdef Buffer writable(object target)


cdef inline const uint8_t* pointer(const Py_buffer* view) noexcept nogil:
    """Never NULL, so that empty buffers may be passed to memcpy."""
    return <const uint8_t*>view.buf if view.buf != NULL else pf_nothing
