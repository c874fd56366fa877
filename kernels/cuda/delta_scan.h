// kernels/cuda/delta_scan.h - the states that the segments of a row begin with (delta.cu): H <- M_s H + N_s from segment
// to segment, in float32. M_s is what a segment does to a state, N_s what it ends with when it begins with nothing.
//
// One block a head and `columns` of the values; it walks through the segments one by one, so the way from one to the next
// is all that counts: transitions come in two segments ahead, ends while products are summed.
#ifndef DELTOP_CUDA_DELTA_SCAN_H
#define DELTOP_CUDA_DELTA_SCAN_H

#include "kernels/cuda/delta_rows.h"

// Scratch: rows and gates of all chunks (16-byte aligned, hence first); states at the segments' ends, transitions of segments, which
// of these are nothing.
struct segment_space {
    delta_row *rows;      // the table, or none
    unsigned char *gates; // [rows][H][chunks] of gates_bytes
    float *ends;          // [rows][segments][H][K][V]
    float *transitions;   // [rows][segments][H][K][K]; segment 0 and the last have none
    int *nothing;         // [rows][segments][H]
};

enum { SCAN_THREADS = 256, SCAN_PITCH = WIDTH + 4, SCAN_AHEAD = 2 };

template <int columns> struct scan_shared {
    // Threads that share a sum: each a stretch of the channels.
    static constexpr int parts = SCAN_THREADS / (32 * columns / 4);
    float m[SCAN_AHEAD + 1][WIDTH * SCAN_PITCH];
    float h[WIDTH * columns], part[parts][WIDTH * columns];
};

// The states replace N.
template <int columns>
__global__ void __launch_bounds__(SCAN_THREADS)
    scan_segments(const __grid_constant__ delta_call s, segment_space space, bool gated) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    enum {
        FOURS = columns / 4,
        PARTS = scan_shared<columns>::parts,
        OWN = WIDTH * FOURS / SCAN_THREADS
    };
    scan_shared<columns> *m = (scan_shared<columns> *)bytes;
    const delta_row row = row_of(s, blockIdx.x / s.H);
    const int64_t heads = s.H, head = (int64_t)row.piece0 * s.H + blockIdx.x % s.H;
    const int v0 = blockIdx.y * columns, tid = threadIdx.x;
    const int last = segments_of(s, row) - 1;
    // This thread's sums: rows rg + 32 i of four columns, over the channels of one part.
    const int p = tid / (32 * FOURS), rg = tid % (32 * FOURS) / FOURS, cg = tid % FOURS;
    auto end_of = [&](int segment) {
        return space.ends + ((int64_t)segment * heads + head) * s.K * s.V + v0;
    };
    auto kept = [&](int segment) { return !gated || !space.nothing[segment * heads + head]; };
    auto fetch = [&](int segment) {
        if (segment < last && kept(segment)) {
            const float *from =
                space.transitions + ((int64_t)segment * heads + head) * s.K * s.K + 4 * (tid % 32);
            const uint32_t to = shared_address(m->m[segment % (SCAN_AHEAD + 1)]) + 16 * (tid % 32);
            if (4 * (tid % 32) < s.K)
                for (int k = tid / 32; k < s.K; k += SCAN_THREADS / 32)
                    copy16(to + 4 * k * SCAN_PITCH, from + k * s.K);
        }
        copy_commit();
    };
    // Four values of state row tid / FOURS + e times as many; V is a multiple of 8, so all of them exist or none.
    auto own_row = [&](int e) { return tid / FOURS + e * (SCAN_THREADS / FOURS); };
    auto exists = [&](int e) { return own_row(e) < s.K && v0 + 4 * cg < s.V; };
    auto load_own = [&](int segment, float4(&x)[OWN]) {
#pragma unroll
        for (int e = 0; e < OWN; e++)
            x[e] = exists(e)
                       ? *(const float4 *)(end_of(segment) + (int64_t)own_row(e) * s.V + 4 * cg)
                       : make_float4(0, 0, 0, 0);
    };
    for (int a = 1; a <= SCAN_AHEAD; a++)
        fetch(a);
    float4 x[OWN];
    load_own(0, x);
#pragma unroll
    for (int e = 0; e < OWN; e++)
        *(float4 *)(m->h + own_row(e) * columns + 4 * cg) = x[e];
    for (int segment = 1; segment < last; segment++) {
        fetch(segment + SCAN_AHEAD);
        load_own(segment, x);
        float acc[4][4] = {};
        copy_wait<SCAN_AHEAD>();
        __syncthreads();
        const bool keeps = kept(segment);
        if (keeps) {
            const float *t = m->m[segment % (SCAN_AHEAD + 1)];
            const int k0 = p * (WIDTH / PARTS), k1 = min(s.K, k0 + WIDTH / PARTS);
#pragma unroll 4
            for (int k = k0; k < k1; k += 4) {
                float4 a[4], b[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    a[i] = *(const float4 *)(t + (rg + 32 * i) * SCAN_PITCH + k);
                    b[i] = *(const float4 *)(m->h + (k + i) * columns + 4 * cg);
                }
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float w[4] = {a[i].x, a[i].y, a[i].z, a[i].w};
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        acc[i][0] += w[j] * b[j].x;
                        acc[i][1] += w[j] * b[j].y;
                        acc[i][2] += w[j] * b[j].z;
                        acc[i][3] += w[j] * b[j].w;
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            *(float4 *)(m->part[p] + (rg + 32 * i) * columns + 4 * cg) =
                make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
        __syncthreads();
#pragma unroll
        for (int e = 0; e < OWN; e++) {
            const int at = own_row(e) * columns + 4 * cg;
            float4 *h = (float4 *)(m->h + at), sum = x[e];
            if (!keeps) { // nothing is left but what is no number
                sum.x += 0.0f * h->x, sum.y += 0.0f * h->y;
                sum.z += 0.0f * h->z, sum.w += 0.0f * h->w;
            }
#pragma unroll
            for (int q = 0; q < PARTS; q++) {
                const float4 y = *(const float4 *)(m->part[q] + at);
                sum.x += y.x, sum.y += y.y, sum.z += y.z, sum.w += y.w;
            }
            *h = sum;
            if (exists(e))
                *(float4 *)(end_of(segment) + (int64_t)own_row(e) * s.V + 4 * cg) = sum;
        }
    }
}

template <int columns>
static cudaError_t launch_scan(const delta_call &s, segment_space space, cudaStream_t stream) {
    const int bytes = sizeof(scan_shared<columns>);
    cudaError_t r = cudaFuncSetAttribute(scan_segments<columns>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (r != cudaSuccess)
        return r;
    const dim3 grid((unsigned)(s.longer[2] * s.H), (unsigned)((s.V + columns - 1) / columns));
    scan_segments<columns><<<grid, SCAN_THREADS, bytes, stream>>>(s, space, s.decay != NULL);
    return cudaGetLastError();
}

#endif
