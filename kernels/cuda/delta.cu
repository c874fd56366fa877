// The delta rule in chunks of 64 rows on tensor cores (kernels/cuda/delta.h): the kernel, its segments,
// and what ties them together. docs/kernels.md explains the design.
#include "kernels/cuda/delta_feed.h"
#include "kernels/cuda/delta_gates.h"
#include "kernels/cuda/delta_make.h"
#include "kernels/cuda/delta_scan.h"
#include "kernels/cuda/delta_state.h"
#include "kernels/cuda/delta_task.h"

#include "kernels/cuda/delta.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_map.h"

#include <string.h>

static_assert(sizeof(delta_shared) <= 232448, "shared memory of a block");

// segmented: in two passes. Calls in one are the kernel that has nothing else, but for rare ones.
template <int queries, bool gated, bool boundaries, bool segmented>
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
    if (segmented && first_pass)
        wait_for_kernel_before();
    let_next_kernel_begin();
    if constexpr (segmented) {
        if (!task_of<gated>(s, first_pass, space, state, ld, &task, &m->lw[0][0][0]))
            return;
    } else {
        whole_row(s, state, ld, &task);
    }
    if (threadIdx.x == 0) {
        m->peers = task.peers;
        m->first_gates = task.gates;
        m->first = task.first;
        m->exponent = task.exponent;
        m->boundary = task.boundary;
        m->ready = task.ready;
        for (int i = 0; i < MADE; i++)
            barrier_init(&m->made_empty[i], STATE_WARPS * task.peers);
    }
    // The state comes to the L2 cache before what the copy engine asks for.
    if (task.from_ld > 0 && (int)threadIdx.x / 4 < s.K &&
        task.block * WIDTH + (int)threadIdx.x % 4 * 32 < s.V)
        prefetch_line(task.from + threadIdx.x / 4 * task.from_ld + task.block * WIDTH +
                      threadIdx.x % 4 * 32);
    fence_async();
    if (segmented && task.peers == 2)
        cluster_sync();
    else
        __syncthreads();
    const int role = threadIdx.x / 128;
    const bool output = !segmented || task.kind == TASK_OUTPUT;
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
            delta_state<queries, gated, true, boundaries, segmented>(s, task, m);
        else
            delta_state<queries, gated, false, false, segmented>(s, task, m);
    }
    if (segmented && m->peers == 2)
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
    space.ready = space.exponent + n;
    space.n = plan->segments > 1 ? (int)n : 0;
    return space;
}

size_t delta_scratch(const delta_call *s, const delta_plan *plan) {
    segment_space space = space_of(s, plan, NULL);
    if (plan->segments < 2)
        return (size_t)(space.ends - (float *)NULL);
    return (size_t)((float *)space.ready - (float *)NULL) + (size_t)plan->pieces * (size_t)s->H;
}

static void told(const delta_call &s, const char *pass) {
    if (s.done)
        s.done(s.done_ctx, pass);
}

// One of the passes. It begins before the kernel before it (gates, the first pass or the scan) is through, and waits where
// it needs what that makes.
template <int queries, bool gated, bool boundaries, bool segmented>
static cudaError_t launch_chunks(const delta_call &s, const delta_maps &maps, bool first_pass,
                                 int64_t blocks, segment_space space, float *state, int64_t ld,
                                 cudaStream_t stream) {
    const launch_form form = {(unsigned)blocks, DELTA_THREADS, sizeof(delta_shared),
                              first_pass && s.paired ? 2 : 1, true};
    return launch_as(form, stream, delta_chunks<queries, gated, boundaries, segmented>, s, maps,
                     first_pass, space, state, ld);
}

template <int queries, bool gated, bool boundaries>
static cudaError_t run(const delta_call &s, const delta_maps &maps, int chunks, segment_space space,
                       float *state, int64_t ld, cudaStream_t stream) {
    const int64_t outputs = (int64_t)s.H * s.value_blocks; // of a segment
    cudaError_t r = leave_shared(make_gates<gated>);
    if (r != cudaSuccess)
        return r;
    make_gates<gated><<<dim3((unsigned)chunks, (unsigned)((s.H + GATES_HEADS - 1) / GATES_HEADS)),
                        32 * GATES_HEADS, 0, stream>>>(s, space.gates, space.ready, space.n);
    told(s, "gates");
    if (s.segments > 1) {
        int64_t blocks = outputs * s.n_rows + (outputs + s.H) * s.inner_pieces;
        if (s.paired) { // one for nothing before the pairs, one behind all
            blocks += outputs * s.early % 2;
            blocks += blocks % 2;
        }
        r = launch_chunks<queries, gated, boundaries, true>(s, maps, true, blocks, space, state, ld,
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
    constexpr bool rare = queries < 64 || boundaries;
    if (rare || s.segments > 1)
        r = launch_chunks<queries, gated, boundaries, true>(s, maps, false, blocks, space, state,
                                                            ld, stream);
    else
        r = launch_chunks<queries, gated, boundaries, rare>(s, maps, false, blocks, space, state,
                                                            ld, stream);
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
