"""Sets of integers: which numbers of a batch are members, and, of a set in a narrow range, their ranks.

A set in a narrow range has a bit for each number of the range, another one the hashes of its members.
"""

import os

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "members.h" nogil:
    ctypedef struct pf_members:
        int64_t lowest
        uint64_t span
        uint64_t* words
        uint32_t* ranks
    int64_t pf_members_fill(const pf_members* set, const uint8_t* numbers, size_t n)
    void pf_members_contain(const pf_members* set, const uint8_t* numbers, size_t width, size_t n, uint8_t* out)
    void pf_members_ranks(const pf_members* set, const uint8_t* numbers, size_t n, int32_t* out)
    void pf_members_first(const pf_members* set, const uint8_t* numbers, size_t n, int64_t* out)
    void pf_members_sorted(const pf_members* set, int64_t* out)
    ctypedef struct pf_sparse:
        uint64_t seed
        int shift
        uint64_t* words
        uint32_t* stops
        uint64_t* hashes
    void pf_sparse_fill(const pf_sparse* set, size_t n_words, const uint8_t* numbers, size_t n)
    void pf_sparse_contain(const pf_sparse* set, const uint8_t* numbers, size_t width, size_t n, uint8_t* out)

    void pf_ends(const uint8_t* numbers, size_t n, int64_t* ends)

cdef extern from "simd.h" nogil:
    int pf_choose_level()

cdef enum:
    BITS_PER_NUMBER = 32  # of a narrow range


cdef Buffer output_of(object out, size_t n_bytes):
    cdef Buffer found = writable(out)
    if found.size != n_bytes:
        raise ValueError(f"output of {found.size} bytes; expected {n_bytes}")
    return found


cdef size_t width_of(size_t n_bytes, size_t n) except 0:
    """The bytes of each of n numbers."""
    if n_bytes != 8 * n and n_bytes != 4 * n:
        raise ValueError(f"output for {n} numbers; expected {n_bytes // 8} or {n_bytes // 4}")
    return 8 if n_bytes == 8 * n else 4


def members_of(numbers):
    """Makes the set of some int64: `Members` if their range is narrow, else `SparseMembers`.

    Args:
        numbers: a buffer of int64 in any order, also repeated.
    """
    cdef Buffer source = buffer_of(numbers)
    cdef size_t n = source.size // 8
    cdef int64_t ends[2]
    pf_ends(source.data, n, ends)
    cdef uint64_t span = <uint64_t>ends[1] - <uint64_t>ends[0]  # less 1
    if n and span < BITS_PER_NUMBER * n:
        return Members(numbers, ends[0], span + 1)
    return SparseMembers(numbers)


cdef class Members:
    """Distinct int64 of a range. Memory: 1.5 bits for each number of the range. Safe to use from several threads.

    Args:
        numbers: a buffer of int64 in any order, also repeated.
        lowest: the lowest number of the range.
        span: how many numbers the range has, 1 to 2^36.

    Raises:
        ValueError: a number is outside of the range, or there are more than 2^31 of them.
    """

    cdef pf_members _set
    cdef size_t _count

    def __cinit__(self, numbers, int64_t lowest, uint64_t span):
        cdef Buffer source = buffer_of(numbers)
        cdef size_t n = source.size // 8
        cdef int64_t count
        if not 0 < span <= <uint64_t>1 << 36 or n > <size_t>1 << 31:
            raise ValueError(f"{n} numbers in a range of {span}")
        self._set.lowest, self._set.span = lowest, span
        self._set.words = <uint64_t*>calloc((span + 63) // 64, 8)
        self._set.ranks = <uint32_t*>malloc((span + 63) // 64 * 4)
        if self._set.words == NULL or self._set.ranks == NULL:
            raise MemoryError
        with nogil:
            count = pf_members_fill(&self._set, source.data, n)
        if count < 0:
            raise ValueError(f"a number is not one of the {span} from {lowest} on")
        self._count = <size_t>count

    def __dealloc__(self):
        free(self._set.words)
        free(self._set.ranks)

    def __len__(self):
        return self._count

    def contain(self, numbers, out):
        """Writes a byte for each of the numbers: 1 for a member, else 0.

        Args:
            numbers: int64, or int32 if these have half as many bytes.
            out: as many bytes as there are numbers.
        """
        cdef Buffer source = buffer_of(numbers), target = writable(out)
        cdef size_t n = target.size, width = width_of(source.size, n)
        with nogil:
            pf_members_contain(&self._set, source.data, width, n, target.data)

    def ranks(self, numbers, out):
        """Writes how many members are less than each of the numbers, int32; -1 for a number that is no member."""
        cdef Buffer source = buffer_of(numbers)
        cdef size_t n = source.size // 8
        cdef Buffer target = output_of(out, 4 * n)
        with nogil:
            pf_members_ranks(&self._set, source.data, n, <int32_t*>target.data)

    def sorted(self, out):
        """Writes the members in ascending order, int64."""
        cdef Buffer target = output_of(out, 8 * self._count)
        with nogil:
            pf_members_sorted(&self._set, <int64_t*>target.data)

    def first(self, numbers, out):
        """Writes the index at which each member, in ascending order, is first among the numbers; int64.

        Args:
            numbers: those that the set was made of.
            out: for as many indexes as there are members; that of a member which is not among the numbers is not written.
        """
        cdef Buffer source = buffer_of(numbers), target = output_of(out, 8 * self._count)
        cdef size_t n = source.size // 8
        with nogil:
            pf_members_first(&self._set, source.data, n, <int64_t*>target.data)


cdef class SparseMembers:
    """Int64 of any range. Memory: about 16 bytes for each. Safe to use from several threads.

    Args:
        numbers: a buffer of int64 in any order, also repeated.

    Raises:
        ValueError: there are more than 2^31 of them.
    """

    cdef pf_sparse _set

    def __cinit__(self, numbers):
        cdef Buffer source = buffer_of(numbers)
        cdef size_t n = source.size // 8, n_words = 1
        if n > <size_t>1 << 31:
            raise ValueError(f"{n} numbers; expected at most 2^31")
        self._set.shift = 58
        while n_words * 2 < n:
            n_words *= 2
            self._set.shift -= 1
        self._set.seed = int.from_bytes(os.urandom(8), "little")
        self._set.words = <uint64_t*>calloc(n_words, 8)
        self._set.stops = <uint32_t*>calloc(n_words, 4)
        self._set.hashes = <uint64_t*>malloc(max(n, 1) * 8)
        if self._set.words == NULL or self._set.stops == NULL or self._set.hashes == NULL:
            raise MemoryError
        with nogil:
            pf_sparse_fill(&self._set, n_words, source.data, n)

    def __dealloc__(self):
        free(self._set.words)
        free(self._set.stops)
        free(self._set.hashes)

    def contain(self, numbers, out):
        """As `Members.contain`."""
        cdef Buffer source = buffer_of(numbers), target = writable(out)
        cdef size_t n = target.size, width = width_of(source.size, n)
        with nogil:
            pf_sparse_contain(&self._set, source.data, width, n, target.data)


pf_choose_level()
