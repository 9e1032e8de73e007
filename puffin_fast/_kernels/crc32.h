/* CRC-32 by carry-less multiplication: all bytes but the last ones are folded to 16 bytes of the same remainder.
 *
 *     64 bytes | 64 bytes | … | 16 bytes | … | fewer
 *     four states ^ next …      one state ^ next      by half bytes
 *
 * A state times x^n, modulo the polynomial, is the state n bits later; multiplication by x^512 and x^128 needs two
 * products of 64 bits each. Constants: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ"
 * (2009), for the bit-reflected polynomial. */
#ifndef PF_CRC32_H
#define PF_CRC32_H

#include "simd.h"

#if PF_X86
/* The state after more bytes, half a byte at a time. */
static uint32_t pf_crc32_bytes(uint32_t state, const uint8_t *data, size_t size) {
    static const uint32_t of_half[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                         0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                         0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    for (size_t i = 0; i < size; i++) {
        state ^= data[i];
        state = of_half[state & 15] ^ (state >> 4);
        state = of_half[state & 15] ^ (state >> 4);
    }
    return state;
}

#define PF_CLMUL __attribute__((target("sse2,pclmul")))

enum { PF_LEAST_FOLDED = 64, PF_STATE_BYTES = 16 };

PF_CLMUL static inline __m128i pf_fold(__m128i state, __m128i by, __m128i next) {
    const __m128i low = _mm_clmulepi64_si128(state, by, 0x00), high = _mm_clmulepi64_si128(state, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

static inline __m128i pf_load128(const uint8_t *at) { return _mm_loadu_si128((const __m128i *)at); }

/* Folds the first bytes of at least PF_LEAST_FOLDED, from a state on; returns how many. */
PF_CLMUL static size_t pf_crc32_fold(uint32_t from, const uint8_t *data, size_t size, uint8_t *out) {
    const __m128i by512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4), by128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    __m128i state[4];
    size_t at = PF_LEAST_FOLDED;
    for (int i = 0; i < 4; i++) state[i] = pf_load128(data + 16 * i);
    state[0] = _mm_xor_si128(state[0], _mm_cvtsi32_si128((int)from));
    for (; size - at >= 64; at += 64)
        for (int i = 0; i < 4; i++) state[i] = pf_fold(state[i], by512, pf_load128(data + at + 16 * i));
    for (int i = 1; i < 4; i++) state[0] = pf_fold(state[0], by128, state[i]);
    for (; size - at >= 16; at += 16) state[0] = pf_fold(state[0], by128, pf_load128(data + at));
    _mm_storeu_si128((__m128i *)out, state[0]);
    return at;
}

/* Continues a CRC-32, which is 0 before the first byte; returns 0 if the processor has no such instruction. */
static int pf_crc32(const uint8_t *data, size_t size, uint32_t *sum) {
    uint8_t folded[PF_STATE_BYTES];
    uint32_t state = ~*sum;
    size_t n = 0;
    if (pf_level == PF_LEVEL_PORTABLE || !__builtin_cpu_supports("pclmul")) return 0;
    if (size >= PF_LEAST_FOLDED) {
        n = pf_crc32_fold(state, data, size, folded);
        state = pf_crc32_bytes(0, folded, PF_STATE_BYTES);
    }
    *sum = ~pf_crc32_bytes(state, data + n, size - n);
    return 1;
}
#else
static int pf_crc32(const uint8_t *data, size_t size, uint32_t *sum) {
    (void)data, (void)size, (void)sum;
    return 0;
}
#endif

#endif
