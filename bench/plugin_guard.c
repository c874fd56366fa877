#include "bench/plugin_guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int guarded[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { GUARDED = sizeof guarded / sizeof *guarded, ALT_STACK = 64 << 10 };

static volatile sig_atomic_t inside;
static pthread_t caller;
static sigjmp_buf back;
static char sentence[400]; // for a crash that nothing can return from

static void on_crash(int n) {
    if (inside && pthread_equal(pthread_self(), caller))
        siglongjmp(back, n);
    if (inside) {
        ssize_t written = write(STDERR_FILENO, sentence, strlen(sentence));
        (void)written;
    }
    signal(n, SIG_DFL);
    raise(n);
}

void guard_install(void) {
    static char stack[ALT_STACK]; // a stack that ran over has no room for a handler
    static int done;
    if (done)
        return;
    done = 1;
    guard_name("a plugin");
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    for (int i = 0; i < GUARDED; i++) {
        // Not blocked while it runs: siglongjmp leaves the mask alone, which would cost a call of the
        // kernel's own each time.
        struct sigaction act = {.sa_handler = on_crash, .sa_flags = SA_NODEFER | SA_ONSTACK};
        sigemptyset(&act.sa_mask);
        sigaction(guarded[i], &act, NULL);
    }
}

void guard_name(const char *what) {
    snprintf(sentence, sizeof sentence,
             "deltop: %.300s: crashed in a thread of its own; nothing was written\n", what);
}

int guard_run(void (*work)(void *arg), void *arg) {
    int signal = sigsetjmp(back, 0);
    if (signal == 0) {
        caller = pthread_self();
        inside = 1;
        work(arg);
    }
    inside = 0;
    return signal;
}

const char *guard_signal(int n) {
    return strsignal(n);
}
