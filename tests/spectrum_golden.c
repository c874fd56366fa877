#include "tests/spectrum_golden.h"

#include "kernels/cpu/cpu.h"
#include "tests/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

npy golden_load(const golden *g, const char *name) {
    char path[2048];
    err e = {0};
    npy a;
    snprintf(path, sizeof path, "%s/%s", g->folder, name);
    if (!npy_read(path, &a, &e))
        fail_msg("%s", e.text);
    return a;
}

golden golden_open(const char *name, int threads) {
    golden g = {0};
    err e = {0};
    char in[256];
    snprintf(in, sizeof in, "golden/%s", name);
    const char *folder = files_shared(in);
    if (!folder)
        skip();
    snprintf(g.folder, sizeof g.folder, "%s", folder);
    g.be = cpu_open(PRECISION_F64, threads, &e);
    g.m = g.be ? model_open(g.folder, g.be, &e) : NULL;
    if (!g.m)
        fail_msg("%s", e.text);
    npy ids = golden_load(&g, "input_ids.npy");
    g.ids = npy_as_i32(&ids, &e);
    g.T = ids.count;
    npy_free(&ids);
    assert_non_null(g.ids);
    return g;
}

void golden_close(golden *g) {
    model_free(g->m);
    backend_close(g->be);
    free(g->ids);
}

static const int64_t some_windows[] = {1, 2, 4, 8, 16, 32, 64};

spectrum_options golden_options(void) {
    return (spectrum_options){.windows = some_windows,
                              .n_windows = 7,
                              .samples = 8,
                              .lyapunov = 128,
                              .cond = true,
                              .keep_ledger = true};
}

spectrum_result golden_spectrum(const golden *g, int64_t block, const spectrum_options *o) {
    spectrum_result r;
    err e = {0};
    if (!spectrum_run(g->m, g->ids, 1, g->T, block, NULL, o, NULL, NULL, &r, &e))
        fail_msg("%s: %s", g->folder, e.text);
    return r;
}
