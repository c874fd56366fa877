// Activations, gates and the log decay (kernels/pointwise.h).
#include "kernels/cuda/ops.h"
#include "kernels/cuda/trace.h"
#include "kernels/cuda/wide.h"

template <class T>
__global__ void activate(view<T> x, activation act, float scale, int64_t rows, int64_t cols) {
    GRID_LOOP(i, rows * cols) {
        T *p = x.row(i / cols) + i % cols;
        put(p, scale * cuda_act(act, get(*p)));
    }
}

template <class T> __global__ void activate_words(T *x, activation act, float scale, int64_t n) {
    constexpr int N = per_word<T>();
    GRID_LOOP(i, n) {
        float v[N];
        unpack(load_word(x + i * N), v);
#pragma unroll
        for (int e = 0; e < N; e++)
            v[e] = scale * act_for<T>(act, v[e]);
        store_word(x + i * N, v);
    }
}

void cuda_activate(backend *be, mat x, activation act, double scale) {
    if (act == ACT_NONE && scale == 1)
        return;
    traced span(be, "activate");
    int64_t n = x.rows * x.cols;
    if (x.ld == x.cols && (uintptr_t)x.p % 16 == 0 && n * x.esize % 16 == 0) {
        ON_TYPE(x, T,
                activate_words<T><<<blocks_for(n / per_word<T>(), 256), 256, 0, of(be)->stream>>>(
                    (T *)x.p, act, (float)scale, n / per_word<T>()));
        launched(be, "activation");
        return;
    }
    ON_TYPE(x, T,
            activate<T><<<blocks_for(x.rows * x.cols, 256), 256, 0, of(be)->stream>>>(
                as<T>(x), act, (float)scale, x.rows, x.cols));
    launched(be, "activation");
}

template <class T>
__global__ void multiply(view<T> gate, activation act, int64_t rows, int64_t cols, view<T> x) {
    GRID_LOOP(i, rows * cols) {
        T *p = x.row(i / cols) + i % cols;
        put(p, get(*p) * cuda_act(act, get(gate.row(i / cols)[i % cols])));
    }
}

// A warp a row of whole words, four words a lane on the way at once. From the last row to the first,
// as in conv_heads.cu.
template <class T, bool SILU>
__global__ void __launch_bounds__(256)
    multiply_words(view<T> gate, activation act, int64_t rows, int words, view<T> x) {
    constexpr int N = per_word<T>(), SIDE = 4;
    WARP_LOOP(j, rows) {
        const T *g = gate.row(rows - 1 - j);
        T *a = x.row(rows - 1 - j);
        for (int i = threadIdx.x; i < words; i += 32 * SIDE) {
            uint4 open[SIDE], in[SIDE];
#pragma unroll
            for (int s = 0; s < SIDE; s++)
                if (i + 32 * s < words) {
                    open[s] = load_word(g + (i + 32 * s) * N);
                    in[s] = load_word(a + (i + 32 * s) * N);
                }
#pragma unroll
            for (int s = 0; s < SIDE; s++)
                if (i + 32 * s < words) {
                    float u[N], v[N];
                    unpack(open[s], u);
                    unpack(in[s], v);
#pragma unroll
                    for (int e = 0; e < N; e++)
                        v[e] *= act_for<T>(SILU ? ACT_SILU : act, u[e]);
                    store_word(a + (i + 32 * s) * N, v);
                }
        }
    }
}

void cuda_multiply(backend *be, mat gate, activation act, mat x) {
    traced span(be, "multiply");
    if (x.rows && gate.esize == x.esize && wide(gate) && wide(x)) {
        dim3 threads(32, 8);
        unsigned blocks = blocks_for(x.rows, 8);
        ON_TYPE(x, T, {
            int words = (int)(x.cols / per_word<T>());
            auto go = [&](auto kernel) {
                kernel<<<blocks, threads, 0, of(be)->stream>>>(as<T>(gate), act, x.rows, words,
                                                               as<T>(x));
            };
            if (act == ACT_SILU)
                go(multiply_words<T, true>);
            else
                go(multiply_words<T, false>);
        });
        launched(be, "gate");
        return;
    }
    ON_TYPE(x, T,
            multiply<T><<<blocks_for(x.rows * x.cols, 256), 256, 0, of(be)->stream>>>(
                as<T>(gate), act, x.rows, x.cols, as<T>(x)));
    launched(be, "gate");
}

// x may be an exact decay and y not.
template <class T, class U, class O>
__global__ void scale_heads(view<T> x, view<U> s, bool each, float c, int64_t head_dim,
                            int64_t group, int64_t rows, int64_t cols, view<O> y) {
    GRID_LOOP(i, rows * cols) {
        int64_t t = i / cols, h = i % cols / head_dim, d = i % cols % head_dim;
        float scale = c * (s.p ? get(s.row(each ? t : 0)[h]) : 1.0f);
        put(&y.row(t)[i % cols], scale * get(x.row(t)[h / group * head_dim + d]));
    }
}

void cuda_scale_heads(backend *be, mat x, mat s, double c, int64_t head_dim, mat y) {
    int64_t group = y.cols / x.cols;
    mat factor = mat_none(s) ? x : s;
    ON_TYPE(x, T,
            ON_TYPE(factor, U,
                    ON_TYPE(y, O,
                            scale_heads<T, U, O>
                            <<<blocks_for(y.rows * y.cols, 256), 256, 0, of(be)->stream>>>(
                                as<T>(x), as<U>(s), s.rows != 1, (float)c, head_dim, group, y.rows,
                                y.cols, as<O>(y)))));
    launched(be, "scale heads");
}

template <class T, class U>
__global__ void log_decay(view<T> x, view<U> a_log, view<U> dt, int64_t per_head, float bound,
                          int64_t rows, int64_t cols) {
    GRID_LOOP(i, rows * cols) {
        T *p = x.row(i / cols) + i % cols;
        float rate = a_log.p ? expf(get(a_log.p[i % cols / per_head])) : 1.0f;
        float z = get(*p) + (dt.p ? get(dt.p[i % cols]) : 0.0f);
        put(p, isnan(bound) ? -rate * softplus_of(z) : bound * sigmoid_of(rate * z));
    }
}

void cuda_log_decay(backend *be, mat x, mat a_log, mat dt_bias, double lower_bound) {
    int64_t per_head = mat_none(a_log) ? x.cols : x.cols / a_log.cols;
    mat w = mat_none(a_log) ? mat_none(dt_bias) ? x : dt_bias : a_log;
    ON_TYPE(x, T,
            ON_TYPE(w, U,
                    log_decay<T, U><<<blocks_for(x.rows * x.cols, 256), 256, 0, of(be)->stream>>>(
                        as<T>(x), as<U>(a_log), as<U>(dt_bias), per_head, (float)lower_bound,
                        x.rows, x.cols)));
    launched(be, "log decay");
}

// ln(l + (1 - l) sigmoid(x)) as on the CPU: from what the gate lets go while that is small.
__device__ static double log_forget_one(double l, double x) {
    double gone = (1 - l) / (1 + exp(x));
    if (gone < 0.5)
        return log1p(-gone);
    return l > 0 ? log(l + (1 - l) / (1 + exp(-x))) : x - log1p(exp(x));
}

template <class T, class U>
__global__ void log_forget(view<T> x, view<U> least, double divisor, double clamp, int64_t rows,
                           int64_t cols) {
    GRID_LOOP(i, rows * cols) {
        T *p = x.row(i / cols) + i % cols;
        double log_gate = log_forget_one(least.p ? (double)get(least.p[i % cols]) : 0, get(*p));
        double z = log_gate / divisor;
        put(p, (float)(z < clamp ? clamp : z)); // fmax would turn NaN into the clamp
    }
}

void cuda_log_forget(backend *be, mat x, mat least, double divisor, double clamp) {
    mat w = mat_none(least) ? x : least;
    ON_TYPE(x, T,
            ON_TYPE(w, U,
                    log_forget<T, U><<<blocks_for(x.rows * x.cols, 256), 256, 0, of(be)->stream>>>(
                        as<T>(x), as<U>(least), divisor, clamp, x.rows, x.cols)));
    launched(be, "log forget gate");
}

template <class T, class U>
__global__ void time_step(view<T> x, view<U> bias, float lo, float hi, int64_t rows, int64_t cols) {
    GRID_LOOP(i, rows * cols) {
        T *p = x.row(i / cols) + i % cols;
        float dt = softplus_of(get(*p) + (bias.p ? get(bias.p[i % cols]) : 0.0f));
        put(p, dt < lo ? lo : dt > hi ? hi : dt); // fminf and fmaxf would hide a NaN
    }
}

void cuda_time_step(backend *be, mat x, mat bias, double lo, double hi) {
    mat w = mat_none(bias) ? x : bias;
    ON_TYPE(x, T,
            ON_TYPE(w, U,
                    time_step<T, U><<<blocks_for(x.rows * x.cols, 256), 256, 0, of(be)->stream>>>(
                        as<T>(x), as<U>(bias), (float)lo, (float)hi, x.rows, x.cols)));
    launched(be, "time step");
}
