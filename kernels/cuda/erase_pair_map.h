// kernels/cuda/erase_pair_map.h - the shared memory of a block that goes through pairs of parts (erase_pairs.h), how a pair comes
// there, and the products that states and outputs have in common. Compute capability 9.0 (90a).
#ifndef DELTOP_CUDA_ERASE_PAIR_MAP_H
#define DELTOP_CUDA_ERASE_PAIR_MAP_H

#include "kernels/cuda/erase_parts.h"
#include "kernels/cuda/wgmma.h"

// Warps: 4 with the state, 4 for outputs, 4 of which one makes factors and one fetches. Shared memory: barriers; of each 16 columns,
// what the state hands to outputs: H_, of each part U and what U's rounding took off, numbers; a ring of pairs: rows of values
// (later of outputs), what is fetched of slots, and what the state is multiplied by before a pair. BYTES: of a ring of RING; a
// launch may ask for a longer one, of LONGEST at most.
template <class F, bool OUTPUTS> struct pair_map {
    static constexpr int STATE_WARPS = 4, USERS = STATE_WARPS + (OUTPUTS ? 4 : 0),
                         WARPS = USERS + 4, RING = OUTPUTS ? 3 : 4, LONGEST = 6, HAND = 2;
    static constexpr int FULL = 0, SCALED = FULL + 8 * LONGEST, EMPTY = SCALED + 8 * LONGEST,
                         READY = EMPTY + 8 * LONGEST, FREE = READY + 8 * HAND, HANDS = 1024;
    static constexpr int FROM = OUTPUTS ? 0 : F::E,
                         SLOT = (OUTPUTS ? F::SLOT : F::OUTPUTS_ONLY) - FROM,
                         NEXT = (SLOT + 1023) / 1024 * 1024, // tiles are aligned
        VALUES = 2 * VALUE_TILE,
                         PART_AT = VALUES - FROM, // where the first part would begin
        LINK = VALUES + NEXT + SLOT, LINK_BYTES = F::LINKED - F::SLOT - (OUTPUTS ? 0 : 512),
                         BETWEEN = LINK + F::BETWEEN - F::LINK, BEFORE = LINK + LINK_BYTES,
                         STAGE = (BEFORE + 4 * F::K + 1023) / 1024 * 1024;
    static constexpr int U = F::K / 16 * 512, U_REST = U + 512, NUMBERS = U + 2048,
                         HAND_BYTES = NUMBERS + 16,
                         HANDS_END = HANDS + (OUTPUTS ? HAND * 4 * HAND_BYTES : 0),
                         STAGES = (HANDS_END + 1023) / 1024 * 1024, BYTES = STAGES + RING * STAGE;
    static_assert(FREE + 8 * HAND <= HANDS && HAND_BYTES % 16 == 0, "room for barriers");
    static_assert(VALUES % 1024 == 0 && (PART_AT + F::E) % 1024 == 0, "tiles are aligned");
    static_assert(!OUTPUTS || LINK == VALUES + NEXT + F::LINK, "the link lies behind its slot");
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// A pair's slots to a place of the ring, and values of their rows where they are asked for; by one thread.
template <class F, class map>
ERASE_DEVICE void fetch_pair(uint64_t *barrier, unsigned char *stage, const unsigned char *slot,
                             const CUtensorMap &v_map, bool with_values, int h, int column,
                             int row) {
    stretch_expect(barrier, 2 * map::SLOT + map::LINK_BYTES + (with_values ? map::VALUES : 0));
    unsigned char *to = stage + map::VALUES;
    stretch_copy(barrier, to, slot + map::FROM, map::SLOT);
    if (map::SLOT == F::SLOT) {
        stretch_copy(barrier, to + map::NEXT, slot + F::SLOT, F::LINKED);
    } else {
        stretch_copy(barrier, to + map::NEXT, slot + F::SLOT + map::FROM, map::SLOT);
        stretch_copy(barrier, stage + map::LINK, slot + F::SLOT + F::LINK, map::LINK_BYTES);
    }
    if (with_values)
        for (int i = 0; i < 2; i++)
            box_fetch(barrier, smem_address(stage) + i * VALUE_TILE, &v_map, column, h,
                      row + i * PART);
}

// Columns of 16 rows, [columns][rows] += A B, B kept by keep_scores.
ERASE_DEVICE void add_product(float (&sum)[8], const uint32_t (&a)[4], const uint32_t (&b)[4]) {
    mma16(sum, a, b[0], b[1]);
    mma16(sum + 4, a, b[2], b[3]);
}
// A tile's 16 channels from 16 i on, as a right operand whose rows survive.
template <class F> ERASE_DEVICE uint64_t step_of(uint64_t tile, int i) {
    return tile + i / 4 * (F::PANEL / 16) + 2 * (i % 4);
}
#endif

#endif
