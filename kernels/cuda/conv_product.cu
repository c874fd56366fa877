// Projection and short convolutions in one pass over Hopper's tensor cores (tile_product.h): y = head_norm(silu(conv(x w^T)))
// (conv_part in core/backend.h); the projection itself is never in memory, but for the new tails.
//
// Channels are the rows of a tile, 128 of them, a head where there is a norm; of its 256 tokens the first three belong to the
// tile before, or are the old tail: they are there for the others. Half a warp that finishes has all channels, eight a lane, of
// a run of tokens, one after the other, as in conv_heads.cu.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/tile_product.h"
#include "kernels/cuda/trace.h"
#include "kernels/cuda/wide.h"

enum {
    LEAST_ROWS = 512,
    PARTS = 4,
    PAST = 3,                     // tokens before one's own that a convolution reads
    TOKENS = TILE_COLUMNS - PAST, // that a tile adds
    RUN = 44,                     // of half a warp; a multiple of PAST + 1
};

struct conv_columns {
    const bf16 *w; // [channels][4]
    const float *bias;
    const bf16 *tail; // as it was: [3][channels]
    bf16 *new_tail, *y;
    int64_t tail_ld, y_ld; // of the new tail
    int first, end;        // channels of the projection
    bool norm;
    float under, most; // of a norm: 1 / sqrt(sum + under), at most `most`
};

struct conv_call {
    CUtensorMap x, w;
    conv_columns part[PARTS];
    int parts, channels, tokens;
    tile_grid grid;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
struct conv {
    const conv_call &c;
    float tap[PAST + 1][8], bias[8];
    int part;

    HOPPER_DEVICE conv(const conv_call &call) : c(call), part(0) {}
    HOPPER_DEVICE void prefetch() const {
        prefetch_map(&c.x);
        prefetch_map(&c.w);
    }
    HOPPER_DEVICE void fetch_a(uint32_t to, int k, int tile, uint64_t *full) const {
        tile_copy(to, &c.w, k, tile * TILE_ROWS, 0, false, full);
    }
    HOPPER_DEVICE void fetch_b(uint32_t to, int k, int tile, int half, uint64_t *full) const {
        tile_copy(to, &c.x, k, tile * TOKENS - PAST + half * (TILE_COLUMNS / 2), 0, true, full);
    }
    HOPPER_DEVICE void put(uint32_t sums, int group, const float (&d)[128]) const {
        tile_put_turned(sums, group, d);
    }
    HOPPER_DEVICE int channel(int a) const { // this lane's first, in its part
        return a * TILE_ROWS - c.part[part].first + 8 * (finisher() % 16);
    }
    HOPPER_DEVICE void ahead(int a, int) {
        if (a * TILE_ROWS >= c.channels)
            return;
        part = 0;
        while (part + 1 < c.parts && a * TILE_ROWS >= c.part[part].end)
            part++;
        const conv_columns &p = c.part[part];
        const int at = channel(a);
#pragma unroll
        for (int i = 0; i < PAST + 1; i++) { // eight channels' taps are four words
            float v[8];
            unpack(load_word(p.w + (int64_t)at * (PAST + 1) + i * 8), v);
#pragma unroll
            for (int j = 0; j < 8; j++)
                tap[j % 4][2 * i + j / 4] = v[j];
        }
#pragma unroll
        for (int j = 0; j < 8; j++)
            bias[j] = 0;
        if (p.bias)
            load_floats(p.bias + at, bias);
    }
    HOPPER_DEVICE static uint4 row(const unsigned char *sums, int at) {
        return *(const uint4 *)(sums + tile_place<16>(at, finisher() % 16));
    }
    template <bool NORM> HOPPER_DEVICE void run(const unsigned char *sums, int b) const {
        const conv_columns &p = c.part[part];
        const int token = b * TOKENS, first = finisher() / 16 * RUN; // of the tile's own
        const int live = min(TOKENS, c.tokens - token) - first;
        bf16 *to = p.y + (int64_t)(token + first) * p.y_ld + channel_now;
        float x[PAST + 1][8]; // the token at i is x[(i + 3) % 4]
#pragma unroll
        for (int i = 0; i < PAST; i++)
            if (b == 0 && first == 0)
                unpack(load_word(p.tail + (int64_t)i * (p.end - p.first) + channel_now), x[i]);
            else
                unpack(row(sums, first + i), x[i]);
#pragma unroll 1
        for (int i = 0; i < RUN; i += PAST + 1) {
            uint4 in[PAST + 1];
#pragma unroll
            for (int n = 0; n < PAST + 1; n++)
                in[n] = row(sums, min(PAST + first + i + n, TILE_COLUMNS - 1));
#pragma unroll
            for (int n = 0; n < PAST + 1; n++) {
                unpack(in[n], x[(n + PAST) % 4]);
                float y[8], sum = 0;
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    float z = bias[j];
#pragma unroll
                    for (int k = 0; k < PAST + 1; k++)
                        z += tap[k][j] * x[(n + k) % 4][j];
                    y[j] = z * quick_sigmoid(z);
                    sum += y[j] * y[j];
                }
                if constexpr (NORM) {
#pragma unroll
                    for (int d = 8; d; d /= 2)
                        sum += __shfl_xor_sync(~0u, sum, d);
                    float by;
                    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(by) : "f"(in_range(sum) + p.under));
                    by = by > p.most ? p.most : by; // fmin would pass over NaN
#pragma unroll
                    for (int j = 0; j < 8; j++)
                        y[j] *= by;
                }
                if (i + n < live)
                    store_word(to, y);
                to += p.y_ld;
            }
        }
    }
    int channel_now;
    HOPPER_DEVICE void work(const unsigned char *sums, int a, int b) {
        if (a * TILE_ROWS >= c.channels)
            return;
        const conv_columns &p = c.part[part];
        channel_now = channel(a);
        if (p.norm)
            run<true>(sums, b);
        else
            run<false>(sums, b);
        const int last = c.tokens - b * TOKENS, i = finisher() / 16; // of the new tail
        if (last <= TOKENS && i < PAST)
            *(uint4 *)(p.new_tail + i * p.tail_ld + channel_now) = row(sums, last + i);
    }
};
#endif

__global__ void __launch_bounds__(TILE_THREADS, 1)
    conv_product(const __grid_constant__ conv_call c) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    conv p(c);
    tile_finished(p, c.grid);
#endif
}

// The tails as they are before the call: a block that is early may leave a new one before a late one has read the old.
struct tail_copy {
    const uint4 *from[PARTS];
    uint4 *to[PARTS];
    int ld[PARTS], words[PARTS]; // in words
};
__global__ void copy_tails(const __grid_constant__ tail_copy c) {
    const int part = blockIdx.y, row = blockIdx.z;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < c.words[part];
         i += gridDim.x * blockDim.x)
        c.to[part][row * c.words[part] + i] = c.from[part][(int64_t)row * c.ld[part] + i];
}

static bool takes(const conv_part *p, int64_t at) {
    return p->w.esize == 2 && p->w.cols == PAST + 1 && p->w.ld == PAST + 1 &&
           (uintptr_t)p->w.p % 16 == 0 && (mat_none(p->bias) || p->bias.esize == 4) &&
           p->tail.esize == 2 && wide(p->tail) && p->y.esize == 2 && wide(p->y) &&
           at % TILE_ROWS == 0 && p->y.cols % TILE_ROWS == 0 && p->act == ACT_SILU &&
           (p->norm == HEAD_NORM_NONE || (p->norm != HEAD_NORM_L1 && p->head_dim == TILE_ROWS));
}

bool cuda_linear_conv(backend *be, mat x, mat w, const conv_part *part, int n) {
    if (n < 1 || n > PARTS || x.esize != 2 || w.esize != 2 || x.rows < LEAST_ROWS ||
        x.rows > INT32_MAX / 2 || !wide(x) || !wide(w) || !of(be)->hopper)
        return false;
    int64_t at = 0;
    for (int i = 0; i < n; at += part[i].y.cols, i++)
        if (!takes(&part[i], at))
            return false;
    if (at != w.rows)
        return false;
    traced span(be, "linear_conv");
    bf16 *old = (bf16 *)device_scratch(be, (size_t)(PAST * at) * sizeof *old);
    if (!old)
        return true;
    conv_call c = {};
    tail_copy tails = {};
    cudaError_t r = tile_map(&c.x, x, TILE_COLUMNS / 2);
    if (r == cudaSuccess)
        r = tile_map(&c.w, w, TILE_ROWS);
    at = 0;
    for (int i = 0; i < n && r == cudaSuccess; i++) {
        const conv_part *p = &part[i];
        const bool floored = p->norm == HEAD_NORM_L2_FLOOR;
        conv_columns *to = &c.part[i];
        to->w = (const bf16 *)p->w.p;
        to->bias = (const float *)p->bias.p;
        to->tail = old + PAST * at;
        to->new_tail = (bf16 *)p->tail.p;
        to->tail_ld = p->tail.ld;
        to->first = (int)at;
        at += p->y.cols;
        to->end = (int)at;
        to->norm = p->norm != HEAD_NORM_NONE;
        to->under = floored ? 0 : (float)p->eps;
        to->most = floored ? 1 / (float)p->eps : INFINITY;
        to->y = (bf16 *)p->y.p;
        to->y_ld = p->y.ld;
        tails.from[i] = (const uint4 *)p->tail.p;
        tails.to[i] = (uint4 *)to->tail;
        tails.ld[i] = (int)(p->tail.ld / 8);
        tails.words[i] = (int)(p->tail.cols / 8);
    }
    c.parts = n;
    c.channels = (int)at;
    c.tokens = (int)x.rows;
    c.grid.pairs_of_rows = (int)((at + 2 * TILE_ROWS - 1) / (2 * TILE_ROWS));
    c.grid.columns = (int)((x.rows + TOKENS - 1) / TOKENS);
    c.grid.stages = (int)((x.cols + TILE_DEPTH - 1) / TILE_DEPTH);
    c.grid.together = c.grid.pairs_of_rows;
    if (r == cudaSuccess) {
        copy_tails<<<dim3(2, (unsigned)n, PAST), 128, 0, of(be)->stream>>>(tails);
        launched(be, "convolutions' tails");
        r = tile_launch<TILE_SUMS>(be, conv_product, c);
    }
    cuda_ok(be, r, "product and convolutions");
    return true;
}
