#include "bench/record.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *row_status_name(row_status s) {
    static const char *const names[] = {"ok", "wrong", "failed", "skipped"};
    return names[s];
}

bool timings_add(timings *s, double ms, double cycles, int round, bool marked, err *e) {
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 32;
        double *a = realloc(s->ms, cap * sizeof *a);
        s->ms = a ? a : s->ms;
        double *b = a ? realloc(s->cycles, cap * sizeof *b) : NULL;
        s->cycles = b ? b : s->cycles;
        int *c = b ? realloc(s->round, cap * sizeof *c) : NULL;
        s->round = c ? c : s->round;
        bool *d = c ? realloc(s->marked, cap * sizeof *d) : NULL;
        s->marked = d ? d : s->marked;
        if (!d)
            return err_set(e, ERR_NOMEM, "out of memory: samples");
        s->cap = cap;
    }
    s->ms[s->n] = ms;
    s->cycles[s->n] = cycles;
    s->round[s->n] = round;
    s->marked[s->n++] = marked;
    return true;
}

void timings_free(timings *s) {
    free(s->ms);
    free(s->cycles);
    free(s->round);
    free(s->marked);
    *s = (timings){0};
}

size_t timings_marked(const timings *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->marked[i];
    return n;
}

summary timings_summary(const timings *s) {
    size_t marked = timings_marked(s), n = 0;
    double *v = malloc((s->n + 1) * sizeof *v);
    for (size_t i = 0; v && i < s->n; i++)
        if (!s->marked[i] || marked == s->n)
            v[n++] = s->ms[i];
    summary x = stats_summary(v, n);
    free(v);
    return x;
}

void record_init(record *r) {
    *r = (record){.about = json_object()};
}

void row_clear(bench_row *row) {
    *row = (bench_row){.error = NAN,
                       .state_error = NAN,
                       .stress = NAN,
                       .tolerance = NAN,
                       .flop = NAN,
                       .bytes = NAN,
                       .chain = NAN,
                       .items = NAN,
                       .bytes_ms = NAN,
                       .flop_ms = NAN,
                       .floor_ms = NAN,
                       .clock_mhz = NAN,
                       .max_clock_mhz = NAN,
                       .watt = NAN,
                       .celsius = NAN,
                       .load = NAN,
                       .noise = NAN,
                       .first_ms = NAN};
}

void row_free(bench_row *row) {
    json_decref(row->params);
    timings_free(&row->warm);
    timings_free(&row->cold);
    row_clear(row);
}

void record_free(record *r) {
    for (size_t i = 0; i < r->n; i++)
        row_free(&r->rows[i]);
    free(r->rows);
    json_decref(r->about);
    *r = (record){0};
}

bench_row *record_add(record *r, err *e) {
    if (!mem_grow((void **)&r->rows, &r->cap, r->n + 1, sizeof *r->rows, "result rows", e))
        return NULL;
    bench_row *row = &r->rows[r->n];
    row_clear(row);
    row->params = json_object();
    if (!row->params) {
        err_set(e, ERR_NOMEM, "out of memory: a result row");
        return NULL;
    }
    r->n++;
    return row;
}

void record_drop(record *r, size_t i) {
    row_free(&r->rows[i]);
    memmove(r->rows + i, r->rows + i + 1, (r->n - i - 1) * sizeof *r->rows);
    r->n--;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char *row_key(const bench_row *row, err *e) {
    enum { MOST_PARAMS = 64 };
    char *part[MOST_PARAMS], *key = NULL;
    size_t n = 0, size = 1;
    const char *name;
    json_t *v;
    json_object_foreach(row->params, name, v) {
        char *value = json_dumps(v, JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_COMPACT);
        size_t len = value ? strlen(name) + strlen(value) + 3 : 0;
        part[n] = value ? malloc(len) : NULL;
        if (part[n])
            snprintf(part[n], len, "%s=%s", name, value);
        free(value);
        if (!part[n]) {
            err_set(e, ERR_NOMEM, "out of memory: a row's key");
            goto done;
        }
        size += strlen(part[n]) + 1;
        if (++n == MOST_PARAMS) {
            err_set(e, ERR_INPUT, "%s has more than %d parameters", row->name, MOST_PARAMS - 1);
            goto done;
        }
    }
    qsort(part, n, sizeof *part, by_text);
    key = mem_zalloc(size, 1, "a row's key", e);
    for (size_t i = 0; key && i < n; i++) {
        strcat(key, part[i]);
        strcat(key, " ");
    }
done:
    for (size_t i = 0; i < n; i++)
        free(part[i]);
    return key;
}

double row_ms(const bench_row *row) {
    if (row->status != ROW_OK)
        return NAN;
    summary s = timings_summary(row->warm.n ? &row->warm : &row->cold);
    return s.median;
}
