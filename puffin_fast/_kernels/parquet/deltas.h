/* Values of Parquet's delta encodings and of BYTE_STREAM_SPLIT, decoded to those of a plain page.
 *
 *     DELTA_BINARY_PACKED      values of a block | miniblocks of a block | number of values | first value | blocks
 *         block                least delta | the width of each miniblock | miniblocks of packed (delta - least delta)
 *     DELTA_LENGTH_BYTE_ARRAY  lengths | bytes                       lengths are DELTA_BINARY_PACKED
 *     DELTA_BYTE_ARRAY         lengths of prefixes | lengths of suffixes | bytes of suffixes
 *     BYTE_STREAM_SPLIT        the first byte of each value | the second byte of each | ...
 *
 * Every function checks lengths before it reads, and returns a negative number for bytes that do not have the expected
 * form. */
#ifndef PF_DELTAS_H
#define PF_DELTAS_H

#include <stdlib.h>

#include "pages.h"

enum {
    PF_MOST_DELTAS = 1 << 24, /* values of a page: those of width 0 take no bytes */
    PF_MOST_PLAIN = 1 << 28,  /* bytes of texts of a page whose prefixes were written out */
    PF_MINIBLOCK = 32,        /* the values of a miniblock are a multiple */
    PF_MOST_BLOCK = 1 << 16,
};

/* Decodes n_values integers of `width` (4 or 8) bytes, with overflow; returns the number of bytes that they had. Deltas of
 * integers of 4 bytes may have more than 32 bits: DuckDB computes them with 8 bytes. */
static int64_t pf_deltas(const uint8_t *data, size_t size, int64_t n_values, size_t width, uint8_t *out) {
    pf_thrift from = {data, data + size};
    uint64_t n_block, n_miniblocks, total;
    int64_t first, least, done = 0;
    if (pf_varint(&from, &n_block) || pf_varint(&from, &n_miniblocks) || pf_varint(&from, &total) ||
        pf_integer(&from, &first))
        return PF_BAD_PAGE;
    if (n_values < 0 || n_values > PF_MOST_DELTAS || total != (uint64_t)n_values) return PF_BAD_PAGE;
    if (n_miniblocks == 0 || n_miniblocks > n_block || n_block > PF_MOST_BLOCK ||
        n_block % (n_miniblocks * PF_MINIBLOCK))
        return PF_BAD_PAGE;
    const int64_t n_each = (int64_t)(n_block / n_miniblocks);
    uint64_t value = (uint64_t)first;
    if (n_values) memcpy(out, &value, width);
    for (done = 1; done < n_values;) {
        if (pf_integer(&from, &least) || (uint64_t)(from.end - from.at) < n_miniblocks) return PF_BAD_PAGE;
        const uint8_t *widths = from.at;
        from.at += n_miniblocks;
        for (uint64_t number = 0; number < n_miniblocks && done < n_values; number++) {
            const size_t bits = widths[number], n_bytes = (size_t)n_each / 8 * bits;
            const int64_t stop = n_values - done < n_each ? n_values : done + n_each;
            const uint64_t mask = bits ? ~0ull >> (64 - bits) : 0;
            if (bits > 64 || n_bytes > (size_t)(from.end - from.at)) return PF_BAD_PAGE;
            size_t bit = 0;
            for (; done < stop; done++, bit += bits) {
                const uint8_t *at = from.at + (bit >> 3);
                const unsigned shift = bit & 7;
                uint64_t word = pf_load(at, from.end) >> shift;
                if (bits + shift > 64) word |= (uint64_t)at[8] << (64 - shift);
                value += (word & mask) + (uint64_t)least;
                memcpy(out + (size_t)done * width, &value, width);
            }
            from.at += n_bytes;
        }
    }
    return from.at - data;
}

/* Decodes values of `width` bytes, whose bytes stand apart. */
static int pf_join_streams(const uint8_t *data, size_t size, int64_t n_values, size_t width, uint8_t *out) {
    const size_t n = (size_t)n_values;
    if (n_values < 0 || size % width || size / width != n) return PF_BAD_PAGE;
    if (width == 8) {
        for (size_t i = 0; i < n; i++) {
            uint64_t value = 0;
            for (size_t k = 0; k < 8; k++) value |= (uint64_t)data[k * n + i] << (8 * k);
            memcpy(out + i * 8, &value, 8);
        }
    } else if (width == 4) {
        for (size_t i = 0; i < n; i++) {
            uint32_t value = 0;
            for (size_t k = 0; k < 4; k++) value |= (uint32_t)data[k * n + i] << (8 * k);
            memcpy(out + i * 4, &value, 4);
        }
    } else {
        for (size_t k = 0; k < width; k++)
            for (size_t i = 0; i < n; i++) out[i * width + k] = data[k * n + i];
    }
    return 0;
}

/* Texts of a page: lengths of prefixes, which are the first bytes of the text before, and of suffixes. */
typedef struct {
    int32_t *prefixes, *suffixes; /* `prefixes` NULL: there are none */
    const uint8_t *data;          /* the suffixes */
    int64_t n_texts, n_plain;     /* their number, and the bytes of the plain page */
} pf_delta_texts;

static void pf_close_texts(pf_delta_texts *texts) {
    free(texts->prefixes);
    free(texts->suffixes);
    texts->prefixes = texts->suffixes = NULL;
}

static int32_t *pf_lengths(const uint8_t **data, size_t *size, int64_t n) {
    int32_t *found = n < 0 || n > PF_MOST_DELTAS ? NULL : (int32_t *)malloc(((size_t)n + 1) * sizeof(int32_t));
    const int64_t n_bytes = found == NULL ? PF_BAD_PAGE : pf_deltas(*data, *size, n, 4, (uint8_t *)found);
    if (n_bytes < 0) {
        free(found);
        return NULL;
    }
    *data += n_bytes;
    *size -= (size_t)n_bytes;
    return found;
}

/* Reads the lengths of n_texts texts; to be closed whatever it returns. */
static int pf_open_texts(const uint8_t *data, size_t size, int64_t n_texts, int has_prefixes, pf_delta_texts *texts) {
    int64_t last = 0, used = 0;
    memset(texts, 0, sizeof(*texts));
    if (has_prefixes && (texts->prefixes = pf_lengths(&data, &size, n_texts)) == NULL) return PF_BAD_PAGE;
    if ((texts->suffixes = pf_lengths(&data, &size, n_texts)) == NULL) return PF_BAD_PAGE;
    texts->data = data;
    texts->n_texts = n_texts;
    for (int64_t i = 0; i < n_texts; i++) {
        const int64_t prefix = has_prefixes ? texts->prefixes[i] : 0, suffix = texts->suffixes[i];
        if (prefix < 0 || prefix > last || suffix < 0) return PF_BAD_PAGE;
        last = prefix + suffix;
        used += suffix;
        texts->n_plain += 4 + last;
        if (used > (int64_t)size || texts->n_plain > PF_MOST_PLAIN) return PF_BAD_PAGE;
    }
    return 0;
}

/* Writes the `n_plain` bytes of a plain page: each text after its length. */
static void pf_write_texts(const pf_delta_texts *texts, uint8_t *out) {
    const uint8_t *from = texts->data, *before = out;
    for (int64_t i = 0; i < texts->n_texts; i++) {
        const size_t prefix = texts->prefixes == NULL ? 0 : (size_t)texts->prefixes[i];
        const size_t suffix = (size_t)texts->suffixes[i];
        const uint32_t length = (uint32_t)(prefix + suffix);
        memcpy(out, &length, 4);
        out += 4;
        memcpy(out, before, prefix);
        memcpy(out + prefix, from, suffix);
        before = out;
        from += suffix;
        out += length;
    }
}

#endif
