// cli/report/plan.h - what cli/report/tasks.h's list is made from: rows of every model and document,
// and the settings that results depend on.
#ifndef DELTOP_REPORT_PLAN_H
#define DELTOP_REPORT_PLAN_H

#include "cli/report/tasks.h"
#include "core/model.h"

enum { PLAN_WINDOWS = 3 };
extern const int64_t plan_windows[PLAN_WINDOWS]; // tokens of window products

// Fills r->pair and r->input; r->how, r->own and r->n_pairs are set. See report_open.
bool plan_make(report *r, err *e);

// Windows of each length in a row, fewer for models of many heads and for many rows; tokens between
// samples of states.
int64_t plan_samples(const report_options *own, const model *m, int64_t rows);
int64_t plan_every(const report_options *own, int64_t length);

// Of config, weights and tokenizer: changes when one of the files does.
bool plan_model_digest(const char *model, char out[65], err *e);

// "NVIDIA H200, bf16": the same for all cards of a kind. Returns buf.
const char *plan_how(const backend *be, char *buf, size_t size);

#endif
