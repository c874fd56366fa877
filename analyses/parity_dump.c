#include "analyses/parity_dump.h"

#include "analyses/parity_list.h"
#include "core/npy.h"
#include "core/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool parity_has(const char *folder, const char *name, char *path, size_t size) {
    snprintf(path, size, "%s/%s", folder, name);
    // What may not be read, or where nobody can tell, counts as there: reading it says why.
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

static bool read_ints(const char *folder, const char *name, int32_t **v, int64_t *n, err *e) {
    char path[4096];
    npy a;
    *v = NULL;
    *n = 0;
    if (!parity_has(folder, name, path, sizeof path))
        return true;
    if (!npy_read(path, &a, e))
        return false;
    *v = npy_as_i32(&a, e);
    *n = a.count;
    npy_free(&a);
    return *v != NULL;
}

static bool check_windows(const char *folder, int64_t T, const window_refs *w, err *e) {
    const char *f = text_show(folder);
    for (int64_t i = 0; i < w->n_ends; i++)
        if (w->ends[i] < 0 || w->ends[i] >= T)
            return err_set(e, ERR_INPUT, "%s/eig_ends.npy: token %d; the row has tokens 0 to %lld",
                           f, w->ends[i], (long long)T - 1);
    for (int64_t k = 0; k < w->n_lengths; k++) {
        int32_t W = w->lengths[k];
        if (W < 1)
            return err_set(e, ERR_INPUT, "%s/eig_windows.npy: a window of %d tokens", f, W);
        for (int64_t i = 0; i < w->n_ends; i++)
            if (W > (int64_t)w->ends[i] + 1)
                return err_set(e, ERR_INPUT,
                               "%s/eig_windows.npy: a window of %d tokens that ends with token %d "
                               "begins before the row",
                               f, W, w->ends[i]);
    }
    return true;
}

bool parity_read(const char *folder, int32_t **ids, int64_t *T, window_refs *w, err *e) {
    char path[4096];
    *ids = NULL;
    *w = (window_refs){0};
    if (!parity_has(folder, "input_ids.npy", path, sizeof path))
        return err_set(e, ERR_MISSING, "%s: no input_ids.npy, so this is no reference dump",
                       text_show(folder));
    if (!parity_has(folder, "nll.npy", path, sizeof path))
        return err_set(e, ERR_MISSING,
                       "%s: no nll.npy, the losses that every reference dump has beside its ids",
                       text_show(folder));
    if (!read_ints(folder, "input_ids.npy", ids, T, e) ||
        !read_ints(folder, "eig_ends.npy", &w->ends, &w->n_ends, e) ||
        !read_ints(folder, "eig_windows.npy", &w->lengths, &w->n_lengths, e))
        return false;
    if (*T < 2)
        return err_set(e, ERR_INPUT, "%s/input_ids.npy: fewer than two tokens", text_show(folder));
    return check_windows(folder, *T, w, e);
}

void window_refs_free(window_refs *w) {
    free(w->ends);
    free(w->lengths);
    *w = (window_refs){0};
}

// Why the file cannot be compared; NULL: it can.
static const char *objection(const char *folder, const model *m, int64_t T, const window_refs *w,
                             const layer_file *f) {
    if (f->layer >= m->info.n_layers)
        return "the model has no such layer";
    const module *x = model_mixer(m, (int)f->layer);
    if (!x)
        return "this layer of the model has no recurrent state";
    char eig[64], path[4096];
    switch (f->needs) {
    case NEEDS_STATE:
        return NULL;
    case NEEDS_EARLY_STATE:
        return T < PARITY_EARLY ? "the row is shorter" : NULL;
    case NEEDS_BETA:
        return x->heads.beta_max > 0 ? NULL : "this layer of the model has no write strengths";
    case NEEDS_DECAY:
        return x->heads.decay != DECAY_NONE ? NULL : "this layer of the model has no decay";
    case NEEDS_DECAY_SUMS:
        if (x->heads.decay == DECAY_NONE)
            return "this layer of the model has no decay";
        break;
    case NEEDS_WINDOWS:
        break;
    case NEEDS_EIG:
        snprintf(eig, sizeof eig, "eig_l%ld.npy", f->layer);
        if (!parity_has(folder, eig, path, sizeof path))
            return "is compared beside eig_lN.npy, which is missing";
        break;
    }
    return w->n_ends && w->n_lengths
               ? NULL
               : "its windows are missing, which eig_ends.npy and eig_windows.npy say";
}

bool parity_fits(const char *folder, const model *m, int64_t T, const window_refs *w, err *e) {
    layer_file *list;
    size_t n;
    bool ok = parity_list(folder, &list, &n, e);
    for (size_t i = 0; ok && i < n; i++) {
        const char *why = objection(folder, m, T, w, &list[i]);
        if (why)
            ok = err_set(e, ERR_INPUT, "%s/%s: cannot be compared: %s", text_show(folder),
                         list[i].name, why);
    }
    free(list);
    return ok;
}
