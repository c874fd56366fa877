// Several runs become one record (bench/record.h).
#include "bench/record.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void row_keys_free(char **keys, size_t n) {
    for (size_t i = 0; keys && i < n; i++)
        free(keys[i]);
    free(keys);
}

char **row_keys(const record *r, err *e) {
    char **keys = mem_zalloc(r->n + 1, sizeof *keys, "keys of rows", e);
    bool ok = keys != NULL;
    for (size_t i = 0; ok && i < r->n; i++) {
        char *key = row_key(&r->rows[i], e);
        size_t n = key ? strlen(key) + strlen(r->rows[i].source) + 1 : 0;
        keys[i] = key ? mem_alloc(n, 1, "keys of rows", e) : NULL;
        ok = keys[i] != NULL;
        if (ok)
            snprintf(keys[i], n, "%s%s", key, r->rows[i].source);
        free(key);
    }
    if (!ok) {
        row_keys_free(keys, r->n);
        return NULL;
    }
    return keys;
}

const bench_row *record_find(const record *r, char *const *keys, const char *key, size_t turn) {
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(keys[i], key) == 0 && turn-- == 0)
            return &r->rows[i];
    return NULL;
}

static bool append(timings *to, const timings *from, err *e) {
    int first = 0;
    for (size_t i = 0; i < to->n; i++)
        first = to->round[i] >= first ? to->round[i] + 1 : first;
    for (size_t i = 0; i < from->n; i++)
        if (!timings_add(to, from->ms[i], from->cycles[i], first + from->round[i], from->marked[i],
                         e))
            return false;
    if (from->n)
        memcpy(to->stop, from->stop, sizeof to->stop);
    return true;
}

static bool add(bench_row *to, const bench_row *from, err *e) {
    if (from->status != ROW_OK)
        return true;
    if (to->status != ROW_OK) {
        to->status = ROW_OK;
        to->why[0] = 0;
    }
    if (isfinite(from->noise) && !(to->noise > from->noise))
        to->noise = from->noise;
    return append(&to->warm, &from->warm, e) && append(&to->cold, &from->cold, e);
}

bool record_merge(record *to, const record *from, err *e) {
    size_t before = to->n;
    char **have = row_keys(to, e), **keys = have ? row_keys(from, e) : NULL;
    bool ok = keys != NULL;
    for (size_t i = 0; ok && i < from->n; i++) {
        size_t turn = 0;
        for (size_t k = 0; k < i; k++)
            turn += strcmp(keys[k], keys[i]) == 0;
        record old = {.rows = to->rows, .n = before}; // not the rows that this merge adds
        bench_row *row = (bench_row *)record_find(&old, have, keys[i], turn);
        if (!row) {
            row = record_add(to, e);
            if (!row) {
                ok = false;
                break;
            }
            json_decref(row->params);
            *row = from->rows[i];
            json_incref(row->params);
            row->warm = row->cold = (timings){0};
        }
        ok = add(row, &from->rows[i], e);
    }
    if (ok && json_object_size(to->about) == 0)
        json_object_update(to->about, from->about);
    row_keys_free(have, before);
    row_keys_free(keys, from->n);
    return ok;
}
