// core/parcel.h - named arrays of numbers and a few texts in one file, for results that a later run
// reads again.
//
// The file is a safetensors file (core/safetensors.h) of F64 and I64 vectors with texts as its
// metadata, so other tools read it too. It appears whole or not at all, and numbers come back bit by
// bit.
#ifndef DELTOP_PARCEL_H
#define DELTOP_PARCEL_H

#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct parcel parcel;

// For writing. Arrays are lent until parcel_save; names and texts are copied, names must differ.
// Failures of memory are kept and told by parcel_save.
parcel *parcel_new(err *e);
void parcel_add_f64(parcel *p, const char *name, const double *v, size_t n);
void parcel_add_i64(parcel *p, const char *name, const int64_t *v, size_t n);
void parcel_add_text(parcel *p, const char *name, const char *text); // valid UTF-8
bool parcel_save(parcel *p, const char *path, err *e);

// For reading. ERR_MISSING when nothing is there, ERR_INPUT when it is no whole parcel.
parcel *parcel_load(const char *path, err *e);
// n numbers, lent until parcel_free; ERR_INPUT when the name is not there or has another length.
const double *parcel_f64(const parcel *p, const char *name, size_t n, err *e);
const int64_t *parcel_i64(const parcel *p, const char *name, size_t n, err *e);
// Length of an array, 0 when it is not there.
size_t parcel_length(const parcel *p, const char *name);
// NULL when it is not there.
const char *parcel_text(const parcel *p, const char *name);

void parcel_free(parcel *p); // NULL is fine

#endif
