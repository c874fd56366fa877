// Chunks that erase with one decay a head and wide keys, on Hopper (kernels/cuda/erase_scalar.h): launches and segments.
#include "kernels/cuda/erase_scalar.h"

#include "kernels/cuda/erase_scalar_march.h"
#include "kernels/cuda/erase_scalar_prepare.h"
#include "kernels/cuda/erase_scalar_scan.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_map.h"

// Microseconds of a chunk in a block that makes segments' ends, one that makes outputs; of the scan a segment.
#define END_US    2.0
#define OUTPUT_US 3.4
#define SCAN_US   20.0

static bool on_pieces(mat m) {
    return m.esize == sizeof(bf16) && (uintptr_t)m.p % 16 == 0 && m.ld % 8 == 0;
}

bool erase_scalar_takes(const erase_job *j, int device) {
    const head_shape *p = &j->s.s;
    if (p->erase != ERASE_KEY || p->decay == DECAY_CHANNEL || p->K <= SCALAR_K / 2 ||
        p->K > SCALAR_K || p->K % 8 != 0 || p->V % 8 != 0 || p->n_h > 16 ||
        j->s.T * p->n_h > INT32_MAX || !on_pieces(j->s.q) || !on_pieces(j->s.k) ||
        !on_pieces(j->s.v) || !on_pieces(j->o))
        return false;
    return is_hopper(device);
}

erase_sizes erase_scalar_sizes(const erase_job *j) {
    const head_shape *p = &j->s.s;
    erase_sizes z = {};
    z.rows = SCALAR_C;
    z.slot = SCALAR_SLOT;
    z.prepare_shared = sizeof(scalar_making);
    z.stage = z.end_stage = sizeof(scalar_walk) - ERASE_BARRIERS;
    z.state = (size_t)p->H * (size_t)p->K * (size_t)p->V * sizeof(float);
    z.transition = (size_t)p->H * (size_t)p->K * (size_t)p->K * sizeof(float);
    z.marks =
        ((size_t)p->H * (size_t)((p->V + COLUMNS - 1) / COLUMNS) * sizeof(int) + 127) / 128 * 128;
    return z;
}

int erase_scalar_segments(const erase_job *j, int chunks, int processors, double *us) {
    const head_shape *p = &j->s.s;
    const int64_t values = (p->V + WALK_COLUMNS - 1) / WALK_COLUMNS,
                  keys = (p->K + WALK_COLUMNS - 1) / WALK_COLUMNS;
    auto waves = [&](int64_t blocks) { return (double)((blocks + processors - 1) / processors); };
    int best = 1;
    for (int n = 1; n <= 64 && n <= chunks; n++) {
        const int per = (chunks + n - 1) / n;
        if (n > 1 && (chunks + per - 1) / per != n)
            continue;
        double all = waves(p->H * values * n) * per * OUTPUT_US;
        if (n > 1)
            all += waves(p->H * (values * (n - 1) + keys * (n - 2))) * per * END_US +
                   SCAN_US * (n - 2);
        if (n == 1 || all < *us)
            best = n, *us = all;
    }
    return best;
}

#define TRY(r)                                                                                     \
    do {                                                                                           \
        cudaError_t r_ = (r);                                                                      \
        if (r_ != cudaSuccess)                                                                     \
            return r_;                                                                             \
    } while (0)

template <bool OUTPUTS, int PEERS, class... Args>
static cudaError_t launch_walk(dim3 grid, cudaStream_t stream, Args... args) {
    void (*kernel)(Args...) = scalar_march<OUTPUTS, PEERS>;
    const launch_form form = {grid, WALK_THREADS, sizeof(scalar_walk), PEERS, false};
    return launch_as(form, stream, kernel, args...);
}
template <bool OUTPUTS, class... Args>
static cudaError_t march_blocks(bool pairs, dim3 grid, cudaStream_t stream, Args... args) {
    return pairs ? launch_walk<OUTPUTS, 2>(grid, stream, args...)
                 : launch_walk<OUTPUTS, 1>(grid, stream, args...);
}

// One stretch of chunks: tokens first .. + n.
static cudaError_t stretch(const erase_job *j, const erase_plan *plan, erase_space *space,
                           int64_t first, int64_t n) {
    const steps *x = &j->s;
    const head_shape *p = &x->s;
    const int64_t n_h = p->n_h;
    erase_call s = {};
    s.H = p->H, s.Hk = p->Hk, s.K = p->K, s.V = p->V, s.n_h = p->n_h;
    s.tokens = SCALAR_C / p->n_h;
    s.T = n;
    s.chunks = (int)((n + s.tokens - 1) / s.tokens);
    s.scale = (float)p->scale;
    auto from = [&](mat m, int64_t row) {
        return mat_none(m) ? m : mat_rows(m, row, m.rows - row);
    };
    auto gates_of = [&](mat m) { return gates{m.p, m.ld, m.esize == 2}; };
    s.decay = gates_of(from(x->decay, first));
    s.beta = gates_of(from(x->beta, first * n_h));
    const view<bf16> v = as<bf16>(from(x->v, first * n_h)), o = as<bf16>(from(j->o, first));
    CUtensorMap values;
    TRY(map_of(&values, v.p, s.V, s.H, n * n_h, v.ld, s.tokens * s.n_h));
    const view<float> state = as<float>(j->state);
    const unsigned heads = (unsigned)p->H,
                   blocks = (unsigned)((p->V + WALK_COLUMNS - 1) / WALK_COLUMNS),
                   more = (unsigned)((p->K + WALK_COLUMNS - 1) / WALK_COLUMNS);
    const bool pairs = blocks % 2 == 0; // keys past 128 have two blocks of a transition
    scalar_prepare<<<dim3(heads, (unsigned)s.chunks), PREPARE_THREADS, sizeof(scalar_making),
                     j->stream>>>(s, as<bf16>(from(x->q, first)), as<bf16>(from(x->k, first * n_h)),
                                  space->slots);
    TRY(cudaGetLastError());
    j->done(j->done_ctx, "prepare");
    erase_segments seg = {1, s.chunks, space->ends, space->transitions};
    if (plan->segments > 1) {
        seg.per = (s.chunks + plan->segments - 1) / plan->segments;
        seg.n = (s.chunks + seg.per - 1) / seg.per;
    }
    if (seg.n > 1) {
        TRY(march_blocks<false>(pairs, dim3(heads * (blocks + more), (unsigned)seg.n - 1),
                                j->stream, s, values, (const unsigned char *)space->slots, state, o,
                                space->marks, seg));
        j->done(j->done_ctx, "segments' ends");
        if (seg.n > 2) {
            scan_wide<<<dim3(heads, (unsigned)((p->V + WIDE_COLUMNS - 1) / WIDE_COLUMNS)),
                        WIDE_THREADS, sizeof(scan_shared), j->stream>>>(s, seg);
            TRY(cudaGetLastError());
            j->done(j->done_ctx, "scan");
        }
    }
    TRY(march_blocks<true>(pairs, dim3(heads * blocks, (unsigned)seg.n), j->stream, s, values,
                           (const unsigned char *)space->slots, state, o, space->marks, seg));
    if (seg.n > 1)
        TRY(cudaMemcpy2DAsync(state.p, (size_t)state.ld * sizeof(float),
                              seg.ends + (int64_t)(seg.n - 1) * p->H * p->K * p->V,
                              (size_t)p->V * sizeof(float), (size_t)p->V * sizeof(float),
                              (size_t)p->H * (size_t)p->K, cudaMemcpyDeviceToDevice, j->stream));
    j->done(j->done_ctx, "march");
    return cudaSuccess;
}

cudaError_t erase_scalar_run(const erase_job *j, const erase_plan *plan, erase_space *space) {
    static_assert(sizeof(scalar_walk) <= 232448 && 2 * (sizeof(scalar_making) + 1024) <= 233472,
                  "shared memory of Hopper");
    TRY(cudaFuncSetAttribute(scalar_prepare, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             sizeof(scalar_making)));
    TRY(cudaFuncSetAttribute(scan_wide, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             sizeof(scan_shared)));
    const int64_t step = (int64_t)plan->chunks * (SCALAR_C / j->s.s.n_h);
    for (int64_t t = 0; t < j->s.T; t += step)
        TRY(stretch(j, plan, space, t, j->s.T - t < step ? j->s.T - t : step));
    return cudaSuccess;
}
