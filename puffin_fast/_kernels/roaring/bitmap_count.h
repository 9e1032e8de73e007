/* Bitmap containers, 1,024 little-endian words of bits at any alignment: set bits and runs counted. */
#ifndef PF_BITMAP_COUNT_H
#define PF_BITMAP_COUNT_H

#include "simd.h"

#define PF_WORDS 1024

/* The bits of a word at which runs start: each 1 after a 0; `before` is the word before it. */
PF_BODY uint64_t pf_run_starts(uint64_t word, uint64_t before) { return word & ~((word << 1) | (before >> 63)); }

enum { PF_MANY_RUNS = 2048 }; /* from so many runs on, runs are not the smallest form: counts may stop here */

/* The number of set bits of a bitmap container, or of its run starts except those in the first word (that count may stop
 * at PF_MANY_RUNS). Sixteen words at a time, whose set bits are summed byte by byte. */
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

/* The number of runs, or some number >= PF_MANY_RUNS if there are so many. */
static uint32_t pf_bitmap_runs_portable(const uint8_t *bits) {
    return (uint32_t)(pf_ones(pf_run_starts(pf_get64(bits), 0)) + pf_sum_words(bits, 1));
}

#if PF_X86
#include "avx2/bitmap_count.h"
#include "avx512/bitmap_count.h"
#endif

PF_DISPATCH(uint32_t, pf_bitmap_cardinality, (const uint8_t *bits), (bits))
PF_DISPATCH(uint32_t, pf_bitmap_runs, (const uint8_t *bits), (bits))

#endif
