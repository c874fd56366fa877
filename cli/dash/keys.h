// cli/dash/keys.h - one table: keys, the commands they are bound to, and what the help says.
//
// A key is a word: a character ("j", "J", ":"), a name ("Left", "PgUp", "Enter", "Esc", "Tab",
// "S-Tab", "Space", "Home", "F1".."F12") or "^C". A command is a line of the prompt's language
// (cmd.h). Rebinding changes the command of a row.
#ifndef DELTOP_DASH_KEYS_H
#define DELTOP_DASH_KEYS_H

#include "core/err.h"

#include <stddef.h>

typedef enum {
    GROUP_MOVE,
    GROUP_HEADS,
    GROUP_VIEW,
    GROUP_FIND,
    GROUP_SCIENCE,
    GROUP_OUT,
    GROUP_PROGRAM,
    GROUPS
} key_group;

typedef struct key_row {
    const char *key; // first key; others with the same command follow, separated by blanks
    const char *command;
    key_group group;
    const char *help; // one line
    const char *bar;  // "m metric" for the key bar; NULL: not there
    int bar_rank;     // the smaller, the longer it stays when room is short
} key_row;

const key_row *keys_rows(size_t *n);
const char *keys_group(key_group g);
// The command of a key, NULL: none. Bindings of the configuration come first.
const char *keys_command(const char *key);
// Binds KEY to COMMAND; both are copied.
bool keys_bind(const char *key, const char *command, err *e);

#endif
