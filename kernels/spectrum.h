// kernels/spectrum.h - products of transition matrices over windows of tokens, and their spectra.
//
// Works on one head's transitions (core/transitions.h) in host memory, float64.
//
// Products have the newest factor on the left: P = A_t A_{t-1} ... A_{t-W+1} (science section 0).
#ifndef DELTOP_SPECTRUM_H
#define DELTOP_SPECTRUM_H

#include "core/err.h"
#include "core/transitions.h"

#include <complex.h>
#include <stdint.h>

// P over tokens last-W+1 .. last (0-based, last-W+1 >= 0), K x K row-major into P.
// The product may underflow under strong decay: *log_scale (NULL allowed) receives a natural log
// taken out of P, so that the true product is exp(*log_scale) P with max |P| near 1.
bool spectrum_product(const transitions *x, int64_t last, int64_t W, double *P, double *log_scale,
                      err *e);

// Eigenvalues of the product, eig: K values, modulus descending, then angle ascending in
// (-pi, pi]; window_facts is in core/transitions.h. cond (NULL allowed): condition number of each
// eigenvalue, 1/|y^H x| for unit left and right vectors: the error of eig[i] is about 1e-15 norm2
// cond[i]. For short windows (W n_h < K) of delta kinds without channel decay the problem is solved
// exactly in its W n_h x W n_h core and the frozen directions are set to the decay itself.
bool spectrum_window(const transitions *x, int64_t last, int64_t W, double complex *eig,
                     double *cond, window_facts *facts, err *e);

// The same by forming P and LAPACK dgeev, whatever the window: the oracle, and the path for all
// that the short form does not cover.
bool spectrum_window_dense(const transitions *x, int64_t last, int64_t W, double complex *eig,
                           double *cond, window_facts *facts, err *e);

// Lyapunov exponents over tokens first .. first+n-1 by re-orthogonalised products (QR every
// few micro-steps): exponents[K], descending, in nats per token; long products do not underflow.
// Their sum times n equals the ledger (G12, G17). -inf for directions that are annihilated.
bool spectrum_lyapunov(const transitions *x, int64_t first, int64_t n, double *exponents, err *e);

// ln |det A_t| of each token (G12): ledger[T]; -inf where a factor is singular.
void spectrum_ledger(const transitions *x, double *ledger);

// Eigenvalues of one token's A_t for n_h = 1, 2 in closed form (G01, G03, G04), n_h > 2 through
// the small core. The K - n_h frozen ones are not listed: eig has n_h values, already times the
// gate. Head decay or none only.
bool spectrum_token(const transitions *x, int64_t t, double complex *eig, err *e);

// Half-life in tokens of a mode with modulus m over a window of W tokens: ln 2 W / -ln m;
// +inf for m >= 1, 0 for m = 0.
double spectrum_half_life(double modulus, double log_scale, int64_t W);

#endif
