// kernels/cuda/delta_scan.h - the states that the segments of a row begin with (delta.cu): H <- M_s H + N_s from segment
// to segment, in float32. M_s is what a segment does to a state, N_s what it ends with when it begins with nothing.
//
// One block a head and 16 columns of the values, a warp 16 channels of them; it walks through the segments one by one, so
// the way from one to the next is all that counts: transitions come in two segments ahead, ends while products are summed.
// Products are those of warp_product.h, three of TF32 numbers each.
#ifndef DELTOP_CUDA_DELTA_SCAN_H
#define DELTOP_CUDA_DELTA_SCAN_H

#include "kernels/cuda/delta_tile.h"
#include "kernels/cuda/warp_product.h"

// Scratch: gates of all chunks (16-byte aligned, hence first); states at the segments' ends, transitions of segments, which
// of these are nothing.
struct segment_space {
    unsigned char *gates; // [rows][H][chunks] of gates_bytes
    float *ends;          // [segments - 1][rows H][K][V]
    float *transitions;   // [segments - 1][rows H][K][K]; segment 0 and the last have none
    int *nothing;         // [segments - 1][rows H]
};

enum {
    SCAN_THREADS = 256,
    SCAN_COLUMNS = 16,
    SCAN_AHEAD = 2,
    SCAN_PITCH = WIDTH + 4,   // of M
    STATE_PITCH = SCAN_COLUMNS + 4, // of H: four rows two apart in different banks
};

struct scan_shared {
    float m[SCAN_AHEAD + 1][WIDTH * SCAN_PITCH];
    float h[2][WIDTH * STATE_PITCH]; // before and after
};

// The states replace N.
__global__ void __launch_bounds__(SCAN_THREADS)
    scan_segments(const __grid_constant__ delta_call s, segment_space space, bool gated) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    scan_shared *m = (scan_shared *)bytes;
    const int head = blockIdx.x, v0 = blockIdx.y * SCAN_COLUMNS, tid = threadIdx.x;
    const int warp = tid / 32, lane = tid % 32;
    const int64_t heads = (int64_t)s.n_rows * s.H;
    const int last = s.segments - 1;
    auto end_of = [&](int segment) {
        return space.ends + ((int64_t)segment * heads + head) * s.K * s.V + v0;
    };
    auto kept = [&](int segment) { return !gated || !space.nothing[segment * heads + head]; };
    auto fetch = [&](int segment) {
        if (segment < last && kept(segment)) {
            const float *from =
                space.transitions + ((int64_t)segment * heads + head) * s.K * s.K + 4 * lane;
            const uint32_t to = shared_address(m->m[segment % (SCAN_AHEAD + 1)]) + 16 * lane;
            if (4 * lane < s.K)
                for (int k = warp; k < s.K; k += SCAN_THREADS / 32)
                    copy16(to + 4 * k * SCAN_PITCH, from + k * s.K);
        }
        copy_commit();
    };
    // This lane's part of 16 x 16 numbers, as products have it: pairs, [8 columns on][8 rows on].
    auto row = [&](int r) { return 16 * warp + lane / 4 + 8 * r; };
    auto column = [&](int c) { return 8 * c + 2 * (lane % 4); };
    auto exists = [&](int c, int r) { return row(r) < s.K && v0 + column(c) < s.V; };
    auto load_end = [&](int segment, float (&x)[2][4]) {
#pragma unroll
        for (int c = 0; c < 2; c++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float2 y = make_float2(0, 0);
                if (exists(c, r))
                    y = *(const float2 *)(end_of(segment) + (int64_t)row(r) * s.V + column(c));
                x[c][2 * r] = y.x;
                x[c][2 * r + 1] = y.y;
            }
    };
    auto place = [&](int which, int c, int r) {
        return (float2 *)(m->h[which] + row(r) * STATE_PITCH + column(c));
    };
    if (s.K < WIDTH) // what no copy writes
        for (int i = tid; i < (int)(sizeof m->m / 16); i += SCAN_THREADS)
            ((float4 *)m->m)[i] = make_float4(0, 0, 0, 0);
    __syncthreads();
    for (int a = 1; a <= SCAN_AHEAD; a++)
        fetch(a);
    float x[2][4];
    load_end(0, x);
#pragma unroll
    for (int c = 0; c < 2; c++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            *place(0, c, r) = make_float2(x[c][2 * r], x[c][2 * r + 1]);
    for (int segment = 1; segment < last; segment++) {
        const int before = (segment - 1) % 2;
        load_end(segment, x);
        const bool keeps = kept(segment);
        copy_wait<SCAN_AHEAD - 1>();
        __syncthreads(); // M and H are there, and nobody needs the M before
        fetch(segment + SCAN_AHEAD);
        float sum[2][4] = {};
        if (keeps)
#pragma unroll 2
            for (int k = 0; k < s.K; k += 16) {
                typedef product<float> P;
                P::right b[2];
                P::right_columns(b, m->h[before] + k * STATE_PITCH, STATE_PITCH);
                const P::left a = P::left_rows(m->m[segment % (SCAN_AHEAD + 1)] +
                                                   16 * warp * SCAN_PITCH + k,
                                               SCAN_PITCH);
                P::add(sum[0], a, b[0], true);
                P::add(sum[1], a, b[1], true);
            }
#pragma unroll
        for (int c = 0; c < 2; c++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float2 y = make_float2(x[c][2 * r] + sum[c][2 * r],
                                       x[c][2 * r + 1] + sum[c][2 * r + 1]);
                if (!keeps) { // nothing is left but what is no number
                    const float2 h = *place(before, c, r);
                    y.x += 0.0f * h.x;
                    y.y += 0.0f * h.y;
                }
                *place(1 - before, c, r) = y;
                if (exists(c, r))
                    *(float2 *)(end_of(segment) + (int64_t)row(r) * s.V + column(c)) = y;
            }
    }
}

static cudaError_t launch_scan(const delta_call &s, segment_space space, cudaStream_t stream) {
    cudaError_t r = cudaFuncSetAttribute(scan_segments, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         sizeof(scan_shared));
    if (r != cudaSuccess)
        return r;
    const dim3 grid((unsigned)(s.n_rows * s.H),
                    (unsigned)((s.V + SCAN_COLUMNS - 1) / SCAN_COLUMNS));
    scan_segments<<<grid, SCAN_THREADS, sizeof(scan_shared), stream>>>(s, space, s.decay != NULL);
    return cudaGetLastError();
}

#endif
