// cli/output.h - where results go: standard output, and the files under --out DIR.
//
// Text: output_print. JSON: a command hands over one value, which --json prints and --out writes.
// Files: arrays of a call with several models or documents lie in DIR/<model>/<document>/, what
// shows all of them together (PNG, CSV, JSON) at the top of DIR. Files appear whole or not at all
// (core/outfile.h). What was written is listed at the end.
#ifndef DELTOP_OUTPUT_H
#define DELTOP_OUTPUT_H

#include "cli/options.h"
#include "core/backend.h"
#include "core/err.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct output output;

// Creates the folder of --out (and its parents) and gives every model and document of *o a name.
// o must live as long as the output. NULL on failure.
output *output_open(const options *o, err *e);
void output_free(output *x); // NULL is fine

// Says in the JSON which device and precision computed; without a call: the CPU in --precision.
void output_ran_on(output *x, const backend *be);

// Short names, unique among the models (documents), safe as file names: the last part of a folder,
// the stem of a file, "stdin". Equal ones get their parent folder in front ("a-final", "b-final"),
// and a number when that is not enough. Lent.
const char *output_model(const output *x, size_t i);
const char *output_document(const output *x, size_t i);

// True when files are wanted (--out).
bool output_wants_files(const output *x);
// Path of a file at the top of DIR; of an array that belongs to one model and one document
// (OUTPUT_NONE: to no document), whose folder is created. Caller frees; NULL on failure or without
// --out.
#define OUTPUT_NONE ((size_t)-1)
char *output_path(const output *x, const char *name, err *e);
char *output_array_path(const output *x, size_t model, size_t document, const char *name, err *e);
// Does what belongs to one model and one document lie in DIR itself? Where there is one of each, unless
// asked not to: a folder that gets more models later stays as it is.
bool output_is_flat(const output *x);
void output_always_nested(output *x);
// Remembers a file that was written, for the list.
bool output_wrote(output *x, const char *path, err *e);

// printf to standard output; nothing with --json. A failing write is noticed by output_flush.
void output_print(const output *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Ends a command: writes DIR/<name> when there is a folder, prints VALUE with --json (with
// "files": [...] added), otherwise lists the files. Takes value, also on failure; NULL is a failed
// allocation.
bool output_finish(output *x, const char *name, json_t *value, err *e);

// Standard output has arrived. ERR_IO with the system's reason otherwise; *gone: its reader has
// closed a pipe. main calls it last.
bool output_flush(bool *gone, err *e);

// JSON helpers ------------------------------------------------------------------------------------

// What every JSON result starts with: program, version, command, device_asked, device, precision
// and models and documents by name and path. NULL on failed allocation.
json_t *output_head(const output *x);
// Any bytes as a JSON string: text that is UTF-8 stays as it is, other bytes become \xNN (and every
// backslash \\ then, so that the escape can be told from text). Fault B87.
json_t *output_json_text(const char *s);
json_t *output_json_bytes(const char *s, size_t n); // may hold NUL
// NaN and infinities have no JSON: null.
json_t *output_json_real(double v);

// mkdir -p. The part that cannot be created is named.
bool output_make_folder(const char *path, err *e);

#endif
