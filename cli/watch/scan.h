// cli/watch/scan.h - which checkpoints a training run has written so far, and which of them are whole.
#ifndef DELTOP_WATCH_SCAN_H
#define DELTOP_WATCH_SCAN_H

#include "core/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The step in a folder's name: the number behind "step", "checkpoint", "ckpt", "iter" (the last such),
// else the last number; k, M and B behind it count ("step-10k"). -1: there is none ("final").
int64_t watch_step(const char *name);

typedef struct watched {
    char *path; // owned
    int64_t step;
    bool whole;
    char why[400]; // not whole: what it lacks, one sentence
    uint64_t mark; // of names, sizes and times of its files
    double since;  // when the mark was first seen, seconds of the caller's clock
    bool treated;  // the caller's
    char told[64]; // the caller's: the end of `why` as last told
} watched;

typedef struct watch_list {
    watched *v; // by step, those without one last, else in natural order; owned
    size_t n, room;
} watch_list;
void watch_list_free(watch_list *l); // an empty one is fine

// Looks into DIR: itself, the folders in it, and those in folders that hold no model. A checkpoint is
// a folder with a .safetensors file, an index of them, or a config.json; hidden ones, links, and names
// that begin with "tmp" or end in ".tmp" are not looked at. What was on the list stays on it, in its
// state, as long as its folder is there.
//
// Whole: the config can be read, every file that the index names is there and as long as its header
// says, and no file of the folder has changed for `settle` seconds (or the newest is older than a
// minute, by this machine's clock). now: seconds of a clock that only goes forward.
bool watch_scan(watch_list *l, const char *dir, double settle, double now, err *e);

// The config can be read, and the weights are all there by their headers; else why not.
bool watch_is_whole(const char *path, char *why, size_t size);

#endif
