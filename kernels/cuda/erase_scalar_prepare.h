// kernels/cuda/erase_scalar_prepare.h - everything of a chunk that does not depend on the state (erase_scalar.h), for all
// chunks and heads side by side: a block of two warpgroups a chunk and head, two on a multiprocessor.
#ifndef DELTOP_CUDA_ERASE_SCALAR_PREPARE_H
#define DELTOP_CUDA_ERASE_SCALAR_PREPARE_H

#include "kernels/cuda/erase_prepare.h"
#include "kernels/cuda/erase_scalar_tile.h"

typedef erase_form<half_terms, bf16, SCALAR_K, SCALAR_C, false> scalar_form; // of the inverse

// A sum of squares over a row of T that asks for second terms of R and X: both are then sums of 64 large numbers that
// cancel. beta = 2 and one key in every row have 1024 and lose 1.3e-2 of the state without, 4e-4 with them (emulated);
// keys with cosines of 0.9 and beta = 2 have 75 and lose 1.1e-3.
#define MANY 128.0f

struct scalar_making {
    unsigned char k[SCALAR_TILE], q[SCALAR_TILE];        // q: X later
    unsigned char t[SCALAR_PANEL], t_rest[SCALAR_PANEL]; // t: P later
    float s[SCALAR_C * prepare_map<scalar_form>::LINE];  // I + beta S, then its inverse
    float beta[SCALAR_C];
    float high[SCALAR_C], low[SCALAR_C]; // log2 decay through a row
    float up[SCALAR_C], down[SCALAR_C];  // exp(l), exp(l_C - l)
    int hard;                            // 1: second terms
};

// Decays of a chunk by one warp, two rows a lane, from its gates. A gate of zero (log decay -inf) counts as e^-10000.
ERASE_DEVICE void sum_decays(const float (&gate)[2], scalar_making *m, float *end) {
    const int lane = threadIdx.x % 32;
    double l[2];
#pragma unroll
    for (int e = 0; e < 2; e++)
        l[e] = 1.4426950408889634 * (double)(gate[e] < -10000 ? -10000 : gate[e]);
    double sum = l[0] + l[1];
    for (int d = 1; d < 32; d *= 2) {
        const double before = __shfl_up_sync(~0u, sum, d);
        if (lane >= d)
            sum += before;
    }
    const double before = __shfl_up_sync(~0u, sum, 1), all = __shfl_sync(~0u, sum, 31);
    l[0] += lane ? before : 0;
    l[1] += l[0];
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const int r = 2 * lane + e;
        m->high[r] = (float)l[e];
        m->low[r] = (float)(l[e] - (double)m->high[r]);
        m->up[r] = exp2f((float)l[e]);
        m->down[r] = exp2f((float)(all - l[e]));
    }
    if (lane == 0)
        *end = exp2f((float)all);
}

// A block for each head (x) and chunk (y).
static __global__ void __launch_bounds__(PREPARE_THREADS, 2)
    scalar_prepare(erase_call s, view<bf16> q, view<bf16> k, unsigned char *slots) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) unsigned char scalar_bytes[];
    scalar_making *m = (scalar_making *)scalar_bytes;
    constexpr int C = SCALAR_C, PANEL = SCALAR_PANEL, LINE = prepare_map<scalar_form>::LINE,
                  ITEMS = C / PREPARE_WARPS;
    const int tid = threadIdx.x, lane = tid % 32, group = __shfl_sync(~0u, tid / 128, 0),
              warp = __shfl_sync(~0u, tid / 32 % 4, 0);
    const int h = blockIdx.x, hk = h / (s.H / s.Hk);
    const int64_t t0 = (int64_t)blockIdx.y * s.tokens;
    const int rows = (int)min((int64_t)s.tokens, s.T - t0) * s.n_h;
    unsigned char *slot = slots + ((int64_t)blockIdx.y * s.H + h) * SCALAR_SLOT;

    float gate[2] = {}, strength = 0; // of warp 0; of the third and fourth
    if (tid < 32)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int r = 2 * lane + e;
            if (s.decay.p && r < rows && r % s.n_h == 0)
                gate[e] = s.decay.at((t0 + r / s.n_h) * s.decay.ld + h);
        }
    else if (tid >= 64 && tid - 64 < rows && tid - 64 < C)
        strength = s.beta.p ? s.beta.at((t0 * s.n_h + tid - 64) * s.beta.ld + h) : 1.0f;
    // A lane has eight channels of every eighth row.
    uint4 keys[ITEMS], queries[ITEMS];
    {
        const bool there = 8 * lane < s.K;
        const bf16 *from_k = k.row(t0 * s.n_h) + (int64_t)hk * s.K + 8 * lane,
                   *from_q = q.row(t0) + (int64_t)hk * s.K + 8 * lane;
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const int r = tid / 32 + PREPARE_WARPS * i;
            keys[i] = queries[i] = make_uint4(0, 0, 0, 0);
            if (there && r < rows) {
                keys[i] = *(const uint4 *)(from_k + r * k.ld);
                if (s.n_h == 1)
                    queries[i] = *(const uint4 *)(from_q + r * q.ld);
                else if ((r + 1) % s.n_h == 0) // read out behind a token's last row
                    queries[i] = *(const uint4 *)(from_q + r / s.n_h * q.ld);
            }
        }
    }
    if (tid == 0)
        m->hard = 0;
    if (tid < 32)
        sum_decays(gate, m, (float *)(slot + SCALAR_END));
    else if (tid >= 64 && tid < 64 + C)
        m->beta[tid - 64] = strength;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int r = tid / 32 + PREPARE_WARPS * i;
        const uint32_t at = lane / 8 * PANEL + swizzle(r, lane % 8);
        const float up = m->up[r];
        auto put_row = [&](uint4 x, float factor, unsigned char *plain, unsigned char *decayed) {
            const uint32_t from[4] = {x.x, x.y, x.z, x.w};
            uint32_t y[4], z[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float a = lower_bf16(from[j]), b = upper_bf16(from[j]);
                y[j] = pack_half(a, b);
                z[j] = pack_half(factor * a, factor * b);
            }
            *(uint4 *)(plain + at) = make_uint4(y[0], y[1], y[2], y[3]);
            *(uint4 *)(decayed + at) = make_uint4(z[0], z[1], z[2], z[3]);
        };
        put_row(keys[i], -up, m->k, slot + SCALAR_READ);
        put_row(queries[i], up, m->q, slot + SCALAR_QUERY);
    }
    fence_async();
    __syncthreads();

    // One warpgroup has K K^T, the other Q K^T, which stays where it is until T is there.
    float d[32];
    {
        const uint32_t left = shared_address(group ? m->q : m->k), right = shared_address(m->k);
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < 16; j++)
            wgmma<64>::ss(d, desc_k(left + j / 4 * PANEL) + 2 * (j % 4),
                          desc_k(right + j / 4 * PANEL) + 2 * (j % 4), j > 0);
        wgmma_commit();
        wgmma_wait<0>();
    }
    const int row = 16 * warp + lane / 4, pair = 2 * (lane % 4);
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const int r = row + 8 * e;
        const float high = m->high[r], low = m->low[r], by = group ? 1 : m->beta[r];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float *x = d + 4 * j + 2 * e;
            const int c = 8 * j + pair;
            if (8 * j >= 16 * (warp + 1)) {
                x[0] = x[1] = 0;
                continue;
            }
            const float2 a = *(const float2 *)(m->high + c), b = *(const float2 *)(m->low + c);
            x[0] = c <= r ? by * x[0] * exp2_fast((high - a.x) + (low - b.x)) : 0;
            x[1] = c + 1 <= r ? by * x[1] * exp2_fast((high - a.y) + (low - b.y)) : 0;
            if (group == 0)
                *(float2 *)(m->s + r * LINE + c) = make_float2(x[0], x[1]);
        }
    }
    __syncthreads();
    if (tid < C)
        invert_block<scalar_form>(m->s, tid);
    __syncthreads();
    merge_blocks<scalar_form, 16>(m->s);
    merge_blocks<scalar_form, 32>(m->s);

    // T as an operand; where it is not small what rounding took off goes along as a second term (erase_prepare.h).
    bool large = false;
    for (int i = tid; i < C * C / 8; i += PREPARE_THREADS) {
        const int r = i / (C / 8), c = i % (C / 8) * 8;
        float x[8], squares = 0;
        load8(m->s + r * LINE + c, x);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            x[j] = c + j > r ? 0 : x[j] * m->beta[c + j];
            large |= c + j < r && fabsf(x[j]) > LARGE;
            squares += x[j] * x[j];
        }
        for (int e = 1; e < C / 8; e *= 2) // eight lanes have a row
            squares += __shfl_xor_sync(~0u, squares, e);
        if (squares > MANY)
            m->hard = 1;
        tile_store8<C>((__half *)m->t, r, c, x);
#pragma unroll
        for (int j = 0; j < 8; j++)
            x[j] = rest_of<__half>(x[j]);
        tile_store8<C>((__half *)m->t_rest, r, c, x);
    }
    fence_async();
    const bool two_terms = __syncthreads_or(large);
    const bool hard = m->hard, leader = tid % 128 == 0;
    if (tid == 0)
        ((float *)(slot + SCALAR_END))[1] = hard;

    if (group == 1) { // P
        uint32_t a[16], rest[16];
#pragma unroll
        for (int i = 0; i < 16; i++) {
            a[i] = pack_half(d[2 * i], d[2 * i + 1]);
            rest[i] = pack_rest(d[2 * i], d[2 * i + 1], a[i]);
        }
        float p[32];
        const uint64_t t = desc_mn(shared_address(m->t), PANEL),
                       t_rest = desc_mn(shared_address(m->t_rest), PANEL);
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < 4; j++)
            wgmma<64>::rs<1>(p, a + 4 * j, t + 128 * j, j > 0);
        wgmma_commit();
        wgmma_wait<0>();
        if (two_terms) {
            wgmma_fence();
#pragma unroll
            for (int j = 0; j < 4; j++) {
                wgmma<64>::rs<1>(p, rest + 4 * j, t + 128 * j, 1);
                wgmma<64>::rs<1>(p, a + 4 * j, t_rest + 128 * j, 1);
            }
            wgmma_commit();
            wgmma_wait<0>();
        }
        named_barrier(2, 128); // T is read
        store_panels<64>(shared_address(m->t), p, warp, lane);
    }
    // X: a warpgroup has half of the channels.
    uint32_t a[16], rest[16];
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int column = row + 8 * (i % 2), from = 16 * (i / 4) + 8 * (i / 2 % 2) + pair;
        float x[2];
#pragma unroll
        for (int e = 0; e < 2; e++)
            x[e] = from + e < column
                       ? 0.0f
                       : m->s[(from + e) * LINE + column] * m->down[from + e] * m->beta[column];
        a[i] = pack_half(x[0], x[1]);
        rest[i] = pack_rest(x[0], x[1], a[i]);
    }
    float x[64];
    const uint64_t key = desc_mn(shared_address(m->k) + 2 * group * PANEL, PANEL);
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < 4; j++)
        wgmma<128>::rs<1>(x, a + 4 * j, key + 128 * j, j > 0);
    wgmma_commit();
    wgmma_wait<0>();
    if (two_terms) {
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < 4; j++)
            wgmma<128>::rs<1>(x, rest + 4 * j, key + 128 * j, 1);
        wgmma_commit();
        wgmma_wait<0>();
    }
    store_panels<128>(shared_address(m->q) + 2 * group * PANEL, x, warp, lane);
    fence_async();
    if (group)
        named_barrier(2, 128);
    else
        named_barrier(1, 128);
    if (leader) {
        copy_out(slot + SCALAR_WRITE + 2 * group * PANEL, shared_address(m->q) + 2 * group * PANEL,
                 2 * PANEL);
        if (group == 1)
            copy_out(slot + SCALAR_SCORES, shared_address(m->t), PANEL);
    }
    if (hard) {
        __syncthreads(); // the keys are read
#pragma unroll
        for (int i = 0; i < 64; i++)
            x[i] = rest_of<__half>(x[i]);
        store_panels<128>(shared_address(m->k) + 2 * group * PANEL, x, warp, lane);
        fence_async();
        if (group)
            named_barrier(2, 128);
        else
            named_barrier(1, 128);
        if (leader)
            copy_out(slot + SCALAR_REST + 2 * group * PANEL,
                     shared_address(m->k) + 2 * group * PANEL, 2 * PANEL);
    }
    if (leader)
        copies_out_wait();
#endif
}

#endif
