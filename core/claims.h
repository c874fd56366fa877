// core/claims.h - tasks shared out among processes, on one machine or many, through a folder.
//
// Whoever creates the file TASK.claim first (O_EXCL, which network file systems keep to) has the
// task. Every process shows that it lives by a file of its own, whose number it raises every few
// seconds; on one machine the process table tells at once. So nothing needs a server, a message or
// a lock that a crash leaves behind.
//
// Tasks have to give the same result whoever does them, stored whole or not at all, and the caller
// looks for the stored result first: two processes that do one task (after a machine slept, say)
// then only lose time. What this file promises is that it seldom happens, and that no task is
// forgotten.
//
// A run is one start of the program, on however many machines. Within a run a task is tried once: a
// failure is noted with its message, and the task of a process that died is LOST, because what
// killed one process (memory, as a rule) would kill the next. A later run tries both again.
#ifndef DELTOP_CLAIMS_H
#define DELTOP_CLAIMS_H

#include "core/alive.h"

#include <stddef.h>

typedef struct claims claims;

enum { CLAIM_TASK = 96 }; // longest name of a task, its NUL included

typedef enum {
    CLAIM_FREE,    // nobody has it
    CLAIM_OURS,    // this process has it
    CLAIM_WORKING, // another process has it, and lives (or has not been silent for long enough)
    CLAIM_FAILED,  // tried in this run, and failed
    CLAIM_LOST,    // its process died in this run
} claim_state;

// a stays the caller's and must live longer. NULL on failure.
claims *claims_open(const char *folder, alive *a, err *e);
// Gives back what this process still has. NULL is fine.
void claims_close(claims *c);

// TASK: a name for a file, shorter than CLAIM_TASK. *s is CLAIM_OURS when this process has it
// now; look for the stored result again then, another one may just have finished. Claims of earlier
// runs whose processes are gone are taken over.
bool claims_take(claims *c, const char *task, claim_state *s, err *e);
// Without taking it. Claims of earlier runs by dead processes are CLAIM_FREE.
bool claims_look(claims *c, const char *task, claim_state *s, err *e);

// Ends a task that is CLAIM_OURS: its result is stored (an earlier failure is forgotten), or it
// failed with this message (one line).
bool claims_done(claims *c, const char *task, err *e);
bool claims_failed(claims *c, const char *task, const char *message, err *e);
// Why a task is CLAIM_FAILED (the message) or CLAIM_LOST (whose it was), into buf; returns buf.
const char *claims_why(claims *c, const char *task, char *buf, size_t size);

// Forgets a task's claim and failure whoever's they are: for the one who knows its result stored.
void claims_forget(claims *c, const char *task);
#endif
