// deltop diff - what changed between two checkpoints: tensors, and what they do on a document.
#include "analyses/contrast.h"
#include "analyses/diff.h"
#include "analyses/report/row.h"

#include "cli/commands.h"
#include "cli/diff_print.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/reading.h"
#include "cli/results.h"
#include "cli/say.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "core/mem.h"
#include "core/npy.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct own_options {
    text_list include, exclude;
    int64_t every, samples, resamples;
    bool full, strict;
} own_options;

static const own_options defaults = {.samples = 16, .resamples = RESAMPLE_DEFAULT};

static const option_spec own[] = {
    {"include", OPT_TEXTS, offsetof(own_options, include), .value = "GLOB",
     .help = "only tensors whose whole name matches, such as '*A_log'; may be repeated"},
    {"exclude", OPT_TEXTS, offsetof(own_options, exclude), .value = "GLOB",
     .help = "no tensors whose whole name matches; may be repeated"},
    {"full", OPT_FLAG, offsetof(own_options, full),
     .help = "every tensor on a line of its own, equal ones too"},
    {"strict", OPT_FLAG, offsetof(own_options, strict),
     .help = "exit code 4 when any tensor or key of the config is not equal"},
    {"every", OPT_INT, offsetof(own_options, every), .lo = 1, .hi = 1 << 24,
     .help = "tokens between samples of effective rank (default: 128 to 256 samples a row)"},
    {"samples", OPT_INT, offsetof(own_options, samples), .lo = 1, .hi = 1 << 20,
     .help = "windows of each length whose eigenvalues are taken (default 16)"},
    {"resamples", OPT_INT, offsetof(own_options, resamples), .lo = 0, .hi = 100000,
     .help = "bootstrap resamples of the loss differences (default 2000; 0 = none)"},
};

typedef struct job {
    const options *o;
    const own_options *own;
    output *out;
    ckpt *c[2];
    ckpt_diff d;
    config_diff config;
    decay_list *decay; // owned
    size_t n_decay;
    json_t *result; // of the tensors, then of the behaviour
    session s;      // with a document; the output names its device
} job;

// Tensors -----------------------------------------------------------------------------------------

static bool find_decays(job *j, err *e) {
    bool ok = true;
    j->decay = mem_alloc(j->d.n + 1, sizeof *j->decay, "half-lives", e);
    for (size_t i = 0; ok && j->decay && i < j->d.n; i++) {
        decay_list *to = &j->decay[j->n_decay];
        to->at = i;
        j->n_decay += decay_diff_make(j->c[0], j->c[1], &j->d.v[i], &to->v, &ok, e);
    }
    return ok && j->decay;
}

// A misspelt --include would let --strict pass whatever has changed.
static bool took_something(const job *j, err *e) {
    return j->own->include.n == 0 || j->d.n || j->config.taken ||
           err_set(e, ERR_INPUT, "option --include: fits no tensor's name");
}

static bool tensors(job *j, err *e) {
    progress bar;
    progress_begin(&bar, "diff", 1, STDERR_FILENO);
    progress_phase(&bar, "bytes");
    diff_options how = {.include = j->own->include.v,
                        .n_include = j->own->include.n,
                        .exclude = j->own->exclude.v,
                        .n_exclude = j->own->exclude.n,
                        .progress = progress_tick,
                        .progress_ctx = &bar};
    bool ok = true;
    for (int i = 0; ok && i < 2; i++)
        ok = (j->c[i] = ckpt_open(j->o->model[i], e)) != NULL;
    ok = ok && ckpt_diff_make(j->c[0], j->c[1], &how, &j->d, e) && find_decays(j, e) &&
         config_diff_make(j->o->model[0], j->o->model[1], &how, &j->config, e) &&
         took_something(j, e);
    progress_end(&bar);
    if (!ok)
        return false;
    output_print(j->out, "A: %s\nB: %s\n", text_show(j->o->model[0]), text_show(j->o->model[1]));
    if (!diff_print(j->out, &j->d, j->decay, j->n_decay, j->own->full, e))
        return false;
    diff_print_config(j->out, &j->config);
    j->result = diff_json(&j->d, &j->config, j->decay, j->n_decay);
    return j->result || err_set(e, ERR_NOMEM, "out of memory: the JSON result");
}

// Behaviour ---------------------------------------------------------------------------------------

// Both models must read the same tokens: divergences are at positions.
static bool same_tokens(const job *j, const session *s, const rows *r, err *e) {
    const char *b = j->o->model[1], *path = j->o->document[0];
    if (reading_is_ids(path))
        return true;
    tokenizer *t = reading_tokenizer(b, e);
    if (!t)
        return false;
    document_options how = {.tokenizer = t,
                            .add_bos = j->o->add_bos,
                            .bos = s->bos,
                            .input = s->input,
                            .progress = signals_go_on};
    document d = {0};
    if (s->input)
        rewind(s->input);
    bool ok = document_read(path, &how, &d, e);
    int64_t n = ok ? d.n < r->d.n ? d.n : r->d.n : 0, i = 0;
    while (i < n && d.ids[i] == r->d.ids[i])
        i++;
    if (ok && (i < n || d.n != r->d.n))
        ok = err_set(e, ERR_INPUT,
                     "the tokenizers of A and B cut %s into other ids from token %lld on (%lld and "
                     "%lld in all): only models that read the same tokens can be compared; give an "
                     ".npy of ids",
                     text_show(strcmp(path, "-") == 0 ? "standard input" : path), (long long)i,
                     (long long)r->d.n, (long long)d.n);
    document_free(&d);
    tokenizer_close(t);
    return ok;
}

// [rows, tokens - 1] at the top of the folder: it belongs to both models.
static bool save_array(job *j, const contrast *c, const char *name, const double *v, err *e) {
    const int64_t dims[] = {c->rows, c->n};
    if (!v || !output_wants_files(j->out))
        return true;
    char *path = output_path(j->out, name, e);
    bool ok = path && npy_write(path, NPY_F8, 2, dims, v, e) && output_wrote(j->out, path, e);
    free(path);
    return ok;
}

static bool save(job *j, const contrast *c, const contrast_options *o, const rows *r,
                 const char *how, err *e) {
    char source[1024] = "";
    figures f;
    results_add_source(source, sizeof source, o->document, r->d.sha256);
    results_about about = {.name = "diff", .source = source, .description = how};
    if (!contrast_figures(c, o, how, &f, e))
        return false;
    int text = -1; // the divergence, else the difference of losses
    for (size_t i = 0; i < f.n; i++)
        if (strcmp(f.v[i]->id, "kl") == 0)
            text = (int)i;
    bool ok = results_figures(j->out, j->o, &f, &about, text, e);
    figures_free(&f);
    return ok && save_array(j, c, "loss-a.npy", c->loss[0].loss, e) &&
           save_array(j, c, "loss-b.npy", c->loss[1].loss, e) &&
           save_array(j, c, "kl.npy", c->kl, e);
}

static bool measure(job *j, session *s, const model *b, rows *r, err *e) {
    static const int64_t windows[] = {16, 64, 256};
    const options *o = j->o;
    const model *const m[2] = {s->m, b};
    char how[128];
    progress bar;
    contrast c;
    contrast_options x = {
        .block = session_block(s),
        .every = j->own->every ? j->own->every : row_record_every(r->length),
        .train_length = {o->train_length ? o->train_length : s->m->info.train_length,
                         o->train_length ? o->train_length : b->info.train_length},
        .name = {output_model(j->out, 0), output_model(j->out, 1)},
        .document = output_document(j->out, 0),
        .spectrum = {.windows = windows, .n_windows = 3, .samples = j->own->samples},
        .jump = 3,
        .resamples = (int)j->own->resamples,
        .seed = (uint64_t)o->seed,
        .progress = progress_tick,
        .progress_ctx = &bar};
    session_how(s, how, sizeof how);
    progress_begin(&bar, "diff", 1, STDERR_FILENO);
    progress_phase(&bar, "tokens");
    bool ok = contrast_run(m, r->d.ids, r->n, r->length, r->opt, &x, &c, e);
    progress_end(&bar);
    if (!ok)
        return false;
    diff_print_contrast(j->out, &c, &x, how);
    json_t *v = diff_contrast_json(&c), *reading = v ? session_rows_json(s, r) : NULL;
    if (!reading || json_object_set(v, "reading", reading) != 0 ||
        json_object_set(j->result, "behaviour", v) != 0)
        ok = err_set(e, ERR_NOMEM, "out of memory: the JSON result");
    json_decref(reading);
    json_decref(v);
    ok = ok && save(j, &c, &x, r, how, e);
    contrast_free(&c);
    return ok;
}

static bool behaviour(job *j, err *e) {
    session *s = &j->s;
    rows r = {0};
    model *b = NULL;
    bool ok = session_open(s, j->o, e) && session_model(s, 0, e);
    if (ok)
        output_ran_on(j->out, s->be);
    ok = ok && session_rows(s, 0, 2, &r, e) && same_tokens(j, s, &r, e) &&
         (b = model_open(j->o->model[1], s->be, e)) != NULL && measure(j, s, b, &r, e);
    model_free(b);
    rows_free(&r);
    return ok;
}

static int run(const options *o, err *e) {
    static const char *const reading[] = {"every", "samples", "resamples", NULL};
    if (!options_need(o, reading, o->n_documents > 0, "a DOCUMENT", e))
        return EXIT_USAGE;
    job j = {.o = o, .own = o->own};
    bool ok = (j.out = output_open(o, e)) != NULL && tensors(&j, e) &&
              (o->n_documents == 0 || behaviour(&j, e));
    bool same = ok && ckpt_diff_same(&j.d) && j.config.n == 0;
    json_t *v = ok ? output_head(j.out) : NULL;
    if (v && (json_object_set_new(v, "same", json_boolean(same)) != 0 ||
              json_object_update(v, j.result) != 0)) {
        json_decref(v);
        v = NULL;
    }
    ok = ok && output_finish(j.out, "diff.json", v, e);
    json_decref(j.result);
    free(j.decay);
    ckpt_diff_free(&j.d);
    config_diff_free(&j.config);
    ckpt_close(j.c[0]);
    ckpt_close(j.c[1]);
    output_free(j.out);
    session_close(&j.s);
    return !ok ? EXIT_FAILED : j.own->strict && !same ? EXIT_CHECK : EXIT_DONE;
}

const command command_diff = {
    .name = "diff",
    .summary = "what changed between two checkpoints",
    .usage = "A B [DOCUMENT]",
    .details =
        "Tensors are matched by name, wherever they lie, and are equal (type, shape, bits), "
        "different (with cosine, L2 norm of A - B and largest change; re-typed, reshaped and "
        "transposed ones are said), missing in B, extra in B, or incompatible. Of what is missing "
        "or "
        "extra, a tensor with the same bits under another name is named: a head that was saved "
        "once "
        "with the embedding, say. Decays called A_log are told as half-lives, too. Keys of the "
        "configs "
        "are compared under the names config:KEY, but for what libraries note about themselves.\n"
        "With a DOCUMENT both models read it, and losses, effective ranks, spectra and the KL "
        "divergence of B's next-token distribution from A's are compared at every position. With "
        "--out, kl.npy, loss-a.npy and loss-b.npy are [rows, tokens - 1].",
    .example = "deltop diff runs/step-1000 runs/step-2000 --exclude '*norm*'\n"
               "deltop diff examples/small-deltanet examples/small-deltaproduct2 "
               "examples/text_kjv.txt --length 2k --out diff-out\n"
               "deltop diff model model-saved-again --strict",
    .files = "diff.json; with a DOCUMENT also diff.png, diff.csv, kl.npy, loss-a.npy, loss-b.npy",
    .min_models = 2,
    .max_models = 2,
    .min_documents = 0,
    .max_documents = 1,
    .takes = TAKES_ALL & ~(TAKES_LAYERS | TAKES_HEADS),
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(own_options),
    .own_defaults = &defaults,
    .run = run,
};
