#include "core/safetensors_write.h"

#include "core/outfile.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static int64_t elements(const tensor_out *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

// NULL on failed allocation. Names are plain ASCII identifiers.
static char *header(const tensor_out *t, size_t n) {
    int64_t at = 0;
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    int bad = root == NULL;
    for (size_t i = 0; i < n && !bad; i++) {
        json_t *dims = json_array();
        for (int d = 0; d < t[i].rank; d++)
            bad |= json_array_append_new(dims, json_integer(t[i].dims[d]));
        int64_t end = at + 4 * elements(&t[i]);
        bad |= json_object_set_new(root, t[i].name,
                                   json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", dims,
                                             "data_offsets", (json_int_t)at, (json_int_t)end));
        at = end;
    }
    char *text = bad ? NULL : json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

bool safetensors_write(const char *path, const tensor_out *t, size_t n, err *e) {
    outfile *o = NULL;
    bool ok = false;
    char *text = header(t, n);
    if (!text)
        return err_set(e, ERR_NOMEM, "out of memory: the header of %s", path);
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    unsigned char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)padded >> 8 * i);
    if (!(o = outfile_open(path, e)) || !outfile_write(o, size, 8, e) ||
        !outfile_write(o, text, length, e) || !outfile_write(o, "       ", padded - length, e))
        goto done;
    for (size_t i = 0; i < n; i++)
        if (!outfile_write(o, t[i].v, (size_t)elements(&t[i]) * sizeof(float), e))
            goto done;
    ok = outfile_commit(o, e);
done:
    outfile_close(o);
    free(text);
    return ok;
}
