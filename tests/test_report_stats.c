// What a report measures of heads (analyses/report): writes, gates, betas and keys (S05, S06), document
// boundaries (S07), intervals over rows, and the file that carries a row's numbers.
#include "analyses/report/boundary.h"
#include "analyses/report/head_stats.h"
#include "analyses/report/over_rows.h"
#include "analyses/resample.h"
#include "core/order.h"
#include "core/parcel.h"
#include "core/random.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"
#include "tests/tiny_steps.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if (!(call))                                                                               \
            fail_msg("%s", e.text);                                                                \
    } while (0)

static void near(const char *what, double a, double b, double tolerance) {
    if (!(fabs(a - b) <= tolerance))
        fail_msg("%s: %.17g is not %.17g within %g", what, a, b, tolerance);
}

// ---- one layer of hand-made steps through the probe ---------------------------------------------

// Reads x's tokens in blocks of `block` on the float64 backend; states[t] [H K, V] before token t.
static void read_steps(const tiny_steps *x, double *const *states, int64_t block, int64_t every,
                       bool traces, head_stats *out) {
    err e = {0};
    backend *be = cpu_open(PRECISION_F64, 1, &e);
    const backend_ops *op = be->op;
    module body = {.linear = true, .heads = x->s};
    layer only = {.n = 1};
    only.branch[0].body = &body;
    model m = {.be = be, .layers = &only};
    m.info.n_layers = 1;
    OK(head_stats_open(out, &m, x->T, every, traces, &e));
    head_pass *p = head_pass_new(out, &m, &e);
    probe look = head_pass_probe(p);
    const head_shape *s = &x->s;
    for (int64_t t = 0; t < x->T; t += block) {
        int64_t n = t + block < x->T ? block : x->T - t, micro = n * s->n_h, first = t * s->n_h;
        steps b = {.s = *s, .T = n};
        const struct {
            mat *to;
            const double *from;
            int64_t rows, cols, at;
        } parts[] = {{&b.k, x->k, micro, s->Hk * s->K, first},
                     {&b.v, x->v, micro, s->H * s->V, first},
                     {&b.beta, x->beta, micro, s->H, first},
                     {&b.decay, x->decay, n, s->H * (s->decay == DECAY_CHANNEL ? s->K : 1), t},
                     {&b.a, x->a, n, s->H * s->K, t},
                     {&b.b, x->b, n, s->Hk * s->K, t}};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (parts[i].from) {
                *parts[i].to = op->alloc(be, parts[i].rows, parts[i].cols);
                op->write(be, parts[i].from + parts[i].at * parts[i].cols, *parts[i].to);
            }
        mat state = op->alloc(be, s->H * s->K, s->V);
        op->write(be, states[t], state);
        OK(look.on_steps(look.ctx, 0, t, &b, state, be, &e));
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (parts[i].from)
                op->free(be, *parts[i].to);
        op->free(be, state);
    }
    OK(head_pass_end(p, &e));
    head_pass_free(p);
    backend_close(be);
}

// Plain loops over one head h: the states before every token, and per micro-step |e| / |v|.
static void plain(const tiny_steps *x, double **states, double *missing) {
    const head_shape *s = &x->s;
    int K = s->K, V = s->V;
    size_t size = (size_t)(s->H * K * V);
    for (int64_t t = 0; t <= x->T; t++)
        states[t] = calloc(size, sizeof **states);
    for (int64_t t = 0; t < x->T; t++) {
        memcpy(states[t + 1], states[t], size * sizeof **states);
        for (int h = 0; h < s->H; h++) {
            double *S = states[t + 1] + h * K * V;
            for (int i = 0; i < K && x->decay; i++)
                for (int c = 0; c < V; c++)
                    S[i * V + c] *= exp(s->decay == DECAY_HEAD ? x->decay[t * s->H + h]
                                                               : x->decay[(t * s->H + h) * K + i]);
            for (int j = 0; j < s->n_h; j++) {
                int64_t at = t * s->n_h + j;
                const double *k = x->k + (at * s->Hk + h / (s->H / s->Hk)) * K,
                             *v = x->v + (at * s->H + h) * V;
                double error = 0, size2 = 0, write[64];
                for (int c = 0; c < V; c++) {
                    double read = 0;
                    for (int i = 0; i < K; i++)
                        read += S[i * V + c] * k[i];
                    write[c] = v[c] - read;
                    error += write[c] * write[c];
                    size2 += v[c] * v[c];
                }
                for (int i = 0; i < K; i++)
                    for (int c = 0; c < V; c++)
                        S[i * V + c] += x->beta[at * s->H + h] * k[i] * write[c];
                missing[(t * s->H + h) * s->n_h + j] = sqrt(error / size2);
            }
        }
    }
}

static void S05_delta_rule_loss_agrees_with_plain_loops(void **unused) {
    (void)unused;
    static const decay_kind decays[] = {DECAY_NONE, DECAY_HEAD, DECAY_CHANNEL};
    enum { T = 45, EVERY = 8 };
    double worst = 0;
    for (int c = 0; c < 9; c++) {
        head_shape s = {.H = 4,
                        .Hk = c % 2 ? 2 : 4,
                        .K = 5,
                        .V = 7,
                        .n_h = 1 + c / 3,
                        .decay = decays[c % 3],
                        .erase = ERASE_KEY};
        tiny_steps x = tiny_steps_new(s, T, 7 + (uint64_t)c);
        double *states[T + 1], *missing = calloc((size_t)(T * s.H * s.n_h), sizeof *missing);
        head_stats out;
        plain(&x, states, missing);
        read_steps(&x, states, 11, EVERY, true, &out);
        assert_int_equal(out.bins, (T + EVERY - 1) / EVERY);
        for (int h = 0; h < s.H; h++) {
            const double *line = head_stats_line(&out, 0, h, HEAD_DELTA_LOSS);
            for (int b = 0; b < out.bins; b++) {
                double sum = 0;
                int n = 0;
                for (int t = b * EVERY; t < T && t < (b + 1) * EVERY; t++)
                    for (int j = 0; j < s.n_h; j++, n++)
                        sum += missing[(t * s.H + h) * s.n_h + j];
                worst = fmax(worst, fabs(line[b] - sum / n));
            }
            // The trace of sizes: ln |H_t| - ln |H_{t-1}|, kept as float.
            for (int t = 1; t < T; t++) {
                double a = 0, b = 0;
                for (int i = 0; i < s.K * s.V; i++) {
                    a += pow(states[t + 1][h * s.K * s.V + i], 2);
                    b += pow(states[t][h * s.K * s.V + i], 2);
                }
                near("step of a norm", out.step[0][h * T + t], (log(a) - log(b)) / 2, 1e-6);
            }
        }
        head_stats_free(&out);
        tiny_steps_free(&x);
        free(missing);
        for (int t = 0; t <= T; t++)
            free(states[t]);
    }
    printf("measured: delta-rule loss against plain loops, largest difference %.2g\n", worst);
    // A few hundred roundings of float64.
    assert_true(worst < 1e-12);
}

// Two tokens with the same unit key and value, beta 1: the second write finds nothing missing.
static void S05_a_write_with_beta_one_is_read_back(void **unused) {
    (void)unused;
    head_shape s = {.H = 1, .Hk = 1, .K = 3, .V = 2, .n_h = 1, .erase = ERASE_KEY};
    tiny_steps x = tiny_steps_new(s, 2, 1);
    double *states[3], missing[2];
    head_stats out;
    memcpy(x.k, (double[]){0.6, 0, 0.8, 0.6, 0, 0.8}, 6 * sizeof(double));
    memcpy(x.v + 2, x.v, 2 * sizeof(double));
    x.beta[0] = x.beta[1] = 1;
    plain(&x, states, missing);
    read_steps(&x, states, 2, 1, false, &out);
    near("first", head_stats_line(&out, 0, 0, HEAD_DELTA_LOSS)[0], 1, 1e-15);
    near("second", head_stats_line(&out, 0, 0, HEAD_DELTA_LOSS)[1], 0, 1e-15);
    near("its write", head_stats_line(&out, 0, 0, HEAD_WRITE_SIZE)[1], 0, 1e-15);
    head_stats_free(&out);
    tiny_steps_free(&x);
    for (int t = 0; t < 3; t++)
        free(states[t]);
}

static void S06_gates_betas_and_keys_have_closed_forms(void **unused) {
    (void)unused;
    enum { T = 8 };
    head_shape s = {.H = 1,
                    .Hk = 1,
                    .K = 4,
                    .V = 2,
                    .n_h = 2,
                    .decay = DECAY_HEAD,
                    .erase = ERASE_KEY,
                    .beta_max = 2};
    tiny_steps x = tiny_steps_new(s, T, 3);
    double *states[T + 1], missing[T * 2];
    head_stats out;
    // Every coordinate vector equally often; the two keys of a token are orthogonal. beta in {0, 2}.
    for (int i = 0; i < 2 * T; i++) {
        for (int c = 0; c < 4; c++)
            x.k[i * 4 + c] = c == i % 4;
        x.beta[i] = i % 4 == 0 ? 2 : 0;
    }
    for (int t = 0; t < T; t++)
        x.decay[t] = t < 4 ? 0 : t < 6 ? log(0.5) : -200;
    plain(&x, states, missing);
    read_steps(&x, states, 3, T, false, &out);
#define LINE(signal) head_stats_line(&out, 0, 0, signal)[0]
    near("beta", LINE(HEAD_BETA), 0.5, 1e-15);
    near("low betas", LINE(HEAD_BETA_LOW), 0.75, 1e-15);
    near("high betas", LINE(HEAD_BETA_HIGH), 0.25, 1e-15);
    near("reflecting", LINE(HEAD_REFLECTING), 0.25, 1e-15);
    near("gate", LINE(HEAD_GATE), 5.0 / 8, 1e-15);
    near("open gates", LINE(HEAD_GATE_OPEN), 0.5, 1e-15);
    near("closed gates", LINE(HEAD_GATE_CLOSED), 0.25, 1e-15);
    near("forgetting", LINE(HEAD_FORGET), (2 * log(2) + 400) / 8, 1e-12);
    near("key norm", LINE(HEAD_KEY_NORM), 1, 1e-15);
    near("key overlap", LINE(HEAD_KEY_OVERLAP), 0, 1e-15);
#undef LINE
    // Second moments I / 4: rank 4, three of four; with the mean (1, 1, 1, 1) / 4 out, rank 3: all.
    near("rank of keys", out.keys[0][HEAD_KEY_RANK], 4, 1e-12);
    near("three largest", out.keys[0][HEAD_KEY_TOP3], 0.75, 1e-12);
    near("centred", out.keys[0][HEAD_KEY_TOP3_CENTRED], 1, 1e-12);
    head_stats_free(&out);
    tiny_steps_free(&x);
    for (int t = 0; t <= T; t++)
        free(states[t]);
}

// ---- boundaries ---------------------------------------------------------------------------------

static void S07_a_gate_that_is_zero_at_boundaries_has_auc_one(void **unused) {
    (void)unused;
    enum { T = 60, BOS = 1 };
    head_shape s = {.H = 2,
                    .Hk = 2,
                    .K = 4,
                    .V = 4,
                    .n_h = 1,
                    .decay = DECAY_HEAD,
                    .erase = ERASE_KEY,
                    .beta_max = 1};
    tiny_steps x = tiny_steps_new(s, T, 5);
    int32_t ids[T];
    bool mark[T];
    for (int t = 0; t < T; t++) {
        ids[t] = t % 13 == 7 ? BOS : 5;
        x.decay[2 * t] = ids[t] == BOS ? -200 : -0.01; // head 0 resets there
        x.decay[2 * t + 1] = -0.01;                    // head 1 knows nothing
    }
    assert_int_equal(boundary_mark(ids, T, (int64_t[]){0, 3, T}, 3, BOS, mark), 6);
    assert_false(mark[0]);
    assert_true(mark[3]);
    assert_int_equal(boundary_mark(ids, T, NULL, 0, BOS, mark), 5);
    double *states[T + 1], missing[T * 2], out[2 * BOUNDARY_NUMBERS],
        aligned[2 * BOUNDARY_ALIGNED * BOUNDARY_SPAN];
    head_stats h;
    err e = {0};
    plain(&x, states, missing);
    read_steps(&x, states, 17, 8, true, &h);
    OK(boundary_layer(&h, 0, mark, out, aligned, &e));
    near("gate", out[BOUNDARY_AUC_GATE], 1, 0);
    near("norm", out[BOUNDARY_AUC_NORM], 1, 0);
    near("forgets", out[BOUNDARY_FORGET], 200, 1e-4);
    near("blind gate", out[BOUNDARY_NUMBERS + BOUNDARY_AUC_GATE], 0.5, 0);
    printf("measured: AUC of the blind head's norm %.3f\n",
           out[BOUNDARY_NUMBERS + BOUNDARY_AUC_NORM]);
    assert_true(out[BOUNDARY_NUMBERS + BOUNDARY_AUC_NORM] < 0.9);
    // Aligned: -ln g is 200 at the boundary and 0.01 beside it; sizes are told against the one before.
    near("at it", aligned[BOUNDARY_BEFORE], 200, 1e-4);
    near("before it", aligned[BOUNDARY_BEFORE - 1], 0.01, 1e-6);
    near("size before", aligned[BOUNDARY_SPAN + BOUNDARY_BEFORE - 1], 0, 0);
    for (int d = -3; d < 4; d++) {
        double want = 0;
        int n = 0;
        for (int t = 0; t < T; t++)
            if (mark[t] && t + d >= 0 && t + d < T) {
                double a = 0, b = 0;
                for (int i = 0; i < 16; i++) {
                    a += pow(states[t + d + 1][i], 2);
                    b += pow(states[t][i], 2);
                }
                want += (log(a) - log(b)) / 2;
                n++;
            }
        near("size", aligned[BOUNDARY_SPAN + BOUNDARY_BEFORE + d], want / n, 1e-5);
    }
    head_stats_free(&h);
    tiny_steps_free(&x);
    for (int t = 0; t <= T; t++)
        free(states[t]);
}

static void S07_auc_counts_pairs_and_halves_ties(void **unused) {
    (void)unused;
    err e = {0};
    double auc;
    const float v[] = {1, 2, 2, 3, NAN, 0};
    // Marked 2 and 3 against 1, 2, 0: wins 1, 0, half a 2; all three.
    OK(boundary_auc(v, (bool[]){false, true, false, true, true, false}, 6, 1, &auc, &e));
    near("auc", auc, (2 + 0.5 + 3) / 6, 1e-15);
    OK(boundary_auc(v, (bool[]){false, true, false, true, true, false}, 6, -1, &auc, &e));
    near("turned over", auc, 1 - 5.5 / 6, 1e-15);
    OK(boundary_auc(v, (bool[]){false, false, false, false, true, false}, 6, 1, &auc, &e));
    assert_true(isnan(auc));
}

// Against drawn means of uniform numbers; of one and two boundaries there are closed forms.
static void S07_few_boundaries_are_told_by_chance(void **unused) {
    (void)unused;
    enum { DRAWS = 200000 };
    near("one", boundary_by_chance(1, 0.9), 0.1, 1e-12);
    near("two", boundary_by_chance(2, 0.9), 0.02, 1e-12); // (2 - 1.8)^2 / 2
    near("half", boundary_by_chance(7, 0.5), 0.5, 1e-12);
    uint64_t seed = 5;
    double worst = 0;
    static const int n[] = {3, 5, 20, 21, 60};
    static const double auc[] = {0.8, 0.7, 0.6, 0.6, 0.55};
    for (int i = 0; i < 5; i++) {
        int above = 0;
        for (int k = 0; k < DRAWS; k++) {
            double sum = 0;
            for (int j = 0; j < n[i]; j++)
                sum += random_uniform(&seed);
            above += sum > auc[i] * n[i];
        }
        double p = (double)above / DRAWS;
        worst = fmax(worst, fabs(boundary_by_chance(n[i], auc[i]) - p) / sqrt(p * (1 - p) / DRAWS));
    }
    printf("measured: %.1f standard deviations of drawn shares\n", worst);
    assert_true(worst < 4.5);
}

// ---- over rows ----------------------------------------------------------------------------------

static void intervals_over_rows_resample_whole_rows(void **unused) {
    (void)unused;
    err e = {0};
    row_draws d;
    OK(row_draws_make(&d, 2, 500, 0, &e));
    // Of two rows a resample is one of both twice, or both: the interval is the two values.
    over_rows x = rows_mean(&d, (double[]){1, 4});
    near("mean", x.value, 2.5, 0);
    near("lo", x.lo, 1, 0);
    near("hi", x.hi, 4, 0);
    x = rows_geometric(&d, (double[]){log(2), log(8)});
    near("geometric", x.value, 4, 1e-12);
    row_value v[] = {{5, 0}, {1, 0}, {3, 1}, {7, 1}, {NAN, 1}, {INFINITY, 0}};
    x = rows_median(&d, v, 6);
    near("median", x.value, 5, 0);
    near("lo", x.lo, 5, 0); // either row alone: 1, 5, inf and between 3 and 7
    near("hi", x.hi, 5, 0);
    row_value two[] = {{-INFINITY, 0}, {8, 1}, {2, 0}, {4, 1}};
    x = rows_median(&d, two, 4);
    near("between two", x.value, 3, 0);
    near("lo", x.lo, 2, 0); // row 0 alone: -inf and 2
    near("hi", x.hi, 6, 0); // row 1 alone
    row_draws_free(&d);
    OK(row_draws_make(&d, 1, 500, 0, &e));
    x = rows_mean(&d, (double[]){2});
    near("one row", x.value, 2, 0);
    assert_true(isnan(x.lo) && isnan(x.hi));
    row_draws_free(&d);
    OK(row_draws_make(&d, 3, 200, 9, &e));
    x = rows_mean(&d, (double[]){NAN, NAN, 3});
    near("one that is known", x.value, 3, 0);
    assert_true(isnan(x.lo));
    row_draws_free(&d);
}

// Of R rows there are only R^R resamples: all of them tell how many lie beyond an end.
static void intervals_of_few_rows_end_where_all_resamples_say(void **unused) {
    (void)unused;
    enum { R = 4, ALL = 256 };
    static const double v[R] = {3.1, 3.4, 4.3, 3.6};
    double mean[ALL], worst = 0;
    for (int k = 0; k < ALL; k++)
        mean[k] = (v[k & 3] + v[k >> 2 & 3] + v[k >> 4 & 3] + v[k >> 6]) / R;
    for (uint64_t seed = 0; seed < 50; seed++) {
        err e = {0};
        row_draws d;
        OK(row_draws_make(&d, R, RESAMPLE_DEFAULT, seed, &e));
        over_rows x = rows_mean(&d, v);
        row_draws_free(&d);
        double below = 0, upto = 0, above = 0, from = 0; // shares; the ends are among the means
        for (int k = 0; k < ALL; k++) {
            below += (mean[k] < x.lo - 1e-9) / (double)ALL;
            upto += (mean[k] < x.lo + 1e-9) / (double)ALL;
            above += (mean[k] > x.hi + 1e-9) / (double)ALL;
            from += (mean[k] > x.hi - 1e-9) / (double)ALL;
        }
        worst = fmax(worst, fmax(fmax(below, above) - 0.025, 0.025 - fmin(upto, from)));
    }
    printf("measured: beyond an end lie %.2f %% more or less than 2.5 %%\n", 100 * worst);
    // The share beyond a quantile of n draws has the standard deviation sqrt(0.025 0.975 / n): four.
    assert_true(worst < 4 * sqrt(0.025 * 0.975 / RESAMPLE_DEFAULT));
}

// No numbers, one, two, three; infinite ones are numbers.
static void medians_lie_in_the_middle(void **unused) {
    (void)unused;
    assert_true(isnan(order_median(NULL, 0)));
    near("of one", order_median((double[]){-7}, 1), -7, 0);
    near("of two", order_median((double[]){5, 1}, 2), 3, 0);
    near("of three", order_median((double[]){2, INFINITY, -INFINITY}, 3), 2, 0);
    double v[101];
    for (int i = 0; i < 101; i++)
        v[i] = 37 * i % 101;
    near("of 0 to 100", order_median(v, 101), 50, 0);
    for (int i = 0; i < 101; i++)
        near("in order", v[i], i, 0);
}

static void a_row_that_is_infinite_leaves_resamples_without_it(void **unused) {
    (void)unused;
    err e = {0};
    row_draws d;
    OK(row_draws_make(&d, 3, 500, 1, &e));
    over_rows x = rows_mean(&d, (double[]){1, INFINITY, 2}); // 8 of 27 do not hold it
    row_draws_free(&d);
    assert_true(isinf(x.value) && isinf(x.hi));
    near("lo", x.lo, 1, 0);
}

// The spread of resampled means of n values is their standard error.
static void intervals_have_the_width_of_the_standard_error(void **unused) {
    (void)unused;
    enum { N = 400 };
    err e = {0};
    row_draws d;
    double v[N], sum = 0, square = 0;
    for (int i = 0; i < N; i++) {
        v[i] = sin(i * 12.9898) * 3;
        sum += v[i];
        square += v[i] * v[i];
    }
    double se = sqrt((square / N - sum / N * sum / N) / N);
    OK(row_draws_make(&d, N, 2000, 4, &e));
    over_rows x = rows_mean(&d, v);
    printf("measured: width of a 95 %% interval %.4f standard errors (3.92)\n", (x.hi - x.lo) / se);
    // 2000 resamples give the ends to a few percent.
    near("width", (x.hi - x.lo) / se, 3.92, 0.3);
    row_draws_free(&d);
}

// ---- the file -----------------------------------------------------------------------------------

static void a_parcel_comes_back_bit_by_bit(void **unused) {
    (void)unused;
    err e = {0};
    const char *path = files_path("row.safetensors");
    double x[] = {0.1, -0.0, INFINITY, 5e-324};
    int64_t n[] = {INT64_MIN, 7};
    parcel *p = parcel_new(&e);
    parcel_add_text(p, "settings", "a \"b\" \\ \xc3\xa9");
    parcel_add_f64(p, "x", x, 4);
    parcel_add_i64(p, "n", n, 2);
    parcel_add_f64(p, "none", NULL, 0);
    OK(parcel_save(p, path, &e));
    parcel_free(p);
    p = parcel_load(path, &e);
    OK(p);
    assert_memory_equal(parcel_f64(p, "x", 4, &e), x, sizeof x);
    assert_memory_equal(parcel_i64(p, "n", 2, &e), n, sizeof n);
    assert_string_equal(parcel_text(p, "settings"), "a \"b\" \\ \xc3\xa9");
    assert_null(parcel_text(p, "other"));
    assert_int_equal(parcel_length(p, "x"), 4);
    assert_null(parcel_f64(p, "x", 3, &e));
    files_assert_error_holds(&e, ERR_INPUT, "x is not 3 numbers");
    err_clear(&e);
    assert_null(parcel_f64(p, "n", 2, &e)); // integers are no reals
    parcel_free(p);
}

static void a_parcel_that_is_cut_short_is_refused_at_every_length(void **unused) {
    (void)unused;
    err e = {0};
    const char *path = files_path("whole"), *cut = files_path("cut");
    double x[] = {1, 2, 3};
    parcel *p = parcel_new(&e);
    parcel_add_f64(p, "x", x, 3);
    OK(parcel_save(p, path, &e));
    parcel_free(p);
    size_t n = 0;
    char *bytes = files_read(path, &n);
    for (size_t k = 0; k < n; k++) {
        err_clear(&e);
        files_write(cut, bytes, k);
        assert_null(parcel_load(cut, &e));
        assert_true(e.code == ERR_INPUT);
    }
    free(bytes);
}

#define CASE(name) cmocka_unit_test(name)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(S05_delta_rule_loss_agrees_with_plain_loops),
        CASE(S05_a_write_with_beta_one_is_read_back),
        CASE(S06_gates_betas_and_keys_have_closed_forms),
        CASE(S07_a_gate_that_is_zero_at_boundaries_has_auc_one),
        CASE(S07_auc_counts_pairs_and_halves_ties),
        CASE(S07_few_boundaries_are_told_by_chance),
        CASE(intervals_over_rows_resample_whole_rows),
        CASE(intervals_of_few_rows_end_where_all_resamples_say),
        CASE(medians_lie_in_the_middle),
        CASE(a_row_that_is_infinite_leaves_resamples_without_it),
        CASE(intervals_have_the_width_of_the_standard_error),
        CASE(a_parcel_comes_back_bit_by_bit),
        CASE(a_parcel_that_is_cut_short_is_refused_at_every_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
