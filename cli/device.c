#include "cli/device.h"

#include "cli/say.h"
#include "core/text.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda_open.h"

#include <stdlib.h>
#include <string.h>

// p: what was asked for; on_gpu: what a GPU computes in.
static backend *open_as(const options *o, bool given, precision p, precision on_gpu, err *e) {
    bool automatic = strcmp(o->device, "auto") == 0;
    if (strcmp(o->device, "cuda:all") == 0) {
        err_set(e, ERR_DEVICE,
                "device cuda:all: this build uses one GPU at a time; use --device "
                "cuda:N");
        return NULL;
    }
    // float64 is the CPU's.
    if (strcmp(o->device, "cpu") == 0 || (automatic && given && p == PRECISION_F64))
        return cpu_open(p, (int)o->threads, e);
    err none = {0};
    int n = strncmp(o->device, "cuda:", 5) == 0 ? atoi(o->device + 5) : 0;
    backend *be = cuda_open(n, on_gpu, (int)o->threads, &none);
    if (be)
        return be;
    if (automatic && none.code == ERR_DEVICE)
        return cpu_open(p, (int)o->threads, e);
    err_set(e, none.code, "device %s: %s", text_show(o->device), none.text);
    return NULL;
}

backend *device_open(const options *o, err *e) {
    bool given = options_given(o, "precision");
    precision p = (precision)o->precision;
    return open_as(o, given, p, given ? p : PRECISION_BF16, e);
}

backend *device_open_in(const options *o, precision p, err *e) {
    return open_as(o, true, p, p, e);
}
