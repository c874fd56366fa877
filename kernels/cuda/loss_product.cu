// Losses without logits in memory: tiles of 128 tokens x 256 words on Hopper's tensor cores (tile_product.h), of which a
// token's maximum with its place and the sum of exponentials under it are left; then these are joined.
#include "kernels/cuda/loss_product.h"
#include "kernels/cuda/tile_product.h"

enum {
    LEAST_ROWS = 512,
    TOGETHER = 16, // pairs of rows: their x and the head's next tiles share the L2 cache
};

struct loss_call {
    CUtensorMap x, head;
    tile_grid grid;
    loss_parts parts;
    const int32_t *targets;
    int tokens, words;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
struct losses {
    const loss_call &c;
    HOPPER_DEVICE void prefetch() const {
        prefetch_map(&c.x);
        prefetch_map(&c.head);
    }
    HOPPER_DEVICE void fetch_a(uint32_t to, int k, int tile, uint64_t *full) const {
        tile_copy(to, &c.x, k, tile * TILE_ROWS, 0, false, full);
    }
    HOPPER_DEVICE void fetch_b(uint32_t to, int k, int tile, int half, uint64_t *full) const {
        tile_copy(to, &c.head, k, tile * TILE_COLUMNS + half * (TILE_COLUMNS / 2), 0, true, full);
    }
    // One of a thread's two rows, e = 0, 1: its logits are d[4 j + 2 e + {0, 1}], words 8 j + {0, 1} from `word` on.
    template <int e>
    HOPPER_DEVICE void row(const float (&d)[128], int token, int tile, int word, int target) const {
        float top = d[2 * e];
#pragma unroll
        for (int j = 0; j < 32; j++)
            top = fmaxf(top, fmaxf(d[4 * j + 2 * e], d[4 * j + 2 * e + 1]));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        int best = INT32_MAX;
#pragma unroll
        for (int j = 31; j >= 0; j--) {
            best = d[4 * j + 2 * e + 1] == top ? word + 8 * j + 1 : best;
            best = d[4 * j + 2 * e] == top ? word + 8 * j : best;
        }
        best = min(best, __shfl_xor_sync(~0u, best, 1));
        best = min(best, __shfl_xor_sync(~0u, best, 2));
        // e^(x - top) = 2^(x l - top l); what the rounding of top l takes off is common to all.
        const float l = 1.44269504f, high = top * l, rest = fmaf(top, l, -high);
        float sum[2] = {0, 0};
#pragma unroll
        for (int j = 0; j < 32; j++) {
            sum[0] += exp2_fast(fmaf(d[4 * j + 2 * e], l, -high));
            sum[1] += exp2_fast(fmaf(d[4 * j + 2 * e + 1], l, -high));
        }
        float all = (sum[0] + sum[1]) * exp2_fast(-rest);
        all += __shfl_xor_sync(~0u, all, 1);
        all += __shfl_xor_sync(~0u, all, 2);
        if (token >= c.tokens)
            return;
        const int64_t at = (int64_t)tile * c.tokens + token;
        if (threadIdx.x % 4 == 0) {
            c.parts.top[at] = top;
            c.parts.best[at] = best;
            c.parts.sum[at] = all;
        }
        const int own = target - word;
        if (own >= 0 && own < TILE_COLUMNS && own % 8 < 2) {
            float x = 0;
#pragma unroll
            for (int j = 0; j < 32; j++) {
                x = own == 8 * j ? d[4 * j + 2 * e] : x;
                x = own == 8 * j + 1 ? d[4 * j + 2 * e + 1] : x;
            }
            c.parts.target[token] = x;
        }
    }
    HOPPER_DEVICE void fold(int group, int a, int b, float (&d)[128]) const {
        const int token =
            a * TILE_ROWS + 64 * group + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
        const int word = b * TILE_COLUMNS + 2 * (threadIdx.x % 4);
        const int target[2] = {token < c.tokens ? c.targets[token] : -1,
                               token + 8 < c.tokens ? c.targets[token + 8] : -1};
        if ((b + 1) * TILE_COLUMNS > c.words) // what is no word
#pragma unroll
            for (int i = 0; i < 128; i++)
                d[i] = word + 8 * (i / 4) + i % 2 < c.words ? d[i] : -INFINITY;
        row<0>(d, token, b, word, target[0]);
        row<1>(d, token + 8, b, word, target[1]);
    }
};
#endif

__global__ void __launch_bounds__(TILE_THREADS, 1)
    loss_product(const __grid_constant__ loss_call c) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    losses p{c};
    tile_folded(p, c.grid);
#endif
}

__global__ void join_losses(loss_parts p, int tiles, int tokens, int words, const int32_t *targets,
                            double *loss, int32_t *best) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= tokens)
        return;
    float top = -INFINITY;
    int at = INT32_MAX;
    for (int i = 0; i < tiles; i++) {
        const float x = p.top[(int64_t)i * tokens + t];
        if (x > top) {
            top = x;
            at = p.best[(int64_t)i * tokens + t];
        }
    }
    double sum = 0;
    for (int i = 0; i < tiles; i++) {
        const float part = p.sum[(int64_t)i * tokens + t];
        if (part != 0) // not e^(-inf - -inf)
            sum += (double)(part * expf(p.top[(int64_t)i * tokens + t] - top));
    }
    const int target = targets[t];
    const double x = target >= 0 && target < words ? (double)p.target[t] : NAN;
    loss[t] = log(sum) + (double)top - x;
    best[t] = at < words ? at : 0; // all NaN: none
}

size_t loss_product_bytes(mat x, mat head) {
    const size_t tiles = (size_t)((head.rows + TILE_COLUMNS - 1) / TILE_COLUMNS);
    return (3 * tiles + 1) * (size_t)x.rows * sizeof(float);
}

bool loss_product_takes(backend *be, mat x, mat head) {
    return x.esize == 2 && head.esize == 2 && x.rows >= LEAST_ROWS && x.rows < INT32_MAX / 2 &&
           head.rows >= TILE_COLUMNS && head.rows < INT32_MAX / 2 && wide(x) && wide(head) &&
           of(be)->hopper;
}

void loss_product_run(backend *be, mat x, mat head, const int32_t *targets, void *scratch,
                      double *loss, int32_t *best) {
    loss_call c = {};
    const int tiles = (int)((head.rows + TILE_COLUMNS - 1) / TILE_COLUMNS);
    const size_t parts = (size_t)tiles * (size_t)x.rows;
    c.parts.top = (float *)scratch;
    c.parts.sum = c.parts.top + parts;
    c.parts.best = (int *)(c.parts.sum + parts);
    c.parts.target = (float *)(c.parts.best + parts);
    c.targets = targets;
    c.tokens = (int)x.rows;
    c.words = (int)head.rows;
    c.grid.pairs_of_rows = (int)((x.rows + 2 * TILE_ROWS - 1) / (2 * TILE_ROWS));
    c.grid.columns = tiles;
    c.grid.stages = (int)((x.cols + TILE_DEPTH - 1) / TILE_DEPTH);
    c.grid.together = TOGETHER;
    cudaError_t r = tile_map(&c.x, x, TILE_ROWS);
    if (r == cudaSuccess)
        r = tile_map(&c.head, head, TILE_COLUMNS / 2);
    if (r == cudaSuccess)
        r = tile_launch<0>(be, loss_product, c);
    if (cuda_ok(be, r, "losses")) {
        join_losses<<<blocks_for(x.rows, 256), 256, 0, of(be)->stream>>>(
            c.parts, tiles, c.tokens, c.words, targets, loss, best);
        launched(be, "losses");
    }
}
