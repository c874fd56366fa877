// cli/dash/work_parts.h - the worker from inside; for work*.c only.
#ifndef DELTOP_DASH_WORK_PARTS_H
#define DELTOP_DASH_WORK_PARTS_H

#include "cli/dash/lane.h"
#include "cli/dash/work.h"

#include <pthread.h>

enum { MESSAGES = 64 };

// One model as the worker has it.
typedef struct slot {
    const char *path; // of the request that opened it
    model *m;
    reading *text; // what it reads; models with one tokenizer may share the bytes, not the object
    int32_t bos;
    lane *base, *cut; // all heads on; some off
    int cut_generation;
} slot;

struct worker {
    // Set at the start, then read only
    const options *o;
    const char *marks;
    int64_t state_mem;
    double began;
    int fd[2]; // pipe: [0] is polled by the screen
    pthread_t thread;
    // The worker's own
    request now; // what is being worked for
    backend *be;
    slot slot[MODELS_MOST];
    int reload;
    const char *document;
    ckpt *c;   // for weight statistics
    lane *try; // of :ablate all
    int try_head;
    spot *done_spot;   // lent: the published one
    modes *done_modes; // likewise
    stats *stats;      // held
    kernels *kernels;  // lent: the published one
    int after_spot;    // blocks of the pass since the last place was looked at
    bool broken;       // opening failed: wait for another request
    // Shared, under the lock
    pthread_mutex_t lock;
    pthread_cond_t asked;
    request newest;
    snap out; // what snaps are copied from; every object held
    work_message message[MESSAGES];
    unsigned first_message, n_messages;
    bool ended;
    // Shared, atomic
    atomic_int pending;
    atomic_uint_fast64_t seq; // of newest
    atomic_bool quit;
};

typedef enum { JOB_NONE, JOB_DONE, JOB_FAILED } job_result; // nothing to do, did a slice, *e filled

void work_say(worker *w, char level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void work_wake(worker *w);
// Puts an object into a place of w->out; takes it.
void work_publish(worker *w, void *place, void *object);
void work_enter(worker *w, work_stage s);

// True when the newest request makes the current slice pointless.
bool work_outdated(void *worker);
bool work_quits(void *worker);

// Opening: device, models, documents, until all that the request names is there.
job_result work_open(worker *w, err *e);
bool work_device(worker *w, err *e);
void work_close_slot(worker *w, int i);
// The pass through the document, of every model and of the switched-off set.
job_result work_pass(worker *w, err *e);
// Looking closer at what the screen shows.
job_result work_spot(worker *w, err *e);
job_result work_refine(worker *w, err *e);
job_result work_modes(worker *w, err *e);
job_result work_stats(worker *w, err *e);
job_result work_sweep(worker *w, err *e);
job_result work_kernels(worker *w, err *e);

// The lane whose numbers the screen shows: the cut one when it is asked for.
lane *work_lane(worker *w);
// Adds what a finished reading with heads off did to the losses.
bool work_effect(worker *w, const run *base, const run *off, bool tell, err *e);

#endif
