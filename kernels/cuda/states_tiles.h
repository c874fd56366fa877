// kernels/cuda/states_tiles.h - symmetric matrices in registers to tridiagonal form (Householder,
// float64), one block of threads a matrix.
//
// Only the lower triangle is held, in B x B tiles of R x R numbers. The first block column is the
// strip: a thread has one row of it. Of the rest a thread has one tile (I, J), 1 <= J <= I, tiles of
// the last block column first, so that whole warps fall idle while the active part shrinks; diagonal
// tiles hold both of their triangles. That makes 120 tiles at B = 16: four warps, one for each
// quarter of a multiprocessor. A matrix of n < N sits in the last n rows and columns, the first
// N - n columns are left out.
//
// Column c is eliminated by H = I - tau u u^T, u = x + delta e_h, where x holds column c below the
// diagonal, h = c + 1 and delta = +-|x|; A <- A - u w^T - w u^T, w = tau (A u - tau (u.A u) / 2 u).
// Tiles never wait for delta and tau: they multiply x, and the rows add delta times column h.
//
//   Q  every tile pays the pair (u, w) of the column before, then gives its two products with x to
//      `part`, its share of x.A x to `share`, and, if column h runs through it, that column to `next`.
//      Meanwhile the last warp makes delta and tau from x.
//   == barrier
//   P  one thread a row sums `part` to A x, from there u, w and the next x of its row. w_h is
//      needed by all rows: every warp sums it itself.
//   == barrier
//
// part, share, next, delta, head and tau are written in Q and read in P, u, w and x the other way
// round; so one copy of each is enough. Rows up to h are zero in u, w and x after P.
#ifndef DELTOP_STATES_TILES_H
#define DELTOP_STATES_TILES_H

struct alignas(16) pair64 { // one 16-byte load
    double a, b;
};

template <int R, int B> struct tile_shape {
    static const int N = R * B, TILES = B * (B - 1) / 2;
    static const int WARPS = ((TILES > N ? TILES : N) + 31) / 32, THREADS = 32 * WARPS;
    static_assert(WARPS < B, "the strip's sums have slots of their own");
};

// Where row `row` lies in a vector, and in a slot of `part`. Threads of one warp touch neighbouring
// rows (a thread a row), or row r of different blocks (a thread a tile), in pairs of rows where they
// read vectors; in `part` also the same row of neighbouring slots. Exclusive ors keep all of these in
// different banks.
template <int R> __device__ static inline int vector_at(int row) {
    return row ^ (row >> 4 & (R / 2 - 1)) << 1;
}
template <int R, int B> __device__ static inline int part_at(int slot, int row) {
    return slot * R * B + (row ^ (row >> 4 & (R - 1)) ^ slot);
}

template <int R, int B> struct tile_shared {
    typedef tile_shape<R, B> shape;
    alignas(16) double u[R * B], w[R * B], x[R * B];
    double part[B * R * B]; // [slot][row]: what the tile with block `slot` adds to the row
    double next[R * B];
    double share[shape::THREADS];
    double delta, head, tau; // head = u_h
};

// Block row and block column of a thread's tile; column -1: it has none.
struct tile_place {
    int row, column;
};

template <int B> __device__ static tile_place tile_of(int thread) {
    int group = 0;
    while ((group + 1) * (group + 2) / 2 <= thread)
        group++;
    int column = B - 1 - group;
    if (column < 1)
        return tile_place{-1, -1};
    return tile_place{column + thread - group * (group + 1) / 2, column};
}

// What a thread holds of the matrix: its tile, and its row N - 1 - thread of the strip.
template <int R> struct tile_part { double a[R][R], strip[R]; };

// Offsets in bytes, so that an exclusive or with a constant is one instruction and the rest of the
// address is part of the load.
template <class T> __device__ static inline T *at_byte(double *from, int offset) {
    return (T *)((char *)from + offset);
}

// Makes a number look as if it changed: what is made of it is made anew where it is used, and does not
// fill registers through the whole reduction.
__device__ static inline int made_anew(int x) {
    asm volatile("" : "+r"(x));
    return x;
}

// R numbers of block `block` of a vector.
template <int R> __device__ static void load_block(double *vector, int block, double (&to)[R]) {
    const int at = made_anew(8 * vector_at<R>(R * block));
#pragma unroll
    for (int i = 0; i < R; i += 2) {
        pair64 p = *at_byte<pair64>(vector, at ^ 8 * i);
        to[i] = p.a;
        to[i + 1] = p.b;
    }
}

// A float's worth of digits of 1/sqrt(x) and 1/x, for x in 1e-36 .. 1e36.
__device__ static inline float rough_inverse_root(float x) {
#ifdef __CUDA_ARCH__
    asm("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
#else
    return 1 / sqrtf(x);
#endif
}
__device__ static inline float rough_inverse(float x) {
#ifdef __CUDA_ARCH__
    asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
#else
    return 1 / x;
#endif
}

// A squared norm that is rounding next to lambda_1 >= 1.
#define TILE_NOTHING 1e-36

// delta and tau of column h - 1; the squared norm goes to e2.
template <int R, int B>
__device__ static void tile_reflector(tile_shared<R, B> *sh, int h, int lane, double *e2) {
    double tail = 0;
#pragma unroll
    for (int k = 0; k < R * B / 32; k++) {
        int i = lane + 32 * k;
        double x = sh->x[vector_at<R>(i)];
        tail += i > h ? x * x : 0.0;
    }
#pragma unroll
    for (int bit = 16; bit; bit >>= 1)
        tail += __shfl_xor_sync(~0u, tail, bit);
    const double alpha = sh->x[vector_at<R>(h)], norm2 = fma(alpha, alpha, tail);
    // Nothing below the first entry: no reflector.
    const bool live = tail > TILE_NOTHING;
    // |x| and tau = 2 / |u|^2 = 1 / (|x|^2 + |alpha| |x|), to the last bit or two: floats, and from
    // there one step of third order.
    const float rough2 = (float)norm2, rough = rough_inverse_root(rough2);
    const float rough_tau = rough_inverse(rough2 + fabsf((float)alpha) * (rough2 * rough));
    double r = rough, e = fma(-norm2 * r, r, 1.0);
    r = fma(r * e, fma(e, 0.375, 0.5), r);
    const double size = live ? norm2 * r : 0.0, signed_size = alpha < 0 ? -size : size;
    double tau = rough_tau;
    e = fma(-fma(fabs(alpha), size, norm2), tau, 1.0);
    tau = fma(tau, fma(e, e, e), tau);
    if (lane == 0) {
        *e2 = norm2;
        sh->delta = signed_size;
        sh->head = alpha + signed_size;
        sh->tau = live ? tau : 0.0;
    }
}

// Column `which` of a tile to rows R * block .. of `next`: registers have no index at run time.
template <int R, int LOW = 0, int HIGH = R>
__device__ static __forceinline__ void tile_column(const double (&a)[R][R], int which, double *next,
                                                   int to) {
    if constexpr (HIGH - LOW > 1) {
        const int MIDDLE = (LOW + HIGH) / 2;
        if (which < MIDDLE)
            tile_column<R, LOW, MIDDLE>(a, which, next, to);
        else
            tile_column<R, MIDDLE, HIGH>(a, which, next, to);
    } else {
#pragma unroll
        for (int r = 0; r < R; r++)
            *at_byte<double>(next, to ^ 8 * r) = a[r][LOW];
    }
}

template <int R> __device__ static double strip_column(const double (&strip)[R], int which) {
    double x = strip[0];
#pragma unroll
    for (int c = 1; c < R; c++)
        x = which == c ? strip[c] : x;
    return x;
}

// Q of a tile; returns its share of x.A x.
template <int R, int B>
__device__ static double tile_products(tile_shared<R, B> *sh, tile_place at, int h,
                                       double (&a)[R][R]) {
    const int I = made_anew(8 * vector_at<R>(R * at.row));
    {
        double uj[R], wj[R];
        load_block<R>(sh->u, at.column, uj);
        load_block<R>(sh->w, at.column, wj);
#pragma unroll
        for (int r = 0; r < R; r += 2) {
            pair64 u = *at_byte<pair64>(sh->u, I ^ 8 * r), w = *at_byte<pair64>(sh->w, I ^ 8 * r);
#pragma unroll
            for (int c = 0; c < R; c++) {
                a[r][c] = fma(-u.a, wj[c], a[r][c]);
                a[r + 1][c] = fma(-u.b, wj[c], a[r + 1][c]);
            }
#pragma unroll
            for (int c = 0; c < R; c++) {
                a[r][c] = fma(-w.a, uj[c], a[r][c]);
                a[r + 1][c] = fma(-w.b, uj[c], a[r + 1][c]);
            }
        }
    }
    double xj[R], yj[R], share = 0;
    load_block<R>(sh->x, at.column, xj);
#pragma unroll
    for (int c = 0; c < R; c++)
        yj[c] = 0;
    const int to = made_anew(8 * part_at<R, B>(at.column, R * at.row));
#pragma unroll
    for (int r = 0; r < R; r += 2) {
        pair64 x = *at_byte<pair64>(sh->x, I ^ 8 * r);
        double y = 0, z = 0;
#pragma unroll
        for (int c = 0; c < R; c++) {
            y = fma(a[r][c], xj[c], y);
            z = fma(a[r + 1][c], xj[c], z);
            yj[c] = fma(a[r][c], x.a, yj[c]);
            yj[c] = fma(a[r + 1][c], x.b, yj[c]);
        }
        *at_byte<double>(sh->part, to ^ 8 * r) = y;
        *at_byte<double>(sh->part, to ^ 8 * (r + 1)) = z;
        share = fma(x.a, y, share);
        share = fma(x.b, z, share);
    }
    if (at.column == h / R)
        tile_column<R>(a, h % R, sh->next, made_anew(8 * part_at<R, B>(0, R * at.row)));
    if (at.row == at.column)
        return share;
    const int back = made_anew(8 * part_at<R, B>(at.row, R * at.column));
#pragma unroll
    for (int c = 0; c < R; c++)
        *at_byte<double>(sh->part, back ^ 8 * c) = yj[c];
    return 2 * share;
}

__device__ static inline double exchange(double low, double high, int bit) {
    bool upper = threadIdx.x & bit;
    double keep = upper ? high : low, send = upper ? low : high;
    return keep + __shfl_xor_sync(~0u, send, bit);
}

// Q of the strip, whole warps, h < R. Slot 0 takes its products with x_0 .. x_(R-1), slot 1 + warp
// what the warp's rows below the corner give to rows 0 .. R - 1.
template <int R, int B>
__device__ static double strip_products(tile_shared<R, B> *sh, int thread, int h,
                                        double (&strip)[R]) {
    const int row = R * B - 1 - thread, warp = thread / 32, lane = thread % 32;
    if (row + lane < 0) // the whole warp
        return 0;
    const bool live = row >= 0;
    const int i = live ? vector_at<R>(row) : 0;
    const double u = sh->u[i], w = sh->w[i], x = live ? sh->x[i] : 0.0;
    double uj[R], wj[R], xj[R], y = 0, z[R];
    load_block<R>(sh->u, 0, uj);
    load_block<R>(sh->w, 0, wj);
    load_block<R>(sh->x, 0, xj);
#pragma unroll
    for (int c = 0; c < R; c++) {
        strip[c] = fma(-w, uj[c], fma(-u, wj[c], strip[c]));
        y = fma(strip[c], xj[c], y);
        z[c] = row < R ? 0.0 : strip[c] * x;
    }
    if (live) {
        sh->part[part_at<R, B>(0, row)] = y;
        sh->next[part_at<R, B>(0, row)] = strip_column<R>(strip, h);
    }
    // Halving: after the level of `bit`, a lane's bit says which half of the columns it sums.
#pragma unroll
    for (int count = R / 2, bit = 16; count; count /= 2, bit /= 2)
#pragma unroll
        for (int c = 0; c < count; c++)
            z[c] = exchange(z[c], z[c + count], bit);
#pragma unroll
    for (int bit = 16 / R; bit; bit /= 2)
        z[0] += __shfl_xor_sync(~0u, z[0], bit);
    if (lane % (32 / R) == 0)
        sh->part[part_at<R, B>(1 + warp, lane / (32 / R))] = z[0];
    return row < R ? x * y : 2 * x * y;
}

// The row of a thread in P. d: where the new diagonal entry goes.
template <int R, int B>
__device__ static void tile_rows(tile_shared<R, B> *sh, int row, int h, int lane, double *d) {
    typedef tile_shape<R, B> shape;
    const int s = h / R, live = s ? (B - s) * (B - s + 1) / 2 : shape::THREADS;
    double *part = sh->part;
    const int mine = made_anew(8 * part_at<R, B>(0, row));
    // Of row h, a slot a lane, twice.
    double yh = 0, all = 0;
    for (int slot = lane % 16; slot < B; slot += 16)
        yh += slot >= s ? part[part_at<R, B>(slot, h)] : 0.0;
#pragma unroll
    for (int k = 0; k < shape::WARPS; k++)
        all += lane + 32 * k < live ? sh->share[lane + 32 * k] : 0.0;
    double y[4] = {0, 0, 0, 0};
#pragma unroll
    for (int slot = 0; slot < B; slot++)
        if (slot >= s)
            y[slot % 4] += *at_byte<double>(part + slot * R * B, mine ^ 8 * slot);
#pragma unroll
    for (int bit = 8; bit; bit >>= 1) {
        yh += __shfl_xor_sync(~0u, yh, bit);
        all += __shfl_xor_sync(~0u, all, bit);
    }
    all += __shfl_xor_sync(~0u, all, 16);
    const double delta = sh->delta, head = sh->head, tau = sh->tau,
                 corner = sh->next[part_at<R, B>(0, h)];
    const int to = vector_at<R>(row);
    const double next = *at_byte<double>(sh->next, mine), x = sh->x[to];
    // u.A u = x.A x + 2 delta (A x)_h + delta^2 A_hh
    double Ah = fma(delta, corner, yh);
    double half = 0.5 * tau * fma(delta, yh + Ah, all);
    double u = row == h ? head : x, Au = fma(delta, next, (y[0] + y[1]) + (y[2] + y[3]));
    double w = tau * fma(-half, u, Au), wh = tau * fma(-half, head, Ah);
    double after = fma(-u, wh, fma(-w, head, next));
    if (row < h)
        return;
    if (row == h)
        *d = after;
    sh->u[to] = row == h ? 0.0 : u;
    sh->w[to] = row == h ? 0.0 : w;
    sh->x[to] = row == h ? 0.0 : after;
}

// Takes column `first` out of the matrix: the first x. Everybody may have read what lies in *sh before.
// d[i * stride], e2[i * stride], here and below: row N - 1 - i.
template <int R, int B>
__device__ static void tile_begin(tile_shared<R, B> *sh, tile_place at, int thread, int first,
                                  const tile_part<R> &m, double *d, int64_t stride) {
    typedef tile_shape<R, B> shape;
    const int N = shape::N, row = N - 1 - thread;
    for (int i = thread; i < N; i += shape::THREADS)
        sh->u[i] = sh->w[i] = sh->x[i] = 0;
    // The slots of rows 0 .. R - 1 that nobody writes.
    for (int i = thread; i < (B - 1) * R; i += shape::THREADS)
        sh->part[part_at<R, B>(1 + i / R, i % R)] = 0;
    if (at.column == first / R)
        tile_column<R>(m.a, first % R, sh->next, 8 * part_at<R, B>(0, R * at.row));
    if (first < R && row >= 0)
        sh->next[part_at<R, B>(0, row)] = strip_column<R>(m.strip, first);
    __syncthreads();
    if (row >= first) {
        double x = sh->next[part_at<R, B>(0, row)];
        if (row == first)
            d[(N - 1 - first) * stride] = x;
        else
            sh->x[vector_at<R>(row)] = x;
    }
    __syncthreads();
}

// Columns first .. end - 1, all within the strip or all outside; x holds the first of them.
template <int R, int B, bool STRIP>
__device__ static void tile_steps(tile_shared<R, B> *sh, tile_place at, int thread, int first,
                                  int end, tile_part<R> &m, double *d, double *e2, int64_t stride) {
    typedef tile_shape<R, B> shape;
    const int N = shape::N, warp = thread / 32, lane = thread % 32;
#pragma unroll 1
    for (int h = first + 1; h <= end; h++) {
        double share = STRIP ? strip_products<R, B>(sh, thread, h, m.strip) : 0.0;
        if (at.column >= h / R)
            share += tile_products<R, B>(sh, at, h, m.a);
        sh->share[thread] = share;
        if (warp == shape::WARPS - 1) {
            __syncwarp();
            tile_reflector<R, B>(sh, h, lane, e2 + (N - 1 - h) * stride);
        }
        __syncthreads();
        if (N - 1 - 32 * warp >= h)
            tile_rows<R, B>(sh, N - 1 - thread, h, lane, d + (N - 1 - h) * stride);
        __syncthreads();
    }
}

// Columns first .. end - 1 after tile_begin or tile_load; end >= R.
template <int R, int B>
__device__ static void tile_reduce(tile_shared<R, B> *sh, tile_place at, int thread, int first,
                                   int end, tile_part<R> &m, double *d, double *e2,
                                   int64_t stride) {
    // Column R - 1 is the strip's last and is out once column R - 2 is eliminated.
    if (first < R - 1)
        tile_steps<R, B, true>(sh, at, thread, first, R - 1, m, d, e2, stride);
    tile_steps<R, B, false>(sh, at, thread, first < R - 1 ? R - 1 : first, end, m, d, e2, stride);
}

// What is left after the first N / 2 columns, in memory: tiles, [row][column][tile], then the pair that is
// still owed and x, a row each. It goes on in tiles of half the edge, with all threads at work again.
template <int R, int B> struct tile_rest {
    static const int TILES = (B / 2) * (B / 2 + 1) / 2, ROWS = R * B / 2;
    static const int NUMBERS = R * R * TILES + 3 * ROWS;
};

template <int R, int B>
__device__ static void tile_save(const tile_shared<R, B> *sh, int thread, const tile_part<R> &m,
                                 double *to) {
    typedef tile_rest<R, B> rest;
    if (thread < rest::TILES)
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int c = 0; c < R; c++)
                to[(r * R + c) * rest::TILES + thread] = m.a[r][c];
    to += R * R * rest::TILES;
    if (thread < rest::ROWS) {
        const int i = vector_at<R>(rest::ROWS + thread);
        to[thread] = sh->u[i];
        to[rest::ROWS + thread] = sh->w[i];
        to[2 * rest::ROWS + thread] = sh->x[i];
    }
}

// Tiles of R from what tile_save<2 R, B> has left. One barrier at the end.
template <int R, int B>
__device__ static void tile_load(const double *from, tile_place at, int thread,
                                 tile_shared<R, B> *sh, tile_part<R> &m) {
    typedef tile_rest<2 * R, B> rest;
    typedef tile_shape<R, B> shape;
    const int row = shape::N - 1 - thread;
    // Tile (I, J) of the B/2 x B/2 ones lies at group (group + 1) / 2 + I - J.
    if (at.column >= 0) {
        const int I = at.row / 2, J = at.column / 2, group = B / 2 - 1 - J;
        const double *tile = from + group * (group + 1) / 2 + I - J;
        const int r0 = at.row % 2 * R, c0 = at.column % 2 * R;
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int c = 0; c < R; c++)
                m.a[r][c] = tile[((r0 + r) * 2 * R + c0 + c) * rest::TILES];
    }
    if (row >= 0) {
        const double *tile = from + (B / 2 - 1) * (B / 2) / 2 + row / (2 * R);
#pragma unroll
        for (int c = 0; c < R; c++)
            m.strip[c] = tile[(row % (2 * R) * 2 * R + c) * rest::TILES];
        from += 4 * R * R * rest::TILES + row;
        const int i = vector_at<R>(row);
        sh->u[i] = from[0];
        sh->w[i] = from[rest::ROWS];
        sh->x[i] = from[2 * rest::ROWS];
    }
    for (int i = thread; i < (B - 1) * R; i += shape::THREADS)
        sh->part[part_at<R, B>(1 + i / R, i % R)] = 0;
    __syncthreads();
}

#endif
