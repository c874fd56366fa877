// A backend's chunk form against plain loops.
#include "analyses/verify/on_backend.h"

#include "analyses/verify/small.h"
#include "core/mem.h"
#include "core/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static mat host(double *v, int64_t rows, int64_t cols) {
    return (mat){v, rows, cols, cols, sizeof *v};
}

enum { HEADS = 2, LONG = 200, WIDE = 64 };

bool on_backend_chunks(const verify_case *c, double *error, err *e) {
    uint64_t seed = c->env->seed + 50 + (uint64_t)c->arg;
    bool pair = c->arg == CHUNKS_PAIR;
    int64_t rows = LONG, nk = HEADS * WIDE;
    double *all = mem_zalloc((size_t)(rows * nk * 8 + 2 * nk * WIDE), sizeof *all, "a row", e);
    if (!all)
        return false;
    double *q = all, *k = q + rows * nk, *v = k + rows * nk, *a = v + rows * nk, *b = a + rows * nk,
           *g = b + rows * nk, *o = g + rows * nk, *want = o + rows * nk, *H = want + rows * nk,
           *Hw = H + nk * WIDE;
    double beta[LONG * HEADS];
    small_normals(v, LONG * HEADS * WIDE, &seed);
    small_normals(H, HEADS * WIDE * WIDE, &seed);
    for (int i = 0; i < LONG * HEADS; i++) {
        double read[WIDE];
        small_unit(q + i * WIDE, WIDE, &seed);
        small_unit(k + i * WIDE, WIDE, &seed);
        small_unit(read, WIDE, &seed);
        beta[i] = pair ? 1 : 2 * random_uniform(&seed);
        for (int n = 0; n < WIDE; n++) {
            double rate = random_uniform(&seed);
            b[i * WIDE + n] = pair ? read[n] : 0;
            a[i * WIDE + n] = pair ? -rate * read[n] : 0;
            g[pair ? i * WIDE + n : i] = log(0.9 + 0.1 * rate);
        }
    }
    memcpy(Hw, H, (size_t)(nk * WIDE) * sizeof *H);
    for (int t = 0; t < LONG; t++)
        for (int h = 0; h < HEADS; h++) {
            int i = t * HEADS + h;
            double *S = Hw + h * WIDE * WIDE, old[WIDE];
            small_mul(b + i * WIDE, S, 1, WIDE, WIDE, old);
            for (int n = 0; n < WIDE * WIDE; n++)
                S[n] *= exp(g[pair ? i * WIDE + n / WIDE : i]);
            if (!pair)
                small_reflect(S, WIDE, WIDE, k + i * WIDE, beta[i]);
            for (int n = 0; n < WIDE * WIDE; n++)
                S[n] += beta[i] * k[i * WIDE + n / WIDE] * v[i * WIDE + n % WIDE] +
                        (pair ? a[i * WIDE + n / WIDE] * old[n % WIDE] : 0);
            small_mul(q + i * WIDE, S, 1, WIDE, WIDE, want + i * WIDE);
        }
    head_shape s = {.H = HEADS,
                    .Hk = HEADS,
                    .K = WIDE,
                    .V = WIDE,
                    .n_h = 1,
                    .decay = pair ? DECAY_CHANNEL : DECAY_HEAD,
                    .erase = pair ? ERASE_PAIR : ERASE_KEY,
                    .scale = 1,
                    .beta_max = 2};
    steps x = {.s = s,
               .T = LONG,
               .q = host(q, LONG, nk),
               .k = host(k, LONG, nk),
               .v = host(v, LONG, nk),
               .beta = host(beta, LONG, HEADS),
               .decay = host(g, LONG, pair ? nk : HEADS),
               .a = pair ? host(a, LONG, nk) : MAT_NONE,
               .b = pair ? host(b, LONG, nk) : MAT_NONE};
    recurrence_form before = c->be->recurrence;
    c->be->recurrence = RECURRENCE_CHUNK;
    bool ok = on_backend_recurrence(c->be, &x, H, o, e);
    c->be->recurrence = before;
    double size = small_norm(Hw, (int)(nk * WIDE)) / sqrt((double)(nk * WIDE));
    if (ok)
        *error = small_max(small_difference(H, Hw, (int)(nk * WIDE)),
                           small_difference(o, want, (int)(rows * nk))) /
                 size;
    free(all);
    return ok;
}
