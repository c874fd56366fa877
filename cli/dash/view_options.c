#include "cli/dash/view_options.h"

#include "core/text.h"

#include <stdio.h>
#include <string.h>

const view_options view_defaults = {.at = -1,
                                    .focus = -1,
                                    .metric = -1,
                                    .window = 0,
                                    .smooth = -1,
                                    .surprise = -1,
                                    .export = -1,
                                    .glyphs = -1,
                                    .state_mem = 1024};

#define AT(field) offsetof(view_options, field)

const option_spec view_table[N_VIEW_OPTIONS] = {
    {"at", OPT_INT, AT(at), .lo = 0, .hi = 1099511627776.0,
     .help = "token where the cursor begins"},
    {"view", OPT_TEXT, AT(view), .value = "T0:T1", .help = "positions on screen (default all)"},
    {"head", OPT_TEXT, AT(head), .value = "L1.H3", .help = "head where the cursor begins"},
    {"marked", OPT_TEXT, AT(marked), .value = "L1.H3,...",
     .help = "heads drawn beside it, at most three"},
    {"ablate", OPT_TEXT, AT(ablate), .value = "L1.H3,...",
     .help = "heads whose read-outs are set to zero"},
    {"metric", OPT_CHOICE, AT(metric), .choices = "erank|norm|growth|gate|beta|rho|t1/2|abl",
     .help = "number of the grid"},
    {"window", OPT_INT, AT(window), .lo = 1, .hi = 512,
     .help = "tokens of a window product (default 32)"},
    {"smooth", OPT_INT, AT(smooth), .lo = 0, .hi = 1000000,
     .help = "tokens of the loss's mean (default 0: as suits the length)"},
    {"surprise", OPT_REAL, AT(surprise), .lo = 0, .hi = 1000, .value = "NATS",
     .help = "loss from which a token is marked (default 6)"},
    {"compare", OPT_TEXT, AT(compare), .value = "both|a|b|a-b", .help = "which models are drawn"},
    {"panels", OPT_TEXT, AT(panels), .value = "1,2,5",
     .help = "panels that are open (default all but 0)"},
    {"focus", OPT_INT, AT(focus), .lo = 0, .hi = 9, .help = "panel that has the keys"},
    {"zoom", OPT_FLAG, AT(zoom), .help = "that panel alone"},
    {"mark", OPT_TEXT, AT(mark), .value = "REGEX",
     .help = "mark matches in the text like document starts"},
    {"session", OPT_TEXT, AT(session), .value = "NAME",
     .help = "go on where a session was saved (also -r NAME); last: at the last end"},
    {"snapshot", OPT_TEXT, AT(snapshot), .value = "ROWSxCOLS",
     .help = "print one frame of that size and leave"},
    {"wait", OPT_TEXT, AT(wait), .value = "forward|idle|N%",
     .help = "how far to compute before the frame (default idle)"},
    {"play", OPT_TEXT, AT(play), .value = "FILE",
     .help = "replay keys and leave (docs/dashboard.md has the language)"},
    {"frames", OPT_TEXT, AT(frames), .value = "DIR", .help = "where --play's frames go"},
    {"export", OPT_INT, AT(export), .lo = 0, .hi = 9,
     .help = "write picture and data of this panel to --out DIR and leave"},
    {"attrs", OPT_FLAG, AT(attrs),
     .help = "with --snapshot: a second block with one letter a cell"},
    {"live", OPT_FLAG, AT(live),
     .help = "with --snapshot or --play: rates and times too, which differ from run to run"},
    {"glyphs", OPT_CHOICE, AT(glyphs), .choices = "braille|block|ascii",
     .help = "what curves are made of (default braille, ascii outside UTF-8)"},
    {"color", OPT_CHOICE, AT(color), .choices = "auto|never|always",
     .help = "colours (default auto; NO_COLOR is heeded)"},
    {"no-color", OPT_FLAG, AT(no_color), .help = "no colours (also -C)"},
    {"ascii", OPT_FLAG, AT(ascii), .help = "ASCII only (also -U)"},
    {"no-mouse", OPT_FLAG, AT(no_mouse), .help = "leave the mouse to the terminal (also -M)"},
    {"tui", OPT_FLAG, AT(tui),
     .help = "insist on the screen: exit code 2 where there is no terminal"},
    {"state-mem", OPT_INT, AT(state_mem), .lo = 1, .hi = 1048576, .value = "MIB",
     .help = "memory for states to come back to, and as much for gates (default 1024)"},
    {"default-config", OPT_FLAG, AT(default_config),
     .help = "print a commented configuration file"},
};

bool view_read_size(const char *text, int *rows, int *cols, err *e) {
    int n = 0;
    if (sscanf(text, "%4dx%4d%n", rows, cols, &n) == 2 && !text[n] && *rows >= 1 && *cols >= 1 &&
        *rows <= 1000 && *cols <= 1000)
        return true;
    return err_set(e, ERR_USAGE, "\"%s\": expected ROWSxCOLS from 1x1 to 1000x1000, like 24x80",
                   text_show(text));
}
