// cli/dash/cmd.h - the one vocabulary: what keys are bound to, the prompt takes and scripts say.
//
//     NAME [ARGUMENTS]      "metric erank", "ablate L1.H3,L2.H0", "view 0 4k"
//     5121  +200  -64  50%  the cursor goes there
#ifndef DELTOP_DASH_CMD_H
#define DELTOP_DASH_CMD_H

#include "cli/dash/scene.h"

typedef enum {
    COMPLETE_NONE,
    COMPLETE_METRIC,
    COMPLETE_HEAD,
    COMPLETE_FILE,
    COMPLETE_SETTING,
    COMPLETE_PANEL
} completion;

typedef struct cmd {
    const char *name;
    const char *args; // for messages: "L.H", "N"; "" = none
    completion complete;
    // rest: the arguments, blanks around them taken away. False: *e is filled (ERR_USAGE).
    bool (*run)(dash *d, const scene *x, const char *rest, err *e);
} cmd;

// Runs one line. What it answers goes to the messages.
bool cmd_run(dash *d, const scene *x, const char *line, err *e);
// A key: the open prompt gets it, else its command is run. Unknown keys do nothing.
void cmd_key(dash *d, const scene *x, const char *key);
// Text typed into the open prompt (UTF-8), as keys would.
void cmd_type(dash *d, const scene *x, const char *text);
// A click or wheel at a cell. wheel: -1 up, +1 down, 0 a click; twice: a double click.
void cmd_mouse(dash *d, const scene *x, int y, int col, int wheel, bool twice);
// A drag from one cell to another in one panel selects the tokens between as the view.
void cmd_drag(dash *d, const scene *x, int y0, int col0, int y1, int col1);

const cmd *cmd_table(size_t *n);
const cmd *cmd_find(const char *name);

// Rows of cmd_table by file.
extern const cmd cmd_moves[], cmd_views[], cmd_grids[], cmd_sciences[], cmd_outs[];
extern const size_t n_cmd_moves, n_cmd_views, n_cmd_grids, n_cmd_sciences, n_cmd_outs;

// "4k", "12182". ERR_USAGE names WHAT.
bool cmd_tokens(const char *text, int64_t *out, const char *what, err *e);
// "next", "previous" or the empty word (next). ERR_USAGE otherwise.
bool cmd_direction(const char *text, int *out, err *e);
// "+1", "-1" or the empty word (+1). ERR_USAGE names WHAT.
bool cmd_sign(const char *text, int *out, const char *what, err *e);

// The prompt (prompt.c).
void prompt_open(prompt *p, char kind, const char *text);
void prompt_close(prompt *p);
void prompt_key(dash *d, const scene *x, const char *key);

#endif
