#include "cli/report/workers.h"

#include "cli/signals.h"
#include "core/mem.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t start(worker_fn fn, void *ctx, int worker, err *e) {
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        err_set(e, ERR_NOMEM, "cannot start a process: %s", err_system(errno));
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); // it died before we could ask to be told
    // A key on the terminal is for the parent, which hands it on once: a second signal would end a
    // worker at once.
    setpgid(0, 0);
    int code = fn(ctx, worker);
    fflush(NULL);
    _exit(signals_caught() ? 128 + signals_caught() : code);
}

static void tell_all(const pid_t *pid, int n, int signal) {
    for (int i = 0; i < n; i++)
        if (pid[i] > 0)
            kill(pid[i], signal);
}

bool workers_run(const workers_how *how, worker_fn fn, void *ctx, int *code, err *e) {
    pid_t *pid = mem_zalloc((size_t)how->n, sizeof *pid, "workers", e);
    int running = 0;
    bool told = false, ok = pid != NULL;
    *code = 0;
    for (int i = 0; ok && i < how->n; i++) {
        pid[i] = start(fn, ctx, i, e);
        ok = pid[i] > 0;
        running += ok;
    }
    while (running > 0) {
        if (!told && (!ok || signals_caught() || (how->tick && !how->tick(ctx)))) {
            tell_all(pid, how->n, SIGTERM);
            told = true;
            if (ok)
                ok = err_set(e, ERR_CANCELLED, "stopped");
        }
        int status = 0;
        pid_t who = waitpid(-1, &status, WNOHANG);
        if (who <= 0) {
            nanosleep(&(struct timespec){0, 20000000}, NULL);
            continue;
        }
        int i = 0;
        while (i < how->n && pid[i] != who)
            i++;
        if (i == how->n)
            continue; // no worker of ours
        pid[i] = 0;
        running--;
        if (WIFEXITED(status)) {
            *code = *code ? *code : WEXITSTATUS(status);
            continue;
        }
        if (told)
            continue;
        if (how->died && how->died(ctx, i, WTERMSIG(status))) {
            pid[i] = start(fn, ctx, i, e);
            ok = ok && pid[i] > 0;
            running += pid[i] > 0;
        }
    }
    free(pid);
    return ok;
}
