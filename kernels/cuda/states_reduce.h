// kernels/cuda/states_reduce.h - states of one chunk of wanted positions to tridiagonal matrices,
// without a state ever leaving the chip.
//
// A block (one head, `per_chunk` consecutive wanted positions) keeps the state S in shared memory,
// float32, moves it micro-step by micro-step, and at each wanted position
//   1. takes 2^e, the power of two just below max |S|, out (kernels/svals.h),
//   2. forms the Gram matrix of the smaller side in float64, in the tiles of states_tiles.h,
//   3. reduces it to tridiagonal form there, writing d and e^2, last row first.
//
// The Gram matrix is made anew at every position: rank-2 updates would be cheaper, but their rounding
// adds up to zero eigenvalues that no longer look like zero.
#ifndef DELTOP_STATES_REDUCE_H
#define DELTOP_STATES_REDUCE_H

#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/states_gram.h"
#include "kernels/cuda/states_march.h"

#define STATE_ZERO       INT_MIN // in `exponent`: the state is zero
#define STATE_NOT_FINITE INT_MAX

// What a launch of states_reduce works on: matrix = head * positions + position.
struct reduce_job {
    const int *heads;      // [heads of the grid]
    const int64_t *wanted; // [positions] micro-steps
    int positions, per_chunk, chunks;
    const float *starts; // [heads][chunks][K][V], the state at each chunk's first position
    int64_t matrices;    // of the launch: distance of d's rows
    double *d, *e2;      // [n][matrices]
    int *exponent;       // [matrices]
    double *rest;        // n > 64: [matrices][REST_NUMBERS] for states_reduce_rest
};

// Matrices of more than 64 rows start in tiles of 8 x 8. What is left at 64 rows leaves for memory, and
// another kernel goes on in tiles of 4 x 4: its blocks need a third of the registers, so that more of
// them hide each other's waits.
enum { REST_NUMBERS = tile_rest<8, 16>::NUMBERS };

// For n <= N; blocks on a multiprocessor: as many as their registers allow.
template <int N> struct reduce_shape {
    static const int R = N > 64 ? 8 : 4, B = N / R;
    typedef tile_shape<R, B> tiles;
    static const int THREADS = tiles::THREADS, BLOCKS = N > 64 ? 2 : N > 32 ? 4 : 16;
};

template <int N> struct reduce_shared {
    typedef reduce_shape<N> shape;
    union {
        tile_shared<shape::R, shape::B> tiles;
        gram_shared<shape::tiles::WARPS> gram;
    };
    // Per micro-step, two sets: the next one is filled while slow threads still read.
    float read[2][128], factor[2][128], key[2][128], along[2][128];
    float4 sum[2][shape::THREADS];
    unsigned top[shape::tiles::WARPS];
};

template <int N> static inline size_t reduce_bytes(int K, int V) {
    return sizeof(reduce_shared<N>) + (size_t)state_rows(K) * state_pitch(V) * sizeof(float);
}

// s by + k u, four columns.
__device__ static inline float4 scaled_sum(float4 s, float by, float k, float4 u) {
    return make_float4(s.x * by + k * u.x, s.y * by + k * u.y, s.z * by + k * u.z,
                       s.w * by + k * u.w);
}
// The bit pattern of max |s|: as integers they compare like the magnitudes do, NaN and Inf above
// every number.
__device__ static inline unsigned row_top(float4 s, unsigned top) {
    const unsigned magnitude = 0x7fffffffu;
    top = max(top, max(__float_as_uint(s.x) & magnitude, __float_as_uint(s.y) & magnitude));
    return max(top, max(__float_as_uint(s.z) & magnitude, __float_as_uint(s.w) & magnitude));
}

// One micro-step of S; returns row_top of what the thread wrote. A thread owns four columns for good
// (v = 4 (thread % quads)) and every parts-th row. Two barriers: staged rows complete; partial sums
// complete.
template <class T, int N>
__device__ static unsigned one_micro_step(const replay_view<T> &s, int h, int64_t m, int set,
                                          int quads, int parts, reduce_shared<N> *sh, float *S) {
    const int K = s.K, V = s.V, pitch = state_pitch(V), hk = h / (s.H / s.Hk);
    const int64_t t = m / s.n_h;
    const bool decays = s.decay != DECAY_NONE && m % s.n_h == 0, pair = s.erase == ERASE_PAIR;
    const int part = threadIdx.x / quads, quad = threadIdx.x % quads, v = 4 * quad;
    const bool mine = part < parts;
    const T *values = s.v.row(m) + (int64_t)h * V;
    float4 value = make_float4(0, 0, 0, 0);
    if (mine) {
        value.x = get(values[v]);
        value.y = v + 1 < V ? get(values[v + 1]) : 0.0f;
        value.z = v + 2 < V ? get(values[v + 2]) : 0.0f;
        value.w = v + 3 < V ? get(values[v + 3]) : 0.0f;
    }
    const float beta = s.has_beta ? s.beta.row(m)[h] : 1.0f;
    for (int i = threadIdx.x; i < K; i += reduce_shape<N>::THREADS) {
        float k = get(s.k.row(m)[(int64_t)hk * K + i]), w = 1;
        if (decays)
            w = expf(s.decays.row(t)[s.decay == DECAY_CHANNEL ? (int64_t)h * K + i : h]);
        sh->key[set][i] = k;
        sh->factor[set][i] = w;
        // The key reads the decayed state, b the undecayed one.
        sh->read[set][i] = pair ? get(s.b.row(t)[(int64_t)hk * K + i]) : k * w;
        sh->along[set][i] = pair ? get(s.a.row(t)[(int64_t)h * K + i]) : 0.0f;
    }
    __syncthreads();
    float4 r = make_float4(0, 0, 0, 0);
    if (s.erase != ERASE_NONE) {
        float4 x = r;
        if (mine)
#pragma unroll 4
            for (int i = part; i < K; i += parts)
                x = scaled_sum(x, 1, sh->read[set][i], *(const float4 *)(S + i * pitch + v));
        sh->sum[set][threadIdx.x] = x;
        __syncthreads();
        if (mine)
            for (int p = 0; p < parts; p++)
                r = scaled_sum(r, 1, 1, sh->sum[set][p * quads + quad]);
    }
    const float less = s.erase == ERASE_KEY ? -beta : 0.0f;
    const float4 u =
        scaled_sum(make_float4(less * r.x, less * r.y, less * r.z, less * r.w), 1, beta, value);
    unsigned top = 0;
    if (mine)
#pragma unroll 4
        for (int i = part; i < K; i += parts) {
            float4 *at = (float4 *)(S + i * pitch + v);
            float4 x = scaled_sum(*at, sh->factor[set][i], sh->key[set][i], u);
            if (pair)
                x = scaled_sum(x, 1, sh->along[set][i], r);
            *at = x;
            top = row_top(x, top);
        }
    return top;
}

// The largest of all threads' tops. One barrier inside; S is complete after it.
template <int N> __device__ static unsigned largest_bits(unsigned top, reduce_shared<N> *sh) {
    for (int d = 16; d; d >>= 1)
        top = max(top, __shfl_xor_sync(~0u, top, d));
    if (threadIdx.x % 32 == 0)
        sh->top[threadIdx.x / 32] = top;
    __syncthreads();
    for (int w = 0; w < reduce_shape<N>::tiles::WARPS; w++)
        top = max(top, sh->top[w]);
    return top;
}

// Tiles to tridiagonal form; of 128 rows only the first half, the rest goes to `rest`.
template <int N>
__device__ static void tridiagonal(tile_part<4> &m, tile_place at, int thread, int pad,
                                   reduce_shared<N> *sh, double *d, double *e2, int64_t stride,
                                   double *rest) {
    const int B = N / 4;
    tile_begin<4, B>(&sh->tiles, at, thread, pad, m, d, stride);
    tile_reduce<4, B>(&sh->tiles, at, thread, pad, N - 1, m, d, e2, stride);
}
template <int N>
__device__ static void tridiagonal(tile_part<8> &m, tile_place at, int thread, int pad,
                                   reduce_shared<N> *sh, double *d, double *e2, int64_t stride,
                                   double *rest) {
    const int B = N / 8;
    tile_begin<8, B>(&sh->tiles, at, thread, pad, m, d, stride);
    tile_reduce<8, B>(&sh->tiles, at, thread, pad, N / 2, m, d, e2, stride);
    tile_save<8, B>(&sh->tiles, thread, m, rest);
}

// The thread's place in the order of tiles and rows. Late in a reduction only the first warps have
// work; blocks that share a multiprocessor start on different quarters of it. `scratch`: one number,
// everybody may have read it before and no one writes it before a barrier.
template <int WARPS> __device__ static int tile_thread(unsigned *scratch) {
#ifdef __CUDA_ARCH__
    if (WARPS % 4 == 0) {
        unsigned slot;
        asm volatile("mov.u32 %0, %%warpid;" : "=r"(slot));
        if (threadIdx.x == 0)
            *scratch = slot;
        __syncthreads();
        return (threadIdx.x + (*scratch / 4 % 2 ? 16 * WARPS : 0)) % (32 * WARPS);
    }
#endif
    return threadIdx.x;
}

template <class T, int N>
__global__ void __launch_bounds__(reduce_shape<N>::THREADS, reduce_shape<N>::BLOCKS)
    states_reduce(replay_view<T> s, reduce_job job) {
    typedef reduce_shape<N> shape;
    SHARED_MEMORY(raw);
    reduce_shared<N> *sh = (reduce_shared<N> *)raw;
    float *S = (float *)(sh + 1);
    const int head = blockIdx.x / job.chunks, chunk = blockIdx.x % job.chunks;
    const int h = job.heads[head], K = s.K, V = s.V, pitch = state_pitch(V);
    const int n = K < V ? K : V, pad = N - n;
    const float *start = job.starts + (int64_t)blockIdx.x * K * V;
    const int quads = (V + 3) / 4, parts = shape::THREADS / quads;
    const int thread = tile_thread<shape::tiles::WARPS>(&sh->top[0]);
    const tile_place at = tile_of<shape::B>(thread);
    unsigned top = 0;
    for (int i = threadIdx.x; i < state_rows(K) * 4 * quads; i += shape::THREADS) {
        int row = i / (4 * quads), v = i % (4 * quads);
        float x = row < K && v < V ? start[row * V + v] : 0.0f;
        S[row * pitch + v] = x;
        top = max(top, __float_as_uint(x) & 0x7fffffffu);
    }
    int first = chunk * job.per_chunk, end = first + job.per_chunk;
    end = end < job.positions ? end : job.positions;
    int64_t now = job.wanted[first];
    int set = 0;
    __syncthreads();
    for (int p = first; p < end; p++) {
        for (int64_t to = job.wanted[p]; now < to; now++, set ^= 1)
            top = one_micro_step<T, N>(s, h, now, set, quads, parts, sh, S);
        const unsigned largest = largest_bits<N>(top, sh);
        const bool finite = largest < 0x7f800000u;
        int64_t matrix = (int64_t)head * job.positions + p;
        int exponent = finite && largest ? ilogbf(__uint_as_float(largest)) : 0;
        if (threadIdx.x == 0)
            job.exponent[matrix] = !finite ? STATE_NOT_FINITE : largest ? exponent : STATE_ZERO;
        if (!finite || largest == 0) {
            __syncthreads(); // sh->top has been read
            continue;        // all threads agree
        }
        tile_part<shape::R> m;
        gram<N>(S, K, V, exponent, at, thread, &sh->gram, m);
        tridiagonal<N>(m, at, thread, pad, sh, job.d + matrix, job.e2 + matrix, job.matrices,
                       job.rest + matrix * REST_NUMBERS);
    }
}

// A block a matrix.
__global__ void __launch_bounds__(128, 5) states_reduce_rest(reduce_job job) {
    SHARED_MEMORY(raw);
    tile_shared<4, 16> *sh = (tile_shared<4, 16> *)raw;
    const int64_t matrix = blockIdx.x;
    const int exponent = job.exponent[matrix];
    if (exponent == STATE_ZERO || exponent == STATE_NOT_FINITE)
        return;
    const int thread = tile_thread<4>((unsigned *)sh->share);
    const tile_place at = tile_of<16>(thread);
    tile_part<4> m;
    tile_load<4, 16>(job.rest + matrix * REST_NUMBERS, at, thread, sh, m);
    tile_reduce<4, 16>(sh, at, thread, 0, 63, m, job.d + matrix, job.e2 + matrix, job.matrices);
}

#endif
