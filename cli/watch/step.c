#include "cli/watch/scan.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

// A number at s, with its unit; -1 when it leaves int64_t.
static int64_t number_at(const char *s) {
    int64_t v = 0, unit = 1;
    for (; isdigit((unsigned char)*s); s++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s - '0', &v))
            return -1;
    if (!isalpha((unsigned char)*s) || !isalpha((unsigned char)s[1]))
        unit = *s == 'k' || *s == 'K' ? 1000 : *s == 'M' ? 1000000 : *s == 'B' ? 1000000000 : 1;
    return __builtin_mul_overflow(v, unit, &v) ? -1 : v;
}

// Does one of the words end right in front of s, with no more than a - _ or = between?
static bool behind_word(const char *name, const char *s) {
    static const char *const words[] = {"steps", "step", "checkpoint", "ckpt", "iter"};
    size_t n = (size_t)(s - name);
    while (n > 0 && strchr("-_=", name[n - 1]))
        n--;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t m = strlen(words[i]);
        if (n >= m && strncasecmp(name + n - m, words[i], m) == 0)
            return true;
    }
    return false;
}

int64_t watch_step(const char *name) {
    int64_t named = -1, last = -1;
    for (const char *s = name; *s; s++) {
        if (!isdigit((unsigned char)*s) || (s > name && isdigit((unsigned char)s[-1])))
            continue;
        last = number_at(s);
        if (behind_word(name, s))
            named = last;
    }
    return named >= 0 ? named : last;
}
