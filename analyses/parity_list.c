#include "analyses/parity_list.h"

#include "core/mem.h"
#include "core/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *stem;
    layer_needs needs;
} patterns[] = {
    {"state", NEEDS_STATE},         {"state77", NEEDS_EARLY_STATE}, {"erank", NEEDS_STATE},
    {"erank_micro", NEEDS_STATE},   {"beta", NEEDS_BETA},           {"loggate", NEEDS_DECAY},
    {"logdecay", NEEDS_DECAY_SUMS}, {"eig", NEEDS_WINDOWS},         {"eig_cond", NEEDS_EIG},
    {"norm2", NEEDS_EIG},           {"logabsdet", NEEDS_EIG}};

// Takes STEM_lN.npy apart, N without zeros in front.
static bool is_of_layer(const char *name, layer_file *f) {
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        size_t n = strlen(patterns[i].stem);
        if (strncmp(name, patterns[i].stem, n) != 0 || strncmp(name + n, "_l", 2) != 0)
            continue;
        const char *digits = name + n + 2;
        size_t k = strspn(digits, "0123456789");
        if (k == 0 || (k > 1 && *digits == '0') || strcmp(digits + k, ".npy") != 0)
            continue;
        *f = (layer_file){.needs = patterns[i].needs, .layer = strtol(digits, NULL, 10)};
        snprintf(f->name, sizeof f->name, "%s", name);
        return true;
    }
    return false;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const layer_file *)a)->name, ((const layer_file *)b)->name);
}

bool parity_list(const char *folder, layer_file **list, size_t *n, err *e) {
    size_t cap = 0;
    bool ok = true;
    *list = NULL;
    *n = 0;
    DIR *d = opendir(folder);
    if (!d)
        return err_set(e, ERR_IO, "%s: %s", text_show(folder), err_system(errno));
    for (struct dirent *f; ok && (f = readdir(d));) {
        layer_file found;
        if (!is_of_layer(f->d_name, &found))
            continue;
        ok = mem_grow((void **)list, &cap, *n + 1, sizeof **list, "names", e);
        if (ok)
            (*list)[(*n)++] = found;
    }
    closedir(d);
    if (*n)
        qsort(*list, *n, sizeof **list, by_name);
    return ok;
}
