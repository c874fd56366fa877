#include "tests/pty.h"

#include "tests/files.h"
#include "tests/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORDS = 60 };

// A process that stops needs a parent in its session, or it is not stopped at all. This one waits
// for the program's end and ends the same way.
static void act_as_shell(int tell) {
    signal(SIGTTOU, SIG_IGN);
    pid_t program = fork();
    if (program == 0) {
        setpgid(0, 0);
        tcsetpgrp(0, getpid());
        signal(SIGTTOU, SIG_DFL);
        // A suite run by nohup or in the background hands down ignored signals, and a program keeps
        // ignoring what it was started to ignore.
        const int asked[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
        for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
            signal(asked[i], SIG_DFL);
        return;
    }
    setpgid(program, program);
    ssize_t n = write(tell, &program, sizeof program);
    (void)n;
    int status = 0;
    signal(SIGHUP, SIG_IGN);
    while (waitpid(program, &status, 0) != program)
        ;
    if (WIFSIGNALED(status)) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    _exit(WEXITSTATUS(status));
}

pty pty_start(const char *const *argv, const char *const *env, int rows, int cols) {
    pty p = {.code = -1};
    struct winsize w = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    if (openpty(&p.master, &p.slave, NULL, NULL, &w) != 0)
        fail_msg("no pty: %s", strerror(errno));
    fcntl(p.master, F_SETFD, FD_CLOEXEC);
    fcntl(p.slave, F_SETFD, FD_CLOEXEC);
    tcgetattr(p.slave, &p.before);
    char *words[WORDS] = {(char *)run_program_path()};
    for (int i = 0; argv[i] && i + 2 < WORDS; i++)
        words[i + 1] = (char *)argv[i];
    int tell[2];
    if (pipe2(tell, O_CLOEXEC) != 0)
        fail_msg("no pipe: %s", strerror(errno));
    fflush(NULL);
    p.shell = fork();
    if (p.shell == 0) {
        setsid();
        ioctl(p.slave, TIOCSCTTY, 0);
        for (int fd = 0; fd < 3; fd++)
            dup2(p.slave, fd);
        close(p.master);
        close(p.slave);
        act_as_shell(tell[1]); // returns in the program's process
        setenv("TERM", "xterm-256color", 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        setenv("XDG_STATE_HOME", files_folder(), 1);
        setenv("XDG_CONFIG_HOME", files_folder(), 1);
        setenv("OMP_WAIT_POLICY", "passive", 1);
        for (int i = 0; env && env[i]; i++) {
            char *copy = strdup(env[i]), *equals = strchr(copy, '=');
            if (equals) {
                *equals = 0;
                setenv(copy, equals + 1, 1);
            } else {
                unsetenv(copy);
            }
        }
        execv(words[0], words);
        _exit(127);
    }
    close(tell[1]);
    if (p.shell < 0 || read(tell[0], &p.pid, sizeof p.pid) != sizeof p.pid)
        fail_msg("no child: %s", strerror(errno));
    close(tell[0]);
    fcntl(p.master, F_SETFL, O_NONBLOCK);
    return p;
}

void pty_send(pty *p, const char *bytes) {
    size_t n = strlen(bytes);
    while (n) {
        ssize_t k = write(p->master, bytes, n);
        if (k > 0) {
            bytes += k;
            n -= (size_t)k;
        } else if (errno != EAGAIN && errno != EINTR) {
            return;
        }
    }
}

void pty_resize(pty *p, int rows, int cols) {
    struct winsize w = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    ioctl(p->master, TIOCSWINSZ, &w);
}

// What is there now; false at the end of the file.
static bool take(pty *p, int ms) {
    struct pollfd f = {p->master, POLLIN, 0};
    if (poll(&f, 1, ms) <= 0)
        return true;
    for (;;) {
        if (p->n + 65537 > p->cap) {
            p->cap = p->cap * 2 + 131072;
            p->out = realloc(p->out, p->cap);
        }
        ssize_t k = read(p->master, p->out + p->n, 65536);
        if (k <= 0)
            return k < 0 && (errno == EAGAIN || errno == EINTR);
        p->n += (size_t)k;
        p->out[p->n] = 0;
    }
}

bool pty_until(pty *p, const char *text, size_t from, double seconds) {
    double end = files_seconds() + seconds;
    for (;;) {
        if (p->n > from && memmem(p->out + from, p->n - from, text, strlen(text)))
            return true;
        double left = end - files_seconds();
        if (left <= 0 || !take(p, (int)(left * 1000) + 1))
            return p->n > from && memmem(p->out + from, p->n - from, text, strlen(text));
    }
}

size_t pty_listen(pty *p, double seconds) {
    double end = files_seconds() + seconds;
    size_t had = p->n;
    for (double left = seconds; left > 0; left = end - files_seconds())
        take(p, (int)(left * 1000) + 1);
    return p->n - had;
}

void pty_end(pty *p, double seconds) {
    double end = files_seconds() + seconds;
    int status = 0;
    for (;;) {
        pid_t k = waitpid(p->shell, &status, WNOHANG);
        if (k == p->shell)
            break;
        if (files_seconds() > end) {
            kill(p->pid, SIGKILL);
            waitpid(p->shell, &status, 0);
            p->code = -2;
            return;
        }
        take(p, 10);
    }
    take(p, 0);
    p->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    p->ended_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

bool pty_modes_as_before(const pty *p) {
    struct termios now;
    if (tcgetattr(p->slave, &now) != 0)
        return false;
    return now.c_iflag == p->before.c_iflag && now.c_oflag == p->before.c_oflag &&
           now.c_cflag == p->before.c_cflag && now.c_lflag == p->before.c_lflag &&
           memcmp(now.c_cc, p->before.c_cc, sizeof now.c_cc) == 0;
}

void pty_free(pty *p) {
    close(p->master);
    close(p->slave);
    free(p->out);
    *p = (pty){0};
}
