#include "core/busguard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

// SIGBUS is raised in the thread that touched the page, so each thread needs its own way back.
static _Thread_local sigjmp_buf *way_back;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int inside;             // threads between enter and leave; under the lock
static struct sigaction older; // what to restore; written while inside == 0

static void on_sigbus(int sig, siginfo_t *info, void *context) {
    if (way_back)
        siglongjmp(*way_back, 1);
    // Not ours. Hand it on; a default or ignored action is put back, and the instruction that
    // failed runs again and meets it.
    if (older.sa_flags & SA_SIGINFO)
        older.sa_sigaction(sig, info, context);
    else if (older.sa_handler == SIG_DFL || older.sa_handler == SIG_IGN)
        signal(SIGBUS, SIG_DFL);
    else
        older.sa_handler(sig);
}

static void enter(void) {
    pthread_mutex_lock(&lock);
    if (inside++ == 0) {
        struct sigaction mine;
        memset(&mine, 0, sizeof mine);
        mine.sa_sigaction = on_sigbus;
        mine.sa_flags = SA_SIGINFO;
        sigemptyset(&mine.sa_mask);
        sigaction(SIGBUS, &mine, &older);
    }
    pthread_mutex_unlock(&lock);
}

static void leave(void) {
    pthread_mutex_lock(&lock);
    if (--inside == 0)
        sigaction(SIGBUS, &older, NULL);
    pthread_mutex_unlock(&lock);
}

bool busguard_run(void (*work)(void *arg), void *arg) {
    sigjmp_buf here, *volatile outer = way_back;
    volatile bool whole = false;
    enter();
    // The mask is saved (1): a handler runs with its signal blocked, and the jump must undo that.
    if (sigsetjmp(here, 1) == 0) {
        way_back = &here;
        work(arg);
        whole = true;
    }
    way_back = outer;
    leave();
    return whole;
}
