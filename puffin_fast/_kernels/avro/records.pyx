"""Records of Avro blocks: gathered with a part of their fields, and decoded by column.

A program of int64 words describes a record. Each operation is followed by its operands:

    BOOLEAN | LONG | FLOAT | DOUBLE | BYTES | STRING | FIXED size | OPTIONAL index-of-null n-words words… |
    ARRAY n-words words… | MAP n-words words… (an array of a key and a value)

A column is decoded from the offsets of its values, which `locate` finds. Their program is that of one field.
Source: Avro specification, "Binary Encoding".
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from libc.string cimport memcpy

from puffin_fast._kernels.avro.reading cimport Reader, is_utf8, pass_over, take_count, take_long
from puffin_fast._kernels.views cimport Buffer, buffer_of, writable

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char* data, Py_ssize_t size, const char* errors)
    object PyBytes_FromStringAndSize(const char* data, Py_ssize_t size)
    object PyByteArray_FromStringAndSize(const char* data, Py_ssize_t size)

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

cdef enum Role:
    AS_PLACE = 1
    AS_INTEGER = 2
    AS_TEXT = 3

BOOLEAN, LONG, FLOAT, DOUBLE, BYTES, STRING, FIXED, OPTIONAL, ARRAY, MAP = range(10)
PLACE, INTEGER, TEXT = AS_PLACE, AS_INTEGER, AS_TEXT


cdef inline bint take_branch(Reader* reader, int64_t* branch) noexcept nogil:
    """The branch of a union of two types."""
    if reader.at != reader.stop and (reader.at[0] == 0 or reader.at[0] == 2):
        branch[0] = reader.at[0] >> 1
        reader.at += 1
        return True
    return take_long(reader, branch) and 0 <= branch[0] <= 1


cdef inline bint walk_pairs(Reader* reader, int64_t count, bint are_bytes) noexcept nogil:
    """Passes over pairs of a long and a long, or of a long and bytes."""
    cdef int64_t value
    while count > 0:
        if not take_long(reader, &value) or not take_long(reader, &value):
            return False
        if are_bytes and not pass_over(reader, value):
            return False
        count -= 1
    return True


cdef bint walk(const int64_t* program, size_t n_words, Reader* reader, int depth) noexcept nogil:
    """Passes over one record; False when its bytes do not fit the program."""
    cdef const int64_t* end = program + n_words
    cdef int64_t value, count
    cdef bint are_pairs
    if depth > MAX_DEPTH:
        return False
    while program < end:
        if program[0] == OP_OPTIONAL:
            if not take_branch(reader, &value):
                return False
            program += 3 + (program[2] if value == program[1] else 0)
        elif program[0] == OP_LONG:
            if not take_long(reader, &value):
                return False
            program += 1
        elif program[0] == OP_BYTES:
            if not take_long(reader, &value) or not pass_over(reader, value):
                return False
            program += 1
        elif program[0] == OP_STRING:
            if not take_long(reader, &value) or not pass_over(reader, value):
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
            if not pass_over(reader, 4 if program[0] == OP_FLOAT else 8):
                return False
            program += 1
        elif program[0] == OP_FIXED:
            if not pass_over(reader, program[1]):
                return False
            program += 2
        else:
            are_pairs = program[1] == 2 and program[2] == OP_LONG and (
                program[3] == OP_LONG or program[3] == OP_BYTES
            )
            while True:
                if not take_count(reader, &count):
                    return False
                if count == 0:
                    break
                if are_pairs:
                    if not walk_pairs(reader, count, program[3] == OP_BYTES):
                        return False
                    continue
                while count > 0:
                    if not walk(program + 2, <size_t>program[1], reader, depth + 1):
                        return False
                    count -= 1
            program += 2 + program[1]
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


cdef inline bint has_role(const int64_t* program, int role) noexcept nogil:
    """Whether a field can have a role."""
    cdef int64_t kind = program[3] if program[0] == OP_OPTIONAL else program[0]
    if role == AS_INTEGER:
        return kind == OP_LONG
    return role != AS_TEXT or kind == OP_STRING or kind == OP_BYTES


cdef inline bint take_integer(const int64_t* program, Reader* reader, int64_t* value, uint8_t* valid) noexcept nogil:
    cdef int64_t branch
    value[0] = 0
    if program[0] == OP_OPTIONAL:
        if not take_branch(reader, &branch):
            return False
        if branch == program[1]:
            valid[0] = 0
            return True
    valid[0] = 1
    return take_long(reader, value)


cdef inline bint take_text(const int64_t* program, Reader* reader, int64_t* n_bytes) noexcept nogil:
    """Passes over a string or bytes, and sets its number of bytes, -1 for null."""
    cdef int64_t branch
    if program[0] == OP_OPTIONAL:
        if not take_branch(reader, &branch):
            return False
        if branch == program[1]:
            n_bytes[0] = -1
            return True
        program += 3
    if not take_long(reader, n_bytes) or not pass_over(reader, n_bytes[0]):
        return False
    return program[0] == OP_BYTES or is_utf8(reader.at - n_bytes[0], reader.at)


def gather(blocks, counts, program, fields, roles, starts, slots, valid, origins, chosen=None):
    """Gathers some fields of records of all blocks; returns None if the bytes of a block are not exactly its records.

    Args:
        blocks: the bytes of each block without compression.
        counts: the number of records of each block.
        program: int64 words, as above.
        fields: for each field of the record, the number of its words, negative if the field is left out, as int64.
        roles: for each field a byte: 0, `PLACE`, `INTEGER` or `TEXT`. A field that is left out has no place or text.
        starts: is filled with the offset of each record in the result, as int64.
        slots: is filled with a column for each role, one after another, as int64: the offsets of the values
            (`PLACE`), the integers, 0 for null (`INTEGER`), or the offsets of the bytes and in a further column their
            numbers, -1 for null (`TEXT`).
        valid: is filled with a byte for each integer, one column after another: 0 for null, else 1.
        origins: the offset of each record in its block, as int64: filled, or used with `chosen`.
        chosen: for each record a byte, not 0 if it is wanted. Only these records are read. None: all are.

    Returns:
        a bytearray of the records.
    """
    cdef Buffer words = buffer_of(program), sizes = buffer_of(fields), parts = buffer_of(roles)
    cdef Buffer into = writable(starts), found = writable(slots), flags = writable(valid), every = writable(origins)
    cdef Buffer block, out, picked = None if chosen is None else buffer_of(chosen)
    cdef Reader reader
    cdef size_t n = into.size // 8, n_every = every.size // 8, n_fields = sizes.size // 8, i, row = 0, left
    cdef size_t n_slots = 0, n_integers = 0
    cdef const int64_t* of_field = <const int64_t*>sizes.data
    cdef int64_t* begins = <int64_t*>into.data
    cdef int64_t* origin = <int64_t*>every.data
    cdef const uint8_t* wanted = NULL if picked is None else picked.data
    cdef const int64_t* at = <const int64_t*>words.data
    cdef int64_t* slot
    cdef uint8_t* flag
    cdef const uint8_t* start
    cdef uint8_t* end
    cdef uint8_t* first
    cdef int64_t size
    cdef bint sound = are_fields(words, sizes)
    if parts.size != n_fields or sum(counts) != n_every or (picked is not None and picked.size != n_every):
        raise ValueError("expected a role for each field, and an offset and a choice for each record")
    for i in range(n_fields if sound else 0):
        if of_field[i] < 0 and parts.data[i] not in (0, AS_INTEGER):
            raise ValueError("a field that is left out has no offsets")
        if parts.data[i] > AS_TEXT or not has_role(at, parts.data[i]):
            raise ValueError("the role does not fit the field")
        n_slots += 0 if parts.data[i] == 0 else 2 if parts.data[i] == AS_TEXT else 1
        n_integers += parts.data[i] == AS_INTEGER
        at += of_field[i] if of_field[i] > 0 else -of_field[i]
    left = n_every
    if wanted != NULL:
        left = 0
        for i in range(n_every):
            left += wanted[i] != 0
    if n != left or (sound and (found.size != 8 * n * n_slots or flags.size != n * n_integers)):
        raise ValueError("expected an offset for each located value")
    result = PyByteArray_FromStringAndSize(NULL, sum([len(data) for data in blocks]))    # not filled: it may stay empty
    out = writable(result)
    first = end = <uint8_t*>out.data
    for data, count in zip(blocks, counts, strict=True):
        block = buffer_of(data)
        reader.at, reader.stop = block.data, block.data + block.size
        left = count
        with nogil:
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
                begins[row] = end - first
                at = <const int64_t*>words.data
                slot, flag = <int64_t*>found.data + row, flags.data + row
                start = reader.at       # of bytes that are not yet copied
                for i in range(n_fields):
                    size = of_field[i]
                    if size < 0:
                        size = -size
                        if start != reader.at:
                            memcpy(end, start, reader.at - start)
                            end += reader.at - start
                    if parts.data[i] == 0:
                        sound = walk(at, <size_t>size, &reader, 0)
                    elif parts.data[i] == AS_INTEGER:
                        sound = take_integer(at, &reader, slot, flag)
                        slot += n
                        flag += n
                    elif parts.data[i] == AS_TEXT:
                        sound = take_text(at, &reader, slot + n)
                        if not sound:
                            break
                        slot[0] = end - first + (reader.at - start) - slot[n] if slot[n] >= 0 else 0
                        slot += 2 * n
                    else:
                        slot[0] = end - first + (reader.at - start)
                        slot += n
                        sound = walk(at, <size_t>size, &reader, 0)
                    if not sound:
                        break
                    if of_field[i] < 0:
                        start = reader.at
                    at += size
                if sound and start != reader.at:
                    memcpy(end, start, reader.at - start)
                    end += reader.at - start
                row += 1
        if not sound or (wanted == NULL and reader.at != reader.stop):
            return None
    row = end - first
    out = None
    del result[row:]
    return result


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
        places: the offsets of the values, by `locate` or `values_of`; -1 stands for null.
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


def values_of(data, places, program, key, out):
    """Finds the value of a key in a column of maps; the last one if a map has the key more than once.

    Args:
        data: the bytes of the records.
        places: the offsets of the maps, by `locate`.
        program: of a map of long keys, which may be optional.
        key: the key.
        out: is filled with the offset of the value in each map, -1 where there is none, as int64.
    """
    cdef Buffer block = buffer_of(data), at = buffer_of(places), words = checked_program(program)
    cdef Buffer into = writable(out)
    cdef size_t n = at.size // 8, row
    cdef const int64_t* offsets = <const int64_t*>at.data
    cdef int64_t* found = <int64_t*>into.data
    cdef const int64_t* kind
    cdef Reader reader
    cdef int64_t wanted = key, count, one
    cdef bint is_null = False, sound = True
    if into.size != 8 * n:
        raise ValueError("expected an offset for each map")
    with nogil:
        for row in range(n):
            found[row] = -1
            sound = 0 <= offsets[row] <= <int64_t>block.size
            if not sound:
                break
            reader.at, reader.stop = block.data + offsets[row], block.data + block.size
            kind = <const int64_t*>words.data
            sound = to_value(&reader, &kind, &is_null) and kind[0] == OP_MAP and kind[2] == OP_LONG
            while sound and not is_null:
                sound = take_count(&reader, &count)
                if not sound or count == 0:
                    break
                while sound and count > 0:
                    sound = take_long(&reader, &one)
                    if sound and one == wanted:
                        found[row] = reader.at - block.data
                    sound = sound and walk(kind + 3, <size_t>(kind[1] - 1), &reader, 1)
                    count -= 1
            if not sound:
                break
    if not sound:
        raise ValueError("the values are no maps of integers")


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


cdef size_t words_of(const int64_t* program) noexcept nogil:
    """The number of words of the first operation of a program."""
    if program[0] <= OP_STRING:
        return 1
    if program[0] == OP_FIXED:
        return 2
    return <size_t>(program[1] + 2 if program[0] != OP_OPTIONAL else program[2] + 3)


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
