#include "core/claims.h"

#include "core/mem.h"
#include "core/small_file.h"
#include "core/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Files in the folder, one value a line:
//   TASK.claim   id (core/alive.h), run, who
//   TASK.failed  run, message
enum { MOST_BYTES = 2048, MOST_PATH = 4096 };

struct claims {
    char *folder;
    alive *self; // lent
    char **held; // tasks of ours; owned
    size_t n_held, room_held;
    unsigned steals;
};

claims *claims_open(const char *folder, alive *a, err *e) {
    claims *c = mem_zalloc(1, sizeof *c, "claims", e);
    if (!c)
        return NULL;
    c->self = a;
    c->folder = mem_strdup(folder, e);
    if (!c->folder) {
        free(c);
        return NULL;
    }
    return c;
}

static bool path_of(const claims *c, const char *task, const char *end, char *buf, size_t size,
                    err *e) {
    return small_file_path(c->folder, task, end, buf, size, e);
}

void claims_close(claims *c) {
    if (!c)
        return;
    char path[MOST_PATH];
    err ignored = {0};
    for (size_t i = 0; i < c->n_held; i++) {
        if (path_of(c, c->held[i], ".claim", path, sizeof path, &ignored))
            unlink(path);
        free(c->held[i]);
    }
    free(c->held);
    free(c->folder);
    free(c);
}

static size_t held_at(const claims *c, const char *task) {
    size_t i = 0;
    while (i < c->n_held && strcmp(c->held[i], task) != 0)
        i++;
    return i;
}

static bool failed_in_this_run(const claims *c, const char *task, bool *failed, err *e) {
    char path[MOST_PATH], text[MOST_BYTES], run[128];
    if (!path_of(c, task, ".failed", path, sizeof path, e))
        return false;
    *failed = small_file_read(path, text, sizeof text) &&
              small_file_line(text, 0, run, sizeof run) && strcmp(run, alive_run(c->self)) == 0;
    return true;
}

// What a claim's file says. A file that is not whole is being written by a process that lives, or
// was by one that died: it is watched like a process, under the task's name.
static bool judge(claims *c, const char *task, const char *text, claim_state *s, err *e) {
    char id[ALIVE_ID], run[128];
    bool lives = false;
    bool whole =
        small_file_line(text, 0, id, sizeof id) && small_file_line(text, 1, run, sizeof run);
    if (!whole)
        snprintf(id, sizeof id, "?-%.*s", ALIVE_ID - 3, task);
    if (!alive_check(c->self, id, &lives, e))
        return false;
    *s = lives                                           ? CLAIM_WORKING
         : whole && strcmp(run, alive_run(c->self)) == 0 ? CLAIM_LOST
                                                         : CLAIM_FREE;
    return true;
}

// As claims_look; *there: a claim has a file, which says text.
static bool look(claims *c, const char *task, claim_state *s, bool *there, char *text, size_t size,
                 err *e) {
    char path[MOST_PATH];
    bool failed = false;
    *s = CLAIM_FREE;
    *there = false;
    if (held_at(c, task) < c->n_held) {
        *s = CLAIM_OURS;
        return true;
    }
    if (!failed_in_this_run(c, task, &failed, e) ||
        !path_of(c, task, ".claim", path, sizeof path, e))
        return false;
    if (failed)
        *s = CLAIM_FAILED;
    else if ((*there = small_file_read(path, text, size)))
        return judge(c, task, text, s, e);
    return true;
}

bool claims_look(claims *c, const char *task, claim_state *s, err *e) {
    char text[MOST_BYTES];
    bool there;
    return look(c, task, s, &there, text, sizeof text, e);
}

// Moves a dead process's claim out of the way. Renaming lets one of several win; who comes too late,
// and has moved the winner's new claim, puts it back.
static void take_away(claims *c, const char *path, const char *judged) {
    char aside[MOST_PATH + ALIVE_ID + 16], text[MOST_BYTES];
    snprintf(aside, sizeof aside, "%s.%s.%u", path, alive_id(c->self), c->steals++);
    if (rename(path, aside) != 0)
        return;
    if (small_file_read(aside, text, sizeof text) && strcmp(text, judged) != 0 &&
        link(aside, path) != 0)
        return; // neither: the task is done twice, at worst
    unlink(aside);
}

bool claims_take(claims *c, const char *task, claim_state *s, err *e) {
    char path[MOST_PATH], text[MOST_BYTES];
    bool there;
    if (!look(c, task, s, &there, text, sizeof text, e))
        return false;
    if (*s != CLAIM_FREE)
        return true;
    if (!path_of(c, task, ".claim", path, sizeof path, e) ||
        !mem_grow((void **)&c->held, &c->room_held, c->n_held + 1, sizeof *c->held, "tasks", e))
        return false;
    char *name = mem_strdup(task, e);
    if (!name)
        return false;
    if (there)
        take_away(c, path, text);
    snprintf(text, sizeof text, "%s\n%s\n%s\n", alive_id(c->self), alive_run(c->self),
             alive_who(c->self));
    err why = {0};
    if (small_file_write(path, O_EXCL, text, &why)) {
        c->held[c->n_held++] = name;
        *s = CLAIM_OURS;
        return true;
    }
    free(name);
    *s = CLAIM_WORKING; // another one was faster
    return why.code == ERR_NONE || err_set(e, why.code, "%s", why.text);
}

static bool give_up(claims *c, const char *task, err *e) {
    char path[MOST_PATH];
    size_t i = held_at(c, task);
    if (!path_of(c, task, ".claim", path, sizeof path, e))
        return false;
    unlink(path);
    if (i < c->n_held) {
        free(c->held[i]);
        c->held[i] = c->held[--c->n_held];
    }
    return true;
}

bool claims_done(claims *c, const char *task, err *e) {
    char path[MOST_PATH];
    if (!path_of(c, task, ".failed", path, sizeof path, e))
        return false;
    unlink(path);
    return give_up(c, task, e);
}

bool claims_failed(claims *c, const char *task, const char *message, err *e) {
    char path[MOST_PATH], text[MOST_BYTES];
    snprintf(text, sizeof text - 1, "%s\n%s", alive_run(c->self), message);
    size_t n = strlen(alive_run(c->self)) + 1;
    n += strcspn(text + n, "\n");
    snprintf(text + n, sizeof text - n, "\n");
    return path_of(c, task, ".failed", path, sizeof path, e) &&
           small_file_write(path, O_TRUNC, text, e) && give_up(c, task, e);
}

const char *claims_why(claims *c, const char *task, char *buf, size_t size) {
    char path[MOST_PATH], text[MOST_BYTES], line[1200];
    err ignored = {0};
    bool failed = false;
    snprintf(buf, size, "it was not tried");
    if (!failed_in_this_run(c, task, &failed, &ignored) ||
        !path_of(c, task, failed ? ".failed" : ".claim", path, sizeof path, &ignored) ||
        !small_file_read(path, text, sizeof text) ||
        !small_file_line(text, failed ? 1 : 2, line, sizeof line))
        return buf;
    snprintf(buf, size, failed ? "%s" : "%s ended while it was at work on it", line);
    return buf;
}

void claims_forget(claims *c, const char *task) {
    err ignored = {0};
    claims_done(c, task, &ignored);
}
