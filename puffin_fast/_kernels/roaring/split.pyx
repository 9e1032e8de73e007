"""One bitmap as several with disjoint ranges of positions, cut between containers."""

from libc.stdint cimport uint64_t
from libc.string cimport memset

from puffin_fast._kernels.bytes cimport RUN, plain_size, run_size
from puffin_fast._kernels.roaring.containers cimport (
    Container, Cursor, Writer, cursor_next, cursor_start, finish, writer_copy, writer_free,
)
from puffin_fast._kernels.views cimport Span, span_of

cdef enum:
    OVERHEAD = 24               # most bytes that a container adds besides its payload, including its bitmap's header


cdef int fill(Cursor* cursor, Container* container, bint* more, Writer* writer, size_t max_bytes,
              uint64_t max_cardinality) noexcept nogil:
    """Copies one container, and more until the next one might exceed a limit. False when memory is out."""
    cdef uint64_t taken = 0
    cdef size_t n_bytes = 0
    while more[0]:
        n_bytes += OVERHEAD
        n_bytes += run_size(container.n_runs) if container.kind == RUN else plain_size(container.cardinality)
        if taken and (n_bytes > max_bytes or taken + container.cardinality > max_cardinality):
            return True
        if not writer_copy(writer, container):
            return False
        taken += container.cardinality
        more[0] = cursor_next(cursor, container)
    return True


def split(bytes data not None, size_t start, size_t max_bytes, uint64_t max_cardinality):
    """Splits the checked bitmap at `start` into parts. A part exceeds a limit only if it is a single container.

    Returns:
        (bytes, cardinality) of each part, in order; none of an empty bitmap.
    """
    cdef Span source = span_of(data)
    cdef Cursor cursor
    cdef Container container
    cdef Writer writer
    cdef bint more, done
    cdef list parts = []
    cursor_start(&cursor, source.data + start, source.size - start)
    more = cursor_next(&cursor, &container)
    while more:
        memset(&writer, 0, sizeof(Writer))
        try:
            with nogil:
                done = fill(&cursor, &container, &more, &writer, max_bytes, max_cardinality)
            if not done:
                raise MemoryError("splitting a bitmap")
            parts.append((finish(&writer), writer.cardinality))
        finally:
            writer_free(&writer)
    return parts
