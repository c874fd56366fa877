#include "bench/random_model.h"

#include "core/config.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/model.h"
#include "core/outfile.h"
#include "core/random.h"
#include "core/text.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct wanted {
    char *name;
    int64_t n, rows, cols;
} wanted;

typedef struct wishes {
    wanted *v;
    size_t n, cap;
    err e;
} wishes;

static void wish(void *ctx, const char *name, int64_t n, int64_t rows, int64_t cols) {
    wishes *w = ctx;
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->v[i].name, name) == 0)
            return;
    if (!mem_grow((void **)&w->v, &w->cap, w->n + 1, sizeof *w->v, "a list of tensors", &w->e))
        return;
    char *copy = mem_strdup(name, &w->e);
    if (copy)
        w->v[w->n++] = (wanted){copy, n, rows, cols};
}

static bool holds(const char *name, const char *part) {
    return strstr(name, part) != NULL;
}

static double value(const wanted *w, uint64_t *r) {
    if (holds(w->name, "A_log"))
        return log(1 + 15 * random_uniform(r));
    if (holds(w->name, "dt_bias")) // a time step between 0.001 and 0.1
        return log(expm1(exp(log(1e-3) + random_uniform(r) * log(100.0))));
    if (w->n == 1 && w->rows == 1) // norms and biases
        return holds(w->name, "norm") && !holds(w->name, "bias") ? 1 : 0.02 * random_normal(r);
    return random_normal(r) / sqrt((double)w->cols);
}

static uint16_t bf16(double x) {
    float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

static char *header(const wishes *w, int64_t *numbers, err *e) {
    json_t *o = json_object();
    int64_t at = 0;
    bool ok = o != NULL;
    for (size_t i = 0; ok && i < w->n; i++) {
        const wanted *t = &w->v[i];
        int64_t count = t->n * t->rows * t->cols;
        json_t *shape =
            t->n > 1
                ? json_pack("[I, I, I]", (json_int_t)t->n, (json_int_t)t->rows, (json_int_t)t->cols)
            : t->rows > 1 ? json_pack("[I, I]", (json_int_t)t->rows, (json_int_t)t->cols)
                          : json_pack("[I]", (json_int_t)t->cols);
        ok = json_object_set_new(o, t->name,
                                 json_pack("{s:s, s:o, s:[I, I]}", "dtype", "BF16", "shape", shape,
                                           "data_offsets", (json_int_t)(2 * at),
                                           (json_int_t)(2 * (at + count)))) == 0;
        at += count;
    }
    char *text = ok ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    *numbers = at;
    if (!text)
        err_set(e, ERR_NOMEM, "out of memory: a header");
    return text;
}

static bool write_numbers(outfile *f, const wishes *w, uint64_t seed, err *e) {
    enum { PIECE = 1 << 16 };
    uint16_t *piece = mem_alloc(PIECE, sizeof *piece, "weights", e);
    uint64_t r = seed ^ UINT64_C(0x6d6f64656c);
    bool ok = piece != NULL;
    for (size_t i = 0; ok && i < w->n; i++) {
        int64_t left = w->v[i].n * w->v[i].rows * w->v[i].cols;
        for (; ok && left > 0; left -= PIECE) {
            int64_t n = left < PIECE ? left : PIECE;
            for (int64_t k = 0; k < n; k++)
                piece[k] = bf16(value(&w->v[i], &r));
            ok = outfile_write(f, piece, (size_t)n * sizeof *piece, e);
        }
    }
    free(piece);
    return ok;
}

bool random_model_write(const char *path, const char *folder, uint64_t seed, int64_t *numbers,
                        err *e) {
    wishes w = {0};
    config *cfg = config_open(path, e);
    char *file = cfg ? file_join(folder, "model.safetensors", e) : NULL, *head = NULL;
    outfile *f = NULL;
    bool ok = file && model_wants(cfg, wish, &w, e);
    if (ok && w.e.code != ERR_NONE)
        ok = err_set(e, w.e.code, "%s", w.e.text);
    ok = ok && (head = header(&w, numbers, e)) && (f = outfile_open(file, e));
    if (ok) {
        uint64_t n = strlen(head);
        ok = outfile_write(f, &n, sizeof n, e) && outfile_write(f, head, (size_t)n, e) &&
             write_numbers(f, &w, seed, e) && outfile_commit(f, e);
    }
    outfile_close(f);
    for (size_t i = 0; i < w.n; i++)
        free(w.v[i].name);
    free(w.v);
    free(head);
    free(file);
    config_close(cfg);
    return ok;
}
