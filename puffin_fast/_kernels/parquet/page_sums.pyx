"""The CRC-32 of the pages of a Parquet column chunk.

    page = header, which may have the CRC-32 | levels and values as they are stored: what it is the CRC-32 of

Source: Parquet format specification, "Checksumming".
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from puffin_fast._kernels.roaring.frames cimport crc32
from puffin_fast._kernels.views cimport Buffer, buffer_of

from puffin_fast.errors import CorruptDataError

cdef extern from "page_header.h" nogil:
    enum:
        PF_HEADER_WORDS
        PF_TYPE
        PF_STORED_BYTES
        PF_N_VALUES
        PF_CHECKSUM
        PF_HEADER_BYTES
    int pf_page_header(const uint8_t* data, size_t size, int64_t* out)

cdef enum:
    DATA_PAGE = 0
    DATA_PAGE_V2 = 3


cdef bint is_sound(const int64_t* header, const uint8_t* stored, uint32_t* found) noexcept nogil:
    """Whether the stored bytes of a page have the CRC-32 of its header, or the header has none. `found` is set to it."""
    found[0] = 0
    return header[PF_CHECKSUM] < 0 or (
        crc32(stored, <size_t>header[PF_STORED_BYTES], found) and found[0] == <uint32_t>header[PF_CHECKSUM]
    )


cdef int check_sum(const int64_t* header, const uint8_t* stored, path, column, int64_t offset) except -1:
    """Raises CorruptDataError if a page, which starts at an offset of the file, has another CRC-32 than its header."""
    cdef uint32_t found = 0
    if not is_sound(header, stored, &found):
        raise wrong(header, path, column, offset, found)
    return 0


cdef object wrong(const int64_t* header, path, column, int64_t offset, uint32_t found):
    return CorruptDataError(f"CRC-32 of a page of column {column}", path=path, offset=offset,
                            expected=f"{header[PF_CHECKSUM]:08x}", found=f"{found:08x}")


cdef class PageSums:
    """Compares each page of a column chunk with the CRC-32 in its header, if it has one.

    The bytes may arrive in parts, so that they are compared while they are in the processor's cache. Bytes after the
    last value are not looked at.

    Args:
        data: the column chunk, or the memory for it.
        n_values: number of values of the column chunk, nulls included.
        path: of the file, for messages.
        column: its name, likewise.
        start: where the column chunk starts in the file.
    """

    cdef Buffer _source
    cdef object _path, _column
    cdef int64_t _start, _n_left
    cdef int64_t _header[PF_HEADER_WORDS]
    cdef size_t _page                 # where the header of the page starts
    cdef size_t _at                   # the first byte that was not looked at
    cdef size_t _stop                 # where the page ends
    cdef uint32_t _sum                # of the bytes of the page before _at

    def __cinit__(self, data, *, int64_t n_values, path, column, int64_t start):
        self._source, self._n_left, self._path, self._column, self._start = buffer_of(data), n_values, path, column, start

    def check(self, size_t n_bytes):
        """Compares the pages that end in the first bytes.

        Args:
            n_bytes: how many bytes are there; not fewer than in the call before.

        Raises:
            CorruptDataError: a page has another CRC-32.

        Returns:
            False if no page follows the pages that were compared, although not all bytes and values are theirs.
        """
        cdef bint is_wrong = False
        if n_bytes > self._source.size:
            raise ValueError(f"{n_bytes} of {self._source.size} bytes")
        with nogil:
            while self.next_page(n_bytes, &is_wrong) and not is_wrong:
                pass
        if is_wrong:
            raise wrong(self._header, self._path, self._column, self._start + <int64_t>self._page, self._sum)
        return self._at == self._stop and (self._n_left <= 0 or self._at == self._source.size)

    cdef bint next_page(self, size_t n_bytes, bint* is_wrong) noexcept nogil:
        """Continues in a page, or begins the next one; False when more bytes are needed, or none."""
        cdef size_t stop
        if self._at == self._stop:
            if self._n_left <= 0 or self._at >= n_bytes:
                return False
            if pf_page_header(self._source.data + self._at, n_bytes - self._at, self._header) < 0:
                return False
            stop = self._at + <size_t>self._header[PF_HEADER_BYTES]
            if self._header[PF_N_VALUES] < 0 or not 0 <= self._header[PF_STORED_BYTES] <= <int64_t>(self._source.size - stop):
                return False
            if self._header[PF_TYPE] in (DATA_PAGE, DATA_PAGE_V2):
                self._n_left -= min(self._n_left, self._header[PF_N_VALUES])
            self._page, self._at, self._sum = self._at, stop, 0
            self._stop = stop + <size_t>self._header[PF_STORED_BYTES]
        stop = min(self._stop, n_bytes)
        if self._header[PF_CHECKSUM] >= 0:
            is_wrong[0] = not crc32(self._source.data + self._at, stop - self._at, &self._sum)
            if stop == self._stop and self._sum != <uint32_t>self._header[PF_CHECKSUM]:
                is_wrong[0] = True
        self._at = stop
        return stop == self._stop
