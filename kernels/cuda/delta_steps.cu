// The recurrence of core/steps.h on the tensor-core delta rule (kernels/cuda/delta.h), where device and
// shapes allow it.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/delta.h"

// Hopper's instructions exist on compute capability 9.0 alone.
static bool is_hopper(int device) {
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    return major == 9 && minor == 0;
}

// The copy engine wants 16-byte steps from row to row and head to head.
static bool engine_takes(mat m, int width) {
    return m.esize == sizeof(bf16) && width % 8 == 0 && (uintptr_t)m.p % 16 == 0 && m.ld % 8 == 0;
}

// What bench reports: which kernel, and why so many segments.
static void name_kernel(backend *be, const delta_call *c, const delta_plan *plan, int processors) {
    double us = plan->first_pass + plan->scan + plan->second_pass;
    if (plan->segments > 1) {
        delta_plan one = delta_plan_for(c, processors, 1);
        be->kernel = "cuda chunks on tensor cores, segments side by side";
        snprintf(
            be->kernel_why, sizeof be->kernel_why,
            "%d segments of %d chunks: %.0f us expected (ends %.0f, scan %.0f, outputs %.0f), in "
            "one pass %.0f",
            plan->segments, plan->per_segment, us, plan->first_pass, plan->scan, plan->second_pass,
            one.second_pass);
    } else {
        be->kernel = "cuda chunks on tensor cores, one pass";
        snprintf(be->kernel_why, sizeof be->kernel_why, "%d chunks in one pass: %.0f us expected",
                 plan->per_segment, us);
    }
}

static void pass_done(void *be, const char *pass) {
    phase_done((backend *)be, pass);
}

bool cuda_delta_recurrence(backend *be, const steps *s, mat state, mat o) {
    const head_shape *p = &s->s;
    if (be->recurrence == RECURRENCE_STEP || be->recurrence == RECURRENCE_PORTABLE ||
        p->erase != ERASE_KEY || p->decay == DECAY_CHANNEL || p->K > WIDTH || p->n_h > CHUNK / 4 ||
        s->T * p->n_h < CHUNK || !engine_takes(s->q, p->K) || !engine_takes(s->k, p->K) ||
        !engine_takes(s->v, p->V) || o.esize != sizeof(bf16) || o.ld % 2 != 0 ||
        (uintptr_t)o.p % 4 != 0 || s->T * p->n_h > INT32_MAX || !is_hopper(of(be)->device))
        return false;
    delta_call c = {};
    c.q = (const bf16 *)s->q.p;
    c.k = (const bf16 *)s->k.p;
    c.v = (const bf16 *)s->v.p;
    c.beta = (const float *)s->beta.p;
    c.decay = p->decay == DECAY_HEAD ? (const float *)s->decay.p : NULL;
    c.ldq = s->q.ld;
    c.ldk = s->k.ld;
    c.ldv = s->v.ld;
    c.ldbeta = s->beta.ld;
    c.lddecay = s->decay.ld;
    c.ldo = o.ld;
    c.o = (bf16 *)o.p;
    c.H = p->H;
    c.Hk = p->Hk;
    c.K = p->K;
    c.V = p->V;
    c.n_h = p->n_h;
    c.T = s->T;
    c.n_rows = 1;
    c.scale = (float)p->scale;
    const int processors = of(be)->processors;
    delta_plan plan = delta_plan_for(&c, processors, 0);
    size_t floats = delta_scratch(&c, &plan);
    float *scratch = floats ? (float *)device_scratch(be, floats * sizeof(float)) : NULL;
    if (floats && !scratch)
        return true; // the failure is kept
    name_kernel(be, &c, &plan, processors);
    c.done = pass_done;
    c.done_ctx = be;
    cuda_ok(be, delta_run(c, &plan, (float *)state.p, state.ld, scratch, of(be)->stream),
            "recurrence on tensor cores");
    return true;
}
