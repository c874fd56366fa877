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
    // What comes next: stage, slot, and this thread's piece of the values.
    int next = 0, left = last - first;
    const int row = threadIdx.x / 8, piece = threadIdx.x % 8;
    const unsigned char *slot = slots + ((int64_t)first * s.H + h) * F::SLOT + map::FROM;
    int64_t t = (int64_t)first * PART;
    const bool in_values = !transition && column + 8 * piece < s.V;
    const bf16 *value = in_values ? v.row(t + row) + (int64_t)h * s.V + column + 8 * piece : v.p;
    const uint32_t value_to = map::SLOT + row * 128 + ((piece ^ row) % 8) * 16;
    auto fetch = [&]() {
        if (left > 0) {
            unsigned char *stage = bytes + map::BARRIERS + next * map::STAGE;
            stretch_fetch(barrier + next, stage, slot, map::SLOT);
            const bool there = in_values && t + row < s.T;
            copy16_at(smem_address(stage) + value_to, there ? value : v.p, there);
            slot += (int64_t)s.H * F::SLOT;
            value += PART * v.ld;
            t += PART, left--;
            next = next + 1 == map::RING ? 0 : next + 1;
        }
        copies_commit();
    };
    for (int i = 0; i < map::AHEAD; i++)
        fetch();
    const uint32_t own_values = map::SLOT + (lane_row<false>() ^ (uint32_t)(warp * COLUMNS * 2));
    const bool pairs = in_pairs(s, o, mine);
    bf16 *to = o.row((int64_t)first * PART) + (int64_t)h * s.V + mine;
    int at = 0;
    uint32_t parity = 0;
    float out = 0;
    for (int part = first; part < last; part++) {
        unsigned char *stage = bytes + map::BARRIERS + at * map::STAGE;
        copies_wait_but<map::AHEAD - 1>();
        stretch_wait(barrier + at, parity);
        __syncthreads(); // the part is there; everybody is done with the one before
        fetch();
        const uint32_t values = smem_address(stage) + own_values;
        if ((part - first) % LOOK == 0) {
            float x[2][4];
            take_values(values, m.size, x);
            resize(m, fmaxf(largest(x[0]), largest(x[1])));
            out = s.scale / m.size;
        }
        float O[2][4];
        march_part<F, OUTPUTS>(m, stage - map::FROM, values, O);
        if (OUTPUTS) {
            put_outputs(m, O, out, to, o.ld, (int)min((int64_t)PART, s.T - (int64_t)part * PART),
                        s.V - mine, pairs);
            to += PART * o.ld;
        }
        if (++at == map::RING)
            at = 0, parity ^= 1;
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
