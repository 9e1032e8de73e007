/* u64 positions to and from the u16 values of a container, with AVX2. */
#ifndef PF_AVX2_POSITIONS_H
#define PF_AVX2_POSITIONS_H

/* Adds the first 16 steps from x[0] on, up to the end of the chunk, which is among them: x[16] > last. Returns their
 * number. It varies from chunk to chunk, so that a loop would end at a place that processors cannot predict. */
PF_AVX2 static inline size_t pf_scan_end_avx2(const uint64_t *x, uint64_t last, __m256i *spread, __m256i *count) {
    const __m256i one = _mm256_set1_epi64x(1), most = _mm256_set1_epi64x((long long)last);
    uint32_t inside = 0;
    for (int j = 0; j < 16; j += 4) {
        __m256i low = _mm256_loadu_si256((const __m256i *)(x + j));
        __m256i high = _mm256_loadu_si256((const __m256i *)(x + j + 1));
        __m256i outside = _mm256_cmpgt_epi64(high, most); /* signed: from 2^63 on, positions are steps out of order */
        __m256i difference = _mm256_sub_epi64(high, low);
        *spread = _mm256_or_si256(*spread, _mm256_andnot_si256(outside, _mm256_sub_epi64(difference, one)));
        *count = _mm256_sub_epi64(*count, _mm256_andnot_si256(outside, _mm256_cmpeq_epi64(difference, one)));
        inside |= (uint32_t)(~_mm256_movemask_pd(_mm256_castsi256_pd(outside)) & 15) << j;
    }
    if (inside & (inside + 1)) *spread = _mm256_set1_epi64x(-1); /* a smaller position after one of a later chunk */
    return (size_t)__builtin_ctz(~inside);
}

PF_AVX2 static size_t pf_scan_chunk_avx2(const uint64_t *x, size_t n, uint32_t *adjacent, uint64_t *disorder) {
    const uint64_t last = x[0] | 0xFFFF;
    if (n < 2 || x[1] > last) { /* a chunk of one position: often a very sparse set */
        *adjacent = 0;
        *disorder = 0;
        return 1;
    }
    if (n <= 16) return pf_scan_chunk_portable(x, n, adjacent, disorder);
    const __m256i one = _mm256_set1_epi64x(1);
    __m256i spread = _mm256_setzero_si256(), count = _mm256_setzero_si256();
    size_t i = 0;
    int at_end = 0;
    while (i + 16 < n) {
        at_end = x[i + 16] > last;
        if (at_end) {
            i += pf_scan_end_avx2(x + i, last, &spread, &count);
            break;
        }
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
    *adjacent = (uint32_t)(lanes[0] + lanes[1] + lanes[2] + lanes[3]);
    *disorder = spreads[0] | spreads[1] | spreads[2] | spreads[3];
    if (at_end || *disorder >> 16) return i + 1;
    uint32_t rest;
    uint64_t rest_disorder;
    size_t tail = pf_scan_chunk_portable(x + i, n - i, &rest, &rest_disorder);
    *adjacent += rest;
    *disorder |= rest_disorder;
    return i + tail;
}

PF_AVX2 static inline void pf_narrow_16_avx2(const uint64_t *x, uint8_t *out) {
    const __m256i low = _mm256_set1_epi64x(0xFFFF), order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i a = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)x), low);
    __m256i b = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(x + 4)), low);
    __m256i c = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(x + 8)), low);
    __m256i d = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(x + 12)), low);
    __m256i packed = _mm256_packus_epi32(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    _mm256_storeu_si256((__m256i *)out, _mm256_permutevar8x32_epi32(packed, order));
}

PF_AVX2 static void pf_narrow_avx2(const uint64_t *x, size_t n, uint8_t *out) {
    if (n < 16) {
        pf_narrow_body(x, n, out);
        return;
    }
    for (size_t i = 0; i + 16 < n; i += 16) pf_narrow_16_avx2(x + i, out + 2 * i);
    pf_narrow_16_avx2(x + n - 16, out + 2 * (n - 16)); /* ends with the positions; may write some again */
}

PF_AVX2 static inline void pf_widen_8_avx2(const uint8_t *values, __m256i base, uint64_t *out) {
    const __m256i low = _mm256_cvtepu16_epi64(_mm_loadl_epi64((const __m128i *)values));
    const __m256i high = _mm256_cvtepu16_epi64(_mm_loadl_epi64((const __m128i *)(values + 8)));
    _mm256_storeu_si256((__m256i *)out, _mm256_add_epi64(base, low));
    _mm256_storeu_si256((__m256i *)(out + 4), _mm256_add_epi64(base, high));
}

PF_AVX2 static void pf_widen_avx2(const uint8_t *values, size_t n, uint64_t base, uint64_t *out) {
    const __m256i start = _mm256_set1_epi64x((long long)base);
    if (n < 8) {
        pf_widen_body(values, n, base, out);
        return;
    }
    for (size_t i = 0; i + 8 < n; i += 8) pf_widen_8_avx2(values + 2 * i, start, out + i);
    pf_widen_8_avx2(values + 2 * (n - 8), start, out + n - 8); /* ends with the values; may write some again */
}

#endif
