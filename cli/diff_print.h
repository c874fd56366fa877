// cli/diff_print.h - what is different between two checkpoints, as text and as JSON.
#ifndef DELTOP_DIFF_PRINT_H
#define DELTOP_DIFF_PRINT_H

#include "analyses/contrast.h"
#include "analyses/diff.h"
#include "cli/output.h"

// Decays of pairs called A_log, by place in the comparison.
typedef struct decay_list {
    size_t at;
    decay_diff v;
} decay_list;

// Counts, then tensors that are not equal (full: all of them, else at most 50 a class).
void diff_print(const output *x, const ckpt_diff *d, const decay_list *decay, size_t n_decay,
                bool full);
// Losses, divergences and heads of both models.
void diff_print_contrast(const output *x, const contrast *c, const contrast_options *o,
                         const char *how);

// NULL on failed allocation; docs/json.md has the keys.
json_t *diff_json(const ckpt_diff *d, const decay_list *decay, size_t n_decay);
json_t *diff_contrast_json(const contrast *c);

#endif
