#include "cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t caught;
static void (*cleaner[4])(void);
static volatile sig_atomic_t n_cleaners;

void signals_guard_descriptors(void) {
    // The wrong direction on purpose: a write to a closed standard output has to fail, not vanish.
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF &&
            open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            _exit(1);
}

int signals_caught(void) {
    return caught;
}

bool signals_go_on(void *ctx, int64_t done, int64_t total) {
    (void)ctx, (void)done, (void)total;
    return !caught;
}

void signals_at_end(void (*clean)(void)) {
    for (int i = 0; i < n_cleaners; i++)
        if (cleaner[i] == clean)
            return;
    if (n_cleaners < (int)(sizeof cleaner / sizeof *cleaner)) {
        cleaner[n_cleaners] = clean;
        n_cleaners = n_cleaners + 1;
    }
}

void signals_end(int n) {
    for (int i = 0; i < n_cleaners; i++)
        cleaner[i]();
    signal(n, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, n);
    raise(n);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    _exit(128 + n); // process 1 of a container is not killed by a default action
}

static void on_signal(int n) {
    int kept = errno;
    if (n == SIGALRM) // the grace period is over
        signals_end(caught ? caught : n);
    if (n == SIGPIPE || caught)
        signals_end(n);
    caught = n;
    alarm(SIGNALS_GRACE);
    static const char text[] = "\ndeltop: stopping; once more to stop at once\n";
    if (n == SIGINT && isatty(STDERR_FILENO)) {
        ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
        (void)written;
    }
    errno = kept;
}

void signals_install(void) {
    // The user's and the batch systems' ways to end a job: none may leave a partial file.
    const int which[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGPIPE,
                         SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        struct sigaction old, act;
        memset(&act, 0, sizeof act);
        act.sa_handler = on_signal; // no SA_RESTART: a read that waits for a person has to end
        sigfillset(&act.sa_mask);
        if (sigaction(which[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
            continue;
        sigaction(which[i], &act, NULL);
    }
    // A limit on file sizes is an error of the write (EFBIG), with a message, not the end.
    signal(SIGXFSZ, SIG_IGN);
}
