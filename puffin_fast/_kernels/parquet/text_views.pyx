"""Byte strings as Arrow views: their lengths, runs of equal ones, and their bytes one after the other.

Each function raises ValueError for views that are outside of their buffers.

Source: Arrow columnar format, "Variable-size Binary View Layout".
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc

from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char* data, Py_ssize_t size, const char* errors)

cdef extern from "text_views.h" nogil:
    enum:
        PF_VIEW_BYTES
    int64_t pf_views_bytes(const uint8_t* views, size_t count)
    const uint8_t* pf_view_text(const uint8_t* view, const uint8_t* const* buffers, const size_t* sizes,
                                size_t n_buffers, uint32_t* length)
    int64_t pf_text_runs(const uint8_t* views, size_t count, const uint8_t* const* buffers, const size_t* sizes,
                         size_t n_buffers, size_t most, int64_t* starts)
    int64_t pf_views_copy(const uint8_t* views, size_t count, const uint8_t* const* buffers, const size_t* sizes,
                          size_t n_buffers, int offset_bytes, uint8_t* offsets, uint8_t* out, size_t capacity)

cdef str OUTSIDE = "a view or its bytes are outside of the given buffers"


cdef Buffer views_of(object views, size_t count):
    cdef Buffer found = buffer_of(views)
    if found.size // PF_VIEW_BYTES < count:
        raise ValueError(f"{found.size // PF_VIEW_BYTES} views; expected {count}")
    return found


def views_bytes(views, size_t count):
    """The sum of the lengths of views."""
    cdef Buffer source = views_of(views, count)
    cdef int64_t total
    with nogil:
        total = pf_views_bytes(source.data, count)
    return total


cdef class TextBuffers:
    """The buffers that views refer to."""

    cdef const uint8_t** data
    cdef size_t* sizes
    cdef size_t count
    cdef list _held

    def __cinit__(self, buffers):
        cdef size_t i
        self._held = [buffer_of(buffer) for buffer in buffers]
        self.count = len(self._held)
        self.data = <const uint8_t**>malloc((self.count + 1) * sizeof(uint8_t*))
        self.sizes = <size_t*>malloc((self.count + 1) * sizeof(size_t))
        if self.data == NULL or self.sizes == NULL:
            raise MemoryError()
        for i in range(self.count):
            self.data[i] = (<Buffer>self._held[i]).data
            self.sizes[i] = (<Buffer>self._held[i]).size

    def __dealloc__(self):
        free(self.data)
        free(self.sizes)


def text_runs(views, size_t count, buffers, size_t most):
    """The runs of equal texts in a column.

    Args:
        views: of 16 bytes; none is null.
        count: number of views.
        buffers: a list of the buffers that they refer to.
        most: maximum number of runs.

    Returns:
        the index of the first view of each run, and the text of each; None if there are more runs than `most`.
    """
    cdef Buffer source = views_of(views, count)
    cdef TextBuffers texts = TextBuffers(buffers)
    cdef int64_t* starts
    cdef int64_t n
    cdef const uint8_t* text
    cdef uint32_t length = 0
    most = min(most, count)
    starts = <int64_t*>malloc((most + 1) * sizeof(int64_t))
    if starts == NULL:
        raise MemoryError()
    try:
        with nogil:
            n = pf_text_runs(source.data, count, texts.data, texts.sizes, texts.count, most, starts)
        if n < 0:
            raise ValueError(OUTSIDE)
        if n > <int64_t>most:
            return None
        found, names = [], []
        for i in range(n):
            text = pf_view_text(source.data + starts[i] * PF_VIEW_BYTES, texts.data, texts.sizes, texts.count, &length)
            if text == NULL:
                raise ValueError(OUTSIDE)
            found.append(starts[i])
            names.append(PyUnicode_DecodeUTF8(<const char*>text, length, NULL))
        return found, names
    finally:
        free(starts)


def copy_views(views, size_t count, buffers, int offset_bytes, offsets, out):
    """Writes the bytes of views one after the other, and their offsets; returns the number of bytes.

    Args:
        views: of 16 bytes.
        count: number of views.
        buffers: a list of the buffers that they refer to.
        offset_bytes: 4 or 8.
        offsets: for `count` + 1 offsets.
        out: for the bytes. Bytes after the last one may be overwritten, too.
    """
    cdef Buffer source = views_of(views, count), target = writable(out), ends = writable(offsets)
    cdef TextBuffers texts = TextBuffers(buffers)
    cdef int64_t n_bytes
    if offset_bytes not in (4, 8):
        raise ValueError(f"offsets of {offset_bytes} bytes; expected 4 or 8")
    if offset_bytes == 4 and target.size > <size_t>0x80000000:
        raise ValueError(f"{target.size} bytes do not fit 32-bit offsets")
    if ends.size // offset_bytes < count + 1:
        raise ValueError(f"output for {ends.size // offset_bytes} offsets; expected {count + 1}")
    with nogil:
        n_bytes = pf_views_copy(source.data, count, texts.data, texts.sizes, texts.count, offset_bytes, ends.data,
                                target.data, target.size)
    if n_bytes < 0:
        raise ValueError(OUTSIDE)
    return n_bytes
