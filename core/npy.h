// core/npy.h - NumPy's .npy files: one array of numbers.
//
//   6 bytes "\x93NUMPY", major, minor, header length (2 bytes in version 1, 4 in 2 and 3), then a
//   Python dict {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), } padded with spaces to a
//   multiple of 64 and a newline, then the elements.
//   (numpy.lib.format, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html)
//
// Little-endian. Fortran order (of transposed arrays) becomes C order while reading. Big-endian,
// structures, text and objects are refused by name. The size of the file must be exactly what the
// header says.
#ifndef DELTOP_NPY_H
#define DELTOP_NPY_H

#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

enum { NPY_MAX_RANK = 8 };

typedef enum {
    NPY_F8,
    NPY_F4,
    NPY_F2,
    NPY_I8,
    NPY_I4,
    NPY_I2,
    NPY_I1,
    NPY_U8,
    NPY_U4,
    NPY_U2,
    NPY_U1,
    NPY_B1,
    NPY_C16, // complex128: pairs (real, imaginary) of double
} npy_type;

size_t npy_type_size(npy_type t);
const char *npy_type_name(npy_type t); // "float64", "int32" ...
const char *npy_type_code(npy_type t); // as in the header: "<f8", "|u1" ...

typedef struct npy {
    npy_type type;
    int rank; // 0 for a single number
    int64_t dims[NPY_MAX_RANK];
    int64_t count; // product of dims
    void *data;    // count elements of `type`, C order, aligned
    size_t bytes;
    char *path; // for messages
} npy;

// On failure *out is empty. Free with npy_free.
bool npy_read(const char *path, npy *out, err *e);
void npy_free(npy *a); // an empty one is fine

// All elements as double (complex is refused; 64-bit integers beyond 2^53 are refused with index
// and value) or as int32 (only from integer types and bool; what does not fit is refused with index
// and value). Fresh memory of a->count elements, caller frees; NULL on failure.
double *npy_as_f64(const npy *a, err *e);
int32_t *npy_as_i32(const npy *a, err *e);

// Whole array. Appears whole or not at all (core/outfile.h).
bool npy_write(const char *path, npy_type type, int rank, const int64_t *dims, const void *data,
               err *e);

// The same piece by piece, for arrays that are larger than memory should hold: the shape is given
// first, then elements in C order in portions of any size. Finishing with too few elements, or
// appending too many, is an error and nothing appears.
typedef struct npy_writer npy_writer;
npy_writer *npy_writer_open(const char *path, npy_type type, int rank, const int64_t *dims, err *e);
// n elements (not rows, not bytes).
bool npy_writer_append(npy_writer *w, const void *data, size_t n, err *e);
bool npy_writer_finish(npy_writer *w, err *e);
void npy_writer_close(npy_writer *w); // without finish: removes what was written. NULL is fine

#endif
