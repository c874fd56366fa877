#include "bench/environment.h"

#include "bench/ceiling.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/sha256.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#ifndef DELTOP_COMMIT
#define DELTOP_COMMIT "unknown"
#endif
#ifndef DELTOP_FLAGS
#define DELTOP_FLAGS ""
#endif

double environment_load(void) {
    double load[1];
    return getloadavg(load, 1) == 1 ? load[0] : (double)NAN;
}

// The value of the first line of FILE that begins with KEY; the whole first line without a key.
static void line_of(const char *file, const char *key, char *buf, size_t size) {
    char line[512];
    FILE *f = fopen(file, "r");
    buf[0] = 0;
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        const char *at = key ? strchr(line, ':') : line;
        if (key && (strncmp(line, key, strlen(key)) != 0 || !at))
            continue;
        snprintf(buf, size, "%.*s", (int)size - 1, key ? at + 1 + strspn(at + 1, " \t") : at);
        break;
    }
    if (f)
        fclose(f);
}

static json_t *words(const char *s) {
    return s[0] ? json_string(text_show(s)) : json_null();
}

static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *cpu_json(void) {
    char model[256], governor[64];
    line_of("/proc/cpuinfo", "model name", model, sizeof model);
    line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", NULL, governor,
            sizeof governor);
    return json_pack("{s:o, s:i, s:o, s:o}", "model", words(model), "cores",
                     (int)sysconf(_SC_NPROCESSORS_ONLN), "governor", words(governor), "load",
                     number(environment_load()));
}

// Two results from one binary are no comparison of two builds (fault B130).
static void binary_hash(char hex[65]) {
    size_t n = 0;
    err e = {0};
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)getpid());
    char *bytes = file_read(path, 1 << 28, &n, &e);
    hex[0] = 0;
    if (bytes) {
        sha256 s;
        sha256_init(&s);
        sha256_add(&s, bytes, n);
        sha256_hex(&s, hex);
    }
    free(bytes);
}

json_t *environment_json(const backend *gpu, const nvml *card) {
    char hash[65], now[32];
    struct utsname u;
    time_t t = time(NULL);
    struct tm tm;
    binary_hash(hash);
    gmtime_r(&t, &tm);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &tm);
    json_t *v = json_object();
    bool ok =
        v && json_object_set_new(v, "date", json_string(now)) == 0 &&
        json_object_set_new(v, "build",
                            json_pack("{s:s, s:s, s:o}", "commit", DELTOP_COMMIT, "flags",
                                      DELTOP_FLAGS, "sha256", words(hash))) == 0 &&
        json_object_set_new(v, "cpu", cpu_json()) == 0 &&
        json_object_set_new(v, "system",
                            uname(&u) == 0 ? json_pack("{s:s, s:s, s:s}", "name", u.sysname,
                                                       "release", u.release, "machine", u.machine)
                                           : json_null()) == 0;
    if (ok && gpu) {
        nvml_facts f = nvml_about(card);
        nvml_reading r = nvml_read(card);
        ok = json_object_set_new(
                 v, "gpu",
                 json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "device", gpu->device, "driver",
                           words(f.driver), "max_sm_mhz", number(f.max_sm_mhz), "power_limit_watt",
                           number(f.power_limit_watt), "ecc",
                           f.ecc < 0 ? json_null() : json_boolean(f.ecc), "memory_total",
                           number(r.memory_total), "memory_mhz", number(r.memory_mhz))) == 0;
    }
    if (!ok) {
        json_decref(v);
        return NULL;
    }
    return v;
}

// Measured copy and dense product rates; a device that is not listed has no floor rather than a wrong
// one.
ceilings environment_ceilings(const backend *be, precision p, int threads) {
    if (strcmp(be->device, "cpu") == 0) {
        ceilings c = {cpu_copy_rate(), threads * cpu_multiply_rate(), NAN, "measured here"};
        if (p == PRECISION_F64)
            c.flop_per_second /= 2;
        return c;
    }
    static const struct {
        const char *name;
        double bytes, bf16, tf32, f32;
    } known[] = {{"H200", 4.3e12, 790e12, 395e12, 67e12}, {"H100", 3.0e12, 750e12, 375e12, 67e12}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(be->device, known[i].name))
            return (ceilings){known[i].bytes,
                              p == PRECISION_BF16   ? known[i].bf16
                              : p == PRECISION_TF32 ? known[i].tf32
                                                    : known[i].f32,
                              2.3e-6, "H200 ceilings"};
    return (ceilings){NAN, NAN, NAN, "unknown device"};
}
