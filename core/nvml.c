#include "core/nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// The library's interface as far as it is used here; its return value 0 is success. Clock 1 is the SM's,
// 2 the memory's; sensor 0 is the chip.
typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;
typedef struct nvml_use {
    unsigned gpu, memory;
} nvml_use;

struct nvml {
    void *so, *device;
    int (*clock)(void *, int, unsigned *);
    int (*max_clock)(void *, int, unsigned *);
    int (*power)(void *, unsigned *); // milliwatts
    int (*limit)(void *, unsigned *);
    int (*temperature)(void *, int, unsigned *);
    int (*throttle)(void *, unsigned long long *);
    int (*ecc)(void *, int *, int *);
    int (*memory)(void *, nvml_memory *);
    int (*use)(void *, nvml_use *);
    int (*name)(void *, char *, unsigned);
    int (*driver)(char *, unsigned);
    int (*shutdown)(void);
};

// The first of two names that the library has; NULL without.
static void find(void *so, void *to, const char *name, const char *other) {
    void *f = dlsym(so, name);
    *(void **)to = f || !other ? f : dlsym(so, other);
}

nvml *nvml_open(int n, const char *pci) {
    void *so = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!so)
        return NULL;
    int (*init)(void) = NULL, (*by_pci)(const char *, void **) = NULL;
    int (*by_index)(unsigned, void **) = NULL;
    nvml *x = calloc(1, sizeof *x);
    find(so, &init, "nvmlInit_v2", "nvmlInit");
    find(so, &by_pci, "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByPciBusId");
    find(so, &by_index, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex");
    if (!x || !init || !by_index || init() != 0) {
        free(x);
        dlclose(so);
        return NULL;
    }
    x->so = so;
    find(so, &x->shutdown, "nvmlShutdown", NULL);
    find(so, &x->clock, "nvmlDeviceGetClockInfo", NULL);
    find(so, &x->max_clock, "nvmlDeviceGetMaxClockInfo", NULL);
    find(so, &x->power, "nvmlDeviceGetPowerUsage", NULL);
    find(so, &x->limit, "nvmlDeviceGetEnforcedPowerLimit", NULL);
    find(so, &x->temperature, "nvmlDeviceGetTemperature", NULL);
    find(so, &x->throttle, "nvmlDeviceGetCurrentClocksThrottleReasons",
         "nvmlDeviceGetCurrentClocksEventReasons");
    find(so, &x->ecc, "nvmlDeviceGetEccMode", NULL);
    find(so, &x->memory, "nvmlDeviceGetMemoryInfo", NULL);
    find(so, &x->use, "nvmlDeviceGetUtilizationRates", NULL);
    find(so, &x->name, "nvmlDeviceGetName", NULL);
    find(so, &x->driver, "nvmlSystemGetDriverVersion", NULL);
    bool found =
        (pci && by_pci && by_pci(pci, &x->device) == 0) || by_index((unsigned)n, &x->device) == 0;
    if (!found) {
        nvml_close(x);
        return NULL;
    }
    return x;
}

void nvml_close(nvml *x) {
    if (!x)
        return;
    if (x->shutdown)
        x->shutdown();
    dlclose(x->so);
    free(x);
}

nvml_reading nvml_read(const nvml *x) {
    nvml_reading r = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0};
    unsigned v;
    unsigned long long bits;
    nvml_memory memory;
    nvml_use use;
    if (!x)
        return r;
    if (x->clock && x->clock(x->device, 1, &v) == 0)
        r.sm_mhz = v;
    if (x->clock && x->clock(x->device, 2, &v) == 0)
        r.memory_mhz = v;
    if (x->power && x->power(x->device, &v) == 0)
        r.watt = 1e-3 * v;
    if (x->temperature && x->temperature(x->device, 0, &v) == 0)
        r.celsius = v;
    if (x->throttle && x->throttle(x->device, &bits) == 0)
        r.throttle = (unsigned)bits;
    if (x->use && x->use(x->device, &use) == 0)
        r.busy = use.gpu;
    if (x->memory && x->memory(x->device, &memory) == 0) {
        r.memory_used = (double)memory.used;
        r.memory_total = (double)memory.total;
    }
    return r;
}

nvml_facts nvml_about(const nvml *x) {
    nvml_facts f = {.max_sm_mhz = NAN, .power_limit_watt = NAN, .ecc = -1};
    unsigned v;
    int now, later;
    if (!x)
        return f;
    if (x->driver && x->driver(f.driver, sizeof f.driver) != 0)
        f.driver[0] = 0;
    if (x->name && x->name(x->device, f.name, sizeof f.name) != 0)
        f.name[0] = 0;
    if (x->max_clock && x->max_clock(x->device, 1, &v) == 0)
        f.max_sm_mhz = v;
    if (x->limit && x->limit(x->device, &v) == 0)
        f.power_limit_watt = 1e-3 * v;
    if (x->ecc && x->ecc(x->device, &now, &later) == 0)
        f.ecc = now;
    return f;
}

char *nvml_throttle_text(unsigned reasons, char *buf, size_t size) {
    static const struct {
        unsigned bits;
        const char *word;
    } table[] = {{NVML_POWER_CAP, "power cap"},
                 {NVML_HW_SLOWDOWN, "hardware slowdown"},
                 {NVML_SYNC_BOOST, "sync boost"},
                 {NVML_SW_THERMAL | NVML_HW_THERMAL, "thermal"},
                 {NVML_POWER_BRAKE, "power brake"}};
    size_t at = 0;
    buf[0] = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (reasons & table[i].bits && at < size)
            at += (size_t)snprintf(buf + at, size - at, "%s%s", at ? ", " : "", table[i].word);
    return buf;
}
