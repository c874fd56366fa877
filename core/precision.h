// core/precision.h - what a run computes in.
#ifndef DELTOP_PRECISION_H
#define DELTOP_PRECISION_H

typedef enum { PRECISION_F32, PRECISION_TF32, PRECISION_BF16, PRECISION_F64 } precision;

const char *precision_name(precision p); // "f32" ...

#endif
