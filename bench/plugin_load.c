#include "bench/plugin_load.h"

#include "bench/plugin_guard.h"
#include "core/mem.h"
#include "core/text.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool name_ok(const char *s) {
    return s && *s && strlen(s) < 40 &&
           s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")] == 0;
}

static bool kernel_ok(const deltop_kernel *k) {
    return name_ok(k->name) && (k->device == DELTOP_CPU || k->device == DELTOP_CUDA) &&
           k->type >= DELTOP_F32 && k->type <= DELTOP_F64 && k->supports && k->run;
}

typedef struct getter {
    const deltop_plugin *(*get)(void);
    const deltop_plugin *out;
} getter;

static void get_plugin(void *arg) {
    getter *g = arg;
    g->out = g->get();
}

typedef struct asking {
    int (*fn)(const deltop_recurrence *);
    const deltop_recurrence *call;
    int out;
} asking;

static void ask(void *arg) {
    asking *a = arg;
    a->out = a->fn(a->call);
}

bool plugin_supports(const plugin_kernel *k, const deltop_recurrence *call, err *e) {
    asking a = {k->k->supports, call, 0};
    int signal = guard_run(ask, &a);
    if (signal)
        return err_set(e, ERR_DEVICE, "%s: asked whether it takes the case, it crashed: %s",
                       k->impl, guard_signal(signal));
    return a.out || err_set(e, ERR_UNSUPPORTED, "%s does not take this case", k->impl);
}

bool plugin_run(const plugin_kernel *k, const deltop_recurrence *call, err *e) {
    asking a = {k->k->run, call, 0};
    int signal = guard_run(ask, &a);
    if (signal)
        return err_set(e, ERR_DEVICE, "%s: crashed: %s", k->impl, guard_signal(signal));
    return a.out == 0 || err_set(e, ERR_DEVICE, "%s: its run returned %d", k->impl, a.out);
}

bool plugins_add(plugins *p, const char *path, err *e) {
    // A name without a slash would be looked for in the system's folders.
    char here[4096];
    snprintf(here, sizeof here, "%s%s", strchr(path, '/') ? "" : "./", path);
    void *so = dlopen(here, RTLD_NOW | RTLD_LOCAL);
    if (!so)
        return err_set(e, ERR_INPUT, "option --plugin: %s", text_show(dlerror()));
    getter g = {NULL, NULL};
    *(void **)&g.get = dlsym(so, "deltop_plugin_get");
    guard_install();
    int signal = g.get ? guard_run(get_plugin, &g) : 0;
    if (signal)
        return err_set(e, ERR_INPUT, "option --plugin: %s: deltop_plugin_get crashed: %s",
                       text_show(path), guard_signal(signal));
    const deltop_plugin *x = g.out;
    if (!x)
        return err_set(e, ERR_INPUT,
                       "option --plugin: %s exports no deltop_plugin_get; see bench/plugin.h",
                       text_show(path));
    if (x->abi != DELTOP_PLUGIN_ABI)
        return err_set(e, ERR_INPUT,
                       "option --plugin: %s was built for interface %d, this program has %d",
                       text_show(path), x->abi, DELTOP_PLUGIN_ABI);
    if (!name_ok(x->name) || x->n_kernels < 1 || !x->kernels)
        return err_set(e, ERR_INPUT, "option --plugin: %s has no proper name or no kernels",
                       text_show(path));
    for (int i = 0; i < x->n_kernels; i++) {
        if (!kernel_ok(&x->kernels[i]))
            return err_set(e, ERR_INPUT, "option --plugin: %s: kernel %d is incomplete",
                           text_show(path), i);
        if (!mem_grow((void **)&p->v, &p->cap, p->n + 1, sizeof *p->v, "plugins", e))
            return false;
        plugin_kernel *k = &p->v[p->n];
        k->k = &x->kernels[i];
        snprintf(k->impl, sizeof k->impl, "%s:%s", x->name, k->k->name);
        if (plugins_find(p, k->impl))
            return err_set(e, ERR_INPUT, "option --plugin: %s is there twice", k->impl);
        p->n++;
    }
    return true;
}

void plugins_free(plugins *p) {
    free(p->v);
    *p = (plugins){0};
}

const plugin_kernel *plugins_find(const plugins *p, const char *impl) {
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->v[i].impl, impl) == 0)
            return &p->v[i];
    return NULL;
}

static deltop_matrix matrix(mat m) {
    static const int type[] = {[2] = DELTOP_BF16, [4] = DELTOP_F32, [8] = DELTOP_F64};
    return (deltop_matrix){m.p, m.rows, m.cols, m.ld, mat_none(m) ? DELTOP_F32 : type[m.esize]};
}

deltop_recurrence plugin_call(backend *be, const steps *s, mat state, mat o) {
    return (deltop_recurrence){.tokens = s->T,
                               .key_heads = s->s.Hk,
                               .value_heads = s->s.H,
                               .key_size = s->s.K,
                               .value_size = s->s.V,
                               .micro_steps = s->s.n_h,
                               .decay_kind = (int)s->s.decay,
                               .erase_kind = (int)s->s.erase,
                               .scale = s->s.scale,
                               .q = matrix(s->q),
                               .k = matrix(s->k),
                               .v = matrix(s->v),
                               .beta = matrix(s->beta),
                               .decay = matrix(s->decay),
                               .a = matrix(s->a),
                               .b = matrix(s->b),
                               .state = matrix(state),
                               .o = matrix(o),
                               .queue = be->op->queue(be),
                               .threads = be->threads > 0 ? be->threads : 1};
}
