// The recurrence of core/steps.h on the chunked erase recurrences (kernels/cuda/erase.h), where device and shapes
// allow it and chunks are faster than steps.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/erase_scalar.h"

#include <algorithm>

enum {
    MOST_K = 256,
    NARROW_K = 128,    // of the kernels for one decay a head
    MOST_LD = 1 << 22, // numbers: a chunk's rows are addressed with 32 bits
    AHEAD_CHUNKS = 32, // that are worth a second launch
    FEW_TOKENS = 64,   // micro-steps that the step form is through with before chunks have started
    MOST_SLOTS = 512 << 20 // bytes of chunks made ahead
};

static bool aligned(mat m) {
    return (uintptr_t)m.p % 16 == 0 && m.ld * m.esize % 16 == 0;
}

// What chunks exist for: decays of channels, pairs, and keys that delta_steps.cu and chunk.cu are too narrow for.
static bool takes(const backend *be, const steps *s) {
    const head_shape *p = &s->s;
    bool two = p->erase == ERASE_PAIR;
    if (be->recurrence == RECURRENCE_STEP || p->erase == ERASE_NONE ||
        (!two && p->decay != DECAY_CHANNEL && (p->K <= NARROW_K || s->q.esize != sizeof(bf16))) ||
        (two && p->n_h != 1) || p->K > MOST_K || p->K % 8 != 0 || p->n_h > 16 ||
        (int64_t)p->H * (p->V + p->K) > INT32_MAX)
        return false;
    if (be->recurrence != RECURRENCE_CHUNK && s->T * p->n_h < FEW_TOKENS)
        return false;
    const mat in[] = {s->q, s->k, s->v, two ? s->a : s->q, two ? s->b : s->q};
    for (int i = 0; i < 5; i++)
        if (in[i].esize != s->q.esize || (i != 2 && !aligned(in[i])) || in[i].ld > MOST_LD)
            return false;
    // Two channels of a decay are read at once.
    const int two_gates = 2 * s->decay.esize;
    return p->decay != DECAY_CHANNEL ||
           (s->decay.ld <= MOST_LD && (uintptr_t)s->decay.p % (uintptr_t)two_gates == 0 &&
            s->decay.ld * s->decay.esize % two_gates == 0);
}

// Two chunks in shared memory hide the copies, unless there are blocks for twice the multiprocessors and room for
// two of them on each: then a block hides the other's copies.
static int stages_for(int stage, int most, int64_t blocks, int processors) {
    if (blocks >= 2 * (int64_t)processors && 2 * (ERASE_BARRIERS + stage + 1024) <= most &&
        2 * (ERASE_BARRIERS + 2 * stage + 1024) > most)
        return 1;
    return ERASE_BARRIERS + 2 * stage <= most ? 2 : 1;
}

// Chunks of a stretch: what memory allows, evenly; segments where heads alone leave the device idle.
static erase_plan plan_for(backend *be, const erase_job *j, const erase_sizes *z, bool scalar,
                           double *us) {
    const head_shape *p = &j->s.s;
    const int64_t blocks = (int64_t)p->H * ((p->V + 63) / 64);
    erase_plan plan = {0, 1, 1, 1, ERASE_FUSED, false};
    if (z->fused_shared && z->fused_shared <= (int)shared_memory(be) &&
        blocks > of(be)->processors / (z->parts_shared ? 1 : 2))
        return plan;
    plan.way =
        z->parts_shared && z->parts_shared <= (int)shared_memory(be) ? ERASE_PARTS : ERASE_CHUNKS;
    const int64_t tokens = z->rows / p->n_h, all = (j->s.T + tokens - 1) / tokens;
    const size_t chunk = z->slot * (size_t)p->H, have = of(be)->scratch_bytes;
    size_t room = MOST_SLOTS, left;
    if (have < room && have < chunk * (size_t)all && device_space(be, &left) && left / 4 < room)
        room = left / 4 > have ? left / 4 : have;
    int64_t most = (int64_t)(room / chunk);
    most = most < 1 ? 1 : most > 65535 ? 65535 : most;
    int64_t stretches = (all + most - 1) / most;
    // Where heads fill the device, two stretches or more, so that the next is made beside what goes through one. Ends of segments
    // would take longer for it (docs/kernels.md).
    plan.ahead = plan.way == ERASE_PARTS && z->ahead && 2 * blocks > of(be)->processors &&
                 most > 1 && (stretches > 1 || all >= AHEAD_CHUNKS);
    if (plan.ahead)
        stretches = std::max<int64_t>(2, (all + most / 2 - 1) / (most / 2));
    plan.chunks = (int)((all + stretches - 1) / stretches);
    if (scalar) {
        plan.segments = erase_scalar_segments(j, plan.chunks, of(be)->processors, us);
        *us *= (double)all / plan.chunks;
        return plan;
    }
    // Segments' ends cost 0.9 of a pass with outputs (docs/kernels.md): three segments are faster than none.
    int64_t n = of(be)->processors / blocks;
    if (plan.way == ERASE_PARTS && n >= 2) {
        // Outputs of the first stand beside the ends of others, a block a multiprocessor beside two of each.
        const int64_t with_ends = blocks + (int64_t)p->H * ((p->K + 63) / 64),
                      ends = 2 * (of(be)->processors - blocks) / with_ends;
        n = ends + 2 < n + 1 ? ends + 2 : n + 1;
    }
    if (n >= 3 && plan.chunks >= 64)
        plan.segments = (int)(n > plan.chunks / 16 ? plan.chunks / 16 : n);
    const int shared = (int)shared_memory(be), processors = of(be)->processors;
    plan.stages = stages_for(z->stage, shared, blocks * plan.segments, processors);
    plan.end_stages = stages_for(z->end_stage, shared, blocks * 2 * plan.segments, processors);
    return plan;
}

static void pass_done(void *be, const char *pass) {
    phase_done((backend *)be, pass);
}

bool cuda_erase_recurrence(backend *be, const steps *s, mat state, mat o) {
    if (!takes(be, s) || o.esize != s->q.esize)
        return false;
    const head_shape *p = &s->s;
    const bool half = s->q.esize == 2;
    erase_job j = {*s, state, o, of(be)->stream, pass_done, be};
    const bool scalar =
        be->recurrence != RECURRENCE_PORTABLE && erase_scalar_takes(&j, of(be)->device);
    // One key and beta = 2 in hundreds of rows cost fp16 a digit, but for second terms (erase_scalar.h).
    if (!scalar && half && p->erase == ERASE_KEY && p->decay != DECAY_CHANNEL && p->beta_max > 1)
        return false;
    erase_sizes z = scalar ? erase_scalar_sizes(&j)
                    : half ? erase_half_sizes(&j)
                           : erase_exact_sizes(&j);
    if (be->recurrence == RECURRENCE_PORTABLE && p->erase == ERASE_KEY)
        z.parts_shared = 0; // pairs of parts are for Hopper alone
    double us = 0;
    erase_plan plan = plan_for(be, &j, &z, scalar, &us);
    const int most = (int)shared_memory(be);
    if (plan.way == ERASE_CHUNKS && (ERASE_BARRIERS + z.stage > most || z.prepare_shared > most))
        return false;
    const size_t segments = plan.segments > 1 ? (size_t)plan.segments : 0;
    const size_t slots = z.slot * (size_t)p->H * (size_t)plan.chunks * (plan.ahead ? 2 : 1);
    char *scratch = (char *)device_scratch(be, z.marks + z.state * (1 + segments) +
                                                   z.transition * segments + slots);
    if (!scratch)
        return true; // the failure is kept
    // Slots first: they are copied in pieces that want alignment.
    erase_space space;
    space.slots = (unsigned char *)scratch;
    space.marks = (int *)(scratch + slots);
    float *start = (float *)(scratch + slots + z.marks);
    space.ends = (float *)((char *)start + z.state);
    space.transitions = (float *)((char *)space.ends + segments * z.state);
    cudaStream_t stream = of(be)->stream;
    const size_t line = (size_t)p->V * sizeof(float);
    if (!cuda_ok(be, cudaMemsetAsync(space.marks, 0, z.marks, stream), "recurrence in chunks") ||
        !cuda_ok(be,
                 cudaMemcpy2DAsync(start, line, state.p, (size_t)state.ld * sizeof(float), line,
                                   (size_t)p->H * (size_t)p->K, cudaMemcpyDeviceToDevice, stream),
                 "recurrence in chunks"))
        return true;
    if (!cuda_ok(be,
                 scalar ? erase_scalar_run(&j, &plan, &space)
                 : half ? erase_half_run(&j, &plan, &space)
                        : erase_exact_run(&j, &plan, &space),
                 "recurrence in chunks"))
        return true;
    be->kernel = scalar ? "cuda chunks of wide keys (prepare, march), fp16 products of warpgroups"
                 : plan.way == ERASE_FUSED ? "cuda parts of 16 rows (fused), fp16 products"
                 : plan.way == ERASE_PARTS ? "cuda parts of 16 rows (parts, march), fp16 products"
                 : half                    ? "cuda chunks (prepare, march), fp16 products"
                        : "cuda chunks (prepare, march), products of three bf16 terms";
    int n;
    if (plan.way == ERASE_FUSED)
        n = snprintf(be->kernel_why, sizeof be->kernel_why, "heads enough to fill the device");
    else
        n = snprintf(be->kernel_why, sizeof be->kernel_why, "%d segments, %d chunks at a time%s",
                     plan.segments, plan.chunks, plan.ahead ? ", the next made meanwhile" : "");
    if (scalar)
        snprintf(be->kernel_why + n, sizeof be->kernel_why - (size_t)n,
                 ": %.0f us expected beside what does not depend on states", us);
    if (half) { // what fp16 could not hold, micro-step by micro-step
        mat from = {start, (int64_t)p->H * p->K, p->V, p->V, (int)sizeof(float)};
        bool made = !mat_none(s->beta) && s->beta.esize != 4;
        steps t = *s;
        if (made) {
            t.beta = be->op->alloc_exact(be, s->beta.rows, s->beta.cols);
            if (mat_none(t.beta))
                return true;
            be->op->copy(be, s->beta, t.beta);
        }
        cuda_steps_where_marked(be, &t, from, space.marks, state, o);
        if (made)
            be->op->free(be, t.beta);
    }
    return true;
}
