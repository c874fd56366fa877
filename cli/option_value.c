#include "cli/option_value.h"

#include "core/mem.h"
#include "core/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Digits from *s on; false when there are none or the value leaves int64_t.
static bool read_digits(const char **s, int64_t *out) {
    const char *p = *s;
    int64_t v = 0;
    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
            return false;
    *s = p;
    *out = v;
    return true;
}

bool options_read_int(const char *s, int64_t *out) {
    bool minus = *s == '-';
    if (*s == '-' || *s == '+')
        s++;
    int64_t v = 0;
    if (!read_digits(&s, &v))
        return false;
    int64_t unit = 1;
    if (*s == 'k' || *s == 'K')
        unit = INT64_C(1) << 10, s++;
    else if (*s == 'M')
        unit = INT64_C(1) << 20, s++;
    if (*s || __builtin_mul_overflow(v, unit, &v))
        return false;
    *out = minus ? -v : v;
    return true;
}

const char *option_value_word(const option_spec *s) {
    if (s->value)
        return s->value;
    switch (s->kind) {
    case OPT_FLAG:
        return NULL;
    case OPT_LIST:
        return "LIST";
    case OPT_CHOICE:
        return s->choices;
    case OPT_TEXT:
    case OPT_TEXTS:
        return "TEXT";
    default:
        return "N";
    }
}

static int64_t most_listed(const option_spec *s) {
    return s->most ? s->most : OPTION_LIST_MOST;
}

const char *option_value_allowed(const option_spec *s, char *buf, size_t size) {
    char lo[32], hi[32];
    text_real(s->lo, 12, lo, sizeof lo);
    text_real(s->hi, 12, hi, sizeof hi);
    const char *above = s->above_lo ? "above " : "from ";
    switch (s->kind) {
    case OPT_INT:
        snprintf(buf, size, "a whole number from %.0f to %.0f%s", s->lo, s->hi,
                 s->hi >= 1024 ? " (k = 1024, M = 1048576)" : "");
        break;
    case OPT_REAL:
        if (isfinite(s->hi))
            snprintf(buf, size, "a number %s%s %s %s", above, lo,
                     s->above_lo ? "and at most" : "to", hi);
        else if (isfinite(s->lo))
            snprintf(buf, size, "a finite number%s %s", s->above_lo ? " above" : ", at least", lo);
        else
            snprintf(buf, size, "a finite number");
        break;
    case OPT_LIST:
        snprintf(buf, size,
                 "numbers and ranges from %.0f to %.0f, like 0-3,7, at most %" PRId64 " in all",
                 s->lo, s->hi, most_listed(s));
        break;
    case OPT_CHOICE: {
        // "f32|tf32|f64" as "f32, tf32 or f64"
        size_t n = 0;
        const char *last = strrchr(s->choices, '|');
        for (const char *c = s->choices; *c && n + 8 < size; c++) {
            if (*c != '|')
                buf[n++] = *c;
            else
                n += (size_t)snprintf(buf + n, size - n, c == last ? " or " : ", ");
        }
        buf[n] = 0;
        break;
    }
    default:
        snprintf(buf, size, "%s", option_value_word(s) ? option_value_word(s) : "no value");
    }
    return buf;
}

static bool refuse(const option_spec *s, const char *text, const char *why, err *e) {
    char allowed[256];
    return err_set(e, ERR_USAGE, "option --%s: \"%s\" is %s; it takes %s", s->name, text_show(text),
                   why, option_value_allowed(s, allowed, sizeof allowed));
}

static bool read_whole(const option_spec *s, const char *text, int64_t *out, err *e) {
    int64_t v = 0;
    if (!options_read_int(text, &v)) {
        size_t digits = strspn(text + (*text == '-' || *text == '+'), "0123456789");
        return refuse(s, text, digits > 15 ? "out of range" : "not a whole number", e);
    }
    if ((double)v < s->lo || (double)v > s->hi)
        return refuse(s, text, "out of range", e);
    *out = v;
    return true;
}

static bool read_real(const option_spec *s, const char *text, double *out, err *e) {
    double v = 0;
    if (!text_number(text, &v))
        return refuse(s, text, "not a number", e);
    if (!isfinite(v))
        return refuse(s, text, "not a finite number", e);
    if (v < s->lo || v > s->hi || (s->above_lo && v == s->lo))
        return refuse(s, text, "out of range", e);
    *out = v;
    return true;
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool read_list(const option_spec *s, const char *text, int_list *out, err *e) {
    int64_t *v = NULL;
    size_t n = 0, cap = 0;
    const char *p = text;
    for (;;) {
        int64_t lo = 0, hi = 0;
        if (!read_digits(&p, &lo))
            goto malformed;
        hi = lo;
        if (*p == '-') {
            p++;
            if (!read_digits(&p, &hi))
                goto malformed;
        }
        if ((double)lo < s->lo || (double)hi > s->hi) {
            refuse(s, text, "out of range", e);
            goto failed;
        }
        if (hi < lo) {
            refuse(s, text, "a range that runs backwards", e);
            goto failed;
        }
        // Before the range is spread out: 0-1073741823 would be 8 GB of numbers.
        if (hi - lo >= most_listed(s) - (int64_t)n) {
            refuse(s, strlen(text) > 40 ? "..." : text, "too long", e);
            goto failed;
        }
        if (!mem_grow((void **)&v, &cap, n + (size_t)(hi - lo) + 1, sizeof *v, "a list option", e))
            goto failed;
        for (int64_t i = lo; i <= hi; i++)
            v[n++] = i;
        if (!*p)
            break;
        if (*p++ != ',')
            goto malformed;
    }
    qsort(v, n, sizeof *v, by_value);
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (m == 0 || v[m - 1] != v[i])
            v[m++] = v[i];
    free(out->v);
    out->v = v;
    out->n = m;
    return true;
malformed:
    refuse(s, text, "not a list", e);
failed:
    free(v);
    return false;
}

static bool read_choice(const option_spec *s, const char *text, int *out, err *e) {
    int i = 0;
    size_t len = strlen(text);
    for (const char *c = s->choices; c; i++) {
        const char *end = strchr(c, '|');
        size_t n = end ? (size_t)(end - c) : strlen(c);
        if (n == len && memcmp(c, text, n) == 0) {
            *out = i;
            return true;
        }
        c = end ? end + 1 : NULL;
    }
    return refuse(s, text, "not known", e);
}

bool option_value_read(const option_spec *s, const char *text, void *base, err *e) {
    void *at = (char *)base + s->at;
    if (s->kind != OPT_FLAG && !*text)
        return refuse(s, text, "empty", e);
    switch (s->kind) {
    case OPT_FLAG:
        *(bool *)at = true;
        return true;
    case OPT_INT:
        return read_whole(s, text, at, e);
    case OPT_REAL:
        return read_real(s, text, at, e);
    case OPT_LIST:
        return read_list(s, text, at, e);
    case OPT_CHOICE:
        return read_choice(s, text, at, e);
    case OPT_TEXT:
        *(const char **)at = text;
        return true;
    case OPT_TEXTS: {
        text_list *l = at;
        if (!mem_grow((void **)&l->v, &l->cap, l->n + 1, sizeof *l->v, "a list option", e))
            return false;
        l->v[l->n++] = text;
        return true;
    }
    }
    return false;
}

void option_value_free(const option_spec *s, void *base) {
    void *at = (char *)base + s->at;
    if (s->kind == OPT_LIST) {
        int_list *l = at;
        free(l->v);
        *l = (int_list){NULL, 0};
    } else if (s->kind == OPT_TEXTS) {
        text_list *l = at;
        free(l->v);
        *l = (text_list){NULL, 0, 0};
    }
}

bool int_list_has(const int_list *l, int64_t x) {
    return l->n == 0 || bsearch(&x, l->v, l->n, sizeof x, by_value) != NULL;
}

bool int_list_check(const int_list *l, int64_t n, const char *option, const char *noun, err *e) {
    if (l->n == 0 || l->v[l->n - 1] < n)
        return true;
    return err_set(e, ERR_USAGE, "option --%s: there is no %s %" PRId64 " (0 to %" PRId64 ")",
                   option, noun, l->v[l->n - 1], n - 1);
}
