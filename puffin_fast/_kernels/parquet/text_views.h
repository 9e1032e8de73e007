/* Byte strings of Parquet pages as Arrow views: u32 length | up to 12 bytes, or 4 bytes, u32 buffer, u32 offset.
 *
 * Wanted values are as in pages.h. Every function checks lengths and offsets before it reads, and returns a negative
 * number for bytes that do not have the expected form. */
#ifndef PF_TEXT_VIEWS_H
#define PF_TEXT_VIEWS_H

#include "pages.h"

enum { PF_VIEW_BYTES = 16, PF_INLINE_BYTES = 12, PF_COPY_BYTES = 32 };

static inline void pf_view(const uint8_t *page, uint64_t offset, uint64_t length, uint32_t buffer, uint8_t *out) {
    const uint32_t words[2] = {buffer, (uint32_t)offset}, n = (uint32_t)length;
    memset(out, 0, PF_VIEW_BYTES);
    memcpy(out, &n, 4);
    if (length <= PF_INLINE_BYTES) {
        memcpy(out + 4, page + offset, length);
    } else {
        memcpy(out + 4, page + offset, 4);
        memcpy(out + 8, words, 8);
    }
}

/* The wanted values of a page in which each stands after its length. place[0] is the index of a value and place[1]
 * its offset, at or before the first wanted one; both are moved past the last. */
static int pf_views(const uint8_t *data, size_t size, uint32_t buffer, const int32_t *rows, int64_t base, size_t count,
                    int64_t *place, uint8_t *out) {
    int64_t value = place[0];
    uint64_t at = (uint64_t)place[1];
    if (size > INT32_MAX || value < 0 || place[1] < 0) return PF_BAD_PAGE;
    for (size_t i = 0; i < count; i++) {
        const int64_t wanted = pf_wanted(rows, base, i);
        if (wanted < value) return PF_BAD_PAGE;
        for (;; value++) {
            uint32_t length;
            if (at > size || size - at < 4) return PF_BAD_PAGE;
            memcpy(&length, data + at, 4);
            at += 4;
            if (length > size - at) return PF_BAD_PAGE;
            if (value == wanted) {
                if (length <= PF_INLINE_BYTES && size - at >= PF_INLINE_BYTES) {
                    uint64_t low, high = 0;
                    const uint64_t n = length;
                    memcpy(&low, data + at, 8);
                    memcpy(&high, data + at + 8, 4);
                    if (n < 8) low &= (1ull << (8 * n)) - 1;
                    high = n <= 8 ? 0 : high & ((1ull << (8 * (n - 8))) - 1);
                    const uint64_t words[2] = {n | low << 32, low >> 32 | high << 32};
                    memcpy(out + i * PF_VIEW_BYTES, words, 16);
                } else {
                    pf_view(data, at, length, buffer, out + i * PF_VIEW_BYTES);
                }
                at += length;
                value++;
                break;
            }
            at += length;
        }
    }
    place[0] = value;
    place[1] = (int64_t)at;
    return 0;
}

static int64_t pf_views_bytes(const uint8_t *views, size_t count) {
    int64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t length;
        memcpy(&length, views + i * PF_VIEW_BYTES, 4);
        total += length;
    }
    return total;
}

/* The bytes of views that are not in the views themselves. */
static int64_t pf_outer_bytes(const uint8_t *views, size_t count) {
    int64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t length = pf_get32(views + i * PF_VIEW_BYTES);
        total += length > PF_INLINE_BYTES ? length : 0;
    }
    return total;
}

/* Copies the texts of views into one buffer from a page that has them; the views then refer to the copies. */
static void pf_move_texts(uint8_t *views, size_t count, const uint8_t *page, uint8_t *out) {
    uint32_t at = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t *view = views + i * PF_VIEW_BYTES;
        const uint32_t length = pf_get32(view);
        if (length <= PF_INLINE_BYTES) continue;
        memcpy(out + at, page + pf_get32(view + 12), length);
        pf_put32(view + 12, at);
        at += length;
    }
}

/* The bytes of a view; NULL if they are outside of its buffer. */
static inline const uint8_t *pf_view_text(const uint8_t *view, const uint8_t *const *buffers, const size_t *sizes,
                                          size_t n_buffers, uint32_t *length) {
    uint32_t words[2];
    memcpy(length, view, 4);
    if (*length <= PF_INLINE_BYTES) return view + 4;
    memcpy(words, view + 8, 8);
    if (words[0] >= n_buffers || words[1] > sizes[words[0]] || *length > sizes[words[0]] - words[1]) return NULL;
    return buffers[words[0]] + words[1];
}

/* The first views of runs of equal texts, at most `most` of them; returns their number, `most` + 1 if there are more.
 * Texts of one entry of a dictionary have equal views, and are not compared. */
static int64_t pf_text_runs(const uint8_t *views, size_t count, const uint8_t *const *buffers, const size_t *sizes,
                            size_t n_buffers, size_t most, int64_t *starts) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *view = views + i * PF_VIEW_BYTES;
        if (i && !memcmp(view, view - PF_VIEW_BYTES, PF_VIEW_BYTES)) continue;
        uint32_t length, last;
        const uint8_t *text = pf_view_text(view, buffers, sizes, n_buffers, &length);
        if (text == NULL) return PF_BAD_PAGE;
        if (i && !memcmp(view, view - PF_VIEW_BYTES, 8)) {
            const uint8_t *before = pf_view_text(view - PF_VIEW_BYTES, buffers, sizes, n_buffers, &last);
            if (before == NULL) return PF_BAD_PAGE;
            if (!memcmp(text, before, length)) continue;
        }
        if (n == most) return (int64_t)most + 1;
        starts[n++] = (int64_t)i;
    }
    return (int64_t)n;
}

/* Copies the bytes of views one after the other; `capacity` may exceed their sum, and is then written to. Offsets have
 * 4 or 8 bytes. Returns the number of bytes. */
static int64_t pf_views_copy(const uint8_t *views, size_t count, const uint8_t *const *buffers, const size_t *sizes,
                             size_t n_buffers, int offset_bytes, uint8_t *offsets, uint8_t *out, size_t capacity) {
    uint64_t at = 0;
    memset(offsets, 0, (size_t)offset_bytes);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *view = views + i * PF_VIEW_BYTES;
        uint32_t length, words[2];
        memcpy(&length, view, 4);
        if (length > capacity - at) return PF_BAD_PAGE;
        if (length <= PF_INLINE_BYTES) {
            if (capacity - at >= PF_INLINE_BYTES) memcpy(out + at, view + 4, PF_INLINE_BYTES);
            else memcpy(out + at, view + 4, length);
        } else {
            memcpy(words, view + 8, 8);
            if (words[0] >= n_buffers || words[1] > sizes[words[0]] || length > sizes[words[0]] - words[1])
                return PF_BAD_PAGE;
            const uint8_t *from = buffers[words[0]] + words[1];
            if (length <= PF_COPY_BYTES && capacity - at >= PF_COPY_BYTES && sizes[words[0]] - words[1] >= PF_COPY_BYTES)
                memcpy(out + at, from, PF_COPY_BYTES);
            else memcpy(out + at, from, length);
        }
        at += length;
        if (offset_bytes == 4) {
            const uint32_t end = (uint32_t)at;
            memcpy(offsets + (i + 1) * 4, &end, 4);
        } else memcpy(offsets + (i + 1) * 8, &at, 8);
    }
    return (int64_t)at;
}

#endif
