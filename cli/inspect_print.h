// cli/inspect_print.h - an inspection as text, as Markdown and as JSON.
#ifndef DELTOP_INSPECT_PRINT_H
#define DELTOP_INSPECT_PRINT_H

#include "analyses/inspect.h"
#include "cli/output.h"

typedef struct inspect_look {
    bool markdown, full;
    bool stats;              // show the figures; values may have been read for their NaN only
    const memory_need *need; // NULL: not asked for, or there is no model to run
    int precision;           // of the need
} inspect_look;

void inspect_print(const output *out, const char *name, const inspection *x,
                   const inspect_look *look);
// Every fact, names by output_json_text. NULL on failed allocation.
json_t *inspect_json(const char *name, const inspection *x, const inspect_look *look);

// "one number a head" and the like.
const char *inspect_decay_word(decay_kind k);
const char *inspect_erase_word(erase_kind k);

#endif
