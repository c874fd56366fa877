// kernels/cuda/erase_tile.h - what the kernels of the chunked erase recurrences share: the call, and the slot of a
// chunk that `prepare` (erase_prepare.h) leaves to `march` (erase_march.h).
//
// A chunk has C rows (micro-steps) of one value head; row i reads along e_i before it writes along a_i and k_i. With
// l_i the log decay per channel summed from the chunk's start through row i, and l'_i what row i's reading has seen
// of it (l_i for ERASE_KEY, where e = k; l_{i-1} for ERASE_PAIR, where e = b):
//
//   E = e . exp(l')      Q^ = q . exp(l)      A_, K_ = a, beta k . exp(l_C - l)
//   S^x_ij = sum_c e_ic x_jc exp(l'_ic - l_jc), j < i      P^x_ij likewise with q, l and j <= i
//
//   ERASE_KEY    T = (I + beta S^k)^-1 beta    X = T^T K_    P = P^k T
//                R = V - E H                   O = Q^ H + P R             H <- exp(l_C) . H + X^T R
//   ERASE_PAIR   T = (I - S^a)^-1    X = T^T A_    W = K_ + (S^k)^T X    P = P^a T    Y = P^k + P S^k
//                R = E H             O = Q^ H + P R + Y V       H <- exp(l_C) . H + X^T R + W^T V
//
// Only R, H and O depend on the state.
#ifndef DELTOP_CUDA_ERASE_TILE_H
#define DELTOP_CUDA_ERASE_TILE_H

#include "kernels/cuda/erase_terms.h"

enum { BLOCK = 16 }; // rows that decays are anchored in

// P_: format; T: of the matrices; KEYS: width of keys in tiles, at least K; ROWS: of a chunk; PAIR_: ERASE_PAIR.
template <class P_, class T, int KEYS, int ROWS, bool PAIR_> struct erase_form {
    typedef P_ P;
    typedef T input;
    typedef typename P::num num;
    static constexpr int K = KEYS, C = ROWS, BLOCKS = C / BLOCK;
    static constexpr bool PAIR = PAIR_;
    static constexpr int WIDE = tile_width<P>(C); // of a row of scores
    static constexpr int KEY_TILE = C * K * (int)sizeof(num),
                         SCORE_TILE = C * WIDE * (int)sizeof(num);
    // Bytes into a slot. What the state needs comes first. READ is E, of ERASE_KEY -E.
    static constexpr int READ = 0, X = KEY_TILE, W = 2 * KEY_TILE, END = PAIR ? 3 * KEY_TILE : W,
                         STATE_BYTES = END + 4 * K, QUERY = STATE_BYTES, SCORES = QUERY + KEY_TILE,
                         Y = SCORES + SCORE_TILE, BYTES = PAIR ? Y + SCORE_TILE : Y;
    static_assert(K % tile_width<P>(1) == 0 && C % BLOCK == 0, "whole pieces");
};

// Gates of float or bfloat16.
struct gates {
    const void *p; // NULL: none
    int64_t ld;
    bool is_16;
    ERASE_DEVICE float at(int64_t i) const {
        return is_16 ? get(((const bf16 *)p)[i]) : ((const float *)p)[i];
    }
};

// One stretch of chunks, from its first row.
struct erase_call {
    int H, Hk, K, V, n_h;
    int tokens; // of a whole chunk
    int64_t T;
    int chunks;
    float scale;
    bool decay_of_channel;
    gates decay, beta; // none: 1
};

#endif
