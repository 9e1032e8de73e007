"""The buffers of Python objects as pointers. All kernels take buffers through this module."""

from cpython.bytes cimport PyBytes_AsString, PyBytes_Size
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport uint8_t

cdef extern from *:
    """
    static const uint8_t pf_nothing[8] __attribute__((unused)) = {0};

    /* What the capsule `__array_struct__` of a NumPy array holds: version 3 of NumPy's array interface. */
    typedef struct {
        int two;
        int nd;
        char typekind;
        int itemsize;
        int flags;
        Py_ssize_t *shape;
        Py_ssize_t *strides;
        void *data;
        PyObject *descr;
    } pf_array;
    enum { PF_CONTIGUOUS = 0x1, PF_ALIGNED = 0x100, PF_NATIVE = 0x200 };
    """
    const uint8_t pf_nothing[8]
    enum:
        PF_CONTIGUOUS
        PF_ALIGNED
        PF_NATIVE
    ctypedef struct pf_array:
        int two
        int nd
        char typekind
        int itemsize
        int flags
        Py_ssize_t* shape
        void* data


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


cdef inline object array_of(object array, Span* memory):
    """The memory of a `numpy.ndarray` (not of a derived type) as one dimension of aligned 8-byte integers.

    In half of the time that its buffer takes, for which NumPy describes the dtype in a string.

    Returns:
        an object that keeps the memory alive, or None for an array of another kind.
    """
    capsule = array.__array_struct__
    cdef const pf_array* found = <const pf_array*>PyCapsule_GetPointer(capsule, NULL)
    if found.two != 2 or found.nd != 1 or found.itemsize != 8 or (found.typekind != b"u" and found.typekind != b"i"):
        return None
    if ~found.flags & (PF_CONTIGUOUS | PF_ALIGNED | PF_NATIVE):
        return None
    memory.data = <const uint8_t*>found.data
    memory.size = 8 * <size_t>found.shape[0]
    return capsule


cdef Buffer buffer_of(object source)
cdef Buffer writable(object target)
