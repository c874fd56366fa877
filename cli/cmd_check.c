// deltop check - do the rules hold for these results?
#include "analyses/facts_read.h"
#include "analyses/rules/rules.h"
#include "cli/check_print.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/say.h"
#include "core/outfile.h"

#include <stdlib.h>

typedef struct check_options {
    const char *baseline, *junit;
    bool all, list;
} check_options;

static const option_spec own[] = {
    {"baseline", OPT_TEXT, offsetof(check_options, baseline), .value = "FILE",
     .help = "results.jsonl of another run, or its folder: what `baseline` in rules means"},
    {"all", OPT_FLAG, offsetof(check_options, all), .help = "show rules that hold too"},
    {"junit", OPT_TEXT, offsetof(check_options, junit), .value = "FILE",
     .help = "write JUnit XML, a test for each rule, model and document"},
    {"list", OPT_FLAG, offsetof(check_options, list),
     .help = "list the rules and the token counts they name; no results are read"},
};

static bool save_junit(output *x, const char *path, const rule_outcomes *r, err *e) {
    outfile *f = outfile_open(path, e);
    if (!f)
        return false;
    check_print_junit(r, outfile_stream(f));
    bool ok = outfile_commit(f, e) && output_wrote(x, path, e);
    outfile_close(f);
    return ok;
}

static bool finish(const options *o, const rule_outcomes *r, err *e) {
    const check_options *own = o->own;
    output *x = output_open(o, e);
    bool ok = x && (!own->junit || save_junit(x, own->junit, r, e));
    if (ok)
        check_print(x, r, own->all);
    json_t *v = ok ? output_head(x) : NULL;
    json_t *rows = v ? check_json(r) : NULL;
    if (v && (!rows || json_object_set_new(v, "pass", json_boolean(rule_outcomes_good(r))) != 0 ||
              json_object_set_new(v, "counts", check_counts_json(r)) != 0 ||
              json_object_set(v, "rules", rows) != 0)) {
        json_decref(v);
        v = NULL;
    }
    json_decref(rows);
    ok = ok && output_finish(x, "check.json", v, e);
    output_free(x);
    return ok;
}

static bool list(const options *o, const rules *r, err *e) {
    size_t n = 0;
    int64_t *at = rules_positions(r, &n, e);
    output *x = at ? output_open(o, e) : NULL;
    json_t *v = x ? output_head(x) : NULL, *rows = v ? check_list_json(r) : NULL;
    if (v && (!rows || json_object_set_new(v, "positions", check_numbers_json(at, n)) != 0 ||
              json_object_set(v, "rules", rows) != 0)) {
        json_decref(v);
        v = NULL;
    }
    json_decref(rows);
    if (x)
        check_print_list(x, r, at, n);
    bool ok = x && output_finish(x, "check.json", v, e);
    output_free(x);
    free(at);
    return ok;
}

static int run(const options *o, err *e) {
    const check_options *own = o->own;
    rules r = {0};
    facts f = {0}, base = {0};
    rule_outcomes out = {0};
    bool ok = true;
    if (o->n_operands < (own->list ? 1 : 2)) {
        err_set(e, ERR_USAGE,
                "check: rules and results are needed; usage: deltop check [OPTIONS] rules.ini "
                "results.jsonl...");
        return EXIT_USAGE;
    }
    if (own->list && o->n_operands > 1)
        ok = err_set(e, ERR_USAGE, "option --list: reads rules only, no results");
    ok = ok && rules_read(o->operand[0], &r, e);
    if (ok && own->list) {
        ok = rules_names_known(&r, NULL, e) && list(o, &r, e);
        goto done;
    }
    // What needs no results is told before they are read.
    if (ok && rules_baseline(&r) && !own->baseline)
        ok = rules_check(&r, &f, NULL, &out, e);
    for (size_t i = 1; ok && i < o->n_operands; i++)
        ok = facts_read_at(o->operand[i], &f, e);
    ok = ok && (!own->baseline || facts_read_at(own->baseline, &base, e));
    ok = ok && rules_check(&r, &f, own->baseline ? &base : NULL, &out, e) && finish(o, &out, e);
    if (ok && own->baseline && !rules_baseline(&r))
        say_note("no rule asks for the baseline");
done:;
    int code = !ok ? EXIT_FAILED : own->list || rule_outcomes_good(&out) ? EXIT_DONE : EXIT_CHECK;
    rule_outcomes_free(&out);
    facts_free(&base);
    facts_free(&f);
    rules_free(&r);
    return code;
}

const command command_check = {
    .name = "check",
    .summary = "do rules hold for the results of report?",
    .usage = "RULES.ini RESULTS.jsonl...",
    .details =
        "A rule a line, NAME = TEST or a test alone, checked for every model and document of the "
        "results (files of deltop report, or folders that hold a results.jsonl):\n"
        "    drift    = loss(32k) - loss(4k) < 0.10\n"
        "    rank     = heads(erank(8k) > 0.9*K) == 0\n"
        "    no worse = ppl(16k) <= baseline*1.02\n"
        "A fact NAME(N) is that at N tokens (1k is 1024): loss(N) is the mean over tokens N/2 to "
        "N, "
        "ppl(N) its exponential. Without brackets it is that of the whole row, else that at the "
        "largest N. docs/facts.md lists the facts, docs/rules.md the language: + - * /, < <= > >= "
        "== !=, and, or, not, heads(TEST), max, min, mean over heads, abs, exp, log, baseline. "
        "[sections] with lines model = GLOB and document = GLOB hold for some only.\n"
        "A rule that cannot be decided (a missing fact, NaN, a division by zero) does not pass. "
        "Exit code 4: a rule is broken or not decided.",
    .example = "deltop check rules.ini report-out/results.jsonl\n"
               "deltop check rules.ini new/results.jsonl --baseline old/results.jsonl --junit "
               "rules.xml",
    .files = "check.json",
    .words = true,
    .takes = TAKES_OUTPUT,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(check_options),
    .run = run,
};
