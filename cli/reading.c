#include "cli/reading.h"

#include "core/config.h"
#include "core/file.h"
#include "core/text.h"

#include <stdlib.h>

tokenizer *reading_tokenizer(const char *model, err *e) {
    if (!file_ends_with(model, ".safetensors"))
        return tokenizer_open(model, e);
    char *folder = file_folder(model, e);
    tokenizer *t = folder ? tokenizer_open(folder, e) : NULL;
    free(folder);
    return t;
}

bool reading_bos(const char *model, const tokenizer *t, int32_t *bos, err *e) {
    err none;
    err_clear(&none);
    // Ids from a file need no tokenizer, but theirs says which of them begins a text.
    tokenizer *own = t ? NULL : reading_tokenizer(model, &none);
    const tokenizer *known = t ? t : own;
    *bos = known ? tokenizer_bos(known) : -1;
    tokenizer_close(own);
    if (*bos >= 0)
        return true;
    err_clear(&none);
    config *c = config_open(model, &none); // a bare tokenizer has no config
    int64_t id = -1;
    bool ok = !c || config_int_or(c, "bos_token_id", 0, INT32_MAX, -1, &id, e);
    config_close(c);
    if (ok && id < 0)
        ok = err_set(e, ERR_MISSING,
                     "%s: neither the tokenizer nor the config names a begin-of-text token, which "
                     "--add-bos and --reset-at-bos need",
                     text_show(model));
    *bos = (int32_t)id;
    return ok;
}

bool reading_is_ids(const char *document) {
    return file_ends_with(document, ".npy");
}
