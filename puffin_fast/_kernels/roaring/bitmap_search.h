/* Rank and select in bitmap containers. */
#ifndef PF_BITMAP_SEARCH_H
#define PF_BITMAP_SEARCH_H

#include "bitmap_count.h"

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

#endif
