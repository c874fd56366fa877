// bench/model_cases.h - the operations that a model's forward pass and its analyses are made of, in the
// model's own sizes: suite `shapes`, and the dashboard's kernel panel.
#ifndef DELTOP_BENCH_MODEL_CASES_H
#define DELTOP_BENCH_MODEL_CASES_H

#include "bench/case.h"
#include "core/model.h"

// Adds, each once: the recurrence of every kind of mixer over T tokens and over one, norm and head,
// singular values and window products of its states. where: axes that all of them get, such as
// "dtype=bf16 device=cuda". A size that no axis takes is left out. m may have been opened for inspection.
bool case_list_model(case_list *l, const model *m, int64_t T, const char *where, err *e);

#endif
