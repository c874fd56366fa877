#include "kernels/cpu/cpu.h"

#include "core/mem.h"
#include "kernels/spectrum.h"

#include <dlfcn.h>
#include <omp.h>
#include <stdlib.h>
#include <sys/mman.h>

extern const backend_ops cpu_ops_f32, cpu_ops_f64;

// Looked up by name, so that any BLAS will do.
static void single_thread_blas(void) {
    void (*set)(int) = NULL;
    *(void **)&set = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
    if (set)
        set(1);
}

// OpenBLAS maps a work buffer for each thread at its first product, and where that fails it tries
// again for ever. So the buffers are taken here, where a failure can be told; they stay mapped
// (address space only, no memory until used). OpenBLAS has places for about this many.
enum { BLAS_BUFFER = 128 << 20, BLAS_PLACES = 64 };

static bool reserve_blas(int threads, err *e) {
    void *(*take)(int) = NULL, *held[BLAS_PLACES] = {NULL};
    void (*give)(void *) = NULL;
    *(void **)&take = dlsym(RTLD_DEFAULT, "blas_memory_alloc");
    *(void **)&give = dlsym(RTLD_DEFAULT, "blas_memory_free");
    if (!take || !give)
        return true;
    bool ok = true;
    int n = 0;
    for (; ok && n < threads && n < BLAS_PLACES; n++) {
        void *room = mmap(NULL, BLAS_BUFFER + 65536, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED) {
            ok = err_set(e, ERR_NOMEM,
                         "out of memory: the matrix library needs %d MiB of address space a "
                         "thread, for --threads %d; take fewer, or raise the limit (ulimit -v)",
                         BLAS_BUFFER >> 20, threads);
            break;
        }
        munmap(room, BLAS_BUFFER + 65536);
        held[n] = take(0);
    }
    for (int i = 0; i < n; i++)
        if (held[i])
            give(held[i]);
    return ok;
}

backend *cpu_open(precision p, int threads, err *e) {
    if (p != PRECISION_F32 && p != PRECISION_F64) {
        err_set(e, ERR_UNSUPPORTED, "the CPU computes in f32 or f64, not in %s", precision_name(p));
        return NULL;
    }
    backend *be = mem_zalloc(1, sizeof(cpu_backend), "a backend", e);
    if (!be)
        return NULL;
    be->op = p == PRECISION_F32 ? &cpu_ops_f32 : &cpu_ops_f64;
    be->device = "cpu";
    be->prec = p;
    be->esize = be->exact_esize = p == PRECISION_F32 ? 4 : 8;
    be->block = 512;
    be->reentrant = true;
    be->threads = threads > 0 ? threads : omp_get_num_procs();
    omp_set_num_threads(be->threads);
    single_thread_blas();
    if (!reserve_blas(be->threads, e)) {
        free(be);
        return NULL;
    }
    return be;
}

void cpu_close(backend *be) {
    free(((cpu_backend *)be)->evict);
    free(be);
}

bool cpu_window_spectrum(backend *be, const transitions *x, int64_t last, int64_t W,
                         complex_f64 *eig, double *cond, window_facts *facts, err *e) {
    (void)be;
    return spectrum_window(x, last, W, eig, cond, facts, e);
}

bool cpu_lyapunov(backend *be, const transitions *x, int64_t first, int64_t n, double *exponents,
                  err *e) {
    (void)be;
    return spectrum_lyapunov(x, first, n, exponents, e);
}

void cpu_ledger(backend *be, const transitions *x, double *ledger) {
    (void)be;
    spectrum_ledger(x, ledger);
}

bool cpu_token_spectrum(backend *be, const transitions *x, int64_t t, complex_f64 *eig, err *e) {
    (void)be;
    return spectrum_token(x, t, eig, e);
}
