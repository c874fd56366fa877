#include "kernels/cpu/cpu.h"

#include "core/mem.h"
#include "kernels/spectrum.h"

#include <dlfcn.h>
#include <omp.h>
#include <stdlib.h>

extern const backend_ops cpu_ops_f32, cpu_ops_f64;

// Looked up by name, so that any BLAS will do.
static void single_thread_blas(void) {
    void (*set)(int) = NULL;
    *(void **)&set = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
    if (set)
        set(1);
}

backend *cpu_open(precision p, int threads, err *e) {
    if (p != PRECISION_F32 && p != PRECISION_F64) {
        err_set(e, ERR_UNSUPPORTED, "the CPU computes in f32 or f64, not in %s", precision_name(p));
        return NULL;
    }
    backend *be = mem_zalloc(1, sizeof *be, "a backend", e);
    if (!be)
        return NULL;
    be->op = p == PRECISION_F32 ? &cpu_ops_f32 : &cpu_ops_f64;
    be->device = "cpu";
    be->prec = p;
    be->esize = be->exact_esize = p == PRECISION_F32 ? 4 : 8;
    be->threads = threads > 0 ? threads : omp_get_num_procs();
    omp_set_num_threads(be->threads);
    single_thread_blas();
    return be;
}

void cpu_close(backend *be) {
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
