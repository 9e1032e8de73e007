/* Set operations on run containers: ascending (start, length - 1) pairs of u16 that neither overlap nor touch.
 *
 * The loops take one step for each run or value and write before they know whether the result stays: such steps have no
 * branch that is mispredicted. Runs that another thread changes give other runs, but none past the output.
 */
#ifndef PF_RUNS_H
#define PF_RUNS_H

#include "container_search.h"

PF_BODY uint32_t pf_run_start(const uint8_t *pairs, size_t i) { return pf_get16(pairs + 4 * i); }
PF_BODY uint32_t pf_run_end(const uint8_t *pairs, size_t i) { /* past the last value */
    return pf_get16(pairs + 4 * i) + (pf_get16(pairs + 4 * i + 2) + 1u);
}
PF_BODY void pf_put_run(uint8_t *pairs, size_t i, uint32_t start, uint32_t end) {
    pf_put16(pairs + 4 * i, (uint16_t)start);
    pf_put16(pairs + 4 * i + 2, (uint16_t)(end - start - 1));
}

/* The union, joined where runs touch; out has space for as many runs as both have. Returns the number of runs. */
static uint32_t pf_runs_union(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    uint32_t start = 0, end = 0, n = 0; /* of the last run, which may still grow */
    size_t i = 0, j = 0;
    while (i < na || j < nb) {
        int from_a = j == nb || (i < na && pf_get16(a + 4 * i) <= pf_get16(b + 4 * j));
        const uint8_t *run = from_a ? a + 4 * i : b + 4 * j;
        uint32_t next = pf_run_start(run, 0), next_end = pf_run_end(run, 0);
        uint32_t apart = next > end || n == 0;
        i += (size_t)from_a;
        j += (size_t)!from_a;
        start = apart ? next : start;
        end = next_end > end ? next_end : end;
        n += apart;
        pf_put_run(out, n - 1, start, end);
    }
    if (end > 65536) pf_put_run(out, n - 1, start, 65536); /* only if another thread changes the runs */
    return n;
}

/* The intersection, or its first run if any is enough; out has space for na + nb runs. Returns the number of runs. */
static uint32_t pf_runs_intersection(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out,
                                     int any_is_enough) {
    const uint8_t *few = na < nb ? a : b, *many = na < nb ? b : a;
    size_t n_few = na < nb ? na : nb, n_many = na < nb ? nb : na, i = 0, j = 0, most = na + nb;
    int far = n_few * PF_FAR < n_many;
    uint32_t n = 0;
    while (i < n_few && j < n_many && n < most) {
        if (far) j = pf_reach(many, 4, 1, j, n_many, pf_run_start(few, i));
        if (j >= n_many) break;
        uint32_t x = pf_run_start(few, i), y = pf_run_start(many, j), x_end = pf_run_end(few, i);
        uint32_t y_end = pf_run_end(many, j), start = x > y ? x : y, end = x_end < y_end ? x_end : y_end;
        pf_put_run(out, n, start, end);
        n += start < end;
        i += x_end <= y_end;
        j += y_end <= x_end;
        if (any_is_enough && n > 0) break;
    }
    return n;
}

/* a without b; out has space for na + nb runs. Returns the number of runs. */
static uint32_t pf_runs_difference(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t i = 0, j = 0, most = na + nb;
    uint32_t n = 0, from = na > 0 ? pf_run_start(a, 0) : 0; /* the rest of run i begins here */
    int far = na * PF_FAR < nb;
    while (i < na && j < nb && n < most) {
        if (far) j = pf_reach(b, 4, 1, j, nb, from);
        if (j >= nb) break;
        uint32_t end = pf_run_end(a, i), gap = pf_run_start(b, j), gap_end = pf_run_end(b, j);
        uint32_t stop = end < gap ? end : gap, rest = from > gap_end ? from : gap_end;
        pf_put_run(out, n, from, stop);
        n += from < stop;
        int over = end <= gap_end; /* run i is done; otherwise gap j is */
        size_t next = i + 1 < na ? i + 1 : i;
        i += (size_t)over;
        j += (size_t)!over;
        from = over ? pf_run_start(a, next) : rest;
    }
    for (; i < na && n < most; i++) {
        uint32_t end = pf_run_end(a, i);
        pf_put_run(out, n, from, end);
        n += from < end;
        from = i + 1 < na ? pf_run_start(a, i + 1) : 0;
    }
    return n;
}

PF_BODY uint32_t pf_run_edge(const uint8_t *pairs, size_t i) { /* starts and ends, ascending */
    return i & 1 ? pf_run_end(pairs, i >> 1) : pf_run_start(pairs, i >> 1);
}

/* The symmetric difference: an edge of one of both is an edge of the result, an edge of both is not. out has space for
 * na + nb runs. Returns the number of runs. */
static uint32_t pf_runs_symmetric(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t i = 0, j = 0, n = 0;
    uint32_t start = 0;
    while (i < 2 * na || j < 2 * nb) {
        uint32_t x = i < 2 * na ? pf_run_edge(a, i) : 1u << 17, y = j < 2 * nb ? pf_run_edge(b, j) : 1u << 17;
        uint32_t edge = x < y ? x : y;
        start = n & 1 ? start : edge;
        pf_put16(out + 2 * n, (uint16_t)(n & 1 ? edge - start - 1 : edge));
        n += x != y;
        i += x <= y;
        j += y <= x;
    }
    return (uint32_t)(n / 2);
}

/* Those of n values that are in the runs, or that are not; or the first of them if any is enough. out has space for n + 1
 * values. Returns their number. */
static size_t pf_array_select_runs(const uint8_t *values, size_t n, const uint8_t *pairs, size_t n_runs, int wanted,
                                   uint8_t *out, int any_is_enough) {
    size_t i = 0, j = 0, n_selected = 0;
    if (PF_FAR * n_runs < n) { /* whole stretches of values */
        for (; j < n_runs && !(any_is_enough && n_selected > 0); j++) {
            size_t first = pf_reach(values, 2, 0, i, n, pf_run_start(pairs, j));
            size_t last = pf_reach(values, 2, 0, first, n, pf_run_end(pairs, j));
            size_t from = wanted ? first : i, count = (wanted ? last : first) - from;
            memcpy(out + 2 * n_selected, values + 2 * from, 2 * count);
            n_selected += count;
            i = last;
        }
    } else {
        int far = PF_FAR * n < n_runs;
        while (i < n && j < n_runs) {
            uint32_t value = pf_get16(values + 2 * i);
            if (far && (j = pf_reach(pairs, 4, 1, j, n_runs, value)) >= n_runs) break;
            uint32_t start = pf_run_start(pairs, j), end = pf_run_end(pairs, j);
            pf_put16(out + 2 * n_selected, (uint16_t)value);
            n_selected += (size_t)(value < end && (value >= start) == (wanted != 0));
            i += value < end;
            j += value >= end;
            if (any_is_enough && n_selected > 0) break;
        }
    }
    if (wanted || (any_is_enough && n_selected > 0)) return n_selected;
    memcpy(out + 2 * n_selected, values + 2 * i, 2 * (n - i)); /* past the last run */
    return n_selected + n - i;
}

#endif
