#include "tests/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

const char *run_program_path(void) {
    const char *p = getenv("DELTOP");
    return p && *p ? p : "./deltop";
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// The environment with changes; the strings are lent, the array is not.
static char **changed_env(const char *const *change) {
    size_t n = 0, m = 0;
    while (environ[n])
        n++;
    while (change && change[m])
        m++;
    char **env = calloc(n + m + 1, sizeof *env);
    size_t at = 0;
    for (size_t i = 0; env && i < n; i++) {
        bool drop = false;
        for (size_t j = 0; j < m; j++) {
            size_t len = strcspn(change[j], "=");
            drop = drop || (strncmp(environ[i], change[j], len) == 0 && environ[i][len] == '=');
        }
        if (!drop)
            env[at++] = environ[i];
    }
    for (size_t j = 0; env && j < m; j++)
        if (strchr(change[j], '='))
            env[at++] = (char *)change[j];
    return env;
}

static void append(char **text, size_t *n, const char *more, size_t k) {
    char *p = realloc(*text, *n + k + 1);
    if (!p)
        abort();
    memcpy(p + *n, more, k);
    p[*n + k] = 0;
    *text = p;
    *n += k;
}

static void talk(run *r, pid_t pid, int in, int out, int err) {
    double start = now(), end = start + (r->timeout > 0 ? r->timeout : 20);
    size_t sent = 0;
    bool signalled = false;
    if (in >= 0)
        fcntl(in, F_SETFL, O_NONBLOCK);
    while (out >= 0 || err >= 0) {
        if (in >= 0 && sent >= r->n_input && !r->hold_stdin) {
            close(in);
            in = -1;
        }
        struct pollfd p[3] = {
            {out, POLLIN, 0}, {err, POLLIN, 0}, {sent < r->n_input ? in : -1, POLLOUT, 0}};
        bool wait_to_signal = r->signal && !signalled;
        double left = (wait_to_signal ? start + r->signal_after : end) - now();
        if (left <= 0 || poll(p, 3, (int)(left * 1000) + 1) == 0) {
            if (wait_to_signal) {
                signalled = true;
                kill(pid, r->signal);
                continue;
            }
            r->timed_out = true;
            kill(pid, SIGKILL);
            break;
        }
        for (int i = 0; i < 2; i++) {
            int *fd = i == 0 ? &out : &err;
            if (*fd < 0 || !p[i].revents)
                continue;
            char buf[65536];
            ssize_t k = read(*fd, buf, sizeof buf);
            if (k > 0)
                append(i == 0 ? &r->out : &r->err, i == 0 ? &r->n_out : &r->n_err, buf, (size_t)k);
            if (k <= 0 || (i == 0 && r->drop_stdout)) {
                close(*fd);
                *fd = -1;
            }
        }
        if (in >= 0 && p[2].revents) {
            ssize_t k = write(in, r->input + sent, r->n_input - sent);
            if (k > 0)
                sent += (size_t)k;
            else if (errno != EAGAIN)
                sent = r->n_input;
        }
    }
    int fds[] = {in, out, err};
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

bool run_program(run *r) {
    const char *argv[64] = {run_program_path()};
    for (int i = 0; i < 62 && r->argv && r->argv[i]; i++)
        argv[i + 1] = r->argv[i];
    r->out = calloc(1, 1);
    r->err = calloc(1, 1);
    r->n_out = r->n_err = 0;
    r->code = -1;
    r->ended_by = 0;
    r->timed_out = false;
    int in[2], out[2], err[2];
    if (!r->out || !r->err || pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) ||
        pipe2(err, O_CLOEXEC))
        return false;
    signal(SIGPIPE, SIG_IGN);
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    posix_spawn_file_actions_init(&fa);
    posix_spawnattr_init(&at);
    // The program must see a broken pipe as it would under a shell.
    sigset_t defaults;
    sigemptyset(&defaults);
    // And these, which a shell's "&" or nohup leaves ignored, as under a terminal.
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGHUP);
    sigaddset(&defaults, SIGTERM);
    if (!r->ignore_sigpipe)
        sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigdefault(&at, &defaults);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGDEF);
    if (r->close_stdin)
        posix_spawn_file_actions_addclose(&fa, 0);
    else
        posix_spawn_file_actions_adddup2(&fa, in[0], 0);
    if (r->close_stdout)
        posix_spawn_file_actions_addclose(&fa, 1);
    else if (r->stdout_to)
        posix_spawn_file_actions_addopen(&fa, 1, r->stdout_to, O_WRONLY, 0);
    else
        posix_spawn_file_actions_adddup2(&fa, out[1], 1);
    if (r->close_stderr)
        posix_spawn_file_actions_addclose(&fa, 2);
    else
        posix_spawn_file_actions_adddup2(&fa, err[1], 2);
    char **env = changed_env(r->env);
    pid_t pid = -1;
    int rc = posix_spawn(&pid, argv[0], &fa, &at, (char *const *)argv, env);
    posix_spawn_file_actions_destroy(&fa);
    posix_spawnattr_destroy(&at);
    free(env);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    if (rc != 0) {
        close(in[1]);
        close(out[0]);
        close(err[0]);
        return false;
    }
    talk(r, pid, in[1], out[0], err[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status))
        r->code = WEXITSTATUS(status);
    else
        r->ended_by = WTERMSIG(status);
    return true;
}

void run_free(run *r) {
    free(r->out);
    free(r->err);
    r->out = r->err = NULL;
}

run run_command(int code, double timeout, const char *command, const char *const *words) {
    const char *argv[20] = {command};
    run r = {.argv = argv, .timeout = timeout};
    for (int i = 0; words[i] && i < 18; i++)
        argv[i + 1] = words[i];
    assert_true(run_program(&r));
    if (r.code != code)
        fail_msg("exit code %d, not %d: %s%s", r.code, code, r.out, r.err);
    return r;
}

void run_holds(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in:\n%s", part, text);
}
