// kernels/cuda/delta_scan.h - the states that the segments of a row begin with (delta.cu): H <- M_s H + N_s from segment
// to segment, in float32. M_s is what a segment does to a state, N_s what it ends with when it begins with nothing.
//
// One block a head and `columns` of the values; it walks through the segments one by one, so the way from one to the next
// is all that counts. The blocks of a cluster have the same head: each fetches a part of a transition for all of them, up
// to three segments ahead. Eight warps multiply, each 16 rows; a ninth one fetches.
#ifndef DELTOP_CUDA_DELTA_SCAN_H
#define DELTOP_CUDA_DELTA_SCAN_H

#include "kernels/cuda/delta_rows.h"
#include "kernels/cuda/tensor_map.h"

// Scratch: rows and gates of all chunks (16-byte aligned, hence first); states at the segments' ends, transitions of segments, which
// of these are nothing.
struct segment_space {
    delta_row *rows;      // the table, or none
    unsigned char *gates; // [rows][H][chunks] of gates_bytes
    float *ends;          // [rows][segments][H][K][V]
    float *transitions;   // [rows][segments][H][K][K]; segment 0 and the last have none
    int *nothing;         // [rows][segments][H]
};

enum {
    SCAN_WARPS = 8, // that multiply
    SCAN_MULTIPLIERS = 32 * SCAN_WARPS,
    SCAN_THREADS = SCAN_MULTIPLIERS + 32,
    SCAN_STAGES = 3,          // transitions in flight
    SCAN_ENDS = 2,            // segments' own ends in flight
    SCAN_PANEL = WIDTH * 32,  // floats: 32 columns of a transition
    SCAN_PANELS = WIDTH / 32, // of a transition
    SCAN_PEERS = 2,       // blocks of a cluster, 1, 2 or 4; of 128 blocks: 23.5 us, with 4 41 us
    SCAN_SUMS_BARRIER = 1 // named barrier
};

template <int columns> struct scan_shared {
    float m[SCAN_STAGES][SCAN_PANELS][SCAN_PANEL]; // rows of 128 bytes, see swizzle()
    float h[2][WIDTH * columns];                   // see scan_place
    float ends[SCAN_ENDS][WIDTH * columns];        // every thread's own four values by four
    uint64_t full[SCAN_STAGES], empty[SCAN_STAGES];
};

// Where four columns of a state's row lie in `h`, in floats: what the lanes of a warp read together, every fourth row of
// 16 and both halves of the columns, is 128 bytes behind each other. four: of the half's columns.
template <int columns> HOPPER_DEVICE int scan_place(int row, int half, int four) {
    return 4 * (((row / 16 * 4 + row % 4) * (columns / 8) + four) * 8 + row / 4 % 4 * 2 + half);
}

// A box of a tensor map to the same place in all blocks of `blocks`, whose barriers b count its bytes.
HOPPER_DEVICE void copy_box_to_all(uint32_t to, const CUtensorMap *map, int column, int row,
                                   int matrix, uint64_t *b, int blocks) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;\n" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(matrix), "r"(shared_address(b)),
                 "h"((unsigned short)blocks)
                 : "memory");
}

// acc[i] += row own ^ i of M times H, of every 16 channels the four of this lane's part. m0: its first four in m, of row
// own (the next row is 32 floats on, and its pieces are exchanged); h: its first four in the state.
template <int half>
HOPPER_DEVICE void scan_multiply(float (&acc)[4][half], const float *m, int m0, const float *h) {
#pragma unroll
    for (int j = 0; j < WIDTH / 16; j++) {
        float4 a[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = *(const float4 *)(m + j / 2 * SCAN_PANEL + (m0 ^ (j % 2 * 16 + i * 36)));
#pragma unroll
        for (int e = 0; e < 4; e++)
#pragma unroll
            for (int c = 0; c < half; c += 4) {
                const float4 b = *(const float4 *)(h + ((j * 4 + e) * half + c) * 8);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float w = e == 0 ? a[i].x : e == 1 ? a[i].y : e == 2 ? a[i].z : a[i].w;
                    acc[i][c] += w * b.x, acc[i][c + 1] += w * b.y;
                    acc[i][c + 2] += w * b.z, acc[i][c + 3] += w * b.w;
                }
            }
    }
}

// The states replace N.
template <int columns>
__global__ void __launch_bounds__(SCAN_THREADS, 1)
    scan_segments(const __grid_constant__ delta_call s, const __grid_constant__ CUtensorMap map,
                  segment_space space, bool gated, int peers) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) unsigned char bytes[];
    enum { HALF = columns / 2, FOURS = HALF / 4 };
    scan_shared<columns> *m = (scan_shared<columns> *)bytes;
    let_next_kernel_begin();
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    if (tid == 0) {
        prefetch_map(&map);
        for (int i = 0; i < SCAN_STAGES; i++) {
            barrier_init(&m->full[i], 1);
            barrier_init(&m->empty[i], SCAN_WARPS * peers);
        }
    }
    fence_async();
    cluster_sync();
    const delta_row row = row_of(s, blockIdx.x / s.H);
    const int64_t heads = s.H, head = (int64_t)row.piece0 * s.H + blockIdx.x % s.H;
    const int last = segments_of(s, row) - 1;
    wait_for_kernel_before();
    // Segments, one a bit, whose transition is something.
    uint64_t kept = ~(uint64_t)0;
    if (gated) {
        const bool a = lane < last && !space.nothing[lane * heads + head],
                   b = lane + 32 < last && !space.nothing[(lane + 32) * heads + head];
        kept = __ballot_sync(~0u, a) | (uint64_t)__ballot_sync(~0u, b) << 32;
    }
    if (warp == SCAN_WARPS) {
        if (lane == 0) {
            const int rank = cluster_rank(), each = SCAN_PANELS / peers;
            for (int segment = 1, n = 0; segment < last; segment++) {
                if (!(kept >> segment & 1))
                    continue;
                const int stage = n % SCAN_STAGES;
                barrier_wait(&m->empty[stage], (n / SCAN_STAGES & 1) ^ 1);
                barrier_expect(&m->full[stage], sizeof m->m[0]);
                for (int i = rank * each; i < (rank + 1) * each; i++)
                    copy_box_to_all(shared_address(m->m[stage][i]), &map, 32 * i, 0,
                                    (int)(segment * heads + head), &m->full[stage],
                                    (1 << peers) - 1);
                n++;
            }
        }
    } else {
        // A lane has one half of the columns, four rows, and four of every 16 channels: its part. Parts have the same rows
        // in different orders, so that each sends its last ones, keeps its first one, and no value is chosen by lane; the
        // four orders are such that the parts also read different banks.
        const int half = lane % 2, part = lane / 4 % 4, flip = part % 2 * 2 ^ part / 2 * 3,
                  row0 = 16 * warp + lane / 16 * 8 + lane / 2 % 2 * 4, own = row0 + flip,
                  v0 = (int)blockIdx.y * columns + half * HALF;
        const bool row_exists = own < s.K;
        // V is a multiple of 8, so four values exist or none.
        auto exists = [&](int four) { return row_exists && v0 + 4 * four < s.V; };
        float *end = space.ends + head * s.K * s.V + (int64_t)own * s.V + v0;
        const int64_t next_end = heads * s.K * s.V;
        auto own_end = [&](int segment, int four) {
            return (float4 *)(m->ends[segment % SCAN_ENDS] + (four * SCAN_MULTIPLIERS + tid) * 4);
        };
        auto fetch_end = [&](int segment) {
            if (segment < last)
#pragma unroll
                for (int f = 0; f < FOURS; f++)
                    if (exists(f))
                        copy16(shared_address(own_end(segment, f)),
                               end + segment * next_end + 4 * f);
            copy_commit();
        };
        float4 x[FOURS];
#pragma unroll
        for (int f = 0; f < FOURS; f++)
            x[f] = exists(f) ? *(const float4 *)(end + 4 * f) : make_float4(0, 0, 0, 0);
        for (int i = 1; i <= SCAN_ENDS; i++) {
#pragma unroll
            for (int f = 0; f < FOURS; f++)
                if (!exists(f)) // no copy ever writes there
                    *own_end(i, f) = make_float4(0, 0, 0, 0);
            fetch_end(i);
        }
        const int m0 = own * 32 + (lane / 2 % 2 * 4 + (part ^ flip)) * 4,
                  h0 = scan_place<columns>(4 * part, half, 0);
#pragma unroll
        for (int f = 0; f < FOURS; f++)
            *(float4 *)(m->h[0] + scan_place<columns>(own, half, f)) = x[f];
        named_barrier(SCAN_SUMS_BARRIER, SCAN_MULTIPLIERS);
        for (int segment = 1, n = 0; segment < last; segment++) {
            float acc[4][HALF] = {};
            if (kept >> segment & 1) {
                const int stage = n % SCAN_STAGES;
                barrier_wait(&m->full[stage], n / SCAN_STAGES & 1);
                scan_multiply(acc, m->m[stage][0], m0, m->h[(segment - 1) % 2] + h0);
                __syncwarp();
                if (lane < peers)
                    barrier_arrive_peer(peer_address(shared_address(&m->empty[stage]), lane),
                                        WARP_ARRIVALS);
                n++;
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int c = 0; c < HALF; c++)
                        acc[i][c] += __shfl_xor_sync(~0u, acc[i + 2][c], 4);
#pragma unroll
                for (int c = 0; c < HALF; c++)
                    acc[0][c] += __shfl_xor_sync(~0u, acc[1][c], 12);
            } else { // nothing is left but what is no number
#pragma unroll
                for (int f = 0; f < FOURS; f++) {
                    acc[0][4 * f] = 0.0f * x[f].x, acc[0][4 * f + 1] = 0.0f * x[f].y;
                    acc[0][4 * f + 2] = 0.0f * x[f].z, acc[0][4 * f + 3] = 0.0f * x[f].w;
                }
            }
            copy_wait<SCAN_ENDS - 1>();
#pragma unroll
            for (int f = 0; f < FOURS; f++) {
                const float4 y = *own_end(segment, f);
                x[f] = make_float4(y.x + acc[0][4 * f], y.y + acc[0][4 * f + 1],
                                   y.z + acc[0][4 * f + 2], y.w + acc[0][4 * f + 3]);
                if (!row_exists) // zeros of M times what is no number
                    x[f] = make_float4(0, 0, 0, 0);
                *(float4 *)(m->h[segment % 2] + scan_place<columns>(own, half, f)) = x[f];
            }
            named_barrier(SCAN_SUMS_BARRIER, SCAN_MULTIPLIERS);
#pragma unroll
            for (int f = 0; f < FOURS; f++)
                if (exists(f))
                    *(float4 *)(end + segment * next_end + 4 * f) = x[f];
            fetch_end(segment + SCAN_ENDS);
        }
    }
    cluster_sync(); // the peers may still write and arrive here
#endif
}

template <int columns>
static cudaError_t launch_scan(const delta_call &s, segment_space space, cudaStream_t stream) {
    const auto kernel = scan_segments<columns>;
    const int bytes = sizeof(scan_shared<columns>);
    const cuuint64_t K = (cuuint64_t)s.K, line = K * sizeof(float);
    const cuuint64_t pieces = (cuuint64_t)(s.inner_pieces + 2 * s.n_rows); // or fewer
    CUtensorMap map;
    cudaError_t r = map_tensor(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, space.transitions,
                               {K, K, pieces * s.H}, {line, K * line}, {32, WIDTH, 1});
    if (r == cudaSuccess)
        r = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (r != cudaSuccess)
        return r;
    const unsigned blocks = (unsigned)((s.V + columns - 1) / columns);
    const unsigned peers = blocks >= SCAN_PEERS ? SCAN_PEERS : 1;
    cudaLaunchAttribute with[2] = {};
    with[0].id = cudaLaunchAttributeClusterDimension;
    with[0].val.clusterDim = {1, peers, 1};
    with[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    with[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t launch = {};
    // Blocks behind the last columns fetch for their cluster.
    launch.gridDim = dim3((unsigned)(s.longer[2] * s.H), (blocks + peers - 1) / peers * peers);
    launch.blockDim = SCAN_THREADS;
    launch.dynamicSmemBytes = bytes;
    launch.stream = stream;
    launch.attrs = with;
    launch.numAttrs = 2;
    return cudaLaunchKernelEx(&launch, kernel, s, map, space, s.decay != NULL, (int)peers);
}

#endif
