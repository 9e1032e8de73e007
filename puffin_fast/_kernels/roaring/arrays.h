/* Array containers: ascending u16 values, little-endian, at any alignment. */
#ifndef PF_ARRAYS_H
#define PF_ARRAYS_H

#include "simd.h"

/* Whether n <= 4,096 values ascend strictly; *adjacent counts steps of exactly 1. */
PF_BODY int pf_array_check_body(const uint8_t *values, size_t n, uint32_t *adjacent) {
    uint16_t disorder = 0, steps = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        uint16_t low = pf_get16(values + 2 * i), high = pf_get16(values + 2 * i + 2);
        disorder |= (uint16_t)(high <= low);
        steps = (uint16_t)(steps + ((uint16_t)(high - low) == 1));
    }
    *adjacent = steps;
    return disorder == 0;
}
static int pf_array_check_portable(const uint8_t *values, size_t n, uint32_t *adjacent) {
    return pf_array_check_body(values, n, adjacent);
}

/* How many values n > 0 runs, (start, length - 1) pairs, hold; 0 when they do not ascend, overlap or pass 65535. */
PF_BODY uint32_t pf_runs_check_body(const uint8_t *pairs, size_t n, int *touching) {
    uint32_t overlaps = 0, touches = 0, lengths = 0, run, next;
    memcpy(&run, pairs + 4 * (n - 1), 4);
    uint32_t end = (run & 0xFFFF) + (run >> 16) + 1; /* a run before it that passes 65535 overlaps the next */
    lengths = run >> 16;
    for (size_t i = 0; i + 1 < n; i++) {
        memcpy(&run, pairs + 4 * i, 4);
        memcpy(&next, pairs + 4 * i + 4, 4);
        uint32_t stop = (run & 0xFFFF) + (run >> 16) + 1, start = next & 0xFFFF;
        overlaps |= start < stop;
        touches |= start == stop;
        lengths += run >> 16;
    }
    *touching = touches != 0;
    return overlaps || end > 65536 ? 0 : lengths + (uint32_t)n;
}
PF_LEVELS(uint32_t, pf_runs_check, (const uint8_t *pairs, size_t n, int *touching), (pairs, n, touching))

/* The runs of n > 0 ascending values as (start, length - 1) pairs; returns their number. */
static uint32_t pf_runs_of_array(const uint8_t *values, size_t n, uint8_t *out) {
    uint32_t runs = 0;
    uint16_t start = pf_get16(values), last = start;
    for (size_t i = 1; i <= n; i++) {
        uint16_t value = i < n ? pf_get16(values + 2 * i) : start;
        if (i < n && value == (uint16_t)(last + 1)) {
            last = value;
            continue;
        }
        pf_put16(out + 4 * runs, start);
        pf_put16(out + 4 * runs + 2, (uint16_t)(last - start));
        runs++;
        start = last = value;
    }
    return runs;
}

/* Whether merging n arrays of `total` values two by two is faster than a sparse bitmap. */
static inline int pf_merges_fast(size_t n, size_t total) { return pf_level != PF_LEVEL_PORTABLE && total >= 32 * n; }

/* A bitmap container with few words in use, followed by one bit for each word that is not zero. */
enum { PF_SPARSE_BYTES = 8192 + 128 };

/* Sets the bits of n values. */
static void pf_sparse_set(const uint8_t *values, size_t n, uint8_t *sparse) {
    for (size_t i = 0; i < n; i++) {
        unsigned value = pf_get16(values + 2 * i);
        uint8_t *word = sparse + 8 * (value >> 6), *used = sparse + 8192 + 8 * (value >> 12);
        pf_put64(word, pf_get64(word) | (1ull << (value & 63)));
        pf_put64(used, pf_get64(used) | (1ull << ((value >> 6) & 63)));
    }
}

/* Clears all bits; writes them to out as an array and returns their number. */
static size_t pf_sparse_take(uint8_t *sparse, uint8_t *out) {
    size_t n = 0;
    for (unsigned i = 0; i < 16; i++) {
        uint64_t used = pf_get64(sparse + 8192 + 8 * i);
        pf_put64(sparse + 8192 + 8 * i, 0);
        for (; used != 0; used &= used - 1) {
            unsigned first = 64 * (64 * i + (unsigned)__builtin_ctzll(used));
            uint64_t word = pf_get64(sparse + first / 8);
            pf_put64(sparse + first / 8, 0);
            for (; word != 0; word &= word - 1) pf_put16(out + 2 * n++, (uint16_t)(first + (unsigned)__builtin_ctzll(word)));
        }
    }
    return n;
}

/* Bits of n values set in / cleared from / flipped in a bitmap container. */
static void pf_array_set(const uint8_t *values, size_t n, uint8_t *bits) {
    for (size_t i = 0; i < n; i++) {
        uint16_t value = pf_get16(values + 2 * i);
        bits[value >> 3] = (uint8_t)(bits[value >> 3] | (1u << (value & 7)));
    }
}

/* Those of n values whose bit in a bitmap container equals `wanted`; out has space for n + 1. */
static size_t pf_array_filter(const uint8_t *values, size_t n, const uint8_t *bits, unsigned wanted, uint8_t *out) {
    size_t n_selected = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t value = pf_get16(values + 2 * i);
        pf_put16(out + 2 * n_selected, value);
        n_selected += ((unsigned)(bits[value >> 3] >> (value & 7)) & 1u) == wanted;
    }
    return n_selected;
}

/* Whether some of n values has a bit in a bitmap container that equals `wanted`. */
static int pf_array_meets_bits(const uint8_t *values, size_t n, const uint8_t *bits, unsigned wanted) {
    for (size_t i = 0; i < n; i++) {
        uint16_t value = pf_get16(values + 2 * i);
        if (((unsigned)(bits[value >> 3] >> (value & 7)) & 1u) == wanted) return 1;
    }
    return 0;
}

#if PF_X86
#include "avx2/arrays.h"
#include "avx512/arrays.h"
#endif

PF_DISPATCH(int, pf_array_check, (const uint8_t *values, size_t n, uint32_t *adjacent), (values, n, adjacent))

#endif
