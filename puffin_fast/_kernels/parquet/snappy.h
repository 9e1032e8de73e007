/* Snappy blocks, decompressed.
 *
 *     block   = varint of the decompressed length | element ...
 *     element = tag | bytes, by the two low bits of the tag
 *       0  literal: 1 + the six high bits, and that many bytes; from 60 on the length - 1 stands in 1 to 4 bytes
 *       1  copy of 4 to 11 bytes: three bits of length, 11 bits of offset
 *       2  copy of 1 to 64 bytes: six bits of length, 16 bits of offset
 *       3  the same with 32 bits of offset
 *
 * Source: Snappy compressed format description. An offset counts back from the end of what was decompressed; a copy
 * may overlap what it writes.
 *
 * The last 8 bytes that were decompressed are held in a register. Columns of numbers repeat bytes at offsets of up to
 * 8: such copies read no memory that was just written in smaller parts, which would wait for these stores.
 *
 * Elements that start at least PF_SNAPPY_MARGIN bytes before the ends of the input and of the output are read and written
 * in whole words, so that some bytes after an element are read, and are overwritten later. All others are copied
 * byte by byte. */
#ifndef PF_SNAPPY_H
#define PF_SNAPPY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    PF_BAD_SNAPPY = -1,
    PF_SNAPPY_MARGIN = 96, /* a tag and 64 bytes, copied by 16; a repeated pattern ends less than 16 bytes after these */
    PF_SNAPPY_LONG = 60, /* six high bits of a literal from which on the length stands in bytes of its own */
    PF_SNAPPY_MOST = 64, /* bytes of a copy, the longest element for its size */
    PF_SNAPPY_LEAST = 3  /* bytes of that copy's element */
};

static inline uint64_t pf_snappy_load(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

static inline void pf_snappy_store(uint8_t *at, uint64_t word) { memcpy(at, &word, 8); }

/* Reads the decompressed length; returns its number of bytes, 0 if it has more than 32 bits. */
static inline size_t pf_snappy_length(const uint8_t *data, size_t size, uint32_t *length) {
    uint64_t found = 0;
    for (size_t at = 0; at < 5 && at < size; at++) {
        found |= (uint64_t)(data[at] & 127) << (7 * at);
        if (data[at] < 128) {
            *length = (uint32_t)found;
            return found >> 32 ? 0 : at + 1;
        }
    }
    return 0;
}

/* The last 8 bytes of the output; those before its start are zero, and are not used. */
static inline uint64_t pf_snappy_tail(const uint8_t *out, const uint8_t *at) {
    const size_t n = (size_t)(at - out);
    uint64_t word = 0;
    if (n >= 8) return pf_snappy_load(at - 8);
    if (n) memcpy((uint8_t *)&word + 8 - n, out, n);
    return word;
}

/* The last 8 bytes after n more, 1 to 7, which are the low ones of a word. */
static inline uint64_t pf_snappy_moved(uint64_t tail, uint64_t word, size_t n) {
    return tail >> (8 * n) | word << (-(8 * n) & 63);
}

/* One element anywhere, with all checks: moves both places. */
static int pf_snappy_element(const uint8_t **from, const uint8_t *end, const uint8_t *out, uint8_t **to,
                             const uint8_t *out_end) {
    const uint8_t *at = *from;
    uint8_t *target = *to;
    const unsigned tag = *at++;
    const unsigned kind = tag & 3;
    const size_t left = (size_t)(end - at), capacity = (size_t)(out_end - target);
    size_t n_bytes = kind == 3 ? 4 : kind, n = (tag >> 2) + 1;
    uint32_t value = 0;
    if (kind == 0 && n > PF_SNAPPY_LONG) n_bytes = n - PF_SNAPPY_LONG;
    if (n_bytes > left) return PF_BAD_SNAPPY;
    for (size_t i = 0; i < n_bytes; i++) value |= (uint32_t)at[i] << (8 * i);
    at += n_bytes;
    if (kind == 0) {
        if (n_bytes) n = (size_t)value + 1;
        if (n > left - n_bytes || n > capacity) return PF_BAD_SNAPPY;
        memcpy(target, at, n);
        at += n;
    } else {
        size_t offset = value;
        if (kind == 1) {
            offset |= (size_t)(tag >> 5) << 8;
            n = 4 + (tag >> 2 & 7);
        }
        if (offset == 0 || offset > (size_t)(target - out) || n > capacity) return PF_BAD_SNAPPY;
        for (size_t i = 0; i < n; i++) target[i] = (target - offset)[i];
    }
    *from = at;
    *to = target + n;
    return 0;
}

/* Decompresses a block to exactly `capacity` bytes. */
static int pf_snappy(const uint8_t *data, size_t size, uint8_t *out, size_t capacity) {
    /* by the offset of a copy: what repeats its bytes over a word, and how many of the word's bytes are whole repeats */
    static const uint64_t repeat[9] = {0, 0x0101010101010101u, 0x0001000100010001u, 0x0001000001000001u,
                                       0x0000000100000001u, 0x0000010000000001u, 0x0001000000000001u,
                                       0x0100000000000001u, 1};
    static const uint8_t whole[9] = {0, 8, 8, 6, 8, 5, 6, 7, 8};
    uint32_t length = 0;
    const size_t n_head = pf_snappy_length(data, size, &length);
    const uint8_t *at = data + n_head, *const end = data + size;
    uint8_t *to = out, *const out_end = out + capacity;
    if (n_head == 0 || length != capacity) return PF_BAD_SNAPPY;
    while (at < end) {
        uint64_t tail = pf_snappy_tail(out, to);
        while ((size_t)(end - at) >= PF_SNAPPY_MARGIN && (size_t)(out_end - to) >= PF_SNAPPY_MARGIN) {
            uint64_t word = pf_snappy_load(at);
            unsigned tag = word & 255;
            size_t n;
            if ((tag & 3) == 0) {
                n = (tag >> 2) + 1;
                if (n >= 8) {
                    if (n > PF_SNAPPY_LONG) break;
                    memcpy(to, at + 1, 16);
                    if (n > 16) {
                        memcpy(to + 16, at + 17, 16);
                        memcpy(to + 32, at + 33, 16);
                        memcpy(to + 48, at + 49, 16);
                    }
                    at += n + 1;
                    to += n;
                    tail = pf_snappy_load(at - 8);
                    continue;
                }
                word >>= 8;
                pf_snappy_store(to, word);
                tail = pf_snappy_moved(tail, word, n);
                at += n + 1;
                to += n;
                word >>= 8 * n; /* a copy often follows: up to 3 bytes, which the word still has */
                tag = word & 255;
                if (n > 4 || (tag & 3) == 0) continue;
            }
            if ((tag & 3) == 3) break;
            const unsigned is_short = 0u - (tag & 1); /* all bits set: one byte of offset follows */
            const size_t offset = (word >> 8 & (0xffffu >> (is_short & 8))) | (tag << 3 & 0x700 & is_short);
            n = 1 + (tag >> 2 & (63 ^ (is_short & 56))) + (is_short & 3);
            if (offset - 1 >= (size_t)(to - out)) return PF_BAD_SNAPPY; /* 0 wraps around */
            at += 3 - (tag & 1);
            if (offset == 8 && n < 8) { /* a column of 64-bit integers */
                pf_snappy_store(to, tail);
                tail = pf_snappy_moved(tail, tail, n);
            } else if (offset <= 8) {
                word = (tail >> (64 - 8 * offset)) * repeat[offset];
                pf_snappy_store(to, word);
                if (n < 8) {
                    tail = pf_snappy_moved(tail, word, n);
                } else {
                    const size_t step = whole[offset];
                    for (size_t i = step; i < n; i += step) pf_snappy_store(to + i, word);
                    const size_t turn = 8 * (n & 7);
                    tail = step == 8 ? word >> turn | word << (-turn & 63) : pf_snappy_load(to + n - 8);
                }
            } else {
                /* without branches on n: in texts they would be mispredicted */
                const uint8_t *source = to - offset;
                const uint64_t few = 0 - (uint64_t)(n < 8);
                pf_snappy_store(to, pf_snappy_load(source));
                pf_snappy_store(to + 8, pf_snappy_load(source + 8));
                if (n > 16) for (size_t i = 16; i < n; i += 8) pf_snappy_store(to + i, pf_snappy_load(source + i));
                word = pf_snappy_load(source + ((n - 8 + (offset < n ? offset : 0)) & ~few));
                tail = (pf_snappy_moved(tail, word, n & 7) & few) | (word & ~few);
            }
            to += n;
        }
        if (at < end && pf_snappy_element(&at, end, out, &to, out_end)) return PF_BAD_SNAPPY;
    }
    return to == out_end ? 0 : PF_BAD_SNAPPY;
}

/* The declared length, which the block's size allows; negative if there is none. */
static inline int64_t pf_snappy_declared(const uint8_t *data, size_t size) {
    uint32_t length = 0;
    const size_t n_head = pf_snappy_length(data, size, &length);
    if (n_head == 0 || (uint64_t)length * PF_SNAPPY_LEAST > (uint64_t)(size - n_head) * PF_SNAPPY_MOST)
        return PF_BAD_SNAPPY;
    return length;
}

#endif
