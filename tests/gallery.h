// tests/gallery.h - figures of every kind, made from formulas, for the tests of what draws them.
#ifndef DELTOP_TESTS_GALLERY_H
#define DELTOP_TESTS_GALLERY_H

#include "analyses/figure.h"

// Numbers in [0, 1) that are the same on every run and machine.
double gallery_random(unsigned *seed);
double gallery_normal(unsigned *seed);

figure *gallery_loss(void);    // 32768 tokens, log2 x axis, faint, smoothed, band, train length
figure *gallery_models(int n); // n smooth curves over a token axis
figure *gallery_erank(size_t layers, size_t heads, size_t cols); // heat map with a NaN block
figure *gallery_delta(void);  // diverging heat map with numbered rows
figure *gallery_angles(void); // cyclic heat map
figure *gallery_eigen(void);  // complex plane, 3 series of 2000
figure *gallery_hist(void);   // angle histogram, 2 series
figure *gallery_bars(void);   // 3 series over 6 categories, with whiskers
figure *gallery_table(void);
figure *gallery_log_axis(void);  // 0, -1, NaN and one positive value on a log axis
figure *gallery_odd_names(void); // escapes, wide characters, bidi, bytes that are not UTF-8

// A figure of any drawable kind with hostile numbers: NaN, infinities, +-1e308, denormals, equal
// values, limits the wrong way round, marks anywhere.
figure *gallery_hostile(unsigned seed);

// One curve of n values.
figure *gallery_curve(size_t n, const double *x, const double *y, axis_scale scale);
// A set with one figure, which it owns.
figures gallery_one(figure *f);

#endif
