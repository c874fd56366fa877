// deltop explain - what a family's recurrence does to its state, in formulas and in numbers.
#include "cli/commands.h"
#include "cli/explain_print.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "core/config.h"
#include "core/mem.h"
#include "core/text.h"

#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct explain_options {
    bool table, markdown;
    int64_t draws;
} explain_options;

static const explain_options defaults = {.draws = 400};

static const option_spec own[] = {
    {"table", OPT_FLAG, offsetof(explain_options, table),
     .help = "all recurrences side by side, one line each"},
    {"markdown", OPT_FLAG, offsetof(explain_options, markdown), .help = "Markdown instead of text"},
    {"draws", OPT_INT, offsetof(explain_options, draws), .lo = EXPLAIN_WINDOW, .hi = 1 << 20,
     .help = "random tokens that the numbers are measured over (default 400)"},
};

// A folder or file stands for the model_type in its config.
static const recurrence *find(const char *word, err *e) {
    struct stat st;
    char type[128];
    snprintf(type, sizeof type, "%s", word);
    bool model = strchr(word, '/') && stat(word, &st) == 0;
    if (model || (stat(word, &st) == 0 && S_ISDIR(st.st_mode) && !explain_find(word, NULL))) {
        config *c = config_open(word, e);
        config *inner = c ? config_child(c, "text_config", e) : NULL;
        const char *found = NULL;
        bool ok = c && config_text_or(inner ? inner : c, "model_type", "", &found, e);
        snprintf(type, sizeof type, "%s", ok ? found : "");
        config_close(inner);
        config_close(c);
        if (!ok)
            return NULL;
        model = true;
    }
    const char *nearest = NULL, *why = explain_why_not(type);
    const recurrence *r = explain_find(type, &nearest);
    if (r)
        return r;
    if (model)
        err_set(e, ERR_UNSUPPORTED, "%s: %s \"%s\"%s%s", text_show(word),
                why ? "its model_type" : "no recurrence is known for its model_type",
                text_show(type), why ? ": " : "", why ? why : "");
    else if (why)
        err_set(e, ERR_UNSUPPORTED, "%s: %s", text_show(word), why);
    else
        err_set(e, ERR_USAGE,
                "%s: no such family or recurrence%s%s (deltop explain --table lists all)",
                text_show(word), nearest ? "; the nearest is " : "", nearest ? nearest : "");
    return NULL;
}

static bool one(const recurrence *r, const explain_options *own, const options *o,
                explain_figures *f, json_t *results, err *e) {
    progress bar;
    char title[64];
    snprintf(title, sizeof title, "explain %s", r->name);
    progress_begin(&bar, title, 1, STDERR_FILENO);
    progress_phase(&bar, "draws");
    bool ok = explain_measure(r, (int)own->draws, (uint64_t)o->seed, progress_tick, &bar, f, e);
    progress_end(&bar);
    if (!ok)
        return false;
    return json_array_append_new(results, explain_json(r, f)) == 0 ||
           err_set(e, ERR_NOMEM, "out of memory: the JSON result");
}

static int run(const options *o, err *e) {
    const explain_options *own = o->own;
    explain_look look = {.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
                         .markdown = own->markdown};
    if (own->table == (o->n_operands > 0)) {
        err_set(e, ERR_USAGE,
                own->table ? "option --table: shows all recurrences; leave %s away"
                           : "explain: name a family, or ask for --table%s",
                own->table ? text_show(o->operand[0]) : "");
        return EXIT_USAGE;
    }
    size_t n = own->table ? n_recurrences : o->n_operands;
    explain_figures *f = mem_zalloc(n, sizeof *f, "figures", e);
    const recurrence **r = mem_zalloc(n, sizeof *r, "recurrences", e);
    output *out = f && r ? output_open(o, e) : NULL;
    json_t *results = json_array();
    bool ok = out != NULL;
    for (size_t i = 0; ok && i < n; i++) // a wrong name is told before anything is computed
        ok = (r[i] = own->table ? &recurrences[i] : find(o->operand[i], e)) != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        ok = one(r[i], own, o, &f[i], results, e);
        if (ok && !own->table) {
            output_print(out, i > 0 ? "\n" : "%s", "");
            explain_print(out, r[i], &f[i], &look);
        }
    }
    if (ok && own->table)
        explain_print_table(out, f, &look);
    json_t *v = ok ? output_head(out) : NULL;
    if (v && json_object_set(v, "recurrences", results) != 0) {
        json_decref(v);
        v = NULL;
    }
    ok = ok && output_finish(out, "explain.json", v, e);
    json_decref(results);
    output_free(out);
    free(r);
    free(f);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

// The first model_type of each recurrence; another word for it where none uses it.
static bool offers(size_t i, char *word, size_t size) {
    if (i >= n_recurrences)
        return false;
    const char *s = recurrences[i].families[0] ? recurrences[i].families : recurrences[i].alias;
    snprintf(word, size, "%.*s", (int)strcspn(s, " "), s);
    return true;
}

const command command_explain = {
    .name = "explain",
    .summary = "a family's loss, update, transition and bounds",
    .usage = "FAMILY... | --table",
    .details =
        "A FAMILY is a model_type (gated_deltanet), the name of a recurrence (DeltaProduct, "
        "Longhorn), a row of the science notes (R07), or a model whose config names one.\n"
        "Says which objective the update descends and where that is only formal, what one token "
        "does to the state, which matrix carries the state on and what bounds its eigenvalues; "
        "then checks itself on random tokens: central differences of the loss against the "
        "update, and the spectra.\n"
        "H is the K x V state of one head, k key, v value, beta write strength, alpha decay. Where "
        "the terminal's locale is not UTF-8, symbols are written out (beta k k').",
    .example = "deltop explain gated_deltanet kda\n"
               "deltop explain --table\n"
               "deltop explain --table --markdown > recurrences.md",
    .files = "explain.json",
    .words = true,
    .offers = offers,
    .takes = TAKES_OUTPUT | TAKES_SEED,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(explain_options),
    .own_defaults = &defaults,
    .run = run,
};
