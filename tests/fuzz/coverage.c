/* Coverage counters for libFuzzer in modules that GCC compiled.
 *
 * GCC calls __sanitizer_cov_trace_pc at every edge and leaves it to us what that means; libFuzzer wants an array
 * of 8-bit counters and a table of as many program counters. This object is linked into each module: it counts
 * by the return address's distance from the module's start, and registers the array with the libFuzzer in the
 * library that PUFFIN_FAST_LIBFUZZER names, if it is loaded. Comparisons go to libFuzzer's own callbacks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define HIDDEN __attribute__((visibility("hidden")))
#define NO_COVERAGE __attribute__((no_sanitize_coverage))
#define N_COUNTERS (1u << 15)
#define SHIFT 3 /* 32,768 counters over 256 KiB of code; larger modules wrap around */

typedef struct {
    uintptr_t pc, flags;
} entry;

static uint8_t counters[N_COUNTERS];
static entry table[N_COUNTERS];
static uintptr_t module_start;

HIDDEN NO_COVERAGE void __sanitizer_cov_trace_pc(void) {
    uintptr_t at = (uintptr_t)__builtin_return_address(0) - module_start;
    uint8_t *counter = &counters[(at >> SHIFT) % N_COUNTERS];
    *counter += *counter != 255;
}

#define FORWARD(NAME, TYPE)                                                                                  \
    static void (*NAME##_to)(TYPE, TYPE);                                                                    \
    HIDDEN NO_COVERAGE void __sanitizer_cov_##NAME(TYPE a, TYPE b) {                                         \
        if (NAME##_to) NAME##_to(a, b);                                                                      \
    }

FORWARD(trace_cmp1, uint8_t)
FORWARD(trace_cmp2, uint16_t)
FORWARD(trace_cmp4, uint32_t)
FORWARD(trace_cmp8, uint64_t)
FORWARD(trace_const_cmp1, uint8_t)
FORWARD(trace_const_cmp2, uint16_t)
FORWARD(trace_const_cmp4, uint32_t)
FORWARD(trace_const_cmp8, uint64_t)

HIDDEN NO_COVERAGE void __sanitizer_cov_trace_cmpf(float a, float b) { (void)a, (void)b; }
HIDDEN NO_COVERAGE void __sanitizer_cov_trace_cmpd(double a, double b) { (void)a, (void)b; }

static void (*trace_switch_to)(uint64_t, uint64_t *);
HIDDEN NO_COVERAGE void __sanitizer_cov_trace_switch(uint64_t value, uint64_t *cases) {
    if (trace_switch_to) trace_switch_to(value, cases);
}

#define FIND(NAME) NAME##_to = dlsym(fuzzer, "__sanitizer_cov_" #NAME)

__attribute__((constructor)) NO_COVERAGE static void register_counters(void) {
    Dl_info info;
    if (dladdr((void *)&counters, &info)) module_start = (uintptr_t)info.dli_fbase;
    const char *path = getenv("PUFFIN_FAST_LIBFUZZER");
    void *fuzzer = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (!fuzzer) return;
    void (*counters_init)(uint8_t *, uint8_t *) = dlsym(fuzzer, "__sanitizer_cov_8bit_counters_init");
    void (*pcs_init)(const uintptr_t *, const uintptr_t *) = dlsym(fuzzer, "__sanitizer_cov_pcs_init");
    if (!counters_init || !pcs_init) return;
    for (size_t i = 0; i < N_COUNTERS; ++i) table[i].pc = module_start + (i << SHIFT);
    counters_init(counters, counters + N_COUNTERS);
    pcs_init(&table[0].pc, &table[N_COUNTERS].pc);
    FIND(trace_cmp1), FIND(trace_cmp2), FIND(trace_cmp4), FIND(trace_cmp8);
    FIND(trace_const_cmp1), FIND(trace_const_cmp2), FIND(trace_const_cmp4), FIND(trace_const_cmp8);
    FIND(trace_switch);
}
