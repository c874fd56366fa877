// The chunked linear recurrences (kernels/cuda/linear.h) alone, without the program, in any number of segments:
// held against loops in double, then timed pass by pass. The constants of linear_plan.cu come from here.
//   nvcc -std=c++17 -O3 -I. -gencode arch=compute_90a,code=sm_90a -o linear_rate bench/linear_rate.cu kernels/cuda/linear{,_plan,_bf16,_f32}.cu
//   ./linear_rate check         relative L2 error of outputs and states; exit status 1 above what is allowed
//   ./linear_rate time [NAME]   medians of 20 calls by events, beside what the plan expects; names that hold NAME
#include "kernels/cuda/linear.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

typedef __nv_bfloat16 bf16;

// WEAK: about -1e-3 a token; USUAL: as gates of trained models; MIXED: -1e-6 to -infinity side by side.
typedef enum { WEAK, USUAL, MIXED } gate_kind;
typedef enum { BF16, F32, TF32 } number_kind;

struct problem {
    const char *name;
    number_kind numbers;
    long tokens;
    int H, Hk, K, V;
    forgetting forget;
    gate_kind gates;
    int gate_bytes;
    bool beta;
    int segments; // 0: as the cost model says
};

static const problem checks[] = {
    {"one token", BF16, 1, 2, 2, 128, 128, FORGET_BY_CHANNEL, USUAL, 4, false, 1},
    {"one token", BF16, 1, 2, 2, 128, 128, FORGET_BY_HEAD, USUAL, 4, false, 1},
    {"63 tokens", BF16, 63, 2, 2, 128, 128, FORGET_BY_HEAD, MIXED, 4, true, 1},
    {"129 tokens", BF16, 129, 3, 1, 96, 80, FORGET_BY_HEAD, MIXED, 4, true, 2},
    {"linear attention", BF16, 1500, 2, 2, 128, 128, FORGET_NOTHING, WEAK, 4, false, 1},
    {"linear attention", BF16, 1500, 2, 2, 64, 64, FORGET_NOTHING, WEAK, 4, true, 7},
    {"Mamba-2", BF16, 1500, 8, 1, 128, 64, FORGET_BY_HEAD, USUAL, 4, true, 1},
    {"Mamba-2", BF16, 1500, 8, 1, 128, 64, FORGET_BY_HEAD, WEAK, 4, true, 5},
    {"gates from 0 to -infinity", BF16, 1500, 8, 2, 128, 64, FORGET_BY_HEAD, MIXED, 4, true, 5},
    {"GLA", BF16, 1500, 2, 2, 128, 128, FORGET_BY_CHANNEL, WEAK, 4, false, 5},
    {"GLA, steep", BF16, 1500, 2, 2, 128, 128, FORGET_BY_CHANNEL, USUAL, 2, false, 5},
    {"GLA, 0 to -infinity", BF16, 1500, 2, 2, 128, 128, FORGET_BY_CHANNEL, MIXED, 4, true, 5},
    {"K 24, V 40", BF16, 333, 6, 3, 24, 40, FORGET_BY_CHANNEL, USUAL, 4, true, 3},
    {"K 24, V 40", BF16, 333, 6, 2, 24, 40, FORGET_BY_HEAD, USUAL, 4, true, 3},
    {"K 256, V 512", BF16, 333, 2, 1, 256, 512, FORGET_BY_HEAD, USUAL, 4, false, 3},
    {"K 192, V 96", BF16, 333, 2, 1, 192, 96, FORGET_BY_CHANNEL, USUAL, 4, false, 3},
    {"float32 linear", F32, 1500, 2, 2, 128, 128, FORGET_NOTHING, WEAK, 4, false, 3},
    {"float32 Mamba-2", F32, 1500, 8, 1, 128, 64, FORGET_BY_HEAD, MIXED, 4, true, 5},
    {"float32 GLA", F32, 1500, 2, 2, 128, 128, FORGET_BY_CHANNEL, MIXED, 4, true, 5},
    {"float32 GLA, weak", F32, 1500, 2, 2, 64, 64, FORGET_BY_CHANNEL, WEAK, 4, true, 1},
    {"float32 K 256", F32, 333, 2, 1, 256, 128, FORGET_BY_CHANNEL, USUAL, 4, false, 3},
    {"TF32 GLA", TF32, 1500, 2, 2, 128, 128, FORGET_BY_CHANNEL, USUAL, 4, true, 5},
};

#define MAMBA 32768, 128, 1, 128, 64, FORGET_BY_HEAD
#define GLA   32768, 16, 16, 128, 128, FORGET_BY_CHANNEL
static const struct {
    problem p;
    int segments[6]; // as many as are not 0, behind what the cost model says
} timings[] = {
    {{"Mamba-2 1x32768x128", BF16, MAMBA, USUAL, 4, false, 0}, {1, 2, 4, 8, 16}},
    {{"the same, weak gates", BF16, MAMBA, WEAK, 4, false, 0}, {2, 8}},
    {{"GLA 1x32768x16", BF16, GLA, WEAK, 2, false, 0}, {1, 8, 16, 33}},
    {{"the same, float gates", BF16, GLA, WEAK, 4, false, 0}, {16}},
    {{"the same, strong gates", BF16, GLA, USUAL, 4, false, 0}, {16}},
    {{"linear 1x32768x16", BF16, 32768, 16, 16, 128, 128, FORGET_NOTHING, WEAK, 4, false, 0},
     {1, 8, 16}},
    {{"RetNet 1x32768x16, K 64", BF16, 32768, 16, 16, 64, 64, FORGET_BY_HEAD, WEAK, 4, false, 0},
     {1, 8, 24}},
    {{"RetNet 1x32768x8, K 256, V 512", BF16, 32768, 8, 8, 256, 512, FORGET_BY_HEAD, WEAK, 4, false,
      0},
     {1, 4}},
    {{"Mamba-2 1x1024x128", BF16, 1024, 128, 1, 128, 64, FORGET_BY_HEAD, USUAL, 4, false, 0},
     {1, 2, 4}},
    {{"GLA 1x64x16", BF16, 64, 16, 16, 128, 128, FORGET_BY_CHANNEL, USUAL, 4, false, 0}, {1}},
    {{"GLA, float32", F32, 8192, 16, 16, 128, 128, FORGET_BY_CHANNEL, WEAK, 4, false, 0}, {8}},
};

static void need(cudaError_t r, const char *what) {
    if (r == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(r));
    exit(1);
}

static std::mt19937_64 source(1);

static double uniform() {
    return (double)(source() >> 11) * 0x1p-53;
}

// From a pool, read from a new place every 1024 numbers: large problems are filled quickly.
static float gauss() {
    static std::vector<float> pool;
    static size_t at;
    std::normal_distribution<float> normal;
    while (pool.size() < 1 << 20)
        pool.push_back(normal(source));
    if ((++at & 1023) == 0)
        at = (size_t)(uniform() * (1 << 20));
    return pool[at & ((1 << 20) - 1)];
}

static float gate(gate_kind kind, int head) {
    static const float mixed[] = {-1e-6f, -1e-6f, -1e-6f, -1, -50, -500, -INFINITY};
    const float x = gauss();
    if (kind == MIXED)
        return mixed[(int)(uniform() * 7)];
    return kind == WEAK || head % 4 == 3 ? -1e-3f * fabsf(x) : -log1pf(expf(-x));
}

// A matrix on the host as floats, which the type on the device holds exactly.
struct matrix {
    std::vector<float> x;
    void *device = NULL;
    int columns, bytes;
    matrix(long rows, int columns_, int bytes_)
        : x(rows * columns_), columns(columns_), bytes(bytes_) {}
    linear_matrix upload() {
        if (bytes == 4) {
            need(cudaMalloc(&device, x.size() * 4), "memory");
            need(cudaMemcpy(device, x.data(), x.size() * 4, cudaMemcpyHostToDevice), "copy");
        } else {
            std::vector<bf16> y(x.size());
            for (size_t i = 0; i < x.size(); i++) {
                y[i] = __float2bfloat16(x[i]);
                x[i] = __bfloat162float(y[i]);
            }
            need(cudaMalloc(&device, y.size() * 2), "memory");
            need(cudaMemcpy(device, y.data(), y.size() * 2, cudaMemcpyHostToDevice), "copy");
        }
        return {device, columns, bytes};
    }
    void download() {
        std::vector<bf16> y(bytes == 2 ? x.size() : 0);
        need(cudaMemcpy(bytes == 2 ? (void *)y.data() : x.data(), device, x.size() * bytes,
                        cudaMemcpyDeviceToHost),
             "results");
        for (size_t i = 0; i < y.size(); i++)
            x[i] = __bfloat162float(y[i]);
    }
    ~matrix() {
        cudaFree(device);
    }
};

struct session {
    problem p;
    matrix q, k, v, beta, decay, o, state;
    std::vector<float> start;
    linear_call call = {};
    linear_plan plan;
    float *scratch = NULL;
    session(const problem &p_)
        : p(p_), q(p.tokens, p.Hk * p.K, p.numbers == BF16 ? 2 : 4), k(q),
          v(p.tokens, p.H * p.V, q.bytes), beta(p.tokens, p.H, 4),
          decay(p.tokens, p.forget == FORGET_BY_CHANNEL ? p.H * p.K : p.H, p.gate_bytes),
          o(0, p.H * p.V, q.bytes), state((long)p.H * p.K, p.V, 4) {
        for (float &x : q.x)
            x = gauss();
        for (float &x : k.x)
            x = gauss() / sqrtf((float)p.K);
        for (float &x : v.x)
            x = gauss();
        for (float &x : beta.x)
            x = (float)(2 * uniform());
        for (size_t i = 0; i < decay.x.size(); i++)
            decay.x[i] = gate(p.gates, (int)(i % decay.columns / (decay.columns / p.H)));
        for (float &x : state.x)
            x = 0.3f * gauss();
        call.q = q.upload();
        call.k = k.upload();
        call.v = v.upload();
        if (p.beta)
            call.beta = beta.upload();
        if (p.forget != FORGET_NOTHING)
            call.decay = decay.upload();
        const size_t outputs = (size_t)p.tokens * p.H * p.V * o.bytes;
        need(cudaMalloc(&o.device, outputs), "memory");
        need(cudaMemset(o.device, 0xff, outputs), "poison"); // NaN unless written
        call.o = {o.device, o.columns, o.bytes};
        call.state = (float *)state.upload().p;
        start = state.x;
        call.ld_state = p.V;
        call.forget = p.forget;
        call.H = p.H;
        call.Hk = p.Hk;
        call.K = p.K;
        call.V = p.V;
        call.T = p.tokens;
        call.scale = 1 / sqrtf((float)p.K);
        call.fine = p.numbers != TF32;
    }
    void cut(int processors, int segments) {
        cudaFree(scratch);
        scratch = NULL;
        plan = linear_plan_for(&call, processors, segments);
        const size_t floats = linear_scratch(&call, &plan);
        if (floats) {
            need(cudaMalloc(&scratch, floats * sizeof(float)), "memory");
            need(cudaMemset(scratch, 0xff, floats * sizeof(float)), "poison");
        }
    }
    void run(void (*phase)(void *, const char *), void *ctx) {
        need(linear_run(&call, &plan, scratch, 0, phase, ctx), "launch");
    }
    ~session() {
        cudaFree(scratch);
    }
};

static bool check(const problem &p, int processors) {
    session s(p);
    s.cut(processors, p.segments);
    s.run(NULL, NULL);
    s.o.x.resize((size_t)p.tokens * s.o.columns);
    s.o.download();
    s.state.download();
    const int K = p.K, V = p.V;
    double off[2] = {}, all[2] = {};
    for (int h = 0; h < p.H; h++) {
        const int hk = h / (p.H / p.Hk);
        std::vector<double> S(s.start.begin() + (size_t)h * K * V,
                              s.start.begin() + (size_t)(h + 1) * K * V);
        for (long t = 0; t < p.tokens; t++) {
            std::vector<double> y(V);
            for (int i = 0; i < K; i++) {
                const float w =
                    s.decay
                        .x[t * s.decay.columns + (p.forget == FORGET_BY_CHANNEL ? h * K + i : h)];
                const double g = p.forget == FORGET_NOTHING ? 1 : exp((double)w);
                const double key =
                    (double)s.k.x[(t * p.Hk + hk) * K + i] * (p.beta ? s.beta.x[t * p.H + h] : 1.0);
                const double query = (double)s.q.x[(t * p.Hk + hk) * K + i] / sqrt((double)K);
                for (int j = 0; j < V; j++) {
                    double &x = S[(size_t)i * V + j];
                    x = g * x + key * s.v.x[(t * p.H + h) * V + j];
                    y[j] += query * x;
                }
            }
            for (int j = 0; j < V; j++) {
                const double e = s.o.x[(t * p.H + h) * V + j] - y[j];
                off[0] += e * e;
                all[0] += y[j] * y[j];
            }
        }
        for (size_t i = 0; i < S.size(); i++) {
            const double e = s.state.x[(size_t)h * K * V + i] - S[i];
            off[1] += e * e;
            all[1] += S[i] * S[i];
        }
    }
    const double in_o = sqrt(off[0] / all[0]), in_state = sqrt(off[1] / all[1]);
    // docs/kernels.md: bfloat16 3.5e-3; three products of TF32 leave 3e-7, sums over 1500 tokens 1e-6.
    const double allowed = p.numbers == BF16 ? 5e-3 : p.numbers == TF32 ? 2e-3 : 5e-6;
    const bool good = in_o <= allowed && in_state <= allowed; // false for NaN
    printf("%-28s %2d segments  o %.2e  state %.2e%s\n", p.name, s.plan.segments, in_o, in_state,
           good ? "" : "  WRONG");
    return good;
}

struct clock_marks {
    cudaEvent_t at[4];
    int n;
};
static void mark(void *ctx, const char *name) {
    (void)name;
    clock_marks *m = (clock_marks *)ctx;
    cudaEventRecord(m->at[m->n++]);
}

static void measure(session &s) {
    clock_marks m;
    for (cudaEvent_t &e : m.at)
        cudaEventCreate(&e);
    std::vector<float> ms[4];
    for (int i = 0; i < 25; i++) { // the state goes on from call to call: gates keep it bounded
        m.n = 1;
        cudaEventRecord(m.at[0]);
        s.run(mark, &m);
        need(cudaEventSynchronize(m.at[m.n - 1]), "run");
        for (int j = 0; i >= 5 && j + 1 < m.n; j++) {
            float one = 0;
            cudaEventElapsedTime(&one, m.at[j], m.at[j + 1]);
            ms[j].push_back(one);
        }
        if (i >= 5) {
            if (m.n == 2)
                ms[2] = ms[0];
            float all = 0;
            cudaEventElapsedTime(&all, m.at[0], m.at[m.n - 1]);
            ms[3].push_back(all);
        }
    }
    double median[4] = {};
    for (int j = 0; j < 4; j++)
        if (!ms[j].empty()) {
            std::sort(ms[j].begin(), ms[j].end());
            median[j] = 1e3 * ms[j][ms[j].size() / 2];
        }
    if (s.plan.segments == 1)
        median[0] = 0;
    printf("%-31s %3d x %5ld  %7.1f us = ends %.1f scan %.1f outputs %.1f; expected %.0f = %.0f "
           "%.0f %.0f\n",
           s.p.name, s.plan.segments, (long)s.plan.tokens, median[3], median[0], median[1],
           median[2], linear_us(&s.plan), s.plan.ends, s.plan.scan, s.plan.outputs);
    for (cudaEvent_t &e : m.at)
        cudaEventDestroy(e);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    cudaDeviceProp device;
    need(cudaGetDeviceProperties(&device, 0), "device");
    printf("%s\n", device.name);
    if (argc == 2 && !strcmp(argv[1], "check")) {
        bool good = true;
        for (const problem &p : checks)
            good &= check(p, device.multiProcessorCount);
        return !good;
    }
    if ((argc == 2 || argc == 3) && !strcmp(argv[1], "time")) {
        for (const auto &t : timings) {
            if (argc == 3 && !strstr(t.p.name, argv[2]))
                continue;
            session s(t.p);
            for (int i = 0; i < 7 && (i == 0 || t.segments[i - 1]); i++) {
                s.cut(device.multiProcessorCount, i ? t.segments[i - 1] : 0);
                measure(s);
            }
        }
        return 0;
    }
    printf("usage: linear_rate check|time [NAME]\n");
    return 2;
}
