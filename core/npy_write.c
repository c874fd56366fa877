#include "core/mem.h"
#include "core/npy.h"
#include "core/outfile.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 10, ALIGN = 64 }; // magic, version 1.0 and the 2-byte length

struct npy_writer {
    outfile *o;
    npy_type type;
    size_t need, have; // elements
};

// The dict, padded so that the elements begin at a multiple of 64.
static size_t header_text(char *buf, size_t size, npy_type type, int rank, const int64_t *dims) {
    size_t at = PREFIX;
    at +=
        (size_t)snprintf(buf + at, size - at, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                         npy_type_code(type));
    for (int i = 0; i < rank; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%lld", i ? ", " : "", (long long)dims[i]);
    at += (size_t)snprintf(buf + at, size - at, "%s), }", rank == 1 ? "," : "");
    while ((at + 1) % ALIGN != 0)
        buf[at++] = ' ';
    buf[at++] = '\n';
    memcpy(buf, "\x93NUMPY\x01\x00", 8);
    buf[8] = (char)((at - PREFIX) & 0xff), buf[9] = (char)((at - PREFIX) >> 8);
    return at;
}

npy_writer *npy_writer_open(const char *path, npy_type type, int rank, const int64_t *dims,
                            err *e) {
    char head[512]; // 8 sides of at most 21 characters, and the words: always enough
    size_t need = 1, bytes;
    if (rank < 0 || rank > NPY_MAX_RANK) {
        err_set(e, ERR_UNSUPPORTED, "%s: more than %d dimensions", text_show(path), NPY_MAX_RANK);
        return NULL;
    }
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0 || !mem_mul(need, (size_t)dims[i], &need)) {
            err_set(e, ERR_INPUT, "%s: an array with a side of %lld cannot be written",
                    text_show(path), (long long)dims[i]);
            return NULL;
        }
    if (!mem_mul(need, npy_type_size(type), &bytes)) {
        err_set(e, ERR_INPUT, "%s: array of %zu elements is too large", text_show(path), need);
        return NULL;
    }
    npy_writer *w = mem_zalloc(1, sizeof *w, "a .npy writer", e);
    if (!w)
        return NULL;
    w->type = type;
    w->need = need;
    w->o = outfile_open(path, e);
    size_t n = header_text(head, sizeof head, type, rank, dims);
    if (w->o && outfile_write(w->o, head, n, e))
        return w;
    npy_writer_close(w);
    return NULL;
}

bool npy_writer_append(npy_writer *w, const void *data, size_t n, err *e) {
    if (n > w->need - w->have)
        return err_set(e, ERR_IO, "%s: %zu elements more than its shape has",
                       text_show(outfile_path(w->o)), n - (w->need - w->have));
    if (!outfile_write(w->o, data, n * npy_type_size(w->type), e))
        return false;
    w->have += n;
    return true;
}

bool npy_writer_finish(npy_writer *w, err *e) {
    if (w->have != w->need)
        return err_set(e, ERR_IO, "%s: only %zu of %zu elements were written",
                       text_show(outfile_path(w->o)), w->have, w->need);
    return outfile_commit(w->o, e);
}

void npy_writer_close(npy_writer *w) {
    if (!w)
        return;
    outfile_close(w->o);
    free(w);
}

bool npy_write(const char *path, npy_type type, int rank, const int64_t *dims, const void *data,
               err *e) {
    npy_writer *w = npy_writer_open(path, type, rank, dims, e);
    bool ok = w && npy_writer_append(w, data, w->need, e) && npy_writer_finish(w, e);
    npy_writer_close(w);
    return ok;
}
