// cli/report/teller.h - what sentences about one model and document are made with: its facts, its
// heads, and where the sentences go. Thresholds stand here; every sentence carries its numbers.
#ifndef DELTOP_REPORT_TELLER_H
#define DELTOP_REPORT_TELLER_H

#include "cli/report/parts.h"

#define FULL_SHARE       0.9  // of min(K, V): a state that is nearly full
#define GROWS            1.0  // effective rank: a head that grows
#define MANY_HEADS       0.25 // share of heads that makes growth a finding
#define SATURATED_SHARE  0.9  // of a head's gates or betas
#define RISES            0.05 // nats/token beyond the training length
#define NORM_GROWS       2.0  // factor beyond the training length
#define OUTLIER          5.0  // robust standard deviations
#define ROTATES          0.01 // share of tokens
#define NOTICES_BOUNDARY 0.9  // AUC
// Largest change of one loss against float64 that rounding explains: measured 1e-5 to 1e-4 in f32 on
// trained models, 0.05 to 0.2 in bf16 and tf32 (docs/accuracy.md).
#define OFF_F32  1e-2
#define OFF_BF16 1.0

typedef struct teller {
    assembly *a;
    const assembly_pair *x;
    size_t H;
    double *v, *w; // [H]: values of heads
    size_t said;
    err *e;
    bool ok;
} teller;

bool teller_open(teller *t, assembly *a, const assembly_pair *x, err *e);
bool teller_close(teller *t); // also after a failed open; what failed

// An item of the page; nothing once something failed.
void teller_say(teller *t, item_weight weight, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

double teller_value(const teller *t, const char *name, int64_t position);
// " (95 % 0.1 to 0.3 over rows)", "" without an interval. Returns buf.
const char *teller_interval(const fact *f, char *buf, size_t size);

// The head with the largest value of v [H] (sign -1: smallest); H when there is none.
size_t teller_most(const double *v, size_t H, double sign);
size_t teller_above(const double *v, size_t H, double bound);
// "L0.H1, L2.H3 and 4 more" of those above bound, into buf. Returns buf.
const char *teller_list_above(const teller *t, const double *v, double bound, char *buf,
                              size_t size);

// Heads whose effective rank grows beyond the training length, and whether they still do at the end:
// against the end of the octave before. wrong: tell when they are many; else when they are few.
void teller_growth(teller *t, bool wrong);

#endif
