// kernels/cuda/states_march.h - the step recurrence (core/steps.h) that only leaves states behind:
// the state after steps[0], steps[stride], steps[2 stride] ... micro-steps, `count` of them.
//
// As in recurrence.cu a block owns MARCH_COLUMNS columns of one head, a column is spread over 8
// neighbouring lanes, row i in lane i % 8, and registers hold ROWS numbers each (K <= 8 ROWS). What
// the micro-steps bring is staged in shared memory, MARCH_STAGE micro-steps at a time; a staged row
// of the token part (decay, a, b) belongs to token first / n_h + row.
//
// Barriers: one before staging (the last stage has been used by all), one after (it is complete).
// All threads agree on every loop bound, since bounds come from `steps` alone.
#ifndef DELTOP_STATES_MARCH_H
#define DELTOP_STATES_MARCH_H

// Dynamic shared memory; a host emulation defines its own.
#ifndef SHARED_MEMORY
#define SHARED_MEMORY(name) extern __shared__ __align__(16) unsigned char name[]
#endif

enum { MARCH_LANES = 8, MARCH_COLUMNS = 16, MARCH_THREADS = 128, MARCH_STAGE = 16 };

// What a replay reads; T is the element of k, v, a and b.
template <class T> struct replay_view {
    int H, Hk, K, V, n_h;
    int decay, erase; // decay_kind, erase_kind
    bool has_beta;
    view<T> k, v, a, b;
    view<float> beta, decays;
};

// Floats of shared memory.
static inline size_t march_floats(int K, bool channel, bool pair) {
    return (size_t)MARCH_STAGE * (K + MARCH_COLUMNS + 1 + (channel ? K : 1) + (pair ? 2 * K : 0));
}

// heads[blockIdx.x]; now [n_heads][K][V] goes from micro-step `done` to the last wanted one; starts
// [n_heads][count][K][V].
template <class T, int ROWS>
__global__ void __launch_bounds__(MARCH_THREADS)
    states_march(replay_view<T> s, const int *heads, int64_t done, const int64_t *wanted,
                 int64_t stride, int64_t count, float *now, float *starts) {
    SHARED_MEMORY(raw);
    float *shared = (float *)raw;
    const int h = heads[blockIdx.x], hk = h / (s.H / s.Hk), v0 = blockIdx.y * MARCH_COLUMNS;
    const int lane = threadIdx.x % MARCH_LANES, mine = threadIdx.x / MARCH_LANES;
    const int K = s.K, V = s.V, column = v0 + mine;
    const bool owns = column < V, pair = s.erase == ERASE_PAIR;
    const int wide = s.decay == DECAY_CHANNEL ? K : 1;
    float *sk = shared, *sv = sk + MARCH_STAGE * K, *sbeta = sv + MARCH_STAGE * MARCH_COLUMNS,
          *sw = sbeta + MARCH_STAGE, *sa = sw + MARCH_STAGE * wide,
          *sb = sa + (pair ? MARCH_STAGE * K : 0);
    float *mine_now = now + (int64_t)blockIdx.x * K * V;
    float S[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        int r = i * MARCH_LANES + lane;
        S[i] = r < K && owns ? mine_now[(int64_t)r * V + column] : 0.0f;
    }
    int64_t at = done;
    for (int64_t c = 0; c < count; c++) {
        int64_t end = wanted[c * stride];
        while (at < end) {
            int m = (int)(end - at < MARCH_STAGE ? end - at : MARCH_STAGE);
            int64_t t0 = at / s.n_h;
            int n = (int)((at + m - 1) / s.n_h - t0) + 1;
            __syncthreads();
            for (int i = threadIdx.x; i < m * K; i += MARCH_THREADS)
                sk[i] = get(s.k.row(at + i / K)[(int64_t)hk * K + i % K]);
            for (int i = threadIdx.x; i < m * MARCH_COLUMNS; i += MARCH_THREADS) {
                int col = v0 + i % MARCH_COLUMNS;
                sv[i] = col < V ? get(s.v.row(at + i / MARCH_COLUMNS)[(int64_t)h * V + col]) : 0.0f;
            }
            for (int i = threadIdx.x; i < m; i += MARCH_THREADS)
                sbeta[i] = s.has_beta ? s.beta.row(at + i)[h] : 1.0f;
            if (s.decay != DECAY_NONE)
                for (int i = threadIdx.x; i < n * wide; i += MARCH_THREADS)
                    sw[i] = expf(s.decays.row(t0 + i / wide)[(int64_t)h * wide + i % wide]);
            if (pair)
                for (int i = threadIdx.x; i < n * K; i += MARCH_THREADS) {
                    sa[i] = get(s.a.row(t0 + i / K)[(int64_t)h * K + i % K]);
                    sb[i] = get(s.b.row(t0 + i / K)[(int64_t)hk * K + i % K]);
                }
            __syncthreads();
            for (int j = 0; j < m; j++) {
                int t = (int)((at + j) / s.n_h - t0);
                bool first = (at + j) % s.n_h == 0;
                const float *key = sk + j * K;
                float r = 0, u = sv[j * MARCH_COLUMNS + mine];
                if (pair && first) { // b reads the undecayed state
#pragma unroll
                    for (int i = 0; i < ROWS; i++)
                        if (i * MARCH_LANES + lane < K)
                            r += sb[t * K + i * MARCH_LANES + lane] * S[i];
                    for (int d = 1; d < MARCH_LANES; d <<= 1)
                        r += __shfl_xor_sync(~0u, r, d);
                }
                if (s.decay != DECAY_NONE && first) {
#pragma unroll
                    for (int i = 0; i < ROWS; i++)
                        if (i * MARCH_LANES + lane < K)
                            S[i] *= sw[wide == 1 ? t : t * K + i * MARCH_LANES + lane];
                }
                if (pair && first) {
#pragma unroll
                    for (int i = 0; i < ROWS; i++)
                        if (i * MARCH_LANES + lane < K)
                            S[i] += sa[t * K + i * MARCH_LANES + lane] * r;
                }
                if (s.erase == ERASE_KEY) {
                    float x = 0;
#pragma unroll
                    for (int i = 0; i < ROWS; i++)
                        if (i * MARCH_LANES + lane < K)
                            x += key[i * MARCH_LANES + lane] * S[i];
                    for (int d = 1; d < MARCH_LANES; d <<= 1)
                        x += __shfl_xor_sync(~0u, x, d);
                    u -= x;
                }
                u *= sbeta[j];
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (i * MARCH_LANES + lane < K)
                        S[i] += key[i * MARCH_LANES + lane] * u;
            }
            at += m;
        }
        float *to = starts + ((int64_t)blockIdx.x * count + c) * K * V;
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            int r = i * MARCH_LANES + lane;
            if (r < K && owns)
                to[(int64_t)r * V + column] = S[i];
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        int r = i * MARCH_LANES + lane;
        if (r < K && owns)
            mine_now[(int64_t)r * V + column] = S[i];
    }
}

#endif
