/* The set bits of a stretch of a bitmap: their runs, and their u32 indexes from its start, as Arrow's take asks. */
#ifndef PF_ROWS_H
#define PF_ROWS_H

#include "simd.h"

/* Up to 64 of the n > 0 bits from bit `from` on; nothing past the byte of the last bit is read. */
PF_BODY uint64_t pf_bits_at(const uint8_t *bits, size_t from, size_t n) {
    const uint8_t *at = bits + (from >> 3);
    size_t shift = from & 7, taken = n < 64 ? n : 64, n_bytes = (shift + taken + 7) >> 3;
    uint64_t word = 0;
    memcpy(&word, at, n_bytes < 8 ? n_bytes : 8);
    word >>= shift;
    if (n_bytes > 8) word |= (uint64_t)at[8] << (64 - shift);
    return taken < 64 ? word & (((uint64_t)1 << taken) - 1) : word;
}

/* How many runs of set bits n bits from bit `from` on have. */
PF_BODY size_t pf_count_runs_body(const uint8_t *bits, size_t from, size_t n) {
    size_t runs = 0;
    uint64_t before = 0;
    for (size_t i = 0; i < n; i += 64) {
        uint64_t word = pf_bits_at(bits, from + i, n - i);
        runs += (size_t)pf_ones(word & ~((word << 1) | before));
        before = word >> 63;
    }
    return runs;
}
PF_LEVELS(size_t, pf_count_runs, (const uint8_t *bits, size_t from, size_t n), (bits, from, n))

/* Indexes i of n bits from bit `from` on, where bit from + i is set, into out, which has room for `room` >= their
 * number; returns that number. Words are flattened eight indexes at a time past their end while room allows. */
PF_BODY size_t pf_rows_from(const uint8_t *bits, size_t from, size_t n, size_t first, uint32_t *out, size_t room) {
    uint32_t *const start = out, *const end = out + room;
    for (size_t i = first; i < n; i += 64) {
        uint64_t word = pf_bits_at(bits, from + i, n - i);
        if (word == 0) continue;
        if (end - out >= 64) {
            uint32_t *next = out + pf_ones(word);
            do {
                for (int j = 0; j < 8; j++) {
                    out[j] = (uint32_t)i + (uint32_t)__builtin_ctzll(word | (1ull << 63));
                    word &= word - 1;
                }
                out += 8;
            } while (out < next);
            out = next;
        } else {
            for (; word != 0 && out < end; word &= word - 1) *out++ = (uint32_t)i + (uint32_t)__builtin_ctzll(word);
        }
    }
    return (size_t)(out - start);
}
static size_t pf_rows_portable(const uint8_t *bits, size_t from, size_t n, uint32_t *out, size_t room) {
    return pf_rows_from(bits, from, n, 0, out, room);
}
#if PF_X86
PF_AVX2 static size_t pf_rows_avx2(const uint8_t *bits, size_t from, size_t n, uint32_t *out, size_t room) {
    size_t done = 0, i = 0;
    for (; i < n && room - done >= 64; i += 64) {
        uint64_t word = pf_bits_at(bits, from + i, n - i);
        if (word == 0) continue;
        for (uint32_t at = (uint32_t)i; word != 0; at += 8, word >>= 8) {
            __m128i set = _mm_loadl_epi64((const __m128i *)pf_bits_of_byte[word & 0xFF]);
            __m256i rows = _mm256_add_epi32(_mm256_set1_epi32((int)at), _mm256_cvtepu8_epi32(set));
            _mm256_storeu_si256((__m256i *)(out + done), rows);
            done += (size_t)_mm_popcnt_u64(word & 0xFF);
        }
    }
    return done + pf_rows_from(bits, from, n, i, out + done, room - done);
}
PF_AVX512 static size_t pf_rows_avx512(const uint8_t *bits, size_t from, size_t n, uint32_t *out, size_t room) {
    uint8_t counting[64];
    for (int i = 0; i < 64; i++) counting[i] = (uint8_t)i;
    const __m512i every = _mm512_loadu_si512(counting);
    size_t done = 0, i = 0;
    for (; i < n && room - done >= 64; i += 64) {
        uint64_t word = pf_bits_at(bits, from + i, n - i);
        size_t ones = (size_t)_mm_popcnt_u64(word);
        __m512i origin = _mm512_set1_epi32((int)(uint32_t)i);
        __m512i packed = _mm512_maskz_compress_epi8(word, every);
        uint32_t *at = out + done;
        _mm512_storeu_si512(at, _mm512_add_epi32(origin, _mm512_cvtepu8_epi32(_mm512_castsi512_si128(packed))));
        if (ones > 16)
            _mm512_storeu_si512(
                at + 16, _mm512_add_epi32(origin, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(packed, 1))));
        if (ones > 32) {
            _mm512_storeu_si512(
                at + 32, _mm512_add_epi32(origin, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(packed, 2))));
            _mm512_storeu_si512(
                at + 48, _mm512_add_epi32(origin, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(packed, 3))));
        }
        done += ones;
    }
    return done + pf_rows_from(bits, from, n, i, out + done, room - done);
}
#endif
PF_DISPATCH(size_t, pf_rows, (const uint8_t *bits, size_t from, size_t n, uint32_t *out, size_t room),
            (bits, from, n, out, room))

#endif
