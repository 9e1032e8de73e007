/* Members of a range of integers: a bit for each number of the range, and for each word the members before it. */
#ifndef PF_MEMBERS_H
#define PF_MEMBERS_H

#include "simd.h"

typedef struct {
    int64_t lowest;  /* of the range */
    uint64_t span;   /* how many numbers the range has; not 0 */
    uint64_t *words; /* bit i of word w is set if lowest + 64 * w + i is a member */
    uint32_t *ranks; /* how many members there are before word w */
} pf_members;

/* The place of a number in the range, and whether it is inside; 0 if not. */
PF_BODY uint64_t pf_place(const pf_members *set, const uint8_t *number, uint64_t *inside) {
    const uint64_t place = pf_get64(number) - (uint64_t)set->lowest;
    *inside = place < set->span;
    return *inside ? place : 0;
}

/* Whether a number is a member; its place then is in the range. */
PF_BODY uint64_t pf_is_member(const pf_members *set, const uint8_t *number, uint64_t *place) {
    uint64_t inside;
    *place = pf_place(set, number, &inside);
    return (set->words[*place >> 6] >> (*place & 63)) & inside;
}

PF_BODY int64_t pf_rank(const pf_members *set, uint64_t place) {
    const uint64_t below = set->words[place >> 6] & (((uint64_t)1 << (place & 63)) - 1);
    return set->ranks[place >> 6] + (int64_t)pf_ones(below);
}

/* Adds n numbers and counts the members; -1 if a number is not inside of the range. */
PF_BODY int64_t pf_members_fill_body(const pf_members *set, const uint8_t *numbers, size_t n) {
    uint64_t all = 1, inside;
    for (size_t i = 0; i < n; i++) {
        const uint64_t place = pf_place(set, numbers + 8 * i, &inside);
        all &= inside;
        set->words[place >> 6] |= (uint64_t)1 << (place & 63);
    }
    if (!all) return -1;
    uint32_t count = 0;
    for (size_t w = 0; w < (set->span + 63) >> 6; w++) {
        set->ranks[w] = count;
        count += (uint32_t)pf_ones(set->words[w]);
    }
    return count;
}
PF_LEVELS(int64_t, pf_members_fill, (const pf_members *set, const uint8_t *numbers, size_t n), (set, numbers, n))

/* A byte for each of n numbers: 1 for a member, else 0. */
PF_BODY void pf_members_contain_body(const pf_members *set, const uint8_t *numbers, size_t n, uint8_t *out) {
    for (size_t i = 0; i < n; i++) {
        uint64_t place;
        out[i] = (uint8_t)pf_is_member(set, numbers + 8 * i, &place);
    }
}
PF_LEVELS(void, pf_members_contain, (const pf_members *set, const uint8_t *numbers, size_t n, uint8_t *out),
          (set, numbers, n, out))

/* The rank of each of n numbers among the members; -1 for others. */
PF_BODY void pf_members_ranks_body(const pf_members *set, const uint8_t *numbers, size_t n, int32_t *out) {
    for (size_t i = 0; i < n; i++) {
        uint64_t place;
        out[i] = pf_is_member(set, numbers + 8 * i, &place) ? (int32_t)pf_rank(set, place) : -1;
    }
}
PF_LEVELS(void, pf_members_ranks, (const pf_members *set, const uint8_t *numbers, size_t n, int32_t *out),
          (set, numbers, n, out))

/* The members in ascending order. */
static void pf_members_sorted(const pf_members *set, int64_t *out) {
    for (size_t w = 0; w < (set->span + 63) >> 6; w++)
        for (uint64_t word = set->words[w]; word != 0; word &= word - 1)
            *out++ = (int64_t)((uint64_t)set->lowest + 64 * w + (uint64_t)__builtin_ctzll(word));
}

/* The first index of each member among the n numbers, by rank. */
static void pf_members_first(const pf_members *set, const uint8_t *numbers, size_t n, int64_t *out) {
    for (size_t i = n; i-- > 0;) {
        uint64_t place;
        if (pf_is_member(set, numbers + 8 * i, &place)) out[pf_rank(set, place)] = (int64_t)i;
    }
}

#endif
