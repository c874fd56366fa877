#include "cli/dash/keys.h"

#include "core/text.h"

#include <stdio.h>
#include <string.h>

// clang-format off
static const key_row rows[] = {
    {"? F1", "help", GROUP_PROGRAM, "help: all keys, the focused panel first", "? help", 1},
    {":", "prompt :", GROUP_PROGRAM, "command line; Tab completes, Up and Down recall", ": command", 2},
    {"/", "prompt /", GROUP_FIND, "find in the document: plain text, or re:PATTERN", "/ find", 3},
    {"Left h", "left", GROUP_MOVE, "head or token to the left", NULL, 0},
    {"Right l", "right", GROUP_MOVE, "head or token to the right", NULL, 0},
    {"Up k", "up", GROUP_MOVE, "layer up; in curves ten tokens back", NULL, 0},
    {"Down j", "down", GROUP_MOVE, "layer down; in curves ten tokens on", NULL, 0},
    {"H", "move -64", GROUP_MOVE, "64 tokens back", NULL, 0},
    {"L", "move +64", GROUP_MOVE, "64 tokens on", NULL, 0},
    {"PgUp", "page -1", GROUP_MOVE, "a tenth of the view back", NULL, 0},
    {"PgDn", "page +1", GROUP_MOVE, "a tenth of the view on", NULL, 0},
    {"Home g", "first", GROUP_MOVE, "first token", NULL, 0},
    {"End G", "last", GROUP_MOVE, "last token read", NULL, 0},
    {"[", "doc previous", GROUP_MOVE, "previous document start or mark", NULL, 0},
    {"]", "doc next", GROUP_MOVE, "next document start or mark", NULL, 0},
    {"e", "surprise next", GROUP_MOVE, "next token above the loss mark (:surprise max: the highest)", "e next surprise", 18},
    {"b", "surprise previous", GROUP_MOVE, "previous token above the loss mark", NULL, 0},
    {"F", "follow", GROUP_MOVE, "keep the cursor at the newest token", "F follow", 20},
    {"`", "back", GROUP_MOVE, "back to the place before; again: here", NULL, 0},
    {"Tab", "panel next", GROUP_VIEW, "next panel", "Tab panel", 4},
    {"S-Tab", "panel previous", GROUP_VIEW, "previous panel", NULL, 0},
    {"0", "panel 0", GROUP_VIEW, "messages: show, focus, hide", NULL, 0},
    {"1", "panel 1", GROUP_VIEW, "heads: show, focus, hide", NULL, 0},
    {"2", "panel 2", GROUP_VIEW, "effective rank", NULL, 0},
    {"3", "panel 3", GROUP_VIEW, "loss", NULL, 0},
    {"4", "panel 4", GROUP_VIEW, "eigenvalues", NULL, 0},
    {"5", "panel 5", GROUP_VIEW, "text", NULL, 0},
    {"6", "panel 6", GROUP_VIEW, "gates", NULL, 0},
    {"7", "panel 7", GROUP_VIEW, "half-lives", NULL, 0},
    {"8", "panel 8", GROUP_VIEW, "state", NULL, 0},
    {"9", "panel 9", GROUP_VIEW, "kernels: R measures them", NULL, 0},
    {"Enter", "zoom", GROUP_VIEW, "the panel alone on the screen, and back", "Enter zoom", 5},
    {"+ =", "zoom-in", GROUP_VIEW, "zoom in about the cursor", "+ - zoom", 9},
    {"-", "zoom-out", GROUP_VIEW, "zoom out", NULL, 0},
    {"_", "fit", GROUP_VIEW, "the whole document", NULL, 0},
    {"(", "pan -1", GROUP_VIEW, "half a view back (:view T0 T1 for a range)", NULL, 0},
    {")", "pan +1", GROUP_VIEW, "half a view on", NULL, 0},
    {"v", "axis", GROUP_VIEW, "value axis: linear, log, signed log", NULL, 0},
    {"a", "autoscale", GROUP_VIEW, "colours over the values there are, or the whole scale", NULL, 0},
    {"y", "same-scale", GROUP_VIEW, "value axes from zero over the whole scale", NULL, 0},
    {"s", "smooth", GROUP_VIEW, "loss: width of the mean (1, 51, 501, 2001, by length)", NULL, 0},
    {"d", "band", GROUP_VIEW, "loss: 10 to 90% band and points", NULL, 0},
    {"c", "compare", GROUP_VIEW, "models: both, a, b, a - b", NULL, 0},
    {"i", "info", GROUP_VIEW, "config, tensors, weight statistics, provenance", NULL, 0},
    {"m", "metric next", GROUP_HEADS, "next number of the grid", "m metric", 8},
    {"M", "metric previous", GROUP_HEADS, "previous number of the grid", NULL, 0},
    {"K", "head previous", GROUP_HEADS, "previous head, from any panel", NULL, 0},
    {"J", "head next", GROUP_HEADS, "next head, from any panel", NULL, 0},
    {"Space", "mark", GROUP_HEADS, "mark the head: its curve is overlaid as b, c, d", "Space mark", 7},
    {"U", "unmark", GROUP_HEADS, "clear all marks", NULL, 0},
    {"t F5", "table", GROUP_HEADS, "grid or table", NULL, 0},
    {"< F6", "sort previous", GROUP_HEADS, "table: sort by the column before", NULL, 0},
    {">", "sort next", GROUP_HEADS, "table: sort by the next column", NULL, 0},
    {"I", "invert", GROUP_HEADS, "table: turn the order around", NULL, 0},
    {"\\ F4", "prompt \\", GROUP_HEADS, "filter heads: erank>30, layer=2, !dead, & | ( )", NULL, 0},
    {"n", "find-next", GROUP_FIND, "next hit", NULL, 0},
    {"N", "find-previous", GROUP_FIND, "previous hit", NULL, 0},
    {"w", "window half", GROUP_SCIENCE, "window of the spectra: half", NULL, 0},
    {"W", "window double", GROUP_SCIENCE, "window of the spectra: double", NULL, 0},
    {"x", "ablate", GROUP_SCIENCE, "switch the head off or on: the losses are read again", "x ablate", 10},
    {"X", "restore", GROUP_SCIENCE, "all heads on", NULL, 0},
    {"D", "open b", GROUP_SCIENCE, "a second model beside the first (asks for it)", "D second model", 15},
    {"Z", "pause", GROUP_SCIENCE, "pause or resume the computation", NULL, 0},
    {"R", "recompute", GROUP_SCIENCE, "take a cancelled pass up again; in panel 9: measure the kernels", NULL, 0},
    {"^R", "reload", GROUP_SCIENCE, "read model and document again from disk", NULL, 0},
    {"p", "png", GROUP_OUT, "picture (PNG) and data (CSV) of the panel", "p PNG", 6},
    {"P", "screen-png", GROUP_OUT, "one picture of all panels on screen", NULL, 0},
    {"E", "data", GROUP_OUT, "data of the panel (:data FILE.csv, .npy or .jsonl)", "E data", 12},
    {"Y", "yank", GROUP_OUT, "the command line that shows this again", "Y copy command", 17},
    {"S", "save", GROUP_OUT, "save the session (-r restores it)", "S session", 16},
    {"^D", "keylog", GROUP_OUT, "save the keys so far for --play", NULL, 0},
    {"o F2", "options", GROUP_PROGRAM, "options and their values (:set NAME VALUE)", NULL, 0},
    {"F12", "save-options", GROUP_PROGRAM, "keep the options in the configuration file", NULL, 0},
    {"^L", "redraw", GROUP_PROGRAM, "paint everything again", NULL, 0},
    {"^C", "cancel", GROUP_PROGRAM, "stop the computation, keep what is done; twice: leave", NULL, 0},
    {"Esc", "escape", GROUP_PROGRAM, "close what is open, clear the search, un-zoom", NULL, 0},
    {"q F10", "quit", GROUP_PROGRAM, "leave", "q quit", 0},
};
// clang-format on
enum { ROWS = sizeof rows / sizeof *rows, BINDINGS = 64 };

static struct { char key[16], command[128]; } bound[BINDINGS];
static int n_bound;

const key_row *keys_rows(size_t *n) {
    *n = ROWS;
    return rows;
}

const char *keys_group(key_group g) {
    static const char *const names[GROUPS] = {"moving",  "heads",  "view",   "finding",
                                              "science", "output", "program"};
    return names[g];
}

static bool holds(const char *list, const char *key) {
    size_t n = strlen(key);
    for (const char *p = list; *p;) {
        size_t k = strcspn(p, " ");
        if (k == n && memcmp(p, key, n) == 0)
            return true;
        p += k + (p[k] == ' ');
    }
    return false;
}

const char *keys_command(const char *key) {
    for (int i = n_bound - 1; i >= 0; i--)
        if (strcmp(bound[i].key, key) == 0)
            return bound[i].command;
    for (size_t i = 0; i < ROWS; i++)
        if (holds(rows[i].key, key))
            return rows[i].command;
    return NULL;
}

bool keys_bind(const char *key, const char *command, err *e) {
    if (!*key || strlen(key) >= sizeof bound[0].key)
        return err_set(e, ERR_USAGE, "\"%s\" is no key", text_show(key));
    if (n_bound == BINDINGS)
        return err_set(e, ERR_USAGE, "more than %d bindings", BINDINGS);
    snprintf(bound[n_bound].key, sizeof bound[0].key, "%s", key);
    snprintf(bound[n_bound++].command, sizeof bound[0].command, "%s", command);
    return true;
}
