/* MurmurHash3 x64-128 of many values, seed 9001, as the DataSketches library uses it: hash = h1 >> 1.
 *
 * Each function hashes n values and appends the hashes below theta to out, which has space for n + 8 of them; it
 * returns how many. Values whose validity bit is 0 are skipped, and so are empty byte strings. A value of at most
 * 8 bytes is one little-endian word k1 and its length; longer ones are read as (k1, k2) pairs of words.
 */
#ifndef PF_MURMUR_H
#define PF_MURMUR_H

#include "simd.h"

#define PF_MURMUR_SEED 9001ull
#define PF_MURMUR_C1 0x87C37B91114253D5ull
#define PF_MURMUR_C2 0x4CF5AD432745937Full
#define PF_MURMUR_F1 0xFF51AFD7ED558CCDull
#define PF_MURMUR_F2 0xC4CEB9FE1A85EC53ull
#define PF_MURMUR_N1 0x52DCE729ull
#define PF_MURMUR_N2 0x38495AB5ull

enum { PF_OUT_OF_BOUNDS = -1 };
enum { PF_LANES = 8, PF_BLOCK = 16 };

/* ---- one value ---------------------------------------------------------------------------------------------- */

PF_BODY uint64_t pf_rotl64(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

PF_BODY uint64_t pf_mix_k1(uint64_t k1) { return pf_rotl64(k1 * PF_MURMUR_C1, 31) * PF_MURMUR_C2; }
PF_BODY uint64_t pf_mix_k2(uint64_t k2) { return pf_rotl64(k2 * PF_MURMUR_C2, 33) * PF_MURMUR_C1; }

PF_BODY uint64_t pf_fmix64(uint64_t x) {
    x = (x ^ (x >> 33)) * PF_MURMUR_F1;
    x = (x ^ (x >> 33)) * PF_MURMUR_F2;
    return x ^ (x >> 33);
}

PF_BODY uint64_t pf_murmur_end(uint64_t h1, uint64_t h2, uint64_t length) {
    h1 ^= length;
    h2 ^= length;
    h1 += h2;
    h2 += h1;
    return (pf_fmix64(h1) + pf_fmix64(h2)) >> 1;
}

/* The hash of a value of 1 to 8 bytes. */
PF_BODY uint64_t pf_murmur_word(uint64_t k1, uint64_t length) {
    return pf_murmur_end(PF_MURMUR_SEED ^ pf_mix_k1(k1), PF_MURMUR_SEED, length);
}

/* The first n < 16 bytes as two words, the rest 0; `readable` bytes may be read. */
PF_BODY void pf_tail_words(const uint8_t *at, uint64_t n, uint64_t readable, uint64_t *k1, uint64_t *k2) {
    if (readable >= PF_BLOCK) {
        uint64_t low = n < 8 ? n : 8, high = n - low;
        *k1 = low == 0 ? 0 : pf_get64(at) & (~0ull >> (64 - 8 * low));
        *k2 = high == 0 ? 0 : pf_get64(at + 8) & (~0ull >> (64 - 8 * high));
        return;
    }
    uint64_t words[2] = {0, 0};
    memcpy(words, at, n);
    *k1 = words[0];
    *k2 = words[1];
}

/* The hash of a value of any length; `readable` >= length bytes may be read. */
PF_BODY uint64_t pf_murmur_bytes(const uint8_t *at, uint64_t length, uint64_t readable) {
    uint64_t h1 = PF_MURMUR_SEED, h2 = PF_MURMUR_SEED, k1, k2, rest = length;
    for (; rest >= PF_BLOCK; rest -= PF_BLOCK, at += PF_BLOCK, readable -= PF_BLOCK) {
        h1 ^= pf_mix_k1(pf_get64(at));
        h1 = (pf_rotl64(h1, 27) + h2) * 5 + PF_MURMUR_N1;
        h2 ^= pf_mix_k2(pf_get64(at + 8));
        h2 = (pf_rotl64(h2, 31) + h1) * 5 + PF_MURMUR_N2;
    }
    pf_tail_words(at, rest, readable, &k1, &k2);
    return pf_murmur_end(h1 ^ pf_mix_k1(k1), h2 ^ pf_mix_k2(k2), length);
}

/* The hash of a decimal's unscaled value: big-endian two's complement in the fewest bytes. */
PF_BODY uint64_t pf_murmur_decimal(uint64_t low, uint64_t high) {
    uint64_t sign = (uint64_t)((int64_t)high >> 63), magnitude;
    uint8_t bytes[PF_BLOCK];
    int length;
    if (high == (uint64_t)((int64_t)low >> 63)) {
        magnitude = low ^ sign;
        length = (72 - (magnitude == 0 ? 64 : __builtin_clzll(magnitude))) / 8;
        return pf_murmur_word(__builtin_bswap64(low << (64 - 8 * length)), (uint64_t)length);
    }
    magnitude = high ^ sign;
    length = 8 + (72 - (magnitude == 0 ? 64 : __builtin_clzll(magnitude))) / 8;
    pf_put64(bytes, __builtin_bswap64(high));
    pf_put64(bytes + 8, __builtin_bswap64(low));
    return pf_murmur_bytes(bytes + PF_BLOCK - length, (uint64_t)length, (uint64_t)length);
}

/* ---- validity and offsets ----------------------------------------------------------------------------------- */

PF_BODY unsigned pf_valid(const uint8_t *validity, size_t bit) {
    return validity == NULL ? 1 : (validity[bit >> 3] >> (bit & 7)) & 1;
}

#if PF_X86
/* The validity of the up to 8 values from a bit on. */
PF_BODY unsigned pf_valid_lanes(const uint8_t *validity, size_t bit, size_t n) {
    if (n > PF_LANES) n = PF_LANES;
    unsigned lanes = (1u << n) - 1;
    if (validity == NULL) return lanes;
    unsigned shift = bit & 7, bits = validity[bit >> 3] >> shift;
    if (shift + n > 8) bits |= (unsigned)validity[(bit >> 3) + 1] << (8 - shift);
    return lanes & bits;
}
#endif

typedef struct {
    const uint8_t *data;
    uint64_t data_size;
    const uint8_t *offsets; /* of the first value; one more than there are values */
    int wide;               /* 8-byte offsets, else 4-byte ones */
} pf_strings;

PF_BODY int64_t pf_offset(const pf_strings *from, size_t i) {
    if (from->wide) return (int64_t)pf_get64(from->offsets + 8 * i);
    int32_t narrow;
    memcpy(&narrow, from->offsets + 4 * i, 4);
    return narrow;
}

/* ---- many values, portable ---------------------------------------------------------------------------------- */

static size_t pf_hash_words4_portable(const uint8_t *values, const uint8_t *validity, size_t bit, size_t n,
                                      uint64_t theta, uint64_t *out) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, values + 4 * i, 4);
        uint64_t hash = pf_murmur_word(word, 4);
        out[count] = hash;
        count += (hash < theta) & pf_valid(validity, bit + i);
    }
    return count;
}

static size_t pf_hash_words8_portable(const uint8_t *values, const uint8_t *validity, size_t bit, size_t n,
                                      uint64_t theta, uint64_t *out) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = pf_murmur_word(pf_get64(values + 8 * i), 8);
        out[count] = hash;
        count += (hash < theta) & pf_valid(validity, bit + i);
    }
    return count;
}

static size_t pf_hash_decimals_portable(const uint8_t *values, const uint8_t *validity, size_t bit, size_t n,
                                        uint64_t theta, uint64_t *out) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = pf_murmur_decimal(pf_get64(values + 16 * i), pf_get64(values + 16 * i + 8));
        out[count] = hash;
        count += (hash < theta) & pf_valid(validity, bit + i);
    }
    return count;
}

/* Also the number of hashes, or PF_OUT_OF_BOUNDS when offsets of valid values leave the data. */
static int64_t pf_hash_strings_from(const pf_strings *from, const uint8_t *validity, size_t bit, size_t first,
                                    size_t n, uint64_t theta, uint64_t *out, int64_t count) {
    for (size_t i = first; i < n; i++) {
        int64_t start = pf_offset(from, i), end = pf_offset(from, i + 1);
        if (!pf_valid(validity, bit + i) || start == end) continue;
        if (start < 0 || end < start || (uint64_t)end > from->data_size) return PF_OUT_OF_BOUNDS;
        uint64_t hash =
            pf_murmur_bytes(from->data + start, (uint64_t)(end - start), from->data_size - (uint64_t)start);
        out[count] = hash;
        count += hash < theta;
    }
    return count;
}

static int64_t pf_hash_strings_portable(const pf_strings *from, const uint8_t *validity, size_t bit, size_t n,
                                        uint64_t theta, uint64_t *out) {
    return pf_hash_strings_from(from, validity, bit, 0, n, theta, out, 0);
}

/* ---- many values, eight at a time --------------------------------------------------------------------------- */

#if PF_X86
/* AVX2 has no multiplication of 64-bit words: what the compiler builds from 32-bit ones is slower than the scalar one. */
#define pf_hash_words4_avx2 pf_hash_words4_portable
#define pf_hash_words8_avx2 pf_hash_words8_portable
#define pf_hash_decimals_avx2 pf_hash_decimals_portable
#define pf_hash_strings_avx2 pf_hash_strings_portable

#define PF_512 PF_AVX512 PF_BODY
#define pf_all(x) _mm512_set1_epi64((long long)(x))

PF_512 __m512i pf_mix_k1_x8(__m512i k1) {
    k1 = _mm512_rol_epi64(_mm512_mullo_epi64(k1, pf_all(PF_MURMUR_C1)), 31);
    return _mm512_mullo_epi64(k1, pf_all(PF_MURMUR_C2));
}

PF_512 __m512i pf_mix_k2_x8(__m512i k2) {
    k2 = _mm512_rol_epi64(_mm512_mullo_epi64(k2, pf_all(PF_MURMUR_C2)), 33);
    return _mm512_mullo_epi64(k2, pf_all(PF_MURMUR_C1));
}

PF_512 __m512i pf_fmix64_x8(__m512i x) {
    x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 33)), pf_all(PF_MURMUR_F1));
    x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 33)), pf_all(PF_MURMUR_F2));
    return _mm512_xor_si512(x, _mm512_srli_epi64(x, 33));
}

PF_512 __m512i pf_murmur_end_x8(__m512i h1, __m512i h2, __m512i length) {
    h1 = _mm512_xor_si512(h1, length);
    h2 = _mm512_xor_si512(h2, length);
    h1 = _mm512_add_epi64(h1, h2);
    h2 = _mm512_add_epi64(h2, h1);
    return _mm512_srli_epi64(_mm512_add_epi64(pf_fmix64_x8(h1), pf_fmix64_x8(h2)), 1);
}

PF_512 __m512i pf_murmur_word_x8(__m512i k1, __m512i length) {
    const __m512i seed = pf_all(PF_MURMUR_SEED);
    return pf_murmur_end_x8(_mm512_xor_si512(seed, pf_mix_k1_x8(k1)), seed, length);
}

/* Appends the hashes below theta of the lanes; out has space for eight more. (A compressing store is slow on Zen.) */
PF_512 size_t pf_append_x8(__m512i hash, unsigned lanes, uint64_t theta, uint64_t *out, size_t count) {
    __mmask8 below = _mm512_mask_cmplt_epu64_mask((__mmask8)lanes, hash, pf_all(theta));
    if (below == 0) return count;
    _mm512_storeu_si512(out + count, _mm512_maskz_compress_epi64(below, hash));
    return count + (size_t)_mm_popcnt_u32(below);
}

PF_AVX512 static size_t pf_hash_words4_avx512(const uint8_t *values, const uint8_t *validity, size_t bit,
                                              size_t n, uint64_t theta, uint64_t *out) {
    const __m512i length = pf_all(4);
    size_t count = 0;
    for (size_t i = 0; i < n; i += PF_LANES) {
        size_t left = n - i;
        __mmask8 lanes = left >= PF_LANES ? 0xFF : (__mmask8)((1u << left) - 1);
        __m256i words = _mm256_maskz_loadu_epi32(lanes, values + 4 * i);
        __m512i hash = pf_murmur_word_x8(_mm512_cvtepu32_epi64(words), length);
        count = pf_append_x8(hash, pf_valid_lanes(validity, bit + i, left), theta, out, count);
    }
    return count;
}

PF_AVX512 static size_t pf_hash_words8_avx512(const uint8_t *values, const uint8_t *validity, size_t bit,
                                              size_t n, uint64_t theta, uint64_t *out) {
    const __m512i length = pf_all(8);
    size_t count = 0;
    for (size_t i = 0; i < n; i += PF_LANES) {
        size_t left = n - i;
        __mmask8 lanes = left >= PF_LANES ? 0xFF : (__mmask8)((1u << left) - 1);
        __m512i hash = pf_murmur_word_x8(_mm512_maskz_loadu_epi64(lanes, values + 8 * i), length);
        count = pf_append_x8(hash, pf_valid_lanes(validity, bit + i, left), theta, out, count);
    }
    return count;
}

PF_AVX512 static size_t pf_hash_decimals_avx512(const uint8_t *values, const uint8_t *validity, size_t bit,
                                                size_t n, uint64_t theta, uint64_t *out) {
    const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    const __m512i odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    const __m512i swap = _mm512_broadcast_i32x4(_mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));
    size_t count = 0, i = 0;
    for (; i + PF_LANES <= n; i += PF_LANES) {
        __m512i a = _mm512_loadu_si512(values + 16 * i), b = _mm512_loadu_si512(values + 16 * i + 64);
        __m512i low = _mm512_permutex2var_epi64(a, even, b), high = _mm512_permutex2var_epi64(a, odd, b);
        __m512i sign = _mm512_srai_epi64(low, 63);
        unsigned lanes = pf_valid_lanes(validity, bit + i, PF_LANES);
        if (_mm512_mask_cmpneq_epi64_mask((__mmask8)lanes, high, sign)) { /* more than 64 bits */
            count += pf_hash_decimals_portable(values + 16 * i, validity, bit + i, PF_LANES, theta, out + count);
            continue;
        }
        /* (72 - leading zeros of the magnitude) / 8 bytes, shifted to the top and reversed */
        __m512i zeros = _mm512_lzcnt_epi64(_mm512_xor_si512(low, sign));
        __m512i length = _mm512_srli_epi64(_mm512_sub_epi64(pf_all(72), zeros), 3);
        __m512i shift = _mm512_sub_epi64(pf_all(64), _mm512_slli_epi64(length, 3));
        __m512i k1 = _mm512_shuffle_epi8(_mm512_sllv_epi64(low, shift), swap);
        count = pf_append_x8(pf_murmur_word_x8(k1, length), lanes, theta, out, count);
    }
    return count + pf_hash_decimals_portable(values + 16 * i, validity, bit + i, n - i, theta, out + count);
}

/* The 16 bytes at each of eight places, as first and second words. */
PF_512 void pf_load_pairs(const uint8_t *data, __m512i places, __m512i *k1, __m512i *k2) {
    uint64_t at[PF_LANES];
    _mm512_storeu_si512(at, places);
    __m512i a = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(data + at[0])));
    __m512i b = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(data + at[4])));
    a = _mm512_inserti32x4(a, _mm_loadu_si128((const __m128i *)(data + at[1])), 1);
    b = _mm512_inserti32x4(b, _mm_loadu_si128((const __m128i *)(data + at[5])), 1);
    a = _mm512_inserti32x4(a, _mm_loadu_si128((const __m128i *)(data + at[2])), 2);
    b = _mm512_inserti32x4(b, _mm_loadu_si128((const __m128i *)(data + at[6])), 2);
    a = _mm512_inserti32x4(a, _mm_loadu_si128((const __m128i *)(data + at[3])), 3);
    b = _mm512_inserti32x4(b, _mm_loadu_si128((const __m128i *)(data + at[7])), 3);
    *k1 = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), b);
    *k2 = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), b);
}

PF_AVX512 static int64_t pf_hash_strings_avx512(const pf_strings *from, const uint8_t *validity, size_t bit,
                                                size_t n, uint64_t theta, uint64_t *out) {
    const __m512i seed = pf_all(PF_MURMUR_SEED), one = pf_all(1), block = pf_all(PF_BLOCK);
    int64_t count = 0;
    size_t i = 0;
    if (from->data_size < PF_BLOCK) return pf_hash_strings_portable(from, validity, bit, n, theta, out);
    const __m512i last = pf_all(from->data_size - PF_BLOCK); /* where 16 bytes may still be read */
    for (; i + PF_LANES <= n; i += PF_LANES) {
        __m512i at, end;
        if (from->wide) {
            at = _mm512_loadu_si512(from->offsets + 8 * i);
            end = _mm512_loadu_si512(from->offsets + 8 * i + 8);
        } else {
            at = _mm512_cvtepi32_epi64(_mm256_loadu_si256((const __m256i *)(from->offsets + 4 * i)));
            end = _mm512_cvtepi32_epi64(_mm256_loadu_si256((const __m256i *)(from->offsets + 4 * i + 4)));
        }
        /* near the end of the data, or offsets that are wrong: one by one */
        if (_mm512_cmpgt_epu64_mask(end, last) | _mm512_cmpgt_epu64_mask(at, end)) {
            count = pf_hash_strings_from(from, validity, bit, i, i + PF_LANES, theta, out, count);
            if (count < 0) return count;
            continue;
        }
        __m512i length = _mm512_sub_epi64(end, at), rest = length, h1 = seed, h2 = seed, k1, k2;
        __mmask8 whole = _mm512_cmpge_epu64_mask(rest, block);
        while (whole) {
            pf_load_pairs(from->data, at, &k1, &k2);
            __m512i g1 = _mm512_rol_epi64(_mm512_xor_si512(h1, pf_mix_k1_x8(k1)), 27);
            g1 = _mm512_add_epi64(g1, h2);
            g1 = _mm512_add_epi64(_mm512_add_epi64(_mm512_slli_epi64(g1, 2), g1), pf_all(PF_MURMUR_N1));
            __m512i g2 = _mm512_rol_epi64(_mm512_xor_si512(h2, pf_mix_k2_x8(k2)), 31);
            g2 = _mm512_add_epi64(g2, g1);
            g2 = _mm512_add_epi64(_mm512_add_epi64(_mm512_slli_epi64(g2, 2), g2), pf_all(PF_MURMUR_N2));
            h1 = _mm512_mask_mov_epi64(h1, whole, g1);
            h2 = _mm512_mask_mov_epi64(h2, whole, g2);
            at = _mm512_mask_add_epi64(at, whole, at, block);
            rest = _mm512_mask_sub_epi64(rest, whole, rest, block);
            whole = _mm512_cmpge_epu64_mask(rest, block);
        }
        pf_load_pairs(from->data, at, &k1, &k2);
        /* (1 << bits) - 1, which is all ones from 64 bits on */
        __m512i bits = _mm512_slli_epi64(rest, 3), more = _mm512_subs_epu16(bits, pf_all(64));
        k1 = _mm512_and_si512(k1, _mm512_sub_epi64(_mm512_sllv_epi64(one, bits), one));
        k2 = _mm512_and_si512(k2, _mm512_sub_epi64(_mm512_sllv_epi64(one, more), one));
        h1 = _mm512_xor_si512(h1, pf_mix_k1_x8(k1));
        h2 = _mm512_xor_si512(h2, pf_mix_k2_x8(k2));
        unsigned lanes = pf_valid_lanes(validity, bit + i, PF_LANES) & _mm512_test_epi64_mask(length, length);
        count = (int64_t)pf_append_x8(pf_murmur_end_x8(h1, h2, length), lanes, theta, out, (size_t)count);
    }
    return pf_hash_strings_from(from, validity, bit, i, n, theta, out, count);
}
#endif

PF_DISPATCH(size_t, pf_hash_words4,
            (const uint8_t *values, const uint8_t *validity, size_t bit, size_t n, uint64_t theta, uint64_t *out),
            (values, validity, bit, n, theta, out))
PF_DISPATCH(size_t, pf_hash_words8,
            (const uint8_t *values, const uint8_t *validity, size_t bit, size_t n, uint64_t theta, uint64_t *out),
            (values, validity, bit, n, theta, out))
PF_DISPATCH(size_t, pf_hash_decimals,
            (const uint8_t *values, const uint8_t *validity, size_t bit, size_t n, uint64_t theta, uint64_t *out),
            (values, validity, bit, n, theta, out))
PF_DISPATCH(int64_t, pf_hash_strings,
            (const pf_strings *from, const uint8_t *validity, size_t bit, size_t n, uint64_t theta, uint64_t *out),
            (from, validity, bit, n, theta, out))

#endif
