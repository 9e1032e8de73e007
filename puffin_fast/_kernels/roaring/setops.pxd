"""Set operations from serialised bytes to serialised bytes."""

from libc.stdint cimport uint8_t

from puffin_fast._kernels.roaring.containers cimport Container, Cursor, Writer

cdef extern from "bitmap_combine.h" nogil:
    enum:
        PF_OR
        PF_AND
        PF_ANDNOT
        PF_XOR

cdef enum:
    SCRATCH = 16640             # bytes: two full arrays and 64 values more, a bitmap, or 4,160 runs
    N_SCRATCH = 4               # so many of them

cdef struct Vector:
    const uint8_t* data         # bytes that `validate` has accepted
    size_t size
    bint minimal                # each container is in its smallest form, and no thread changes the bytes

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

cdef bint combine_all(int op, const Vector* left, const Vector* right, Writer* writer, uint8_t* scratch) noexcept nogil
cdef bint meet(int op, const Vector* left, const Vector* right, uint8_t* scratch) noexcept nogil
cdef bint intersect_all(const Vector* vectors, size_t n, Writer* writer, UnionScratch* scratch) noexcept nogil
cdef bint union_ready(UnionScratch* scratch, size_t n) noexcept nogil
cdef UnionStatus union_all(const Vector* vectors, size_t n, Writer* writer, UnionScratch* scratch) noexcept nogil
cdef void union_free(UnionScratch* scratch) noexcept nogil
