// cli/dash/app.h - the dashboard without a terminal: state, worker, newest results, frames.
//
// The real screen (loop.c), --snapshot and --play (script.c) all drive this. It reads no clock: who
// has one fills in live.
#ifndef DELTOP_DASH_APP_H
#define DELTOP_DASH_APP_H

#include "cli/dash/cmd.h"
#include "cli/dash/paint.h"
#include "cli/dash/view_options.h"

typedef struct app {
    const options *o;
    const view_options *v;
    dash d;
    worker *w;
    snap s;
    live live;
    request asked;
    uint64_t seq; // of the newest request
    int rows, cols;
    bool gpu;
    surface screen;                // the last painted frame, glyphs mapped
    char *restored;                // session to compare the document with; owned
    const void *check;             // reading that was compared
    char *inputs[MODELS_MOST + 1]; // paths of a session; owned
} app;

// Opens models (headers only) and starts the worker, which is told nothing yet.
bool app_open(app *a, const options *o, int rows, int cols, err *e);
// Waits at most so many milliseconds for the worker. False: it still computes; leave with _exit and
// free nothing.
bool app_close(app *a, int milliseconds);

// Another size may show other panels, so the worker is asked again once anything was asked.
bool app_resize(app *a, int rows, int cols, err *e);
// Takes what the worker has: messages, results, the document's length.
void app_pump(app *a);
// Tells the worker what is wanted when that has changed.
void app_ask(app *a);
scene app_scene(const app *a);
const surface *app_paint(app *a);

bool app_idle(const app *a);    // nothing that is on screen is still to be computed
bool app_forward(const app *a); // every model has read the document, or stands at the hold
// A start that failed: device, model, document. ERR_NONE otherwise.
const err *app_fatal(const app *a);

#endif
