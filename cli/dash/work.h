// cli/dash/work.h - the thread that computes, and how the screen talks with it.
//
// The screen posts requests by value into a one-slot mailbox: the newest wins. The worker looks at
// it between slices (one block of tokens, one window, one tensor) and always does the most wanted
// thing next: the place under the cursor, the pass through the document, finer ranks in the view,
// half-lives, weight statistics. What it has is handed over as shared objects that never change once
// they can be seen (run.h). Nothing here knows a terminal.
#ifndef DELTOP_DASH_WORK_H
#define DELTOP_DASH_WORK_H

#include "analyses/inspect.h"
#include "cli/dash/kernels.h"
#include "cli/dash/run.h"
#include "cli/options.h"

enum { MODELS_MOST = 4, MARKS_MOST = 3 };

typedef struct request {
    uint64_t seq; // set by worker_ask
    bool quit;
    int n_models;
    const char *model[MODELS_MOST]; // must live as long as the worker
    const char *document;           // NULL: none yet; the same
    int generation;                 // of the set below; 0: no head is off
    int reload;                     // another number: everything is opened and read again
    int slot;                       // the model that panels show
    int head;                       // index in its run; -1: none
    int marks[MARKS_MOST];          // likewise
    int64_t t;                      // cursor
    bool follow;                    // it moves with the pass
    int64_t t0, t1;                 // view
    int64_t W;
    bool want_window, want_all_windows, want_modes, want_stats, want_kernels, sweep;
    int kernels;      // number of the run that measures them; 0: none
    int kernels_slot; // whose they are
    int64_t mode_W;
    bool cancelled; // the pass of this generation is not to go on
    bool paused;    // nothing is to go on
    int64_t hold;   // the pass stops at this token; -1: nowhere
    head_ref off[OFF_MOST];
    int n_off;
} request;

typedef struct worker worker;

typedef enum { STAGE_START, STAGE_DEVICE, STAGE_MODEL, STAGE_DOCUMENT, STAGE_WORK } work_stage;

// Weight statistics of the tensors of model 0, in the order of its inspection's groups.
typedef struct stats {
    shared ref;
    int64_t n;       // tensors done
    tensor_stats *v; // [ckpt_count]; read false: not yet, or no floats
    int64_t total;
} stats;

// What can be seen now. Everything is held until snap_drop.
typedef struct snap {
    uint64_t served; // seq of the newest request whose work is done
    work_stage stage;
    const char *document;    // of the request that the runs below belong to
    int reload;              // likewise
    run *shown[MODELS_MOST]; // NULL: nothing yet
    run *base[MODELS_MOST];  // the same without switched-off heads
    spot *spot;
    modes *modes;
    stats *stats;
    kernels *kernels;
    effect *effects; // copies; owned by the snap
    int n_effects, cap_effects;
    int sweeping;       // heads that :ablate all has still to try
    const char *device; // NULL before it is open
    precision prec;
    int64_t refined, to_refine; // tokens x heads of the current refinement
    err fatal;                  // what stopped the worker's start
} snap;

typedef struct work_message {
    char level;     // ' ', '!' or 'E'
    double seconds; // since the start
    char text[400];
} work_message;

// o: the command line, lent for the worker's life. marks: pattern or NULL. state_mem: bytes for
// states to come back to, and as many for gates.
worker *worker_start(const options *o, const char *marks, int64_t state_mem, err *e);
void worker_ask(worker *w, const request *r);
void worker_snap(worker *w, snap *out); // *out starts as zeros; a second call refreshes it
void snap_drop(snap *s);
// The next message, false: none.
bool worker_message(worker *w, work_message *out);
int worker_fd(const worker *w); // readable when there is something new; see worker_seen
void worker_seen(worker *w);
// Asks it to end and waits at most so many milliseconds. False: it still runs, leave with _exit.
bool worker_stop(worker *w, int milliseconds);

#endif
