// A model folder read back into a tiny model, so that tests can rename, join and change what a
// reference dump holds.
#include "core/ckpt.h"
#include "tests/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

tiny_model *tiny_load(const char *folder) {
    err e = {0};
    char path[512];
    tiny_model *m = calloc(1, sizeof *m);
    ckpt *c = ckpt_open(folder, &e);
    if (!m || !c)
        fail_msg("%s", e.text);
    for (int64_t i = 0; i < ckpt_count(c); i++) {
        const tensor *t = ckpt_at(c, i);
        tiny_tensor *to = tiny_add(m, t->name, t->rank, t->dims);
        to->dtype = strcmp(dtype_name(t->type), "F64") == 0 ? "F64" : "F32";
        if (!ckpt_read_f64(c, t, 0, to->n, to->v, &e))
            fail_msg("%s", e.text);
    }
    ckpt_close(c);
    snprintf(path, sizeof path, "%s/config.json", folder);
    m->config = json_load_file(path, 0, NULL);
    assert_non_null(m->config);
    return m;
}
