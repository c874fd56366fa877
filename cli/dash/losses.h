// cli/dash/losses.h - what the loss panel shows, for its neighbours (export, line mode).
#ifndef DELTOP_DASH_LOSSES_H
#define DELTOP_DASH_LOSSES_H

#include "cli/dash/scene.h"

int64_t losses_window(const scene *x); // odd; tokens of the centred mean
// Smoothed loss of token t (of the model shown): nats/token, or bits/byte where x->bytes.
double losses_at(const scene *x, const run *r, int64_t t);
int losses_curves(const scene *x, int *model); // models drawn, at most CURVES
// The document's name as the commands have it: without folder and ending. In a static buffer of
// the calling thread.
const char *losses_document(const reading *r);

#endif
