// cli/dash/loop.h - the dashboard on a real terminal: keys, frames, signals.
#ifndef DELTOP_DASH_LOOP_H
#define DELTOP_DASH_LOOP_H

#include "cli/dash/app.h"

// Whether standard input and output are a terminal that can move its cursor; otherwise *why says
// what is missing ("" for a plain pipe).
bool loop_possible(char *why, size_t size);

// Until the user leaves. Signals are handled as section 6 of the design says; TERM and HUP end the
// process from inside. *code: what to exit with.
bool loop_run(app *a, int *code, err *e);

#endif
