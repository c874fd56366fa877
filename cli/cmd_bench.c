// deltop bench - throughput of kernels, with a gate in front and a baseline behind.
#include "bench/figures.h"
#include "bench/op.h"
#include "cli/bench_print.h"
#include "cli/bench_setup.h"
#include "cli/bench_turns.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/results.h"
#include "cli/say.h"
#include "core/mem.h"
#include "core/outfile.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const bench_options defaults = {
    .suite = "quick", .rounds = 16, .times = 5, .threshold = 5, .build = "make -j2 deltop"};

static const option_spec own[] = {
    {"suite", OPT_TEXT, offsetof(bench_options, suite), .value = "NAME",
     .choices = "quick|ci|kernels|paper|dp-fig4|gdn-fig3|rwkv7-16k|fla|flashqla|flashinfer|"
                "flashkda|spectra|model|shapes",
     .help = "quick, ci, kernels, paper (dp-fig4, gdn-fig3, rwkv7-16k), fla, flashqla, flashinfer, "
             "flashkda, spectra, model, shapes (default quick)"},
    {"case", OPT_TEXTS, offsetof(bench_options, cases), .value = "PATTERN",
     .help = "only cases whose name holds this, or fits it (* and ?); may be repeated"},
    {"axis", OPT_TEXTS, offsetof(bench_options, axes), .value = "NAME=LIST",
     .help = "a case for each value, like T=1k,4k or op=gdn,kda; may be repeated"},
    {"list", OPT_FLAG, offsetof(bench_options, list),
     .help = "show suites, operations and the chosen cases, and measure nothing"},
    {"budget", OPT_REAL, offsetof(bench_options, budget), .lo = 0, .hi = 1e5, .above_lo = true,
     .value = "SECONDS", .help = "time for the samples of one case (default from the suite)"},
    {"rounds", OPT_INT, offsetof(bench_options, rounds), .lo = 1, .hi = 100,
     .help = "passes over all cases that the samples are taken in (default 16)"},
    {"no-cold", OPT_FLAG, offsetof(bench_options, no_cold),
     .help = "no samples with emptied caches"},
    {"explain", OPT_FLAG, offsetof(bench_options, explain),
     .help = "say in words what bounds each case"},
    {"calibrate", OPT_FLAG, offsetof(bench_options, calibrate),
     .help = "measure several times and note how much runs differ: the noise floor of a baseline"},
    {"times", OPT_INT, offsetof(bench_options, times), .lo = 2, .hi = 100,
     .help = "runs of --calibrate (default 5)"},
    {"ab", OPT_TEXT, offsetof(bench_options, ab), .value = "A B",
     .help = "two programs (paths) or two kernels (step, chunk, deltop, PLUGIN:KERNEL) in turns"},
    {"external", OPT_TEXTS, offsetof(bench_options, external), .value = "FILE",
     .help = "rows that another program measured; may be repeated"},
    {"plugin", OPT_TEXTS, offsetof(bench_options, plugins), .value = "LIB.so",
     .help = "kernels of your own (bench/plugin.h), gated and timed like ours"},
    {"model", OPT_TEXT, offsetof(bench_options, model), .value = "MODEL",
     .help =
         "for `model` cases and suite shapes: a checkpoint; for `model` also a config.json alone "
         "(random weights)"},
    {"git-bisect", OPT_TEXT, offsetof(bench_options, bisect), .value = "GOOD BAD",
     .help = "find the commit that slowed the chosen cases"},
    {"build-command", OPT_TEXT, offsetof(bench_options, build), .value = "COMMAND",
     .help = "how --git-bisect builds (default \"make -j2 deltop\")"},
    {"threshold", OPT_REAL, offsetof(bench_options, threshold), .lo = 0, .hi = 1000,
     .value = "PERCENT",
     .help = "smaller changes count as none in --ab and --git-bisect (default 5)"},
    {"markdown", OPT_FLAG, offsetof(bench_options, markdown), .help = "Markdown instead of text"},
    {"junit", OPT_TEXT, offsetof(bench_options, junit), .value = "FILE",
     .help = "write JUnit XML, a test for each case"},
    {"slow", OPT_TEXT, offsetof(bench_options, slow), .value = "OP=PERCENT",
     .help = "do that much more work in one operation: tries a pipeline's alarm"},
};

static int terminal_width(void) {
    struct winsize w = {0};
    bool tty = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col;
    return tty ? w.ws_col < 60 ? 60 : w.ws_col : 100;
}

static int list(const bench_setting *s) {
    printf("Suites\n");
    for (size_t i = 0; i < n_bench_suites; i++)
        printf("  %-12s %s\n", bench_suites[i].name, bench_suites[i].summary);
    printf("\nOperations, with what they take unless told otherwise\n");
    for (size_t i = 0; i < n_bench_ops; i++)
        printf("  %-14s %s (%s)\n", bench_ops[i]->name, bench_ops[i]->summary, bench_ops[i]->usual);
    printf("\nAxes\n");
    for (int i = 0; i < N_AXES; i++)
        printf("  %-14s %s%s%s\n", bench_axes[i].name, bench_axes[i].help,
               bench_axes[i].choices ? ": " : "",
               bench_axes[i].choices ? bench_axes[i].choices : "");
    printf("\nChosen cases\n");
    for (size_t i = 0; i < s->cases.n; i++) {
        char name[CASE_NAME];
        printf("  %s\n", case_name(&s->cases.v[i], name, sizeof name));
    }
    return EXIT_DONE;
}

// A stream of a file under --out, or of a path of its own.
typedef void (*printer)(const record *r, const char *command, FILE *f);

static void as_markdown(const record *r, const char *command, FILE *f) {
    fprintf(f, "`%s`\n\n", text_show(command));
    bench_print_markdown(r, f);
}

static void as_junit(const record *r, const char *command, FILE *f) {
    (void)command;
    bench_print_junit(r, f);
}

static bool save(output *x, const char *path, const record *r, const char *command, printer print,
                 err *e) {
    outfile *f = outfile_open(path, e);
    if (!f)
        return false;
    print(r, command, outfile_stream(f));
    bool ok = outfile_commit(f, e) && output_wrote(x, path, e);
    outfile_close(f);
    return ok;
}

static bool save_all(output *x, const options *o, const record *r, err *e) {
    static const struct {
        const char *name;
        printer print;
    } files[] = {
        {"bench.csv", bench_print_csv}, {"bench.md", as_markdown}, {"bench.xml", as_junit}};
    const bench_options *own = o->own;
    char *command = results_command_line(o, e), source[256] = "";
    bool ok = command && (!own->junit || save(x, own->junit, r, command, as_junit, e));
    for (size_t i = 0; ok && output_wants_files(x) && i < sizeof files / sizeof *files; i++) {
        char *path = output_path(x, files[i].name, e);
        ok = path && save(x, path, r, command, files[i].print, e);
        free(path);
    }
    const json_t *where = json_object_get(r->about, "environment");
    const json_t *gpu = json_object_get(where, "gpu"), *cpu = json_object_get(where, "cpu");
    const char *device =
        json_string_value(json_object_get(gpu ? gpu : cpu, gpu ? "device" : "model"));
    const char *commit =
        json_string_value(json_object_get(json_object_get(where, "build"), "commit"));
    snprintf(source, sizeof source, "%s, commit %s", device ? device : "?", commit ? commit : "?");
    figures f;
    figures_init(&f, 1);
    results_about about = {.name = "bench", .source = source, .description = "deltop bench"};
    ok = ok && (!output_wants_files(x) ||
                (bench_figures(r, source, &f, e) && results_png(x, o, &f, &about, e)));
    figures_free(&f);
    free(command);
    return ok;
}

static bool about_run(record *r, const bench_setting *s, const options *o, err *e) {
    const bench_options *own = o->own;
    char *command = results_command_line(o, e);
    bool ok = command && json_object_set_new(r->about, "suite", json_string(s->suite->name)) == 0 &&
              json_object_set_new(r->about, "seed", json_integer(o->seed)) == 0 &&
              json_object_set_new(r->about, "rounds", json_integer(own->rounds)) == 0 &&
              json_object_set_new(r->about, "seconds", json_real(s->plan.seconds)) == 0 &&
              json_object_set_new(r->about, "slowed",
                                  own->slow ? output_json_text(own->slow) : json_null()) == 0 &&
              json_object_set_new(r->about, "command_line", output_json_text(command)) == 0;
    free(command);
    return ok || err_set(e, ERR_NOMEM, "out of memory: the result");
}

static int measure(const options *o, bench_setting *s, output *x, err *e) {
    const bench_options *own = o->own;
    record r;
    record_init(&r);
    progress bar;
    progress_begin(&bar, "bench", own->calibrate ? (int)own->times : 1, STDERR_FILENO);
    progress_phase(&bar, "blocks");
    s->plan.progress = progress_tick;
    s->plan.progress_ctx = &bar;
    bool ok = own->calibrate ? bench_calibrate(&s->plan, (int)own->times, &r, e)
                             : bench_run(&s->plan, &r, e);
    progress_end(&bar);
    for (size_t i = r.n; ok && i-- > 0;) { // a plugin is not asked to do everything
        const char *impl = json_string_value(json_object_get(r.rows[i].params, "impl"));
        if (r.rows[i].status == ROW_SKIPPED && impl && strcmp(impl, "deltop") != 0)
            record_drop(&r, i);
    }
    for (size_t i = 0; ok && i < own->external.n; i++)
        ok = record_add_external(&r, own->external.v[i], e);
    ok = ok && about_run(&r, s, o, e);
    size_t bad = 0, timed = 0;
    for (size_t i = 0; i < r.n; i++) {
        bool mine = strcmp(r.rows[i].source, "deltop") == 0;
        bad += mine && (r.rows[i].status == ROW_WRONG || r.rows[i].status == ROW_FAILED);
        timed += mine && r.rows[i].status == ROW_OK;
    }
    if (ok && !o->json) {
        if (own->markdown)
            bench_print_markdown(&r, stdout);
        else
            bench_print_table(&r, own->explain, terminal_width(), stdout);
        if (own->slow)
            say_note("%s does more work than it should: --slow", s->slow);
    }
    ok = ok && save_all(x, o, &r, e) &&
         output_finish(x, "bench.json", bench_with_head(x, record_json(&r)), e);
    record_free(&r);
    if (ok && bad == 0 && timed == 0)
        err_set(e, ERR_UNSUPPORTED, "nothing was measured");
    return !ok ? EXIT_FAILED : bad ? EXIT_CHECK : EXIT_DONE;
}

static bool check_operands(const options *o, err *e) {
    const bench_options *own = o->own;
    if (own->list && o->json) // the list is text, and --json promises one JSON value
        return err_set(e, ERR_USAGE, "options --json and --list: one at a time");
    if (own->ab && own->bisect)
        return err_set(e, ERR_USAGE, "options --ab and --git-bisect: one at a time");
    if ((own->ab || own->bisect) && o->n_operands != 1)
        return err_set(e, ERR_USAGE, "option --%s: takes two words, like --%s %s",
                       own->ab ? "ab" : "git-bisect", own->ab ? "ab" : "git-bisect",
                       own->ab ? "./deltop-old ./deltop" : "v1.0 HEAD");
    if (!own->ab && !own->bisect && o->n_operands)
        return err_set(e, ERR_USAGE,
                       "bench: takes no %s; cases are chosen with --suite, --case and "
                       "--axis",
                       text_show(o->operand[0]));
    static const char *const times[] = {"times", NULL}, *const builds[] = {"build-command", NULL},
                             *const verdicts[] = {"threshold", NULL};
    if (!options_need(o, times, own->calibrate, "--calibrate", e) ||
        !options_need(o, builds, own->bisect, "--git-bisect", e) ||
        !options_need(o, verdicts, own->ab || own->bisect, "--ab or --git-bisect", e))
        return false;
    static const char *const alone[] = {"calibrate", "slow", "external", "junit", "explain"};
    for (size_t i = 0; (own->ab || own->bisect) && i < sizeof alone / sizeof *alone; i++)
        if (options_given(o, alone[i]))
            return err_set(e, ERR_USAGE, "options --%s and --%s: one at a time",
                           own->ab ? "ab" : "git-bisect", alone[i]);
    return true;
}

static int run(const options *o, err *e) {
    const bench_options *own = o->own;
    bench_setting s = {0};
    output *x = NULL;
    int code = EXIT_FAILED;
    if (!check_operands(o, e) || !bench_setup_make(o, &s, e))
        goto done;
    if (own->list) {
        code = list(&s);
        goto done;
    }
    x = output_open(o, e);
    if (x)
        code = own->ab       ? bench_ab(o, &s, x, e)
               : own->bisect ? bench_find_commit(o, &s, x, e)
                             : measure(o, &s, x, e);
done:
    output_free(x);
    bench_setup_free(&s);
    return code;
}

const command command_bench = {
    .name = "bench",
    .summary = "kernel throughput, each result checked before",
    .usage = "[--suite NAME | --axis op=NAME ...]",
    .details =
        "Every case is run once and compared with float64 first: a wrong kernel gets no time, and "
        "the "
        "exit code is 4. Then all cases are measured in rounds, warm and with emptied caches. Keep "
        "bench.json as a baseline and give it to `deltop compare`.\n"
        "Columns: median of a call in ms, warm and cold; 90%: how far apart the middle 90 of 100 "
        "calls "
        "lie; error: the worst relative L2 error of outputs, final states and outputs with "
        "correlated "
        "keys; x floor: times what moving the bytes once or multiplying once takes; bound: which "
        "of "
        "the two that is, or the chain of chunks that wait for each other.\n"
        "On a CPU one thread is used, not all cores, unless --threads says more: it is disturbed "
        "least. docs/ci.md "
        "has "
        "whole pipelines.",
    .example = "deltop bench --suite quick --out baseline\n"
               "deltop bench --axis op=gdn --axis T=1k,4k,16k --axis H=4 --explain\n"
               "deltop bench --suite ci --device cuda --out run --external flashinfer.json\n"
               "deltop bench --ab ./deltop-before ./deltop --case gdn\n"
               "deltop bench --git-bisect HEAD~10 HEAD --case gdn.B1.T512",
    .files = "bench.json, bench.csv, bench.md, bench.xml (JUnit), bench.png",
    .words = true,
    .takes = TAKES_OUTPUT | TAKES_SEED | TAKES_DEVICE | TAKES_THREADS,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(bench_options),
    .own_defaults = &defaults,
    .run = run,
};
