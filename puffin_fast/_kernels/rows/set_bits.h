/* The set bits of a range of a bitmap: their runs, and their u32 indexes from its start, for Arrow's take. */
#ifndef PF_ROWS_H
#define PF_ROWS_H

#include "simd.h"

/* Up to 64 of the n > 0 bits from bit `from` on; nothing past the byte of the last bit is read. */
PF_BODY uint64_t pf_bits_at(const uint8_t *bits, size_t from, size_t n) {
    const uint8_t *at = bits + (from >> 3);
    size_t shift = from & 7, taken = n < 64 ? n : 64, n_bytes = (shift + taken + 7) >> 3;
    uint64_t word = 0;
    memcpy(&word, at, n_bytes < 8 ? n_bytes : 8);
    word >>= shift;
    if (n_bytes > 8) word |= (uint64_t)at[8] << (64 - shift);
    return taken < 64 ? word & (((uint64_t)1 << taken) - 1) : word;
}

/* The number of runs of set bits in n bits from bit `from` on. */
PF_BODY size_t pf_count_runs_body(const uint8_t *bits, size_t from, size_t n) {
    size_t runs = 0;
    uint64_t before = 0;
    for (size_t i = 0; i < n; i += 64) {
        uint64_t word = pf_bits_at(bits, from + i, n - i);
        runs += (size_t)pf_ones(word & ~((word << 1) | before));
        before = word >> 63;
    }
    return runs;
}
PF_LEVELS(size_t, pf_count_runs, (const uint8_t *bits, size_t from, size_t n), (bits, from, n))

/* Indexes i of n bits from bit `from` on, where bit from + i is set, into out, which has space for `capacity` >= their
 * number; returns that number. Words are flattened eight indexes at a time past their end while capacity allows. */
PF_BODY size_t pf_rows_from(const uint8_t *bits, size_t from, size_t n, size_t first, uint32_t *out, size_t capacity) {
    uint32_t *const start = out, *const end = out + capacity;
    for (size_t i = first; i < n; i += 64) {
        uint64_t word = pf_bits_at(bits, from + i, n - i);
        if (word == 0) continue;
        if (end - out >= 64) {
            uint32_t *next = out + pf_ones(word);
            do {
                for (int j = 0; j < 8; j++) {
                    out[j] = (uint32_t)i + (uint32_t)__builtin_ctzll(word | (1ull << 63));
                    word &= word - 1;
                }
                out += 8;
            } while (out < next);
            out = next;
        } else {
            for (; word != 0 && out < end; word &= word - 1) *out++ = (uint32_t)i + (uint32_t)__builtin_ctzll(word);
        }
    }
    return (size_t)(out - start);
}
static size_t pf_rows_portable(const uint8_t *bits, size_t from, size_t n, uint32_t *out, size_t capacity) {
    return pf_rows_from(bits, from, n, 0, out, capacity);
}

#if PF_X86
#include "avx2/set_bits.h"
#include "avx512/set_bits.h"
#endif

PF_DISPATCH(size_t, pf_rows, (const uint8_t *bits, size_t from, size_t n, uint32_t *out, size_t capacity),
            (bits, from, n, out, capacity))

#endif
