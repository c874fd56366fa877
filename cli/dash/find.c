#define PCRE2_CODE_UNIT_WIDTH 8
#include "cli/dash/find.h"

#include "core/mem.h"
#include "core/text.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Backtracking steps of one match; all matches together end after SECONDS.
enum { MATCH_LIMIT = 200000 };
#define SECONDS 0.5

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool add(found *f, int64_t at, err *e) {
    if (f->n >= FOUND_MOST) {
        f->cut = true;
        return true;
    }
    if (!mem_grow((void **)&f->at, &f->cap, f->n + 1, sizeof *f->at, "hits", e))
        return false;
    f->at[f->n++] = at;
    return true;
}

static bool find_plain(const char *text, size_t n, const char *what, found *out, err *e) {
    size_t k = strlen(what);
    for (const char *p = text, *hit;
         !out->cut && (hit = memmem(p, n - (size_t)(p - text), what, k)); p = hit + k)
        if (!add(out, hit - text, e))
            return false;
    return true;
}

static bool find_pattern(const char *text, size_t n, const char *what, found *out, err *e) {
    int code = 0;
    PCRE2_SIZE where = 0, at = 0;
    // Text of tokens may hold half characters, so bytes are bytes here.
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)what, PCRE2_ZERO_TERMINATED, PCRE2_MULTILINE, &code,
                                   &where, NULL);
    if (!re) {
        PCRE2_UCHAR why[128];
        pcre2_get_error_message(code, why, sizeof why);
        return err_set(e, ERR_USAGE, "pattern, character %zu: %s", (size_t)where + 1, (char *)why);
    }
    bool ok = true;
    double end = seconds() + SECONDS;
    pcre2_match_data *m = pcre2_match_data_create_from_pattern(re, NULL);
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    ok = m && limits;
    if (ok)
        pcre2_set_match_limit(limits, MATCH_LIMIT);
    else
        err_set(e, ERR_NOMEM, "out of memory: a search");
    while (ok && at <= n && !out->cut) {
        int rc = pcre2_match(re, (PCRE2_SPTR)text, n, at, 0, m, limits);
        if (rc == PCRE2_ERROR_NOMATCH)
            break;
        if (rc < 0 || seconds() > end) {
            out->cut = true;
            break;
        }
        PCRE2_SIZE *v = pcre2_get_ovector_pointer(m);
        if (v[1] > v[0])
            ok = add(out, (int64_t)v[0], e);
        at = v[1] > v[0] ? v[1] : v[1] + 1;
    }
    pcre2_match_context_free(limits);
    pcre2_match_data_free(m);
    pcre2_code_free(re);
    return ok;
}

bool find_all(const char *text, size_t n, const char *what, bool pattern, found *out, err *e) {
    *out = (found){0};
    if (strncmp(what, "re:", 3) == 0 && !pattern) {
        what += 3;
        pattern = true;
    }
    if (!*what)
        return true;
    bool ok = pattern ? find_pattern(text, n, what, out, e) : find_plain(text, n, what, out, e);
    if (!ok)
        found_free(out);
    return ok;
}

void found_free(found *f) {
    free(f->at);
    *f = (found){0};
}
