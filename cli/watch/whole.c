#include "cli/watch/scan.h"

#include "core/ckpt.h"
#include "core/config.h"

#include <stdio.h>

// The loader itself holds headers, lengths and the index against each other, without reading weights.
bool watch_is_whole(const char *path, char *why, size_t size) {
    err e = {0};
    config *c = config_open(path, &e);
    ckpt *k = c ? ckpt_open(path, &e) : NULL;
    bool whole = k != NULL;
    snprintf(why, size, "%.*s", (int)size - 1, e.text);
    ckpt_close(k);
    config_close(c);
    return whole;
}
