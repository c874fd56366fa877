// analyses/verify/small.h - small dense matrices, row-major, float64, for the checks. Plain loops and
// LAPACK.
#ifndef DELTOP_VERIFY_SMALL_H
#define DELTOP_VERIFY_SMALL_H

#include <complex.h>
#include <stdint.h>

enum { SMALL = 96 }; // most rows of what these take on the stack

void small_identity(double *a, int n);
// out [n, p] = a [n, m] b [m, p]; out is none of them.
void small_mul(const double *a, const double *b, int n, int m, int p, double *out);
void small_transpose(const double *a, int n, int m, double *out);
// F = I - beta k k^T
void small_factor(const double *k, double beta, int n, double *F);
// A <- F A for A [n, m]
void small_reflect(double *A, int n, int m, const double *k, double beta);
double small_norm(const double *a, int n);                        // Frobenius, n numbers
double small_difference(const double *a, const double *b, int n); // largest entry of a - b
double small_norm2(const double *a, int n);         // largest singular value of [n, n]
int small_rank(const double *a, int n, double cut); // singular values above cut
void small_eigenvalues(const double *a, int n, double complex *w); // as LAPACK orders them
double small_radius(const double *a, int n);

// The larger one; NaN when either is, so that a failed computation never looks like a small error.
double small_max(double a, double b);

void small_normals(double *x, int n, uint64_t *seed);
void small_unit(double *x, int n, uint64_t *seed); // on the sphere
double small_dot(const double *a, const double *b, int n);

#endif
