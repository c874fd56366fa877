// cli/dash/export.h - pictures and data of panels as files, and the command lines that make them.
#ifndef DELTOP_DASH_EXPORT_H
#define DELTOP_DASH_EXPORT_H

#include "analyses/figure.h"
#include "cli/dash/scene.h"

// The command line that makes the same files of a panel again (OUT as its --out; NULL: without):
// `deltop loss` for losses of whole documents, else `deltop view ... --export N`. PANEL -1: the
// view itself. Caller frees.
char *export_command(const scene *x, int panel, const char *out, err *e);

// DIR/STEM.png and .csv of the panels in `which` (bits). png or csv may be NULL: not wanted. What
// was written appears whole or not at all. A panel without a figure is ERR_UNSUPPORTED, unless others
// of several have one.
bool export_files(const scene *x, unsigned which, const char *png, const char *csv,
                  const char *command, err *e);
// The figures of those panels, for export_files and export_data; the caller frees them.
bool export_figures(const scene *x, unsigned which, figures *out, err *e);
// The numbers of a panel alone: .csv, .npy or .jsonl by the path's ending.
bool export_data(const scene *x, int panel, const char *path, err *e);

// The first free deltop-NNNN-STEM in DIR ("deltop-0007-loss"), claimed by an empty .png. Caller
// frees; NULL: *e is filled.
char *export_number(const char *dir, const char *stem, err *e);
void export_unclaim(const char *path_without_ending); // takes an empty .png away again

#endif
