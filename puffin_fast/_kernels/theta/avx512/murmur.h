/* MurmurHash3 x64-128 of eight values at a time with AVX-512. */
#ifndef PF_AVX512_MURMUR_H
#define PF_AVX512_MURMUR_H

/* The validity of up to 8 values, from bit `bit` on, as a mask of lanes. */
PF_BODY unsigned pf_valid_lanes(const uint8_t *validity, size_t bit, size_t n) {
    if (n > PF_LANES) n = PF_LANES;
    unsigned lanes = (1u << n) - 1;
    if (validity == NULL) return lanes;
    unsigned shift = bit & 7, bits = validity[bit >> 3] >> shift;
    if (shift + n > 8) bits |= (unsigned)validity[(bit >> 3) + 1] << (8 - shift);
    return lanes & bits;
}

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

/* Appends the hashes of the lanes that are below theta. out has space for eight more. (Compressing stores are slow on
 * Zen.) */
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
        pf_prefetch_ahead(values + 4 * i);
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
        pf_prefetch_ahead(values + 8 * i);
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
        pf_prefetch_ahead(values + 16 * i);
        pf_prefetch_ahead(values + 16 * i + 64);
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

/* The 16 bytes at each of eight offsets, as first and second words. */
PF_512 void pf_load_pairs(const uint8_t *data, __m512i places, __m512i *k1, __m512i *k2) {
    uint64_t at[PF_LANES];
    _mm512_storeu_si512(at, places);
    for (int lane = 0; lane < PF_LANES; lane += 2) pf_prefetch_ahead(data + at[lane]);
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
    const __m512i last = pf_all(from->data_size - PF_BLOCK); /* the last offset at which 16 bytes may be read */
    for (; i + PF_LANES <= n; i += PF_LANES) {
        __m512i at, end;
        pf_prefetch_ahead(from->offsets + (from->wide ? 8 : 4) * i);
        if (from->wide) {
            at = _mm512_loadu_si512(from->offsets + 8 * i);
            end = _mm512_loadu_si512(from->offsets + 8 * i + 8);
        } else {
            at = _mm512_cvtepi32_epi64(_mm256_loadu_si256((const __m256i *)(from->offsets + 4 * i)));
            end = _mm512_cvtepi32_epi64(_mm256_loadu_si256((const __m256i *)(from->offsets + 4 * i + 4)));
        }
        /* one value at a time near the end of the data, and where offsets are wrong */
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
