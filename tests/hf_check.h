// tests/hf_check.h - opening, reading and refusing of tiny models, shared by the tests of families and of
// Hugging Face's layouts.
#ifndef DELTOP_TESTS_HF_CHECK_H
#define DELTOP_TESTS_HF_CHECK_H

#include "core/forward.h"
#include "tests/tiny_hf.h"

enum { HF_T = 40 };
extern const int32_t hf_ids[HF_T];

// Losses [T - 1] of a folder; every tensor must have been read.
void hf_read(const char *folder, const int32_t *ids, int64_t T, precision p, int64_t block,
             double *loss);
// Losses of hf_ids in float64, blocks of 16.
void hf_losses(const tiny_model *t, double *loss);
// The largest difference of n losses; NaN when one is NaN.
double hf_away(const double *a, const double *b, int64_t n);
// What naive_run says of hf_ids: asked before the model is rearranged.
void hf_wanted(const tiny_model *t, double *loss);
// Both precisions, 1e-11 and 1e-4 nats.
void hf_same(const tiny_model *t, const double *want);

void hf_refused(const tiny_model *t, err_code code, const char *const *words);
#define REFUSED(t, code, ...) hf_refused(t, code, (const char *const[]){__VA_ARGS__, NULL})

// Opened for inspection; fails the test when that fails.
model *hf_inspected(const tiny_model *t);
bool hf_noted(const model *m, const char *words);

// Opens with the first, second ... allocation failing, until none does: an error each time, and
// nothing left behind (leak checker).
void hf_every_allocation(const tiny_model *t);

const char *hf_name(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
