// Embedding, matrix products, residual sums (kernels/dense.h).
#include "kernels/cuda/ops.h"

template <class T>
__global__ void embed_rows(view<T> table, const int32_t *ids, int64_t rows, int64_t cols,
                           view<T> y) {
    GRID_LOOP(i, rows * cols)
    y.row(i / cols)[i % cols] = table.row(ids[i / cols])[i % cols];
}

void cuda_embed(backend *be, mat table, const int32_t *ids, mat y) {
    int32_t *d = (int32_t *)device_scratch(be, (size_t)y.rows * sizeof *ids);
    if (!d || !cuda_ok(be,
                       cudaMemcpyAsync(d, ids, (size_t)y.rows * sizeof *ids, cudaMemcpyHostToDevice,
                                       of(be)->stream),
                       "copy token ids"))
        return;
    ON_TYPE(y, T,
            embed_rows<T><<<blocks_for(y.rows * y.cols, 256), 256, 0, of(be)->stream>>>(
                as<T>(table), d, y.rows, y.cols, as<T>(y)));
    launched(be, "embed");
}

template <class T, class U>
__global__ void add_bias(view<U> bias, int64_t rows, int64_t cols, view<T> y) {
    GRID_LOOP(i, rows * cols) {
        T *p = y.row(i / cols) + i % cols;
        put(p, get(*p) + get(bias.p[i % cols]));
    }
}

static cudaDataType type_of(mat m) {
    return m.esize == 4 ? CUDA_R_32F : CUDA_R_16BF;
}

// Row-major y = x w^T is column-major y^T = w x^T: w transposed as it lies, x as it lies.
void cuda_linear(backend *be, mat x, mat w, mat bias, mat y) {
    if (x.rows == 0)
        return;
    // cuBLAS multiplies equal types. A matrix of one row (one head, a gate of all experts) is stored
    // like a vector, in float32, and is rounded here like any other matrix.
    if (x.esize != w.esize) {
        mat like = (x.esize == 4 ? be->op->alloc_exact : be->op->alloc)(be, w.rows, w.cols);
        if (mat_none(like))
            return;
        be->op->copy(be, w, like);
        cuda_linear(be, x, like, bias, y);
        be->op->free(be, like);
        return;
    }
    const float one = 1, zero = 0;
    cublasComputeType_t compute =
        be->prec == PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasStatus_t r =
        cublasGemmEx(of(be)->blas, CUBLAS_OP_T, CUBLAS_OP_N, (int)w.rows, (int)x.rows, (int)w.cols,
                     &one, w.p, type_of(w), (int)w.ld, x.p, type_of(x), (int)x.ld, &zero, y.p,
                     type_of(y), (int)y.ld, compute, CUBLAS_GEMM_DEFAULT);
    if (r != CUBLAS_STATUS_SUCCESS) {
        err_set(&be->fail, ERR_DEVICE,
                "matrix product of %lld x %lld and %lld x %lld: cuBLAS status %d",
                (long long)x.rows, (long long)x.cols, (long long)w.rows, (long long)w.cols, (int)r);
        return;
    }
    if (mat_none(bias))
        return;
    ON_TYPE(y, T,
            ON_TYPE(bias, U,
                    add_bias<T, U><<<blocks_for(y.rows * y.cols, 256), 256, 0, of(be)->stream>>>(
                        as<U>(bias), y.rows, y.cols, as<T>(y))));
    launched(be, "bias");
}

template <class T>
__global__ void add_scaled(view<T> x, float scale, int64_t rows, int64_t cols, view<T> y) {
    GRID_LOOP(i, rows * cols) {
        T *p = y.row(i / cols) + i % cols;
        put(p, get(*p) + scale * get(x.row(i / cols)[i % cols]));
    }
}

void cuda_add(backend *be, mat x, double scale, mat y) {
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
