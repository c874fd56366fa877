// deltop compare - verdicts between a baseline and a new result of `deltop bench`.
#include "bench/figures.h"
#include "bench/match.h"
#include "bench/run.h"
#include "cli/bench_print.h"
#include "cli/commands.h"
#include "cli/compare_files.h"
#include "cli/output.h"
#include "cli/results.h"
#include "cli/say.h"
#include "core/mem.h"
#include "core/outfile.h"
#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct compare_options {
    double threshold, alpha;
    bool strict, across, confirm, accept, markdown, all;
    int64_t max_bytes;
    const char *junit;
} compare_options;

static const compare_options defaults = {.threshold = 5, .alpha = 1};

static const option_spec own[] = {
    {"threshold", OPT_REAL, offsetof(compare_options, threshold), .lo = 0, .hi = 1000,
     .value = "PERCENT", .help = "smaller changes count as none (default 5)"},
    {"alpha", OPT_REAL, offsetof(compare_options, alpha), .lo = 0, .hi = 50, .above_lo = true,
     .value = "PERCENT",
     .help = "chance of any false FASTER or SLOWER in the whole comparison (default 1)"},
    {"strict", OPT_FLAG, offsetof(compare_options, strict),
     .help = "exit code 5 also for what stays UNCLEAR, INCOMPARABLE or GONE"},
    {"confirm", OPT_FLAG, offsetof(compare_options, confirm),
     .help = "time cases that are SLOWER, FASTER or UNCLEAR once more with this program"},
    {"accept", OPT_FLAG, offsetof(compare_options, accept),
     .help = "put the new result in the baseline's place (one baseline file)"},
    {"across-devices", OPT_FLAG, offsetof(compare_options, across),
     .help = "compare although device or driver differ"},
    {"all", OPT_FLAG, offsetof(compare_options, all), .help = "show SAME rows too"},
    {"markdown", OPT_FLAG, offsetof(compare_options, markdown),
     .help = "Markdown for a pull request instead of text"},
    {"max-bytes", OPT_INT, offsetof(compare_options, max_bytes), .lo = 1000, .hi = 1e9,
     .help = "limit of --markdown and of compare.md; WRONG and SLOWER rows are always kept"},
    {"junit", OPT_TEXT, offsetof(compare_options, junit), .value = "FILE",
     .help = "write JUnit XML, a test for each case"},
};

// The flagged cases once more, with this program and on this machine, added to the new result as
// further rounds. Cases are found by their parameters; what this program does not know stays.
static bool confirm(const comparison *c, record *new, size_t *timed, err *e) {
    case_list cases = {0};
    bool ok = true;
    *timed = 0;
    for (size_t i = 0; ok && i < c->n; i++) {
        const pairing *p = &c->v[i];
        if ((p->c.verdict == VERDICT_SLOWER || p->c.verdict == VERDICT_FASTER ||
             p->c.verdict == VERDICT_UNCLEAR) &&
            strcmp(p->new->source, "deltop") == 0)
            ok = case_list_params(&cases, p->new->params, e);
    }
    record again;
    record_init(&again);
    if (ok && cases.n) {
        bench_plan plan = {.cases = &cases,
                           .seconds = 2.0 * (double)cases.n,
                           .precision = 0.005,
                           .rounds = 16,
                           .seed = 0};
        ok = bench_run(&plan, &again, e);
        *timed = cases.n;
        // The second look decides: it takes the place of the first.
        for (size_t i = 0; ok && i < new->n; i++) {
            char *key = row_key(&new->rows[i], e);
            for (size_t k = 0; key && k < again.n; k++) {
                char *other = row_key(&again.rows[k], e);
                if (other && strcmp(key, other) == 0 && again.rows[k].status == ROW_OK) {
                    timings_free(&new->rows[i].warm);
                    new->rows[i].warm = again.rows[k].warm;
                    again.rows[k].warm = (timings){0};
                }
                free(other);
            }
            free(key);
        }
    }
    record_free(&again);
    case_list_free(&cases);
    return ok;
}

static bool accept(const char *old, const char *new, err *e) {
    return compare_copy(new, old, e) || err_prefix(e, "option --accept");
}

static int finish(const options *o, const comparison *c, const record *runs, size_t n, err *e) {
    const compare_options *own = o->own;
    output *x = output_open(o, e);
    bool ok = x != NULL;
    if (ok && !o->json) {
        if (own->markdown)
            compare_print_markdown(c, (size_t)own->max_bytes, stdout);
        else
            compare_print_table(c, own->all, "old", "new", stdout);
        if (!own->markdown) {
            compare_print_counts(c, stdout);
            putchar('\n');
        }
    }
    int code = comparison_exit(c, own->strict);
    ok = ok && compare_save(x, o, c, own->junit, (size_t)own->max_bytes, own->strict, runs, n, e);
    json_t *v = ok ? output_head(x) : NULL;
    if (v && (json_object_set_new(v, "verdicts", comparison_counts_json(c)) != 0 ||
              json_object_set_new(v, "exit_code", json_integer(code)) != 0 ||
              json_object_set_new(v, "threshold", json_real(own->threshold / 100)) != 0 ||
              json_object_set_new(v, "rows", comparison_rows_json(c)) != 0)) {
        json_decref(v);
        v = NULL;
    }
    ok = ok && output_finish(x, "compare.json", v, e);
    output_free(x);
    return ok ? code : EXIT_FAILED;
}

// What has to be said before the table.
static void remarks(const comparison *c, const compare_options *own) {
    if (c->same_binary)
        say_warning("both sides were measured with the same program file");
    if (c->places[0] && !own->across)
        say_warning(
            "device or driver differ (%s): nothing is compared there; --across-devices does "
            "so nevertheless",
            c->places);
    else if (c->places[0])
        say_warning("device or driver differ (%s)", c->places);
}

static int run(const options *o, err *e) {
    const compare_options *own = o->own;
    record_files files = {0};
    comparison c = {0};
    int code = EXIT_FAILED;
    if (o->n_operands < 2) {
        err_set(e, ERR_USAGE,
                "compare: two results are needed, a baseline and a new one; usage: deltop "
                "compare [OPTIONS] OLD... NEW");
        return EXIT_USAGE;
    }
    // compare.md of --out is Markdown too.
    if (!options_need(o, (const char *const[]){"max-bytes", NULL}, own->markdown || o->out,
                      "--markdown or --out", e))
        return EXIT_USAGE;
    if (!record_files_read(&files, o->operand, o->n_operands, e))
        goto done;
    if (own->accept && files.n != 2) {
        err_set(e, ERR_USAGE, "option --accept: needs one baseline file, there are %zu",
                files.n - 1);
        goto done;
    }
    match_rules rules = {.verdict = verdict_default(), .across_devices = own->across};
    rules.verdict.threshold = own->threshold / 100;
    rules.verdict.alpha = own->alpha / 100;
    record *new = &files.v[files.n - 1];
    if (!match(files.v, files.n - 1, new, &rules, &c, e))
        goto done;
    remarks(&c, own);
    if (own->confirm) {
        size_t timed = 0;
        if (!confirm(&c, new, &timed, e))
            goto done;
        if (timed) {
            say_note("%zu case%s timed again", timed, timed == 1 ? " was" : "s were");
            comparison_free(&c);
            if (!match(files.v, files.n - 1, new, &rules, &c, e))
                goto done;
        }
    }
    code = finish(o, &c, files.v, files.n, e);
    if (e->code == ERR_NONE && code == EXIT_UNDECIDED && !own->strict)
        say_note("nothing was compared: no row of the new result has a time to compare with");
    if (e->code == ERR_NONE && own->accept) {
        if (!accept(files.v[0].path, new->path, e))
            code = EXIT_FAILED;
        else
            say_note("%s is the new baseline", text_show(files.v[0].path));
    }
done:
    comparison_free(&c);
    record_files_free(&files);
    return code;
}

const command command_compare = {
    .name = "compare",
    .summary = "verdicts between two results of bench",
    .usage = "OLD... NEW",
    .details =
        "OLD and NEW are bench.json files or folders that hold one; with several OLD ones (the "
        "last "
        "runs, say; of a folder of runs the ten newest) their samples are put together. Rows are "
        "matched by all their parameters.\n"
        "FASTER and SLOWER need a change above the threshold and an interval that leaves none out, "
        "in "
        "time and in cycles; the interval is shared out over all rows and widened by the "
        "baseline's "
        "noise floor (deltop bench --calibrate). SAME: no change that counts. UNCLEAR: the samples "
        "do "
        "not decide. NEW, GONE: on one side only. WRONG: the gate did not pass. INCOMPARABLE: "
        "another "
        "device or driver, or no proper number.\n"
        "Exit code 4: something is SLOWER or WRONG. 5: nothing was compared; with --strict also "
        "when something stays open. 0: else.",
    .example = "deltop compare baseline/bench.json run/bench.json\n"
               "deltop compare baseline run --confirm --markdown --max-bytes 60000\n"
               "deltop compare runs/*/bench.json --strict --junit compare.xml",
    .files = "compare.json, compare.csv, compare.md, compare.xml (JUnit), compare.png",
    .words = true,
    .takes = TAKES_OUTPUT,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(compare_options),
    .own_defaults = &defaults,
    .run = run,
};
