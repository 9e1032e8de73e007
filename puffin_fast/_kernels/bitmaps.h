/* Bitmap containers: 1,024 little-endian words of bits, at any alignment. */
#ifndef PF_BITMAPS_H
#define PF_BITMAPS_H

#include "simd.h"

#define PF_WORDS 1024

/* The bits of a word at which runs start: each 1 after a 0; `before` is the word before it. */
PF_BODY uint64_t pf_run_starts(uint64_t word, uint64_t before) { return word & ~((word << 1) | (before >> 63)); }

enum { PF_MANY_RUNS = 2048 }; /* no container of so many is smallest as runs: counts may stop there */

/* Set bits of a bitmap container, or of its run starts but those in the first word (which may stop at many): sixteen
 * words at a time, whose ones are added up byte by byte. */
PF_BODY uint64_t pf_sum_words(const uint8_t *bits, int runs) {
    uint64_t total = 0;
    for (size_t i = (size_t)runs; i < PF_WORDS; i += 16) {
        size_t end = i + 16 < PF_WORDS ? i + 16 : PF_WORDS;
        uint64_t sums = 0;
        for (size_t j = i; j < end; j++) {
            uint64_t word = pf_get64(bits + 8 * j);
            if (runs) word = pf_run_starts(word, pf_get64(bits + 8 * j - 8));
            word -= (word >> 1) & 0x5555555555555555ull;
            word = (word & 0x3333333333333333ull) + ((word >> 2) & 0x3333333333333333ull);
            sums += (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Full;
        }
        sums = (sums & 0x00FF00FF00FF00FFull) + ((sums >> 8) & 0x00FF00FF00FF00FFull);
        total += (sums * 0x0001000100010001ull) >> 48;
        if (runs && total >= PF_MANY_RUNS) break;
    }
    return total;
}

/* Cardinality of a bitmap container. */
static uint32_t pf_bitmap_cardinality_portable(const uint8_t *bits) { return (uint32_t)pf_sum_words(bits, 0); }

/* The number of runs, or any from PF_MANY_RUNS on when there are so many. */
static uint32_t pf_bitmap_runs_portable(const uint8_t *bits) {
    return (uint32_t)(pf_ones(pf_run_starts(pf_get64(bits), 0)) + pf_sum_words(bits, 1));
}

#if PF_X86
static inline PF_AVX2 __m256i pf_load256(const uint8_t *at) { return _mm256_loadu_si256((const __m256i *)at); }

/* Set bits of each byte, looked up by halves. */
static inline PF_AVX2 __m256i pf_ones_by_byte(__m256i bits) {
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i ones = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2,
                                          2, 3, 2, 3, 3, 4);
    return _mm256_add_epi8(_mm256_shuffle_epi8(ones, _mm256_and_si256(bits, low)),
                           _mm256_shuffle_epi8(ones, _mm256_and_si256(_mm256_srli_epi16(bits, 4), low)));
}

static inline PF_AVX2 uint32_t pf_sum_lanes(__m256i lanes) {
    uint64_t four[4];
    _mm256_storeu_si256((__m256i *)four, lanes);
    return (uint32_t)(four[0] + four[1] + four[2] + four[3]);
}

PF_AVX2 static uint32_t pf_bitmap_cardinality_avx2(const uint8_t *bits) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i total = zero;
    for (size_t i = 0; i < 8 * PF_WORDS; i += 256) { /* 8 times 8 ones fit a byte */
        __m256i sums = zero;
        for (size_t j = 0; j < 256; j += 32)
            sums = _mm256_add_epi8(sums, pf_ones_by_byte(pf_load256(bits + i + j)));
        total = _mm256_add_epi64(total, _mm256_sad_epu8(sums, zero));
    }
    return pf_sum_lanes(total);
}

PF_AVX2 static uint32_t pf_bitmap_runs_avx2(const uint8_t *bits) {
    const __m256i zero = _mm256_setzero_si256();
    uint64_t head[4] = {0};
    memcpy(head + 1, bits, 24);
    __m256i before = _mm256_loadu_si256((const __m256i *)head); /* each word's predecessor */
    uint32_t total = 0;
    for (size_t i = 0; i < 8 * PF_WORDS && total < PF_MANY_RUNS; i += 256) {
        __m256i sums = zero;
        for (size_t j = i; j < i + 256; j += 32) {
            __m256i word = _mm256_loadu_si256((const __m256i *)(bits + j));
            if (j > 0) before = _mm256_loadu_si256((const __m256i *)(bits + j - 8));
            __m256i after = _mm256_or_si256(_mm256_slli_epi64(word, 1), _mm256_srli_epi64(before, 63));
            sums = _mm256_add_epi8(sums, pf_ones_by_byte(_mm256_andnot_si256(after, word)));
        }
        total += pf_sum_lanes(_mm256_sad_epu8(sums, zero));
    }
    return total;
}

/* Plain loops, which compilers turn into AVX-512's count of each word. */
PF_AVX512 static uint32_t pf_bitmap_cardinality_avx512(const uint8_t *bits) {
    uint64_t ones = 0;
    for (size_t i = 0; i < PF_WORDS; i++) ones += (uint64_t)__builtin_popcountll(pf_get64(bits + 8 * i));
    return (uint32_t)ones;
}

PF_AVX512 static uint32_t pf_bitmap_runs_avx512(const uint8_t *bits) {
    uint64_t starts = (uint64_t)__builtin_popcountll(pf_run_starts(pf_get64(bits), 0));
    for (size_t i = 1; i < PF_WORDS && starts < PF_MANY_RUNS; i += 64) {
        size_t end = i + 64 < PF_WORDS ? i + 64 : PF_WORDS;
        for (size_t j = i; j < end; j++)
            starts += (uint64_t)__builtin_popcountll(pf_run_starts(pf_get64(bits + 8 * j), pf_get64(bits + 8 * j - 8)));
    }
    return (uint32_t)starts;
}
#endif
PF_DISPATCH(uint32_t, pf_bitmap_cardinality, (const uint8_t *bits), (bits))
PF_DISPATCH(uint32_t, pf_bitmap_runs, (const uint8_t *bits), (bits))

/* out = the union of n > 0 bitmaps, four at a time. */
PF_BODY void pf_bitmap_unite_body(const uint8_t *const *bitmaps, size_t n, uint8_t *out) {
    for (size_t k = 0; k < n; k += 4) {
        const uint8_t *a = bitmaps[k], *b = k + 1 < n ? bitmaps[k + 1] : a, *c = k + 2 < n ? bitmaps[k + 2] : a;
        const uint8_t *d = k + 3 < n ? bitmaps[k + 3] : a, *e = k > 0 ? out : a;
        for (size_t i = 0; i < 8 * PF_WORDS; i += 8)
            pf_put64(out + i, pf_get64(a + i) | pf_get64(b + i) | pf_get64(c + i) | pf_get64(d + i) | pf_get64(e + i));
    }
}

enum { PF_OR = 0, PF_AND = 1, PF_ANDNOT = 2, PF_XOR = 3 };

/* out = a OP b; out may be a. */
PF_BODY void pf_bitmap_combine_body(int op, const uint8_t *a, const uint8_t *b, uint8_t *out) {
    if (op == PF_OR)
        for (size_t i = 0; i < 8 * PF_WORDS; i += 8) pf_put64(out + i, pf_get64(a + i) | pf_get64(b + i));
    else if (op == PF_AND)
        for (size_t i = 0; i < 8 * PF_WORDS; i += 8) pf_put64(out + i, pf_get64(a + i) & pf_get64(b + i));
    else if (op == PF_ANDNOT)
        for (size_t i = 0; i < 8 * PF_WORDS; i += 8) pf_put64(out + i, pf_get64(a + i) & ~pf_get64(b + i));
    else
        for (size_t i = 0; i < 8 * PF_WORDS; i += 8) pf_put64(out + i, pf_get64(a + i) ^ pf_get64(b + i));
}

/* The same; both return how many bits of out are set. */
static uint32_t pf_bitmap_unite_portable(const uint8_t *const *bitmaps, size_t n, uint8_t *out) {
    pf_bitmap_unite_body(bitmaps, n, out);
    return pf_bitmap_cardinality_portable(out);
}
static uint32_t pf_bitmap_combine_portable(int op, const uint8_t *a, const uint8_t *b, uint8_t *out) {
    pf_bitmap_combine_body(op, a, b, out);
    return pf_bitmap_cardinality_portable(out);
}
#if PF_X86
/* Counted as they are made: 256 bytes of each bitmap at a time. */
PF_AVX2 static uint32_t pf_bitmap_unite_avx2(const uint8_t *const *bitmaps, size_t n, uint8_t *out) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i total = zero;
    for (size_t i = 0; i < 8 * PF_WORDS; i += 256) {
        __m256i sums = zero, united[8];
        for (size_t j = 0; j < 8; j++) united[j] = pf_load256(bitmaps[0] + i + 32 * j);
        for (size_t k = 1; k < n; k++)
            for (size_t j = 0; j < 8; j++)
                united[j] = _mm256_or_si256(united[j], pf_load256(bitmaps[k] + i + 32 * j));
        for (size_t j = 0; j < 8; j++) {
            _mm256_storeu_si256((__m256i *)(out + i + 32 * j), united[j]);
            sums = _mm256_add_epi8(sums, pf_ones_by_byte(united[j]));
        }
        total = _mm256_add_epi64(total, _mm256_sad_epu8(sums, zero));
    }
    return pf_sum_lanes(total);
}
static inline PF_AVX2 __m256i pf_combine256(int op, __m256i a, __m256i b) {
    if (op == PF_OR) return _mm256_or_si256(a, b);
    if (op == PF_AND) return _mm256_and_si256(a, b);
    return op == PF_ANDNOT ? _mm256_andnot_si256(b, a) : _mm256_xor_si256(a, b);
}
PF_AVX2 static uint32_t pf_bitmap_combine_avx2(int op, const uint8_t *a, const uint8_t *b, uint8_t *out) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i total = zero;
    for (size_t i = 0; i < 8 * PF_WORDS; i += 256) {
        __m256i sums = zero;
        for (size_t j = i; j < i + 256; j += 32) {
            __m256i both = pf_combine256(op, pf_load256(a + j), pf_load256(b + j));
            _mm256_storeu_si256((__m256i *)(out + j), both);
            sums = _mm256_add_epi8(sums, pf_ones_by_byte(both));
        }
        total = _mm256_add_epi64(total, _mm256_sad_epu8(sums, zero));
    }
    return pf_sum_lanes(total);
}
PF_AVX512 static uint32_t pf_bitmap_unite_avx512(const uint8_t *const *bitmaps, size_t n, uint8_t *out) {
    pf_bitmap_unite_body(bitmaps, n, out);
    return pf_bitmap_cardinality_avx512(out);
}
PF_AVX512 static uint32_t pf_bitmap_combine_avx512(int op, const uint8_t *a, const uint8_t *b, uint8_t *out) {
    pf_bitmap_combine_body(op, a, b, out);
    return pf_bitmap_cardinality_avx512(out);
}
#endif
PF_DISPATCH(uint32_t, pf_bitmap_unite, (const uint8_t *const *bitmaps, size_t n, uint8_t *out), (bitmaps, n, out))
PF_DISPATCH(uint32_t, pf_bitmap_combine, (int op, const uint8_t *a, const uint8_t *b, uint8_t *out), (op, a, b, out))

/* Bits start … end - 1 of a bitmap of any length set. */
static void pf_set_range(uint8_t *bits, uint64_t start, uint64_t end) {
    if (start >= end) return;
    uint64_t first = start >> 3, last = (end - 1) >> 3;
    uint8_t head = (uint8_t)(0xFF << (start & 7)), tail = (uint8_t)(0xFF >> (7 - ((end - 1) & 7)));
    if (first == last) {
        bits[first] |= head & tail;
        return;
    }
    bits[first] |= head;
    memset(bits + first + 1, 0xFF, last - first - 1);
    bits[last] |= tail;
}

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

/* Positions base + i of the set bits of n_words words into out, at most `room` of them; returns how many were
 * written. While room allows, a word's positions are written ten at a time, also past their end: most
 * words of a bitmap of 10% have no more, so that few branches are mispredicted. */
PF_BODY size_t pf_expand_body(const uint8_t *bits, size_t n_words, uint64_t base, uint64_t *out, size_t room) {
    uint64_t *const start = out, *const end = out + room;
    for (size_t i = 0; i < n_words; i++, base += 64) {
        uint64_t word = pf_get64(bits + 8 * i);
        if (word == 0) continue;
        if (end - out >= 70) {
            uint64_t *next = out + pf_ones(word);
            do {
                for (int j = 0; j < 10; j++) {
                    out[j] = base + (uint64_t)__builtin_ctzll(word | (1ull << 63));
                    word &= word - 1;
                }
                out += 10;
            } while (out < next);
            out = next;
        } else {
            for (; word != 0 && out < end; word &= word - 1) *out++ = base + (uint64_t)__builtin_ctzll(word);
        }
    }
    return (size_t)(out - start);
}
static size_t pf_expand_portable(const uint8_t *bits, size_t n_words, uint64_t base, uint64_t *out, size_t room) {
    return pf_expand_body(bits, n_words, base, out, room);
}
#if PF_X86
PF_AVX2 static size_t pf_expand_avx2(const uint8_t *bits, size_t n_words, uint64_t base, uint64_t *out,
                                     size_t room) {
    uint64_t *const start = out, *const end = out + room;
    size_t i = 0;
    for (; i < n_words && end - out >= 64; i++, base += 64) {
        uint64_t word = pf_get64(bits + 8 * i);
        uint64_t *next = out + _mm_popcnt_u64(word);
        if (next - out > 10) { /* byte by byte, whatever their bits */
            for (uint64_t at = base; at < base + 64; at += 8, word >>= 8) {
                const __m256i origin = _mm256_set1_epi64x((long long)at);
                __m128i set = _mm_loadl_epi64((const __m128i *)pf_bits_of_byte[word & 0xFF]);
                __m256i low = _mm256_cvtepu8_epi64(set), high = _mm256_cvtepu8_epi64(_mm_srli_si128(set, 4));
                _mm256_storeu_si256((__m256i *)out, _mm256_add_epi64(origin, low));
                _mm256_storeu_si256((__m256i *)(out + 4), _mm256_add_epi64(origin, high));
                out += _mm_popcnt_u64(word & 0xFF);
            }
            continue;
        }
        for (int j = 0; j < 10; j++) {
            out[j] = base + _tzcnt_u64(word);
            word = _blsr_u64(word);
        }
        out = next;
    }
    return (size_t)(out - start) + pf_expand_body(bits + 8 * i, n_words - i, base, out, (size_t)(end - out));
}
PF_AVX512 static size_t pf_expand_avx512(const uint8_t *bits, size_t n_words, uint64_t base, uint64_t *out,
                                         size_t room) {
    uint64_t *const start = out, *const end = out + room;
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
            for (size_t j = 16; j < ones; j += 8)
                _mm512_storeu_si512(out + j, _mm512_add_epi64(origin, _mm512_cvtepu8_epi64(
                                                                          _mm_loadl_epi64((__m128i *)(indexes + j)))));
        }
        out += ones;
    }
    return (size_t)(out - start) + pf_expand_body(bits + 8 * i, n_words - i, base, out, (size_t)(end - out));
}
#endif
PF_DISPATCH(size_t, pf_expand, (const uint8_t *bits, size_t n_words, uint64_t base, uint64_t *out, size_t room),
            (bits, n_words, base, out, room))

/* The set bits of a bitmap container as u16 values (an array container); out has room for exactly `room`. */
PF_BODY size_t pf_values_of_bitmap_body(const uint8_t *bits, size_t first, uint8_t *out, size_t room) {
    size_t n = 0;
    for (size_t i = first; i < PF_WORDS; i++) {
        uint64_t word = pf_get64(bits + 8 * i);
        if (word == 0) continue;
        if (room - n >= 64) {
            size_t next = n + (size_t)pf_ones(word);
            for (; n < next; n += 4)
                for (size_t j = 0; j < 4; j++) {
                    pf_put16(out + 2 * (n + j), (uint16_t)(64 * i + (size_t)__builtin_ctzll(word | (1ull << 63))));
                    word &= word - 1;
                }
            n = next;
        } else {
            for (; word != 0; word &= word - 1, n++)
                pf_put16(out + 2 * n, (uint16_t)(64 * i + (size_t)__builtin_ctzll(word)));
        }
    }
    return n;
}
static size_t pf_values_of_bitmap_portable(const uint8_t *bits, uint8_t *out, size_t room) {
    return pf_values_of_bitmap_body(bits, 0, out, room);
}
#if PF_X86
PF_AVX2 static size_t pf_values_of_bitmap_avx2(const uint8_t *bits, uint8_t *out, size_t room) {
    return pf_values_of_bitmap_body(bits, 0, out, room);
}
PF_AVX512 static size_t pf_values_of_bitmap_avx512(const uint8_t *bits, uint8_t *out, size_t room) {
    uint8_t counting[64];
    for (int i = 0; i < 64; i++) counting[i] = (uint8_t)i;
    const __m512i every = _mm512_loadu_si512(counting);
    size_t n = 0, i = 0;
    for (; i < PF_WORDS && room - n >= 64; i++) {
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
    return n + pf_values_of_bitmap_body(bits, i, out + 2 * n, room - n);
}
#endif
PF_DISPATCH(size_t, pf_values_of_bitmap, (const uint8_t *bits, uint8_t *out, size_t room), (bits, out, room))

/* How many of the first `below` bits are set. */
static uint32_t pf_bitmap_rank(const uint8_t *bits, uint32_t below) {
    uint32_t ones = 0, i = 0;
    for (; 64 * (i + 1) <= below; i++) ones += (uint32_t)pf_ones(pf_get64(bits + 8 * i));
    if (below & 63) ones += (uint32_t)pf_ones(pf_get64(bits + 8 * i) & (((uint64_t)1 << (below & 63)) - 1));
    return ones;
}

/* The set bit that has exactly `index` set bits before it; there must be one. */
static uint32_t pf_bitmap_select(const uint8_t *bits, uint32_t index) {
    for (uint32_t i = 0; i < PF_WORDS; i++) {
        uint64_t word = pf_get64(bits + 8 * i);
        uint32_t ones = (uint32_t)pf_ones(word);
        if (index < ones) {
            while (index-- > 0) word &= word - 1;
            return 64 * i + (uint32_t)__builtin_ctzll(word);
        }
        index -= ones;
    }
    return 0;
}

/* Which of the 64 words from words[0] on differ from themselves moved by one bit: a run starts in them or has ended
 * before them. */
PF_BODY uint64_t pf_changed_words(const uint8_t *words, uint64_t before) {
    uint64_t changed = 0;
    for (unsigned i = 0; i < 64; i++) {
        uint64_t word = pf_get64(words + 8 * i);
        changed |= (uint64_t)(word != ((word << 1) | (before >> 63))) << i;
        before = word;
    }
    return changed;
}
#if PF_X86
static inline PF_AVX2 uint64_t pf_changed_words_avx2(const uint8_t *words, uint64_t before) {
    uint64_t head[4] = {before};
    memcpy(head + 1, words, 24);
    __m256i last = pf_load256((const uint8_t *)head);
    uint64_t same = 0;
    for (unsigned i = 0; i < 64; i += 4) {
        __m256i word = pf_load256(words + 8 * i);
        if (i > 0) last = pf_load256(words + 8 * i - 8);
        __m256i moved = _mm256_or_si256(_mm256_slli_epi64(word, 1), _mm256_srli_epi64(last, 63));
        same |= (uint64_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(word, moved))) << i;
    }
    return ~same;
}
#endif

/* The n_runs < PF_MANY_RUNS runs of a bitmap container as (start, length - 1) pairs: the places where a bit differs
 * from the one before it are starts and ends by turns. Written two at a time, for few words have more, so that few
 * branches are mispredicted. */
PF_BODY void pf_runs_of_bitmap_body(const uint8_t *bits, uint8_t *out, uint32_t n_runs,
                                    uint64_t (*changed_words)(const uint8_t *, uint64_t)) {
    uint8_t edges[4 * PF_MANY_RUNS + 8];
    uint64_t before = 0;
    size_t n = 0;
    for (size_t i = 0; i < PF_WORDS; i += 64) {
        uint64_t changed = changed_words(bits + 8 * i, before);
        before = pf_get64(bits + 8 * (i + 63));
        for (; changed != 0; changed &= changed - 1) {
            size_t at = i + (size_t)__builtin_ctzll(changed);
            uint64_t word = pf_get64(bits + 8 * at), last = at > 0 ? pf_get64(bits + 8 * at - 8) : 0;
            uint64_t left = word ^ ((word << 1) | (last >> 63));
            size_t next = n + (size_t)pf_ones(left);
            if (next > 2 * (size_t)n_runs) return; /* only if the bits change under the scan */
            do {
                pf_put16(edges + 2 * n, (uint16_t)(64 * at + (size_t)__builtin_ctzll(left)));
                left &= left - 1;
                pf_put16(edges + 2 * n + 2, (uint16_t)(64 * at + (size_t)__builtin_ctzll(left | (1ull << 63))));
                left &= left - 1;
                n += 2;
            } while (n < next);
            n = next;
        }
    }
    pf_put16(edges + 2 * n, 0); /* where a run reaches the container's end: 65,536 as 16 bits */
    for (size_t i = 0; i < 4 * (size_t)n_runs; i += 4) {
        uint32_t run; /* the end, less the start and 1, in its upper half */
        memcpy(&run, edges + i, 4);
        run -= (run << 16) + 0x10000u;
        memcpy(out + i, &run, 4);
    }
}
static void pf_runs_of_bitmap_portable(const uint8_t *bits, uint8_t *out, uint32_t n_runs) {
    pf_runs_of_bitmap_body(bits, out, n_runs, pf_changed_words);
}
#if PF_X86
PF_AVX2 static void pf_runs_of_bitmap_avx2(const uint8_t *bits, uint8_t *out, uint32_t n_runs) {
    pf_runs_of_bitmap_body(bits, out, n_runs, pf_changed_words_avx2);
}
#define pf_runs_of_bitmap_avx512 pf_runs_of_bitmap_avx2
#endif
PF_DISPATCH(void, pf_runs_of_bitmap, (const uint8_t *bits, uint8_t *out, uint32_t n_runs), (bits, out, n_runs))

#endif
