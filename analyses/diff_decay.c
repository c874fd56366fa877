// Half-lives of two versions of a decay (fault B114).
#include "analyses/diff.h"

#include "core/file.h"
#include "core/mem.h"
#include "core/order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20 }; // of either tensor: more is no list of decays

// Rates -ln g in nats per token, n of them, caller frees. NULL: *e filled, or the tensors are of a kind
// that tells none.
static double *rates(const ckpt *c, const tensor *a_log, int64_t *n, err *e) {
    char name[512];
    size_t stem = strlen(a_log->name) - strlen("A_log");
    if (snprintf(name, sizeof name, "%.*sdt_bias", (int)stem, a_log->name) >= (int)sizeof name)
        return NULL;
    const tensor *dt = ckpt_get(c, name);
    int64_t heads = a_log->count, each = 1;
    if (dt && dtype_is_weight(dt->type) && dt->count >= heads && dt->count <= MOST &&
        dt->count % heads == 0)
        each = dt->count / heads;
    else
        dt = NULL;
    *n = heads * each;
    double *a = mem_alloc((size_t)heads, sizeof *a, "decays", e);
    double *r = mem_alloc((size_t)*n, sizeof *r, "decays", e);
    bool ok = a && r && ckpt_read_f64(c, a_log, 0, heads, a, e) &&
              (!dt || ckpt_read_f64(c, dt, 0, *n, r, e));
    for (int64_t i = 0; ok && i < *n; i++) {
        double x = dt ? r[i] : 0; // softplus(x), of which large ones are x itself
        r[i] = exp(a[i / each]) * (x > 30 ? x : log1p(exp(x)));
    }
    free(a);
    if (ok)
        return r;
    free(r);
    return NULL;
}

static double median_half_life(double *rate, int64_t n) {
    return M_LN2 / order_median(rate, (size_t)n);
}

bool decay_diff_make(const ckpt *a, const ckpt *b, const tensor_diff *t, decay_diff *out, bool *ok,
                     err *e) {
    int64_t n = 0, m = 0;
    *ok = true;
    if (!t->measured || !file_ends_with(t->name, "A_log") || t->a->count < 1 || t->a->count > MOST)
        return false;
    double *x = rates(a, t->a, &n, e), *y = x ? rates(b, t->b, &m, e) : NULL;
    bool found = x && y && n == m;
    *ok = (x && y) || e->code == ERR_NONE;
    if (found) {
        *out = (decay_diff){.n = n, .at = -1};
        int64_t slow = 0;
        for (int64_t i = 0; i < n; i++) {
            double change = fabs(x[i] / y[i] - 1); // of half-lives: their quotient is that of rates
            slow = x[i] < x[slow] ? i : slow;
            if (change > out->largest || out->at < 0) {
                out->largest = change;
                out->at = i;
            }
        }
        out->longest_a = M_LN2 / x[slow];
        out->longest_b = M_LN2 / y[slow];
        out->kept = exp(DIFF_DECAY_TOKENS * (x[slow] - y[slow]));
        out->median_a = median_half_life(x, n);
        out->median_b = median_half_life(y, n);
    }
    free(x);
    free(y);
    return found;
}
