/* The memory of a page decoder, which the next decoder uses again, and the decompression of pages to it.
 *
 * Memory that is returned to the system and taken again costs a page fault for each 4 KiB, and new tables of zstd cost
 * more than a small page. The functions of zstd are those of a library that is loaded at run time (`pages.use_zstd`). */
#ifndef PF_PAGE_MEMORY_H
#define PF_PAGE_MEMORY_H

#include "snappy.h"

enum { PF_CODEC_OTHER, PF_CODEC_NONE, PF_CODEC_SNAPPY, PF_CODEC_ZSTD };

enum { PF_KEPT_BYTES = 1 << 19 }; /* a larger buffer is not small */

typedef struct {
    uint8_t *data;
    size_t capacity;
} pf_grown;

typedef struct {
    void *zstd; /* a ZSTD_DCtx */
    pf_grown page, dictionary, window;
} pf_page_memory;

/* ZSTD_createDCtx, ZSTD_freeDCtx and ZSTD_decompressDCtx; NULL: there are none. */
static void *(*pf_zstd_create)(void) = NULL;
static size_t (*pf_zstd_free)(void *) = NULL;
static size_t (*pf_zstd_decompress)(void *, void *, size_t, const void *, size_t) = NULL;

static void pf_use_zstd(uintptr_t create, uintptr_t release, uintptr_t decompress) {
    pf_zstd_create = (void *(*)(void))create;
    pf_zstd_free = (size_t (*)(void *))release;
    pf_zstd_decompress = (size_t (*)(void *, void *, size_t, const void *, size_t))decompress;
}

/* Decompresses `size` bytes to at most `n_raw` bytes at `out`; returns their number, or a negative number. Frames of
 * other formats than that of RFC 8878, which libraries may also read, are refused. */
static int64_t pf_zstd(void **context, const uint8_t *data, size_t size, uint8_t *out, size_t n_raw) {
    static const uint8_t magic[4] = {0x28, 0xB5, 0x2F, 0xFD};
    if (pf_zstd_decompress == NULL || size < sizeof(magic) || memcmp(data, magic, sizeof(magic))) return -1;
    if (*context == NULL && (*context = pf_zstd_create()) == NULL) return -1;
    const size_t found = pf_zstd_decompress(*context, out, n_raw, data, size); /* errors are huge numbers */
    return found <= n_raw ? (int64_t)found : -1;
}

static int pf_grow(pf_grown *buffer, size_t n) {
    if (buffer->data != NULL && n <= buffer->capacity) return 0;
    free(buffer->data); /* nothing of the last page is needed: no copy, as `realloc` makes one */
    buffer->data = (uint8_t *)malloc(n + 1);
    buffer->capacity = buffer->data == NULL ? 0 : n;
    return buffer->data == NULL ? -1 : 0;
}

/* Decompresses `size` bytes to a buffer; a negative number if they are not `n_raw` bytes decompressed. */
static int pf_decompress(int codec, pf_page_memory *memory, const uint8_t *data, size_t size, size_t n_raw,
                         pf_grown *out) {
    if (codec == PF_CODEC_SNAPPY) {
        const int64_t declared = pf_snappy_declared(data, size);
        if (declared < 0 || (uint64_t)declared != n_raw || pf_grow(out, n_raw)) return -1;
        return pf_snappy(data, size, out->data, n_raw);
    }
    if (codec != PF_CODEC_ZSTD || pf_grow(out, n_raw)) return -1;
    return pf_zstd(&memory->zstd, data, size, out->data, n_raw) == (int64_t)n_raw ? 0 : -1;
}

static void pf_shrink(pf_grown *buffer, size_t most) {
    if (buffer->capacity <= most) return;
    free(buffer->data);
    buffer->data = NULL;
    buffer->capacity = 0;
}

static size_t pf_held_bytes(const pf_page_memory *memory) {
    return memory->page.capacity + memory->dictionary.capacity + memory->window.capacity;
}

/* Frees the buffers that are larger than `PF_KEPT_BYTES`. */
static void pf_keep_small(pf_page_memory *memory) {
    pf_shrink(&memory->page, PF_KEPT_BYTES);
    pf_shrink(&memory->dictionary, PF_KEPT_BYTES);
    pf_shrink(&memory->window, PF_KEPT_BYTES);
}

static void pf_free_memory(pf_page_memory *memory) {
    free(memory->page.data);
    free(memory->dictionary.data);
    free(memory->window.data);
    if (memory->zstd != NULL) pf_zstd_free(memory->zstd);
    memset(memory, 0, sizeof(*memory));
}

#endif
