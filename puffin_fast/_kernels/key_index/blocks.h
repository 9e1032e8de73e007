/* The blocks of a key index: entries (hash, row ordinal), sorted.
 *
 *     hash of p bits = block: b bits | slot: t bits | remainder: r bits
 *     block = u32 checksum | for each slot a 1 bit per entry, then 0 | remainders | ordinals of o bits
 *
 * Bits are written from the least significant on. */
#ifndef PF_KEY_BLOCKS_H
#define PF_KEY_BLOCKS_H

#include "theta/murmur.h"

enum { PF_SUM_BITS = 32 };

typedef struct {
    int b, t, r, o;
    uint32_t seal; /* of the segment */
} pf_key_form;

typedef struct {
    uint32_t *keys; /* index of the hash that was searched */
    uint32_t *ordinals;
    size_t n, space;
} pf_key_hits;

PF_BODY uint64_t pf_low_bits(int n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }

/* ---- hashes ------------------------------------------------------------------------------------------------- */

#define PF_KEY_M1 0x9E3779B97F4A7C15ull
#define PF_KEY_M2 0xBF58476D1CE4E5B9ull
#define PF_KEY_M3 0x94D049BB133111EBull
#define PF_KEY_I1 0xF1DE83E19937733Dull
#define PF_KEY_I2 0x96DE1B173F119089ull
#define PF_KEY_I3 0x319642B2D24D8EC3ull

/* A bijection of the words of `bits` bits: a shift by at least half of the bits is its own inverse. */
PF_BODY uint64_t pf_key_mix(uint64_t x, int bits) {
    const uint64_t mask = pf_low_bits(bits);
    const int half = (bits + 1) / 2;
    x = (x * PF_KEY_M1) & mask;
    x ^= x >> half;
    x = (x * PF_KEY_M2) & mask;
    x ^= x >> half;
    return (x * PF_KEY_M3) & mask;
}

PF_BODY uint64_t pf_key_unmix(uint64_t x, int bits) {
    const uint64_t mask = pf_low_bits(bits);
    const int half = (bits + 1) / 2;
    x = (x * PF_KEY_I3) & mask;
    x ^= x >> half;
    x = (x * PF_KEY_I2) & mask;
    x ^= x >> half;
    return (x * PF_KEY_I1) & mask;
}

static void pf_key_mix_words(uint64_t *words, size_t n, int bits) {
    for (size_t i = 0; i < n; i++) words[i] = pf_key_mix(words[i] & pf_low_bits(bits), bits);
}

/* The values, with their signs. */
static void pf_key_unmix_words(uint64_t *words, size_t n, int bits) {
    for (size_t i = 0; i < n; i++)
        words[i] = (uint64_t)((int64_t)(pf_key_unmix(words[i], bits) << (64 - bits)) >> (64 - bits));
}

static void pf_key_hash_words(uint64_t *words, size_t n) {
    for (size_t i = 0; i < n; i++) words[i] = pf_fmix64(words[i]);
}

static void pf_key_join(uint64_t *hashes, const uint8_t *more, size_t n) {
    for (size_t i = 0; i < n; i++) hashes[i] = pf_fmix64(pf_rotl64(hashes[i], 23) ^ pf_get64(more + 8 * i));
}

static int pf_key_hash_strings(const pf_strings *from, size_t n, uint64_t *out) {
    for (size_t i = 0; i < n; i++) {
        int64_t start = pf_offset(from, i), end = pf_offset(from, i + 1);
        if (start < 0 || end < start || (uint64_t)end > from->data_size) return PF_OUT_OF_BOUNDS;
        uint64_t size = (uint64_t)(end - start);
        out[i] = pf_murmur_bytes(from->data + start, size, from->data_size - (uint64_t)start) << 1;
    }
    return 0;
}

/* ---- bits --------------------------------------------------------------------------------------------------- */

/* At most 64 bits from a bit on; bits after the end are 0. */
PF_BODY uint64_t pf_take_bits(const uint8_t *at, size_t size, uint64_t bit, int n) {
    const size_t byte = (size_t)(bit >> 3);
    const int shift = (int)(bit & 7);
    uint64_t words[2] = {0, 0};
    if (n == 0 || byte >= size) return 0;
    if (size - byte >= 9) {
        words[0] = pf_get64(at + byte);
        words[1] = at[byte + 8];
    } else {
        for (size_t i = 0; i < size - byte; i++) words[0] |= (uint64_t)at[byte + i] << (8 * i & 63);
    }
    uint64_t found = words[0] >> shift;
    if (shift + n > 64) found |= words[1] << (64 - shift);
    return found & pf_low_bits(n);
}

/* ---- layout ------------------------------------------------------------------------------------------------- */

/* Where block i begins, if n entries are before it. */
PF_BODY uint64_t pf_key_start(const pf_key_form *form, uint64_t i, uint64_t n) {
    const uint64_t fixed = PF_SUM_BITS / 8 + ((1ull << form->t) + 7) / 8 + 1;
    return i * fixed + ((n * (uint64_t)(1 + form->r + form->o)) >> 3);
}

PF_BODY uint64_t pf_key_block(uint64_t hash, int shift) { return shift >= 64 ? 0 : hash >> shift; }

/* What the checksum of a block is combined with: its segment, its number and that of its entries. */
PF_BODY uint32_t pf_key_seed(const pf_key_form *form, uint64_t number, uint64_t n) {
    return (uint32_t)pf_fmix64(number << 32 | n) ^ form->seal;
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

static int pf_key_add_hit(pf_key_hits *hits, uint32_t key, uint32_t ordinal) {
    if (hits->n == hits->space) {
        const size_t space = hits->space == 0 ? 256 : 2 * hits->space;
        uint32_t *keys = realloc(hits->keys, space * sizeof(uint32_t));
        if (keys == NULL) return -1;
        hits->keys = keys;
        uint32_t *ordinals = realloc(hits->ordinals, space * sizeof(uint32_t));
        if (ordinals == NULL) return -1;
        hits->ordinals = ordinals;
        hits->space = space;
    }
    hits->keys[hits->n] = key;
    hits->ordinals[hits->n++] = ordinal;
    return 0;
}

/* The index of the `count`th set bit, from 1 on, of a word that has so many. */
PF_BODY int pf_nth_bit(uint64_t word, uint64_t count) {
    int at = 0;
    for (int half = 32; half >= 8; half /= 2) {
        const uint64_t here = pf_ones(word & pf_low_bits(half));
        if (here < count) {
            count -= here;
            word >>= half;
            at += half;
        }
    }
    for (; count > 1; count--) word &= word - 1;
    return at + __builtin_ctzll(word);
}

/* The bit after the `count`th 0 from `bit` on, before `end`; `end` + 1 if there are fewer. */
PF_BODY uint64_t pf_key_after_zeros(const uint8_t *block, size_t size, uint64_t bit, uint64_t end, uint64_t count) {
    while (count > 0) {
        if (bit >= end) return end + 1;
        const int some = end - bit < 64 ? (int)(end - bit) : 64;
        const uint64_t zeros = ~pf_take_bits(block, size, bit, some) & pf_low_bits(some), here = pf_ones(zeros);
        if (here >= count) return bit + (uint64_t)pf_nth_bit(zeros, count) + 1;
        count -= here;
        bit += (uint64_t)some;
    }
    return bit;
}

enum { PF_KEY_DAMAGED = 1, PF_KEY_NO_MEMORY = 2 };

/* Adds the ordinals of entries of a block with a hash, of which `rest` is the part after the block's bits. */
PF_BODY int pf_key_find_body(const pf_key_form *form, const uint8_t *block, size_t size, uint64_t n, uint64_t rest,
                             uint32_t key, uint64_t n_rows, pf_key_hits *hits) {
    const uint64_t n_slots = 1ull << form->t, slot = pf_key_block(rest, form->r), end = PF_SUM_BITS + n + n_slots;
    const uint64_t wanted = rest & pf_low_bits(form->r), ordinals = end + n * (uint64_t)form->r;
    const uint64_t from = pf_key_after_zeros(block, size, PF_SUM_BITS, end, slot);
    const uint64_t to = from > end ? from : pf_key_after_zeros(block, size, from, end, 1);
    if (from > end || to > end) return PF_KEY_DAMAGED;
    const uint64_t first = from - PF_SUM_BITS - slot, last = first + (to - 1 - from);
    if (last > n) return PF_KEY_DAMAGED;
    for (uint64_t i = first; i < last; i++) {
        if (pf_take_bits(block, size, end + i * (uint64_t)form->r, form->r) != wanted) continue;
        const uint64_t ordinal = pf_take_bits(block, size, ordinals + i * (uint64_t)form->o, form->o);
        if (ordinal >= n_rows) return PF_KEY_DAMAGED;
        if (pf_key_add_hit(hits, key, (uint32_t)ordinal) != 0) return PF_KEY_NO_MEMORY;
    }
    return 0;
}

PF_LEVELS(int, pf_key_find,
          (const pf_key_form *form, const uint8_t *block, size_t size, uint64_t n, uint64_t rest, uint32_t key,
           uint64_t n_rows, pf_key_hits *hits),
          (form, block, size, n, rest, key, n_rows, hits))

/* How many of `n` numbers of some bits, one after another from a bit of a block on, are read by one word each. */
PF_BODY uint64_t pf_key_n_near(size_t size, uint64_t bit, int bits, uint64_t n) {
    if (bits == 0 || bits > 57 || size < 8 || (size - 7) * 8 <= bit) return 0;
    const uint64_t near = ((size - 7) * 8 - 1 - bit) / (uint64_t)bits + 1;
    return near < n ? near : n;
}

/* All entries of a block: hashes of p bits, with space for one more, and ordinals. */
PF_BODY int pf_key_unpack_body(const pf_key_form *form, const uint8_t *block, size_t size, uint64_t n, uint64_t number,
                               uint64_t n_rows, uint64_t *hashes, uint32_t *ordinals) {
    const int r = form->r, o = form->o, shift = form->t + r;
    const uint64_t n_slots = 1ull << form->t, end = PF_SUM_BITS + n + n_slots;
    const uint64_t rows = end + n * (uint64_t)r, upper = shift >= 64 ? 0 : number << shift;
    uint64_t slot = 0, i = 0, most = 0;
    for (uint64_t bit = PF_SUM_BITS; bit < end; bit += 64) {
        const int some = end - bit < 64 ? (int)(end - bit) : 64;
        uint64_t word = pf_take_bits(block, size, bit, some);
        if (i + pf_ones(word) > n) return PF_KEY_DAMAGED;
        for (int k = 0; k < some; k++, word >>= 1) {
            hashes[i] = slot;
            i += word & 1;
            slot += ~word & 1;
        }
    }
    if (i != n || slot != n_slots) return PF_KEY_DAMAGED;
    uint64_t near = pf_key_n_near(size, end, r, n), mask = pf_low_bits(r), bit = end;
    for (i = 0; i < near; i++, bit += (uint64_t)r)
        hashes[i] = upper | hashes[i] << r | (pf_get64(block + (bit >> 3)) >> (bit & 7) & mask);
    for (; i < n; i++, bit += (uint64_t)r)
        hashes[i] = upper | (r >= 64 ? 0 : hashes[i] << r) | pf_take_bits(block, size, bit, r);
    near = pf_key_n_near(size, rows, o, n);
    mask = pf_low_bits(o);
    for (i = 0, bit = rows; i < near; i++, bit += (uint64_t)o) {
        const uint64_t ordinal = pf_get64(block + (bit >> 3)) >> (bit & 7) & mask;
        ordinals[i] = (uint32_t)ordinal;
        most = most < ordinal ? ordinal : most;
    }
    for (; i < n; i++, bit += (uint64_t)o) {
        const uint64_t ordinal = pf_take_bits(block, size, bit, o);
        ordinals[i] = (uint32_t)ordinal;
        most = most < ordinal ? ordinal : most;
    }
    return n == 0 || most < n_rows ? 0 : PF_KEY_DAMAGED;
}

PF_LEVELS(int, pf_key_unpack,
          (const pf_key_form *form, const uint8_t *block, size_t size, uint64_t n, uint64_t number, uint64_t n_rows,
           uint64_t *hashes, uint32_t *ordinals),
          (form, block, size, n, number, n_rows, hashes, ordinals))

#endif
