/* Pages of a Parquet column chunk: levels, dictionary codes, and the values of wanted rows.
 *
 * Wanted values are indexes into the values of a page, ascending: base, base + 1, ..., or rows[i] + base.
 * Every function checks lengths and indexes before it reads, and returns a negative number for bytes that do not
 * have the expected form. */
#ifndef PF_PAGES_H
#define PF_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "page_header.h"
#include "simd.h"

enum { PF_BLOCK = 1024 };

/* Conversions of fixed-width values. */
enum { PF_SAME = 0, PF_INT32_TO_INT128 = 1, PF_INT64_TO_INT128 = 2, PF_BIG_ENDIAN_TO_INT128 = 3 };

static inline int64_t pf_wanted(const int32_t *rows, int64_t base, size_t i) {
    return rows == NULL ? base + (int64_t)i : base + rows[i];
}

/* Whether the indexes ascend and all are below n. */
static inline int pf_all_inside(const int32_t *rows, int64_t base, size_t count, int64_t n) {
    int ascend = 1;
    if (count == 0) return 1;
    if (rows == NULL) return base >= 0 && base <= n && (int64_t)count <= n - base;
    for (size_t i = 1; i < count; i++) ascend &= rows[i - 1] < rows[i];
    return ascend && base >= -(int64_t)INT32_MAX - 1 && base <= n && base + rows[0] >= 0 && base + rows[count - 1] < n;
}

/* The number of rows below an end; they ascend. */
static inline size_t pf_rows_below(const int32_t *rows, size_t count, int64_t end) {
    size_t low = 0;
    while (low < count) {
        const size_t middle = low + (count - low) / 2;
        if (rows[middle] < end) low = middle + 1;
        else count = middle;
    }
    return low;
}

/* Levels and codes: runs of one value, and groups of 8 packed values ------------------------------------------ */

static inline uint64_t pf_load(const uint8_t *at, const uint8_t *end) {
    uint64_t word = 0;
    if (end - at >= 8) memcpy(&word, at, 8);
    else memcpy(&word, at, (size_t)(end - at));
    return word;
}

static inline uint32_t pf_unpacked(const uint8_t *run, const uint8_t *end, int width, uint64_t index, uint64_t mask) {
    const uint64_t bit = index * (uint64_t)width;
    return (uint32_t)(pf_load(run + (bit >> 3), end) >> (bit & 7) & mask);
}

/* Packed values first, first + 1, ... of a run that ends at `end`; at most 32 bits each. */
PF_BODY void pf_unpack(const uint8_t *run, const uint8_t *end, int width, uint64_t first, size_t count, uint32_t *out) {
    const uint64_t mask = width == 0 ? 0 : ~0ull >> (64 - width);
    size_t i = 0;
    for (; i < count && ((first + i) & 7); i++) out[i] = pf_unpacked(run, end, width, first + i, mask);
    const uint8_t *at = run + ((first + i) >> 3) * (size_t)width; /* of a group of 8 values; not past `end` if one follows */
    for (; i + 8 <= count && end - at >= 40; i += 8, at += width) {
        uint64_t word, next;
        memcpy(&word, at, 8);
        if (width <= 8) {
            for (int k = 0; k < 8; k++) out[i + k] = (uint32_t)(word >> (k * width) & mask);
        } else if (width <= 14) {
            memcpy(&next, at + (4 * width >> 3), 8);
            next >>= 4 * width & 7;
            for (int k = 0; k < 4; k++) out[i + k] = (uint32_t)(word >> (k * width) & mask);
            for (int k = 0; k < 4; k++) out[i + 4 + k] = (uint32_t)(next >> (k * width) & mask);
        } else { /* the last begins in byte 28 or before */
            for (int k = 0; k < 8; k++) {
                memcpy(&word, at + (k * width >> 3), 8);
                out[i + k] = (uint32_t)(word >> (k * width & 7) & mask);
            }
        }
    }
    for (; i < count; i++) out[i] = pf_unpacked(run, end, width, first + i, mask);
}

/* The run of a stream of values: one value, or packed ones. */
typedef struct {
    pf_thrift from;     /* after the run */
    const uint8_t *run; /* its packed values */
    int64_t start, stop; /* the indexes of its first value and of the one after its last */
    uint32_t value;
    int is_packed;
} pf_runs;

/* The next run of n_values values of `width` <= 32 bits. */
static int pf_next_run(pf_runs *at, int width, int64_t n_values) {
    uint64_t head;
    at->start = at->stop;
    if (at->start >= n_values || pf_varint(&at->from, &head)) return PF_BAD_PAGE;
    at->is_packed = head & 1;
    head >>= 1;
    if (head == 0 || head > INT32_MAX) return PF_BAD_PAGE;
    const uint64_t n_run = at->is_packed ? head * 8 : head;
    const uint64_t n_bytes = at->is_packed ? head * (uint64_t)width : (uint64_t)(width + 7) / 8;
    if (n_bytes > (uint64_t)(at->from.end - at->from.at)) return PF_BAD_PAGE;
    at->run = at->from.at;
    at->from.at += n_bytes;
    if (n_run < (uint64_t)(n_values - at->start)) at->stop = at->start + (int64_t)n_run;
    else at->stop = n_values;
    if (!at->is_packed) {
        const uint64_t word = pf_load(at->run, at->from.at);
        if (word > (width == 0 ? 0 : ~0ull >> (64 - width))) return PF_BAD_PAGE;
        at->value = (uint32_t)word;
    }
    return 0;
}

/* The wanted values, each in or after the run; `at` is moved to the run of the last of them. */
PF_BODY int pf_values(pf_runs *at, int width, int64_t n_values, const int32_t *rows, int64_t base,
                      size_t count, uint32_t *out) {
    const uint64_t mask = width == 0 ? 0 : ~0ull >> (64 - width);
    size_t i = 0;
    const uint8_t *const end = at->from.end;
    uint32_t block[PF_BLOCK];
    while (i < count) {
        while (pf_wanted(rows, base, i) >= at->stop)
            if (pf_next_run(at, width, n_values)) return PF_BAD_PAGE;
        if (!at->is_packed) {
            if (rows == NULL) for (; i < count && base + (int64_t)i < at->stop; i++) out[i] = at->value;
            else for (; i < count && base + rows[i] < at->stop; i++) out[i] = at->value;
        } else if (rows == NULL) {
            const int64_t first = base + (int64_t)i;
            size_t some = (size_t)(at->stop - first);
            if (some > count - i) some = count - i;
            pf_unpack(at->run, end, width, (uint64_t)(first - at->start), some, out + i);
            i += some;
        } else {
            const int64_t first = (base + rows[i] - at->start) & ~(int64_t)7, n_run = at->stop - at->start;
            const int64_t last = first + PF_BLOCK < n_run ? first + PF_BLOCK : n_run;
            const size_t most = count - i < PF_BLOCK ? count - i : PF_BLOCK;
            const size_t some = pf_rows_below(rows + i, most, last + at->start - base);
            if (some > PF_BLOCK / 8) { /* so many are wanted that all are unpacked */
                const int64_t shift = base - at->start - first;
                pf_unpack(at->run, end, width, (uint64_t)first, (size_t)(last - first), block);
                for (size_t k = i; k < i + some; k++) out[k] = block[rows[k] + shift];
            } else {
                for (size_t k = i; k < i + some; k++)
                    out[k] = pf_unpacked(at->run, end, width, (uint64_t)(base + rows[k] - at->start), mask);
            }
            i += some;
        }
    }
    return 0;
}

/* The wanted ones of n_values values of `width` <= 32 bits. */
PF_BODY int pf_hybrid_body(const uint8_t *data, size_t size, int width, int64_t n_values, const int32_t *rows,
                           int64_t base, size_t count, uint32_t *out) {
    pf_runs at = {{data, data + size}, data, 0, 0, 0, 0};
    if (width < 0 || width > 32 || !pf_all_inside(rows, base, count, n_values)) return PF_BAD_PAGE;
    return pf_values(&at, width, n_values, rows, base, count, out);
}
PF_LEVELS(int, pf_hybrid,
          (const uint8_t *data, size_t size, int width, int64_t n_values, const int32_t *rows, int64_t base,
           size_t count, uint32_t *out),
          (data, size, width, n_values, rows, base, count, out))

/* Whether levels of at most 8 bits are one run of n or more times the level `most`. */
static int pf_all_most(const uint8_t *data, size_t size, uint64_t n, int most) {
    pf_thrift from = {data, data + size};
    uint64_t head;
    return !pf_varint(&from, &head) && !(head & 1) && head >> 1 >= n && from.end - from.at == 1 && *from.at == most;
}

/* Decodes n definition levels of `width` <= 8 bits to a byte each; returns the number of those that are `most`. */
PF_BODY int64_t pf_levels_of_body(const uint8_t *data, size_t size, int width, int most, size_t n, uint8_t *out) {
    pf_runs at = {{data, data + size}, data, 0, 0, 0, 0};
    uint32_t block[PF_BLOCK];
    int64_t n_values = 0;
    for (size_t first = 0; first < n; first += PF_BLOCK) {
        const size_t count = n - first < PF_BLOCK ? n - first : PF_BLOCK;
        uint32_t highest = 0, some = 0;
        if (pf_values(&at, width, (int64_t)n, NULL, (int64_t)first, count, block)) return PF_BAD_PAGE;
        for (size_t i = 0; i < count; i++) {
            highest = block[i] > highest ? block[i] : highest;
            some += block[i] == (uint32_t)most;
            out[first + i] = (uint8_t)block[i];
        }
        if (highest > (uint32_t)most) return PF_BAD_PAGE;
        n_values += some;
    }
    return n_values;
}
PF_LEVELS(int64_t, pf_levels_of, (const uint8_t *data, size_t size, int width, int most, size_t n, uint8_t *out),
          (data, size, width, most, n, out))

/* The number of levels that are `level`. */
PF_BODY size_t pf_count_level_body(const uint8_t *levels, size_t n, uint8_t level) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++) found += levels[i] == level;
    return found;
}
PF_LEVELS(size_t, pf_count_level, (const uint8_t *levels, size_t n, uint8_t level), (levels, n, level))

/* The index of each row's value among the values of a page, -1 for null. A row has a value if its level is `most`. */
static void pf_places(const uint8_t *levels, size_t n, int most, int32_t *out) {
    int32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        const int32_t is_set = levels[i] == most;
        out[i] = is_set ? next : -1;
        next += is_set;
    }
}

/* Whether each of 8 levels is at least `least` <= 128, as bits. */
static inline uint8_t pf_at_least(const uint8_t *levels, uint8_t least) {
    const uint64_t ones = 0x0101010101010101, high = 0x8080808080808080;
    uint64_t word;
    memcpy(&word, levels, 8);
    word = (((word | high) - least * ones) | word) & high;
    return (uint8_t)((word >> 7) * 0x0102040810204080 >> 56);
}

/* Clears the bits, from `first` on, of wanted rows whose level is below `least`; all were set. Returns whether there are
 * such rows. */
static int pf_clear_below(const uint8_t *levels, const int32_t *rows, int64_t base, size_t count, uint8_t least,
                          uint8_t *bits, size_t first) {
    int found = 0;
    size_t i = 0;
    while (i < count) {
        const size_t bit = (first + i) & 7;
        if (rows == NULL && bit == 0 && least <= 128 && count - i >= 8) {
            const uint8_t set = pf_at_least(levels + base + (int64_t)i, least);
            bits[(first + i) >> 3] = set;
            found |= set != 0xFF;
            i += 8;
        } else {
            const uint32_t is_below = levels[pf_wanted(rows, base, i)] < least;
            bits[(first + i) >> 3] &= (uint8_t)~(is_below << bit);
            found |= (int)is_below;
            i++;
        }
    }
    return found;
}

/* Values of a fixed width ------------------------------------------------------------------------------------- */

static inline void pf_wide(int64_t value, uint8_t *out) {
    const int64_t sign = value >> 63;
    memcpy(out, &value, 8);
    memcpy(out + 8, &sign, 8);
}

#define PF_EACH(width, out_width, body)                                                  \
    for (size_t i = 0; i < count; i++) {                                                 \
        const uint8_t *from = data + (uint64_t)pf_wanted(rows, base, i) * (width);       \
        uint8_t *to = out + i * (out_width);                                             \
        body                                                                             \
    }

static int pf_fixed(const uint8_t *data, size_t size, int64_t width, int conversion, const int32_t *rows, int64_t base,
                    size_t count, uint8_t *out) {
    if (width <= 0 || !pf_all_inside(rows, base, count, (int64_t)(size / (size_t)width))) return PF_BAD_PAGE;
    if (conversion == PF_SAME && rows == NULL) {
        memcpy(out, data + (uint64_t)base * (uint64_t)width, count * (size_t)width);
    } else if (conversion == PF_SAME && width == 4) {
        PF_EACH(4, 4, memcpy(to, from, 4);)
    } else if (conversion == PF_SAME && width == 8) {
        PF_EACH(8, 8, memcpy(to, from, 8);)
    } else if (conversion == PF_SAME && width == 16) {
        PF_EACH(16, 16, memcpy(to, from, 16);)
    } else if (conversion == PF_SAME) {
        PF_EACH((uint64_t)width, (size_t)width, memcpy(to, from, (size_t)width);)
    } else if (conversion == PF_INT32_TO_INT128 && width == 4) {
        PF_EACH(4, 16, int32_t value; memcpy(&value, from, 4); pf_wide(value, to);)
    } else if (conversion == PF_INT64_TO_INT128 && width == 8) {
        PF_EACH(8, 16, int64_t value; memcpy(&value, from, 8); pf_wide(value, to);)
    } else if (conversion == PF_BIG_ENDIAN_TO_INT128 && width <= 16) {
        PF_EACH((uint64_t)width, 16, memset(to, from[0] & 128 ? 255 : 0, 16);
                for (int64_t k = 0; k < width; k++) to[k] = from[width - 1 - k];)
    } else return PF_BAD_PAGE;
    return 0;
}

/* The cells of codes: entries of a dictionary, converted from `width` bytes; every code is checked. */
PF_BODY int pf_gather(const uint32_t *restrict codes, size_t count, const uint8_t *restrict data, size_t n_entries,
                      size_t width, int conversion, uint8_t *restrict out) {
    const int32_t most = n_entries < INT32_MAX ? (int32_t)n_entries : INT32_MAX;
    int wrong = 0;
    for (size_t i = 0; i < count; i++) wrong |= ((int32_t)codes[i] < 0) | ((int32_t)codes[i] >= most);
    if (wrong) return PF_BAD_PAGE;
    if (conversion == PF_INT64_TO_INT128) {
        for (size_t i = 0; i < count; i++) {
            int64_t value;
            memcpy(&value, data + (size_t)codes[i] * 8, 8);
            pf_wide(value, out + i * 16);
        }
    } else if (conversion == PF_INT32_TO_INT128) {
        for (size_t i = 0; i < count; i++) {
            int32_t value;
            memcpy(&value, data + (size_t)codes[i] * 4, 4);
            pf_wide(value, out + i * 16);
        }
    } else if (width == 4) for (size_t i = 0; i < count; i++) memcpy(out + i * 4, data + (size_t)codes[i] * 4, 4);
    else if (width == 8) for (size_t i = 0; i < count; i++) memcpy(out + i * 8, data + (size_t)codes[i] * 8, 8);
    else if (width == 16) for (size_t i = 0; i < count; i++) memcpy(out + i * 16, data + (size_t)codes[i] * 16, 16);
    else for (size_t i = 0; i < count; i++) memcpy(out + i * width, data + (size_t)codes[i] * width, width);
    return 0;
}

/* The entries of a dictionary: cells, or integers that are converted to cells of 16 bytes. */
typedef struct {
    const uint8_t *data; /* NULL: no dictionary */
    size_t count;
    size_t width;   /* bytes of an entry; 4 or 8 with a conversion */
    int conversion; /* to a 128-bit integer, or PF_SAME */
} pf_dictionary;

/* The cells of the wanted ones of n_values codes. The codes of PF_BLOCK values at a time stay in the cache. */
PF_BODY int pf_entries_body(const uint8_t *data, size_t size, int bits, int64_t n_values, const int32_t *rows,
                            int64_t base, size_t count, const pf_dictionary *entries, uint8_t *out) {
    pf_runs at = {{data, data + size}, data, 0, 0, 0, 0};
    uint32_t codes[PF_BLOCK];
    const size_t width = entries->conversion == PF_SAME ? entries->width : 16;
    if (bits < 0 || bits > 32 || !pf_all_inside(rows, base, count, n_values)) return PF_BAD_PAGE;
    for (size_t i = 0; i < count; i += PF_BLOCK) {
        const size_t some = count - i < PF_BLOCK ? count - i : PF_BLOCK;
        const int64_t first = rows == NULL ? base + (int64_t)i : base;
        if (pf_values(&at, bits, n_values, rows == NULL ? NULL : rows + i, first, some, codes) ||
            pf_gather(codes, some, entries->data, entries->count, entries->width, entries->conversion, out + i * width))
            return PF_BAD_PAGE;
    }
    return 0;
}
PF_LEVELS(int, pf_entries,
          (const uint8_t *data, size_t size, int bits, int64_t n_values, const int32_t *rows, int64_t base,
           size_t count, const pf_dictionary *entries, uint8_t *out),
          (data, size, bits, n_values, rows, base, count, entries, out))

#endif
