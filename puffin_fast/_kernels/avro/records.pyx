"""Records of Avro blocks: gathered with a part of their fields, and decoded by column.

A program of int64 words describes a record. Each operation is followed by its operands:

    BOOLEAN | LONG | FLOAT | DOUBLE | BYTES | STRING | FIXED size | OPTIONAL index-of-null n-words words… |
    ARRAY n-words words… | MAP n-words words… (an array of a key and a value)

A column is decoded from the offsets of its values, which `locate` finds. Their program is that of one field.
Source: Avro specification, "Binary Encoding".
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from libc.string cimport memcmp, memcpy, memset

from puffin_fast._kernels.bytes cimport load64
from puffin_fast._kernels.avro.reading cimport Reader, is_utf8, pass_long, pass_over, take_count, take_long
from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char* data, Py_ssize_t size, const char* errors)
    object PyBytes_FromStringAndSize(const char* data, Py_ssize_t size)
    char* PyByteArray_AsString(object array)
    int PyByteArray_Resize(object array, Py_ssize_t size) except -1

cdef enum Operation:
    OP_BOOLEAN = 0
    OP_LONG = 1
    OP_FLOAT = 2
    OP_DOUBLE = 3
    OP_BYTES = 4
    OP_STRING = 5
    OP_FIXED = 6
    OP_OPTIONAL = 7
    OP_ARRAY = 8
    OP_MAP = 9

cdef enum:
    MAX_DEPTH = 64              # of arrays and options within each other
    MOST_CHANGES = 8            # of a segment's bytes, then segments are found again
    MOST_TEXTS = 8              # distinct texts of a field that are numbered
    MOST_TEXT_BYTES = 32        # of each of them

cdef enum Role:
    AS_PLACE = 1
    AS_INTEGER = 2
    AS_TEXT = 3
    AS_NUMBER = 4

BOOLEAN, LONG, FLOAT, DOUBLE, BYTES, STRING, FIXED, OPTIONAL, ARRAY, MAP = range(10)
PLACE, INTEGER, TEXT, NUMBER = AS_PLACE, AS_INTEGER, AS_TEXT, AS_NUMBER


cdef inline bint take_branch(Reader* reader, int64_t* branch) noexcept nogil:
    """The branch of a union of two types."""
    if reader.at != reader.stop and (reader.at[0] == 0 or reader.at[0] == 2):
        branch[0] = reader.at[0] >> 1
        reader.at += 1
        return True
    return take_long(reader, branch) and 0 <= branch[0] <= 1


cdef inline bint pass_pairs(Reader* reader, int64_t count, bint are_bytes) noexcept nogil:
    """Passes over pairs of a long and a long, or of a long and bytes."""
    cdef int64_t value
    while count > 0:
        if not pass_long(reader):
            return False
        if not are_bytes:
            if not pass_long(reader):
                return False
        elif not take_long(reader, &value) or not pass_over(reader, value):
            return False
        count -= 1
    return True


cdef inline bint pass_longs(Reader* reader, int64_t count) noexcept nogil:
    while count > 0:
        if not pass_long(reader):
            return False
        count -= 1
    return True


cdef bint pass_items(const int64_t* program, size_t n_words, Reader* reader, int depth) noexcept nogil:
    """Passes over the items of an array, whose program is given."""
    cdef int64_t count
    cdef bint are_longs = n_words == 1 and program[0] == OP_LONG
    cdef bint are_pairs = n_words == 2 and program[0] == OP_LONG and (program[1] == OP_LONG or program[1] == OP_BYTES)
    while True:
        if not take_count(reader, &count):
            return False
        if count == 0:
            return True
        if are_pairs:
            if not pass_pairs(reader, count, program[1] == OP_BYTES):
                return False
            continue
        if are_longs:
            if not pass_longs(reader, count):
                return False
            continue
        while count > 0:
            if not walk(program, n_words, reader, depth + 1):
                return False
            count -= 1


cdef bint walk(const int64_t* program, size_t n_words, Reader* given, int depth) noexcept nogil:
    """Passes over one record; False when its bytes do not fit the program."""
    cdef const int64_t* end = program + n_words
    cdef Reader reader = given[0]       # in registers
    cdef int64_t value
    if depth > MAX_DEPTH:
        return False
    while program < end:
        if program[0] == OP_OPTIONAL:
            if not take_branch(&reader, &value):
                return False
            program += 3 + (program[2] if value == program[1] else 0)
        elif program[0] == OP_LONG:
            if not pass_long(&reader):
                return False
            program += 1
        elif program[0] == OP_BYTES:
            if not take_long(&reader, &value) or not pass_over(&reader, value):
                return False
            program += 1
        elif program[0] == OP_STRING:
            if not take_long(&reader, &value) or not pass_over(&reader, value):
                return False
            if not is_utf8(reader.at - value, reader.at):
                return False
            program += 1
        elif program[0] == OP_BOOLEAN:
            if reader.at == reader.stop or reader.at[0] > 1:
                return False
            reader.at += 1
            program += 1
        elif program[0] == OP_FLOAT or program[0] == OP_DOUBLE:
            if not pass_over(&reader, 4 if program[0] == OP_FLOAT else 8):
                return False
            program += 1
        elif program[0] == OP_FIXED:
            if not pass_over(&reader, program[1]):
                return False
            program += 2
        else:
            given[0] = reader
            if not pass_items(program + 2, <size_t>program[1], given, depth):
                return False
            reader = given[0]
            program += 2 + program[1]
    given[0] = reader
    return True


cdef bint is_program(const int64_t* program, size_t n_words, int depth) noexcept nogil:
    """Whether the words are operations with their operands; items of arrays take a word or more."""
    cdef size_t at = 0, inner, head
    if depth > MAX_DEPTH:
        return False
    while at < n_words:
        if 0 <= program[at] <= OP_STRING:
            at += 1
            continue
        head = 3 if program[at] == OP_OPTIONAL else 2
        if not OP_FIXED <= program[at] <= OP_MAP or at + head > n_words or program[at + head - 1] < 0:
            return False
        if program[at] != OP_FIXED:
            inner = <size_t>program[at + head - 1]
            if inner == 0 or inner > n_words - at - head or not is_program(program + at + head, inner, depth + 1):
                return False
            head += inner
        elif program[at + 1] == 0:
            return False
        at += head
    return True


cdef bint are_fields(Buffer words, Buffer sizes):
    """Whether the fields of a program have the stated numbers of words."""
    cdef size_t n_words = words.size // 8, total = 0, i
    cdef const int64_t* first = <const int64_t*>words.data
    cdef const int64_t* of_field = <const int64_t*>sizes.data
    cdef int64_t size
    for i in range(sizes.size // 8):
        size = of_field[i] if of_field[i] > 0 else -of_field[i]
        if not 0 < size <= <int64_t>(n_words - total) or not is_program(first + total, <size_t>size, 0):
            return False
        total += <size_t>size
    return total == n_words and total > 0


cdef size_t words_of(const int64_t* program) noexcept nogil:
    """The number of words of the first operation of a program."""
    if program[0] <= OP_STRING:
        return 1
    if program[0] == OP_FIXED:
        return 2
    return <size_t>(program[1] + 2 if program[0] != OP_OPTIONAL else program[2] + 3)


cdef struct Numbered:
    # Distinct texts of a field, by their numbers.
    size_t n                    # more than `MOST_TEXTS`: they are not numbered
    uint8_t sizes[MOST_TEXTS]
    uint8_t texts[MOST_TEXTS][MOST_TEXT_BYTES]


cdef struct Step:
    # One operation of a record's program, how it is passed over, and what is kept of the value.
    const int64_t* program
    size_t n_words
    int kind                    # `Operation` of the value, without its option
    int null_branch             # -1: the value is not optional
    int role
    bint starts_gap             # its bytes are not copied, those before it are
    bint ends_gap               # its bytes are not copied, those after it are
    bint is_copied
    int64_t* slot
    uint8_t* valid
    int64_t offset              # AS_PLACE, AS_TEXT: of the value's bytes in its segment, in the record before
    bint varies                 # AS_INTEGER, AS_NUMBER: not all integers are the same
    int64_t last                # the integer of the record before
    uint8_t is_valid            # whether it is one
    size_t n_filled             # integers in `slot`; the others before the next record's are `last`
    Numbered* texts             # AS_NUMBER


cdef void set_program(Step* step, const int64_t* program, size_t n_words) noexcept nogil:
    """Sets how an operation is passed over."""
    step.program, step.n_words, step.null_branch = program, n_words, -1
    if program[0] == OP_OPTIONAL and 0 <= program[1] <= 1 and words_of(program + 3) == <size_t>program[2]:
        step.null_branch = <int>program[1]
        step.program, step.n_words = program + 3, n_words - 3
    step.kind = <int>step.program[0]


cdef inline bint has_role(const int64_t* program, size_t n_words, int role) noexcept nogil:
    """Whether a field can have a role: if it is one operation, and of a type that fits."""
    cdef Step step
    if role == 0:
        return True
    set_program(&step, program, n_words)
    if n_words != words_of(program) or step.n_words != words_of(step.program):
        return False
    if role == AS_INTEGER:
        return step.kind == OP_LONG
    return role == AS_PLACE or step.kind == OP_STRING or step.kind == OP_BYTES


def split(data, sync, start=0):
    """Finds the blocks of a file.

        count: long | size: long | size bytes | sync marker: 16 bytes

    Args:
        data: the bytes of the file after its header.
        sync: the sync marker.
        start: the offset in `data` of the first block.

    Returns:
        for each block its offset, its number of records, and where its bytes begin and end; and the offset of the
        first block that does not have this form, or the end of `data`.
    """
    cdef Buffer block = buffer_of(data), marker = buffer_of(sync)
    cdef Reader reader
    cdef size_t at = start
    cdef int64_t count, size
    cdef size_t begin
    found = []
    if at > block.size or marker.size == 0:
        raise ValueError("expected an offset in the bytes, and a sync marker")
    reader.at, reader.stop = block.data + at, block.data + block.size
    while reader.at != reader.stop:
        if not take_long(&reader, &count) or not take_long(&reader, &size) or count < 0:
            break
        begin = reader.at - block.data
        if not pass_over(&reader, size) or <size_t>(reader.stop - reader.at) < marker.size:
            break
        if memcmp(reader.at, marker.data, marker.size) != 0:
            break
        found.append((at, count, begin, reader.at - block.data))
        reader.at += marker.size
        at = reader.at - block.data
    return found, at


cdef inline void fill_up(Step* step, size_t row) noexcept nogil:
    """Writes the integers of the records before one."""
    while step.n_filled < row:
        step.slot[step.n_filled], step.valid[step.n_filled] = step.last, step.is_valid
        step.n_filled += 1


cdef inline void put_integer(Step* step, size_t row, int64_t value, uint8_t is_valid) noexcept nogil:
    """Keeps an integer. It is written when another one follows."""
    if row:
        if value == step.last and is_valid == step.is_valid:
            return
        step.varies = True
        fill_up(step, row)
    step.last, step.is_valid = value, is_valid


cdef inline bint is_text(Numbered* known, size_t number, const uint8_t* text, int64_t n_bytes) noexcept nogil:
    return known.sizes[number] == n_bytes and memcmp(known.texts[number], text, <size_t>n_bytes) == 0


cdef inline void put_number(Step* step, size_t row, const uint8_t* text, int64_t n_bytes) noexcept nogil:
    """Keeps the number of a text."""
    cdef Numbered* known = step.texts
    cdef size_t number = <size_t>step.last
    if known.n > MOST_TEXTS:
        return
    if row == 0 or not is_text(known, number, text, n_bytes):
        number = 0
        while number < known.n and not is_text(known, number, text, n_bytes):
            number += 1
        if number == known.n:
            if number >= MOST_TEXTS or not 0 <= n_bytes <= MOST_TEXT_BYTES:
                known.n = MOST_TEXTS + 1
                return
            known.n += 1
            known.sizes[number] = <uint8_t>n_bytes
            memcpy(known.texts[number], text, <size_t>n_bytes)
    put_integer(step, row, <int64_t>number, 1)


cdef inline bint take_text(Step* step, Reader* reader, int64_t* n_bytes) noexcept nogil:
    """Passes over a string or bytes, and sets its number of bytes."""
    if not take_long(reader, n_bytes) or not pass_over(reader, n_bytes[0]):
        return False
    return step.kind == OP_BYTES or is_utf8(reader.at - n_bytes[0], reader.at)


cdef struct Segment:
    # Neighboring operations, all copied or all left out.
    # If their bytes are those of the record before, so are the values: they are not decoded again.
    size_t n_steps
    size_t n_located            # steps with an offset
    bint is_alike               # the bytes are likely to be the same
    size_t n_changes
    const uint8_t* bytes        # those of the record before
    size_t n_bytes


cdef struct Gathering:
    Step* steps
    size_t n_steps
    Step** located              # those with an offset: AS_PLACE, AS_TEXT
    Segment* segments
    size_t n_segments
    size_t n_seen               # records since segments are looked for: with the second one they are found
    size_t n                    # records in all
    size_t row                  # the next one


cdef inline bint is_same(const uint8_t* one, const uint8_t* other, size_t n) noexcept nogil:
    cdef size_t i = 0
    if n < 8:
        while i < n:
            if one[i] != other[i]:
                return False
            i += 1
        return True
    while i + 8 <= n:
        if load64(one + i) != load64(other + i):
            return False
        i += 8
    return load64(one + n - 8) == load64(other + n - 8)


cdef inline bint is_located(Step* step) noexcept nogil:
    return step.role == AS_PLACE or step.role == AS_TEXT


cdef void split_segments(Gathering* all) noexcept nogil:
    """Makes a segment of each operation."""
    cdef size_t i
    all.n_segments, all.n_seen = all.n_steps, 0
    memset(all.segments, 0, all.n_steps * sizeof(Segment))
    for i in range(all.n_steps):
        all.segments[i].n_steps, all.segments[i].n_located = 1, is_located(all.steps + i)


cdef void join_segments(Gathering* all) noexcept nogil:
    """Joins neighbors whose bytes were the same in two records, and neighbors whose bytes were not."""
    cdef Segment* last = all.segments
    cdef Segment* segment
    cdef Step* step = all.steps
    cdef size_t i
    for i in range(all.n_steps):
        segment = all.segments + i
        segment.is_alike = segment.n_changes == 0
        segment.n_changes = 0
        if i and segment.is_alike == last.is_alike and not step.starts_gap and step.is_copied == (step - 1).is_copied:
            step.offset += <int64_t>last.n_bytes
            last.n_steps += 1
            last.n_located += segment.n_located
            last.n_bytes += segment.n_bytes
        else:
            if i:
                last += 1
            last[0] = segment[0]
        step += 1
    all.n_segments = last - all.segments + 1


cdef inline void move_values(Step** located, size_t n_located, size_t row, size_t n, int64_t offset) noexcept nogil:
    """Keeps where the values of a segment are whose bytes are those of the record before; its copy begins at `offset`."""
    cdef Step* step
    cdef size_t i
    for i in range(n_located):
        step = located[i]
        step.slot[row] = offset + step.offset
        if step.role == AS_TEXT:
            step.slot[n + row] = step.slot[n + row - 1]
            if step.slot[n + row] < 0:
                step.slot[row] = 0


cdef inline const uint8_t* gather_value(
    Step* step, const uint8_t* at, const uint8_t* stop, size_t row, size_t n, int64_t offset
) noexcept nogil:
    """Keeps what the role asks for of a value, which is copied to `offset`; returns its end, NULL for wrong bytes."""
    cdef Reader reader, of_items
    cdef int kind = step.kind
    cdef int64_t value = 0
    reader.at, reader.stop = at, stop
    if step.role == AS_PLACE:
        step.slot[row] = offset
    if step.null_branch >= 0:
        if not take_branch(&reader, &value):
            return NULL
        if value == step.null_branch:
            kind = OP_OPTIONAL
    if kind == OP_OPTIONAL and step.null_branch >= 0:
        if step.role == AS_INTEGER:
            put_integer(step, row, 0, 0)
        elif step.role == AS_TEXT:
            step.slot[row], step.slot[n + row] = 0, -1
        elif step.role == AS_NUMBER:
            put_number(step, row, reader.at, -1)
    elif kind == OP_LONG:
        if step.role != AS_INTEGER:
            if not pass_long(&reader):
                return NULL
        elif not take_long(&reader, &value):
            return NULL
        else:
            put_integer(step, row, value, 1)
    elif kind == OP_STRING or kind == OP_BYTES:
        if not take_text(step, &reader, &value):
            return NULL
        if step.role == AS_TEXT:
            step.slot[row], step.slot[n + row] = offset + (reader.at - at) - value, value
        elif step.role == AS_NUMBER:
            put_number(step, row, reader.at - value, value)
    else:
        of_items = reader
        if kind == OP_ARRAY or kind == OP_MAP:
            if not pass_items(step.program + 2, <size_t>step.program[1], &of_items, 0):
                return NULL
        elif not walk(step.program, step.n_words, &of_items, 0):
            return NULL
        return of_items.at
    return reader.at


cdef bint gather_record(Gathering* all, Reader* reader, const uint8_t* first, uint8_t** into) noexcept nogil:
    """Copies the fields of one record to `into`, which starts at `first`; False when its bytes do not fit."""
    cdef const uint8_t* at = reader.at
    cdef const uint8_t* start = at              # of bytes that are not yet copied
    cdef const uint8_t* begin
    cdef uint8_t* end = into[0]
    cdef Step* step = all.steps
    cdef Step** located = all.located
    cdef Segment* segment = all.segments
    cdef size_t row = all.row, k
    cdef int64_t offset
    cdef bint is_learning = all.n_seen == 1, is_stale = False
    for _ in range(all.n_segments):
        if step.starts_gap:
            memcpy(end, start, at - start)
            end += at - start
        begin, offset = at, end - first + (at - start)
        if (
            (segment.is_alike or is_learning)
            and <size_t>(reader.stop - at) >= segment.n_bytes
            and is_same(at, segment.bytes, segment.n_bytes)
        ):
            move_values(located, segment.n_located, row, all.n, offset)
            step += segment.n_steps
            at += segment.n_bytes
        else:
            for k in range(segment.n_steps):
                at = gather_value(step, at, reader.stop, row, all.n, offset + (at - begin))
                if at == NULL:
                    return False
                if is_located(step):
                    step.offset = step.slot[row] - offset
                step += 1
            segment.bytes, segment.n_bytes = begin, at - begin
            segment.n_changes += segment.is_alike or is_learning
            is_stale |= segment.n_changes == MOST_CHANGES
        if (step - 1).ends_gap:
            start = at
        located += segment.n_located
        segment += 1
    if not (step - 1).starts_gap and start != at:
        memcpy(end, start, at - start)
        end += at - start
    into[0], reader.at = end, at
    all.row += 1
    all.n_seen += 1
    if is_learning:
        join_segments(all)
    elif is_stale:
        split_segments(all)
    return True


def gather(blocks, counts, program, fields, roles, starts, slots, valid, varies, origins, chosen=None):
    """Gathers some fields of records of all blocks.

    Args:
        blocks: the bytes of each block without compression; each is read before the next one is requested.
        counts: the number of records of each block.
        program: int64 words, as above.
        fields: for each field of the record, the number of its words, negative if the field is left out, as int64.
        roles: for each field a byte: 0, `PLACE`, `INTEGER`, `TEXT` or `NUMBER`. A field that is left out has no place
            or text.
        starts: is filled with the offset of each record in the result, as int64.
        slots: is filled with a column for each role, one after another, as int64: the offsets of the values
            (`PLACE`), the integers, 0 for null (`INTEGER`), the offsets of the bytes and in a further column their
            numbers, -1 for null (`TEXT`), or the numbers of the distinct texts (`NUMBER`).
        valid: is filled with a byte for each integer or number, one column after another: 0 for null, else 1.
        varies: is filled with a byte for each column of `valid`: 0 if all integers are the same. Of these only the
            first one is written.
        origins: the offset of each record in its block, as int64: filled, or used with `chosen`.
        chosen: for each record a byte, not 0 if it is wanted. Only these records are read. None: all are.

    Returns:
        a bytearray of the records, and for each `NUMBER` a list of the distinct texts, or None if they are not
        numbered: they are many, long or null. None if the bytes of a block are not exactly its records.
    """
    cdef Buffer words = buffer_of(program), sizes = buffer_of(fields), parts = buffer_of(roles)
    cdef Buffer into = writable(starts), found = writable(slots), flags = writable(valid), every = writable(origins)
    cdef Buffer differ = writable(varies), block, memory, of_texts, picked = None if chosen is None else buffer_of(chosen)
    cdef Reader reader
    cdef size_t n = into.size // 8, n_every = every.size // 8, n_fields = sizes.size // 8, i, left
    cdef size_t n_slots = 0, n_integers = 0, n_bytes = 0, n_space = 0, n_left = len(counts)
    cdef const int64_t* of_field = <const int64_t*>sizes.data
    cdef int64_t* begins = <int64_t*>into.data
    cdef int64_t* origin = <int64_t*>every.data
    cdef const uint8_t* wanted = NULL if picked is None else picked.data
    cdef const int64_t* at = <const int64_t*>words.data
    cdef Gathering all
    cdef Numbered* texts
    cdef size_t n_located = 0
    cdef Step* step
    cdef uint8_t* first
    cdef uint8_t* end
    cdef const int64_t* end_of_field
    cdef size_t size
    cdef bint was_copied = False, sound = are_fields(words, sizes)
    if parts.size != n_fields or sum(counts) != n_every or (picked is not None and picked.size != n_every):
        raise ValueError("expected a role for each field, and an offset and a choice for each record")
    memory = buffer_of(bytearray(words.size // 8 * (sizeof(Step) + sizeof(Segment) + sizeof(Step*))))
    all.steps, all.n_steps = <Step*>memory.data, 0
    all.segments = <Segment*>(all.steps + words.size // 8)
    all.located = <Step**>(all.segments + words.size // 8)
    of_texts = buffer_of(bytearray(bytes(roles).count(AS_NUMBER) * sizeof(Numbered)))
    texts = <Numbered*>of_texts.data
    all.n, all.row = n, 0
    for i in range(n_fields if sound else 0):
        if of_field[i] < 0 and parts.data[i] not in (0, AS_INTEGER, AS_NUMBER):
            raise ValueError("a field that is left out has no offsets")
        size = <size_t>(of_field[i] if of_field[i] > 0 else -of_field[i])
        if parts.data[i] > AS_NUMBER or not has_role(at, size, parts.data[i]):
            raise ValueError("the role does not fit the field")
        step = all.steps + all.n_steps
        step.slot, step.valid = <int64_t*>found.data + n * n_slots, flags.data + n * n_integers
        n_slots += 2 if parts.data[i] == AS_TEXT else parts.data[i] != 0
        n_integers += parts.data[i] == AS_INTEGER or parts.data[i] == AS_NUMBER
        step.role = parts.data[i]
        if step.role == AS_NUMBER:
            step.texts = texts
            texts += 1
        elif is_located(step):
            all.located[n_located] = step
            n_located += 1
        end_of_field = at + size
        while at < end_of_field:
            step = all.steps + all.n_steps
            set_program(step, at, words_of(at))
            at += words_of(at)
            step.is_copied = of_field[i] > 0
            step.starts_gap = of_field[i] < 0 and (all.n_steps == 0 or was_copied)
            step.ends_gap = of_field[i] < 0 and at == end_of_field
            was_copied = step.is_copied
            all.n_steps += 1
    left = n_every
    if wanted != NULL:
        left = 0
        for i in range(n_every):
            left += wanted[i] != 0
    if n != left or (
        sound and (found.size != 8 * n * n_slots or flags.size != n * n_integers or differ.size != n_integers)
    ):
        raise ValueError("expected an offset for each located value")
    result = bytearray()
    for data, count in zip(blocks, counts, strict=True):
        block = buffer_of(data)
        n_left -= 1
        if block.size > n_space - n_bytes:      # what is not used is not touched: it takes no memory
            # the others have as many bytes as those so far: a longer memory would be the system's each time
            n_space = min(n_bytes * (n - all.row) // all.row if all.row else 0, n_left * block.size)
            n_space += n_bytes + block.size
            PyByteArray_Resize(result, n_space)
        first = <uint8_t*>PyByteArray_AsString(result)
        end = first + n_bytes
        reader.at, reader.stop = block.data, block.data + block.size
        left = count
        with nogil:
            split_segments(&all)        # the bytes of the block before may be gone
            while sound and left > 0:
                left -= 1
                if wanted == NULL:
                    origin[0] = reader.at - block.data
                elif wanted[0] == 0:
                    wanted += 1
                    origin += 1
                    continue
                else:
                    wanted += 1
                    sound = reader.at - block.data <= origin[0] <= <int64_t>block.size   # they do not overlap
                    if not sound:
                        break
                    reader.at = block.data + origin[0]
                origin += 1
                begins[all.row] = end - first
                sound = gather_record(&all, &reader, first, &end)
        if not sound or (wanted == NULL and reader.at != reader.stop):
            return None
        n_bytes = end - first
        block = None                    # its bytes may be replaced by those of the next one
    PyByteArray_Resize(result, n_bytes)
    return result, finished(all.steps, all.n_steps, n, differ.data)


cdef object finished(Step* steps, size_t n_steps, size_t n, uint8_t* varies):
    """Writes the integers that all records have, and which columns vary; returns the distinct texts."""
    cdef size_t i, number
    cdef Step* step
    texts = []
    for i in range(n_steps):
        step = steps + i
        if step.role != AS_INTEGER and step.role != AS_NUMBER:
            continue
        if step.role == AS_NUMBER:
            texts.append(None if step.texts.n > MOST_TEXTS else [
                PyBytes_FromStringAndSize(<const char*>step.texts.texts[number], step.texts.sizes[number])
                for number in range(step.texts.n)
            ])
        fill_up(step, n if step.varies else n > 0)
        varies[0] = step.varies
        varies += 1
    return texts


def locate(data, records, program, fields, places):
    """Finds the values of some fields of records.

    Args:
        data: the bytes of the records, by `gather`.
        records: the offsets of the records, as int64.
        program: int64 words, as above.
        fields: for each field of the record, the number of its words, negative if its values are not wanted, as int64.
        places: is filled with the offsets of the values of each wanted field, one field after another, as int64.

    Raises:
        ValueError: the bytes are not such records.
    """
    cdef Buffer block = buffer_of(data), words = buffer_of(program), sizes = buffer_of(fields)
    cdef Buffer given = buffer_of(records), found = writable(places)
    cdef Reader reader
    cdef size_t n = given.size // 8, n_fields = sizes.size // 8, i, row, wanted = 0
    cdef const int64_t* of_field = <const int64_t*>sizes.data
    cdef const int64_t* at
    cdef const int64_t* from_records = <const int64_t*>given.data
    cdef int64_t* out
    cdef int64_t size
    cdef bint sound = are_fields(words, sizes)
    for i in range(n_fields):
        wanted += of_field[i] > 0
    if found.size != 8 * n * wanted:
        raise ValueError("expected an offset for each value")
    reader.stop = block.data + block.size
    with nogil:
        for row in range(n):
            sound = sound and 0 <= from_records[row] <= <int64_t>block.size
            if not sound:
                break
            reader.at = block.data + from_records[row]
            at = <const int64_t*>words.data
            out = <int64_t*>found.data + row
            for i in range(n_fields):
                size = of_field[i] if of_field[i] > 0 else -of_field[i]
                if of_field[i] > 0:
                    out[0] = reader.at - block.data
                    out += n
                sound = walk(at, <size_t>size, &reader, 0)
                if not sound:
                    break
                at += size
    if not sound:
        raise ValueError("the bytes are no records of the program")


cdef inline bint to_value(Reader* reader, const int64_t** program, bint* is_null) noexcept nogil:
    """Steps into an option: the program of its value, and whether the value is null."""
    cdef int64_t branch
    is_null[0] = False
    if program[0][0] == OP_OPTIONAL:
        if not take_long(reader, &branch):
            return False
        is_null[0] = branch == program[0][1]
        program[0] += 3
    return True


cdef Reader reader_at(Buffer block, int64_t place) except *:
    cdef Reader reader
    if place < 0 or <size_t>place > block.size:
        raise ValueError(f"offset {place} in {block.size} bytes")
    reader.at, reader.stop = block.data + place, block.data + block.size
    return reader


cdef Buffer checked_program(object program):
    cdef Buffer words = buffer_of(program)
    if not words.size or not is_program(<const int64_t*>words.data, words.size // 8, 0):
        raise ValueError("the words are no program")
    return words


def longs(data, places, program, values, valid):
    """Decodes a column of integers; returns the number of nulls.

    Args:
        data: the bytes of the records.
        places: the offsets of the values, by `locate`.
        program: of a long, which may be optional.
        values: is filled with the integers, 0 for null, as int64.
        valid: is filled with a byte for each value: 0 for null, else 1.
    """
    cdef Buffer block = buffer_of(data), at = buffer_of(places), words = checked_program(program)
    cdef Buffer into = writable(values), flags = writable(valid)
    cdef size_t n = at.size // 8, row, n_nulls = 0
    cdef const int64_t* offsets = <const int64_t*>at.data
    cdef int64_t* out = <int64_t*>into.data
    cdef const int64_t* kind
    cdef Reader reader
    cdef bint is_null = False, sound = True
    if into.size != 8 * n or flags.size != n:
        raise ValueError("expected an integer and a flag for each value")
    with nogil:
        for row in range(n):
            sound = 0 <= offsets[row] <= <int64_t>block.size
            if not sound:
                break
            reader.at, reader.stop = block.data + offsets[row], block.data + block.size
            kind = <const int64_t*>words.data
            sound = to_value(&reader, &kind, &is_null) and kind[0] == OP_LONG
            out[row] = 0
            if sound and not is_null:
                sound = take_long(&reader, out + row)
            if not sound:
                break
            flags.data[row] = not is_null
            n_nulls += is_null
    if not sound:
        raise ValueError("the values are no integers")
    return n_nulls


def spans(data, places, program, starts, sizes):
    """Finds the bytes of a column of strings or bytes; returns the number of nulls.

    Args:
        data: the bytes of the records.
        places: the offsets of the values, by `locate`; -1 stands for null.
        program: of a string or of bytes, which may be optional.
        starts: is filled with the offsets of the bytes, as int64.
        sizes: is filled with their numbers of bytes, -1 for null, as int64.
    """
    cdef Buffer block = buffer_of(data), at = buffer_of(places), words = checked_program(program)
    cdef Buffer into = writable(starts), lengths = writable(sizes)
    cdef size_t n = at.size // 8, row, n_nulls = 0
    cdef const int64_t* offsets = <const int64_t*>at.data
    cdef int64_t* out = <int64_t*>into.data
    cdef int64_t* length = <int64_t*>lengths.data
    cdef const int64_t* kind
    cdef Reader reader
    cdef bint is_null = False, sound = True
    if into.size != 8 * n or lengths.size != 8 * n:
        raise ValueError("expected an offset and a size for each value")
    with nogil:
        for row in range(n):
            out[row], length[row] = 0, -1
            if offsets[row] == -1:
                n_nulls += 1
                continue
            sound = 0 <= offsets[row] <= <int64_t>block.size
            if not sound:
                break
            reader.at, reader.stop = block.data + offsets[row], block.data + block.size
            kind = <const int64_t*>words.data
            sound = to_value(&reader, &kind, &is_null) and (kind[0] == OP_BYTES or kind[0] == OP_STRING)
            if sound and is_null:
                n_nulls += 1
            elif sound:
                sound = take_long(&reader, length + row) and 0 <= length[row] <= reader.stop - reader.at
                out[row] = reader.at - block.data
            if not sound:
                break
    if not sound:
        raise ValueError("the values are no strings or bytes")
    return n_nulls


def entries(data, places, program, key, starts, sizes):
    """Finds the bytes of the value of a key in a column of maps; the last one if a map has the key more than once.

    Args:
        data: the bytes of the records.
        places: the offsets of the maps, by `locate`.
        program: of a map of long keys, which may be optional, to strings or bytes, which may be optional.
        key: the key.
        starts: is filled with the offsets of the bytes, as int64.
        sizes: is filled with their numbers of bytes, -1 for null and where there is no such key, as int64.
    """
    cdef Buffer block = buffer_of(data), at = buffer_of(places), words = checked_program(program)
    cdef Buffer into = writable(starts), lengths = writable(sizes)
    cdef size_t n = at.size // 8, row
    cdef const int64_t* offsets = <const int64_t*>at.data
    cdef int64_t* out = <int64_t*>into.data
    cdef int64_t* length = <int64_t*>lengths.data
    cdef const int64_t* kind
    cdef const int64_t* of_value
    cdef Reader reader
    cdef int64_t wanted = key, count, one, size
    cdef bint is_null = False, sound = True, are_texts
    if into.size != 8 * n or lengths.size != 8 * n:
        raise ValueError("expected an offset and a size for each map")
    kind = <const int64_t*>words.data
    kind += 3 if kind[0] == OP_OPTIONAL else 0
    if kind[0] != OP_MAP or kind[2] != OP_LONG or kind[1] < 2:
        raise ValueError("the program is not that of maps of integers")
    of_value = kind + 3 + (3 if kind[3] == OP_OPTIONAL else 0)
    are_texts = of_value[0] == OP_BYTES or of_value[0] == OP_STRING
    with nogil:
        for row in range(n):
            out[row], length[row] = 0, -1
            sound = 0 <= offsets[row] <= <int64_t>block.size
            if not sound:
                break
            reader.at, reader.stop = block.data + offsets[row], block.data + block.size
            kind = <const int64_t*>words.data
            sound = to_value(&reader, &kind, &is_null)
            while sound and not is_null:
                sound = take_count(&reader, &count)
                if not sound or count == 0:
                    break
                while sound and count > 0:
                    count -= 1
                    of_value = kind + 3
                    sound = take_long(&reader, &one)
                    if not are_texts:
                        sound = sound and one != wanted and walk(of_value, <size_t>(kind[1] - 1), &reader, 1)
                        continue
                    sound = sound and to_value(&reader, &of_value, &is_null)
                    size = -1
                    if sound and not is_null:
                        sound = take_long(&reader, &size) and pass_over(&reader, size)
                    if sound and one == wanted:
                        out[row], length[row] = 0 if is_null else reader.at - size - block.data, size
                    is_null = False
            if not sound:
                break
    if not sound:
        raise ValueError("the values are no maps of integers to strings or bytes")


cdef object take(const int64_t* program, Reader* reader):
    """Decodes one value, whose bytes were walked before."""
    cdef int64_t value, count
    cdef float small
    cdef double number
    cdef size_t of_key
    cdef bint sound = True
    if program[0] == OP_OPTIONAL:
        sound = take_long(reader, &value)
        if sound and value == program[1]:
            return None
        program += 3
    if program[0] == OP_LONG:
        if sound and take_long(reader, &value):
            return value
    elif program[0] == OP_STRING or program[0] == OP_BYTES or program[0] == OP_FIXED:
        if program[0] == OP_FIXED:
            value = program[1]
        else:
            sound = sound and take_long(reader, &value)
        if sound and pass_over(reader, value):
            if program[0] == OP_STRING:
                return PyUnicode_DecodeUTF8(<const char*>(reader.at - value), value, NULL)
            return PyBytes_FromStringAndSize(<const char*>(reader.at - value), value)
    elif program[0] == OP_FLOAT:
        if sound and pass_over(reader, 4):
            memcpy(&small, reader.at - 4, 4)
            return <double>small
    elif program[0] == OP_DOUBLE:
        if sound and pass_over(reader, 8):
            memcpy(&number, reader.at - 8, 8)
            return number
    elif program[0] == OP_BOOLEAN:
        if sound and pass_over(reader, 1):
            return (reader.at - 1)[0] != 0
    elif program[0] == OP_MAP:
        of_key = words_of(program + 2)
        pairs = {}
        while sound and take_count(reader, &count):
            if count == 0:
                return pairs
            while count > 0:
                key = take(program + 2, reader)
                pairs[key] = take(program + 2 + of_key, reader)
                count -= 1
    elif program[0] == OP_ARRAY:
        items = []
        while sound and take_count(reader, &count):
            if count == 0:
                return items
            while count > 0:
                items.append(take(program + 2, reader))
                count -= 1
    raise ValueError("the bytes are no value of the program")


def values(data, places, program):
    """Decodes a column to a list of Python objects; maps become dicts.

    Args:
        data: the bytes of the records.
        places: the offsets of the values, by `locate`; -1 stands for null.
        program: of one field. An item of an array is one value, and a map has a key and a value.
    """
    cdef Buffer block = buffer_of(data), at = buffer_of(places), words = checked_program(program)
    cdef const int64_t* first = <const int64_t*>words.data
    cdef const int64_t* offsets = <const int64_t*>at.data
    cdef Reader reader
    cdef size_t row
    if not is_one_value(first, words.size // 8):
        raise ValueError("the program is not that of one value")
    found = []
    for row in range(at.size // 8):
        if offsets[row] == -1:
            found.append(None)
            continue
        reader = reader_at(block, offsets[row])
        found.append(take(first, &reader))
    return found


cdef bint is_one_value(const int64_t* program, size_t n_words) noexcept nogil:
    cdef size_t of_key
    if words_of(program) != n_words:
        return False
    if program[0] == OP_OPTIONAL:
        return program[3] != OP_OPTIONAL and is_one_value(program + 3, n_words - 3)
    if program[0] == OP_ARRAY:
        return is_one_value(program + 2, n_words - 2)
    if program[0] == OP_MAP:
        of_key = words_of(program + 2)
        return (
            of_key < n_words - 2
            and is_one_value(program + 2, of_key)
            and is_one_value(program + 2 + of_key, n_words - 2 - of_key)
        )
    return True
