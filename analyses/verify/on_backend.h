// analyses/verify/on_backend.h - host arrays through one operation of a backend and back.
#ifndef DELTOP_VERIFY_ON_BACKEND_H
#define DELTOP_VERIFY_ON_BACKEND_H

#include "analyses/verify/verify.h"

// The recurrence on a copy of the steps. host: float64 matrices without gaps (core/step_kinds.h
// makes them); H [H * K, V] the state before, overwritten with the one after; o [T, H * V], NULL: not
// wanted (q may be none then).
bool on_backend_recurrence(backend *be, const steps *host, double *H, double *o, err *e);

// A host array as a mat of the backend (exact: of its exact element); MAT_NONE with a sticky failure.
mat on_backend_put(backend *be, const double *v, int64_t rows, int64_t cols, bool exact);

// A check: the backend's chunk form (where it has one) against plain loops, K = V = 64, two heads, 200
// tokens, from a state that is not zero. The delta rule with decay (K05), or DPLR with decay per channel
// (K09).
enum { CHUNKS_DELTA, CHUNKS_PAIR };
bool on_backend_chunks(const verify_case *c, double *error, err *e);

#endif
