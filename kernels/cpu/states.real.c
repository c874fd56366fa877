#include "kernels/cpu/real.h"

#include "core/mem.h"
#include "kernels/recurrence.h"
#include "kernels/states.h"
#include "kernels/svals.h"

#include <stdlib.h>

enum { BATCH_BYTES = 4 << 20 }; // states held at a time: few enough that their pages are used again

#ifdef REAL_F32
#define SVALS(...) svals_f32(SVALS_FAST, __VA_ARGS__)
#else
#define SVALS(...) svals_f64(SVALS_EXACT, __VA_ARGS__)
#endif

// Moves every head from micro-step `done` to at[n-1], leaving copies at each at[i]. False: no memory.
static bool replay(const steps *s, const int *heads, int n_heads, int64_t done, const int64_t *at,
                   int64_t n, real *now, real *batch) {
    int64_t size = (int64_t)s->s.K * s->s.V;
    bool failed = false;
#pragma omp parallel for schedule(dynamic) if (n_heads > 1)
    for (int i = 0; i < n_heads; i++) {
        int64_t from = done;
        for (int64_t j = 0; j < n; j++) {
            if (!FN(recurrence_advance)(s, heads[i], from, at[j], now + i * size)) {
#pragma omp atomic write
                failed = true;
            }
            from = at[j];
            memcpy(batch + (i * n + j) * size, now + i * size, (size_t)size * sizeof *now);
        }
    }
    return !failed;
}

bool FN(states_svals)(backend *be, const steps *s, mat state, const int *heads, int n_heads,
                      const int64_t *at, int64_t n, double *sv, double *fro, err *e) {
    (void)be;
    bool ok = false;
    int K = s->s.K, V = s->s.V, rank = K < V ? K : V;
    int64_t size = (int64_t)K * V;
    int64_t most = BATCH_BYTES / ((int64_t)sizeof(real) * size * n_heads);
    most = most < 1 ? 1 : most < n ? most : n;
    real *now = mem_alloc((size_t)(n_heads * size), sizeof *now, "states", e);
    real *batch = mem_alloc((size_t)(n_heads * most * size), sizeof *batch, "states", e);
    double *values = mem_alloc((size_t)(n_heads * most * rank), sizeof *values, "ranks", e);
    double *norms = mem_alloc((size_t)(n_heads * most), sizeof *norms, "norms", e);
    if (!now || !batch || !values || !norms)
        goto done;
    for (int i = 0; i < n_heads; i++)
        for (int r = 0; r < K; r++)
            memcpy(now + i * size + (int64_t)r * V, row_of(state, (int64_t)heads[i] * K + r),
                   (size_t)V * sizeof *now);
    int64_t done_steps = 0;
    for (int64_t j = 0; j < n; j += most) {
        int64_t m = n - j < most ? n - j : most;
        if (!replay(s, heads, n_heads, done_steps, at + j, m, now, batch)) {
            err_set(e, ERR_NOMEM, "out of memory: a state tile");
            goto done;
        }
        done_steps = at[j + m - 1];
        if (!SVALS(batch, n_heads * m, K, V, values, norms, e))
            goto done;
        for (int i = 0; i < n_heads; i++) {
            memcpy(sv + (i * n + j) * rank, values + i * m * rank, (size_t)(m * rank) * sizeof *sv);
            memcpy(fro + i * n + j, norms + i * m, (size_t)m * sizeof *fro);
        }
    }
    ok = true;
done:
    free(now);
    free(batch);
    free(values);
    free(norms);
    return ok;
}
