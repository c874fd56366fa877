// On a device that computes in bfloat16, matrices and activations have one element, vectors, states
// and decays another. A backend that only looks at the elements of what it is handed: every family's
// forward pass keeps to what core/backend.h says of them.
#include "core/forward.h"
#include "tests/files.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NARROW = 2, EXACT = 4, T = 8 };
static const char *folder;
static int recurrences;

static void want(bool ok, const char *what) {
    if (!ok)
        fail_msg("%s: %s", folder, what);
}
#define WANT(x) want(x, #x)

static mat get(int64_t rows, int64_t cols, int esize) {
    size_t n = (size_t)(rows * cols * esize);
    return (mat){calloc(n ? n : 1, 1), rows, cols, cols, esize};
}
static mat alloc(backend *be, int64_t rows, int64_t cols) {
    return get(rows, cols, be->esize);
}
static mat alloc_exact(backend *be, int64_t rows, int64_t cols) {
    return get(rows, cols, be->exact_esize);
}
static void release(backend *be, mat m) {
    (void)be;
    free(m.p);
}
static void zero(backend *be, mat m) {
    (void)be, (void)m;
}
static void copy(backend *be, mat from, mat to) {
    (void)be;
    WANT(from.rows == to.rows && from.cols == to.cols);
}
static void read_zeros(backend *be, mat from, double *to) {
    (void)be;
    memset(to, 0, (size_t)(from.rows * from.cols) * sizeof *to);
}
static void write_nothing(backend *be, const double *from, mat to) {
    (void)be, (void)from, (void)to;
}
static void embed(backend *be, mat table, const int32_t *ids, mat y) {
    (void)be, (void)ids;
    WANT(table.esize == y.esize);
}
static void linear(backend *be, mat x, mat w, mat bias, mat y) {
    (void)be;
    WANT(x.esize == w.esize);
    WANT(x.cols == w.cols && y.cols == w.rows && x.rows == y.rows);
    WANT(mat_none(bias) || bias.cols == y.cols);
}
static void linear_exact(backend *be, mat x, mat w, mat bias, mat y) {
    linear(be, x, w, bias, y);
    WANT(y.esize == EXACT);
}
static void linear_add(backend *be, mat x, mat w, mat bias, double scale, mat y) {
    (void)scale;
    linear(be, x, w, bias, y);
    WANT(y.esize == NARROW);
}
// Declines every other time, so that the composition is looked at too.
static bool conv_heads(backend *be, mat x, const conv_part *part, int n) {
    static int calls;
    int64_t at = 0;
    (void)be;
    for (int i = 0; i < n; i++) {
        const conv_part *p = &part[i];
        WANT(p->w.rows == p->y.cols && p->y.rows == x.rows && p->y.esize == x.esize);
        WANT(p->tail.cols == p->y.cols && p->tail.esize == x.esize);
        WANT(p->norm == HEAD_NORM_NONE || p->y.cols % p->head_dim == 0);
        at += p->y.cols;
    }
    WANT(at == x.cols);
    return calls++ % 2;
}
static void add(backend *be, mat x, double scale, mat y) {
    (void)be, (void)scale;
    WANT(x.esize == y.esize);
}
static void rms_norm(backend *be, mat x, mat w, double eps, mat y) {
    (void)be, (void)w, (void)eps;
    WANT(x.esize == y.esize);
}
static void heads(backend *be, mat x, int64_t d, head_norm kind, double eps) {
    (void)be, (void)x, (void)d, (void)kind, (void)eps;
}
static void activate(backend *be, mat x, activation act, double scale) {
    (void)be, (void)x, (void)act, (void)scale;
}
static void multiply(backend *be, mat gate, activation act, mat x) {
    (void)be, (void)act;
    WANT(gate.esize == x.esize);
}
static void scale_heads(backend *be, mat x, mat s, double c, int64_t d, mat y) {
    (void)be, (void)s, (void)c, (void)d;
    WANT(x.esize == y.esize);
}
static void log_decay(backend *be, mat x, mat a, mat dt, double bound) {
    (void)be, (void)bound;
    WANT(x.esize == EXACT);
    WANT(mat_none(a) || mat_none(dt) || a.esize == dt.esize);
}
static void short_conv(backend *be, mat x, mat w, mat bias, mat tail, activation act, mat y) {
    (void)be, (void)w, (void)bias, (void)act;
    WANT(x.esize == y.esize && tail.esize == x.esize);
}
static void recurrence(backend *be, const steps *s, mat state, mat o) {
    (void)be;
    WANT(s->q.esize == s->k.esize && s->k.esize == s->v.esize && o.esize == s->q.esize);
    WANT(state.esize == EXACT);
    WANT(mat_none(s->decay) || s->decay.esize == EXACT);
    WANT(mat_none(s->beta) || s->beta.esize == EXACT);
    WANT(mat_none(s->a) || (s->a.esize == s->q.esize && s->b.esize == s->q.esize));
    recurrences++;
}
static void rotate(backend *be, mat x, int64_t d, int64_t turned, int64_t first, double base) {
    (void)be, (void)x, (void)first, (void)base;
    WANT(turned % 2 == 0 && turned <= d);
}
static void attention(backend *be, mat q, mat k, mat v, int64_t d, int64_t first, int64_t window,
                      mat o) {
    (void)be, (void)d, (void)first, (void)window;
    WANT(q.esize == k.esize && k.esize == v.esize && v.esize == o.esize);
}
static void losses(backend *be, mat x, mat head, const int32_t *targets, double *loss,
                   int32_t *best) {
    (void)be, (void)targets;
    WANT(x.esize == head.esize);
    for (int64_t t = 0; t < x.rows; t++)
        loss[t] = best[t] = 0;
}
static void layer_norm(backend *be, mat x, mat w, mat bias, int64_t group, double eps, mat y) {
    (void)be, (void)w, (void)bias, (void)group, (void)eps;
    WANT(x.esize == y.esize);
}
static void token_shift(backend *be, mat x, mat tail, mat y) {
    (void)be;
    WANT(x.esize == y.esize && tail.esize == x.esize);
}
static void mix(backend *be, mat x, mat d, mat m, mat y) {
    (void)be, (void)m;
    WANT((mat_none(x) || x.esize == d.esize) && d.esize == y.esize);
}
static void dot_heads(backend *be, mat x, mat z, mat w, int64_t d, mat y) {
    (void)be, (void)w, (void)d, (void)y;
    WANT(x.esize == z.esize);
}
static void divide_heads(backend *be, mat d, double eps, int64_t n, mat x) {
    (void)be, (void)d, (void)eps, (void)n, (void)x;
}
static void broadcast(backend *be, mat row, mat y) {
    (void)be;
    WANT(row.cols == y.cols);
}
static void log_forget(backend *be, mat x, mat least, double divisor, double clamp) {
    (void)be, (void)least, (void)divisor, (void)clamp;
    WANT(x.esize == EXACT);
}
static void add_rows(backend *be, mat x, const int32_t *rows, const double *scale, mat y) {
    (void)be, (void)rows, (void)scale;
    WANT(x.esize == y.esize);
}
static void time_step(backend *be, mat x, mat bias, double lo, double hi) {
    (void)be, (void)bias, (void)lo, (void)hi;
    WANT(x.esize == EXACT);
}
static void wkv(backend *be, mat k, mat v, mat u, mat w, mat state, mat o) {
    (void)be;
    WANT(k.esize == v.esize && v.esize == o.esize && u.esize == w.esize && state.esize == EXACT);
}

static const backend_ops ops = {
    .alloc = alloc,
    .alloc_exact = alloc_exact,
    .free = release,
    .zero = zero,
    .copy = copy,
    .read = read_zeros,
    .write = write_nothing,
    .embed = embed,
    .linear = linear,
    .linear_exact = linear_exact,
    .linear_add = linear_add,
    .conv_heads = conv_heads,
    .add = add,
    .rms_norm = rms_norm,
    .normalize_heads = heads,
    .activate = activate,
    .multiply = multiply,
    .scale_heads = scale_heads,
    .log_decay = log_decay,
    .short_conv = short_conv,
    .recurrence = recurrence,
    .rotate = rotate,
    .attention = attention,
    .losses = losses,
    .layer_norm = layer_norm,
    .token_shift = token_shift,
    .mix = mix,
    .dot_heads = dot_heads,
    .divide_heads = divide_heads,
    .broadcast = broadcast,
    .log_forget = log_forget,
    .add_rows = add_rows,
    .time_step = time_step,
    .wkv = wkv,
};

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    (void)ctx, (void)t0, (void)n, (void)loss, (void)best, (void)e;
    return true;
}

static void one(const char *path) {
    static const int32_t ids[T] = {1, 2, 3, 1, 2, 3, 1, 2};
    backend be = {.op = &ops, .device = "none", .prec = PRECISION_BF16};
    be.esize = NARROW;
    be.exact_esize = EXACT;
    err e = {0};
    probe p = {.on_loss = on_loss};
    const probe *probes[] = {&p};
    folder = path;
    model *m = model_open(path, &be, &e);
    fwd *f = m ? fwd_new(m, 4, T, &e) : NULL;
    if (!f || !fwd_row(f, ids, T, NULL, probes, 1, NULL, NULL, &e))
        fail_msg("%s: %s", path, e.text);
    fwd_free(f);
    model_free(m);
}

// Every family and layout of FOLDER that has a config.
static int all_of(const char *where) {
    char pattern[1200];
    glob_t g;
    snprintf(pattern, sizeof pattern, "%s/*/config.json", where);
    assert_int_equal(glob(pattern, 0, NULL, &g), 0);
    int n = (int)g.gl_pathc;
    for (int i = 0; i < n; i++) {
        *strrchr(g.gl_pathv[i], '/') = 0;
        one(g.gl_pathv[i]);
    }
    globfree(&g);
    return n;
}

static void every_operation_gets_the_elements_it_is_made_for(void **state) {
    (void)state;
    int n = all_of("tests/cases/golden");
    const char *more = files_shared("golden");
    n += more ? all_of(more) : 0;
    print_message("measured %d models, %d recurrences\n", n, recurrences);
    assert_true(n > 0 && recurrences > n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_gets_the_elements_it_is_made_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
