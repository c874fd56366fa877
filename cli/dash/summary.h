// cli/dash/summary.h - the same results as text, for pipes, logs and --json.
#ifndef DELTOP_DASH_SUMMARY_H
#define DELTOP_DASH_SUMMARY_H

#include "cli/dash/app.h"

// Computes to the end and prints what there is. False: *e is filled.
bool summary_run(app *a, err *e);

#endif
