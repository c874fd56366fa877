#include "kernels/spectrum_batch.h"

#include "kernels/cpu/spectrum_impl.h"

#include <math.h>
#include <stdlib.h>

int window_suits(const transitions *x, int64_t last, int64_t W) {
    err e = {0};
    if (x->kind == TRANSITION_DIAGONAL || x->n_h < 1 || W < 1 || last < W - 1 ||
        !spectrum_check(x, last - W + 1, W, &e))
        return 0;
    int64_t wide = x->decay == TDECAY_NONE ? 0 : x->decay == TDECAY_HEAD ? 1 : x->K;
    for (int64_t i = (last - W + 1) * wide; i < (last + 1) * wide; i++)
        if (x->g[i] == -INFINITY)
            return 0;
    return spectrum_window_short(x, W) ? (int)W * x->n_h : x->K;
}

// Log decays that the device leaves out.
static long double decays_left(const transitions *x, int64_t last, int64_t W) {
    long double sum = 0;
    if (x->kind != TRANSITION_KEYS || x->decay == TDECAY_NONE)
        return 0;
    for (int64_t t = last - W + 1; t <= last; t++) {
        double most = -INFINITY;
        int64_t wide = x->decay == TDECAY_HEAD ? 1 : x->K;
        for (int64_t c = 0; c < wide; c++)
            most = x->g[t * wide + c] > most ? x->g[t * wide + c] : most;
        sum += most;
    }
    return sum;
}

static bool finish_one(window_job *job, const window_raw *raw, err *e) {
    const transitions *x = job->x;
    matrix_scale s = {decays_left(x, job->last, job->W), raw->exponent};
    window_facts f = {.norm2 = raw->norm2};
    double skew = raw->skew, all = raw->all;
    if (raw->n < x->K && raw->exponent < -500) // next to it, 1 would leave the doubles
        return true;
    for (int i = 0; i < raw->n; i++)
        job->eig[i] = CMPLX(raw->re[i], raw->im[i]);
    if (raw->n < x->K)
        spectrum_frozen(x->K, raw->n, ldexp(1, -raw->exponent), job->eig, NULL, &f.norm2, &all);
    f.asymmetry = all > 0 ? sqrt(skew / all) : 0;
    if (!spectrum_finish(x, job->last, job->W, s, job->eig, NULL, &f, e))
        return false;
    *job->facts = f;
    job->done = true;
    return true;
}

bool windows_finish(window_job *jobs, const window_raw *raw, int64_t n, err *e) {
    bool ok = true;
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < n; i++) {
        err mine = {0};
        if (raw[i].n > 0 && !finish_one(&jobs[i], &raw[i], &mine)) {
#pragma omp critical(windows_finish)
            {
                ok = false;
                err_set(e, mine.code, "%s", mine.text);
            }
        }
    }
    return ok;
}

void lyapunov_finish(lyapunov_job *job, const lyapunov_plan *plan, const double *growth) {
    int K = job->x->K;
    for (int i = 0; i < K; i++) {
        long double all = (long double)growth[i] + plan->common[0] + plan->common[1];
        job->exponents[i] = (double)(all / job->n);
        if (!isfinite(job->exponents[i]))
            return;
    }
    qsort(job->exponents, (size_t)K, sizeof *job->exponents, spectrum_descending);
    job->done = true;
}

void lyapunov_plan_free(lyapunov_plan *plan) {
    free(plan->op);
    *plan = (lyapunov_plan){0};
}
