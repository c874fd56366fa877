// Products with few outputs, y [T, n] = x w^T with n <= 32, in float32 from bfloat16 factors: betas and
// gates. x passes once from memory; a warp owns 16 rows of it.
//
// The tensor core sums over k in any order, so lane c of a quad takes the 8 numbers 32 j + 8 c .. + 7
// of a row in one load of 16 bytes and hands them to two products, the same for x and w.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/wide.h"

enum { WARPS = 4, WIDEST = 32, AHEAD = 8 };

__device__ __forceinline__ void mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                    uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// TILES of 8 outputs.
template <int TILES>
__global__ void __launch_bounds__(32 * WARPS)
    thin(view<bf16> x, view<bf16> w, int64_t rows, int outputs, int k, view<float> y) {
    const int g = threadIdx.x / 4, c = threadIdx.x % 4;
    const int64_t first = (blockIdx.x * (int64_t)WARPS + threadIdx.y) * 16;
    if (first >= rows)
        return;
    // Rows past the end repeat the last one and are not written.
    const int64_t r0 = min(first + g, rows - 1), r1 = min(first + g + 8, rows - 1);
    const uint4 *a = (const uint4 *)x.row(r0) + c, *b = (const uint4 *)x.row(r1) + c;
    const uint4 *col[TILES];
    float d[TILES][4] = {};
#pragma unroll
    for (int i = 0; i < TILES; i++)
        col[i] = (const uint4 *)w.row(min(8 * i + g, outputs - 1)) + c;
    auto take = [&](uint4 u, uint4 v, int j) {
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            uint4 z = col[i][j];
            mma(d[i], u.x, v.x, u.y, v.y, z.x, z.y);
            mma(d[i], u.z, v.z, u.w, v.w, z.z, z.w);
        }
    };
    int j = 0; // words of a row, four (32 numbers) a step
    for (; j + 4 * AHEAD <= k / 8; j += 4 * AHEAD) {
        uint4 u[AHEAD], v[AHEAD];
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            u[s] = a[j + 4 * s];
            v[s] = b[j + 4 * s];
        }
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
            take(u[s], v[s], j + 4 * s);
    }
    for (; j < k / 8; j += 4)
        take(a[j], b[j], j);
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int64_t row = first + g + (e < 2 ? 0 : 8);
            int out = 8 * i + 2 * c + e % 2;
            if (row < rows && out < outputs)
                y.row(row)[out] = d[i][e];
        }
}

bool cuda_thin_product(backend *be, mat x, mat w, mat y) {
    if (x.esize != 2 || w.esize != 2 || y.esize != 4 || w.rows > WIDEST || x.cols % 32 != 0 ||
        !wide(x) || !wide(w))
        return false;
    dim3 threads(32, WARPS);
    unsigned blocks = (unsigned)((x.rows + 16 * WARPS - 1) / (16 * WARPS));
    cudaStream_t stream = of(be)->stream;
    int n = (int)w.rows, k = (int)x.cols;
    switch ((n + 7) / 8) {
    case 1:
        thin<1>
            <<<blocks, threads, 0, stream>>>(as<bf16>(x), as<bf16>(w), x.rows, n, k, as<float>(y));
        break;
    case 2:
        thin<2>
            <<<blocks, threads, 0, stream>>>(as<bf16>(x), as<bf16>(w), x.rows, n, k, as<float>(y));
        break;
    case 3:
        thin<3>
            <<<blocks, threads, 0, stream>>>(as<bf16>(x), as<bf16>(w), x.rows, n, k, as<float>(y));
        break;
    default:
        thin<4>
            <<<blocks, threads, 0, stream>>>(as<bf16>(x), as<bf16>(w), x.rows, n, k, as<float>(y));
    }
    launched(be, "thin product");
    return true;
}
