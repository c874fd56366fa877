#include "bench/case.h"

#include "bench/op.h"
#include "core/mem.h"
#include "core/text.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG ((int64_t)1 << 40)

const axis_spec bench_axes[N_AXES] = {
    [AXIS_B] = {"B", NULL, 1, 1 << 20, "rows"},
    [AXIS_T] = {"T", NULL, 1, BIG, "tokens of a row"},
    [AXIS_H] = {"H", NULL, 1, 1 << 16, "key heads"},
    [AXIS_HV] = {"Hv", NULL, 1, 1 << 16, "value heads"},
    [AXIS_K] = {"K", NULL, 1, 4096, "key size"},
    [AXIS_V] = {"V", NULL, 1, 4096, "value size"},
    [AXIS_N] = {"n", NULL, 1, 64, "micro-steps per token"},
    [AXIS_D] = {"D", NULL, 1, 1 << 20, "width of a row"},
    [AXIS_VOCAB] = {"vocab", NULL, 2, 1 << 24, "vocabulary"},
    [AXIS_W] = {"W", NULL, 1, 1 << 20, "taps of a convolution, tokens of a window"},
    [AXIS_BETA] = {"beta", NULL, 1, 2, "largest write strength"},
    [AXIS_KEYS] = {"keys", "random|correlated|same", 0, 2, "directions of the keys"},
    [AXIS_INPUT] = {"input", "random|zeros", 0, 1, "zeros are faster than real numbers"},
    [AXIS_FORM] = {"form", "auto|step|chunk|portable", 0, 3, "form of a recurrence"},
    [AXIS_DOCS] = {"docs", NULL, 1, 1 << 20, "documents of uneven lengths in a row"},
    [AXIS_EVERY] = {"every", NULL, 0, BIG, "tokens between boundary states, 0 for none"},
    [AXIS_DTYPE] = {"dtype", "f32|tf32|bf16|f64", 0, 3, "number format"},
    [AXIS_DEVICE] = {"device", "cpu|cuda", 0, 1, "where"},
    [AXIS_THREADS] = {"threads", NULL, 1, 1024, "threads on the CPU"},
};

// Axes that say how and not what: the name shows them only when they are not the usual.
static const int64_t usual[N_AXES] = {
    [AXIS_B] = 1,    [AXIS_T] = 1,    [AXIS_K] = 1,     [AXIS_V] = 1,      [AXIS_N] = 1,
    [AXIS_D] = 1,    [AXIS_W] = 1,    [AXIS_BETA] = 1,  [AXIS_KEYS] = 0,   [AXIS_INPUT] = 0,
    [AXIS_FORM] = 0, [AXIS_DOCS] = 1, [AXIS_EVERY] = 0, [AXIS_THREADS] = 1};

// Axes younger than results that are kept: cases that have them as usual are called what they were.
static bool said(int axis, int64_t v) {
    return v != AXIS_UNSET && !((axis == AXIS_DOCS || axis == AXIS_EVERY) && v == usual[axis]);
}

const char *axis_choice(axis_id axis, int64_t value) {
    static _Thread_local char buf[4][24];
    static _Thread_local int turn;
    const char *s = bench_axes[axis].choices;
    if (!s)
        return NULL;
    while (value-- > 0 && (s = strchr(s, '|')))
        s++;
    if (!s)
        return NULL;
    char *b = buf[turn++ % 4];
    snprintf(b, sizeof buf[0], "%.*s", (int)strcspn(s, "|"), s);
    return b;
}

static axis_id axis_find(const char *name, size_t n) {
    axis_id i = 0;
    while (i < N_AXES &&
           (strlen(bench_axes[i].name) != n || strncmp(bench_axes[i].name, name, n) != 0))
        i++;
    return i;
}

// "12", "4k", "1M"; digits only in front.
static bool whole(const char *s, int64_t *out) {
    char *end;
    if (*s < '0' || *s > '9')
        return false;
    *out = strtoll(s, &end, 10);
    int64_t unit = *end == 'k' ? 1 << 10 : *end == 'M' ? 1 << 20 : 1;
    return !end[unit > 1] && !__builtin_mul_overflow(*out, unit, out);
}

bool axis_value(axis_id axis, const char *text, int64_t *out, err *e) {
    const axis_spec *a = &bench_axes[axis];
    if (a->choices) {
        for (int64_t i = a->lo; i <= a->hi; i++)
            if (strcmp(axis_choice(axis, i), text) == 0) {
                *out = i;
                return true;
            }
        return err_set(e, ERR_USAGE, "axis %s: \"%s\" is not known; it takes %s", a->name,
                       text_show(text), a->choices);
    }
    if (!whole(text, out) || *out < a->lo || *out > a->hi)
        return err_set(e, ERR_USAGE, "axis %s: \"%s\" is no whole number from %lld to %lld",
                       a->name, text_show(text), (long long)a->lo, (long long)a->hi);
    return true;
}

int case_esize(const bench_case *c) {
    static const int size[] = {4, 4, 2, 8};
    return size[c->at[AXIS_DTYPE]];
}

char *case_name(const bench_case *c, char *buf, size_t size) {
    size_t at = (size_t)snprintf(buf, size, "%s", c->op->name);
    for (int i = 0; i < N_AXES && at < size; i++) {
        int64_t v = c->at[i];
        if (v == AXIS_UNSET || (i == AXIS_HV && v == c->at[AXIS_H]) ||
            (v == usual[i] && (i >= AXIS_BETA || i == AXIS_N) && i != AXIS_DTYPE &&
             i != AXIS_DEVICE))
            continue;
        const char *word = axis_choice((axis_id)i, v);
        if (word)
            at += (size_t)snprintf(buf + at, size - at, ".%s", word);
        else
            at +=
                (size_t)snprintf(buf + at, size - at, ".%s%lld", bench_axes[i].name, (long long)v);
    }
    if (c->model[0] && at < size) {
        const char *base = strrchr(c->model, '/');
        at += (size_t)snprintf(buf + at, size - at, ".%s", text_show(base ? base + 1 : c->model));
    }
    if (strcmp(c->impl, "deltop") != 0 && at < size)
        snprintf(buf + at, size - at, ".%s", text_show(c->impl));
    return buf;
}

json_t *case_params(const bench_case *c) {
    json_t *o = json_object();
    bool ok = json_object_set_new(o, "op", json_string(c->op->name)) == 0;
    for (int i = 0; i < N_AXES && ok; i++) {
        const char *word = axis_choice((axis_id)i, c->at[i] == AXIS_UNSET ? 0 : c->at[i]);
        if (said(i, c->at[i]))
            ok = json_object_set_new(o, bench_axes[i].name,
                                     word ? json_string(word) : json_integer(c->at[i])) == 0;
    }
    ok = ok && json_object_set_new(o, "impl", json_string(text_show(c->impl))) == 0;
    // By content: the same model has many paths (fault B135).
    if (ok && c->model[0])
        ok = json_object_set_new(o, "model", json_string(c->model_id)) == 0;
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

void case_list_free(case_list *l) {
    free(l->v);
    *l = (case_list){0};
}

static bool same(const bench_case *a, const bench_case *b) {
    return a->op == b->op && memcmp(a->at, b->at, sizeof a->at) == 0 &&
           strcmp(a->impl, b->impl) == 0 && strcmp(a->model, b->model) == 0;
}

bool case_list_add(case_list *l, const bench_case *c, err *e) {
    for (size_t i = 0; i < l->n; i++)
        if (same(&l->v[i], c))
            return true;
    if (!mem_grow((void **)&l->v, &l->cap, l->n + 1, sizeof *l->v, "bench cases", e))
        return false;
    l->v[l->n++] = *c;
    return true;
}

// Value heads follow the key heads until they are named.
static void set_axis(bench_case *c, axis_id axis, int64_t v) {
    c->values_named |= axis == AXIS_HV;
    if (axis == AXIS_H && c->at[AXIS_HV] == c->at[AXIS_H] && !c->values_named)
        c->at[AXIS_HV] = v;
    if (axis == AXIS_DEVICE) { // threads are the CPU's, one until they are named
        int64_t threads = c->at[AXIS_THREADS];
        c->at[AXIS_THREADS] = v == ON_CUDA ? AXIS_UNSET : threads == AXIS_UNSET ? 1 : threads;
    }
    c->at[axis] = v;
}

// Replaces every case that has the axis by one for each value of TEXT = "NAME=LIST". any: whether one
// had it.
static bool spread(case_list *l, const char *text, size_t n, bool *any, err *e) {
    char word[512];
    snprintf(word, sizeof word, "%.*s", (int)n, text);
    char *equals = strchr(word, '='), *save = NULL;
    if (n >= sizeof word || !equals || equals == word || !equals[1])
        return err_set(e, ERR_USAGE, "\"%s\" is no axis with values, like T=1024,4096",
                       text_show(word));
    axis_id axis = axis_find(word, (size_t)(equals - word));
    if (axis == N_AXES) {
        char known[256] = "";
        for (int i = 0; i < N_AXES; i++)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                     bench_axes[i].name);
        *equals = 0;
        return err_set(e, ERR_USAGE, "axis \"%s\" is not known; there are op, %s", text_show(word),
                       known);
    }
    case_list out = {0};
    bool ok = true;
    for (char *v = strtok_r(equals + 1, ",", &save); ok && v; v = strtok_r(NULL, ",", &save)) {
        int64_t value;
        ok = axis_value(axis, v, &value, e);
        for (size_t i = 0; ok && i < l->n; i++) {
            bench_case c = l->v[i];
            if (c.at[axis] != AXIS_UNSET) {
                set_axis(&c, axis, value);
                *any = true;
            }
            ok = case_list_add(&out, &c, e);
        }
    }
    case_list_free(ok ? l : &out);
    if (ok)
        *l = out;
    return ok;
}

bool case_list_axis(case_list *l, const char *text, err *e) {
    if (strncmp(text, "op=", 3) == 0) { // chooses among the cases, or begins new ones
        case_list kept = {0};
        char list[512], *save = NULL;
        bool ok = true;
        snprintf(list, sizeof list, "%s", text + 3);
        for (char *v = strtok_r(list, ",", &save); ok && v; v = strtok_r(NULL, ",", &save)) {
            const bench_op *op = bench_op_find(v, e);
            size_t before = kept.n;
            for (size_t i = 0; op && ok && i < l->n; i++)
                if (l->v[i].op == op)
                    ok = case_list_add(&kept, &l->v[i], e);
            if (op && ok && kept.n == before)
                ok = case_list_read(&kept, v, e);
            ok = ok && op;
        }
        case_list_free(l);
        *l = kept;
        return ok;
    }
    bool any = false;
    if (!spread(l, text, strlen(text), &any, e))
        return err_prefix(e, "option --axis");
    return any || l->n == 0 ||
           err_set(e, ERR_USAGE, "option --axis: no chosen case has the axis of \"%s\"",
                   text_show(text));
}

bool case_list_has_axis(const case_list *l, const char *text) {
    axis_id axis = axis_find(text, strcspn(text, "="));
    if (strncmp(text, "op=", 3) == 0)
        return true;
    for (size_t i = 0; axis < N_AXES && i < l->n; i++)
        if (l->v[i].at[axis] != AXIS_UNSET)
            return true;
    return false;
}

bool case_list_read(case_list *l, const char *line, err *e) {
    size_t n = strcspn(line, " ");
    char op[64];
    snprintf(op, sizeof op, "%.*s", (int)n, line);
    bench_case c = {.op = bench_op_find(op, e), .impl = "deltop", .model = ""};
    if (!c.op)
        return false;
    for (int i = 0; i < N_AXES; i++)
        c.at[i] = c.op->axes >> i & 1 ? usual[i] : AXIS_UNSET;
    c.at[AXIS_DTYPE] = DTYPE_F32;
    c.at[AXIS_DEVICE] = ON_CPU;
    c.at[AXIS_THREADS] = 1;
    case_list one = {0};
    bool ok = case_list_add(&one, &c, e);
    // The operation's own defaults come first, then what the line says.
    for (int pass = 0; pass < 2; pass++)
        for (const char *p = pass ? line + n : c.op->usual; ok && *p;) {
            p += strspn(p, " ");
            size_t len = strcspn(p, " ");
            bool any = false;
            if (len)
                ok = spread(&one, p, len, &any, e);
            if (!ok)
                err_prefix(e, "case %s", op);
            else if (len && !any)
                ok = err_set(e, ERR_USAGE, "case %s: the operation has no axis %.*s", op,
                             (int)strcspn(p, "="), p);
            p += len;
        }
    for (size_t i = 0; ok && i < one.n; i++)
        ok = case_list_add(l, &one.v[i], e);
    case_list_free(&one);
    return ok;
}

bool case_list_params(case_list *l, const json_t *params, err *e) {
    char line[512];
    const char *op = json_string_value(json_object_get(params, "op"));
    const char *impl = json_string_value(json_object_get(params, "impl"));
    err own = {0};
    if (!op || (impl && strcmp(impl, "deltop") != 0) || json_object_get(params, "model"))
        return true;
    int n = snprintf(line, sizeof line, "%s", op);
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)params, key, v) {
        if (strcmp(key, "op") == 0 || strcmp(key, "impl") == 0 || n >= (int)sizeof line)
            continue;
        if (json_is_integer(v))
            n += snprintf(line + n, sizeof line - (size_t)n, " %s=%lld", key,
                          (long long)json_integer_value(v));
        else if (json_is_string(v))
            n += snprintf(line + n, sizeof line - (size_t)n, " %s=%s", key, json_string_value(v));
    }
    if (n >= (int)sizeof line || !case_list_read(l, line, &own))
        return own.code != ERR_NOMEM || err_set(e, own.code, "%s", own.text);
    return true;
}

void case_list_match(case_list *l, const char *const *pattern, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++) {
        char name[CASE_NAME];
        case_name(&l->v[i], name, sizeof name);
        bool fits = n == 0;
        for (size_t k = 0; k < n && !fits; k++)
            fits = strpbrk(pattern[k], "*?[") ? fnmatch(pattern[k], name, 0) == 0
                                              : strstr(name, pattern[k]) != NULL;
        if (fits)
            l->v[kept++] = l->v[i];
    }
    l->n = kept;
}
