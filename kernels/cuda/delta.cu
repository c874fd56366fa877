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
// Sum of base-2 log decays of tokens t0..t1-1 of one head, by the whole block.
__device__ static float decay_sum(const delta_call &s, int head, int64_t t0, int64_t t1,
                                  float *shared) {
    float sum = 0;
    for (int64_t t = t0 + threadIdx.x; t < t1; t += DELTA_THREADS)
        sum += at_least(s.decay[t * s.lddecay + head], -1e4f) * 1.44269504f;
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = sum;
    __syncthreads();
    float all = 0;
    for (int i = 0; i < DELTA_THREADS / 32; i++)
        all += shared[i];
    __syncthreads();
    return all;
}

// What this block does. First pass: segment 0 of every row with its outputs, and ends and transitions of the others
// but the last; second pass: outputs of the others.
template <bool gated>
__device__ static bool task_of(const delta_call &s, bool first_pass, segment_space space,
                               float *state, int64_t ld, delta_task *t, float *shared) {
    const int per_row = s.H * s.value_blocks; // tasks of a segment with outputs
    int i = blockIdx.x, segment = 0, place;
    t->kind = TASK_OUTPUT;
    t->peers = 1;
    if (first_pass) {
        // Outputs that take long, a block for nothing if pairs would begin with an odd one, ends and transitions, the
        // other outputs.
        const int each = per_row + s.H, early = s.early * per_row,
                  ends = early + (s.paired ? early % 2 : 0), late = ends + s.inner_pieces * each;
        if (i >= ends && i < late) {
            place = row_with_inner(s, (i - ends) / each, &segment);
            i = (i - ends) % each;
            if (s.paired) {
                t->kind = i % 2 ? TASK_TRANSITION : TASK_END;
                t->peers = 2;
                i /= 2;
            } else {
                t->kind = i < per_row ? TASK_END : TASK_TRANSITION;
                i = i < per_row ? i : (i - per_row) * s.value_blocks;
            }
        } else {
            if (i >= early && i < ends)
                return false;
            i -= i < early ? 0 : late - early;
            place = i / per_row;
            i %= per_row;
            if (place >= s.n_rows)
                return false;
        }
    } else {
        const int inner = s.inner_pieces * per_row;
        if (s.segments > 1 && i < inner)
            place = row_with_inner(s, i / per_row, &segment);
        else {
            place = (i - inner) / per_row;
            segment = -1; // the last
        }
        i %= per_row;
    }
    const delta_row row = row_of(s, place);
    const int segments = segments_of(s, row);
    segment = segment < 0 ? segments - 1 : segment;
    t->block = i % s.value_blocks;
    t->head = i / s.value_blocks;
    t->key_head = t->head / (s.H / s.Hk);
    t->first = segment * s.per_segment;
    t->last = min(row.chunks, t->first + s.per_segment);
    const int64_t head = (int64_t)row.state * s.H + t->head,
                  piece = ((int64_t)row.piece0 + segment) * s.H + t->head;
    float *end = space.ends + piece * s.K * s.V, *before = end - (int64_t)s.H * s.K * s.V,
          *own = state + head * s.K * ld;
    t->from = segment == 0 ? own : t->kind == TASK_OUTPUT ? before : NULL;
    t->from_ld = segment == 0 ? ld : s.V;
    t->to = end;
    t->to_ld = s.V;
    if (segment == segments - 1) {
        t->to = own;
        t->to_ld = ld;
    } else if (t->kind == TASK_TRANSITION) {
        t->to = space.transitions + piece * s.K * s.K;
        t->to_ld = s.K;
    } else if (t->kind == TASK_OUTPUT && segment > 0)
        t->to = NULL;
    if constexpr (gated) {
        const int64_t t0 = row.token0,
                      t1 = t0 + min((int64_t)row.tokens, (int64_t)t->last * s.tokens);
        const bool gone =
            t->kind != TASK_OUTPUT &&
            decay_sum(s, t->head, t0 + (int64_t)t->first * s.tokens, t1, shared) < NOTHING;
        if (t->kind == TASK_TRANSITION) {
            if (threadIdx.x == 0)
                space.nothing[piece] = gone;
            if (gone)
                return false;
        } else if (gone) {
            // The state at the end knows nothing of what lies before the last chunks.
            t->peers = 1;
            float sum = 0;
            int first = t->last;
            while (first > t->first && sum >= NOTHING) {
                first = max(t->first, first - 4);
                sum = decay_sum(s, t->head, t0 + (int64_t)first * s.tokens, t1, shared);
            }
            t->first = first;
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
    let_next_kernel_begin();
    if (!task_of<gated>(s, first_pass, space, state, ld, &task, m->lw[0][0]))
        return;
    // What no copy ever writes.
    if (s.tokens * s.n_h < CHUNK || s.tokens < queries)
        for (int i = threadIdx.x; i < (KEYS + QUERIES + VALUES) * TILE / 16; i += DELTA_THREADS)
            ((uint4 *)m->k)[i] = make_uint4(0, 0, 0, 0); // q and v lie behind k
    if (threadIdx.x == 0) {
        m->peers = task.peers;
        m->first_gates = task.gates;
        m->first = task.first;
        m->boundary = task.boundary;
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
        for (int i = 0; i < MADE; i++) {
            barrier_init(&m->m_full[i], MAKERS / 32);
            barrier_init(&m->made_empty[i], STATE_WARPS * task.peers);
        }
        for (int i = 0; i < 3; i++)
            barrier_init(&m->cut[i], 1);
        barrier_init(&m->p_full, FEEDERS / 32);
        barrier_init(&m->p_empty, STATE_WARPS);
        barrier_init(&m->o_full, STATE_WARPS);
        barrier_init(&m->o_empty, 1);
    }
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
    const size_t H = (size_t)s->H, K = (size_t)s->K, n = (size_t)plan->pieces * H;
    segment_space space;
    space.rows = (delta_row *)scratch;
    space.gates = (unsigned char *)(space.rows + (s->rows ? s->n_rows : 0));
    space.ends = (float *)(space.gates + (size_t)plan->chunks * H * gates_bytes(s->decay != NULL));
    space.transitions = space.ends + n * K * (size_t)s->V;
    space.nothing = (int *)(space.transitions + n * K * K);
    return space;
}

size_t delta_scratch(const delta_call *s, const delta_plan *plan) {
    segment_space space = space_of(s, plan, NULL);
    if (plan->segments < 2)
        return (size_t)(space.ends - (float *)NULL);
    return (size_t)((float *)space.nothing - (float *)NULL) + (size_t)plan->pieces * (size_t)s->H;
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
static cudaError_t run(const delta_call &s, const delta_maps &maps, int chunks, int scan_columns,
                       segment_space space, float *state, int64_t ld, cudaStream_t stream) {
    const int64_t outputs = (int64_t)s.H * s.value_blocks; // of a segment
    cudaError_t r;
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
            r = scan_columns == 8 ? launch_scan<8>(s, space, stream)
                                  : launch_scan<16>(s, space, stream);
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
                               int scan_columns, segment_space space, float *state, int64_t ld,
                               cudaStream_t stream) {
    const auto f = s.tokens > 32   ? run<64, gated, boundaries>
                   : s.tokens > 24 ? run<32, gated, boundaries>
                   : s.tokens > 16 ? run<24, gated, boundaries>
                                   : run<16, gated, boundaries>;
    return f(s, maps, chunks, scan_columns, space, state, ld, stream);
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
    s.per_segment = plan->per_segment;
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
    return f(s, maps, plan->chunks, plan->scan_columns, space, state, ld, stream);
}
