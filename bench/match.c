#include "bench/match.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_at(const json_t *v, const char *a, const char *b) {
    const char *s = json_string_value(json_object_get(json_object_get(v, a), b));
    return s ? s : "";
}

// What has to be equal for times to be comparable; "" where rows of that device are not there.
static void place(const record *r, char *cpu, char *gpu, size_t size) {
    const json_t *where = json_object_get(r->about, "environment");
    const char *model = text_at(where, "cpu", "model");
    snprintf(cpu, size, "%s", model[0] ? model : "a machine without a name");
    snprintf(gpu, size, "%s, driver %s", text_at(where, "gpu", "device"),
             text_at(where, "gpu", "driver"));
}

static bool on_gpu(const bench_row *row) {
    const char *d = json_string_value(json_object_get(row->params, "device"));
    return d && strcmp(d, "cpu") != 0;
}

// Runs differ by more than their rounds tell: with three baselines and more their own spread is the
// noise floor.
static bool spread_of_baselines(const record *old, size_t n_old, record *pooled, err *e) {
    double *x = mem_alloc(n_old, sizeof *x, "baselines", e);
    char **keys = x ? row_keys(pooled, e) : NULL, ***theirs = NULL;
    theirs = keys ? mem_zalloc(n_old, sizeof *theirs, "baselines", e) : NULL;
    bool ok = theirs != NULL;
    for (size_t f = 0; ok && f < n_old; f++)
        ok = (theirs[f] = row_keys(&old[f], e)) != NULL;
    for (size_t i = 0; ok && i < pooled->n && n_old >= 3; i++) {
        size_t n = 0;
        for (size_t f = 0; f < n_old; f++) {
            const bench_row *row = record_find(&old[f], theirs[f], keys[i], 0);
            double ms = row ? row_ms(row) : (double)NAN;
            if (isfinite(ms) && ms > 0)
                x[n++] = log(ms);
        }
        double mean = 0, var = 0;
        for (size_t k = 0; k < n; k++)
            mean += x[k] / (double)n;
        for (size_t k = 0; k < n; k++)
            var += (x[k] - mean) * (x[k] - mean);
        if (n >= 3 && !isfinite(pooled->rows[i].noise))
            pooled->rows[i].noise = fmax(sqrt(var / (double)(n - 1)), VERDICT_LEAST_NOISE);
    }
    for (size_t f = 0; theirs && f < n_old; f++)
        row_keys_free(theirs[f], old[f].n);
    free(theirs);
    row_keys_free(keys, pooled->n);
    free(x);
    return ok;
}

static bool comparable(const bench_row *a, const bench_row *b) {
    return a && b && a->status == ROW_OK && b->status == ROW_OK;
}

static void judge(comparison *c, const match_rules *rules, bool cpu_differs, bool gpu_differs) {
    verdict_rules v = rules->verdict;
    v.rows = 0;
    for (size_t i = 0; i < c->n; i++)
        v.rows += comparable(c->v[i].old, c->v[i].new);
    for (size_t i = 0; i < c->n; i++) {
        pairing *p = &c->v[i];
        p->c = verdict_rows(p->old, p->new, &v);
        bool differs = p->new && (on_gpu(p->new) ? gpu_differs : cpu_differs);
        if (differs && comparable(p->old, p->new) && strcmp(p->new->source, "deltop") == 0 &&
            !rules->across_devices) {
            p->c.verdict = VERDICT_INCOMPARABLE;
            snprintf(p->c.reason, sizeof p->c.reason, "another device or driver");
        }
        c->count[p->c.verdict]++;
    }
}

// Pairs rows of the new result with rows of the baseline; what is left there comes last.
static bool pair(comparison *c, const record *new, err *e) {
    const record *old = &c->pooled;
    char **a = row_keys(old, e), **b = a ? row_keys(new, e) : NULL;
    bool *seen = b ? mem_zalloc(old->n + 1, sizeof *seen, "a comparison", e) : NULL;
    c->v = seen ? mem_zalloc(old->n + new->n + 1, sizeof *c->v, "a comparison", e) : NULL;
    bool ok = c->v != NULL;
    for (size_t i = 0; ok && i < new->n; i++) {
        size_t turn = 0;
        for (size_t k = 0; k < i; k++)
            turn += strcmp(b[k], b[i]) == 0;
        const bench_row *same = record_find(old, a, b[i], turn);
        if (same)
            seen[same - old->rows] = true;
        c->v[c->n++] = (pairing){.old = same, .new = &new->rows[i]};
    }
    for (size_t i = 0; ok && i < old->n; i++)
        if (!seen[i])
            c->v[c->n++] = (pairing){.old = &old->rows[i]};
    row_keys_free(a, old->n);
    row_keys_free(b, new->n);
    free(seen);
    return ok;
}

bool match(const record *old, size_t n_old, const record *new, const match_rules *rules,
           comparison *out, err *e) {
    *out = (comparison){0};
    record_init(&out->pooled);
    bool ok = true, cpu_differs = false, gpu_differs = false, any_gpu = false, any_cpu = false;
    for (size_t f = 0; ok && f < n_old; f++)
        ok = record_merge(&out->pooled, &old[f], e);
    ok = ok && spread_of_baselines(old, n_old, &out->pooled, e) && pair(out, new, e);
    for (size_t i = 0; i < new->n; i++)
        *(on_gpu(&new->rows[i]) ? &any_gpu : &any_cpu) = true;
    char cpu[2][256], gpu[2][256];
    place(new, cpu[1], gpu[1], sizeof cpu[1]);
    for (size_t f = 0; ok && f < n_old; f++) {
        place(&old[f], cpu[0], gpu[0], sizeof cpu[0]);
        bool cpu_here = any_cpu && strcmp(cpu[0], cpu[1]) != 0;
        bool gpu_here = any_gpu && strcmp(gpu[0], gpu[1]) != 0;
        cpu_differs = cpu_differs || cpu_here;
        gpu_differs = gpu_differs || gpu_here;
        if ((cpu_here || gpu_here) && !out->places[0])
            snprintf(out->places, sizeof out->places, "%.240s against %.240s",
                     gpu_here ? gpu[0] : cpu[0], gpu_here ? gpu[1] : cpu[1]);
        const char *was = text_at(json_object_get(old[f].about, "environment"), "build", "sha256");
        const char *is = text_at(json_object_get(new->about, "environment"), "build", "sha256");
        out->same_binary = out->same_binary || (was[0] && strcmp(was, is) == 0);
    }
    if (ok)
        judge(out, rules, cpu_differs, gpu_differs);
    else
        comparison_free(out);
    return ok;
}

void comparison_free(comparison *c) {
    record_free(&c->pooled);
    free(c->v);
    *c = (comparison){0};
}

static json_t *real(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *comparison_rows_json(const comparison *c) {
    json_t *a = json_array();
    for (size_t i = 0; a && i < c->n; i++) {
        const pairing *p = &c->v[i];
        const bench_row *row = p->new ? p->new : p->old;
        json_t *o = json_pack("{s:s, s:O, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s}",
                              "name", row->name, "params", row->params, "source", row->source,
                              "verdict", verdict_name(p->c.verdict), "ratio", real(p->c.ratio),
                              "lo", real(p->c.lo), "hi", real(p->c.hi), "cycles_ratio",
                              real(p->c.cycles_ratio), "old_ms", real(p->c.old_ms), "new_ms",
                              real(p->c.new_ms), "noise", real(p->c.noise), "reason", p->c.reason);
        if (!o || json_array_append_new(a, o) != 0) {
            json_decref(a);
            return NULL;
        }
    }
    return a;
}

json_t *comparison_counts_json(const comparison *c) {
    json_t *o = json_object();
    for (int i = 0; o && i < N_VERDICTS; i++)
        if (json_object_set_new(o, verdict_name((verdict_kind)i),
                                json_integer((json_int_t)c->count[i])) != 0) {
            json_decref(o);
            return NULL;
        }
    return o;
}

int comparison_exit(const comparison *c, bool strict) {
    const size_t *n = c->count;
    if (n[VERDICT_SLOWER] + n[VERDICT_WRONG] > 0)
        return 4;
    size_t compared = n[VERDICT_FASTER] + n[VERDICT_SAME] + n[VERDICT_UNCLEAR];
    size_t open = n[VERDICT_UNCLEAR] + n[VERDICT_INCOMPARABLE] + n[VERDICT_GONE];
    return compared == 0 || (strict && open > 0) ? 5 : 0;
}
