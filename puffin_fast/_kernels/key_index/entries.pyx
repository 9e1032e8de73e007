"""Entries of a key index, sorted and written as blocks; see `entries.h`."""

from cpython.bytearray cimport PyByteArray_AsString, PyByteArray_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

from puffin_fast._kernels.bytes cimport load32, store32
from puffin_fast._kernels.key_index.blocks cimport (
    check_block,
    form_of,
    pf_key_block,
    pf_key_form,
    pf_key_seed,
    pf_key_start,
    pf_key_unpack,
)
from puffin_fast._kernels.roaring.frames cimport crc32
from puffin_fast._kernels.views cimport Buffer, buffer_of

cdef extern from "key_index/entries.h" nogil:
    enum:
        PF_KEY_DAMAGED
        PF_KEY_NO_MEMORY
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
    ctypedef struct pf_key_moves:
        const uint8_t* firsts
        const uint8_t* moved
        const uint8_t* coarse
        int shift
        uint32_t base
    ctypedef struct pf_key_source:
        pf_key_form form
        pf_key_moves moves
        const uint8_t* data
        size_t size
        uint64_t base
        const uint8_t* before
        uint64_t n_rows
        int cut
        size_t number
        size_t last
        uint64_t* hashes
        uint32_t* ordinals
        size_t n
        size_t at
        size_t space
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
    void pf_key_move(pf_key_source* source)
    int pf_key_insert(const pf_key_entries* all, uint8_t* data, size_t n, size_t ordered, size_t n_slots, uint32_t* ends)
    int64_t pf_key_take(const pf_key_entries* to, pf_key_source* source, uint64_t number, uint8_t* data)

cdef enum:
    SUM_BYTES = 4
    BLOCKS_OF_PARTITION_BITS = 6    # 128 KiB of entries, and 64 KiB of the ends of slots
    MAX_PARTITION_BITS = 12         # a cache line of each partition stays in the cache
    READ_BYTES = 1 << 24            # memory of read entries is given back in pieces of this size


cdef bint put_block(const pf_key_entries* all, const uint8_t* data, size_t n, const uint32_t* ends, size_t first,
                    uint8_t* out, uint64_t origin, uint64_t number, uint64_t before) noexcept nogil:
    """Writes a block of sorted entries, with its checksum.

    Args:
        data, n, ends, first: as `pf_key_write`.
        out: where blocks are written, the first of which begins at `origin`.
        number, before: of the block, and of the entries before it.
    """
    cdef uint64_t place = pf_key_start(&all.form, number, before)
    cdef size_t size = pf_key_start(&all.form, number + 1, before + n) - place
    cdef uint8_t* block = out + (place - origin)
    cdef uint32_t total = 0
    pf_key_write(all, data, n, ends, first, block, size)
    cdef bint summed = crc32(block + SUM_BYTES, size - SUM_BYTES, &total)
    store32(block, total ^ pf_key_seed(&all.form, number, n))
    return summed


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
        cdef size_t i, k, most = 0, start, n, block_n, size
        cdef uint64_t number = self._all.first >> bits if bits < 64 else 0, before = n_before
        cdef uint64_t last = number + self._all.n_blocks, origin = pf_key_start(form, number, n_before)
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
                        summed = put_block(&self._all, to + start * pf_key_entry_size(self._all.wide), block_n,
                                           ends + slots * k, start, out, origin, number, before) and summed
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


cdef class Source:
    """Consecutive blocks of a segment that is merged.

    Args:
        data: the bytes of the blocks.
        base: where they begin, from the beginning of the segment's first block on.
        before: the number of entries before each block of the segment and after the last, of 4 bytes.
        form: (b, t, r, o, seal) of the segment.
        n_rows: its number of rows.
        first, last: the number of the first block, and that of the block after the last.
        moved: for each data file the first ordinal in the merged segment, of 8 bytes, below 0 if the file is dropped;
            None if none is dropped.
        firsts: the first ordinal of each data file, and the end of the last, of 4 bytes.
        coarse: the data file of each ordinal that is a multiple of 2^`shift`, of 4 bytes.
        shift: the bits of the ordinals between these.
        first_row: is added to ordinals if no data file is dropped.
    """

    cdef pf_key_source _all
    cdef list _held

    def __cinit__(self, data, uint64_t base, before, form, uint64_t n_rows, size_t first, size_t last, moved=None,
                  firsts=b"", coarse=b"", int shift=0, uint32_t first_row=0):
        cdef pf_key_source* all = &self._all
        cdef Buffer given = buffer_of(data), directory = buffer_of(before), ends = buffer_of(firsts)
        cdef Buffer files = buffer_of(coarse), places
        cdef size_t i
        self._held = [given, directory, ends, files]
        all.form, all.n_rows, all.number, all.last = form_of(form), n_rows, first, last
        all.data, all.size, all.base, all.before = given.data, given.size, base, directory.data
        if directory.size != 4 * ((<size_t>1 << all.form.b) + 1) or not first <= last <= <size_t>1 << all.form.b:
            raise ValueError(f"before: expected {(1 << all.form.b) + 1} numbers, found {directory.size} bytes")
        all.moves.base = first_row
        if moved is None:
            return
        places = buffer_of(moved)
        self._held.append(places)
        all.moves.firsts, all.moves.moved, all.moves.coarse = ends.data, places.data, files.data
        all.moves.shift = shift
        if (ends.size != places.size // 2 + 4 or load32(ends.data + ends.size - 4) < n_rows or not 0 <= shift < 32
                or n_rows > files.size // 4 << shift):
            raise ValueError(f"firsts: expected {places.size // 8 + 1} ordinals up to {n_rows}")
        for i in range(files.size // 4):
            if load32(files.data + 4 * i) >= places.size // 8:
                raise ValueError(f"coarse: expected numbers below {places.size // 8}")

    def __dealloc__(self):
        free(self._all.hashes)
        free(self._all.ordinals)


cdef int next_block(pf_key_source* source, size_t* wrong) noexcept nogil:
    """Reads the entries of the next block of a source. Returns 0, or what is wrong with it."""
    cdef const uint8_t* block = NULL
    cdef size_t size = 0, n = 0
    cdef int status
    wrong[0] = source.number
    status = check_block(&source.form, source.data, source.size, source.base, source.before, source.number, &block,
                         &size, &n)
    if status != 0:
        return status
    if n >= source.space:
        free(source.hashes)
        free(source.ordinals)
        source.space = 2 * n + 1
        source.hashes = <uint64_t*>malloc(source.space * sizeof(uint64_t))
        source.ordinals = <uint32_t*>malloc(source.space * sizeof(uint32_t))
        if source.hashes == NULL or source.ordinals == NULL:
            return PF_KEY_NO_MEMORY
    status = pf_key_unpack(&source.form, block, size, n, source.number, source.n_rows, source.hashes, source.ordinals)
    if status != 0:
        return status
    source.n, source.at = n, 0
    source.number += 1
    pf_key_move(source)
    return 0


def merge(list sources, form, size_t first, size_t last, uint64_t n_before):
    """Merges blocks of segments to consecutive blocks of one.

    Args:
        sources: of each segment the `Source` of all blocks that have entries of these; they are read once.
        form: (b, t, r, o, seal) of the merged segment.
        first, last: the number of the first block, and that of the block after the last.
        n_before: the number of entries of the merged segment before these blocks.

    Returns:
        The index of a source that has a damaged block, or -1, and the number of this block; the number of entries of
        the merged segment before each block, of 4 bytes; the blocks; and the number of their entries.
    """
    cdef pf_key_entries all
    cdef pf_key_source** some = NULL
    cdef pf_key_source* one
    cdef size_t n_sources = len(sources), i, n, n_most = 0, space = 0, wrong = 0, slots, ordered
    cdef uint64_t before = n_before, origin, number
    cdef uint8_t* data = NULL
    cdef uint8_t* to = NULL
    cdef uint8_t* more
    cdef uint8_t* at
    cdef uint32_t* ends = NULL
    cdef int64_t taken = 0
    cdef int status = 0
    cdef bint summed = True
    memset(&all, 0, sizeof(all))
    all.form = form_of(form)
    all.wide = all.form.t + all.form.r + all.form.o > 64
    slots = <size_t>1 << all.form.t
    if not first < last <= <size_t>1 << all.form.b:
        raise ValueError(f"blocks: expected some of {1 << all.form.b}, found {first} to {last}")
    try:
        some = <pf_key_source**>malloc((n_sources + 1) * sizeof(pf_key_source*))
        ends = <uint32_t*>malloc((slots + 1) * sizeof(uint32_t))
        if some == NULL or ends == NULL:
            raise MemoryError("blocks of a key index")
        for i in range(n_sources):
            one = some[i] = &(<Source?>sources[i])._all
            one.cut = one.form.b + one.form.t + one.form.r - all.form.b - all.form.t - all.form.r
            if one.cut < 0:
                raise ValueError(f"sources: expected as many bits of hashes as {form} at least, found {-one.cut} fewer")
            n_most += load32(one.before + 4 * one.last) - load32(one.before + 4 * one.number)
        origin = pf_key_start(&all.form, first, n_before)
        space = pf_key_start(&all.form, last, n_before + n_most) - origin
        directory, blocks = bytearray(4 * (last - first)), PyByteArray_FromStringAndSize(NULL, space + PF_WRITTEN_AHEAD)
        counts, out = <uint8_t*>PyByteArray_AsString(directory), <uint8_t*>PyByteArray_AsString(blocks)
        space = 0
        with nogil:
            for number in range(first, last):
                n = i = ordered = 0
                while i < n_sources:
                    one = some[i]
                    if n + one.n - one.at > space:
                        space = 2 * (n + one.n - one.at)
                        more = <uint8_t*>realloc(data, space * pf_key_entry_size(all.wide))
                        free(to)
                        to = <uint8_t*>malloc(space * pf_key_entry_size(all.wide))
                        if more != NULL:
                            data = more
                        if more == NULL or to == NULL:
                            status = PF_KEY_NO_MEMORY
                            break
                    taken = pf_key_take(&all, one, number, data + n * pf_key_entry_size(all.wide))
                    if taken < 0:
                        status = PF_KEY_DAMAGED
                        break
                    n += taken
                    if i == 0:
                        ordered = n
                    if one.at < one.n or one.number == one.last:
                        i += 1
                        continue
                    status = next_block(one, &wrong)
                    if status != 0:
                        break
                if status != 0:
                    break
                at = data
                if not pf_key_insert(&all, data, n, ordered, slots, ends):
                    pf_key_sort(&all, data, n, slots, ends, to)
                    at = to
                summed = put_block(&all, at, n, ends, 0, out, origin, number, before) and summed
                store32(counts, before)
                counts += 4
                before += n
        if status == PF_KEY_DAMAGED:
            return i, wrong, directory, blocks, 0
        if status != 0 or not summed:
            raise MemoryError("blocks of a key index")
    finally:
        free(some)
        free(ends)
        free(data)
        free(to)
    del blocks[pf_key_start(&all.form, last, before) - origin:]
    return -1, 0, directory, blocks, before - n_before


pf_choose_level()
