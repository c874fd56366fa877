// analyses/words/words.h - how many of a task's words a model gets right, position by position.
//
// Position i counts the word's tokens from 0; the prefix is not counted. Two accuracies are kept
// apart (science.md X01): at a position (is the answer behind token i right?), and of the prefix (are
// the answers 0..i all right?), which is the measure of DeltaProduct's figures.
#ifndef DELTOP_WORDS_H
#define DELTOP_WORDS_H

#include "analyses/figure.h"
#include "analyses/words/read.h"
#include "analyses/words/task.h"

typedef struct words_options {
    int64_t length, count;
    bool all; // every word of that length instead of random ones; count is set from it
    uint64_t seed;
    int64_t block;   // 0: what suits
    double beta_max; // 0: the model as it is
} words_options;

// Most words that `all` may mean, and most tokens of a word that a command should ask for.
enum { WORDS_MOST = 4 << 20, WORDS_LONGEST = 16 << 20 };

typedef struct words_result {
    char model[128], task[64], order[48];
    int64_t length, count;
    bool all;
    int64_t *right, *so_far; // [length]: words right at i, and right from 0 to i
    int64_t perfect;         // words without a mistake
    double chance;
    int64_t train_length; // 0: unknown
    double beta_max;      // of the intervention, 0: none
} words_result;

// Words do not depend on threads or device: word i of a seed is always the same. ERR_INPUT when the
// task's ids are not the model's, ERR_USAGE when `all` would be more than WORDS_MOST words.
bool words_run(const model *m, const word_task *t, const words_options *o, progress_fn progress,
               void *progress_ctx, words_result *r, err *e);
void words_free(words_result *r); // an empty one is fine

// Mean accuracy (at a position) over positions from .. to-1.
double words_mean(const words_result *r, int64_t from, int64_t to);
// First position from which the accuracy stays below `share` of the words; length when there is none.
int64_t words_falls(const words_result *r, double share);

// Accuracy over position: one picture a task, a curve a model; `prefix` draws the prefix accuracy.
bool words_figures(const words_result *r, size_t n, bool prefix, const char *how, figures *out,
                   err *e);

#endif
