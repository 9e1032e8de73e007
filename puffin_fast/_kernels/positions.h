/* Between u64 positions and the u16 values of a container: scan, narrow, widen, runs, scatter. */
#ifndef PF_POSITIONS_H
#define PF_POSITIONS_H

#include "simd.h"

/* How many of the n > 0 positions stand in the chunk of 65,536 of x[0], in one pass that also proves them
 * strictly ascending: *disorder >> 16 is non-zero if they are not; *adjacent counts steps of exactly 1.
 * (A step inside a chunk is below 65,536, and a step of zero or less wraps, so the OR of all steps - 1 shows it.) */
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

#if PF_X86
PF_AVX2 static size_t pf_scan_chunk_avx2(const uint64_t *x, size_t n, uint32_t *adjacent, uint64_t *disorder) {
    const uint64_t last = x[0] | 0xFFFF;
    if (n < 512) return pf_scan_chunk_portable(x, n, adjacent, disorder); /* measured: a third quicker for 100 */
    const __m256i one = _mm256_set1_epi64x(1);
    __m256i spread = _mm256_setzero_si256(), count = _mm256_setzero_si256();
    size_t i = 0;
    while (i + 16 < n && x[i + 16] <= last) {
        for (size_t j = 0; j < 16; j += 4) {
            __m256i low = _mm256_loadu_si256((const __m256i *)(x + i + j));
            __m256i high = _mm256_loadu_si256((const __m256i *)(x + i + j + 1));
            __m256i difference = _mm256_sub_epi64(high, low);
            spread = _mm256_or_si256(spread, _mm256_sub_epi64(difference, one));
            count = _mm256_sub_epi64(count, _mm256_cmpeq_epi64(difference, one));
        }
        i += 16;
        if (!_mm256_testz_si256(spread, _mm256_set1_epi64x(~(long long)0xFFFF))) break;
    }
    uint64_t lanes[4], spreads[4];
    _mm256_storeu_si256((__m256i *)lanes, count);
    _mm256_storeu_si256((__m256i *)spreads, spread);
    uint32_t rest;
    uint64_t rest_disorder;
    uint64_t so_far = spreads[0] | spreads[1] | spreads[2] | spreads[3];
    uint32_t steps = (uint32_t)(lanes[0] + lanes[1] + lanes[2] + lanes[3]);
    if (so_far >> 16) {
        *adjacent = steps;
        *disorder = so_far;
        return i + 1;
    }
    size_t tail = pf_scan_chunk_portable(x + i, n - i, &rest, &rest_disorder);
    *adjacent = steps + rest;
    *disorder = so_far | rest_disorder;
    return i + tail;
}

PF_AVX512 static size_t pf_scan_chunk_avx512(const uint64_t *x, size_t n, uint32_t *adjacent,
                                             uint64_t *disorder) {
    const uint64_t last = x[0] | 0xFFFF;
    const __m512i one = _mm512_set1_epi64(1), limit = _mm512_set1_epi64((long long)last);
    const __m512i outside = _mm512_set1_epi64(~(long long)0xFFFF);
    __m512i spread = _mm512_setzero_si512();
    uint32_t steps = 0;
    size_t i = 0;
    while (i + 32 < n && x[i + 32] <= last) {
        uint32_t equal = 0;
        for (size_t j = 0; j < 32; j += 8) {
            __m512i low = _mm512_loadu_si512(x + i + j);
            __m512i high = _mm512_loadu_si512(x + i + j + 1);
            __m512i difference = _mm512_sub_epi64(high, low);
            spread = _mm512_or_si512(spread, _mm512_sub_epi64(difference, one));
            equal |= (uint32_t)_mm512_cmpeq_epi64_mask(difference, one) << j;
        }
        steps += (uint32_t)_mm_popcnt_u32(equal);
        i += 32;
        if (_mm512_test_epi64_mask(spread, outside)) break;
    }
    uint64_t broken = _mm512_test_epi64_mask(spread, outside) ? ~(uint64_t)0 : 0;
    while (!broken && i + 1 < n) {
        size_t left = n - i - 1;
        __mmask8 lanes = left >= 8 ? 0xFF : (__mmask8)((1u << left) - 1);
        __m512i low = _mm512_maskz_loadu_epi64(lanes, x + i);
        __m512i high = _mm512_maskz_loadu_epi64(lanes, x + i + 1);
        __mmask8 inside = _mm512_mask_cmple_epu64_mask(lanes, high, limit);
        __m512i difference = _mm512_sub_epi64(high, low);
        __m512i less_one = _mm512_sub_epi64(difference, one);
        if (_mm512_mask_test_epi64_mask(inside, less_one, outside) || (inside & (inside + 1))) broken = ~(uint64_t)0;
        steps += (uint32_t)_mm_popcnt_u32(_mm512_mask_cmpeq_epi64_mask(inside, difference, one));
        i += (size_t)_mm_popcnt_u32(inside);
        if (inside != 0xFF) break;
    }
    *adjacent = steps;
    *disorder = broken;
    return i + 1;
}
#endif
PF_DISPATCH(size_t, pf_scan_chunk, (const uint64_t *x, size_t n, uint32_t *adjacent, uint64_t *disorder),
            (x, n, adjacent, disorder))

/* The low 16 bits of n positions, stored little-endian. */
PF_BODY void pf_narrow_body(const uint64_t *x, size_t n, uint8_t *out) {
    for (size_t i = 0; i < n; i++) pf_put16(out + 2 * i, (uint16_t)x[i]);
}
static void pf_narrow_portable(const uint64_t *x, size_t n, uint8_t *out) { pf_narrow_body(x, n, out); }
#if PF_X86
PF_AVX2 static void pf_narrow_avx2(const uint64_t *x, size_t n, uint8_t *out) {
    const __m256i low = _mm256_set1_epi64x(0xFFFF), order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i a = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(x + i)), low);
        __m256i b = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(x + i + 4)), low);
        __m256i c = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(x + i + 8)), low);
        __m256i d = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(x + i + 12)), low);
        __m256i packed = _mm256_packus_epi32(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
        _mm256_storeu_si256((__m256i *)(out + 2 * i), _mm256_permutevar8x32_epi32(packed, order));
    }
    pf_narrow_body(x + i, n - i, out + 2 * i);
}
PF_AVX512 static void pf_narrow_avx512(const uint64_t *x, size_t n, uint8_t *out) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + 2 * i), _mm512_cvtepi64_epi16(_mm512_loadu_si512(x + i)));
    if (i < n) {
        __mmask8 lanes = (__mmask8)((1u << (n - i)) - 1);
        _mm512_mask_cvtepi64_storeu_epi16(out + 2 * i, lanes, _mm512_maskz_loadu_epi64(lanes, x + i));
    }
}
#endif
PF_DISPATCH(void, pf_narrow, (const uint64_t *x, size_t n, uint8_t *out), (x, n, out))

/* base + each of n u16 values, as u64: an array container back into positions. */
PF_BODY void pf_widen_body(const uint8_t *values, size_t n, uint64_t base, uint64_t *out) {
    for (size_t i = 0; i < n; i++) out[i] = base + pf_get16(values + 2 * i);
}
static void pf_widen_portable(const uint8_t *values, size_t n, uint64_t base, uint64_t *out) {
    pf_widen_body(values, n, base, out);
}
#if PF_X86
PF_AVX2 static void pf_widen_avx2(const uint8_t *values, size_t n, uint64_t base, uint64_t *out) {
    pf_widen_body(values, n, base, out);
}
PF_AVX512 static void pf_widen_avx512(const uint8_t *values, size_t n, uint64_t base, uint64_t *out) {
    const __m512i origin = _mm512_set1_epi64((long long)base);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i eight = _mm_loadu_si128((const __m128i *)(values + 2 * i));
        _mm512_storeu_si512(out + i, _mm512_add_epi64(origin, _mm512_cvtepu16_epi64(eight)));
    }
    if (i < n) {
        __mmask8 lanes = (__mmask8)((1u << (n - i)) - 1);
        __m128i rest = _mm_maskz_loadu_epi16(lanes, values + 2 * i);
        _mm512_mask_storeu_epi64(out + i, lanes, _mm512_add_epi64(origin, _mm512_cvtepu16_epi64(rest)));
    }
}
#endif
PF_DISPATCH(void, pf_widen, (const uint8_t *values, size_t n, uint64_t base, uint64_t *out), (values, n, base, out))

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
 * or room + 1 when there are more than the `room` that out has (they were counted before: another thread has changed them).
 * Ascending without repeats, x[i + k] - x[i] == k means that all between is contiguous: long runs are skipped in leaps. */
static uint32_t pf_runs_of_positions(const uint64_t *x, size_t n, uint8_t *out, uint32_t room) {
    uint32_t runs = 0;
    size_t i = 0;
    while (i < n) {
        size_t end = i + 1;
        size_t leap = 32;
        if (runs == room) return room + 1;
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

#endif
