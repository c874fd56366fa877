// Ctrl-C and its kin: long jobs end soon after the signal, by that signal, and leave nothing behind.
#include "tests/files.h"
#include "tests/run.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// BOUND: below the grace period (cli/signals.h), which ends whoever does not listen; what is measured on
// an idle machine is a tenth of it.
static const double after = 0.5, bound = 2.0;

static char text[400], ids[400];

// Explaining takes a minute and more, reading losses longer; the others take two seconds or three, so their
// rows tell little more than how the program ends.
static const struct job {
    const char *words[8];
    int signal;
} jobs[] = {
    {{"explain", "--draws", "1000000", "--table"}, SIGINT},
    {{"explain", "--draws", "1000000", "gated_deltanet"}, SIGTERM},
    {{"verify", "--only", "T03"}, SIGINT},
    {{"verify", "--only", "T03"}, SIGTERM},
    {{"tokens", "examples/small-deltanet", text}, SIGINT},
    {{"tokens", "examples/small-deltanet", text, "--out", ids}, SIGTERM},
    {{"tokens", "examples/small-deltanet", text, "--json"}, SIGINT},
    {{"loss", "examples/small-deltanet", text}, SIGINT},
};

static int make_text(void **state) {
    size_t n = 0;
    (void)state;
    snprintf(text, sizeof text, "%s", files_path("%s", "long.txt"));
    snprintf(ids, sizeof ids, "%s", files_path("%s", "ids"));
    char *once = files_read("examples/text_kjv.txt", &n);
    FILE *f = fopen(text, "w");
    for (size_t all = 0; f && all < 90000000; all += n)
        if (fwrite(once, 1, n, f) != n)
            return -1;
    free(once);
    return f && fclose(f) == 0 ? 0 : -1;
}

static void long_jobs_end_soon_after_a_signal(void **state) {
    (void)state;
    double most = 0;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const struct job *j = &jobs[i];
        run r = {.argv = j->words, .signal = j->signal, .signal_after = after};
        double from = files_seconds();
        assert_true(run_program(&r));
        double took = files_seconds() - from - after;
        if (r.ended_by != j->signal || took > bound)
            fail_msg("%s: signal %d, code %d, %.2f s after it: %s", j->words[0], r.ended_by, r.code,
                     took, r.err);
        assert_null(strstr(r.err, "deltop: ")); // who stops a program needs no message
        most = took > most ? took : most;
        run_free(&r);
    }
    printf("measured: at most %.2f s\n", most);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_jobs_end_soon_after_a_signal),
    };
    return cmocka_run_group_tests(tests, make_text, files_cleared);
}
