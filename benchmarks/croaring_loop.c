/* Many questions to one bitmap of CRoaring in a loop of C: its library has no such call.
 * The function to ask is passed in, so that nothing here is linked against CRoaring. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef bool (*contains_bulk)(const void *bitmap, void *context, uint64_t value);

void contains_many(contains_bulk ask, const void *bitmap, const uint64_t *values, size_t n, bool *out) {
    uint64_t context[8] = {0}; /* larger than roaring64_bulk_context_t */
    for (size_t i = 0; i < n; ++i) out[i] = ask(bitmap, context, values[i]);
}
