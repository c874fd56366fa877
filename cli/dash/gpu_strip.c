#include "cli/dash/gpu_strip.h"

#include "core/nvml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 8, TEXT = 128 };

struct gpu_strip {
    nvml *gpu;
    double busy[SAMPLES]; // percent, the last one last
    int n_busy;
    char text[GPU_STRIP_FIELDS][TEXT];
    const char *field[GPU_STRIP_FIELDS];
};

gpu_strip *gpu_strip_open(int device) {
    gpu_strip *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->gpu = nvml_open(device, NULL);
    if (!s->gpu) {
        free(s);
        return NULL;
    }
    nvml_facts about = nvml_about(s->gpu);
    const char *model = strncmp(about.name, "NVIDIA ", 7) == 0 ? about.name + 7 : about.name;
    snprintf(s->text[0], TEXT, "GPU %d %.40s", device, model);
    for (int i = 0; i < GPU_STRIP_FIELDS; i++)
        s->field[i] = s->text[i];
    return s;
}

void gpu_strip_close(gpu_strip *s) {
    if (!s)
        return;
    nvml_close(s->gpu);
    free(s);
}

// "-" instead of a value that is not known.
static void number(char *to, const char *before, const char *format, double x, const char *unit) {
    char text[32] = "-";
    if (!isnan(x))
        snprintf(text, sizeof text, format, x);
    snprintf(to, TEXT, "%s%s%s", before, text, unit);
}

static void utilization(gpu_strip *s, double busy) {
    if (isnan(busy)) {
        snprintf(s->text[1], TEXT, "util -");
        return;
    }
    char blocks[SAMPLES * 3 + 1] = "";
    memmove(s->busy, s->busy + 1, (SAMPLES - 1) * sizeof *s->busy);
    s->busy[SAMPLES - 1] = busy > 100 ? 100 : busy < 0 ? 0 : busy;
    s->n_busy += s->n_busy < SAMPLES;
    for (int i = SAMPLES - s->n_busy; i < SAMPLES; i++) {
        int level = (int)(s->busy[i] * 7 / 100); // U+2581 and on: E2 96 81
        snprintf(blocks + strlen(blocks), 4, "\xe2\x96%c", (char)(0x81 + level));
    }
    snprintf(s->text[1], TEXT, "util %3.0f%% %s", busy, blocks);
}

const char *const *gpu_strip_sample(gpu_strip *s) {
    const double GiB = 1024.0 * 1024 * 1024;
    nvml_reading r = nvml_read(s->gpu);
    char why[64];
    utilization(s, r.busy);
    number(s->text[2], "SM ", "%.0f", r.sm_mhz, " MHz");
    if (isnan(r.memory_used))
        snprintf(s->text[3], TEXT, "mem -");
    else
        snprintf(s->text[3], TEXT, "mem %5.1f of %.1f GiB", r.memory_used / GiB,
                 r.memory_total / GiB);
    number(s->text[4], "", "%.0f", r.watt, " W");
    number(s->text[5], "", "%.0f", r.celsius, " C");
    nvml_throttle_text(r.throttle, why, sizeof why);
    snprintf(s->text[6], TEXT, "throttle %s", why[0] ? why : "none");
    return s->field;
}
