/* The bytes of a column chunk that are in memory: all of them; some parts; or a part that is read from a local file
 * when it is needed. A page is then checked and decoded while it is in the processor's cache, and pages that are
 * skipped are not read.
 *
 *     chunk   0 ........ first ======== stop ............ n_bytes
 *                        data
 */
#ifndef PF_PAGE_WINDOW_H
#define PF_PAGE_WINDOW_H

#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

enum {
    PF_HEADER_READ = 1 << 12, /* bytes that are read for a header */
    PF_PAGE_READ = 1 << 16,   /* least bytes of a read for a page: small ones are read together */
    PF_NEXT_HEADER = 1 << 9,  /* bytes after a larger page, which have the next header */
};

typedef struct {
    const uint8_t *data;
    size_t first, stop;
} pf_part;

typedef struct {
    const uint8_t *data;
    size_t first, stop, n_bytes;
    int file;      /* -1: there are no bytes but those in memory */
    int64_t start; /* of the chunk in the file */
    const pf_part *parts;
    size_t n_parts;
} pf_window;

/* Where the bytes from `from` to `to` are in the part that has them; NULL if none has. */
static const uint8_t *pf_reach_part(pf_window *window, size_t from, size_t to) {
    for (size_t i = 0; i < window->n_parts; i++) {
        const pf_part *part = window->parts + i;
        if (part->first <= from && from < part->stop && to <= part->stop) {
            window->data = part->data;
            window->first = part->first;
            window->stop = part->stop;
            return part->data + (from - part->first);
        }
    }
    return NULL;
}

/* Moves the held bytes from `from` on to the front of a buffer of at least `size` bytes. */
static int pf_move_window(pf_window *window, pf_grown *own, size_t from, size_t size) {
    const int is_held = window->first <= from && from < window->stop;
    const size_t held = is_held ? window->stop - from : 0;
    const uint8_t *kept = is_held ? window->data + (from - window->first) : NULL;
    if (own->data == NULL || own->capacity < size) {
        uint8_t *grown = (uint8_t *)malloc(size + 1);
        if (grown == NULL) return -1;
        if (held) memcpy(grown, kept, held);
        free(own->data);
        own->data = grown;
        own->capacity = size;
    } else if (held) {
        memmove(own->data, kept, held);
    }
    window->data = own->data;
    window->first = from;
    window->stop = from + held;
    return 0;
}

/* Where the bytes from `from` to `to` are in memory; NULL if they cannot be read. The pointers of earlier calls are
 * invalid afterwards. If they have to be read, those up to `stop` are read along with them, as far as the chunk has
 * them. */
static const uint8_t *pf_reach(pf_window *window, pf_grown *own, size_t from, size_t to, size_t stop) {
    if (from > to || to > window->n_bytes) return NULL;
    if (window->first <= from && to <= window->stop) return window->data + (from - window->first);
    if (window->file < 0) return pf_reach_part(window, from, to);
    if (stop > window->n_bytes) stop = window->n_bytes;
    if (pf_move_window(window, own, from, stop - from)) return NULL;
    while (window->stop < stop) {
        const ssize_t n = pread(window->file, own->data + (window->stop - from), stop - window->stop,
                                (off_t)(window->start + (int64_t)window->stop));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return NULL;
        window->stop += (size_t)n;
    }
    return own->data;
}

/* Where the header of a page that starts at `at` is; it ends before `stop` of the window. */
static const uint8_t *pf_reach_header(pf_window *window, pf_grown *own, size_t at) {
    if (window->file < 0) {
        const int is_held = window->first <= at && at < window->stop;
        return is_held ? window->data + (at - window->first) : pf_reach_part(window, at, at);
    }
    const size_t stop = at + PF_NEXT_HEADER; /* a header may cross the end of the held bytes */
    return pf_reach(window, own, at, stop < window->n_bytes ? stop : window->n_bytes, at + PF_HEADER_READ);
}

/* Where the `n` bytes of a page that starts at `at` are. */
static const uint8_t *pf_reach_page(pf_window *window, pf_grown *own, size_t at, size_t n) {
    const size_t stop = at + n + PF_NEXT_HEADER;
    return pf_reach(window, own, at, at + n, stop < at + PF_PAGE_READ ? at + PF_PAGE_READ : stop);
}

#endif
