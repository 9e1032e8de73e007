"""The frame around a vector, as Puffin's `deletion-vector-v1`, Delta and Paimon's 64-bit form have it.

    u32 BE length of (magic + vector) | D1 D3 39 64 | vector: 64-bit portable Roaring | u32 BE CRC-32(magic + vector)

Source: the Puffin specification, "deletion-vector-v1 blob type".
"""

from cpython.bytes cimport PyBytes_AsString
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

from puffin_fast._kernels.bytes cimport load32, load32_be, store32_be
from puffin_fast._kernels.roaring.containers cimport Fault, Summary, corrupt, validate

from puffin_fast._kernels import checksum
from puffin_fast.errors import CorruptDataError

cdef extern from "Python.h":
    int PyBUF_READ

cdef extern from "simd.h" nogil:
    int pf_choose_level()

cdef extern from "crc32.h" nogil:
    int pf_crc32(const uint8_t* data, size_t size, uint32_t* sum)

# Serves functions with 32-bit and with 64-bit arguments and results: both are passed in registers of 64 bits, and only
# the low half of the result is used.
ctypedef uint64_t (*Crc32)(uint64_t start, const uint8_t* data, size_t size) noexcept nogil

cdef Crc32 native = <Crc32><uintptr_t>checksum.address
cdef object fallback = checksum.crc32
cdef bint folds = checksum.implementation == "zlib"  # which takes several times as long

MAGIC = b"\xd1\xd3\x39\x64"
cdef uint32_t magic_word = load32(<const uint8_t*>PyBytes_AsString(MAGIC))


cdef bint crc32(const uint8_t* data, size_t size, uint32_t* sum) noexcept nogil:
    """Continues a CRC-32, which is 0 before the first byte.

    False when Python's function failed, which happens only when memory is out.
    """
    if folds and pf_crc32(data, size, sum):
        return True
    if native != NULL:
        sum[0] = <uint32_t>native(sum[0], data, size)
        return True
    with gil:
        try:
            view = PyMemoryView_FromMemory(<char*>data, <Py_ssize_t>size, PyBUF_READ)
            sum[0] = <uint32_t>fallback(view, sum[0])
        except BaseException:
            return False
    return True


cdef bint store_frame(uint8_t* blob, size_t vector_size) noexcept nogil:
    """Writes the frame around the vector at blob + HEAD_BYTES. False when memory is out."""
    cdef uint32_t sum = 0
    store32_be(blob, <uint32_t>(MAGIC_BYTES + vector_size))
    memcpy(blob + LENGTH_BYTES, &magic_word, MAGIC_BYTES)
    if not crc32(blob + LENGTH_BYTES, MAGIC_BYTES + vector_size, &sum):
        return False
    store32_be(blob + HEAD_BYTES + vector_size, sum)
    return True


cdef int check_blob(const uint8_t* blob, size_t size, Summary* summary, Fault* fault) noexcept nogil:
    """Checks magic, length and checksum, then the bitmap. Returns a FrameFault, with its details in fault."""
    cdef uint32_t stored, found = 0
    fault.code = 0
    if size < MIN_BLOB_BYTES:
        fault.offset = 0
        fault.expected = MIN_BLOB_BYTES
        fault.found = size
        return TOO_SHORT
    if load32(blob + LENGTH_BYTES) != magic_word:
        fault.offset = LENGTH_BYTES
        fault.expected = load32_be(<const uint8_t*>&magic_word)
        fault.found = load32_be(blob + LENGTH_BYTES)
        return WRONG_MAGIC
    if load32_be(blob) != size - LENGTH_BYTES - CRC_BYTES:
        fault.offset = 0
        fault.expected = size - LENGTH_BYTES - CRC_BYTES
        fault.found = load32_be(blob)
        return WRONG_LENGTH
    stored = load32_be(blob + size - CRC_BYTES)
    if not crc32(blob + LENGTH_BYTES, size - LENGTH_BYTES - CRC_BYTES, &found):
        return NOT_SUMMED
    if stored != found:
        fault.offset = size - CRC_BYTES
        fault.expected = stored
        fault.found = found
        return WRONG_CRC
    if validate(blob + HEAD_BYTES, size - FRAME_BYTES, summary, fault) != 0:
        return WRONG_VECTOR
    return SOUND


cdef object corrupt_blob(int code, const Fault* fault, object path, uint64_t offset):
    """The exception for a fault that `check_blob` found."""
    expected = fault.expected
    found = fault.found
    if code == NOT_SUMMED:
        return MemoryError("checksum of a deletion vector")
    if code == WRONG_VECTOR:
        return corrupt(fault, path, offset + HEAD_BYTES)
    if code == TOO_SHORT:
        what = "deletion vector is too short"
        expected = f"at least {expected} bytes"
    elif code == WRONG_LENGTH:
        what = "length of magic and vector"
    else:
        what = "magic of a deletion vector" if code == WRONG_MAGIC else "CRC-32 of magic and vector"
        expected = f"{expected:08x}"
        found = f"{found:08x}"
    return CorruptDataError(what, path=path, offset=fault.offset + offset, expected=expected, found=found)


pf_choose_level()
