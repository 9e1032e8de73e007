/* Bloom filters of Parquet column chunks: split blocks, hashes by xxHash64 with seed 0.
 *
 *     filter = header | blocks           block = 8 words of 32 bits; a value sets one bit of each
 *     hash   = block (upper half) | bits (lower half, times one salt for each word)
 *
 * Sources: Parquet format specification, "Bloom Filter"; xxHash fast digest algorithm, "XXH64". */
#ifndef PF_BLOOM_H
#define PF_BLOOM_H

#include "integers.h"
#include "page_header.h"

enum { PF_BLOCK_BYTES = 32, PF_BLOCK_WORDS = 8 };

#define PF_XX1 0x9E3779B185EBCA87ull
#define PF_XX2 0xC2B2AE3D27D4EB4Full
#define PF_XX3 0x165667B19E3779F9ull
#define PF_XX4 0x85EBCA77C2B2AE63ull
#define PF_XX5 0x27D4EB2F165667C5ull

static inline uint64_t pf_xx_round(uint64_t lane, uint64_t word) {
    return pf_rotl64(lane + word * PF_XX2, 31) * PF_XX1;
}

static uint64_t pf_xxh64(const uint8_t *data, size_t size) {
    const uint8_t *end = data + size;
    uint64_t hash = PF_XX5;
    if (size >= 32) {
        uint64_t lanes[4] = {PF_XX1 + PF_XX2, PF_XX2, 0, 0 - PF_XX1};
        for (; end - data >= 32; data += 32)
            for (int i = 0; i < 4; i++) lanes[i] = pf_xx_round(lanes[i], pf_get64(data + 8 * i));
        hash = pf_rotl64(lanes[0], 1) + pf_rotl64(lanes[1], 7) + pf_rotl64(lanes[2], 12) + pf_rotl64(lanes[3], 18);
        for (int i = 0; i < 4; i++) hash = (hash ^ pf_xx_round(0, lanes[i])) * PF_XX1 + PF_XX4;
    }
    hash += size;
    for (; end - data >= 8; data += 8)
        hash = pf_rotl64(hash ^ pf_xx_round(0, pf_get64(data)), 27) * PF_XX1 + PF_XX4;
    if (end - data >= 4) {
        hash = pf_rotl64(hash ^ pf_get32(data) * PF_XX1, 23) * PF_XX2 + PF_XX3;
        data += 4;
    }
    for (; data < end; data++) hash = pf_rotl64(hash ^ *data * PF_XX5, 11) * PF_XX1;
    hash = (hash ^ hash >> 33) * PF_XX2;
    hash = (hash ^ hash >> 29) * PF_XX3;
    return hash ^ hash >> 32;
}

static inline uint64_t pf_bloom_block(uint64_t hash, uint64_t n_blocks) { return (hash >> 32) * n_blocks >> 32; }

/* Whether a block has the bits of a hash. */
static inline int pf_bloom_has(const uint8_t *block, uint64_t hash) {
    static const uint32_t salts[PF_BLOCK_WORDS] = {0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
                                                   0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31};
    uint32_t has = 1;
    for (int i = 0; i < PF_BLOCK_WORDS; i++) has &= pf_get32(block + 4 * i) >> ((uint32_t)hash * salts[i] >> 27);
    return (int)has;
}

/* A union of the header: whether its only member is an empty struct of id 1, all that the format has so far. */
static int pf_is_first(pf_thrift *from) {
    int64_t id = 0;
    int kind = 0, n = 0, more, is_first = 1;
    while ((more = pf_field(from, &id, &kind)) > 0) {
        is_first &= id == 1 && kind == PF_STRUCT;
        if (pf_skip(from, kind, 0)) return 0;
        n++;
    }
    return !more && is_first && n == 1;
}

/* The number of bytes of a header, and of the blocks after it; a negative number for another kind of filter. */
static int64_t pf_bloom_header(const uint8_t *data, size_t size, int64_t *n_bytes) {
    pf_thrift from = {data, data + size};
    int64_t id = 0;
    int kind = 0, more, found = 0;
    *n_bytes = -1;
    while ((more = pf_field(&from, &id, &kind)) > 0) {
        if (id == 1 && kind == PF_I32) {
            if (pf_integer(&from, n_bytes)) return PF_BAD_PAGE;
        } else if (2 <= id && id <= 4 && kind == PF_STRUCT) { /* algorithm, hash, compression */
            if (!pf_is_first(&from)) return PF_BAD_PAGE;
            found |= 1 << id;
        } else if (pf_skip(&from, kind, 0)) return PF_BAD_PAGE;
    }
    if (more || found != (1 << 2 | 1 << 3 | 1 << 4) || *n_bytes < PF_BLOCK_BYTES || *n_bytes % PF_BLOCK_BYTES)
        return PF_BAD_PAGE;
    return from.at - data;
}

#endif
