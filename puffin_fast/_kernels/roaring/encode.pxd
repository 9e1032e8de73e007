"""Positions into serialised bytes."""

from libc.stdint cimport uint8_t, uint64_t

from puffin_fast._kernels.roaring.containers cimport Bytes, Writer

cdef enum EncodeStatus:
    ENCODED = 0
    OUT_OF_RANGE = 1            # a position above the maximum (so also any negative one)
    OUT_OF_MEMORY = 2
    CHANGED = 3                 # another thread wrote to the positions meanwhile

cdef struct Encoder:
    # Zeroed to start with; its buffers serve many encodings in turn.
    Bytes bitmaps               # of BitmapPlan: one for each 32-bit bitmap
    Bytes containers            # u32 for each container: cardinality - 1, kind << 16, number of runs << 18
    Bytes sorted                # copies of positions that came unsorted
    Bytes spare
    Bytes marks                 # a byte for each position of a chunk
    Writer writer               # of unsorted dense positions
    const uint64_t* positions   # those that `containers` describes
    bint by_writer
    size_t size                 # exact size of the serialised bitmap
    uint64_t cardinality

cdef int encoder_measure(Encoder* encoder, const uint64_t* x, size_t n, uint64_t maximum) noexcept nogil
cdef int encoder_store(Encoder* encoder, uint8_t* out) noexcept nogil
cdef void encoder_free(Encoder* encoder) noexcept nogil
