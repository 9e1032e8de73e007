"""Pages of a Parquet column chunk: headers, levels, dictionary codes, and the values of wanted rows.

Each function raises ValueError for bytes that do not have the expected form.

Source: Parquet format specification, "Data Pages", "Encodings" (plain, RLE / bit-packing hybrid, dictionary).
"""

import os

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from puffin_fast._kernels.parquet.page_sums cimport check_sum, is_sound
from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

from puffin_fast.errors import CorruptDataError

cdef extern from "Python.h":
    object PyBytes_FromStringAndSize(const char* data, Py_ssize_t size)

cdef extern from "unistd.h" nogil:
    int close(int descriptor)

cdef extern from "simd.h" nogil:
    int pf_choose_level()

cdef extern from "page_memory.h" nogil:
    enum:
        PF_CODEC_OTHER
        PF_CODEC_NONE
        PF_CODEC_SNAPPY
        PF_CODEC_ZSTD
    ctypedef struct pf_grown:
        uint8_t* data
        size_t capacity
    ctypedef struct pf_page_memory:
        void* zstd
        pf_grown page
        pf_grown dictionary
        pf_grown window
    void pf_use_zstd(uintptr_t create, uintptr_t release, uintptr_t decompress)
    int pf_decompress(int codec, pf_page_memory* memory, const uint8_t* data, size_t size, size_t n_raw, pf_grown* out)
    int64_t pf_zstd(void** context, const uint8_t* data, size_t size, uint8_t* out, size_t n_raw)
    int pf_grow(pf_grown* buffer, size_t n)
    size_t pf_held_bytes(const pf_page_memory* memory)
    void pf_keep_small(pf_page_memory* memory)
    void pf_free_memory(pf_page_memory* memory)

cdef extern from "page_window.h" nogil:
    ctypedef struct pf_part:
        const uint8_t* data
        size_t first
        size_t stop
    ctypedef struct pf_window:
        const uint8_t* data
        size_t first
        size_t stop
        size_t n_bytes
        int file
        int64_t start
        const pf_part* parts
        size_t n_parts
    const uint8_t* pf_reach_header(pf_window* window, pf_grown* own, size_t at)
    const uint8_t* pf_reach_page(pf_window* window, pf_grown* own, size_t at, size_t n)

cdef extern from "column_page.h" nogil:
    enum:
        PF_HEADER_WORDS
        PF_TYPE
        PF_RAW_BYTES
        PF_STORED_BYTES
        PF_N_VALUES
        PF_ENCODING
        PF_LEVEL_ENCODING
        PF_N_ROWS
        PF_N_NULLS
        PF_DEFINITION_BYTES
        PF_REPETITION_BYTES
        PF_IS_COMPRESSED
        PF_HEADER_BYTES
        PF_VIEW_BYTES
        PF_PLAIN
        PF_PLAIN_DICTIONARY
        PF_RLE_DICTIONARY
        PF_RLE
        PF_DELTA_BYTE_ARRAY
        PF_SAME
        PF_INT32_TO_INT128
        PF_INT64_TO_INT128
        PF_BIG_ENDIAN_TO_INT128
    ctypedef struct pf_dictionary:
        const uint8_t* data
        size_t count
        size_t width
        int conversion
    ctypedef struct pf_column:
        int64_t stored
        int64_t width
        int conversion
        int is_text
        int most_level
        int repeats
        pf_dictionary entries
    ctypedef struct pf_delta_texts:
        int64_t n_plain
    ctypedef struct pf_page:
        pf_grown plain
        const uint8_t* data
        size_t size
        int64_t encoding
        int64_t n_rows
        int64_t n_values
        uint8_t* levels
        int64_t place[2]
        int32_t* starts
        size_t n_lists
    int pf_page_header(const uint8_t* data, size_t size, int64_t* out)
    size_t pf_rows_below(const int32_t* rows, size_t count, int64_t end)
    int pf_fixed(const uint8_t* data, size_t size, int64_t width, int conversion, const int32_t* rows, int64_t base,
                 size_t count, uint8_t* out)
    int pf_views(const uint8_t* data, size_t size, uint32_t buffer, const int32_t* rows, int64_t base, size_t count,
                 int64_t* place, uint8_t* out)
    void pf_close_page(pf_page* page)
    int pf_open_page(const pf_column* column, pf_page* page, const int64_t* header, const uint8_t* levels,
                     const uint8_t* data, size_t size)
    int64_t pf_page_levels(const pf_column* column, const int64_t* header)
    int pf_is_stored_raw(const int64_t* header)
    int pf_cells(const pf_column* column, pf_page* page, uint32_t buffer, const int32_t* rows, int64_t base,
                 size_t count, uint8_t* out)
    bint pf_is_dictionary(int64_t encoding)
    bint pf_is_delta_text(int64_t encoding)
    int pf_open_texts(const uint8_t* data, size_t size, int64_t n_texts, int has_prefixes, pf_delta_texts* texts)
    void pf_write_texts(const pf_delta_texts* texts, uint8_t* out)
    void pf_close_texts(pf_delta_texts* texts)
    int64_t pf_codes_of(const pf_column* column, pf_page* page, const int32_t* rows, int64_t base, size_t count, uint32_t* codes)
    int64_t pf_outer_bytes(const uint8_t* views, size_t count)
    void pf_move_texts(uint8_t* views, size_t count, const uint8_t* page, uint8_t* out)
    int pf_some_entries(const uint8_t* data, size_t size, const uint32_t* codes, size_t n, uint8_t* entries)
    int pf_nullable_cells(const pf_column* column, pf_page* page, uint32_t buffer, const int32_t* rows, int64_t base,
                          size_t count, uint8_t* out, uint8_t* validity, size_t first)
    int pf_clear_below(const uint8_t* levels, const int32_t* rows, int64_t base, size_t count, uint8_t least,
                       uint8_t* bits, size_t first)
    void pf_wanted_levels(const pf_column* column, const pf_page* page, const int32_t* rows, int64_t base, size_t count,
                          uint8_t* out)


SAME, INT32_TO_INT128 = PF_SAME, PF_INT32_TO_INT128
INT64_TO_INT128, BIG_ENDIAN_TO_INT128 = PF_INT64_TO_INT128, PF_BIG_ENDIAN_TO_INT128

OTHER, UNCOMPRESSED, SNAPPY, ZSTD = PF_CODEC_OTHER, PF_CODEC_NONE, PF_CODEC_SNAPPY, PF_CODEC_ZSTD

cdef enum:
    PAGE_WORDS = 3  # of a given page
    FEW_BYTES = 8  # of a page for each wanted one from which on texts are copied
    MOST_IDLE = 16  # page memories, each with the tables of zstd
    MOST_IDLE_BYTES = 1 << 25  # of their buffers; those of one more are kept if they are small

cdef enum:  # the words of a column chunk of `read_chunks`
    CHUNK_START
    CHUNK_BYTES
    CHUNK_RAW_BYTES
    CHUNK_STORED
    CHUNK_WIDTH
    CHUNK_CONVERSION
    CHUNK_LEVEL
    CHUNK_CODEC
    CHUNK_WORDS

cdef enum:  # the words of a column chunk of `read_joined`
    JOINED_SPAN
    JOINED_OFFSET
    JOINED_BYTES
    JOINED_RAW_BYTES
    JOINED_START
    JOINED_FIRST
    JOINED_ROWS
    JOINED_WORDS


cdef class PageMemory:
    """Buffers and tables that decoders use one after the other."""

    cdef pf_page_memory of

    def __dealloc__(self):
        pf_free_memory(&self.of)


cdef class LocalFile:
    """A local file that column chunks are read from; it stays open as long as one of them needs it.

    Args:
        descriptor: of the open file, which is duplicated.
    """

    cdef int descriptor

    def __cinit__(self, int descriptor):
        self.descriptor = -1
        self.descriptor = os.dup(descriptor)

    def __dealloc__(self):
        if self.descriptor >= 0:
            close(self.descriptor)

    cpdef bytes read(self, int64_t start, int64_t n_bytes):
        """Reads bytes; raises ValueError if the file has fewer."""
        parts, left = [], n_bytes
        while left and (part := os.pread(self.descriptor, left, start + n_bytes - left)):
            parts.append(part)
            left -= len(part)
        if left:
            raise ValueError(f"{n_bytes - left} bytes at {start}; expected {n_bytes}")
        return b"".join(parts)


cdef class ChunkParts:
    """The bytes of a column chunk that are in memory, in parts; more may be added while pages are read."""

    cdef pf_part* parts
    cdef size_t count
    cdef list _held

    def __cinit__(self):
        self._held = []

    def __dealloc__(self):
        free(self.parts)

    def add(self, size_t first, data):
        """Adds bytes of the column chunk, which start at an offset of it."""
        cdef Buffer source = buffer_of(data)
        cdef pf_part* grown = <pf_part*>realloc(self.parts, (self.count + 1) * sizeof(pf_part))
        if grown == NULL:
            raise MemoryError()
        self.parts = grown
        self.parts[self.count] = pf_part(source.data, first, first + source.size)
        self._held.append((source, memoryview(data)))
        self.count += 1

    cdef object slice(self, size_t start, size_t stop):
        """The bytes from `start` to `stop`; raises ValueError if no part has them."""
        for i in range(self.count):
            if self.parts[i].first <= start and stop <= self.parts[i].stop:
                return self._held[i][1][start - self.parts[i].first:stop - self.parts[i].first]
        raise ValueError(f"no part has the bytes {start} to {stop} of the column chunk")

    def header(self, size_t start):
        """The header of a page, as `page_header` returns it."""
        for i in range(self.count):
            if self.parts[i].first <= start < self.parts[i].stop:
                return page_header(self._held[i][1], start - self.parts[i].first)
        raise ValueError(f"no part has the page at {start} of the column chunk")


cdef list idle = []  # page memories that no decoder uses
cdef size_t idle_bytes = 0  # of their buffers


cdef PageMemory free_memory():
    global idle_bytes
    if not idle:
        return PageMemory()
    cdef PageMemory memory = idle.pop()
    idle_bytes -= pf_held_bytes(&memory.of)
    return memory


cdef void give_back(PageMemory memory):
    global idle_bytes
    if len(idle) < MOST_IDLE:
        if idle_bytes + pf_held_bytes(&memory.of) > MOST_IDLE_BYTES:
            pf_keep_small(&memory.of)
        idle_bytes += pf_held_bytes(&memory.of)
        idle.append(memory)


def use_zstd(uintptr_t create, uintptr_t release, uintptr_t decompress):
    """Sets the functions that decompress pages without the interpreter's lock; to be called once, before any page.

    Args:
        create, release, decompress: addresses of `ZSTD_createDCtx`, `ZSTD_freeDCtx` and `ZSTD_decompressDCtx`.
    """
    pf_use_zstd(create, release, decompress)


def zstd_into(data, out):
    """Decompresses a frame of zstd.

    Returns:
        the number of bytes; -1 if the frame is damaged or has more than `out`, or without a call of `use_zstd`.
    """
    cdef Buffer source = buffer_of(data), target = writable(out)
    cdef PageMemory memory = free_memory()
    cdef int64_t found
    with nogil:
        found = pf_zstd(&memory.of.zstd, source.data, source.size, target.data, target.size)
    give_back(memory)
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
        page type, bytes without compression, bytes stored, number of values, encoding, encoding of the definition
        levels, number of rows, number of nulls, bytes of definition levels, bytes of repetition levels, whether it is
        compressed, CRC-32, encoding of the repetition levels, bytes of the header; -1 where a header of its page type has no such field, or may leave it out.
    """
    cdef Buffer source = buffer_of(data)
    cdef int64_t words[PF_HEADER_WORDS]
    if start > source.size:
        raise ValueError(f"no page at {start} of {source.size} bytes")
    checked(pf_page_header(source.data + start, source.size - start, words))
    return tuple([words[i] for i in range(PF_HEADER_WORDS)])


cdef struct chunk_cells:
    # Where rows of a column chunk are written.
    uint8_t* out
    uint8_t* levels      # NULL: they are not wanted
    uint8_t* flags       # the validity bitmap; NULL: no row is null
    bint is_read


cdef class PageDecoder:
    """The pages of a column chunk, read in order. Memory: the chunk as stored unless it is read from a file, its
    dictionary and one page.

    Args:
        data: the column chunk; `ChunkParts` of it, which have the dictionary and the pages of wanted rows; or a
            `LocalFile`: pages are read when they are needed.
        decompress: called with the stored bytes of a page and its declared number of bytes; returns its bytes.
        n_rows: number of rows of the row group.
        most_bytes: the column chunk's declared number of bytes without compression.
        stored: bytes of a stored value; 0 for byte strings and booleans.
        width: bytes of a cell: 16 for byte strings, which become views, 1 for booleans.
        conversion: of a stored value: `SAME`, or to a little-endian integer of 16 bytes.
        most_level: the definition level of values: the number of optional fields on the path of the column.
        repeats: whether the column has repetition levels, of at most 1: rows are then what these levels stand for, and
            `n_rows` is their number.
        codec: of the pages: `UNCOMPRESSED`, `SNAPPY`, or `ZSTD` after a call of `use_zstd`; pages of numbers are then
            loaded without `decompress`, and all pages of a call share one release of the interpreter's lock. `OTHER`:
            call `decompress` for each page.
        path, column, start: as for `PageSums`.
        n_bytes: of the column chunk, if `data` is not the whole of it.
        pages: where the pages of wanted rows are, as int64: of each its offset in the chunk, first row and number of
            rows, in the order of the rows. Other pages are then not looked at, and the dictionary, the first page of
            the chunk, only if one of them needs it. None: each page follows the one before. If the column has
            repetition levels, the number of rows is one that no page exceeds.
        decompress_part: for few rows of texts: called with the stored bytes of a page, its declared number of bytes,
            and how many of these are about needed; returns at least the first of its bytes, which may be too few: this
            is then a ValueError. The dictionary is decompressed as far as its entries are needed.
        codes: for byte strings: a cell is the number of the text in the dictionary, as uint32. A page that has texts
            without the dictionary is then a ValueError.

    What `decompress` raises is passed on. A page with another CRC-32 than its header states is a CorruptDataError, and
    everything else that is wrong another ValueError.
    """

    cdef pf_column _column
    cdef pf_page _page                # its `data` belongs to _values
    cdef int64_t _header[PF_HEADER_WORDS]
    cdef int64_t _n_rows, _stop       # most rows of a page; the row after the last one
    cdef int64_t _most_bytes
    cdef int64_t _first               # the first row of the page, in the row group
    cdef bint _is_loaded              # whether the page was decompressed
    cdef size_t _at, _body            # where the next header starts, and the stored bytes of the page
    cdef int _codec
    cdef PageMemory _memory           # what `try_load` decompressed; None before the first row and after the last one
    cdef pf_window _chunk             # its `data` belongs to _source or _memory
    cdef Buffer _source, _entries, _values
    cdef object _bytes, _decompress, _decompress_part, _texts, _dictionary_texts, _path, _column_name
    cdef int64_t _start               # of the chunk in the file
    cdef Buffer _pages                # the words of the given pages
    cdef const int64_t* _given        # they; NULL: none are given
    cdef size_t _n_given, _next       # their number, and that of the page that was sought
    cdef int64_t _dictionary_header[PF_HEADER_WORDS]
    cdef size_t _dictionary_body, _after_dictionary
    cdef uint8_t* _some_entries       # those of wanted rows, if there is `_decompress_part`
    cdef bint _codes                  # whether cells are numbers of texts
    cdef object _views                # then: the views of all texts of the dictionary; None before it was loaded
    cdef Buffer _part                 # the first entries of the dictionary
    cdef int64_t _n_part              # their number
    cdef size_t _first_text           # the number of the buffer of the dictionary's texts
    cdef object _validity             # of the rows that are read; None before the first page with nulls
    cdef Buffer _flags
    cdef int64_t* _passed             # bytes and rows of each data page that was entered
    cdef size_t _n_passed, _most_passed

    def __cinit__(self, data, decompress, *, int64_t n_rows, int64_t most_bytes, int64_t stored, int64_t width,
                  int conversion, int most_level, bint repeats=False, int codec=0, path=None, column=None, int64_t start=0,
                  int64_t n_bytes=0, pages=None, decompress_part=None, bint codes=False):
        if not self.set_column(stored, width, conversion, most_level):
            raise ValueError(
                f"cells of {width} bytes for values of {stored} bytes, conversion {conversion}, level {most_level}"
            )
        self._column.repeats = repeats
        self._decompress, self._codec = decompress, codec
        self._decompress_part = decompress_part if self._column.is_text else None
        if codes:
            if not self._column.is_text or repeats or decompress_part is not None:
                raise ValueError("codes of no dictionary of texts, of lists, or of a part of it")
            self._codes, self._column.width = True, sizeof(uint32_t)
        self._chunk.start = start
        if n_bytes < 0 or start < 0:
            raise ValueError(f"{n_bytes} bytes of a column chunk at {start}")
        if isinstance(data, LocalFile):
            self._bytes, self._chunk.file, self._chunk.n_bytes = data, (<LocalFile>data).descriptor, <size_t>n_bytes
        elif isinstance(data, ChunkParts):
            self._bytes, self._chunk.file, self._chunk.n_bytes = data, -1, <size_t>n_bytes
        else:
            self._source, self._bytes = buffer_of(data), memoryview(data)
            self._chunk.data, self._chunk.file = self._source.data, -1
            self._chunk.stop = self._chunk.n_bytes = self._source.size
        if pages is not None:
            self._pages = buffer_of(pages)
            self._given, self._n_given = <const int64_t*>self._pages.data, self._pages.size // (PAGE_WORDS * 8)
        self._n_rows, self._most_bytes, self._dictionary_texts = n_rows, most_bytes, b""
        self._stop = n_rows
        if repeats and self._n_given:
            self._stop = self._given[PAGE_WORDS * self._n_given - 2] + self._given[PAGE_WORDS * self._n_given - 1]
        self._is_loaded = True
        self._path, self._column_name, self._start = path, column, start

    cdef bint set_column(self, int64_t stored, int64_t width, int64_t conversion, int64_t most_level) noexcept nogil:
        """Sets how values are stored; False if there are no such values."""
        cdef int64_t cell = 16 if conversion != PF_SAME or (stored == 0 and width != 1) else max(stored, 1)
        if not PF_SAME <= conversion <= PF_BIG_ENDIAN_TO_INT128 or stored < 0 or width != cell:
            return False
        if (conversion == PF_INT32_TO_INT128 and stored != 4) or (conversion == PF_INT64_TO_INT128 and stored != 8):
            return False
        if not 0 <= most_level <= 255:
            return False
        self._column.stored, self._column.width, self._column.conversion = stored, width, <int>conversion
        self._column.is_text, self._column.most_level = stored == 0 and width == 16, <int>most_level
        return True

    cdef object stored(self, size_t start, size_t stop):
        """Bytes of the column chunk."""
        if isinstance(self._bytes, LocalFile):
            return memoryview((<LocalFile>self._bytes).read(self._start + <int64_t>start, <int64_t>(stop - start)))
        if isinstance(self._bytes, ChunkParts):
            return (<ChunkParts>self._bytes).slice(start, stop)
        return self._bytes[start:stop]

    cdef bint seek(self, int64_t row) noexcept nogil:
        """Goes to the given page of a row, if pages are given; False if none has the row."""
        cdef size_t low = 0, high = self._n_given, middle
        if self._pages is None:
            return True
        while low < high:
            middle = (low + high) // 2
            if self._given[PAGE_WORDS * middle + 1] <= row:
                low = middle + 1
            else:
                high = middle
        if low == 0 or row - self._given[PAGE_WORDS * (low - 1) + 1] >= self._given[PAGE_WORDS * (low - 1) + 2]:
            return False
        self._next = low - 1
        self._first, self._page.n_rows = self._given[PAGE_WORDS * self._next + 1], 0
        if self._given[PAGE_WORDS * self._next] < 0:
            return False
        self._at = <size_t>self._given[PAGE_WORDS * self._next]
        return True

    cdef bint is_sought(self, int64_t row) noexcept nogil:
        """Whether the page that was entered has the number of rows of the given one, if that is known, or a row."""
        if self._pages is None:
            return True
        if self._column.repeats:
            return row < self._first + self._page.n_rows
        return self._page.n_rows == self._given[PAGE_WORDS * self._next + 2]

    def __dealloc__(self):
        self.rewind()
        free(self._passed)

    cdef void leave(self) noexcept nogil:
        """Leaves the page; a row that is read afterwards is sought from the first page on."""
        pf_close_page(&self._page)
        self._column.entries.data, self._column.entries.count = NULL, 0
        self._at = 0
        self._first = self._page.n_rows = 0
        self._is_loaded = True

    cdef void rewind(self):
        """Leaves the page, and gives back the memory."""
        self.leave()
        free(self._page.plain.data)
        self._page.plain.data, self._page.plain.capacity = NULL, 0
        free(self._some_entries)
        self._some_entries, self._n_part = NULL, 0
        if self._source is None:
            self._chunk.data, self._chunk.first, self._chunk.stop = NULL, 0, 0
        if self._memory is not None:
            give_back(self._memory)
            self._memory = None

    def read_into(self, int64_t first, int64_t n_rows, rows, out, levels=None):
        """Writes the cells of rows. Calls must be in the order of the rows; rows in between are skipped.

        Args:
            first: the first row, in the row group.
            n_rows: number of rows.
            rows: the wanted ones of them, ascending int32 indexes from `first`; None: all.
            out: for their cells. Those of nulls are zero.
            levels: for their definition levels, a byte each; None: they are not wanted.

        Returns:
            a validity bitmap, or None if no row of the pages is null; and the buffers that views refer to.
        """
        cdef Buffer wanted = None if rows is None else buffer_of(rows)
        cdef size_t count = (<size_t>n_rows if n_rows > 0 else 0) if rows is None else wanted.size // 4
        cdef size_t width = <size_t>self._column.width, done = 0
        cdef const int32_t* places = NULL if rows is None else <const int32_t*>wanted.data
        cdef Buffer target = output_of(out, count, width)
        cdef Buffer defined = None if levels is None else output_of(levels, count, 1)
        cdef uint8_t* depths = NULL if levels is None else <uint8_t*>defined.data
        if first < 0 or n_rows < 0 or n_rows > self._stop - first:
            raise ValueError(f"rows {first} to {first + n_rows} of {self._stop}")
        texts = [self._dictionary_texts]
        self._validity = self._flags = None
        self.fill(first, n_rows, places, count, count, &done, target.data, depths, texts)
        texts[0] = self._dictionary_texts
        if first + n_rows == self._n_rows and not self._column.repeats:  # all columns of a wide file are open at once
            self.rewind()
        return self._validity, texts

    def read_joined(self, spans, words, rows, size_t count, out, levels=None):
        """Writes the cells of rows of several column chunks of one column, one after the other.

        Args:
            spans: buffers that have the column chunks.
            words: of each column chunk, as int64: the number of its buffer, its offset in it, its bytes, its declared
                bytes without compression, its offset in the file, its first row, its number of rows; in the order of
                the rows.
            rows: the wanted rows, ascending int32; None: all rows of the column chunks.
            count: their number.
            out, levels: as for `read_into`.

        Returns:
            what `read_into` does.
        """
        cdef Buffer given = buffer_of(words), wanted = None if rows is None else buffer_of(rows)
        cdef const int64_t* chunk = <const int64_t*>given.data
        cdef const int32_t* places = NULL if rows is None else <const int32_t*>wanted.data
        cdef Buffer target = output_of(out, count, <size_t>self._column.width)
        cdef Buffer defined = None if levels is None else output_of(levels, count, 1)
        cdef uint8_t* depths = NULL if levels is None else <uint8_t*>defined.data
        cdef list sources = [buffer_of(span) for span in spans]
        cdef size_t i, here, done = 0
        cdef int64_t first, n_rows
        if self._column.repeats or self._codes or self._pages is not None or self._decompress_part is not None:
            raise ValueError("column chunks that are not read as a whole")
        if wanted is not None and wanted.size // 4 < count:
            raise ValueError(f"{wanted.size // 4} rows; expected {count}")
        texts = []
        self._validity = self._flags = None
        for i in range(given.size // (JOINED_WORDS * sizeof(int64_t))):
            first, n_rows = chunk[JOINED_FIRST], chunk[JOINED_ROWS]
            here = <size_t>n_rows if places == NULL else pf_rows_below(places + done, count - done, first + n_rows)
            if n_rows < 0 or here > count - done or here and places != NULL and places[done] < first:
                raise ValueError(f"rows of no column chunk, before row {first + n_rows}")
            if here:
                self.open_chunk(sources, spans, chunk)
                self._first_text = <size_t>len(texts)
                texts.append(b"")
                if <int64_t>here == n_rows:
                    self.fill(-<int64_t>done, <int64_t>(done + here), NULL, done + here, count, &done, target.data, depths,
                              texts)
                else:
                    self.fill(-first, first + n_rows, places, done + here, count, &done, target.data, depths, texts)
                texts[self._first_text] = self._dictionary_texts
            chunk += JOINED_WORDS
        if done != count:
            raise ValueError(f"{done} rows of column chunks; expected {count}")
        self.rewind()
        return self._validity, texts

    cdef int open_chunk(self, list sources, spans, const int64_t* words) except -1:
        """Goes to another column chunk of the column."""
        cdef Buffer source = sources[words[JOINED_SPAN]]
        cdef int64_t offset = words[JOINED_OFFSET], n_bytes = words[JOINED_BYTES]
        if not 0 <= offset <= <int64_t>source.size or not 0 <= n_bytes <= <int64_t>source.size - offset:
            raise ValueError(f"{n_bytes} bytes of a column chunk at {offset} of {source.size} bytes")
        self.rewind()
        self._source, self._bytes = source, memoryview(spans[words[JOINED_SPAN]])[offset:offset + n_bytes]
        self._chunk.data, self._chunk.first = source.data + offset, 0
        self._chunk.stop = self._chunk.n_bytes = <size_t>n_bytes
        self._n_rows = self._stop = words[JOINED_ROWS]
        self._most_bytes, self._start = words[JOINED_RAW_BYTES], words[JOINED_START]
        self._entries = self._values = None
        self._dictionary_texts, self._after_dictionary, self._n_passed = b"", 0, 0
        return 0

    cdef int fill(self, int64_t first, int64_t n_rows, const int32_t* places, size_t count, size_t total, size_t* done,
                  uint8_t* out, uint8_t* depths, list texts) except -1:
        """Writes the cells of rows of the column chunk; arguments as in `read_pages`.

        Args:
            first: is added to the wanted rows: they are numbered from there. In a column chunk that is read after others,
                it is negative, because rows and places count those of the others, too.
            total: the number of all cells of the output.
            texts: for the buffers that views refer to.
        """
        cdef uint32_t buffer
        cdef int64_t row
        cdef uint8_t* flags
        cdef size_t before
        cdef bint is_loaded, is_plain
        cdef int status
        if isinstance(self._bytes, ChunkParts):
            self._chunk.parts, self._chunk.n_parts = (<ChunkParts>self._bytes).parts, (<ChunkParts>self._bytes).count
        if self._memory is None:
            self._memory = free_memory()
        while done[0] < count:
            row = first + (<int64_t>done[0] if places == NULL else places[done[0]])
            if row >= self._first + self._page.n_rows or not self._is_loaded:
                with nogil:
                    is_loaded = self.try_load(row)
                if not is_loaded:
                    self.load_page_of(row, first, places, count)
            if self._decompress_part is not None and pf_is_dictionary(self._page.encoding):
                self.load_entries(first, places, count, done[0])
            buffer = <uint32_t>self._first_text
            is_plain = self._column.is_text and self._page.encoding == PF_PLAIN
            if is_plain:
                buffer = <uint32_t>len(texts)
                texts.append(self._texts)
            if self._page.levels != NULL and self._flags is None:
                self._validity = bytearray(b"\xff") * ((total + 7) // 8)
                self._flags = writable(self._validity)
            flags = NULL if self._flags is None else self._flags.data
            before = done[0]
            with nogil:
                status = self.read_pages(first, n_rows, places, count, done, buffer, out, flags, depths)
            checked(status)
            if is_plain and places != NULL:
                texts[buffer] = self.some_texts(out + before * <size_t>self._column.width, done[0] - before)
        return 0

    cdef bint read_chunk(self, const uint8_t* data, const int64_t* words, const int32_t* places, size_t count,
                         chunk_cells* cells) noexcept nogil:
        """Writes rows of another column chunk, as `read_chunks` does; False if `try_load` leaves a page of it."""
        cdef size_t done = 0
        cdef int64_t row
        self.leave()
        self._chunk.data, self._chunk.stop = data, <size_t>words[CHUNK_BYTES]
        self._chunk.n_bytes = self._chunk.stop
        self._most_bytes, self._codec, self._n_passed = words[CHUNK_RAW_BYTES], <int>words[CHUNK_CODEC], 0
        if not self.set_column(words[CHUNK_STORED], words[CHUNK_WIDTH], words[CHUNK_CONVERSION], words[CHUNK_LEVEL]):
            return False
        while done < count:
            row = <int64_t>done if places == NULL else places[done]
            if (row >= self._first + self._page.n_rows or not self._is_loaded) and not self.try_load(row):
                return False
            if self._page.levels != NULL and cells.flags == NULL:
                cells.flags = <uint8_t*>malloc((count + 7) // 8)
                if cells.flags == NULL:
                    return False
                memset(cells.flags, 0xff, (count + 7) // 8)
            if self.read_pages(0, self._n_rows, places, count, &done, 0, cells.out, cells.flags, cells.levels) < 0:
                return False
        return True

    cdef object some_texts(self, uint8_t* views, size_t count):
        """The buffer that views of the page refer to: a copy of their texts if these are few, so that the page's memory
        is free for the next one."""
        cdef Buffer page = buffer_of(self._texts), kept
        cdef int64_t n_bytes = pf_outer_bytes(views, count)
        if n_bytes > <int64_t>page.size // FEW_BYTES:
            return self._texts
        found = bytearray(n_bytes)
        kept = writable(found)
        pf_move_texts(views, count, page.data, kept.data)
        return found

    def dictionary(self):
        """The texts that codes number.

        Returns:
            their views, and the buffer that these refer to; None if no dictionary was loaded.
        """
        return None if self._views is None else (self._views, self._dictionary_texts)

    def lists_at(self, int64_t row):
        """Finds the lists of the page of a row, in a column that repeats. Calls must be in the order of the rows.

        Returns:
            the first row of the page, its number of rows, and the first row of each list from there on, as int32.
        """
        cdef bint is_loaded
        if not self._column.repeats or not 0 <= row < self._stop:
            raise ValueError(f"row {row} of {self._stop}")
        if isinstance(self._bytes, ChunkParts):
            self._chunk.parts, self._chunk.n_parts = (<ChunkParts>self._bytes).parts, (<ChunkParts>self._bytes).count
        if self._memory is None:
            self._memory = free_memory()
        if row >= self._first + self._page.n_rows or not self._is_loaded:
            with nogil:
                is_loaded = self.try_load(row)
            if not is_loaded:
                self.load_page_of(row, 0, NULL, 0)
        starts = PyBytes_FromStringAndSize(<const char*>self._page.starts, <Py_ssize_t>(4 * self._page.n_lists))
        return self._first, self._page.n_rows, starts

    def places(self):
        """Where the pages are, after all rows were read.

        Returns:
            the bytes of the page of the dictionary, 0 if there is none; then the bytes and the rows of each data page.
            They are one after the other. None if pages are left.
        """
        cdef size_t i
        cdef int64_t n_rows = 0, n_bytes = <int64_t>self._after_dictionary
        found = [n_bytes]
        for i in range(self._n_passed):
            n_bytes += self._passed[2 * i]
            n_rows += self._passed[2 * i + 1]
            found += [self._passed[2 * i], self._passed[2 * i + 1]]
        is_whole = self._pages is None and n_bytes == <int64_t>self._chunk.n_bytes and n_rows == self._n_rows
        return found if is_whole else None

    cdef int read_pages(self, int64_t first, int64_t n_rows, const int32_t* places, size_t count, size_t* done,
                        uint32_t buffer, uint8_t* out, uint8_t* flags, uint8_t* depths) noexcept nogil:
        """Writes cells from the loaded page, and from those after it that `try_load` loads.

        Arguments are as in `read_into`; `done` rows were written before, and more are after the call. `flags` are
        NULL before the first page with nulls, `depths` if no levels are wanted.
        """
        cdef const int32_t* part
        cdef int64_t row, stop, base
        cdef size_t some
        cdef int status
        while True:
            row = first + (<int64_t>done[0] if places == NULL else places[done[0]])
            stop = self._first + self._page.n_rows
            if places == NULL:
                some = <size_t>(min(<int64_t>count, stop - first)) - done[0]
                part, base = NULL, row - self._first
            else:
                part, base = places + done[0], first - self._first
                some = pf_rows_below(part, count - done[0], min(stop - first, n_rows))
            if some == 0:
                return -1  # rows that do not ascend
            if self._page.levels == NULL:
                status = pf_cells(&self._column, &self._page, buffer, part, base, some,
                                  out + done[0] * <size_t>self._column.width)
            else:
                status = pf_nullable_cells(&self._column, &self._page, buffer, part, base, some,
                                           out + done[0] * <size_t>self._column.width, flags, done[0])
            if status < 0:
                return status
            if depths != NULL:
                pf_wanted_levels(&self._column, &self._page, part, base, some, depths + done[0])
            done[0] += some
            if done[0] == count or not self.try_load(first + (<int64_t>done[0] if places == NULL else places[done[0]])):
                return 0
            if self._page.levels != NULL and flags == NULL:
                return 0

    cdef bint try_load(self, int64_t row) noexcept nogil:
        """Loads the page of a row; False leaves it to `load_page_of`: texts, pages of other codecs, and pages that are
        not as expected."""
        cdef int64_t header[PF_HEADER_WORDS]
        cdef const uint8_t* data
        cdef size_t body
        if self._codec == PF_CODEC_OTHER or self._column.is_text:
            return False
        while row >= self._first + self._page.n_rows:
            if self._chunk.file >= 0:
                self._is_loaded = False  # the page that was decoded may be in the memory that is read to
            if not self.seek(row):
                return False
            data = pf_reach_header(&self._chunk, &self._memory.of.window, self._at)
            if data == NULL or pf_page_header(data, self._chunk.stop - self._at, header) < 0:
                return False
            body = self._at + <size_t>header[PF_HEADER_BYTES]
            if not self.fits(header, body):
                return False
            if header[PF_TYPE] == 2:
                if not self.try_load_dictionary(header, body):
                    return False
            elif header[PF_TYPE] in (0, 3):
                self.enter(header, body)
                if not self.is_sought(row):
                    self._page.n_rows = 0
                    return False
            else:
                return False
        return self._is_loaded or ((not self.lacks_dictionary() or self.try_load_first()) and self.try_load_values())

    cdef bint lacks_dictionary(self) noexcept nogil:
        """Whether the page needs a dictionary that was not loaded, because the page was sought."""
        return (self._pages is not None and self._column.entries.data == NULL
                and self._header[PF_ENCODING] in (PF_PLAIN_DICTIONARY, PF_RLE_DICTIONARY))

    cdef bint try_load_first(self) noexcept nogil:
        """Loads the dictionary, which is the first page of the chunk; False leaves it to `load_page_of`."""
        cdef int64_t header[PF_HEADER_WORDS]
        cdef const uint8_t* data = pf_reach_header(&self._chunk, &self._memory.of.window, 0)
        cdef size_t body, after = self._at
        cdef bint is_loaded
        if data == NULL or pf_page_header(data, self._chunk.stop, header) < 0 or header[PF_TYPE] != 2:
            return False
        body = <size_t>header[PF_HEADER_BYTES]
        is_loaded = self.fits(header, body) and self.try_load_dictionary(header, body)
        self._at = after
        return is_loaded

    cdef bint try_load_dictionary(self, const int64_t* header, size_t body) noexcept nogil:
        """Loads a dictionary of numbers as `load_dictionary` does; False if that has to do it."""
        cdef int64_t stored = self._column.stored, n_raw = header[PF_RAW_BYTES]
        cdef size_t n_stored = <size_t>header[PF_STORED_BYTES]
        cdef const uint8_t* data = pf_reach_page(&self._chunk, &self._memory.of.window, body, n_stored)
        cdef uint32_t found
        if not self.may_have_dictionary() or stored == 0 or self._column.conversion == PF_BIG_ENDIAN_TO_INT128:
            return False
        if header[PF_ENCODING] not in (PF_PLAIN, PF_PLAIN_DICTIONARY) or header[PF_N_VALUES] > n_raw // stored:
            return False
        if data == NULL or not is_sound(header, data, &found):
            return False
        if self._codec == PF_CODEC_NONE:
            if <int64_t>n_stored != n_raw:
                return False
            if self._chunk.file >= 0:
                if pf_grow(&self._memory.of.dictionary, n_stored) < 0:
                    return False
                memcpy(self._memory.of.dictionary.data, data, n_stored)
                data = self._memory.of.dictionary.data
        elif pf_decompress(self._codec, &self._memory.of, data, n_stored, <size_t>n_raw, &self._memory.of.dictionary) < 0:
            return False
        else:
            data = self._memory.of.dictionary.data
        self._column.entries.data, self._column.entries.count = data, <size_t>header[PF_N_VALUES]
        self._column.entries.width, self._column.entries.conversion = <size_t>stored, self._column.conversion
        self._at = self._after_dictionary = body + n_stored
        return True

    cdef bint may_have_dictionary(self) noexcept nogil:
        """Whether the next page may be a dictionary: the first one only."""
        return self._column.entries.data == NULL and (self._pages is not None or self._first + self._page.n_rows == 0)

    cdef bint fits(self, const int64_t* header, size_t body) noexcept nogil:
        """Whether the numbers of bytes and of values of a page do not exceed those of the column chunk."""
        cdef int64_t left = <int64_t>self._chunk.n_bytes - <int64_t>body
        return (0 <= header[PF_STORED_BYTES] <= left and 0 <= header[PF_RAW_BYTES] <= self._most_bytes
                and 0 <= header[PF_N_VALUES] <= self._n_rows)

    cdef void enter(self, const int64_t* header, size_t body) noexcept nogil:
        """Makes a data page the current one; it is not loaded."""
        cdef int64_t* grown
        if self._n_passed == self._most_passed:
            grown = <int64_t*>realloc(self._passed, (2 * self._most_passed + 16) * 2 * sizeof(int64_t))
            if grown != NULL:
                self._passed, self._most_passed = grown, 2 * self._most_passed + 16
        if self._n_passed < self._most_passed:
            self._passed[2 * self._n_passed] = header[PF_HEADER_BYTES] + header[PF_STORED_BYTES]
            self._passed[2 * self._n_passed + 1] = header[PF_N_VALUES]
            self._n_passed += 1
        memcpy(self._header, header, sizeof(self._header))
        self._body, self._at = body, body + <size_t>header[PF_STORED_BYTES]
        self._first += self._page.n_rows
        self._page.n_rows = header[PF_N_VALUES]
        self._is_loaded = False

    cdef bint try_load_values(self) noexcept nogil:
        """Loads the page as `load` does; False if that has to do it, which also says what is wrong."""
        cdef int64_t n_levels = pf_page_levels(&self._column, self._header), n_raw = self._header[PF_RAW_BYTES] - n_levels
        cdef const uint8_t* levels = pf_reach_page(&self._chunk, &self._memory.of.window, self._body,
                                                   <size_t>self._header[PF_STORED_BYTES])
        cdef const uint8_t* data
        cdef size_t n_stored = <size_t>(self._header[PF_STORED_BYTES] - n_levels)
        cdef uint32_t found
        if levels == NULL or n_levels < 0 or not is_sound(self._header, levels, &found):
            return False
        data = levels + n_levels
        if not pf_is_stored_raw(self._header) and self._codec != PF_CODEC_NONE:
            if pf_decompress(self._codec, &self._memory.of, data, n_stored, <size_t>n_raw, &self._memory.of.page) < 0:
                return False
            data = self._memory.of.page.data
        elif <int64_t>n_stored != n_raw:
            return False
        self._is_loaded = pf_open_page(&self._column, &self._page, self._header, levels, data, <size_t>n_raw) == 0
        return self._is_loaded

    cdef int load_page_of(self, int64_t row, int64_t first, const int32_t* places, size_t count) except -1:
        """Loads the page of a row; pages before it are skipped, and not decompressed. Others are as in `read_into`."""
        cdef int64_t header[PF_HEADER_WORDS]
        cdef int64_t kind, last
        cdef size_t body, before
        cdef const uint8_t* data
        while row >= self._first + self._page.n_rows:
            if not self.seek(row):
                raise ValueError(f"row {row} is in no given page")
            data = pf_reach_header(&self._chunk, &self._memory.of.window, self._at)
            if data == NULL:
                raise ValueError(f"no page at {self._at} of the column chunk")
            checked(pf_page_header(data, self._chunk.stop - self._at, header))
            body = self._at + <size_t>header[PF_HEADER_BYTES]
            kind = header[PF_TYPE]
            if not self.fits(header, body):
                raise ValueError(
                    f"{header[PF_STORED_BYTES]} bytes and {header[PF_N_VALUES]} values of a page; the chunk has"
                    f" {self._chunk.n_bytes - body} more bytes, and the row group {self._n_rows} rows"
                )
            if kind == 2 and self.may_have_dictionary():
                self._at = self._after_dictionary = body + <size_t>header[PF_STORED_BYTES]
                memcpy(self._dictionary_header, header, sizeof(self._header))
                self._dictionary_body = body
                self.load_dictionary()
            elif kind in (0, 3):
                self.enter(header, body)
                if not self.is_sought(row):
                    raise ValueError(f"no row {row} in its page") if self._column.repeats else self.other_rows()
            else:
                raise ValueError(f"page type {kind}")
        if not self._is_loaded:
            if self.lacks_dictionary():
                self.load_first()
            last = self._page.n_rows - 1
            if places != NULL:
                before = pf_rows_below(places, count, self._first + self._page.n_rows - first)
                last = first - self._first + places[before - 1] if before else last
            self.load(last)
        return 0

    cdef int load_first(self) except -1:
        """Loads the dictionary, which is the first page of the chunk."""
        cdef int64_t* header = self._dictionary_header
        cdef const uint8_t* data = pf_reach_header(&self._chunk, &self._memory.of.window, 0)
        if data == NULL:
            raise ValueError("no dictionary")
        checked(pf_page_header(data, self._chunk.stop, header))
        self._dictionary_body = <size_t>header[PF_HEADER_BYTES]
        if header[PF_TYPE] != 2 or not self.fits(header, self._dictionary_body):
            raise ValueError(f"page type {header[PF_TYPE]} of a dictionary")
        self._after_dictionary = self._dictionary_body + <size_t>header[PF_STORED_BYTES]
        self.load_dictionary()
        return 0

    cdef object other_rows(self):
        return CorruptDataError(
            f"rows of a page of column {self._column_name}", path=self._path,
            offset=self._start + self._given[PAGE_WORDS * self._next],
            expected=f"{self._given[PAGE_WORDS * self._next + 2]} (page index)", found=self._page.n_rows,
        )

    cdef int check_page(self, const int64_t* header, size_t body, Buffer stored) except -1:
        return check_sum(header, stored.data, self._path, self._column_name,
                         self._start + <int64_t>body - header[PF_HEADER_BYTES])

    cdef object decompressed(self, stored, int64_t n_bytes, int64_t part, int64_t parts):
        """The bytes of a page, or about the first `part` of `parts`."""
        if self._decompress_part is not None and 0 <= part < parts:
            found = memoryview(self._decompress_part(stored, n_bytes, n_bytes * part // parts))
            if <int64_t>len(found) <= n_bytes:
                return found
        found = memoryview(self._decompress(stored, n_bytes))
        if <int64_t>len(found) != n_bytes:
            raise ValueError(f"{len(found)} bytes of a page; expected {n_bytes}")
        return found

    cdef int load_entries(self, int64_t first, const int32_t* places, size_t count, size_t done) except -1:
        """Loads the entries of the dictionary that the wanted rows of the page have."""
        cdef int64_t stop = self._first + self._page.n_rows, n, needed, n_values = self._dictionary_header[PF_N_VALUES]
        cdef size_t some
        cdef uint32_t* codes
        cdef uint8_t* entries
        if places == NULL:
            some = <size_t>(min(<int64_t>count, stop - first)) - done
        else:
            some = pf_rows_below(places + done, count - done, stop - first)
        codes = <uint32_t*>malloc((some + 1) * sizeof(uint32_t))
        if codes == NULL:
            raise MemoryError()
        try:
            if places == NULL:
                n = pf_codes_of(&self._column, &self._page, NULL, first + <int64_t>done - self._first, some, codes)
            else:
                n = pf_codes_of(&self._column, &self._page, places + done, first - self._first, some, codes)
            needed = <int64_t>codes[n - 1] + 1 if n > 0 else 0
            checked(-1 if n < 0 or needed > n_values else 0)
            if needed > self._n_part:
                self._dictionary_texts = self.decompressed(
                    self.stored(self._dictionary_body, self._after_dictionary),
                    self._dictionary_header[PF_RAW_BYTES], needed, n_values)
                self._part, self._n_part = buffer_of(self._dictionary_texts), needed
            if needed > <int64_t>self._column.entries.count:  # of the pages of this memory, few are touched
                entries = <uint8_t*>realloc(self._some_entries, <size_t>needed * PF_VIEW_BYTES)
                if entries == NULL:
                    raise MemoryError()
                self._some_entries = entries
                self._column.entries.data, self._column.entries.count = entries, <size_t>needed
            if n > 0:
                checked(pf_some_entries(self._part.data, self._part.size, codes, <size_t>n, self._some_entries))
        finally:
            free(codes)
        return 0

    cdef int load_dictionary(self) except -1:
        """Loads the dictionary; with `_decompress_part`, `load_entries` does."""
        cdef int64_t* header = self._dictionary_header
        cdef int64_t n_values = header[PF_N_VALUES], stored = self._column.stored
        cdef int64_t place[2]
        cdef Buffer values, entries
        cdef uint32_t* numbers
        cdef size_t i
        cdef int status
        place[0] = place[1] = 0
        whole = self.stored(self._dictionary_body, self._after_dictionary)
        self.check_page(header, self._dictionary_body, buffer_of(whole))
        if header[PF_ENCODING] not in (PF_PLAIN, PF_PLAIN_DICTIONARY):
            raise ValueError(f"encoding {header[PF_ENCODING]} of a dictionary")
        if stored == 0 and not self._column.is_text:
            raise ValueError("a dictionary of booleans")
        if self._decompress_part is not None:
            self._some_entries = <uint8_t*>malloc(PF_VIEW_BYTES)
            if self._some_entries == NULL:
                raise MemoryError()
            self._column.entries.data, self._column.entries.count = self._some_entries, 0
            self._column.entries.width, self._column.entries.conversion = PF_VIEW_BYTES, SAME
            return 0
        data = self.decompressed(whole, header[PF_RAW_BYTES], 1, 1)
        values = buffer_of(data)
        if n_values > <int64_t>values.size // (stored if stored else 4):
            raise ValueError(f"{values.size} bytes for {n_values} values of a dictionary")
        self._column.entries.count, self._column.entries.conversion = <size_t>n_values, SAME
        self._column.entries.width = <size_t>self._column.width
        if stored and self._column.conversion != BIG_ENDIAN_TO_INT128:  # the page itself has the entries
            entries = values
            self._column.entries.width, self._column.entries.conversion = <size_t>stored, self._column.conversion
        else:
            cells = bytearray(n_values * (PF_VIEW_BYTES if stored == 0 else self._column.width))
            entries = writable(cells)
            with nogil:
                if stored == 0:
                    status = pf_views(values.data, values.size, <uint32_t>self._first_text, NULL, 0, <size_t>n_values,
                                      place, entries.data)
                else:
                    status = pf_fixed(values.data, values.size, stored, self._column.conversion, NULL, 0,
                                      <size_t>n_values, entries.data)
            checked(status)
        if stored == 0:
            self._dictionary_texts = data
        if self._codes:
            self._views = cells
            entries = writable(bytearray(n_values * sizeof(uint32_t)))
            numbers = <uint32_t*>entries.data
            for i in range(<size_t>n_values):
                numbers[i] = <uint32_t>i
        self._entries, self._column.entries.data = entries, entries.data
        return 0

    cdef int load(self, int64_t last) except -1:
        """Decompresses the page, at least about as far as its row `last`, and decodes which of its rows are null."""
        cdef int64_t* header = self._header
        cdef int64_t n_levels = pf_page_levels(&self._column, header), n_raw
        cdef Buffer levels
        cdef int status
        whole = self.stored(self._body, self._at)
        levels = buffer_of(whole)
        self.check_page(header, self._body, levels)
        if n_levels < 0:
            raise ValueError(
                f"{header[PF_DEFINITION_BYTES]} and {header[PF_REPETITION_BYTES]} bytes of levels,"
                f" {header[PF_N_ROWS]} rows"
            )
        n_raw = header[PF_RAW_BYTES] - n_levels
        data = whole[n_levels:]
        if not pf_is_stored_raw(header):
            part = last + 1 if header[PF_ENCODING] == PF_PLAIN else self._page.n_rows
            data = self.decompressed(data, n_raw, part, self._page.n_rows)
        elif <int64_t>len(data) != n_raw:
            raise ValueError(f"{len(data)} bytes of values; expected {n_raw}")
        self._values = buffer_of(data)
        with nogil:
            status = pf_open_page(&self._column, &self._page, header, levels.data, self._values.data, self._values.size)
        if status < 0:
            raise ValueError(f"levels, number of nulls or encoding ({header[PF_ENCODING]}) not of the expected form")
        if pf_is_delta_text(self._page.encoding):
            data = self.plain_texts()
        self._texts = data[self._page.data - self._values.data:]
        self._is_loaded = True
        return 0

    cdef object plain_texts(self):
        """Decodes the texts of the page to those of a plain one, and returns its bytes."""
        cdef pf_delta_texts texts
        cdef int status
        try:
            with nogil:
                status = pf_open_texts(self._page.data, self._page.size, self._page.n_values,
                                       self._page.encoding == PF_DELTA_BYTE_ARRAY, &texts)
            checked(status)
            plain = bytearray(texts.n_plain)
            self._values = writable(plain)
            with nogil:
                pf_write_texts(&texts, self._values.data)
        finally:
            pf_close_texts(&texts)
        self._page.data, self._page.size, self._page.encoding = self._values.data, self._values.size, PF_PLAIN
        return memoryview(plain)


def level_bits(levels, uint8_t least):
    """A bitmap of the definition levels that are at least `least`; None if all are."""
    cdef Buffer source = buffer_of(levels), bits
    cdef bint are_some
    found = bytearray(b"\xff") * ((source.size + 7) // 8)
    bits = writable(found)
    with nogil:
        are_some = pf_clear_below(source.data, NULL, 0, source.size, least, bits.data, 0)
    return found if are_some else None


def read_chunks(data, chunks, int64_t n_rows, rows, list outs, list levels):
    """Writes rows of column chunks of numbers or booleans, with one release of the interpreter's lock.

    Args:
        data: has the bytes of all of them.
        chunks: as int64, of each where it starts in `data`, its bytes, and, as for `PageDecoder`, `most_bytes`,
            `stored`, `width`, `conversion`, `most_level` and `codec`.
        n_rows: number of rows of each.
        rows: the wanted ones, ascending int32 indexes; None: all.
        outs: for the cells of each. Those of nulls are zero.
        levels: for the definition levels of each, a byte for a row; None: they are not wanted.

    Returns:
        of each a validity bitmap, None if no row of its pages is null, or False if it is left to `PageDecoder`: texts,
        pages of other codecs, and pages that are not as expected.
    """
    cdef Buffer source = buffer_of(data), words = buffer_of(chunks), wanted = None if rows is None else buffer_of(rows)
    cdef const int32_t* places = NULL if rows is None else <const int32_t*>wanted.data
    cdef const int64_t* of = <const int64_t*>words.data
    cdef size_t n = words.size // (8 * CHUNK_WORDS), i
    cdef size_t count = (<size_t>n_rows if n_rows > 0 else 0) if rows is None else wanted.size // 4
    cdef PageDecoder decoder = PageDecoder(b"", None, n_rows=n_rows, most_bytes=0, stored=0, width=1, conversion=SAME,
                                           most_level=0)
    cdef Buffer target
    cdef chunk_cells* cells = <chunk_cells*>calloc(n + 1, sizeof(chunk_cells))
    if cells == NULL:
        raise MemoryError()
    held, found = [], []
    try:
        for i in range(n):
            target = output_of(outs[i], count, <size_t>max(of[i * CHUNK_WORDS + CHUNK_WIDTH], 1))
            held.append(target)
            cells[i].out = target.data
            if levels[i] is not None:
                target = output_of(levels[i], count, 1)
                held.append(target)
                cells[i].levels = target.data
        decoder._memory = free_memory()
        with nogil:
            for i in range(n):
                if is_within(of + i * CHUNK_WORDS, source.size):
                    cells[i].is_read = decoder.read_chunk(
                        source.data + of[i * CHUNK_WORDS + CHUNK_START], of + i * CHUNK_WORDS, places, count, &cells[i])
        for i in range(n):
            if not cells[i].is_read:
                found.append(False)
            elif cells[i].flags == NULL:
                found.append(None)
            else:
                found.append(PyBytes_FromStringAndSize(<const char*>cells[i].flags, <Py_ssize_t>((count + 7) // 8)))
        return found
    finally:
        for i in range(n):
            free(cells[i].flags)
        free(cells)


cdef bint is_within(const int64_t* words, size_t size) noexcept nogil:
    """Whether the bytes of a column chunk of `read_chunks` are among some bytes."""
    cdef int64_t start = words[CHUNK_START], n_bytes = words[CHUNK_BYTES]
    return start >= 0 and n_bytes >= 0 and <uint64_t>start <= size and <uint64_t>n_bytes <= size - <size_t>start


pf_choose_level()
