// analyses/words/group.h - finite groups as permutations (science.md section 0).
//
// (a.b)[i] = a[b[i]]: b acts first. Elements of S_n and A_n in lexicographic order of their one-line
// notation; of C_m the rotations r0 .. r(m-1); of D_m the rotations, then the reflections
// s0 .. s(m-1), s_a = r_a . s_0, where s_0 mirrors at the axis through corner 0.
#ifndef DELTOP_GROUP_H
#define DELTOP_GROUP_H

#include "core/err.h"

#include <stdint.h>

enum { GROUP_MAX_DEGREE = 64, GROUP_MAX_SIZE = 2048, GROUP_LABEL = 80 };

typedef struct group {
    char name[64]; // "S4"
    int degree, size;
    uint8_t *perm;              // [size, degree]; perm[g][i] = g(i)
    int32_t *mul;               // [size, size]; mul[a * size + b] = a . b
    char (*label)[GROUP_LABEL]; // of each element: "1023", "r2"
    int identity;
} group;

// S2 to S6, A3 to A6, C2 to C64, D2 to D32, whatever their case. ERR_USAGE names what there is.
group *group_named(const char *name, err *e);
// From permutations [size, degree], copied. label NULL: the one-line notation. ERR_INPUT when they
// are no permutations, repeat, or are not closed under multiplication.
group *group_from(const char *name, int degree, int size, const uint8_t *perm,
                  const char *const *label, err *e);
void group_free(group *g); // NULL is fine

static inline int group_mul(const group *g, int a, int b) {
    return g->mul[a * g->size + b];
}
static inline const uint8_t *group_perm(const group *g, int a) {
    return g->perm + a * g->degree;
}
// +1 or -1.
int group_sign(const group *g, int a);

// The fewest swaps that make the element: degree less its cycles, at most degree - 1. swaps [degree,
// 2], in the order in which they are applied (T01: (c1 c2), (c1 c3) ... for each cycle).
int group_swaps(const group *g, int a, int (*swaps)[2]);
// The same for any permutation of n points.
int permutation_swaps(const uint8_t *p, int n, int (*swaps)[2]);

#endif
