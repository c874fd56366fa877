// Matrix products (kernels/dense.h).
//
// Large bfloat16 products go through cuBLASLt. Of the algorithms that its heuristics name for a shape,
// those of custom options 1 to 3 come first: on an H200 one of them was the quickest or within 1 % of
// it for every shape tried, and up to 9 % before the heuristics' own first. (For measurements
// DELTOP_CUDA_HEURISTICS leaves the heuristics' order.) A shape that is asked for again and again has
// its first few algorithms timed, by events around calls that are made anyway, and keeps the quickest;
// not before, because the code of each takes milliseconds to load. Only algorithms that sum a result in
// one piece are taken (no split over the inner dimension), and the choice moves no bit
// (tests/test_cuda_fused.c). Everything else is cublasGemmEx.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/trace.h"
#include "kernels/cuda/wide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_ROWS = 512, // of x: below, a product is over before a choice could pay
    NAMED = 16,       // algorithms asked of the heuristics
    TRIES = 4,
    ROUNDS = 3,
    TRY_AFTER = 1500, // calls of a shape; at once where DELTOP_CUDA_TRY is set, for tests
    MOST_PLANS = 64,
    WORKSPACE = 32 << 20,
};

struct product_shape {
    int64_t m, n, k, ldw, ldx, ldy;
    int y_size;
    bool add;
};

struct product_plan {
    product_shape shape;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t w, x, y;
    cublasLtMatmulAlgo_t algo[TRIES];
    int n, calls, tried;
    int best;        // -1: not known yet
    float ms[TRIES]; // the least of each
    cudaEvent_t from[TRIES * ROUNDS], to[TRIES * ROUNDS];
};

struct product_plans {
    void *workspace;
    int try_after;
    int n;
    product_plan plan[MOST_PLANS];
};

static void plan_free(product_plan *p) {
    for (int i = 0; i < TRIES * ROUNDS; i++) {
        if (p->from[i])
            cudaEventDestroy(p->from[i]);
        if (p->to[i])
            cudaEventDestroy(p->to[i]);
    }
    if (p->w)
        cublasLtMatrixLayoutDestroy(p->w);
    if (p->x)
        cublasLtMatrixLayoutDestroy(p->x);
    if (p->y)
        cublasLtMatrixLayoutDestroy(p->y);
    if (p->desc)
        cublasLtMatmulDescDestroy(p->desc);
    *p = product_plan{};
}

static void plan_decide(product_plan *p);

static void plan_print(product_plan *p) {
    if (p->best < 0 && p->tried == p->n * ROUNDS)
        plan_decide(p);
    const product_shape *s = &p->shape;
    fprintf(stderr, "cuda product %lld x %lld x %lld%s%s:", (long long)s->n, (long long)s->m,
            (long long)s->k, s->add ? ", added" : "", s->y_size == 4 ? ", float" : "");
    double flop = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    for (int i = 0; i < p->n; i++)
        if (p->ms[i] > 0)
            fprintf(stderr, " %s%.4f", i == p->best ? "*" : "", (double)p->ms[i]);
    if (p->best >= 0 && p->ms[p->best] > 0)
        fprintf(stderr, " ms, %.0f TFLOP/s", flop / (double)p->ms[p->best] / 1e9);
    fprintf(stderr, "\n");
}

void products_close(cuda_backend *c) {
    product_plans *all = c->plans;
    if (!all)
        return;
    for (int i = 0; i < all->n; i++) {
        if (c->spans)
            plan_print(&all->plan[i]);
        plan_free(&all->plan[i]);
    }
    if (all->workspace)
        cudaFreeAsync(all->workspace, c->stream);
    free(all);
    c->plans = NULL;
}

static bool same(const product_shape *a, const product_shape *b) {
    return a->m == b->m && a->n == b->n && a->k == b->k && a->ldw == b->ldw && a->ldx == b->ldx &&
           a->ldy == b->ldy && a->y_size == b->y_size && a->add == b->add;
}

static int32_t option_of(const cublasLtMatmulAlgo_t *a, cublasLtMatmulAlgoConfigAttributes_t what) {
    int32_t value = 0;
    size_t got = 0;
    cublasLtMatmulAlgoConfigGetAttribute(a, what, &value, sizeof value, &got);
    return value;
}

// Column-major as cuBLAS sees it: y^T [m, n] = (w as it lies, transposed) (x as it lies).
static bool plan_make(cuda_backend *c, product_plan *p, const product_shape *s) {
    const cublasOperation_t turned = CUBLAS_OP_T;
    const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE, align = 16;
    const size_t room = WORKSPACE;
    cublasLtMatmulPreference_t want = NULL;
    cublasLtMatmulHeuristicResult_t found[NAMED];
    int n = 0;
    *p = product_plan{};
    p->shape = *s;
    p->best = -1;
    auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const void *value, size_t size) {
        return cublasLtMatmulPreferenceSetAttribute(want, what, value, size) ==
               CUBLAS_STATUS_SUCCESS;
    };
    bool ok =
        cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
            CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                       sizeof turned) == CUBLAS_STATUS_SUCCESS &&
        cublasLtMatrixLayoutCreate(&p->w, CUDA_R_16BF, (uint64_t)s->k, (uint64_t)s->m, s->ldw) ==
            CUBLAS_STATUS_SUCCESS &&
        cublasLtMatrixLayoutCreate(&p->x, CUDA_R_16BF, (uint64_t)s->k, (uint64_t)s->n, s->ldx) ==
            CUBLAS_STATUS_SUCCESS &&
        cublasLtMatrixLayoutCreate(&p->y, s->y_size == 4 ? CUDA_R_32F : CUDA_R_16BF, (uint64_t)s->m,
                                   (uint64_t)s->n, s->ldy) == CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulPreferenceCreate(&want) == CUBLAS_STATUS_SUCCESS &&
        prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room) &&
        prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme) &&
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align, sizeof align) &&
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align, sizeof align) &&
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align, sizeof align) &&
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align, sizeof align) &&
        cublasLtMatmulAlgoGetHeuristic((cublasLtHandle_t)c->blas, p->desc, p->w, p->x, p->y, p->y,
                                       want, NAMED, found, &n) == CUBLAS_STATUS_SUCCESS;
    if (want)
        cublasLtMatmulPreferenceDestroy(want);
    const bool as_named = getenv("DELTOP_CUDA_HEURISTICS") != NULL;
    for (int pass = as_named; ok && pass < 2; pass++)
        for (int i = 0; i < n && p->n < TRIES; i++) {
            int32_t option = option_of(&found[i].algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION);
            bool first = !as_named && option >= 1 && option <= 3;
            if (found[i].state == CUBLAS_STATUS_SUCCESS && first == (pass == 0) &&
                option_of(&found[i].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) <= 1)
                p->algo[p->n++] = found[i].algo;
        }
    if (p->n == 1)
        p->best = 0;
    if (!ok || p->n == 0)
        plan_free(p);
    return p->n > 0;
}

static product_plan *plan_for(backend *be, const product_shape *s) {
    cuda_backend *c = of(be);
    product_plans *all = c->plans;
    if (!all) {
        all = c->plans = (product_plans *)calloc(1, sizeof *all);
        if (all)
            all->try_after = getenv("DELTOP_CUDA_TRY") ? 0 : TRY_AFTER;
        if (!all || cudaMallocAsync(&all->workspace, WORKSPACE, c->stream) != cudaSuccess) {
            cudaGetLastError(); // without room for it: cublasGemmEx
            free(all);
            return c->plans = NULL, nullptr;
        }
    }
    for (int i = 0; i < all->n; i++)
        if (same(&all->plan[i].shape, s))
            return &all->plan[i];
    if (all->n == MOST_PLANS) { // rows of many lengths: begin anew
        for (int i = 0; i < all->n; i++)
            plan_free(&all->plan[i]);
        all->n = 0;
    }
    product_plan *p = &all->plan[all->n];
    if (!plan_make(c, p, s))
        return NULL;
    all->n++;
    return p;
}

// The quickest by the least of its times, the first round left out: an algorithm's first call may have
// waited for its code.
static void plan_decide(product_plan *p) {
    if (cudaEventQuery(p->to[p->n * ROUNDS - 1]) != cudaSuccess) {
        cudaGetLastError();
        return;
    }
    p->best = 0;
    for (int i = p->n; i < p->n * ROUNDS; i++) {
        float ms = INFINITY, *least = &p->ms[i % p->n];
        if (cudaEventElapsedTime(&ms, p->from[i], p->to[i]) == cudaSuccess &&
            (*least == 0 || ms < *least))
            *least = ms;
    }
    for (int i = 1; i < p->n; i++)
        if (p->ms[i] > 0 && (p->ms[p->best] == 0 || p->ms[i] < p->ms[p->best]))
            p->best = i;
}

// False: nothing has been done.
static bool planned(backend *be, mat x, mat w, float alpha, float beta, mat y) {
    if (x.esize != 2 || w.esize != 2 || x.rows < LEAST_ROWS || !on_words(x) || !on_words(w) ||
        !on_words(y))
        return false;
    cuda_backend *c = of(be);
    product_shape s = {w.rows, x.rows, w.cols, w.ld, x.ld, y.ld, y.esize, beta != 0};
    product_plan *p = plan_for(be, &s);
    if (!p)
        return false;
    const int at = p->tried;
    bool trying = p->best < 0 && p->calls >= c->plans->try_after && at < p->n * ROUNDS;
    if (p->best < 0 && at == p->n * ROUNDS)
        plan_decide(p);
    int take = p->best >= 0 ? p->best : trying ? at % p->n : 0;
    p->calls += p->calls < TRY_AFTER;
    if (trying) {
        trying = cudaEventCreate(&p->from[at]) == cudaSuccess &&
                 cudaEventCreate(&p->to[at]) == cudaSuccess &&
                 cudaEventRecord(p->from[at], c->stream) == cudaSuccess;
        p->tried++;
    }
    cublasStatus_t r =
        cublasLtMatmul((cublasLtHandle_t)c->blas, p->desc, &alpha, w.p, p->w, x.p, p->x, &beta, y.p,
                       p->y, y.p, p->y, &p->algo[take], c->plans->workspace, WORKSPACE, c->stream);
    if (trying)
        cudaEventRecord(p->to[at], c->stream);
    if (r == CUBLAS_STATUS_SUCCESS)
        return true;
    p->best = 0; // not to be tried again; the caller takes the other way
    return false;
}

static cudaDataType type_of(mat m) {
    return m.esize == 4 ? CUDA_R_32F : CUDA_R_16BF;
}

// y = alpha x w^T + beta y
static void product(backend *be, mat x, mat w, float alpha, float beta, mat y, bool exact) {
    of(be)->launches++;
    if (planned(be, x, w, alpha, beta, y))
        return;
    cublasComputeType_t compute =
        be->prec == PRECISION_TF32 && !exact ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasStatus_t r =
        cublasGemmEx(of(be)->blas, CUBLAS_OP_T, CUBLAS_OP_N, (int)w.rows, (int)x.rows, (int)w.cols,
                     &alpha, w.p, type_of(w), (int)w.ld, x.p, type_of(x), (int)x.ld, &beta, y.p,
                     type_of(y), (int)y.ld, compute, CUBLAS_GEMM_DEFAULT);
    if (r != CUBLAS_STATUS_SUCCESS)
        err_set(&be->fail, ERR_DEVICE,
                "matrix product of %lld x %lld and %lld x %lld: cuBLAS status %d",
                (long long)x.rows, (long long)x.cols, (long long)w.rows, (long long)w.cols, (int)r);
}

template <class T, class U>
__global__ void add_bias(view<U> bias, float scale, int64_t rows, int64_t cols, view<T> y) {
    GRID_LOOP(i, rows * cols) {
        T *p = y.row(i / cols) + i % cols;
        put(p, get(*p) + scale * get(bias.p[i % cols]));
    }
}

static void with_bias(backend *be, mat bias, float scale, mat y) {
    if (mat_none(bias) || be->fail.code != ERR_NONE)
        return;
    ON_TYPE(y, T,
            ON_TYPE(bias, U,
                    add_bias<T, U><<<blocks_for(y.rows * y.cols, 256), 256, 0, of(be)->stream>>>(
                        as<U>(bias), scale, y.rows, y.cols, as<T>(y))));
    launched(be, "bias");
}

// cuBLAS multiplies equal types. A matrix of one row (one head, a gate of all experts) is stored like
// a vector, in float32, and is rounded here like any other matrix.
static mat like(backend *be, mat x, mat w, bool *made) {
    *made = x.esize != w.esize;
    if (!*made)
        return w;
    mat m = (x.esize == 4 ? be->op->alloc_exact : be->op->alloc)(be, w.rows, w.cols);
    if (!mat_none(m))
        be->op->copy(be, w, m);
    return m;
}

static void any_linear(backend *be, mat x, mat w, mat bias, float scale, float keep, bool exact,
                       mat y) {
    if (x.rows == 0)
        return;
    bool made;
    w = like(be, x, w, &made);
    if (mat_none(w))
        return;
    if (!exact || keep != 0 || !cuda_thin_product(be, x, w, y))
        product(be, x, w, scale, keep, y, exact);
    with_bias(be, bias, scale, y);
    if (made)
        be->op->free(be, w);
}

void cuda_linear(backend *be, mat x, mat w, mat bias, mat y) {
    traced span(be, "linear");
    any_linear(be, x, w, bias, 1, 0, false, y);
}

void cuda_linear_exact(backend *be, mat x, mat w, mat bias, mat y) {
    traced span(be, "linear_exact");
    any_linear(be, x, w, bias, 1, 0, true, y);
}

void cuda_linear_add(backend *be, mat x, mat w, mat bias, double scale, mat y) {
    traced span(be, "linear_add");
    any_linear(be, x, w, bias, (float)scale, 1, false, y);
}
