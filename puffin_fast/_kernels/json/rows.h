/* Lines of JSON objects as columns of integers and texts.
 *
 *     {"add":{"path":"a","size":7},"x":[1]}\n
 *
 *     node   0 object   1 add: object   2 path: text   3 size: integer       as the caller numbers them
 *     row 0  valid[1] = valid[2] = valid[3] = 1, text of path: `a`, integer of size: 7
 *
 * Fields without a node are skipped, but each line is checked as a whole (RFC 8259). Everything else ends with
 * PF_JSON_OTHER: lines that are not JSON, and rare forms that are left to a general parser (a repeated field, a name with
 * escapes, a number that is not an integer of 18 digits where an integer is expected, more than PF_JSON_DEPTH levels).
 *
 * The input ends with a line feed, which no loop passes: it is neither white space within a line nor valid in a text.
 */
#ifndef PF_JSON_ROWS_H
#define PF_JSON_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PF_JSON_OBJECT = 0, PF_JSON_INTEGER = 1, PF_JSON_TEXT = 2 };
enum { PF_JSON_OTHER = -1, PF_JSON_DEPTH = 64, PF_JSON_DIGITS = 18 };

#define PF_JSON_ESCAPED 0x80000000u /* in the size of a text: it has escapes */

typedef struct {
    int32_t kind;
    int32_t first, n_children; /* its children are consecutive nodes */
    int32_t name, name_size;   /* of its field: a range of the names */
    int32_t column;            /* its number among the integers or the texts */
} pf_json_node;

typedef struct {
    const uint8_t *data; /* starts are relative to it */
    const pf_json_node *nodes;
    const uint8_t *names;
    size_t capacity, row;      /* rows of each column; the row that is read */
    uint8_t *valid;            /* a column for each node, zeros before */
    int64_t *integers;         /* a column for each integer */
    uint32_t *starts, *sizes;  /* a column for each text */
    int64_t *seen;             /* of each node: 1 + the row that had it last */
} pf_json_target;

static inline const uint8_t *pf_json_space(const uint8_t *at) {
    while (*at == ' ' || *at == '\t' || *at == '\r') at++;
    return at;
}

/* The value of four hexadecimal digits; -1 for others. */
static inline int32_t pf_json_hex(const uint8_t *at) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = at[i], low = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value * 16 + (low - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* The code point of an escape that begins with `\u`, and the byte after it; -1 for a lone surrogate or other digits. */
static inline int32_t pf_json_code_point(const uint8_t *at, const uint8_t **after) {
    int32_t high = pf_json_hex(at + 2), low;
    *after = at + 6;
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || at[6] != '\\' || at[7] != 'u') return -1;
    low = pf_json_hex(at + 8);
    *after = at + 12;
    if (low < 0xDC00 || low > 0xDFFF) return -1;
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

/* The character that an escape of two bytes stands for; 0 if there is none. */
static inline uint8_t pf_json_escape(uint8_t c) {
    switch (c) {
    case '"': case '\\': case '/': return c;
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return 0;
    }
}

/* The quotation mark that ends a text, from its first character on; NULL if it is not a text. */
static inline const uint8_t *pf_json_text_end(const uint8_t *at, int *escaped) {
    *escaped = 0;
    for (;; at++) {
        uint8_t c = *at;
        if (c == '"') return at;
        if (c == '\\') {
            *escaped = 1;
            if (at[1] == 'u') {
                const uint8_t *after;
                if (pf_json_code_point(at, &after) < 0) return NULL;
                at = after - 1;
            } else if (pf_json_escape(*++at) == 0) {
                return NULL;
            }
        } else if (c < 0x20) {
            return NULL;
        }
    }
}

static inline int pf_json_is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

/* The byte after a number; NULL if it is not one. */
static inline const uint8_t *pf_json_number_end(const uint8_t *at) {
    if (*at == '-') at++;
    if (!pf_json_is_digit(*at)) return NULL;
    if (*at++ != '0')
        while (pf_json_is_digit(*at)) at++;
    if (*at == '.') {
        if (!pf_json_is_digit(*++at)) return NULL;
        while (pf_json_is_digit(*at)) at++;
    }
    if ((*at | 0x20) == 'e') {
        at++;
        if (*at == '+' || *at == '-') at++;
        if (!pf_json_is_digit(*at)) return NULL;
        while (pf_json_is_digit(*at)) at++;
    }
    return at;
}

/* The byte after a word, which has no line feed; NULL if another one is there. */
static inline const uint8_t *pf_json_word_end(const uint8_t *at, const char *word) {
    for (; *word; word++, at++)
        if (*at != (uint8_t)*word) return NULL;
    return at;
}

/* The byte after any value; NULL if it is not one. */
static const uint8_t *pf_json_skip(const uint8_t *at, int depth) {
    int escaped;
    uint8_t close;
    switch (*at) {
    case '"':
        at = pf_json_text_end(at + 1, &escaped);
        return at == NULL ? NULL : at + 1;
    case 't': return pf_json_word_end(at, "true");
    case 'f': return pf_json_word_end(at, "false");
    case 'n': return pf_json_word_end(at, "null");
    case '{': close = '}'; break;
    case '[': close = ']'; break;
    default: return pf_json_number_end(at);
    }
    if (depth >= PF_JSON_DEPTH) return NULL;
    at = pf_json_space(at + 1);
    if (*at == close) return at + 1;
    for (;;) {
        if (close == '}') {
            if (*at != '"' || (at = pf_json_text_end(at + 1, &escaped)) == NULL) return NULL;
            at = pf_json_space(at + 1);
            if (*at != ':') return NULL;
            at = pf_json_space(at + 1);
        }
        at = pf_json_skip(at, depth + 1);
        if (at == NULL) return NULL;
        at = pf_json_space(at);
        if (*at == close) return at + 1;
        if (*at != ',') return NULL;
        at = pf_json_space(at + 1);
    }
}

static const uint8_t *pf_json_object(const uint8_t *at, int32_t number, int depth, pf_json_target *to);

/* The byte after the value of a node, which is stored; NULL if it is not of the node's kind. */
static inline const uint8_t *pf_json_value(const uint8_t *at, int32_t number, int depth, pf_json_target *to) {
    const pf_json_node *node = to->nodes + number;
    size_t place = (size_t)node->column * to->capacity + to->row;
    if (*at == 'n') return pf_json_word_end(at, "null");
    to->valid[(size_t)number * to->capacity + to->row] = 1;
    if (node->kind == PF_JSON_OBJECT) return *at == '{' ? pf_json_object(at, number, depth + 1, to) : NULL;
    if (node->kind == PF_JSON_TEXT) {
        int escaped;
        const uint8_t *start = at + 1;
        if (*at != '"' || (at = pf_json_text_end(start, &escaped)) == NULL) return NULL;
        to->starts[place] = (uint32_t)(start - to->data);
        to->sizes[place] = (uint32_t)(at - start) | (escaped ? PF_JSON_ESCAPED : 0);
        return at + 1;
    }
    const int negative = *at == '-';
    const uint8_t *digits = at + negative;
    int64_t value = 0;
    for (at = digits; pf_json_is_digit(*at) && at - digits <= PF_JSON_DIGITS; at++) value = value * 10 + (*at - '0');
    if (at == digits || at - digits > PF_JSON_DIGITS || (*digits == '0' && at - digits > 1)) return NULL;
    if (*at == '.' || (*at | 0x20) == 'e') return NULL;
    to->integers[place] = negative ? -value : value;
    return at;
}

/* The byte after an object, whose fields with nodes are stored; NULL if it is not one. `at` is at its brace. */
static const uint8_t *pf_json_object(const uint8_t *at, int32_t number, int depth, pf_json_target *to) {
    const pf_json_node *node = to->nodes + number;
    int32_t next = 0; /* fields are mostly in the order of the nodes */
    if (depth >= PF_JSON_DEPTH) return NULL;
    at = pf_json_space(at + 1);
    if (*at == '}') return at + 1;
    for (;;) {
        int escaped;
        int32_t child = -1;
        const uint8_t *name = at + 1;
        if (*at != '"' || (at = pf_json_text_end(name, &escaped)) == NULL || escaped) return NULL;
        for (int32_t i = 0, tried = next; i < node->n_children; i++) {
            const pf_json_node *one = to->nodes + node->first + tried;
            int32_t found = tried++;
            if (tried == node->n_children) tried = 0;
            if (one->name_size == at - name && memcmp(to->names + one->name, name, (size_t)(at - name)) == 0) {
                child = node->first + found;
                next = tried;
                break;
            }
        }
        at = pf_json_space(at + 1);
        if (*at != ':') return NULL;
        at = pf_json_space(at + 1);
        if (child < 0) {
            at = pf_json_skip(at, depth + 1);
        } else {
            if (to->seen[child] == (int64_t)to->row + 1) return NULL;
            to->seen[child] = (int64_t)to->row + 1;
            at = pf_json_value(at, child, depth, to);
        }
        if (at == NULL) return NULL;
        at = pf_json_space(at);
        if (*at == '}') return at + 1;
        if (*at != ',') return NULL;
        at = pf_json_space(at + 1);
    }
}

/* Reads lines up to the capacity; `size` bytes from `data` on end with a line feed. Returns the number of rows, and the
 * first byte after them; or PF_JSON_OTHER. */
static int64_t pf_json_rows(size_t size, pf_json_target *to, size_t *n_bytes) {
    const uint8_t *at = to->data, *end = to->data + size;
    for (to->row = 0; at < end && to->row < to->capacity; to->row++) {
        at = pf_json_space(at);
        if (*at != '{' || (at = pf_json_object(at, 0, 0, to)) == NULL) return PF_JSON_OTHER;
        at = pf_json_space(at);
        if (*at++ != '\n') return PF_JSON_OTHER;
    }
    *n_bytes = (size_t)(at - to->data);
    return (int64_t)to->row;
}

static inline size_t pf_json_utf8(int32_t code, uint8_t *out) {
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (uint8_t)(0xC0 | code >> 6);
        out[1] = (uint8_t)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (uint8_t)(0xE0 | code >> 12);
        out[1] = (uint8_t)(0x80 | (code >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | code >> 18);
    out[1] = (uint8_t)(0x80 | (code >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (code >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (code & 0x3F));
    return 4;
}

/* Copies texts that `pf_json_rows` found, without escapes. `out` has a byte for each of theirs. Returns the used ones. */
static size_t pf_json_copy(const uint8_t *data, const uint32_t *starts, const uint32_t *sizes, size_t n,
                           int32_t *offsets, uint8_t *out) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = data + starts[i], *end = at + (sizes[i] & ~PF_JSON_ESCAPED);
        offsets[i] = (int32_t)used;
        if (!(sizes[i] & PF_JSON_ESCAPED)) {
            memcpy(out + used, at, (size_t)(end - at));
            used += (size_t)(end - at);
            continue;
        }
        while (at < end) {
            if (*at != '\\') {
                out[used++] = *at++;
            } else if (at[1] != 'u') {
                out[used++] = pf_json_escape(at[1]);
                at += 2;
            } else {
                int32_t code = pf_json_code_point(at, &at);
                used += pf_json_utf8(code, out + used);
            }
        }
    }
    offsets[n] = (int32_t)used;
    return used;
}

#endif
