#include "core/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static long fail_countdown; // 0: off. Test hook, see mem_fail_after.

void mem_fail_after(long n) {
    fail_countdown = n;
}

static bool refused(void) {
    if (fail_countdown == 0)
        return false;
    if (fail_countdown > 1) {
        fail_countdown--;
        return false;
    }
    return true;
}

bool mem_mul(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

static void *allocate(size_t n, size_t size, size_t align, bool zero, const char *what, err *e) {
    size_t bytes = 0;
    if (!mem_mul(n, size, &bytes) || bytes > SIZE_MAX / 2) {
        err_set(e, ERR_NOMEM, "out of memory: %s would need %zu x %zu bytes", what, n, size);
        return NULL;
    }
    if (bytes == 0)
        bytes = 1;
    if (align)
        bytes = (bytes + align - 1) / align * align;
    void *p = NULL;
    if (!refused())
        p = align ? aligned_alloc(align, bytes) : zero ? calloc(1, bytes) : malloc(bytes);
    if (!p)
        err_set(e, ERR_NOMEM, "out of memory: %s needs %zu bytes", what, bytes);
    else if (align && zero)
        memset(p, 0, bytes);
    return p;
}

void *mem_alloc(size_t n, size_t size, const char *what, err *e) {
    return allocate(n, size, 0, false, what, e);
}

void *mem_zalloc(size_t n, size_t size, const char *what, err *e) {
    return allocate(n, size, 0, true, what, e);
}

void *mem_aligned(size_t n, size_t size, const char *what, err *e) {
    return allocate(n, size, 64, true, what, e);
}

bool mem_grow(void **p, size_t *cap, size_t need, size_t size, const char *what, err *e) {
    if (need <= *cap)
        return true;
    size_t n = *cap < 16 ? 16 : *cap * 2, bytes = 0;
    if (n < need)
        n = need;
    void *q = NULL;
    if (mem_mul(n, size, &bytes) && !refused())
        q = realloc(*p, bytes);
    if (!q)
        return err_set(e, ERR_NOMEM, "out of memory: %s needs %zu x %zu bytes", what, n, size);
    *p = q;
    *cap = n;
    return true;
}

char *mem_strdup(const char *s, err *e) {
    size_t n = strlen(s) + 1;
    char *p = mem_alloc(n, 1, "a string", e);
    if (p)
        memcpy(p, s, n);
    return p;
}
