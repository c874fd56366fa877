// cli/dash/session_file.h - what was looked at and how, as JSON: no results, they are computed again.
#ifndef DELTOP_DASH_SESSION_FILE_H
#define DELTOP_DASH_SESSION_FILE_H

#include "cli/dash/dash.h"

// NAME with a slash or ending in .json is a path; another one lies in $XDG_STATE_HOME/deltop, else
// ~/.local/state/deltop; "" is "last".
bool session_path(const char *name, char *buf, size_t size, err *e);

// text: what the document held, NULL before it is read.
bool session_save(const dash *d, const reading *text, const char *path, err *e);

// Reads what to open: the paths are copied into *models (n) and *document, which the caller frees.
bool session_inputs(const char *path, char *models[MODELS_MOST], int *n, char **document, err *e);
// Brings *d, whose models are open, to the saved place. Inputs that have changed are told as
// messages; positions are clamped when the document's length is known.
bool session_restore(dash *d, const char *path, err *e);
// Told once the document has been read: its bytes are not those of the session.
void session_check_document(dash *d, const reading *text, const char *path);

#endif
