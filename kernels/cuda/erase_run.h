// kernels/cuda/erase_run.h - launches the chunked erase recurrences in one number format; erase_half.cu and
// erase_exact.cu are its instances. Host code.
#ifndef DELTOP_CUDA_ERASE_RUN_H
#define DELTOP_CUDA_ERASE_RUN_H

#include "kernels/cuda/erase.h"
#include "kernels/cuda/erase_fused.h"
#include "kernels/cuda/erase_march.h"
#include "kernels/cuda/erase_prepare.h"
#include "kernels/cuda/erase_scan.h"

#define TRY(r)                                                                                     \
    do {                                                                                           \
        cudaError_t r_ = (r);                                                                      \
        if (r_ != cudaSuccess)                                                                     \
            return r_;                                                                             \
    } while (0)

template <class F, bool OUTPUTS> static int march_shared(int stages) {
    return march_map<F, OUTPUTS>::BARRIERS + stages * march_map<F, OUTPUTS>::STAGE;
}

// Calls that the fused kernel takes: pairs with decays of channels (RWKV-7) of narrow heads, all rows in 16-byte pieces.
template <class F> static bool fuses(const steps *x) {
    auto pieces = [](mat m) {
        return !mat_none(m) && (uintptr_t)m.p % 16 == 0 && m.ld * m.esize % 16 == 0;
    };
    return F::P::TERMS == 1 && F::PAIR && F::K == 64 && x->s.n_h == 1 &&
           x->s.decay == DECAY_CHANNEL && mat_none(x->beta) && x->s.V % 8 == 0 && pieces(x->v) &&
           pieces(x->decay);
}
template <class W> static cudaError_t run_fused(const erase_job *j, erase_space *space) {
    typedef fused_form<64, true, W> F;
    TRY(cudaFuncSetAttribute(fused<F>, cudaFuncAttributeMaxDynamicSharedMemorySize, F::BYTES));
    const steps *x = &j->s;
    const head_shape *p = &x->s;
    erase_call s = {};
    s.H = p->H, s.Hk = p->Hk, s.K = p->K, s.V = p->V, s.n_h = p->n_h;
    s.T = x->T;
    s.scale = (float)p->scale;
    s.decay_of_channel = true;
    s.decay = gates{x->decay.p, x->decay.ld, x->decay.esize == 2};
    const fused_inputs in = {as<bf16>(x->q), as<bf16>(x->k), as<bf16>(x->a), as<bf16>(x->b),
                             as<bf16>(x->v)};
    const unsigned blocks = (unsigned)((p->V + MARCH_COLUMNS - 1) / MARCH_COLUMNS);
    fused<F><<<(unsigned)p->H * blocks, FUSED_THREADS, F::BYTES, j->stream>>>(
        s, in, as<float>(j->state), as<bf16>(j->o), space->marks);
    TRY(cudaGetLastError());
    j->done(j->done_ctx, "fused");
    return cudaSuccess;
}

template <class F> static erase_sizes sizes_of(const erase_job *j) {
    static_assert(march_map<F, true>::BARRIERS == (int)ERASE_BARRIERS, "as plans count them");
    const head_shape *p = &j->s.s;
    erase_sizes z;
    z.rows = F::C;
    z.slot = F::BYTES;
    z.prepare_shared = prepare_map<F>::BYTES;
    z.stage = march_map<F, true>::STAGE;
    z.end_stage = march_map<F, false>::STAGE;
    z.fused_shared = !fuses<F>(&j->s)        ? 0
                     : j->s.decay.esize == 2 ? fused_form<64, true, bf16>::BYTES
                                             : fused_form<64, true, float>::BYTES;
    z.state = (size_t)p->H * (size_t)p->K * (size_t)p->V * sizeof(float);
    z.transition = (size_t)p->H * (size_t)p->K * (size_t)p->K * sizeof(float);
    z.marks =
        ((size_t)p->H * (size_t)((p->V + COLUMNS - 1) / COLUMNS) * sizeof(int) + 127) / 128 * 128;
    return z;
}

// One stretch of chunks: tokens first .. + n.
template <class F>
static cudaError_t stretch(const erase_job *j, const erase_plan *plan, erase_space *space,
                           int64_t first, int64_t n) {
    typedef typename F::input T;
    const steps *x = &j->s;
    const head_shape *p = &x->s;
    const int64_t n_h = p->n_h;
    erase_call s = {};
    s.H = p->H, s.Hk = p->Hk, s.K = p->K, s.V = p->V, s.n_h = p->n_h;
    s.tokens = F::C / p->n_h;
    s.T = n;
    s.chunks = (int)((n + s.tokens - 1) / s.tokens);
    s.scale = (float)p->scale;
    auto from = [&](mat m, int64_t row) {
        return mat_none(m) ? m : mat_rows(m, row, m.rows - row);
    };
    auto gates_of = [&](mat m) { return gates{m.p, m.ld, m.esize == 2}; };
    s.decay_of_channel = p->decay == DECAY_CHANNEL;
    s.decay = gates_of(from(x->decay, first));
    s.beta = gates_of(from(x->beta, first * n_h));
    const view<T> v = as<T>(from(x->v, first * n_h));
    const view<float> state = as<float>(j->state);
    const view<T> o = as<T>(from(j->o, first));
    prepare<F, T>
        <<<dim3((unsigned)p->H, (unsigned)s.chunks), PREPARE_THREADS, prepare_map<F>::BYTES,
           j->stream>>>(s, as<T>(from(x->q, first)), as<T>(from(x->k, first * n_h)),
                        as<T>(from(x->a, first)), as<T>(from(x->b, first)), space->slots);
    TRY(cudaGetLastError());
    j->done(j->done_ctx, "prepare");
    erase_segments seg = {1, s.chunks, space->ends, space->transitions};
    if (plan->segments > 1) {
        seg.per = (s.chunks + plan->segments - 1) / plan->segments;
        seg.n = (s.chunks + seg.per - 1) / seg.per;
    }
    const unsigned blocks = (unsigned)((p->V + MARCH_COLUMNS - 1) / MARCH_COLUMNS),
                   heads = (unsigned)p->H;
    const bool wide =
        (uintptr_t)v.p % 16 == 0 && v.ld * sizeof(T) % 16 == 0 && p->V * sizeof(T) % 16 == 0;
    if (seg.n > 1) {
        const unsigned more = (unsigned)((p->K + MARCH_COLUMNS - 1) / MARCH_COLUMNS);
        march<F, T, false><<<dim3(heads * (blocks + more), (unsigned)seg.n - 1), 32 * MARCH_WARPS,
                             march_shared<F, false>(plan->end_stages), j->stream>>>(
            s, v, space->slots, state, o, space->marks, seg, wide, plan->end_stages);
        TRY(cudaGetLastError());
        j->done(j->done_ctx, "segments' ends");
        if (seg.n > 2) {
            scan_ends<<<dim3(heads, (unsigned)((p->V + SCAN_COLUMNS - 1) / SCAN_COLUMNS)),
                        SCAN_THREADS, 0, j->stream>>>(s, seg);
            TRY(cudaGetLastError());
            j->done(j->done_ctx, "scan");
        }
    }
    march<F, T, true><<<dim3(heads * blocks, (unsigned)seg.n), 32 * MARCH_WARPS,
                        march_shared<F, true>(plan->stages), j->stream>>>(
        s, v, space->slots, state, o, space->marks, seg, wide, plan->stages);
    TRY(cudaGetLastError());
    if (seg.n > 1)
        TRY(cudaMemcpy2DAsync(state.p, (size_t)state.ld * sizeof(float),
                              seg.ends + (int64_t)(seg.n - 1) * p->H * p->K * p->V,
                              (size_t)p->V * sizeof(float), (size_t)p->V * sizeof(float),
                              (size_t)p->H * (size_t)p->K, cudaMemcpyDeviceToDevice, j->stream));
    j->done(j->done_ctx, "march");
    return cudaSuccess;
}

template <class F>
static cudaError_t run_form(const erase_job *j, const erase_plan *plan, erase_space *space) {
    typedef typename F::input T;
    if constexpr (F::P::TERMS == 1 && F::PAIR && F::K == 64)
        if (plan->fused)
            return j->s.decay.esize == 2 ? run_fused<bf16>(j, space) : run_fused<float>(j, space);
    TRY(cudaFuncSetAttribute(prepare<F, T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             prepare_map<F>::BYTES));
    TRY(cudaFuncSetAttribute(march<F, T, true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             march_shared<F, true>(plan->stages)));
    TRY(cudaFuncSetAttribute(march<F, T, false>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             march_shared<F, false>(plan->end_stages)));
    const int64_t step = (int64_t)plan->chunks * (F::C / j->s.s.n_h);
    for (int64_t t = 0; t < j->s.T; t += step)
        TRY(stretch<F>(j, plan, space, t, j->s.T - t < step ? j->s.T - t : step));
    return cudaSuccess;
}

// The narrowest form that holds K. DO: sizes_of or run_form and its arguments.
#define FOR_FORM(P, T, job, ROWS_64, ROWS_128, ROWS_256, DO, ...)                                  \
    do {                                                                                           \
        const int K_ = (job)->s.s.K;                                                               \
        if ((job)->s.s.erase == ERASE_PAIR)                                                        \
            return K_ <= 64    ? DO<erase_form<P, T, 64, ROWS_64, true>>(__VA_ARGS__)              \
                   : K_ <= 128 ? DO<erase_form<P, T, 128, ROWS_128, true>>(__VA_ARGS__)            \
                               : DO<erase_form<P, T, 256, ROWS_256, true>>(__VA_ARGS__);           \
        return K_ <= 64    ? DO<erase_form<P, T, 64, ROWS_64, false>>(__VA_ARGS__)                 \
               : K_ <= 128 ? DO<erase_form<P, T, 128, ROWS_128, false>>(__VA_ARGS__)               \
                           : DO<erase_form<P, T, 256, ROWS_256, false>>(__VA_ARGS__);              \
    } while (0)

#endif
