"""A set of byte strings that stand in buffers, numbered in their order; found by hash and by all of their bytes."""

import os

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

from puffin_fast._kernels.bytes cimport load32, load64
from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from *:
    """
    static inline uint64_t pf_text_fold(uint64_t a, uint64_t b) {
        const unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    """
    uint64_t pf_text_fold(uint64_t a, uint64_t b) noexcept nogil

cdef enum:
    FEWEST_SLOTS = 16
    MOST_TEXTS = 0x7FFFFFFF
    MOST_BYTES = 0x7FFFFFFF

cdef uint64_t M1 = 0x9E3779B97F4A7C15ULL
cdef uint64_t M2 = 0xD6E8FEB86659FD93ULL


cdef inline uint64_t hash_of(const uint8_t* at, size_t size, uint64_t seed) noexcept nogil:
    cdef uint64_t found = seed ^ (size * M1), a = 0, b = 0
    while size > 16:
        found = pf_text_fold(load64(at) ^ M1 ^ found, load64(at + 8) ^ M2 ^ seed)
        at += 16
        size -= 16
    if size >= 8:
        a = load64(at)
        b = load64(at + size - 8)
    elif size >= 4:
        a = load32(at)
        b = load32(at + size - 4)
    elif size > 0:
        memcpy(&a, at, size)
    return pf_text_fold(pf_text_fold(a ^ M1 ^ found, b ^ M2 ^ seed) ^ M2, found ^ M1)


cdef class Texts:
    """Distinct byte strings. Memory: 24 to 48 bytes for each; the buffers are kept. `add` is not thread-safe."""

    cdef list _buffers
    cdef uint64_t _seed
    cdef const uint8_t** _starts
    cdef uint32_t* _sizes
    cdef uint64_t* _slots       # high half: a part of the hash; low half: the number of the text, from 1 on
    cdef size_t _n, _space, _n_slots

    def __cinit__(self):
        self._buffers = []
        self._seed = int.from_bytes(os.urandom(8), "little")

    def __dealloc__(self):
        free(self._starts)
        free(self._sizes)
        free(self._slots)

    def __len__(self):
        return self._n

    cdef int _reserve(self, size_t more) except -1:
        """Makes room for more texts: at least half of the slots stay empty."""
        cdef size_t wanted = self._n + more, n_slots = self._n_slots if self._n_slots else FEWEST_SLOTS, i
        cdef uint64_t* slots
        cdef uint64_t hashed
        cdef void* moved
        if wanted > MOST_TEXTS:
            raise OverflowError(f"more than {MOST_TEXTS} texts")
        if wanted > self._space:
            wanted = max(wanted, self._space + self._space // 2)
            moved = realloc(self._starts, wanted * sizeof(uint8_t*))
            if moved == NULL:
                raise MemoryError
            self._starts = <const uint8_t**>moved
            moved = realloc(self._sizes, wanted * sizeof(uint32_t))
            if moved == NULL:
                raise MemoryError
            self._sizes = <uint32_t*>moved
            self._space = wanted
        while n_slots < 2 * (self._n + more):
            n_slots *= 2
        if n_slots == self._n_slots:
            return 0
        slots = <uint64_t*>calloc(n_slots, 8)
        if slots == NULL:
            raise MemoryError
        free(self._slots)
        self._slots, self._n_slots = slots, n_slots
        with nogil:
            for i in range(self._n):
                hashed = hash_of(self._starts[i], self._sizes[i], self._seed)
                slots[self._slot(hashed, NULL, 0)] = (hashed >> 32 << 32) | (i + 1)
        return 0

    cdef size_t _slot(self, uint64_t hashed, const uint8_t* at, size_t size) noexcept nogil:
        """The slot of a text, or the empty one where it belongs. With NULL, the next empty one."""
        cdef size_t slot = <size_t>hashed & (self._n_slots - 1), number
        while self._slots[slot]:
            if at != NULL and self._slots[slot] >> 32 == hashed >> 32:
                number = <size_t><uint32_t>self._slots[slot] - 1
                if self._sizes[number] == size and memcmp(self._starts[number], at, size) == 0:
                    break
            slot = (slot + 1) & (self._n_slots - 1)
        return slot

    def add(self, data, starts, sizes, numbers):
        """Adds texts that are not known yet.

        Args:
            data: a buffer with their bytes, which is kept and must not change.
            starts: the offset of each text, as int64.
            sizes: its number of bytes, -1 for null, as int64.
            numbers: is filled with the number of each text, -1 for null, as int64.

        Raises:
            ValueError: a text is not within the buffer.
        """
        self._match(data, starts, sizes, numbers, True)

    def find(self, data, starts, sizes, numbers):
        """Fills `numbers` with the number of each text, -1 if it is not known or null. Arguments as for `add`."""
        self._match(data, starts, sizes, numbers, False)

    cdef int _match(self, data, starts, sizes, numbers, bint adds) except -1:
        cdef Buffer block = buffer_of(data), begins = buffer_of(starts), lengths = buffer_of(sizes)
        cdef Buffer into = writable(numbers)
        cdef size_t n = begins.size // 8, row, slot, size
        cdef const int64_t* at = <const int64_t*>begins.data
        cdef const int64_t* length = <const int64_t*>lengths.data
        cdef int64_t* out = <int64_t*>into.data
        cdef uint64_t hashed
        cdef bint sound = True
        if lengths.size != 8 * n or into.size != 8 * n:
            raise ValueError("expected an offset, a size and a number for each text")
        if adds:
            self._buffers.append(block)
            self._reserve(n)
        with nogil:
            for row in range(n):
                out[row] = -1
                if length[row] < 0 or self._n_slots == 0:
                    continue
                size = <size_t>length[row]
                if at[row] < 0 or size > MOST_BYTES or <size_t>at[row] > block.size or size > block.size - at[row]:
                    sound = False
                    break
                hashed = hash_of(block.data + at[row], size, self._seed)
                slot = self._slot(hashed, block.data + at[row], size)
                if self._slots[slot]:
                    out[row] = <int64_t><uint32_t>self._slots[slot] - 1
                elif adds:
                    self._starts[self._n], self._sizes[self._n] = block.data + at[row], <uint32_t>size
                    out[row] = <int64_t>self._n
                    self._n += 1
                    self._slots[slot] = (hashed >> 32 << 32) | self._n
        if not sound:
            raise ValueError("a text is not within its buffer")
        return 0
