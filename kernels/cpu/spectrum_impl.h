// kernels/cpu/spectrum_impl.h - what the files of the spectrum kernel share. Contract:
// kernels/spectrum.h.
#ifndef DELTOP_SPECTRUM_IMPL_H
#define DELTOP_SPECTRUM_IMPL_H

#include "kernels/spectrum.h"

#include <stddef.h>

// A factor taken out of a matrix: true matrix = 2^exp2 e^log M. Long double, because e^log has the
// relative error |log| eps: at -50 a double would already spend 50 of the 10 eps that the
// eigenvalues are good for.
typedef struct matrix_scale {
    long double log;
    int64_t exp2;
} matrix_scale;

long double spectrum_total(matrix_scale s);   // ln of the factor
long double spectrum_unscale(matrix_scale s); // the factor

// Tokens first .. first+n-1 exist and every number in them is one: keys, strengths and vectors
// finite, log decays below +inf (-inf wipes, and is allowed). ERR_USAGE, or ERR_NUMERIC that names
// the token.
bool spectrum_check(const transitions *x, int64_t first, int64_t n, err *e);

// M += s a (b^T M) for M [rows, cols] row-major with row stride ld; u is scratch of cols numbers.
void spectrum_rank1(double *M, int rows, int cols, int ld, const double *a, const double *b,
                    double s, double *u);

// Brings max |M| into [1/2, 1) by a power of two, which loses nothing, and adds it to *exp2. Unless
// `always`, only when it left [2^-64, 2^64].
void spectrum_renorm(double *M, size_t n, bool always, int64_t *exp2);

// The product over tokens first .. first+W-1, max |P| in [1/2, 1) (or P = 0), and what was taken
// out. Inputs are checked.
bool spectrum_product_scaled(const transitions *x, int64_t first, int64_t W, double *P,
                             matrix_scale *s, err *e);

// 1 - beta |k|^2, the factor's eigenvalue along k (G01). Summed in long double: its logarithm is
// wanted near beta |k|^2 = 1, where the last bits of |k|^2 decide.
long double spectrum_along_key(const double *k, double beta, int K);

// ln |det A_t| (G12).
double spectrum_token_ledger(const transitions *x, int64_t t);

// Eigenvalues (any order), condition numbers (NULL allowed) and 2-norm of M [n, n], which is
// destroyed.
bool spectrum_solve(double *M, int n, double complex *eig, double *cond, double *norm2, err *e);

// Modulus descending, then angle ascending in (-pi, pi]; cond (NULL allowed) goes along.
bool spectrum_sort(double complex *eig, double *cond, int n, err *e);

// A delta rule without channel decay whose window has fewer factors than dimensions.
bool spectrum_window_short(const transitions *x, int64_t W);

// What the K - r directions that a short window cannot touch add: eigenvalues `frozen` behind the r
// that eig has (cond NULL allowed), and their part of |P|_2 and |P|_F^2.
void spectrum_frozen(int K, int r, double frozen, double complex *eig, double *cond, double *norm2,
                     double *all);

// Puts the scale back, sorts, and fills what follows from the K eigenvalues; f->norm2 and f->asymmetry
// are given.
bool spectrum_finish(const transitions *x, int64_t last, int64_t W, matrix_scale s,
                     double complex *eig, double *cond, window_facts *f, err *e);

int spectrum_descending(const void *a, const void *b); // of doubles, for qsort

#endif
