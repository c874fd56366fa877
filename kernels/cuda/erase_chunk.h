// kernels/cuda/erase_chunk.h - what the parts of `prepare` (erase_prepare.h) share: the chunk that a block works on and
// the map of its shared memory.
#ifndef DELTOP_CUDA_ERASE_CHUNK_H
#define DELTOP_CUDA_ERASE_CHUNK_H

#include "kernels/cuda/erase_tile.h"
#include "kernels/cuda/shared_memory.h"

enum { PREPARE_THREADS = 256, PREPARE_WARPS = PREPARE_THREADS / 32 };

// Shared memory, in bytes. Six tiles of keys (ERASE_KEY: four): e, q, a and k anchored (COLS), K_ and A_ (ENDS); later T
// and P where nobody reads any more. Where decays are strong, w takes the last two.
template <class F> struct prepare_map {
    static constexpr int LINE = F::C + 4; // floats of a row of plain scores
    static constexpr int PLAIN = F::C * LINE * 4, TILE = F::KEY_TILE;
    static constexpr int TILES = F::PAIR ? 4 * TILE + F::C * F::K * 4 : 2 * TILE + F::C * F::K * 4;
    static constexpr int E = 0, Q = TILE, A = 2 * TILE, KK = 3 * TILE, W = F::PAIR ? 4 * TILE : A;
    // Of mild decays: columns and their ends.
    static constexpr int A_COLS = 2 * TILE, A_ENDS = 3 * TILE, K_COLS = F::PAIR ? 4 * TILE : A_COLS,
                         K_ENDS = K_COLS + TILE;
    static constexpr int
        S = TILES,     // of float: S, then T
        P = S + PLAIN, // P^k and its rest, or of float; PAIR: P^a, P^k, S^k
        SCORES = F::PAIR                     ? 3 * F::SCORE_TILE
                 : PLAIN > 2 * F::SCORE_TILE ? PLAIN
                                             : 2 * F::SCORE_TILE,
        BLOCK_END = P + SCORES, BETA = BLOCK_END + F::BLOCKS * F::K * 4,
        TOKENS = BETA + F::C * 4, // int16: of each row whose decay counts; of each whose query does
        FACTORS =
            TOKENS + F::C * 4, // decays between blocks: mild halves, strong floats (anchor_factors)
        BYTES = FACTORS + (3 + 2 * F::BLOCKS) * F::K * 4;
    // Behind K_, or where w was: free once decays are anchored. half_terms alone.
    static constexpr int T_REST = F::PAIR ? W : W + TILE;
    static_assert(F::SCORE_TILE <= TILE, "T and P take the places of e and q");
};

// The chunk of a block. rows: those that are there, of F::C.
template <class F> struct erase_chunk {
    typedef typename F::input T;
    erase_call s;
    view<T> q, k, a, b;
    int h, hk, rows;
    int64_t t0;
    unsigned char *bytes, *slot;
    const short *decay_token, *query_token; // [C]: from t0; -1: none
};

// What anchoring leaves for the products that follow, beside S (of T's matrix, unit diagonal not written).
template <class F> struct erase_anchored {
    typedef typename F::num num;
    num *k_ends, *a_ends;     // K_ and A_
    num *t, *t_rest;          // room for T
    num *p, *p_rest;          // P^k (P^a of PAIR) and what rounding took off it, or NULL
    num *p_k, *s_k, *p_times; // PAIR: P^k, S^k, room for P
};

// What rounding to a format takes off.
template <class num> ERASE_DEVICE float rest_of(float x) {
    num y;
    put(&y, x);
    return x - get(y);
}

// Off-diagonal blocks of 16 rows I > J in one row: (1, 0), (2, 0), (2, 1), (3, 0) ..
ERASE_DEVICE void block_pair(int i, int *I, int *J) {
    *I = i < 1 ? 1 : i < 3 ? 2 : 3;
    *J = i - *I * (*I - 1) / 2;
}

#endif
