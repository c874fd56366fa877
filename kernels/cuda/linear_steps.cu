// The recurrences of core/steps.h without an erase term on the chunked kernels (kernels/cuda/linear.h), where
// device and shapes allow it and it pays.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/linear.h"

static linear_matrix matrix_of(mat m) {
    return {m.p, m.ld, m.esize};
}

// Copies of 16 bytes want rows and heads that start at multiples of them.
static bool copies_take(mat m, int width) {
    const int vector = 16 / m.esize;
    return width % vector == 0 && m.ld % vector == 0 && (uintptr_t)m.p % 16 == 0;
}

// What bench reports: which kernel, and why so many segments.
static void name_kernel(backend *be, const linear_call *c, const linear_plan *plan,
                        int processors) {
    const bool half = c->q.bytes == 2;
    be->kernel = half      ? "cuda chunks of 16 on tensor cores, bf16"
                 : c->fine ? "cuda chunks of 16 on tensor cores, float32 as two TF32"
                           : "cuda chunks of 16 on tensor cores, TF32";
    linear_plan one = linear_plan_for(c, processors, 1);
    if (plan->segments > 1)
        snprintf(be->kernel_why, sizeof be->kernel_why,
                 "%d segments of %lld tokens: %.0f us expected (ends %.0f, scan %.0f, outputs "
                 "%.0f), in one pass %.0f",
                 plan->segments, (long long)plan->tokens, linear_us(plan), plan->ends, plan->scan,
                 plan->outputs, linear_us(&one));
    else
        snprintf(be->kernel_why, sizeof be->kernel_why,
                 "one pass: %.0f us expected, step by step %.0f", linear_us(plan),
                 linear_steps_us(c, processors));
}

static void pass_done(void *be, const char *pass) {
    phase_done((backend *)be, pass);
}

bool cuda_linear_recurrence(backend *be, const steps *s, mat state, mat o) {
    const head_shape *p = &s->s;
    if (be->recurrence == RECURRENCE_STEP || p->erase != ERASE_NONE || p->n_h != 1 || p->K > 256 ||
        s->k.esize != s->q.esize || s->v.esize != s->q.esize || o.esize != s->q.esize ||
        !copies_take(s->q, p->K) || !copies_take(s->k, p->K) || !copies_take(s->v, p->V) ||
        !copies_take(o, p->V) || (p->decay == DECAY_CHANNEL && !copies_take(s->decay, p->K)))
        return false;
    linear_call c = {};
    c.q = matrix_of(s->q);
    c.k = matrix_of(s->k);
    c.v = matrix_of(s->v);
    c.beta = matrix_of(s->beta);
    if (p->decay != DECAY_NONE)
        c.decay = matrix_of(s->decay);
    c.o = matrix_of(o);
    c.state = (float *)state.p;
    c.ld_state = state.ld;
    c.forget = p->decay == DECAY_NONE   ? FORGET_NOTHING
               : p->decay == DECAY_HEAD ? FORGET_BY_HEAD
                                        : FORGET_BY_CHANNEL;
    c.H = p->H;
    c.Hk = p->Hk;
    c.K = p->K;
    c.V = p->V;
    c.T = s->T;
    c.scale = (float)p->scale;
    c.fine = be->prec != PRECISION_TF32;
    const int processors = of(be)->processors;
    const linear_plan plan = linear_plan_for(&c, processors, 0);
    if (linear_shared_bytes(&c) > shared_memory(be) ||
        (be->recurrence != RECURRENCE_CHUNK && linear_us(&plan) > linear_steps_us(&c, processors)))
        return be->fail.code != ERR_NONE; // the failure is kept
    const size_t floats = linear_scratch(&c, &plan);
    float *scratch = floats ? (float *)device_scratch(be, floats * sizeof(float)) : NULL;
    if (floats && !scratch)
        return true;
    name_kernel(be, &c, &plan, processors);
    cuda_ok(be, linear_run(&c, &plan, scratch, of(be)->stream, pass_done, be),
            "recurrence in chunks");
    return true;
}
