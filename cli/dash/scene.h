// cli/dash/scene.h - what one frame shows: the user's state and the newest results, taken together.
#ifndef DELTOP_DASH_SCENE_H
#define DELTOP_DASH_SCENE_H

#include "cli/dash/dash.h"
#include "cli/dash/numbers.h"

// What changes with the clock. Left at zero (shown as -) where frames must be equal between runs.
typedef struct live {
    bool on;
    double rate;          // tokens/s, 0: unknown
    double left;          // seconds, negative: unknown
    double now;           // seconds since the start
    const char *strip[8]; // fields of the GPU strip, widest first; strip[0] NULL: no GPU
} live;

enum { CURVES = 4 };

typedef struct scene {
    const dash *d;
    const snap *s;
    const live *live;
    layout l;
    const run *r;        // of the model shown; NULL: nothing yet
    const reading *text; // what it reads
    int64_t read, T, t0, t1, t;
    bool stale;        // r belongs to another set of switched-off heads than is asked for
    bool bytes;        // models cut the text into different tokens: losses are compared over bytes
    int head;          // cursor head, index in r; -1: none
    int heads[CURVES]; // cursor head and marked heads, in the order of their letters
    int n_heads;
    const spot *spot; // of this run, or NULL
} scene;

scene scene_make(const dash *d, const snap *s, const live *live, int rows, int cols, bool gpu);

// A quantity of a head's state at or before token t; *at: its token, -1 none. The place under the
// cursor is looked at first.
double scene_rank(const scene *x, int head, quantity q, int64_t t, int64_t *at);

// The window product of a head at the cursor, NULL: not there (yet).
const spot_window *scene_window(const scene *x, int head);

// Value of the grid's metric for a head; NaN: undefined. *state: '?' not computed, '-' does not
// apply, 0 a value.
double scene_metric(const scene *x, metric m, int head, char *state);

const char *scene_head_name(const scene *x, int head, char *buf, size_t size); // L1.H3

#endif
