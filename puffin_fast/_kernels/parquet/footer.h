/* Row groups and column chunks of a Parquet footer, compared with the leaf columns of its schema: Thrift, compact
 * protocol.
 *
 *     FileMetaData 3: number of rows, 4: row groups
 *     RowGroup 1: columns, 3: number of rows
 *     ColumnChunk 3: ColumnMetaData, 4: offset of the offset index, 5: its bytes, 6: offset of the column index,
 *         7: its bytes, 8: encryption
 *     ColumnMetaData 1: type, 2: encodings, 4: codec, 5: number of values, 6: bytes without compression, 7: bytes,
 *         9: offset of the first data page, 11: of the dictionary page, 12: Statistics 1, 2, 5, 6: bounds,
 *         3: number of nulls, 8: whether the lower one is exact, 13: PageEncodingStats, 14: offset of the Bloom filter, 15: its bytes, 16: SizeStatistics
 *     PageEncodingStats 1: type of pages, 2: encoding, 3: number of pages
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

/* What is read of a column chunk. The encodings are bits; those that the format does not have share the last one. The
 * least value and the upper bound are given by the number of bytes from them to the end of the footer. */
enum { PF_CHUNK_CODEC, PF_CHUNK_ENCODINGS, PF_CHUNK_VALUES, PF_CHUNK_RAW_BYTES, PF_CHUNK_BYTES, PF_CHUNK_DATA,
       PF_CHUNK_DICTIONARY, PF_CHUNK_BLOOM, PF_CHUNK_BLOOM_BYTES, PF_CHUNK_VALUES_IN, PF_CHUNK_LEAST,
       PF_CHUNK_LEAST_BYTES, PF_CHUNK_UPPER, PF_CHUNK_UPPER_BYTES, PF_CHUNK_NULLS, PF_METADATA_WORDS,
       PF_CHUNK_OFFSETS = PF_METADATA_WORDS, PF_CHUNK_OFFSETS_BYTES, PF_CHUNK_BOUNDS, PF_CHUNK_BOUNDS_BYTES,
       PF_CHUNK_WORDS, PF_OTHER_ENCODING = 62 };

/* What the page encoding statistics say about the values of a column chunk: nothing, that all are in the dictionary, or
 * that some are not, or may not be. */
enum { PF_IN_UNKNOWN, PF_IN_DICTIONARY, PF_IN_PAGES };

/* The words of row groups: of each its number of rows, and those of its column chunks; -1: absent. Counted beyond the
 * capacity, not written. */
typedef struct {
    int64_t *at;
    size_t count, capacity;
    int64_t n_rows, n_groups; /* of the file; -1: absent */
} pf_groups;

static inline void pf_put(pf_groups *out, size_t place, int64_t word) {
    if (place < out->capacity) out->at[place] = word;
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
        } else if (pf_skip(from, kind, 0)) return PF_BAD_PAGE;
    }
    if (more) return more;
    if (has_bytes && leaf[PF_LEAF_TYPE] != PF_BYTE_ARRAY) return PF_CONTRADICTION;
    for (int i = 0; i < 2; i++)
        if (levels[i] && levels[i] != (int64_t)leaf[PF_LEAF_REPETITION + i] + 1) return PF_CONTRADICTION;
    return 0;
}

/* A bound must have the bytes of a value of its type. The lower one is the least value, unless it is said not to be. The
 * deprecated one may be the least in another order: then no upper bound is given. */
static int pf_bounds(pf_thrift *from, const int32_t *leaf, int64_t *words) {
    int64_t id = 0, least_id = 0;
    uint64_t n_bytes;
    int kind = 0, more, status = 0, is_exact = 1;
    for (int i = PF_CHUNK_LEAST; i <= PF_CHUNK_NULLS; i++) words[i] = -1;
    while ((more = pf_field(from, &id, &kind)) > 0) {
        if (kind == PF_BINARY && (id == 1 || id == 2 || id == 5 || id == 6)) {
            if (pf_varint(from, &n_bytes) || n_bytes > (uint64_t)(from->end - from->at)) return PF_BAD_PAGE;
            if (id % 4 == 2 && id >= least_id) { /* 2 is the deprecated one */
                least_id = id;
                words[PF_CHUNK_LEAST] = from->end - from->at;
                words[PF_CHUNK_LEAST_BYTES] = (int64_t)n_bytes;
            }
            if (id == 5) {
                words[PF_CHUNK_UPPER] = from->end - from->at;
                words[PF_CHUNK_UPPER_BYTES] = (int64_t)n_bytes;
            }
            from->at += n_bytes;
            if (n_bytes < (uint64_t)leaf[PF_LEAF_WIDTH]) status = PF_CONTRADICTION;
        } else if (id == 3 && kind == PF_I64) {
            if (pf_integer(from, words + PF_CHUNK_NULLS)) return PF_BAD_PAGE;
        } else if (id == 8 && (kind == PF_TRUE || kind == PF_FALSE)) is_exact = kind == PF_TRUE;
        else if (pf_skip(from, kind, 0)) return PF_BAD_PAGE;
    }
    if (least_id != 6) words[PF_CHUNK_UPPER] = words[PF_CHUNK_UPPER_BYTES] = -1;
    if (!is_exact) words[PF_CHUNK_LEAST] = words[PF_CHUNK_LEAST_BYTES] = -1;
    return more ? more : status;
}

static int pf_encodings(pf_thrift *from, int64_t *bits) {
    uint64_t n;
    int64_t encoding;
    int kind;
    *bits = 0;
    if (pf_items(from, &n, &kind) || (n && kind != PF_I32)) return PF_BAD_PAGE;
    while (n--) {
        if (pf_integer(from, &encoding)) return PF_BAD_PAGE;
        *bits |= (int64_t)1 << (0 <= encoding && encoding < PF_OTHER_ENCODING ? encoding : PF_OTHER_ENCODING);
    }
    return 0;
}

static int pf_encoding_stats(pf_thrift *from, int64_t *found) {
    enum { DATA = 0, DICTIONARY = 2, DATA_V2 = 3, PLAIN_DICTIONARY = 2, RLE_DICTIONARY = 8 };
    uint64_t n;
    int64_t id, words[3];
    int kind, more;
    *found = PF_IN_UNKNOWN;
    if (pf_items(from, &n, &kind) || (n && kind != PF_STRUCT)) return PF_BAD_PAGE;
    while (n--) {
        words[0] = words[1] = words[2] = -1;
        id = 0;
        while ((more = pf_field(from, &id, &kind)) > 0)
            if (1 <= id && id <= 3 && kind == PF_I32 ? pf_integer(from, words + id - 1) : pf_skip(from, kind, 0))
                return PF_BAD_PAGE;
        if (more) return PF_BAD_PAGE;
        if (words[0] == DICTIONARY || words[2] == 0) continue;
        const int is_data = (words[0] == DATA || words[0] == DATA_V2) && words[2] > 0;
        const int refers = words[1] == PLAIN_DICTIONARY || words[1] == RLE_DICTIONARY;
        if (!is_data || !refers) *found = PF_IN_PAGES;
        else if (*found == PF_IN_UNKNOWN) *found = PF_IN_DICTIONARY;
    }
    return 0;
}

static int pf_column_metadata(pf_thrift *from, const int32_t *leaf, int64_t *words) {
    static const int64_t absent[PF_METADATA_WORDS] = {-1, 0, -1, -1, -1, -1, -1, -1, -1, PF_IN_UNKNOWN, -1, -1, -1, -1, -1};
    static const int8_t place_of[16] = {-1, -1, -1, -1, PF_CHUNK_CODEC, PF_CHUNK_VALUES, PF_CHUNK_RAW_BYTES,
                                        PF_CHUNK_BYTES, -1, PF_CHUNK_DATA, -1, PF_CHUNK_DICTIONARY, -1, -1,
                                        PF_CHUNK_BLOOM, PF_CHUNK_BLOOM_BYTES};
    int64_t id = 0, type = -1;
    int kind = 0, more, status, size_status = 0, bounds_status = 0;
    memcpy(words, absent, sizeof(absent));
    while ((more = pf_field(from, &id, &kind)) > 0) {
        status = 0;
        if (id == 1 && kind == PF_I32) status = pf_integer(from, &type);
        else if (0 <= id && id < 16 && place_of[id] >= 0 && kind == (id == 4 || id == 15 ? PF_I32 : PF_I64))
            status = pf_integer(from, words + place_of[id]);
        else if (id == 2 && kind == PF_LIST) status = pf_encodings(from, words + PF_CHUNK_ENCODINGS);
        else if (id == 3 && kind == PF_LIST) status = pf_skip_list(from, PF_BINARY) < 0;
        else if (id == 8 && kind == PF_LIST) status = pf_skip_list(from, PF_STRUCT) < 0;
        else if (id == 13 && kind == PF_LIST) status = pf_encoding_stats(from, words + PF_CHUNK_VALUES_IN);
        else if (id == 12 && kind == PF_STRUCT) {
            bounds_status = pf_bounds(from, leaf, words);
            status = bounds_status == PF_BAD_PAGE;
        } else if (id == 16 && kind == PF_STRUCT) {
            size_status = pf_size_statistics(from, leaf);
            status = size_status == PF_BAD_PAGE;
        } else status = pf_skip(from, kind, 0);
        if (status) return PF_BAD_PAGE;
    }
    if (more) return more;
    if (type != leaf[PF_LEAF_TYPE] || words[PF_CHUNK_CODEC] < 0 || words[PF_CHUNK_CODEC] >= PF_CODECS)
        return PF_CONTRADICTION;
    return bounds_status ? bounds_status : size_status;
}

static int pf_column_chunk(pf_thrift *from, const int32_t *leaf, pf_groups *out) {
    int64_t id = 0, words[PF_CHUNK_WORDS];
    int kind = 0, more, status = PF_CONTRADICTION, encrypted = 0;
    for (int i = PF_METADATA_WORDS; i < PF_CHUNK_WORDS; i++) words[i] = -1;
    while ((more = pf_field(from, &id, &kind)) > 0) {
        if (id == 3 && kind == PF_STRUCT) {
            if ((status = pf_column_metadata(from, leaf, words)) == PF_BAD_PAGE) return PF_BAD_PAGE;
        } else if (id >= 4 && id <= 7 && kind == (id % 2 ? PF_I32 : PF_I64)) {
            if (pf_integer(from, words + PF_METADATA_WORDS + (id - 4))) return PF_BAD_PAGE;
        } else {
            encrypted |= id == 8 && kind == PF_STRUCT;
            if (pf_skip(from, kind, 0)) return PF_BAD_PAGE;
        }
    }
    if (more || encrypted || status) return more ? more : encrypted ? PF_ENCRYPTED : status;
    for (int i = 0; i < PF_CHUNK_WORDS; i++) pf_put(out, out->count++, words[i]);
    return 0;
}

static int pf_row_group(pf_thrift *from, const int32_t *leaves, size_t n_leaves, pf_groups *out) {
    int64_t id = 0, n_rows = -1;
    uint64_t n = 0;
    int kind = 0, more, status;
    const size_t start = out->count++;
    while ((more = pf_field(from, &id, &kind)) > 0) {
        if (id == 1 && kind == PF_LIST) {
            if (pf_items(from, &n, &kind) || (n && kind != PF_STRUCT)) return PF_BAD_PAGE;
            if (n != n_leaves) return PF_CONTRADICTION;
            out->count = start + 1; /* the last of several lists counts */
            for (size_t i = 0; i < n_leaves; i++)
                if ((status = pf_column_chunk(from, leaves + PF_LEAF_WORDS * i, out))) return status;
        } else if (id == 3 && kind == PF_I64) {
            if (pf_integer(from, &n_rows)) return PF_BAD_PAGE;
        } else if (id == 4 && kind == PF_LIST) {
            if (pf_skip_list(from, PF_STRUCT) < 0) return PF_BAD_PAGE;
        } else if (pf_skip(from, kind, 0)) return PF_BAD_PAGE;
    }
    pf_put(out, start, n_rows);
    return more ? more : n == n_leaves ? 0 : PF_CONTRADICTION;
}

/* Reads the row groups; 0 if the column chunks of all agree with the leaves of the schema. */
static int pf_read_groups(const uint8_t *data, size_t size, const int32_t *leaves, size_t n_leaves, pf_groups *out) {
    pf_thrift from = {data, data + size};
    int64_t id = 0;
    uint64_t n;
    int kind = 0, more, status;
    out->count = 0;
    out->n_rows = out->n_groups = -1;
    while ((more = pf_field(&from, &id, &kind)) > 0) {
        if (id == 3 && kind == PF_I64) {
            if (pf_integer(&from, &out->n_rows)) return PF_BAD_PAGE;
        } else if (id == 4 && kind == PF_LIST) {
            if (pf_items(&from, &n, &kind) || (n && kind != PF_STRUCT)) return PF_BAD_PAGE;
            out->count = 0;
            out->n_groups = (int64_t)n;
            while (n--)
                if ((status = pf_row_group(&from, leaves, n_leaves, out))) return status;
        } else if ((id == 2 || id == 5 || id == 7) && kind == PF_LIST) {
            if (pf_skip_list(&from, PF_STRUCT) < 0) return PF_BAD_PAGE;
        } else if (pf_skip(&from, kind, 0)) return PF_BAD_PAGE;
    }
    return more;
}

/* Where the number of rows and the row groups begin and end. The bytes before and after them are about the schema and
 * the writer. Negative if the row groups do not follow the number of rows. */
static int pf_find_groups(const uint8_t *data, size_t size, int64_t *start, int64_t *stop) {
    pf_thrift from = {data, data + size};
    int64_t id = 0, last = 0, at = 0;
    int kind = 0, more, seen = 0;
    while ((more = pf_field(&from, &id, &kind)) > 0) {
        const int is_known = kind == PF_LIST && (id == 2 || id == 4 || id == 5 || id == 7);
        if (is_known ? pf_skip_list(&from, PF_STRUCT) < 0 : pf_skip(&from, kind, 0)) return PF_BAD_PAGE;
        if (id == 3) *start = at;
        if (id == 4) {
            if (last != 3) return PF_BAD_PAGE;
            *stop = from.at - data;
            seen++;
        }
        last = id;
        at = from.at - data;
    }
    return more ? more : seen == 1 ? 0 : PF_BAD_PAGE;
}

#endif
