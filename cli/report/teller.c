#include "cli/report/teller.h"

#include "core/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void teller_say(teller *t, item_weight weight, const char *fmt, ...) {
    va_list ap;
    char *text = NULL;
    if (!t->ok)
        return;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    t->ok = n >= 0 || err_set(t->e, ERR_NOMEM, "out of memory: a sentence");
    if (t->ok)
        t->ok = page_item(&t->a->page, weight, t->e, "%s", text);
    if (n >= 0)
        free(text);
    t->said++;
}

bool teller_open(teller *t, assembly *a, const assembly_pair *x, err *e) {
    *t = (teller){.a = a, .x = x, .H = assembly_n_heads(x), .e = e};
    t->v = mem_alloc(t->H, sizeof *t->v, "values of heads", e);
    t->w = mem_alloc(t->H, sizeof *t->w, "values of heads", e);
    t->ok = t->v && t->w;
    return t->ok;
}

bool teller_close(teller *t) {
    free(t->v);
    free(t->w);
    return t->ok;
}

double teller_value(const teller *t, const char *name, int64_t position) {
    return assembly_value(t->a, t->x, name, position);
}

const char *teller_interval(const fact *f, char *buf, size_t size) {
    buf[0] = 0;
    if (f && !isnan(f->lo) && !isnan(f->hi))
        snprintf(buf, size, " (95 %% %+.3f to %+.3f over rows)", f->lo, f->hi);
    return buf;
}

size_t teller_most(const double *v, size_t H, double sign) {
    size_t best = H;
    for (size_t h = 0; h < H; h++)
        if (!isnan(v[h]) && (best == H || sign * v[h] > sign * v[best]))
            best = h;
    return best;
}

size_t teller_above(const double *v, size_t H, double bound) {
    size_t n = 0;
    for (size_t h = 0; h < H; h++)
        n += v[h] > bound;
    return n;
}

const char *teller_list_above(const teller *t, const double *v, double bound, char *buf,
                              size_t size) {
    enum { SHOWN = 4 };
    size_t n = teller_above(v, t->H, bound), shown = 0, at = 0;
    char name[32];
    buf[0] = 0;
    for (size_t h = 0; h < t->H && shown < SHOWN; h++)
        if (v[h] > bound)
            at += (size_t)snprintf(buf + at, size - at, "%s%s", shown++ ? ", " : "",
                                   assembly_head_name(t->x, h, name, sizeof name));
    if (n > shown)
        snprintf(buf + at, size - at, " and %zu more", n - shown);
    return buf;
}

void teller_growth(teller *t, bool wrong) {
    const pair *p = &t->x->p;
    char name[32];
    int64_t end = assembly_end(t->x), before = 64;
    assembly_heads(t->a, t->x, "erank_growth", FACT_NONE, t->v);
    size_t n = teller_above(t->v, t->H, GROWS), h = teller_most(t->v, t->H, 1), still = 0;
    if (n == 0 || wrong != ((double)n >= MANY_HEADS * (double)t->H))
        return;
    while (before * 4 <= end)
        before *= 2;
    double rise = t->v[h];
    assembly_heads(t->a, t->x, "erank", end, t->w);
    assembly_heads(t->a, t->x, "erank", before, t->v);
    double to = t->w[h];
    for (size_t i = 0; i < t->H; i++)
        t->w[i] -= t->v[i];
    assembly_heads(t->a, t->x, "erank_growth", FACT_NONE, t->v);
    for (size_t i = 0; i < t->H; i++)
        still += t->v[i] > GROWS && t->w[i] > GROWS;
    teller_say(
        t, wrong ? WEIGHT_WARN : WEIGHT_PLAIN,
        "%s on %s: %zu of %zu heads grow%s in effective rank beyond the training length by more "
        "than "
        "%.0f, %s most (%+.1f, to %.1f of %d); %zu of them still grow%s at %" PRId64
        ", compared with %" PRId64 ".",
        p->model, p->document, n, t->H, n == 1 ? "s" : "", GROWS,
        assembly_head_name(t->x, h, name, sizeof name), rise, to, p->erank.max_rank, still,
        still == 1 ? "s" : "", end, before);
}
