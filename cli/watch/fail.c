#include "cli/watch/fail.h"

#include "cli/say.h"
#include "core/mem.h"
#include "core/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool watch_failures_take(watch_failures *f, size_t checkpoint, char *sentence, err *e) {
    if (!mem_grow((void **)&f->v, &f->room, f->n + 1, sizeof *f->v, "rules", e)) {
        free(sentence);
        return false;
    }
    f->v[f->n++] = (struct watch_failure){checkpoint, sentence};
    return true;
}

void watch_failures_add(watch_failures *f, size_t checkpoint, const rule_outcome *o) {
    char *s = NULL;
    err ignored = {0};
    f->failed = asprintf(&s, "%s %s on %s: %s", o->rule->name, rule_verdict_name(o->verdict),
                         o->document, o->sentence) < 0 ||
                !watch_failures_take(f, checkpoint, s, &ignored) || f->failed;
}

void watch_failures_free(watch_failures *f) {
    for (size_t i = 0; i < f->n; i++)
        free(f->v[i].sentence);
    free(f->v);
    *f = (watch_failures){0};
}

char *watch_failures_of(const watch_failures *f, size_t checkpoint, err *e) {
    size_t room = 1, n = 0;
    for (size_t i = 0; i < f->n; i++)
        if (f->v[i].checkpoint == checkpoint)
            room += strlen(f->v[i].sentence) + 1;
    char *all = mem_zalloc(room, 1, "broken rules", e);
    if (!all)
        return NULL;
    for (size_t i = 0; i < f->n; i++)
        if (f->v[i].checkpoint == checkpoint)
            n += (size_t)snprintf(all + n, room - n, "%s%s", n ? "\n" : "", f->v[i].sentence);
    return all;
}

void watch_on_fail(const char *command, const char *path, int64_t step, const char *sentences,
                   const char *report) {
    char number[32];
    snprintf(number, sizeof number, "%" PRId64, step);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("DELTOP_CHECKPOINT", path, 1);
        setenv("DELTOP_STEP", step < 0 ? "" : number, 1);
        setenv("DELTOP_RULES", sentences, 1);
        setenv("DELTOP_REPORT", report, 1);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    pid_t got;
    while ((got = pid < 0 ? -1 : waitpid(pid, &status, 0)) < 0 && pid > 0 && errno == EINTR) {
    }
    if (got < 0)
        say_warning("option --on-fail: cannot start sh: %s", err_system(errno));
    else if (WIFSIGNALED(status))
        say_warning("option --on-fail: the command was ended by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status))
        say_warning("option --on-fail: the command ended with %d", WEXITSTATUS(status));
}
