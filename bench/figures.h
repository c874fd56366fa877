// bench/figures.h - results as pictures (analyses/figure.h): numbers in, figures out.
#ifndef DELTOP_BENCH_FIGURES_H
#define DELTOP_BENCH_FIGURES_H

#include "analyses/figure.h"
#include "bench/match.h"
#include "bench/record.h"

// Bars of every row: times the floor (ms where no floor is known), warm and cold. Behind them, where
// the result holds a case at several lengths, throughput over length. subtitle: device and the like.
bool bench_figures(const record *r, const char *subtitle, figures *out, err *e);

// From three runs on, in the order given (oldest first): each row's time over that of its first run. At most six
// rows that moved most have a name, the others stand behind in grey.
bool bench_history(const record *runs, size_t n, figures *out, err *e);

// Bars of the changes in percent with their intervals, largest first, at most forty.
bool compare_figures(const comparison *c, const char *subtitle, figures *out, err *e);

#endif
