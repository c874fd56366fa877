// cli/watch/round.h - one report of a watch, in a process of its own: a watch lives for days, so what a
// round leaks, and a checkpoint that crashes it, must not matter. And the next round can fork workers,
// which it could not after a device or threads had been used here.
#ifndef DELTOP_WATCH_ROUND_H
#define DELTOP_WATCH_ROUND_H

#include "cli/report/run.h"
#include "cli/watch/fail.h"

// As report_run; step [o->n_models]. bad: rules that do not hold, by model.
bool watch_round(const options *o, int64_t workers, const int64_t *step, int *code,
                 watch_failures *bad, err *e);

#endif
