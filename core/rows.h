// core/rows.h - several rows of tokens (documents) in one call of a recurrence, and states on the way.
//
// Rows lie behind each other in q, k, v, beta, decay, a, b and o of a steps (core/steps.h), whose T
// counts the tokens of all. Each row has states of its own: state is [n * H * K, V] (without starts
// [H * K, V], and n means nothing), the H heads of row 0 first, from the rows' starts to their ends.
// A row without tokens keeps them as they are.
//
// Boundary states: with `every`, states receives H of every head before tokens 0, every, 2 every, ..
// of each row, [rows_states() * H * K, V] in exact_esize, boundary by boundary, those of row 0 first.
// The first is what the row starts with; what it ends with stands in state.
#ifndef DELTOP_ROWS_H
#define DELTOP_ROWS_H

#include "core/backend.h"

typedef struct step_rows {
    // [n + 1] on the host, never falling, from 0 to T: row i has tokens starts[i] .. starts[i + 1] - 1.
    // NULL: one row of all tokens.
    const int64_t *starts;
    int64_t n;
    int64_t every; // tokens; 0: no states but those at the ends
    mat states;
} step_rows;

// How many boundaries a row of so many tokens has.
static inline int64_t row_boundaries(int64_t tokens, int64_t every) {
    return every > 0 ? (tokens + every - 1) / every : 0;
}
// How many boundaries T tokens in such rows have, of all rows together (each has H states); 0 without `every`.
int64_t rows_states(const step_rows *r, int64_t T);

// The backend's recurrence over rows: at once where it has a kernel for them, else call by call from
// boundary to boundary. Results are those of separate calls up to rounding. Failures are kept in
// be->fail.
void rows_recurrence(backend *be, const steps *s, const step_rows *r, mat state, mat o);

#endif
