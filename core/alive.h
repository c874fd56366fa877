// core/alive.h - which of the processes that share a folder still live, on one machine or many.
//
// Each has a file there, whose number it raises every few seconds. Processes of one machine are looked
// up in its process table instead, which tells at once. Clocks of machines are never compared.
#ifndef DELTOP_ALIVE_H
#define DELTOP_ALIVE_H

#include "core/err.h"

#include <stddef.h>

typedef struct alive alive;

typedef struct alive_about {
    const char *folder; // created when absent; its parent is there
    const char *run;    // one word for all processes that were started together
    int rank;           // of this process among them; -1: it has none
    const char *who;    // in words: "rank 2 on node7"
    // Seconds, 0: the defaults below. Another machine's process whose number stands still for
    // `patience` is dead.
    double beat, patience;
    const char *machine; // NULL: this one; tests name another
} alive_about;

enum { ALIVE_BEAT = 3, ALIVE_PATIENCE = 60, ALIVE_ID = 96 };

// Starts a thread that raises the number. NULL on failure. Not to be used on both sides of a fork.
alive *alive_open(const alive_about *about, err *e);
// Takes the file away, and the folder when it is empty. NULL is fine.
void alive_close(alive *a);

// Takes the files of this process away: for signal handlers and exit paths, async-signal-safe.
void alive_remove_all(void);

// MACHINE-PROCESS-START: unique, as process numbers come again but not at the same time. Lent.
const char *alive_id(const alive *a);
const char *alive_run(const alive *a);
const char *alive_who(const alive *a);

// Does the process with this id live? One of another machine that is seen for the first time does,
// until it has been silent for long enough.
bool alive_check(alive *a, const char *id, bool *lives, err *e);
// Takes away the files of dead processes.
void alive_sweep(alive *a);
// *first: no process of this run with a lower rank lives.
bool alive_first(alive *a, bool *first, err *e);

#endif
