// kernels/cuda/states_reduce.h - states of one chunk of wanted positions to tridiagonal matrices,
// without a state ever leaving the chip.
//
// A block (one head, `per_chunk` consecutive wanted positions) keeps the state S in shared memory,
// float32, moves it micro-step by micro-step, and at each wanted position
//   1. takes 2^e, the power of two just below max |S|, out (kernels/svals.h),
//   2. forms the Gram matrix of the smaller side in float64, in registers,
//   3. reduces it to tridiagonal form there (Householder, rank-2 updates fused with the product of
//      the next step like in kernels/cpu/svals_lanes.c), writing d and e^2, last row first.
//
// The N x N matrix is held whole (both triangles), in the thread registers of W warps: row
// i = warp + W r with r < R = N / W, column j = lane + 32 c with c < C = N / 32. Cyclic rows and
// columns keep all threads busy while the active part shrinks. A matrix of n < N sits in the last n
// rows and columns, the first N - n steps are left out. A thread's columns are also the entries of
// the vectors that every warp holds redundantly, so vectors along columns need no traffic.
//
// Barrier plan of step k (two block barriers a step):
//   A  the lane of each warp that owns column k pays the owed update of that column and writes its
//      rows to `col`, its part of |col|^2 to `part_norm`
//   == barrier 1: col, part_norm complete
//   B  everybody makes the reflector u (tau, head) from them; one pass over the registers pays the
//      owed update (v, w) and sums y = A u; row sums over the lanes to `y`, parts of u.y to `part_uy`
//   == barrier 2: y, part_uy complete
//   C  everybody makes q = tau (y - tau (u.y) / 2 u), the next owed pair is (u, q); a warp writes
//      those of its own rows to its own part of `owed`, which only that warp reads (A, B of the
//      next step), ordered by __syncwarp
// col and part_norm are read between barriers 1 and 2 and written between 2 and 1; y and part_uy the
// other way round; so one copy of each is enough.
#ifndef DELTOP_STATES_REDUCE_H
#define DELTOP_STATES_REDUCE_H

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
};

template <int W, int R> struct reduce_shape {
    static const int N = W * R, C = N / 32, THREADS = 32 * W;
    static const int TAKE = 32; // rows of the Gram's long side staged as doubles at a time
    static const int STAGES = R < 8 ? R : 8, STAGE_ROWS = R / STAGES;
};

struct alignas(16) pair64 { // one 16-byte load
    double v, w;
};

template <int W, int R> struct reduce_shared {
    double x[reduce_shape<W, R>::TAKE][W * R];
    double col[W * R], y[W * R];
    pair64 owed[W * R]; // [warp][r]
    double part_norm[W], part_uy[W];
    unsigned top[W];
    // Per micro-step, two sets: the next one is filled while slow threads still read.
    float read[2][128], factor[2][128], key[2][128], along[2][128];
    float sum[2][32 * W];
};

// Floats between rows of S: odd, so that rows and columns are both free of bank conflicts.
__host__ __device__ static inline int state_pitch(int V) {
    return V | 1;
}

template <int W, int R> static inline size_t reduce_bytes(int K, int V) {
    return sizeof(reduce_shared<W, R>) + (size_t)K * state_pitch(V) * sizeof(float);
}

// One micro-step of S. Element (i, v) belongs to one thread for good: v = thread % across, i in
// thread / across + k parts. Two barriers: staged rows complete; partial sums complete.
template <class T, int W, int R>
__device__ static void one_micro_step(const replay_view<T> &s, int h, int64_t m, int set,
                                      int across, int parts, reduce_shared<W, R> *sh, float *S) {
    const int K = s.K, V = s.V, pitch = state_pitch(V), hk = h / (s.H / s.Hk);
    const int64_t t = m / s.n_h;
    const bool decays = s.decay != DECAY_NONE && m % s.n_h == 0, pair = s.erase == ERASE_PAIR;
    for (int i = threadIdx.x; i < K; i += 32 * W) {
        float k = get(s.k.row(m)[(int64_t)hk * K + i]), w = 1;
        if (decays)
            w = expf(s.decays.row(t)[s.decay == DECAY_CHANNEL ? (int64_t)h * K + i : h]);
        sh->key[set][i] = k;
        sh->factor[set][i] = w;
        // The key reads the decayed state, b the undecayed one.
        sh->read[set][i] = pair ? get(s.b.row(t)[(int64_t)hk * K + i]) : k * w;
        sh->along[set][i] = pair ? get(s.a.row(t)[(int64_t)h * K + i]) : 0.0f;
    }
    const int v = threadIdx.x % across, part = threadIdx.x / across;
    const bool mine = v < V && part < parts;
    float value = mine ? get(s.v.row(m)[(int64_t)h * V + v]) : 0.0f;
    float beta = s.has_beta ? s.beta.row(m)[h] : 1.0f, r = 0;
    __syncthreads();
    if (s.erase != ERASE_NONE) {
        float x = 0;
        if (mine)
            for (int i = part; i < K; i += parts)
                x += sh->read[set][i] * S[i * pitch + v];
        sh->sum[set][threadIdx.x] = x;
        __syncthreads();
        if (mine)
            for (int p = 0; p < parts; p++)
                r += sh->sum[set][p * across + v];
    }
    float u = beta * (s.erase == ERASE_KEY ? value - r : value);
    if (mine)
        for (int i = part; i < K; i += parts) {
            float x = S[i * pitch + v] * sh->factor[set][i];
            if (pair)
                x += sh->along[set][i] * r;
            S[i * pitch + v] = x + sh->key[set][i] * u;
        }
}

// The bit pattern of max |S|: as integers they compare like the magnitudes do, NaN and Inf above
// every number. S must be complete before; one barrier inside.
template <int W, int R>
__device__ static unsigned largest_bits(const float *S, int K, int V, reduce_shared<W, R> *sh) {
    const int pitch = state_pitch(V);
    unsigned top = 0;
    for (int i = threadIdx.x / 32; i < K; i += W)
        for (int v = threadIdx.x % 32; v < V; v += 32) {
            unsigned bits = __float_as_uint(S[i * pitch + v]) & 0x7fffffffu;
            top = bits > top ? bits : top;
        }
    for (int d = 16; d; d >>= 1) {
        unsigned other = __shfl_xor_sync(~0u, top, d);
        top = other > top ? other : top;
    }
    if (threadIdx.x % 32 == 0)
        sh->top[threadIdx.x / 32] = top;
    __syncthreads();
    for (int w = 0; w < W; w++)
        top = sh->top[w] > top ? sh->top[w] : top;
    return top;
}

// a = X^T X with X = down * S or its transpose, the smaller side along the columns of X, shifted by
// `pad`. Two barriers a round; S must be complete before.
template <int W, int R>
__device__ static void gram(const float *S, int K, int V, double down, int pad,
                            reduce_shared<W, R> *sh, double (&a)[R][reduce_shape<W, R>::C]) {
    const int N = W * R, C = N / 32, TAKE = reduce_shape<W, R>::TAKE;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, pitch = state_pitch(V);
    const int longer = K < V ? V : K;
    const int step_long = K < V ? 1 : pitch, step_short = K < V ? pitch : 1;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int c = 0; c < C; c++)
            a[r][c] = 0;
    for (int s0 = 0; s0 < longer; s0 += TAKE) {
        __syncthreads(); // the last round's x has been used
        for (int i = threadIdx.x; i < TAKE * N; i += 32 * W) {
            int row = i / N, j = i % N;
            sh->x[row][j] = s0 + row < longer && j >= pad
                                ? down * (double)S[(s0 + row) * step_long + (j - pad) * step_short]
                                : 0.0;
        }
        __syncthreads();
#pragma unroll 2
        for (int s = 0; s < TAKE; s++) {
            double xj[C];
#pragma unroll
            for (int c = 0; c < C; c++)
                xj[c] = sh->x[s][lane + 32 * c];
#pragma unroll
            for (int r = 0; r < R; r++) {
                double xi = sh->x[s][warp + W * r];
#pragma unroll
                for (int c = 0; c < C; c++)
                    a[r][c] += xi * xj[c];
            }
        }
    }
}

__device__ static inline double exchange(double low, double high, int bit) {
    bool upper = threadIdx.x & bit;
    double keep = upper ? high : low, send = upper ? low : high;
    return keep + __shfl_xor_sync(~0u, send, bit);
}

// The sum of W numbers that everybody reads: four chains, for an addition waits for the one before.
template <int W> __device__ static inline double sum_of(const double *x) {
    double t[4] = {x[0], x[1], x[2], x[3]};
#pragma unroll
    for (int w = 4; w < W; w++)
        t[w % 4] += x[w];
    return (t[0] + t[1]) + (t[2] + t[3]);
}

// The smallest power of two that is at least n.
__host__ __device__ constexpr int power_above(int n) {
    return n <= 1 ? 1 : 2 * power_above((n + 1) / 2);
}
__host__ __device__ constexpr int log_of(int n) {
    return n <= 1 ? 0 : 1 + log_of(n / 2);
}

// Steps k of stage G: rows below R0 = G STAGE_ROWS and columns before 32 C0 of every thread are done
// with. vc, wc: the owed update at the thread's columns.
template <int W, int R, int G>
__device__ static void
reduce_stage(int pad, reduce_shared<W, R> *sh, double (&a)[R][reduce_shape<W, R>::C],
             double (&vc)[reduce_shape<W, R>::C], double (&wc)[reduce_shape<W, R>::C], double *d,
             double *e2, int64_t stride) {
    typedef reduce_shape<W, R> shape;
    const int N = shape::N, C = shape::C;
    const int R0 = G * shape::STAGE_ROWS, C0 = R0 * W / 32;
    // Rows BASE .. R - 1 go through the sums over lanes, LIVE of them; those before R0 count as zero.
    const int LIVE = power_above(R - R0), BASE = R - LIVE, SHIFT = 5 - log_of(LIVE);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const pair64 *owed = sh->owed + warp * R;
    int k = R0 * W;
    const int last = (R0 + shape::STAGE_ROWS) * W;
    k = k < pad ? pad : k;
    for (; k < last; k++) {
        // A: W STAGE_ROWS <= 32, so all columns of the stage have the same c.
        if (lane == k % 32) {
            double sum[2] = {0, 0};
#pragma unroll
            for (int r = R0; r < R; r++) {
                int i = warp + W * r;
                double x = a[r][C0] - owed[r].v * wc[C0] - owed[r].w * vc[C0];
                sh->col[i] = x;
                sum[r % 2] += i > k + 1 ? x * x : 0;
            }
            sh->part_norm[warp] = sum[0] + sum[1];
        }
        __syncthreads(); // barrier 1
        // B: u = x - beta e_1 with beta = -sign(x_1) |x|; H = I - tau u u^T.
        double tail = sum_of<W>(sh->part_norm);
        if (threadIdx.x == 0)
            d[(N - 1 - k) * stride] = sh->col[k];
        if (k == N - 1)
            return; // only in the last stage, by all
        double alpha = sh->col[k + 1], norm2 = alpha * alpha + tail;
        if (threadIdx.x == 0)
            e2[(N - 2 - k) * stride] = norm2;
        // Nothing below the first entry: no reflector.
        bool live = tail > 1e-280;
        // Any u gives an orthogonal H as long as tau goes with it: the last bit of |x| does not matter.
        double size = live ? norm2 * rsqrt(norm2) : 0.0, head = alpha + (alpha < 0 ? -size : size);
        double tau = live ? 2 / (head * head + tail) : 0.0;
        double uc[C];
#pragma unroll
        for (int c = C0; c < C; c++) {
            int j = lane + 32 * c;
            double x = sh->col[j];
            uc[c] = !live || j <= k ? 0.0 : j == k + 1 ? head : x;
        }
        // The first level of the sums over lanes pairs row r with row r + LIVE / 2 at once, so that
        // few sums are alive.
        double z[LIVE / 2 > 0 ? LIVE / 2 : 1];
#pragma unroll
        for (int q = 0; q < (LIVE + 1) / 2; q++) {
            double y[2] = {0, 0};
#pragma unroll
            for (int p = 0; p < 2; p++) {
                const int r = BASE + q + p * (LIVE / 2);
                if (r < R0 || (LIVE == 1 && p == 1))
                    continue;
                double v = owed[r].v, w = owed[r].w;
#pragma unroll
                for (int c = C0; c < C; c++) {
                    double x = a[r][c] - v * wc[c];
                    x -= w * vc[c];
                    a[r][c] = x;
                    y[p] += x * uc[c];
                }
            }
            z[q] = LIVE > 1 ? exchange(y[0], y[1], 16) : y[0];
        }
        // Halving: after the level of `bit`, a lane's bit says which half of the rows it sums.
#pragma unroll
        for (int count = LIVE / 4, bit = 8; count >= 1; count /= 2, bit /= 2) {
#pragma unroll
            for (int q = 0; q < count; q++)
                z[q] = exchange(z[q], z[q + count], bit);
        }
        double sum = z[0];
#pragma unroll
        for (int bit = (1 << SHIFT) / 2; bit >= 1; bit /= 2)
            sum += __shfl_xor_sync(~0u, sum, bit);
        const int row = warp + W * (BASE + (lane >> SHIFT));
        if ((lane & ((1 << SHIFT) - 1)) == 0)
            sh->y[row] = sum;
        double ui = !live || row <= k ? 0.0 : row == k + 1 ? head : sh->col[row];
        double uy = ui * sum;
#pragma unroll
        for (int bit = 16; bit >= (1 << SHIFT) && bit >= 1; bit /= 2)
            uy += __shfl_xor_sync(~0u, uy, bit);
        if (lane == 0)
            sh->part_uy[warp] = uy;
        __syncthreads(); // barrier 2
        // C
        double half = sum_of<W>(sh->part_uy) * (tau / 2);
#pragma unroll
        for (int c = C0; c < C; c++) {
            int j = lane + 32 * c;
            wc[c] = j <= k ? 0.0 : tau * (sh->y[j] - half * uc[c]);
            vc[c] = uc[c];
            if (j % W == warp)
                sh->owed[warp * R + j / W] = pair64{vc[c], wc[c]};
        }
        __syncwarp();
    }
}

template <int W, int R, int G> struct reduce_stages {
    template <class... A> __device__ static void run(A &&...args) {
        reduce_stages<W, R, G - 1>::run(args...);
        reduce_stage<W, R, G>(args...);
    }
};
template <int W, int R> struct reduce_stages<W, R, -1> {
    template <class... A> __device__ static void run(A &&...) {}
};

template <class T, int W, int R>
__global__ void __launch_bounds__(32 * W, 16 / W) states_reduce(replay_view<T> s, reduce_job job) {
    typedef reduce_shape<W, R> shape;
    SHARED_MEMORY(raw);
    reduce_shared<W, R> *sh = (reduce_shared<W, R> *)raw;
    float *S = (float *)(sh + 1);
    const int head = blockIdx.x / job.chunks, chunk = blockIdx.x % job.chunks;
    const int h = job.heads[head], K = s.K, V = s.V, pitch = state_pitch(V);
    const int n = K < V ? K : V, pad = shape::N - n;
    const float *start = job.starts + (int64_t)blockIdx.x * K * V;
    // Threads along a row of the state: whole warps.
    const int across = (V + 31) / 32 * 32, parts = shape::THREADS / across;
    for (int i = threadIdx.x; i < K * V; i += shape::THREADS)
        S[i / V * pitch + i % V] = start[i];
    int first = chunk * job.per_chunk, end = first + job.per_chunk;
    end = end < job.positions ? end : job.positions;
    int64_t at = job.wanted[first];
    int set = 0;
    __syncthreads();
    for (int p = first; p < end; p++) {
        for (int64_t to = job.wanted[p]; at < to; at++, set ^= 1)
            one_micro_step<T, W, R>(s, h, at, set, across, parts, sh, S);
        __syncthreads(); // S complete; nobody reads sh of the matrix before any more
        int64_t matrix = (int64_t)head * job.positions + p;
        unsigned top = largest_bits<W, R>(S, K, V, sh);
        bool finite = top < 0x7f800000u;
        int exponent = finite && top ? ilogbf(__uint_as_float(top)) : 0;
        if (threadIdx.x == 0)
            job.exponent[matrix] = !finite ? STATE_NOT_FINITE : top ? exponent : STATE_ZERO;
        if (!finite || top == 0)
            continue; // all threads agree
        double a[R][shape::C], vc[shape::C], wc[shape::C];
        gram<W, R>(S, K, V, ldexp(1.0, -exponent), pad, sh, a);
#pragma unroll
        for (int c = 0; c < shape::C; c++)
            vc[c] = wc[c] = 0;
        // Nothing is owed at first.
        if (threadIdx.x % 32 < R)
            sh->owed[threadIdx.x / 32 * R + threadIdx.x % 32] = pair64{0, 0};
        __syncwarp();
        reduce_stages<W, R, shape::STAGES - 1>::run(pad, sh, a, vc, wc, job.d + matrix,
                                                    job.e2 + matrix, job.matrices);
    }
}

#endif
