/* Headers of the pages of a Parquet column chunk: Thrift, compact protocol.
 *
 * Every function checks lengths before it reads, and returns a negative number for bytes that do not have the
 * expected form. */
#ifndef PF_PAGE_HEADER_H
#define PF_PAGE_HEADER_H

#include <stddef.h>
#include <stdint.h>

enum { PF_BAD_PAGE = -1, PF_MAX_DEPTH = 64 }; /* Thrift's own readers have this limit, too */

typedef struct {
    const uint8_t *at, *end;
} pf_thrift;

static inline int pf_varint(pf_thrift *from, uint64_t *value) {
    uint64_t found = 0;
    for (int shift = 0; shift < 64 && from->at < from->end; shift += 7) {
        uint8_t byte = *from->at++;
        found |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *value = found;
            return 0;
        }
    }
    return PF_BAD_PAGE;
}

static inline int pf_integer(pf_thrift *from, int64_t *value) {
    uint64_t raw;
    if (pf_varint(from, &raw)) return PF_BAD_PAGE;
    *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    return 0;
}

enum { PF_TRUE = 1, PF_FALSE = 2, PF_I8 = 3, PF_I16 = 4, PF_I32 = 5, PF_I64 = 6, PF_DOUBLE = 7, PF_BINARY = 8,
       PF_LIST = 9, PF_SET = 10, PF_MAP = 11, PF_STRUCT = 12, PF_UUID = 13 };

/* The next field of a struct: 1, or 0 at its end. An id has 16 bits; those of other writers' own fields may be
 * negative. */
static inline int pf_field(pf_thrift *from, int64_t *id, int *kind) {
    if (from->at == from->end) return PF_BAD_PAGE;
    uint8_t head = *from->at++;
    if (head == 0) return 0;
    *kind = head & 15;
    if (head >> 4) *id += head >> 4;
    else if (pf_integer(from, id)) return PF_BAD_PAGE;
    *id = (int16_t)*id; /* as Thrift's own readers have it */
    return 1;
}

/* The number of items of a list: each takes one byte at least. */
static int pf_items(pf_thrift *from, uint64_t *n, int *kind) {
    if (from->at == from->end) return PF_BAD_PAGE;
    uint8_t head = *from->at++;
    *kind = head & 15;
    *n = head >> 4;
    if (*n == 15 && pf_varint(from, n)) return PF_BAD_PAGE;
    return *n > (uint64_t)(from->end - from->at) ? PF_BAD_PAGE : 0;
}

static int pf_skip(pf_thrift *from, int kind, int depth);

static int pf_skip_item(pf_thrift *from, int kind, int depth) {
    /* a boolean in a list, set or map has a byte of its own */
    return pf_skip(from, kind == PF_TRUE || kind == PF_FALSE ? PF_I8 : kind, depth);
}

/* Skips a value of any kind. */
static int pf_skip(pf_thrift *from, int kind, int depth) {
    uint64_t n = 0;
    int64_t value = 0;
    int inner = 0, more, pair;
    if (depth > PF_MAX_DEPTH) return PF_BAD_PAGE;
    switch (kind) {
    case PF_TRUE: case PF_FALSE: return 0;
    case PF_I16: case PF_I32: case PF_I64: return pf_integer(from, &value);
    case PF_I8: n = 1; break;
    case PF_DOUBLE: n = 8; break;
    case PF_UUID: n = 16; break;
    case PF_BINARY: if (pf_varint(from, &n)) return PF_BAD_PAGE; break;
    case PF_STRUCT:
        while ((more = pf_field(from, &value, &inner)) > 0)
            if (pf_skip(from, inner, depth + 1)) return PF_BAD_PAGE;
        return more;
    case PF_LIST: case PF_SET:
        if (pf_items(from, &n, &inner)) return PF_BAD_PAGE;
        while (n--)
            if (pf_skip_item(from, inner, depth + 1)) return PF_BAD_PAGE;
        return 0;
    case PF_MAP:
        if (pf_varint(from, &n)) return PF_BAD_PAGE;
        if (n == 0) return 0;
        if (n > (uint64_t)(from->end - from->at)) return PF_BAD_PAGE;
        pair = *from->at++; /* the kinds of keys and of values */
        while (n--)
            if (pf_skip_item(from, pair >> 4, depth + 1) || pf_skip_item(from, pair & 15, depth + 1)) return PF_BAD_PAGE;
        return 0;
    default: return PF_BAD_PAGE;
    }
    if (n > (uint64_t)(from->end - from->at)) return PF_BAD_PAGE;
    from->at += n;
    return 0;
}

/* Fields of PageHeader and of the header inside it; -1: absent. */
enum { PF_TYPE, PF_RAW_BYTES, PF_STORED_BYTES, PF_N_VALUES, PF_ENCODING, PF_LEVEL_ENCODING, PF_N_ROWS, PF_N_NULLS,
       PF_DEFINITION_BYTES, PF_REPETITION_BYTES, PF_IS_COMPRESSED, PF_CHECKSUM, PF_REPETITION_ENCODING,
       PF_HEADER_BYTES, PF_HEADER_WORDS };

/* The fields of a struct: its first n are integers and must be there, as the format has it. */
static int pf_inner_header(pf_thrift *from, const int *places, int n, int64_t *out) {
    int64_t id = 0;
    int kind = 0, more, seen = 0;
    while ((more = pf_field(from, &id, &kind)) > 0) {
        if (id >= 1 && id <= n && kind == PF_I32) {
            seen |= 1 << id;
            if (pf_integer(from, out + places[id - 1])) return PF_BAD_PAGE;
        } else if (id == 7 && n == 6 && (kind == PF_TRUE || kind == PF_FALSE)) {
            out[PF_IS_COMPRESSED] = kind == PF_TRUE;
        } else if (pf_skip(from, kind, 0)) return PF_BAD_PAGE;
    }
    return seen == (2 << n) - 2 ? more : PF_BAD_PAGE;
}

/* A header with all fields that the format requires, and with that of its page type only. */
static int pf_page_header(const uint8_t *data, size_t size, int64_t *out) {
    static const int outer[3] = {PF_TYPE, PF_RAW_BYTES, PF_STORED_BYTES};
    static const int v1[4] = {PF_N_VALUES, PF_ENCODING, PF_LEVEL_ENCODING, PF_REPETITION_ENCODING};
    static const int dictionary[2] = {PF_N_VALUES, PF_ENCODING};
    static const int v2[6] = {PF_N_VALUES, PF_N_NULLS, PF_N_ROWS, PF_ENCODING, PF_DEFINITION_BYTES,
                              PF_REPETITION_BYTES};
    static const int structs[4] = {1 << 5, 1 << 6, 1 << 7, 1 << 8}; /* by page type */
    pf_thrift from = {data, data + size};
    int64_t id = 0;
    int kind = 0, more, seen = 0;
    for (int i = 0; i < PF_HEADER_WORDS; i++) out[i] = -1;
    while ((more = pf_field(&from, &id, &kind)) > 0) {
        if (id >= 1 && id <= 3 && kind == PF_I32) {
            if (pf_integer(&from, out + outer[id - 1])) return PF_BAD_PAGE;
        } else if (id == 4 && kind == PF_I32) {
            if (pf_integer(&from, out + PF_CHECKSUM)) return PF_BAD_PAGE;
            out[PF_CHECKSUM] &= UINT32_MAX;
        } else if (kind == PF_STRUCT && (id == 5 || id == 7 || id == 8)) {
            seen |= 1 << id;
            if (id == 5 ? pf_inner_header(&from, v1, 4, out)
                : id == 7 ? pf_inner_header(&from, dictionary, 2, out)
                          : pf_inner_header(&from, v2, 6, out)) return PF_BAD_PAGE;
        } else if (pf_skip(&from, kind, 0)) return PF_BAD_PAGE;
    }
    if (out[PF_TYPE] < 0 || out[PF_TYPE] > 3 || seen != structs[out[PF_TYPE]]) return PF_BAD_PAGE;
    out[PF_HEADER_BYTES] = from.at - data;
    return more;
}

#endif
