#include "analyses/verify/verify.h"

#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct table {
    const check *c;
    const size_t *n;
} table;

static const table tables[] = {
    {verify_recurrences, &n_verify_recurrences}, {verify_geometry, &n_verify_geometry},
    {verify_parallel, &n_verify_parallel},       {verify_states, &n_verify_states},
    {verify_theorems, &n_verify_theorems},
};
enum { TABLES = sizeof tables / sizeof *tables };

static bool wanted(const check *c, const char *only) {
    while (only && *only) {
        size_t n = strcspn(only, ",");
        if (n > 0 && strncmp(c->id, only, n) == 0)
            return true;
        only += n + (only[n] == ',');
    }
    return !only;
}

// The part of ONLY, copied to buf, that fits no check; false where every part fits one.
static bool unknown(const char *only, char *buf, size_t size) {
    for (size_t n; only && *only; only += n + (only[n] == ',')) {
        bool any = false;
        n = strcspn(only, ",");
        for (int t = 0; t < TABLES; t++)
            for (size_t i = 0; i < *tables[t].n; i++)
                any = any || strncmp(tables[t].c[i].id, only, n) == 0;
        snprintf(buf, size, "%.*s", (int)(n < size ? n : size - 1), only);
        if (!any)
            return true;
    }
    return false;
}

// The caller's progress, for what counts something else than checks.
typedef struct watch {
    progress_fn progress;
    void *ctx;
    int64_t done, total; // checks
} watch;

static bool go_on(void *ctx, int64_t done, int64_t total) {
    const watch *w = ctx;
    (void)done, (void)total;
    return !w->progress || w->progress(w->ctx, w->done, w->total);
}

// False: the user wants to stop.
static bool one(const verify_env *env, const check *c, bool on_device, watch *w, verify_result *r) {
    verify_row *row = &r->row[r->n++];
    verify_case at = {env, on_device ? env->device : env->exact, c->arg, go_on, w};
    err e = {0};
    *row = (verify_row){
        .c = c, .on_device = on_device, .error = NAN, .allowed = on_device ? c->device : c->exact};
    bool ran = c->run(&at, &row->error, &e);
    if (ran)
        ran = backend_check(at.be, &e);
    row->pass = ran && row->error <= row->allowed; // false for NaN
    if (!ran)
        snprintf(row->why, sizeof row->why, "%.199s", e.text);
    r->failed += !row->pass;
    w->done = (int64_t)r->n;
    return (ran || e.code != ERR_CANCELLED) && go_on(w, 0, 0);
}

bool verify_run(const verify_env *env, const char *only, progress_fn progress, void *progress_ctx,
                verify_result *r, err *e) {
    size_t total = 0;
    char part[40];
    *r = (verify_result){0};
    if (unknown(only, part, sizeof part))
        return err_set(e, ERR_USAGE, "option --only: no check has an id that begins with \"%s\"",
                       text_show(part));
    for (int t = 0; t < TABLES; t++)
        for (size_t i = 0; i < *tables[t].n; i++)
            if (wanted(&tables[t].c[i], only))
                total += !isnan(tables[t].c[i].exact) + !isnan(tables[t].c[i].device);
    if (total == 0)
        return err_set(e, ERR_USAGE, "option --only: no check has an id that begins so");
    r->row = mem_zalloc(total, sizeof *r->row, "checks", e);
    if (!r->row)
        return false;
    watch w = {progress, progress_ctx, 0, (int64_t)total};
    for (int t = 0; t < TABLES; t++)
        for (size_t i = 0; i < *tables[t].n; i++) {
            const check *c = &tables[t].c[i];
            if (!wanted(c, only))
                continue;
            for (int on_device = 0; on_device < 2; on_device++)
                if (!isnan(on_device ? c->device : c->exact) && !one(env, c, on_device == 1, &w, r))
                    return err_set(e, ERR_CANCELLED, "stopped at check %zu of %zu", r->n, total);
        }
    return true;
}

void verify_free(verify_result *r) {
    free(r->row);
    *r = (verify_result){0};
}
