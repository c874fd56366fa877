// bench/plugin_load.h - plugins (bench/plugin.h), opened and checked.
#ifndef DELTOP_BENCH_PLUGIN_LOAD_H
#define DELTOP_BENCH_PLUGIN_LOAD_H

#include "bench/plugin.h"
#include "core/backend.h"

typedef struct plugin_kernel {
    const deltop_kernel *k;
    char impl[96]; // "mine:fast": plugin and kernel
} plugin_kernel;

typedef struct plugins {
    plugin_kernel *v; // all kernels of all plugins; owned
    size_t n, cap;
} plugins;

// Opens PATH and adds its kernels. ERR_INPUT when it is no plugin, or one for another ABI. Plugins
// stay loaded until the program ends.
bool plugins_add(plugins *p, const char *path, err *e);
void plugins_free(plugins *p);
const plugin_kernel *plugins_find(const plugins *p, const char *impl); // NULL: none

// The call as a plugin sees it; threads as of the backend.
deltop_recurrence plugin_call(backend *be, const steps *s, mat state, mat o);
// Asks and calls it. A crash is an error like any other (plugin_guard.h): ERR_UNSUPPORTED: it does not
// take this case; ERR_DEVICE: it crashed, or its run returned something.
bool plugin_supports(const plugin_kernel *k, const deltop_recurrence *call, err *e);
bool plugin_run(const plugin_kernel *k, const deltop_recurrence *call, err *e);

#endif
