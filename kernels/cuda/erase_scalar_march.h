// kernels/cuda/erase_scalar_march.h - carries states of 256 channels through the chunks of erase_scalar.h and makes the
// outputs.
//
// A block has 128 columns of values of one head: two warpgroups of 64, each with H^T [64, 256] in accumulators, which read
// the same tiles, and four warps that fetch these (the copy engine; a barrier for every buffer's arrival and one for its
// release). Two blocks of one head form a cluster where there is an even number of them: each fetches one half of a tile
// for both, since the L2 cache cannot give every multiprocessor its own. Of a warpgroup, transposed so that the state is always the left operand:
//     R^T = V^T + H^T E^T      O^T = H^T Q^T + R^T P^T      H^T <- end H^T + R^T X
// H^T is packed to fp16 in eighths: all of it would not fit beside H, O and R. While a warpgroup packs or stores, the
// other one's products run.
//
// Where X has a second term R has one, too; X's comes into the buffer of E when that is read.
//
// The rest is as in erase_march.h: H, R and O of a warp stand times a power of two (size_step), and what has left fp16's
// range leaves a mark.
#ifndef DELTOP_CUDA_ERASE_SCALAR_MARCH_H
#define DELTOP_CUDA_ERASE_SCALAR_MARCH_H

#include "kernels/cuda/erase_scalar_tile.h"

enum {
    WALK_COLUMNS = 128,
    WALK_THREADS = 384,
    WALK_WARPS = 8, // that hold states
    AHEAD = 4       // chunks that are brought into the L2 cache before they are fetched
};

// With outputs Q^ has two buffers and X one, which is needed again only when R of the next chunk is made; else X has two.
struct scalar_walk {
    unsigned char e[2][SCALAR_TILE], qx[3][SCALAR_TILE], p[2][SCALAR_PANEL];
    unsigned char v[2][2 * SCALAR_PANEL]; // a panel for each warpgroup; later outputs
    float end[2][4];
    // Filled by copies; free again; free in the other block of a pair. In turns, but e is used twice where X has a second
    // term.
    uint64_t e_full[2], q_full[2], x_full[2], p_full[2], v_full[2];
    uint64_t e_free[2], q_free[2], x_free[2], p_free[2], v_free[2];
    uint64_t e_peer[2], q_peer[2], x_peer[2], p_peer[2];
    short token[SCALAR_C]; // of each row that is followed by an output; else -1
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// What a block does.
struct scalar_task {
    int h, column, width, first, last; // of values or, of a transition, of the identity
    bool values;
};

// `bytes` of a tile to a buffer for the use-th time, and `more` that somebody else brings; by one thread.
template <int PEERS>
ERASE_DEVICE void fetch_tile(unsigned char *to, const unsigned char *from, uint32_t bytes,
                             uint32_t more, int use, uint64_t *full, uint64_t *free_again,
                             uint64_t *peer) {
    barrier_wait(free_again, (use & 1) ^ 1);
    if (PEERS == 1) {
        barrier_expect(full, bytes + more);
        copy_in(shared_address(to), from, bytes, full);
        return;
    }
    const uint32_t rank = (uint32_t)cluster_rank(), half = rank * (bytes / 2);
    barrier_arrive_peer(peer_address(shared_address(peer), (int)rank ^ 1), WARP_ARRIVALS);
    barrier_expect(full, bytes + more);
    barrier_wait(peer, use & 1);
    copy_in_pair(shared_address(to) + half, from + half, bytes / 2, full);
}

// The four warps that fetch, one for each kind of buffer, so that none waits for another kind's release: E and second
// terms; queries and scores; X; values, and chunks to come into the L2 cache, since memory is further away than buffers
// reach.
template <int PEERS>
ERASE_DEVICE void fetch_reads(const erase_call &s, const unsigned char *slot,
                              const scalar_task &task, scalar_walk *m) {
    int uses = 0; // of each buffer, a bit
    for (int turn = 0; turn < task.last - task.first; turn++) {
        const int b = turn & 1;
        const float hard = ((const float *)(slot + SCALAR_END))[1];
        auto fetch = [&](int from) {
            fetch_tile<PEERS>(m->e[b], slot + from, SCALAR_TILE, 0, uses >> b & 1, &m->e_full[b],
                              &m->e_free[b], &m->e_peer[b]);
            uses ^= 1 << b;
        };
        fetch(SCALAR_READ);
        if (hard != 0)
            fetch(SCALAR_REST);
        slot += (int64_t)s.H * SCALAR_SLOT;
    }
}
template <int PEERS>
ERASE_DEVICE void fetch_queries(const erase_call &s, const unsigned char *slot,
                                const scalar_task &task, scalar_walk *m) {
    for (int turn = 0; turn < task.last - task.first; turn++) {
        const int b = turn & 1;
        fetch_tile<PEERS>(m->qx[b], slot + SCALAR_QUERY, SCALAR_TILE, 0, turn >> 1, &m->q_full[b],
                          &m->q_free[b], &m->q_peer[b]);
        fetch_tile<PEERS>(m->p[b], slot + SCALAR_SCORES, SCALAR_PANEL, 0, turn >> 1, &m->p_full[b],
                          &m->p_free[b], &m->p_peer[b]);
        slot += (int64_t)s.H * SCALAR_SLOT;
    }
}
template <bool OUTPUTS, int PEERS>
ERASE_DEVICE void fetch_writes(const erase_call &s, const unsigned char *slot,
                               const scalar_task &task, scalar_walk *m) {
    for (int turn = 0; turn < task.last - task.first; turn++) {
        const int b = OUTPUTS ? 0 : turn & 1;
        fetch_tile<PEERS>(m->qx[OUTPUTS ? 2 : b], slot + SCALAR_WRITE, SCALAR_TILE, 16,
                          OUTPUTS ? turn : turn >> 1, &m->x_full[b], &m->x_free[b], &m->x_peer[b]);
        copy_in(shared_address(m->end[b]), slot + SCALAR_END, 16, &m->x_full[b]);
        slot += (int64_t)s.H * SCALAR_SLOT;
    }
}
template <bool OUTPUTS>
ERASE_DEVICE void fetch_values(const erase_call &s, const CUtensorMap *values,
                               const unsigned char *slot, const scalar_task &task, int share,
                               int shares, scalar_walk *m) {
    constexpr int ALL = OUTPUTS ? SCALAR_REST : SCALAR_QUERY; // of a slot
    const int rows = s.tokens * s.n_h, panels = task.width - task.column > 64 ? 2 : 1,
              part = (ALL / shares + 127) / 128 * 128; // each block of values brings a share
#pragma unroll 1
    for (int c = task.first + 1 - AHEAD; c < task.last; c++) {
        if (c + AHEAD < task.last) {
            const unsigned char *next = slot + (int64_t)(c + AHEAD) * s.H * SCALAR_SLOT;
            line_ahead(next + SCALAR_END);
            if (share * part < ALL)
                copy_ahead(next + share * part, (uint32_t)min(part, ALL - share * part));
            for (int i = 0; i < panels; i++)
                box_ahead(values, task.column + 64 * i, task.h, (c + AHEAD) * rows);
        }
        if (c < task.first)
            continue;
        const int turn = c - task.first, b = turn & 1;
        barrier_wait(&m->v_free[b], (turn >> 1 & 1) ^ 1);
        barrier_expect(&m->v_full[b], (uint32_t)(panels * rows * 128));
        for (int i = 0; i < panels; i++)
            copy_box(shared_address(m->v[b]) + i * SCALAR_PANEL, values, task.column + 64 * i,
                     task.h, c * rows, &m->v_full[b]);
    }
}

// R += H^T E^T and, with outputs, O = H^T Q^T: H^T is packed in eighths on the way.
template <bool OUTPUTS>
ERASE_DEVICE void times_state(float (&R)[32], float (&O)[32], const float (&H)[128], uint32_t e,
                              uint32_t q) {
    uint32_t a[2][8];
#pragma unroll
    for (int g = 0; g < 8; g++) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            a[g & 1][i] = pack_half(H[16 * g + 2 * i], H[16 * g + 2 * i + 1]);
        const int at = g / 2 * SCALAR_PANEL;
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < 2; j++)
            wgmma<64>::rs<0>(R, a[g & 1] + 4 * j, desc_k(e + at) + 4 * (g % 2) + 2 * j, 1);
        if constexpr (OUTPUTS)
#pragma unroll
            for (int j = 0; j < 2; j++)
                wgmma<64>::rs<0>(O, a[g & 1] + 4 * j, desc_k(q + at) + 4 * (g % 2) + 2 * j,
                                 g > 0 || j > 0);
        wgmma_commit();
        wgmma_wait<1>();
    }
    wgmma_wait<0>();
}

template <bool OUTPUTS>
ERASE_DEVICE void walk(const erase_call &s, const scalar_task &task, const float *start,
                       int64_t start_ld, float *end_state, int64_t end_ld, view<bf16> o, int *marks,
                       scalar_walk *m) {
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0), warp = threadIdx.x / 32 % 4,
              lane = threadIdx.x % 32;
    const int own = 64 * group + COLUMNS * warp, mine = task.column + own;
    // Of this lane: value columns v0, v0 + 8 of H^T, channels k0 + 8 i + {0, 1}.
    const int v0 = mine + lane / 4, k0 = 2 * (lane % 4);
    float H[128];
#pragma unroll
    for (int i = 0; i < 128; i++) {
        const int k = k0 + 8 * (i / 4) + i % 2, x = v0 + i / 2 % 2 * 8;
        H[i] = k >= s.K || x >= task.width ? 0.0f
               : start                     ? start[k * start_ld + x]
                                           : !task.values && k == x;
    }
    // Of ldmatrix and stmatrix in the rows of values.
    const uint32_t v_lane =
        group * SCALAR_PANEL + swizzle(lane % 8 + lane / 16 * 8, 2 * warp + lane / 8 % 2);
    float spoiled = 0; // NaN once anything was not finite
    float size = 1;    // H, R and O stand times this
    int e_uses = 0;    // a bit each
    for (int c = task.first; c < task.last; c++) {
        const int turn = c - task.first, b = turn & 1, of_x = OUTPUTS ? 0 : b;
        const uint32_t parity = turn >> 1 & 1;
        const int64_t t0 = (int64_t)c * s.tokens;
        const int tokens = (int)min((int64_t)s.tokens, s.T - t0), rows = tokens * s.n_h;
        float R[32];
        if (task.values) {
            unsigned char *v = m->v[b];
            barrier_wait(&m->v_full[b], parity);
            if (rows < SCALAR_C) {
                for (int i = lane; i < 2 * (SCALAR_C - rows); i += 32)
                    *(uint4 *)(v + group * SCALAR_PANEL + swizzle(rows + i / 2, 2 * warp + i % 2)) =
                        make_uint4(0, 0, 0, 0);
                __syncwarp();
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                uint32_t x[4];
                ldmatrix_transposed(x, shared_address(v) + v_lane + 16 * 128 * i);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    R[8 * i + 2 * j] = size * lower_bf16(x[j]);
                    R[8 * i + 2 * j + 1] = size * upper_bf16(x[j]);
                }
            }
            if (!OUTPUTS) {
                fence_async();
                __syncwarp();
                if (arrives(lane))
                    barrier_arrive(&m->v_free[b]);
            }
        } else {
#pragma unroll
            for (int i = 0; i < 32; i++)
                R[i] = 0;
        }
        if (turn % RESIZE == 0) {
            float most = 0;
#pragma unroll
            for (int i = 0; i < 32; i++)
                most = fmaxf(most, fabsf(R[i]));
#pragma unroll
            for (int i = 0; i < 128; i++)
                most = fmaxf(most, fabsf(H[i]));
            const float step = size_step(most, size);
            size *= step;
#pragma unroll
            for (int i = 0; i < 32; i++)
                R[i] *= step;
#pragma unroll
            for (int i = 0; i < 128; i++)
                H[i] *= step;
        }
        float O[32];
        barrier_wait(&m->e_full[b], e_uses >> b & 1);
        e_uses ^= 1 << b;
        if (OUTPUTS)
            barrier_wait(&m->q_full[b], parity);
        times_state<OUTPUTS>(R, O, H, shared_address(m->e[b]), shared_address(m->qx[b]));
        if (arrives(lane)) {
            barrier_arrive(&m->e_free[b]);
            if (OUTPUTS)
                barrier_arrive(&m->q_free[b]);
        }
        uint32_t r[16];
#pragma unroll
        for (int i = 0; i < 16; i++)
            r[i] = pack_half(R[2 * i], R[2 * i + 1]);
        barrier_wait(&m->x_full[of_x], OUTPUTS ? turn & 1 : parity);
        float end = m->end[of_x][0];
        const bool hard = m->end[of_x][1] != 0;
        const uint64_t p = desc_k(shared_address(m->p[b])),
                       x = desc_mn(shared_address(m->qx[OUTPUTS ? 2 : b]), SCALAR_PANEL);
        auto add_reads = [&](const uint32_t(&with)[16]) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                wgmma<64>::rs<0>(O, with + 4 * j, p + 2 * j, 1);
        };
        auto add_writes = [&](const uint32_t(&with)[16], uint64_t what) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                wgmma<256>::rs<1>(H, with + 4 * j, what + 128 * j, 1);
        };
        auto put_outputs = [&]() {
            if (arrives(lane))
                barrier_arrive(&m->p_free[b]);
            // Rows of outputs where the values were: a warp's columns are nobody else's.
            const float out = s.scale / size;
            const uint32_t at = shared_address(m->v[b]);
#pragma unroll
            for (int i = 0; i < 32; i++) {
                spoiled = fmaf(O[i], 0.0f, spoiled);
                O[i] *= out;
            }
            __syncwarp();
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *y = O + 8 * i;
                stmatrix_transposed(at + v_lane + 16 * 128 * i, pack_bf16(y[0], y[1]),
                                    pack_bf16(y[2], y[3]), pack_bf16(y[4], y[5]),
                                    pack_bf16(y[6], y[7]));
            }
            __syncwarp();
            // Given back before they are stored: the fence would wait for the stores.
            uint4 line[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                line[i] = *(const uint4 *)(m->v[b] + group * SCALAR_PANEL +
                                           swizzle(lane / 2 + 16 * i, 2 * warp + lane % 2));
            fence_async();
            __syncwarp();
            if (arrives(lane))
                barrier_arrive(&m->v_free[b]);
            const int column = mine + 8 * (lane % 2);
            bf16 *to = o.row(t0) + (int64_t)task.h * s.V + column;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int t = m->token[lane / 2 + 16 * i];
                if (t >= 0 && t < tokens && column < s.V)
                    *(uint4 *)(to + t * o.ld) = line[i];
            }
        };
        if (OUTPUTS)
            barrier_wait(&m->p_full[b], parity);
        if (hard) { // rare, and with nothing under way before and behind
            uint32_t rest[16];
#pragma unroll
            for (int i = 0; i < 16; i++)
                rest[i] = pack_rest(R[2 * i], R[2 * i + 1], r[i]);
#pragma unroll
            for (int i = 0; i < 128; i++)
                H[i] *= end;
            end = 1;
            barrier_wait(&m->e_full[b], e_uses >> b & 1);
            e_uses ^= 1 << b;
            wgmma_fence();
            if constexpr (OUTPUTS)
                add_reads(rest);
            add_writes(rest, x);
            add_writes(r, desc_mn(shared_address(m->e[b]), SCALAR_PANEL));
            wgmma_commit();
            wgmma_wait<0>();
            if (arrives(lane))
                barrier_arrive(&m->e_free[b]);
        }
        if constexpr (OUTPUTS) {
            wgmma_fence();
            add_reads(r);
            wgmma_commit();
        }
#pragma unroll
        for (int i = 0; i < 128; i++)
            H[i] *= end;
        wgmma_fence();
        add_writes(r, x);
        wgmma_commit();
        if constexpr (OUTPUTS) {
            wgmma_wait<1>();
            put_outputs();
        }
        wgmma_wait<0>();
        if (arrives(lane))
            barrier_arrive(&m->x_free[of_x]);
    }
    const float back = 1 / size;
#pragma unroll
    for (int i = 0; i < 128; i++) {
        const int k = k0 + 8 * (i / 4) + i % 2, x = v0 + i / 2 % 2 * 8;
        spoiled = fmaf(H[i], 0.0f, spoiled);
        if (k < s.K && x < task.width)
            end_state[k * end_ld + x] = H[i] * back;
    }
    if (OUTPUTS && !__all_sync(~0u, spoiled == 0) && lane == 0 && mine < s.V)
        marks[(int64_t)task.h * ((s.V + COLUMNS - 1) / COLUMNS) + mine / COLUMNS] = 1;
}
#endif

// Blocks: heads x blocks of values (x), segments (y); OUTPUTS and transitions as in erase_march.h. PEERS: blocks of a
// cluster, 1 or 2, neighbours along x.
template <bool OUTPUTS, int PEERS>
__global__ void __launch_bounds__(WALK_THREADS, 1)
    scalar_march(erase_call s, const __grid_constant__ CUtensorMap values,
                 const unsigned char *slots, view<float> state, view<bf16> o, int *marks,
                 erase_segments seg) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) unsigned char scalar_bytes[];
    scalar_walk *m = (scalar_walk *)scalar_bytes;
    const int blocks = (s.V + WALK_COLUMNS - 1) / WALK_COLUMNS,
              tiles = blocks + (OUTPUTS ? 0 : (s.K + WALK_COLUMNS - 1) / WALK_COLUMNS);
    const int tile = blockIdx.x % tiles, part = blockIdx.y;
    scalar_task task;
    task.h = blockIdx.x / tiles;
    task.values = tile < blocks;
    if (!task.values && part == 0)
        return; // the state itself is known there
    task.first = seg.begin(part), task.last = min(seg.begin(part + 1), s.chunks);
    task.width = task.values ? s.V : s.K;
    task.column = (tile - (task.values ? 0 : blocks)) * WALK_COLUMNS;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            barrier_init(&m->e_full[i], 1), barrier_init(&m->e_free[i], WALK_WARPS);
            barrier_init(&m->q_full[i], 1), barrier_init(&m->q_free[i], WALK_WARPS);
            barrier_init(&m->x_full[i], 1), barrier_init(&m->x_free[i], WALK_WARPS);
            barrier_init(&m->p_full[i], 1), barrier_init(&m->p_free[i], WALK_WARPS);
            barrier_init(&m->v_full[i], 1), barrier_init(&m->v_free[i], WALK_WARPS);
            barrier_init(&m->e_peer[i], 1), barrier_init(&m->q_peer[i], 1);
            barrier_init(&m->x_peer[i], 1), barrier_init(&m->p_peer[i], 1);
        }
        asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
    }
    // Columns that are not there stay zeros.
    for (int i = threadIdx.x; i < (int)sizeof m->v / 16; i += WALK_THREADS)
        ((uint4 *)m->v)[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x < SCALAR_C) {
        const int after = threadIdx.x + 1;
        m->token[threadIdx.x] = (short)(after % s.n_h == 0 ? after / s.n_h - 1 : -1);
    }
    fence_async();
    __syncthreads();
    if (PEERS > 1)
        cluster_sync(); // no block arrives at barriers that are not there
    if (threadIdx.x >= 32 * WALK_WARPS) {
        registers_down<24>(); // 3 x 168 as launched = 24 + 2 x 240
        const int kind = threadIdx.x / 32 - WALK_WARPS;
        const unsigned char *slot = slots + (int64_t)task.h * SCALAR_SLOT,
                            *first = slot + (int64_t)task.first * s.H * SCALAR_SLOT;
        if (threadIdx.x % 32 != 0)
            return;
        if (kind == 3 && task.values)
            fetch_values<OUTPUTS>(s, &values, slot, task, tile, blocks, m);
        else if (kind == 0)
            fetch_reads<PEERS>(s, first, task, m);
        else if (kind == 1 && OUTPUTS)
            fetch_queries<PEERS>(s, first, task, m);
        else if (kind == 2)
            fetch_writes<OUTPUTS, PEERS>(s, first, task, m);
        return;
    }
    registers_up<240>();
    auto of_segment = [&](float *all, int i) {
        return all + ((int64_t)i * s.H + task.h) * s.K * task.width;
    };
    const float *start = part == 0 ? state.row((int64_t)task.h * s.K)
                         : OUTPUTS ? of_segment(seg.ends, part - 1)
                                   : NULL;
    float *end_state = seg.n == 1 ? state.row((int64_t)task.h * s.K)
                                  : of_segment(task.values ? seg.ends : seg.transitions, part);
    walk<OUTPUTS>(s, task, start, part == 0 ? state.ld : task.width, end_state,
                  seg.n == 1 ? state.ld : task.width, o, marks, m);
#endif
}

#endif
