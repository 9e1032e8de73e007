"""The buffers of Python objects as pointers. All kernels take buffers through this module."""

from libc.stdint cimport uint8_t

cdef extern from *:
    """
    static const uint8_t pf_nothing[8] = {0};
    """
    const uint8_t pf_nothing[8]


cdef class Buffer:
    # Contiguous bytes of a Python object; released together with this object.
    cdef Py_buffer view
    cdef uint8_t* data          # never NULL, so that empty buffers may be passed to memcpy
    cdef size_t size

cdef Buffer buffer_of(object source)
cdef Buffer writable(object target)
