// kernels/cuda/block_eigen.h - dense float64 problems of one matrix by one block of threads:
// balancing, Hessenberg form, eigenvalues (Francis' double shift), the largest singular value.
//
// Matrices are n x n, element (i, j) at [i * ld + j], ld odd, in shared memory where they fit. Every
// function is called by all threads of the block and begins and ends with the matrix complete
// (behind a barrier). Inside, a thread works on whole columns or whole rows; `shared` is read by all
// between barriers only. Right first: one matrix takes milliseconds, but a device takes a hundred at
// a time.
#ifndef DELTOP_CUDA_BLOCK_EIGEN_H
#define DELTOP_CUDA_BLOCK_EIGEN_H

#include <float.h>
#include <limits.h>
#include <math.h>

enum { BLOCK_THREADS = 256, BLOCK_MOST = 256 };

struct block_scratch {
    double part[BLOCK_THREADS / 32 + 1];
    double v[BLOCK_MOST], w[BLOCK_MOST];
    int index;
};

// The sum of x over the block. Two barriers.
__device__ static double block_sum(double x, block_scratch *sh) {
    for (int bit = 16; bit; bit >>= 1)
        x += __shfl_xor_sync(~0u, x, bit);
    if (threadIdx.x % 32 == 0)
        sh->part[threadIdx.x / 32] = x;
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < BLOCK_THREADS / 32; i++)
        sum += sh->part[i];
    __syncthreads();
    return sum;
}

// The largest i of any thread. Three barriers.
__device__ static int block_max(int i, block_scratch *sh) {
    if (threadIdx.x == 0)
        sh->index = INT_MIN;
    __syncthreads();
    atomicMax(&sh->index, i);
    __syncthreads();
    int most = sh->index;
    __syncthreads();
    return most;
}

// Powers of two on rows and, inverted, on columns until both have norms alike: the eigenvalues stay,
// bit for bit, and graded ones are found to more digits. As LAPACK dgebal ('S').
__device__ static void block_balance(double *A, int ld, int n, block_scratch *sh) {
    for (int sweep = 0, changed = 1; changed && sweep < 8; sweep++) {
        changed = 0;
        for (int i = 0; i < n; i++) {
            double c = 0, r = 0;
            for (int j = threadIdx.x; j < n; j += BLOCK_THREADS)
                if (j != i) {
                    c += A[j * ld + i] * A[j * ld + i];
                    r += A[i * ld + j] * A[i * ld + j];
                }
            c = sqrt(block_sum(c, sh));
            r = sqrt(block_sum(r, sh));
            if (!(c > 1e-280 && r > 1e-280))
                continue;
            int e = (ilogb(r) - ilogb(c)) / 2; // all threads agree
            double f = ldexp(1.0, e);
            if (e == 0 || c * f + r / f >= 0.95 * (c + r))
                continue;
            changed = 1;
            for (int j = threadIdx.x; j < n; j += BLOCK_THREADS)
                if (j != i) {
                    A[i * ld + j] /= f;
                    A[j * ld + i] *= f;
                }
            __syncthreads();
        }
    }
}

// The reflector I - tau v v^T, v = (1, ...), that takes x_0 .. x_(n-1), n >= 1, one a step of
// `stride`, to (beta, 0, ...). v goes to sh->v, beta is returned. Ends behind a barrier; x stays.
__device__ static double block_reflector(const double *x, int stride, int n, block_scratch *sh,
                                         double *tau) {
    double sum = 0;
    for (int i = 1 + threadIdx.x; i < n; i += BLOCK_THREADS)
        sum += x[i * stride] * x[i * stride];
    const double tail = block_sum(sum, sh), alpha = x[0];
    const bool live = tail > 1e-290;
    const double beta = live ? -copysign(sqrt(alpha * alpha + tail), alpha) : alpha;
    *tau = live ? (beta - alpha) / beta : 0.0;
    for (int i = threadIdx.x; i < n; i += BLOCK_THREADS)
        sh->v[i] = i == 0 ? 1.0 : live ? x[i * stride] / (alpha - beta) : 0.0;
    __syncthreads();
    return beta;
}

// To upper Hessenberg form; what lies below the subdiagonal is zero afterwards.
__device__ static void block_hessenberg(double *A, int ld, int n, block_scratch *sh) {
    for (int k = 0; k + 2 < n; k++) {
        const int m = n - 1 - k; // rows k + 1 .. n - 1
        double tau, beta = block_reflector(A + (k + 1) * ld + k, ld, m, sh, &tau);
        double *below = A + (k + 1) * ld;
        for (int j = k + 1 + threadIdx.x; j < n; j += BLOCK_THREADS) {
            double sum = 0;
            for (int i = 0; i < m; i++)
                sum += sh->v[i] * below[i * ld + j];
            sum *= tau;
            for (int i = 0; i < m; i++)
                below[i * ld + j] -= sum * sh->v[i];
        }
        for (int i = threadIdx.x; i < m; i += BLOCK_THREADS)
            below[i * ld + k] = i == 0 ? beta : 0.0;
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += BLOCK_THREADS) {
            double *row = A + i * ld + k + 1, sum = 0;
            for (int j = 0; j < m; j++)
                sum += row[j] * sh->v[j];
            sum *= tau;
            for (int j = 0; j < m; j++)
                row[j] -= sum * sh->v[j];
        }
        __syncthreads();
    }
}

// Eigenvalues of ((a, b), (c, d)).
__device__ static void pair_of_eigenvalues(double a, double b, double c, double d, double *re,
                                           double *im) {
    double p = (a - d) / 2, w = b * c, q = p * p + w, z = sqrt(fabs(q));
    im[0] = im[1] = 0;
    if (q >= 0) { // real: the far one by addition, the near one from the product
        z = p + (p < 0 ? -z : z);
        re[0] = d + z;
        re[1] = z != 0 ? d - w / z : d;
        return;
    }
    re[0] = re[1] = d + p;
    im[0] = z;
    im[1] = -z;
}

// Three numbers to a reflector I - tau (1, y, z)(1, y, z)^T and where it takes the first.
struct bulge {
    double y, z, tau, beta;
};

__device__ static bulge bulge_of(double p, double q, double r) {
    // A power of two out, so that squares neither vanish nor overflow.
    double most = fmax(fabs(p), fmax(fabs(q), fabs(r)));
    if (!(most > 0))
        return bulge{0, 0, 0, p};
    int e = ilogb(most);
    p = scalbn(p, -e);
    q = scalbn(q, -e);
    r = scalbn(r, -e);
    double s = -copysign(sqrt(p * p + q * q + r * r), p), over = 1 / (p - s);
    return bulge{q * over, r * over, (s - p) / s, scalbn(s, e)};
}

// Eigenvalues of an upper Hessenberg matrix, which is destroyed, by the double-shift QR algorithm
// (as EISPACK hqr: two small subdiagonals in a row, exceptional shifts after 10 and 20 turns).
// re, im: [n], written by one thread. False when 30 turns do not find the next one.
__device__ static bool block_hqr(double *H, int ld, int n, double *re, double *im,
                                 block_scratch *sh) {
    double shift = 0;
    int end = n - 1, turn = 0;
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += BLOCK_THREADS)
        for (int j = i > 0 ? i - 1 : 0; j < n; j++)
            sum += H[i * ld + j] * H[i * ld + j];
    const double norm = sqrt(block_sum(sum, sh));
    while (end >= 0) {
        // Where the active part begins: below the last negligible subdiagonal.
        int low = 0;
        for (int i = 1 + threadIdx.x; i <= end; i += BLOCK_THREADS) {
            double s = fabs(H[(i - 1) * ld + i - 1]) + fabs(H[i * ld + i]);
            if (fabs(H[i * ld + i - 1]) <= DBL_EPSILON * (s > 0 ? s : norm))
                low = i;
        }
        low = block_max(low, sh);
        if (low >= end - 1) { // one or two are done
            if (threadIdx.x == 0) {
                if (low == end) {
                    re[end] = H[end * ld + end] + shift;
                    im[end] = 0;
                } else {
                    pair_of_eigenvalues(H[(end - 1) * ld + end - 1] + shift,
                                        H[(end - 1) * ld + end], H[end * ld + end - 1],
                                        H[end * ld + end] + shift, re + end - 1, im + end - 1);
                }
            }
            end = low - 1;
            turn = 0;
            continue;
        }
        if (turn == 30)
            return false;
        if (threadIdx.x == 0 && low > 0) // what follows leaves it alone
            H[low * ld + low - 1] = 0;
        double x = H[end * ld + end], y = H[(end - 1) * ld + end - 1];
        double w = H[end * ld + end - 1] * H[(end - 1) * ld + end];
        if (turn == 10 || turn == 20) {
            double s = fabs(H[end * ld + end - 1]) + fabs(H[(end - 1) * ld + end - 2]);
            __syncthreads(); // x has been read
            for (int i = threadIdx.x; i <= end; i += BLOCK_THREADS)
                H[i * ld + i] -= x;
            shift += x;
            x = y = 0.75 * s;
            w = -0.4375 * s * s;
            __syncthreads();
        }
        turn++;
        // The bulge starts at the last row where two subdiagonals in a row are small enough.
        int start = low;
        for (int m = low + 1 + threadIdx.x; m <= end - 2; m += BLOCK_THREADS) {
            double z = H[m * ld + m], r = x - z, s = y - z;
            double p = (r * s - w) / H[(m + 1) * ld + m] + H[m * ld + m + 1];
            double q = H[(m + 1) * ld + m + 1] - z - r - s, t = H[(m + 2) * ld + m + 1];
            s = fabs(p) + fabs(q) + fabs(t);
            double u = fabs(H[m * ld + m - 1]) * (fabs(q) + fabs(t));
            double v =
                fabs(p) * (fabs(H[(m - 1) * ld + m - 1]) + fabs(z) + fabs(H[(m + 1) * ld + m + 1]));
            if (s > 0 && u <= DBL_EPSILON * v)
                start = m;
        }
        start = block_max(start, sh);
        double p, q, t;
        {
            double z = H[start * ld + start], r = x - z, s = y - z;
            p = (r * s - w) / H[(start + 1) * ld + start] + H[start * ld + start + 1];
            q = H[(start + 1) * ld + start + 1] - z - r - s;
            t = H[(start + 2) * ld + start + 1];
        }
        for (int k = start; k < end; k++) {
            const bool last = k == end - 1;
            if (k > start) {
                p = H[k * ld + k - 1];
                q = H[(k + 1) * ld + k - 1];
                t = last ? 0.0 : H[(k + 2) * ld + k - 1];
            }
            const bulge b = bulge_of(p, q, t);
            __syncthreads(); // column k - 1 has been read
            if (threadIdx.x == 0) {
                if (k > start) {
                    H[k * ld + k - 1] = b.beta;
                    H[(k + 1) * ld + k - 1] = 0;
                    if (!last)
                        H[(k + 2) * ld + k - 1] = 0;
                } else if (low < start) {
                    H[k * ld + k - 1] *= 1 - b.tau; // the reflector's first entry
                }
            }
            double *rows = H + k * ld;
            for (int j = k + threadIdx.x; j <= end; j += BLOCK_THREADS) {
                double third = last ? 0.0 : rows[2 * ld + j];
                double s = b.tau * (rows[j] + b.y * rows[ld + j] + b.z * third);
                rows[j] -= s;
                rows[ld + j] -= s * b.y;
                if (!last)
                    rows[2 * ld + j] = third - s * b.z;
            }
            __syncthreads();
            const int reach = k + 3 < end ? k + 3 : end;
            for (int i = low + threadIdx.x; i <= reach; i += BLOCK_THREADS) {
                double *row = H + i * ld + k, third = last ? 0.0 : row[2];
                double s = b.tau * (row[0] + b.y * row[1] + b.z * third);
                row[0] -= s;
                row[1] -= s * b.y;
                if (!last)
                    row[2] = third - s * b.z;
            }
            __syncthreads();
        }
    }
    return true;
}

// The largest eigenvalue of a symmetric positive semidefinite matrix, which is destroyed: Householder
// to tridiagonal form, then the number of eigenvalues above BLOCK_THREADS points at a time.
__device__ static double block_largest(double *G, int ld, int n, block_scratch *sh) {
    for (int k = 0; k + 2 < n; k++) {
        const int m = n - 1 - k;
        double tau, beta = block_reflector(G + (k + 1) * ld + k, ld, m, sh, &tau);
        double *part = G + (k + 1) * ld + k + 1;
        double dot = 0;
        for (int i = threadIdx.x; i < m; i += BLOCK_THREADS) {
            double y = 0;
            for (int j = 0; j < m; j++)
                y += part[j * ld + i] *
                     sh->v[j]; // symmetric: neighbouring threads, neighbouring words
            sh->w[i] = tau * y;
            dot += tau * y * sh->v[i];
        }
        const double half = block_sum(dot, sh) * tau / 2;
        for (int i = threadIdx.x; i < m; i += BLOCK_THREADS)
            sh->w[i] -= half * sh->v[i];
        __syncthreads();
        for (int i = threadIdx.x; i < m; i += BLOCK_THREADS) {
            const double v = sh->v[i], w = sh->w[i];
            for (int j = 0; j < m; j++)
                part[j * ld + i] -= sh->v[j] * w + sh->w[j] * v;
        }
        if (threadIdx.x == 0)
            G[(k + 1) * ld + k] = beta;
        __syncthreads();
    }
    // d in sh->v, squared off-diagonals in sh->w.
    double low = 0, high = 0;
    for (int i = threadIdx.x; i < n; i += BLOCK_THREADS) {
        sh->v[i] = G[i * ld + i];
        double e = i + 1 < n ? G[(i + 1) * ld + i] : 0.0;
        sh->w[i] = e * e;
    }
    __syncthreads();
    for (int i = 0; i < n; i++) {
        double e = sqrt(sh->w[i]), before = i ? sqrt(sh->w[i - 1]) : 0.0;
        low = fmax(low, sh->v[i]);
        high = fmax(high, sh->v[i] + e + before);
    }
    // Each round leaves a BLOCK_THREADS-th: 8 bits, twice over what a double has.
    for (int round = 0; round < 8 && high > low; round++) {
        const double step = (high - low) / BLOCK_THREADS, at = low + (threadIdx.x + 1) * step;
        // The last pivot of at I - T that is not positive says that an eigenvalue lies above.
        double pivot = at - sh->v[0];
        bool above = !(pivot > 0);
        for (int i = 1; i < n && !above; i++) {
            pivot = at - sh->v[i] - sh->w[i - 1] / pivot;
            above = !(pivot > 0);
        }
        const int most = block_max(above ? (int)threadIdx.x : -1, sh); // last point below lambda_1
        const double from = low;
        low = most >= 0 ? from + (most + 1) * step : from;
        high = most + 1 < BLOCK_THREADS ? from + (most + 2) * step : high;
    }
    return (low + high) / 2;
}

#endif
