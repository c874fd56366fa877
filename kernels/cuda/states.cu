// Singular values of the states inside a block (kernels/states.h), on the device for K, V <= 128
// (where a block may have the shared memory: 102 KB for 128 x 128):
//
//   states_march        the step recurrence once along the block, leaving the state at the first
//                       wanted position of every chunk
//   states_reduce       a block of threads a chunk: replay, float64 Gram, tridiagonal form
//   states_reduce_rest  the last 64 rows of larger matrices, a block a matrix
//   states_eigenvalues  root-free QL, a thread a matrix
//   states_sort         roots, falling order, scale
//
// Wanted positions are taken in rounds whose memory is bounded. The four stages of different rounds
// run side by side: the march and the eigenvalues are long chains on few threads, the reduction
// fills the device, so these two have streams of higher priority. Results of one round are copied
// out while others run. The rest goes to states_host.cu.
// Values are right to about 1e-8 sigma_1, and those near SVALS_CUT sigma_1 are left as they are (the
// CPU takes them again by dgesdd).
#include "kernels/cuda/ops.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/states_finish.h"
#include "kernels/cuda/states_march.h"
#include "kernels/cuda/states_reduce.h"

enum {
    LARGEST = 128, // K, V
    SLOTS = 3,     // rounds at a time
    LONGEST_CHUNK = 32
};
static const size_t MOST_BYTES = (size_t)3 << 29;

enum { MARCH, REDUCE, EIGENVALUES, SORT, STAGES };
static const char *const stage_names[STAGES] = {"march", "reduce", "eigenvalues", "sort"};

// One set of buffers.
struct round_slot {
    float *starts;
    double *d, *e2, *sv, *fro, *rest;
    double *host; // page-locked: sv, then fro
    int *exponent;
    cudaStream_t reduce, finish;
    cudaEvent_t marched, reduced, done;
    cudaEvent_t mark[2 * STAGES]; // begin and end of each stage
    int64_t first, positions;     // of the round it holds; 0: none
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
    round_slot slot[SLOTS];
    cudaStream_t march;
    cudaEvent_t ready;
    bool trace;
    double ms[STAGES];
};

static size_t slot_bytes(const spectra *x, int64_t positions, int per_chunk) {
    size_t chunks = (size_t)((positions + per_chunk - 1) / per_chunk);
    size_t size = (size_t)x->s->s.K * x->s->s.V * sizeof(float), n = (size_t)x->n;
    return (size_t)x->n_heads *
           (chunks * size +
            (size_t)positions *
                ((3 * n + 1 + (n > 64 ? REST_NUMBERS : 0)) * sizeof(double) + sizeof(int)));
}

template <class P> static bool device_array(spectra *x, P **p, size_t count, size_t size) {
    return cuda_ok(x->be, cudaMallocAsync((void **)p, count * size, of(x->be)->stream), "spectra");
}

// Blocks of states_reduce that a multiprocessor runs at a time.
static int blocks_at_a_time(int n) {
    return n > 64   ? reduce_shape<128>::BLOCKS
           : n > 32 ? reduce_shape<64>::BLOCKS
                    : reduce_shape<32>::BLOCKS;
}

// How many positions a round takes, and a chunk: at least 4 chunks for each block that the device
// runs at a time, as far as there are so many positions. Rounds are large enough to fill the device
// and small enough that the first and the last, which nothing runs beside, do not count.
static bool plan(spectra *x, int64_t n) {
    size_t space = 0;
    int sms = 0, heads = x->n_heads;
    if (!device_space(x->be, &space) ||
        !cuda_ok(x->be,
                 cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, of(x->be)->device),
                 "spectra"))
        return false;
    size_t most = space / 4 < MOST_BYTES ? space / 4 : MOST_BYTES;
    int64_t blocks = (int64_t)sms * blocks_at_a_time(x->n);
    x->round = 16384 / heads;
    x->round = x->round < 1 ? 1 : x->round < n ? x->round : n;
    for (;;) {
        int64_t chunk = x->round * heads / (4 * blocks);
        x->per_chunk = (int)(chunk < 1 ? 1 : chunk > LONGEST_CHUNK ? LONGEST_CHUNK : chunk);
        while (x->per_chunk < LONGEST_CHUNK && SLOTS * slot_bytes(x, x->round, x->per_chunk) > most)
            x->per_chunk *= 2;
        if (x->round == 1 || SLOTS * slot_bytes(x, x->round, x->per_chunk) <= most)
            return true;
        x->round /= 2;
    }
}

static size_t host_numbers(const spectra *x) {
    return (size_t)x->round * x->n_heads * (x->n + 1);
}

static bool event_new(spectra *x, cudaEvent_t *t) {
    return cuda_ok(x->be, cudaEventCreateWithFlags(t, cudaEventDisableTiming), "spectra");
}

static bool stream_new(spectra *x, cudaStream_t *stream, int priority) {
    return cuda_ok(x->be, cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, priority),
                   "spectra");
}

static bool slot_new(spectra *x, round_slot *r, double *host, int low, int high) {
    size_t matrices = (size_t)x->round * x->n_heads, values = matrices * x->n;
    size_t chunks = (size_t)((x->round + x->per_chunk - 1) / x->per_chunk) * x->n_heads;
    size_t size = (size_t)x->s->s.K * x->s->s.V;
    r->host = host;
    for (int i = 0; x->trace && i < 2 * STAGES; i++)
        if (!cuda_ok(x->be, cudaEventCreate(&r->mark[i]), "spectra"))
            return false;
    return device_array(x, &r->starts, chunks * size, sizeof(float)) &&
           device_array(x, &r->d, values, sizeof(double)) &&
           device_array(x, &r->e2, values, sizeof(double)) &&
           device_array(x, &r->sv, values, sizeof(double)) &&
           device_array(x, &r->fro, matrices, sizeof(double)) &&
           device_array(x, &r->exponent, matrices, sizeof(int)) &&
           (x->n <= 64 || device_array(x, &r->rest, matrices * REST_NUMBERS, sizeof(double))) &&
           stream_new(x, &r->reduce, low) && stream_new(x, &r->finish, high) &&
           event_new(x, &r->marched) && event_new(x, &r->reduced) && event_new(x, &r->done);
}

// The device must be idle.
static void slot_free(spectra *x, round_slot *r) {
    void *all[] = {r->starts, r->d, r->e2, r->sv, r->fro, r->rest, r->exponent};
    for (void *p : all)
        if (p)
            cudaFreeAsync(p, of(x->be)->stream);
    cudaEvent_t events[] = {r->marched, r->reduced, r->done};
    for (cudaEvent_t t : events)
        if (t)
            cudaEventDestroy(t);
    for (cudaEvent_t t : r->mark)
        if (t)
            cudaEventDestroy(t);
    cudaStream_t streams[] = {r->reduce, r->finish};
    for (cudaStream_t t : streams)
        if (t)
            cudaStreamDestroy(t);
}

static void mark(spectra *x, round_slot *r, int stage, bool end, cudaStream_t stream) {
    if (x->trace)
        cudaEventRecord(r->mark[2 * stage + end], stream);
}

template <class T>
static bool march(spectra *x, const replay_view<T> &v, int64_t done, const int64_t *wanted,
                  int64_t chunks, float *starts) {
    const int rows = v.K <= 32 ? 8 : v.K <= 64 ? 16 : 32;
    size_t bytes =
        sizeof(float) * march_floats(rows, v.V, v.decay == DECAY_CHANNEL, v.erase == ERASE_PAIR);
    auto kernel = rows == 8    ? states_march<T, 8>
                  : rows == 16 ? states_march<T, 16>
                               : states_march<T, 32>;
    if (!cuda_ok(
            x->be,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
            "shared memory of the state march"))
        return false;
    kernel<<<(unsigned)x->n_heads, MARCH_THREADS, bytes, x->march>>>(
        v, x->d_heads, done, wanted, x->per_chunk, chunks, x->now, starts);
    return cuda_ok(x->be, cudaGetLastError(), "state march");
}

template <class T, int N>
static bool reduce(spectra *x, const replay_view<T> &v, const reduce_job &job,
                   cudaStream_t stream) {
    size_t bytes = reduce_bytes<N>(v.K, v.V);
    auto kernel = states_reduce<T, N>;
    if (!cuda_ok(
            x->be,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
            "shared memory of the state spectra"))
        return false;
    kernel<<<(unsigned)(x->n_heads * job.chunks), reduce_shape<N>::THREADS, bytes, stream>>>(v,
                                                                                             job);
    return cuda_ok(x->be, cudaGetLastError(), "state spectra");
}

static bool after(spectra *x, cudaStream_t stream, cudaEvent_t t, cudaStream_t of_it) {
    return cuda_ok(x->be, cudaEventRecord(t, of_it), "state spectra") &&
           cuda_ok(x->be, cudaStreamWaitEvent(stream, t, 0), "state spectra");
}

// Launches everything of positions first .. first + count - 1.
template <class T>
static bool launch_round(spectra *x, const replay_view<T> &v, round_slot *r, int64_t first,
                         int64_t count, int64_t *done, const int64_t *at) {
    int chunks = (int)((count + x->per_chunk - 1) / x->per_chunk);
    reduce_job job = {x->d_heads, x->wanted + first,  (int)count, x->per_chunk, chunks,
                      r->starts,  count * x->n_heads, r->d,       r->e2,        r->exponent,
                      r->rest};
    r->first = first;
    r->positions = count;
    mark(x, r, MARCH, false, x->march);
    if (!march<T>(x, v, *done, job.wanted, chunks, r->starts))
        return false;
    mark(x, r, MARCH, true, x->march);
    *done = at[first + (int64_t)(chunks - 1) * x->per_chunk];
    if (!after(x, r->reduce, r->marched, x->march))
        return false;
    mark(x, r, REDUCE, false, r->reduce);
    bool ok = x->n <= 32   ? reduce<T, 32>(x, v, job, r->reduce)
              : x->n <= 64 ? reduce<T, 64>(x, v, job, r->reduce)
                           : reduce<T, 128>(x, v, job, r->reduce);
    if (ok && x->n > 64) {
        states_reduce_rest<<<(unsigned)job.matrices, 128, sizeof(tile_shared<4, 16>), r->reduce>>>(
            job);
        ok = cuda_ok(x->be, cudaGetLastError(), "state spectra");
    }
    mark(x, r, REDUCE, true, r->reduce);
    if (!ok || !after(x, r->finish, r->reduced, r->reduce))
        return false;
    mark(x, r, EIGENVALUES, false, r->finish);
    states_eigenvalues<<<(unsigned)((job.matrices + EIGEN_THREADS - 1) / EIGEN_THREADS),
                         EIGEN_THREADS, 0, r->finish>>>(job, x->n, r->fro);
    mark(x, r, EIGENVALUES, true, r->finish);
    mark(x, r, SORT, false, r->finish);
    size_t bytes = sizeof(double) * FINISH_MATRICES * (x->n + 1);
    states_sort<<<(unsigned)((job.matrices + FINISH_MATRICES - 1) / FINISH_MATRICES),
                  FINISH_THREADS, bytes, r->finish>>>(job, x->n, r->sv, r->fro);
    mark(x, r, SORT, true, r->finish);
    size_t values = (size_t)job.matrices * x->n, matrices = (size_t)job.matrices;
    return cuda_ok(x->be, cudaGetLastError(), "state spectra") &&
           cuda_ok(x->be,
                   cudaMemcpyAsync(r->host, r->sv, values * sizeof(double), cudaMemcpyDeviceToHost,
                                   r->finish),
                   "singular values") &&
           cuda_ok(x->be,
                   cudaMemcpyAsync(r->host + values, r->fro, matrices * sizeof(double),
                                   cudaMemcpyDeviceToHost, r->finish),
                   "norms of states") &&
           cuda_ok(x->be, cudaEventRecord(r->done, r->finish), "state spectra");
}

// Waits for a round and takes its results; other rounds go on meanwhile.
static bool collect(spectra *x, round_slot *r, int64_t n, double *sv, double *fro) {
    if (r->positions == 0)
        return true;
    if (!cuda_ok(x->be, cudaEventSynchronize(r->done), "state spectra"))
        return false;
    const double *norms = r->host + r->positions * x->n_heads * x->n;
    for (int64_t h = 0; h < x->n_heads; h++) {
        int64_t to = h * n + r->first, from = h * r->positions;
        size_t bytes = (size_t)r->positions * sizeof(double);
        memcpy(sv + to * x->n, r->host + from * x->n, bytes * x->n);
        memcpy(fro + to, norms + from, bytes);
    }
    for (int i = 0; x->trace && i < STAGES; i++) {
        float ms = 0;
        cudaEventElapsedTime(&ms, r->mark[2 * i], r->mark[2 * i + 1]);
        x->ms[i] += ms;
    }
    r->positions = 0;
    return true;
}

template <class T>
static bool run_rounds(spectra *x, const replay_view<T> &v, const int64_t *at, int64_t n,
                       double *sv, double *fro) {
    int64_t done = 0;
    int turn = 0;
    // What the streams read was put in place by the backend's own.
    bool ok = after(x, x->march, x->ready, of(x->be)->stream);
    for (int64_t first = 0; ok && first < n; first += x->round, turn = (turn + 1) % SLOTS) {
        int64_t count = n - first < x->round ? n - first : x->round;
        ok = collect(x, &x->slot[turn], n, sv, fro) &&
             launch_round<T>(x, v, &x->slot[turn], first, count, &done, at);
    }
    for (int i = 0; ok && i < SLOTS; i++)
        ok = collect(x, &x->slot[(turn + i) % SLOTS], n, sv, fro);
    return ok;
}

// States of the wanted heads to `now`, the wanted positions to the device.
static bool prepare(spectra *x, mat state, const int64_t *at, int64_t n) {
    cudaStream_t stream = of(x->be)->stream;
    const head_shape *p = &x->s->s;
    size_t size = (size_t)p->K * p->V;
    int low = 0, high = 0;
    if (!plan(x, n) || !cuda_ok(x->be, cudaDeviceGetStreamPriorityRange(&low, &high), "spectra") ||
        !stream_new(x, &x->march, high) || !event_new(x, &x->ready))
        return false;
    int slots = (int)((n + x->round - 1) / x->round);
    slots = slots < SLOTS ? slots : SLOTS;
    double *host = (double *)host_scratch(x->be, slots * host_numbers(x) * sizeof *host);
    for (int i = 0; i < slots; i++)
        if (!host || !slot_new(x, &x->slot[i], host + i * host_numbers(x), low, high))
            return false;
    if (!device_array(x, &x->now, size * x->n_heads, sizeof(float)) ||
        !device_array(x, &x->d_heads, (size_t)x->n_heads, sizeof(int)) ||
        !device_array(x, &x->wanted, (size_t)n, sizeof(int64_t)) ||
        !cuda_ok(x->be,
                 cudaMemcpyAsync(x->d_heads, x->heads, x->n_heads * sizeof(int),
                                 cudaMemcpyHostToDevice, stream),
                 "spectra") ||
        !cuda_ok(x->be,
                 cudaMemcpyAsync(x->wanted, at, (size_t)n * sizeof(int64_t), cudaMemcpyHostToDevice,
                                 stream),
                 "spectra"))
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
    const int least = p->K < p->V ? p->K : p->V;
    size_t bytes = least <= 32   ? reduce_bytes<32>(p->K, p->V)
                   : least <= 64 ? reduce_bytes<64>(p->K, p->V)
                                 : reduce_bytes<128>(p->K, p->V);
    if (p->K > LARGEST || p->V > LARGEST || bytes > shared_memory(be))
        return states_svals_on_host(be, s, state, heads, n_heads, at, n, sv, fro, e);
    if (n == 0 || n_heads == 0)
        return true;
    spectra x = {};
    x.be = be;
    x.s = s;
    x.heads = heads;
    x.n_heads = n_heads;
    x.n = least;
    const char *trace = getenv("DELTOP_CUDA_TRACE");
    x.trace = trace && *trace == '1';
    bool ok = prepare(&x, state, at, n) && run(&x, at, n, sv, fro);
    // After a failure rounds may still be running.
    cudaDeviceSynchronize();
    for (round_slot &r : x.slot)
        slot_free(&x, &r);
    void *all[] = {x.now, x.d_heads, x.wanted};
    for (void *q : all)
        if (q)
            cudaFreeAsync(q, of(be)->stream);
    if (x.march)
        cudaStreamDestroy(x.march);
    if (x.ready)
        cudaEventDestroy(x.ready);
    if (ok && x.trace) {
        fprintf(stderr, "cuda state_svals %d x %d, %d heads x %lld: rounds of %lld, chunks of %d;",
                p->K, p->V, n_heads, (long long)n, (long long)x.round, x.per_chunk);
        for (int i = 0; i < STAGES; i++)
            fprintf(stderr, " %s %.2f ms%s", stage_names[i], x.ms[i], i + 1 < STAGES ? "," : "\n");
    }
    return backend_check(be, e) && ok;
}
