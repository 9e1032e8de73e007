"""Loads and stores of little- and big-endian words at any alignment, and the layout's constants.

Kernels read and write serialised bytes only through these functions, without unaligned casts. Roaring's words are
little-endian, as are the platforms that this package builds on. The frame around a deletion vector is big-endian.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    # https://github.com/RoaringBitmap/RoaringFormatSpec, "Cookie header"
    COOKIE_PLAIN = 12346        # no run containers; a u32 container count follows
    COOKIE_RUNS = 12347         # low 16 bits; the high 16 are the container count - 1
    OFFSETS_MIN_COUNT = 4       # with COOKIE_RUNS, smaller bitmaps carry no offset table
    MAX_CONTAINERS = 65536      # of a 32-bit bitmap: one for each 16-bit key
    ARRAY_MAX = 4096            # an array container holds at most this many values
    CHUNK = 65536               # positions of one container
    BITMAP_BYTES = 8192         # CHUNK bits
    BITMAP_WORDS = 1024
    MAX_RUNS = 32768            # most runs of a container that do not touch
    COUNT_BYTES = 8             # u64 number of 32-bit bitmaps, first in the 64-bit format
    KEY_BYTES = 4               # u32 key before each of them

cdef enum Limit:
    MAX_KEY = 0x7FFFFFFE                # the largest key that Java's reader accepts
    MAX_POSITION = 0x7FFFFFFE80000000   # the largest position that Java's writer accepts

cdef enum Kind:
    ARRAY = 0
    BITMAP = 1
    RUN = 2


cdef inline uint16_t load16(const uint8_t* at) noexcept nogil:
    cdef uint16_t word
    memcpy(&word, at, 2)
    return word


cdef inline uint32_t load32(const uint8_t* at) noexcept nogil:
    cdef uint32_t word
    memcpy(&word, at, 4)
    return word


cdef inline uint64_t load64(const uint8_t* at) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, at, 8)
    return word


cdef inline void store16(uint8_t* at, uint16_t word) noexcept nogil:
    memcpy(at, &word, 2)


cdef inline void store32(uint8_t* at, uint32_t word) noexcept nogil:
    memcpy(at, &word, 4)


cdef inline void store64(uint8_t* at, uint64_t word) noexcept nogil:
    memcpy(at, &word, 8)


cdef inline void store32_be(uint8_t* at, uint32_t word) noexcept nogil:
    at[0] = <uint8_t>(word >> 24)
    at[1] = <uint8_t>(word >> 16)
    at[2] = <uint8_t>(word >> 8)
    at[3] = <uint8_t>word


cdef inline uint32_t load32_be(const uint8_t* at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | <uint32_t>at[3]


cdef inline size_t plain_size(uint32_t cardinality) noexcept nogil:
    """Bytes of the array or bitmap container that would hold this many values."""
    return 2 * <size_t>cardinality if cardinality <= ARRAY_MAX else BITMAP_BYTES


cdef inline size_t run_size(uint32_t n_runs) noexcept nogil:
    return 2 + 4 * <size_t>n_runs


cdef inline Kind choose(uint32_t cardinality, uint32_t n_runs) noexcept nogil:
    """The smallest form, as Java and CRoaring choose it for a set that is run-optimised."""
    if run_size(n_runs) < plain_size(cardinality):
        return RUN
    return ARRAY if cardinality <= ARRAY_MAX else BITMAP


cdef inline size_t container_size(Kind kind, uint32_t cardinality, uint32_t n_runs) noexcept nogil:
    return run_size(n_runs) if kind == RUN else plain_size(cardinality)


cdef inline size_t header_size(uint32_t count, bint has_run) noexcept nogil:
    """Bytes of a 32-bit bitmap before its first container: cookie, run flags, descriptors, offsets."""
    if not has_run:
        return 8 + 8 * <size_t>count
    return 4 + (count + 7) // 8 + 4 * <size_t>count + (4 * <size_t>count if count >= OFFSETS_MIN_COUNT else 0)
