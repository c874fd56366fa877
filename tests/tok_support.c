#include "tests/tok_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *tok_shared(const char *fmt, ...) {
    static char ring[4][1024];
    static unsigned turn;
    char *buf = ring[turn++ % 4];
    const char *root = getenv("DELTOP_SHARED");
    int k = snprintf(buf, sizeof ring[0], "%s/", root ? root : "../shared");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buf + k, sizeof ring[0] - (size_t)k, fmt, ap);
    va_end(ap);
    return buf;
}

void tok_need(const char *path) {
    if (access(path, R_OK) == 0)
        return;
    printf("SKIP: %s is not here\n", path);
    skip();
}

char *tok_slurp(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    char *p = malloc(size + 1);
    *n = fread(p, 1, size, f);
    p[*n] = 0;
    fclose(f);
    return p;
}

json_t *tok_json(const char *path) {
    json_error_t why;
    json_t *j = json_load_file(path, JSON_ALLOW_NUL, &why);
    if (!j)
        fail_msg("%s: %s", path, why.text);
    return j;
}

tokenizer *tok_open(const char *path) {
    err e = {0};
    tokenizer *t = tokenizer_open(path, &e);
    if (!t)
        fail_msg("%s", e.text);
    return t;
}

ids tok_encode(const tokenizer *t, const char *text, size_t n, bool special) {
    ids out = {0};
    err e = {0};
    if (!tokenizer_encode(t, text, n, special, NULL, NULL, &out, &e))
        fail_msg("%s", e.text);
    return out;
}

static void compare(const char *what, const ids *got, const int32_t *want, size_t n) {
    for (size_t i = 0; i < n || i < got->n; i++) {
        long a = i < got->n ? got->v[i] : -1, b = i < n ? want[i] : -1;
        if (a != b)
            fail_msg("%s: id %zu is %ld, should be %ld (%zu ids, should be %zu)", what, i, a, b,
                     got->n, n);
    }
}

void tok_expect(const tokenizer *t, const char *text, size_t n, bool special, const int32_t *want,
                size_t n_want, const char *what) {
    ids got = tok_encode(t, text, n, special);
    compare(what, &got, want, n_want);
    ids_free(&got);
}

// "ids" or "ids_rle" of a case.
static ids wanted(const json_t *c, const char *key) {
    ids x = {0};
    char rle[64];
    snprintf(rle, sizeof rle, "%s_rle", key);
    const json_t *plain = json_object_get(c, key), *runs = json_object_get(c, rle);
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(runs); i++)
        n += (size_t)json_integer_value(json_array_get(json_array_get(runs, i), 1));
    x.v = malloc((n + json_array_size(plain) + 1) * sizeof *x.v);
    for (size_t i = 0; i < json_array_size(plain); i++)
        x.v[x.n++] = (int32_t)json_integer_value(json_array_get(plain, i));
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *r = json_array_get(runs, i);
        for (json_int_t k = json_integer_value(json_array_get(r, 1)); k > 0; k--)
            x.v[x.n++] = (int32_t)json_integer_value(json_array_get(r, 0));
    }
    return x;
}

// The text of a case: bytes (hex), or text, or unit x repeat + then, cut to cut_chars.
static char *case_text(const json_t *c, size_t *n) {
    const json_t *hex = json_object_get(c, "bytes"), *text = json_object_get(c, "text");
    const json_t *unit = json_object_get(c, "unit"), *then = json_object_get(c, "then");
    size_t repeat = (size_t)json_integer_value(json_object_get(c, "repeat"));
    size_t size = json_string_length(hex) + json_string_length(text) +
                  repeat * json_string_length(unit) + json_string_length(then);
    char *p = malloc(size + 1);
    *n = 0;
    if (hex) {
        for (const char *s = json_string_value(hex); *s;) {
            unsigned byte = 0;
            int k = 0;
            if (sscanf(s, " %2x%n", &byte, &k) != 1)
                break;
            p[(*n)++] = (char)byte;
            s += k;
        }
        return p;
    }
    if (text) {
        memcpy(p, json_string_value(text), json_string_length(text));
        *n = json_string_length(text);
    }
    for (size_t i = 0; i < repeat; i++, *n += json_string_length(unit))
        memcpy(p + *n, json_string_value(unit), json_string_length(unit));
    memcpy(p + *n, then ? json_string_value(then) : "", json_string_length(then));
    *n += json_string_length(then);
    if (json_object_get(c, "cut_chars")) {
        size_t chars = (size_t)json_integer_value(json_object_get(c, "cut_chars")), i = 0;
        for (; i < *n; i++)
            if (((unsigned char)p[i] & 0xC0) != 0x80 && chars-- == 0)
                break;
        *n = i;
    }
    return p;
}

size_t tok_run_corner(const tokenizer *t, const char *path) {
    json_t *list = tok_json(path);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        char what[256];
        snprintf(what, sizeof what, "%s: %s", path, json_string_value(json_object_get(c, "name")));
        size_t n = 0;
        char *text = case_text(c, &n);
        ids plain = wanted(c, "ids"), special = wanted(c, "ids_special");
        tok_expect(t, text, n, false, plain.v, plain.n, what);
        tok_expect(t, text, n, true, special.v, special.n, what);
        assert_int_equal(plain.n, json_integer_value(json_object_get(c, "n")));

        const json_t *other = json_object_get(c, "decoded"), *lossy = json_object_get(c, "text");
        size_t m = 0;
        err e = {0};
        char *back = tokenizer_decode(t, plain.v, plain.n, false, &m, &e);
        const char *want = other                         ? json_string_value(other)
                           : json_object_get(c, "bytes") ? json_string_value(lossy)
                                                         : text;
        size_t n_want = other                         ? json_string_length(other)
                        : json_object_get(c, "bytes") ? json_string_length(lossy)
                                                      : n;
        if (!back || m != n_want || memcmp(back, want, m) != 0)
            fail_msg("%s: decodes to \"%s\", should be \"%.*s\"", what, back ? back : e.text,
                     (int)n_want, want);
        free(back);
        ids_free(&plain);
        ids_free(&special);
        free(text);
    }
    size_t n = json_array_size(list);
    json_decref(list);
    return n;
}

size_t tok_run_decode(const tokenizer *t, const char *path) {
    json_t *list = tok_json(path);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        ids x = wanted(c, "ids");
        for (int skip_special = 0; skip_special < 2; skip_special++) {
            const json_t *want = json_object_get(c, skip_special ? "skip_special" : "keep_special");
            size_t n = 0;
            err e = {0};
            char *got = tokenizer_decode(t, x.v, x.n, skip_special, &n, &e);
            if (!got || n != json_string_length(want) || memcmp(got, json_string_value(want), n))
                fail_msg("%s: case %zu (skip %d): \"%s\", should be \"%s\"", path, i, skip_special,
                         got ? got : e.text, json_string_value(want));
            free(got);
        }
        ids_free(&x);
    }
    size_t n = json_array_size(list);
    json_decref(list);
    return n;
}

static double clock_of(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double tok_seconds(void) {
    return clock_of(CLOCK_MONOTONIC);
}

double tok_cpu_seconds(void) {
    return clock_of(CLOCK_PROCESS_CPUTIME_ID);
}

// FIPS 180-4. The round constants are the fractional parts of the cube roots of the first 64
// primes, computed here so that no table can hold a typing error.
static uint32_t fraction(double (*root)(double), int prime);
static double cube(double x);
static double square(double x);

static void block(uint32_t h[8], const unsigned char *p, const uint32_t k[64]) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
#define ROT(x, n) ((x) >> (n) | (x) << (32 - (n)))
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] + (ROT(w[i - 15], 7) ^ ROT(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (ROT(w[i - 2], 17) ^ ROT(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t t1 =
            v[7] + (ROT(e, 6) ^ ROT(e, 11) ^ ROT(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
        uint32_t t2 =
            (ROT(a, 2) ^ ROT(a, 13) ^ ROT(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
#undef ROT
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

static double cube(double x) {
    return x * x * x;
}

static double square(double x) {
    return x * x;
}

// First 32 bits of the fractional part of the root of a prime: the largest f with
// (whole + f / 2^32)^power <= prime, by bisection; 53 bits are enough for 9 + 32.
static uint32_t fraction(double (*power)(double), int prime) {
    double low = 0, high = prime;
    for (int i = 0; i < 100; i++) {
        double mid = (low + high) / 2;
        if (power(mid) <= prime)
            low = mid;
        else
            high = mid;
    }
    return (uint32_t)(uint64_t)((low - (double)(int)low) * 4294967296.0);
}

void tok_sha256(const void *data, size_t n, char hex[65]) {
    uint32_t h[8], k[64];
    for (int prime = 2, found = 0; found < 64; prime++) {
        bool is = true;
        for (int d = 2; d * d <= prime; d++)
            is = is && prime % d != 0;
        if (!is)
            continue;
        if (found < 8)
            h[found] = fraction(square, prime);
        k[found++] = fraction(cube, prime);
    }
    const unsigned char *p = data;
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        block(h, p + i, k);
    unsigned char tail[128] = {0};
    memcpy(tail, p + i, n - i);
    tail[n - i] = 0x80;
    size_t size = n - i + 9 <= 64 ? 64 : 128;
    for (int b = 0; b < 8; b++)
        tail[size - 1 - (size_t)b] = (unsigned char)((uint64_t)n * 8 >> (8 * b));
    block(h, tail, k);
    if (size == 128)
        block(h, tail + 64, k);
    for (int w = 0; w < 8; w++)
        snprintf(hex + 8 * w, 9, "%08x", (unsigned)h[w]);
}
