/* The set bits of bitmap containers as positions, values or runs. */
#ifndef PF_BITMAP_EXPAND_H
#define PF_BITMAP_EXPAND_H

#include "bitmap_count.h"

/* Writes the positions base + i of the set bits of n_words words to out, at most `capacity` of them, and returns their
 * number. Where the capacity allows it, a word's positions are written ten at a time, with some past its last one: most
 * words of a bitmap with 10% of its bits set have no more, so that few branches are mispredicted. */
PF_BODY size_t pf_expand_body(const uint8_t *bits, size_t n_words, uint64_t base, uint64_t *out, size_t capacity) {
    uint64_t *const start = out, *const end = out + capacity;
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
static size_t pf_expand_portable(const uint8_t *bits, size_t n_words, uint64_t base, uint64_t *out, size_t capacity) {
    return pf_expand_body(bits, n_words, base, out, capacity);
}

/* The set bits of a bitmap container as u16 values (an array container). out has space for exactly `capacity`. */
PF_BODY size_t pf_values_of_bitmap_body(const uint8_t *bits, size_t first, uint8_t *out, size_t capacity) {
    size_t n = 0;
    for (size_t i = first; i < PF_WORDS; i++) {
        uint64_t word = pf_get64(bits + 8 * i);
        if (word == 0) continue;
        if (capacity - n >= 64) {
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
static size_t pf_values_of_bitmap_portable(const uint8_t *bits, uint8_t *out, size_t capacity) {
    return pf_values_of_bitmap_body(bits, 0, out, capacity);
}

/* Which of 64 words differ from themselves shifted by one bit: a run starts or ends in them or at their first bit. */
PF_BODY uint64_t pf_changed_words(const uint8_t *words, uint64_t before) {
    uint64_t changed = 0;
    for (unsigned i = 0; i < 64; i++) {
        uint64_t word = pf_get64(words + 8 * i);
        changed |= (uint64_t)(word != ((word << 1) | (before >> 63))) << i;
        before = word;
    }
    return changed;
}

/* The n_runs < PF_MANY_RUNS runs of a bitmap container as (start, length - 1) pairs: the places where a bit differs
 * from the bit before it are starts and ends in turn. They are written two at a time: few words have more, so that few
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
            if (next > 2 * (size_t)n_runs) return; /* only if the bits change during the scan */
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
#include "avx2/bitmap_expand.h"
#include "avx512/bitmap_expand.h"
#endif

PF_DISPATCH(size_t, pf_expand, (const uint8_t *bits, size_t n_words, uint64_t base, uint64_t *out, size_t capacity),
            (bits, n_words, base, out, capacity))
PF_DISPATCH(size_t, pf_values_of_bitmap, (const uint8_t *bits, uint8_t *out, size_t capacity), (bits, out, capacity))
PF_DISPATCH(void, pf_runs_of_bitmap, (const uint8_t *bits, uint8_t *out, uint32_t n_runs), (bits, out, n_runs))

#endif
