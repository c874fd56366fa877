#include "cli/watch/scan.h"

#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

void watch_list_free(watch_list *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].path);
    free(l->v);
    *l = (watch_list){0};
}

// ---- one folder ------------------------------------------------------------------------------------------

typedef struct glance {
    bool model, config; // it holds weights or an index; a config
    uint64_t mark;
    double newest; // time of the newest change, seconds since 1970
} glance;

static uint64_t mix(uint64_t h, const void *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)p)[i]) * UINT64_C(1099511628211); // FNV-1a
    return h;
}

// Sums over files, so that the order in which they come does not matter.
static bool glance_at(const char *folder, glance *g, err *e) {
    *g = (glance){0};
    DIR *d = opendir(folder);
    if (!d)
        return errno == ENOENT || // gone since it was listed
               err_set(e, ERR_IO, "%s: %s", text_show(folder), err_system(errno));
    for (struct dirent *f; (f = readdir(d));) {
        struct stat st;
        if (fstatat(dirfd(d), f->d_name, &st, 0) != 0 || !S_ISREG(st.st_mode))
            continue;
        bool weights = file_ends_with(f->d_name, ".safetensors") ||
                       file_ends_with(f->d_name, ".safetensors.index.json");
        g->model = g->model || weights;
        g->config = g->config || strcmp(f->d_name, "config.json") == 0;
        int64_t facts[] = {(int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec,
                           (int64_t)st.st_mtim.tv_nsec};
        uint64_t h = mix(UINT64_C(1469598103934665603), f->d_name, strlen(f->d_name) + 1);
        g->mark += mix(h, facts, sizeof facts);
        double changed = (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec;
        g->newest = changed > g->newest ? changed : g->newest;
    }
    closedir(d);
    return true;
}

static void judge(watched *w, const glance *g, double settle, double now) {
    enum { OLD = 60 };
    struct timespec t;
    if (w->mark != g->mark || w->since == 0) {
        w->treated = w->treated && w->mark == g->mark;
        w->mark = g->mark;
        w->since = now;
    }
    clock_gettime(CLOCK_REALTIME, &t);
    bool old = (double)t.tv_sec - g->newest > OLD;
    w->whole = watch_is_whole(w->path, w->why, sizeof w->why);
    if (w->whole && !old && now - w->since < settle) {
        w->whole = false;
        snprintf(w->why, sizeof w->why, "%s: still being written to", text_show(w->path));
    }
}

// ---- the run's folder ------------------------------------------------------------------------------------

static bool is_passed_over(const char *name) {
    return name[0] == '.' || strncasecmp(name, "tmp", 3) == 0 || file_ends_with(name, ".tmp");
}

// Takes path.
static bool add(watch_list *l, char *path, const glance *g, double settle, double now, bool *seen,
                size_t n_seen, err *e) {
    for (size_t i = 0; i < n_seen; i++)
        if (strcmp(l->v[i].path, path) == 0) {
            free(path);
            seen[i] = true;
            judge(&l->v[i], g, settle, now);
            return true;
        }
    if (!mem_grow((void **)&l->v, &l->room, l->n + 1, sizeof *l->v, "checkpoints", e)) {
        free(path);
        return false;
    }
    char name[512];
    watched *w = &l->v[l->n++];
    *w = (watched){.path = path, .step = watch_step(file_base(path, name, sizeof name))};
    judge(w, g, settle, now);
    return true;
}

typedef struct walk {
    watch_list *l;
    double settle, now;
    bool *seen; // of those that were on the list
    size_t n_seen;
} walk;

// Takes path. depth: how many levels below may be looked into.
static bool look(walk *w, char *path, int depth, err *e) {
    glance g;
    if (!glance_at(path, &g, e)) {
        free(path);
        return false;
    }
    // The run's own folder may hold a config without ever holding a model.
    if (g.model || (g.config && depth < 2)) {
        char *own = mem_strdup(path, e);
        if (!own || !add(w->l, own, &g, w->settle, w->now, w->seen, w->n_seen, e)) {
            free(path);
            return false;
        }
        if (depth < 2) {
            free(path);
            return true;
        }
    }
    DIR *d = depth > 0 ? opendir(path) : NULL;
    bool ok = true;
    for (struct dirent *f; ok && d && (f = readdir(d));) {
        struct stat st;
        if (is_passed_over(f->d_name) ||
            fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode))
            continue;
        char *below = file_join(path, f->d_name, e);
        ok = below && look(w, below, depth - 1, e);
    }
    if (d)
        closedir(d);
    free(path);
    return ok;
}

static int by_step(const void *a, const void *b) {
    const watched *x = a, *y = b;
    if (x->step != y->step)
        return x->step < 0 ? 1 : y->step < 0 ? -1 : x->step < y->step ? -1 : 1;
    return text_natural_cmp(x->path, y->path);
}

bool watch_scan(watch_list *l, const char *dir, double settle, double now, err *e) {
    struct stat st;
    if (stat(dir, &st) != 0)
        return err_set(e, errno == ENOENT ? ERR_MISSING : ERR_IO, "%s: %s", text_show(dir),
                       errno == ENOENT ? "no such folder" : err_system(errno));
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_INPUT, "%s: is a file, need the folder of a training run",
                       text_show(dir));
    walk w = {.l = l, .settle = settle, .now = now, .n_seen = l->n};
    w.seen = mem_zalloc(l->n + 1, sizeof *w.seen, "checkpoints", e);
    char *path = w.seen ? mem_strdup(dir, e) : NULL;
    bool ok = path && look(&w, path, 2, e);
    size_t kept = 0;
    for (size_t i = 0; ok && i < l->n; i++) {
        if (i < w.n_seen && !w.seen[i])
            free(l->v[i].path); // its folder is gone
        else
            l->v[kept++] = l->v[i];
    }
    if (ok) {
        l->n = kept;
        if (kept)
            qsort(l->v, kept, sizeof *l->v, by_step);
    }
    free(w.seen);
    return ok;
}
