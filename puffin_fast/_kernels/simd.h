/* Which instruction set the kernels use, chosen once when a module is imported.
 *
 * A plain C loop is written once (PF_BODY) and compiled for each level by PF_LEVELS. Intrinsics are used only where
 * compilers do not find them. They are in avx2/ and avx512/, in files named like the header that they belong to: that
 * header defines the portable functions, includes its files of avx2/ and avx512/, and ends with the functions that
 * choose between the three (PF_DISPATCH).
 *
 * PUFFIN_FAST_SIMD=portable|avx2|avx512 lowers the level, but never raises it above that of the processor. A build with
 * PF_PORTABLE contains only the portable functions.
 */
#ifndef PF_SIMD_H
#define PF_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "integers.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "puffin_fast: expected a little-endian platform: the kernels read and write Roaring's words in place"
#endif
#if UINTPTR_MAX < UINT64_MAX
#error "puffin_fast: expected a 64-bit platform: positions and sizes have 64 bits"
#endif

#if !defined(PF_PORTABLE) && defined(__x86_64__) && defined(__GNUC__)
#define PF_X86 1
#include <immintrin.h>
#define PF_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt")))
#if defined(__clang__)
#define PF_WIDE "" /* clang ignores the whole attribute when it does not know one of its words */
#else
#define PF_WIDE ",prefer-vector-width=512"
#endif
#define PF_AVX512                                                                                            \
    __attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,"          \
                          "avx512vbmi,avx512vbmi2,avx512vpopcntdq" PF_WIDE)))
#else
#define PF_X86 0
#endif

enum { PF_LEVEL_PORTABLE = 0, PF_LEVEL_AVX2 = 1, PF_LEVEL_AVX512 = 2 };

static int pf_level = PF_LEVEL_PORTABLE;

#if PF_X86
static uint8_t pf_bits_of_byte[256][8]; /* the indexes of a byte's set bits, ascending, then zeros */

static void pf_make_table(void) {
    for (int byte = 0; byte < 256; byte++)
        for (int bit = 0, n = 0; bit < 8; bit++)
            if ((byte >> bit) & 1) pf_bits_of_byte[byte][n++] = (uint8_t)bit;
}
#endif

static int pf_choose_level(void) {
    int level = PF_LEVEL_PORTABLE;
#if PF_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("popcnt"))
        level = PF_LEVEL_AVX2;
    if (level == PF_LEVEL_AVX2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
        __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vpopcntdq"))
        level = PF_LEVEL_AVX512;
#endif
    const char *cap = getenv("PUFFIN_FAST_SIMD");
    if (cap != NULL && strcmp(cap, "portable") == 0) level = PF_LEVEL_PORTABLE;
    if (cap != NULL && strcmp(cap, "avx2") == 0 && level > PF_LEVEL_AVX2) level = PF_LEVEL_AVX2;
#if PF_X86
    if (level == PF_LEVEL_AVX2) pf_make_table();
#endif
    pf_level = level;
    return level;
}

/* Defines NAME(ARGUMENTS), which calls NAME_body as compiled for the level of this processor. */
#if PF_X86
#define PF_LEVELS(RESULT, NAME, PARAMETERS, ARGUMENTS)                                                       \
    static RESULT NAME##_portable PARAMETERS { return NAME##_body ARGUMENTS; }                               \
    PF_AVX2 static RESULT NAME##_avx2 PARAMETERS { return NAME##_body ARGUMENTS; }                           \
    PF_AVX512 static RESULT NAME##_avx512 PARAMETERS { return NAME##_body ARGUMENTS; }                       \
    static inline RESULT NAME PARAMETERS {                                                                   \
        if (pf_level == PF_LEVEL_AVX512) return NAME##_avx512 ARGUMENTS;                                     \
        if (pf_level == PF_LEVEL_AVX2) return NAME##_avx2 ARGUMENTS;                                         \
        return NAME##_portable ARGUMENTS;                                                                    \
    }
/* Defines NAME(ARGUMENTS), which calls NAME_portable, NAME_avx2 or NAME_avx512. */
#define PF_DISPATCH(RESULT, NAME, PARAMETERS, ARGUMENTS)                                                     \
    static inline RESULT NAME PARAMETERS {                                                                   \
        if (pf_level == PF_LEVEL_AVX512) return NAME##_avx512 ARGUMENTS;                                     \
        if (pf_level == PF_LEVEL_AVX2) return NAME##_avx2 ARGUMENTS;                                         \
        return NAME##_portable ARGUMENTS;                                                                    \
    }
#else
#define PF_LEVELS(RESULT, NAME, PARAMETERS, ARGUMENTS)                                                       \
    static inline RESULT NAME PARAMETERS { return NAME##_body ARGUMENTS; }
#define PF_DISPATCH(RESULT, NAME, PARAMETERS, ARGUMENTS)                                                     \
    static inline RESULT NAME PARAMETERS { return NAME##_portable ARGUMENTS; }
#endif

/* Loads the cache line of an address into the cache. The address need not be valid. */
#if defined(__GNUC__)
#define pf_prefetch(at) __builtin_prefetch(at)
#define pf_prefetch_to_write(at) __builtin_prefetch(at, 1)
#else
#define pf_prefetch(at) ((void)(at))
#define pf_prefetch_to_write(at) ((void)(at))
#endif

/* Loads the cache line that a pass over memory reaches 2 KiB later. The processor prefetches too, but not far enough
 * where so much is computed for a value that only a few loads are in flight. */
#define pf_prefetch_ahead(at) pf_prefetch((const void *)((uintptr_t)(at) + 2048))

/* The number of set bits. Compilers turn these lines into one instruction where the level has it. Elsewhere they are
 * several times as fast as the function call that __builtin_popcountll becomes. */
PF_BODY uint64_t pf_ones(uint64_t word) {
    word -= (word >> 1) & 0x5555555555555555ull;
    word = (word & 0x3333333333333333ull) + ((word >> 2) & 0x3333333333333333ull);
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Full;
    return (word * 0x0101010101010101ull) >> 56;
}

#endif
