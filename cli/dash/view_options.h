// cli/dash/view_options.h - the options of `deltop view` that others do not have.
#ifndef DELTOP_DASH_VIEW_OPTIONS_H
#define DELTOP_DASH_VIEW_OPTIONS_H

#include "cli/options.h"

typedef struct view_options {
    // Where to begin
    int64_t at;
    const char *view, *head, *marked, *ablate, *panels, *compare;
    int64_t focus;
    bool zoom;
    int metric; // -1: not given
    int64_t window, smooth;
    double surprise;
    const char *mark; // pattern
    const char *session;
    // Without a terminal
    const char *snapshot, *wait, *play, *frames;
    int64_t export; // panel; -1: none
    bool attrs, live;
    // The terminal
    int glyphs; // -1: by the locale
    int color;  // 0 auto, 1 never, 2 always
    bool no_color, ascii, no_mouse, tui, default_config;
    int64_t state_mem; // MiB
} view_options;

extern const view_options view_defaults;
enum { N_VIEW_OPTIONS = 30 };
extern const option_spec view_table[N_VIEW_OPTIONS];

// "24x80": rows and columns. ERR_USAGE.
bool view_read_size(const char *text, int *rows, int *cols, err *e);

#endif
