// The delta rule in chunks of 64 rows on tensor cores (kernels/cuda/delta.h): the kernel, its segments,
// and what ties them together. docs/kernels.md explains the design.
#include "kernels/cuda/delta_feed.h"
#include "kernels/cuda/delta_gates.h"
#include "kernels/cuda/delta_make.h"
#include "kernels/cuda/delta_scan.h"
#include "kernels/cuda/delta_state.h"

#include "kernels/cuda/delta.h"
#include "kernels/cuda/tensor_map.h"

#include <string.h>

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
            float x = i < n ? chunk_decay(s, first + n - 1 - i) : 0.0f;
#pragma unroll
            for (int d = 1; d < 32; d *= 2) {
                const float before = __shfl_up_sync(~0u, x, d);
                x += lane >= d ? before : 0.0f;
            }
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

// Of all rows' inner segments and their heads ("units"), an end and a transition each: what number i of these is. In pairs
// both of a unit are neighbours, one cluster, where the head keeps its past. Where it does not there will be no transition, and
// half of a cluster would wait for the other: then ends come first, and transitions last.
struct delta_end {
    int unit, block; // block: of the values; value_blocks: the transition
    bool pair;
};
__device__ static delta_end end_of(const delta_call &s, int keep, int i) {
    const int each = s.value_blocks + 1, units = s.inner_pieces * s.H, inner = s.segments - 2;
    if (!s.paired || s.uneven || i < 2 * keep * inner)
        return {i / each, i % each, s.paired};
    const int others = units - keep * inner, n = i - 2 * keep * inner;
    return {keep * inner + n % others, n / others, false};
}

// What this block does. First pass: segment 0 of every row with its outputs, and ends and transitions of the others
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
    const int inner = max(s.segments - 2, 1),
              head_of_row = head_at<gated>(s, guess.heads, is_end ? end.unit / inner : -2,
                                           place_of_head, shared);
    if (is_end) {
        if (s.uneven) {
            place = row_with_inner(s, end.unit / s.H, &segment);
            t->head = end.unit % s.H;
        } else {
            place = head_of_row / s.H;
            t->head = head_of_row % s.H;
            segment = 1 + end.unit % inner;
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
    t->key_head = t->head / (s.H / s.Hk);
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
                t->exponent =
                    min(max(__float2int_rn(-past.sum), -MOST_EXPONENT), (int)MOST_EXPONENT);
                if (threadIdx.x == 0)
                    space.exponent[piece] = gone ? NOTHING_LEFT : t->exponent;
                if (gone)
                    return false;
            } else if (gone) {
                // The state at the end knows nothing of what lies before the last chunks.
                t->peers = 1;
                t->first = t->last - past.matter;
            }
        }
    t->waits = !first_pass && segment > 0;
    t->token = row.token0 + t->first * s.tokens;
    t->left = row.tokens - t->first * s.tokens;
    t->gates = gates_of(s, row, t->head, t->first);
    t->boundary =
        s.states + ((int64_t)row.boundary0 * s.H + t->head) * s.K * s.ldstates + t->block * WIDTH;
    return true;
}

#endif

static_assert(sizeof(delta_shared) <= 232448, "shared memory of a block");

template <int queries, bool gated, bool boundaries>
__global__ void __launch_bounds__(DELTA_THREADS, 1)
    delta_chunks(const __grid_constant__ delta_call s, const __grid_constant__ delta_maps maps,
                 bool first_pass, segment_space space, float *state, int64_t ld) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) unsigned char bytes[];
    delta_shared *m = (delta_shared *)bytes;
    delta_task task;
    // What no copy ever writes.
    if (s.tokens * s.n_h < CHUNK || s.tokens < queries)
        for (int i = threadIdx.x; i < (KEYS + QUERIES + VALUES) * TILE / 16; i += DELTA_THREADS)
            ((uint4 *)m->k)[i] = make_uint4(0, 0, 0, 0); // q and v lie behind k
    if (threadIdx.x == 0) {
        prefetch_map(&maps.k);
        prefetch_map(&maps.q);
        prefetch_map(&maps.v);
        if (s.boxes_out)
            prefetch_map(&maps.o);
        for (int i = 0; i < KEYS; i++) {
            barrier_init(&m->k_full[i], 2);
            barrier_init(&m->k_empty[i], STATE_WARPS + MAKERS / 32);
        }
        for (int i = 0; i < QUERIES; i++) {
            barrier_init(&m->q_full[i], 1);
            barrier_init(&m->q_empty[i], STATE_WARPS);
        }
        for (int i = 0; i < VALUES; i++) {
            barrier_init(&m->v_full[i], 1);
            barrier_init(&m->v_empty[i], STATE_WARPS);
        }
        for (int i = 0; i < MADE; i++)
            barrier_init(&m->m_full[i], MAKERS / 32);
        for (int i = 0; i < 3; i++)
            barrier_init(&m->cut[i], 1);
        barrier_init(&m->p_full, FEEDERS / 32);
        barrier_init(&m->p_empty, STATE_WARPS);
        barrier_init(&m->o_full, STATE_WARPS);
        barrier_init(&m->o_empty, 1);
    }
    // The first pass asks the gates what there is to do. The second one begins when they are made, since only then the first
    // lets it.
    if (first_pass)
        wait_for_kernel_before();
    let_next_kernel_begin();
    if (!task_of<gated>(s, first_pass, space, state, ld, &task, &m->lw[0][0][0]))
        return;
    if (threadIdx.x == 0) {
        m->peers = task.peers;
        m->first_gates = task.gates;
        m->first = task.first;
        m->exponent = task.exponent;
        m->boundary = task.boundary;
        for (int i = 0; i < MADE; i++)
            barrier_init(&m->made_empty[i], STATE_WARPS * task.peers);
    }
    // The state comes to the L2 cache before what the copy engine asks for.
    if (task.from_ld > 0 && (int)threadIdx.x / 4 < s.K &&
        task.block * WIDTH + (int)threadIdx.x % 4 * 32 < s.V)
        prefetch_line(task.from + threadIdx.x / 4 * task.from_ld + task.block * WIDTH +
                      threadIdx.x % 4 * 32);
    fence_async();
    if (task.peers == 2)
        cluster_sync();
    else
        __syncthreads();
    const int role = threadIdx.x / 128;
    const bool output = task.kind == TASK_OUTPUT;
    if (role == 0) {
        registers_down<48>();
        if (output)
            delta_feed<queries, gated, true>(s, maps, task, m);
        else
            delta_feed<queries, gated, false>(s, maps, task, m);
    } else if (role == 3) {
        registers_down<80>();
        if (output)
            delta_make<gated, true>(task, m);
        else
            delta_make<gated, false>(task, m);
    } else {
        registers_up<192>();
        if (output)
            delta_state<queries, gated, true, boundaries>(s, task, m);
        else
            delta_state<queries, gated, false, false>(s, task, m);
    }
    if (m->peers == 2)
        cluster_sync(); // the peer may still write here
#endif
}

static segment_space space_of(const delta_call *s, const delta_plan *plan, float *scratch) {
    const size_t H = (size_t)s->H, n = (size_t)plan->pieces * H;
    segment_space space;
    space.rows = (delta_row *)scratch;
    space.gates = (unsigned char *)(space.rows + (s->rows ? s->n_rows : 0));
    space.ends = (float *)(space.gates + (size_t)plan->chunks * H * gates_bytes(s->decay != NULL));
    space.transitions = (__half *)(space.ends + n * (size_t)parts_of(s->V) * STATE);
    space.exponent = (int *)(space.transitions + n * WIDTH * WIDTH);
    return space;
}

size_t delta_scratch(const delta_call *s, const delta_plan *plan) {
    segment_space space = space_of(s, plan, NULL);
    if (plan->segments < 2)
        return (size_t)(space.ends - (float *)NULL);
    return (size_t)((float *)space.exponent - (float *)NULL) + (size_t)plan->pieces * (size_t)s->H;
}

static void told(const delta_call &s, const char *pass) {
    if (s.done)
        s.done(s.done_ctx, pass);
}

// One of the passes. It begins before the kernel before it (gates, the first pass or the scan) is through, and waits where
// it needs what that makes.
template <int queries, bool gated, bool boundaries>
static cudaError_t launch_chunks(const delta_call &s, const delta_maps &maps, bool first_pass,
                                 int64_t blocks, segment_space space, float *state, int64_t ld,
                                 cudaStream_t stream) {
    const auto kernel = delta_chunks<queries, gated, boundaries>;
    cudaError_t r = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         sizeof(delta_shared));
    if (r != cudaSuccess)
        return r;
    cudaLaunchAttribute with[2] = {};
    with[0].id = cudaLaunchAttributeClusterDimension;
    with[0].val.clusterDim = {first_pass && s.paired ? 2u : 1u, 1, 1};
    with[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    with[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t launch = {};
    launch.gridDim = (unsigned)blocks;
    launch.blockDim = DELTA_THREADS;
    launch.dynamicSmemBytes = sizeof(delta_shared);
    launch.stream = stream;
    launch.attrs = with;
    launch.numAttrs = 2;
    return cudaLaunchKernelEx(&launch, kernel, s, maps, first_pass, space, state, ld);
}

template <int queries, bool gated, bool boundaries>
static cudaError_t run(const delta_call &s, const delta_maps &maps, int chunks, segment_space space,
                       float *state, int64_t ld, cudaStream_t stream) {
    const int64_t outputs = (int64_t)s.H * s.value_blocks; // of a segment
    // As much shared memory as the next kernel wants, so that multiprocessors need not be empty to change over.
    cudaError_t r =
        cudaFuncSetAttribute(make_gates<gated>, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared);
    if (r != cudaSuccess)
        return r;
    make_gates<gated><<<dim3((unsigned)chunks, (unsigned)((s.H + GATES_HEADS - 1) / GATES_HEADS)),
                        32 * GATES_HEADS, 0, stream>>>(s, space.gates);
    told(s, "gates");
    if (s.segments > 1) {
        int64_t blocks = outputs * s.n_rows + (outputs + s.H) * s.inner_pieces;
        if (s.paired) { // one for nothing before the pairs, one behind all
            blocks += outputs * s.early % 2;
            blocks += blocks % 2;
        }
        r = launch_chunks<queries, gated, boundaries>(s, maps, true, blocks, space, state, ld,
                                                      stream);
        if (r != cudaSuccess)
            return r;
        told(s, "segments' ends");
        if (s.segments > 2) {
            r = launch_scan(s, space, stream);
            if (r != cudaSuccess)
                return r;
            told(s, "scan");
        }
    }
    const int64_t blocks = outputs * (s.inner_pieces + s.longer[s.segments > 1 ? 1 : 0]);
    r = launch_chunks<queries, gated, boundaries>(s, maps, false, blocks, space, state, ld, stream);
    if (r != cudaSuccess)
        return r;
    told(s, "outputs");
    return cudaGetLastError();
}

template <bool gated, bool boundaries>
static cudaError_t run_queries(const delta_call &s, const delta_maps &maps, int chunks,
                               segment_space space, float *state, int64_t ld, cudaStream_t stream) {
    const auto f = s.tokens > 32   ? run<64, gated, boundaries>
                   : s.tokens > 24 ? run<32, gated, boundaries>
                   : s.tokens > 16 ? run<24, gated, boundaries>
                                   : run<16, gated, boundaries>;
    return f(s, maps, chunks, space, state, ld, stream);
}

cudaError_t delta_run(delta_call s, const delta_plan *plan, float *state, int64_t ld,
                      float *scratch, cudaStream_t stream) {
    int64_t tokens = s.rows ? 0 : s.n_rows * s.T;
    for (int i = 0; s.rows && i < s.n_rows; i++)
        tokens = max(tokens, (int64_t)s.rows[i].token0 + s.rows[i].tokens);
    if (tokens == 0)
        return cudaSuccess;
    s.value_blocks = (s.V + WIDTH - 1) / WIDTH;
    s.tokens = delta_tokens(&s);
    s.chunks = (int)((s.T + s.tokens - 1) / s.tokens);
    s.boundaries = (int)row_boundaries(s.T, s.every);
    s.apart = (int)(s.every / s.tokens);
    memcpy(s.layout, plan->layout, sizeof s.layout);
    s.uneven = plan->uneven;
    s.segments = plan->segments;
    s.boxes_out = (uintptr_t)s.o % 16 == 0 && s.ldo % 8 == 0;
    s.paired = plan->paired && s.segments > 2 && s.value_blocks == 1;
    s.early = plan->early;
    s.inner_pieces = plan->inner_pieces;
    memcpy(s.longer, plan->longer, sizeof s.longer);
    segment_space space = space_of(&s, plan, scratch);
    s.gates = space.gates;
    s.table = s.rows ? space.rows : NULL;
    delta_maps maps;
    cudaError_t r = map_of(&maps.q, s.q, s.K, s.Hk, tokens, s.ldq, s.tokens);
    if (r == cudaSuccess)
        r = map_of(&maps.k, s.k, s.K, s.Hk, tokens * s.n_h, s.ldk, s.tokens * s.n_h);
    if (r == cudaSuccess)
        r = map_of(&maps.v, s.v, s.V, s.H, tokens * s.n_h, s.ldv, s.tokens * s.n_h);
    if (r == cudaSuccess && s.boxes_out)
        r = map_of(&maps.o, s.o, s.V, s.H, tokens, s.ldo, s.tokens);
    if (r == cudaSuccess && s.rows)
        r = lay_table(s, space.rows, stream);
    if (r != cudaSuccess)
        return r;
    const auto f = s.every > 0 ? s.decay ? run_queries<true, true> : run_queries<false, true>
                   : s.decay ? run_queries<true, false>
                               : run_queries<false, false>;
    return f(s, maps, plan->chunks, space, state, ld, stream);
}
