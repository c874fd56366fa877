// cli/dash/panel.h - the table of panels.
//
// A panel is one file panel_NAME.c that defines `const panel panel_NAME`, plus one line in
// PANEL_LIST. It draws a scene into a rectangle and gives the figure of the same numbers for
// export. It never writes state, allocates nothing while drawing, and asks for no clock, locale or
// environment.
#ifndef DELTOP_DASH_PANEL_H
#define DELTOP_DASH_PANEL_H

#include "analyses/figure.h"
#include "cli/dash/scene.h"

// clang-format off
#define PANEL_LIST(X) \
    X(messages) \
    X(heads) \
    X(rank) \
    X(loss) \
    X(eigen) \
    X(text) \
    X(gates) \
    X(half) \
    X(state) \
    X(kernels)
// clang-format on

typedef struct panel {
    int number;
    bool no_reading;  // has something to show and export without a document
    const char *name; // "rank": word of the prompt and of files
    const char *what; // one line for the help page
    void (*draw)(surface *s, rect r, const scene *x);
    // Figures of what is drawn, before any reduction to cells; NULL: the panel has none.
    bool (*figures)(const scene *x, figures *out, err *e);
    // A click inside the rectangle; NULL: only focus.
    void (*click)(dash *d, const scene *x, rect r, int y, int x_cell);
} panel;

extern const panel *const panels[];
extern const int n_panels;
const panel *panel_find(int number); // NULL: there is none
const panel *panel_named(const char *name);

// The title row: "═1 heads: erank ════ right ═". Colours, dims and focus follow the scene.
void panel_title(surface *s, rect r, const scene *x, int number, const char *left,
                 const char *right);
// Into the middle of the panel: why there is nothing to see.
void panel_why(surface *s, rect r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// Before the first token: what is under way, as panel_why. True when it was needed.
bool panel_waits(surface *s, rect r, const scene *x);

// 0..7: place of v in [lo, hi]; -1: NaN.
int panel_ramp(double v, double lo, double hi);
uint32_t panel_block(int level); // U+2581 .. U+2588
// v as a bar of `cells` cells in eighths from the left.
void panel_bar(surface *s, int y, int x, int cells, double part, int ink);

#endif
