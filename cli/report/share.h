// cli/report/share.h - the tasks of a report done by as many processes as there are, on this machine
// and others.
//
// Tasks are taken by claims in DIR/.run (core/claims.h), so any number of processes that see DIR can
// come and go. In one run every task is tried once; what failed, and what a process that died had, is
// given up with its reason, the rest goes on, and the same command again tries the rest again.
#ifndef DELTOP_REPORT_SHARE_H
#define DELTOP_REPORT_SHARE_H

#include "cli/report/tasks.h"
#include "core/claims.h"

#define SHARE_FOLDER ".run" // in DIR; gone when the last process has ended and nothing is missing

typedef enum { SHARE_OPEN, SHARE_STORED, SHARE_GIVEN_UP } share_known;

typedef struct share {
    const report *r;    // borrowed
    claims *c;          // owned
    share_known *known; // [n_tasks], of what this process has seen; owned
} share;

// self: this process (with the folder DIR/SHARE_FOLDER); borrowed.
bool share_open(share *s, const report *r, alive *self, err *e);
void share_close(share *s); // an empty one is fine

// Where a worker begins in the list, of so many: far from the others, so that each holds on to its
// model and document.
size_t share_start(const report *r, int worker, int workers);

// What happens around the tasks that this process does. Any may be NULL.
typedef struct share_calls {
    void (*begin)(void *ctx, size_t task);
    progress_fn progress; // its context is ctx
    void (*end)(void *ctx, size_t task, task_outcome how, double seconds, const err *why);
    void *ctx;
} share_calls;

// Takes tasks and runs them until none is free. false: stopped (ERR_CANCELLED), or nothing can be
// written.
bool share_work(share *s, report_worker *w, size_t start, const share_calls *calls, err *e);

typedef struct share_state {
    size_t stored, failed, lost; // settled
    size_t working, free;        // not
} share_state;

// How the tasks stand. Lost ones are given up: their reason is stored where failures are.
bool share_look(share *s, share_state *state, err *e);

// Looks again and again until nothing is being worked on any more, or something is free again. Where
// others come and go (launch.comes_goes), until they have had time to show that they live: then they
// will finish without us, and state->working is not 0. False also when tick says so (ERR_CANCELLED);
// it may be NULL.
typedef bool (*share_tick)(void *ctx, const share_state *state);
bool share_wait(share *s, bool comes_goes, share_state *state, share_tick tick, void *ctx, err *e);

// Takes away what processes that died have left behind for tasks that are stored all the same.
void share_clean(share *s);

#endif
