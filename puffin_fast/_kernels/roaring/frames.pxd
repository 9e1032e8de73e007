"""The frame around a vector: length, magic, CRC-32."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from puffin_fast._kernels.roaring.containers cimport Fault, Summary

cdef enum:
    LENGTH_BYTES = 4
    MAGIC_BYTES = 4
    HEAD_BYTES = 8              # length and magic
    CRC_BYTES = 4
    FRAME_BYTES = 12
    MIN_BLOB_BYTES = 20         # a frame around the vector of no bitmaps
    MAX_LENGTH = 0x7FFFFFFF     # Java reads the length as a signed integer

cdef enum FrameFault:
    SOUND = 0
    TOO_SHORT = 1
    WRONG_MAGIC
    WRONG_LENGTH
    WRONG_CRC
    WRONG_VECTOR                # the fault names the rule
    NOT_SUMMED                  # memory was out while the checksum was computed

cdef bint crc32(const uint8_t* data, size_t size, uint32_t* sum) noexcept nogil
cdef bint store_frame(uint8_t* blob, size_t vector_size) noexcept nogil
cdef int check_blob(const uint8_t* blob, size_t size, Summary* summary, Fault* fault) noexcept nogil
cdef object corrupt_blob(int code, const Fault* fault, object path, uint64_t offset)
