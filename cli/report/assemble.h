// cli/report/assemble.h - from stored results to the page, the summary, pictures and results.jsonl.
//
// Pure: what it writes depends on the results, the command line and nothing else, so it gives the
// same bytes however the tasks were run. It computes no row; what is not there is named as missing.
#ifndef DELTOP_REPORT_ASSEMBLE_H
#define DELTOP_REPORT_ASSEMBLE_H

#include "cli/report/tasks.h"

// Writes everything and lists the files. *code: EXIT_DONE, EXIT_FAILED when tasks are missing,
// else EXIT_CHECK when a rule is broken or not decided. Fails (and *code is not set) when nothing at all was measured, and
// when files cannot be written.
bool report_assemble(const report *r, int *code, err *e);

#endif
