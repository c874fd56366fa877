// deltop words - word problems of groups and automata, and formal languages, read by models.
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/reading.h"
#include "cli/results.h"
#include "cli/say.h"
#include "cli/session.h"
#include "cli/words_print.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NO_ORDER, ORDER_LEFT, ORDER_RIGHT };
enum { NO_LANGUAGE, PARITY, ARITHMETIC, BRACKETS };

typedef struct words_own {
    const char *group, *automaton;
    int order, language;
    int64_t modulus, from, to, count;
    bool all, prefix, mechanism, every_head;
    double beta_max;
} words_own;

static const words_own defaults = {.modulus = 5, .from = 40, .to = 256, .count = 1024};

static const option_spec own[] = {
    {"group", OPT_TEXT, offsetof(words_own, group), .value = "G",
     .help = "the word problem of S2-S6, A3-A6, C2-C64 or D2-D32 (default: what the model's "
             "group.json or automaton.json says)"},
    {"automaton", OPT_TEXT, offsetof(words_own, automaton), .value = "NAME|FILE",
     .help = "parity, flip-flop, modN-reset, five-state, or a file like automaton.json"},
    {"language", OPT_CHOICE, offsetof(words_own, language),
     .choices = "none|parity|arithmetic|brackets",
     .help = "a formal language whose answer stands behind the whole expression"},
    {"modulus", OPT_INT, offsetof(words_own, modulus), .lo = 2, .hi = LANGUAGE_MOST,
     .help = "of the arithmetic (default 5)"},
    {"from", OPT_INT, offsetof(words_own, from), .lo = 1, .hi = 4000,
     .help = "shortest expression of a language (default 40)"},
    {"to", OPT_INT, offsetof(words_own, to), .lo = 1, .hi = 4000,
     .help = "longest expression of a language (default 256)"},
    {"order", OPT_CHOICE, offsetof(words_own, order), .choices = "file|left|right",
     .help = "multiply new elements from the left (y_t = x_t . y_{t-1}) or the right (default: as "
             "the model's file says, else left)"},
    {"count", OPT_INT, offsetof(words_own, count), .lo = 1, .hi = 1 << 22,
     .help = "random words or expressions (default 1024)"},
    {"all", OPT_FLAG, offsetof(words_own, all), .help = "every word of --length instead"},
    {"prefix", OPT_FLAG, offsetof(words_own, prefix),
     .help = "draw the share of words that are right up to a position"},
    {"mechanism", OPT_FLAG, offsetof(words_own, mechanism),
     .help = "how every head represents the elements: write strengths, key PCA, A_g A_h = A_gh"},
    {"every-head", OPT_FLAG, offsetof(words_own, every_head),
     .help = "with --mechanism: draw the write strengths of all heads, not of the best one"},
    {"force-beta-max", OPT_REAL, offsetof(words_own, beta_max), .lo = 0, .hi = 2, .above_lo = true,
     .value = "B", .help = "an intervention: cut every write strength to B"},
};

typedef struct job {
    const options *o;
    const words_own *own;
    session s;
    output *out;
    words_result *r;    // [models]
    language_result *l; // [models]
    size_t n;
    mechanism mech; // of the last model
    json_t *results;
    figures extra; // of the mechanism, one model
    char how[128];
} job;

// ---- which words ----------------------------------------------------------------------------------------

// *of_file: what the task says stands in a file, the model's or the one that was named.
static word_task *task_asked(const job *j, const char *model, bool *of_file, err *e) {
    const words_own *w = j->own;
    word_task *t = NULL, *file = task_of_model(model, e);
    const word_task *const models = file;
    bool named = false; // the file that --automaton names was read
    *of_file = false;
    if (e->code != ERR_NONE)
        return NULL;
    if (w->group) {
        group *g = group_named(w->group, e);
        t = g ? task_of_group(g, true, 1, e) : NULL;
        // The file knows the ids and the prefix of its own problem, in whatever words it is asked for.
        if (t && file && file->g && strcmp(file->g->name, t->g->name) == 0) {
            task_free(t);
            t = file;
            file = NULL;
        }
    } else if (w->automaton) {
        t = task_named(w->automaton, e);
        if (!t && !file_exists(w->automaton))
            err_set(
                e, ERR_USAGE,
                "option --automaton: %s: no such automaton (parity, flip-flop, modN-reset with N "
                "up to 16, five-state) and no such file",
                text_show(w->automaton));
        else if (!t) {
            t = task_read(w->automaton, e);
            named = true;
        }
        if (t && file && !file->g && strcmp(file->name, t->name) == 0) {
            task_free(t);
            t = file;
            file = NULL;
        }
    } else if (file) {
        t = file;
        file = NULL;
    } else {
        err_set(e, ERR_USAGE,
                "%s: no group.json or automaton.json lies with the model; say which words with "
                "--group, --automaton or --language",
                text_show(model));
    }
    *of_file = t && (named || t == models);
    task_free(file);
    if (t && w->order != NO_ORDER && !task_set_order(t, w->order == ORDER_LEFT, e)) {
        task_free(t);
        t = NULL;
    }
    return t;
}

static void warn_of_rounding(const job *j, const word_task *t, const char *model) {
    if (t->theory && j->s.be->prec != PRECISION_F32 && j->s.be->prec != PRECISION_F64)
        say_warning(
            "%s: a construction is exact in float32, not in %s, which rounds its keys; take "
            "--precision f32",
            text_show(model), precision_name(j->s.be->prec));
}

// The file of the problem and the model's config may say different things; the file is followed.
static void warn_of_contradictions(const job *j, const word_task *t, const char *model) {
    const model_info *i = &j->s.m->info;
    if (t->train_length && i->train_length && t->train_length != i->train_length &&
        !j->o->train_length)
        say_warning("%s: trained at %lld tokens, says the file of its words; %lld, says its config",
                    text_show(model), (long long)t->train_length, (long long)i->train_length);
    if (t->n_prefix == 1 && i->bos >= 0 && t->prefix[0] != i->bos)
        say_warning(
            "%s: words begin with token %d, says their file; its config begins texts with %d",
            text_show(model), t->prefix[0], i->bos);
}

// ---- one model ------------------------------------------------------------------------------------------

static void begin_bar(const char *what, const char *unit, progress *bar) {
    char title[64];
    snprintf(title, sizeof title, "words %.50s", what);
    progress_begin(bar, title, 1, STDERR_FILENO);
    progress_phase(bar, unit);
}

static bool save_array(job *j, size_t i, const words_result *r, err *e) {
    size_t n = (size_t)r->length;
    double *v = mem_alloc(2 * n, sizeof *v, "accuracies", e);
    for (size_t k = 0; v && k < n; k++) {
        v[k] = (double)r->right[k] / (double)r->count;
        v[n + k] = (double)r->so_far[k] / (double)r->count;
    }
    bool ok =
        v && results_f64(j->out, i, OUTPUT_NONE, "words.npy", 2, (int64_t[]){2, r->length}, v, e);
    free(v);
    return ok;
}

static bool read_words(job *j, size_t i, const word_task *t, err *e) {
    words_options how = {.length = j->o->length ? j->o->length : 512,
                         .count = j->own->count,
                         .all = j->own->all,
                         .seed = (uint64_t)j->o->seed,
                         .block = j->o->block,
                         .beta_max = j->own->beta_max};
    words_result *r = &j->r[j->n];
    progress bar;
    begin_bar(output_model(j->out, i), "words", &bar);
    bool ok = words_run(j->s.m, t, &how, progress_tick, &bar, r, e);
    progress_end(&bar);
    if (!ok)
        return false;
    j->n++;
    if (j->o->train_length)
        r->train_length = j->o->train_length;
    snprintf(r->model, sizeof r->model, "%s", output_model(j->out, i));
    words_print(j->out, r, t);
    mechanism_free(&j->mech);
    if (j->own->mechanism) {
        ok = mechanism_run(j->s.m, t, (uint64_t)j->o->seed, &j->mech, e);
        if (ok)
            words_print_mechanism(j->out, &j->mech, t);
        if (ok && j->o->n_models == 1)
            ok = mechanism_figures(&j->mech, t, r->model, j->how, j->own->every_head, &j->extra, e);
    }
    if (ok && json_array_append_new(j->results,
                                    words_json(r, t, j->own->mechanism ? &j->mech : NULL)) != 0)
        ok = err_set(e, ERR_NOMEM, "out of memory: the JSON result");
    return ok && save_array(j, i, r, e);
}

// The ids of the symbols: those of an automaton.json that is called parity, else the tokenizer's,
// where the model has one that names them all.
static bool symbol_ids(const char *model, language *l, err *e) {
    err none = {0};
    word_task *file = l->kind == LANGUAGE_PARITY ? task_of_model(model, e) : NULL;
    if (e->code != ERR_NONE)
        return false;
    if (file && strcmp(file->name, "parity") == 0 && file->n_inputs == 2 && file->n_states == 2) {
        memcpy(l->digit, file->input_id, 2 * sizeof *l->digit);
        memcpy(l->answer, file->answer_id, 2 * sizeof *l->answer);
        memcpy(l->prefix, file->prefix, sizeof l->prefix);
        l->n_prefix = file->n_prefix;
        task_free(file);
        return true;
    }
    task_free(file);
    int symbols = l->modulus + (l->kind == LANGUAGE_PARITY ? 0 : LANGUAGE_SIGNS);
    tokenizer *t = reading_tokenizer(model, &none);
    if (!t)
        return true;
    int32_t ids[LANGUAGE_MOST + LANGUAGE_SIGNS];
    bool all = true;
    for (int k = 0; k < symbols; k++) {
        char text[8];
        ids[k] = tokenizer_id(t, language_symbol(l, k, text, sizeof text));
        all &= ids[k] >= 0;
    }
    if (all) {
        memcpy(l->digit, ids, (size_t)l->modulus * sizeof *ids);
        memcpy(l->answer, ids, (size_t)l->modulus * sizeof *ids);
        if (symbols > l->modulus)
            memcpy(l->sign, ids + l->modulus, LANGUAGE_SIGNS * sizeof *ids);
        int32_t bos = -1;
        err silent = {0};
        l->n_prefix = reading_bos(model, t, &bos, &silent) ? 1 : 0;
        l->prefix[0] = bos;
    }
    tokenizer_close(t);
    return true;
}

static bool read_language(job *j, size_t i, err *e) {
    static const language_kind kinds[] = {LANGUAGE_PARITY, LANGUAGE_PARITY, LANGUAGE_ARITHMETIC,
                                          LANGUAGE_BRACKETS};
    language l;
    language_init(&l, kinds[j->own->language], (int)j->own->modulus);
    language_result *r = &j->l[j->n];
    progress bar;
    begin_bar(output_model(j->out, i), "expressions", &bar);
    bool ok =
        symbol_ids(j->o->model[i], &l, e) &&
        language_run(j->s.m, &l, j->own->from, j->own->to, j->own->count, (uint64_t)j->o->seed,
                     j->o->block, j->own->beta_max, progress_tick, &bar, r, e);
    progress_end(&bar);
    if (!ok)
        return false;
    j->n++;
    snprintf(r->model, sizeof r->model, "%s", output_model(j->out, i));
    if (j->o->train_length)
        r->train_length = j->o->train_length;
    words_print_language(j->out, r);
    return json_array_append_new(j->results, words_language_json(r)) == 0 ||
           err_set(e, ERR_NOMEM, "out of memory: the JSON result");
}

static bool one(job *j, size_t i, err *e) {
    if (!session_model(&j->s, i, e))
        return false;
    session_how(&j->s, j->how, sizeof j->how);
    if (i > 0)
        output_print(j->out, "\n");
    bool of_file = false;
    word_task *t = j->own->language ? NULL : task_asked(j, j->o->model[i], &of_file, e);
    if (!t && !j->own->language)
        return false;
    if (t)
        warn_of_rounding(j, t, j->o->model[i]);
    if (t && of_file)
        warn_of_contradictions(j, t, j->o->model[i]);
    bool ok = t ? read_words(j, i, t, e) : read_language(j, i, e);
    task_free(t);
    return ok || (e->code == ERR_NUMERIC || e->code == ERR_UNSUPPORTED || e->code == ERR_INPUT
                      ? err_prefix(e, "%s", text_show(j->o->model[i]))
                      : false);
}

// ---- pictures -------------------------------------------------------------------------------------------

static bool pictures(job *j, err *e) {
    figures f;
    char about[160];
    snprintf(about, sizeof about, "%s; seed %lld", j->how, (long long)j->o->seed);
    bool ok = j->own->language ? language_figures(j->l, j->n, about, &f, e)
                               : words_figures(j->r, j->n, j->own->prefix, about, &f, e);
    if (!ok)
        return false;
    for (size_t k = 0; ok && k < j->extra.n; k++) {
        ok = figures_add(&f, j->extra.v[k], e);
        j->extra.v[k] = NULL;
    }
    if (j->extra.n)
        f.columns = j->extra.n > 3 ? 3 : 2;
    char source[512] = "";
    for (size_t i = 0, at = 0; i < j->o->n_models && at < sizeof source; i++)
        at += (size_t)snprintf(source + at, sizeof source - at, i ? "; %s" : "%s",
                               output_model(j->out, i));
    results_about a = {.name = "words", .source = source, .description = about};
    ok = ok && results_figures(j->out, j->o, &f, &a, 0, e);
    figures_free(&f);
    return ok;
}

static bool check(const options *o, err *e) {
    const words_own *w = o->own;
    if ((w->group != NULL) + (w->automaton != NULL) + (w->language != NO_LANGUAGE) > 1)
        return err_set(e, ERR_USAGE, "--group, --automaton and --language exclude each other");
    if (w->language && (w->all || w->prefix || w->mechanism || w->order || o->length))
        return err_set(e, ERR_USAGE,
                       "option --language: takes --from, --to and --count, not --length, --all, "
                       "--order, --prefix or --mechanism");
    static const char *const ranges[] = {"from", "to", NULL}, *const moduli[] = {"modulus", NULL},
                             *const every_heads[] = {"every-head", NULL};
    bool counts = w->language == ARITHMETIC || w->language == BRACKETS;
    if (!options_need(o, moduli, counts, "--language arithmetic or brackets", e) ||
        !options_need(o, ranges, w->language != NO_LANGUAGE, "--language", e))
        return false;
    if (w->from > w->to)
        return err_set(e, ERR_USAGE, "option --from: %lld is above --to %lld", (long long)w->from,
                       (long long)w->to);
    if (o->length > WORDS_LONGEST)
        return err_set(e, ERR_USAGE, "option --length: %lld; a word has at most %d tokens",
                       (long long)o->length, WORDS_LONGEST);
    if (w->all && !o->length)
        return err_set(e, ERR_USAGE, "option --all: needs --length");
    if (w->all && options_given(o, "count"))
        return err_set(e, ERR_USAGE, "options --all and --count: one at a time");
    return options_need(o, every_heads, w->mechanism, "--mechanism", e);
}

static int run(const options *o, err *e) {
    job j = {.o = o, .own = o->own, .results = json_array()};
    if (!check(o, e)) {
        json_decref(j.results);
        return EXIT_USAGE;
    }
    bool ok = session_open(&j.s, o, e) && (j.out = output_open(o, e)) != NULL;
    if (ok)
        output_ran_on(j.out, j.s.be);
    j.r = ok ? mem_zalloc(o->n_models, sizeof *j.r, "results", e) : NULL;
    j.l = j.r ? mem_zalloc(o->n_models, sizeof *j.l, "results", e) : NULL;
    ok = j.l != NULL;
    for (size_t i = 0; ok && i < o->n_models; i++)
        ok = one(&j, i, e);
    ok = ok && pictures(&j, e) && results_finish(j.out, "words.json", j.results, e);
    for (size_t i = 0; i < j.n; i++) {
        words_free(&j.r[i]);
        language_free(&j.l[i]);
    }
    free(j.r);
    free(j.l);
    mechanism_free(&j.mech);
    figures_free(&j.extra);
    json_decref(j.results);
    output_free(j.out);
    session_close(&j.s);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

const command command_words = {
    .name = "words",
    .summary = "word problems of groups and automata, languages",
    .usage = "MODEL...",
    .details =
        "Reads random words of a group or an automaton (or every word, --all) with each model and "
        "counts how often its likeliest token is the right answer: at each position, and up to "
        "each "
        "position without a mistake, the measure of DeltaProduct's figures. A model's own "
        "group.json or automaton.json says which words, which ids and which multiplication order.\n"
        "--mechanism looks at how heads do it: write strengths near 2 are reflections; keys that "
        "need few directions; and whether the transitions A_g of the elements multiply like the "
        "group.\n"
        "--language reads whole expressions and scores the answer behind them; its scaled accuracy "
        "is 0 for guessing and 1 for no mistakes. Symbols have the ids that the model's tokenizer "
        "gives them, else digits from 0 on, then + - * ( ) =, then BOS.\n"
        "--force-beta-max is an intervention on a trained model, not a model trained so.\n"
        "deltop theory s4 --out s4 writes a model to try this on.",
    .example = "deltop words s4 --length 4k --count 32\n"
               "deltop words s4 --length 3 --all --mechanism --out words-out",
    .files = "words.png, words.csv, words.json and words.npy [2, length] (accuracy at a position, "
             "share right so far)",
    .min_models = 1,
    .max_models = ANY_NUMBER,
    .takes = TAKES_DEVICE | TAKES_PRECISION | TAKES_LENGTH | TAKES_BLOCK | TAKES_TRAIN_LENGTH |
             TAKES_OUTPUT | TAKES_THREADS | TAKES_SEED,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(words_own),
    .own_defaults = &defaults,
    .run = run,
};
