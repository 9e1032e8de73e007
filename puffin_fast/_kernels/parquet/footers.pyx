"""Parquet footers: row groups and column chunks, which must agree with the schema.

Source: Parquet format specification, "Metadata" (parquet.thrift); Thrift, compact protocol.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc

from puffin_fast._kernels.views cimport Buffer, buffer_of

cdef extern from "footer.h" nogil:
    enum:
        PF_LEAF_WORDS
        PF_CHUNK_WORDS
        PF_CONTRADICTION
        PF_ENCRYPTED
        PF_IN_UNKNOWN
        PF_IN_DICTIONARY
    ctypedef struct pf_groups:
        int64_t* at
        size_t count
        size_t capacity
        int64_t n_rows
        int64_t n_groups
    int pf_read_groups(const uint8_t* data, size_t size, const int32_t* leaves, size_t n_leaves, pf_groups* out)
    int pf_find_groups(const uint8_t* data, size_t size, int64_t* start, int64_t* stop)

CONTRADICTION, ENCRYPTED = PF_CONTRADICTION, PF_ENCRYPTED
CHUNK_WORDS = PF_CHUNK_WORDS
IN_UNKNOWN, IN_DICTIONARY = PF_IN_UNKNOWN, PF_IN_DICTIONARY

cdef enum:
    EXPECTED_GROUPS = 4  # more are counted, and then read again


def find_groups(data):
    """Where the number of rows and the row groups are: (start, stop); None if they do not follow each other.

    Args:
        data: the bytes of a footer, without length and magic. Files with equal bytes before and after have the same
            schema and writer.
    """
    cdef Buffer source = buffer_of(data)
    cdef int64_t start = 0, stop = 0
    if pf_find_groups(source.data, source.size, &start, &stop) < 0:
        return None
    return start, stop


def read_groups(data, leaves):
    """Reads the row groups, and compares their column chunks with the leaf columns of the schema.

    Args:
        data: as for `find_groups`.
        leaves: physical type, maximum repetition and definition level, and bytes of a value (0: any number) of each
            leaf, as int32.

    Returns:
        0, or a negative number: `CONTRADICTION`, `ENCRYPTED`, or another one if the bytes are not a footer; number of
        rows; number of row groups; and for each row group, as int64, its number of rows and, for each leaf,
        `CHUNK_WORDS` words of its column chunk: codec, bits of the encodings, number of values, bytes without
        compression, bytes, offset of the first data page, offset of the dictionary page, offset and bytes of the Bloom
        filter, what the page encoding statistics say, the least value (bytes from it to the end of the footer, and its
        bytes), the upper bound in the same way, number of nulls, offset and bytes of the offset index and of the column index; -1 for absent ones. The statistics say `IN_UNKNOWN`, `IN_DICTIONARY` if all data pages refer to the dictionary, or
        another number if some may not.
    """
    cdef Buffer source = buffer_of(data)
    cdef Buffer words = buffer_of(leaves)
    cdef size_t n_leaves = words.size // (4 * PF_LEAF_WORDS)
    cdef pf_groups found
    cdef int status
    found.capacity = EXPECTED_GROUPS * (1 + n_leaves * PF_CHUNK_WORDS)
    while True:
        found.at = <int64_t*>malloc((found.capacity + 1) * sizeof(int64_t))
        if found.at == NULL:
            raise MemoryError()
        with nogil:
            status = pf_read_groups(source.data, source.size, <const int32_t*>words.data, n_leaves, &found)
        if status < 0 or found.count <= found.capacity:
            break
        free(found.at)
        found.capacity = found.count
    groups = b"" if status < 0 else (<const char*>found.at)[:found.count * sizeof(int64_t)]
    free(found.at)
    return status, found.n_rows, found.n_groups, groups
