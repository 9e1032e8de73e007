"""Set operations from serialised bytes to serialised bytes, container by container.

One module because operations on two bitmaps and on many share the operations on containers.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from puffin_fast._kernels.bytes cimport ARRAY, ARRAY_MAX, BITMAP, BITMAP_BYTES, CHUNK, MAX_POSITION, RUN, load16
from puffin_fast._kernels.roaring.containers cimport (
    Container, Cursor, Writer, cursor_close, cursor_go, cursor_next, cursor_open, cursor_start, cursor_take, writer_array,
    writer_bitmap, writer_bits, writer_copy, writer_reserve, writer_runs,
)

cdef extern from "array_merge.h" nogil:
    size_t pf_array_merge(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    size_t pf_array_union(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    size_t pf_array_union_near(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    size_t pf_array_symmetric(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    size_t pf_array_intersection(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    size_t pf_array_difference(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    bint pf_arrays_meet(const uint8_t* a, size_t na, const uint8_t* b, size_t nb)

cdef extern from "arrays.h" nogil:
    enum:
        PF_SPARSE_BYTES
    bint pf_merges_fast(size_t n, size_t total)
    void pf_sparse_set(const uint8_t* values, size_t n, uint8_t* sparse)
    size_t pf_sparse_take(uint8_t* sparse, uint8_t* out)
    uint32_t pf_runs_of_array(const uint8_t* values, size_t n, uint8_t* out)
    bint pf_array_meets_bits(const uint8_t* values, size_t n, const uint8_t* bits, unsigned wanted)
    size_t pf_array_filter(const uint8_t* values, size_t n, const uint8_t* bits, unsigned wanted, uint8_t* out)
    void pf_array_set(const uint8_t* values, size_t n, uint8_t* bits)

cdef extern from "bitmap_combine.h" nogil:
    uint32_t pf_bitmap_unite(const uint8_t** bitmaps, size_t n, uint8_t* out)
    uint32_t pf_bitmap_combine(int op, const uint8_t* a, const uint8_t* b, uint8_t* out)
    bint pf_bitmaps_meet(int op, const uint8_t* a, const uint8_t* b)
    void pf_set_range(uint8_t* bits, uint64_t start, uint64_t end)

cdef extern from "bitmap_count.h" nogil:
    uint32_t pf_bitmap_cardinality(const uint8_t* bits)

cdef extern from "container_search.h" nogil:
    size_t pf_reach(const uint8_t* items, size_t stride, bint runs, size_t i, size_t n, uint32_t value)
    bint pf_keys_meet(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, size_t* i, size_t* j)

cdef extern from "runs.h" nogil:
    uint32_t pf_runs_union(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    uint32_t pf_runs_intersection(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out,
                                  bint any_is_enough)
    uint32_t pf_runs_difference(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    uint32_t pf_runs_symmetric(const uint8_t* a, size_t na, const uint8_t* b, size_t nb, uint8_t* out)
    size_t pf_array_select_runs(const uint8_t* values, size_t n, const uint8_t* pairs, size_t n_runs, bint wanted,
                                uint8_t* out, bint any_is_enough)

cdef extern from "simd.h" nogil:
    int pf_choose_level()

cdef enum:
    FEW = 512                   # values and runs; more are combined faster as bitmaps


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


cdef bint combine_lists(int op, const Container* a, const Container* b, uint8_t* out, uint8_t* spare,
                        Container* result) noexcept nogil:
    """Writes a OP b to `out` as an array or as runs that do not touch. False where it has to be a bitmap.

    Args:
        out, spare: SCRATCH bytes each.
        result: its kind, its cardinality or number of runs, and its payload, which is in `out`.
    """
    cdef Container runs
    cdef const Container* few
    cdef const Container* other
    result.key = a.key
    result.payload = out
    result.kind = ARRAY
    result.minimal = False
    if a.kind == ARRAY and b.kind == ARRAY:
        if op == PF_AND:
            result.cardinality = pf_array_intersection(a.payload, a.cardinality, b.payload, b.cardinality, out)
        elif op == PF_ANDNOT:
            result.cardinality = pf_array_difference(a.payload, a.cardinality, b.payload, b.cardinality, out)
        elif a.cardinality + b.cardinality > ARRAY_MAX:
            return False
        elif op == PF_OR:
            result.cardinality = pf_array_union(a.payload, a.cardinality, b.payload, b.cardinality, out)
        else:
            result.cardinality = pf_array_symmetric(a.payload, a.cardinality, b.payload, b.cardinality, out)
        return True
    if a.kind == RUN and b.kind == RUN:
        if a.n_runs + b.n_runs >= 4096:
            return False
        result.kind = RUN
        if op == PF_OR:
            result.n_runs = pf_runs_union(a.payload, a.n_runs, b.payload, b.n_runs, out)
        elif op == PF_AND:
            result.n_runs = pf_runs_intersection(a.payload, a.n_runs, b.payload, b.n_runs, out, False)
        elif op == PF_ANDNOT:
            result.n_runs = pf_runs_difference(a.payload, a.n_runs, b.payload, b.n_runs, out)
        else:
            result.n_runs = pf_runs_symmetric(a.payload, a.n_runs, b.payload, b.n_runs, out)
        return True
    few = a if a.kind == ARRAY else b
    other = b if a.kind == ARRAY else a
    if few.kind != ARRAY:
        return False
    if op == PF_AND or (op == PF_ANDNOT and few == a):
        if other.kind == BITMAP:
            result.cardinality = pf_array_filter(few.payload, few.cardinality, other.payload, op == PF_AND, out)
        else:
            result.cardinality = pf_array_select_runs(few.payload, few.cardinality, other.payload, other.n_runs,
                                                      op == PF_AND, out, False)
        return True
    if other.kind == BITMAP or few.cardinality + other.n_runs > FEW:
        return False
    runs = few[0]
    runs.kind = RUN
    runs.n_runs = pf_runs_of_array(few.payload, few.cardinality, spare)
    runs.payload = spare
    return combine_lists(op, &runs if few == a else a, &runs if few == b else b, out, spare, result)


cdef bint combine_containers(int op, const Container* a, const Container* b, Writer* writer, uint8_t* scratch) noexcept nogil:
    """Writes a OP b. scratch has N_SCRATCH * SCRATCH bytes."""
    cdef Container result
    cdef uint8_t* out
    if combine_lists(op, a, b, scratch, scratch + SCRATCH, &result):
        if result.kind == ARRAY:
            return writer_array(writer, a.key, scratch, result.cardinality)
        return writer_runs(writer, a.key, scratch, result.n_runs)
    out = writer_reserve(writer, BITMAP_BYTES)
    if out == NULL:
        return False
    return writer_bits(
        writer, a.key, pf_bitmap_combine(op, as_bits(a, scratch + SCRATCH), as_bits(b, scratch + 2 * SCRATCH), out)
    )


cdef bint containers_meet(int op, const Container* a, const Container* b, uint8_t* scratch) noexcept nogil:
    """Returns whether a OP b, which is not a union, has a value."""
    cdef Container result
    cdef const Container* few = a if a.kind == ARRAY else b
    cdef const Container* other = b if a.kind == ARRAY else a
    if (op == PF_ANDNOT and a.cardinality > b.cardinality) or (op == PF_XOR and a.cardinality != b.cardinality):
        return True
    if op == PF_AND and a.kind == RUN and b.kind == RUN:
        return pf_runs_intersection(a.payload, a.n_runs, b.payload, b.n_runs, scratch, True) > 0
    if few.kind == ARRAY and (op == PF_AND or (op == PF_ANDNOT and few == a)):
        if other.kind == BITMAP:
            return pf_array_meets_bits(few.payload, few.cardinality, other.payload, op == PF_AND)
        if other.kind == RUN:
            return pf_array_select_runs(few.payload, few.cardinality, other.payload, other.n_runs, op == PF_AND, scratch,
                                        True) > 0
        if op == PF_AND:
            return pf_arrays_meet(a.payload, a.cardinality, b.payload, b.cardinality)
    if combine_lists(op, a, b, scratch, scratch + SCRATCH, &result):
        return (result.cardinality if result.kind == ARRAY else result.n_runs) > 0
    return pf_bitmaps_meet(op, as_bits(a, scratch + SCRATCH), as_bits(b, scratch + 2 * SCRATCH))


# ---- two bitmaps ------------------------------------------------------------------------------------------------

cdef bint next_common(Cursor* x, Cursor* y, Container* a, Container* b) noexcept nogil:
    """Moves both to their next containers that have one key. False where there are none."""
    cdef size_t i, j
    while True:
        if x.index == x.count:
            if not cursor_open(x):
                return False
        elif y.index == y.count:
            if not cursor_open(y):
                return False
        elif x.key < y.key:
            if not cursor_close(x):
                return False
        elif y.key < x.key:
            if not cursor_close(y):
                return False
        else:
            i = x.index
            j = y.index
            if pf_keys_meet(x.descriptors, x.count, y.descriptors, y.count, &i, &j):
                return (cursor_go(x, <uint32_t>i) and cursor_go(y, <uint32_t>j) and cursor_take(x, a)
                        and cursor_take(y, b))
            if (i == x.count and not cursor_close(x)) or (j == y.count and not cursor_close(y)):
                return False


cdef bint next_with_key(Cursor* cursor, uint64_t key, Container* container) noexcept nogil:
    """Moves past the containers of smaller keys. Returns whether the next one has that key, and then moves past it."""
    cdef size_t i
    while True:
        if cursor.index == cursor.count:
            if not cursor_open(cursor):
                return False
        elif cursor.key > key:
            return False
        elif cursor.key < key & ~<uint64_t>0xFFFF:
            if not cursor_close(cursor):
                return False
        else:
            i = pf_reach(cursor.descriptors, 4, False, cursor.index, cursor.count, key & 0xFFFF)
            if i == cursor.count:
                cursor_close(cursor)
                return False
            return (cursor_go(cursor, <uint32_t>i) and load16(cursor.descriptors + 4 * i) == key & 0xFFFF
                    and cursor_take(cursor, container))


cdef inline void cursor_of(Cursor* cursor, const Vector* vector) noexcept nogil:
    cursor_start(cursor, vector.data, vector.size)
    cursor.minimal = vector.minimal


cdef bint combine_all(int op, const Vector* left, const Vector* right, Writer* writer, uint8_t* scratch) noexcept nogil:
    """Writes left OP right. False when memory is out."""
    cdef Cursor x, y
    cdef Container a, b
    cdef bint more_a, more_b
    cursor_of(&x, left)
    cursor_of(&y, right)
    if op == PF_AND:
        while next_common(&x, &y, &a, &b):
            if not combine_containers(op, &a, &b, writer, scratch):
                return False
        return True
    if op == PF_ANDNOT:
        while cursor_next(&x, &a):
            if next_with_key(&y, a.key, &b):
                if not combine_containers(op, &a, &b, writer, scratch):
                    return False
            elif not writer_copy(writer, &a):
                return False
        return True
    more_a = cursor_next(&x, &a)
    more_b = cursor_next(&y, &b)
    while more_a or more_b:
        if not more_b or (more_a and a.key < b.key):
            if not writer_copy(writer, &a):
                return False
            more_a = cursor_next(&x, &a)
        elif not more_a or b.key < a.key:
            if not writer_copy(writer, &b):
                return False
            more_b = cursor_next(&y, &b)
        else:
            if not combine_containers(op, &a, &b, writer, scratch):
                return False
            more_a = cursor_next(&x, &a)
            more_b = cursor_next(&y, &b)
    return True


cdef bint meet(int op, const Vector* left, const Vector* right, uint8_t* scratch) noexcept nogil:
    """Returns whether left OP right, which is not a union, has a position."""
    cdef Cursor x, y
    cdef Container a, b
    cursor_of(&x, left)
    cursor_of(&y, right)
    while op == PF_AND and next_common(&x, &y, &a, &b):
        if containers_meet(op, &a, &b, scratch):
            return True
    while op != PF_AND and cursor_next(&x, &a):
        if op == PF_ANDNOT:
            if not next_with_key(&y, a.key, &b):
                return True
        elif not cursor_next(&y, &b) or a.key != b.key:
            return True
        if containers_meet(op, &a, &b, scratch):
            return True
    return op == PF_XOR and cursor_next(&y, &b)


# ---- intersection of many ---------------------------------------------------------------------------------------

cdef bint intersect_key(Container* same, size_t n, Writer* writer, uint8_t* scratch) noexcept nogil:
    """Writes what n > 2 containers of one key share, beginning with the one that has the fewest values."""
    cdef size_t i, first = 0
    cdef Container found, next_found
    cdef uint8_t* out = scratch
    cdef uint8_t* spare = scratch + SCRATCH
    cdef uint8_t* swap
    for i in range(1, n):
        if same[i].cardinality < same[first].cardinality:
            first = i
    found = same[first]
    same[first] = same[n - 1]
    for i in range(n - 1):
        if not combine_lists(PF_AND, &found, same + i, out, scratch + 2 * SCRATCH, &next_found):
            next_found.kind = BITMAP
            next_found.cardinality = pf_bitmap_combine(
                PF_AND, as_bits(&found, scratch + 2 * SCRATCH), as_bits(same + i, scratch + 3 * SCRATCH), out
            )
        found = next_found
        if (found.n_runs if found.kind == RUN else found.cardinality) == 0:
            return True
        swap = out
        out = spare
        spare = swap
    if found.kind == ARRAY:
        return writer_array(writer, found.key, found.payload, found.cardinality)
    if found.kind == RUN:
        return writer_runs(writer, found.key, found.payload, found.n_runs)
    return writer_bitmap(writer, found.key, found.payload)


cdef bint intersect_all(const Vector* vectors, size_t n, Writer* writer, UnionScratch* scratch) noexcept nogil:
    """Writes the intersection of n > 1 checked bitmaps, the smallest first. `scratch` was prepared for n.

    Returns False when memory is out.
    """
    cdef Container* same = scratch.same
    cdef Input* inputs = scratch.inputs
    cdef size_t i
    if n == 2:
        return combine_all(PF_AND, vectors, vectors + 1, writer, scratch.values)
    for i in range(n):
        cursor_of(&inputs[i].cursor, vectors + i)
    while next_common(&inputs[0].cursor, &inputs[1].cursor, same, same + 1):
        i = 2
        while i < n and next_with_key(&inputs[i].cursor, same[0].key, same + i):
            i += 1
        if i == n and not intersect_key(same, n, writer, scratch.values):
            return False
        if i < n and inputs[i].cursor.index == inputs[i].cursor.count and inputs[i].cursor.bitmaps_left == 0:
            return True
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
            if n == 2:  # those before may have repeats, which this drops and `pf_array_union` may not
                merged = pf_array_union_near(same[0].payload, same[0].cardinality, same[1].payload, same[1].cardinality, out)
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
            pf_sparse_set(same[i].payload, same[i].cardinality, scratch + N_SCRATCH * SCRATCH)
        cardinality = <uint32_t>pf_sparse_take(scratch + N_SCRATCH * SCRATCH, scratch)
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
        cursor_of(&scratch.inputs[live].cursor, vectors + i)
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
        scratch.values = <uint8_t*>calloc(N_SCRATCH * SCRATCH + PF_SPARSE_BYTES, 1)
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
