/* One data page of a Parquet column chunk: the cells of wanted rows, and which of them are null.
 *
 *     rows   0 1 2 3 4      places  0 -1 1 2 -1     (NULL: no row is null)
 *     values v0 v1 v2       cells   v0 0 v1 v2 0
 *
 * A leaf of structs has levels up to the number of optional fields on its path: a value has the highest one, and a
 * lower one says which field is null.
 *
 * Wanted rows are as in pages.h. Every function returns a negative number for bytes that do not have the expected
 * form. */
#ifndef PF_COLUMN_PAGE_H
#define PF_COLUMN_PAGE_H

#include <stdlib.h>

#include "text_views.h"

/* Encodings, by their numbers in the format. */
enum { PF_PLAIN = 0, PF_PLAIN_DICTIONARY = 2, PF_RLE = 3, PF_RLE_DICTIONARY = 8 };

enum { PF_MOST_LEVELS = 1 << 24 }; /* rows of a page with nulls: their levels are decoded at once */

typedef struct {
    int64_t stored; /* bytes of a stored value; 0 for byte strings and booleans */
    int64_t width;  /* bytes of a cell */
    int conversion;
    int is_text;
    int most_level; /* the definition level of values; 0: the column has no levels */
    pf_dictionary entries;
} pf_column;

typedef struct {
    const uint8_t *data; /* the encoded values, decompressed */
    size_t size;
    int64_t encoding;
    int64_t n_rows, n_values;
    int32_t *places;  /* the index of each row's value, -1 for null; NULL: no value is null */
    uint8_t *levels;  /* the definition level of each row; NULL: it follows from the place */
    int64_t place[2]; /* index and offset of the next byte string of a plain page */
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

/* Checks the bytes before the values, which a page of nulls has, too. */
static int pf_check_encoding(const pf_column *column, const pf_page *page) {
    if (pf_is_dictionary(page->encoding))
        return column->entries.data == NULL || (page->size && page->data[0] > 32) ? PF_BAD_PAGE : 0;
    if (page->encoding == PF_RLE && !column->stored && !column->is_text)
        return pf_boolean_bytes(page->data, page->size) < 0 ? PF_BAD_PAGE : 0;
    return page->encoding == PF_PLAIN ? 0 : PF_BAD_PAGE;
}

static inline void pf_close_page(pf_page *page) {
    free(page->places);
    free(page->levels);
    page->places = NULL;
    page->levels = NULL;
}

/* The places and levels of n_rows rows by their encoded levels; leaves NULL if no row is null. */
static int pf_load_places(pf_page *page, const uint8_t *data, size_t size, int most) {
    const size_t n = (size_t)page->n_rows;
    int width = 1;
    while (most >> width) width++;
    if (pf_all_most(data, size, n, most)) return 0;
    if (page->n_rows > PF_MOST_LEVELS) return PF_BAD_PAGE;
    int32_t *places = page->places = (int32_t *)malloc((n + 1) * sizeof(int32_t));
    if (places == NULL) return PF_BAD_PAGE;
    const uint32_t *levels = (const uint32_t *)places;
    if (pf_hybrid(data, size, width, page->n_rows, NULL, 0, n, (uint32_t *)places)) return PF_BAD_PAGE;
    if (most > 1) {
        uint32_t highest = 0;
        page->levels = (uint8_t *)malloc(n + 1);
        if (page->levels == NULL) return PF_BAD_PAGE;
        for (size_t i = 0; i < n; i++) {
            highest = levels[i] > highest ? levels[i] : highest;
            page->levels[i] = (uint8_t)levels[i];
        }
        if (highest > (uint32_t)most) return PF_BAD_PAGE;
    }
    page->n_values = pf_places(levels, n, (uint32_t)most, places);
    if (page->n_values == page->n_rows) pf_close_page(page);
    return 0;
}

/* The definition levels of wanted rows, which are inside the page. */
static void pf_wanted_levels(const pf_column *column, const pf_page *page, const int32_t *rows, int64_t base,
                             size_t count, uint8_t *out) {
    const uint8_t most = (uint8_t)column->most_level;
    if (page->places == NULL) memset(out, most, count);
    else if (page->levels == NULL)
        for (size_t i = 0; i < count; i++) out[i] = page->places[pf_wanted(rows, base, i)] < 0 ? 0 : most;
    else
        for (size_t i = 0; i < count; i++) out[i] = page->levels[pf_wanted(rows, base, i)];
}

/* The bytes of a data page's levels that are not compressed, by its header; negative if it contradicts itself. */
static inline int64_t pf_page_levels(const int64_t *header) {
    const int64_t n = header[PF_DEFINITION_BYTES];
    if (header[PF_TYPE] == 0) return 0;
    if (header[PF_REPETITION_BYTES] != 0 || header[PF_N_ROWS] != header[PF_N_VALUES]) return PF_BAD_PAGE;
    return 0 <= n && n <= header[PF_STORED_BYTES] && n <= header[PF_RAW_BYTES] ? n : PF_BAD_PAGE;
}

/* Whether the values of a data page are not compressed in any column chunk. */
static inline int pf_is_stored_raw(const int64_t *header) {
    return header[PF_TYPE] != 0 &&
           (header[PF_IS_COMPRESSED] == 0 || header[PF_STORED_BYTES] == header[PF_DEFINITION_BYTES]);
}

/* Starts a data page: `levels` of v2 stand apart, those of v1 at the start of `data`, the decompressed bytes. */
static int pf_open_page(const pf_column *column, pf_page *page, const int64_t *header, const uint8_t *levels,
                        const uint8_t *data, size_t size) {
    size_t n_levels = 0;
    pf_close_page(page);
    page->place[0] = page->place[1] = 0;
    page->n_rows = page->n_values = header[PF_N_VALUES];
    page->encoding = header[PF_ENCODING];
    if (header[PF_TYPE] != 0) n_levels = (size_t)header[PF_DEFINITION_BYTES];
    else if (column->most_level) {
        uint32_t declared;
        if (size < 4 || header[PF_LEVEL_ENCODING] != PF_RLE) return PF_BAD_PAGE;
        memcpy(&declared, data, 4);
        if (declared > size - 4) return PF_BAD_PAGE;
        n_levels = declared;
        levels = data + 4;
        data = levels + n_levels;
        size -= 4 + n_levels;
    }
    page->data = data;
    page->size = size;
    if (column->most_level && pf_load_places(page, levels, n_levels, column->most_level)) return PF_BAD_PAGE;
    if (header[PF_TYPE] != 0 && page->n_rows - page->n_values != header[PF_N_NULLS]) return PF_BAD_PAGE;
    return pf_check_encoding(column, page);
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
        if (!pf_all_inside(rows, base, count, page->n_values)) return PF_BAD_PAGE;
        return pf_views(page->data, page->size, buffer, rows, base, count, page->place, out);
    }
    if (column->stored == 0) return pf_booleans(page, rows, base, count, out);
    if (page->n_values > (int64_t)(page->size / (size_t)column->stored)) return PF_BAD_PAGE;
    return pf_fixed(page->data, page->size, column->stored, column->conversion, rows, base, count, out);
}

/* The cells of wanted rows; those of nulls are zero, and their bits from `first` on are cleared in `validity`. */
static int pf_nullable_cells(const pf_column *column, pf_page *page, uint32_t buffer, const int32_t *rows, int64_t base,
                             size_t count, uint8_t *out, uint8_t *validity, size_t first) {
    const size_t width = (size_t)column->width;
    size_t n = 0;
    int32_t *values;
    int status;
    if (!pf_all_inside(rows, base, count, page->n_rows)) return PF_BAD_PAGE;
    values = (int32_t *)malloc((count + 1) * sizeof(int32_t));
    if (values == NULL) return PF_BAD_PAGE;
    for (size_t i = 0; i < count; i++) {
        const int32_t place = page->places[pf_wanted(rows, base, i)];
        values[n] = place;
        n += place >= 0;
    }
    status = pf_cells(column, page, buffer, values, 0, n, out);
    free(values);
    if (status) return status;
    for (size_t i = count; i-- > 0;) { /* from the last one on: a cell only moves to a later place */
        if (page->places[pf_wanted(rows, base, i)] < 0) {
            memset(out + i * width, 0, width);
            validity[(first + i) >> 3] &= (uint8_t)~(1u << ((first + i) & 7));
        } else if (--n < i) memcpy(out + i * width, out + n * width, width);
    }
    return 0;
}

#endif
