// tests/dumps.h - reference dumps (golden/README.md, "Other families") as a truth for models that a
// test changes: folder, ids and float64 losses, and the questions that are asked of them.
#ifndef DELTOP_TESTS_DUMPS_H
#define DELTOP_TESTS_DUMPS_H

#include "core/forward.h"
#include "tests/tiny_model.h"

#define KEPT "tests/cases/golden/"

enum { DUMP_T = 200 };

typedef struct dump {
    char folder[512];
    int32_t *ids; // [DUMP_T]
    double *nll;  // [DUMP_T - 1]
} dump;

// The numbers of FOLDER/NAME; free them.
double *dump_numbers(const char *folder, const char *name);
dump dump_open(const char *folder);
void dump_free(dump *d);
// A dump that is not kept in this repository, or the test is skipped.
dump dump_shared(const char *name);
// Walks NAMES from *i on: the next dump that is kept here or lies in the reference data.
bool dump_next(const char *const *names, int *i, dump *d);

void dump_read(const model *m, const int32_t *ids, int64_t n, int64_t block, const row_options *opt,
               double *loss);
double dump_away(const double *a, const double *b, int64_t n); // largest difference
// Losses of the model in a folder; all its tensors must be read. note: a part of one of its
// remarks, NULL: it makes none.
void dump_losses(const char *folder, precision p, const int32_t *ids, const char *note,
                 double *loss);
// The changed model has the losses of the dump (1e-9), or is at least so far away.
void dump_same(const tiny_model *t, const dump *d, const char *note);
void dump_differs(const tiny_model *t, const dump *d, double at_least);
// Opening fails with CODE and every one of the words.
void dump_refused(const tiny_model *t, err_code code, const char *const *words);
#define REFUSED(t, code, ...) dump_refused(t, code, (const char *const[]){__VA_ARGS__, NULL})

tiny_tensor *dump_add(tiny_model *t, const char *name, int rank, const int64_t *dims, double v);

#endif
