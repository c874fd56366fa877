// kernels/cuda/erase_boxes.h - how inputs of a part (erase_rows.h) come to shared memory, each warp's by itself: by the
// copy engine as boxes of 16 rows (compute capability 9.0), elsewhere in 16-byte copies. Rows and columns that are not
// there become zero.
#ifndef DELTOP_CUDA_ERASE_BOXES_H
#define DELTOP_CUDA_ERASE_BOXES_H

#include "kernels/cuda/erase_rows.h"

#include <cuda.h>

enum { VALUE_COLUMNS = 64, VALUE_TILE = PART * VALUE_COLUMNS * 2 };

// Of a stretch, beside erase_call; a, b: of ERASE_PAIR.
struct part_inputs {
    view<bf16> q, k, a, b, v;
};
// The same, and decays, as [row][head][column].
struct part_maps {
    CUtensorMap q, k, a, b, v, decay;
};

// 64 columns of 16 rows, `bytes` of each row (whole 16-byte pieces).
template <int LINE, bool SWIZZLED>
ERASE_DEVICE void fetch_panel(uint32_t to, const char *from, int64_t ld, int rows, int bytes) {
    constexpr int PIECES = LINE / 16, STEP = 32 / PIECES;
    const int lane = threadIdx.x % 32, row0 = lane / PIECES, piece = lane % PIECES;
    const bool there = piece * 16 < bytes;
    const char *at = from + (there ? piece * 16 : 0);
#pragma unroll
    for (int i = 0; i < PART / STEP; i++) {
        const int row = row0 + i * STEP;
        const bool take = there && row < rows;
        copy16_at(to + row * LINE + (SWIZZLED ? (piece ^ row) % 8 : piece) * 16,
                  at + (take ? row : 0) * ld, take);
    }
}

// Everything but values of the part at row t0 of a head; VALUES: these too, 64 columns from `column` on. The warp that calls
// owns the barrier and all that is written, and has to wait (part_wait) before the next call.
template <class F, bool VALUES>
ERASE_DEVICE void fetch_part(const erase_call &s, const part_inputs &x, const part_maps &maps,
                             uint32_t part, uint32_t values, uint64_t *barrier, int h, int hk,
                             int column, int64_t t0) {
    typedef typename F::W W;
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x % 32 == 0) {
        const int row = (int)t0;
        stretch_expect(barrier, (F::PAIR ? 4 : 2) * F::TILE + PART * F::DECAY_LINE +
                                    (VALUES ? VALUE_TILE : 0));
        box_fetch(barrier, part + F::FIRST_DECAYS, &maps.decay, 0, h, row);
        if (F::HALVED)
            box_fetch(barrier, part + F::DECAYS, &maps.decay, 0, h, row + F::DECAY_ROWS);
#pragma unroll
        for (int i = 0; i < F::K / 64; i++) {
            const int to = part + i * F::PANEL, at = 64 * i;
            box_fetch(barrier, to + F::KK, &maps.k, at, hk, row);
            box_fetch(barrier, to + F::Q, &maps.q, at, hk, row);
            if (F::PAIR) {
                box_fetch(barrier, to + F::E, &maps.b, at, hk, row);
                box_fetch(barrier, to + F::A, &maps.a, at, h, row);
            }
        }
        if (VALUES)
            box_fetch(barrier, values, &maps.v, column, h, row);
    }
#else
    const int rows = (int)max((int64_t)0, min((int64_t)PART, s.T - t0));
    if (rows == 0)
        t0 = 0;
    auto tile = [&](int place, view<bf16> m, int64_t from) {
#pragma unroll
        for (int i = 0; i < F::K / 64; i++) {
            const bool there = 64 * i < s.K;
            fetch_panel<128, true>(part + place + i * F::PANEL,
                                   (const char *)(m.row(t0) + from + (there ? 64 * i : 0)),
                                   m.ld * 2, rows, there ? 2 * (s.K - 64 * i) : 0);
        }
    };
    // ERASE_KEY never comes here (erase_run.h, marches): its decays may be halved.
    fetch_panel<F::DECAY_LINE, false>(
        part + F::DECAYS, (const char *)((const W *)s.decay.p + t0 * s.decay.ld + (int64_t)h * s.K),
        s.decay.ld * (int)sizeof(W), rows, (int)sizeof(W) * s.K);
    tile(F::Q, x.q, (int64_t)hk * s.K);
    tile(F::KK, x.k, (int64_t)hk * s.K);
    if (F::PAIR) {
        tile(F::E, x.b, (int64_t)hk * s.K);
        tile(F::A, x.a, (int64_t)h * s.K);
    }
    if (VALUES)
        fetch_panel<128, true>(values, (const char *)(x.v.row(t0) + (int64_t)h * s.V + column),
                               x.v.ld * 2, rows, 2 * (s.V - column));
#endif
}
// A slot, and values of its 16 rows where they are asked for, by one warp (compute capability 9.0).
ERASE_DEVICE void fetch_slot(uint64_t *barrier, void *to, const unsigned char *slot, int bytes,
                             void *values, const CUtensorMap &v_map, bool with_values, int h,
                             int column, int row) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x % 32 == 0) {
        stretch_expect(barrier, bytes + (with_values ? VALUE_TILE : 0));
        stretch_copy(barrier, to, slot, bytes);
        if (with_values)
            box_fetch(barrier, smem_address(values), &v_map, column, h, row);
    }
#endif
}
ERASE_DEVICE void part_wait(uint64_t *barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    stretch_wait(barrier, parity);
#else
    copies_wait();
#endif
    __syncwarp();
}

#endif
