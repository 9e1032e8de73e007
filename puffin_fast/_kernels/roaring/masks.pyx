"""Bitmaps to and from one flag per row: as bytes (NumPy bool) or bits, least significant first (Arrow)."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from puffin_fast._kernels.bytes cimport ARRAY, BITMAP, BITMAP_BYTES, CHUNK, load16, store16
from puffin_fast._kernels.roaring.containers cimport (
    Container, Cursor, Record, Writer, cursor_next, cursor_start, finish, reserve, writer_bitmap, writer_end,
    writer_runs, writer_start,
)
from puffin_fast._kernels.views cimport Buffer, Span, buffer_of, span_of, writable

cdef extern from "bitmap_combine.h" nogil:
    void pf_set_range(uint8_t* bits, uint64_t start, uint64_t end)

cdef extern from "flags.h" nogil:
    void pf_spread_bits(const uint8_t* bits, size_t n_bits, uint8_t flip, uint8_t* out)
    void pf_pack_flags(const uint8_t* flags, size_t n, uint8_t* bits)
    void pf_shift_bits(const uint8_t* bits, size_t from_bit, size_t n_bits, uint8_t* out)

cdef extern from "simd.h" nogil:
    int pf_choose_level()


cdef void fill_bytes(const uint8_t* data, size_t size, uint64_t first, uint64_t n_rows, uint8_t flip, uint8_t* out) noexcept nogil:
    """Sets out[i] to (whether first + i is in the set) XOR flip, for n_rows rows."""
    cdef Cursor cursor
    cdef Container container
    cdef uint64_t base, begin, end, low, high, stop = first + n_rows
    cdef uint32_t i
    cdef uint8_t mark = 1 ^ flip
    memset(out, flip, n_rows)
    cursor_start(&cursor, data, size)
    while cursor_next(&cursor, &container):
        base = container.key << 16
        if base >= stop:
            return
        if base + CHUNK <= first:
            continue
        if container.kind == ARRAY:
            for i in range(container.cardinality):
                low = base + load16(container.payload + 2 * <size_t>i)
                if low >= stop:
                    return
                if low >= first:
                    out[low - first] = mark
        elif container.kind == BITMAP:
            low = max(base, first)
            # if the first row is inside a byte, the rows up to the next byte are copied bit by bit
            while low < stop and low < base + CHUNK and (low - base) & 7:
                out[low - first] = ((container.payload[(low - base) >> 3] >> ((low - base) & 7)) & 1) ^ flip
                low += 1
            high = min(base + CHUNK, stop)
            if low < high:
                pf_spread_bits(container.payload + ((low - base) >> 3), high - low, flip, out + (low - first))
        else:
            for i in range(container.n_runs):
                begin = base + load16(container.payload + 4 * <size_t>i)
                end = begin + load16(container.payload + 4 * <size_t>i + 2) + 1
                low = max(begin, first)
                high = min(end, stop)
                if low < high:
                    memset(out + (low - first), mark, high - low)


cdef void fill_bits(const uint8_t* data, size_t size, uint64_t first, uint64_t n_rows, uint8_t* out) noexcept nogil:
    """Sets bit i of out if first + i is in the set. first is the start of a chunk. The last byte is padded with 0."""
    cdef Cursor cursor
    cdef Container container
    cdef uint64_t base, low, high, n_bytes = (n_rows + 7) // 8
    cdef uint32_t i
    memset(out, 0, n_bytes)
    cursor_start(&cursor, data, size)
    while cursor_next(&cursor, &container):
        base = container.key << 16
        if base < first:
            continue
        base -= first
        if base >= n_rows:
            break
        if container.kind == ARRAY:
            for i in range(container.cardinality):
                low = base + load16(container.payload + 2 * <size_t>i)
                if low >= n_rows:
                    break
                out[low >> 3] |= <uint8_t>(1 << (low & 7))
        elif container.kind == BITMAP:
            memcpy(out + (base >> 3), container.payload, min(<uint64_t>BITMAP_BYTES, n_bytes - (base >> 3)))
        else:
            for i in range(container.n_runs):
                low = base + load16(container.payload + 4 * <size_t>i)
                high = low + load16(container.payload + 4 * <size_t>i + 2) + 1
                pf_set_range(out, low, min(high, n_rows))
    if n_rows & 7:
        out[n_bytes - 1] &= <uint8_t>((1 << (n_rows & 7)) - 1)


def mask_into(bytes data not None, size_t start, out, uint64_t first, bint invert):
    """Writes one byte per row from `first` on: whether it is in the checked bitmap at data[start:], XOR invert."""
    cdef Span source = span_of(data)
    cdef Buffer target = writable(out)
    if target.size > 0:
        with nogil:
            fill_bytes(source.data + start, source.size - start, first, target.size, invert, target.data)


def bits_into(bytes data not None, size_t start, out, uint64_t n_rows, uint64_t first=0):
    """Writes one bit per row from `first` on, a multiple of 65,536: whether it is in the checked bitmap at data[start:].

    Args:
        out: a writable buffer of (n_rows + 7) // 8 bytes.
    """
    cdef Span source = span_of(data)
    cdef Buffer target = writable(out)
    if first % CHUNK:
        raise ValueError(f"first: expected a multiple of {CHUNK}, found {first}")
    if target.size < (n_rows + 7) // 8:
        raise ValueError(f"out: expected at least {(n_rows + 7) // 8} bytes, found {target.size}")
    if n_rows > 0:
        with nogil:
            fill_bits(source.data + start, source.size - start, first, n_rows, target.data)


cdef bint take_flags(Writer* writer, const uint8_t* flags, size_t from_bit, size_t n, bint packed) noexcept nogil:
    """Writes the rows whose flag is set, chunk by chunk. False when memory is out."""
    cdef uint8_t bits[BITMAP_BYTES]
    cdef size_t i = 0, rows
    while i < n:
        rows = min(<size_t>CHUNK, n - i)
        if rows < CHUNK:
            memset(bits, 0, BITMAP_BYTES)
        if packed:
            pf_shift_bits(flags, from_bit + i, rows, bits)
        else:
            pf_pack_flags(flags + i, rows, bits)
        if not writer_bitmap(writer, i >> 16, bits):
            return False
        i += rows
    return True


cdef bint take_range(Writer* writer, uint64_t start, uint64_t stop) noexcept nogil:
    """Writes one run for each chunk of start … stop - 1, where start < stop. False when memory is out."""
    cdef uint8_t pair[4]
    cdef uint64_t end, chunks = ((stop - 1) >> 16) - (start >> 16) + 1
    # memory is reserved at once, so that a range that does not fit fails before anything is written
    if not reserve(&writer.payload, 6 * chunks) or not reserve(&writer.records, sizeof(Record) * chunks):
        return False
    while start < stop:
        end = min((start | (CHUNK - 1)) + 1, stop)
        store16(pair, <uint16_t>start)
        store16(pair + 2, <uint16_t>(end - start - 1))
        if not writer_runs(writer, start >> 16, pair, 1):
            return False
        start = end
    return True


def encode_range(uint64_t start, uint64_t stop):
    """Serialises the positions start … stop - 1 as a 64-bit bitmap. Returns (bytes, cardinality)."""
    cdef Writer writer
    cdef bint done
    try:
        done = writer_start(&writer, 0)
        with nogil:
            done = done and take_range(&writer, start, stop)
        if not done:
            raise MemoryError("encoding a range")
        return finish(&writer), writer.cardinality
    finally:
        writer_end(&writer)


def encode_flags(flags, size_t from_bit, size_t n_rows, bint packed):
    """Serialises the positions of the rows whose flag is set as a 64-bit bitmap.

    Args:
        flags: a contiguous buffer of bytes (0 or not) or, packed, of bits, least significant first.
        from_bit: the first row's bit (packed) or byte.
        n_rows: how many rows.

    Returns:
        (bytes, cardinality).
    """
    cdef Buffer source = buffer_of(flags)
    cdef Writer writer
    cdef bint done
    cdef size_t rows
    done = writer_start(&writer, 0)
    try:
        rows = 8 * source.size if packed else source.size
        if from_bit > rows or n_rows > rows - from_bit:
            raise ValueError(f"{n_rows} rows from {from_bit} on are not inside a buffer of {source.size} bytes")
        with nogil:
            done = done and take_flags(&writer, source.data + (0 if packed else from_bit), from_bit, n_rows, packed)
        if not done:
            raise MemoryError("encoding a mask")
        return finish(&writer), writer.cardinality
    finally:
        writer_end(&writer)


pf_choose_level()
