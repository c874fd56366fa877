// core/jsonio.h - JSON text to a jansson value, with messages in our words.
#ifndef DELTOP_JSONIO_H
#define DELTOP_JSONIO_H

#include "core/err.h"

#include <jansson.h>

// Parses n bytes (and a NUL must stand behind them). Duplicate keys are refused and named; every
// other error carries line and column. FILE is put in front of messages, WHAT says which part of it
// the text is ("its header"; "line 7": columns alone are told; NULL: the whole file). The value may be of any kind; the caller owns
// it.
json_t *jsonio_parse(const char *text, size_t n, const char *file, const char *what, err *e);

// The same for a whole file of at most `max` bytes. ERR_MISSING when it is not there.
json_t *jsonio_read(const char *path, size_t max, err *e);

// The same, but the bare word Infinity, which Python writes and JSON lacks, may stand where a value
// can stand. It is read as the string JSONIO_INFINITY (as long as the word, so that columns in
// messages stay right), which jsonio_show shows as Infinity: whoever does not ask for it refuses it.
// NaN and numbers beyond double stay errors (fault B36).
#define JSONIO_INFINITY "\177\177\177\177\177\177"
json_t *jsonio_read_infinity(const char *path, size_t max, err *e);

// "a number", "an array" ...: for messages. NULL is "absent".
const char *jsonio_kind(const json_t *v);

// The value as people would quote it in a message: "big", 16.5, an array ... into buf, cut when
// long. Returns buf.
char *jsonio_show(const json_t *v, char *buf, size_t size);

#endif
