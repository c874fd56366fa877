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

// Counts, then what is not equal, names folded up to numbers (of groups: the least cosine, |B - A| of all
// together, the largest change), at most 50 lines a class; full: every tensor on a line of its own.
bool diff_print(const output *x, const ckpt_diff *d, const decay_list *decay, size_t n_decay,
                bool full, err *e);
// Keys of the configs.
void diff_print_config(const output *x, const config_diff *c);
// Losses, divergences and heads of both models.
void diff_print_contrast(const output *x, const contrast *c, const contrast_options *o,
                         const char *how);

// NULL on failed allocation; docs/json.md has the keys.
json_t *diff_json(const ckpt_diff *d, const config_diff *c, const decay_list *decay,
                  size_t n_decay);
json_t *diff_contrast_json(const contrast *c);

#endif
