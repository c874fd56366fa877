// analyses/report/row.h - everything that a report measures on one row of one document with one
// model, in one pass over the row: the unit of work that is spread over workers, stored and resumed.
//
// A record holds the row's own numbers only. What is said over all rows (means, intervals,
// differences between models) is made of records afterwards, by analyses/report/pair.h, without the
// model.
#ifndef DELTOP_REPORT_ROW_H
#define DELTOP_REPORT_ROW_H

#include "analyses/erank.h"
#include "analyses/loss.h"
#include "analyses/report/boundary.h"
#include "analyses/spectrum.h"

typedef struct measure_options {
    int64_t every; // tokens between samples of the states and in a bin of head statistics, >= 1
    int64_t block; // tokens at a time
    int64_t train_length;
    const int64_t *windows; // of window products, ascending
    int n_windows;
    int64_t samples;              // windows of each length
    int64_t lyapunov;             // exponents over so many last tokens; 0: none
    int32_t bos;                  // boundary token beside document starts; -1: none
    const int64_t *starts;        // of documents, ascending, relative to the row
    int64_t n_starts;             // those at 0 or outside the row are left out
    double jump;                  // of losses that are flagged (analyses/loss.h)
    const char *model, *document; // names; copied
} measure_options;

typedef struct row_record {
    loss_result loss;         // rows 1
    erank_result erank;       // rows 1; n_layers 0: no layer has a recurrent state
    head_stats heads;         // without traces
    spectrum_result spectrum; // rows 1; empty when it cannot be computed, then:
    char spectrum_why[256];
    int64_t boundaries; // tokens; 0: the next are NaN
    int64_t documents;  // that begin in the row, its first token's included
    double **aligned;   // [heads.n_layers] -> [H, BOUNDARY_ALIGNED, BOUNDARY_SPAN]
    double **boundary;  // [heads.n_layers] -> [H, BOUNDARY_NUMBERS]
    // Against float64, over the first tokens of the row; n_check 0: not asked for, or not possible
    // (check_why says so).
    int64_t n_check;
    double check_error, check_bias; // largest and mean change of a loss: this run less float64
    char check_why[256];
    char device[128]; // what computed, for people; set when a record is read back
} row_record;

// `every` that gives a row of T tokens between 128 and 256 samples (all tokens of a shorter one): a
// power of two.
int64_t row_record_every(int64_t T);

// Reads ids[0 .. T). On failure *r is empty. progress counts tokens.
bool row_record_measure(const model *m, const int32_t *ids, int64_t T, const row_options *how,
                        const measure_options *o, progress_fn progress, void *progress_ctx,
                        row_record *r, err *e);

// Compares the first losses of *r with those of the same model in float64 (opened by the caller), over
// at most ROW_CHECK tokens. how as for row_record_measure.
enum { ROW_CHECK = 256 };
bool row_record_check(row_record *r, const model *exact, const int32_t *ids, const row_options *how,
                      err *e);

void row_record_free(row_record *r); // an empty one is fine

#endif
