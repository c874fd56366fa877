// Per-token loss in tiles of tokens x vocabulary (kernels/loss.h): logits of a tile by cuBLAS in
// float32, then one block a token folds them into a running maximum and a sum in double.
#include "kernels/cuda/ops.h"

enum { ROWS = 1024, WORDS = 8192, THREADS = 256 };

struct running {
    double top, sum, at;
    int best;
};

__global__ void begin(running *r, int64_t n) {
    GRID_LOOP(i, n)
    r[i] = running{-INFINITY, 0, NAN, 0};
}

__global__ void fold(const float *logits, int64_t n, int first, const int32_t *targets, running *r) {
    __shared__ float high[THREADS / 32];
    __shared__ int where[THREADS / 32];
    __shared__ double part[THREADS / 32];
    const float *row = logits + blockIdx.x * n;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float top = -INFINITY;
    int best = 0;
    for (int64_t j = threadIdx.x; j < n; j += THREADS)
        if (row[j] > top) {
            top = row[j];
            best = (int)j;
        }
    for (int d = 16; d; d >>= 1) {
        float t = __shfl_xor_sync(~0u, top, d);
        int b = __shfl_xor_sync(~0u, best, d);
        if (t > top || (t == top && b < best)) {
            top = t;
            best = b;
        }
    }
    if (lane == 0) {
        high[warp] = top;
        where[warp] = best;
    }
    __syncthreads();
    top = high[0];
    best = where[0];
    for (int w = 1; w < THREADS / 32; w++)
        if (high[w] > top || (high[w] == top && where[w] < best)) {
            top = high[w];
            best = where[w];
        }
    running now = r[blockIdx.x];
    bool higher = (double)top > now.top;
    double from = higher ? (double)top : now.top, sum = 0;
    float from_f = (float)from;
    for (int64_t j = threadIdx.x; j < n; j += THREADS)
        sum += (double)expf(row[j] - from_f);
    sum = warp_sum(sum);
    if (lane == 0)
        part[warp] = sum;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    sum = higher ? now.sum * exp(now.top - from) : now.sum;
    for (int w = 0; w < THREADS / 32; w++)
        sum += part[w];
    int target = targets[blockIdx.x] - first;
    r[blockIdx.x] = running{from, sum, target >= 0 && target < n && targets[blockIdx.x] >= 0 ? (double)row[target] : now.at, higher ? first + best : now.best};
}

void cuda_losses(backend *be, mat x, mat head, const int32_t *targets, double *loss, int32_t *best) {
    int64_t n = x.rows;
    if (n == 0)
        return;
    int64_t rows = n < ROWS ? n : ROWS, words = head.rows < WORDS ? head.rows : WORDS;
    size_t bytes = (size_t)rows * (size_t)words * sizeof(float) + (size_t)n * (sizeof(running) + sizeof(int32_t));
    char *d = (char *)device_scratch(be, bytes);
    running *host = (running *)host_scratch(be, (size_t)n * sizeof *host);
    if (!d || !host)
        return;
    running *r = (running *)d;
    float *logits = (float *)(r + n);
    int32_t *want = (int32_t *)(logits + rows * words);
    cudaStream_t stream = of(be)->stream;
    cuda_ok(be, cudaMemcpyAsync(want, targets, (size_t)n * sizeof *want, cudaMemcpyHostToDevice, stream), "copy targets");
    begin<<<blocks_for(n, 256), 256, 0, stream>>>(r, n);
    for (int64_t t = 0; t < n; t += rows)
        for (int64_t j = 0; j < head.rows; j += words) {
            int64_t m = n - t < rows ? n - t : rows, w = head.rows - j < words ? head.rows - j : words;
            cuda_linear(be, mat_rows(x, t, m), mat_rows(head, j, w), MAT_NONE, mat{logits, m, w, w, sizeof(float)});
            fold<<<(unsigned)m, THREADS, 0, stream>>>(logits, w, (int)j, want + t, r + t);
        }
    launched(be, "losses");
    cuda_ok(be, cudaMemcpyAsync(host, r, (size_t)n * sizeof *host, cudaMemcpyDeviceToHost, stream), "copy losses");
    if (!cuda_ok(be, cudaStreamSynchronize(stream), "losses"))
        return;
    for (int64_t t = 0; t < n; t++) {
        loss[t] = log(host[t].sum) + host[t].top - host[t].at;
        best[t] = host[t].best;
    }
}
