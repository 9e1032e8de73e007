"""Bloom filters of Parquet column chunks: hashes of values, and which of them a filter has.

Sources: Parquet format specification, "Bloom Filter"; xxHash fast digest algorithm, "XXH64".
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from puffin_fast._kernels.bytes cimport load32
from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "bloom.h" nogil:
    enum:
        PF_BLOCK_BYTES
    uint64_t pf_xxh64(const uint8_t* data, size_t size)
    uint64_t pf_bloom_block(uint64_t hash, uint64_t n_blocks)
    int pf_bloom_has(const uint8_t* block, uint64_t hash)
    int64_t pf_bloom_header(const uint8_t* data, size_t size, int64_t* n_bytes)

BLOCK_BYTES = PF_BLOCK_BYTES


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
