"""`StoredBitmap`: one bitmap as its checked bytes, and the calls from Python on it.

The time of a call on a small bitmap is that of Python objects and of memory. Each call therefore makes only the objects
that it returns, keeps scratch memory for the next call (guarded by the GIL), and releases the GIL only for long work.

Every set of bytes in a `StoredBitmap` was written by this package or has passed `validate`.

One module because all calls share the object's layout, which is visible only inside of its module.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AsString
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy, memset

from puffin_fast._kernels.bytes cimport ARRAY, BITMAP, COUNT_BYTES, MAX_POSITION, RUN
from puffin_fast._kernels.roaring.containers cimport (
    BRIEF, Fault, Summary, Writer, corrupt, finish, new_bytes, validate, writer_end, writer_start,
)
from puffin_fast._kernels.roaring.decode cimport expand
from puffin_fast._kernels.roaring.encode cimport (
    CHANGED, ENCODED, OUT_OF_MEMORY, OUT_OF_RANGE, Encoder, encoder_free, encoder_measure, encoder_store,
)
from puffin_fast._kernels.roaring.frames cimport (
    CRC_BYTES, FRAME_BYTES, HEAD_BYTES, MAGIC_BYTES, MAX_LENGTH, SOUND, check_blob, corrupt_blob, store_frame,
)
from puffin_fast._kernels.roaring.setops cimport (
    N_SCRATCH, PF_AND, PF_ANDNOT, PF_OR, PF_XOR, SCRATCH, UNION_CHANGED, UNION_OUT_OF_MEMORY, UNITED, UnionScratch, UnionStatus, Vector, combine_all,
    intersect_all, meet, union_all, union_free, union_ready,
)
from puffin_fast._kernels.views cimport Span, array_of, span_of

from puffin_fast.errors import InvalidInputError, LimitExceededError

cdef extern from *:
    """
    /* type.__new__(type) without arguments, for the type or one derived from it. */
    static PyObject *pf_new(PyObject *type, PyObject *nothing) {
        return ((newfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_new))((PyTypeObject *)type, nothing, NULL);
    }
    """
    object pf_new(object kind, tuple nothing)

cdef extern from "Python.h":
    bint PyType_IsSubtype(type a, type b)

cdef extern from "simd.h" nogil:
    int pf_choose_level()

cdef bytes NO_BITMAPS = b"\0" * COUNT_BYTES     # the empty set
cdef tuple NOTHING = ()

cdef enum:
    KEPT_MAX = 4194304          # bytes of an encoder's memory that the next call may reuse: for 100,000 sparse positions
    UNION_KEPT_MAX = 1024       # bitmaps for whose union the next call may reuse the memory
    BRIEF_POSITIONS = 8192      # see BRIEF


@cython.auto_pickle(False)
@cython.no_gc
cdef class StoredBitmap:
    """An immutable set of positions: checked bytes. A new object is the empty set.

    Attributes:
        _data, _start, _stop: the bitmap is _data[_start:_stop].
        _cardinality: positions.
        _directory: of the containers, for queries, or None.
    """

    cdef readonly bytes _data
    cdef readonly size_t _start
    cdef readonly size_t _stop
    cdef readonly uint64_t _cardinality
    cdef public object _directory
    cdef Summary summary
    cdef bint summarised        # whether there is a summary

    def __cinit__(self):
        self._data = NO_BITMAPS
        self._stop = COUNT_BYTES
        self.summary.minimal = True

    def _become(self, StoredBitmap other not None):
        """Takes the positions of another bitmap; only for a new object."""
        self._data = other._data
        self._start = other._start
        self._stop = other._stop
        self._cardinality = other._cardinality
        self._directory = other._directory
        self.summary = other.summary
        self.summarised = other.summarised

    @cython.always_allow_keywords(False)
    def to_blob(self):
        """Returns the blob `deletion-vector-v1`; for codecs.

        Raises:
            LimitExceededError: the length does not fit the signed 32 bits that Java reads it as.
        """
        cdef Span source = span_of(self._data)
        cdef size_t size = self._stop - self._start
        cdef bytes blob
        cdef uint8_t* out
        cdef bint done
        if size > MAX_LENGTH - MAGIC_BYTES:
            raise LimitExceededError(
                f"deletion vector: expected at most {MAX_LENGTH} bytes, found {MAGIC_BYTES + size}"
            )
        blob = new_bytes(FRAME_BYTES + size)
        out = <uint8_t*>PyBytes_AsString(blob)
        if size < BRIEF:
            memcpy(out + HEAD_BYTES, source.data + self._start, size)
            done = store_frame(out, size)
        else:
            with nogil:
                memcpy(out + HEAD_BYTES, source.data + self._start, size)
                done = store_frame(out, size)
        if not done:
            raise MemoryError("checksum of a deletion vector")
        return blob

    @cython.always_allow_keywords(False)
    def _fill(self, out):
        """Writes the positions to a new `numpy.ndarray` of as many 8-byte integers."""
        cdef Span memory
        if array_of(out, &memory) is None or memory.size // 8 < self._cardinality:
            raise ValueError(f"expected {self._cardinality} integers of 8 bytes, found {out.dtype}")
        decode_to(self, <uint64_t*>memory.data)

    def _decode_into(self, out):
        """Writes the positions to `out`, a writable buffer of 8-byte integers."""
        cdef Py_buffer view
        PyObject_GetBuffer(out, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            if <size_t>view.len // 8 < self._cardinality:
                raise ValueError(f"out has {view.len} bytes, {8 * self._cardinality} are needed")
            decode_to(self, <uint64_t*>view.buf)
        finally:
            PyBuffer_Release(&view)

    @cython.always_allow_keywords(False)
    def _facts(self):
        """Returns (array containers, bitmap containers, run containers, first position, last position); the positions
        of the empty set mean nothing.
        """
        cdef Span source = span_of(self._data)
        cdef Summary summary
        cdef Fault fault
        if not self.summarised:
            with nogil:
                validate(source.data + self._start, self._stop - self._start, &summary, &fault)
            if fault.code != 0:
                raise corrupt(&fault, None, 0)
            summary.minimal |= self.summary.minimal
            self.summary = summary
            self.summarised = True
        return (
            self.summary.n_containers[<int>ARRAY], self.summary.n_containers[<int>BITMAP],
            self.summary.n_containers[<int>RUN], self.summary.first, self.summary.last,
        )

    def _meets(self, int op, StoredBitmap other not None):
        """Returns whether self OP other is not empty."""
        return met(op, self, other)

    def __len__(self):
        return self._cardinality

    def __bool__(self):
        return self._cardinality > 0

    def __or__(self, other):
        return combined(PF_OR, self, <StoredBitmap>other) if isinstance(other, StoredBitmap) else NotImplemented

    def __and__(self, other):
        return combined(PF_AND, self, <StoredBitmap>other) if isinstance(other, StoredBitmap) else NotImplemented

    def __sub__(self, other):
        return combined(PF_ANDNOT, self, <StoredBitmap>other) if isinstance(other, StoredBitmap) else NotImplemented

    def __xor__(self, other):
        return combined(PF_XOR, self, <StoredBitmap>other) if isinstance(other, StoredBitmap) else NotImplemented

    def isdisjoint(self, other):
        """Returns whether no position is in both sets; the other is a bitmap or positions."""
        return not met(PF_AND, self, bitmap_of(other if isinstance(other, StoredBitmap) else self._other(other)))


AND = PF_AND
ANDNOT = PF_ANDNOT
XOR = PF_XOR


# ---- new bitmaps; `kind` is StoredBitmap or a type derived from it ----------------------------------------------

def written(type kind not None, bytes data not None, uint64_t cardinality):
    """Makes the set of bytes that a kernel has written."""
    return new_bitmap(kind, data, cardinality)


def of_positions(type kind not None, positions):
    """Makes the set of a `numpy.ndarray` (not of a derived type) of aligned 8-byte integers, in any order, with or
    without repeats.

    Returns:
        the bitmap, or None for an array of another kind and where a position is out of range.

    Raises:
        InvalidInputError: another thread changed the positions during the call, and that was noticed.
    """
    cdef Span memory
    held = array_of(positions, &memory)
    return None if held is None else encoded(kind, <const uint64_t*>memory.data, memory.size // 8)


def of_bytes(type kind not None, bytes data not None, size_t start, size_t stop, path=None, uint64_t base=0):
    """Makes the set of the serialised bitmap at data[start:stop] after a check of every rule.

    Args:
        path: the file it came from, for the error.
        base: the offset of data[start] in that file, for the error.

    Raises:
        CorruptDataError: a rule is violated.
    """
    cdef Span source = span_of(data)
    cdef Summary summary
    cdef Fault fault
    if start > stop or stop > source.size:
        raise ValueError(f"[{start}, {stop}) is not inside a buffer of {source.size} bytes")
    if stop - start < BRIEF:
        validate(source.data + start, stop - start, &summary, &fault)
    else:
        with nogil:
            validate(source.data + start, stop - start, &summary, &fault)
    if fault.code != 0:
        raise corrupt(&fault, path, base)
    return checked(kind, data, start, stop, &summary)


def of_blob(type kind not None, bytes blob not None, path=None, uint64_t offset=0):
    """Makes the set of a whole blob: magic, length and checksum are checked before meaning, then every rule.

    Raises:
        CorruptDataError: the bytes are not a well-formed blob.
    """
    cdef Span source = span_of(blob)
    cdef Summary summary
    cdef Fault fault
    cdef int code
    if source.size < BRIEF:
        code = check_blob(source.data, source.size, &summary, &fault)
    else:
        with nogil:
            code = check_blob(source.data, source.size, &summary, &fault)
    if code != SOUND:
        raise corrupt_blob(code, &fault, path, offset)
    return checked(kind, blob, HEAD_BYTES, source.size - CRC_BYTES, &summary)


def union(type kind not None, list bitmaps not None):
    """Makes the union of any number of bitmaps."""
    return of_many(kind, bitmaps, False)


def intersection(type kind not None, list bitmaps not None):
    """Makes the intersection of two or more bitmaps."""
    if len(bitmaps) < 2:
        raise ValueError(f"intersection: expected at least two bitmaps, found {len(bitmaps)}")
    return of_many(kind, bitmaps, True)


cdef inline StoredBitmap bitmap_of(object given):
    """Returns an argument; raises InvalidInputError if it is no bitmap."""
    if not isinstance(given, StoredBitmap):
        raise InvalidInputError(f"bitmap: expected a PositionBitmap, found {type(given).__name__}")
    return <StoredBitmap>given


cdef inline StoredBitmap empty_bitmap(type kind):
    if not PyType_IsSubtype(kind, StoredBitmap):
        raise TypeError(f"expected a type of bitmaps, found {kind.__name__}")
    return <StoredBitmap?>pf_new(kind, NOTHING)


cdef StoredBitmap new_bitmap(type kind, bytes data, uint64_t cardinality):
    """Makes a bitmap of all bytes of `data`, which a kernel has written."""
    cdef StoredBitmap made = empty_bitmap(kind)
    made._data = data
    made._stop = span_of(data).size
    made._cardinality = cardinality
    return made


cdef StoredBitmap checked(type kind, bytes data, size_t start, size_t stop, const Summary* summary):
    """Makes a bitmap of bytes that were checked. Those in a form that is never written are written anew."""
    cdef StoredBitmap made = empty_bitmap(kind)
    made._data = data
    made._start = start
    made._stop = stop
    made._cardinality = summary.cardinality
    made.summary = summary[0]
    made.summarised = True
    return of_many(kind, [made], False) if summary.non_canonical else made


cdef inline Vector vector_of(StoredBitmap bitmap) noexcept:
    cdef Vector vector
    vector.data = span_of(bitmap._data).data + bitmap._start
    vector.size = bitmap._stop - bitmap._start
    vector.minimal = bitmap.summary.minimal
    return vector


cdef void decode_to(StoredBitmap bitmap, uint64_t* out) noexcept:
    """Writes the positions to memory for as many."""
    cdef const uint8_t* data = span_of(bitmap._data).data + bitmap._start
    if bitmap._cardinality == 0:
        return
    if bitmap._cardinality < BRIEF_POSITIONS:
        expand(data, bitmap._stop - bitmap._start, out, out + bitmap._cardinality)
    else:
        with nogil:
            expand(data, bitmap._stop - bitmap._start, out, out + bitmap._cardinality)


# ---- encoding --------------------------------------------------------------------------------------------------

cdef Encoder kept_encoder       # zeroed, or with memory of an earlier call
cdef bint is_taken = False      # by a call that has released the GIL


cdef bint is_small(const Encoder* encoder) noexcept:
    """Whether the next call may keep the encoder's memory."""
    return KEPT_MAX >= (
        encoder.bitmaps.capacity + encoder.containers.capacity + encoder.sorted.capacity + encoder.spare.capacity
        + encoder.marks.capacity + encoder.writer.payload.capacity + encoder.writer.records.capacity
    )


cdef object encoded(type kind, const uint64_t* x, size_t n):
    """As `of_positions`."""
    global is_taken
    cdef Encoder own
    cdef Encoder* encoder = &own if is_taken else &kept_encoder
    if is_taken:
        memset(&own, 0, sizeof(Encoder))
    is_taken = True
    cdef bint done = False
    try:
        made = encoded_by(encoder, kind, x, n)
        done = True
        return made
    finally:
        if encoder == &own or not done or not is_small(encoder):
            encoder_free(encoder)
        if encoder == &kept_encoder:
            is_taken = False


cdef object encoded_by(Encoder* encoder, type kind, const uint64_t* x, size_t n):
    cdef int status
    cdef uint8_t* out
    cdef bytes data
    if n < BRIEF_POSITIONS:
        status = encoder_measure(encoder, x, n, MAX_POSITION)
    else:
        with nogil:
            status = encoder_measure(encoder, x, n, MAX_POSITION)
    if status == OUT_OF_RANGE:
        return None
    if status == OUT_OF_MEMORY:
        raise MemoryError("encoding positions")
    if status == ENCODED:
        data = new_bytes(encoder.size)
        out = <uint8_t*>PyBytes_AsString(data)
        if n < BRIEF_POSITIONS:
            status = encoder_store(encoder, out)
        else:
            with nogil:
                status = encoder_store(encoder, out)
    if status == CHANGED:
        raise InvalidInputError("positions: changed by another thread while they were encoded")
    return new_bitmap(kind, data, encoder.cardinality)


# ---- sets ------------------------------------------------------------------------------------------------------

cdef uint8_t* spare_scratch = NULL


cdef inline uint8_t* take_scratch() noexcept:
    """Returns memory for an operation on two bitmaps, or NULL when memory is out."""
    global spare_scratch
    cdef uint8_t* scratch = spare_scratch
    spare_scratch = NULL
    return scratch if scratch != NULL else <uint8_t*>malloc(N_SCRATCH * SCRATCH)


cdef inline void keep_scratch(uint8_t* scratch) noexcept:
    global spare_scratch
    free(spare_scratch)
    spare_scratch = scratch


cdef size_t expected(int op, size_t left, size_t right) noexcept:
    """Bytes that a OP b seldom exceeds. They are only address space until they are written."""
    if op == PF_AND:
        return min(left, right)
    return left if op == PF_ANDNOT else left + right


cdef object combined(int op, StoredBitmap left, StoredBitmap right):
    """Returns left OP right."""
    cdef Vector a = vector_of(left), b = vector_of(right)
    cdef Writer writer
    cdef bint done
    cdef uint8_t* scratch = take_scratch()
    try:
        if not writer_start(&writer, expected(op, a.size, b.size)) or scratch == NULL:
            raise MemoryError("combining bitmaps")
        if a.size + b.size < BRIEF:
            done = combine_all(op, &a, &b, &writer, scratch)
        else:
            with nogil:
                done = combine_all(op, &a, &b, &writer, scratch)
        if not done:
            raise MemoryError("combining bitmaps")
        return new_bitmap(type(left), finish(&writer), writer.cardinality)
    finally:
        keep_scratch(scratch)
        writer_end(&writer)


cdef bint met(int op, StoredBitmap left, StoredBitmap right) except -1:
    """Returns whether left OP right is not empty."""
    cdef Vector a = vector_of(left), b = vector_of(right)
    cdef bint found
    cdef uint8_t* scratch = take_scratch()
    if scratch == NULL:
        raise MemoryError("comparing bitmaps")
    if a.size + b.size < BRIEF:
        found = meet(op, &a, &b, scratch)
    else:
        with nogil:
            found = meet(op, &a, &b, scratch)
    keep_scratch(scratch)
    return found


cdef UnionScratch spare_union       # zeroed, or with memory of an earlier call


cdef int by_size(const void* left, const void* right) noexcept nogil:
    cdef size_t a = (<const Vector*>left).size, b = (<const Vector*>right).size
    return (a > b) - (a < b)


cdef object of_many(type kind, list bitmaps, bint intersected):
    """Returns the union of bitmaps, or the intersection of two or more of them.

    Raises:
        InvalidInputError: one is not a bitmap.
    """
    global spare_union
    cdef size_t n = len(bitmaps), i, total = 0
    cdef UnionScratch scratch = spare_union
    cdef UnionStatus status = UNION_CHANGED
    cdef Writer writer
    cdef Vector* vectors = <Vector*>malloc(max(n, 1) * sizeof(Vector))
    memset(&spare_union, 0, sizeof(UnionScratch))
    memset(&writer, 0, sizeof(Writer))
    try:
        if vectors == NULL:
            raise MemoryError("uniting bitmaps")
        for i in range(n):
            vectors[i] = vector_of(bitmap_of(bitmaps[i]))
            total += vectors[i].size
        if intersected:
            qsort(vectors, n, sizeof(Vector), by_size)
        if not union_ready(&scratch, n) or not writer_start(&writer, vectors[0].size if intersected else total):
            raise MemoryError("uniting bitmaps")
        if total < BRIEF:
            status = many(vectors, n, &writer, &scratch, intersected)
        else:
            with nogil:
                status = many(vectors, n, &writer, &scratch, intersected)
        if status != UNITED:
            raise MemoryError("uniting bitmaps")
        return new_bitmap(kind, finish(&writer), writer.cardinality)
    finally:
        free(vectors)
        writer_end(&writer)
        if status == UNITED and scratch.capacity <= UNION_KEPT_MAX:
            union_free(&spare_union)
            spare_union = scratch
        else:
            union_free(&scratch)


cdef inline UnionStatus many(const Vector* vectors, size_t n, Writer* writer, UnionScratch* scratch,
                             bint intersected) noexcept nogil:
    if not intersected:
        return union_all(vectors, n, writer, scratch)
    return UNITED if intersect_all(vectors, n, writer, scratch) else UNION_OUT_OF_MEMORY


pf_choose_level()
