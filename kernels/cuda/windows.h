// kernels/cuda/windows.h - window products and their eigenvalues, a block of threads a window
// (kernels/spectrum.h).
//
//   window_product  P = A_t ... A_(t-W+1) from the identity: columns are independent, 8 lanes a column
//   window_core     the W n_h x W n_h core of a short window instead: QR of the keys, then the
//                   product of I - beta r r^T
//   window_solve    |P|_2, asymmetry, eigenvalues
//
// A power of two is taken out of each column now and then; window_solve brings max |P| into [1/2, 1).
// What the host adds: scalar decays and the largest of each token's channel decays, as logarithms.
#ifndef DELTOP_CUDA_WINDOWS_H
#define DELTOP_CUDA_WINDOWS_H

#include "kernels/cuda/block_eigen.h"
#include "kernels/cuda/shared_memory.h"

enum { PRODUCT_LANES = 8, PRODUCT_COLUMNS = BLOCK_THREADS / PRODUCT_LANES, PRODUCT_STAGE = 16 };

// What all windows of a launch share.
struct window_shape {
    int K, n_h;
    bool keys, pair;      // TRANSITION_KEYS, TRANSITION_DPLR
    bool channel, scalar; // decays to apply: one a channel; one a token (DPLR only)
};

// One window. Arrays begin at its first token.
struct window_task {
    const double *k, *beta, *a, *b, *g;
    int64_t W;
    int n;         // rows of the matrix to solve: K, or W n_h in a short window
    double *P;     // [n][n]
    double *work;  // [n][n | 1]; short windows: the keys [n][K] before
    int *exponent; // [K] taken out of each column
};

// What comes back. status 0: done.
struct window_result {
    double norm2, skew, all; // |P|_2, |P - P^T|_F^2, |P|_F^2
    int exponent, status;    // taken out of P
};

// Tokens staged at a time, and doubles of shared memory.
__host__ __device__ static inline int product_tokens(int n_h) {
    return n_h > PRODUCT_STAGE ? 1 : PRODUCT_STAGE / (n_h > 0 ? n_h : 1);
}
static inline size_t product_doubles(const window_shape *s) {
    size_t tokens = (size_t)product_tokens(s->n_h), K = (size_t)s->K;
    return tokens * ((s->keys ? s->n_h * (K + 1) : 0) + (s->pair ? 2 * K : 0) + K);
}

__device__ static inline double lanes_sum(double x) {
    for (int bit = 1; bit < PRODUCT_LANES; bit <<= 1)
        x += __shfl_xor_sync(~0u, x, bit);
    return x;
}

// grid: (columns / PRODUCT_COLUMNS, windows); K <= 8 ROWS.
template <int ROWS>
__global__ void __launch_bounds__(BLOCK_THREADS)
    window_product(window_shape s, const window_task *tasks) {
    SHARED_MEMORY(raw);
    const window_task task = tasks[blockIdx.y];
    const int K = s.K, lane = threadIdx.x % PRODUCT_LANES, most = product_tokens(s.n_h);
    const int column = blockIdx.x * PRODUCT_COLUMNS + threadIdx.x / PRODUCT_LANES;
    const int keys = s.keys ? s.n_h : 0;
    double *sk = (double *)raw, *sbeta = sk + most * keys * K, *sa = sbeta + most * keys,
           *sb = sa + (s.pair ? most * K : 0), *sw = sb + (s.pair ? most * K : 0);
    double S[ROWS];
    int exponent = 0, pending = 0;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        S[i] = i * PRODUCT_LANES + lane == column ? 1.0 : 0.0;
    for (int64_t t0 = 0; t0 < task.W; t0 += most) {
        const int n = (int)(task.W - t0 < most ? task.W - t0 : most);
        __syncthreads();
        for (int i = threadIdx.x; i < n * keys * K; i += BLOCK_THREADS)
            sk[i] = task.k[t0 * keys * K + i];
        for (int i = threadIdx.x; i < n * keys; i += BLOCK_THREADS)
            sbeta[i] = task.beta[t0 * keys + i];
        for (int i = threadIdx.x; s.pair && i < n * K; i += BLOCK_THREADS) {
            sa[i] = task.a[t0 * K + i];
            sb[i] = task.b[t0 * K + i];
        }
        // A warp a token.
        for (int t = threadIdx.x / 32; t < n; t += BLOCK_THREADS / 32) {
            const double *g = task.g + (t0 + t) * (s.channel ? K : 1);
            double largest = s.pair ? 0.0 : -HUGE_VAL;
            if (s.channel && !s.pair) {
                for (int i = threadIdx.x % 32; i < K; i += 32)
                    largest = fmax(largest, g[i]);
                for (int bit = 16; bit; bit >>= 1)
                    largest = fmax(largest, __shfl_xor_sync(~0u, largest, bit));
            }
            for (int i = threadIdx.x % 32; i < K; i += 32)
                sw[t * K + i] = s.channel ? exp(g[i] - largest) : s.scalar ? exp(g[0]) : 1.0;
        }
        __syncthreads();
        for (int t = 0; t < n; t++) {
            double read = 0;
            if (s.pair) {
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (i * PRODUCT_LANES + lane < K)
                        read += sb[t * K + i * PRODUCT_LANES + lane] * S[i];
                read = lanes_sum(read);
            }
            if (s.channel || s.scalar) {
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (i * PRODUCT_LANES + lane < K)
                        S[i] *= sw[t * K + i * PRODUCT_LANES + lane];
            }
            if (s.pair) {
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (i * PRODUCT_LANES + lane < K)
                        S[i] += sa[t * K + i * PRODUCT_LANES + lane] * read;
            }
            for (int j = 0; j < keys; j++) {
                const double *k = sk + (t * keys + j) * K;
                double x = 0;
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (i * PRODUCT_LANES + lane < K)
                        x += k[i * PRODUCT_LANES + lane] * S[i];
                x = lanes_sum(x) * -sbeta[t * keys + j];
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (i * PRODUCT_LANES + lane < K)
                        S[i] += k[i * PRODUCT_LANES + lane] * x;
            }
            pending += keys + 1;
            if (pending >= 8) {
                pending = 0;
                double top = 0;
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    top = fmax(top, fabs(S[i]));
                for (int bit = 1; bit < PRODUCT_LANES; bit <<= 1)
                    top = fmax(top, __shfl_xor_sync(~0u, top, bit));
                int e = top > 0 && top < HUGE_VAL ? ilogb(top) : 0;
                if (e > 64 || e < -64) {
                    exponent += e;
#pragma unroll
                    for (int i = 0; i < ROWS; i++)
                        S[i] = scalbn(S[i], -e);
                }
            }
        }
    }
    if (column >= K)
        return;
    if (lane == 0)
        task.exponent[column] = exponent;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        if (i * PRODUCT_LANES + lane < K)
            task.P[(int64_t)(i * PRODUCT_LANES + lane) * K + column] = S[i];
}

// Keys [n][K] are the columns of a K x n matrix: R of its QR in place, on and above the diagonal;
// then C = prod (I - beta_j r_j r_j^T), newest factor on the left, to P.
__global__ void __launch_bounds__(BLOCK_THREADS)
    window_core(window_shape s, const window_task *tasks) {
    SHARED_MEMORY(raw);
    block_scratch *sh = (block_scratch *)raw;
    const window_task task = tasks[blockIdx.x];
    const int K = s.K, n = task.n, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double *keys = task.work, *C = task.P;
    for (int i = threadIdx.x; i < n * K; i += BLOCK_THREADS)
        keys[i] = task.k[i];
    for (int i = threadIdx.x; i < n * n; i += BLOCK_THREADS)
        C[i] = i / n == i % n ? 1.0 : 0.0;
    __syncthreads();
    for (int j = 0; j < n; j++) {
        double tau, beta = block_reflector(keys + j * K + j, 1, K - j, sh, &tau);
        for (int c = j + 1 + warp; c < n; c += BLOCK_THREADS / 32) {
            double *to = keys + c * K + j, sum = 0;
            for (int i = lane; i < K - j; i += 32)
                sum += to[i] * sh->v[i];
            for (int bit = 16; bit; bit >>= 1)
                sum += __shfl_xor_sync(~0u, sum, bit);
            sum *= tau;
            for (int i = lane; i < K - j; i += 32)
                to[i] -= sum * sh->v[i];
        }
        if (threadIdx.x == 0)
            keys[j * K + j] = beta;
        __syncthreads();
        // r_j has j + 1 entries, and so far only the leading block of C differs from I.
        const double *r = keys + j * K;
        for (int c = threadIdx.x; c <= j; c += BLOCK_THREADS) {
            double x = 0;
            for (int i = 0; i <= j; i++)
                x += r[i] * C[i * n + c];
            x *= -task.beta[j];
            for (int i = 0; i <= j; i++)
                C[i * n + c] += r[i] * x;
        }
        __syncthreads();
    }
}

static inline size_t solve_bytes(int n, bool in_shared) {
    return sizeof(block_scratch) + (in_shared ? (size_t)n * (n | 1) * sizeof(double) : 0);
}

// re, im: [windows][stride].
__global__ void __launch_bounds__(BLOCK_THREADS)
    window_solve(const window_task *tasks, bool in_shared, bool columns, int stride, double *re,
                 double *im, window_result *results) {
    SHARED_MEMORY(raw);
    block_scratch *sh = (block_scratch *)raw;
    const window_task task = tasks[blockIdx.x];
    window_result *out = results + blockIdx.x;
    const int n = task.n, ld = n | 1;
    double *P = task.P, *A = in_shared ? (double *)(sh + 1) : task.work;
    re += (int64_t)blockIdx.x * stride;
    im += (int64_t)blockIdx.x * stride;
    // max |P| into [1/2, 1): the largest exponent of any number, its column's own one counted in.
    int top = INT_MIN;
    bool finite = true;
    for (int i = threadIdx.x; i < n * n; i += BLOCK_THREADS) {
        double x = fabs(P[i]);
        finite = finite && x < HUGE_VAL;
        if (x > 0 && x < HUGE_VAL)
            top = max(top, ilogb(x) + 1 + (columns ? task.exponent[i % n] : 0));
    }
    top = block_max(top, sh);
    if (block_max(finite ? 0 : 1, sh) || top == INT_MIN) {
        if (threadIdx.x == 0)
            out->status = 1;
        return;
    }
    for (int i = threadIdx.x; i < n * n; i += BLOCK_THREADS)
        P[i] = scalbn(P[i], (columns ? task.exponent[i % n] : 0) - top);
    __syncthreads();
    double skew = 0, all = 0;
    for (int i = threadIdx.x; i < n * n; i += BLOCK_THREADS) {
        double d = P[i] - P[i % n * n + i / n];
        skew += d * d;
        all += P[i] * P[i];
    }
    skew = block_sum(skew, sh);
    all = block_sum(all, sh);
    for (int i = threadIdx.x; i < n * n; i += BLOCK_THREADS) {
        double sum = 0;
        for (int k = 0; k < n; k++)
            sum += P[k * n + i / n] * P[k * n + i % n];
        A[i / n * ld + i % n] = sum;
    }
    __syncthreads();
    const double largest = block_largest(A, ld, n, sh);
    __syncthreads();
    for (int i = threadIdx.x; i < n * n; i += BLOCK_THREADS)
        A[i / n * ld + i % n] = P[i];
    __syncthreads();
    block_balance(A, ld, n, sh);
    block_hessenberg(A, ld, n, sh);
    const bool found = block_hqr(A, ld, n, re, im, sh);
    if (threadIdx.x == 0)
        *out = window_result{sqrt(largest), skew, all, top, found ? 0 : 1};
}

#endif
