// Embedding and sums (kernels/dense.h); the products are in product.cu.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/trace.h"
#include "kernels/cuda/wide.h"

template <class T>
__global__ void embed_rows(view<T> table, const int32_t *ids, int64_t rows, int64_t cols,
                           view<T> y) {
    GRID_LOOP(i, rows * cols)
    y.row(i / cols)[i % cols] = table.row(ids[i / cols])[i % cols];
}

// A warp a row.
template <class T>
__global__ void embed_words(view<T> table, const int32_t *ids, int64_t rows, int words, view<T> y) {
    WARP_LOOP(t, rows) {
        const uint4 *from = (const uint4 *)table.row(ids[t]);
        uint4 *to = (uint4 *)y.row(t);
        for (int i = threadIdx.x; i < words; i += 32)
            to[i] = from[i];
    }
}

void cuda_embed(backend *be, mat table, const int32_t *ids, mat y) {
    traced span(be, "embed");
    int32_t *d = (int32_t *)device_scratch(be, (size_t)y.rows * sizeof *ids);
    if (!d || !cuda_ok(be,
                       cudaMemcpyAsync(d, ids, (size_t)y.rows * sizeof *ids, cudaMemcpyHostToDevice,
                                       of(be)->stream),
                       "copy token ids"))
        return;
    if (wide(table) && wide(y)) {
        dim3 threads(32, 8);
        ON_TYPE(y, T,
                embed_words<T><<<blocks_for(y.rows, 8), threads, 0, of(be)->stream>>>(
                    as<T>(table), d, y.rows, (int)(y.cols / per_word<T>()), as<T>(y)));
        launched(be, "embed");
        return;
    }
    ON_TYPE(y, T,
            embed_rows<T><<<blocks_for(y.rows * y.cols, 256), 256, 0, of(be)->stream>>>(
                as<T>(table), d, y.rows, y.cols, as<T>(y)));
    launched(be, "embed");
}

template <class T>
__global__ void add_scaled(view<T> x, float scale, int64_t rows, int64_t cols, view<T> y) {
    GRID_LOOP(i, rows * cols) {
        T *p = y.row(i / cols) + i % cols;
        put(p, get(*p) + scale * get(x.row(i / cols)[i % cols]));
    }
}

template <class T>
__global__ void add_words(view<T> x, float scale, int64_t rows, int64_t words, view<T> y) {
    constexpr int N = per_word<T>();
    WARP_LOOP(t, rows) {
        for (int64_t i = threadIdx.x; i < words; i += 32) {
            float a[N], b[N];
            unpack(load_word(x.row(t) + i * N), a);
            unpack(load_word(y.row(t) + i * N), b);
#pragma unroll
            for (int j = 0; j < N; j++)
                b[j] += scale * a[j];
            store_word(y.row(t) + i * N, b);
        }
    }
}

void cuda_add(backend *be, mat x, double scale, mat y) {
    traced span(be, "add");
    if (x.rows && x.esize == y.esize && wide(x) && wide(y)) {
        dim3 threads(32, 8);
        ON_TYPE(y, T,
                add_words<T><<<blocks_for(x.rows, 8), threads, 0, of(be)->stream>>>(
                    as<T>(x), (float)scale, x.rows, x.cols / per_word<T>(), as<T>(y)));
        launched(be, "add");
        return;
    }
    ON_TYPE(y, T,
            add_scaled<T><<<blocks_for(x.rows * x.cols, 256), 256, 0, of(be)->stream>>>(
                as<T>(x), (float)scale, x.rows, x.cols, as<T>(y)));
    launched(be, "add");
}

struct row_scale {
    int32_t row;
    float scale;
};

template <class T>
__global__ void add_to_rows(view<T> x, const row_scale *to, int64_t rows, int64_t cols, view<T> y) {
    GRID_LOOP(i, rows * cols) {
        row_scale r = to[i / cols];
        T *p = y.row(r.row) + i % cols;
        put(p, get(*p) + r.scale * get(x.row(i / cols)[i % cols]));
    }
}

void cuda_add_rows(backend *be, mat x, const int32_t *rows, const double *scale, mat y) {
    size_t n = (size_t)x.rows * sizeof(row_scale);
    row_scale *host = (row_scale *)host_scratch(be, n), *d = (row_scale *)device_scratch(be, n);
    if (!host || !d)
        return;
    for (int64_t i = 0; i < x.rows; i++)
        host[i] = row_scale{rows[i], (float)scale[i]};
    if (!cuda_ok(be, cudaMemcpyAsync(d, host, n, cudaMemcpyHostToDevice, of(be)->stream),
                 "copy row numbers"))
        return;
    ON_TYPE(y, T,
            add_to_rows<T><<<blocks_for(x.rows * x.cols, 256), 256, 0, of(be)->stream>>>(
                as<T>(x), d, x.rows, x.cols, as<T>(y)));
    launched(be, "add rows");
}
