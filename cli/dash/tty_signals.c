#include "cli/dash/tty_signals.h"

#include "cli/dash/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const int noted[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,  SIGUSR2,
                            SIGXCPU, SIGALRM, SIGTSTP, SIGCONT, SIGWINCH, SIGPIPE};
static const int fatal[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
enum { NOTED = sizeof noted / sizeof *noted, FATAL = sizeof fatal / sizeof *fatal };

static struct sigaction before[NOTED + FATAL];
static bool installed;
static int fd[2] = {-1, -1};
static volatile sig_atomic_t ending, interrupts, stopping, resumed, resized;

static void note(int n) {
    int kept = errno;
    switch (n) {
    case SIGINT:
        interrupts = interrupts + 1;
        break;
    case SIGTSTP:
        stopping = 1;
        break;
    case SIGCONT:
        resumed = 1;
        break;
    case SIGWINCH:
        resized = 1;
        break;
    case SIGPIPE: // nobody reads the screen any more
        ending = SIGHUP;
        break;
    default:
        ending = n;
        break;
    }
    ssize_t k = write(fd[1], "s", 1);
    (void)k;
    errno = kept;
}

static void strike(int n) {
    screen_emergency();
    signal(n, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, n);
    raise(n);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void set(int n, void (*handler)(int), struct sigaction *old) {
    struct sigaction act = {0};
    act.sa_handler = handler;
    act.sa_flags = SA_RESTART;
    sigfillset(&act.sa_mask);
    sigaction(n, &act, old);
}

bool tty_signals_install(err *e) {
    if (pipe2(fd, O_NONBLOCK | O_CLOEXEC) != 0)
        return err_set(e, ERR_IO, "no pipe: %s", err_system(errno));
    for (int i = 0; i < NOTED; i++) {
        set(noted[i], note, &before[i]);
        // A shell without job control, or nohup, has asked for these to be ignored.
        bool keep = noted[i] == SIGHUP || noted[i] == SIGTSTP || noted[i] == SIGINT;
        if (keep && before[i].sa_handler == SIG_IGN)
            sigaction(noted[i], &before[i], NULL);
    }
    for (int i = 0; i < FATAL; i++)
        set(fatal[i], strike, &before[NOTED + i]);
    installed = true;
    return true;
}

void tty_signals_restore(void) {
    if (!installed)
        return;
    for (int i = 0; i < NOTED; i++)
        sigaction(noted[i], &before[i], NULL);
    for (int i = 0; i < FATAL; i++)
        sigaction(fatal[i], &before[NOTED + i], NULL);
    installed = false;
}

int tty_signals_fd(void) {
    return fd[0];
}

tty_pending tty_signals_take(void) {
    char buf[64];
    while (read(fd[0], buf, sizeof buf) > 0)
        ;
    sigset_t all, kept;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &kept);
    tty_pending p = {ending, interrupts, stopping, resumed, resized};
    interrupts = stopping = resumed = resized = 0;
    sigprocmask(SIG_SETMASK, &kept, NULL);
    return p;
}

void tty_signals_stop(void) {
    struct sigaction mine, plain = {0};
    sigset_t set;
    plain.sa_handler = SIG_DFL;
    sigaction(SIGTSTP, &plain, &mine);
    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigaction(SIGTSTP, &mine, NULL);
    resumed = 0;
}
