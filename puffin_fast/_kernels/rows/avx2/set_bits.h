/* The set bits of a range of a bitmap as u32 indexes, with AVX2: a byte of bits at a time. */
#ifndef PF_AVX2_ROWS_H
#define PF_AVX2_ROWS_H

PF_AVX2 static size_t pf_rows_avx2(const uint8_t *bits, size_t from, size_t n, uint32_t *out, size_t capacity) {
    size_t done = 0, i = 0;
    for (; i < n && capacity - done >= 64; i += 64) {
        uint64_t word = pf_bits_at(bits, from + i, n - i);
        if (word == 0) continue;
        for (uint32_t at = (uint32_t)i; word != 0; at += 8, word >>= 8) {
            __m128i set = _mm_loadl_epi64((const __m128i *)pf_bits_of_byte[word & 0xFF]);
            __m256i rows = _mm256_add_epi32(_mm256_set1_epi32((int)at), _mm256_cvtepu8_epi32(set));
            _mm256_storeu_si256((__m256i *)(out + done), rows);
            done += (size_t)_mm_popcnt_u64(word & 0xFF);
        }
    }
    return done + pf_rows_from(bits, from, n, i, out + done, capacity - done);
}

#endif
