// kernels/cuda/states_finish.h - tridiagonal matrices to singular values in falling order.
#ifndef DELTOP_STATES_FINISH_H
#define DELTOP_STATES_FINISH_H

#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/states_reduce.h"
#include "kernels/cuda/tridiag.h"

// Large blocks: the few that there are take the room of few blocks of states_reduce.
enum { EIGEN_THREADS = 512, FINISH_MATRICES = 32, FINISH_THREADS = 256 };

// One thread a matrix: eigenvalues over d, the trace's root to fro (scale still out). A matrix that
// does not converge is marked like one that is not finite.
__global__ void __launch_bounds__(EIGEN_THREADS, 2)
    states_eigenvalues(reduce_job job, int n, double *fro) {
    int64_t m = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (m >= job.matrices)
        return;
    int exponent = job.exponent[m];
    if (exponent == STATE_ZERO || exponent == STATE_NOT_FINITE)
        return;
    double trace = 0;
    for (int i = 0; i < n; i++)
        trace += job.d[i * job.matrices + m];
    fro[m] = sqrt(trace);
    if (!tridiag_eigenvalues(job.d + m, job.e2 + m, n, job.matrices))
        job.exponent[m] = STATE_NOT_FINITE;
}

// FINISH_MATRICES matrices a block: roots through shared memory (read along matrices, used along
// values), each put where the number of larger ones says, scale put back. sv [matrices][n].
// Rounding leaves the zero eigenvalues of a rank-deficient Gram at +-eps lambda_1: negative ones are
// zeros. One barrier: the tile is complete.
__global__ void __launch_bounds__(FINISH_THREADS)
    states_sort(reduce_job job, int n, double *sv, double *fro) {
    SHARED_MEMORY(raw);
    double *tile = (double *)raw; // [FINISH_MATRICES][n + 1]
    const int64_t first = (int64_t)blockIdx.x * FINISH_MATRICES;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = FINISH_THREADS / 32;
    for (int i = warp; i < n; i += warps) {
        double x = first + lane < job.matrices ? job.d[i * job.matrices + first + lane] : 0;
        tile[lane * (n + 1) + i] = x > 0 ? sqrt(x) : 0;
    }
    __syncthreads();
    for (int q = warp; q < FINISH_MATRICES && first + q < job.matrices; q += warps) {
        const int64_t m = first + q;
        const int exponent = job.exponent[m];
        const double *x = tile + q * (n + 1);
        double *to = sv + m * n;
        if (exponent == STATE_ZERO || exponent == STATE_NOT_FINITE) {
            double value = exponent == STATE_ZERO ? 0.0 : nan("");
            for (int i = lane; i < n; i += 32)
                to[i] = value;
            if (lane == 0)
                fro[m] = value;
            continue;
        }
        double factor = ldexp(1.0, exponent); // of a float: never outside the doubles
        for (int i = lane; i < n; i += 32) {
            int before = 0;
            for (int j = 0; j < n; j++)
                before += x[j] > x[i] || (x[j] == x[i] && j < i);
            to[before] = x[i] * factor;
        }
        if (lane == 0)
            fro[m] *= factor;
    }
}

#endif
