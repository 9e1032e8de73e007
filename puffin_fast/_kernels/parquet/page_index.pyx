"""The page index of a Parquet column chunk: where its data pages are, and the bounds of their values.

Source: Parquet format specification, "Page Index" (parquet.thrift); Thrift, compact protocol.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc

from puffin_fast._kernels.views cimport Buffer, buffer_of

cdef extern from "page_index.h" nogil:
    enum:
        PF_LOCATION_WORDS
        PF_LEAST_LOCATION
        PF_BOUND_WORDS
        PF_LEAST_BOUNDS
    int64_t pf_offset_index(const uint8_t* data, size_t size, int64_t* out, size_t capacity)
    int64_t pf_column_index(const uint8_t* data, size_t size, int64_t* out, size_t capacity)

LOCATION_WORDS, BOUND_WORDS = PF_LOCATION_WORDS, PF_BOUND_WORDS
LEAST_LOCATION = PF_LEAST_LOCATION


cdef bytes words_of(data, size_t least, size_t words, bint is_offsets):
    cdef Buffer source = buffer_of(data)
    cdef size_t capacity = source.size // least
    cdef int64_t* out = <int64_t*>malloc((capacity * words + 1) * sizeof(int64_t))
    cdef int64_t n
    if out == NULL:
        raise MemoryError()
    try:
        with nogil:
            if is_offsets:
                n = pf_offset_index(source.data, source.size, out, capacity)
            else:
                n = pf_column_index(source.data, source.size, out, capacity)
        return None if n < 0 else (<const char*>out)[:<size_t>n * words * sizeof(int64_t)]
    finally:
        free(out)


def locations(data):
    """Reads an offset index.

    Args:
        data: its bytes.

    Returns:
        `LOCATION_WORDS` words of each data page, as int64: its offset in the file, its bytes with the header, and its
        first row in the row group; None if the bytes are not an offset index.
    """
    return words_of(data, PF_LEAST_LOCATION, PF_LOCATION_WORDS, True)


def bounds(data):
    """Reads a column index.

    Args:
        data: its bytes.

    Returns:
        `BOUND_WORDS` words of each data page, as int64: 1 if it has nulls only; where its lower bound is in `data`, and
        the bytes of that; the same of its upper bound; its number of nulls, -1 if that is unknown. None if the bytes
        are not a column index.
    """
    return words_of(data, PF_LEAST_BOUNDS, PF_BOUND_WORDS, False)
