"""The buffers of Python objects as pointers. All kernels take buffers through this module."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t


cdef class Buffer:
    """Contiguous bytes of a Python object."""

    def __dealloc__(self):
        if self.data != NULL:
            PyBuffer_Release(&self.view)


cdef Buffer acquire(object source, int flags):
    cdef Buffer buffer = Buffer.__new__(Buffer)
    PyObject_GetBuffer(source, &buffer.view, flags)
    buffer.data = <uint8_t*>buffer.view.buf if buffer.view.buf != NULL else <uint8_t*>pf_nothing
    buffer.size = <size_t>buffer.view.len
    return buffer


cdef Buffer buffer_of(object source):
    """The bytes of any contiguous buffer, to be read."""
    return acquire(source, PyBUF_SIMPLE)


cdef Buffer writable(object target):
    """The bytes of a contiguous buffer, to be written to."""
    return acquire(target, PyBUF_SIMPLE | PyBUF_WRITABLE)
