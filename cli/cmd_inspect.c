// deltop inspect - what is in this checkpoint? Headers only, unless asked for more.
#include "cli/commands.h"
#include "cli/inspect_print.h"
#include "cli/progress.h"
#include "cli/say.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

typedef struct inspect_args {
    text_list include, exclude;
    bool full, stats, markdown, strict, dry_run;
} inspect_args;

enum { DEFAULT_LENGTH = 2048, DEFAULT_BLOCK = 512 };

static const option_spec own[] = {
    {"include", OPT_TEXTS, offsetof(inspect_args, include), .value = "GLOB",
     .help = "only tensors whose whole name matches, such as '*A_log'; may be repeated"},
    {"exclude", OPT_TEXTS, offsetof(inspect_args, exclude), .value = "GLOB",
     .help = "no tensors whose whole name matches; may be repeated"},
    {"full", OPT_FLAG, offsetof(inspect_args, full),
     .help = "tensors one by one, metadata uncut, a large tokenizer loaded too"},
    {"stats", OPT_FLAG, offsetof(inspect_args, stats),
     .help = "reads the tensors: extremes, quantiles, mean, deviation, NaN and Inf"},
    {"dry-run", OPT_FLAG, offsetof(inspect_args, dry_run),
     .help = "the memory that a run of --length tokens needs; nothing is computed"},
    {"markdown", OPT_FLAG, offsetof(inspect_args, markdown), .help = "Markdown instead of text"},
    {"strict", OPT_FLAG, offsetof(inspect_args, strict),
     .help = "exit code 4 when anything is missing, left over, NaN or contradictory"},
};

static bool one(const options *o, size_t i, output *out, json_t *results, bool *wrong, err *e) {
    const inspect_args *a = o->own;
    inspection x;
    progress bar;
    memory_need need;
    progress_begin(&bar, "inspect", 1, STDERR_FILENO);
    progress_phase(&bar, "values");
    inspect_options how = {.include = a->include.v,
                           .n_include = a->include.n,
                           .exclude = a->exclude.v,
                           .n_exclude = a->exclude.n,
                           .full = a->full,
                           .tokenizer = a->strict,
                           .stats = a->stats || a->strict, // a NaN is seen in values only
                           .progress = progress_tick,
                           .progress_ctx = &bar};
    bool ok = inspect_open(&x, o->model[i], &how, e);
    progress_end(&bar);
    if (!ok)
        return false;
    inspect_look look = {a->markdown, a->full, a->stats, NULL, o->precision};
    int64_t length = o->length ? o->length : x.train_length > 0 ? x.train_length : DEFAULT_LENGTH;
    if (a->dry_run) {
        if (inspect_need(&x, (precision)o->precision, length, o->block ? o->block : DEFAULT_BLOCK,
                         &need))
            look.need = &need;
        else
            say_note("%s: no memory need: there is no model that could run", output_model(out, i));
    }
    *wrong |= inspect_is_wrong(&x);
    if (i > 0)
        output_print(out, "\n");
    inspect_print(out, output_model(out, i), &x, &look);
    if (json_array_append_new(results, inspect_json(output_model(out, i), &x, &look)) != 0)
        ok = err_set(e, ERR_NOMEM, "out of memory: the JSON result");
    inspect_close(&x);
    return ok;
}

static int run(const options *o, err *e) {
    const inspect_args *a = o->own;
    static const char *const needs[] = {"length", "block", "precision", NULL};
    if (!options_need(o, needs, a->dry_run, "--dry-run", e))
        return EXIT_USAGE;
    output *out = output_open(o, e);
    json_t *results = json_array();
    bool ok = out != NULL, wrong = false;
    for (size_t i = 0; ok && i < o->n_models; i++)
        ok = one(o, i, out, results, &wrong, e);
    json_t *v = ok ? output_head(out) : NULL;
    if (v && (json_object_set_new(v, "strict_pass", json_boolean(!wrong)) != 0 ||
              json_object_set(v, "results", results) != 0)) {
        json_decref(v);
        v = NULL;
    }
    ok = ok && output_finish(out, "inspect.json", v, e);
    json_decref(results);
    output_free(out);
    return !ok ? EXIT_FAILED : a->strict && wrong ? EXIT_CHECK : EXIT_DONE;
}

const command command_inspect = {
    .name = "inspect",
    .summary = "what a checkpoint holds, needs and lacks",
    .usage = "MODEL...",
    .details =
        "Family, sizes, state bytes, tokenizer, tensors in natural order with layers folded, what "
        "is missing and what nothing reads. Only headers are read, unless --stats or --strict asks "
        "for the values; no GPU is needed. A model that the loader would refuse, or of a family "
        "that is not known, is listed all the same, with the reason.\n"
        "State bytes are heads x K x V x 4 a layer; more micro-steps a token (n_h) do not enlarge "
        "a state. A tokenizer over 1 MiB is only looked at, unless --full or --strict.",
    .example = "deltop inspect examples/small-gated-deltaproduct2 --stats --include '*A_log'\n"
               "deltop inspect runs/last --strict --json",
    .files = "inspect.json",
    .min_models = 1,
    .max_models = ANY_NUMBER,
    .takes = TAKES_PRECISION | TAKES_LENGTH | TAKES_BLOCK | TAKES_OUTPUT,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(inspect_args),
    .run = run,
};
