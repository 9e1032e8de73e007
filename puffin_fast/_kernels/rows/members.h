/* Sets of integers: those of a narrow range by a bit for each number of the range, others by their hashes. */
#ifndef PF_MEMBERS_H
#define PF_MEMBERS_H

#include "simd.h"

/* Members of a range: a bit for each number of the range, and for each word the members before it. */
typedef struct {
    int64_t lowest;  /* of the range */
    uint64_t span;   /* how many numbers the range has; not 0 */
    uint64_t *words; /* bit i of word w is set if lowest + 64 * w + i is a member */
    uint32_t *ranks; /* how many members there are before word w */
} pf_members;

/* The number at an address, of 4 or 8 bytes. */
PF_BODY uint64_t pf_number(const uint8_t *at, size_t width) {
    return width == 4 ? (uint64_t)(int64_t)(int32_t)pf_get32(at) : pf_get64(at);
}

/* The lowest and the highest of n numbers of 8 bytes; 0 if there are none. */
static void pf_ends(const uint8_t *numbers, size_t n, int64_t *ends) {
    ends[0] = n ? INT64_MAX : 0;
    ends[1] = n ? INT64_MIN : 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t number = (int64_t)pf_get64(numbers + 8 * i);
        if (number < ends[0]) ends[0] = number;
        if (number > ends[1]) ends[1] = number;
    }
}

/* The place of a number in the range, and whether it is inside; 0 if not. */
PF_BODY uint64_t pf_place(const pf_members *set, uint64_t number, uint64_t *inside) {
    const uint64_t place = number - (uint64_t)set->lowest;
    *inside = place < set->span;
    return *inside ? place : 0;
}

/* Whether a number is a member; its place then is in the range. */
PF_BODY uint64_t pf_is_member(const pf_members *set, uint64_t number, uint64_t *place) {
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
        const uint64_t place = pf_place(set, pf_get64(numbers + 8 * i), &inside);
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

PF_BODY void pf_members_find(const pf_members *set, const uint8_t *numbers, size_t width, size_t n, uint8_t *out) {
    for (size_t i = 0; i < n; i++) {
        uint64_t place;
        out[i] = (uint8_t)pf_is_member(set, pf_number(numbers + width * i, width), &place);
    }
}

/* A byte for each of n numbers of 4 or 8 bytes: 1 for a member, else 0. */
PF_BODY void pf_members_contain_body(const pf_members *set, const uint8_t *numbers, size_t width, size_t n,
                                     uint8_t *out) {
    if (width == 4) pf_members_find(set, numbers, 4, n, out);
    else pf_members_find(set, numbers, 8, n, out);
}
PF_LEVELS(void, pf_members_contain,
          (const pf_members *set, const uint8_t *numbers, size_t width, size_t n, uint8_t *out),
          (set, numbers, width, n, out))

/* The rank of each of n numbers among the members; -1 for others. */
PF_BODY void pf_members_ranks_body(const pf_members *set, const uint8_t *numbers, size_t n, int32_t *out) {
    for (size_t i = 0; i < n; i++) {
        uint64_t place;
        out[i] = pf_is_member(set, pf_get64(numbers + 8 * i), &place) ? (int32_t)pf_rank(set, place) : -1;
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
        if (pf_is_member(set, pf_get64(numbers + 8 * i), &place)) out[pf_rank(set, place)] = (int64_t)i;
    }
}

/* Members of any range: a bit for each of the first bits of hashes, and the hashes, grouped by word. Different numbers
 * have different hashes. The seed is random, so that no numbers are known to have hashes in one word. */
typedef struct {
    uint64_t seed;
    int shift;        /* of a hash to its bit */
    uint64_t *words;  /* bit i of word w is set if a hash begins with 64 * w + i */
    uint32_t *stops;  /* how many hashes there are in word w and before it */
    uint64_t *hashes;
} pf_sparse;

enum { PF_SPARSE_BLOCK = 1024 };

PF_BODY uint64_t pf_hash(const pf_sparse *set, uint64_t number) {
    const uint64_t mixed = (number ^ set->seed) * 0x9E3779B97F4A7C15ull;
    return (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93ull;
}

/* Adds n numbers of 8 bytes; the words and stops are zero. */
static void pf_sparse_fill(const pf_sparse *set, size_t n_words, const uint8_t *numbers, size_t n) {
    uint32_t before = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t place = pf_hash(set, pf_get64(numbers + 8 * i)) >> set->shift;
        set->words[place >> 6] |= (uint64_t)1 << (place & 63);
        set->stops[place >> 6]++;
    }
    for (size_t w = 0; w < n_words; w++) {
        const uint32_t count = set->stops[w];
        set->stops[w] = before;
        before += count;
    }
    for (size_t i = 0; i < n; i++) {
        const uint64_t hash = pf_hash(set, pf_get64(numbers + 8 * i));
        set->hashes[set->stops[hash >> set->shift >> 6]++] = hash;
    }
}

PF_BODY uint8_t pf_sparse_has(const pf_sparse *set, uint64_t hash) {
    const uint64_t word = hash >> set->shift >> 6;
    for (uint32_t k = word == 0 ? 0 : set->stops[word - 1]; k < set->stops[word]; k++)
        if (set->hashes[k] == hash) return 1;
    return 0;
}

PF_BODY void pf_sparse_find(const pf_sparse *set, const uint8_t *numbers, size_t width, size_t n, uint8_t *out) {
    const uint64_t *words = set->words;
    for (size_t first = 0; first < n; first += PF_SPARSE_BLOCK) {
        const size_t stop = n - first < PF_SPARSE_BLOCK ? n : first + PF_SPARSE_BLOCK;
        for (size_t i = first; i < stop; i++) {
            const uint64_t place = pf_hash(set, pf_number(numbers + width * i, width)) >> set->shift;
            out[i] = (uint8_t)(words[place >> 6] >> (place & 63) & 1);
        }
        for (size_t i = first; i < stop; i++)
            if (out[i]) out[i] = pf_sparse_has(set, pf_hash(set, pf_number(numbers + width * i, width)));
    }
}

/* A byte for each of n numbers of 4 or 8 bytes: 1 for a member, else 0. */
PF_BODY void pf_sparse_contain_body(const pf_sparse *set, const uint8_t *numbers, size_t width, size_t n, uint8_t *out) {
    if (width == 4) pf_sparse_find(set, numbers, 4, n, out);
    else pf_sparse_find(set, numbers, 8, n, out);
}
PF_LEVELS(void, pf_sparse_contain,
          (const pf_sparse *set, const uint8_t *numbers, size_t width, size_t n, uint8_t *out),
          (set, numbers, width, n, out))

#endif
