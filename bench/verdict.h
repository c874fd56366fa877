// bench/verdict.h - is it slower? Two sets of samples of one case become a word and its reasons.
//
// Times of a round (a stretch of some seconds) share what the machine was doing then, so the rounds are
// the observations and not the samples: the level of a round is its lower quartile, and two sets differ
// by the difference of the lower quartiles of their rounds' log levels (disturbances only ever add
// time: 21 runs of the quick suite beside eight busy programs on two cores agree to 1 % in these, to 3 %
// in medians). Its error is found by bootstrap over the rounds and widened by what two runs of the same binary differ by (a calibration's noise floor, or
// a default). The interval is Student's t at a level that is shared out over all rows of a comparison
// (Bonferroni), so that a comparison of two hundred rows cries wolf no more often than one of five.
//
// The same is done with cycles (bench/measure.h), which do not change with the clock. A row is SLOWER
// when size and certainty agree: the change is above the threshold, the interval leaves zero out, and
// cycles say the same. Times alone that are up while cycles are not tell of the machine.
#ifndef DELTOP_BENCH_VERDICT_H
#define DELTOP_BENCH_VERDICT_H

#include "bench/record.h"

typedef enum {
    VERDICT_FASTER,
    VERDICT_SLOWER,
    VERDICT_SAME,
    VERDICT_UNCLEAR,      // the samples do not decide
    VERDICT_NEW,          // only in the new result
    VERDICT_GONE,         // only in the baseline, or not measured any more
    VERDICT_WRONG,        // the gate did not pass, or the case fails now
    VERDICT_INCOMPARABLE, // other device, driver, or no proper number on one side
} verdict_kind;
enum { N_VERDICTS = VERDICT_INCOMPARABLE + 1 };
const char *verdict_name(verdict_kind v);

#define VERDICT_QUANTILE    0.25
#define VERDICT_LEAST_NOISE 0.003 // below this no clock and no allocator is to be trusted

typedef struct verdict_rules {
    double threshold; // a change below this share is none that counts; 0.05
    double alpha;     // chance of any false FASTER or SLOWER in a whole comparison; 0.01
    double noise;     // of rows that no calibration knows; 0.01
    size_t rows;      // that are compared, for sharing out alpha
} verdict_rules;
verdict_rules verdict_default(void);

typedef struct change {
    verdict_kind verdict;
    double ratio;          // new / old, from the rounds' levels; NaN
    double lo, hi;         // interval of the ratio at the shared-out level; NaN
    double cycles_ratio;   // the same in cycles; NaN when not known
    double old_ms, new_ms; // medians
    double noise;          // that was used
    char reason[200];
} change;

// Compares the warm samples of two rows (the cold ones where no warm ones are). noise: the larger of
// what the rows know, else the rules'. Never fails: what is no number is named in the reason.
change verdict_rows(const bench_row *old, const bench_row *new, const verdict_rules *rules);

// Levels of a series' rounds, natural logs of ms (or cycles): at most `most` numbers into out; series
// of one round are cut into up to eight stretches in order of time. Returns their number; 0 when a
// sample is not finite or not above zero.
size_t verdict_levels(const timings *s, bool cycles, double *out, size_t most);

#endif
