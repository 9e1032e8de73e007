"""Set operations from serialised bytes to serialised bytes, container by container.

More than 400 lines because operations on two bitmaps and the union of many share the operations on containers.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from puffin_fast._kernels.bytes cimport ARRAY, ARRAY_MAX, BITMAP, BITMAP_BYTES, CHUNK, MAX_POSITION, RUN, load16, store16
from puffin_fast._kernels.containers cimport (
    Container, Cursor, Writer, cursor_next, cursor_start, writer_array, writer_bits, writer_copy, writer_reserve, writer_runs,
)

cdef extern from "array_merge.h" nogil:
    size_t pf_array_merge(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    size_t pf_array_union(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    size_t pf_array_intersection(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    size_t pf_array_difference(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)

cdef extern from "arrays.h" nogil:
    enum:
        PF_SPARSE_BYTES
    bint pf_merges_fast(size_t n, size_t total)
    void pf_sparse_set(const uint8_t* values, size_t n, uint8_t* sparse)
    size_t pf_sparse_take(uint8_t* sparse, uint8_t* out)
    uint32_t pf_runs_union(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    size_t pf_array_symmetric(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    size_t pf_array_filter(const uint8_t* values, size_t n, const uint8_t* bits, unsigned wanted, uint8_t* out)
    void pf_array_set(const uint8_t* values, size_t n, uint8_t* bits)

cdef extern from "bitmap_combine.h" nogil:
    uint32_t pf_bitmap_unite(const uint8_t** bitmaps, size_t n, uint8_t* out)
    uint32_t pf_bitmap_combine(int op, const uint8_t* a, const uint8_t* b, uint8_t* out)
    void pf_set_range(uint8_t* bits, uint64_t start, uint64_t end)

cdef extern from "bitmap_count.h" nogil:
    uint32_t pf_bitmap_cardinality(const uint8_t* bits)

cdef extern from "simd.h" nogil:
    int pf_choose_level()

cdef void add_bits(const Container* c, uint8_t* bits) noexcept nogil:
    """Sets the bits of an array or run container."""
    cdef uint32_t i, start
    if c.kind == ARRAY:
        pf_array_set(c.payload, c.cardinality, bits)
    else:
        for i in range(c.n_runs):
            start = load16(c.payload + 4 * <size_t>i)
            pf_set_range(bits, start, min(<uint32_t>CHUNK, start + load16(c.payload + 4 * <size_t>i + 2) + 1))


cdef const uint8_t* as_bits(const Container* c, uint8_t* scratch) noexcept nogil:
    """Returns the container as a bitmap: its own payload, or one that is built in scratch."""
    if c.kind == BITMAP:
        return c.payload
    memset(scratch, 0, BITMAP_BYTES)
    add_bits(c, scratch)
    return scratch


cdef inline uint32_t edge(const Container* c, uint32_t i) noexcept nogil:
    """The i-th edge of the runs: the start (even i) or end (odd i) of run i // 2; 2^17 after the last one."""
    cdef const uint8_t* pair = c.payload + 4 * <size_t>(i >> 1)
    if i >> 1 == c.n_runs:
        return 1 << 17
    return load16(pair) + (<uint32_t>load16(pair + 2) + 1 if i & 1 else 0)


cdef uint32_t sweep_runs(int op, const Container* a, const Container* b, uint8_t* pairs) noexcept nogil:
    """Writes the runs of a OP b (not a union), which do not touch, and returns their number.

    The output has space for one run more than a and b have together.
    """
    cdef uint32_t i = 0, j = 0, n = 0, at, start = 0
    cdef bint inside = False, now
    while i < 2 * a.n_runs or j < 2 * b.n_runs:
        at = min(edge(a, i), edge(b, j))
        while edge(a, i) == at:
            i += 1
        while edge(b, j) == at:
            j += 1
        if op == PF_AND:
            now = (i & 1) and (j & 1)
        elif op == PF_ANDNOT:
            now = (i & 1) and not (j & 1)
        else:
            now = (i & 1) != (j & 1)
        if now and not inside:
            start = at
        elif inside and not now:
            store16(pairs + 4 * <size_t>n, <uint16_t>start)
            store16(pairs + 4 * <size_t>n + 2, <uint16_t>(at - start - 1))
            n += 1
        inside = now
    return n


cdef bint combine_containers(int op, const Container* a, const Container* b, Writer* writer, uint8_t* scratch) noexcept nogil:
    """Writes a OP b. scratch has 3 * SCRATCH bytes."""
    cdef uint8_t* out = scratch
    cdef uint8_t* bits = scratch + SCRATCH
    cdef uint8_t* more_bits = scratch + 2 * SCRATCH
    cdef const Container* few
    cdef const Container* other
    cdef size_t n
    if a.kind == ARRAY and b.kind == ARRAY and (
        op == PF_AND or op == PF_ANDNOT or a.cardinality + b.cardinality <= ARRAY_MAX
    ):
        if op == PF_OR:
            n = pf_array_union(a.payload, a.cardinality, b.payload, b.cardinality, out)
        elif op == PF_AND:
            n = pf_array_intersection(a.payload, a.cardinality, b.payload, b.cardinality, out)
        elif op == PF_ANDNOT:
            n = pf_array_difference(a.payload, a.cardinality, b.payload, b.cardinality, out)
        else:
            n = pf_array_symmetric(a.payload, a.cardinality, b.payload, b.cardinality, out)
        return writer_array(writer, a.key, out, <uint32_t>n)
    if a.kind == RUN and b.kind == RUN and a.n_runs + b.n_runs < 4096:
        if op == PF_OR:
            n = pf_runs_union(a.payload, a.n_runs, b.payload, b.n_runs, out)
        else:
            n = sweep_runs(op, a, b, out)
        return writer_runs(writer, a.key, out, <uint32_t>n)
    if (op == PF_AND and (a.kind == ARRAY or b.kind == ARRAY)) or (op == PF_ANDNOT and a.kind == ARRAY):
        few = a if a.kind == ARRAY else b
        other = b if a.kind == ARRAY else a
        n = pf_array_filter(few.payload, few.cardinality, as_bits(other, bits), op == PF_AND, out)
        return writer_array(writer, a.key, out, <uint32_t>n)
    out = writer_reserve(writer, BITMAP_BYTES)
    if out == NULL:
        return False
    return writer_bits(writer, a.key, pf_bitmap_combine(op, as_bits(a, bits), as_bits(b, more_bits), out))


cdef bint combine_all(int op, const Vector* left, const Vector* right, Writer* writer, uint8_t* scratch,
                      bint any_is_enough) noexcept nogil:
    """Writes left OP right, or only its first container if any is enough. False when memory is out."""
    cdef Cursor x, y
    cdef Container a, b
    cdef bint more_a, more_b
    cursor_start(&x, left.data, left.size)
    cursor_start(&y, right.data, right.size)
    x.minimal = left.minimal
    y.minimal = right.minimal
    more_a = cursor_next(&x, &a)
    more_b = cursor_next(&y, &b)
    while more_a or more_b:
        if any_is_enough and writer.cardinality > 0:
            return True
        if not more_b or (more_a and a.key < b.key):
            if op == PF_AND and not more_b:
                return True
            if op != PF_AND and not writer_copy(writer, &a):
                return False
            more_a = cursor_next(&x, &a)
        elif not more_a or b.key < a.key:
            if not more_a and (op == PF_AND or op == PF_ANDNOT):
                return True
            if (op == PF_OR or op == PF_XOR) and not writer_copy(writer, &b):
                return False
            more_b = cursor_next(&y, &b)
        else:
            if not combine_containers(op, &a, &b, writer, scratch):
                return False
            more_a = cursor_next(&x, &a)
            more_b = cursor_next(&y, &b)
    return True


# ---- union of many: a heap of cursors, all containers of one key at once ---------------------------------------

cdef void sift_down(Input** heap, size_t n, size_t i) noexcept nogil:
    cdef Input* moving = heap[i]
    cdef size_t child
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and heap[child + 1].container.key < heap[child].container.key:
            child += 1
        if moving.container.key <= heap[child].container.key:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = moving


cdef const uint8_t* merge_arrays(Container* same, size_t n, uint8_t* scratch, uint32_t* cardinality) noexcept nogil:
    """Merges arrays that together fit into one, two by two, level by level. Overwrites `same`."""
    cdef uint8_t* out = scratch
    cdef uint8_t* spare = scratch + SCRATCH
    cdef uint8_t* swap
    cdef size_t i, at, half, merged
    while n > 1:
        half = n // 2
        at = 0
        for i in range(half):
            if n == 2:
                merged = pf_array_union(same[0].payload, same[0].cardinality, same[1].payload, same[1].cardinality, out)
            else:
                merged = pf_array_merge(same[2 * i].payload, same[2 * i].cardinality, same[2 * i + 1].payload,
                                        same[2 * i + 1].cardinality, out + at)
                # more values only if another thread changes them; scratch has space for the first number
                merged = min(merged, <size_t>same[2 * i].cardinality + same[2 * i + 1].cardinality)
            same[i].payload = out + at
            same[i].cardinality = <uint32_t>merged
            at += 2 * merged
        if n & 1:
            merged = same[n - 1].cardinality
            memcpy(out + at, same[n - 1].payload, 2 * merged)
            same[half].payload = out + at
            same[half].cardinality = <uint32_t>merged
        n = half + (n & 1)
        swap = out
        out = spare
        spare = swap
    cardinality[0] = same[0].cardinality
    return same[0].payload


cdef bint union_key(Container* same, size_t n, Writer* writer, uint8_t* scratch, const uint8_t** bitmaps) noexcept nogil:
    """Writes the union of n > 0 containers of one key. The sparse bitmap after the scratch is empty before and after."""
    cdef size_t i, total = 0
    cdef size_t n_bitmaps = 0
    cdef uint32_t cardinality = 0
    cdef uint8_t* bits
    cdef const uint8_t* values
    cdef bint arrays = True
    if n == 1:
        return writer_copy(writer, same)
    if n == 2:
        return combine_containers(PF_OR, same, same + 1, writer, scratch)
    for i in range(n):
        arrays &= same[i].kind == ARRAY
        total += same[i].cardinality
    if arrays and total <= ARRAY_MAX:
        if pf_merges_fast(n, total):
            values = merge_arrays(same, n, scratch, &cardinality)
            return writer_array(writer, same[0].key, values, cardinality)
        for i in range(n):
            pf_sparse_set(same[i].payload, same[i].cardinality, scratch + 3 * SCRATCH)
        cardinality = <uint32_t>pf_sparse_take(scratch + 3 * SCRATCH, scratch)
        return writer_array(writer, same[0].key, scratch, cardinality)
    bits = writer_reserve(writer, BITMAP_BYTES)
    if bits == NULL:
        return False
    for i in range(n):
        if same[i].kind == BITMAP:
            bitmaps[n_bitmaps] = same[i].payload
            n_bitmaps += 1
    if n_bitmaps > 0:
        cardinality = pf_bitmap_unite(bitmaps, n_bitmaps, bits)
    else:
        memset(bits, 0, BITMAP_BYTES)
    if n_bitmaps < n:
        for i in range(n):
            if same[i].kind != BITMAP:
                add_bits(same + i, bits)
        cardinality = pf_bitmap_cardinality(bits)
    return writer_bits(writer, same[0].key, cardinality)


cdef UnionStatus union_all(const Vector* vectors, size_t n, Writer* writer, UnionScratch* scratch) noexcept nogil:
    """Writes the union of n checked bitmaps. `scratch` was prepared for n.

    Another thread may change the bitmaps. Every step writes within its bounds whatever the values are, bits
    are counted and values are checked after they were copied. The result is a sound bitmap or CHANGED.
    """
    cdef Input** heap = scratch.heap
    cdef Container* same = scratch.same
    cdef size_t live = 0, i, found
    cdef uint64_t key
    for i in range(n):
        cursor_start(&scratch.inputs[live].cursor, vectors[i].data, vectors[i].size)
        scratch.inputs[live].cursor.minimal = vectors[i].minimal
        heap[live] = scratch.inputs + live
        live += cursor_next(&scratch.inputs[live].cursor, &scratch.inputs[live].container)
    i = live // 2
    while i > 0:
        i -= 1
        sift_down(heap, live, i)
    while live > 0:
        key = heap[0].container.key
        found = 0
        while live > 0 and heap[0].container.key == key:
            same[found] = heap[0].container
            found += 1
            if not cursor_next(&heap[0].cursor, &heap[0].container):
                live -= 1
                heap[0] = heap[live]
            elif heap[0].container.key <= key:
                return UNION_CHANGED
            sift_down(heap, live, 0)
        if key > <uint64_t>MAX_POSITION >> 16:
            return UNION_CHANGED
        if not union_key(same, found, writer, scratch.values, scratch.bitmaps):
            return UNION_OUT_OF_MEMORY
        if writer.broken:
            return UNION_CHANGED
    return UNITED


cdef bint union_ready(UnionScratch* scratch, size_t n) noexcept nogil:
    """Allocates memory for a union of n bitmaps. False when memory is out."""
    if scratch.values == NULL:
        scratch.values = <uint8_t*>calloc(3 * SCRATCH + PF_SPARSE_BYTES, 1)
    if scratch.capacity < n or scratch.inputs == NULL:
        free(scratch.inputs)
        free(scratch.heap)
        free(scratch.same)
        free(scratch.bitmaps)
        scratch.capacity = max(n, 8)
        scratch.inputs = <Input*>malloc(scratch.capacity * sizeof(Input))
        scratch.heap = <Input**>malloc(scratch.capacity * sizeof(Input*))
        scratch.same = <Container*>malloc(scratch.capacity * sizeof(Container))
        scratch.bitmaps = <const uint8_t**>malloc(scratch.capacity * sizeof(uint8_t*))
    return (scratch.values != NULL and scratch.inputs != NULL and scratch.heap != NULL and scratch.same != NULL
            and scratch.bitmaps != NULL)


cdef void union_free(UnionScratch* scratch) noexcept nogil:
    free(scratch.values)
    free(scratch.inputs)
    free(scratch.heap)
    free(scratch.same)
    free(scratch.bitmaps)
    memset(scratch, 0, sizeof(UnionScratch))


pf_choose_level()
