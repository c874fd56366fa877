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

bool cuda_delta_recurrence(backend *be, const steps *s, mat state, mat o) {
    const head_shape *p = &s->s;
    if (be->recurrence == RECURRENCE_STEP || be->recurrence == RECURRENCE_PORTABLE ||
        p->erase != ERASE_KEY || p->decay == DECAY_CHANNEL || p->K > WIDTH || p->n_h > CHUNK / 4 ||
        s->T * p->n_h < CHUNK || !engine_takes(s->q, p->K) || !engine_takes(s->k, p->K) ||
        !engine_takes(s->v, p->V) || o.esize != sizeof(bf16) || o.ld % 2 != 0 ||
        s->T * p->n_h > INT32_MAX || !is_hopper(of(be)->device))
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
    c.T = c.all_tokens = s->T;
    c.n_rows = 1;
    c.scale = (float)p->scale;
    int processors = 0;
    if (!cuda_ok(
            be, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, of(be)->device),
            "number of multiprocessors"))
        return true; // the failure is kept
    delta_plan plan = delta_plan_for(&c, processors, 0);
    size_t floats = delta_scratch(&c, &plan);
    float *scratch = floats ? (float *)device_scratch(be, floats * sizeof(float)) : NULL;
    if (floats && !scratch)
        return true;
    cuda_ok(be, delta_run(c, &plan, (float *)state.p, state.ld, scratch, of(be)->stream),
            "recurrence on tensor cores");
    return true;
}
