"""Blocks of a key index: hashes of keys, and entries read; see `blocks.h` for their layout.

A form is the number of bits of a block's number, a slot, a remainder and an ordinal, and the seal of the segment:
(b, t, r, o, seal). Arrays of hashes have 64 bits, those of ordinals and of the entries before each block 32.
"""

from cpython.bytearray cimport PyByteArray_AsString
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free

from puffin_fast._kernels.bytes cimport load32, load64
from puffin_fast._kernels.roaring.frames cimport crc32
from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "key_index/blocks.h" nogil:
    enum:
        PF_KEY_DAMAGED
    ctypedef struct pf_key_hits:
        uint32_t* keys
        uint32_t* ordinals
        size_t n
        size_t space
    ctypedef struct pf_strings:
        const uint8_t* data
        uint64_t data_size
        const uint8_t* offsets
        int wide
    int pf_choose_level()
    void pf_key_mix_words(uint64_t* words, size_t n, int bits)
    void pf_key_unmix_words(uint64_t* words, size_t n, int bits)
    void pf_key_hash_words(uint64_t* words, size_t n)
    void pf_key_join(uint64_t* hashes, const uint8_t* more, size_t n)
    int pf_key_hash_strings(const pf_strings* source, size_t n, uint64_t* out)
    int pf_key_find(const pf_key_form* form, const uint8_t* block, size_t size, uint64_t n, uint64_t rest,
                    uint32_t key, uint64_t n_rows, pf_key_hits* hits)

cdef enum:
    SUM_BYTES = 4
    MAX_BLOCK_BITS = 30
    MAX_SLOT_BITS = 16


cdef pf_key_form form_of(object given) except *:
    cdef pf_key_form form
    form.b, form.t, form.r, form.o, form.seal = given
    if not (0 <= form.b <= MAX_BLOCK_BITS and 0 <= form.t <= MAX_SLOT_BITS and 0 <= form.r <= 64 and 0 <= form.o <= 32
            and form.b + form.t + form.r <= 64):
        raise ValueError(f"form: expected bits of a block, a slot, a remainder and an ordinal, found {given}")
    return form


cdef uint64_t* words_of(Buffer target) except NULL:
    if target.size % 8 or <size_t>target.data % 8:
        raise ValueError(f"words: expected aligned words of 8 bytes, found {target.size} bytes")
    return <uint64_t*>target.data


def mix(words, int bits):
    """Replaces integers by those that a bijection of the words of `bits` bits maps them to."""
    cdef Buffer target = writable(words)
    cdef uint64_t* at = words_of(target)
    if not 1 <= bits <= 64:
        raise ValueError(f"bits: expected 1 to 64, found {bits}")
    with nogil:
        pf_key_mix_words(at, target.size // 8, bits)


def unmix(words, int bits):
    """Undoes `mix`: replaces words by the integers, with their signs."""
    cdef Buffer target = writable(words)
    cdef uint64_t* at = words_of(target)
    if not 1 <= bits <= 64:
        raise ValueError(f"bits: expected 1 to 64, found {bits}")
    with nogil:
        pf_key_unmix_words(at, target.size // 8, bits)


def hash_words(words):
    """Replaces words by their hashes."""
    cdef Buffer target = writable(words)
    cdef uint64_t* at = words_of(target)
    with nogil:
        pf_key_hash_words(at, target.size // 8)


def join(hashes, more):
    """Replaces the hashes of rows by those of the rows with another column, whose hashes are `more`."""
    cdef Buffer target = writable(hashes), source = buffer_of(more)
    cdef uint64_t* at = words_of(target)
    if source.size != target.size:
        raise ValueError(f"more: expected {target.size} bytes, found {source.size}")
    with nogil:
        pf_key_join(at, source.data, target.size // 8)


def hash_strings(data, offsets, size_t first, out):
    """Writes the hashes of byte strings. Returns False when an offset is outside of the data.

    Args:
        data: a contiguous buffer.
        offsets: of 8 bytes.
        first: the index of the first offset.
        out: words for the hashes, one for each string.
    """
    cdef Buffer values = buffer_of(data), bounds = buffer_of(offsets), target = writable(out)
    cdef uint64_t* at = words_of(target)
    cdef size_t n = target.size // 8
    cdef pf_strings source
    cdef int status
    if first > bounds.size // 8 or n + 1 > bounds.size // 8 - first:
        raise ValueError(f"offsets: expected {n + 1} from {first} on, found {bounds.size} bytes")
    source.data, source.data_size = values.data, values.size
    source.offsets, source.wide = bounds.data + 8 * first, 1
    with nogil:
        status = pf_key_hash_strings(&source, n, at)
    return status == 0


def block_starts(before, size_t first, form):
    """Where blocks begin, from the beginning of the first block of the index on.

    Args:
        before: the number of entries before blocks, of 4 bytes.
        first: the number of the first of these blocks.
        form: (b, t, r, o, seal).

    Returns:
        Words of 8 bytes.
    """
    cdef pf_key_form bits = form_of(form)
    cdef Buffer source = buffer_of(before)
    cdef size_t n = source.size // 4, i
    cdef bytearray out = bytearray(8 * n)
    cdef uint64_t* starts = <uint64_t*>PyByteArray_AsString(out)
    for i in range(n):
        starts[i] = pf_key_start(&bits, first + i, load32(source.data + 4 * i))
    return out


cdef int check_block(const pf_key_form* form, const uint8_t* data, size_t n_bytes, uint64_t base, const uint8_t* before,
                     size_t number, const uint8_t** block, size_t* size, size_t* n) noexcept nogil:
    """Finds a block in bytes that begin at `base`, and compares its checksum."""
    cdef uint64_t first = load32(before + 4 * number), last = load32(before + 4 * number + 4), start, stop
    cdef uint32_t total = 0
    if last < first:
        return PF_KEY_DAMAGED
    start, stop = pf_key_start(form, number, first), pf_key_start(form, number + 1, last)
    if start < base or stop - base > n_bytes:
        return PF_KEY_DAMAGED
    block[0], size[0], n[0] = data + (start - base), stop - start, last - first
    if not crc32(block[0] + SUM_BYTES, size[0] - SUM_BYTES, &total):
        return PF_KEY_DAMAGED
    return 0 if total ^ pf_key_seed(form, number, n[0]) == load32(block[0]) else PF_KEY_DAMAGED


def find(data, uint64_t base, before, hashes, form, uint64_t n_rows):
    """Finds the entries of hashes.

    Args:
        data: bytes of blocks.
        base: where they begin, from the beginning of the first block of the index on.
        before: the number of entries before each block of the index and after the last, of 4 bytes.
        hashes: words of b + t + r bits, ascending; their blocks are in `data`.
        form: (b, t, r, o, seal).
        n_rows: ordinals are below.

    Returns:
        The number of a block that is damaged, or -1; and for each entry the index of its hash, and its ordinal, of 4
        bytes each.
    """
    cdef pf_key_form bits = form_of(form)
    cdef Buffer source = buffer_of(data), directory = buffer_of(before), wanted = buffer_of(hashes)
    cdef size_t n_blocks = <size_t>1 << bits.b, n = wanted.size // 8, i, number, current = n_blocks
    cdef size_t size = 0, count = 0
    cdef const uint8_t* block = NULL
    cdef int shift = bits.t + bits.r, status = 0
    cdef uint64_t hash, mask = (<uint64_t>1 << shift) - 1 if shift < 64 else ~<uint64_t>0
    cdef pf_key_hits hits
    cdef Py_ssize_t wrong = -1
    if directory.size != 4 * (n_blocks + 1) or wanted.size % 8 or n > 0xFFFFFFFF:
        raise ValueError(f"before: expected {n_blocks + 1} numbers, found {directory.size} bytes")
    hits.keys, hits.ordinals, hits.n, hits.space = NULL, NULL, 0, 0
    try:
        with nogil:
            for i in range(n):
                hash = load64(wanted.data + 8 * i)
                number = pf_key_block(hash, shift)
                if number >= n_blocks:
                    status = PF_KEY_DAMAGED
                elif number != current:
                    status = check_block(&bits, source.data, source.size, base, directory.data, number, &block, &size,
                                         &count)
                    current = number
                if status == 0:
                    status = pf_key_find(&bits, block, size, count, hash & mask, i, n_rows, &hits)
                if status != 0:
                    wrong = number
                    break
        if status != 0 and status != PF_KEY_DAMAGED:
            raise MemoryError("entries of a key index")
        keys = PyBytes_FromStringAndSize(<const char*>hits.keys, 4 * hits.n)
        return wrong, keys, PyBytes_FromStringAndSize(<const char*>hits.ordinals, 4 * hits.n)
    finally:
        free(hits.keys)
        free(hits.ordinals)


def check(data, uint64_t base, before, size_t first, size_t last, form):
    """Compares the checksums of consecutive blocks.

    Args:
        data, base, before, form: as `find`.
        first, last: the number of the first block, and that of the block after the last.

    Returns:
        The number of a block that is damaged, or -1.
    """
    cdef pf_key_form bits = form_of(form)
    cdef Buffer source = buffer_of(data), directory = buffer_of(before)
    cdef size_t n_blocks = <size_t>1 << bits.b, number, size = 0, count = 0
    cdef const uint8_t* block = NULL
    cdef Py_ssize_t wrong = -1
    if directory.size != 4 * (n_blocks + 1) or last > n_blocks:
        raise ValueError(f"before: expected {n_blocks + 1} numbers, found {directory.size} bytes")
    with nogil:
        for number in range(first, last):
            if check_block(&bits, source.data, source.size, base, directory.data, number, &block, &size,
                           &count) != 0:
                wrong = number
                break
    return wrong


def unpack(data, uint64_t base, before, size_t first, size_t last, form, uint64_t n_rows, hashes, ordinals):
    """Writes the entries of consecutive blocks, in the order of their hashes.

    Args:
        data, base, before, form, n_rows: as `find`.
        first, last: as `check`.
        hashes: words of 8 bytes, one for each entry and one more.
        ordinals: words of 4 bytes, one for each entry.

    Returns:
        The number of a block that is damaged, or -1.
    """
    cdef pf_key_form bits = form_of(form)
    cdef Buffer source = buffer_of(data), directory = buffer_of(before)
    cdef Buffer words = writable(hashes), rows = writable(ordinals)
    cdef size_t n_blocks = <size_t>1 << bits.b, number, size = 0, count = 0, at = 0
    cdef uint64_t* to = words_of(words)
    cdef const uint8_t* block = NULL
    cdef int status = 0
    cdef Py_ssize_t wrong = -1
    if directory.size != 4 * (n_blocks + 1) or last > n_blocks or <size_t>rows.data % 4:
        raise ValueError(f"before: expected {n_blocks + 1} numbers, found {directory.size} bytes")
    with nogil:
        for number in range(first, last):
            status = check_block(&bits, source.data, source.size, base, directory.data, number, &block, &size,
                                 &count)
            if status == 0 and (at + count >= words.size // 8 or at + count > rows.size // 4):
                status = PF_KEY_DAMAGED
            if status == 0:
                status = pf_key_unpack(&bits, block, size, count, number, n_rows, to + at,
                                       <uint32_t*>rows.data + at)
            if status != 0:
                wrong = number
                break
            at += count
    return wrong


pf_choose_level()
