// Numbers of a structure behind each other: written in one order, read in the same.
#include "analyses/report/row_store.h"

#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void flat_put(flat *f, const double *v, size_t n) {
    if (f->fail.code != ERR_NONE || !mem_grow((void **)&f->real, &f->cap_real, f->n_real + n,
                                              sizeof *f->real, "a record", &f->fail))
        return;
    if (n)
        memcpy(f->real + f->n_real, v, n * sizeof *v);
    f->n_real += n;
}

void flat_put_ints(flat *f, const int64_t *v, size_t n) {
    if (f->fail.code != ERR_NONE || !mem_grow((void **)&f->whole, &f->cap_whole, f->n_whole + n,
                                              sizeof *f->whole, "a record", &f->fail))
        return;
    if (n)
        memcpy(f->whole + f->n_whole, v, n * sizeof *v);
    f->n_whole += n;
}

void flat_put_int(flat *f, int64_t v) {
    flat_put_ints(f, &v, 1);
}

static bool left(flat *f, size_t want, size_t have) {
    return want <= have || err_set(&f->fail, ERR_INPUT, "a record that ends early");
}

void flat_get(flat *f, double *v, size_t n) {
    if (f->fail.code != ERR_NONE || !left(f, n, f->n_real - f->at_real)) {
        for (size_t i = 0; i < n; i++)
            v[i] = NAN;
        return;
    }
    if (n)
        memcpy(v, f->real + f->at_real, n * sizeof *v);
    f->at_real += n;
}

void flat_get_ints(flat *f, int64_t *v, size_t n) {
    if (f->fail.code != ERR_NONE || !left(f, n, f->n_whole - f->at_whole)) {
        if (n)
            memset(v, 0, n * sizeof *v);
        return;
    }
    if (n)
        memcpy(v, f->whole + f->at_whole, n * sizeof *v);
    f->at_whole += n;
}

int64_t flat_get_int(flat *f) {
    int64_t v;
    flat_get_ints(f, &v, 1);
    return v;
}

void flat_put_shape(flat *f, const head_shape *s) {
    flat_put_ints(f, (int64_t[]){s->H, s->Hk, s->K, s->V, s->n_h, s->decay, s->erase}, 7);
    flat_put(f, (double[]){s->scale, s->beta_max}, 2);
}

head_shape flat_get_shape(flat *f) {
    int64_t n[7];
    double x[2];
    flat_get_ints(f, n, 7);
    flat_get(f, x, 2);
    return (head_shape){.H = (int)n[0],
                        .Hk = (int)n[1],
                        .K = (int)n[2],
                        .V = (int)n[3],
                        .n_h = (int)n[4],
                        .decay = (decay_kind)n[5],
                        .erase = (erase_kind)n[6],
                        .scale = x[0],
                        .beta_max = x[1]};
}

void flat_free(flat *f) {
    free(f->real);
    free(f->whole);
    *f = (flat){0};
}
