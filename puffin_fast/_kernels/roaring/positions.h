/* u64 positions to and from the u16 values of a container: scan, narrow, widen, runs, scatter. */
#ifndef PF_POSITIONS_H
#define PF_POSITIONS_H

#include "simd.h"

/* The number of the n > 0 positions that are in the same chunk of 65,536 as x[0]. The same pass proves that they ascend
 * strictly: *disorder >> 16 is non-zero if they do not. *adjacent counts steps of exactly 1. (A step inside a chunk is
 * below 65,536, and step - 1 wraps for a step of zero or less, so the OR of all steps - 1 shows it.) */
static size_t pf_scan_chunk_portable(const uint64_t *x, size_t n, uint32_t *adjacent, uint64_t *disorder) {
    const uint64_t last = x[0] | 0xFFFF;
    uint64_t spread = 0;
    uint32_t steps = 0;
    size_t i = 0;
    while (i + 8 < n && x[i + 8] <= last) {
        for (size_t j = 0; j < 8; j++) {
            uint64_t step = x[i + j + 1] - x[i + j] - 1;
            spread |= step;
            steps += step == 0;
        }
        i += 8;
        if (spread >> 16) break;
    }
    while (i + 1 < n && x[i + 1] <= last && !(spread >> 16)) {
        uint64_t step = x[i + 1] - x[i] - 1;
        spread |= step;
        steps += step == 0;
        i++;
    }
    *adjacent = steps;
    *disorder = spread;
    return i + 1;
}

/* The low 16 bits of n positions, stored little-endian. */
PF_BODY void pf_narrow_body(const uint64_t *x, size_t n, uint8_t *out) {
    for (size_t i = 0; i < n; i++) pf_put16(out + 2 * i, (uint16_t)x[i]);
}
static void pf_narrow_portable(const uint64_t *x, size_t n, uint8_t *out) { pf_narrow_body(x, n, out); }

/* base + each of n u16 values, as u64: an array container back into positions. */
PF_BODY void pf_widen_body(const uint8_t *values, size_t n, uint64_t base, uint64_t *out) {
    for (size_t i = 0; i < n; i++) out[i] = base + pf_get16(values + 2 * i);
}
static void pf_widen_portable(const uint8_t *values, size_t n, uint64_t base, uint64_t *out) {
    pf_widen_body(values, n, base, out);
}

/* first, first + 1 … n of them: a run back into positions. */
PF_BODY void pf_sequence_body(uint64_t first, size_t n, uint64_t *out) {
    for (size_t i = 0; i < n; i++) out[i] = first + i;
}
PF_LEVELS(void, pf_sequence, (uint64_t first, size_t n, uint64_t *out), (first, n, out))

/* Marks scratch[low 16 bits] for n positions; scratch holds 65,536 bytes. */
static void pf_scatter(const uint64_t *x, size_t n, uint8_t *scratch) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        scratch[(uint16_t)x[i]] = 1;
        scratch[(uint16_t)x[i + 1]] = 1;
        scratch[(uint16_t)x[i + 2]] = 1;
        scratch[(uint16_t)x[i + 3]] = 1;
    }
    for (; i < n; i++) scratch[(uint16_t)x[i]] = 1;
}

/* The runs of n > 0 strictly ascending positions of one chunk as (start, length - 1) pairs; returns their number,
 * or capacity + 1 when there are more than out has space for, which is `capacity` (only if another thread has changed
 * them since they were counted).
 * Positions ascend strictly, so x[i + k] - x[i] == k proves that all between are contiguous: long runs are skipped in
 * leaps. */
static uint32_t pf_runs_of_positions(const uint64_t *x, size_t n, uint8_t *out, uint32_t capacity) {
    uint32_t runs = 0;
    size_t i = 0;
    while (i < n) {
        size_t end = i + 1;
        size_t leap = 32;
        if (runs == capacity) return capacity + 1;
        while (end + leap <= n && x[end + leap - 1] - x[i] == end + leap - 1 - i) end += leap;
        while (leap > 0) {
            if (end + leap <= n && x[end + leap - 1] - x[i] == end + leap - 1 - i) end += leap;
            leap >>= 1;
        }
        while (end < n && x[end] - x[i] == end - i) end++;
        pf_put16(out + 4 * runs, (uint16_t)x[i]);
        pf_put16(out + 4 * runs + 2, (uint16_t)(end - i - 1));
        runs++;
        i = end;
    }
    return runs;
}

#if PF_X86
#include "avx2/positions.h"
#include "avx512/positions.h"
#endif

PF_DISPATCH(size_t, pf_scan_chunk, (const uint64_t *x, size_t n, uint32_t *adjacent, uint64_t *disorder),
            (x, n, adjacent, disorder))
PF_DISPATCH(void, pf_narrow, (const uint64_t *x, size_t n, uint8_t *out), (x, n, out))
PF_DISPATCH(void, pf_widen, (const uint8_t *values, size_t n, uint64_t base, uint64_t *out), (values, n, base, out))

#endif
