/* The page index of a Parquet column chunk: Thrift, compact protocol.
 *
 *     OffsetIndex  1: locations of the data pages
 *     PageLocation 1: offset in the file, 2: bytes with the header, 3: first row in the row group
 *     ColumnIndex  1: which pages have nulls only, 2: lower bounds, 3: upper bounds, 4: their order, 5: numbers of nulls
 *
 * As in the footer, the last of several fields of one id counts, and a field of another kind is skipped. */
#ifndef PF_PAGE_INDEX_H
#define PF_PAGE_INDEX_H

#include "page_header.h"

enum { PF_LOCATION_WORDS = 3, PF_LEAST_LOCATION = 7, /* bytes of a location */
       /* of a page: whether it has nulls only, start and bytes of its bounds, and its number of nulls (-1: unknown) */
       PF_IS_NULL = 0, PF_LOWER, PF_LOWER_BYTES, PF_UPPER, PF_UPPER_BYTES, PF_NULLS, PF_BOUND_WORDS,
       PF_LEAST_BOUNDS = 3 };

static int pf_location(pf_thrift *from, int64_t *out) {
    int64_t id = 0, value;
    int kind = 0, more, seen = 0;
    while ((more = pf_field(from, &id, &kind)) > 0) {
        if (id >= 1 && id <= 3 && kind == (id == 2 ? PF_I32 : PF_I64)) {
            if (pf_integer(from, &value)) return PF_BAD_PAGE;
            out[id - 1] = value;
            seen |= 1 << id;
        } else if (pf_skip(from, kind, 0)) return PF_BAD_PAGE;
    }
    return more ? more : seen == 14 ? 0 : PF_BAD_PAGE;
}

/* Reads the locations; returns how many there are, at most `capacity`, or a negative number. */
static int64_t pf_offset_index(const uint8_t *data, size_t size, int64_t *out, size_t capacity) {
    pf_thrift from = {data, data + size};
    int64_t id = 0, found = -1;
    uint64_t n;
    int kind = 0, more;
    while ((more = pf_field(&from, &id, &kind)) > 0) {
        if (id == 1 && kind == PF_LIST) {
            if (pf_items(&from, &n, &kind) || (n && kind != PF_STRUCT) || n > capacity) return PF_BAD_PAGE;
            for (uint64_t i = 0; i < n; i++)
                if (pf_location(&from, out + i * PF_LOCATION_WORDS)) return PF_BAD_PAGE;
            found = (int64_t)n;
        } else if (pf_skip(&from, kind, 0)) return PF_BAD_PAGE;
    }
    return more ? more : found;
}

/* A list of one of the fields of a column index, at `word` of each page; returns its length. */
static int64_t pf_bounds_list(pf_thrift *from, const uint8_t *data, int expected, int word, int64_t *out,
                              size_t capacity) {
    uint64_t n, n_bytes;
    int kind;
    if (pf_items(from, &n, &kind) || n > capacity) return PF_BAD_PAGE;
    if (n && kind != expected && !(expected == PF_TRUE && kind == PF_FALSE)) return PF_BAD_PAGE;
    for (uint64_t i = 0; i < n; i++) {
        int64_t *page = out + i * PF_BOUND_WORDS + word;
        if (expected == PF_TRUE) {
            if (from->at == from->end) return PF_BAD_PAGE;
            page[0] = *from->at++ == PF_TRUE;
        } else if (expected == PF_BINARY) {
            if (pf_varint(from, &n_bytes) || n_bytes > (uint64_t)(from->end - from->at)) return PF_BAD_PAGE;
            page[0] = from->at - data;
            page[1] = (int64_t)n_bytes;
            from->at += n_bytes;
        } else if (pf_integer(from, page)) return PF_BAD_PAGE;
    }
    return (int64_t)n;
}

/* Reads the bounds of the pages; returns how many pages there are, at most `capacity`, or a negative number. */
static int64_t pf_column_index(const uint8_t *data, size_t size, int64_t *out, size_t capacity) {
    static const int kinds[6] = {0, PF_TRUE, PF_BINARY, PF_BINARY, 0, PF_I64};
    static const int words[6] = {0, PF_IS_NULL, PF_LOWER, PF_UPPER, 0, PF_NULLS};
    pf_thrift from = {data, data + size};
    int64_t id = 0, found[6] = {-1, -1, -1, -1, -1, -1};
    int kind = 0, more;
    for (size_t i = 0; i < capacity; i++) out[i * PF_BOUND_WORDS + PF_NULLS] = -1;
    while ((more = pf_field(&from, &id, &kind)) > 0) {
        if (id >= 1 && id <= 5 && kinds[id] && kind == PF_LIST) {
            found[id] = pf_bounds_list(&from, data, kinds[id], words[id], out, capacity);
            if (found[id] < 0) return PF_BAD_PAGE;
        } else if (pf_skip(&from, kind, 0)) return PF_BAD_PAGE;
    }
    if (more) return more;
    if (found[1] < 0 || found[2] != found[1] || found[3] != found[1]) return PF_BAD_PAGE;
    return found[5] < 0 || found[5] == found[1] ? found[1] : PF_BAD_PAGE;
}

#endif
