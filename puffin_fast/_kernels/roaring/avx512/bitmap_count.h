/* Set bits and runs of bitmap containers: plain loops, which compilers turn into AVX-512's count of each word. */
#ifndef PF_AVX512_BITMAP_COUNT_H
#define PF_AVX512_BITMAP_COUNT_H

PF_AVX512 static uint32_t pf_bitmap_cardinality_avx512(const uint8_t *bits) {
    uint64_t ones = 0;
    for (size_t i = 0; i < PF_WORDS; i++) ones += (uint64_t)__builtin_popcountll(pf_get64(bits + 8 * i));
    return (uint32_t)ones;
}

PF_AVX512 static uint32_t pf_bitmap_runs_avx512(const uint8_t *bits) {
    uint64_t starts = (uint64_t)__builtin_popcountll(pf_run_starts(pf_get64(bits), 0));
    for (size_t i = 1; i < PF_WORDS && starts < PF_MANY_RUNS; i += 64) {
        size_t end = i + 64 < PF_WORDS ? i + 64 : PF_WORDS;
        for (size_t j = i; j < end; j++)
            starts += (uint64_t)__builtin_popcountll(pf_run_starts(pf_get64(bits + 8 * j), pf_get64(bits + 8 * j - 8)));
    }
    return (uint32_t)starts;
}

#endif
