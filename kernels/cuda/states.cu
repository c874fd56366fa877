// Singular values of the states inside a block (kernels/states.h), on the device for K, V <= 128:
//
//   states_march        the step recurrence once along the block, leaving the state at the first
//                       wanted position of every chunk
//   states_reduce       a block of threads a chunk: replay, float64 Gram, tridiagonal form
//   states_eigenvalues  root-free QL, a thread a matrix
//   states_sort         roots, falling order, scale
//
// Wanted positions are taken in rounds whose memory is bounded; results of one round are copied out
// while the next one runs, so two sets of buffers take turns. Larger sizes go to states_host.cu.
// Values are right to about 1e-8 sigma_1, and those near SVALS_CUT sigma_1 are left as they are (the
// CPU takes them again by dgesdd).
#include "kernels/cuda/ops.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/states_march.h"
#include "kernels/cuda/states_reduce.h"
// uses reduce_job
#include "kernels/cuda/states_finish.h"

enum {
    LARGEST = 128,          // K, V
    ROUND_MATRICES = 32768, // more than enough to fill a device, few enough to hide the copies
    LONGEST_CHUNK = 32
};
static const size_t MOST_BYTES = (size_t)1 << 30;

enum { MARCH, REDUCE, EIGENVALUES, SORT, STAGES };
static const char *const stage_names[STAGES] = {"march", "reduce", "eigenvalues", "sort"};

// One set of buffers.
struct round_slot {
    float *starts;
    double *d, *e2, *sv, *fro;
    int *exponent;
    cudaEvent_t done, mark[STAGES + 1];
    int64_t first, positions; // of the round it holds; 0: none
};

struct spectra {
    backend *be;
    const steps *s;
    const int *heads;
    int n_heads, n;
    int64_t round; // positions
    int per_chunk;
    float *now; // [n_heads][K][V]
    int *d_heads;
    int64_t *wanted;
    round_slot slot[2];
    cudaStream_t out;
    bool trace;
    double ms[STAGES];
};

static size_t slot_bytes(const spectra *x, int64_t positions, int per_chunk) {
    size_t chunks = (size_t)((positions + per_chunk - 1) / per_chunk);
    size_t size = (size_t)x->s->s.K * x->s->s.V * sizeof(float), n = (size_t)x->n;
    return (size_t)x->n_heads *
           (chunks * size + (size_t)positions * (3 * n * sizeof(double) + sizeof(double) + 4));
}

template <class P> static bool device_array(spectra *x, P **p, size_t count, size_t size) {
    return cuda_ok(x->be, cudaMallocAsync((void **)p, count * size, of(x->be)->stream), "spectra");
}

// How many positions a round takes, and a chunk: at least 16 chunks for each block that the device
// runs at a time, as far as there are so many positions.
static bool plan(spectra *x, int64_t n) {
    size_t space = 0, total = 0;
    int sms = 0, heads = x->n_heads;
    if (!cuda_ok(x->be, cudaMemGetInfo(&space, &total), "spectra") ||
        !cuda_ok(x->be,
                 cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, of(x->be)->device),
                 "spectra"))
        return false;
    size_t most = space / 4 < MOST_BYTES ? space / 4 : MOST_BYTES;
    x->round = ROUND_MATRICES / heads > 0 ? ROUND_MATRICES / heads : 1;
    x->round = x->round < n ? x->round : n;
    for (;;) {
        int64_t chunk = x->round * heads / (16 * (int64_t)sms * (x->n > 64 ? 1 : 4));
        x->per_chunk = (int)(chunk < 1 ? 1 : chunk > LONGEST_CHUNK ? LONGEST_CHUNK : chunk);
        while (x->per_chunk < LONGEST_CHUNK && 2 * slot_bytes(x, x->round, x->per_chunk) > most)
            x->per_chunk *= 2;
        if (x->round == 1 || 2 * slot_bytes(x, x->round, x->per_chunk) <= most)
            return true;
        x->round /= 2;
    }
}

static bool slot_new(spectra *x, round_slot *r) {
    size_t matrices = (size_t)x->round * x->n_heads, values = matrices * x->n;
    size_t chunks = (size_t)((x->round + x->per_chunk - 1) / x->per_chunk) * x->n_heads;
    size_t size = (size_t)x->s->s.K * x->s->s.V;
    return device_array(x, &r->starts, chunks * size, sizeof(float)) &&
           device_array(x, &r->d, values, sizeof(double)) &&
           device_array(x, &r->e2, values, sizeof(double)) &&
           device_array(x, &r->sv, values, sizeof(double)) &&
           device_array(x, &r->fro, matrices, sizeof(double)) &&
           device_array(x, &r->exponent, matrices, sizeof(int)) &&
           cuda_ok(x->be, cudaEventCreateWithFlags(&r->done, cudaEventDisableTiming), "spectra");
}

static void slot_free(spectra *x, round_slot *r) {
    void *all[] = {r->starts, r->d, r->e2, r->sv, r->fro, r->exponent};
    for (void *p : all)
        if (p)
            cudaFreeAsync(p, of(x->be)->stream);
    if (r->done)
        cudaEventDestroy(r->done);
    for (cudaEvent_t t : r->mark)
        if (t)
            cudaEventDestroy(t);
}

static void mark(spectra *x, round_slot *r, int stage) {
    if (!x->trace)
        return;
    if (!r->mark[stage])
        cudaEventCreate(&r->mark[stage]);
    cudaEventRecord(r->mark[stage], of(x->be)->stream);
}

template <class T>
static bool march(spectra *x, const replay_view<T> &v, int64_t done, const int64_t *wanted,
                  int64_t chunks, float *starts) {
    size_t bytes =
        sizeof(float) * march_floats(v.K, v.decay == DECAY_CHANNEL, v.erase == ERASE_PAIR);
    dim3 grid((unsigned)x->n_heads, (unsigned)((v.V + MARCH_COLUMNS - 1) / MARCH_COLUMNS));
    auto kernel = v.K <= 64 ? states_march<T, 8> : states_march<T, 16>;
    if (!cuda_ok(
            x->be,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
            "shared memory of the state march"))
        return false;
    kernel<<<grid, MARCH_THREADS, bytes, of(x->be)->stream>>>(v, x->d_heads, done, wanted,
                                                              x->per_chunk, chunks, x->now, starts);
    return cuda_ok(x->be, cudaGetLastError(), "state march");
}

template <class T, int W, int R>
static bool reduce(spectra *x, const replay_view<T> &v, const reduce_job &job) {
    size_t bytes = reduce_bytes<W, R>(v.K, v.V);
    auto kernel = states_reduce<T, W, R>;
    if (!cuda_ok(
            x->be,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
            "shared memory of the state spectra"))
        return false;
    kernel<<<(unsigned)(x->n_heads * job.chunks), 32 * W, bytes, of(x->be)->stream>>>(v, job);
    return cuda_ok(x->be, cudaGetLastError(), "state spectra");
}

// Launches everything of positions first .. first + count - 1.
template <class T>
static bool launch_round(spectra *x, const replay_view<T> &v, round_slot *r, int64_t first,
                         int64_t count, int64_t *done, const int64_t *at) {
    cudaStream_t stream = of(x->be)->stream;
    int chunks = (int)((count + x->per_chunk - 1) / x->per_chunk);
    reduce_job job = {x->d_heads, x->wanted + first,  (int)count, x->per_chunk, chunks,
                      r->starts,  count * x->n_heads, r->d,       r->e2,        r->exponent};
    r->first = first;
    r->positions = count;
    mark(x, r, MARCH);
    if (!march<T>(x, v, *done, job.wanted, chunks, r->starts))
        return false;
    *done = at[first + (int64_t)(chunks - 1) * x->per_chunk];
    mark(x, r, REDUCE);
    bool ok = x->n <= 32   ? reduce<T, 4, 8>(x, v, job)
              : x->n <= 64 ? reduce<T, 4, 16>(x, v, job)
                           : reduce<T, 16, 8>(x, v, job);
    if (!ok)
        return false;
    mark(x, r, EIGENVALUES);
    states_eigenvalues<<<(unsigned)((job.matrices + 127) / 128), 128, 0, stream>>>(job, x->n,
                                                                                   r->fro);
    mark(x, r, SORT);
    size_t bytes = sizeof(double) * FINISH_MATRICES * (x->n + 1);
    states_sort<<<(unsigned)((job.matrices + FINISH_MATRICES - 1) / FINISH_MATRICES),
                  FINISH_THREADS, bytes, stream>>>(job, x->n, r->sv, r->fro);
    mark(x, r, STAGES);
    return cuda_ok(x->be, cudaGetLastError(), "state spectra") &&
           cuda_ok(x->be, cudaEventRecord(r->done, stream), "state spectra");
}

// Waits for a round and copies its results; the other round goes on meanwhile.
static bool collect(spectra *x, round_slot *r, int64_t n, double *sv, double *fro) {
    if (r->positions == 0)
        return true;
    bool ok = cuda_ok(x->be, cudaEventSynchronize(r->done), "state spectra");
    for (int64_t h = 0; ok && h < x->n_heads; h++) {
        int64_t to = h * n + r->first, from = h * r->positions;
        size_t bytes = (size_t)r->positions * sizeof(double);
        ok =
            cuda_ok(x->be,
                    cudaMemcpyAsync(sv + to * x->n, r->sv + from * x->n, bytes * x->n,
                                    cudaMemcpyDeviceToHost, x->out),
                    "singular values") &&
            cuda_ok(x->be,
                    cudaMemcpyAsync(fro + to, r->fro + from, bytes, cudaMemcpyDeviceToHost, x->out),
                    "norms of states");
    }
    ok = ok && cuda_ok(x->be, cudaStreamSynchronize(x->out), "singular values");
    for (int i = 0; ok && x->trace && i < STAGES; i++) {
        float ms = 0;
        cudaEventElapsedTime(&ms, r->mark[i], r->mark[i + 1]);
        x->ms[i] += ms;
    }
    r->positions = 0;
    return ok;
}

template <class T>
static bool run_rounds(spectra *x, const replay_view<T> &v, const int64_t *at, int64_t n,
                       double *sv, double *fro) {
    int64_t done = 0;
    int turn = 0;
    bool ok = true;
    for (int64_t first = 0; ok && first < n; first += x->round, turn ^= 1) {
        int64_t count = n - first < x->round ? n - first : x->round;
        ok = launch_round<T>(x, v, &x->slot[turn], first, count, &done, at) &&
             collect(x, &x->slot[turn ^ 1], n, sv, fro);
    }
    return ok && collect(x, &x->slot[turn ^ 1], n, sv, fro);
}

// States of the wanted heads to `now`, the wanted positions to the device.
static bool prepare(spectra *x, mat state, const int64_t *at, int64_t n) {
    cudaStream_t stream = of(x->be)->stream;
    const head_shape *p = &x->s->s;
    size_t size = (size_t)p->K * p->V;
    if (!plan(x, n) || !device_array(x, &x->now, size * x->n_heads, sizeof(float)) ||
        !device_array(x, &x->d_heads, (size_t)x->n_heads, sizeof(int)) ||
        !device_array(x, &x->wanted, (size_t)n, sizeof(int64_t)) || !slot_new(x, &x->slot[0]) ||
        (x->round < n && !slot_new(x, &x->slot[1])) ||
        !cuda_ok(x->be,
                 cudaMemcpyAsync(x->d_heads, x->heads, x->n_heads * sizeof(int),
                                 cudaMemcpyHostToDevice, stream),
                 "spectra") ||
        !cuda_ok(x->be,
                 cudaMemcpyAsync(x->wanted, at, (size_t)n * sizeof(int64_t), cudaMemcpyHostToDevice,
                                 stream),
                 "spectra") ||
        !cuda_ok(x->be, cudaStreamCreateWithFlags(&x->out, cudaStreamNonBlocking), "spectra"))
        return false;
    for (int i = 0; i < x->n_heads; i++)
        x->be->op->copy(x->be, mat_rows(state, (int64_t)x->heads[i] * p->K, p->K),
                        mat{x->now + i * size, p->K, p->V, p->V, sizeof(float)});
    return x->be->fail.code == ERR_NONE;
}

// A float copy, for betas and decays that come from a rounded product.
static mat as_float(backend *be, mat m) {
    mat f = be->op->alloc_exact(be, m.rows, m.cols);
    if (!mat_none(f))
        be->op->copy(be, m, f);
    return f;
}

static bool run(spectra *x, const int64_t *at, int64_t n, double *sv, double *fro) {
    const steps *s = x->s;
    const head_shape *p = &s->s;
    backend *be = x->be;
    bool own_beta = !mat_none(s->beta) && s->beta.esize != 4;
    bool own_decay = !mat_none(s->decay) && s->decay.esize != 4;
    mat beta = own_beta ? as_float(be, s->beta) : s->beta;
    mat decay = own_decay ? as_float(be, s->decay) : s->decay;
    bool ok = be->fail.code == ERR_NONE;
    if (ok)
        ON_TYPE(s->k, T, {
            replay_view<T> v = {p->H,
                                p->Hk,
                                p->K,
                                p->V,
                                p->n_h,
                                (int)p->decay,
                                (int)p->erase,
                                !mat_none(s->beta),
                                as<T>(s->k),
                                as<T>(s->v),
                                as<T>(s->a),
                                as<T>(s->b),
                                as<float>(beta),
                                as<float>(decay)};
            ok = run_rounds<T>(x, v, at, n, sv, fro);
        });
    if (own_beta)
        be->op->free(be, beta);
    if (own_decay)
        be->op->free(be, decay);
    return ok;
}

bool cuda_state_svals(backend *be, const steps *s, mat state, const int *heads, int n_heads,
                      const int64_t *at, int64_t n, double *sv, double *fro, err *e) {
    const head_shape *p = &s->s;
    if (p->K > LARGEST || p->V > LARGEST)
        return states_svals_on_host(be, s, state, heads, n_heads, at, n, sv, fro, e);
    if (n == 0 || n_heads == 0)
        return true;
    spectra x = {};
    x.be = be;
    x.s = s;
    x.heads = heads;
    x.n_heads = n_heads;
    x.n = p->K < p->V ? p->K : p->V;
    const char *trace = getenv("DELTOP_CUDA_TRACE");
    x.trace = trace && *trace == '1';
    bool ok = prepare(&x, state, at, n) && run(&x, at, n, sv, fro);
    // After a failure the other round may still be writing.
    cudaStreamSynchronize(of(be)->stream);
    for (round_slot &r : x.slot)
        slot_free(&x, &r);
    void *all[] = {x.now, x.d_heads, x.wanted};
    for (void *q : all)
        if (q)
            cudaFreeAsync(q, of(be)->stream);
    if (x.out)
        cudaStreamDestroy(x.out);
    if (ok && x.trace) {
        fprintf(stderr, "cuda state_svals %d x %d, %d heads x %lld: rounds of %lld, chunks of %d;",
                p->K, p->V, n_heads, (long long)n, (long long)x.round, x.per_chunk);
        for (int i = 0; i < STAGES; i++)
            fprintf(stderr, " %s %.2f ms%s", stage_names[i], x.ms[i], i + 1 < STAGES ? "," : "\n");
    }
    return backend_check(be, e) && ok;
}
