"""Snappy blocks, decompressed.

Source: Snappy compressed format description (raw blocks, without frames).
"""

from libc.stdint cimport uint8_t, uint32_t

from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "snappy.h" nogil:
    enum:
        PF_SNAPPY_MOST
        PF_SNAPPY_LEAST
    size_t pf_snappy_length(const uint8_t* data, size_t size, uint32_t* length)
    int pf_snappy(const uint8_t* data, size_t size, uint8_t* out, size_t capacity)


def decoded_size(data):
    """The decompressed number of bytes that a block declares, which its size allows.

    Raises:
        ValueError: a block does not begin with a length, or is too short for it.
    """
    cdef Buffer source = buffer_of(data)
    cdef uint32_t length = 0
    cdef size_t n_head = pf_snappy_length(source.data, source.size, &length)
    if n_head == 0:
        raise ValueError("snappy: expected a length of 32 bits first")
    if <size_t>length * PF_SNAPPY_LEAST > (source.size - n_head) * PF_SNAPPY_MOST:
        raise ValueError(f"snappy: {source.size} bytes cannot hold the {length} bytes that they declare")
    return length


def decode_into(data, out):
    """Decompresses a block.

    Args:
        data: the block.
        out: for exactly the bytes that it declares.

    Raises:
        ValueError: a block that does not have the expected form, or declares another number of bytes.
    """
    cdef Buffer source = buffer_of(data), target = writable(out)
    cdef int status
    with nogil:
        status = pf_snappy(source.data, source.size, target.data, target.size)
    if status < 0:
        raise ValueError(f"snappy: not a block of {target.size} bytes")
