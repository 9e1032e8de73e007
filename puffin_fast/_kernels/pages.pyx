"""Pages of a Parquet column chunk: headers, levels, dictionary codes, and the values of wanted rows.

Wanted values are given as `rows`, a buffer of ascending int32 to which `base` is added, or as None for the
`count` values from index `base` on. Each function raises ValueError for bytes that do not have the expected form.

Source: Parquet format specification, "Data Pages", "Encodings" (plain, RLE / bit-packing hybrid, dictionary).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "simd.h" nogil:
    int pf_choose_level()

cdef extern from "pages.h" nogil:
    enum:
        PF_HEADER_WORDS
        PF_VIEW_BYTES
    int pf_page_header(const uint8_t* data, size_t size, int64_t* out)
    int pf_hybrid(const uint8_t* data, size_t size, int width, int64_t n_values, const int32_t* rows, int64_t base,
                  size_t count, uint32_t* out)
    int pf_all_set(const uint8_t* data, size_t size, uint64_t n)
    int64_t pf_places(const uint32_t* levels, size_t n, int32_t* out)
    int pf_fixed(const uint8_t* data, size_t size, int64_t width, int conversion, const int32_t* rows, int64_t base,
                 size_t count, uint8_t* out)
    int pf_entries(const uint8_t* data, size_t size, int bits, int64_t n_values, const int32_t* rows, int64_t base,
                   size_t count, const uint8_t* entries, size_t n_entries, size_t width, uint8_t* out)
    int pf_views(const uint8_t* data, size_t size, uint32_t buffer, const int32_t* rows, int64_t base, size_t count,
                 int64_t* place, uint8_t* out)
    int64_t pf_views_bytes(const uint8_t* views, size_t count)
    int64_t pf_views_copy(const uint8_t* views, size_t count, const uint8_t* const* buffers, const size_t* sizes,
                          size_t n_buffers, int offset_bytes, uint8_t* offsets, uint8_t* out, size_t capacity)


SAME, INT32_TO_INT128, INT64_TO_INT128, BIG_ENDIAN_TO_INT128 = range(4)


cdef Buffer rows_of(object rows, size_t count):
    """The rows; None for consecutive ones."""
    cdef Buffer found = None
    if rows is not None:
        found = buffer_of(rows)
        if found.size // 4 < count:
            raise ValueError(f"{found.size // 4} rows; expected {count}")
    return found


cdef Buffer output_of(object out, size_t count, size_t width):
    cdef Buffer found = writable(out)
    if found.size // width < count:
        raise ValueError(f"output for {found.size // width} values; expected {count}")
    return found


cdef int checked(int status) except -1:
    if status < 0:
        raise ValueError("not a page of the expected form")
    return 0


def page_header(data, size_t start):
    """The header of a page.

    Args:
        data: a column chunk.
        start: where the header starts in it.

    Returns:
        page type, bytes without compression, bytes stored, number of values, encoding, encoding of the levels, number
        of rows, number of nulls, bytes of definition levels, bytes of repetition levels, whether it is compressed,
        CRC-32, bytes of the header; -1 where a header of its page type has no such field, or may leave it out.
    """
    cdef Buffer source = buffer_of(data)
    cdef int64_t words[PF_HEADER_WORDS]
    if start > source.size:
        raise ValueError(f"no page at {start} of {source.size} bytes")
    checked(pf_page_header(source.data + start, source.size - start, words))
    return tuple([words[i] for i in range(PF_HEADER_WORDS)])


def hybrid_into(data, int width, int64_t n_values, rows, int64_t base, size_t count, out):
    """Writes wanted values of the RLE / bit-packing hybrid encoding, 4 bytes each.

    Args:
        data: the encoded values.
        width: bits of a value.
        n_values: the number of values.
        rows, base, count: see the module.
        out: for uint32.
    """
    cdef Buffer source = buffer_of(data), wanted = rows_of(rows, count), target = output_of(out, count, 4)
    cdef const int32_t* places = NULL if wanted is None else <const int32_t*>wanted.data
    cdef int status
    with nogil:
        status = pf_hybrid(source.data, source.size, width, n_values, places, base, count, <uint32_t*>target.data)
    checked(status)


def all_set(levels, size_t n):
    """Whether definition levels of at most 1 are one run of `n` or more ones: no value is null."""
    cdef Buffer source = buffer_of(levels)
    return bool(pf_all_set(source.data, source.size, n))


def places_into(levels, size_t n, out):
    """Writes the index of each row's value among the values of its page, -1 for null; returns the number of values.

    Args:
        levels: uint32 definition levels, 1 for a value.
        n: number of rows.
        out: for int32.
    """
    cdef Buffer source = buffer_of(levels), target = output_of(out, n, 4)
    cdef int64_t n_values
    if source.size // 4 < n:
        raise ValueError(f"{source.size // 4} levels; expected {n}")
    with nogil:
        n_values = pf_places(<const uint32_t*>source.data, n, <int32_t*>target.data)
    return n_values


def fixed_into(data, int64_t width, int conversion, rows, int64_t base, size_t count, out):
    """Writes wanted values of a plain page.

    Args:
        data: the values, `width` bytes each.
        width: bytes of a value.
        conversion: `SAME`, or to a little-endian integer of 16 bytes.
        rows, base, count: see the module.
        out: for values of `width` or 16 bytes.
    """
    cdef size_t out_width = 16 if conversion != 0 else (<size_t>width if width > 0 else 1)
    cdef Buffer source = buffer_of(data), wanted = rows_of(rows, count), target = output_of(out, count, out_width)
    cdef const int32_t* places = NULL if wanted is None else <const int32_t*>wanted.data
    cdef int status
    with nogil:
        status = pf_fixed(source.data, source.size, width, conversion, places, base, count, target.data)
    checked(status)


def entries_into(data, int64_t n_values, rows, int64_t base, size_t count, entries, size_t width, out):
    """Writes wanted values of a page of dictionary codes.

    Args:
        data: the bits of a code, one byte; and the codes in the RLE / bit-packing hybrid encoding.
        n_values: the number of codes.
        rows, base, count: see the module.
        entries: of the dictionary, `width` bytes each.
        width: bytes of an entry.
        out: for values of `width` bytes.
    """
    if width == 0:
        raise ValueError("entries of no bytes")
    cdef Buffer source = buffer_of(data), wanted = rows_of(rows, count), values = buffer_of(entries)
    cdef Buffer target = output_of(out, count, width)
    cdef const int32_t* places = NULL if wanted is None else <const int32_t*>wanted.data
    cdef int status
    if source.size == 0:
        raise ValueError("a page without codes")
    with nogil:
        status = pf_entries(source.data + 1, source.size - 1, source.data[0], n_values, places, base, count,
                            values.data, values.size // width, width, target.data)
    checked(status)


def views_into(data, uint32_t buffer, rows, int64_t base, size_t count, int64_t value, int64_t offset, out):
    """Writes wanted byte strings of a plain page as Arrow views.

    Args:
        data: the values, each after its length.
        buffer: the number of the page among the buffers of the array.
        rows, base, count: see the module.
        value: the index of a value at or before the first wanted one.
        offset: where its length starts.
        out: for views of 16 bytes.

    Returns:
        index and offset of the value after the last wanted one, for the next call.
    """
    cdef Buffer source = buffer_of(data), wanted = rows_of(rows, count), target = output_of(out, count, PF_VIEW_BYTES)
    cdef const int32_t* places = NULL if wanted is None else <const int32_t*>wanted.data
    cdef int64_t place[2]
    cdef int status
    place[0], place[1] = value, offset
    with nogil:
        status = pf_views(source.data, source.size, buffer, places, base, count, place, target.data)
    checked(status)
    return place[0], place[1]


def views_bytes(views, size_t count):
    """The sum of the lengths of views."""
    cdef Buffer source = buffer_of(views)
    cdef int64_t total
    if source.size // PF_VIEW_BYTES < count:
        raise ValueError(f"{source.size // PF_VIEW_BYTES} views; expected {count}")
    with nogil:
        total = pf_views_bytes(source.data, count)
    return total


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
    cdef Buffer source = buffer_of(views), target = writable(out), ends
    cdef size_t n_buffers = len(buffers), i
    cdef list held = [buffer_of(buffer) for buffer in buffers]
    cdef const uint8_t** data
    cdef size_t* sizes
    cdef int64_t n_bytes = -1
    if offset_bytes not in (4, 8):
        raise ValueError(f"offsets of {offset_bytes} bytes; expected 4 or 8")
    if source.size // PF_VIEW_BYTES < count:
        raise ValueError(f"{source.size // PF_VIEW_BYTES} views; expected {count}")
    if offset_bytes == 4 and target.size > <size_t>0x80000000:
        raise ValueError(f"{target.size} bytes do not fit 32-bit offsets")
    ends = output_of(offsets, count + 1, offset_bytes)
    data = <const uint8_t**>malloc((n_buffers + 1) * sizeof(uint8_t*))
    sizes = <size_t*>malloc((n_buffers + 1) * sizeof(size_t))
    try:
        if data == NULL or sizes == NULL:
            raise MemoryError()
        for i in range(n_buffers):
            data[i] = (<Buffer>held[i]).data
            sizes[i] = (<Buffer>held[i]).size
        with nogil:
            n_bytes = pf_views_copy(source.data, count, data, sizes, n_buffers, offset_bytes, ends.data, target.data,
                                    target.size)
    finally:
        free(data)
        free(sizes)
    checked(-1 if n_bytes < 0 else 0)
    return n_bytes


pf_choose_level()
