/* The set bits of bitmap containers as positions, values or runs. */
#ifndef PF_BITMAP_EXPAND_H
#define PF_BITMAP_EXPAND_H

#include "bitmap_count.h"

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
