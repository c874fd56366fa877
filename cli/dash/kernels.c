#include "cli/dash/kernels.h"

#include "bench/op.h"
#include "bench/record.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void release(void *p) {
    free(p);
}

static kernels *alloc(int n, err *e) {
    kernels *k = mem_zalloc(1, sizeof *k + (size_t)n * sizeof k->row[0], "the cases of a model", e);
    if (k)
        shared_init(&k->ref, release);
    return k;
}

// Recurrences are told by rows, tokens and heads; everything else by all of its sizes.
static void shape_of(const bench_case *c, char *buf, size_t size) {
    static const axis_id brief[] = {AXIS_B, AXIS_T, AXIS_HV},
                         whole[] = {AXIS_T, AXIS_HV, AXIS_K,     AXIS_V,
                                    AXIS_N, AXIS_D,  AXIS_VOCAB, AXIS_W};
    bool recurrence = c->at[AXIS_FORM] != AXIS_UNSET && c->at[AXIS_B] != AXIS_UNSET &&
                      c->at[AXIS_HV] != AXIS_UNSET;
    const axis_id *axis = recurrence ? brief : whole;
    size_t n = recurrence ? sizeof brief / sizeof *brief : sizeof whole / sizeof *whole, at = 0;
    buf[0] = 0;
    for (size_t i = 0; i < n && at < size; i++) {
        int64_t v = c->at[axis[i]];
        if (v == AXIS_UNSET && axis[i] == AXIS_HV)
            v = c->at[AXIS_H];
        if (v != AXIS_UNSET)
            at += (size_t)snprintf(buf + at, size - at, "%s%lld", at ? "x" : "", (long long)v);
    }
}

kernels *kernels_new(const case_list *cases, err *e) {
    kernels *k = alloc((int)cases->n, e);
    if (!k)
        return NULL;
    k->n = (int)cases->n;
    k->clock_mhz = NAN;
    for (size_t i = 0; i < cases->n; i++) {
        kernel_row *r = &k->row[i];
        *r = (kernel_row){
            .ms = NAN, .spread = NAN, .rate = NAN, .floor = NAN, .error = NAN, .item = "items"};
        snprintf(r->op, sizeof r->op, "%s", cases->v[i].op->name);
        shape_of(&cases->v[i], r->shape, sizeof r->shape);
        case_name(&cases->v[i], r->name, sizeof r->name);
    }
    return k;
}

kernels *kernels_copy(const kernels *from, err *e) {
    kernels *k = alloc(from->n, e);
    if (k) // all but the count of its holders
        memcpy((char *)k + sizeof k->ref, (const char *)from + sizeof from->ref,
               sizeof *k - sizeof k->ref + (size_t)from->n * sizeof k->row[0]);
    return k;
}

const char *kernels_dtype(const kernels *k) {
    return axis_choice(AXIS_DTYPE, (int64_t)k->prec); // precisions are numbered like dtypes
}

void kernels_take(kernel_row *out, const bench_row *row) {
    summary s = timings_summary(&row->warm);
    double worst = row->error;
    worst = row->state_error > worst ? row->state_error : worst;
    worst = row->stress > worst ? row->stress : worst;
    out->error = worst;
    out->state = row->status == ROW_WRONG  ? KERNEL_WRONG
                 : row->status != ROW_OK   ? KERNEL_FAILED
                 : isfinite(row->first_ms) ? KERNEL_CHECKED
                                           : KERNEL_WAITING;
    snprintf(out->why, sizeof out->why, "%.190s", row->why);
    out->ms = s.median;
    out->spread = (s.hi - s.lo) / 2 / s.median;
    out->rate = row->items / (1e-3 * s.median);
    out->floor = row->floor_ms / s.median;
    if (row->item[0])
        snprintf(out->item, sizeof out->item, "%s", row->item);
}
