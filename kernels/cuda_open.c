#include "kernels/cuda_open.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef backend *(*open_fn)(int device, precision p, int threads, err *e);

bool cuda_find(char *path, size_t size) {
    const char *given = getenv("DELTOP_CUDA_SO");
    path[0] = 0;
    if (given && *given) {
        if (access(given, R_OK) == 0)
            snprintf(path, size, "%s", given);
        return path[0];
    }
    static const char *const places[] = {"deltop-cuda.so", "../lib/deltop/deltop-cuda.so"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return false;
    self[n] = 0;
    char *slash = strrchr(self, '/');
    slash[1] = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, size, "%s%s", self, places[i]);
        if (access(path, R_OK) == 0)
            return true;
    }
    path[0] = 0;
    return false;
}

backend *cuda_open(int device, precision p, int threads, err *e) {
    char path[PATH_MAX + 64];
    if (p == PRECISION_F64) {
        err_set(e, ERR_UNSUPPORTED, "the GPU computes in f32, tf32 or bf16; f64 is the CPU's");
        return NULL;
    }
    // Without the driver nothing can work, and loading cuBLAS to find that out takes a tenth of a
    // second.
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!driver) {
        err_set(e, ERR_DEVICE, "no CUDA: the NVIDIA driver (libcuda.so.1) is not on this machine");
        return NULL;
    }
    void *so = cuda_find(path, sizeof path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!so) {
        if (path[0])
            err_set(e, ERR_DEVICE, "no CUDA: deltop-cuda.so does not load: %s", dlerror());
        else
            err_set(e, ERR_DEVICE,
                    "no CUDA: deltop-cuda.so is not beside the program (make cuda "
                    "builds it)");
        return NULL;
    }
    open_fn fn = NULL;
    *(void **)&fn = dlsym(so, "deltop_cuda_open");
    if (!fn) {
        err_set(e, ERR_DEVICE, "no CUDA: deltop-cuda.so is not of this program");
        return NULL;
    }
    return fn(device, p, threads, e);
}

int cuda_count(void) {
    int (*init)(unsigned) = NULL, (*count)(int *) = NULL, n = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!driver)
        return 0;
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&count = dlsym(driver, "cuDeviceGetCount");
    return init && count && init(0) == 0 && count(&n) == 0 && n > 0 ? n : 0;
}
