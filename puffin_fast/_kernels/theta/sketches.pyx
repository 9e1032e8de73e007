"""Theta sketches: the 4096 smallest distinct hashes of the values of Arrow buffers, and theta.

An `Accumulator` takes buffers of values, and hashes of other sketches, in any order and number. Its result is the
fields of the compact form: theta, and the hashes in ascending order.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from puffin_fast._kernels.bytes cimport load64
from puffin_fast._kernels.order cimport sort_u64
from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "sketches.h" nogil:
    enum:
        PF_THETA_FULL
        PF_THETA_K
    ctypedef struct pf_theta:
        uint64_t theta
        size_t count
        uint64_t hashes[PF_THETA_FULL]
        uint64_t slots[1]
    ctypedef struct pf_strings:
        const uint8_t* data
        uint64_t data_size
        const uint8_t* offsets
        int wide
    int pf_choose_level()
    void pf_theta_start(pf_theta* sketch)
    void pf_theta_add(pf_theta* sketch, const uint64_t* hashes, size_t n)
    void pf_theta_add_words(pf_theta* sketch, const uint8_t* values, size_t width, const uint8_t* validity,
                            size_t bit, size_t n)
    int pf_theta_add_strings(pf_theta* sketch, const pf_strings* source, const uint8_t* validity, size_t bit, size_t n)
    void pf_theta_cut(pf_theta* sketch)
    size_t pf_theta_gather(pf_theta* sketch)
    void pf_theta_lower(pf_theta* sketch, uint64_t theta)
    int pf_mark_used(const uint8_t* indices, size_t width, const uint8_t* validity, size_t bit, size_t n,
                     uint8_t* used, size_t n_used)

K = PF_THETA_K
"""The largest number of hashes that a sketch retains."""


cdef const uint8_t* items(Buffer source, size_t width, size_t first, size_t n, str what) except NULL:
    """Returns the address of item `first`, after a check that n items of `width` bytes from there on are inside the buffer."""
    if first > source.size // width or n > source.size // width - first:
        raise ValueError(f"{what}: expected {n} items of {width} bytes from item {first} on, found {source.size} bytes")
    return source.data + width * first


cdef Buffer validity_of(object bits, size_t first, size_t n):
    """Returns the validity bits of n values from value `first` on, or None when all values are valid."""
    if bits is None:
        return None
    cdef Buffer source = buffer_of(bits)
    if first > 8 * source.size or n > 8 * source.size - first:
        raise ValueError(f"validity: expected {n} bits from bit {first} on, found {source.size} bytes")
    return source


cdef const uint8_t* bits_of(Buffer validity) noexcept:
    return NULL if validity is None else validity.data


cdef class Accumulator:
    """Collects the smallest distinct hashes of all values that are added. Takes one call at a time."""

    cdef pf_theta* sketch
    cdef bint busy

    def __cinit__(self):
        self.sketch = <pf_theta*>malloc(sizeof(pf_theta))
        if self.sketch == NULL:
            raise MemoryError("a theta sketch")
        pf_theta_start(self.sketch)

    def __dealloc__(self):
        free(self.sketch)

    cdef int claim(self) except -1:
        """Raises ValueError while a call of another thread, which has released the GIL, is running."""
        if self.busy:
            raise ValueError("Accumulator: expected one call at a time, found one of another thread that has not returned")
        self.busy = True
        return 0

    def add_words(self, values, size_t width, validity, size_t first, size_t n):
        """Adds values of 4 or 8 bytes, or decimals of 16 bytes.

        Args:
            values: a contiguous buffer.
            width: the number of bytes of a value: 4, 8 or 16.
            validity: one bit per value, least significant first; None when all are valid.
            first: the index of the first value.
            n: the number of values.
        """
        cdef Buffer source = buffer_of(values), valid = validity_of(validity, first, n)
        cdef const uint8_t* bits = bits_of(valid)
        cdef const uint8_t* at
        if width not in (4, 8, 16):
            raise ValueError(f"width: expected 4, 8 or 16, found {width}")
        at = items(source, width, first, n, "values")
        self.claim()
        try:
            with nogil:
                pf_theta_add_words(self.sketch, at, width, bits, first, n)
        finally:
            self.busy = False

    def add_strings(self, data, offsets, bint wide, validity, size_t first, size_t n):
        """Adds byte strings, except empty ones. Returns False when an offset is outside of the data.

        Args:
            data: a contiguous buffer.
            offsets: n + 1 offsets, beginning with that of the first value.
            wide: whether offsets have 8 bytes instead of 4.
            validity, first, n: as `add_words`.
        """
        cdef Buffer values = buffer_of(data), bounds = buffer_of(offsets), valid = validity_of(validity, first, n)
        cdef const uint8_t* bits = bits_of(valid)
        cdef pf_strings source
        cdef int status
        source.data = values.data
        source.data_size = values.size
        source.offsets = items(bounds, 8 if wide else 4, first, n + 1, "offsets")
        source.wide = wide
        self.claim()
        try:
            with nogil:
                status = pf_theta_add_strings(self.sketch, &source, bits, first, n)
            return status == 0
        finally:
            self.busy = False

    def add_hashes(self, hashes, size_t start, uint64_t theta):
        """Adds the hashes of another sketch, and lowers theta to the theta of that sketch.

        Args:
            hashes: a contiguous buffer of bytes, whose hashes are ascending words.
            start: the byte offset of the first hash.
            theta: the other sketch's theta. Its hashes are below it.
        """
        cdef Buffer source = buffer_of(hashes)
        cdef size_t n = (source.size - start) // 8 if start <= source.size else 0
        cdef size_t i
        cdef uint64_t hash
        self.claim()
        try:
            with nogil:
                pf_theta_lower(self.sketch, theta)
                for i in range(n):
                    hash = load64(source.data + start + 8 * i)
                    if hash >= self.sketch.theta:
                        break
                    pf_theta_add(self.sketch, &hash, 1)
        finally:
            self.busy = False

    def result(self):
        """Returns (theta, the hashes as little-endian words in ascending order)."""
        cdef size_t count
        cdef uint64_t theta
        self.claim()
        try:
            with nogil:
                count = pf_theta_gather(self.sketch)
                if self.sketch.count != count:  # the hash table still holds hashes that are not below theta
                    pf_theta_cut(self.sketch)
                    count = pf_theta_gather(self.sketch)
                sort_hashes(self.sketch.hashes, count)
            theta = self.sketch.theta
            return theta, PyBytes_FromStringAndSize(<const char*>self.sketch.hashes, 8 * count)
        finally:
            self.busy = False


cdef void sort_hashes(uint64_t* hashes, size_t count) noexcept nogil:
    cdef uint64_t spare[PF_THETA_FULL]
    sort_u64(hashes, spare, count)


def mark_used(indices, size_t width, validity, size_t first, size_t n, used):
    """Sets used[i] = 1 for each index i of a dictionary array. Returns False when an index is not below len(used).

    Args:
        indices: a contiguous buffer.
        width: the number of bytes of an index: 1, 2, 4 or 8. Indexes are read as unsigned.
        validity, first, n: as `Accumulator.add_words`.
        used: a writable buffer, one byte for each entry of the dictionary.
    """
    cdef Buffer source = buffer_of(indices), valid = validity_of(validity, first, n), target = writable(used)
    cdef const uint8_t* bits = bits_of(valid)
    cdef const uint8_t* at
    cdef int status
    if width not in (1, 2, 4, 8):
        raise ValueError(f"width: expected 1, 2, 4 or 8, found {width}")
    at = items(source, width, first, n, "indices")
    with nogil:
        status = pf_mark_used(at, width, bits, first, n, target.data, target.size)
    return status == 0


pf_choose_level()
