"""Parquet footers: whether the column chunks agree with the schema.

Source: Parquet format specification, "Metadata" (parquet.thrift); Thrift, compact protocol.
"""

from libc.stdint cimport int32_t, uint8_t

from puffin_fast._kernels.views cimport Buffer, buffer_of

cdef extern from "footer.h" nogil:
    enum:
        PF_LEAF_WORDS
        PF_CONTRADICTION
        PF_ENCRYPTED
    int pf_check_chunks(const uint8_t* data, size_t size, const int32_t* leaves, size_t n_leaves)

CONTRADICTION, ENCRYPTED = PF_CONTRADICTION, PF_ENCRYPTED


def check_chunks(data, leaves):
    """Compares the column chunks of all row groups with the leaf columns of the schema.

    Args:
        data: the bytes of a footer, without length and magic.
        leaves: physical type, maximum repetition and definition level, and bytes of a value (0: any number) of each leaf,
            as int32.

    Returns:
        0, or a negative number: `CONTRADICTION`, `ENCRYPTED`, or another one if the bytes are not a footer.
    """
    cdef Buffer source = buffer_of(data)
    cdef Buffer words = buffer_of(leaves)
    cdef size_t n_leaves = words.size // (4 * PF_LEAF_WORDS)
    cdef int status
    with nogil:
        status = pf_check_chunks(source.data, source.size, <const int32_t*> words.data, n_leaves)
    return status
