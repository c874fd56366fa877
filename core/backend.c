#include "core/backend.h"

bool backend_check(backend *be, err *e) {
    if (be->fail.code == ERR_NONE)
        return true;
    err_set(e, be->fail.code, "%s", be->fail.text);
    err_clear(&be->fail);
    return false;
}

void backend_close(backend *be) {
    if (be)
        be->op->close(be);
}

const char *precision_name(precision p) {
    static const char *const names[] = {"f32", "tf32", "bf16", "f64"};
    return names[p];
}
