"""Snappy blocks, decompressed.

Source: Snappy compressed format description (raw blocks, without frames).
"""

from libc.stdint cimport int64_t, uint8_t

from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "snappy.h" nogil:
    int64_t pf_snappy_declared(const uint8_t* data, size_t size)
    int pf_snappy(const uint8_t* data, size_t size, uint8_t* out, size_t capacity)


def decoded_size(data):
    """The decompressed number of bytes that a block declares, which its size allows.

    Raises:
        ValueError: a block does not begin with a length, or is too short for it.
    """
    cdef Buffer source = buffer_of(data)
    cdef int64_t length = pf_snappy_declared(source.data, source.size)
    if length < 0:
        raise ValueError(f"snappy: expected a length of 32 bits that {source.size} bytes can hold")
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
