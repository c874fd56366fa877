// analyses/report/row_store.h - records as files (core/parcel.h), and a spectrum within one.
#ifndef DELTOP_REPORT_ROW_STORE_H
#define DELTOP_REPORT_ROW_STORE_H

#include "analyses/report/row.h"
#include "core/parcel.h"

// Stored in every file. A file of another format is refused by row_record_load (ERR_INPUT).
#define ROW_FORMAT "deltop record 7"

// What a record was made from.
typedef struct row_origin {
    const char *settings; // a digest of everything that the numbers depend on
    const char *document; // of its content, so that a refusal can say what is different
    int64_t tokens;       // of the document
} row_origin;

// Only a file that carries the same settings is read back.
bool row_record_save(const row_record *r, const row_origin *from, const char *path, err *e);
// ERR_MISSING when there is no file; ERR_INPUT when it is not whole, carries other settings (of
// another document: that is what is said), or holds other bytes than were written (a digest of its
// numbers tells). model
// and document become the names of its results.
bool row_record_load(row_record *r, const char *path, const row_origin *from, const char *model,
                     const char *document, err *e);

// True when PATH holds a whole record with these settings (its head is looked at, not its numbers).
bool row_record_is(const char *path, const row_origin *from);

// Arrays behind each other, while a structure is taken apart or put together again.
typedef struct flat {
    double *real;
    int64_t *whole;
    size_t n_real, n_whole, cap_real, cap_whole;
    size_t at_real, at_whole; // while reading
    err fail;                 // the first failure; everything after it does nothing
} flat;
void flat_put(flat *f, const double *v, size_t n);
void flat_put_int(flat *f, int64_t v);
void flat_put_ints(flat *f, const int64_t *v, size_t n);
void flat_get(flat *f, double *v, size_t n); // NaN once there are no more
int64_t flat_get_int(flat *f);               // 0 once there are no more
void flat_get_ints(flat *f, int64_t *v, size_t n);
void flat_put_shape(flat *f, const head_shape *s);
head_shape flat_get_shape(flat *f);
void flat_free(flat *f);

// windows, samples and K of the result decide the lengths, so both directions walk alike.
void spectrum_flatten(const spectrum_result *r, flat *f);
bool spectrum_unflatten(spectrum_result *r, flat *f, err *e);

#endif
