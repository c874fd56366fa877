// core/config.h - the model's config.json, read with one question a key.
//
// A key that is absent and a key that is null are the same thing here (faults B21, B24, B25).
// Every getter that fails names file, key, what was found and what was expected. Getters remember
// the keys they were asked for, so that `inspect` can list what nobody read.
#ifndef DELTOP_CONFIG_H
#define DELTOP_CONFIG_H

#include "core/err.h"

#include <jansson.h>
#include <stdint.h>

typedef struct config config;

// PATH: a folder that holds config.json, a .safetensors file beside one, or the JSON file itself.
// Duplicate keys, trailing bytes and files over 16 MB are refused; JSON errors carry line and
// column.
config *config_open(const char *path, err *e);
void config_close(config *c);
const char *config_path(const config *c);

bool config_has(const config *c, const char *key); // present and not null
// Required (ERR_MISSING); lo <= value <= hi. A real number that is whole (16.0) is accepted.
bool config_int(const config *c, const char *key, int64_t lo, int64_t hi, int64_t *out, err *e);
// The same with a default for an absent key.
bool config_int_or(const config *c, const char *key, int64_t lo, int64_t hi, int64_t otherwise,
                   int64_t *out, err *e);
bool config_real_or(const config *c, const char *key, double otherwise, double *out, err *e);
bool config_bool_or(const config *c, const char *key, bool otherwise, bool *out, err *e);
// A pair [lo, hi] with 0 <= lo <= hi. hi may be infinite, in the three spellings that libraries have
// written: the bare word Infinity, {"__float__": "Infinity"}, the string "Infinity" (fault B36).
// Nowhere else is an infinite value accepted.
bool config_limits_or(const config *c, const char *key, double lo, double hi, double *out_lo,
                      double *out_hi, err *e);
// Lent string, or `otherwise`.
bool config_text_or(const config *c, const char *key, const char *otherwise, const char **out,
                    err *e);
// The raw value (borrowed), NULL when absent or null.
json_t *config_json(const config *c, const char *key);
// A config that answers from an object inside this one ("text_config", "attn"); shares the file's
// name, with KEY in messages. NULL and no error when absent. Close it like a config.
config *config_child(const config *c, const char *key, err *e);

// Keys of the top level that nobody asked for, sorted, at most `max`; their number is returned. For
// `inspect`.
int config_unread(const config *c, const char **keys, int max);

#endif
