#include "cli/bench_setup.h"

#include "bench/model_cases.h"
#include "bench/op.h"
#include "cli/device.h"
#include "cli/say.h"
#include "core/ckpt.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/sha256.h"
#include "core/text.h"
#include "kernels/cuda_open.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool axis_given(const bench_options *own, const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < own->axes.n; i++)
        if (strncmp(own->axes.v[i], name, n) == 0 && own->axes.v[i][n] == '=')
            return true;
    return false;
}

// The second of two lists for one axis would take the place of the first.
static bool axes_named_once(const bench_options *own, err *e) {
    for (size_t i = 0; i < own->axes.n; i++)
        for (size_t k = 0; k < i; k++) {
            size_t n = strcspn(own->axes.v[i], "=");
            if (strcspn(own->axes.v[k], "=") == n &&
                strncmp(own->axes.v[i], own->axes.v[k], n) == 0)
                return err_set(
                    e, ERR_USAGE,
                    "option --axis: \"%s\" and \"%s\" name one axis twice; all its values go "
                    "into one list",
                    text_show(own->axes.v[k]), text_show(own->axes.v[i]));
        }
    return true;
}

// --device: cuda moves cases there, in bf16 unless something else was asked for; cpu brings them back;
// auto takes a GPU that is there, except for suites that are made for a CPU.
static bool choose_device(const options *o, bench_setting *s, err *e) {
    const bench_options *own = o->own;
    bool cuda = strncmp(o->device, "cuda", 4) == 0, automatic = strcmp(o->device, "auto") == 0;
    if (!device_is_one(o, e))
        return false;
    s->plan.gpu = strncmp(o->device, "cuda:", 5) == 0 ? atoi(o->device + 5) : 0;
    if (automatic && !s->suite->cpu_only && !axis_given(own, "device")) {
        err none = {0};
        backend *be = cuda_open(0, PRECISION_BF16, 0, &none);
        cuda = be != NULL;
        backend_close(be);
    }
    for (size_t i = 0; i < s->cases.n; i++) {
        bench_case *c = &s->cases.v[i];
        if (cuda && c->at[AXIS_DEVICE] == ON_CPU && !axis_given(own, "device")) {
            c->at[AXIS_DEVICE] = ON_CUDA;
            if (c->at[AXIS_DTYPE] == DTYPE_F32 && !axis_given(own, "dtype"))
                c->at[AXIS_DTYPE] = DTYPE_BF16;
        }
        if (!cuda && !automatic) {
            c->at[AXIS_DEVICE] = ON_CPU;
            c->at[AXIS_THREADS] = c->at[AXIS_THREADS] == AXIS_UNSET ? 1 : c->at[AXIS_THREADS];
            if (c->at[AXIS_DTYPE] == DTYPE_BF16 || c->at[AXIS_DTYPE] == DTYPE_TF32)
                c->at[AXIS_DTYPE] = DTYPE_F32;
        }
        c->at[AXIS_THREADS] = c->at[AXIS_DEVICE] == ON_CUDA               ? AXIS_UNSET
                              : o->threads && !axis_given(own, "threads") ? o->threads
                                                                          : c->at[AXIS_THREADS];
    }
    return true;
}

// A row more for every kernel of a plugin that is for this kind of device and number.
static bool add_plugins(bench_setting *s, err *e) {
    static const int type[] = {[DTYPE_F32] = DELTOP_F32,
                               [DTYPE_TF32] = -1,
                               [DTYPE_BF16] = DELTOP_BF16,
                               [DTYPE_F64] = DELTOP_F64};
    size_t n = s->cases.n;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < s->plugins.n; k++) {
            bench_case c = s->cases.v[i];
            const deltop_kernel *x = s->plugins.v[k].k;
            if (c.at[AXIS_FORM] == AXIS_UNSET || c.op->kind < 0 ||
                strcmp(c.op->name, "erank") == 0 ||
                (x->device == DELTOP_CUDA) != (c.at[AXIS_DEVICE] == ON_CUDA) ||
                x->type != type[c.at[AXIS_DTYPE]])
                continue;
            c.at[AXIS_FORM] = 0;
            c.impl = s->plugins.v[k].impl;
            if (!case_list_add(&s->cases, &c, e))
                return false;
        }
    return true;
}

static bool read_slow(const bench_options *own, bench_setting *s, err *e) {
    if (!own->slow)
        return true;
    const char *equals = strchr(own->slow, '=');
    double percent = NAN;
    bool ok = equals && (size_t)(equals - own->slow) < sizeof s->slow &&
              text_number(equals + 1, &percent) && percent > 0 && percent <= 1000;
    if (!ok)
        return err_set(e, ERR_USAGE,
                       "option --slow: \"%s\" is not OPERATION=PERCENT, like gdn=15 (above 0, at "
                       "most 1000)",
                       text_show(own->slow));
    snprintf(s->slow, sizeof s->slow, "%.*s", (int)(equals - own->slow), own->slow);
    s->plan.slow_op = s->slow;
    s->plan.slow_share = percent / 100;
    return bench_op_find(s->slow, e) != NULL || err_prefix(e, "option --slow");
}

// The operations of --model in its sizes; those on a GPU over more tokens.
static bool add_model_cases(const options *o, bench_setting *s, err *e) {
    const bench_options *own = o->own;
    enum { TOKENS_CPU = 512, TOKENS_GPU = 8192 };
    if (!own->model)
        return err_set(e, ERR_USAGE, "suite %s: --model is missing", s->suite->name);
    model *m = model_open(own->model, NULL, e);
    bool cuda = strncmp(o->device, "cuda", 4) == 0;
    bool ok = m && case_list_model(&s->cases, m, cuda ? TOKENS_GPU : TOKENS_CPU, "", e);
    model_free(m);
    return ok;
}

static bool choose_cases(const options *o, bench_setting *s, err *e) {
    const bench_options *own = o->own;
    const char *name = own->suite;
    if (strcmp(name, "ci") == 0 && strncmp(o->device, "cuda", 4) == 0)
        name = "ci-gpu"; // what a GPU has to hold against is more and larger
    s->suite = bench_suite_find(name, e);
    if (!s->suite || !axes_named_once(own, e))
        return false;
    // An operation that is asked for by name needs no suite.
    bool alone = axis_given(own, "op") && !options_given(o, "suite");
    for (int i = 0; s->suite->lines && s->suite->lines[i] && !alone; i++)
        if (!case_list_read(&s->cases, s->suite->lines[i], e))
            return false;
    if (!s->suite->lines && !alone && !add_model_cases(o, s, e))
        return false;
    for (int pass = 0; pass < 2; pass++) // op= first: it makes the cases that the others change
        for (size_t i = 0; i < own->axes.n; i++)
            if ((strncmp(own->axes.v[i], "op=", 3) == 0) == (pass == 0) &&
                !case_list_axis(&s->cases, own->axes.v[i], e))
                return false;
    if (!choose_device(o, s, e))
        return false;
    return true;
}

// What a model is known by, wherever it lies: its config, and of its weights size and first megabyte.
static bool model_id(const char *path, char *buf, size_t size, err *e) {
    enum { MOST = 16 << 20, HEAD = 1 << 20 };
    char hex[65], *json = file_is_folder(path) ? file_join(path, "config.json", e) : NULL;
    size_t n = 0;
    char *text = file_read(json ? json : path, MOST, &n, e);
    sha256 s;
    sha256_init(&s);
    if (text)
        sha256_add(&s, text, n);
    err none = {0};
    ckpt *c = text ? ckpt_open(path, &none) : NULL;
    for (int i = 0; c && i < ckpt_files(c); i++) {
        size_t bytes = ckpt_file_bytes(c, i), head = bytes < HEAD ? bytes : HEAD;
        size_t whole = 0;
        int fd = file_open(ckpt_file(c, i), &whole, &none);
        char *part = mem_alloc(head, 1, "a checkpoint", e);
        if (part && fd >= 0 && file_read_at(fd, ckpt_file(c, i), 0, part, head, &none))
            sha256_add(&s, part, head);
        sha256_add(&s, &bytes, sizeof bytes);
        free(part);
        if (fd >= 0)
            close(fd);
    }
    ckpt_close(c);
    sha256_hex(&s, hex);
    snprintf(buf, size, "%.16s", hex);
    bool ok = text != NULL;
    free(text);
    free(json);
    return ok;
}

bool bench_setup_make(const options *o, bench_setting *s, err *e) {
    const bench_options *own = o->own;
    *s = (bench_setting){0};
    for (size_t i = 0; i < own->plugins.n; i++)
        if (!plugins_add(&s->plugins, own->plugins.v[i], e))
            return false;
    if (!choose_cases(o, s, e) || !read_slow(own, s, e) || !add_plugins(s, e))
        return false;
    case_list_match(&s->cases, own->cases.v, own->cases.n);
    for (size_t i = 0; i < s->cases.n; i++) {
        bench_case *c = &s->cases.v[i];
        if (!c->op->needs_model)
            continue;
        if (!own->model)
            return err_set(
                e, ERR_USAGE,
                "a case needs a model: --model with a folder that holds config.json, with "
                "weights or without");
        c->model = own->model;
        if (!model_id(own->model, c->model_id, sizeof c->model_id, e))
            return false;
    }
    for (size_t i = 0; i < own->axes.n && s->cases.n > 0; i++)
        if (!case_list_has_axis(&s->cases, own->axes.v[i]))
            return err_set(e, ERR_USAGE,
                           "option --axis: no case that is left has the axis of \"%s\"",
                           text_show(own->axes.v[i]));
    if (s->cases.n == 0)
        return err_set(e, ERR_USAGE, "no case is left; deltop bench --list shows what there is");
    s->plan.cases = &s->cases;
    s->plan.plugins = &s->plugins;
    s->plan.seconds =
        options_given(o, "budget") ? own->budget * (double)s->cases.n : s->suite->seconds;
    s->plan.precision = 0.005;
    s->plan.rounds = (int)own->rounds;
    s->plan.cold = !own->no_cold;
    s->plan.seed = (uint64_t)o->seed;
    return true;
}

void bench_setup_free(bench_setting *s) {
    case_list_free(&s->cases);
    plugins_free(&s->plugins);
}
