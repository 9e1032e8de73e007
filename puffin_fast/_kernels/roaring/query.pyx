"""Queries of one checked bitmap: membership, rank and select, through a directory of its containers."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from puffin_fast._kernels.bytes cimport ARRAY, BITMAP, CHUNK, RUN, Kind, load16
from puffin_fast._kernels.roaring.containers cimport Container, Cursor, cursor_next, cursor_start
from puffin_fast._kernels.views cimport Buffer, Span, buffer_of, span_of, writable

cdef extern from "bitmap_search.h" nogil:
    uint32_t pf_bitmap_rank(const uint8_t* bits, uint32_t below)
    uint32_t pf_bitmap_select(const uint8_t* bits, uint32_t index)

cdef extern from "container_search.h" nogil:
    int pf_array_has(const uint8_t* values, size_t n, uint16_t value)
    int pf_runs_have(const uint8_t* pairs, size_t n, uint16_t value)
    size_t pf_array_lower_bound(const uint8_t* values, size_t n, uint16_t value)

cdef extern from "simd.h" nogil:
    int pf_choose_level()
    void pf_prefetch(const void* at)

cdef enum:
    BLOCK = 32                  # queries whose containers are loaded at the same time
    TABLE_MIN_QUERIES = 256     # fewer are answered by binary search
    NEAR = 2048                 # containers whose directory and table fit into a core's cache
    REACH_MAX = 64              # most slots between where a key's search begins and where the key is
    ABSENT = 0xFFFFFFFF


cdef bint has(const Container* c, uint32_t value) noexcept nogil:
    if c.kind == BITMAP:
        return (c.payload[value >> 3] >> (value & 7)) & 1
    if c.kind == ARRAY:
        return pf_array_has(c.payload, c.cardinality, <uint16_t>value)
    return pf_runs_have(c.payload, c.n_runs, <uint16_t>value)


cdef uint32_t rank_in(const Container* c, uint32_t below) noexcept nogil:
    """The number of the container's values that are less than `below` <= 65536."""
    cdef uint32_t i, total = 0, start
    if c.kind == BITMAP:
        return pf_bitmap_rank(c.payload, below)
    if c.kind == ARRAY:
        return c.cardinality if below == CHUNK else <uint32_t>pf_array_lower_bound(c.payload, c.cardinality, <uint16_t>below)
    for i in range(c.n_runs):
        start = load16(c.payload + 4 * <size_t>i)
        if start >= below:
            break
        total += min(below - start, <uint32_t>load16(c.payload + 4 * <size_t>i + 2) + 1)
    return total


cdef uint32_t select_in(const Container* c, uint32_t index) noexcept nogil:
    cdef uint32_t i, length
    if c.kind == BITMAP:
        return pf_bitmap_select(c.payload, index)
    if c.kind == ARRAY:
        return load16(c.payload + 2 * <size_t>index)
    for i in range(c.n_runs):
        length = <uint32_t>load16(c.payload + 4 * <size_t>i + 2) + 1
        if index < length:
            return load16(c.payload + 4 * <size_t>i) + index
        index -= length
    return 0


cdef class Directory:
    """The address of each container of a checked bitmap, and the number of positions before it.

    Keeps a reference to the bytes. Takes 48 bytes for each container, and at most 16 more after a call with many queries.
    """

    cdef bytes source
    cdef Container* containers
    cdef uint64_t* before       # positions in the containers before this one
    cdef uint32_t* table        # container by hash of its key, or ABSENT; NULL: not built, search instead
    cdef int shift              # of the hash
    cdef uint32_t reach         # of the table: the largest distance of a key from where its search begins
    cdef bint crowded           # the keys collide too often for a table
    cdef uint32_t n

    def __cinit__(self, bytes data not None, size_t start, size_t n_containers):
        cdef Cursor cursor
        cdef uint64_t total = 0
        cdef uint32_t i = 0
        cdef Span span = span_of(data)
        if n_containers >= ABSENT:
            raise MemoryError(f"directory of {n_containers} containers")
        self.n = <uint32_t>n_containers
        self.source = data
        self.containers = <Container*>malloc(max(n_containers, 1) * sizeof(Container))
        self.before = <uint64_t*>malloc((n_containers + 1) * sizeof(uint64_t))
        if self.containers == NULL or self.before == NULL:
            raise MemoryError("directory of containers")
        with nogil:
            cursor_start(&cursor, span.data + start, span.size - start)
            while i < self.n and cursor_next(&cursor, self.containers + i):
                self.before[i] = total
                total += self.containers[i].cardinality
                i += 1
            self.before[i] = total
        self.n = i

    def __dealloc__(self):
        free(self.containers)
        free(self.before)
        free(self.table)

    cdef uint32_t search(self, uint64_t key) noexcept nogil:
        """The first container whose key is >= key."""
        cdef uint32_t low = 0, n = self.n, half
        while n > 0:
            half = n // 2
            if self.containers[low + half].key < key:
                low += half + 1
                n -= half + 1
            else:
                n = half
        return low

    cdef bint make_table(self) noexcept nogil:
        """Builds a hash table of the keys, unless too many collide. False when memory is out."""
        cdef uint32_t i, distance, reach = 0
        cdef uint64_t slot
        cdef int bits = 4
        cdef uint32_t* table
        if self.table != NULL or self.crowded:
            return True
        while <uint64_t>1 << bits < 2 * <uint64_t>self.n:
            bits += 1
        table = <uint32_t*>malloc(sizeof(uint32_t) << bits)
        if table == NULL:
            return False
        memset(table, 0xFF, sizeof(uint32_t) << bits)       # ABSENT everywhere
        self.shift = 64 - bits
        for i in range(self.n):
            slot = self.slot(self.containers[i].key)
            distance = 0
            while table[slot] != ABSENT:
                slot = (slot + 1) & ((<uint64_t>1 << bits) - 1)
                distance += 1
                if distance > REACH_MAX:
                    free(table)
                    self.crowded = True
                    return True
            table[slot] = i
            reach = max(reach, distance)
        self.reach = reach
        self.table = table
        return True

    cdef inline uint64_t slot(self, uint64_t key) noexcept nogil:
        """The slot where the search for a key begins. Consecutive keys are spread evenly (Fibonacci hashing)."""
        return (key * <uint64_t>0x9E3779B97F4A7C15) >> self.shift

    cdef inline uint32_t find(self, uint64_t key, const uint32_t* table) noexcept nogil:
        """The container with that key, or ABSENT; the table was read while the GIL was held, or is NULL."""
        cdef uint32_t i, left = self.reach
        cdef uint64_t slot
        if table != NULL:
            slot = self.slot(key)
            while table[slot] != ABSENT and self.containers[table[slot]].key != key:
                if left == 0:
                    return ABSENT
                left -= 1
                slot = (slot + 1) & (~<uint64_t>0 >> self.shift)
            return table[slot]
        i = self.search(key)
        return i if i < self.n and self.containers[i].key == key else ABSENT

    cdef void answer(self, const uint64_t* queries, size_t n, const uint32_t* table, uint8_t* out) noexcept nogil:
        """Answers block by block, in stages. Each stage prefetches what the next one reads."""
        cdef uint64_t slots[BLOCK]
        cdef uint32_t found[BLOCK]
        cdef size_t i = 0, j, block
        cdef uint64_t key, last_key
        cdef uint32_t low
        cdef Container* c
        while i < n:
            block = min(<size_t>BLOCK, n - i)
            if table != NULL and self.n > NEAR:
                for j in range(block):
                    slots[j] = self.slot(queries[i + j] >> 16)
                    pf_prefetch(table + slots[j])
                for j in range(block):
                    if table[slots[j]] != ABSENT:
                        pf_prefetch(self.containers + table[slots[j]])
            last_key = ~<uint64_t>0
            for j in range(block):
                key = queries[i + j] >> 16
                if key == last_key:
                    found[j] = found[j - 1]
                else:
                    found[j] = self.find(key, table)
                    last_key = key
                if found[j] != ABSENT:
                    c = self.containers + found[j]
                    if c.kind == BITMAP:
                        pf_prefetch(c.payload + ((queries[i + j] & 0xFFFF) >> 3))
                    else:
                        pf_prefetch(c.payload)
                        pf_prefetch(c.payload + 64)
            for j in range(block):
                low = <uint32_t>(queries[i + j] & 0xFFFF)
                out[i + j] = found[j] != ABSENT and has(self.containers + found[j], low)
            i += block

    def contains(self, queries, out):
        """out[i] = 1 if queries[i] (8-byte integers) is in the set, else 0."""
        cdef Buffer positions = buffer_of(queries), answers = writable(out)
        cdef size_t n = positions.size // 8
        cdef const uint32_t* table
        if answers.size < n:
            raise ValueError(f"out has {answers.size} bytes, {n} are needed")
        if n > 0:
            if n >= TABLE_MIN_QUERIES and not self.make_table():
                raise MemoryError("table of containers")
            table = self.table
            with nogil:
                self.answer(<const uint64_t*>positions.data, n, table, answers.data)

    def contains_one(self, uint64_t position):
        cdef uint32_t i = self.find(position >> 16, self.table)
        return i != ABSENT and has(self.containers + i, <uint32_t>(position & 0xFFFF))

    def rank(self, uint64_t position):
        """How many positions of the set are <= position."""
        cdef uint32_t i = self.search(position >> 16)
        if i < self.n and self.containers[i].key == position >> 16:
            return self.before[i] + rank_in(self.containers + i, <uint32_t>(position & 0xFFFF) + 1)
        return self.before[i]

    def select(self, uint64_t index):
        """The position that has exactly `index` positions before it; index is below the cardinality."""
        cdef uint32_t low = 0, n = self.n, half
        if index >= self.before[self.n]:
            raise IndexError(index)
        while n > 0:                # the last container with before <= index
            half = n // 2
            if self.before[low + half] <= index:
                low += half + 1
                n -= half + 1
            else:
                n = half
        low -= 1
        return (self.containers[low].key << 16) | select_in(self.containers + low, <uint32_t>(index - self.before[low]))


pf_choose_level()
