/* Little-endian words at any address, and rotations. */
#ifndef PF_INTEGERS_H
#define PF_INTEGERS_H

#include <stdint.h>
#include <string.h>

#define PF_BODY static inline __attribute__((always_inline))

PF_BODY uint16_t pf_get16(const uint8_t *at) {
    uint16_t word;
    memcpy(&word, at, 2);
    return word;
}

PF_BODY uint32_t pf_get32(const uint8_t *at) {
    uint32_t word;
    memcpy(&word, at, 4);
    return word;
}

PF_BODY uint64_t pf_get64(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

PF_BODY void pf_put16(uint8_t *at, uint16_t word) { memcpy(at, &word, 2); }
PF_BODY void pf_put32(uint8_t *at, uint32_t word) { memcpy(at, &word, 4); }
PF_BODY void pf_put64(uint8_t *at, uint64_t word) { memcpy(at, &word, 8); }

PF_BODY uint64_t pf_rotl64(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

#endif
