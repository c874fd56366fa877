#include "cli/dash/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The few declarations needed of nvml.h (NVIDIA Management Library, stable since version 1).
typedef void *device_t;
typedef struct {
    unsigned gpu, memory;
} utilization_t;
typedef struct {
    unsigned long long total, free, used;
} memory_t;
enum { CLOCK_SM = 1, TEMPERATURE_GPU = 0, SAMPLES = 8, TEXT = 96 };

struct nvml {
    void *library;
    device_t device;
    int (*shutdown)(void);
    int (*utilization)(device_t, utilization_t *);
    int (*clock)(device_t, int, unsigned *);
    int (*memory)(device_t, memory_t *);
    int (*power)(device_t, unsigned *);
    int (*temperature)(device_t, int, unsigned *);
    int (*throttle)(device_t, unsigned long long *);
    unsigned busy[SAMPLES];
    int n_busy;
    char text[NVML_FIELDS][TEXT];
    const char *field[NVML_FIELDS + 1];
};

static void *find(nvml *n, const char *name) {
    return dlsym(n->library, name);
}

nvml *nvml_open(int device) {
    nvml *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library) {
        free(n);
        return NULL;
    }
    int (*init)(void) = (int (*)(void))find(n, "nvmlInit_v2");
    int (*handle)(unsigned, device_t *) =
        (int (*)(unsigned, device_t *))find(n, "nvmlDeviceGetHandleByIndex_v2");
    int (*name)(device_t, char *, unsigned) =
        (int (*)(device_t, char *, unsigned))find(n, "nvmlDeviceGetName");
    n->shutdown = (int (*)(void))find(n, "nvmlShutdown");
    n->utilization = (int (*)(device_t, utilization_t *))find(n, "nvmlDeviceGetUtilizationRates");
    n->clock = (int (*)(device_t, int, unsigned *))find(n, "nvmlDeviceGetClockInfo");
    n->memory = (int (*)(device_t, memory_t *))find(n, "nvmlDeviceGetMemoryInfo");
    n->power = (int (*)(device_t, unsigned *))find(n, "nvmlDeviceGetPowerUsage");
    n->temperature = (int (*)(device_t, int, unsigned *))find(n, "nvmlDeviceGetTemperature");
    n->throttle = (int (*)(device_t, unsigned long long *))find(
        n, "nvmlDeviceGetCurrentClocksThrottleReasons");
    if (!init || !handle || !n->shutdown || init() != 0) {
        dlclose(n->library);
        free(n);
        return NULL;
    }
    if (handle((unsigned)device, &n->device) != 0) {
        nvml_close(n);
        return NULL;
    }
    char called[64] = "";
    if (!name || name(n->device, called, sizeof called) != 0)
        called[0] = 0;
    const char *model = strncmp(called, "NVIDIA ", 7) == 0 ? called + 7 : called;
    snprintf(n->text[0], TEXT, "GPU %d %.40s", device, model);
    for (int i = 0; i < NVML_FIELDS; i++)
        n->field[i] = n->text[i];
    return n;
}

void nvml_close(nvml *n) {
    if (!n)
        return;
    n->shutdown();
    dlclose(n->library);
    free(n);
}

static const char *reason(unsigned long long bits) {
    // nvmlClocksThrottleReason...: idle 1, application clocks 2, power cap 4, hardware 8 and 0x80,
    // sync boost 0x10, software thermal 0x20, hardware thermal 0x40.
    if (bits & 0x60)
        return "thermal";
    if (bits & 0x88)
        return "hardware";
    if (bits & 0x4)
        return "power cap";
    return bits & ~3ull ? "other" : "none";
}

const char *const *nvml_sample(nvml *n) {
    utilization_t u;
    memory_t m;
    unsigned v;
    unsigned long long bits;
    char blocks[SAMPLES * 3 + 1] = "";
    if (n->utilization && n->utilization(n->device, &u) == 0) {
        memmove(n->busy, n->busy + 1, (SAMPLES - 1) * sizeof *n->busy);
        n->busy[SAMPLES - 1] = u.gpu > 100 ? 100 : u.gpu;
        n->n_busy += n->n_busy < SAMPLES;
        for (int i = SAMPLES - n->n_busy; i < SAMPLES; i++) {
            int level = (int)n->busy[i] * 7 / 100; // U+2581 and on: E2 96 81
            snprintf(blocks + strlen(blocks), 4, "\xe2\x96%c", (char)(0x81 + level));
        }
        snprintf(n->text[1], TEXT, "util %3u%% %s", u.gpu, blocks);
    } else {
        snprintf(n->text[1], TEXT, "util -");
    }
    if (n->clock && n->clock(n->device, CLOCK_SM, &v) == 0)
        snprintf(n->text[2], TEXT, "SM %u MHz", v);
    else
        snprintf(n->text[2], TEXT, "SM -");
    if (n->memory && n->memory(n->device, &m) == 0)
        snprintf(n->text[3], TEXT, "mem %5.1f of %.1f GiB", (double)m.used / (1 << 30),
                 (double)m.total / (1 << 30));
    else
        snprintf(n->text[3], TEXT, "mem -");
    if (n->power && n->power(n->device, &v) == 0)
        snprintf(n->text[4], TEXT, "%u W", v / 1000);
    else
        snprintf(n->text[4], TEXT, "- W");
    if (n->temperature && n->temperature(n->device, TEMPERATURE_GPU, &v) == 0)
        snprintf(n->text[5], TEXT, "%u C", v);
    else
        snprintf(n->text[5], TEXT, "- C");
    if (n->throttle && n->throttle(n->device, &bits) == 0)
        snprintf(n->text[6], TEXT, "throttle %s", reason(bits));
    else
        snprintf(n->text[6], TEXT, "throttle -");
    return n->field;
}
