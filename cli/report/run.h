// cli/report/run.h - a whole report: its tasks done by this process or by workers, beside whatever other
// processes of the run do, then the page.
#ifndef DELTOP_REPORT_RUN_H
#define DELTOP_REPORT_RUN_H

#include "cli/report/tasks.h"

typedef struct report_way {
    int64_t workers; // processes on this machine; 0: one, and as many as cards with cuda:all
    bool assemble;   // run no task: the page of what is stored
    const char *run; // --run; NULL: what the launcher says, else one of our own
    const report_run_of *of; // the models are checkpoints of a training run; NULL: they are not
} report_way;

// In one process when nobody else is asked for. Else each worker is a process of its own, so that one
// that crashes or runs out of memory takes only its task along; this process waits, and makes the page
// when it is the first of the run that lives. Of ranks only that one prints, and tells by *code what
// report_assemble says; the others' code is 0, because launchers end all processes when one fails.
bool report_run(const options *o, const report_way *way, int *code, err *e);

#endif
