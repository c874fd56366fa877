#include "analyses/report/row_store.h"

#include "core/mem.h"
#include "core/sha256.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- apart --------------------------------------------------------------------------------------

static void put_loss(const loss_result *r, flat *f) {
    flat_put_ints(f, (int64_t[]){r->n, r->train_length, r->right, (int64_t)r->ids_mark, r->n_flags},
                  5);
    for (int64_t i = 0; i < r->n_flags; i++)
        flat_put_ints(f, (int64_t[]){r->flag[i].position, r->flag[i].kind},
                      2); // texts: the parcel's
}

static size_t ranks(const erank_result *r) {
    return (size_t)r->rows * (size_t)r->n_layers * (size_t)r->n_heads * (size_t)r->positions;
}

static void put_erank(const erank_result *r, flat *f) {
    flat_put_ints(f,
                  (int64_t[]){r->n_layers, r->prec, r->every, r->train_length, r->top, r->rows,
                              r->length, r->n_heads, r->positions, r->n_left_out, r->K, r->V,
                              r->n_h, r->max_rank, r->n_starts, r->zero, r->broken},
                  17);
    flat_put(f, &r->cut, 1);
    flat_put_ints(f, r->starts, ERANK_MAX_STARTS);
    for (int i = 0; i < r->n_layers; i++)
        flat_put_int(f, r->layer[i]);
    for (int i = 0; i < r->n_heads; i++)
        flat_put_int(f, r->head[i]);
    for (int i = 0; i < r->n_left_out; i++)
        flat_put_int(f, r->left_out[i]);
    for (int q = 0; q < ERANK_QUANTITIES; q++)
        flat_put(f, r->v[q], ranks(r));
}

static void put_heads(const row_record *r, flat *f) {
    const head_stats *s = &r->heads;
    flat_put_ints(f, (int64_t[]){s->T, s->every, s->bins, s->n_layers}, 4);
    for (int i = 0; i < s->n_layers; i++) {
        size_t H = (size_t)s->shape[i].H;
        flat_put_int(f, s->layer[i]);
        flat_put_shape(f, &s->shape[i]);
        flat_put(f, s->mean[i], H * HEAD_SIGNALS * (size_t)s->bins);
        flat_put(f, s->keys[i], H * HEAD_KEY_SHAPES);
        flat_put(f, r->boundary[i], H * BOUNDARY_NUMBERS);
        if (r->boundaries)
            flat_put(f, r->aligned[i], H * BOUNDARY_ALIGNED * BOUNDARY_SPAN);
    }
}

// Of all numbers of a file.
static void digest(const double *loss, size_t n_loss, const flat *f, char out[65]) {
    sha256 s;
    sha256_init(&s);
    sha256_add(&s, loss, n_loss * sizeof *loss);
    sha256_add(&s, f->real, f->n_real * sizeof *f->real);
    sha256_add(&s, f->whole, f->n_whole * sizeof *f->whole);
    sha256_hex(&s, out);
}

bool row_record_save(const row_record *r, const row_origin *from, const char *path, err *e) {
    flat f = {0};
    char name[32];
    flat_put_ints(&f, (int64_t[]){r->boundaries, r->documents, r->n_check}, 3);
    flat_put(&f, (double[]){r->check_error, r->check_bias}, 2);
    put_loss(&r->loss, &f);
    put_heads(r, &f);
    flat_put_int(&f, r->erank.n_layers > 0);
    if (r->erank.n_layers > 0) {
        put_erank(&r->erank, &f);
        flat_put_int(&f, r->spectrum.n_layers > 0);
        if (r->spectrum.n_layers > 0)
            spectrum_flatten(&r->spectrum, &f);
    }
    parcel *p = parcel_new(e);
    bool ok = p && (f.fail.code == ERR_NONE || err_set(e, f.fail.code, "%s", f.fail.text));
    if (ok) {
        parcel_add_text(p, "format", ROW_FORMAT);
        char sum[65];
        digest(r->loss.loss, (size_t)r->loss.n, &f, sum);
        parcel_add_text(p, "sha256", sum);
        parcel_add_text(p, "settings", from->settings);
        parcel_add_text(p, "document", from->document);
        snprintf(name, sizeof name, "%lld", (long long)from->tokens);
        parcel_add_text(p, "tokens", name);
        parcel_add_text(p, "device", r->device);
        parcel_add_text(p, "check", r->check_why);
        parcel_add_text(p, "spectrum", r->spectrum_why);
        for (int64_t i = 0; i < r->loss.n_flags; i++) {
            snprintf(name, sizeof name, "flag%d", (int)i);
            parcel_add_text(p, name, r->loss.flag[i].what);
        }
        parcel_add_f64(p, "loss", r->loss.loss, (size_t)r->loss.n);
        parcel_add_f64(p, "real", f.real, f.n_real);
        parcel_add_i64(p, "whole", f.whole, f.n_whole);
        ok = parcel_save(p, path, e);
    }
    parcel_free(p);
    flat_free(&f);
    return ok;
}

// ---- together -----------------------------------------------------------------------------------

static bool fits(const int64_t *v, int n, err *e) {
    for (int i = 0; i < n; i++)
        if (v[i] < 0 || v[i] > INT32_MAX)
            return err_set(e, ERR_INPUT, "a record with impossible sizes");
    return true;
}

static bool get_loss(loss_result *r, flat *f, const parcel *p, const char *model,
                     const char *document, err *e) {
    int64_t n[5];
    char name[32];
    flat_get_ints(f, n, 5);
    // The training length is no size of anything here.
    if (!fits(n, 1, e) || n[1] < 0 || !fits(n + 2, 1, e) || n[4] < 0 || n[4] > LOSS_MAX_FLAGS)
        return err_set(e, ERR_INPUT, "a record with impossible sizes");
    const double *loss = parcel_f64(p, "loss", (size_t)n[0], e);
    if (!loss || !loss_init(r, model, document, 1, n[0], n[1], e))
        return false;
    if (n[0])
        memcpy(r->loss, loss, (size_t)n[0] * sizeof *loss);
    r->right = n[2];
    r->ids_mark = (uint64_t)n[3];
    r->n_flags = n[4];
    for (int64_t i = 0; i < r->n_flags; i++) {
        snprintf(name, sizeof name, "flag%d", (int)i);
        const char *what = parcel_text(p, name);
        r->flag[i].position = flat_get_int(f);
        r->flag[i].kind = (loss_flag_kind)flat_get_int(f);
        snprintf(r->flag[i].what, sizeof r->flag[i].what, "%s", what ? what : "");
    }
    return true;
}

static int *get_list(flat *f, int n, err *e) {
    int *v = mem_alloc((size_t)n, sizeof *v, "a list", e);
    for (int i = 0; v && i < n; i++)
        v[i] = (int)flat_get_int(f);
    return v;
}

static bool get_erank(erank_result *r, flat *f, const char *model, const char *document,
                      const char *device, err *e) {
    int64_t n[17];
    flat_get_ints(f, n, 17);
    if (!fits(n, 3, e) || n[3] < 0 || !fits(n + 4, 13, e)) // n[3]: the training length, no size
        return err_set(e, ERR_INPUT, "a record with impossible sizes");
    *r = (erank_result){.n_layers = (int)n[0],
                        .prec = (precision)n[1],
                        .every = n[2],
                        .train_length = n[3],
                        .top = (int)n[4],
                        .rows = n[5],
                        .length = n[6],
                        .n_heads = (int)n[7],
                        .positions = n[8],
                        .n_left_out = (int)n[9],
                        .K = (int)n[10],
                        .V = (int)n[11],
                        .n_h = (int)n[12],
                        .max_rank = (int)n[13],
                        .n_starts = n[14],
                        .zero = n[15],
                        .broken = n[16],
                        .device = device};
    flat_get(f, &r->cut, 1);
    flat_get_ints(f, r->starts, ERANK_MAX_STARTS);
    r->model = mem_strdup(model, e);
    r->document = mem_strdup(document, e);
    r->layer = get_list(f, r->n_layers, e);
    r->head = get_list(f, r->n_heads, e);
    r->left_out = get_list(f, r->n_left_out, e);
    bool ok =
        r->model && r->document && r->layer && r->head && r->left_out && ranks(r) <= f->n_real;
    for (int q = 0; ok && q < ERANK_QUANTITIES; q++) {
        r->v[q] = mem_alloc(ranks(r), sizeof(double), "ranks", e);
        ok = r->v[q] != NULL;
        if (ok)
            flat_get(f, r->v[q], ranks(r));
    }
    return ok || err_set(e, ERR_INPUT, "a record that ends early");
}

static bool get_heads(row_record *r, flat *f, err *e) {
    int64_t n[4];
    head_stats *s = &r->heads;
    flat_get_ints(f, n, 4);
    if (!fits(n, 4, e) || n[3] > 1 << 20)
        return err_set(e, ERR_INPUT, "a record with impossible sizes");
    *s = (head_stats){.T = n[0], .every = n[1], .bins = n[2]};
    size_t L = (size_t)n[3];
    s->layer = mem_alloc(L, sizeof *s->layer, "layers", e);
    s->shape = mem_alloc(L, sizeof *s->shape, "layers", e);
    s->mean = mem_zalloc(L, sizeof *s->mean, "layers", e);
    s->keys = mem_zalloc(L, sizeof *s->keys, "layers", e);
    r->boundary = mem_zalloc(L, sizeof *r->boundary, "layers", e);
    r->aligned = mem_zalloc(L, sizeof *r->aligned, "layers", e);
    if (!s->layer || !s->shape || !s->mean || !s->keys || !r->boundary || !r->aligned)
        return false;
    while (s->n_layers < (int)L && f->fail.code == ERR_NONE) {
        int i = s->n_layers++;
        s->layer[i] = (int)flat_get_int(f);
        s->shape[i] = flat_get_shape(f);
        size_t H = s->shape[i].H > 0 ? (size_t)s->shape[i].H : 0,
               bins = H * HEAD_SIGNALS * (size_t)s->bins;
        if (bins > f->n_real)
            return err_set(e, ERR_INPUT, "a record that ends early");
        s->mean[i] = mem_alloc(bins, sizeof(double), "statistics of heads", e);
        s->keys[i] = mem_alloc(H * HEAD_KEY_SHAPES, sizeof(double), "statistics of heads", e);
        r->boundary[i] = mem_alloc(H * BOUNDARY_NUMBERS, sizeof(double), "boundaries", e);
        size_t span = H * BOUNDARY_ALIGNED * BOUNDARY_SPAN;
        r->aligned[i] = mem_alloc(span, sizeof(double), "boundaries", e);
        if (!s->mean[i] || !s->keys[i] || !r->boundary[i] || !r->aligned[i])
            return false;
        flat_get(f, s->mean[i], bins);
        flat_get(f, s->keys[i], H * HEAD_KEY_SHAPES);
        flat_get(f, r->boundary[i], H * BOUNDARY_NUMBERS);
        for (size_t k = 0; k < span; k++)
            r->aligned[i][k] = NAN;
        if (r->boundaries)
            flat_get(f, r->aligned[i], span);
    }
    return true;
}

static bool get_all(row_record *r, flat *f, const parcel *p, const char *model,
                    const char *document, err *e) {
    int64_t n[3];
    double x[2];
    flat_get_ints(f, n, 3);
    flat_get(f, x, 2);
    *r = (row_record){.boundaries = n[0],
                      .documents = n[1],
                      .n_check = n[2],
                      .check_error = x[0],
                      .check_bias = x[1]};
    const char *device = parcel_text(p, "device"), *check = parcel_text(p, "check"),
               *spectrum = parcel_text(p, "spectrum");
    snprintf(r->spectrum_why, sizeof r->spectrum_why, "%s", spectrum ? spectrum : "");
    snprintf(r->device, sizeof r->device, "%s", device ? device : "");
    snprintf(r->check_why, sizeof r->check_why, "%s", check ? check : "");
    if (!get_loss(&r->loss, f, p, model, document, e) || !get_heads(r, f, e))
        return false;
    if (flat_get_int(f)) {
        if (!get_erank(&r->erank, f, model, document, r->device, e) ||
            (flat_get_int(f) && !spectrum_unflatten(&r->spectrum, f, e)))
            return false;
    }
    return f->fail.code == ERR_NONE || err_set(e, f->fail.code, "%s", f->fail.text);
}

// A document that was written to while a report ran, or since: naming settings would send the reader to
// the wrong place.
static bool refuse(const parcel *p, const row_origin *from, err *e) {
    const char *document = parcel_text(p, "document"), *tokens = parcel_text(p, "tokens");
    if (!document || !tokens || strcmp(document, from->document) == 0)
        return err_set(e, ERR_INPUT, "was made with other settings");
    long long then = strtoll(tokens, NULL, 10), now = (long long)from->tokens;
    if (then == now)
        return err_set(e, ERR_INPUT, "was made before the document changed");
    return err_set(e, ERR_INPUT, "was made when the document had %lld tokens; it has %lld now",
                   then, now);
}

static bool belongs(const parcel *p, const row_origin *from, err *e) {
    const char *format = parcel_text(p, "format"), *stored = parcel_text(p, "settings");
    if (!format || strcmp(format, ROW_FORMAT) != 0)
        return err_set(e, ERR_INPUT, "is no \"" ROW_FORMAT "\"");
    return (stored && strcmp(stored, from->settings) == 0) || refuse(p, from, e);
}

static bool intact(const parcel *p, const flat *f, err *e) {
    char sum[65];
    size_t n = parcel_length(p, "loss");
    const double *loss = parcel_f64(p, "loss", n, e);
    const char *stored = parcel_text(p, "sha256");
    if (!loss)
        return false;
    digest(loss, n, f, sum);
    return (stored && strcmp(stored, sum) == 0) ||
           err_set(e, ERR_INPUT, "is damaged: its numbers are not those that were written");
}

bool row_record_is(const char *path, const row_origin *from) {
    parcel *p = parcel_load(path, NULL);
    bool yes = p && belongs(p, from, NULL);
    parcel_free(p);
    return yes;
}

bool row_record_load(row_record *r, const char *path, const row_origin *from, const char *model,
                     const char *document, err *e) {
    *r = (row_record){0};
    parcel *p = parcel_load(path, e);
    if (!p)
        return false;
    err mine = {0};
    flat f = {.n_real = parcel_length(p, "real"), .n_whole = parcel_length(p, "whole")};
    // Lent by the parcel, not owned: only read.
    f.real = (double *)parcel_f64(p, "real", f.n_real, &mine);
    f.whole = (int64_t *)parcel_i64(p, "whole", f.n_whole, &mine);
    bool ok = belongs(p, from, &mine) && f.real && f.whole && intact(p, &f, &mine) &&
              get_all(r, &f, p, model, document, &mine);
    if (!ok) {
        row_record_free(r);
        err_set(e, mine.code == ERR_NONE ? ERR_INPUT : mine.code, "%s: %s", text_show(path),
                mine.code == ERR_NONE ? "is no record" : mine.text);
    }
    parcel_free(p);
    return ok;
}
