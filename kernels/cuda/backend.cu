// The CUDA backend: memory, the table of operations, opening and closing. Lives in deltop-cuda.so,
// which the program opens at run time (kernels/cuda_open.c); what it needs of core is resolved from
// the program.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool cuda_ok(backend *be, cudaError_t r, const char *what) {
    if (r == cudaSuccess)
        return true;
    err_set(&be->fail, r == cudaErrorMemoryAllocation ? ERR_NOMEM : ERR_DEVICE, "%s: %s: %s",
            be->device, what, cudaGetErrorString(r));
    cudaGetLastError();
    return false;
}

void *device_scratch(backend *be, size_t n) {
    cuda_backend *c = of(be);
    if (n <= c->scratch_bytes)
        return c->scratch;
    if (c->scratch)
        cudaFreeAsync(c->scratch, c->stream);
    c->scratch = NULL;
    c->scratch_bytes = 0;
    if (!cuda_ok(be, cudaMallocAsync(&c->scratch, n, c->stream), "scratch memory"))
        return c->scratch = NULL;
    c->scratch_bytes = n;
    return c->scratch;
}

void *host_scratch(backend *be, size_t n) {
    cuda_backend *c = of(be);
    cudaStreamSynchronize(c->stream); // an earlier copy may still read it
    if (n <= c->pinned_bytes)
        return c->pinned;
    cudaFreeHost(c->pinned);
    c->pinned = NULL;
    c->pinned_bytes = 0;
    if (!cuda_ok(be, cudaMallocHost(&c->pinned, n), "page-locked memory"))
        return c->pinned = NULL;
    c->pinned_bytes = n;
    return c->pinned;
}

bool device_space(backend *be, size_t *bytes) {
    size_t total = 0;
    uint64_t held = 0, used = 0;
    cudaMemPool_t pool;
    if (!cuda_ok(be, cudaMemGetInfo(bytes, &total), "free memory"))
        return false;
    if (cudaDeviceGetDefaultMemPool(&pool, of(be)->device) == cudaSuccess &&
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &held) == cudaSuccess &&
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess)
        *bytes += held > used ? (size_t)(held - used) : 0;
    return true;
}

size_t shared_memory(backend *be) {
    int bytes = 0;
    cuda_ok(be,
            cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, of(be)->device),
            "shared memory");
    return (size_t)bytes;
}

static mat allocate(backend *be, int64_t rows, int64_t cols, int esize) {
    size_t n = 0;
    void *p = NULL;
    if (rows < 0 || cols < 0 || !mem_mul((size_t)rows, (size_t)cols, &n) ||
        !mem_mul(n, (size_t)esize, &n)) {
        err_set(&be->fail, ERR_NOMEM, "out of memory: %lld x %lld numbers", (long long)rows,
                (long long)cols);
        return mat{};
    }
    if (!cuda_ok(be, cudaMallocAsync(&p, n ? n : 1, of(be)->stream), "weights and activations"))
        return mat{};
    if (!cuda_ok(be, cudaMemsetAsync(p, 0, n, of(be)->stream), "weights and activations")) {
        cudaFreeAsync(p, of(be)->stream);
        return mat{};
    }
    return mat{p, rows, cols, cols, esize};
}

static mat cuda_alloc(backend *be, int64_t rows, int64_t cols) {
    return allocate(be, rows, cols, be->esize);
}

static mat cuda_alloc_exact(backend *be, int64_t rows, int64_t cols) {
    return allocate(be, rows, cols, sizeof(float));
}

static void cuda_free(backend *be, mat m) {
    if (m.p)
        cudaFreeAsync(m.p, of(be)->stream);
}

static size_t bytes_of(int64_t n, mat m) {
    return (size_t)n * (size_t)m.esize;
}

static void cuda_zero(backend *be, mat m) {
    if (m.rows && m.cols)
        cuda_ok(be,
                cudaMemset2DAsync(m.p, bytes_of(m.ld, m), 0, bytes_of(m.cols, m), (size_t)m.rows,
                                  of(be)->stream),
                "clear");
}

template <class T, class U>
__global__ void convert(view<T> from, int64_t rows, int64_t cols, view<U> to) {
    GRID_LOOP(i, rows * cols)
    put(&to.row(i / cols)[i % cols], get(from.row(i / cols)[i % cols]));
}

static void cuda_copy(backend *be, mat from, mat to) {
    if (from.rows == 0 || from.cols == 0)
        return;
    if (from.esize == to.esize) {
        cuda_ok(be,
                cudaMemcpy2DAsync(to.p, bytes_of(to.ld, to), from.p, bytes_of(from.ld, from),
                                  bytes_of(from.cols, from), (size_t)from.rows,
                                  cudaMemcpyDeviceToDevice, of(be)->stream),
                "copy");
        return;
    }
    ON_TYPE(from, T,
            ON_TYPE(to, U,
                    convert<T, U>
                    <<<blocks_for(from.rows * from.cols, 256), 256, 0, of(be)->stream>>>(
                        as<T>(from), from.rows, from.cols, as<U>(to))));
    launched(be, "convert");
}

static float bf16_to_float(uint16_t x) {
    uint32_t u = (uint32_t)x << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static void cuda_read(backend *be, mat from, double *to) {
    int64_t n = from.rows * from.cols;
    void *host = n ? host_scratch(be, bytes_of(n, from)) : NULL;
    if (!host ||
        !cuda_ok(be,
                 cudaMemcpy2DAsync(host, bytes_of(from.cols, from), from.p, bytes_of(from.ld, from),
                                   bytes_of(from.cols, from), (size_t)from.rows,
                                   cudaMemcpyDeviceToHost, of(be)->stream),
                 "read") ||
        !cuda_ok(be, cudaStreamSynchronize(of(be)->stream), "read"))
        return;
    for (int64_t i = 0; i < n; i++)
        to[i] = from.esize == 4 ? (double)((float *)host)[i]
                                : (double)bf16_to_float(((uint16_t *)host)[i]);
}

// Rounds to nearest, ties to even; NaN stays NaN.
static uint16_t float_to_bf16(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)((u >> 16) | 64);
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

static void cuda_write(backend *be, const double *from, mat to) {
    int64_t n = to.rows * to.cols;
    void *host = n ? host_scratch(be, bytes_of(n, to)) : NULL;
    if (!host)
        return;
    for (int64_t i = 0; i < n; i++)
        if (to.esize == 4)
            ((float *)host)[i] = (float)from[i];
        else
            ((uint16_t *)host)[i] = float_to_bf16((float)from[i]);
    cuda_ok(be,
            cudaMemcpy2DAsync(to.p, bytes_of(to.ld, to), host, bytes_of(to.cols, to),
                              bytes_of(to.cols, to), (size_t)to.rows, cudaMemcpyHostToDevice,
                              of(be)->stream),
            "write");
}

// What the driver still has, and what freed matrices left in the pool.
static int64_t cuda_free_bytes(backend *be) {
    size_t left = 0, all = 0;
    uint64_t held = 0, used = 0;
    cudaMemPool_t pool;
    if (!cuda_ok(be, cudaMemGetInfo(&left, &all), "free memory"))
        return 0;
    if (cudaDeviceGetDefaultMemPool(&pool, of(be)->device) == cudaSuccess &&
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &held) == cudaSuccess &&
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess &&
        held > used)
        left += held - used;
    cudaGetLastError();
    return (int64_t)left;
}

static void cuda_close(backend *be) {
    cuda_backend *c = of(be);
    cudaSetDevice(c->device);
    cudaStreamSynchronize(c->stream);
    products_close(c);
    trace_print_and_close(c);
    if (c->scratch)
        cudaFreeAsync(c->scratch, c->stream);
    cudaFreeHost(c->pinned);
    timing_close(c);
    if (c->blas)
        cublasDestroy(c->blas);
    if (c->stream)
        cudaStreamDestroy(c->stream);
    free(c);
}

static void traced_recurrence(backend *be, const steps *s, mat state, mat o) {
    traced span(be, "recurrence");
    cuda_recurrence(be, s, state, o);
}

static bool traced_recurrence_rows(backend *be, const steps *s, const step_rows *r, mat state,
                                   mat o) {
    traced span(be, "recurrence of rows");
    return cuda_recurrence_rows(be, s, r, state, o);
}

static backend_ops make_table() {
    backend_ops t = {};
    t.alloc = cuda_alloc;
    t.alloc_exact = cuda_alloc_exact;
    t.free = cuda_free;
    t.zero = cuda_zero;
    t.copy = cuda_copy;
    t.read = cuda_read;
    t.write = cuda_write;
    t.embed = cuda_embed;
    t.linear = cuda_linear;
    t.linear_exact = cuda_linear_exact;
    t.linear_add = cuda_linear_add;
    t.conv_heads = cuda_conv_heads;
    t.linear_gated = cuda_linear_gated;
    t.linear_conv = cuda_linear_conv;
    t.free_bytes = cuda_free_bytes;
    t.add = cuda_add;
    t.add_rows = cuda_add_rows;
    t.rms_norm = cuda_rms_norm;
    t.normalize_heads = cuda_normalize_heads;
    t.layer_norm = cuda_layer_norm;
    t.head_norms = cuda_head_norms;
    t.activate = cuda_activate;
    t.multiply = cuda_multiply;
    t.scale_heads = cuda_scale_heads;
    t.log_decay = cuda_log_decay;
    t.log_forget = cuda_log_forget;
    t.time_step = cuda_time_step;
    t.wkv = cuda_wkv;
    t.token_shift = cuda_token_shift;
    t.mix = cuda_mix;
    t.dot_heads = cuda_dot_heads;
    t.divide_heads = cuda_divide_heads;
    t.broadcast = cuda_broadcast;
    t.short_conv = cuda_short_conv;
    t.recurrence = traced_recurrence;
    t.recurrence_rows = traced_recurrence_rows;
    t.rotate = cuda_rotate;
    t.attention = cuda_attention;
    t.losses = cuda_losses;
    t.state_svals = cuda_state_svals;
    // One at a time: on the host, from arrays that are there already.
    t.window_spectrum = cpu_window_spectrum;
    t.lyapunov = cpu_lyapunov;
    t.window_spectra = cuda_window_spectra;
    t.lyapunov_spectra = cuda_lyapunov_spectra;
    t.ledger = cpu_ledger;
    t.token_spectrum = cpu_token_spectrum;
    t.mark = cuda_mark;
    t.elapsed = cuda_elapsed;
    t.wait = cuda_wait;
    t.evict = cuda_evict;
    t.queue = cuda_queue;
    t.close = cuda_close;
    return t;
}

static const backend_ops table = make_table();

// The one symbol the program looks up. ERR_DEVICE when there is no driver, no such device, or one
// that is too old for the code in this file.
extern "C" backend *deltop_cuda_open(int device, precision p, int threads, err *e) {
    int n = 0;
    cudaError_t r = cudaGetDeviceCount(&n);
    if (r != cudaSuccess || n == 0) {
        err_set(e, ERR_DEVICE, "no CUDA device: %s",
                r == cudaSuccess ? "none found" : cudaGetErrorString(r));
        return NULL;
    }
    if (device >= n) {
        err_set(e, ERR_DEVICE, "no device cuda:%d: this machine has %d (cuda:0%s)", device, n,
                n > 1 ? " ..." : "");
        return NULL;
    }
    cudaDeviceProp prop;
    r = cudaGetDeviceProperties(&prop, device);
    if (r != cudaSuccess) {
        err_set(e, ERR_DEVICE, "cuda:%d: %s", device, cudaGetErrorString(r));
        return NULL;
    }
    if (prop.major < 8) {
        err_set(e, ERR_DEVICE, "cuda:%d (%s) has compute capability %d.%d, 8.0 or newer is needed",
                device, prop.name, prop.major, prop.minor);
        return NULL;
    }
    // A file built for other architectures is refused here and not at its first kernel (fault B62).
    cudaFuncAttributes code;
    r = cudaSetDevice(device);
    if (r == cudaSuccess)
        r = cudaFuncGetAttributes(&code, convert<float, float>);
    if (r != cudaSuccess) {
        err_set(e, ERR_DEVICE,
                "cuda:%d (%s, compute capability %d.%d): deltop-cuda.so has no code for it: %s",
                device, prop.name, prop.major, prop.minor, cudaGetErrorString(r));
        return NULL;
    }
    // A host backend underneath: analyses of host arrays use its threads and single-threaded BLAS.
    backend *host = cpu_open(PRECISION_F32, threads, e);
    if (!host)
        return NULL;
    int host_threads = host->threads;
    backend_close(host);
    cuda_backend *c = (cuda_backend *)mem_zalloc(1, sizeof *c, "a CUDA backend", e);
    if (!c)
        return NULL;
    snprintf(c->name, sizeof c->name, "%s (cuda:%d)", prop.name, device);
    c->device = device;
    c->processors = prop.multiProcessorCount;
    c->hopper = is_hopper(device);
    if (cudaDeviceGetPCIBusId(c->base.pci, sizeof c->base.pci, device) != cudaSuccess)
        c->base.pci[0] = 0;
    c->base.op = &table;
    c->base.device = c->name;
    c->base.prec = p;
    c->base.esize = p == PRECISION_BF16 ? 2 : 4;
    c->base.exact_esize = 4;
    c->base.block = 8192;       // enough tokens to repay the launches
    c->base.most_block = 32768; // enough to fill the device for each of them
    c->base.threads = host_threads;
    backend *be = &c->base;
    if (!cuda_ok(be, cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking), "open") ||
        cublasCreate(&c->blas) != CUBLAS_STATUS_SUCCESS ||
        cublasSetStream(c->blas, c->stream) != CUBLAS_STATUS_SUCCESS) {
        if (be->fail.code == ERR_NONE)
            err_set(e, ERR_DEVICE, "cuda:%d: cuBLAS does not start", device);
        else
            err_set(e, be->fail.code, "%s", be->fail.text);
        cuda_close(be);
        return NULL;
    }
    // Freed blocks stay in the pool: every block of a row asks for the same sizes again.
    cudaMemPool_t pool;
    uint64_t keep = UINT64_MAX;
    if (cudaDeviceGetDefaultMemPool(&pool, device) == cudaSuccess)
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep);
    cublasSetMathMode(c->blas, CUBLAS_DEFAULT_MATH); // TF32 by product, never by the handle
    trace_open(c);
    return be;
}
