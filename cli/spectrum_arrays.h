// cli/spectrum_arrays.h - the arrays of `deltop spectrum`, one set per model and document.
//
//     eig.npy        complex128 [layers, H, windows, samples, K]
//     cond.npy       the same shape, with --cond
//     norm2.npy, radius.npy     [layers, H, windows, samples]
//     log_scale.npy  the same, only where products would underflow: the three above are to be
//                    multiplied by exp(log_scale)
//     lyapunov.npy   [layers, H, K]
//     ledger.npy     [layers, H, T], several rows: [layers, H, rows, T]
//
// layers and heads are the chosen ones; NaN: not evaluated, or beyond a smaller layer's size.
#ifndef DELTOP_SPECTRUM_ARRAYS_H
#define DELTOP_SPECTRUM_ARRAYS_H

#include "analyses/spectrum.h"
#include "cli/output.h"

// Nothing without --out.
bool spectrum_arrays_write(output *x, size_t model, size_t document, const spectrum_result *r,
                           err *e);

#endif
