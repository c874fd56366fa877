#include "core/alive.h"

#include "core/mem.h"
#include "core/small_file.h"
#include "core/text.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// ID.alive holds, one a line: beats, rank, run, who.
enum { MOST_BYTES = 1024, MOST_PATH = 4096 };

// Files of this process (of its parent too, behind a fork), for alive_remove_all.
static struct mine {
    volatile sig_atomic_t used;
    pid_t pid;
    char file[MOST_PATH], folder[MOST_PATH];
} mine[4];

// A process of another machine, as last seen from here.
typedef struct seen {
    char id[ALIVE_ID];
    long long beats; // -1: its file was not there
    double since;    // when that was first seen, by our own clock
} seen;

struct alive {
    char *folder;
    char id[ALIVE_ID], run[128], who[256], machine[40];
    int rank;
    double beat, patience;
    seen *other; // owned
    size_t n_other, room_other;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool started, stop;
    long long beats;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool path_of(const alive *a, const char *id, char *buf, size_t size, err *e) {
    return small_file_path(a->folder, id, ".alive", buf, size, e);
}

// ---- who lives -------------------------------------------------------------------------------------------

// Start of process PID in clock ticks; "" when it is not there or only waits to be buried.
static void start_of(long pid, char *buf, size_t size) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    buf[0] = 0;
    const char *at = small_file_read(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
        return;
    at += 2; // field 3; the start is field 22
    for (int field = 3; field < 22 && at; field++) {
        at = strchr(at, ' ');
        at += at != NULL;
    }
    if (at)
        snprintf(buf, size, "%.*s", (int)strspn(at, "0123456789"), at);
}

// Processes can be looked up where both the kernel that runs and the numbering are ours.
static void this_machine(char *buf, size_t size) {
    char boot[64] = "", space[64] = "";
    small_file_read("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[n > 0 ? n : 0] = 0;
    uint64_t h = UINT64_C(1469598103934665603); // FNV-1a
    for (const char *s = boot; *s; s++)
        h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
    for (const char *s = space; *s; s++)
        h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
    snprintf(buf, size, "%016" PRIx64, h);
}

static bool seen_beating(alive *a, const char *id, bool *lives, err *e) {
    char path[MOST_PATH], text[MOST_BYTES], line[64];
    if (!path_of(a, id, path, sizeof path, e))
        return false;
    long long beats =
        small_file_read(path, text, sizeof text) && small_file_line(text, 0, line, sizeof line)
            ? strtoll(line, NULL, 10)
            : -1;
    seen *s = NULL;
    for (size_t i = 0; i < a->n_other && !s; i++)
        if (strcmp(a->other[i].id, id) == 0)
            s = &a->other[i];
    if (!s) {
        if (!mem_grow((void **)&a->other, &a->room_other, a->n_other + 1, sizeof *a->other,
                      "processes", e))
            return false;
        s = &a->other[a->n_other++];
        snprintf(s->id, sizeof s->id, "%s", id);
        s->beats = beats;
        s->since = now();
    } else if (s->beats != beats) {
        s->beats = beats;
        s->since = now();
    }
    *lives = now() - s->since < a->patience;
    return true;
}

bool alive_check(alive *a, const char *id, bool *lives, err *e) {
    if (strcmp(id, a->id) == 0)
        return *lives = true;
    size_t n = strlen(a->machine);
    if (strncmp(id, a->machine, n) != 0 || id[n] != '-')
        return seen_beating(a, id, lives, e);
    char start[32];
    const char *stands = strrchr(id, '-');
    start_of(strtol(id + n + 1, NULL, 10), start, sizeof start);
    *lives = start[0] && strcmp(stands + 1, start) == 0;
    return true;
}

// ---- our own sign of life --------------------------------------------------------------------------------

static bool beat(alive *a, err *e) {
    char path[MOST_PATH], text[640];
    snprintf(text, sizeof text, "%lld\n%d\n%s\n%s\n", ++a->beats, a->rank, a->run, a->who);
    return path_of(a, a->id, path, sizeof path, e) && small_file_write(path, 0, text, e);
}

static void *keep_beating(void *ctx) {
    alive *a = ctx;
    pthread_mutex_lock(&a->lock);
    while (!a->stop) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        double until = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec + a->beat;
        t.tv_sec = (time_t)until;
        t.tv_nsec = (long)((until - (double)t.tv_sec) * 1e9);
        if (pthread_cond_timedwait(&a->wake, &a->lock, &t) == ETIMEDOUT) {
            err ignored = {0}; // a full disk is told where a result is stored
            beat(a, &ignored);
        }
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static bool start_beating(alive *a, err *e) {
    pthread_condattr_t how;
    pthread_condattr_init(&how);
    pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
    pthread_cond_init(&a->wake, &how);
    pthread_condattr_destroy(&how);
    pthread_mutex_init(&a->lock, NULL);
    // Signals are for the thread that computes.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int why = pthread_create(&a->thread, NULL, keep_beating, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    a->started = why == 0;
    return a->started || err_set(e, ERR_NOMEM, "cannot start a thread: %s", err_system(why));
}

static void remember(const alive *a) {
    err ignored = {0};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) {
        struct mine *m = &mine[i];
        if (m->used && m->pid == getpid())
            continue;
        m->used = 0;
        m->pid = getpid();
        snprintf(m->folder, sizeof m->folder, "%s", a->folder);
        m->used = path_of(a, a->id, m->file, sizeof m->file, &ignored);
        return;
    }
}

static void forget(const char *file) {
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        if (mine[i].used && mine[i].pid == getpid() && strcmp(mine[i].file, file) == 0)
            mine[i].used = 0;
}

void alive_remove_all(void) {
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        if (mine[i].used && mine[i].pid == getpid()) {
            unlink(mine[i].file);
            rmdir(mine[i].folder);
        }
}

alive *alive_open(const alive_about *about, err *e) {
    alive *a = mem_zalloc(1, sizeof *a, "signs of life", e);
    if (!a)
        return NULL;
    char start[32];
    a->rank = about->rank;
    a->beat = about->beat > 0 ? about->beat : ALIVE_BEAT;
    a->patience = about->patience > 0 ? about->patience : ALIVE_PATIENCE;
    snprintf(a->run, sizeof a->run, "%s", about->run);
    text_escape(about->who, strlen(about->who), a->who, sizeof a->who);
    if (about->machine)
        snprintf(a->machine, sizeof a->machine, "%s", about->machine);
    else
        this_machine(a->machine, sizeof a->machine);
    start_of((long)getpid(), start, sizeof start);
    snprintf(a->id, sizeof a->id, "%s-%ld-%s", a->machine, (long)getpid(), start);
    a->folder = mem_strdup(about->folder, e);
    if (!a->folder)
        goto failed;
    // The last one of an earlier run may take the empty folder away between these two steps.
    bool ok = false;
    for (int tries = 0; tries < 5 && !ok && e->code == ERR_NONE; tries++) {
        err gone = {0};
        if (mkdir(a->folder, 0777) != 0 && errno != EEXIST)
            err_set(e, ERR_IO, "cannot create folder %s: %s", text_show(a->folder),
                    err_system(errno));
        else if (!(ok = beat(a, &gone)) && (tries == 4 || access(a->folder, F_OK) == 0))
            *e = gone;
    }
    if (ok && start_beating(a, e)) {
        remember(a);
        return a;
    }
failed:
    alive_close(a);
    return NULL;
}

void alive_close(alive *a) {
    if (!a)
        return;
    if (a->started) {
        pthread_mutex_lock(&a->lock);
        a->stop = true;
        pthread_cond_signal(&a->wake);
        pthread_mutex_unlock(&a->lock);
        pthread_join(a->thread, NULL);
        pthread_cond_destroy(&a->wake);
        pthread_mutex_destroy(&a->lock);
    }
    char path[MOST_PATH];
    err ignored = {0};
    if (a->folder && path_of(a, a->id, path, sizeof path, &ignored)) {
        forget(path);
        unlink(path);
        rmdir(a->folder); // stays while others have files in it
    }
    free(a->other);
    free(a->folder);
    free(a);
}

const char *alive_id(const alive *a) {
    return a->id;
}

const char *alive_run(const alive *a) {
    return a->run;
}

const char *alive_who(const alive *a) {
    return a->who;
}

// ---- the others ------------------------------------------------------------------------------------------

// Calls EACH with the id of every other process that has a file; stops when it says false.
static bool others(alive *a, bool (*each)(alive *a, const char *id, void *ctx, err *e), void *ctx,
                   err *e) {
    DIR *d = opendir(a->folder);
    if (!d)
        return err_set(e, ERR_IO, "%s: %s", text_show(a->folder), err_system(errno));
    bool ok = true;
    for (struct dirent *f; ok && (f = readdir(d));) {
        size_t n = strlen(f->d_name);
        if (n <= 6 || n - 6 >= ALIVE_ID || strcmp(f->d_name + n - 6, ".alive") != 0)
            continue;
        char id[ALIVE_ID];
        snprintf(id, sizeof id, "%.*s", (int)(n - 6), f->d_name);
        if (strcmp(id, a->id) != 0)
            ok = each(a, id, ctx, e);
    }
    closedir(d);
    return ok;
}

static bool sweep_one(alive *a, const char *id, void *ctx, err *e) {
    (void)ctx;
    char path[MOST_PATH];
    bool lives = true;
    if (alive_check(a, id, &lives, e) && !lives && path_of(a, id, path, sizeof path, e))
        unlink(path);
    return true;
}

void alive_sweep(alive *a) {
    err ignored = {0};
    others(a, sweep_one, NULL, &ignored);
}

static bool lower(alive *a, const char *id, void *ctx, err *e) {
    bool *first = ctx, lives = true;
    char path[MOST_PATH], text[MOST_BYTES], rank[32], run[128];
    if (!path_of(a, id, path, sizeof path, e))
        return false;
    if (!small_file_read(path, text, sizeof text) || !small_file_line(text, 1, rank, sizeof rank) ||
        !small_file_line(text, 2, run, sizeof run) || strcmp(run, a->run) != 0)
        return true; // gone, or of another run
    int r = atoi(rank);
    if (r < 0 || r >= a->rank)
        return true;
    if (!alive_check(a, id, &lives, e))
        return false;
    *first = *first && !lives;
    return true;
}

bool alive_first(alive *a, bool *first, err *e) {
    *first = true;
    return others(a, lower, first, e);
}
