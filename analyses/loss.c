#include "analyses/loss.h"

#include "analyses/resample.h"
#include "core/mem.h"
#include "core/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool loss_init(loss_result *r, const char *model, const char *document, int64_t rows, int64_t n,
               int64_t train_length, err *e) {
    *r = (loss_result){.rows = rows, .n = n, .train_length = train_length};
    r->model = mem_strdup(model, e);
    r->document = mem_strdup(document, e);
    size_t count = 0;
    if (!mem_mul((size_t)rows, (size_t)n, &count))
        count = SIZE_MAX / 16;
    r->loss = mem_alloc(count, sizeof *r->loss, "losses", e);
    if (!r->model || !r->document || !r->loss) {
        loss_free(r);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        r->loss[i] = NAN;
    return true;
}

void loss_free(loss_result *r) {
    free(r->model);
    free(r->document);
    free(r->loss);
    *r = (loss_result){0};
}

// Reading -----------------------------------------------------------------------------------------

// What is watched while a row is read (fault B124): a model that has fallen into a loop, a state
// that is no longer finite.
struct loss_watch {
    loss_result *r;
    const int32_t *ids;
    double *loss; // of this row
    int64_t row;
    int32_t same; // likeliest token so far
    int64_t since, seen;
    bool loop_told, state_told;
    backend *be;
    int *heads;      // of each layer's state; 0: it has none
    mat norms;       // [layers, most heads]: as the states were after `watched` tokens
    int64_t watched; // 0: nothing new
};

static void flag(loss_result *r, int64_t row, int64_t position, loss_flag_kind kind,
                 const char *what) {
    if (r->n_flags == LOSS_MAX_FLAGS)
        return;
    loss_flag *f = &r->flag[r->n_flags++];
    f->row = row;
    f->position = position;
    f->kind = kind;
    snprintf(f->what, sizeof f->what, "%s", what);
}

// The norms of a layer's state heads go into the watcher's row of that layer, and are looked at when
// the block is over: a device does not wait for every layer.
static void watch_state(loss_watch *w, int layer, int64_t position, mat state, backend *be) {
    if (w->heads[layer] == 0)
        return;
    mat row = mat_cols(mat_rows(w->norms, layer, 1), 0, w->heads[layer]);
    be->op->head_norms(be, state, row);
    w->watched = position;
}

// The first head whose state is no longer finite, or so large that a float32 keeps less than two
// digits of what a token of size 1 writes. w->watched: tokens read so far.
static bool look_at_states(loss_watch *w, backend *be, err *e) {
    const double bound = LOSS_STATE_BOUND;
    int64_t position = w->watched, most = w->norms.cols;
    w->watched = 0;
    if (position == 0 || w->state_told)
        return true;
    double *norm = mem_alloc((size_t)(w->norms.rows * most), sizeof *norm, "norms of states", e);
    if (!norm)
        return false;
    be->op->read(be, w->norms, norm);
    for (int L = 0; L < w->norms.rows; L++)
        for (int h = 0; h < w->heads[L] && !w->state_told; h++) {
            double x = norm[L * most + h];
            char text[96];
            if (!isfinite(x))
                snprintf(text, sizeof text, "the state of L%d.H%d is not finite", L, h);
            else if (x > bound)
                snprintf(text, sizeof text, "the state of L%d.H%d has norm %.2g, beyond %.0g", L, h,
                         x, bound);
            else
                continue;
            flag(w->r, w->row, position, isfinite(x) ? FLAG_LARGE_STATE : FLAG_NOT_FINITE, text);
            w->state_told = true;
        }
    free(norm);
    return backend_check(be, e);
}

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    enum { LOOP = 256 };
    loss_watch *w = ctx;
    if (!look_at_states(w, w->be, e))
        return false;
    for (int64_t i = 0; i < n && t0 + i < w->r->n; i++) {
        w->loss[t0 + i] = loss[i];
        w->r->right += best[i] == w->ids[t0 + i + 1];
        if (w->seen++ == 0 || best[i] != w->same) {
            w->same = best[i];
            w->since = t0 + i;
        } else if (t0 + i - w->since + 1 == LOOP && !w->loop_told) {
            char text[96];
            snprintf(text, sizeof text, "the likeliest token is %d for %d tokens on end", w->same,
                     LOOP);
            flag(w->r, w->row, w->since, FLAG_LOOP, text);
            w->loop_told = true;
        }
    }
    return true;
}

// At the start of every block but the first; on_final_state sees what the last block left.
static bool on_steps(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                     err *e) {
    (void)s, (void)e;
    if (t0 > 0)
        watch_state(ctx, layer, t0, state, be);
    return true;
}

static bool on_final_state(void *ctx, int layer, mat state, backend *be, err *e) {
    loss_watch *w = ctx;
    (void)e;
    watch_state(w, layer, w->r->n + 1, state, be);
    return true;
}

static void flag_jump(loss_result *r, int64_t row, const double *x, double jump) {
    enum { SPAN = 64 };
    double before = 0, after = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (!isfinite(x[i])) {
            flag(r, row, i, FLAG_NOT_FINITE, "the loss is not finite");
            return;
        }
    // The first tokens of a row are always dear: the watch begins after them. Where the difference
    // of the means passes the bound it goes on growing up to the jump itself: that place is told.
    double best = jump;
    int64_t at = -1;
    for (int64_t i = SPAN; i + 2 * SPAN <= r->n && (at < 0 || i <= at + SPAN); i++) {
        if (i == SPAN)
            for (int64_t j = 0; j < SPAN; j++) {
                before += x[i + j];
                after += x[i + SPAN + j];
            }
        if ((after - before) / SPAN > best) {
            best = (after - before) / SPAN;
            at = i;
        }
        before += x[i + SPAN] - x[i];
        if (i + 2 * SPAN < r->n)
            after += x[i + 2 * SPAN] - x[i + SPAN];
    }
    if (at >= 0) {
        char text[96];
        snprintf(text, sizeof text, "the mean of %d losses jumps by %.2f nats", SPAN, best);
        flag(r, row, at + SPAN, FLAG_JUMP, text);
    }
}

uint64_t loss_ids_mark(uint64_t mark, const int32_t *ids, int64_t n) {
    if (mark == 0)
        mark = 14695981039346656037u;
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < 32; b += 8)
            mark = (mark ^ ((uint32_t)ids[i] >> b & 0xff)) * 1099511628211u;
    return mark;
}

// heads and norms. False: *e is filled.
static bool watcher_open(loss_watch *w, const model *m, err *e) {
    int n = m->info.n_layers, most = 1;
    w->be = m->be;
    w->heads = mem_zalloc((size_t)n, sizeof *w->heads, "heads", e);
    if (!w->heads)
        return false;
    for (int L = 0; L < n; L++) {
        const module *mixer = model_mixer(m, L);
        w->heads[L] = mixer ? mixer->heads.H : 0;
        most = w->heads[L] > most ? w->heads[L] : most;
    }
    w->norms = w->be->op->alloc_exact(w->be, n, most);
    return backend_check(w->be, e);
}

loss_watch *loss_watch_new(loss_result *r, int64_t row, const model *m, const int32_t *ids,
                           err *e) {
    loss_watch *w = mem_zalloc(1, sizeof *w, "a reading", e);
    if (!w)
        return NULL;
    *w = (loss_watch){.r = r, .ids = ids, .loss = r->loss + row * r->n, .row = row};
    if (watcher_open(w, m, e))
        return w;
    loss_watch_free(w);
    return NULL;
}

probe loss_watch_probe(loss_watch *w) {
    return (probe){
        .ctx = w, .on_loss = on_loss, .on_steps = on_steps, .on_final_state = on_final_state};
}

bool loss_watch_end(loss_watch *w, double jump, err *e) {
    if (!look_at_states(w, w->be, e))
        return false;
    loss_result *r = w->r;
    r->ids_mark = loss_ids_mark(r->ids_mark, w->ids, r->n + 1);
    flag_jump(r, w->row, w->loss, jump);
    return true;
}

void loss_watch_free(loss_watch *w) {
    if (!w)
        return;
    if (w->be)
        w->be->op->free(w->be, w->norms);
    free(w->heads);
    free(w);
}

bool loss_read_row(loss_result *r, int64_t row, fwd *f, const int32_t *ids, const row_options *opt,
                   double jump, progress_fn progress, void *ctx, err *e) {
    loss_watch *w = loss_watch_new(r, row, f->m, ids, e);
    if (!w)
        return false;
    probe p = loss_watch_probe(w);
    const probe *probes[] = {&p};
    bool ok =
        fwd_row(f, ids, r->n + 1, opt, probes, 1, progress, ctx, e) && loss_watch_end(w, jump, e);
    loss_watch_free(w);
    return ok;
}

// Numbers -----------------------------------------------------------------------------------------

// Mean over positions [from, to) of one row. Summed in double; a float near 3e6 moves in steps of
// 0.25.
static double row_mean(const loss_result *r, int64_t row, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t i = from; i < to; i++)
        sum += r->loss[row * r->n + i];
    return sum / (double)(to - from);
}

static double mean_over(const loss_result *r, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t row = 0; row < r->rows; row++)
        sum += row_mean(r, row, from, to);
    return sum / (double)r->rows;
}

// 2.5% and 97.5% quantiles of the mean of `rows` values, resampled with replacement.
static void bootstrap(const double *x, int64_t rows, int resamples, uint64_t seed, double *scratch,
                      double *lo, double *hi) {
    *lo = *hi = NAN;
    if (rows < 2 || resamples < 2)
        return;
    for (int b = 0; b < resamples; b++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += x[random_next(&seed) % (uint64_t)rows];
        scratch[b] = sum / (double)rows;
        if (!isfinite(scratch[b]))
            return;
    }
    resample_interval(scratch, resamples, lo, hi);
}

static void stretches(loss_result *r) {
    int64_t from = 0, to = 512;
    r->n_stretches = 0;
    while (from < r->n && r->n_stretches < LOSS_MAX_STRETCHES) {
        loss_stretch *s = &r->stretch[r->n_stretches++];
        int64_t end = to < r->n ? to : r->n;
        s->from = from;
        s->to = end;
        s->mean = mean_over(r, from, end);
        s->block_ppl = exp(s->mean);
        from = to;
        to = to == 512 ? 2048 : 2 * to;
    }
}

bool loss_summarise(loss_result *r, int resamples, uint64_t seed, err *e) {
    r->scored = r->rows * r->n;
    r->mean = r->total_ppl = r->extrapolation = r->mean_lo = r->mean_hi = r->accuracy = NAN;
    r->n_stretches = 0;
    if (r->scored == 0)
        return true;
    double *means = mem_alloc((size_t)r->rows, sizeof *means, "means", e);
    double *scratch =
        mem_alloc((size_t)(resamples > 0 ? resamples : 1), sizeof *scratch, "resamples", e);
    if (!means || !scratch) {
        free(means);
        free(scratch);
        return false;
    }
    for (int64_t row = 0; row < r->rows; row++)
        means[row] = row_mean(r, row, 0, r->n);
    bootstrap(means, r->rows, resamples, seed, scratch, &r->mean_lo, &r->mean_hi);
    free(means);
    free(scratch);
    r->mean = mean_over(r, 0, r->n);
    r->total_ppl = exp(r->mean);
    r->accuracy = (double)r->right / (double)r->scored;
    stretches(r);
    int64_t L = r->train_length;
    if (L >= 2 && r->n > L)
        r->extrapolation = mean_over(r, L, r->n) - mean_over(r, L / 2, L);
    return true;
}

void loss_smooth(const double *x, int64_t n, int64_t window, double *out) {
    int64_t h = window / 2, from = 0, to = 0; // the sum holds the finite ones of x[from..to)
    int64_t wild = 0;                         // and this many are none
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        // Afresh once a window: what rounding and one huge value left behind goes no further.
        if (i % (2 * h + 1) == 0) {
            from = to = i > h ? i - h : 0;
            sum = 0;
            wild = 0;
        }
        for (; to < n && to < i + h + 1; to++)
            if (isfinite(x[to]))
                sum += x[to];
            else
                wild++;
        for (; from < i - h; from++)
            if (isfinite(x[from]))
                sum -= x[from];
            else
                wild--;
        out[i] = wild ? NAN : sum / (double)(to - from);
    }
}

// Figures -----------------------------------------------------------------------------------------

typedef struct picked {
    int64_t *at; // positions drawn
    int64_t n;
} picked;

enum { POINTS = 2048 };

// Evenly spaced, the last one included.
static bool pick_even(picked *p, int64_t n, err *e) {
    int64_t stride = (n + POINTS - 1) / POINTS;
    p->n = 0;
    p->at = mem_alloc(POINTS + 2, sizeof *p->at, "positions", e);
    for (int64_t i = 0; p->at && i < n; i += stride)
        p->at[p->n++] = i;
    if (p->at && n > 0 && p->at[p->n - 1] != n - 1)
        p->at[p->n++] = n - 1;
    return p->at != NULL;
}

// All of the first ones, then half a percent apart: for a logarithmic axis.
static bool pick_log(picked *p, int64_t n, err *e) {
    double next = 0;
    p->n = 0;
    p->at = mem_alloc(2 * POINTS, sizeof *p->at, "positions", e);
    for (int64_t i = 0; p->at && i < n && p->n < 2 * POINTS; i++) {
        if ((double)i < next && i + 1 < n)
            continue;
        p->at[p->n++] = i;
        next = (double)i < 128 ? (double)i + 1 : (double)i * 1.005;
    }
    return p->at != NULL;
}

// Mean over rows of the smoothed losses, less those of `base` (NULL: nothing), with its band.
static bool add_loss_curve(figure *f, const loss_result *r, const loss_result *base, int64_t smooth,
                           int resamples, uint64_t seed, err *e) {
    bool ok = false;
    picked p = {0};
    size_t n = (size_t)r->n, rows = (size_t)r->rows;
    double *smoothed = mem_alloc(rows * n, sizeof *smoothed, "smoothed losses", e);
    double *raw = mem_alloc(n, sizeof *raw, "losses", e);
    double *scratch = mem_alloc((size_t)resamples + rows + 1, sizeof *scratch, "resamples", e);
    double *v = NULL;
    if (!smoothed || !raw || !scratch || !pick_even(&p, r->n, e))
        goto done;
    v = mem_alloc((size_t)p.n * 4 + 1, sizeof *v, "a curve", e);
    if (!v)
        goto done;
    double *x = v, *y = v + p.n, *lo = y + p.n, *hi = lo + p.n;
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < n; i++)
            raw[i] = r->loss[row * n + i] - (base ? base->loss[row * n + i] : 0);
        loss_smooth(raw, r->n, smooth, smoothed + row * n);
    }
    for (int64_t i = 0; i < p.n; i++) {
        double sum = 0;
        for (size_t row = 0; row < rows; row++)
            sum += scratch[row] = smoothed[row * n + (size_t)p.at[i]];
        x[i] = (double)(p.at[i] + 1);
        y[i] = sum / (double)rows;
        bootstrap(scratch, r->rows, resamples, seed, scratch + rows, &lo[i], &hi[i]);
    }
    char band[64];
    snprintf(band, sizeof band, "95%% bootstrap over %lld rows, %d resamples", (long long)r->rows,
             resamples);
    bool banded = r->rows >= 2 && resamples >= 2;
    ok = figure_series(f, r->model, STYLE_LINE, (size_t)p.n, x, y, banded ? lo : NULL,
                       banded ? hi : NULL, banded ? band : NULL, e);
done:
    free(p.at);
    free(smoothed);
    free(raw);
    free(scratch);
    free(v);
    return ok;
}

static bool add_ppl_curves(figure *f, const loss_result *r, err *e) {
    bool ok = false;
    picked p = {0};
    double *v = NULL;
    if (!pick_log(&p, r->n, e))
        return false;
    v = mem_alloc((size_t)p.n * 2 + 6 * LOSS_MAX_STRETCHES, sizeof *v, "a curve", e);
    if (!v)
        goto done;
    double *x = v, *y = v + p.n, *bx = y + p.n, *by = bx + 3 * LOSS_MAX_STRETCHES, sum = 0;
    int64_t k = 0;
    for (int64_t i = 0; i < r->n; i++) {
        for (int64_t row = 0; row < r->rows; row++)
            sum += r->loss[row * r->n + i];
        if (k < p.n && p.at[k] == i) {
            x[k] = (double)(i + 1);
            y[k++] = exp(sum / (double)((i + 1) * r->rows));
        }
    }
    char name[256];
    snprintf(name, sizeof name, "%s, running", r->model);
    if (!figure_series(f, name, STYLE_LINE, (size_t)p.n, x, y, NULL, NULL, NULL, e))
        goto done;
    for (int64_t i = 0; i < r->n_stretches; i++) {
        const loss_stretch *s = &r->stretch[i];
        bx[3 * i] = s->from ? (double)s->from : 1;
        bx[3 * i + 1] = bx[3 * i + 2] = (double)s->to;
        by[3 * i] = by[3 * i + 1] = s->block_ppl;
        by[3 * i + 2] = NAN; // a gap between blocks
    }
    snprintf(name, sizeof name, "%s, block", r->model);
    ok =
        figure_series(f, name, STYLE_LINE, 3 * (size_t)r->n_stretches, bx, by, NULL, NULL, NULL, e);
    // Blocks wear the colour of their model's curve, and its name in the legend serves both.
    if (ok)
        f->series[f->n_series - 1].silent = true;
    if (ok && f->n_series >= 2)
        f->series[f->n_series - 1].colour = f->series[f->n_series - 2].colour =
            (int)(f->n_series / 2 - 1);
done:
    free(p.at);
    free(v);
    return ok;
}

static bool position_axis(figure *f, axis_scale scale, err *e) {
    f->x.tokens = true;
    return figure_axis(&f->x, "position", "tokens", scale, e);
}

static bool train_marks(figure *f, const loss_result *const *r, size_t n, err *e) {
    for (size_t i = 0; i < n; i++) {
        bool seen = r[i]->train_length <= 0 || r[i]->train_length > r[i]->n;
        for (size_t j = 0; j < i; j++)
            seen |= r[j]->train_length == r[i]->train_length;
        if (!seen && !figure_mark(f, MARK_X, (double)r[i]->train_length, "train length", e))
            return false;
    }
    return true;
}

// Differences mean something only where both models read the same tokens.
static bool paired(const loss_result *a, const loss_result *b) {
    return a->n == b->n && a->rows == b->rows && a->ids_mark == b->ids_mark;
}

// A panel of losses, or of differences to the first model.
static figure *loss_panel(const loss_result *const *r, size_t n, bool differences, int64_t smooth,
                          int resamples, uint64_t seed, const char *id, const char *how, err *e) {
    char title[256], sub[512], name[256];
    const loss_result *base = differences ? r[0] : NULL;
    if (differences)
        snprintf(title, sizeof title, "difference to %s along %s", r[0]->model, r[0]->document);
    else
        snprintf(title, sizeof title, "loss along %s", r[0]->document);
    snprintf(sub, sizeof sub, "%lld row%s of %lld tokens, moving mean of %lld, cut at the ends; %s",
             (long long)r[0]->rows, r[0]->rows == 1 ? "" : "s", (long long)r[0]->n + 1,
             (long long)smooth, how);
    snprintf(name, sizeof name, "%s", differences ? "loss difference" : "loss");
    figure *f = figure_new(FIG_CURVES, id, title, sub, e);
    bool ok = f && position_axis(f, SCALE_LINEAR, e) &&
              figure_axis(&f->y, name, "nats/token", SCALE_LINEAR, e);
    for (size_t i = 0; ok && i < n; i++)
        if (r[i]->n > 0 && (!differences || paired(r[i], base)))
            ok = add_loss_curve(f, r[i], base, smooth, resamples, seed, e);
    if (ok && train_marks(f, r, n, e))
        return f;
    figure_free(f);
    return NULL;
}

static figure *ppl_panel(const loss_result *const *r, size_t n, const char *id, err *e) {
    char title[256];
    snprintf(title, sizeof title, "perplexity along %s", r[0]->document);
    figure *f =
        figure_new(FIG_CURVES, id, title,
                   "curves: running (all tokens so far); level pieces: block (one stretch)", e);
    bool ok = f && position_axis(f, SCALE_LOG2, e) &&
              figure_axis(&f->y, "running and block perplexity", "1", SCALE_LOG10, e);
    for (size_t i = 0; ok && i < n; i++)
        ok = r[i]->n == 0 || add_ppl_curves(f, r[i], e);
    if (ok && train_marks(f, r, n, e))
        return f;
    figure_free(f);
    return NULL;
}

// Wide enough for long rows, narrow enough to leave a short one its shape.
int64_t loss_default_smooth(int64_t n) {
    if (n / 32 > 501)
        return n / 32;
    return n / 8 < 501 ? n / 8 : 501;
}

// The panels of one document; which: its number, for the names.
static bool document_figures(const loss_result *const *r, size_t n, size_t which, int64_t smooth,
                             int resamples, uint64_t seed, const char *how, figures *out, err *e) {
    char id[3][64];
    static const char *const stem[] = {"loss", "difference", "perplexity"};
    for (int i = 0; i < 3; i++)
        snprintf(id[i], sizeof id[i], which ? "%s-%zu" : "%s", stem[i], which + 1);
    if (smooth == 0)
        smooth = loss_default_smooth(r[0]->n);
    smooth |= 1;
    bool pair = false;
    for (size_t i = 1; i < n; i++)
        pair |= paired(r[i], r[0]);
    return figures_add(out, loss_panel(r, n, false, smooth, resamples, seed, id[0], how, e), e) &&
           (!pair ||
            figures_add(out, loss_panel(r, n, true, smooth, resamples, seed, id[1], how, e), e)) &&
           figures_add(out, ppl_panel(r, n, id[2], e), e);
}

bool loss_figures(const loss_result *const *results, size_t n, int64_t smooth, int resamples,
                  uint64_t seed, const char *how, figures *out, err *e) {
    size_t which = 0;
    figures_init(out, n > 1 ? 3 : 2);
    const loss_result **same = mem_alloc(n ? n : 1, sizeof *same, "results", e);
    bool ok = same != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        bool first = true;
        size_t m = 0;
        for (size_t j = 0; j < n; j++)
            if (strcmp(results[j]->document, results[i]->document) == 0) {
                first &= j >= i;
                same[m++] = results[j];
            }
        if (first)
            ok = document_figures(same, m, which++, smooth, resamples, seed, how, out, e);
    }
    free(same);
    if (!ok)
        figures_free(out);
    return ok;
}
