// cli/results.h - figures of a command become files and text.
//
// With --out: NAME.png and NAME.csv at the top of the folder. Without it (and without --json): the
// figures chosen for the terminal as text. The PNG carries the command line that draws it again,
// the program's version, and the sources by name and SHA-256.
#ifndef DELTOP_RESULTS_H
#define DELTOP_RESULTS_H

#include "analyses/figure.h"
#include "cli/options.h"
#include "cli/output.h"

typedef struct results_about {
    const char *name;        // "loss": file names
    const char *source;      // "small-deltanet; text_kjv.txt sha256 ..."
    const char *description; // "cpu, f32; moving mean of 501"
} results_about;

// print_first: index of the figure that is shown as text without --out; -1: none.
bool results_figures(output *x, const options *o, const figures *f, const results_about *about,
                     int print_first, err *e);

// NAME.png alone; nothing without --out or without figures.
bool results_png(output *x, const options *o, const figures *f, const results_about *about, err *e);

// Writes an array of one model and document as NAME.npy and remembers it; nothing without --out.
bool results_f64(output *x, size_t model, size_t document, const char *name, int rank,
                 const int64_t *dims, const double *data, err *e);
bool results_c128(output *x, size_t model, size_t document, const char *name, int rank,
                  const int64_t *dims, const void *data, err *e);

// Ends a command: NAME ("loss.json") holds output_head and RESULTS, which stays the caller's.
bool results_finish(output *x, const char *name, json_t *results, err *e);

// Puts "MODEL on DOCUMENT: " in front of a message about numbers that are none, and behind it what to do where
// they are out of range. Returns false.
bool results_no_number(const char *model, const char *document, bool out_of_range, err *e);

// "; text_kjv sha256 ..." behind the sources named so far, for results_about; what does not fit is
// cut.
void results_add_source(char *buf, size_t size, const char *document, const char *sha256);

// One word quoted for a shell when it holds anything but plain characters; absolute paths are cut to
// their last part, so that no home folder ends up in a picture. Caller frees; NULL: *e is filled.
char *results_shell_word(const char *s, err *e);

// The command line as given, arguments quoted for a shell; home folders are cut to base names.
// Caller frees.
char *results_command_line(const options *o, err *e);
// The same without the options named in left_out (NULL at its end): those that change no number.
char *results_command_line_but(const options *o, const char *const *left_out, err *e);

#endif
