#include "bench/op.h"

#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// One line each; names as in the table of a help text.
// clang-format off
#define OPS(ONE)        \
    ONE(linear)         \
    ONE(gla)            \
    ONE(mamba2)         \
    ONE(deltanet)       \
    ONE(gdn)            \
    ONE(deltaproduct)   \
    ONE(gdeltaproduct)  \
    ONE(kda)            \
    ONE(comba)          \
    ONE(rwkv7)          \
    ONE(conv)           \
    ONE(rmsnorm)        \
    ONE(l2norm)         \
    ONE(layernorm)      \
    ONE(loss)           \
    ONE(erank)          \
    ONE(window)         \
    ONE(model)          \

#define DECLARE(name) extern const bench_op bench_op_##name;
#define ENTRY(name) &bench_op_##name,
// clang-format on

OPS(DECLARE)
const bench_op *const bench_ops[] = {OPS(ENTRY)};
const size_t n_bench_ops = sizeof bench_ops / sizeof *bench_ops;

const bench_op *bench_op_find(const char *name, err *e) {
    char all[512] = "";
    for (size_t i = 0; i < n_bench_ops; i++) {
        if (strcmp(bench_ops[i]->name, name) == 0)
            return bench_ops[i];
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "",
                 bench_ops[i]->name);
    }
    err_set(e, ERR_USAGE, "operation \"%s\" is not known; there are %s", text_show(name), all);
    return NULL;
}

void bench_bring(backend *from, mat a, backend *to, mat b, double *v) {
    if (mat_none(b))
        return;
    from->op->read(from, a, v);
    to->op->write(to, v, b);
}

void bench_add_squares(const double *x, const double *ref, int64_t n, double *off, double *all) {
    for (int64_t i = 0; i < n; i++) {
        *off += (x[i] - ref[i]) * (x[i] - ref[i]);
        *all += ref[i] * ref[i];
    }
}

double bench_relative(double off, double all) {
    return all > 0 ? sqrt(off / all) : off == 0 ? 0 : (double)NAN;
}

double bench_tolerance(const bench_case *c) {
    static const double by_dtype[] = {
        [DTYPE_F32] = 1e-4, [DTYPE_TF32] = 5e-3, [DTYPE_BF16] = 5e-3, [DTYPE_F64] = 1e-9};
    return by_dtype[c->at[AXIS_DTYPE]];
}

void bench_judge(bench_gate *g) {
    const struct {
        const char *name;
        double x;
        bool given;
    } part[] = {{"output", g->error, true},
                {"final state", g->state_error, !isnan(g->state_error)},
                {"output or final state with correlated keys", g->stress, !isnan(g->stress)}};
    g->passed = true;
    g->what[0] = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part && g->passed; i++)
        if (part[i].given && !(part[i].x <= g->tolerance)) { // NaN does not pass
            g->passed = false;
            snprintf(g->what, sizeof g->what, "%s off by %.2g, allowed %.0e", part[i].name,
                     part[i].x, g->tolerance);
        }
}
