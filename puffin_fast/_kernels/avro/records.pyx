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

BOOLEAN, LONG, FLOAT, DOUBLE, BYTES, STRING, FIXED, OPTIONAL, ARRAY, MAP = range(10)


cdef bint walk(const int64_t* program, size_t n_words, Reader* reader, int depth) noexcept nogil:
    """Passes over one record; False when its bytes do not fit the program."""
    cdef const int64_t* end = program + n_words
    cdef int64_t value, count
    if depth > MAX_DEPTH:
        return False
    while program < end:
        if program[0] == OP_LONG:
            if not take_long(reader, &value):
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
        elif program[0] == OP_FIXED:
            if not pass_over(reader, program[1]):
                return False
            program += 2
        elif program[0] == OP_OPTIONAL:
            if not take_long(reader, &value) or value < 0 or value > 1:
                return False
            if value != program[1] and not walk(program + 3, <size_t>program[2], reader, depth + 1):
                return False
            program += 3 + program[2]
        else:
            while True:
                if not take_count(reader, &count):
                    return False
                if count == 0:
                    break
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


def gather(blocks, counts, program, fields, located, starts, places):
    """Gathers some fields of the records of all blocks; returns None if the bytes of a block are not exactly its records.

    Args:
        blocks: the bytes of each block without compression.
        counts: the number of records of each block.
        program: int64 words, as above.
        fields: for each field of the record, the number of its words, negative if the field is left out, as int64.
        located: for each field a byte, not 0 if the offsets of its values are wanted; the field is not left out.
        starts: is filled with the offset of each record in the result, as int64.
        places: is filled with the offsets of the values of each located field, one field after another, as int64.

    Returns:
        a bytearray of the records.
    """
    cdef Buffer words = buffer_of(program), sizes = buffer_of(fields), flags = buffer_of(located)
    cdef Buffer into = writable(starts), found = writable(places), block, out
    cdef Reader reader
    cdef size_t n = into.size // 8, n_fields = sizes.size // 8, i, row = 0, wanted = 0, left
    cdef const int64_t* of_field = <const int64_t*>sizes.data
    cdef int64_t* begins = <int64_t*>into.data
    cdef const int64_t* at
    cdef int64_t* place
    cdef const uint8_t* start
    cdef uint8_t* end
    cdef uint8_t* first
    cdef int64_t size
    cdef bint sound = are_fields(words, sizes)
    if flags.size != n_fields or sum(counts) != n:
        raise ValueError("expected a flag for each field and an offset for each record")
    for i in range(n_fields):
        if flags.data[i] and of_field[i] < 0:
            raise ValueError("a field that is left out has no offsets")
        wanted += flags.data[i] != 0
    if found.size != 8 * n * wanted:
        raise ValueError("expected an offset for each located value")
    result = bytearray(sum([len(data) for data in blocks]))
    out = writable(result)
    first = end = <uint8_t*>out.data
    for data, count in zip(blocks, counts, strict=True):
        block = buffer_of(data)
        reader.at, reader.stop = block.data, block.data + block.size
        left = count
        with nogil:
            while sound and left > 0:
                begins[row] = end - first
                at = <const int64_t*>words.data
                place = <int64_t*>found.data + row
                start = reader.at       # of bytes that are not yet copied
                for i in range(n_fields):
                    size = of_field[i] if of_field[i] > 0 else -of_field[i]
                    if of_field[i] < 0:
                        memcpy(end, start, reader.at - start)
                        end += reader.at - start
                    elif flags.data[i]:
                        place[0] = end - first + (reader.at - start)
                        place += n
                    sound = walk(at, <size_t>size, &reader, 0)
                    if not sound:
                        break
                    if of_field[i] < 0:
                        start = reader.at
                    at += size
                if sound:
                    memcpy(end, start, reader.at - start)
                    end += reader.at - start
                left -= 1
                row += 1
        if not sound or reader.at != reader.stop:
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
