/* Between bits and bytes of 0 and 1, and bits moved by less than a byte. */
#ifndef PF_FLAGS_H
#define PF_FLAGS_H

#include "bitmap_count.h"

/* The 65,536 marks of pf_scatter packed into a bitmap container; the marks are cleared. */
static void pf_pack_marks_portable(uint8_t *marks, uint8_t *bits) {
    for (size_t i = 0; i < 8 * PF_WORDS; i++)
        bits[i] = (uint8_t)((pf_get64(marks + 8 * i) * 0x0102040810204080ull) >> 56);
    memset(marks, 0, 64 * PF_WORDS);
}
#if PF_X86
PF_AVX2 static void pf_pack_marks_avx2(uint8_t *marks, uint8_t *bits) {
    const __m256i zero = _mm256_setzero_si256();
    for (size_t i = 0; i < 2 * PF_WORDS; i++) {
        __m256i *block = (__m256i *)(marks + 32 * i);
        uint32_t word = (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(_mm256_loadu_si256(block), zero));
        memcpy(bits + 4 * i, &word, 4);
        _mm256_storeu_si256(block, zero);
    }
}
PF_AVX512 static void pf_pack_marks_avx512(uint8_t *marks, uint8_t *bits) {
    const __m512i zero = _mm512_setzero_si512();
    for (size_t i = 0; i < PF_WORDS; i++) {
        __m512i block = _mm512_loadu_si512(marks + 64 * i);
        pf_put64(bits + 8 * i, _mm512_test_epi8_mask(block, block));
        _mm512_storeu_si512(marks + 64 * i, zero);
    }
}
#endif
PF_DISPATCH(void, pf_pack_marks, (uint8_t *marks, uint8_t *bits), (marks, bits))

/* n flags, zero or not, as bits; bits of a last partial byte past n stay as they were. */
PF_BODY void pf_pack_flags_body(const uint8_t *flags, size_t n, uint8_t *bits) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t block = pf_get64(flags + i), ones;
        ones = ((((block & 0x7F7F7F7F7F7F7F7Full) + 0x7F7F7F7F7F7F7F7Full) | block) >> 7) & 0x0101010101010101ull;
        bits[i >> 3] = (uint8_t)((ones * 0x0102040810204080ull) >> 56);
    }
    for (; i < n; i++)
        if (flags[i]) bits[i >> 3] = (uint8_t)(bits[i >> 3] | (1u << (i & 7)));
}
static void pf_pack_flags_portable(const uint8_t *flags, size_t n, uint8_t *bits) {
    pf_pack_flags_body(flags, n, bits);
}
#if PF_X86
PF_AVX2 static void pf_pack_flags_avx2(const uint8_t *flags, size_t n, uint8_t *bits) {
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i block = _mm256_loadu_si256((const __m256i *)(flags + i));
        uint32_t word = ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(block, _mm256_setzero_si256()));
        memcpy(bits + (i >> 3), &word, 4);
    }
    pf_pack_flags_body(flags + i, n - i, bits + (i >> 3));
}
PF_AVX512 static void pf_pack_flags_avx512(const uint8_t *flags, size_t n, uint8_t *bits) {
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i block = _mm512_loadu_si512(flags + i);
        pf_put64(bits + (i >> 3), _mm512_test_epi8_mask(block, block));
    }
    pf_pack_flags_body(flags + i, n - i, bits + (i >> 3));
}
#endif
PF_DISPATCH(void, pf_pack_flags, (const uint8_t *flags, size_t n, uint8_t *bits), (flags, n, bits))

/* n_bits bits from bit `from` on moved to the start of out; bits past n_bits in the last byte are 0.
 * Nothing is read past the byte of the last bit. */
static void pf_shift_bits(const uint8_t *bits, size_t from, size_t n_bits, uint8_t *out) {
    const uint8_t *at = bits + (from >> 3);
    size_t shift = from & 7, n_bytes = (n_bits + 7) >> 3, last = (shift + n_bits + 7) >> 3;
    if (n_bits == 0) return;
    if (shift == 0) {
        memcpy(out, at, n_bytes);
    } else {
        size_t i = 0;
        for (; i + 9 <= last && i + 8 <= n_bytes; i += 8)
            pf_put64(out + i, (pf_get64(at + i) >> shift) | ((uint64_t)at[i + 8] << (64 - shift)));
        for (; i < n_bytes; i++) {
            unsigned high = i + 1 < last ? at[i + 1] : 0;
            out[i] = (uint8_t)((at[i] >> shift) | (high << (8 - shift)));
        }
    }
    if (n_bits & 7) out[n_bytes - 1] &= (uint8_t)((1u << (n_bits & 7)) - 1);
}

/* n_bits bits put behind the first `at` bits of out, whose bits from there on are 0; those past n_bits in the last
 * byte of `bits` must be 0 too. */
static void pf_append_bits(const uint8_t *bits, size_t n_bits, uint8_t *out, size_t at) {
    uint8_t *to = out + (at >> 3);
    size_t shift = at & 7, n_bytes = (n_bits + 7) >> 3, last = (shift + n_bits + 7) >> 3, i = 0;
    unsigned carry = 0;
    if (n_bits == 0) return;
    carry = to[0];
    for (; i + 8 <= n_bytes; i += 8) {
        uint64_t word = pf_get64(bits + i);
        pf_put64(to + i, (word << shift) | carry);
        carry = shift ? (unsigned)(word >> (64 - shift)) : 0;
    }
    for (; i < last; i++) {
        unsigned byte = (i < n_bytes ? (unsigned)bits[i] << shift : 0) | carry;
        to[i] = (uint8_t)byte;
        carry = byte >> 8;
    }
}

/* n_bits bits as bytes 0 and 1 XOR flip; n_bits need not be a multiple of anything. */
static void pf_spread_tail(const uint8_t *bits, size_t from, size_t n_bits, uint8_t flip, uint8_t *out) {
    for (size_t i = from; i < n_bits; i++) out[i] = ((bits[i >> 3] >> (i & 7)) & 1) ^ flip;
}
static void pf_spread_bits_portable(const uint8_t *bits, size_t n_bits, uint8_t flip, uint8_t *out) {
    const uint64_t invert = flip ? 0x0101010101010101ull : 0;
    size_t i = 0;
    for (; i + 8 <= n_bits; i += 8) {
        uint64_t picked = (bits[i >> 3] * 0x0101010101010101ull) & 0x8040201008040201ull;
        pf_put64(out + i, (((picked + 0x7F7F7F7F7F7F7F7Full) >> 7) & 0x0101010101010101ull) ^ invert);
    }
    pf_spread_tail(bits, i, n_bits, flip, out);
}
#if PF_X86
PF_AVX2 static void pf_spread_bits_avx2(const uint8_t *bits, size_t n_bits, uint8_t flip, uint8_t *out) {
    const __m256i lane = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2,
                                          3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i pick = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    const __m256i one = _mm256_set1_epi8(1), invert = _mm256_set1_epi8((char)flip);
    size_t i = 0;
    for (; i + 32 <= n_bits; i += 32) {
        int32_t word;
        memcpy(&word, bits + (i >> 3), 4);
        __m256i picked = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), lane), pick);
        __m256i bytes = _mm256_and_si256(_mm256_cmpeq_epi8(picked, pick), one);
        _mm256_storeu_si256((__m256i *)(out + i), _mm256_xor_si256(bytes, invert));
    }
    pf_spread_tail(bits, i, n_bits, flip, out);
}
PF_AVX512 static void pf_spread_bits_avx512(const uint8_t *bits, size_t n_bits, uint8_t flip, uint8_t *out) {
    const __m512i one = _mm512_set1_epi8(1), invert = _mm512_set1_epi8((char)flip);
    size_t i = 0;
    for (; i + 64 <= n_bits; i += 64)
        _mm512_storeu_si512(out + i, _mm512_xor_si512(_mm512_maskz_mov_epi8(pf_get64(bits + (i >> 3)), one), invert));
    pf_spread_tail(bits, i, n_bits, flip, out);
}
#endif
PF_DISPATCH(void, pf_spread_bits, (const uint8_t *bits, size_t n_bits, uint8_t flip, uint8_t *out),
            (bits, n_bits, flip, out))

#endif
