// cli/report/timing.h - --timing: how long the tasks took that this process and its workers have run.
// The only numbers of a report that differ from run to run, so they have a file of their own.
#ifndef DELTOP_REPORT_TIMING_H
#define DELTOP_REPORT_TIMING_H

#include "cli/report/tasks.h"

// Shared by a process and those that it forks.
typedef struct timing timing;

timing *timing_new(err *e);
void timing_free(timing *t); // NULL is fine
void timing_add(timing *t, size_t task, double seconds);
// DIR/timing.json, by task, each the last time it was run.
bool timing_save(const timing *t, const report *r, err *e);

#endif
