// Per-token loss in tiles of tokens x vocabulary (kernels/loss.h). On Hopper loss_product.cu; elsewhere float32 logits of some
// tokens by cuBLAS, then one block a token reads them once: running maximum with its place, and the sum of
// exponentials under it, in float over at most a few hundred terms and in double from there.
#include "kernels/cuda/loss_product.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/trace.h"
#include "kernels/cuda/wide.h"

enum { THREADS = 256, WARPS = THREADS / 32, TOKENS = 4096 };
static const int64_t TILE_BYTES = 512 << 20;

// A maximum, the first place that has it, and sum e^(x - top).
struct running {
    float top;
    int best;
    double sum;
};

__device__ static running join(running a, running b) {
    bool second = b.top > a.top || (b.top == a.top && b.best < a.best);
    running high = second ? b : a, low = second ? a : b;
    if (low.sum != 0) // not e^(-inf - -inf)
        high.sum += low.sum * exp((double)low.top - (double)high.top);
    return high;
}

__device__ static running shuffled(running r, int d) {
    return running{__shfl_xor_sync(~0u, r.top, d), __shfl_xor_sync(~0u, r.best, d),
                   __shfl_xor_sync(~0u, r.sum, d)};
}

__global__ void __launch_bounds__(THREADS)
    token_losses(const float *logits, int64_t ld, int n, const int32_t *targets, double *loss,
                 int32_t *best) {
    __shared__ running part[WARPS];
    const float *row = logits + blockIdx.x * ld;
    float top = -INFINITY, sum = 0;
    int at = INT32_MAX;
    auto fold = [&](const float *v, int from, int count) {
        float high = v[0];
        for (int i = 1; i < count; i++)
            high = fmaxf(high, v[i]);
        if (high > top) {
            sum *= expf(top - high); // 0 at first
            top = high;
            for (int i = count - 1; i >= 0; i--)
                at = v[i] == high ? from + i : at;
        }
        for (int i = 0; i < count; i++)
            sum += expf(v[i] - top);
    };
    constexpr int SIDE = 4; // words on the way at once
    int words = n / 4, j = threadIdx.x;
    for (; j + (SIDE - 1) * THREADS < words; j += SIDE * THREADS) {
        float4 v[SIDE];
#pragma unroll
        for (int s = 0; s < SIDE; s++)
            v[s] = __ldcs((const float4 *)row + j + s * THREADS);
#pragma unroll
        for (int s = 0; s < SIDE; s++) {
            float x[4] = {v[s].x, v[s].y, v[s].z, v[s].w};
            fold(x, 4 * (j + s * THREADS), 4);
        }
    }
    for (; j < words; j += THREADS) {
        float4 v = __ldcs((const float4 *)row + j);
        float x[4] = {v.x, v.y, v.z, v.w};
        fold(x, 4 * j, 4);
    }
    for (j = 4 * words + threadIdx.x; j < n; j += THREADS)
        fold(row + j, j, 1);
    running r = {top, at, (double)sum};
    for (int d = 16; d; d >>= 1)
        r = join(r, shuffled(r, d));
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = r;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int w = 1; w < WARPS; w++)
        r = join(r, part[w]);
    int target = targets[blockIdx.x];
    double x = target >= 0 && target < n ? (double)row[target] : NAN;
    loss[blockIdx.x] = log(r.sum) + (double)r.top - x;
    best[blockIdx.x] = r.best < n ? r.best : 0; // all NaN: none
}

// What a token gets, and its target, one after the other for all tokens; loss and best leave together.
enum { ANSWER = sizeof(double) + 2 * sizeof(int32_t) };
struct places {
    double *loss;
    int32_t *best, *target;
    int64_t n;
    places(void *at, int64_t tokens) : loss((double *)at), n(tokens) {
        best = (int32_t *)(loss + n);
        target = best + n;
    }
    void send(backend *be, const int32_t *targets) const {
        cuda_ok(be,
                cudaMemcpyAsync(target, targets, (size_t)n * sizeof *target, cudaMemcpyHostToDevice,
                                of(be)->stream),
                "copy targets");
    }
};

// Logits in memory, a tile of tokens at a time.
static bool in_tiles(backend *be, mat x, mat head, const int32_t *targets, double **d_loss) {
    int64_t n = x.rows, ld = (head.rows + 3) / 4 * 4;
    auto bytes = [&](int64_t tokens) {
        return (size_t)(tokens * ld) * sizeof(float) + (size_t)n * ANSWER;
    };
    auto tokens_in = [&](int64_t room) {
        int64_t tokens = room / (ld * (int64_t)sizeof(float));
        tokens = tokens < 32 ? 32 : tokens > TOKENS ? TOKENS : tokens;
        return tokens < n ? tokens : n;
    };
    int64_t rows = tokens_in(TILE_BYTES);
    if (bytes(rows) > of(be)->scratch_bytes) { // never more than a part of what is free
        int64_t room = be->op->free_bytes(be) / 4;
        rows = tokens_in(room < TILE_BYTES ? room : TILE_BYTES);
    }
    float *logits = (float *)device_scratch(be, bytes(rows));
    if (!logits)
        return false;
    places at(logits + rows * ld, n);
    at.send(be, targets);
    for (int64_t t = 0; t < n; t += rows) {
        int64_t m = n - t < rows ? n - t : rows;
        cuda_linear(be, mat_rows(x, t, m), head, MAT_NONE,
                    mat{logits, m, head.rows, ld, sizeof(float)});
        traced fold(be, "losses from logits");
        token_losses<<<(unsigned)m, THREADS, 0, of(be)->stream>>>(
            logits, ld, (int)head.rows, at.target + t, at.loss + t, at.best + t);
        launched(be, "losses");
    }
    *d_loss = at.loss;
    return true;
}

static bool in_one(backend *be, mat x, mat head, const int32_t *targets, double **d_loss) {
    const size_t parts = (loss_product_bytes(x, head) + 15) / 16 * 16;
    char *d = (char *)device_scratch(be, parts + (size_t)x.rows * ANSWER);
    if (!d)
        return false;
    places at(d + parts, x.rows);
    at.send(be, targets);
    loss_product_run(be, x, head, at.target, d, at.loss, at.best);
    *d_loss = at.loss;
    return true;
}

void cuda_losses(backend *be, mat x, mat head, const int32_t *targets, double *loss,
                 int32_t *best) {
    const size_t n = (size_t)x.rows;
    if (n == 0)
        return;
    traced span(be, "losses");
    double *d_loss;
    bool one = loss_product_takes(be, x, head);
    if (one) { // never more than a part of what is free
        const size_t bytes = loss_product_bytes(x, head) + n * ANSWER;
        one = bytes <= of(be)->scratch_bytes || (int64_t)bytes <= be->op->free_bytes(be) / 4;
    }
    if (!(one ? in_one : in_tiles)(be, x, head, targets, &d_loss))
        return;
    trace_queued(of(be));
    const size_t answer = sizeof *loss + sizeof *best;
    cudaStream_t stream = of(be)->stream;
    char *host = (char *)host_scratch(be, n * answer); // waits for the above
    if (!host)
        return;
    cuda_ok(be, cudaMemcpyAsync(host, d_loss, n * answer, cudaMemcpyDeviceToHost, stream),
            "copy losses");
    if (!cuda_ok(be, cudaStreamSynchronize(stream), "losses"))
        return;
    memcpy(loss, host, n * sizeof *loss);
    memcpy(best, host + n * sizeof *loss, n * sizeof *best);
}
