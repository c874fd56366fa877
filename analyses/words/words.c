#include "analyses/words/words.h"

#include "core/mem.h"
#include "core/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    const word_task *t;
    const words_options *o;
    words_result *r;
} job;

// Word i: its inputs drawn, or its digits in base n_inputs.
static void make(void *ctx, int64_t i, int32_t *ids, int32_t *want, int64_t *n) {
    const job *j = ctx;
    const word_task *t = j->t;
    uint64_t seed = j->o->seed * 0x2545f4914f6cdd1du + (uint64_t)i;
    seed = random_next(&seed);
    int64_t at = 0, rest = i;
    for (; at < t->n_prefix; at++) {
        ids[at] = t->prefix[at];
        want[at] = -1;
    }
    int s = t->start;
    for (int64_t k = 0; k < j->r->length; k++, at++) {
        int x = (int)(j->r->all ? rest % t->n_inputs : random_below(&seed, t->n_inputs));
        rest /= t->n_inputs;
        s = t->next[s * t->n_inputs + x];
        ids[at] = t->input_id[x];
        want[at] = t->answer_id[s];
    }
    *n = at;
}

static void took(void *ctx, int64_t i, const int32_t *best, const int32_t *want, int64_t n) {
    job *j = ctx;
    (void)i, (void)n;
    int64_t skip = j->t->n_prefix;
    bool so_far = true;
    for (int64_t k = 0; k < j->r->length; k++) {
        bool right = best[skip + k] == want[skip + k];
        so_far &= right;
        j->r->right[k] += right;
        j->r->so_far[k] += so_far;
    }
    j->r->perfect += so_far;
}

static bool count_all(const word_task *t, const words_options *o, int64_t *count, err *e) {
    double n = pow(t->n_inputs, (double)o->length);
    if (n > WORDS_MOST)
        return err_set(
            e, ERR_USAGE,
            "option --all: %d tokens make %.3g words of length %lld, at most %d are read; "
            "take a shorter --length, or --count random ones",
            t->n_inputs, n, (long long)o->length, WORDS_MOST);
    *count = (int64_t)llround(n);
    return true;
}

bool words_run(const model *m, const word_task *t, const words_options *o, progress_fn progress,
               void *progress_ctx, words_result *r, err *e) {
    *r = (words_result){.length = o->length, .count = o->count, .all = o->all};
    if (task_last_id(t) >= m->embed.rows)
        return err_set(e, ERR_INPUT,
                       "the word problem of %s uses ids up to %d, but the embedding has %lld rows",
                       t->name, task_last_id(t), (long long)m->embed.rows);
    if (o->all && !count_all(t, o, &r->count, e))
        return false;
    snprintf(r->task, sizeof r->task, "%s", t->name);
    snprintf(r->order, sizeof r->order, "%s",
             !t->g     ? ""
             : t->left ? "y_t = x_t . y_{t-1}"
                       : "y_t = y_{t-1} . x_t");
    r->chance = task_chance(t);
    r->train_length = t->train_length ? t->train_length : m->info.train_length;
    r->beta_max = o->beta_max;
    r->right = mem_zalloc((size_t)r->length, sizeof *r->right, "accuracies", e);
    r->so_far = mem_zalloc((size_t)r->length, sizeof *r->so_far, "accuracies", e);
    job j = {t, o, r};
    word_source s = {&j, r->count, r->length + t->n_prefix, make, took};
    if (r->right && r->so_far &&
        words_read(m, &s, o->block, o->beta_max, progress, progress_ctx, e))
        return true;
    words_free(r);
    return false;
}

void words_free(words_result *r) {
    free(r->right);
    free(r->so_far);
    *r = (words_result){0};
}

double words_mean(const words_result *r, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t i = from; i < to; i++)
        sum += (double)r->right[i];
    return to > from ? sum / (double)(to - from) / (double)r->count : NAN;
}

int64_t words_falls(const words_result *r, double share) {
    int64_t i = r->length;
    while (i > 0 && (double)r->right[i - 1] < share * (double)r->count)
        i--;
    return i;
}

// ---- pictures -----------------------------------------------------------------------------------------

static bool curve(figure *f, const words_result *r, bool prefix, err *e) {
    size_t n = (size_t)r->length;
    double *x = mem_alloc(n, sizeof *x, "a curve", e), *y = mem_alloc(n, sizeof *y, "a curve", e);
    char name[200];
    for (size_t i = 0; x && y && i < n; i++) {
        x[i] = (double)i + 1;
        y[i] = (double)(prefix ? r->so_far : r->right)[i] / (double)r->count;
    }
    if (r->beta_max > 0)
        snprintf(name, sizeof name, "%s, beta cut to %g (intervention)", r->model, r->beta_max);
    else
        snprintf(name, sizeof name, "%s", r->model);
    bool ok = x && y && figure_series(f, name, STYLE_LINE, n, x, y, NULL, NULL, NULL, e);
    free(x);
    free(y);
    return ok;
}

// One picture for r[first]'s task; done marks the results that it holds.
static figure *task_figure(const words_result *r, size_t n, size_t first, bool *done, bool prefix,
                           const char *how, err *e) {
    char id[96], title[200], sub[300], label[48];
    const words_result *a = &r[first];
    snprintf(id, sizeof id, "words-%s-%zu", prefix ? "prefix" : "at", first);
    snprintf(title, sizeof title, "%s, word problem of %s",
             prefix ? "share of words right up to a position" : "accuracy at a position", a->task);
    snprintf(sub, sizeof sub, "%lld %s of length %lld%s%s; %s", (long long)a->count,
             a->all ? "words, all there are," : "random words", (long long)a->length,
             a->order[0] ? "; " : "", a->order, how);
    figure *f = figure_new(FIG_CURVES, id, title, sub, e);
    bool ok = f && figure_axis(&f->x, "position in the word", "tokens", SCALE_LINEAR, e) &&
              figure_axis(&f->y, prefix ? "words right so far" : "accuracy", "fraction of words",
                          SCALE_LINEAR, e);
    if (ok) {
        f->y.lo = 0;
        f->y.hi = 1.05;
        f->x.tokens = true;
    }
    for (size_t i = first; ok && i < n; i++)
        if (strcmp(r[i].task, a->task) == 0 && strcmp(r[i].order, a->order) == 0) {
            done[i] = true;
            ok = curve(f, &r[i], prefix, e);
        }
    snprintf(label, sizeof label, "chance 1/%.0f", 1 / a->chance);
    ok = ok && (prefix || figure_mark(f, MARK_Y, a->chance, label, e));
    if (ok && a->train_length > 0 && a->train_length < a->length)
        ok = figure_mark(f, MARK_X, (double)a->train_length, "training length", e);
    if (ok)
        return f;
    figure_free(f);
    return NULL;
}

bool words_figures(const words_result *r, size_t n, bool prefix, const char *how, figures *out,
                   err *e) {
    bool *done = mem_zalloc(n, sizeof *done, "pictures", e), ok = done != NULL;
    figures_init(out, 2);
    for (size_t i = 0; ok && i < n; i++)
        if (!done[i])
            ok = figures_add(out, task_figure(r, n, i, done, prefix, how, e), e);
    free(done);
    if (out->n == 1)
        out->columns = 1;
    if (!ok)
        figures_free(out);
    return ok;
}
