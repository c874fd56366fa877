// core/complex_f64.h - complex numbers in double, as C computes with them and as C++ (CUDA files)
// passes them on: two doubles, real part first.
#ifndef DELTOP_COMPLEX_F64_H
#define DELTOP_COMPLEX_F64_H

#ifdef __cplusplus
typedef struct complex_f64 {
    double re, im;
} complex_f64;
#else
#include <complex.h>
typedef double complex complex_f64;
#endif

#endif
