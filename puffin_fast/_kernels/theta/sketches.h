/* The k smallest distinct hashes of any number of hashes, and the (k + 1)th as theta.
 *
 * A hash table with open addressing holds the distinct hashes below theta. Once it holds PF_THETA_FULL of them, the
 * (k + 1)th smallest becomes theta, and only the k below it are retained. The result does not depend on the order of the
 * hashes.
 */
#ifndef PF_THETA_H
#define PF_THETA_H

#include "murmur.h"

#define PF_THETA_MAX 0x7FFFFFFFFFFFFFFFull

enum {
    PF_THETA_K = 4096,      /* lgK 12 */
    PF_THETA_SLOTS = 16384, /* a power of two */
    PF_THETA_FULL = 10240,
    PF_THETA_CHUNK = 1024, /* values hashed before their hashes are inserted */
};

typedef struct {
    uint64_t theta;
    size_t count;
    uint64_t slots[PF_THETA_SLOTS]; /* 0 is an empty slot: the hash 0 is never inserted */
    uint64_t hashes[PF_THETA_FULL + 1];
    uint64_t staged[PF_THETA_CHUNK + PF_LANES];
} pf_theta;

/* Returns the value at a rank (from 0) of n > rank values, and changes their order. After one pass over uniformly
 * distributed values only a few are left. No input takes more than six passes. */
static uint64_t pf_select(uint64_t *x, size_t n, size_t rank) {
    enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) most |= x[i];
    int top = most == 0 ? 1 : 64 - __builtin_clzll(most);
    while (n > 1 && top > 0) {
        uint32_t counts[DIGITS] = {0};
        int shift = top > DIGIT_BITS ? top - DIGIT_BITS : 0;
        size_t digit = 0, left = 0;
        for (size_t i = 0; i < n; i++) counts[(x[i] >> shift) & (DIGITS - 1)]++;
        while (rank >= counts[digit]) rank -= counts[digit++];
        for (size_t i = 0; i < n; i++) {
            uint64_t value = x[i];
            x[left] = value;
            left += ((value >> shift) & (DIGITS - 1)) == digit;
        }
        n = left;
        top = shift;
    }
    return x[0];
}

static void pf_theta_start(pf_theta *sketch) {
    sketch->theta = PF_THETA_MAX;
    sketch->count = 0;
    memset(sketch->slots, 0, sizeof sketch->slots);
}

/* Copies the hashes below theta to sketch->hashes. (Half of the slots are empty: a branch would often be mispredicted.) */
static size_t pf_theta_copy(pf_theta *sketch) {
    size_t count = 0;
    for (size_t i = 0; i < PF_THETA_SLOTS; i++) {
        uint64_t hash = sketch->slots[i];
        sketch->hashes[count] = hash;
        count += hash - 1 < sketch->theta - 1; /* 0 wraps */
    }
    return count;
}

/* The same, but when there are more than k hashes, theta first becomes the (k + 1)th smallest. */
static size_t pf_theta_gather(pf_theta *sketch) {
    size_t count = pf_theta_copy(sketch);
    if (count <= PF_THETA_K) return count;
    sketch->theta = pf_select(sketch->hashes, count, PF_THETA_K);
    return pf_theta_copy(sketch);
}

PF_BODY void pf_theta_place(pf_theta *sketch, uint64_t hash) {
    size_t at = (size_t)hash & (PF_THETA_SLOTS - 1);
    while (sketch->slots[at] != 0) {
        if (sketch->slots[at] == hash) return;
        at = (at + 1) & (PF_THETA_SLOTS - 1);
    }
    sketch->slots[at] = hash;
    sketch->count++;
}

static void pf_theta_cut(pf_theta *sketch) {
    size_t count = pf_theta_gather(sketch);
    memset(sketch->slots, 0, sizeof sketch->slots);
    sketch->count = 0;
    for (size_t i = 0; i < count; i++) pf_theta_place(sketch, sketch->hashes[i]);
}

static void pf_theta_add(pf_theta *sketch, const uint64_t *hashes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (hashes[i] == 0 || hashes[i] >= sketch->theta) continue;
        pf_theta_place(sketch, hashes[i]);
        if (sketch->count == PF_THETA_FULL) pf_theta_cut(sketch);
    }
}

/* Lowers theta to that of another sketch and removes the hashes above it. */
static void pf_theta_lower(pf_theta *sketch, uint64_t theta) {
    if (theta >= sketch->theta) return;
    sketch->theta = theta;
    pf_theta_cut(sketch);
}

static void pf_theta_add_words(pf_theta *sketch, const uint8_t *values, size_t width, const uint8_t *validity,
                               size_t bit, size_t n) {
    for (size_t i = 0; i < n; i += PF_THETA_CHUNK) {
        size_t some = n - i < PF_THETA_CHUNK ? n - i : PF_THETA_CHUNK, count;
        const uint8_t *at = values + width * i;
        if (width == 4)
            count = pf_hash_words4(at, validity, bit + i, some, sketch->theta, sketch->staged);
        else if (width == 8)
            count = pf_hash_words8(at, validity, bit + i, some, sketch->theta, sketch->staged);
        else
            count = pf_hash_decimals(at, validity, bit + i, some, sketch->theta, sketch->staged);
        pf_theta_add(sketch, sketch->staged, count);
    }
}

/* Returns 0, or PF_OUT_OF_BOUNDS when an offset is outside of the data. */
static int pf_theta_add_strings(pf_theta *sketch, const pf_strings *from, const uint8_t *validity, size_t bit,
                                size_t n) {
    for (size_t i = 0; i < n; i += PF_THETA_CHUNK) {
        size_t some = n - i < PF_THETA_CHUNK ? n - i : PF_THETA_CHUNK;
        pf_strings part = *from;
        part.offsets += (from->wide ? 8 : 4) * i;
        int64_t count = pf_hash_strings(&part, validity, bit + i, some, sketch->theta, sketch->staged);
        if (count < 0) return PF_OUT_OF_BOUNDS;
        pf_theta_add(sketch, sketch->staged, (size_t)count);
    }
    return 0;
}

PF_BODY int pf_mark_used_body(const uint8_t *indices, size_t width, const uint8_t *validity, size_t bit, size_t n,
                              uint8_t *used, size_t n_used) {
    size_t unused = 0; /* the first index that is not set yet */
    for (size_t i = 0; i < n;) {
        size_t end = n - i < PF_THETA_CHUNK ? n : i + PF_THETA_CHUNK;
        for (; i < end; i++) {
            uint64_t index = 0;
            if (!pf_valid(validity, bit + i)) continue;
            memcpy(&index, indices + width * i, width);
            if (index >= n_used) return PF_OUT_OF_BOUNDS;
            used[index] = 1;
        }
        while (unused < n_used && used[unused]) unused++;
        if (unused == n_used) return 0;
    }
    return 0;
}

/* Sets used[index] for each valid index of 1, 2, 4 or 8 bytes, and stops when all are set. Returns 0, or
 * PF_OUT_OF_BOUNDS when an index is not below n_used. */
static int pf_mark_used(const uint8_t *indices, size_t width, const uint8_t *validity, size_t bit, size_t n,
                        uint8_t *used, size_t n_used) {
    switch (width) {
    case 1: return pf_mark_used_body(indices, 1, validity, bit, n, used, n_used);
    case 2: return pf_mark_used_body(indices, 2, validity, bit, n, used, n_used);
    case 4: return pf_mark_used_body(indices, 4, validity, bit, n, used, n_used);
    default: return pf_mark_used_body(indices, 8, validity, bit, n, used, n_used);
    }
}

#endif
