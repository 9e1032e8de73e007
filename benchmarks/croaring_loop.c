/* Loops of C over functions of CRoaring, whose library has no such calls: many questions to one bitmap, and one operation
 * on many pairs of bitmaps. The functions are passed in, so that nothing here is linked against CRoaring. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef bool (*contains_bulk)(const void *bitmap, void *context, uint64_t value);

void contains_many(contains_bulk ask, const void *bitmap, const uint64_t *values, size_t n, bool *out) {
    uint64_t context[8] = {0}; /* larger than roaring64_bulk_context_t */
    for (size_t i = 0; i < n; ++i) out[i] = ask(bitmap, context, values[i]);
}

typedef void *(*operation)(const void *left, const void *right);
typedef void (*release)(void *bitmap);
typedef bool (*question)(const void *left, const void *right);

void combine_pairs(operation combine, release release, void **left, void **right, size_t n) {
    for (size_t i = 0; i < n; ++i) release(combine(left[i], right[i]));
}

size_t ask_pairs(question ask, void **left, void **right, size_t n) {
    size_t found = 0;
    for (size_t i = 0; i < n; ++i) found += ask(left[i], right[i]);
    return found;
}
