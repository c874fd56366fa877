#include "bench/model_cases.h"

#include "bench/op.h"

#include <stdio.h>
#include <string.h>

enum { ERANK_TOKENS = 16, WINDOWS = 4, WINDOW_TOKENS = 64 };

// A size beyond its axis is no mistake of the user's: the case is left out.
static bool add(case_list *l, const char *line, err *e) {
    err own = {0};
    return case_list_read(l, line, &own) || own.code == ERR_USAGE ||
           err_set(e, own.code, "%s", own.text);
}

static bool add_recurrence(case_list *l, const head_shape *s, int64_t T, const char *where,
                           err *e) {
    char line[512], beta[32] = "", steps[32] = "";
    const bench_op *op = bench_op_of_shape(s);
    if (!op)
        return true;
    if (op->axes & BIT(AXIS_N))
        snprintf(steps, sizeof steps, " n=%d", s->n_h);
    if (op->axes & BIT(AXIS_BETA))
        snprintf(beta, sizeof beta, " beta=%d", s->beta_max > 1 ? 2 : 1);
    snprintf(line, sizeof line, "%s T=%lld H=%d Hv=%d K=%d V=%d%s%s %s", op->name, (long long)T,
             s->Hk, s->H, s->K, s->V, steps, beta, where);
    return add(l, line, e);
}

static bool add_spectra(case_list *l, const head_shape *s, const char *where, err *e) {
    char line[512];
    // States are float32 or finer whatever the activations are.
    const char *dtype = strstr(where, "dtype=f64") ? "dtype=f64" : "dtype=f32";
    snprintf(line, sizeof line, "erank T=%d H=%d K=%d V=%d %s %s", ERANK_TOKENS, s->H, s->K, s->V,
             where, dtype);
    if (!add(l, line, e))
        return false;
    if (s->erase != ERASE_KEY)
        return true;
    snprintf(line, sizeof line, "window T=%d K=%d n=%d W=%d %s %s", WINDOWS, s->K, s->n_h,
             WINDOW_TOKENS, where, dtype);
    return add(l, line, e);
}

bool case_list_model(case_list *l, const model *m, int64_t T, const char *where, err *e) {
    char line[512];
    const int64_t lengths[] = {T, 1};
    for (int i = 0; i < 2; i++)
        for (int L = 0; L < m->info.n_layers; L++) {
            const module *x = model_mixer(m, L);
            if (x && !add_recurrence(l, &x->heads, lengths[i], where, e))
                return false;
        }
    const char *norm = m->norm.kind == NORM_LAYER ? "layernorm" : "rmsnorm";
    snprintf(line, sizeof line, "%s T=%lld D=%lld %s", norm, (long long)T, (long long)m->info.D,
             where);
    if (!add(l, line, e))
        return false;
    snprintf(line, sizeof line, "loss T=%lld D=%lld vocab=%lld %s", (long long)(T < 128 ? T : 128),
             (long long)m->info.D, (long long)m->info.n_vocab, where);
    if (!add(l, line, e))
        return false;
    for (int L = 0; L < m->info.n_layers; L++) {
        const module *x = model_mixer(m, L);
        if (x && !add_spectra(l, &x->heads, where, e))
            return false;
    }
    return true;
}
