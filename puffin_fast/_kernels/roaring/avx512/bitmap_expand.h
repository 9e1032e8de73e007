/* The set bits of bitmap containers as positions or values, with AVX-512. */
#ifndef PF_AVX512_BITMAP_EXPAND_H
#define PF_AVX512_BITMAP_EXPAND_H

/* Writes origin + each of 24 indexes, more than most words need: the number of stores is then predicted. */
PF_AVX512 PF_BODY void pf_store_indexes(const uint8_t *indexes, __m512i origin, uint64_t *out) {
    for (size_t j = 0; j < 24; j += 8) {
        __m512i some = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(indexes + j)));
        _mm512_storeu_si512(out + j, _mm512_add_epi64(origin, some));
    }
}

PF_AVX512 static size_t pf_expand_avx512(const uint8_t *bits, size_t n_words, uint64_t base, uint64_t *out,
                                         size_t capacity) {
    uint64_t *const start = out, *const end = out + capacity;
    uint8_t counting[64], indexes[64];
    for (int i = 0; i < 64; i++) counting[i] = (uint8_t)i;
    const __m512i every = _mm512_loadu_si512(counting);
    size_t i = 0;
    for (; i < n_words && end - out >= 64; i++, base += 64) {
        uint64_t word = pf_get64(bits + 8 * i);
        size_t ones = (size_t)_mm_popcnt_u64(word);
        __m512i origin = _mm512_set1_epi64((long long)base);
        __m512i packed = _mm512_maskz_compress_epi8(word, every);
        __m128i head = _mm512_castsi512_si128(packed);
        _mm512_storeu_si512(out, _mm512_add_epi64(origin, _mm512_cvtepu8_epi64(head)));
        _mm512_storeu_si512(out + 8, _mm512_add_epi64(origin, _mm512_cvtepu8_epi64(_mm_srli_si128(head, 8))));
        if (ones > 16) {
            _mm512_storeu_si512(indexes, packed);
            pf_store_indexes(indexes + 16, origin, out + 16);
            if (ones > 40) pf_store_indexes(indexes + 40, origin, out + 40);
        }
        out += ones;
    }
    return (size_t)(out - start) + pf_expand_body(bits + 8 * i, n_words - i, base, out, (size_t)(end - out));
}

PF_AVX512 static size_t pf_values_of_bitmap_avx512(const uint8_t *bits, uint8_t *out, size_t capacity) {
    uint8_t counting[64];
    for (int i = 0; i < 64; i++) counting[i] = (uint8_t)i;
    const __m512i every = _mm512_loadu_si512(counting);
    size_t n = 0, i = 0;
    for (; i < PF_WORDS && capacity - n >= 64; i++) {
        uint64_t word = pf_get64(bits + 8 * i);
        size_t ones = (size_t)_mm_popcnt_u64(word);
        __m512i origin = _mm512_set1_epi16((short)(64 * i));
        __m512i packed = _mm512_maskz_compress_epi8(word, every);
        __m256i head = _mm512_castsi512_si256(packed);
        _mm512_storeu_si512(out + 2 * n, _mm512_add_epi16(origin, _mm512_cvtepu8_epi16(head)));
        if (ones > 32) {
            __m256i rest = _mm512_extracti64x4_epi64(packed, 1);
            _mm512_storeu_si512(out + 2 * n + 64, _mm512_add_epi16(origin, _mm512_cvtepu8_epi16(rest)));
        }
        n += ones;
    }
    return n + pf_values_of_bitmap_body(bits, i, out + 2 * n, capacity - n);
}

#define pf_runs_of_bitmap_avx512 pf_runs_of_bitmap_avx2

#endif
