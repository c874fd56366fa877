// kernels/cpu/spectrum_basis.h - the orthonormal basis that Lyapunov exponents are read from
// (kernels/cpu/spectrum_lyapunov.c says how it is used).
#ifndef DELTOP_SPECTRUM_BASIS_H
#define DELTOP_SPECTRUM_BASIS_H

#include "kernels/cpu/spectrum_impl.h"
#include "kernels/spectrum_batch.h"

// ln of the condition number that the factors between two QRs may reach.
#define COND_LIMIT 9.0

typedef struct basis {
    double *Q; // [K, m] row-major: LAPACK, which reads by columns, sees Q^T and factors it as L Q^T
    int K, m;
    long double *growth;  // [m]
    double *u, *tau, *co; // scratch, K each
    double ln_cond;       // of the factors since the last QR
    int count;            // of them
    // Not NULL: nothing is computed, the operations on Q are listed for a device.
    lyapunov_plan *plan;
    int64_t token; // counted from the first
} basis;

// Lists an operation for the device (plan not NULL); at counts from the job's first token.
bool basis_list(basis *b, lyapunov_kind kind, int64_t at, double factor, double mean, err *e);
// False, with an error, when a plan is made: a factor that takes a direction away needs Q itself.
bool basis_listable(const basis *b, err *e);
// QR now, if there were factors; growth into b->growth.
bool basis_orthogonalise(basis *b, err *e);
// Room for a factor of this condition number: QR first if the block would pass the limit.
bool basis_make_room(basis *b, double ln_cond, err *e);
// The column that a factor with this null direction (unit) annihilates; -1: none. Q orthonormal.
int basis_annihilated(basis *b, const double *null);
void basis_drop_column(basis *b, int at);
// Gram-Schmidt that drops columns which depend on those before them.
void basis_orthogonalise_dropping(basis *b);

#endif
