#include "tests/dash_play.h"

#include "tests/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WORDS = 40 };

const char *const dash_utf8[] = {"LC_ALL=C.UTF-8", "DELTOP_CONFIG=/dev/null", NULL};

run view_in(int code, const char *const *env, const char *const *words) {
    const char *argv[WORDS + 2] = {"view"};
    run r = {.argv = argv, .env = env, .timeout = 400};
    for (int i = 0; words[i] && i < WORDS; i++)
        argv[i + 1] = words[i];
    assert_true(run_program(&r));
    r.argv = NULL;
    if (r.code != code)
        fail_msg("exit code %d (signal %d), not %d: %s", r.code, r.ended_by, code, r.err);
    return r;
}

void holds(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("no \"%s\" in:\n%s", part, text);
}

run play(int code, const char *script, const char *folder, const char *const *words) {
    const char *argv[WORDS + 8];
    char path[700];
    int n = 0;
    snprintf(path, sizeof path, "%s.play", folder);
    files_text(path, script);
    for (; words[n]; n++)
        argv[n] = words[n];
    argv[n++] = "--play";
    argv[n++] = path;
    argv[n++] = "--frames";
    argv[n++] = folder;
    argv[n] = NULL;
    return view_in(code, dash_utf8, argv);
}

char *frame(const char *folder, const char *name) {
    char path[800];
    size_t n;
    snprintf(path, sizeof path, "%s/%s.txt", folder, name);
    return files_read(path, &n);
}
