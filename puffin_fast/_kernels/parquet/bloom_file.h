/* A local file that is asked by its Bloom filters: it is opened, its footer read and each row group asked, in one call.
 *
 *     footer = part before | number of rows, row groups | part after     those parts are the same in files of one layout
 *     column = filter header | block of the least value | a block for each hash
 *
 * A file that has anything else than is expected here is not excluded: the caller opens it, and says what is wrong. */
#ifndef PF_BLOOM_FILE_H
#define PF_BLOOM_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bloom.h"
#include "footer.h"

enum {
    PF_TAIL_READ = 1 << 13,    /* bytes at the end of a file that are read first */
    PF_MOST_FOOTER = 64 << 20, /* bytes of a longer footer are not read here */
    PF_AFTER_FOOTER = 8,       /* its length and the magic */
    PF_FILTER_HEAD = 64,       /* bytes that are read for the header of a filter, which has 15 to 20 */
    PF_BLOCK_READ = 1 << 12,   /* a filter is read whole if it has fewer bytes than this for each hash */
};

/* What is known of a value before a filter is asked: that no column chunk has it, nothing, or that any may have it. */
enum { PF_NOWHERE, PF_ASKED, PF_ANYWHERE };

/* The values of one column, one for each wanted row. */
typedef struct {
    size_t leaf, width; /* bytes of a stored value; 0 if these vary */
    const uint64_t *hashes;
    const uint8_t *kinds;
} pf_wanted;

/* Wanted rows: a row group that has none of them has no match. */
typedef struct {
    const pf_wanted *columns;
    size_t n_columns, n_rows;
    double least_bits; /* of a filter, for each row of the row group: those of smaller ones are not asked */
} pf_wanted_rows;

typedef struct {
    const uint8_t *before, *after;
    size_t n_before, n_after, n_leaves, most_rows; /* of `wanted` */
    const int32_t *leaves;
    const pf_wanted_rows *wanted;
    size_t n_wanted;
} pf_question;

static int pf_read_whole(int file, uint8_t *out, size_t size, int64_t start) {
    while (size) {
        const ssize_t n = pread(file, out, size, (off_t)start);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        out += n;
        start += n;
        size -= (size_t)n;
    }
    return 0;
}

/* The blocks of a filter: in memory, or read from the file one by one. */
typedef struct {
    int file;
    int64_t start;
    uint64_t n_blocks;
    const uint8_t *whole;
} pf_blocks;

/* Whether a filter has a hash; negative if it cannot be read. */
static int pf_blocks_have(const pf_blocks *from, uint64_t hash) {
    uint8_t own[PF_BLOCK_BYTES];
    const uint64_t at = PF_BLOCK_BYTES * pf_bloom_block(hash, from->n_blocks);
    if (from->whole) return pf_bloom_has(from->whole + at, hash);
    if (pf_read_whole(from->file, own, PF_BLOCK_BYTES, from->start + (int64_t)at)) return -1;
    return pf_bloom_has(own, hash);
}

/* Clears the flags of rows whose value a column chunk does not have. Changes none if that is not known. */
static void pf_clear_absent(int file, int64_t file_bytes, const uint8_t *footer_end, const int64_t *words,
                            const pf_wanted *column, size_t n, double least_bytes, uint8_t *flags, uint8_t *found) {
    uint8_t head[PF_FILTER_HEAD], *whole = NULL;
    const int64_t bloom = words[PF_CHUNK_BLOOM], stated = words[PF_CHUNK_BLOOM_BYTES], left = file_bytes - bloom;
    const int64_t most = stated > 0 && stated < left ? stated : left;
    const size_t n_head = most < PF_FILTER_HEAD ? (size_t)most : PF_FILTER_HEAD;
    int64_t n_bytes = 0, size;
    pf_blocks blocks = {file, 0, 0, NULL};
    if (bloom < 4 || left <= 0 || pf_read_whole(file, head, n_head, bloom)) return;
    if ((size = pf_bloom_header(head, n_head, &n_bytes)) < 0 || n_bytes > left - size) return;
    if ((stated > 0 && size + n_bytes != stated) || (double)n_bytes < least_bytes) return;
    blocks.start = bloom + size;
    blocks.n_blocks = (uint64_t)n_bytes / PF_BLOCK_BYTES;
    if ((uint64_t)n * PF_BLOCK_READ >= (uint64_t)n_bytes) {
        if ((whole = (uint8_t *)malloc((size_t)n_bytes)) == NULL) return;
        blocks.whole = whole;
        if (pf_read_whole(file, whole, (size_t)n_bytes, blocks.start)) goto done;
    }
    if (column->width && words[PF_CHUNK_LEAST_BYTES] == (int64_t)column->width) {
        const uint64_t hash = pf_xxh64(footer_end - words[PF_CHUNK_LEAST], column->width);
        if (pf_blocks_have(&blocks, hash) != 1) goto done; /* it contradicts the footer */
    }
    for (size_t i = 0; i < n; i++) {
        int has = column->kinds[i] == PF_ANYWHERE;
        if (flags[i] && column->kinds[i] == PF_ASKED && (has = pf_blocks_have(&blocks, column->hashes[i])) < 0)
            goto done;
        found[i] = (uint8_t)(flags[i] & has);
    }
    memcpy(flags, found, n);
done:
    free(whole);
}

/* Whether a row group has none of some wanted rows. */
static int pf_group_lacks(int file, int64_t file_bytes, const uint8_t *footer_end, const int64_t *group,
                          const pf_question *asked, uint8_t *flags) {
    for (size_t i = 0; i < asked->n_wanted; i++) {
        const pf_wanted_rows *wanted = asked->wanted + i;
        memset(flags, 1, wanted->n_rows);
        for (size_t at = 0; at < wanted->n_columns; at++) {
            const pf_wanted *column = wanted->columns + at;
            pf_clear_absent(file, file_bytes, footer_end, group + 1 + column->leaf * PF_CHUNK_WORDS, column,
                            wanted->n_rows, wanted->least_bits * (double)(group[0] > 1 ? group[0] : 1) / 8, flags,
                            flags + asked->most_rows);
            if (memchr(flags, 1, wanted->n_rows) == NULL) return 1;
        }
    }
    return 0;
}

/* Compares the parts of a footer, and reads its row groups; their number, 0 if they are not as expected. */
static int64_t pf_known_groups(const uint8_t *footer, size_t size, const pf_question *asked, int64_t n_rows,
                               pf_groups *groups) {
    int64_t start = 0, stop = 0, sum = 0;
    const size_t row = 1 + asked->n_leaves * PF_CHUNK_WORDS;
    if (size < asked->n_before + asked->n_after || memcmp(footer, asked->before, asked->n_before) ||
        memcmp(footer + size - asked->n_after, asked->after, asked->n_after))
        return 0;
    if (pf_find_groups(footer, size, &start, &stop) || (size_t)start != asked->n_before ||
        size - (size_t)stop != asked->n_after)
        return 0;
    groups->capacity = 4 * row; /* of more row groups the words are counted first */
    while (1) {
        if ((groups->at = (int64_t *)malloc((groups->capacity + 1) * sizeof(int64_t))) == NULL) return 0;
        if (pf_read_groups(footer, size, asked->leaves, asked->n_leaves, groups)) return 0;
        if (groups->count <= groups->capacity) break;
        free(groups->at);
        groups->capacity = groups->count;
    }
    if (groups->n_groups < 1 || groups->n_rows != n_rows || groups->count != (size_t)groups->n_groups * row) return 0;
    for (int64_t i = 0; i < groups->n_groups; i++) {
        const int64_t n = groups->at[(size_t)i * row];
        if (n < 0 || n > n_rows - sum) return 0;
        sum += n;
    }
    return sum == n_rows ? groups->n_groups : 0;
}

/* The number of row groups of an open file, if each of them lacks some wanted rows; else 0. */
static int64_t pf_ask_open_file(int file, const pf_question *asked, int64_t n_rows, pf_groups *groups) {
    uint8_t tail[PF_TAIL_READ], *longer = NULL, *flags = NULL;
    const uint8_t *footer;
    int64_t n = 0;
    const int64_t file_bytes = (int64_t)lseek(file, 0, SEEK_END); /* negative for a pipe; fstat needs a newer C library */
    if (file_bytes < PF_AFTER_FOOTER + 4) return 0;
    const size_t n_tail = file_bytes < PF_TAIL_READ ? (size_t)file_bytes : PF_TAIL_READ;
    if (pf_read_whole(file, tail, n_tail, file_bytes - (int64_t)n_tail)) return 0;
    const size_t size = pf_get32(tail + n_tail - PF_AFTER_FOOTER);
    if (memcmp(tail + n_tail - 4, "PAR1", 4) || size > PF_MOST_FOOTER || (int64_t)size > file_bytes - PF_AFTER_FOOTER)
        return 0;
    if (size + PF_AFTER_FOOTER <= n_tail) footer = tail + n_tail - PF_AFTER_FOOTER - size;
    else {
        if ((footer = longer = (uint8_t *)malloc(size)) == NULL) return 0;
        if (pf_read_whole(file, longer, size, file_bytes - PF_AFTER_FOOTER - (int64_t)size)) goto done;
    }
    if ((flags = (uint8_t *)malloc(2 * asked->most_rows + 1)) == NULL) goto done;
    n = pf_known_groups(footer, size, asked, n_rows, groups);
    for (int64_t i = 0; i < n; i++) {
        const int64_t *group = groups->at + (size_t)i * (1 + asked->n_leaves * PF_CHUNK_WORDS);
        if (group[0] && !pf_group_lacks(file, file_bytes, footer + size, group, asked, flags)) n = 0;
    }
done:
    free(flags);
    free(longer);
    return n;
}

/* The same of a file by its path. The words of its row groups are in `groups`; their memory is to be freed. */
static int64_t pf_ask_file(const char *path, const pf_question *asked, int64_t n_rows, pf_groups *groups) {
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer would block */
    groups->at = NULL;
    if (file < 0) return 0;
    const int64_t n = pf_ask_open_file(file, asked, n_rows, groups);
    close(file);
    return n;
}

#endif
