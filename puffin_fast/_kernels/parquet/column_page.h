/* One data page of a Parquet column chunk: the cells of wanted rows, and which of them are null.
 *
 *     rows   0 1 2 3 4      places  0 -1 1 2 -1     (NULL: no row is null)
 *     values v0 v1 v2       cells   v0 0 v1 v2 0
 *
 * A leaf of structs has levels up to the number of optional fields on its path: a value has the highest one, and a
 * lower one says which field is null.
 *
 * A leaf inside lists of one level has a row here for each level: an item, or a list that is null or empty.
 *
 * Wanted rows are as in pages.h. Every function returns a negative number for bytes that do not have the expected
 * form. */
#ifndef PF_COLUMN_PAGE_H
#define PF_COLUMN_PAGE_H

#include <stdlib.h>

#include "deltas.h"
#include "page_memory.h"
#include "text_views.h"

/* Encodings, by their numbers in the format. */
enum { PF_PLAIN = 0, PF_PLAIN_DICTIONARY = 2, PF_RLE = 3, PF_DELTA_BINARY_PACKED = 5, PF_DELTA_LENGTH_BYTE_ARRAY = 6,
       PF_DELTA_BYTE_ARRAY = 7, PF_RLE_DICTIONARY = 8, PF_BYTE_STREAM_SPLIT = 9 };

enum { PF_MOST_LEVELS = 1 << 24 }; /* rows of a page with nulls: their levels are decoded at once */

typedef struct {
    int64_t stored; /* bytes of a stored value; 0 for byte strings and booleans */
    int64_t width;  /* bytes of a cell */
    int conversion;
    int is_text;
    int most_level; /* the definition level of values; 0: the column has no levels */
    int repeats;    /* whether it has repetition levels, of at most 1 */
    pf_dictionary entries;
} pf_column;

typedef struct {
    const uint8_t *data; /* the encoded values, decompressed */
    size_t size;
    int64_t encoding;
    int64_t n_rows, n_values;
    uint8_t *levels;  /* the definition level of each row; NULL: no value is null */
    int32_t *places;  /* the index of each row's value, -1 for null; NULL: not made yet */
    int64_t passed[2]; /* a row, and the number of values before it */
    int64_t place[2]; /* index and offset of the next byte string of a plain page */
    int32_t *starts;  /* of the lists of a column that repeats, ascending from 0 */
    size_t n_lists;
    pf_grown plain;   /* the values of another encoding, decoded */
} pf_page;

static inline int pf_is_dictionary(int64_t encoding) {
    return encoding == PF_PLAIN_DICTIONARY || encoding == PF_RLE_DICTIONARY;
}

/* The bytes of the runs of booleans, which stand after their number; negative if there are fewer. */
static inline int64_t pf_boolean_bytes(const uint8_t *data, size_t size) {
    uint32_t n_bytes;
    if (size < 4) return PF_BAD_PAGE;
    memcpy(&n_bytes, data, 4);
    return n_bytes <= size - 4 ? (int64_t)n_bytes : PF_BAD_PAGE;
}

/* Whether texts are encoded by their lengths, or what they have in common with the text before. */
static inline int pf_is_delta_text(int64_t encoding) {
    return encoding == PF_DELTA_LENGTH_BYTE_ARRAY || encoding == PF_DELTA_BYTE_ARRAY;
}

/* Decodes numbers to those of a plain page; texts stay as they are. */
static int pf_make_plain(const pf_column *column, pf_page *page) {
    const size_t width = (size_t)column->stored;
    const int is_delta = page->encoding == PF_DELTA_BINARY_PACKED;
    if (!is_delta && page->encoding != PF_BYTE_STREAM_SPLIT) return 0;
    if (width == 0 || (is_delta && width != 4 && width != 8)) return PF_BAD_PAGE;
    if (page->n_values > PF_MOST_DELTAS || pf_grow(&page->plain, (size_t)page->n_values * width)) return PF_BAD_PAGE;
    if (page->n_values == 0) {
    } else if (is_delta) {
        if (pf_deltas(page->data, page->size, page->n_values, width, page->plain.data) < 0) return PF_BAD_PAGE;
    } else if (pf_join_streams(page->data, page->size, page->n_values, width, page->plain.data)) return PF_BAD_PAGE;
    page->data = page->plain.data;
    page->size = (size_t)page->n_values * width;
    page->encoding = PF_PLAIN;
    return 0;
}

/* Checks the bytes before the values, which a page of nulls has, too. */
static int pf_check_encoding(const pf_column *column, const pf_page *page) {
    if (pf_is_dictionary(page->encoding))
        return column->entries.data == NULL || (page->size && page->data[0] > 32) ? PF_BAD_PAGE : 0;
    if (page->encoding == PF_RLE && !column->stored && !column->is_text)
        return pf_boolean_bytes(page->data, page->size) < 0 ? PF_BAD_PAGE : 0;
    if (pf_is_delta_text(page->encoding)) return column->is_text ? 0 : PF_BAD_PAGE;
    return page->encoding == PF_PLAIN ? 0 : PF_BAD_PAGE;
}

static inline void pf_close_page(pf_page *page) {
    free(page->places);
    free(page->levels);
    free(page->starts);
    page->places = NULL;
    page->levels = NULL;
    page->starts = NULL;
}

/* The lists of a page by their encoded repetition levels; the first one must begin in it. */
static int pf_load_starts(pf_page *page, const uint8_t *data, size_t size) {
    const size_t n = (size_t)page->n_rows;
    if (page->n_rows > PF_MOST_LEVELS) return PF_BAD_PAGE;
    page->starts = (int32_t *)malloc((n + 1) * sizeof(int32_t));
    page->n_lists = 0;
    if (page->starts == NULL || pf_hybrid(data, size, 1, page->n_rows, NULL, 0, n, (uint32_t *)page->starts) ||
        (n && page->starts[0] != 0))
        return PF_BAD_PAGE;
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        const int is_first = page->starts[i] == 0;
        page->starts[found] = (int32_t)i;
        found += is_first;
    }
    page->n_lists = found;
    return 0;
}

/* The levels of n_rows rows by their encoded levels; leaves NULL if no row is null. */
static int pf_load_levels(pf_page *page, const uint8_t *data, size_t size, int most) {
    const size_t n = (size_t)page->n_rows;
    int width = 1;
    while (most >> width) width++;
    if (pf_all_most(data, size, n, most)) return 0;
    if (page->n_rows > PF_MOST_LEVELS) return PF_BAD_PAGE;
    page->levels = (uint8_t *)malloc(n + 1);
    if (page->levels == NULL) return PF_BAD_PAGE;
    page->n_values = pf_levels_of(data, size, width, most, n, page->levels);
    if (page->n_values < 0) return PF_BAD_PAGE;
    if (page->n_values == page->n_rows) {
        free(page->levels);
        page->levels = NULL;
    }
    return 0;
}

/* Makes the places of the values of a page with nulls. */
static int pf_place_values(const pf_column *column, pf_page *page) {
    if (page->places != NULL) return 0;
    page->places = (int32_t *)malloc(((size_t)page->n_rows + 1) * sizeof(int32_t));
    if (page->places == NULL) return PF_BAD_PAGE;
    pf_places(page->levels, (size_t)page->n_rows, column->most_level, page->places);
    return 0;
}

/* The definition levels of wanted rows, which are inside the page. */
static void pf_wanted_levels(const pf_column *column, const pf_page *page, const int32_t *rows, int64_t base,
                             size_t count, uint8_t *out) {
    if (page->levels == NULL) memset(out, column->most_level, count);
    else if (rows == NULL) memcpy(out, page->levels + base, count);
    else
        for (size_t i = 0; i < count; i++) out[i] = page->levels[base + rows[i]];
}

/* The bytes of a data page's levels that are not compressed, by its header; negative if it contradicts itself. */
static inline int64_t pf_page_levels(const pf_column *column, const int64_t *header) {
    const int64_t n = header[PF_DEFINITION_BYTES], n_repeats = header[PF_REPETITION_BYTES];
    const int64_t most = header[PF_STORED_BYTES] < header[PF_RAW_BYTES] ? header[PF_STORED_BYTES] : header[PF_RAW_BYTES];
    if (header[PF_TYPE] == 0) return 0;
    if (!column->repeats && (n_repeats != 0 || header[PF_N_ROWS] != header[PF_N_VALUES])) return PF_BAD_PAGE;
    return 0 <= n && 0 <= n_repeats && n <= most && n_repeats <= most - n ? n + n_repeats : PF_BAD_PAGE;
}

/* Whether the values of a data page are not compressed in any column chunk. */
static inline int pf_is_stored_raw(const int64_t *header) {
    return header[PF_TYPE] != 0 &&
           (header[PF_IS_COMPRESSED] == 0 ||
            header[PF_STORED_BYTES] == header[PF_DEFINITION_BYTES] + header[PF_REPETITION_BYTES]);
}

/* Levels of a page of v1, which stand after their number of bytes; moves to what is after them. */
static int pf_take_levels(const uint8_t **data, size_t *size, const uint8_t **levels, size_t *n_levels) {
    uint32_t declared;
    if (*size < 4) return PF_BAD_PAGE;
    memcpy(&declared, *data, 4);
    if (declared > *size - 4) return PF_BAD_PAGE;
    *levels = *data + 4;
    *n_levels = declared;
    *data += 4 + (size_t)declared;
    *size -= 4 + (size_t)declared;
    return 0;
}

/* Starts a data page: `levels` of v2 stand apart, those of v1 at the start of `data`, the decompressed bytes. */
static int pf_open_page(const pf_column *column, pf_page *page, const int64_t *header, const uint8_t *levels,
                        const uint8_t *data, size_t size) {
    size_t n_levels = 0, n_repeats = 0;
    const uint8_t *repeats = levels;
    pf_close_page(page);
    page->place[0] = page->place[1] = 0;
    page->passed[0] = page->passed[1] = 0;
    page->n_rows = page->n_values = header[PF_N_VALUES];
    page->encoding = header[PF_ENCODING];
    if (header[PF_TYPE] != 0) {
        n_levels = (size_t)header[PF_DEFINITION_BYTES];
        n_repeats = (size_t)header[PF_REPETITION_BYTES];
        levels += n_repeats;
    } else {
        if (column->repeats &&
            (header[PF_REPETITION_ENCODING] != PF_RLE || pf_take_levels(&data, &size, &repeats, &n_repeats)))
            return PF_BAD_PAGE;
        if (column->most_level &&
            (header[PF_LEVEL_ENCODING] != PF_RLE || pf_take_levels(&data, &size, &levels, &n_levels)))
            return PF_BAD_PAGE;
    }
    page->data = data;
    page->size = size;
    if (column->repeats && pf_load_starts(page, repeats, n_repeats)) return PF_BAD_PAGE;
    if (column->repeats && header[PF_TYPE] != 0 && header[PF_N_ROWS] != (int64_t)page->n_lists) return PF_BAD_PAGE;
    if (column->most_level && pf_load_levels(page, levels, n_levels, column->most_level)) return PF_BAD_PAGE;
    if (header[PF_TYPE] != 0 && page->n_rows - page->n_values != header[PF_N_NULLS]) return PF_BAD_PAGE;
    return pf_make_plain(column, page) ? PF_BAD_PAGE : pf_check_encoding(column, page);
}

/* Booleans, one byte each. */
static int pf_booleans(const pf_page *page, const int32_t *rows, int64_t base, size_t count, uint8_t *out) {
    if (page->encoding == PF_PLAIN) {
        if ((page->n_values + 7) / 8 > (int64_t)page->size || !pf_all_inside(rows, base, count, page->n_values))
            return PF_BAD_PAGE;
        for (size_t i = 0; i < count; i++) {
            const int64_t at = pf_wanted(rows, base, i);
            out[i] = page->data[at >> 3] >> (at & 7) & 1;
        }
        return 0;
    }
    const int64_t n_bytes = pf_boolean_bytes(page->data, page->size);
    uint32_t *codes = (uint32_t *)malloc(count * sizeof(uint32_t));
    if (n_bytes < 0 || codes == NULL ||
        pf_hybrid(page->data + 4, (size_t)n_bytes, 1, page->n_values, rows, base, count, codes)) {
        free(codes);
        return PF_BAD_PAGE;
    }
    for (size_t i = 0; i < count; i++) out[i] = (uint8_t)codes[i];
    free(codes);
    return 0;
}

/* The cells of wanted values, which are not null. `buffer` is the number of the page among those of views. */
static int pf_cells(const pf_column *column, pf_page *page, uint32_t buffer, const int32_t *rows, int64_t base,
                    size_t count, uint8_t *out) {
    if (count == 0) return 0;
    if (pf_is_dictionary(page->encoding)) {
        if (page->size == 0) return PF_BAD_PAGE;
        return pf_entries(page->data + 1, page->size - 1, page->data[0], page->n_values, rows, base, count,
                          &column->entries, out);
    }
    if (column->is_text) {
        if (column->width != PF_VIEW_BYTES || !pf_all_inside(rows, base, count, page->n_values)) return PF_BAD_PAGE;
        return pf_views(page->data, page->size, buffer, rows, base, count, page->place, out);
    }
    if (column->stored == 0) return pf_booleans(page, rows, base, count, out);
    if (page->n_values > (int64_t)(page->size / (size_t)column->stored)) return PF_BAD_PAGE;
    return pf_fixed(page->data, page->size, column->stored, column->conversion, rows, base, count, out);
}

/* Moves the values that stand at the end of the cells to their rows, from the first one on, without a branch: there are
 * as many cells in front of them as nulls are left. */
#define PF_SPREAD(type)                                                              \
    for (size_t i = 0; i < count; i++) {                                             \
        const size_t is_value = levels[pf_wanted(rows, base, i)] == most;            \
        type value;                                                                  \
        memcpy(&value, out + (at < count ? at : count - 1) * sizeof(type), sizeof(type)); \
        value &= (type)-(type)is_value;                                              \
        memcpy(out + i * sizeof(type), &value, sizeof(type));                        \
        at += is_value;                                                              \
    }

static void pf_spread(const uint8_t *levels, uint8_t most, const int32_t *rows, int64_t base, size_t count, size_t n,
                      size_t width, uint8_t *out) {
    size_t at = count - n;
    if (width == 1) {
        PF_SPREAD(uint8_t)
    } else if (width == 4) {
        PF_SPREAD(uint32_t)
    } else if (width == 8) {
        PF_SPREAD(uint64_t)
    } else {
        for (size_t i = 0; i < count; i++) {
            if (levels[pf_wanted(rows, base, i)] != most) memset(out + i * width, 0, width);
            else {
                if (at != i) memmove(out + i * width, out + at * width, width);
                at++;
            }
        }
    }
}

/* The cells of wanted rows; those of nulls are zero, and their bits from `first` on are cleared in `validity`. */
static int pf_nullable_cells(const pf_column *column, pf_page *page, uint32_t buffer, const int32_t *rows, int64_t base,
                             size_t count, uint8_t *out, uint8_t *validity, size_t first) {
    const size_t width = (size_t)column->width;
    const uint8_t most = (uint8_t)column->most_level, *levels = page->levels;
    int32_t *values = NULL;
    int64_t start = 0;
    size_t n = 0;
    int status;
    if (!pf_all_inside(rows, base, count, page->n_rows)) return PF_BAD_PAGE;
    if (rows == NULL) { /* the values are one after the other; calls are in the order of the rows */
        int64_t *passed = page->passed;
        if (base < passed[0]) passed[0] = passed[1] = 0;
        start = passed[1] + (int64_t)pf_count_level(levels + passed[0], (size_t)(base - passed[0]), most);
        n = pf_count_level(levels + base, count, most);
        passed[0] = base + (int64_t)count;
        passed[1] = start + (int64_t)n;
    } else {
        values = (int32_t *)malloc((count + 1) * sizeof(int32_t));
        if (values == NULL || pf_place_values(column, page)) {
            free(values);
            return PF_BAD_PAGE;
        }
        for (size_t i = 0; i < count; i++) {
            const int32_t place = page->places[base + rows[i]];
            values[n] = place;
            n += place >= 0;
        }
    }
    status = pf_cells(column, page, buffer, values, start, n, out + (count - n) * width);
    free(values);
    if (status) return status;
    pf_spread(levels, most, rows, base, count, n, width, out);
    pf_clear_below(levels, rows, base, count, most, validity, first);
    return 0;
}

static int pf_compare_codes(const void *left, const void *right) {
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

/* The codes of wanted rows of a page that are not null, ascending; returns their number. `codes` has room for `count`. */
static int64_t pf_codes_of(const pf_column *column, pf_page *page, const int32_t *rows, int64_t base, size_t count,
                           uint32_t *codes) {
    int32_t *values = NULL;
    size_t n = count;
    int status = 0;
    if (!pf_all_inside(rows, base, count, page->n_rows)) return PF_BAD_PAGE;
    if (page->levels != NULL) {
        values = (int32_t *)malloc((count + 1) * sizeof(int32_t));
        if (values == NULL || pf_place_values(column, page)) {
            free(values);
            return PF_BAD_PAGE;
        }
        n = 0;
        for (size_t i = 0; i < count; i++) {
            values[n] = page->places[pf_wanted(rows, base, i)];
            n += values[n] >= 0;
        }
    }
    if (n)
        status = page->size == 0 || pf_hybrid(page->data + 1, page->size - 1, page->data[0], page->n_values,
                                              values == NULL ? rows : values, values == NULL ? base : 0, n, codes);
    free(values);
    if (status) return PF_BAD_PAGE;
    qsort(codes, n, sizeof(uint32_t), pf_compare_codes);
    return (int64_t)n;
}

/* Writes the views of some entries of a dictionary of byte strings, whose codes ascend, to their places. */
static int pf_some_entries(const uint8_t *data, size_t size, const uint32_t *codes, size_t n, uint8_t *entries) {
    int64_t place[2] = {0, 0};
    for (size_t i = 0; i < n; i++) {
        if (i && codes[i] == codes[i - 1]) continue;
        if (pf_views(data, size, 0, NULL, codes[i], 1, place, entries + (size_t)codes[i] * PF_VIEW_BYTES))
            return PF_BAD_PAGE;
    }
    return 0;
}

#endif
