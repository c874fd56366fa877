// cli/dash/dash.h - what the user has done so far: cursor, view, marks, panels, prompt, messages.
//
// Pure state. Keys and commands change it (cmd.h), panels read it, nobody here knows a terminal, a
// clock or the worker. What the worker is to do follows from it (dash_request).
#ifndef DELTOP_DASH_DASH_H
#define DELTOP_DASH_DASH_H

#include "cli/dash/card.h"
#include "cli/dash/find.h"
#include "cli/dash/layout.h"
#include "cli/dash/work.h"
#include "cli/options.h"

typedef enum {
    METRIC_ERANK,
    METRIC_NORM,
    METRIC_GROWTH,
    METRIC_GATE,
    METRIC_BETA,
    METRIC_RHO,
    METRIC_HALF,
    METRIC_ABL,
    METRICS
} metric;

typedef enum { COMPARE_BOTH, COMPARE_A, COMPARE_B, COMPARE_DIFFERENCE, COMPARES } compare;
typedef enum { OVERLAY_NONE, OVERLAY_HELP, OVERLAY_INFO, OVERLAY_OPTIONS } overlay;
typedef enum { SCALE_AXIS_LINEAR, SCALE_AXIS_LOG, SCALE_AXIS_SIGNED, SCALE_AXES } value_scale;

enum { PROMPT_MOST = 400, HISTORY_MOST = 50, MESSAGES_MOST = 500 };

typedef struct prompt {
    char kind; // 0: closed; ':' '/' '\\'
    char text[PROMPT_MOST];
    int n, at; // bytes; the caret's place
    char error[200];
    int error_at;                // byte of the text, -1
    char *history[HISTORY_MOST]; // owned, oldest first
    int n_history, recall;       // recall: index while going back; n_history: the fresh line
    char kept[PROMPT_MOST];      // the fresh line while going back
    char offers[400];            // what Tab found, "" = nothing to show
} prompt;

typedef struct message {
    char level;
    double seconds;
    char text[400];
} message;

// What ` goes back to.
typedef struct place {
    int64_t t, t0, t1;
    unsigned open;
    int focus, layer, head;
    bool zoom;
} place;

// What is looked at. The worker may still read paths of documents that were opened before.
typedef struct dash_inputs {
    card *model[MODELS_MOST];   // owned
    int n_models, slot;         // slot: whose heads, gates, spectra are shown
    char *document;             // NULL: none; owned
    char *documents_before[16]; // owned
    int n_documents_before;
} dash_inputs;

// How numbers are drawn; most of it is an option of the configuration file (settings.c).
typedef struct dash_look {
    metric metric;
    compare compare;
    bool table, band, points, autoscale, same_scale, invert;
    int sort; // column of the table
    value_scale scale;
    int64_t W, smooth;
    double surprise;
    char filter[PROMPT_MOST];
    char export_dir[256];
    glyph_set glyphs;
    bool mouse;
} dash_look;

// Find in the text (find.h).
typedef struct dash_search {
    char text[PROMPT_MOST];
    found hits;
    int64_t at;     // -1: none
    const void *of; // reading they were looked for in
} dash_search;

// Panel 0 and what covers the key bar.
typedef struct dash_log {
    message *v; // ring [MESSAGES_MOST]; owned
    int first, n;
    double shown_at; // seconds when the newest message came
    bool notice;     // it answers the user: it may cover the key bar
} dash_log;

// What the worker is to do, beside what follows from the view (dash_request).
typedef struct dash_wishes {
    head_ref off[OFF_MOST]; // heads that are switched off
    int n_off, generation, next_generation;
    bool cancelled, sweep, paused;
    double cancelled_at;
    int kernels, next_kernels; // the run that measures them, 0: none
    int kernels_slot;          // whose they are
    int reload;
    int64_t hold;
} dash_wishes;

// "key j k\n" ..., for --play; text is owned.
typedef struct dash_keys {
    char *text;
    size_t n, cap;
} dash_keys;

// OSC 52: asked for once.
typedef struct dash_clip {
    bool agreed;
    char text[2048]; // to hand to the terminal, "" = nothing
} dash_clip;

typedef struct dash {
    const options *o;
    dash_inputs in;
    // Where
    int64_t T;         // tokens, 0: not known yet
    int64_t t, t0, t1; // cursor; view, t1 = 0: all of it
    int64_t newest;    // tokens read, for follow
    int layer, head;
    head_ref mark[MARKS_MOST]; // in the order of their letters b, c, d
    int n_marks, oldest_mark;
    bool follow;
    // Panels on screen
    unsigned open;
    int focus;
    bool zoom;
    place last;
    overlay overlay;
    int scroll; // of the overlay or the messages
    // The rest, each with an owner of its own
    dash_look look;     // settings.c, cmd_screen.c, cmd_heads.c
    prompt prompt;      // prompt.c
    dash_search search; // cmd_move.c
    dash_log log;       // dash.c
    dash_wishes want;   // cmd_science.c
    dash_keys keys;     // cmd.c
    dash_clip clip;     // cmd_out.c
    bool quit, busy, redraw;
    int exit_code;
} dash;

void dash_init(dash *d, const options *o);
void dash_free(dash *d);

// Adds a line to panel 0. level ' ', '!' or 'E'.
void dash_say(dash *d, char level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void dash_message(dash *d, char level, double seconds, const char *text);
const message *dash_newest(const dash *d); // NULL: none

// The document's length is known: positions are brought into it.
void dash_set_length(dash *d, int64_t T);
void dash_move_to(dash *d, int64_t t); // cursor, and the view with it; it follows nothing then
void dash_view(dash *d, int64_t t0, int64_t t1); // clamped; the whole document when t0 >= t1
int64_t dash_t1(const dash *d);                  // end of the view
void dash_zoom_view(dash *d, double factor, int64_t about);
bool dash_head(dash *d, int layer, int head);        // false: there is none
void dash_step_head(dash *d, int layers, int heads); // in the grid, over attention layers
void dash_next_head(dash *d, int by);                // through all heads
void dash_toggle_mark(dash *d);
void dash_remember(dash *d);         // for `
void dash_focus(dash *d, int panel); // opens it; again: hides it
const card *dash_card(const dash *d);

// What the worker is to do now. visible: panels on screen, as bits.
void dash_request(const dash *d, unsigned visible, request *out);
// Window for half-lives: W, but at least K / n_h tokens of the cursor head (G11).
int64_t dash_mode_window(const dash *d);

const char *metric_name(metric m);
bool metric_find(const char *name, metric *out);

#endif
