#include "kernels/cpu/real.h"

#include "kernels/pointwise.h"

// One loop per activation: the choice is made once a row, the loop stays vectorisable.
static void apply(activation act, real scale, const real *x, real *y, int64_t n) {
    switch (act) {
    case ACT_NONE:
        for (int64_t i = 0; i < n; i++)
            y[i] = scale * x[i];
        break;
    case ACT_SILU:
        for (int64_t i = 0; i < n; i++)
            y[i] = scale * (x[i] * real_sigmoid(x[i]));
        break;
    case ACT_SIGMOID:
        for (int64_t i = 0; i < n; i++)
            y[i] = scale * real_sigmoid(x[i]);
        break;
    case ACT_RELU:
        for (int64_t i = 0; i < n; i++)
            y[i] = scale * (x[i] > 0 ? x[i] : 0);
        break;
    case ACT_ELU1:
        for (int64_t i = 0; i < n; i++)
            y[i] = scale * (x[i] > 0 ? x[i] + 1 : real_exp(x[i]));
        break;
    case ACT_TANH:
        for (int64_t i = 0; i < n; i++)
            y[i] = scale * (real)tanh((double)x[i]);
        break;
    case ACT_RELU2:
        for (int64_t i = 0; i < n; i++)
            y[i] = scale * (x[i] > 0 ? x[i] * x[i] : 0);
        break;
    case ACT_ONE_MINUS_EXP:
        for (int64_t i = 0; i < n; i++)
            y[i] = scale * (real)-expm1((double)x[i]);
        break;
    }
}

void FN(pointwise_activate)(backend *be, mat x, activation act, double scale) {
    (void)be;
    if (act == ACT_NONE && scale == 1)
        return;
#pragma omp parallel for schedule(static) if (x.rows * x.cols > 1 << 14)
    for (int64_t t = 0; t < x.rows; t++)
        apply(act, (real)scale, row_of(x, t), row_of(x, t), x.cols);
}

void FN(pointwise_multiply)(backend *be, mat gate, activation act, mat x) {
    (void)be;
    enum { PIECE = 256 };
#pragma omp parallel for schedule(static) if (x.rows * x.cols > 1 << 14)
    for (int64_t t = 0; t < x.rows; t++) {
        const real *g = row_of(gate, t);
        real *a = row_of(x, t), open[PIECE];
        for (int64_t i = 0; i < x.cols; i += PIECE) {
            int64_t n = x.cols - i < PIECE ? x.cols - i : PIECE;
            apply(act, 1, g + i, open, n);
            for (int64_t j = 0; j < n; j++)
                a[i + j] *= open[j];
        }
    }
}

void FN(pointwise_scale_heads)(backend *be, mat x, mat s, double c, int64_t head_dim, mat y) {
    (void)be;
    int64_t H = y.cols / head_dim, group = H / (x.cols / head_dim);
    for (int64_t t = 0; t < x.rows; t++)
        for (int64_t h = 0; h < H; h++) {
            const real *a = row_of(x, t) + h / group * head_dim;
            real *b = row_of(y, t) + h * head_dim;
            real scale = (real)c * (mat_none(s) ? 1 : row_of(s, s.rows == 1 ? 0 : t)[h]);
            for (int64_t i = 0; i < head_dim; i++)
                b[i] = scale * a[i];
        }
}

void FN(pointwise_log_decay)(backend *be, mat x, mat a_log, mat dt_bias, double lower_bound) {
    (void)be;
    const real *A = a_log.p, *dt = dt_bias.p;
    int64_t per_head = mat_none(a_log) ? x.cols : x.cols / a_log.cols;
#pragma omp parallel for schedule(static) if (x.rows * x.cols > 1 << 12)
    for (int64_t t = 0; t < x.rows; t++) {
        real *a = row_of(x, t);
        for (int64_t i = 0; i < x.cols; i++) {
            real rate = A ? (real)exp((double)A[i / per_head]) : 1;
            real z = a[i] + (dt ? dt[i] : 0);
            a[i] = isnan(lower_bound) ? -rate * real_softplus(z)
                                      : (real)lower_bound * real_sigmoid(rate * z);
        }
    }
}

void FN(pointwise_time_step)(backend *be, mat x, mat bias, double lo, double hi) {
    (void)be;
    const real *b = bias.p;
    for (int64_t t = 0; t < x.rows; t++) {
        real *a = row_of(x, t);
        for (int64_t i = 0; i < x.cols; i++) {
            real dt = real_softplus(a[i] + (b ? b[i] : 0));
            dt = dt < (real)lo ? (real)lo : dt;
            a[i] = dt > (real)hi ? (real)hi : dt;
        }
    }
}

// ln(l + (1 - l) sigmoid(x)): from 1 - w while w is near 1, so that a gate that is nearly open keeps
// the little it lets go; without a bound a gate that is nearly shut keeps its log.
static double log_forget_one(double l, double x) {
    double gone = (1 - l) / (1 + exp(x));
    if (gone < 0.5)
        return log1p(-gone);
    return l > 0 ? log(l + (1 - l) / (1 + exp(-x))) : x - log1p(exp(x));
}

void FN(pointwise_log_forget)(backend *be, mat x, mat least, double divisor, double clamp) {
    (void)be;
    const real *l = least.p;
#pragma omp parallel for schedule(static) if (x.rows * x.cols > 1 << 12)
    for (int64_t t = 0; t < x.rows; t++) {
        real *a = row_of(x, t);
        for (int64_t i = 0; i < x.cols; i++) {
            double z = log_forget_one(l ? (double)l[i] : 0, (double)a[i]) / divisor;
            a[i] = (real)(z < clamp ? clamp : z);
        }
    }
}
