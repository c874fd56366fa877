// tests/eigen_match.h - compare two sets of eigenvalues: equal moduli may swap places, so a
// comparison by index proves nothing.
#ifndef DELTOP_TESTS_EIGEN_MATCH_H
#define DELTOP_TESTS_EIGEN_MATCH_H

#include <complex.h>

// Pairs the n values of `got` with those of `want` one to one so that the sum of
// |got - want| / unit[want] is smallest (assignment problem, O(n^3)); unit NULL: all 1. Returns the
// largest quotient of a pair; inf if a value is not finite or memory runs out.
double eigen_match(const double complex *got, const double complex *want, const double *unit,
                   int n);

#endif
