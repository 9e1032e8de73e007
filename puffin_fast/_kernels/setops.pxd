"""Set operations from serialised bytes to serialised bytes."""

from libc.stdint cimport uint8_t

from puffin_fast._kernels.containers cimport Container, Cursor, Writer

cdef struct Vector:
    const uint8_t* data         # bytes that `validate` has accepted
    size_t size

cdef struct Input:
    Cursor cursor
    Container container         # the current one of the cursor

cdef struct UnionScratch:
    # Zeroed before its first use. Many unions use it one after the other.
    size_t capacity
    Input* inputs
    Input** heap                # of the inputs that have containers left, by key
    Container* same             # containers of one key
    const uint8_t** bitmaps     # those of them that are bitmaps
    uint8_t* values

cdef enum UnionStatus:
    UNITED
    UNION_OUT_OF_MEMORY
    UNION_CHANGED               # another thread has written to a bitmap

cdef bint union_ready(UnionScratch* scratch, size_t n) noexcept nogil
cdef UnionStatus union_all(const Vector* vectors, size_t n, Writer* writer, UnionScratch* scratch) noexcept nogil
cdef void union_free(UnionScratch* scratch) noexcept nogil
