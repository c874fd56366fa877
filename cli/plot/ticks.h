// cli/plot/ticks.h - where an axis puts its labels: pure arithmetic, no pixels, no locale.
//
// Talbot, Lin, Hanrahan: An Extension of Wilkinson's Algorithm for Positioning Tick Labels on
// Axes, IEEE InfoVis 2010. Candidates are q in {1, 5, 2, 2.5, 4, 3}, a skip j, a count k and a
// power z; labels lie at whole multiples s of q 10^z, j multiples apart. The score is
//     0.25 simplicity + 0.2 coverage + 0.5 density + 0.05 legibility,    legibility = 1.
#ifndef DELTOP_TICKS_H
#define DELTOP_TICKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ticks {
    int n;         // labels, at least 2 but for ticks_find_whole
    int64_t start; // the first label is start x q x 10^z
    int skip;      // j: multiples from one label to the next
    double q;
    int z;
    double score;
} ticks;

// The best labelling of [lo, hi] with about m labels (m < 2 counts as 2). Labels may lie outside
// [lo, hi]; `loose` makes them enclose it. False when lo < hi does not hold, a bound is not
// finite, or the range is below 1e-12 of the magnitude: widen with ticks_widen first.
bool ticks_find(double lo, double hi, int m, bool loose, ticks *t);

// The same for an axis that counts things: every label is a whole number. Fewer than m whole
// numbers in [lo, hi] are all labelled, and there may be none or one of them.
bool ticks_find_whole(double lo, double hi, int m, ticks *t);

double ticks_at(const ticks *t, int i); // label i, 0 <= i < n; exactly 0 for zero
double ticks_step(const ticks *t);

// Decimals that show every label in full when divided by `factor` (a power of ten).
int ticks_decimals(const ticks *t, double factor);

// Makes lo < hi with a range that doubles resolve: adds max(|lo|, 1) x 0.05 on both sides when it
// is not so already.
void ticks_widen(double *lo, double *hi);

// A multiple of 1000 to factor out of all labels, as its power of ten: 0, or 3 n when the largest
// magnitude is above 1e5 or below 1e-3.
int ticks_factor(double lo, double hi);

// x with `decimals` digits after the point, in the C locale whatever setlocale said; `minus` is
// what stands for the sign ("-" or U+2212). Returns buf.
char *ticks_print(double x, int decimals, const char *minus, char *buf, size_t size);

#endif
