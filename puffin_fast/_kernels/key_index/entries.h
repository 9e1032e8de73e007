/* Entries of a key index are sorted and written as blocks; see blocks.h for their layout. They are hashes and ordinals,
 * or come from the blocks of several segments, one block of the merged segment after another.
 *
 * Entries are divided into partitions of some blocks, by the upper bits of their hashes. Then each partition is sorted
 * while it is in the cache, and its blocks are written. An entry of a partition has 8 bytes if the rest of its hash and
 * its ordinal fit there, the ordinal in the lower bits; else 12, one after the other. `wide` says which. */
#ifndef PF_KEY_ENTRIES_H
#define PF_KEY_ENTRIES_H

#include "blocks.h"
#include "memory.h"

enum { PF_FEW = 32, PF_WRITTEN_AHEAD = 8, PF_MOST_BITS = 56, PF_KEY_FEW_INSERTED = 8 };

typedef struct {
    pf_key_form form;
    uint64_t first;   /* the least hash */
    uint64_t n_blocks;
    int shift;        /* of a hash, for the number of its partition */
    int wide;
    size_t n_partitions, n;
    size_t *starts;   /* of the partitions, and the end of the last */
    size_t *next;     /* where the next entry of each is put */
    uint8_t *data;
} pf_key_entries;

PF_BODY size_t pf_key_entry_size(int wide) { return wide ? 12 : 8; }

PF_BODY uint64_t pf_key_rest(const uint8_t *data, size_t i, int o, int wide) {
    return wide ? pf_get64(data + 12 * i) : pf_get64(data + 8 * i) >> o;
}

PF_BODY uint32_t pf_key_ordinal(const uint8_t *data, size_t i, int o, int wide) {
    return wide ? pf_get32(data + 12 * i + 8) : (uint32_t)(pf_get64(data + 8 * i) & pf_low_bits(o));
}

/* ---- dividing ----------------------------------------------------------------------------------------------- */

/* Whether all hashes are of the blocks; counts those of each partition. */
static int pf_key_count(const pf_key_entries *to, const uint8_t *hashes, size_t n, size_t *counts) {
    const int bits = to->form.t + to->form.r;
    for (size_t i = 0; i < n; i++) {
        const uint64_t rest = pf_get64(hashes + 8 * i) - to->first;
        if (pf_key_block(rest, bits) >= to->n_blocks) return 0;
        counts[pf_key_block(rest, to->shift)]++;
    }
    return 1;
}

/* Adds entries; the ordinals are `base` and those after it, or `base` more than those given. Returns how many were
 * added: fewer than given if a partition is full, or an ordinal has too many bits. */
PF_BODY size_t pf_key_add_body(const pf_key_entries *to, const uint8_t *hashes, const uint8_t *ordinals, uint64_t base,
                               size_t n, int wide) {
    const uint64_t mask = pf_low_bits(to->shift);
    const int o = to->form.o;
    for (size_t i = 0; i < n; i++) {
        const uint64_t rest = pf_get64(hashes + 8 * i) - to->first, partition = pf_key_block(rest, to->shift);
        const uint64_t ordinal = base + (ordinals == NULL ? i : pf_get32(ordinals + 4 * i));
        if (partition >= to->n_partitions || to->next[partition] == to->starts[partition + 1] || ordinal >> o) return i;
        uint8_t *place = to->data + pf_key_entry_size(wide) * to->next[partition]++;
        if (wide) {
            pf_put64(place, rest & mask);
            pf_put32(place + 8, (uint32_t)ordinal);
        } else {
            pf_put64(place, (rest & mask) << o | ordinal);
        }
    }
    return n;
}

static size_t pf_key_add(const pf_key_entries *to, const uint8_t *hashes, const uint8_t *ordinals, uint64_t base,
                         size_t n) {
    return to->wide ? pf_key_add_body(to, hashes, ordinals, base, n, 1)
                    : pf_key_add_body(to, hashes, ordinals, base, n, 0);
}

/* ---- sorting ------------------------------------------------------------------------------------------------ */

static int pf_key_compare_narrow(const void *a, const void *b) {
    const uint64_t x = pf_get64(a), y = pf_get64(b);
    return (x > y) - (x < y);
}

static int pf_key_compare_wide(const void *a, const void *b) {
    const uint64_t x = pf_get64(a), y = pf_get64(b);
    if (x != y) return x < y ? -1 : 1;
    const uint32_t i = pf_get32((const uint8_t *)a + 8), j = pf_get32((const uint8_t *)b + 8);
    return (i > j) - (i < j);
}

PF_BODY int pf_key_compare(const void *a, const void *b, int wide) {
    return wide ? pf_key_compare_wide(a, b) : pf_key_compare_narrow(a, b);
}

/* Sorts the entries of a slot. Those of one key usually come in the order of their rows. */
PF_BODY void pf_key_sort_slot(uint8_t *data, size_t n, int wide) {
    const size_t size = pf_key_entry_size(wide);
    if (n > PF_FEW) {
        size_t i = 1;
        while (i < n && pf_key_compare(data + size * (i - 1), data + size * i, wide) <= 0) i++;
        if (i < n) qsort(data, n, size, wide ? pf_key_compare_wide : pf_key_compare_narrow);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        uint8_t entry[12];
        size_t j = i;
        memcpy(entry, data + size * i, size);
        for (; j > 0 && pf_key_compare(data + size * (j - 1), entry, wide) > 0; j--)
            memcpy(data + size * j, data + size * (j - 1), size);
        memcpy(data + size * j, entry, size);
    }
}

PF_BODY void pf_key_sort_as(const pf_key_form *form, const uint8_t *from, size_t n, size_t n_slots, uint32_t *ends,
                            uint8_t *to, int wide) {
    const size_t size = pf_key_entry_size(wide);
    memset(ends, 0, (n_slots + 1) * sizeof(uint32_t));
    for (size_t i = 0; i < n; i++) ends[pf_key_block(pf_key_rest(from, i, form->o, wide), form->r) + 1]++;
    for (size_t i = 0; i < n_slots; i++) ends[i + 1] += ends[i];
    for (size_t i = 0; i < n; i++) {
        const size_t place = ends[pf_key_block(pf_key_rest(from, i, form->o, wide), form->r)]++;
        memcpy(to + size * place, from + size * i, size);
    }
    for (size_t slot = 0, first = 0; slot < n_slots; slot++) {
        const size_t end = ends[slot];
        if (end - first > 1) pf_key_sort_slot(to + size * first, end - first, wide);
        first = end;
    }
}

PF_BODY void pf_key_sort_body(const pf_key_entries *all, const uint8_t *from, size_t n, size_t n_slots, uint32_t *ends,
                              uint8_t *to) {
    if (all->wide)
        pf_key_sort_as(&all->form, from, n, n_slots, ends, to, 1);
    else
        pf_key_sort_as(&all->form, from, n, n_slots, ends, to, 0);
}

/* Sorts a partition. `ends` becomes the end of each slot; it has space for one number more. */
PF_LEVELS(void, pf_key_sort,
          (const pf_key_entries *all, const uint8_t *from, size_t n, size_t n_slots, uint32_t *ends, uint8_t *to),
          (all, from, n, n_slots, ends, to))

/* ---- writing ------------------------------------------------------------------------------------------------ */

typedef struct {
    uint8_t *at;
    uint64_t word; /* bits that are not yet in a whole byte */
    int n;
} pf_bit_writer;

/* Writes at most 56 bits; up to 8 bytes after them are written, too. */
PF_BODY void pf_write_bits(pf_bit_writer *to, uint64_t value, int n) {
    to->word |= value << to->n;
    to->n += n;
    pf_put64(to->at, to->word);
    to->at += to->n >> 3;
    to->word >>= to->n & 56;
    to->n &= 7;
}

PF_BODY void pf_key_write_as(const pf_key_form *form, const uint8_t *data, size_t n, const uint32_t *ends, size_t first,
                             uint8_t *block, size_t size, int wide) {
    const int r = form->r, o = form->o, low = r < PF_MOST_BITS ? r : 32;
    pf_bit_writer to = {block + PF_SUM_BITS / 8, 0, 0};
    size_t i = 0;
    for (size_t slot = 0; slot < (size_t)1 << form->t; slot++) {
        size_t count = ends[slot] - first;
        first = ends[slot];
        for (; count >= PF_MOST_BITS; count -= PF_MOST_BITS)
            pf_write_bits(&to, pf_low_bits(PF_MOST_BITS), PF_MOST_BITS);
        pf_write_bits(&to, pf_low_bits((int)count), (int)count + 1);
    }
    i = 0;
    if (3 * r <= PF_MOST_BITS)
        for (; i + 2 < n; i += 3) {
            uint64_t some = pf_key_rest(data, i, o, wide) & pf_low_bits(r);
            some |= (pf_key_rest(data, i + 1, o, wide) & pf_low_bits(r)) << r;
            some |= (pf_key_rest(data, i + 2, o, wide) & pf_low_bits(r)) << 2 * r;
            pf_write_bits(&to, some, 3 * r);
        }
    for (; i < n; i++) {
        const uint64_t rest = pf_key_rest(data, i, o, wide);
        pf_write_bits(&to, rest & pf_low_bits(low), low);
        if (low < r) pf_write_bits(&to, rest >> low & pf_low_bits(r - low), r - low);
    }
    i = 0;
    if (2 * o <= PF_MOST_BITS)
        for (; i + 1 < n; i += 2) {
            const uint64_t next = pf_key_ordinal(data, i + 1, o, wide);
            pf_write_bits(&to, pf_key_ordinal(data, i, o, wide) | next << o, 2 * o);
        }
    for (; i < n; i++) pf_write_bits(&to, pf_key_ordinal(data, i, o, wide), o);
    if (to.n > 0) *to.at++ = (uint8_t)to.word;
    memset(to.at, 0, size - (size_t)(to.at - block));
}

PF_BODY void pf_key_write_body(const pf_key_entries *all, const uint8_t *data, size_t n, const uint32_t *ends,
                               size_t first, uint8_t *block, size_t size) {
    if (all->wide)
        pf_key_write_as(&all->form, data, n, ends, first, block, size, 1);
    else
        pf_key_write_as(&all->form, data, n, ends, first, block, size, 0);
}

/* Writes the bits of a block after its checksum.
 *
 * data, n: the entries of the block, sorted.
 * ends: of its slots, counted from some entry on; `first` is the first of the block, counted likewise. */
PF_LEVELS(void, pf_key_write,
          (const pf_key_entries *all, const uint8_t *data, size_t n, const uint32_t *ends, size_t first, uint8_t *block,
           size_t size),
          (all, data, n, ends, first, block, size))

/* ---- merging ------------------------------------------------------------------------------------------------ */

/* Where the rows of a segment are in a merged one. */
typedef struct {
    const uint8_t *firsts; /* u32: the first ordinal of each data file, and the end of the last; NULL: none is dropped */
    const uint8_t *moved;  /* i64: the first ordinal of each in the merged segment; below 0 if it is dropped */
    const uint8_t *coarse; /* u32: the data file of each ordinal that is a multiple of 2^shift */
    int shift;
    uint32_t base;         /* is added if no data file is dropped */
} pf_key_moves;

/* Entries of a segment that are not merged yet. */
typedef struct {
    pf_key_form form;
    pf_key_moves moves;
    const uint8_t *data;   /* bytes of blocks, which begin at `base` */
    size_t size;
    uint64_t base;
    const uint8_t *before; /* u32: entries before each block and after the last */
    uint64_t n_rows;
    int cut;               /* the lower bits of hashes that the merged segment does not have */
    size_t number, last;   /* the next block, and that after the last */
    uint64_t *hashes;      /* of the entries of a block */
    uint32_t *ordinals;
    size_t n, at, space;
} pf_key_source;

/* Cuts the hashes of a block's entries, moves their ordinals, and leaves out those of dropped data files. */
PF_BODY void pf_key_move_body(pf_key_source *source) {
    const pf_key_moves *moves = &source->moves;
    size_t kept = 0;
    if (source->cut > 0)
        for (size_t i = 0; i < source->n; i++) source->hashes[i] >>= source->cut;
    if (moves->firsts == NULL) {
        for (size_t i = 0; i < source->n; i++) source->ordinals[i] += moves->base;
        return;
    }
    for (size_t i = 0; i < source->n; i++) {
        const uint32_t ordinal = source->ordinals[i];
        size_t file = pf_get32(moves->coarse + 4 * (size_t)(ordinal >> moves->shift));
        while (ordinal >= pf_get32(moves->firsts + 4 * (file + 1))) file++;
        const int64_t first = (int64_t)pf_get64(moves->moved + 8 * file);
        source->hashes[kept] = source->hashes[i];
        source->ordinals[kept] = (uint32_t)first + (ordinal - pf_get32(moves->firsts + 4 * file));
        kept += first >= 0;
    }
    source->n = kept;
}

PF_LEVELS(void, pf_key_move, (pf_key_source *source), (source))

/* Adds the next entries of a source that are of a block, and not before it. Returns the number of entries that were
 * added; -1 if an ordinal has too many bits. */
PF_BODY int64_t pf_key_take_body(const pf_key_entries *to, pf_key_source *source, uint64_t number, uint8_t *data) {
    const int bits = to->form.t + to->form.r, o = to->form.o;
    const uint64_t mask = pf_low_bits(bits);
    uint64_t most = 0;
    int64_t n = 0;
    if (!to->wide && source->form.b >= to->form.b && source->at < source->n &&
        pf_key_block(source->hashes[source->at], bits) == number) { /* all are of this block */
        const uint64_t *hashes = source->hashes + source->at;
        const uint32_t *ordinals = source->ordinals + source->at;
        n = (int64_t)(source->n - source->at);
        for (int64_t i = 0; i < n; i++) {
            most |= ordinals[i];
            pf_put64(data + 8 * i, (hashes[i] & mask) << o | ordinals[i]);
        }
        source->at = source->n;
    }
    for (; source->at < source->n; source->at++) {
        const uint64_t hash = source->hashes[source->at], block = pf_key_block(hash, bits);
        const uint64_t ordinal = source->ordinals[source->at];
        if (block > number) break;
        if (block < number) continue;
        most |= ordinal;
        if (to->wide) {
            pf_put64(data + 12 * n, hash & mask);
            pf_put32(data + 12 * n + 8, (uint32_t)ordinal);
        } else {
            pf_put64(data + 8 * n, (hash & mask) << o | ordinal);
        }
        n++;
    }
    return o < 32 && most >> o ? -1 : n;
}

PF_LEVELS(int64_t, pf_key_take,
          (const pf_key_entries *to, pf_key_source *source, uint64_t number, uint8_t *data),
          (to, source, number, data))

/* Sorts the entries of a block, of which the first `sorted` are in order, if the others are few. Returns whether it
 * did; `ends` are then those of the slots. */
PF_BODY int pf_key_insert_body(const pf_key_entries *all, uint8_t *data, size_t n, size_t sorted, size_t n_slots,
                               uint32_t *ends) {
    const int slot_shift = all->form.r + all->form.o;
    if (all->wide || (n - sorted) * PF_KEY_FEW_INSERTED > n) return 0;
    uint64_t n_wrong = 0;
    for (size_t i = 1; i < sorted; i++) n_wrong += pf_get64(data + 8 * i) < pf_get64(data + 8 * (i - 1));
    if (n_wrong > 0) return 0;
    for (; sorted < n; sorted++) {
        const uint64_t entry = pf_get64(data + 8 * sorted);
        size_t first = 0, last = sorted;
        while (first < last) {
            const size_t half = (first + last) / 2;
            if (pf_get64(data + 8 * half) < entry)
                first = half + 1;
            else
                last = half;
        }
        memmove(data + 8 * (first + 1), data + 8 * first, 8 * (sorted - first));
        pf_put64(data + 8 * first, entry);
    }
    memset(ends, 0, n_slots * sizeof(uint32_t));
    for (size_t i = 0; i < n; i++) ends[pf_key_block(pf_get64(data + 8 * i), slot_shift)] = (uint32_t)(i + 1);
    for (size_t i = 1; i < n_slots; i++) ends[i] = ends[i] < ends[i - 1] ? ends[i - 1] : ends[i];
    return 1;
}

PF_LEVELS(int, pf_key_insert,
          (const pf_key_entries *all, uint8_t *data, size_t n, size_t sorted, size_t n_slots, uint32_t *ends),
          (all, data, n, sorted, n_slots, ends))

#endif
