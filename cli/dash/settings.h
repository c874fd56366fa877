// cli/dash/settings.h - options that the user may change while looking: :set, page o, config.ini.
#ifndef DELTOP_DASH_SETTINGS_H
#define DELTOP_DASH_SETTINGS_H

#include "cli/dash/dash.h"

int settings_count(void);
const char *settings_name(int i);
const char *settings_help(int i);
char *settings_show(const dash *d, int i, char *buf, size_t size);
// Sets NAME to the value in TEXT. ERR_USAGE names what is allowed.
bool settings_set(dash *d, const char *name, const char *text, err *e);

// The configuration file: $DELTOP_CONFIG, else $XDG_CONFIG_HOME/deltop/config.ini, else
// ~/.config/deltop/config.ini; NULL without any of them. Lent.
const char *settings_path(void);
// Reads it when it is there: `name = value`, `bind KEY = command`, # comments. Lines that are wrong
// are told as warnings with their number, never an error.
void settings_load(dash *d, const char *path);
bool settings_save(const dash *d, const char *path, err *e);
void settings_print_default(void); // --default-config

// True when NAME belongs to the folded PATTERN of analyses/inspect.h ("#" is any number).
bool settings_in_group(const char *name, const char *pattern);

#endif
