#include "cli/device.h"

#include "cli/commands.h"
#include "core/text.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda_open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Which card of those that are there; a build without a GPU part has none.
static int wished(const options *o, int card) {
    const char *d = o->device;
    bool one = strncmp(d, "cuda:", 5) == 0 && strcmp(d, "cuda:all") != 0;
    return one ? atoi(d + 5) : card;
}

// p: what was asked for; on_gpu: what a GPU computes in.
static backend *open_as(const options *o, int card, bool given, precision p, precision on_gpu,
                        err *e) {
    bool automatic = strcmp(o->device, "auto") == 0;
    // float64 is the CPU's.
    if (strcmp(o->device, "cpu") == 0 || (automatic && given && p == PRECISION_F64))
        return cpu_open(p, (int)o->threads, e);
    err none = {0};
    backend *be = cuda_open(wished(o, card), on_gpu, (int)o->threads, &none);
    if (be)
        return be;
    if (automatic && none.code == ERR_DEVICE)
        return cpu_open(p, (int)o->threads, e);
    err_set(e, none.code, "device %s: %s", text_show(o->device), none.text);
    return NULL;
}

bool device_is_one(const options *o, err *e) {
    return strcmp(o->device, "cuda:all") != 0 ||
           err_set(
               e, ERR_USAGE,
               "device cuda:all: %s computes on one GPU, so name it: --device cuda:N (report and "
               "watch spread their work over all)",
               o->command->name);
}

backend *device_open(const options *o, err *e) {
    return device_is_one(o, e) ? device_open_card(o, 0, e) : NULL;
}

backend *device_open_card(const options *o, int card, err *e) {
    bool given = options_given(o, "precision");
    precision p = (precision)o->precision;
    return open_as(o, card, given, p, given ? p : PRECISION_BF16, e);
}

backend *device_open_in(const options *o, precision p, err *e) {
    return device_is_one(o, e) ? open_as(o, 0, true, p, p, e) : NULL;
}

int device_cards(void) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int n = cuda_count();
        _exit(n < 255 ? n : 255);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return 0;
    return WEXITSTATUS(status);
}
