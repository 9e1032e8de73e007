/* Column chunks of a Parquet footer, compared with the leaf columns of its schema: Thrift, compact protocol.
 *
 *     FileMetaData 4: row groups -> RowGroup 1: columns -> ColumnChunk 3: ColumnMetaData, 8: encryption
 *     ColumnMetaData 1: type, 4: codec, 12: Statistics 1, 2, 5, 6: bounds, 16: SizeStatistics
 *     SizeStatistics 1: bytes of values, 2: repetition levels, 3: definition levels
 *
 * As in Thrift's own readers, the last of several fields of one id counts, and a field of another kind is skipped. A
 * list must have items of the kind that the format states, because those readers do not look at it. */
#ifndef PF_FOOTER_H
#define PF_FOOTER_H

#include "page_header.h"

enum { PF_CONTRADICTION = -2, PF_ENCRYPTED = -3 };

enum { PF_LEAF_TYPE, PF_LEAF_REPETITION, PF_LEAF_DEFINITION, PF_LEAF_WIDTH, PF_LEAF_WORDS };

enum { PF_BYTE_ARRAY = 6, PF_CODECS = 8 };

/* The number of items of a list: each takes one byte at least. */
static int pf_items(pf_thrift *from, uint64_t *n, int *kind) {
    if (from->at == from->end) return PF_BAD_PAGE;
    uint8_t head = *from->at++;
    *kind = head & 15;
    *n = head >> 4;
    if (*n == 15 && pf_varint(from, n)) return PF_BAD_PAGE;
    return *n > (uint64_t)(from->end - from->at) ? PF_BAD_PAGE : 0;
}

static int pf_skip_value(pf_thrift *from, int kind, int depth);

static int pf_skip_item(pf_thrift *from, int kind, int depth) {
    /* a boolean in a list has a byte of its own */
    return pf_skip_value(from, kind == PF_TRUE || kind == PF_FALSE ? PF_I8 : kind, depth);
}

static int pf_skip_value(pf_thrift *from, int kind, int depth) {
    int64_t id = 0;
    uint64_t n;
    int inner = 0, more;
    if (depth > PF_MAX_DEPTH) return PF_BAD_PAGE;
    if (kind == PF_STRUCT) {
        while ((more = pf_field(from, &id, &inner)) > 0)
            if (pf_skip_value(from, inner, depth + 1)) return PF_BAD_PAGE;
        return more;
    }
    if (kind == PF_MAP) return PF_BAD_PAGE; /* footers have no maps */
    if (kind != PF_LIST && kind != PF_SET) return pf_skip(from, kind, depth);
    if (pf_items(from, &n, &inner)) return PF_BAD_PAGE;
    while (n--)
        if (pf_skip_item(from, inner, depth + 1)) return PF_BAD_PAGE;
    return 0;
}

/* Skips a list whose items must be of a kind; returns how many there are, or a negative number. */
static int64_t pf_skip_list(pf_thrift *from, int expected) {
    uint64_t n;
    int kind;
    if (pf_items(from, &n, &kind) || (n && kind != expected)) return PF_BAD_PAGE;
    for (uint64_t i = 0; i < n; i++)
        if (pf_skip_item(from, kind, 0)) return PF_BAD_PAGE;
    return (int64_t)n;
}

static int pf_size_statistics(pf_thrift *from, const int32_t *leaf) {
    int64_t id = 0, value, levels[2] = {0, 0};
    int kind = 0, more, has_bytes = 0;
    while ((more = pf_field(from, &id, &kind)) > 0) {
        if (id == 1 && kind == PF_I64) {
            if (pf_integer(from, &value)) return PF_BAD_PAGE;
            has_bytes = 1;
        } else if ((id == 2 || id == 3) && kind == PF_LIST) {
            if ((levels[id - 2] = pf_skip_list(from, PF_I64)) < 0) return PF_BAD_PAGE;
        } else if (pf_skip_value(from, kind, 0)) return PF_BAD_PAGE;
    }
    if (more) return more;
    if (has_bytes && leaf[PF_LEAF_TYPE] != PF_BYTE_ARRAY) return PF_CONTRADICTION;
    for (int i = 0; i < 2; i++)
        if (levels[i] && levels[i] != (int64_t)leaf[PF_LEAF_REPETITION + i] + 1) return PF_CONTRADICTION;
    return 0;
}

/* A bound must have the bytes of a value of its type. */
static int pf_bounds(pf_thrift *from, const int32_t *leaf) {
    int64_t id = 0;
    uint64_t n_bytes;
    int kind = 0, more, status = 0;
    while ((more = pf_field(from, &id, &kind)) > 0) {
        if (kind == PF_BINARY) {
            if (pf_varint(from, &n_bytes) || n_bytes > (uint64_t)(from->end - from->at)) return PF_BAD_PAGE;
            from->at += n_bytes;
            if (n_bytes < (uint64_t)leaf[PF_LEAF_WIDTH]) status = PF_CONTRADICTION;
        } else if (pf_skip_value(from, kind, 0)) return PF_BAD_PAGE;
    }
    return more ? more : status;
}

static int pf_column_metadata(pf_thrift *from, const int32_t *leaf) {
    int64_t id = 0, type = -1, codec = -1;
    int kind = 0, more, status, size_status = 0, bounds_status = 0;
    while ((more = pf_field(from, &id, &kind)) > 0) {
        status = 0;
        if (id == 1 && kind == PF_I32) status = pf_integer(from, &type);
        else if (id == 4 && kind == PF_I32) status = pf_integer(from, &codec);
        else if (id == 2 && kind == PF_LIST) status = pf_skip_list(from, PF_I32) < 0;
        else if (id == 3 && kind == PF_LIST) status = pf_skip_list(from, PF_BINARY) < 0;
        else if ((id == 8 || id == 13) && kind == PF_LIST) status = pf_skip_list(from, PF_STRUCT) < 0;
        else if (id == 12 && kind == PF_STRUCT) {
            bounds_status = pf_bounds(from, leaf);
            status = bounds_status == PF_BAD_PAGE;
        } else if (id == 16 && kind == PF_STRUCT) {
            size_status = pf_size_statistics(from, leaf);
            status = size_status == PF_BAD_PAGE;
        } else status = pf_skip_value(from, kind, 0);
        if (status) return PF_BAD_PAGE;
    }
    if (more) return more;
    if (type != leaf[PF_LEAF_TYPE] || codec < 0 || codec >= PF_CODECS) return PF_CONTRADICTION;
    return bounds_status ? bounds_status : size_status;
}

static int pf_column_chunk(pf_thrift *from, const int32_t *leaf) {
    int64_t id = 0;
    int kind = 0, more, status = PF_CONTRADICTION, encrypted = 0;
    while ((more = pf_field(from, &id, &kind)) > 0) {
        if (id == 3 && kind == PF_STRUCT) {
            if ((status = pf_column_metadata(from, leaf)) == PF_BAD_PAGE) return PF_BAD_PAGE;
        } else {
            encrypted |= id == 8 && kind == PF_STRUCT;
            if (pf_skip_value(from, kind, 0)) return PF_BAD_PAGE;
        }
    }
    return more ? more : encrypted ? PF_ENCRYPTED : status;
}

static int pf_row_group(pf_thrift *from, const int32_t *leaves, size_t n_leaves) {
    int64_t id = 0;
    uint64_t n = 0;
    int kind = 0, more, status;
    while ((more = pf_field(from, &id, &kind)) > 0) {
        if (id == 1 && kind == PF_LIST) {
            if (pf_items(from, &n, &kind) || (n && kind != PF_STRUCT)) return PF_BAD_PAGE;
            if (n != n_leaves) return PF_CONTRADICTION;
            for (size_t i = 0; i < n_leaves; i++)
                if ((status = pf_column_chunk(from, leaves + PF_LEAF_WORDS * i))) return status;
        } else if (id == 4 && kind == PF_LIST) {
            if (pf_skip_list(from, PF_STRUCT) < 0) return PF_BAD_PAGE;
        } else if (pf_skip_value(from, kind, 0)) return PF_BAD_PAGE;
    }
    return more ? more : n == n_leaves ? 0 : PF_CONTRADICTION;
}

/* 0 if the column chunks of all row groups agree with the leaves of the schema. */
static int pf_check_chunks(const uint8_t *data, size_t size, const int32_t *leaves, size_t n_leaves) {
    pf_thrift from = {data, data + size};
    int64_t id = 0;
    uint64_t n;
    int kind = 0, more, status;
    while ((more = pf_field(&from, &id, &kind)) > 0) {
        if (id == 4 && kind == PF_LIST) {
            if (pf_items(&from, &n, &kind) || (n && kind != PF_STRUCT)) return PF_BAD_PAGE;
            while (n--)
                if ((status = pf_row_group(&from, leaves, n_leaves))) return status;
        } else if ((id == 2 || id == 5 || id == 7) && kind == PF_LIST) {
            if (pf_skip_list(&from, PF_STRUCT) < 0) return PF_BAD_PAGE;
        } else if (pf_skip_value(&from, kind, 0)) return PF_BAD_PAGE;
    }
    return more;
}

#endif
