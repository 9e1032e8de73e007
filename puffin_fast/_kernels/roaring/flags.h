/* Bits to and from bytes of 0 and 1, and bits shifted by less than a byte. */
#ifndef PF_FLAGS_H
#define PF_FLAGS_H

#include "bitmap_count.h"

/* The 65,536 marks of pf_scatter packed into a bitmap container; the marks are cleared. */
static void pf_pack_marks_portable(uint8_t *marks, uint8_t *bits) {
    for (size_t i = 0; i < 8 * PF_WORDS; i++)
        bits[i] = (uint8_t)((pf_get64(marks + 8 * i) * 0x0102040810204080ull) >> 56);
    memset(marks, 0, 64 * PF_WORDS);
}

/* n flags, zero or not, as bits; bits past n in the last byte are not changed. */
PF_BODY void pf_pack_flags_body(const uint8_t *flags, size_t n, uint8_t *bits) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t block = pf_get64(flags + i), ones;
        ones = ((((block & 0x7F7F7F7F7F7F7F7Full) + 0x7F7F7F7F7F7F7F7Full) | block) >> 7) & 0x0101010101010101ull;
        bits[i >> 3] = (uint8_t)((ones * 0x0102040810204080ull) >> 56);
    }
    for (; i < n; i++)
        if (flags[i]) bits[i >> 3] = (uint8_t)(bits[i >> 3] | (1u << (i & 7)));
}
static void pf_pack_flags_portable(const uint8_t *flags, size_t n, uint8_t *bits) {
    pf_pack_flags_body(flags, n, bits);
}

/* n_bits bits from bit `from` on moved to the start of out; bits past n_bits in the last byte are 0.
 * Nothing is read past the byte of the last bit. */
static void pf_shift_bits(const uint8_t *bits, size_t from, size_t n_bits, uint8_t *out) {
    const uint8_t *at = bits + (from >> 3);
    size_t shift = from & 7, n_bytes = (n_bits + 7) >> 3, last = (shift + n_bits + 7) >> 3;
    if (n_bits == 0) return;
    if (shift == 0) {
        memcpy(out, at, n_bytes);
    } else {
        size_t i = 0;
        for (; i + 9 <= last && i + 8 <= n_bytes; i += 8)
            pf_put64(out + i, (pf_get64(at + i) >> shift) | ((uint64_t)at[i + 8] << (64 - shift)));
        for (; i < n_bytes; i++) {
            unsigned high = i + 1 < last ? at[i + 1] : 0;
            out[i] = (uint8_t)((at[i] >> shift) | (high << (8 - shift)));
        }
    }
    if (n_bits & 7) out[n_bytes - 1] &= (uint8_t)((1u << (n_bits & 7)) - 1);
}

/* Appends n_bits bits to the first `at` bits of out, whose further bits are 0. Bits past n_bits in the last byte of
 * `bits` must be 0 too. */
static void pf_append_bits(const uint8_t *bits, size_t n_bits, uint8_t *out, size_t at) {
    uint8_t *to = out + (at >> 3);
    size_t shift = at & 7, n_bytes = (n_bits + 7) >> 3, last = (shift + n_bits + 7) >> 3, i = 0;
    unsigned carry = 0;
    if (n_bits == 0) return;
    carry = to[0];
    for (; i + 8 <= n_bytes; i += 8) {
        uint64_t word = pf_get64(bits + i);
        pf_put64(to + i, (word << shift) | carry);
        carry = shift ? (unsigned)(word >> (64 - shift)) : 0;
    }
    for (; i < last; i++) {
        unsigned byte = (i < n_bytes ? (unsigned)bits[i] << shift : 0) | carry;
        to[i] = (uint8_t)byte;
        carry = byte >> 8;
    }
}

/* n_bits bits as bytes (0 or 1) XOR flip, for any n_bits. */
static void pf_spread_tail(const uint8_t *bits, size_t from, size_t n_bits, uint8_t flip, uint8_t *out) {
    for (size_t i = from; i < n_bits; i++) out[i] = ((bits[i >> 3] >> (i & 7)) & 1) ^ flip;
}
static void pf_spread_bits_portable(const uint8_t *bits, size_t n_bits, uint8_t flip, uint8_t *out) {
    const uint64_t invert = flip ? 0x0101010101010101ull : 0;
    size_t i = 0;
    for (; i + 8 <= n_bits; i += 8) {
        uint64_t picked = (bits[i >> 3] * 0x0101010101010101ull) & 0x8040201008040201ull;
        pf_put64(out + i, (((picked + 0x7F7F7F7F7F7F7F7Full) >> 7) & 0x0101010101010101ull) ^ invert);
    }
    pf_spread_tail(bits, i, n_bits, flip, out);
}

#if PF_X86
#include "avx2/flags.h"
#include "avx512/flags.h"
#endif

PF_DISPATCH(void, pf_pack_marks, (uint8_t *marks, uint8_t *bits), (marks, bits))
PF_DISPATCH(void, pf_pack_flags, (const uint8_t *flags, size_t n, uint8_t *bits), (flags, n, bits))
PF_DISPATCH(void, pf_spread_bits, (const uint8_t *bits, size_t n_bits, uint8_t flip, uint8_t *out),
            (bits, n_bits, flip, out))

#endif
