// deltop loss - per-position loss of models along documents.
#include "analyses/loss.h"
#include "analyses/resample.h"

#include "cli/commands.h"
#include "cli/head_list.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/results.h"
#include "cli/say.h"
#include "cli/session.h"
#include "core/mem.h"
#include "core/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct loss_options {
    int64_t smooth, resamples;
    double jump;
    text_list ablate;
} loss_options;

static const loss_options defaults = {.resamples = RESAMPLE_DEFAULT, .jump = 3};

static const option_spec own[] = {
    {"smooth", OPT_INT, offsetof(loss_options, smooth), .lo = 1, .hi = 1 << 24,
     .help = "tokens of the moving mean in the picture (default 501; a 32nd of a row "
             "beyond 16k, an eighth of one below 4k)"},
    {"resamples", OPT_INT, offsetof(loss_options, resamples), .lo = 0, .hi = 100000,
     .help = "bootstrap resamples over rows for the bands (default 2000; 0 = none)"},
    {"jump", OPT_REAL, offsetof(loss_options, jump), .lo = 0, .hi = 1000, .above_lo = true,
     .value = "NATS", .help = "rise of the mean of 64 losses that is flagged (default 3)"},
    {"ablate", OPT_TEXTS, offsetof(loss_options, ablate), .value = "L9.H2,...",
     .help =
         "read again with the read-outs of these heads set to zero, and compare token by token; "
         "may be repeated"},
};

// One --ablate: heads that are off together.
typedef struct ablation {
    head_ref head[HEAD_LIST_MOST];
    int n;
} ablation;

// Loss with heads off less loss without, over one stretch of positions (the last one: all).
typedef struct change {
    int64_t from, to;
    paired_change v;
} change;

typedef struct job {
    const options *o;
    const loss_options *own;
    session s;
    output *out;
    loss_result *r; // [models * documents * (1 + ablations)]
    size_t n;
    json_t *results;
    char source[1024], how[128];
    ablation *off; // [own->ablate.n]
} job;

static json_t *stretches_json(const loss_result *r) {
    json_t *a = json_array();
    int bad = 0;
    for (int64_t i = 0; i < r->n_stretches; i++) {
        json_t *j = json_object();
        bad |= json_object_set_new(j, "from", json_integer(r->stretch[i].from));
        bad |= json_object_set_new(j, "to", json_integer(r->stretch[i].to));
        // B80: every position of a stretch has been read in this many rows.
        bad |= json_object_set_new(j, "rows", json_integer(r->rows));
        bad |= json_object_set_new(j, "mean", output_json_real(r->stretch[i].mean));
        bad |= json_object_set_new(j, "block_ppl", output_json_real(r->stretch[i].block_ppl));
        bad |= json_array_append_new(a, j);
    }
    if (bad) {
        json_decref(a);
        return NULL;
    }
    return a;
}

static json_t *flags_json(const loss_result *r) {
    json_t *a = json_array();
    int bad = 0;
    for (int64_t i = 0; i < r->n_flags; i++) {
        json_t *j = json_object();
        bad |= json_object_set_new(j, "row", json_integer(r->flag[i].row));
        bad |= json_object_set_new(j, "position", json_integer(r->flag[i].position));
        bad |= json_object_set_new(j, "what", json_string(r->flag[i].what));
        bad |= json_array_append_new(a, j);
    }
    if (bad) {
        json_decref(a);
        return NULL;
    }
    return a;
}

static json_t *changes_json(const change *c, int n) {
    json_t *a = json_array();
    int bad = 0;
    for (int i = 0; i < n; i++) {
        json_t *j = json_object();
        bad |= json_object_set_new(j, "from", json_integer(c[i].from));
        bad |= json_object_set_new(j, "to", json_integer(c[i].to));
        bad |= json_object_set_new(j, "change", output_json_real(c[i].v.mean));
        bad |= json_object_set_new(j, "change_lo", output_json_real(c[i].v.lo));
        bad |= json_object_set_new(j, "change_hi", output_json_real(c[i].v.hi));
        bad |= json_object_set_new(j, "block", json_integer(c[i].v.block));
        bad |= json_array_append_new(a, j);
    }
    if (bad) {
        json_decref(a);
        return NULL;
    }
    return a;
}

// off NULL: all heads are on.
static bool add_json(job *j, size_t model, size_t document, const loss_result *r, const rows *rows,
                     const char *off, const change *c, int n_changes, err *e) {
    json_t *v = json_object();
    int bad = json_object_set_new(v, "model", output_json_text(output_model(j->out, model)));
    bad |= json_object_set_new(v, "document", output_json_text(output_document(j->out, document)));
    bad |= json_object_set_new(v, "reading", session_rows_json(&j->s, rows));
    bad |= json_object_set_new(v, "scored", json_integer(r->scored));
    bad |= json_object_set_new(v, "first_scored", json_integer(1));
    bad |= json_object_set_new(v, "losses_not_finite", json_integer(r->not_finite));
    bad |= json_object_set_new(v, "mean", output_json_real(r->mean));
    bad |= json_object_set_new(v, "mean_lo", output_json_real(r->mean_lo));
    bad |= json_object_set_new(v, "mean_hi", output_json_real(r->mean_hi));
    bad |= json_object_set_new(v, "total_ppl", output_json_real(r->total_ppl));
    bad |= json_object_set_new(v, "accuracy", output_json_real(r->accuracy));
    bad |= json_object_set_new(v, "extrapolation", output_json_real(r->extrapolation));
    bad |= json_object_set_new(v, "stretches", stretches_json(r));
    bad |= json_object_set_new(v, "flags", flags_json(r));
    if (off) {
        bad |= json_object_set_new(v, "ablated", json_string(off));
        bad |= json_object_set_new(v, "changes", changes_json(c, n_changes));
    }
    bad |= json_array_append_new(j->results, v);
    return bad ? err_set(e, ERR_NOMEM, "out of memory: the JSON result") : true;
}

static void print(const job *j, const loss_result *r, const rows *rows) {
    output_print(j->out, "%s on %s: %lld token%s scored in %lld row%s of %lld (%s)\n", r->model,
                 r->document, (long long)r->scored, r->scored == 1 ? "" : "s", (long long)r->rows,
                 r->rows == 1 ? "" : "s", (long long)rows->length, j->how);
    if (rows->resets)
        output_print(j->out, "  state emptied %lld time%s: %lld tokens of context dropped\n",
                     (long long)rows->resets, rows->resets == 1 ? "" : "s",
                     (long long)rows->dropped);
    if (rows->unread)
        output_print(j->out, "  %lld token%s after the last row unread\n", (long long)rows->unread,
                     rows->unread == 1 ? "" : "s");
    if (rows->d.added[0])
        output_print(j->out, "  ids that the text does not hold: %s\n", rows->d.added);
    output_print(j->out, "  mean %.4f nats/token, total perplexity %.3f", r->mean, r->total_ppl);
    if (isfinite(r->mean_lo))
        output_print(j->out, ", 95%% %.4f to %.4f over rows", r->mean_lo, r->mean_hi);
    output_print(j->out, "\n  %-16s %10s %12s\n", "positions", "mean", "block ppl");
    for (int64_t i = 0; i < r->n_stretches; i++) {
        char range[48];
        snprintf(range, sizeof range, "%lld-%lld", (long long)r->stretch[i].from,
                 (long long)r->stretch[i].to);
        output_print(j->out, "  %-16s %10.4f %12.3f\n", range, r->stretch[i].mean,
                     r->stretch[i].block_ppl);
    }
    if (isfinite(r->extrapolation))
        output_print(
            j->out,
            "  past the training length of %lld: %+.4f nats/token against tokens %lld-%lld\n",
            (long long)r->train_length, r->extrapolation, (long long)r->train_length / 2,
            (long long)r->train_length);
    for (int64_t i = 0; i < r->n_flags; i++)
        output_print(j->out, "  flag: row %lld, position %lld: %s\n", (long long)r->flag[i].row,
                     (long long)r->flag[i].position, r->flag[i].what);
}

static bool read_rows(job *j, loss_result *r, const rows *rows, const ablation *off, err *e) {
    fwd *f = fwd_new(j->s.m, j->o->block, rows->length, e);
    if (!f)
        return false;
    progress bar;
    char title[64];
    snprintf(title, sizeof title, "loss %.50s", r->model);
    progress_begin(&bar, title, (int)rows->n, STDERR_FILENO);
    bool ok = true;
    for (int64_t row = 0; ok && row < rows->n; row++) {
        row_options how = rows->opt[row];
        how.off = off ? off->head : NULL;
        how.n_off = off ? off->n : 0;
        progress_phase(&bar, "tokens");
        ok = loss_read_row(r, row, f, rows_ids(rows, row), &how, j->own->jump, progress_tick, &bar,
                           e);
    }
    progress_end(&bar);
    fwd_free(f);
    return ok;
}

// Losses of positions [from, to) of all rows, one behind the other.
static void gather(const loss_result *r, int64_t from, int64_t to, double *out) {
    for (int64_t row = 0; row < r->rows; row++)
        memcpy(out + row * (to - from), r->loss + row * r->n + from,
               (size_t)(to - from) * sizeof *out);
}

static bool compare(const job *j, const loss_result *base, const loss_result *r, change *c, int *n,
                    err *e) {
    size_t all = (size_t)(r->rows * r->n);
    double *before = mem_alloc(all, sizeof *before, "losses", e);
    double *after = mem_alloc(all, sizeof *after, "losses", e);
    bool ok = before && after;
    *n = (int)r->n_stretches + 1;
    for (int i = 0; ok && i < *n; i++) {
        bool whole = i == *n - 1;
        c[i].from = whole ? 0 : r->stretch[i].from;
        c[i].to = whole ? r->n : r->stretch[i].to;
        gather(base, c[i].from, c[i].to, before);
        gather(r, c[i].from, c[i].to, after);
        ok = resample_paired(before, after, r->rows * (c[i].to - c[i].from), 0,
                             (int)j->own->resamples, (uint64_t)j->o->seed, &c[i].v, e);
    }
    free(before);
    free(after);
    return ok;
}

static void print_changes(const job *j, const char *off, const change *c, int n) {
    output_print(j->out, "%s off: change of the loss, paired token by token\n", off);
    output_print(j->out, "  %-16s %10s   95%% (blocks of neighbours resampled)\n", "positions",
                 "nats/token");
    for (int i = 0; i < n; i++) {
        char range[48];
        snprintf(range, sizeof range, "%lld-%lld", (long long)c[i].from, (long long)c[i].to);
        output_print(j->out, "  %-16s %+10.4f", i == n - 1 ? "all" : range, c[i].v.mean);
        if (isfinite(c[i].v.lo))
            output_print(j->out, "   %+.4f to %+.4f, blocks of %lld", c[i].v.lo, c[i].v.hi,
                         (long long)c[i].v.block);
        output_print(j->out, "\n");
    }
}

// Reads the rows once, into the next result; off NULL: all heads are on, else base is what that gave.
static bool read_one(job *j, size_t model, size_t document, const rows *rows, const ablation *off,
                     const loss_result *base, err *e) {
    char heads[512], name[768], file[640];
    loss_result *r = &j->r[j->n];
    if (off) {
        head_list_name(off->head, off->n, heads, sizeof heads);
        snprintf(name, sizeof name, "%s %s off", output_model(j->out, model), heads);
        snprintf(file, sizeof file, "loss-%s.npy", heads);
    }
    if (!loss_init(r, off ? name : output_model(j->out, model), output_document(j->out, document),
                   rows->n, rows->length - 1, session_train_length(&j->s), e))
        return false;
    j->n++;
    change c[LOSS_MAX_STRETCHES + 1];
    int n = 0;
    if (!read_rows(j, r, rows, off, e) ||
        !loss_summarise(r, (int)j->own->resamples, (uint64_t)j->o->seed, e) ||
        (off && !compare(j, base, r, c, &n, e)) ||
        !add_json(j, model, document, r, rows, off ? heads : NULL, c, n, e))
        return false;
    if (off)
        print_changes(j, heads, c, n);
    else
        print(j, r, rows);
    return results_f64(j->out, model, document, off ? file : "loss.npy", 2,
                       (int64_t[]){r->rows, r->n}, r->loss, e);
}

static bool one(void *ctx, size_t model, size_t document, err *e) {
    job *j = ctx;
    rows rows;
    for (size_t i = 0; i < j->own->ablate.n; i++)
        if (!fwd_check_heads(j->s.m, j->off[i].head, j->off[i].n, e))
            return err_prefix(e, "option --ablate");
    if (!session_rows(&j->s, document, 2, &rows, e))
        return false;
    session_how(&j->s, j->how, sizeof j->how);
    const loss_result *base = &j->r[j->n];
    bool ok = read_one(j, model, document, &rows, NULL, NULL, e);
    for (size_t i = 0; ok && i < j->own->ablate.n; i++)
        ok = read_one(j, model, document, &rows, &j->off[i], base, e);
    if (ok && model == 0)
        results_add_source(j->source, sizeof j->source, output_document(j->out, document),
                           rows.d.sha256);
    rows_free(&rows);
    return ok;
}

static bool read_ablations(job *j, err *e) {
    const text_list *a = &j->own->ablate;
    j->off = mem_zalloc(a->n + 1, sizeof *j->off, "heads", e);
    for (size_t i = 0; j->off && i < a->n; i++)
        if (!head_list_read(a->v[i], j->off[i].head, &j->off[i].n, e))
            return err_prefix(e, "option --ablate");
    return j->off != NULL;
}

static bool pictures(job *j, err *e) {
    const loss_result **list = mem_alloc(j->n, sizeof *list, "results", e);
    figures f;
    char about[160];
    if (!list)
        return false;
    for (size_t i = 0; i < j->n; i++)
        list[i] = &j->r[i];
    snprintf(about, sizeof about, "%s", j->how);
    bool ok = loss_figures(list, j->n, j->own->smooth, (int)j->own->resamples, (uint64_t)j->o->seed,
                           j->how, &f, e);
    free(list);
    if (!ok)
        return false;
    results_about a = {.name = "loss", .source = j->source, .description = about};
    ok = results_figures(j->out, j->o, &f, &a, 0, e);
    figures_free(&f);
    return ok;
}

// Everything is written by now; a pipeline must still see that it holds what is no number.
static bool check_finite(const job *j, err *e) {
    for (size_t i = 0; i < j->n; i++)
        if (!loss_check_finite(&j->r[i], e))
            return results_no_number(j->r[i].model, j->r[i].document, true, e);
    return true;
}

static int run(const options *o, err *e) {
    job j = {.o = o, .own = o->own, .results = json_array()};
    bool ok =
        read_ablations(&j, e) && session_open(&j.s, o, e) && (j.out = output_open(o, e)) != NULL;
    if (ok)
        output_ran_on(j.out, j.s.be);
    size_t readings = o->n_models * o->n_documents * (1 + j.own->ablate.n);
    j.r = ok ? mem_zalloc(readings, sizeof *j.r, "results", e) : NULL;
    ok = j.r != NULL;
    ok = ok && session_each(&j.s, one, &j, e) && pictures(&j, e) &&
         results_finish(j.out, "loss.json", j.results, e) && check_finite(&j, e);
    for (size_t i = 0; i < j.n; i++)
        loss_free(&j.r[i]);
    free(j.r);
    free(j.off);
    json_decref(j.results);
    output_free(j.out);
    session_close(&j.s);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

const command command_loss = {
    .name = "loss",
    .summary = "loss and perplexity along documents",
    .usage = "MODEL... DOCUMENT...",
    .details =
        "loss[i] is the loss in nats of token i+1 given those before it. A row is a stretch of "
        "--length tokens that starts from a zero state. Three perplexities are kept apart: running "
        "(exp of the mean of all losses so far), block (exp of a stretch's mean) and total. "
        "Several models are drawn into one picture. With --out, loss.npy is [rows, tokens - 1] for "
        "each model and document. --ablate reads everything again with the read-outs of the named "
        "heads at zero (their states go on as before) and gives the paired change of the loss with "
        "a 95% interval from a block bootstrap over neighbouring tokens.\n"
        "Where a loss or a state is not finite, everything is written, and the exit code is 1.",
    .example = "deltop loss examples/small-deltanet examples/small-deltaproduct2 "
               "examples/text_kjv.txt --length 16k --out loss-out",
    .files = "loss.png, loss.csv, loss.json and loss.npy (loss-L9.H2.npy)",
    .min_models = 1,
    .max_models = ANY_NUMBER,
    .min_documents = 1,
    .max_documents = ANY_NUMBER,
    .takes = TAKES_DEVICE | TAKES_PRECISION | TAKES_LENGTH | TAKES_ROWS | TAKES_BLOCK |
             TAKES_ADD_BOS | TAKES_RESET | TAKES_TRAIN_LENGTH | TAKES_THREADS | TAKES_SEED |
             TAKES_OUTPUT,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(loss_options),
    .own_defaults = &defaults,
    .run = run,
};
