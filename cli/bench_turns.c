#include "cli/bench_turns.h"

#include "bench/ab.h"
#include "bench/bisect.h"
#include "bench/match.h"
#include "cli/bench_print.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "core/mem.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What stands around every result, then the result's own keys.
json_t *bench_with_head(output *x, json_t *v) {
    json_t *head = output_head(x);
    if (head && v && json_object_update(head, v) == 0) {
        json_decref(v);
        return head;
    }
    json_decref(head);
    json_decref(v);
    return NULL;
}

// The words that choose cases, for a program that is started for a turn.
static const char **child_arguments(const options *o, const bench_setting *s, char *budget,
                                    size_t size, err *e) {
    const bench_options *own = o->own;
    const char **v = mem_zalloc(32 + 2 * (own->cases.n + own->axes.n + own->plugins.n), sizeof *v,
                                "arguments", e);
    size_t n = 0;
    if (!v)
        return NULL;
    text_real(s->plan.seconds / (double)s->cases.n / (double)own->rounds, 6, budget, size);
    v[n++] = "--budget";
    v[n++] = budget;
    if (options_given(o, "suite")) { // --axis op= alone needs none
        v[n++] = "--suite";
        v[n++] = own->suite;
    }
    if (options_given(o, "seed")) {
        v[n++] = "--seed";
        v[n++] = options_text(o, "seed");
    }
    for (size_t i = 0; i < own->plugins.n; i++) {
        v[n++] = "--plugin";
        v[n++] = own->plugins.v[i];
    }
    v[n++] = "--device";
    v[n++] = o->device;
    if (own->no_cold)
        v[n++] = "--no-cold";
    if (options_given(o, "threads")) {
        v[n++] = "--threads";
        v[n++] = options_text(o, "threads");
    }
    if (own->model) {
        v[n++] = "--model";
        v[n++] = own->model;
    }
    for (size_t i = 0; i < own->cases.n; i++) {
        v[n++] = "--case";
        v[n++] = own->cases.v[i];
    }
    for (size_t i = 0; i < own->axes.n; i++) {
        v[n++] = "--axis";
        v[n++] = own->axes.v[i];
    }
    return v;
}

int bench_ab(const options *o, bench_setting *s, output *x, err *e) {
    const bench_options *own = o->own;
    const char *a = own->ab, *b = o->operand[0];
    char budget[40];
    record ra, rb;
    comparison c = {0};
    record_init(&ra);
    record_init(&rb);
    progress bar;
    progress_begin(&bar, "bench --ab", 1, STDERR_FILENO);
    progress_phase(&bar, "turns");
    s->plan.progress = progress_tick;
    s->plan.progress_ctx = &bar;
    bool builds = strchr(a, '/') && strchr(b, '/'), ok;
    if (builds) {
        const char **arguments = child_arguments(o, s, budget, sizeof budget, e);
        ok = arguments &&
             ab_builds(a, b, arguments, (int)own->rounds, progress_tick, &bar, &ra, &rb, e);
        free(arguments);
    } else {
        ok = ab_kernels(&s->plan, a, b, &ra, &rb, e);
    }
    progress_end(&bar);
    match_rules rules = {.verdict = verdict_default(), .across_devices = true};
    rules.verdict.threshold = own->threshold / 100;
    rules.verdict.noise = 0.005; // both were measured in the same minutes
    ok = ok && match(&ra, 1, &rb, &rules, &c, e);
    if (ok && builds && c.same_binary)
        say_warning("%s and %s are the same program", text_show(a), text_show(b));
    if (ok && !o->json) {
        if (own->markdown)
            compare_print_markdown(&c, 0, stdout);
        else
            compare_print_table(&c, true, "A", "B", stdout);
        printf("%s against %s: ", text_show(b), text_show(a));
        compare_print_counts(&c, stdout);
        putchar('\n');
    }
    int code = ok ? comparison_exit(&c, false) : EXIT_FAILED;
    json_t *v = ok ? json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "a", output_json_text(a), "b",
                               output_json_text(b), "verdicts", comparison_counts_json(&c), "rows",
                               comparison_rows_json(&c), "a_result", record_json(&ra), "b_result",
                               record_json(&rb))
                   : NULL;
    ok = ok && output_finish(x, "ab.json", bench_with_head(x, v), e);
    comparison_free(&c);
    record_free(&ra);
    record_free(&rb);
    return ok ? code : EXIT_FAILED;
}

static void say_step(void *ctx, const char *text) {
    (void)ctx;
    say_note("%s", text);
}

int bench_find_commit(const options *o, bench_setting *s, output *x, err *e) {
    const bench_options *own = o->own;
    char budget[40];
    const char **arguments = child_arguments(o, s, budget, sizeof budget, e);
    bisect_plan p = {.good = own->bisect,
                     .bad = o->operand[0],
                     .build = own->build,
                     .arguments = arguments,
                     .turns = (int)own->rounds,
                     .threshold = own->threshold / 100,
                     .say = say_step};
    bisect_result r = {0};
    bool ok = arguments && bench_bisect(&p, &r, e);
    if (ok && !o->json)
        printf("%s is the first slow commit: %s\n%s", r.commit, r.subject, r.table);
    json_t *v =
        ok ? json_pack("{s:s, s:o, s:i, s:O}", "commit", r.commit, "subject",
                       output_json_text(r.subject), "measured", r.measured, "steps", r.steps)
           : NULL;
    ok = ok && output_finish(x, "bisect.json", bench_with_head(x, v), e);
    bisect_free(&r);
    free(arguments);
    return ok ? EXIT_DONE : EXIT_FAILED;
}
