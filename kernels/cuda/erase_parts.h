// kernels/cuda/erase_parts.h - parts of 16 rows (erase_rows.h) by way of memory, where heads alone do not fill a device:
// `make_parts` makes all of a stretch side by side, to slots of part_form::SLOT bytes; `march_parts` carries states through
// them, also those of segments (erase_march.h).
#ifndef DELTOP_CUDA_ERASE_PARTS_H
#define DELTOP_CUDA_ERASE_PARTS_H

#include "kernels/cuda/erase_fused.h"

template <class F> constexpr int make_shared() {
    return PARTS * F::BYTES + 128;
}
// A block for each head (x) and PARTS parts (y), each the business of one warp.
template <class F>
__global__ void __launch_bounds__(FUSED_THREADS, 2)
    make_parts(erase_call s, part_inputs x, const __grid_constant__ part_maps maps,
               unsigned char *slots) {
    SHARED_MEMORY(stage);
    const int warp = threadIdx.x / 32, h = blockIdx.x;
    const int64_t part = (int64_t)blockIdx.y * PARTS + warp, t0 = part * PART;
    if (t0 >= s.T)
        return;
    unsigned char *own = stage + warp * F::BYTES;
    uint64_t *barrier = (uint64_t *)(stage + PARTS * F::BYTES) + warp;
    stretch_init(barrier, threadIdx.x % 32 == 0);
    __syncwarp();
    fetch_part<F, false>(s, x, maps, smem_address(own), 0, barrier, h, h / (s.H / s.Hk), 0, t0);
    const float beta = take_beta<F>(s, h, t0);
    part_wait(barrier, 0);
    make_part<F>(own, beta);
    __syncwarp();
    stretch_keep(slots + (part * s.H + h) * F::SLOT, own, F::SLOT);
}

// Shared memory: barriers, then a ring of what is fetched of a slot and 16 rows of values.
template <class F, bool OUTPUTS> struct ring_map {
    static constexpr int RING = 6, AHEAD = RING - 2, // the part before is still needed
        FROM = OUTPUTS ? 0 : F::E, SLOT = (OUTPUTS ? F::SLOT : F::OUTPUTS_ONLY) - FROM,
                         STAGE = SLOT + VALUE_TILE, BARRIERS = 128, BYTES = BARRIERS + RING * STAGE;
    static_assert(SLOT % 128 == 0 && RING * 8 <= BARRIERS, "aligned tiles, room for barriers");
};

// Blocks: as `march` has them; per and chunks count parts.
template <class F, bool OUTPUTS>
__global__ void __launch_bounds__(32 * MARCH_WARPS)
    march_parts(erase_call s, view<bf16> v, const unsigned char *slots, view<float> state,
                view<bf16> o, int *marks, erase_segments seg) {
    typedef ring_map<F, OUTPUTS> map;
    SHARED_MEMORY(bytes);
    uint64_t *barrier = (uint64_t *)bytes;
    const int warp = threadIdx.x / 32;
    const int blocks = (s.V + MARCH_COLUMNS - 1) / MARCH_COLUMNS,
              tiles = blocks + (OUTPUTS ? 0 : (s.K + MARCH_COLUMNS - 1) / MARCH_COLUMNS);
    const int h = blockIdx.x / tiles, tile = blockIdx.x % tiles, segment = blockIdx.y;
    const bool transition = tile >= blocks;
    if (transition && segment == 0)
        return; // the state itself is known there
    const int first = segment * seg.per, last = min(first + seg.per, s.chunks);
    const int width = transition ? s.K : s.V;
    const int column = (tile - (transition ? blocks : 0)) * MARCH_COLUMNS,
              mine = column + warp * COLUMNS;
    auto of_segment = [&](float *all, int i) { return all + ((int64_t)i * s.H + h) * s.K * width; };
    const float *start = segment == 0 ? state.row((int64_t)h * s.K)
                         : OUTPUTS    ? of_segment(seg.ends, segment - 1)
                                      : NULL;
    float *end_state = seg.n == 1 ? state.row((int64_t)h * s.K)
                                  : of_segment(transition ? seg.transitions : seg.ends, segment);
    const int64_t start_ld = segment == 0 ? state.ld : width,
                  end_ld = seg.n == 1 ? state.ld : width;
    part_state<F> m;
    m.size = 1, m.spoiled = 0, m.pending = NULL;
    each_of_state<F>(mine, [&](int i, int j, int k, int c) {
        m.H[i][j] = k >= s.K || c >= width ? 0.0f
                    : start                ? start[k * start_ld + c]
                                           : transition && k == c;
    });
    for (int i = 0; i < map::RING; i++)
        stretch_init(barrier + i);
    __syncthreads();
    auto stage_of = [&](int turn) { return bytes + map::BARRIERS + turn % map::RING * map::STAGE; };
    auto fetch = [&](int turn) {
        const int part = first + turn;
        if (part < last) {
            unsigned char *stage = stage_of(turn);
            stretch_fetch(barrier + turn % map::RING, stage,
                          slots + ((int64_t)part * s.H + h) * F::SLOT + map::FROM, map::SLOT);
            const int row = threadIdx.x / 8, piece = threadIdx.x % 8;
            const int64_t t = (int64_t)part * PART + row;
            const bool there = !transition && t < s.T && column + 8 * piece < s.V;
            copy16_at(smem_address(stage) + map::SLOT + row * 128 + ((piece ^ row) % 8) * 16,
                      there ? v.row(t) + (int64_t)h * s.V + column + 8 * piece : v.p, there);
        }
        copies_commit();
    };
    for (int i = 0; i < map::AHEAD; i++)
        fetch(i);
    const uint32_t own_values = map::SLOT + (lane_row<false>() ^ (uint32_t)(warp * COLUMNS * 2));
    const bool pairs = in_pairs(s, o, mine);
    for (int turn = 0; first + turn < last; turn++) {
        unsigned char *stage = stage_of(turn);
        copies_wait_but<map::AHEAD - 1>();
        stretch_wait(barrier + turn % map::RING, turn / map::RING & 1);
        __syncthreads(); // the part is there; everybody is done with the one before
        fetch(turn + map::AHEAD);
        const uint32_t values = smem_address(stage) + own_values;
        if (turn % LOOK == 0) {
            float x[2][4];
            take_values(values, m.size, x);
            resize(m, fmaxf(largest(x[0]), largest(x[1])));
        }
        float O[2][4];
        march_part<F, OUTPUTS>(m, stage - map::FROM, values, O);
        if (OUTPUTS) {
            const int64_t t = (int64_t)(first + turn) * PART;
            put_outputs(m, O, s.scale / m.size, o.row(t) + (int64_t)h * s.V + mine, o.ld,
                        (int)min((int64_t)PART, s.T - t), s.V - mine, pairs);
        }
    }
    if (m.pending)
        scale_state(m.H, m.pending);
    each_of_state<F>(mine, [&](int i, int j, int k, int c) {
        m.spoiled = fmaf(m.H[i][j], 0.0f, m.spoiled);
        if (k < s.K && c < width)
            end_state[k * end_ld + c] = m.H[i][j] / m.size;
    });
    if (OUTPUTS)
        mark(marks, s, h, mine, m.spoiled);
}

#endif
