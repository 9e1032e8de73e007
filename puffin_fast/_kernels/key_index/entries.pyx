"""Entries of a key index, sorted and written as blocks; see `entries.h`."""

from cpython.bytearray cimport PyByteArray_AsString, PyByteArray_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from puffin_fast._kernels.bytes cimport store32
from puffin_fast._kernels.key_index.blocks cimport form_of, pf_key_block, pf_key_form, pf_key_seed, pf_key_start
from puffin_fast._kernels.roaring.frames cimport crc32
from puffin_fast._kernels.views cimport Buffer, buffer_of

cdef extern from "key_index/entries.h" nogil:
    enum:
        PF_WRITTEN_AHEAD
    ctypedef struct pf_key_entries:
        pf_key_form form
        uint64_t first
        uint64_t n_blocks
        int shift
        int wide
        size_t n_partitions
        size_t n
        size_t* starts
        size_t* next
        uint8_t* data
    int pf_choose_level()
    void pf_ask_for_huge_pages(void* data, size_t size)
    void pf_give_back(void* data, size_t size)
    size_t pf_key_entry_size(int wide)
    int pf_key_count(const pf_key_entries* to, const uint8_t* hashes, size_t n, size_t* counts)
    size_t pf_key_add(const pf_key_entries* to, const uint8_t* hashes, const uint8_t* ordinals, uint64_t base, size_t n)
    void pf_key_sort(const pf_key_entries* all, const uint8_t* source, size_t n, size_t n_slots, uint32_t* ends,
                     uint8_t* to)
    void pf_key_write(const pf_key_entries* all, const uint8_t* data, size_t n, const uint32_t* ends, size_t first,
                      uint8_t* block, size_t size)

cdef enum:
    SUM_BYTES = 4
    BLOCKS_OF_PARTITION_BITS = 6    # 128 KiB of entries, and 64 KiB of the ends of slots
    MAX_PARTITION_BITS = 12         # a cache line of each partition stays in the cache
    READ_BYTES = 1 << 24            # memory of read entries is given back in pieces of this size


cdef class Entries:
    """The entries of consecutive blocks: all are counted, then all added, then packed.

    Memory: 8 bytes for each entry, or 12 if a hash and an ordinal have too many bits; and the blocks.

    Args:
        form: (b, t, r, o, seal).
        first, last: the number of the first block, and that of the block after the last.
    """

    cdef pf_key_entries _all

    def __cinit__(self, form, size_t first, size_t last):
        self._all.form = form_of(form)
        if not first < last <= <size_t>1 << self._all.form.b:
            raise ValueError(f"blocks: expected some of {1 << self._all.form.b}, found {first} to {last}")
        cdef int bits = self._all.form.t + self._all.form.r, b = 0
        while b < 63 and last - first > <size_t>1 << b:
            b += 1
        cdef int joined = max(min(BLOCKS_OF_PARTITION_BITS, b), b - MAX_PARTITION_BITS)
        self._all.shift = bits + joined
        self._all.wide = self._all.shift + self._all.form.o > 64
        self._all.n_blocks = last - first
        self._all.first = <uint64_t>first << bits if bits < 64 else 0
        self._all.n_partitions = ((last - first - 1) >> joined) + 1
        self._all.starts = <size_t*>calloc(self._all.n_partitions + 1, sizeof(size_t))
        self._all.next = <size_t*>malloc(self._all.n_partitions * sizeof(size_t))
        if self._all.starts == NULL or self._all.next == NULL:
            raise MemoryError("entries of a key index")

    def __dealloc__(self):
        free(self._all.starts)
        free(self._all.next)
        free(self._all.data)

    def count(self, hashes):
        """Counts entries by their hashes, words of b + t + r bits."""
        cdef Buffer source = buffer_of(hashes)
        cdef size_t n = source.size // 8
        cdef int known
        if source.size % 8 or self._all.data != NULL or self._all.n + n > 0xFFFFFFFF:
            raise ValueError(f"hashes: expected less than 2^32 words before one is added, found {source.size} bytes")
        with nogil:
            known = pf_key_count(&self._all, source.data, n, self._all.starts + 1)
        if not known:
            raise ValueError("hashes: expected those of the blocks, found others")
        self._all.n += n

    def add(self, hashes, ordinals=None, uint64_t base=0):
        """Adds entries that were counted.

        Args:
            hashes: as they were counted.
            ordinals: of 4 bytes each; None for 0 and the numbers after it.
            base: is added to the ordinals.
        """
        cdef Buffer source = buffer_of(hashes), rows = None if ordinals is None else buffer_of(ordinals)
        cdef size_t n = source.size // 8, i, added
        cdef const uint8_t* given = NULL if ordinals is None else rows.data
        if source.size % 8 or (ordinals is not None and rows.size != 4 * n):
            raise ValueError(f"ordinals: expected {n}, found {rows.size} bytes")
        if self._all.data == NULL:
            for i in range(self._all.n_partitions):
                self._all.starts[i + 1] += self._all.starts[i]
                self._all.next[i] = self._all.starts[i]
            size = self._all.n * pf_key_entry_size(self._all.wide)
            self._all.data = <uint8_t*>malloc(size + 1)
            if self._all.data == NULL:
                raise MemoryError("entries of a key index")
            pf_ask_for_huge_pages(self._all.data, size)
        with nogil:
            added = pf_key_add(&self._all, source.data, given, base, n)
        if added < n:
            raise ValueError(f"entries: expected those counted, of {self._all.form.o} bits; {added} of {n} is another")

    def pack(self, uint64_t n_before=0):
        """Sorts the entries and writes them as blocks; the entries are lost.

        Args:
            n_before: the number of entries of the index before these blocks.

        Returns:
            The number of entries of the index before each block, of 4 bytes; and the blocks.
        """
        cdef pf_key_form* form = &self._all.form
        cdef int bits = form.t + form.r
        cdef size_t joined = <size_t>1 << (self._all.shift - bits), slots = <size_t>1 << form.t
        cdef size_t i, k, most = 0, start, n, block_n, place, size
        cdef uint64_t number = self._all.first >> bits if bits < 64 else 0, before = n_before
        cdef uint64_t last = number + self._all.n_blocks, origin = pf_key_start(form, number, n_before)
        cdef uint32_t total
        for i in range(self._all.n_partitions):
            if self._all.n and (self._all.data == NULL or self._all.next[i] != self._all.starts[i + 1]):
                raise ValueError("entries: expected as many added as were counted, found fewer")
            most = max(most, self._all.starts[i + 1] - self._all.starts[i])
        cdef bytearray directory = bytearray(4 * self._all.n_blocks)
        size = pf_key_start(form, last, n_before + self._all.n) - origin + PF_WRITTEN_AHEAD
        cdef bytearray blocks = PyByteArray_FromStringAndSize(NULL, size)
        cdef uint8_t* counts = <uint8_t*>PyByteArray_AsString(directory)
        cdef uint8_t* out = <uint8_t*>PyByteArray_AsString(blocks)
        cdef uint32_t* ends = <uint32_t*>malloc((slots * joined + 1) * sizeof(uint32_t))
        cdef uint8_t* to = <uint8_t*>malloc(most * pf_key_entry_size(self._all.wide) + 1)
        cdef uint8_t* at
        cdef uint8_t* kept = self._all.data
        cdef bint summed = True
        try:
            if ends == NULL or to == NULL:
                raise MemoryError("blocks of a key index")
            with nogil:
                for i in range(self._all.n_partitions):
                    start = self._all.starts[i]
                    n = self._all.starts[i + 1] - start
                    at = self._all.data + start * pf_key_entry_size(self._all.wide) if n else to
                    pf_key_sort(&self._all, at, n, slots * joined, ends, to)
                    if n and at - kept >= READ_BYTES:
                        pf_give_back(kept, at - kept)
                        kept = at - (at - self._all.data) % READ_BYTES
                    start = 0
                    for k in range(joined):
                        if number == last:
                            break
                        block_n = ends[slots * (k + 1) - 1] - start
                        place = pf_key_start(form, number, before) - origin
                        size = pf_key_start(form, number + 1, before + block_n) - origin - place
                        pf_key_write(&self._all, to + start * pf_key_entry_size(self._all.wide), block_n,
                                     ends + slots * k, start, out + place, size)
                        total = 0
                        summed = summed and crc32(out + place + SUM_BYTES, size - SUM_BYTES, &total)
                        store32(out + place, total ^ pf_key_seed(form, number, block_n))
                        store32(counts, before)
                        counts += 4
                        start += block_n
                        before += block_n
                        number += 1
            if not summed:
                raise MemoryError("the checksum of a block")
        finally:
            free(ends)
            free(to)
            free(self._all.data)
            self._all.data = NULL
        del blocks[len(blocks) - PF_WRITTEN_AHEAD:]
        return directory, blocks


pf_choose_level()
