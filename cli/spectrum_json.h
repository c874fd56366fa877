// cli/spectrum_json.h - the numbers of one spectrum as JSON.
#ifndef DELTOP_SPECTRUM_JSON_H
#define DELTOP_SPECTRUM_JSON_H

#include "analyses/spectrum.h"

#include <jansson.h>

// layers, windows, ends with their rows, the summary, by_window and by_head (in the order of the
// arrays' axes). s and w[windows] are of all layers and heads. NULL on failure.
json_t *spectrum_json(const spectrum_result *r, const spectrum_summary *s, const spectrum_span *w,
                      err *e);

#endif
