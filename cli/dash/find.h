// cli/dash/find.h - finding text: plain bytes, or a PCRE2 pattern after "re:".
#ifndef DELTOP_DASH_FIND_H
#define DELTOP_DASH_FIND_H

#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct found {
    int64_t *at; // first bytes of the hits, ascending; owned
    size_t n, cap;
    bool cut; // the search was given up: too costly a pattern, or too many hits
} found;

enum { FOUND_MOST = 1000000 };

// All hits of WHAT in text[0..n), case-sensitive, not overlapping. pattern: WHAT is a PCRE2 pattern,
// otherwise only behind "re:". A pattern stops at a match limit, so that it ends within a second
// (found.cut). ERR_USAGE for a pattern that is none, with the place.
bool find_all(const char *text, size_t n, const char *what, bool pattern, found *out, err *e);
void found_free(found *f);

#endif
