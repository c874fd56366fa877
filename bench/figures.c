#include "bench/figures.h"

#include "bench/verdict.h"
#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BARS_MOST = 40 };

static double median_of(const timings *s) {
    return s->n ? timings_summary(s).median : (double)NAN;
}

// The i-th part of a name ("T512" of "gdn.B1.T512.f32.cpu"); NULL behind the last.
static const char *part_at(const char *name, int i, size_t *n) {
    for (; i > 0; i--) {
        name = strchr(name, '.');
        if (!name)
            return NULL;
        name++;
    }
    *n = strcspn(name, ".");
    return name;
}

static bool has_part(const char *name, const char *part, size_t n) {
    size_t m;
    const char *p;
    for (int i = 0; (p = part_at(name, i, &m)); i++)
        if (m == n && strncmp(p, part, n) == 0)
            return true;
    return false;
}

// Another value of the same axis: "K64" for "K128".
static bool has_axis(const char *name, const char *part, size_t n) {
    size_t m, key = strcspn(part, "0123456789");
    key = key < n ? key : n;
    const char *p;
    for (int i = 0; (p = part_at(name, i, &m)); i++)
        if (m >= key && strncmp(p, part, key) == 0 && strcspn(p, "0123456789.") == key)
            return true;
    return false;
}

// The name without what most cases of its operation have alike: what fits under a bar. Only values of
// axes that all of them have are left out, so no two become one.
static void short_name(const char *const *names, size_t n_names, const char *name, char *buf,
                       size_t size) {
    const char *p;
    size_t used = 0, n, op = strcspn(name, ".");
    for (int i = 0; (p = part_at(name, i, &n)) && used < size; i++) {
        size_t all = 0, alike = 0, with = 0;
        for (size_t k = 0; k < n_names; k++)
            if (strncmp(names[k], name, op + 1) == 0) {
                all++;
                alike += has_part(names[k], p, n);
                with += has_axis(names[k], p, n);
            }
        if (i == 0 || with < all || 2 * alike <= all)
            used += (size_t)snprintf(buf + used, size - used, "%s%.*s", i ? "." : "", (int)n, p);
    }
}

static bool bars(const record *r, const char *subtitle, figures *out, err *e) {
    bool floors = true;
    size_t n = 0;
    for (size_t i = 0; i < r->n && n < BARS_MOST; i++)
        if (r->rows[i].status == ROW_OK) {
            floors = floors && isfinite(r->rows[i].floor_ms) && r->rows[i].floor_ms > 0;
            n++;
        }
    if (n == 0)
        return true;
    figure *f = figure_new(FIG_BARS, "bench",
                           floors ? "time over the roofline floor" : "time of a call", subtitle, e);
    double *x = mem_zalloc(n, sizeof *x, "bars", e), *warm = mem_zalloc(n, sizeof *warm, "bars", e);
    double *cold = mem_zalloc(n, sizeof *cold, "bars", e);
    const char **names = mem_alloc(r->n, sizeof *names, "bars", e);
    bool ok = f && x && warm && cold && names, any_cold = false;
    double least = INFINITY, largest = 0;
    size_t k = 0;
    for (size_t i = 0; ok && i < r->n; i++)
        names[i] = r->rows[i].name;
    for (size_t i = 0; ok && i < r->n && k < n; i++) {
        const bench_row *row = &r->rows[i];
        if (row->status != ROW_OK)
            continue;
        double by = floors ? row->floor_ms : 1;
        x[k] = (double)k;
        warm[k] = median_of(&row->warm) / by;
        cold[k] = median_of(&row->cold) / by;
        any_cold = any_cold || isfinite(cold[k]);
        least = fmin(least, warm[k]);
        largest = fmax(largest, warm[k]);
        char name[256];
        short_name(names, r->n, row->name, name, sizeof name);
        ok = figure_category(f, name, e);
        k++;
    }
    ok = ok && figure_axis(&f->x, "case", "", SCALE_LINEAR, e) &&
         figure_axis(&f->y, floors ? "time over the floor" : "time of a call",
                     floors ? "times" : "ms", largest > 15 * least ? SCALE_LOG10 : SCALE_LINEAR,
                     e) &&
         figure_series(f, "caches warm", STYLE_LINE, n, x, warm, NULL, NULL, NULL, e) &&
         (!any_cold ||
          figure_series(f, "caches emptied", STYLE_LINE, n, x, cold, NULL, NULL, NULL, e)) &&
         (!floors || figure_mark(f, MARK_Y, 1, "floor", e)) &&
         (r->n <= BARS_MOST || figure_note(f, e, "The first %d of %zu rows.", BARS_MOST, r->n));
    free(names);
    free(x);
    free(warm);
    free(cold);
    if (!ok) {
        figure_free(f);
        return false;
    }
    return figures_add(out, f, e);
}

static double length_of(const bench_row *row) {
    const json_t *T = json_object_get(row->params, "T");
    return json_is_number(T) ? json_number_value(T) : (double)NAN;
}

// Everything but the length, as a key and as a name.
static bool same_but_length(const bench_row *a, const bench_row *b) {
    json_t *x = json_copy(a->params), *y = json_copy(b->params);
    json_object_del(x, "T");
    json_object_del(y, "T");
    bool same = x && y && json_equal(x, y) && strcmp(a->source, b->source) == 0;
    json_decref(x);
    json_decref(y);
    return same;
}

static void without_length(const char *name, char *buf, size_t size) {
    const char *T = strstr(name, ".T");
    size_t head = T ? (size_t)(T - name) : strlen(name);
    const char *tail = T ? T + 2 + strspn(T + 2, "0123456789") : "";
    snprintf(buf, size, "%.*s%s", (int)head, name, tail);
}

static bool over_length(const record *r, const char *subtitle, figures *out, err *e) {
    figure *f = figure_new(FIG_CURVES, "throughput", "throughput over length", subtitle, e);
    bool *done = mem_zalloc(r->n + 1, sizeof *done, "curves", e);
    double *x = mem_zalloc(r->n + 1, sizeof *x, "curves", e);
    double *y = mem_zalloc(r->n + 1, sizeof *y, "curves", e);
    bool ok = f && done && x && y;
    size_t curves = 0;
    for (size_t i = 0; ok && i < r->n; i++) {
        size_t n = 0;
        for (size_t k = i; k < r->n; k++) {
            const bench_row *row = &r->rows[k];
            if (done[k] || !same_but_length(&r->rows[i], row))
                continue;
            done[k] = true;
            double T = length_of(row), rate = row->items / (1e-3 * row_ms(row));
            if (!isfinite(T) || !isfinite(rate) || strcmp(row->item, "tokens") != 0)
                continue;
            size_t at = n++;
            for (; at > 0 && x[at - 1] > T; at--) {
                x[at] = x[at - 1];
                y[at] = y[at - 1];
            }
            x[at] = T;
            y[at] = rate;
        }
        if (n < 2)
            continue;
        char name[256];
        without_length(r->rows[i].name, name, sizeof name);
        ok = figure_series(f, name, STYLE_LINE, n, x, y, NULL, NULL, NULL, e);
        curves++;
    }
    free(done);
    free(x);
    free(y);
    ok = ok && figure_axis(&f->x, "length of a row", "tokens", SCALE_LOG2, e) &&
         figure_axis(&f->y, "throughput", "tokens/s", SCALE_LOG10, e);
    if (ok)
        f->x.tokens = true;
    if (!ok || curves == 0) {
        figure_free(f);
        return ok;
    }
    return figures_add(out, f, e);
}

bool bench_figures(const record *r, const char *subtitle, figures *out, err *e) {
    return bars(r, subtitle, out, e) && over_length(r, subtitle, out, e);
}

static const bench_row *same_row(const record *r, const char *key) {
    for (size_t i = 0; i < r->n; i++) {
        char *k = row_key(&r->rows[i], NULL);
        bool same = k && strcmp(k, key) == 0;
        free(k);
        if (same)
            return &r->rows[i];
    }
    return NULL;
}

static const char *commit_of(const record *r) {
    const json_t *build = json_object_get(json_object_get(r->about, "environment"), "build");
    const char *s = json_string_value(json_object_get(build, "commit"));
    return s ? s : "?";
}

typedef struct track {
    char name[256];
    double *y, last; // last: how far from 1 it is at the end
} track;

static int by_move(const void *a, const void *b) {
    double x = ((const track *)a)->last, y = ((const track *)b)->last;
    return (x < y) - (x > y);
}

bool bench_history(const record *runs, size_t n, figures *out, err *e) {
    enum { NAMED = 6 };
    const record *newest = n ? &runs[n - 1] : NULL;
    if (n < 3)
        return true;
    figure *f = figure_new(FIG_CURVES, "history", "time of a call over runs",
                           "each case over its own first run, warm medians", e);
    track *t = mem_zalloc(newest->n + 1, sizeof *t, "a history", e);
    double *x = mem_zalloc(n, sizeof *x, "a history", e);
    bool ok = f && t && x;
    size_t count = 0;
    for (size_t i = 0; i < n && ok; i++)
        x[i] = (double)i;
    for (size_t i = 0; ok && i < newest->n; i++) {
        char *key = row_key(&newest->rows[i], e);
        track *k = &t[count];
        k->y = mem_alloc(n, sizeof *k->y, "a history", e);
        ok = key && k->y;
        double first = NAN;
        for (size_t j = 0; ok && j < n; j++) {
            const bench_row *row = same_row(&runs[j], key);
            double ms = row ? row_ms(row) : (double)NAN;
            first = isfinite(first) ? first : ms;
            k->y[j] = ms / first;
        }
        if (ok) {
            snprintf(k->name, sizeof k->name, "%s", newest->rows[i].name);
            k->last = isfinite(k->y[n - 1]) ? fabs(log(k->y[n - 1])) : 0;
        }
        free(key);
        count++;
    }
    qsort(t, count, sizeof *t, by_move);
    for (size_t i = count; ok && i-- > 0;) // grey ones first, under the others
        ok = figure_series(f, i < NAMED ? t[i].name : "", i < NAMED ? STYLE_LINE : STYLE_FAINT, n,
                           x, t[i].y, NULL, NULL, NULL, e);
    ok = ok && figure_axis(&f->x, "run", "", SCALE_LINEAR, e) &&
         figure_axis(&f->y, "time over the first run", "", SCALE_LINEAR, e) &&
         figure_mark(f, MARK_Y, 1, "", e);
    char list[1024] = "";
    for (size_t i = 0; ok && i < n; i++) {
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%zu %s", i ? ", " : "", i, commit_of(&runs[i]));
    }
    ok = ok && figure_note(f, e, "Commits: %s.", list);
    for (size_t i = 0; t && i < count; i++)
        free(t[i].y);
    free(t);
    free(x);
    if (!ok) {
        figure_free(f);
        return false;
    }
    return figures_add(out, f, e);
}

static int by_change(const void *a, const void *b) {
    double x = fabs(log((*(const pairing *const *)a)->c.ratio));
    double y = fabs(log((*(const pairing *const *)b)->c.ratio));
    return (x < y) - (x > y);
}

bool compare_figures(const comparison *c, const char *subtitle, figures *out, err *e) {
    const pairing **p = mem_alloc(c->n + 1, sizeof *p, "bars", e);
    double *v = mem_alloc(4 * (c->n + 1), sizeof *v, "bars", e);
    const char **names = mem_alloc(c->n + 1, sizeof *names, "bars", e);
    figure *f = figure_new(FIG_BARS, "compare", "change of time", subtitle, e);
    bool ok = p && v && f && names;
    size_t n = 0;
    for (size_t i = 0; ok && i < c->n; i++)
        if (isfinite(c->v[i].c.ratio))
            p[n++] = &c->v[i];
    if (ok && n)
        qsort(p, n, sizeof *p, by_change);
    for (size_t i = 0; ok && i < n; i++)
        names[i] = p[i]->new->name;
    size_t shown = n < BARS_MOST ? n : BARS_MOST;
    for (size_t i = 0; ok && i < shown; i++) {
        char name[300];
        v[i] = (double)i;
        v[shown + i] = 100 * (p[i]->c.ratio - 1);
        v[2 * shown + i] = 100 * (p[i]->c.lo - 1);
        v[3 * shown + i] = 100 * (p[i]->c.hi - 1);
        short_name(names, n, names[i], name, sizeof name);
        ok = figure_category(f, name, e);
    }
    ok = ok && figure_axis(&f->x, "case", "", SCALE_LINEAR, e) &&
         figure_axis(&f->y, "new over old", "percent", SCALE_LINEAR, e) &&
         (shown == 0 || figure_series(f, "change", STYLE_LINE, shown, v, v + shown, v + 2 * shown,
                                      v + 3 * shown, "interval shared out over all rows", e)) &&
         (shown == n || figure_note(f, e, "The %d largest of %zu changes.", BARS_MOST, n));
    // An interval of two rounds reaches anywhere: the changes stay visible, what goes beyond ends at the
    // frame.
    double largest = 0, reach = 0;
    for (size_t i = 0; ok && i < shown; i++) {
        largest = fmax(largest, fabs(v[shown + i]));
        reach = fmax(reach, fabs(v[3 * shown + i]));
    }
    double most = fmax(100, 3 * largest);
    if (ok && reach > most) {
        f->y.lo = -fmin(100, most);
        f->y.hi = most;
        ok = figure_note(f, e, "Intervals that go beyond %.0f %% end at the frame.", most);
    }
    free(names);
    free(p);
    free(v);
    if (!ok || shown == 0) {
        figure_free(f);
        return ok;
    }
    return figures_add(out, f, e);
}
