// cli/dash/script.h - the dashboard driven without a terminal: one frame, or a file of steps.
#ifndef DELTOP_DASH_SCRIPT_H
#define DELTOP_DASH_SCRIPT_H

#include "cli/dash/app.h"

// "forward", "idle", "43%", "msg REGEX". False: not in time, failed, or stopped by a signal.
bool script_wait(app *a, const char *what, double seconds, err *e);

// Prints a frame (and its attributes).
bool script_print(app *a, FILE *out, bool attrs, err *e);

// Replays PATH. Steps, one a line, # comments:
//     key j j Space        keys by name          type TEXT        into the open prompt
//     cmd LINE             a command             wait WHAT [SECONDS]
//     hold N | go          the pass stops at token N, goes on
//     resize ROWSxCOLS     frame NAME            expect RE | reject RE
// The first failure is ERR_INPUT with the line's number, and the frame is printed on stderr.
bool script_play(app *a, const char *path, const char *frames, err *e);

#endif
