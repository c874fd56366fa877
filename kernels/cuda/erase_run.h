// kernels/cuda/erase_run.h - launches the chunked erase recurrences in one number format; erase_half.cu and
// erase_exact.cu are its instances. Host code.
#ifndef DELTOP_CUDA_ERASE_RUN_H
#define DELTOP_CUDA_ERASE_RUN_H

#include "kernels/cuda/erase.h"
#include "kernels/cuda/erase_march.h"
#include "kernels/cuda/erase_pairs.h"
#include "kernels/cuda/erase_parts.h"
#include "kernels/cuda/erase_prepare.h"
#include "kernels/cuda/erase_scan.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_map.h"

#include <type_traits>

#define TRY(r)                                                                                     \
    do {                                                                                           \
        cudaError_t r_ = (r);                                                                      \
        if (r_ != cudaSuccess)                                                                     \
            return r_;                                                                             \
    } while (0)

template <class F, bool OUTPUTS> static int march_shared(int stages) {
    return march_map<F, OUTPUTS>::BARRIERS + stages * march_map<F, OUTPUTS>::STAGE;
}

// The copy engine's boxes, and barriers that it completes: compute capability 9.0.
static bool has_boxes() {
    int device, major;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           major >= 9;
}

// What marches through parts: boxes, and where one key erases (erase_pairs.h) Hopper's products.
template <class F> static bool marches() {
    int device;
    return F::PAIR ? has_boxes() : cudaGetDevice(&device) == cudaSuccess && is_hopper(device);
}

// Calls that are made in parts: decays of channels, one micro-step a token, all rows in 16-byte pieces.
template <class F> constexpr bool HAS_PARTS = F::P::TERMS == 1 && F::K <= (F::PAIR ? 64 : 128);
template <class F> constexpr bool HAS_FUSED = F::P::TERMS == 1 && F::K == 64 && F::PAIR;

template <class F> static bool in_parts(const steps *x) {
    auto pieces = [](mat m) {
        return !mat_none(m) && (uintptr_t)m.p % 16 == 0 && m.ld * m.esize % 16 == 0;
    };
    return HAS_PARTS<F> && x->s.n_h == 1 && x->s.decay == DECAY_CHANNEL && x->s.V % 8 == 0 &&
           (!F::PAIR || mat_none(x->beta)) && pieces(x->v) && pieces(x->decay);
}

// Tokens first .. + n.
static erase_call call_of(const steps *x, int tokens, int64_t first, int64_t n) {
    const head_shape *p = &x->s;
    auto gates_of = [&](mat m, int64_t row) {
        const mat from = mat_none(m) ? m : mat_rows(m, row, m.rows - row);
        return gates{from.p, from.ld, from.esize == 2};
    };
    erase_call s = {};
    s.H = p->H, s.Hk = p->Hk, s.K = p->K, s.V = p->V, s.n_h = p->n_h;
    s.tokens = tokens;
    s.T = n;
    s.chunks = (int)((n + tokens - 1) / tokens);
    s.scale = (float)p->scale;
    s.decay_of_channel = p->decay == DECAY_CHANNEL;
    s.decay = gates_of(x->decay, first);
    s.beta = gates_of(x->beta, first * p->n_h);
    return s;
}
// Of chunks, or of parts, `together` of which no segment's end may part. Outputs of the first segment of such parts go by the side
// of ends of others, two of which share a multiprocessor and take an eighth longer: so much longer is the first.
static erase_segments segments_of(const erase_plan *plan, const erase_space *space, int chunks,
                                  int together = 1) {
    erase_segments seg = {1, chunks, space->ends, space->transitions};
    if (plan->segments > 1) {
        const int all = (chunks + together - 1) / together, n = plan->segments,
                  per = n > 2 && together > 1 ? (8 * all + 8 * n) / (8 * n + 1) : (all + n - 1) / n,
                  more = all - n * per;
        seg.per = per * together;
        seg.n = (all + per - 1) / per;
        if (more > 0)
            seg.more = more * together, seg.n = n;
    }
    return seg;
}
// Behind the ends of three or more segments.
static cudaError_t scan(const erase_job *j, const erase_call &s, const erase_segments &seg) {
    if (seg.n <= 2)
        return cudaSuccess;
    TRY(leave_shared(scan_ends));
    const launch_form form = {{(unsigned)s.H, (unsigned)((s.V + SCAN_COLUMNS - 1) / SCAN_COLUMNS)},
                              SCAN_THREADS,
                              0,
                              0,
                              has_boxes()};
    TRY(launch_as(form, j->stream, scan_ends, s, seg));
    j->done(j->done_ctx, "scan");
    return cudaSuccess;
}
// Behind the outputs of more than one segment.
static cudaError_t keep_end(const erase_job *j, const erase_segments &seg) {
    const head_shape *p = &j->s.s;
    if (seg.n == 1)
        return cudaSuccess;
    return cudaMemcpy2DAsync(j->state.p, (size_t)j->state.ld * sizeof(float),
                             seg.ends + (int64_t)(seg.n - 1) * p->H * p->K * p->V,
                             (size_t)p->V * sizeof(float), (size_t)p->V * sizeof(float),
                             (size_t)p->H * (size_t)p->K, cudaMemcpyDeviceToDevice, j->stream);
}
static unsigned column_blocks(int width) {
    return (unsigned)((width + MARCH_COLUMNS - 1) / MARCH_COLUMNS);
}

static part_inputs inputs_of(const steps *x, int64_t first) {
    auto from = [&](mat m) {
        return as<bf16>(mat_none(m) ? m : mat_rows(m, first, m.rows - first));
    };
    return part_inputs{from(x->q), from(x->k), from(x->a), from(x->b), from(x->v)};
}

// Tensor maps of [row][head][column] from a row on. panel, rows: of a box; tiles: fp16 in their layout.
static cudaError_t map_rows(CUtensorMap *map, mat m, int64_t first, int width, int panel,
                            bool tiles, int rows = PART) {
    const cuuint64_t each = (cuuint64_t)m.esize;
    return map_tensor(
        map, m.esize == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        (char *)m.p + first * m.ld * m.esize,
        {(cuuint64_t)width, (cuuint64_t)(m.cols / width), (cuuint64_t)(m.rows - first)},
        {(cuuint64_t)width * each, (cuuint64_t)m.ld * each},
        {(cuuint32_t)panel, 1, (cuuint32_t)rows},
        tiles ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}
// Left empty on devices whose kernels do without (erase_boxes.h).
template <class F> static cudaError_t maps_of(part_maps *maps, const steps *x, int64_t first) {
    *maps = {};
    if (!has_boxes())
        return cudaSuccess;
    const int K = x->s.K;
    TRY(map_rows(&maps->q, x->q, first, K, 64, true));
    TRY(map_rows(&maps->k, x->k, first, K, 64, true));
    TRY(map_rows(&maps->v, x->v, first, x->s.V, VALUE_COLUMNS, true));
    TRY(map_rows(&maps->decay, x->decay, first, K, F::K, false, F::DECAY_ROWS));
    if (F::PAIR) {
        TRY(map_rows(&maps->a, x->a, first, K, 64, true));
        TRY(map_rows(&maps->b, x->b, first, K, 64, true));
    }
    return cudaSuccess;
}

// F: part_form.
template <class F> static cudaError_t run_fused(const erase_job *j, const erase_space *space) {
    TRY(cudaFuncSetAttribute(fused<F>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             fused_shared<F>()));
    part_maps maps;
    TRY(maps_of<F>(&maps, &j->s, 0));
    fused<F><<<(unsigned)j->s.s.H * column_blocks(j->s.s.V), FUSED_THREADS, fused_shared<F>(),
               j->stream>>>(call_of(&j->s, PART, 0, j->s.T), inputs_of(&j->s, 0), maps,
                            as<float>(j->state), as<bf16>(j->o), space->marks);
    TRY(cudaGetLastError());
    j->done(j->done_ctx, "fused");
    return cudaSuccess;
}

// What carries states through parts: through two at a time where one key erases.
template <class F, bool OUTPUTS> constexpr auto marching() {
    if constexpr (F::PAIR)
        return march_parts<F, OUTPUTS>;
    else
        return march_pairs<F, OUTPUTS>;
}
template <class F, bool OUTPUTS>
using march_room = std::conditional_t<F::PAIR, ring_map<F, OUTPUTS>, pair_map<F, OUTPUTS>>;

// Registers of a thread, 0 where nobody knows.
template <class Kernel> static int registers_of(Kernel kernel) {
    cudaFuncAttributes a;
    return cudaFuncGetAttributes(&a, kernel) == cudaSuccess ? a.numRegs : 0;
}
// Tokens that are made into parts together, then gone through; `slots`: theirs.
struct part_stretch {
    int64_t first;
    erase_call s;
    part_maps maps;
    unsigned char *slots;
};
template <class F>
static cudaError_t stretch_of(const erase_job *j, const erase_plan *plan, const erase_space *space,
                              int i, part_stretch *x) {
    const int64_t step = (int64_t)plan->chunks * ROWS;
    x->first = i * step;
    x->s = call_of(&j->s, PART, x->first, j->s.T - x->first < step ? j->s.T - x->first : step);
    x->s.chunks = (x->s.chunks + F::TOGETHER - 1) / F::TOGETHER * F::TOGETHER;
    const size_t bytes = (size_t)plan->chunks * (PARTS / F::TOGETHER) * F::SLOTS * (size_t)x->s.H;
    x->slots = space->slots + (plan->ahead && i % 2 ? bytes : 0);
    return maps_of<F>(&x->maps, &j->s, x->first);
}

template <class F>
static cudaError_t run_make(const erase_job *j, const part_stretch &x, bool beside) {
    TRY(leave_shared(make_parts<F>));
    const launch_form form = {{(unsigned)x.s.H, (unsigned)((x.s.chunks + PARTS - 1) / PARTS)},
                              FUSED_THREADS,
                              make_shared<F>(),
                              0,
                              beside};
    TRY(launch_as(form, j->stream, make_parts<F>, x.s, inputs_of(&j->s, x.first), x.maps, x.slots));
    j->done(j->done_ctx, "parts");
    return cudaSuccess;
}

// Segments first .. first + n - 1 of a stretch. leave_room: for a block of make_parts beside one of these.
template <class F, bool OUTPUTS>
static cudaError_t run_march(const erase_job *j, const part_stretch &x, erase_segments seg,
                             int first, int n, bool beside, bool leave_room,
                             const erase_space *space) {
    // Slots look the same whatever decays were made of.
    typedef part_form<F::K, F::PAIR, bf16> G;
    static_assert(G::SLOTS == F::SLOTS, "one march for all decays");
    const auto kernel = marching<G, OUTPUTS>();
    typedef march_room<G, OUTPUTS> room;
    TRY(leave_shared(kernel));
    if constexpr (!F::PAIR) { // else its warps would wait for each other's registers for ever
        static const int registers = registers_of(kernel);
        if (registers != PAIR_REGISTERS)
            return cudaErrorLaunchOutOfResources;
    }
    const unsigned tiles = column_blocks(x.s.V) + (OUTPUTS ? 0 : column_blocks(x.s.K));
    seg.from = first;
    launch_form form = {
        {(unsigned)x.s.H * tiles, (unsigned)n}, 32 * room::WARPS, room::BYTES, 0, beside};
    const view<bf16> o = as<bf16>(mat_rows(j->o, x.first, j->o.rows - x.first));
    if constexpr (F::PAIR) {
        return launch_as(form, j->stream, kernel, x.s, x.maps.v, x.slots, as<float>(j->state), o,
                         space->marks, seg);
    } else {
        const int rings = OUTPUTS && !leave_room ? room::RING + 1 : room::RING;
        static_assert(room::RING + 1 <= room::LONGEST, "room for barriers");
        form.shared += (rings - room::RING) * room::STAGE;
        return launch_as(form, j->stream, kernel, x.s, x.maps.v, x.slots, as<float>(j->state), o,
                         space->marks, seg, rings);
    }
}
template <class F>
static cudaError_t run_parts(const erase_job *j, const erase_plan *plan, const erase_space *space) {
    const int64_t step = (int64_t)plan->chunks * ROWS;
    const int n = (int)((j->s.T + step - 1) / step);
    part_stretch now, next;
    TRY(stretch_of<F>(j, plan, space, 0, &now));
    TRY(run_make<F>(j, now, false));
    for (int i = 0; i < n; i++, now = next) {
        const erase_segments seg = segments_of(plan, space, now.s.chunks, F::TOGETHER);
        // Outputs of the first segment beside ends of all but the first and the last, then outputs of the others.
        if (seg.n > 1) {
            TRY((run_march<F, true>(j, now, seg, 0, 1, !F::PAIR, plan->ahead, space)));
            if (seg.n > 2)
                TRY((run_march<F, false>(j, now, seg, 1, seg.n - 2, true, false, space)));
            j->done(j->done_ctx, "segments' ends");
        }
        TRY(scan(j, now.s, seg));
        const int rest = seg.n > 1 ? 1 : 0;
        TRY((run_march<F, true>(j, now, seg, rest, seg.n - rest, !F::PAIR && seg.n != 2,
                                plan->ahead, space)));
        j->done(j->done_ctx, "march");
        if (i + 1 < n) {
            TRY(stretch_of<F>(j, plan, space, i + 1, &next));
            TRY(run_make<F>(j, next, plan->ahead));
        }
        if (F::PAIR) // march_pairs has brought it there
            TRY(keep_end(j, seg));
    }
    return cudaSuccess;
}

// Two blocks of so much shared memory on one multiprocessor.
static bool fit_beside(int a, int b) {
    int device, all, system;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device) ==
               cudaSuccess &&
           cudaDeviceGetAttribute(&system, cudaDevAttrReservedSharedMemoryPerBlock, device) ==
               cudaSuccess &&
           a + b + 2 * system <= all;
}

template <class F> static erase_sizes sizes_of(const erase_job *j) {
    static_assert(march_map<F, true>::BARRIERS == (int)ERASE_BARRIERS, "as plans count them");
    const head_shape *p = &j->s.s;
    erase_sizes z;
    z.rows = F::C;
    z.slot = F::BYTES;
    z.parts_shared = z.fused_shared = 0;
    z.ahead = false;
    if constexpr (HAS_PARTS<F>)
        if (in_parts<F>(&j->s)) {
            typedef part_form<F::K, F::PAIR, bf16> G;
            typedef part_form<F::K, F::PAIR, float> W;
            const bool is_16 = j->s.decay.esize == 2;
            const int make = is_16 ? make_shared<G>() : make_shared<W>(),
                      ring = march_room<G, true>::BYTES;
            z.parts_shared = !marches<F>() ? 0 : make > ring ? make : ring;
            z.ahead = z.parts_shared && !F::PAIR && fit_beside(make, ring);
            if (HAS_FUSED<F>)
                z.fused_shared = is_16 ? fused_shared<G>() : fused_shared<W>();
            constexpr int slots = PARTS / G::TOGETHER * G::SLOTS;
            if (z.parts_shared && slots > F::BYTES)
                z.slot = slots;
        }
    z.prepare_shared = prepare_map<F>::BYTES;
    z.stage = march_map<F, true>::STAGE;
    z.end_stage = march_map<F, false>::STAGE;
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
    const erase_call s = call_of(x, F::C / p->n_h, first, n);
    auto from = [&](mat m, int64_t row) {
        return mat_none(m) ? m : mat_rows(m, row, m.rows - row);
    };
    const view<T> v = as<T>(from(x->v, first * n_h));
    const view<float> state = as<float>(j->state);
    const view<T> o = as<T>(from(j->o, first));
    prepare<F, T>
        <<<dim3((unsigned)p->H, (unsigned)s.chunks), PREPARE_THREADS, prepare_map<F>::BYTES,
           j->stream>>>(s, as<T>(from(x->q, first)), as<T>(from(x->k, first * n_h)),
                        as<T>(from(x->a, first)), as<T>(from(x->b, first)), space->slots);
    TRY(cudaGetLastError());
    j->done(j->done_ctx, "prepare");
    const erase_segments seg = segments_of(plan, space, s.chunks);
    const unsigned blocks = column_blocks(p->V), heads = (unsigned)p->H;
    const bool wide =
        (uintptr_t)v.p % 16 == 0 && v.ld * sizeof(T) % 16 == 0 && p->V * sizeof(T) % 16 == 0;
    if (seg.n > 1) {
        const unsigned more = column_blocks(p->K);
        march<F, T, false><<<dim3(heads * (blocks + more), (unsigned)seg.n - 1), 32 * MARCH_WARPS,
                             march_shared<F, false>(plan->end_stages), j->stream>>>(
            s, v, space->slots, state, o, space->marks, seg, wide, plan->end_stages);
        TRY(cudaGetLastError());
        j->done(j->done_ctx, "segments' ends");
        TRY(scan(j, s, seg));
    }
    march<F, T, true><<<dim3(heads * blocks, (unsigned)seg.n), 32 * MARCH_WARPS,
                        march_shared<F, true>(plan->stages), j->stream>>>(
        s, v, space->slots, state, o, space->marks, seg, wide, plan->stages);
    TRY(cudaGetLastError());
    TRY(keep_end(j, seg));
    j->done(j->done_ctx, "march");
    return cudaSuccess;
}

template <class F>
static cudaError_t run_form(const erase_job *j, const erase_plan *plan, erase_space *space) {
    typedef typename F::input T;
    if constexpr (HAS_PARTS<F>) {
        typedef part_form<F::K, F::PAIR, bf16> G;
        typedef part_form<F::K, F::PAIR, float> W;
        const bool is_16 = j->s.decay.esize == 2;
        if constexpr (HAS_FUSED<F>)
            if (plan->way == ERASE_FUSED)
                return is_16 ? run_fused<G>(j, space) : run_fused<W>(j, space);
        if (plan->way == ERASE_PARTS)
            return is_16 ? run_parts<G>(j, plan, space) : run_parts<W>(j, plan, space);
    }
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
