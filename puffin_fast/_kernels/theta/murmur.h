/* MurmurHash3 x64-128 of many values, seed 9001, as the DataSketches library uses it: hash = h1 >> 1.
 *
 * Each function hashes n values, writes the hashes below theta to out, which has space for n + 8 hashes, and returns
 * their number. Values whose validity bit is 0 and empty byte strings are skipped. A value of at most 8 bytes is one
 * little-endian word k1 and its length. Longer values are read as pairs of words (k1, k2).
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

/* The first n < 16 bytes as two words, padded with 0. `readable` bytes may be read. */
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

/* The hash of a value of any length. `readable` >= length bytes may be read. */
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
    if (length < PF_BLOCK) {
        int shift = 8 * (PF_BLOCK - length);
        uint64_t k1 = __builtin_bswap64(high << shift | low >> (64 - shift)), k2 = __builtin_bswap64(low << shift);
        return pf_murmur_end(PF_MURMUR_SEED ^ pf_mix_k1(k1), PF_MURMUR_SEED ^ pf_mix_k2(k2), (uint64_t)length);
    }
    pf_put64(bytes, __builtin_bswap64(high));
    pf_put64(bytes + 8, __builtin_bswap64(low));
    return pf_murmur_bytes(bytes + PF_BLOCK - length, (uint64_t)length, (uint64_t)length);
}

/* ---- validity and offsets ----------------------------------------------------------------------------------- */

PF_BODY unsigned pf_valid(const uint8_t *validity, size_t bit) {
    return validity == NULL ? 1 : (validity[bit >> 3] >> (bit & 7)) & 1;
}

typedef struct {
    const uint8_t *data;
    uint64_t data_size;
    const uint8_t *offsets; /* n + 1 offsets for n values */
    int wide;               /* whether offsets have 8 bytes instead of 4 */
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
        pf_prefetch_ahead(values + 4 * i);
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
        pf_prefetch_ahead(values + 8 * i);
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
        pf_prefetch_ahead(values + 16 * i);
        uint64_t hash = pf_murmur_decimal(pf_get64(values + 16 * i), pf_get64(values + 16 * i + 8));
        out[count] = hash;
        count += (hash < theta) & pf_valid(validity, bit + i);
    }
    return count;
}

/* Returns the number of hashes, or PF_OUT_OF_BOUNDS when an offset of a valid value is outside of the data. */
static int64_t pf_hash_strings_from(const pf_strings *from, const uint8_t *validity, size_t bit, size_t first,
                                    size_t n, uint64_t theta, uint64_t *out, int64_t count) {
    for (size_t i = first; i < n; i++) {
        int64_t start = pf_offset(from, i), end = pf_offset(from, i + 1);
        if (!pf_valid(validity, bit + i) || start == end) continue;
        if (start < 0 || end < start || (uint64_t)end > from->data_size) return PF_OUT_OF_BOUNDS;
        pf_prefetch_ahead(from->data + start);
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

/* ---- many values, by the processor's level ------------------------------------------------------------------ */

#if PF_X86
/* AVX2 does not multiply 64-bit words. What compilers build from its 32-bit products is slower than scalar code. */
#define pf_hash_words4_avx2 pf_hash_words4_portable
#define pf_hash_words8_avx2 pf_hash_words8_portable
#define pf_hash_decimals_avx2 pf_hash_decimals_portable
#define pf_hash_strings_avx2 pf_hash_strings_portable
#include "avx512/murmur.h"
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
