// kernels/cuda/delta_tile.h - what the warpgroups of the tensor-core delta rule (delta.cu) share: the
// call, the task of a block, and the map of its shared memory.
#ifndef DELTOP_CUDA_DELTA_TILE_H
#define DELTOP_CUDA_DELTA_TILE_H

#include "kernels/cuda/device.h"
#include "kernels/cuda/held.h"
#include "kernels/cuda/wgmma.h"

enum {
    CHUNK = 64,          // rows (micro-steps) of a chunk
    WIDTH = 128,         // of keys, and of the values that one block takes
    PANEL = CHUNK * 128, // bytes: 64 rows of 64 16-bit numbers
    TILE = 2 * PANEL,    // 64 rows of 128 numbers
    KEYS = 5,            // chunks of keys and gates in flight: M is made ahead from them
    QUERIES = 2,         // chunks of queries
    VALUES = 2,          // chunks of values, which the state has read at a chunk's beginning
    AT_ONCE = 2,         // chunks whose M are made at the same time, with outputs
    MADE = 2,            // chunks of M in flight; of P0 and of outputs one
    BLOCK_16 = 16 * 48,  // bytes: a 16 x 16 block of halves, rows 48 bytes apart
    BLOCK_16F = 16 * 80, // the same of floats, columns 80 bytes apart
    FEEDERS = 128,       // warpgroup 0: copies, gates, P0, outputs' way out
    STATE_WARPS = 8,     // warpgroups 1 and 2
    MAKERS = 128,        // warpgroup 3: M
    DELTA_THREADS = 512,
    MAKERS_BARRIER = 1,   // named barrier
    MOST_SEGMENTS = 64,   // of a row: the scan walks them one by one
    LAYOUTS = 8,          // by how many eighths of the heads keep their past (delta.cu)
    PART = 64,            // values of one of the state's warpgroups
    STATE = PART * WIDTH, // floats of what it holds
};

// Warpgroups' shares of a head's values.
static __host__ __device__ __forceinline__ int parts_of(int V) {
    return (V + PART - 1) / PART;
}

// How a row is cut: chunks of its first segment and of the others; the last has what is left.
struct delta_layout {
    int first, rest;
};
static __host__ __device__ __forceinline__ int segments_of(int chunks, const delta_layout &l) {
    return chunks <= l.first ? 1 : 1 + (chunks - l.first + l.rest - 1) / l.rest;
}

// One of a call's rows of different lengths (delta_rows.h).
struct delta_row {
    int token0, tokens, chunks; // its first token in the call, how many
    int state;                  // states of this row of the call
    int same;                   // on the host: rows from this one on with as many chunks
    int chunk0, piece0;         // chunks and segments of the rows before it in the table
    int boundary0;              // its first boundary state
};

// One call. A row is one sequence of tokens; rows lie behind each other in q, k, v, o, beta and decay.
typedef struct delta_call {
    const bf16 *q, *k, *v;     // tokens, micro-steps, micro-steps
    const float *beta, *decay; // per micro-step or NULL (= 1); natural log per token or NULL
    int64_t ldq, ldk, ldv, ldbeta, lddecay, ldo;
    bf16 *o;
    int H, Hk, K, V, n_h;
    int64_t T; // tokens of a row
    int n_rows;
    const delta_row *rows; // on the host, instead of T (delta_rows_of); or NULL
    float scale;           // of the read-out
    // Boundary states (core/rows.h), [boundaries H K, V], ldstates >= V floats from row to row; every: tokens. 0: none.
    float *states;
    int64_t ldstates, every;
    // Set by delta_run:
    int value_blocks; // of WIDTH values
    int tokens;       // of a whole chunk
    // By how many eighths of the heads keep their past from segment to segment.
    delta_layout layout[LAYOUTS + 1];
    const unsigned char *gates; // row by row [H][chunks] of gates_bytes each
    bool boxes_out;             // o and its rows start at multiples of 16 bytes
    bool uneven;                // rows have different numbers of chunks: one layout
    bool paired;                // the first pass runs in clusters of two blocks
    const delta_row *table;     // rows on the device
    int chunks, boundaries;     // of a row, where there is no table
    int apart;                  // chunks from one boundary state to the next
    int segments;               // of the longest row
    int early;                  // rows whose outputs come before the ends in the first pass
    int inner_pieces;           // segments between two others
    int longer[MOST_SEGMENTS];  // rows that have more than n segments
    // Told on the host behind the launch of each pass; NULL: nobody listens.
    void (*done)(void *ctx, const char *pass);
    void *done_ctx;
} delta_call;

// q, k, v and o as the copy engine sees them: [row][head][64 of the head's numbers], a chunk's rows a box.
typedef struct delta_maps {
    CUtensorMap q, k, v, o;
} delta_maps;

// What a block does: chunks first..last-1 of a head's columns of 128 values.
typedef enum { TASK_OUTPUT, TASK_END, TASK_TRANSITION } delta_kind;

// The gates of a chunk as its consumers need them; c_i is the base-2 log decay summed up to row i.
struct delta_gates {
    float beta[CHUNK];
    int precise; // what the chunk writes needs two terms (FLIPS)
    int wide;    // c_last < -120: up and down would overflow
    float end;   // 2^c_last
    float none;  // to whole 16 bytes
    // Calls without decays have none of the rest.
    float up[CHUNK],
        down[CHUNK];         // 2^(c_i - mid), 2^(mid - c_i) with mid = c_last / 2; wide: c_i as
                             // the sum of two floats
    float from_start[CHUNK]; // 2^c_i
    float to_end[CHUNK];     // 2^(c_last - c_i)
    float query[CHUNK];      // scale 2^c of a token's last row
    float up_query[CHUNK];   // scale 2^(c - mid) of a token's last row, unless wide
};
static __host__ __device__ constexpr uint32_t gates_bytes(bool gated) {
    return gated ? sizeof(delta_gates) : offsetof(delta_gates, up);
}

// fmax drops a NaN; this keeps it, so that a broken gate is seen in the results.
template <class T> HOPPER_DEVICE T at_least(T x, T low) {
    return x < low ? low : x;
}

struct delta_shared {
    unsigned char k[KEYS][TILE], q[QUERIES][TILE], v[VALUES][TILE]; // bf16
    unsigned char m[MADE][PANEL];                                   // diag(beta) M^T [row i][row j]
    unsigned char low[PANEL]; // its second term, in hard chunks; see second_term
    unsigned char p[PANEL];   // P0^T [row j][query]
    unsigned char o[TILE];    // outputs on their way out; see output_place
    unsigned char l[6][AT_ONCE]
                   [BLOCK_16]; // blocks (1,0) (2,0) (2,1) .. of -L; hard chunks: L, two terms
    unsigned char d[4][AT_ONCE]
                   [BLOCK_16]; // (I + L_ww)^-1: its transpose; in hard chunks itself, two terms
    float lw[AT_ONCE][4]
            [BLOCK_16F / 4]; // -L_ww (hard chunks: L_ww, in the first place), column by column
    delta_gates gates[KEYS];
    alignas(16) int hard[MADE][4];              // first: M has a second term
    alignas(4) unsigned char votes[AT_ONCE][4]; // of the makers' warps: the chunk is hard
    int peers, first_gates, first, exponent;    // of the task
    float *boundary;
    int *ready;                           // of the task
    uint64_t k_full[KEYS], k_empty[KEYS]; // full: gates are there, too
    uint64_t q_full[QUERIES], q_empty[QUERIES];
    uint64_t v_full[VALUES], v_empty[VALUES];
    uint64_t m_full[MADE], made_empty[MADE];
    uint64_t p_full, p_empty, o_full, o_empty;
    uint64_t cut[3]; // keys, queries, values of a last chunk that is not whole have arrived
};

// Where the second term of M of a hard chunk in `slot` lies: with outputs all slots share one place; without, no
// scores are made, and theirs is free.
template <bool output> HOPPER_DEVICE unsigned char *second_term(delta_shared *m, int slot) {
    return output || slot == 0 ? m->low : m->p;
}

// Byte offset in `o` of 8 values, piece 0..15, of a query: two panels, as the copy engine takes them.
template <int queries> HOPPER_DEVICE uint32_t output_place(int query, int piece) {
    return piece / 8 * queries * 128 + swizzle(query, piece % 8);
}

// x, as far as the compiler knows made just here: what follows from it is not kept, and spilled, from chunk to chunk.
HOPPER_DEVICE int here(int x) {
    asm volatile("" : "+r"(x));
    return x;
}
HOPPER_DEVICE uint32_t load_shared_word(const uint32_t *from) {
    uint32_t x;
    asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(x) : "r"(shared_address(from)) : "memory");
    return x;
}
HOPPER_DEVICE void store_shared_word(void *to, uint32_t x) {
    asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(shared_address(to)), "r"(x) : "memory");
}
HOPPER_DEVICE void load_pair(float (&x)[2], uint32_t from) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];\n"
                 : "=f"(x[0]), "=f"(x[1])
                 : "r"(from)
                 : "memory");
}
HOPPER_DEVICE void load_shared(uint32_t (&x)[4], uint32_t from) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from)
                 : "memory");
}
HOPPER_DEVICE void store_shared(uint32_t to, const uint32_t (&x)[4]) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(to), "r"(x[0]), "r"(x[1]),
                 "r"(x[2]), "r"(x[3])
                 : "memory");
}

// Where a task lies in the call.
struct delta_task {
    int head, key_head, block;
    int first, last;        // chunks of the row
    int token, left;        // first token, and how many there are from it to the row's end
    int gates;              // number of the first chunk's
    const float *from;      // state before, [K, V]; NULL: zero, or I for TASK_TRANSITION
    float *to;              // state after, or NULL
    int64_t from_ld, to_ld; // floats from row to row; 0: as the warpgroups hold it (delta_kept.h)
    delta_kind kind;
    int exponent;    // a transition is stored times 2^exponent (segment_space)
    bool waits;      // `from` is what the kernel before makes
    int *ready;      // counts warps that are through with `to` (segment_space), or NULL
    float *boundary; // first boundary state of the row
    int peers; // 2: the other block of the cluster has the same keys; each makes M of every second chunk
};

#endif
