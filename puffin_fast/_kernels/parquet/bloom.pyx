"""Bloom filters of Parquet column chunks: hashes of values, which of them a filter has, and which files have none.

Sources: Parquet format specification, "Bloom Filter"; xxHash fast digest algorithm, "XXH64".
"""

import os

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free

from puffin_fast._kernels.bytes cimport load32
from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "bloom.h" nogil:
    enum:
        PF_BLOCK_BYTES
    uint64_t pf_xxh64(const uint8_t* data, size_t size)
    uint64_t pf_bloom_block(uint64_t hash, uint64_t n_blocks)
    int pf_bloom_has(const uint8_t* block, uint64_t hash)
    int64_t pf_bloom_header(const uint8_t* data, size_t size, int64_t* n_bytes)

cdef extern from "footer.h" nogil:
    enum:
        PF_LEAF_WORDS
        PF_CHUNK_WORDS
        PF_CHUNK_BYTES
    ctypedef struct pf_groups:
        int64_t* at

cdef extern from "bloom_file.h" nogil:
    enum:
        PF_NOWHERE
        PF_ASKED
        PF_ANYWHERE
    ctypedef struct pf_wanted:
        size_t leaf
        size_t width
        const uint64_t* hashes
        const uint8_t* kinds
    ctypedef struct pf_wanted_rows:
        const pf_wanted* columns
        size_t n_columns
        size_t n_rows
        double least_bits
    ctypedef struct pf_question:
        const uint8_t* before
        const uint8_t* after
        size_t n_before
        size_t n_after
        size_t n_leaves
        size_t most_rows
        const int32_t* leaves
        const pf_wanted_rows* wanted
        size_t n_wanted
    int64_t pf_ask_file(const char* path, const pf_question* asked, int64_t n_rows, pf_groups* groups)

BLOCK_BYTES = PF_BLOCK_BYTES
NOWHERE, ASKED, ANYWHERE = PF_NOWHERE, PF_ASKED, PF_ANYWHERE


def header(data):
    """Reads the header of a filter.

    Returns:
        The numbers of bytes of the header and of the blocks; None if it is a filter of another kind, or not a header.
    """
    cdef Buffer source = buffer_of(data)
    cdef int64_t n_bytes = 0
    cdef int64_t size = pf_bloom_header(source.data, source.size, &n_bytes)
    return None if size < 0 else (size, n_bytes)


cdef Buffer hashes_in(object out, size_t count):
    cdef Buffer found = writable(out)
    if found.size // 8 < count:
        raise ValueError(f"room for {found.size // 8} hashes; expected {count}")
    return found


def hash_fixed(values, size_t width, out):
    """Writes the hashes, uint64, of values of equal width."""
    cdef Buffer source = buffer_of(values)
    cdef size_t count = source.size // width if width else 0, i
    cdef Buffer target = hashes_in(out, count)
    with nogil:
        for i in range(count):
            (<uint64_t*>target.data)[i] = pf_xxh64(source.data + i * width, width)


def hash_texts(offsets, values, out):
    """Writes the hashes, uint64, of byte strings.

    Args:
        offsets: where each starts in `values`, and where the last one ends; int64.
        values: their bytes.
        out: for the hashes.
    """
    cdef Buffer ends = buffer_of(offsets), source = buffer_of(values)
    cdef const int64_t* at = <const int64_t*>ends.data
    cdef size_t count = ends.size // 8 - 1 if ends.size >= 8 else 0, i
    cdef Buffer target = hashes_in(out, count)
    for i in range(count):
        if not 0 <= at[i] <= at[i + 1] <= <int64_t>source.size:
            raise ValueError(f"offsets {at[i]} and {at[i + 1]} of {source.size} bytes")
    with nogil:
        for i in range(count):
            (<uint64_t*>target.data)[i] = pf_xxh64(source.data + at[i], <size_t>(at[i + 1] - at[i]))


def hash_plain(page, out):
    """Writes the hashes, uint64, of the byte strings of a page, each of which stands after its length.

    Returns:
        whether the page has exactly as many as there is room for.
    """
    cdef Buffer source = buffer_of(page), target = writable(out)
    cdef size_t count = target.size // 8, at = 0, i = 0, size
    with nogil:
        while i < count and source.size - at >= 4:
            size = load32(source.data + at)
            at += 4
            if size > source.size - at:
                break
            (<uint64_t*>target.data)[i] = pf_xxh64(source.data + at, size)
            at += size
            i += 1
    return i == count and at == source.size


def blocks_of(hashes, uint64_t n_blocks, out):
    """Writes the number of the block, int64, that each hash belongs to."""
    cdef Buffer source = buffer_of(hashes)
    cdef size_t count = source.size // 8, i
    cdef Buffer target = hashes_in(out, count)
    with nogil:
        for i in range(count):
            (<uint64_t*>target.data)[i] = pf_bloom_block((<const uint64_t*>source.data)[i], n_blocks)


def contains(blocks, hashes, out, *, bint is_whole):
    """Writes whether a filter has the bits of hashes: one byte, 0 or 1, for each.

    Args:
        blocks: all of the filter; or, if `is_whole` is false, one for each hash.
        hashes: uint64.
        out: for the answers.
    """
    cdef Buffer source = buffer_of(blocks), wanted = buffer_of(hashes), target = writable(out)
    cdef size_t count = wanted.size // 8, n_blocks = source.size // PF_BLOCK_BYTES, i, block
    cdef uint64_t hash
    if target.size < count or (n_blocks == 0 if is_whole else n_blocks < count):
        raise ValueError(f"{n_blocks} blocks and {target.size} answers for {count} hashes")
    with nogil:
        for i in range(count):
            hash = (<const uint64_t*>wanted.data)[i]
            block = pf_bloom_block(hash, n_blocks) if is_whole else i
            target.data[i] = <uint8_t>pf_bloom_has(source.data + block * PF_BLOCK_BYTES, hash)


cdef class FileQuestion:
    """Asks local files of one layout whether they may have wanted rows. Safe to use from several threads.

    Args:
        before, after: the bytes of their footers before and after the number of rows and the row groups.
        leaves: as for `footers.read_groups`.
        wanted: of each set of rows the number of rows, the least bits of a filter for each row of a row group, and the
            columns: of each the number of the leaf, the bytes of a stored value (0 if these vary), the hashes, uint64,
            and as a byte for each row `ASKED`, `NOWHERE` (no filter is asked: the value is not there) or `ANYWHERE`.
            A row group of which the filters show that it has none of the rows of one set has no match.
    """

    cdef pf_question question
    cdef pf_wanted_rows* rows
    cdef pf_wanted* columns
    cdef list held

    def __cinit__(self, bytes before, bytes after, leaves, wanted):
        cdef Buffer data, hashes, kinds
        cdef size_t n_columns = sum([len(columns) for _, _, columns in wanted]), at = 0, n
        cdef pf_question* question = &self.question
        self.held = [before, after]
        self.rows = <pf_wanted_rows*>calloc(len(wanted) + 1, sizeof(pf_wanted_rows))
        self.columns = <pf_wanted*>calloc(n_columns + 1, sizeof(pf_wanted))
        if self.rows == NULL or self.columns == NULL:
            raise MemoryError()
        data = buffer_of(before)
        question.before, question.n_before = data.data, data.size
        self.held.append(data)
        data = buffer_of(after)
        question.after, question.n_after = data.data, data.size
        self.held.append(data)
        data = buffer_of(leaves)
        question.leaves, question.n_leaves = <const int32_t*>data.data, data.size // (4 * PF_LEAF_WORDS)
        self.held.append(data)
        question.wanted, question.n_wanted = self.rows, len(wanted)
        for number, (n_rows, least_bits, columns) in enumerate(wanted):
            n = n_rows
            question.most_rows = max(question.most_rows, n)
            self.rows[<size_t>number] = pf_wanted_rows(self.columns + at, len(columns), n, least_bits)
            for leaf, width, some, kind in columns:
                hashes, kinds = buffer_of(some), buffer_of(kind)
                if hashes.size != 8 * n or kinds.size != n or not 0 <= leaf < question.n_leaves:
                    raise ValueError(f"leaf {leaf}: {hashes.size} bytes of hashes for {n} rows")
                self.columns[at] = pf_wanted(leaf, width, <const uint64_t*>hashes.data, kinds.data)
                self.held += (hashes, kinds)
                at += 1

    def __dealloc__(self):
        free(self.rows)
        free(self.columns)

    def excludes(self, path, int64_t n_rows):
        """Asks a file.

        Args:
            path: its path in the file system.
            n_rows: its number of rows.

        Returns:
            The number of rows and the bytes of the column chunks of each row group, if none of them has a match; None
            if one may have, or if the file cannot be read, has another layout or number of rows, or has anything else
            that was not expected.
        """
        cdef bytes name = os.fsencode(path)
        cdef const char* start = name
        cdef pf_groups groups
        cdef int64_t n
        cdef size_t row = 1 + self.question.n_leaves * PF_CHUNK_WORDS
        with nogil:
            n = pf_ask_file(start, &self.question, n_rows, &groups)
        cdef int64_t at, n_bytes
        cdef size_t leaf
        found = []
        for at in range(n):
            n_bytes = 0
            for leaf in range(self.question.n_leaves):
                n_bytes += groups.at[row * <size_t>at + 1 + leaf * PF_CHUNK_WORDS + PF_CHUNK_BYTES]
            found.append((groups.at[row * <size_t>at], n_bytes))
        free(groups.at)
        return tuple(found) or None
