// analyses/report/figures.h - pictures that only a report has: signals of heads along rows, several
// models in one picture.
#ifndef DELTOP_REPORT_FIGURES_H
#define DELTOP_REPORT_FIGURES_H

#include "analyses/report/pair.h"

// Against position, over rows and heads, one curve a model: delta-rule loss, beta (means), half-life of
// the gate (median of heads); a signal that no model has is left out. All pairs are of one document; how: device and
// precision, for subtitles. *out may stay empty.
bool report_signal_figures(const pair *const *p, size_t n, const char *how, figures *out, err *e);

// What happens at document boundaries (S07), one curve a model: of the head that tells them best, the
// gate and the size of the state around a boundary. *out stays empty where no row holds a boundary.
bool report_boundary_figures(const pair *const *p, size_t n, const char *how, figures *out, err *e);

// Moves the figure with this id from one list to another. False when it is not there.
bool report_pick(figures *from, const char *id, figures *to, err *e);

#endif
