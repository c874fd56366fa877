#include "core/dtype.h"
#include "core/mem.h"
#include "core/npy.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_real(npy_type t) {
    return t == NPY_F8 || t == NPY_F4 || t == NPY_F2;
}

// Element i of an integer array. False when it is over INT64_MAX (uint64 only); then *x holds the
// same 64 bits.
static bool whole(const npy *a, size_t i, int64_t *x) {
    switch (a->type) {
    case NPY_I8:
        *x = ((const int64_t *)a->data)[i];
        break;
    case NPY_U8:
        *x = (int64_t)((const uint64_t *)a->data)[i];
        return *x >= 0;
    case NPY_I4:
        *x = ((const int32_t *)a->data)[i];
        break;
    case NPY_U4:
        *x = ((const uint32_t *)a->data)[i];
        break;
    case NPY_I2:
        *x = ((const int16_t *)a->data)[i];
        break;
    case NPY_U2:
        *x = ((const uint16_t *)a->data)[i];
        break;
    case NPY_I1:
        *x = ((const int8_t *)a->data)[i];
        break;
    default: // NPY_U1, NPY_B1
        *x = ((const uint8_t *)a->data)[i];
        break;
    }
    return true;
}

static bool does_not_fit(const npy *a, size_t i, bool fits64, int64_t x, const char *need, err *e) {
    if (fits64)
        return err_set(e, ERR_INPUT, "%s: element %zu is %lld, %s", text_show(a->path), i,
                       (long long)x, need);
    return err_set(e, ERR_INPUT, "%s: element %zu is %llu, %s", text_show(a->path), i,
                   (unsigned long long)x, need);
}

double *npy_as_f64(const npy *a, err *e) {
    static const int64_t exact = (int64_t)1 << 53;
    size_t n = (size_t)a->count;
    if (a->type == NPY_C16) {
        err_set(e, ERR_INPUT, "%s: holds complex numbers, need real ones", text_show(a->path));
        return NULL;
    }
    double *out = mem_alloc(n, sizeof *out, text_show(a->path), e);
    if (!out)
        return NULL;
    if (is_real(a->type)) {
        dtype d = a->type == NPY_F8 ? DT_F64 : a->type == NPY_F4 ? DT_F32 : DT_F16;
        dtype_to_f64(d, a->data, n, out);
        return out;
    }
    for (size_t i = 0; i < n; i++) {
        int64_t x;
        bool fits = whole(a, i, &x);
        if (!fits || x > exact || x < -exact) {
            does_not_fit(a, i, fits, x, "more than a double holds exactly", e);
            free(out);
            return NULL;
        }
        out[i] = (double)x;
    }
    return out;
}

int32_t *npy_as_i32(const npy *a, err *e) {
    size_t n = (size_t)a->count;
    if (is_real(a->type) || a->type == NPY_C16) {
        err_set(e, ERR_INPUT, "%s: holds %s, need whole numbers", text_show(a->path),
                npy_type_name(a->type));
        return NULL;
    }
    int32_t *out = mem_alloc(n, sizeof *out, text_show(a->path), e);
    if (!out)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        int64_t x;
        bool fits = whole(a, i, &x);
        if (!fits || x < INT32_MIN || x > INT32_MAX) {
            does_not_fit(a, i, fits, x, "more than 32 bits hold", e);
            free(out);
            return NULL;
        }
        out[i] = (int32_t)x;
    }
    return out;
}
