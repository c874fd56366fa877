// kernels/cuda/delta_task.h - what a block of the two passes of delta.cu does: which segment of which row and head, and which
// of these the gates leave to be done at all. Every block finds out for itself.
#ifndef DELTOP_CUDA_DELTA_TASK_H
#define DELTOP_CUDA_DELTA_TASK_H

#include "kernels/cuda/delta_kept.h"

// A log2 decay below this leaves nothing that a float32 sum would see.
#define NOTHING (-26.0f)

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Base-2 log decay of a chunk, by its number among all (gates_of).
__device__ static float chunk_decay(const delta_call &s, int64_t number) {
    return log2f(((const delta_gates *)(s.gates + number * gates_bytes(true)))->end);
}

// What n chunks of a head, number `first` and the next ones, leave of what lay before them.
struct delta_past {
    int matter; // from the last chunk backwards, so many until nothing is left; n + 1 when more would be needed, or a
                // decay among them is no number or infinite: what it spoils must show
    float sum;  // of their decays where that many are not enough
};
// The whole block asks, its first warp looks.
__device__ static delta_past past_of(const delta_call &s, int64_t first, int n, float *shared) {
    if (threadIdx.x < 32) {
        const int lane = threadIdx.x;
        float sum = 0;
        unsigned gone = 0;
        int done = 0;
        for (; done < n && !gone; done += 32) {
            const int i = done + lane;
            const float x =
                warp_running_sum(i < n ? chunk_decay(s, first + n - 1 - i) : 0.0f, lane);
            gone = __ballot_sync(~0u, sum + x < NOTHING);
            sum += __shfl_sync(~0u, x, 31);
        }
        // A loop of its own: as part of the other, ptxas serialises all products of the kernel (C7520).
        unsigned broken = 0;
        for (int at = 0; at < n && !broken; at += 32) {
            const int i = at + lane;
            broken = __ballot_sync(~0u, i < n && !(chunk_decay(s, first + n - 1 - i) < INFINITY));
        }
        if (lane == 0) {
            *(int *)shared = gone && !broken ? done - 32 + __ffs((int)gone) : n + 1;
            shared[1] = broken ? 0.0f : sum;
        }
    }
    __syncthreads();
    return {*(int *)shared, shared[1]};
}

// Which heads of which rows keep their past from segment to segment, by a guess from a few chunks of each: so the call is
// cut, and the ends are made in an order, that suits them. Results do not depend on it but in their rounding. All blocks of both
// passes guess the same, from gates that nobody changes meanwhile. For as many heads as a block has threads; the rest is thought to
// be like these.
struct delta_guess {
    int keep, heads; // of so many
};
template <bool gated> __device__ static bool guesses(const delta_call &s) {
    return gated && !s.uneven && s.segments > 2;
}
// The whole block asks. place: of this thread's head when those that keep most come first.
template <bool gated>
__device__ static delta_guess guess_of(const delta_call &s, float *shared, int *place) {
    enum { SAMPLES = 8 };
    const int all = s.n_rows * s.H, heads = min(all, (int)DELTA_THREADS), i = threadIdx.x;
    *place = -1;
    if (!guesses<gated>(s))
        return {all, all};
    float sum = 2 * NOTHING;
    if (i < heads) {
        const delta_row row = row_of(s, i / s.H);
        sum = 0;
#pragma unroll
        for (int j = 0; j < SAMPLES; j++)
            sum += at_least(
                chunk_decay(s, gates_of(s, row, i % s.H, (2 * j + 1) * row.chunks / (2 * SAMPLES))),
                2 * NOTHING);
        sum *= (float)row.chunks / (float)(SAMPLES * s.segments); // of a segment
        sum = sum < 0 ? sum : 0;                                  // no NaN
    }
    shared[i] = sum;
    __syncthreads();
    int before = 0, keep = 0;
    for (int j = 0; j < heads; j++) {
        const float x = shared[j];
        before += x > sum || (x == sum && j < i);
        keep += x >= NOTHING;
    }
    *place = i < heads ? before : -1;
    // The compiler knows a number by a shuffle to be the same in all lanes, and a loop over chunks to be one of whole warps.
    return {held(keep), heads};
}
// Number `rank` of the heads in this order; the whole block asks.
template <bool gated>
__device__ static int head_at(const delta_call &s, int heads, int rank, int place, float *shared) {
    if (!guesses<gated>(s))
        return rank;
    __syncthreads();
    if (place == rank)
        *(int *)shared = threadIdx.x;
    __syncthreads();
    const int at = held(*(int *)shared);
    return rank < heads ? at : rank;
}

// Of all rows' inner segments and their heads ("units"), an end and a transition each: what number i of these is. First segments
// come first, since the scan goes through them in this order. In pairs both of a unit are neighbours, one cluster, where the head
// keeps its past. Where it does not there will be no transition, and half of a cluster would wait for the other: then ends come
// first, and transitions last.
struct delta_end {
    int unit;          // of uneven rows
    int rank, segment; // of others: of the head among all rows' heads
    int block;         // of the values; value_blocks: the transition
    bool pair;
};
__device__ static delta_end end_of(const delta_call &s, int keep, int i) {
    const int each = s.value_blocks + 1, all = s.n_rows * s.H, kept = keep * (s.segments - 2);
    if (s.uneven)
        return {i / each, 0, 0, i % each, s.paired};
    if (!s.paired || i < 2 * kept) {
        const int heads = s.paired ? keep : all, unit = i / each;
        return {0, unit % heads, 1 + unit / heads, i % each, s.paired};
    }
    const int inner = s.segments - 2, others = (all - keep) * inner, n = i - 2 * kept,
              unit = n % others;
    return {0, keep + unit / inner, 1 + unit % inner, n / others, false};
}

// What follows from row, head, block and chunks.
__device__ static void place_task(const delta_call &s, const delta_row &row, delta_task *t) {
    t->key_head = t->head / (s.H / s.Hk);
    t->token = row.token0 + t->first * s.tokens;
    t->left = row.tokens - t->first * s.tokens;
    t->gates = gates_of(s, row, t->head, t->first);
    t->boundary =
        s.states + ((int64_t)row.boundary0 * s.H + t->head) * s.K * s.ldstates + t->block * WIDTH;
}

// What this block does of calls in one pass: a whole row of a head.
__device__ static void whole_row(const delta_call &s, float *state, int64_t ld, delta_task *t) {
    const int per_row = s.H * s.value_blocks, i = blockIdx.x % per_row;
    const delta_row row = row_of(s, blockIdx.x / per_row);
    t->kind = TASK_OUTPUT;
    t->block = i % s.value_blocks;
    t->head = i / s.value_blocks;
    t->first = 0;
    t->last = row.chunks;
    t->to = state + ((int64_t)row.state * s.H + t->head) * s.K * ld;
    t->from = t->to;
    t->from_ld = t->to_ld = ld;
    t->peers = 1;
    t->exponent = 0;
    t->waits = false;
    t->ready = NULL;
    place_task(s, row, t);
}

// What this block does of calls in two passes. First pass: segment 0 of every row with its outputs, and ends and transitions of the others
// but the last; second pass: outputs of the others. shared: a float a thread.
template <bool gated>
__device__ static bool task_of(const delta_call &s, bool first_pass, segment_space space,
                               float *state, int64_t ld, delta_task *t, float *shared) {
    const int per_row = s.H * s.value_blocks; // tasks of a segment with outputs
    int i = blockIdx.x, segment = 0, place;
    t->kind = TASK_OUTPUT;
    t->peers = 1;
    t->exponent = 0;
    // First pass: outputs that take long, a block for nothing if pairs would begin with an odd one, ends and transitions, the
    // other outputs.
    const int early = s.early * per_row, ends = early + (s.paired ? early % 2 : 0),
              late = ends + s.inner_pieces * s.H * (s.value_blocks + 1);
    const bool is_end = first_pass && i >= ends && i < late;
    int place_of_head;
    const delta_guess guess = guess_of<gated>(s, shared, &place_of_head);
    const delta_layout layout = s.layout[(guess.keep * LAYOUTS + guess.heads - 1) / guess.heads];
    const delta_end end = is_end ? end_of(s, guess.keep, i - ends) : delta_end{};
    const int head_of_row =
        head_at<gated>(s, guess.heads, is_end ? end.rank : -2, place_of_head, shared);
    if (is_end) {
        if (s.uneven) {
            place = row_with_inner(s, end.unit / s.H, &segment);
            t->head = end.unit % s.H;
        } else {
            place = head_of_row / s.H;
            t->head = head_of_row % s.H;
            segment = end.segment;
        }
        t->kind = end.block == s.value_blocks ? TASK_TRANSITION : TASK_END;
        t->block = t->kind == TASK_TRANSITION ? 0 : end.block;
        t->peers = end.pair ? 2 : 1;
    } else {
        if (first_pass) {
            if (i >= early && i < ends)
                return false;
            i -= i < early ? 0 : late - early;
            place = i / per_row;
            if (place >= s.n_rows)
                return false;
        } else {
            const int inner_tasks = s.inner_pieces * per_row;
            if (s.segments > 1 && i < inner_tasks)
                place = row_with_inner(s, i / per_row, &segment);
            else {
                place = (i - inner_tasks) / per_row;
                segment = -1; // the last
            }
        }
        i %= per_row;
        t->block = i % s.value_blocks;
        t->head = i / s.value_blocks;
    }
    const delta_row row = row_of(s, place);
    const int segments = segments_of(s, row);
    segment = segment < 0 ? segments - 1 : segment;
    t->first = segment == 0 ? 0 : layout.first + (segment - 1) * layout.rest;
    t->last = min(row.chunks, layout.first + segment * layout.rest);
    const int64_t head = (int64_t)row.state * s.H + t->head,
                  piece = ((int64_t)row.piece0 + segment) * s.H + t->head;
    const int64_t kept = (int64_t)parts_of(s.V) * STATE;
    float *own = state + head * s.K * ld, *left = space.ends + piece * kept;
    t->from = segment == 0 ? own : t->kind == TASK_OUTPUT ? left - s.H * kept : NULL;
    t->from_ld = segment == 0 ? ld : 0;
    t->to = left;
    t->to_ld = 0;
    t->ready = first_pass ? space.ready + piece : NULL;
    if (segment == segments - 1) {
        t->to = own;
        t->to_ld = ld;
    } else if (t->kind == TASK_TRANSITION)
        t->to = (float *)(space.transitions + piece * WIDTH * WIDTH);
    else if (t->kind == TASK_OUTPUT && segment > 0)
        t->to = NULL;
    if constexpr (gated)
        if (t->kind != TASK_OUTPUT) {
            const int chunks = t->last - t->first;
            const delta_past past = past_of(s, gates_of(s, row, t->head, t->first), chunks,
                                            shared + 1); // the first may still be read
            const bool gone = past.matter <= chunks;
            if (t->kind == TASK_TRANSITION) {
                t->exponent = exponent_within(__float2int_rn(-past.sum));
                if (threadIdx.x == 0)
                    space.exponent[piece] = gone ? NOTHING_LEFT : t->exponent;
                if (gone) {
                    if (threadIdx.x == 0)
                        count_for(t->ready, STATE_WARPS);
                    return false;
                }
            } else if (gone) {
                // The state at the end knows nothing of what lies before the last chunks.
                t->peers = 1;
                t->first = t->last - past.matter;
            }
        }
    t->waits = !first_pass && segment > 0;
    place_task(s, row, t);
    return true;
}

#endif

#endif
