// core/mem.h - allocation with the two checks that are easy to forget: the product n x size may
// overflow, and the answer may be NULL.
#ifndef DELTOP_MEM_H
#define DELTOP_MEM_H

#include "core/err.h"

#include <stddef.h>

// n x size bytes, uninitialised; mem_zalloc: zeroed. n = 0 gives a pointer that may be freed.
// On failure NULL and ERR_NOMEM with the number of bytes and WHAT ("the embedding"). Free with
// free().
void *mem_alloc(size_t n, size_t size, const char *what, err *e);
void *mem_zalloc(size_t n, size_t size, const char *what, err *e);

// 64-byte aligned, zeroed (kernels rely on the alignment). Free with free().
void *mem_aligned(size_t n, size_t size, const char *what, err *e);

// Grows the array *p from *cap to at least `need` elements (doubling). False: *p is unchanged.
bool mem_grow(void **p, size_t *cap, size_t need, size_t size, const char *what, err *e);

// a x b without wrapping; false on overflow.
bool mem_mul(size_t a, size_t b, size_t *out);

char *mem_strdup(const char *s, err *e);

// For tests: the N-th allocation from now on fails (1 = the next one), and all after it; 0 switches
// this off.
void mem_fail_after(long n);

#endif
