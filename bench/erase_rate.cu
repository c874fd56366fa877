// The chunked erase recurrences (kernels/cuda/erase.h) alone, without the program: held against loops in double, then
// timed kernel by kernel.
//   nvcc -std=c++17 -O3 -I. -gencode arch=compute_90a,code=sm_90a -o erase_rate bench/erase_rate.cu kernels/cuda/erase_{half,exact,scalar}.cu
//   ./erase_rate check [NAME ...]            relative L2 errors of outputs and states; exit status 1 above what is allowed
//   ./erase_rate time [NAME | SLOTS_MB SEGMENTS STAGES [NAME]]
//                                            medians of 20 calls by events, in one stretch or in as many as MB of slots ask for; 0 stages:
//                                            in parts, -1: fused, -2: wide keys (erase_scalar.h), where there are such kernels
// Inputs are made on the device: unit keys, gates of -0.01 to -3 a token and channel but every fourth head, which
// hardly decays, or as trained ones (bounded); RWKV-7's a = -rate b.
#include "kernels/cuda/erase_scalar.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// Numbers of stages that mean another way (erase.h, erase_scalar.h).
enum { SCALAR = -2, FUSED = -1, AS_PARTS = 0 };

struct problem {
    const char *name;
    erase_kind erase;
    long T;
    int H, Hk, K, V, n_h;
    double weakest, strongest,
        beta; // log decays; factor of a sigmoid, or less than 0: -beta in every row
    int segments;
    long slots_mb; // 0: as many chunks as there are
    decay_kind decay = DECAY_CHANNEL;
    // Keys: normal numbers and so many times one direction of the head, every eighth the one before it.
    float lean = 0;
    int stages = FUSED; // of timings
    // Gates as bounded_gate of recurrence_inputs.c draws them: most heads forget within a segment, some hardly do.
    bool bounded = false;
};

static const problem checks[] = {
    {"KDA, one chunk", ERASE_KEY, 64, 2, 2, 128, 128, 1, -0.01, -3, 1, 1, 0},
    {"KDA", ERASE_KEY, 1500, 3, 3, 128, 128, 1, -0.01, -3, 1, 1, 0},
    {"KDA, weak gates", ERASE_KEY, 1500, 2, 1, 128, 128, 1, -1e-6, -1e-4, 2, 1, 0},
    {"KDA, gates to -500", ERASE_KEY, 1500, 2, 1, 128, 128, 1, -1e-6, -500, 1, 1, 0},
    {"KDA, 3 segments", ERASE_KEY, 1500, 2, 1, 128, 128, 1, -1e-6, -1e-2, 1, 3, 0},
    {"KDA, 8 segments", ERASE_KEY, 1500, 2, 1, 128, 96, 1, -1e-6, -1e-4, 1, 8, 0},
    {"KDA, stretches", ERASE_KEY, 1500, 2, 1, 64, 192, 2, -1e-6, -1, 2, 2, 1},
    {"KDA, K 256", ERASE_KEY, 500, 2, 1, 256, 512, 1, -0.01, -3, 1, 1, 0},
    {"KDA, decays to nothing", ERASE_KEY, 12288, 1, 1, 64, 32, 1, -0.02, -0.04, 1, 3, 0},
    {"KDA, K 40, V 72, 3 segments", ERASE_KEY, 1000, 4, 2, 40, 72, 1, -1e-4, -4, 2, 3, 0},
    {"KDA, near keys", ERASE_KEY, 1500, 2, 1, 128, 128, 1, -1e-6, -1e-2, 2, 2, 0, DECAY_CHANNEL, 3},
    {"KDA, 2^-22 to 2^-26 a part", ERASE_KEY, 1000, 2, 1, 128, 128, 1, -0.95, -1.12, 0.4, 1, 0},
    {"KDA, mild quarters", ERASE_KEY, 1000, 5, 5, 128, 128, 1, -0.8, -3.4, 2, 1, 0},
    {"KDA, mild quarters, K 48", ERASE_KEY, 1000, 2, 1, 48, 72, 1, -0.8, -3.4, 1, 1, 0},
    {"KDA, mild quarters, near keys", ERASE_KEY, 500, 2, 1, 128, 128, 1, -0.8, -3.4, 2, 1, 0,
     DECAY_CHANNEL, 3},
    {"KDA, bounded gates, 5 segments", ERASE_KEY, 12288, 4, 4, 128, 128, 1, -1, -1, 1, 5, 0,
     DECAY_CHANNEL, 0, FUSED, true},
    {"KDA, bounded gates, 8 segments", ERASE_KEY, 12288, 4, 2, 64, 72, 1, -1, -1, 2, 8, 0,
     DECAY_CHANNEL, 0, FUSED, true},
    {"KDA, all forget, stretches", ERASE_KEY, 9000, 2, 1, 128, 128, 1, -0.1, -3, 1, 5, 8},
    {"GDN K 256", ERASE_KEY, 600, 2, 1, 256, 512, 1, -0.01, -3, 1, 1, 0, DECAY_HEAD},
    {"GDN K 256, 3 segments", ERASE_KEY, 1500, 2, 1, 256, 96, 1, -1e-6, -1e-2, 2, 3, 0, DECAY_HEAD},
    {"GDN K 256, to -500", ERASE_KEY, 1500, 2, 2, 256, 128, 1, -1e-6, -500, 2, 2, 0, DECAY_HEAD},
    {"GDN K 256, near keys", ERASE_KEY, 1500, 2, 1, 256, 128, 1, -1e-6, -1e-2, 2, 2, 0, DECAY_HEAD,
     3},
    {"GDN K 192, n 2", ERASE_KEY, 800, 2, 1, 192, 192, 2, -1e-4, -1, 2, 4, 0, DECAY_HEAD},
    {"GDN K 136, n 3, stretches", ERASE_KEY, 800, 2, 1, 136, 200, 3, -1e-4, -1, 2, 2, 1,
     DECAY_HEAD},
    {"DeltaNet K 256", ERASE_KEY, 600, 2, 2, 256, 512, 1, -1, -1, 1, 5, 0, DECAY_NONE},
    {"DeltaNet K 192, near", ERASE_KEY, 1500, 2, 1, 192, 128, 1, -1, -1, 2, 1, 0, DECAY_NONE, 3},
    {"DeltaNet K 256, one key", ERASE_KEY, 600, 2, 1, 256, 256, 1, -1, -1, -2, 2, 0, DECAY_NONE,
     1e6f},
    {"GDN K 256, one key", ERASE_KEY, 600, 2, 1, 256, 64, 1, -1e-6, -1e-2, -2, 3, 0, DECAY_HEAD,
     50},
    {"DeltaNet K 256, one row", ERASE_KEY, 1, 2, 1, 256, 24, 1, -1, -1, 2, 1, 0, DECAY_NONE},
    {"RWKV-7", ERASE_PAIR, 1500, 3, 3, 64, 64, 1, -1e-3, -0.6, 0, 1, 0},
    {"RWKV-7, gates to -500", ERASE_PAIR, 500, 2, 1, 64, 64, 1, -1e-6, -500, 0, 1, 0},
    {"RWKV-7, K 40, V 80", ERASE_PAIR, 333, 4, 2, 40, 80, 1, -1e-6, -1, 0, 1, 0},
    {"RWKV-7, 4 segments", ERASE_PAIR, 1500, 2, 2, 64, 64, 1, -1e-6, -0.01, 0, 4, 0},
    {"RWKV-7, K 128", ERASE_PAIR, 700, 2, 2, 128, 128, 1, -1e-6, -0.6, 0, 1, 0},
    {"RWKV-7, K 256", ERASE_PAIR, 300, 2, 2, 256, 128, 1, -1e-6, -0.6, 0, 1, 0},
};
static const problem timings[] = {
    {"KDA 1x8192x64", ERASE_KEY, 8192, 64, 64, 128, 128, 1, -0.01, -3, 1, 1, 512},
    {"KDA 1x8192x64 mild", ERASE_KEY, 8192, 64, 64, 128, 128, 1, -0.01, -0.9, 1, 1, 512},
    {"KDA 1x32768x16 mild", ERASE_KEY, 32768, 16, 16, 128, 128, 1, -0.01, -0.9, 1, 5, 512},
    {"KDA 1x8192x64 bounded", ERASE_KEY, 8192, 64, 64, 128, 128, 1, -1, -1, 1, 1, 512,
     DECAY_CHANNEL, 0, FUSED, true},
    {"KDA 1x32768x16 bounded", ERASE_KEY, 32768, 16, 16, 128, 128, 1, -1, -1, 1, 5, 512,
     DECAY_CHANNEL, 0, FUSED, true},
    {"KDA 1x32768x16 all keep", ERASE_KEY, 32768, 16, 16, 128, 128, 1, -1e-6, -1e-4, 1, 5, 512},
    {"RWKV-7 8x16384x64", ERASE_PAIR, 16384, 512, 512, 64, 64, 1, -1e-3, -0.6, 0, 1, 512},
    {"RWKV-7 1x8192x32", ERASE_PAIR, 8192, 32, 32, 64, 64, 1, -1e-3, -0.6, 0, 1, 512, DECAY_CHANNEL,
     0, AS_PARTS},
    {"RWKV-7 1x8192x128", ERASE_PAIR, 8192, 128, 128, 64, 64, 1, -1e-3, -0.6, 0, 1, 512},
    {"RWKV-7 1x8192x128", ERASE_PAIR, 8192, 128, 128, 64, 64, 1, -1e-3, -0.6, 0, 1, 512,
     DECAY_CHANNEL, 0, AS_PARTS},
    {"GDN 1x32768x6 256x512", ERASE_KEY, 32768, 6, 6, 256, 512, 1, -0.01, -3, 1, 5, 512, DECAY_HEAD,
     0, SCALAR},
    {"DeltaNet 1x32768x6 256x512", ERASE_KEY, 32768, 6, 6, 256, 512, 1, -1, -1, 1, 5, 512,
     DECAY_NONE, 0, SCALAR},
};

static void need(cudaError_t r, const char *what) {
    if (r == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(r));
    fflush(stdout);
    exit(1);
}

__device__ static float draw(unsigned long long seed, long i) {
    unsigned long long z = seed + (unsigned long long)i * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (float)((z ^ z >> 31) >> 40) * 0x1p-24f;
}
__device__ static float normal(unsigned long long seed, long i) {
    return sqrtf(-2 * logf(draw(seed, i) + 1e-9f)) * cospif(2 * draw(seed + 77, i));
}
// A row of `width` numbers for every block; unit: of length 1.
template <class T>
__global__ void fill_rows(T *p, int width, unsigned long long seed, bool unit, float scale) {
    __shared__ float sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float x = normal(seed, (long)blockIdx.x * width + i);
        atomicAdd(&sum, x * x);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        put(&p[(long)blockIdx.x * width + i],
            scale * normal(seed, (long)blockIdx.x * width + i) * (unit ? rsqrtf(sum) : 1));
}
template <class T> __global__ void fill_gates(T *p, long n, int K, int H, float lo, float hi) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n;
         i += (long)gridDim.x * blockDim.x) {
        const int h = (int)(i / K % H);
        const float l = logf(-lo), u = logf(-hi);
        put(&p[i], -expf(l + (u - l) * draw(5, i)) * (h % 4 == 3 ? 1e-4f : 1));
    }
}
// -rate softplus(x + bias), at least -4.9, every fourth head times 1e-4.
template <class T> __global__ void fill_bounded(T *p, long n, int K, int H) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n;
         i += (long)gridDim.x * blockDim.x) {
        const int h = (int)(i / K % H);
        const float rate = H > 1 ? 1 + 15.0f * h / (H - 1) : 4, part = h * 0.6180339887f,
                    dt = 1e-3f * expf((part - floorf(part)) * logf(100)),
                    x = 0.5f * normal(5, i) + dt + logf(-expm1f(-dt)),
                    g = -rate * log1pf(expf(x)) * (h % 4 == 3 ? 1e-4f : 1);
        put(&p[i], fmaxf(fminf(g, -1e-6f), -4.9f));
    }
}
// Keys that lean on one direction of their head, of length 1 again; every eighth is the one before it.
template <class T>
__global__ void draw_near(T *k, int width, int heads, float lean, unsigned long long seed) {
    __shared__ float sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    const int head = blockIdx.x % heads;
    long row = blockIdx.x / heads;
    row -= row % 8 == 7;
    auto number = [&](int i) {
        return normal(seed, (row * heads + head) * width + i) +
               lean * normal(seed + 1, (long)head * width + i);
    };
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        atomicAdd(&sum, number(i) * number(i));
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        put(&k[(long)blockIdx.x * width + i], number(i) * rsqrtf(sum));
}
__global__ void fill_beta(float *p, long n, float most) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n;
         i += (long)gridDim.x * blockDim.x)
        p[i] = most < 0 ? -most : most / (1 + expf(-normal(9, i)));
}
// a = -rate b, whose heads are shared by H / Hk value heads.
template <class T> __global__ void fill_a(T *a, const T *b, long n, int K, int H, int Hk) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n;
         i += (long)gridDim.x * blockDim.x) {
        const long head = i / K, token = head / H, shared = token * Hk + head % H / (H / Hk);
        put(&a[i], -get(b[shared * K + i % K]) / (1 + expf(-normal(11, i))));
    }
}

static const char *const ways[] = {"", " (parts)", " (fused)"};

struct timer {
    std::vector<std::pair<std::string, cudaEvent_t>> at;
    bool on = false;
    static void done(void *ctx, const char *pass) {
        timer *t = (timer *)ctx;
        if (!t->on)
            return;
        cudaEvent_t e;
        cudaEventCreate(&e);
        cudaEventRecord(e);
        t->at.push_back({pass, e});
    }
};

template <class T> struct session {
    erase_job j = {};
    erase_sizes z;
    erase_plan plan;
    erase_space space;
    timer watch;
    std::vector<void *> held;
    mat make(long rows, long cols, int esize) {
        void *p;
        need(cudaMalloc(&p, (size_t)(rows * cols) * esize), "memory");
        need(cudaMemset(p, 0xff, (size_t)(rows * cols) * esize), "poison");
        held.push_back(p);
        return mat{p, rows, cols, cols, esize};
    }
    bool scalar; // the kernels of erase_scalar.h
    session(const problem &p, long slots_mb, int segments, int stages) : scalar(stages == SCALAR) {
        const long M = p.T * p.n_h;
        const int e = sizeof(T);
        j.s.s = head_shape{p.H, p.Hk, p.K, p.V, p.n_h, p.decay, p.erase, 1 / sqrt(p.K), 2};
        j.s.T = p.T;
        j.s.q = make(p.T, (long)p.Hk * p.K, e);
        j.s.k = make(M, (long)p.Hk * p.K, e);
        j.s.v = make(M, (long)p.H * p.V, e);
        const int gated = p.decay == DECAY_CHANNEL ? p.K : 1; // numbers a head
        if (p.decay != DECAY_NONE)
            j.s.decay = make(p.T, (long)p.H * gated, p.decay == DECAY_CHANNEL ? e : 4);
        j.state = make((long)p.H * p.K, p.V, 4);
        j.o = make(p.T, (long)p.H * p.V, e);
        fill_rows<T><<<(unsigned)(p.T * p.Hk), 64>>>((T *)j.s.q.p, p.K, 1, true, 1);
        if (p.lean > 0)
            draw_near<T><<<(unsigned)(M * p.Hk), 64>>>((T *)j.s.k.p, p.K, p.Hk, p.lean, 2);
        else
            fill_rows<T><<<(unsigned)(M * p.Hk), 64>>>((T *)j.s.k.p, p.K, 2, true, 1);
        fill_rows<T><<<(unsigned)(M * p.H), 64>>>((T *)j.s.v.p, p.V, 3, false, 1);
        fill_rows<float><<<(unsigned)((long)p.H * p.K), 64>>>((float *)j.state.p, p.V, 4, false, 1);
        if (p.bounded)
            fill_bounded<T><<<4096, 256>>>((T *)j.s.decay.p, p.T * p.H * p.K, p.K, p.H);
        else if (p.decay == DECAY_CHANNEL)
            fill_gates<T><<<4096, 256>>>((T *)j.s.decay.p, p.T * p.H * p.K, p.K, p.H,
                                         (float)p.weakest, (float)p.strongest);
        else if (p.decay == DECAY_HEAD)
            fill_gates<float><<<4096, 256>>>((float *)j.s.decay.p, p.T * p.H, 1, p.H,
                                             (float)p.weakest, (float)p.strongest);
        if (p.beta != 0) {
            j.s.beta = make(M, p.H, 4);
            fill_beta<<<4096, 256>>>((float *)j.s.beta.p, M * p.H, (float)p.beta);
        }
        if (p.erase == ERASE_PAIR) {
            j.s.a = make(p.T, (long)p.H * p.K, e);
            j.s.b = make(p.T, (long)p.Hk * p.K, e);
            fill_rows<T><<<(unsigned)(p.T * p.Hk), 64>>>((T *)j.s.b.p, p.K, 6, true, 1);
            fill_a<T>
                <<<4096, 256>>>((T *)j.s.a.p, (const T *)j.s.b.p, p.T * p.H * p.K, p.K, p.H, p.Hk);
        }
        need(cudaDeviceSynchronize(), "inputs");
        j.done = timer::done;
        j.done_ctx = &watch;
        z = scalar ? erase_scalar_sizes(&j) : e == 2 ? erase_half_sizes(&j) : erase_exact_sizes(&j);
        const long tokens = z.rows / p.n_h, all = (p.T + tokens - 1) / tokens;
        long most = slots_mb ? slots_mb * 1048576 / (long)(z.slot * p.H) : all;
        most = most < 1 ? 1 : most;
        const long stretches = (all + most - 1) / most;
        plan = erase_plan{(int)((all + stretches - 1) / stretches),
                          segments,
                          stages > 0 ? stages : 2,
                          2,
                          stages == FUSED && z.fused_shared      ? ERASE_FUSED
                          : stages <= AS_PARTS && z.parts_shared ? ERASE_PARTS
                                                                 : ERASE_CHUNKS,
                          false};
        plan.ahead = plan.way == ERASE_PARTS && z.ahead && stretches > 1;
        if (ERASE_BARRIERS + 2 * z.stage > 232448)
            plan.stages = 1;
        if (ERASE_BARRIERS + 2 * z.end_stage > 232448)
            plan.end_stages = 1;
        space.slots =
            (unsigned char *)make((1 + plan.ahead) * (long)plan.chunks * p.H, (long)z.slot, 1).p;
        space.marks = (int *)make(1, (long)z.marks, 1).p;
        need(cudaMemset(space.marks, 0, z.marks), "marks");
        space.ends = (float *)make(segments, (long)z.state, 1).p;
        space.transitions = (float *)make(segments, (long)z.transition, 1).p;
    }
    void run() {
        need(scalar           ? erase_scalar_run(&j, &plan, &space)
             : sizeof(T) == 2 ? erase_half_run(&j, &plan, &space)
                              : erase_exact_run(&j, &plan, &space),
             "launch");
    }
    ~session() {
        for (void *p : held)
            cudaFree(p);
    }
};

template <class N> static std::vector<double> host(mat m) {
    std::vector<N> x((size_t)(m.rows * m.cols));
    need(cudaMemcpy(x.data(), m.p, x.size() * sizeof(N), cudaMemcpyDeviceToHost), "results");
    std::vector<double> y(x.size());
    for (size_t i = 0; i < x.size(); i++)
        y[i] = sizeof(N) == 4 ? *(float *)&x[i] : __bfloat162float(*(bf16 *)&x[i]);
    return y;
}

template <class T> static bool check(const problem &p, int stages) {
    session<T> s(p, p.slots_mb, p.segments, stages);
    if (stages <= 0 && stages != SCALAR &&
        s.plan.way != (stages == FUSED ? ERASE_FUSED : ERASE_PARTS))
        return true;
    // Halves in chunks without second terms: such calls take steps (erase_steps.cu).
    if (sizeof(T) == 2 && stages > 0 && p.erase == ERASE_KEY && p.decay != DECAY_CHANNEL &&
        fabs(p.beta) > 1)
        return true;
    std::vector<double> q = host<T>(s.j.s.q), k = host<T>(s.j.s.k), v = host<T>(s.j.s.v), g,
                        S = host<float>(s.j.state), beta, a, b;
    if (p.decay != DECAY_NONE)
        g = p.decay == DECAY_CHANNEL ? host<T>(s.j.s.decay) : host<float>(s.j.s.decay);
    const long gates = p.decay == DECAY_CHANNEL ? p.K : 1;
    if (p.beta != 0)
        beta = host<float>(s.j.s.beta);
    const bool two = p.erase == ERASE_PAIR;
    if (two)
        a = host<T>(s.j.s.a), b = host<T>(s.j.s.b);
    s.run();
    need(cudaDeviceSynchronize(), "run");
    std::vector<double> o = host<T>(s.j.o), end = host<float>(s.j.state);
    double sums[4] = {};
    const int K = p.K, V = p.V;
    for (int h = 0; h < p.H; h++) {
        const int hk = h / (p.H / p.Hk);
        double *H = &S[(size_t)h * K * V];
        std::vector<double> r(V);
        for (long t = 0; t < p.T; t++) {
            std::fill(r.begin(), r.end(), 0);
            for (int i = 0; two && i < K; i++)
                for (int c = 0; c < V; c++)
                    r[c] += b[(t * p.Hk + hk) * K + i] * H[i * V + c];
            for (int i = 0; i < K; i++) {
                const double w = g.empty() ? 1 : exp(g[(t * p.H + h) * gates + i % gates]),
                             x = two ? a[(t * p.H + h) * K + i] : 0;
                for (int c = 0; c < V; c++)
                    H[i * V + c] = w * H[i * V + c] + x * r[c];
            }
            for (long m = t * p.n_h; m < (t + 1) * p.n_h; m++) {
                std::fill(r.begin(), r.end(), 0);
                const double *key = &k[(m * p.Hk + hk) * K], *val = &v[(m * p.H + h) * V];
                for (int i = 0; !two && i < K; i++)
                    for (int c = 0; c < V; c++)
                        r[c] += key[i] * H[i * V + c];
                const double be = p.beta != 0 ? beta[m * p.H + h] : 1;
                for (int i = 0; i < K; i++)
                    for (int c = 0; c < V; c++)
                        H[i * V + c] += be * key[i] * (val[c] - r[c]);
            }
            for (int c = 0; c < V; c++) {
                double y = 0;
                for (int i = 0; i < K; i++)
                    y += q[(t * p.Hk + hk) * K + i] * H[i * V + c];
                y *= 1 / sqrt(K);
                const double e = o[(t * p.H + h) * V + c] - y;
                sums[0] += e * e, sums[1] += y * y;
            }
        }
    }
    for (size_t i = 0; i < S.size(); i++)
        sums[2] += (end[i] - S[i]) * (end[i] - S[i]), sums[3] += S[i] * S[i];
    // None of these needs the step form: a mark is a fault of the chunks.
    std::vector<int> marks(s.z.marks / sizeof(int));
    need(cudaMemcpy(marks.data(), s.space.marks, s.z.marks, cudaMemcpyDeviceToHost), "marks");
    const long marked = std::count(marks.begin(), marks.end(), 1);
    const double in_o = sqrt(sums[0] / sums[1]), in_state = sqrt(sums[2] / sums[3]),
                 allowed = sizeof(T) == 2 ? 5e-3 : 1e-5 + p.T * 0x1p-24 * 1.5;
    char how[16] = "wide keys";
    if (!s.scalar)
        snprintf(how, sizeof how, "%d stages", s.plan.stages);
    const bool good = in_o <= allowed && in_state <= allowed && marked == 0;
    printf("%-22s %s %s%s: o %.2e  state %.2e, %ld marked%s\n", p.name,
           sizeof(T) == 2 ? "bf16" : "f32 ", how, ways[s.plan.way], in_o, in_state, marked,
           good ? "" : "  WRONG");
    fflush(stdout);
    return good;
}

template <class T>
static void measure(const problem &p, long slots_mb, int segments, int stages, int calls) {
    session<T> s(p, slots_mb, segments, stages);
    cudaEvent_t from, to;
    cudaEventCreate(&from);
    cudaEventCreate(&to);
    std::vector<float> ms;
    for (int i = 0; i < calls + 3; i++) {
        float one = 0;
        cudaEventRecord(from);
        s.run();
        cudaEventRecord(to);
        need(cudaEventSynchronize(to), "run");
        cudaEventElapsedTime(&one, from, to);
        if (i >= 3)
            ms.push_back(one);
    }
    std::sort(ms.begin(), ms.end());
    printf(
        "%-18s %s, %4ld MB of slots (%d chunks), %d segments, %d stages%s: %.3f ms (%.3f to %.3f):",
        p.name, sizeof(T) == 2 ? "bf16" : "f32", slots_mb, s.plan.chunks, segments, s.plan.stages,
        ways[s.plan.way], ms[ms.size() / 2], ms.front(), ms.back());
    s.watch.on = true;
    cudaEventRecord(from);
    s.run();
    need(cudaDeviceSynchronize(), "run");
    std::vector<std::pair<std::string, float>> sum;
    cudaEvent_t last = from;
    for (auto &x : s.watch.at) {
        float one;
        cudaEventElapsedTime(&one, last, x.second);
        last = x.second;
        size_t i = 0;
        while (i < sum.size() && sum[i].first != x.first)
            i++;
        if (i == sum.size())
            sum.push_back({x.first, 0});
        sum[i].second += one;
    }
    for (auto &x : sum)
        printf(" %s %.3f", x.first.c_str(), x.second);
    printf("\n");
    fflush(stdout);
}

static bool wide_keys(const problem &p) {
    return p.erase == ERASE_KEY && p.decay != DECAY_CHANNEL && p.K > 128;
}

int main(int argc, char **argv) {
    cudaDeviceProp device;
    need(cudaGetDeviceProperties(&device, 0), "device");
    printf("%s\n", device.name);
    if (argc >= 2 && !strcmp(argv[1], "check")) {
        bool good = true;
        for (const problem &p : checks)
            for (int stages = SCALAR; stages <= 2; stages++) {
                bool chosen = argc == 2;
                for (int i = 2; i < argc; i++)
                    chosen |= !strcmp(argv[i], p.name);
                if (!chosen || (stages == SCALAR && !wide_keys(p)))
                    continue;
                // With beta = 2 in every row the program takes steps where it has no second terms.
                good &= check<bf16>(p, stages) || (p.beta < 0 && stages != SCALAR);
                if (stages != SCALAR)
                    good &= check<float>(p, stages);
            }
        return !good;
    }
    if (argc >= 2 && !strcmp(argv[1], "time")) {
        const bool named = argc == 3 && !isdigit(argv[2][0]);
        const int numbers = named ? 2 : argc;
        const char *name = named ? argv[2] : argc > 5 ? argv[5] : NULL;
        for (const problem &p : timings)
            if (!name || !strcmp(name, p.name))
                measure<bf16>(p, numbers > 2 ? atol(argv[2]) : p.slots_mb,
                              numbers > 3 ? atoi(argv[3]) : p.segments,
                              numbers > 4 ? atoi(argv[4]) : p.stages, 20);
        if (argc == 2)
            measure<float>(timings[0], 512, 1, 2, 5);
        return 0;
    }
    printf("usage: erase_rate check [NAME ...] | time [NAME | SLOTS_MB SEGMENTS STAGES [NAME]]\n");
    return 2;
}
