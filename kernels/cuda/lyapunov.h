// kernels/cuda/lyapunov.h - Lyapunov exponents of one head by one block of threads, K <= 8 ROWS
// (kernels/spectrum_batch.h plans, kernels/cpu/spectrum_lyapunov.c says why).
//
// An orthonormal basis Q [K, K] lives in registers: 8 lanes a column, row 8 i + lane in number i. The
// plan's factors act on columns, each on its own. A QR goes through the columns: the owners of column
// j publish its Householder vector, behind a barrier all later columns reflect; then every column of Q
// is formed by its owners alone from the vectors that are kept. |R_jj| goes into the growth of j.
//
// Barriers: two around the staging of factors, one a column of a QR, one at its end (vectors have been
// used).
#ifndef DELTOP_CUDA_LYAPUNOV_H
#define DELTOP_CUDA_LYAPUNOV_H

#include "kernels/cuda/shared_memory.h"

extern "C" {
#include "kernels/spectrum_batch.h"
}

enum { LYAPUNOV_LANES = 8, LYAPUNOV_STAGE = 8 };

// One head; arrays begin at its first token. growth: [K], the sum of ln |R_jj|.
struct lyapunov_task {
    const double *k, *a, *b, *g;
    const lyapunov_op *ops;
    int64_t n_ops;
    double *growth;
};

static inline size_t lyapunov_bytes(int K) {
    return ((size_t)K * K + 3 * LYAPUNOV_STAGE * (size_t)K + K) * sizeof(double);
}

__device__ static inline double column_sum(double x) {
    for (int bit = 1; bit < LYAPUNOV_LANES; bit <<= 1)
        x += __shfl_xor_sync(~0u, x, bit);
    return x;
}

// S += v s (v . S); v in shared memory.
template <int ROWS>
__device__ static __forceinline__ void column_reflect(const double *v, double s, int K, int lane,
                                                      double (&S)[ROWS]) {
    double x = 0;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        if (LYAPUNOV_LANES * i + lane < K)
            x += v[LYAPUNOV_LANES * i + lane] * S[i];
    x = column_sum(x) * s;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        if (LYAPUNOV_LANES * i + lane < K)
            S[i] += v[LYAPUNOV_LANES * i + lane] * x;
}

// decay: 0 none, 1 one a token, 2 one a channel.
template <int ROWS>
__global__ void __launch_bounds__(LYAPUNOV_LANES *LYAPUNOV_LANES *ROWS)
    lyapunov_run(const lyapunov_task *tasks, int K, int decay) {
    SHARED_MEMORY(raw);
    const lyapunov_task task = tasks[blockIdx.x];
    double *V = (double *)raw, *stage = V + K * K, *taus = stage + 3 * LYAPUNOV_STAGE * K;
    const int lane = threadIdx.x % LYAPUNOV_LANES, column = threadIdx.x / LYAPUNOV_LANES;
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32, in_warp = threadIdx.x % 32;
    double S[ROWS], growth = 0, rest = 0;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        S[i] = LYAPUNOV_LANES * i + lane == column ? 1.0 : 0.0;
    for (int64_t first = 0; first < task.n_ops; first += LYAPUNOV_STAGE) {
        const int n =
            (int)(task.n_ops - first < LYAPUNOV_STAGE ? task.n_ops - first : LYAPUNOV_STAGE);
        const lyapunov_op *ops = task.ops + first;
        __syncthreads();
        for (int o = warp; o < n; o += warps) {
            const lyapunov_op op = ops[o];
            double *to = stage + 3 * o * K;
            for (int i = in_warp; i < K; i += 32) {
                if (op.kind == LYAPUNOV_KEY)
                    to[i] = task.k[op.at * K + i];
                if (op.kind == LYAPUNOV_ROWS)
                    to[i] = exp((task.g[op.at * K + i] - op.mean) * op.factor);
                if (op.kind == LYAPUNOV_PAIR) {
                    to[i] = task.a[op.at * K + i];
                    to[K + i] = task.b[op.at * K + i];
                    to[2 * K + i] = decay == 0   ? 1.0
                                    : decay == 1 ? exp(task.g[op.at])
                                                 : exp(task.g[op.at * K + i]);
                }
            }
        }
        __syncthreads();
        for (int o = 0; o < n; o++) {
            const int kind = ops[o].kind;
            const double *from = stage + 3 * o * K, factor = ops[o].factor;
            if (kind == LYAPUNOV_KEY) {
                column_reflect<ROWS>(from, factor, K, lane, S);
            } else if (kind == LYAPUNOV_ROWS) {
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (LYAPUNOV_LANES * i + lane < K)
                        S[i] *= from[LYAPUNOV_LANES * i + lane];
            } else if (kind == LYAPUNOV_PAIR) {
                double x = 0;
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (LYAPUNOV_LANES * i + lane < K)
                        x += from[K + LYAPUNOV_LANES * i + lane] * S[i];
                x = column_sum(x);
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (LYAPUNOV_LANES * i + lane < K) {
                        int r = LYAPUNOV_LANES * i + lane;
                        S[i] = from[2 * K + r] * S[i] + from[r] * x;
                    }
            } else { // LYAPUNOV_QR
                for (int j = 0; j < K; j++) {
                    if (warp == j * LYAPUNOV_LANES / 32) { // whole warps, for the sums
                        double tail = 0, alpha = 0;
#pragma unroll
                        for (int i = 0; i < ROWS; i++) {
                            int r = LYAPUNOV_LANES * i + lane;
                            tail += r > j ? S[i] * S[i] : 0.0;
                            alpha += r == j ? S[i] : 0.0;
                        }
                        tail = column_sum(tail);
                        alpha = column_sum(alpha);
                        const double norm = sqrt(alpha * alpha + tail);
                        const double beta = alpha < 0 ? norm : -norm;
                        const double over = tail > 0 ? 1 / (alpha - beta) : 0.0;
                        if (column == j) {
#pragma unroll
                            for (int i = 0; i < ROWS; i++) {
                                int r = LYAPUNOV_LANES * i + lane;
                                if (r < K)
                                    V[j * K + r] = r > j ? S[i] * over : r == j ? 1.0 : 0.0;
                            }
                            if (lane == 0)
                                taus[j] = tail > 0 ? (beta - alpha) / beta : 0.0;
                            // The sum with what rounding has lost of it.
                            double add = log(norm), sum = growth + add;
                            rest += fabs(growth) >= fabs(add) ? (growth - sum) + add
                                                              : (add - sum) + growth;
                            growth = sum;
                        }
                    }
                    __syncthreads();
                    if (warp >= j * LYAPUNOV_LANES / 32) // earlier columns are done with
                        column_reflect<ROWS>(V + j * K, column > j ? -taus[j] : 0.0, K, lane, S);
                }
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    S[i] = LYAPUNOV_LANES * i + lane == column ? 1.0 : 0.0;
                // Vectors beyond the column do not touch it; warps stay together.
                int last = warp * 32 / LYAPUNOV_LANES + 32 / LYAPUNOV_LANES - 1;
                for (int j = last < K ? last : K - 1; j >= 0; j--)
                    column_reflect<ROWS>(V + j * K, -taus[j], K, lane, S);
                __syncthreads();
            }
        }
    }
    if (column < K && lane == 0)
        task.growth[column] = growth + rest;
}

#endif
