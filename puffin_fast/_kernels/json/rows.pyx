"""Lines of JSON objects as columns of integers and texts.

Source: RFC 8259.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "rows.h" nogil:
    enum:
        PF_JSON_OBJECT
        PF_JSON_INTEGER
        PF_JSON_TEXT
        PF_JSON_ESCAPED
    ctypedef struct pf_json_node:
        int32_t kind, first, n_children, name, name_size, column
    ctypedef struct pf_json_target:
        const uint8_t* data
        const pf_json_node* nodes
        const uint8_t* names
        size_t capacity, row
        uint8_t* valid
        int64_t* integers
        uint32_t* starts
        uint32_t* sizes
        int64_t* seen
    int64_t pf_json_rows(size_t size, pf_json_target* to, size_t* n_bytes)
    size_t pf_json_copy(const uint8_t* data, const uint32_t* starts, const uint32_t* sizes, size_t n,
                        int32_t* offsets, uint8_t* out)

OBJECT, INTEGER, TEXT = PF_JSON_OBJECT, PF_JSON_INTEGER, PF_JSON_TEXT
SIZE_BITS = 0x7FFFFFFF
"""The bits of the size of a text that are its size in the line."""


cdef int fits(Buffer buffer, size_t n_bytes) except -1:
    if buffer.size < n_bytes:
        raise ValueError(f"{buffer.size} bytes; expected {n_bytes}")
    return 0


def rows_into(data, size_t start, size_t capacity, nodes, names, valid, integers, starts, sizes):
    """Reads the values of lines into columns of `capacity` rows, up to this number of lines.

    Args:
        data: lines of JSON; the last byte is a line feed. Less than 2 GiB.
        start: where the first line begins.
        capacity: rows of each column.
        nodes: kind, first child, number of children, first byte and size of the name, and column of each node, as int32.
            The first one is the object of a line. Children follow their parent.
        names: the names of the nodes.
        valid: uint8, zeros: for each node, which rows have a value. Set to 1.
        integers: int64: for each node of the kind `INTEGER`, its values.
        starts, sizes: uint32, zeros: for each node of the kind `TEXT`, where its values are, from `start` on.

    Returns:
        The number of lines and the place after them; None if a line is not an object of these types, or of a rare form.
    """
    cdef Buffer source = buffer_of(data), tree = buffer_of(nodes), words = buffer_of(names)
    cdef Buffer flags = writable(valid), numbers = writable(integers)
    cdef Buffer firsts = writable(starts), lengths = writable(sizes)
    cdef size_t n_nodes = tree.size // sizeof(pf_json_node), n_bytes = 0, n_integers = 0, n_texts = 0, i
    cdef const pf_json_node* node = <const pf_json_node*> tree.data
    cdef pf_json_target target
    cdef int64_t n_rows
    cdef bytearray seen = bytearray(8 * n_nodes)
    cdef Buffer last = writable(seen)
    for i in range(n_nodes):
        n_integers += node[i].kind == PF_JSON_INTEGER
        n_texts += node[i].kind == PF_JSON_TEXT
        if (node[i].first < 0 or node[i].n_children < 0 or node[i].name < 0 or node[i].name_size < 0
                or <size_t> node[i].first + node[i].n_children > n_nodes
                or <size_t> node[i].name + node[i].name_size > words.size
                or (node[i].n_children and <size_t> node[i].first <= i)):
            raise ValueError(f"node {i}: its children or its name are out of range")
        if node[i].kind != PF_JSON_OBJECT and not (
            0 <= node[i].column < <int64_t> (n_integers if node[i].kind == PF_JSON_INTEGER else n_texts)
        ):
            raise ValueError(f"node {i}: column {node[i].column}")
    if n_nodes == 0 or node[0].kind != PF_JSON_OBJECT:
        raise ValueError("expected an object as the first node")
    if start >= source.size or source.size > SIZE_BITS or source.data[source.size - 1] != 10:
        raise ValueError("expected lines that end with a line feed, of less than 2 GiB")
    fits(flags, n_nodes * capacity)
    fits(numbers, 8 * n_integers * capacity)
    fits(firsts, 4 * n_texts * capacity)
    fits(lengths, 4 * n_texts * capacity)
    target.data, target.nodes, target.names = source.data + start, node, words.data
    target.capacity, target.row, target.valid = capacity, 0, flags.data
    target.integers, target.seen = <int64_t*> numbers.data, <int64_t*> last.data
    target.starts, target.sizes = <uint32_t*> firsts.data, <uint32_t*> lengths.data
    with nogil:
        n_rows = pf_json_rows(source.size - start, &target, &n_bytes)
    return None if n_rows < 0 else (n_rows, start + n_bytes)


def copy_texts(data, size_t start, starts, sizes, size_t n, offsets, out):
    """Copies texts that `rows_into` found, one after the other, without escapes.

    Args:
        data, start: as for `rows_into`.
        starts, sizes: of one node.
        n: number of texts.
        offsets: int32, for `n` + 1 offsets in `out`.
        out: has a byte for each byte of the sizes.

    Returns:
        The number of bytes that are used.
    """
    cdef Buffer source = buffer_of(data), firsts = buffer_of(starts), lengths = buffer_of(sizes)
    cdef Buffer places = writable(offsets), target = writable(out)
    cdef const uint32_t* first = <const uint32_t*> firsts.data
    cdef const uint32_t* length = <const uint32_t*> lengths.data
    cdef size_t total = 0, size, i
    fits(firsts, 4 * n)
    fits(lengths, 4 * n)
    fits(places, 4 * (n + 1))
    for i in range(n):
        size = length[i] & ~<uint32_t> PF_JSON_ESCAPED
        if start + first[i] + size > source.size:
            raise ValueError(f"text {i}: out of range")
        total += size
    fits(target, total)
    with nogil:
        size = pf_json_copy(source.data + start, first, length, n, <int32_t*> places.data, target.data)
    return size
