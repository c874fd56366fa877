// deltop erank - effective rank of every state along documents, with its companions.
#include "analyses/erank.h"
#include "analyses/erank_stats.h"

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/results.h"
#include "cli/say.h"
#include "cli/session.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct own_options {
    int64_t every, top;
    double cut;
    int compat;
    bool micro, before, linear;
} own_options;

enum { COMPAT_NONE, COMPAT_AUTHORS };

static const own_options defaults = {.every = 1, .top = 1, .cut = -1};

static const option_spec own[] = {
    {"every", OPT_INT, offsetof(own_options, every), .lo = 1, .hi = 1 << 30,
     .help = "after tokens N-1, 2N-1, ... only (default 1: every token)"},
    {"micro", OPT_FLAG, offsetof(own_options, micro),
     .help = "after every micro-step: index t n_h + j; --every counts micro-steps then"},
    {"before", OPT_FLAG, offsetof(own_options, before),
     .help = "the state that a step starts from instead of the one it leaves"},
    {"compat", OPT_CHOICE, offsetof(own_options, compat), .choices = "none|authors",
     .help = "authors: count as the published script, with an absolute cut of 2.2e-16 and rank 0 "
             "for a zero state"},
    {"cut", OPT_REAL, offsetof(own_options, cut), .lo = 0, .hi = 1, .value = "X",
     .help = "singular values up to X times the largest count as zero (default 1e-7; 0 with f64)"},
    {"top", OPT_INT, offsetof(own_options, top), .lo = 1, .hi = 1 << 16, .value = "K",
     .help = "singular values in the top-k energy (default 1)"},
    {"linear", OPT_FLAG, offsetof(own_options, linear),
     .help = "pictures with a linear axis of positions instead of log2"},
};

typedef struct job {
    const options *o;
    const own_options *own;
    session s;
    output *out;
    erank_result *r; // [models * documents]
    size_t n;
    json_t *results;
    int *layers, *heads;
    char source[1024], how[128];
} job;

// ---- JSON ---------------------------------------------------------------------------------------

static json_t *ints_json(const int *v, int n) {
    json_t *a = json_array();
    for (int i = 0; a && i < n; i++)
        if (json_array_append_new(a, json_integer(v[i])) != 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

static json_t *reals_json(const double *v, int n) {
    json_t *a = json_array();
    for (int i = 0; a && i < n; i++)
        if (json_array_append_new(a, output_json_real(v[i])) != 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

static json_t *edges_json(const erank_stats *s) {
    json_t *a = json_array();
    for (int i = 0; a && i <= s->n_stretches; i++)
        if (json_array_append_new(a, json_integer(s->edge[i])) != 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

static json_t *head_json(const erank_head *h, int n_stretches) {
    json_t *v = json_object();
    int bad = 0;
    if (h->layer >= 0) {
        bad |= json_object_set_new(v, "layer", json_integer(h->layer));
        bad |= json_object_set_new(v, "head", json_integer(h->head));
    }
    bad |= json_object_set_new(v, "mean_in_stretches", reals_json(h->stretch, n_stretches));
    bad |= json_object_set_new(v, "within_training", output_json_real(h->within));
    bad |= json_object_set_new(v, "past_training", output_json_real(h->past));
    bad |= json_object_set_new(v, "growth", output_json_real(h->growth));
    bad |= json_object_set_new(v, "norm", output_json_real(h->norm));
    bad |= json_object_set_new(v, "norm_growth", output_json_real(h->norm_growth));
    bad |= json_object_set_new(v, "stable_rank", output_json_real(h->stable));
    if (bad) {
        json_decref(v);
        return NULL;
    }
    return v;
}

// Token counts at which people look: 512, then by fours, and the last position.
static int landmarks(const erank_result *r, double *tokens, double *rank, int most) {
    int n = 0;
    double found, last = erank_tokens(r, r->positions - 1);
    for (double want = 512; n < most - 1; want *= 4) {
        double mean = erank_mean_at(r, ERANK_RANK, want < last ? want : last, &found);
        if (want >= last || !isnan(found)) {
            tokens[n] = found;
            rank[n++] = mean;
        }
        if (want >= last)
            break;
    }
    return n;
}

enum { LANDMARKS = 12 };

static json_t *landmarks_json(const erank_result *r) {
    double tokens[LANDMARKS], rank[LANDMARKS];
    int n = landmarks(r, tokens, rank, LANDMARKS);
    json_t *a = json_array();
    int bad = 0;
    for (int i = 0; i < n; i++) {
        json_t *v = json_object();
        bad |= json_object_set_new(v, "tokens", output_json_real(tokens[i]));
        bad |= json_object_set_new(v, "mean", output_json_real(rank[i]));
        bad |= json_array_append_new(a, v);
    }
    if (bad) {
        json_decref(a);
        return NULL;
    }
    return a;
}

static json_t *sampling_json(const erank_result *r) {
    json_t *v = json_object();
    int bad = json_object_set_new(v, "every", json_integer(r->every));
    bad |= json_object_set_new(v, "unit", json_string(r->micro ? "micro-step" : "token"));
    bad |= json_object_set_new(v, "state",
                               json_string(r->before ? "before the step" : "after the step"));
    bad |= json_object_set_new(v, "positions", json_integer(r->positions));
    if (bad) {
        json_decref(v);
        return NULL;
    }
    return v;
}

static json_t *cut_json(const erank_result *r) {
    json_t *v = json_object();
    int bad = json_object_set_new(v, "value", json_real(r->authors ? 2.2e-16 : r->cut));
    bad |= json_object_set_new(
        v, "of", json_string(r->authors ? "absolute" : "relative to the largest singular value"));
    bad |= json_object_set_new(v, "zero_state", r->authors ? json_real(0) : json_null());
    if (bad) {
        json_decref(v);
        return NULL;
    }
    return v;
}

static bool add_json(job *j, size_t model, size_t document, const erank_result *r,
                     const erank_stats *s, const rows *rows, err *e) {
    json_t *v = json_object(), *heads = json_array();
    int bad = json_object_set_new(v, "model", output_json_text(output_model(j->out, model)));
    bad |= json_object_set_new(v, "document", output_json_text(output_document(j->out, document)));
    bad |= json_object_set_new(v, "reading", session_rows_json(&j->s, rows));
    bad |= json_object_set_new(v, "layers", ints_json(r->layer, r->n_layers));
    bad |= json_object_set_new(v, "heads", ints_json(r->head, r->n_heads));
    bad |= json_object_set_new(v, "layers_without_state", ints_json(r->left_out, r->n_left_out));
    bad |= json_object_set_new(v, "K", json_integer(r->K));
    bad |= json_object_set_new(v, "V", json_integer(r->V));
    bad |= json_object_set_new(v, "n_h", json_integer(r->n_h));
    bad |= json_object_set_new(v, "largest_rank", json_integer(r->max_rank));
    bad |= json_object_set_new(v, "sampling", sampling_json(r));
    bad |= json_object_set_new(v, "cut", cut_json(r));
    bad |= json_object_set_new(v, "top_k", json_integer(r->top));
    bad |= json_object_set_new(v, "zero_states", json_integer(r->zero));
    bad |= json_object_set_new(v, "states_not_finite", json_integer(r->broken));
    bad |= json_object_set_new(v, "mean_at", landmarks_json(r));
    bad |= json_object_set_new(v, "stretch_edges", edges_json(s));
    bad |= json_object_set_new(v, "all", head_json(&s->all, s->n_stretches));
    bad |= json_object_set_new(v, "heads_growing", json_integer((json_int_t)s->growing));
    for (size_t i = 0; i < s->n_heads; i++)
        bad |= json_array_append_new(heads, head_json(&s->head[i], s->n_stretches));
    bad |= json_object_set_new(v, "by_head", heads);
    bad |= json_array_append_new(j->results, v);
    return bad ? err_set(e, ERR_NOMEM, "out of memory: the JSON result") : true;
}

// ---- text ---------------------------------------------------------------------------------------

static void print_heading(const job *j, const erank_result *r, const rows *rows) {
    char every[48] = "";
    if (r->every > 1)
        snprintf(every, sizeof every, "%lld ", (long long)r->every);
    output_print(j->out, "%s on %s: states of %d layer%s x %d head%s, %d x %d, %s every %s%s%s\n",
                 r->model, r->document, r->n_layers, r->n_layers == 1 ? "" : "s", r->n_heads,
                 r->n_heads == 1 ? "" : "s", r->K, r->V, r->before ? "before" : "after", every,
                 r->micro ? "micro-step" : "token", r->every > 1 ? "s" : "");
    output_print(j->out, "  %lld row%s of %lld token%s (%s)\n", (long long)r->rows,
                 r->rows == 1 ? "" : "s", (long long)r->length, r->length == 1 ? "" : "s", j->how);
    if (rows->d.added[0])
        output_print(j->out, "  ids that the text does not hold: %s\n", rows->d.added);
    if (r->n_left_out) {
        output_print(j->out, "  left out, without a recurrent state: layer%s",
                     r->n_left_out == 1 ? "" : "s");
        for (int i = 0; i < r->n_left_out; i++)
            output_print(j->out, "%s %d", i ? "," : "", r->left_out[i]);
        output_print(j->out, "\n");
    }
}

static void print_growth(const job *j, const erank_result *r, const erank_stats *s) {
    const erank_head *most = s->most < 0 ? NULL : &s->head[s->most];
    if (!most)
        return;
    output_print(j->out,
                 "  past the training length of %lld: %+.2f against tokens %lld-%lld; "
                 "%zu of %zu heads grow by more than 1\n",
                 (long long)r->train_length, s->all.growth, (long long)r->train_length / 2,
                 (long long)r->train_length, s->growing, s->n_heads);
    output_print(j->out, "  %s L%d.H%d: %.2f to %.2f\n",
                 most->growth > 0 ? "grows most:" : "shrinks least:", most->layer, most->head,
                 most->within, most->past);
}

static void print(const job *j, const erank_result *r, const erank_stats *s, const rows *rows) {
    double tokens[LANDMARKS], rank[LANDMARKS];
    int n = landmarks(r, tokens, rank, LANDMARKS);
    print_heading(j, r, rows);
    output_print(j->out, "  mean effective rank (of %d)", r->max_rank);
    for (int i = 0; i < n; i++)
        output_print(j->out, "%s %.2f %s %.10g", i ? "," : "", rank[i], i ? "at" : "at token",
                     tokens[i]);
    output_print(j->out, "\n  %-16s %10s\n", "tokens", "mean rank");
    for (int i = 0; i < s->n_stretches; i++) {
        char range[48];
        snprintf(range, sizeof range, "%lld-%lld", (long long)s->edge[i],
                 (long long)s->edge[i + 1]);
        output_print(j->out, "  %-16s %10.2f\n", range, s->all.stretch[i]);
    }
    print_growth(j, r, s);
    output_print(j->out, "  Frobenius norm %.4g (geometric mean), stable rank %.2f", s->all.norm,
                 s->all.stable);
    if (!isnan(s->all.norm_growth))
        output_print(j->out, "; norm x %.2f past the training length", s->all.norm_growth);
    output_print(j->out, "\n");
    if (r->zero > 0)
        output_print(j->out, "  %lld zero state%s: %s\n", (long long)r->zero,
                     r->zero == 1 ? "" : "s",
                     r->authors ? "rank 0 by --compat authors" : "no effective rank, left out");
    if (r->broken > 0)
        output_print(j->out, "  %lld state%s with NaN or infinity\n", (long long)r->broken,
                     r->broken == 1 ? "" : "s");
}

// ---- one model on one document ------------------------------------------------------------------

// A list of the command line as ints; NULL for an empty one, which means all.
static bool to_ints(const int_list *l, int **out, err *e) {
    *out = NULL;
    if (l->n == 0)
        return true;
    *out = mem_alloc(l->n, sizeof **out, "a list of numbers", e);
    for (size_t i = 0; *out && i < l->n; i++)
        (*out)[i] = (int)l->v[i];
    return *out != NULL;
}

static bool check_lists(const job *j, err *e) {
    const model *m = j->s.m;
    int H = 0;
    for (int L = 0; L < m->info.n_layers; L++) {
        const module *x = model_mixer(m, L);
        if (x && x->heads.H > H)
            H = x->heads.H;
    }
    return int_list_check(&j->o->layers, m->info.n_layers, "layers", "layer", e) &&
           (H == 0 || int_list_check(&j->o->heads, H, "heads", "head", e));
}

static bool read_rows(job *j, size_t model, size_t document, const rows *rows, erank_result *r,
                      err *e) {
    erank_options o = {
        .every = j->own->every,
        .micro = j->own->micro,
        .before = j->own->before,
        .authors = j->own->compat == COMPAT_AUTHORS,
        .cut = j->own->cut,
        .top = (int)j->own->top,
        .linear = j->own->linear,
        .layers = j->layers,
        .heads = j->heads,
        .n_layers = (int)j->o->layers.n,
        .n_heads = (int)j->o->heads.n,
        .block = session_block(&j->s),
        .train_length = session_train_length(&j->s),
        .model = output_model(j->out, model),
        .document = output_document(j->out, document),
    };
    progress bar;
    char title[64];
    snprintf(title, sizeof title, "erank %.50s", o.model);
    progress_begin(&bar, title, 1, STDERR_FILENO);
    progress_phase(&bar, "tokens");
    bool ok = erank_run(j->s.m, rows->d.ids, rows->n, rows->length, rows->opt, &o, progress_tick,
                        &bar, r, e);
    progress_end(&bar);
    return ok;
}

// One file a quantity: [layers, heads, positions], with several rows [rows, ...] in front.
static bool save(job *j, size_t model, size_t document, const erank_result *r, err *e) {
    int64_t dims[] = {r->rows, r->n_layers, r->n_heads, r->positions};
    int first = r->rows == 1 ? 1 : 0;
    for (int q = 0; q < ERANK_QUANTITIES; q++) {
        char name[64];
        snprintf(name, sizeof name, "%s.npy", erank_quantity_name(q));
        if (!results_f64(j->out, model, document, name, 4 - first, dims + first, r->v[q], e))
            return false;
    }
    return true;
}

static bool one(void *ctx, size_t model, size_t document, err *e) {
    job *j = ctx;
    rows rows;
    if (!check_lists(j, e) || !session_rows(&j->s, document, 1, &rows, e))
        return false;
    erank_stats stats = {0};
    erank_result *r = &j->r[j->n];
    session_how(&j->s, j->how, sizeof j->how);
    bool ok = read_rows(j, model, document, &rows, r, e);
    if (ok)
        j->n++;
    ok = ok && erank_stats_make(r, &stats, e) &&
         add_json(j, model, document, r, &stats, &rows, e) && save(j, model, document, r, e);
    if (ok) {
        print(j, r, &stats, &rows);
        if (model == 0)
            results_add_source(j->source, sizeof j->source, output_document(j->out, document),
                               rows.d.sha256);
        // Figures look at ranks and norms only; the rest would fill memory over many documents.
        erank_keep_for_figures(r);
    }
    erank_stats_free(&stats);
    rows_free(&rows);
    return ok;
}

static bool pictures(job *j, err *e) {
    const erank_result **list = mem_alloc(j->n, sizeof *list, "results", e);
    figures f;
    if (!list)
        return false;
    for (size_t i = 0; i < j->n; i++)
        list[i] = &j->r[i];
    bool ok = erank_figures(list, j->n, &f, e);
    free(list);
    if (!ok)
        return false;
    results_about a = {.name = "erank", .source = j->source, .description = j->how};
    ok = results_figures(j->out, j->o, &f, &a, 0, e);
    figures_free(&f);
    return ok;
}

// Everything is written by now; a pipeline must still see that it holds what is no number.
static bool check_ranks(const job *j, err *e) {
    for (size_t i = 0; i < j->n; i++)
        if (!erank_check_ranks(&j->r[i], e))
            return results_no_number(j->r[i].model, j->r[i].document, j->r[i].broken > 0, e);
    return true;
}

static int run(const options *o, err *e) {
    const own_options *given = o->own;
    if (given->compat == COMPAT_AUTHORS && options_given(o, "cut")) {
        err_set(e, ERR_USAGE, "option --cut: --compat authors has a cut of its own");
        return EXIT_USAGE;
    }
    job j = {.o = o, .own = o->own, .results = json_array()};
    bool ok = session_open(&j.s, o, e) && (j.out = output_open(o, e)) != NULL;
    if (ok)
        output_ran_on(j.out, j.s.be);
    j.r = ok ? mem_zalloc(o->n_models * o->n_documents, sizeof *j.r, "results", e) : NULL;
    ok = j.r && to_ints(&o->layers, &j.layers, e) && to_ints(&o->heads, &j.heads, e);
    ok = ok && session_each(&j.s, one, &j, e) && pictures(&j, e) &&
         results_finish(j.out, "erank.json", j.results, e) && check_ranks(&j, e);
    for (size_t i = 0; i < j.n; i++)
        erank_free(&j.r[i]);
    free(j.r);
    free(j.layers);
    free(j.heads);
    json_decref(j.results);
    output_free(j.out);
    session_close(&j.s);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

const command command_erank = {
    .name = "erank",
    .summary = "effective rank and size of every state",
    .usage = "MODEL... DOCUMENT...",
    .details =
        "The effective rank of a state is exp(-sum p ln p), p = its singular values divided by "
        "their sum: between 1 and min(K, V). It says nothing about size, so Frobenius and spectral "
        "norm, stable rank, nuclear norm, condition number and top-k energy come with it. A zero "
        "state has none (NaN). Growth compares the tokens past the training length with the second "
        "half of it.\n"
        "With --out, arrays [layers, heads, positions] (several rows: [rows, ...]) for each model "
        "and document; erank.json names the layers and heads along their axes.\n"
        "Where a state is not finite, or all are zero, everything is written, and the exit code is "
        "1.",
    .example = "deltop erank examples/small-deltanet examples/small-deltaproduct2 "
               "examples/text_kjv.txt --length 16k --out erank-out",
    .files = "erank.png, erank.csv, erank.json and an .npy array of each quantity",
    .min_models = 1,
    .max_models = ANY_NUMBER,
    .min_documents = 1,
    .max_documents = ANY_NUMBER,
    .takes = TAKES_DEVICE | TAKES_PRECISION | TAKES_LENGTH | TAKES_ROWS | TAKES_BLOCK |
             TAKES_LAYERS | TAKES_HEADS | TAKES_ADD_BOS | TAKES_RESET | TAKES_TRAIN_LENGTH |
             TAKES_THREADS | TAKES_OUTPUT,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(own_options),
    .own_defaults = &defaults,
    .run = run,
};
