#include "analyses/words/group.h"

#include "core/mem.h"
#include "core/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void group_free(group *g) {
    if (!g)
        return;
    free(g->perm);
    free(g->mul);
    free(g->label);
    free(g);
}

static bool is_permutation(const uint8_t *p, int n) {
    bool seen[GROUP_MAX_DEGREE] = {false};
    for (int i = 0; i < n; i++) {
        if (p[i] >= n || seen[p[i]])
            return false;
        seen[p[i]] = true;
    }
    return true;
}

typedef struct keyed {
    const uint8_t *p;
    int index, n;
} keyed;

static int by_perm(const void *a, const void *b) {
    const keyed *x = a, *y = b;
    return memcmp(x->p, y->p, (size_t)x->n);
}

// Fills mul and identity; `order` holds the elements sorted by their permutation.
static bool multiply(group *g, const keyed *order, err *e) {
    uint8_t product[GROUP_MAX_DEGREE];
    g->identity = -1;
    for (int a = 0; a < g->size; a++) {
        bool still = true;
        for (int i = 0; i < g->degree; i++)
            still &= group_perm(g, a)[i] == i;
        if (still)
            g->identity = a;
        for (int b = 0; b < g->size; b++) {
            for (int i = 0; i < g->degree; i++)
                product[i] = group_perm(g, a)[group_perm(g, b)[i]];
            keyed want = {product, 0, g->degree};
            const keyed *found = bsearch(&want, order, (size_t)g->size, sizeof *order, by_perm);
            if (!found)
                return err_set(e, ERR_INPUT, "group %s: the product of elements %d and %d is none",
                               text_show(g->name), a, b);
            g->mul[a * g->size + b] = found->index;
        }
    }
    if (g->identity < 0)
        return err_set(e, ERR_INPUT, "group %s: has no identity", text_show(g->name));
    return true;
}

static bool fill(group *g, const uint8_t *perm, const char *const *label, keyed *order, err *e) {
    memcpy(g->perm, perm, (size_t)g->size * (size_t)g->degree);
    for (int a = 0; a < g->size; a++) {
        if (!is_permutation(group_perm(g, a), g->degree))
            return err_set(e, ERR_INPUT, "group %s: element %d is no permutation of 0 to %d",
                           text_show(g->name), a, g->degree - 1);
        order[a] = (keyed){group_perm(g, a), a, g->degree};
        char *to = g->label[a];
        for (int i = 0, n = 0; !label && i < g->degree && n < GROUP_LABEL - 4; i++)
            n += snprintf(to + n, (size_t)(GROUP_LABEL - n), g->degree > 10 && i ? ",%d" : "%d",
                          group_perm(g, a)[i]);
        if (label)
            snprintf(to, GROUP_LABEL, "%s", label[a]);
    }
    qsort(order, (size_t)g->size, sizeof *order, by_perm);
    for (int a = 1; a < g->size; a++)
        if (by_perm(&order[a - 1], &order[a]) == 0)
            return err_set(e, ERR_INPUT, "group %s: elements %d and %d are the same",
                           text_show(g->name), order[a - 1].index, order[a].index);
    return multiply(g, order, e);
}

group *group_from(const char *name, int degree, int size, const uint8_t *perm,
                  const char *const *label, err *e) {
    if (degree < 1 || degree > GROUP_MAX_DEGREE || size < 1 || size > GROUP_MAX_SIZE) {
        err_set(e, ERR_INPUT, "group %s: %d elements of degree %d; at most %d of %d are known here",
                text_show(name), size, degree, GROUP_MAX_SIZE, GROUP_MAX_DEGREE);
        return NULL;
    }
    group *g = mem_zalloc(1, sizeof *g, "a group", e);
    if (!g)
        return NULL;
    snprintf(g->name, sizeof g->name, "%s", name);
    g->degree = degree;
    g->size = size;
    size_t n = (size_t)size;
    g->perm = mem_alloc(n * (size_t)degree, 1, "a group", e);
    g->mul = mem_alloc(n * n, sizeof *g->mul, "a multiplication table", e);
    g->label = mem_zalloc(n, sizeof *g->label, "names of elements", e);
    keyed *order = mem_alloc(n, sizeof *order, "a group", e);
    bool ok = g->perm && g->mul && g->label && order && fill(g, perm, label, order, e);
    free(order);
    if (!ok) {
        group_free(g);
        return NULL;
    }
    return g;
}

static int permutation_sign(const uint8_t *p, int n) {
    int swaps[GROUP_MAX_DEGREE][2];
    return permutation_swaps(p, n, swaps) % 2 ? -1 : 1;
}

static bool next_permutation(uint8_t *p, int n) {
    int i = n - 2, j = n - 1;
    while (i >= 0 && p[i] > p[i + 1])
        i--;
    if (i < 0)
        return false;
    while (p[j] < p[i])
        j--;
    uint8_t t = p[i];
    p[i] = p[j];
    p[j] = t;
    for (int a = i + 1, b = n - 1; a < b; a++, b--) {
        t = p[a];
        p[a] = p[b];
        p[b] = t;
    }
    return true;
}

static group *symmetric(const char *name, int n, bool even, err *e) {
    uint8_t p[8], *all = mem_alloc(720 * 6, 1, "a group", e);
    int size = 0;
    for (int i = 0; i < n; i++)
        p[i] = (uint8_t)i;
    if (!all)
        return NULL;
    do {
        if (!even || permutation_sign(p, n) > 0)
            memcpy(all + size++ * n, p, (size_t)n);
    } while (next_permutation(p, n));
    group *g = group_from(name, n, size, all, NULL, e);
    free(all);
    return g;
}

// Rotations, then reflections, of m corners; two corners do not tell a reflection from the identity,
// so D_2 moves the four directions.
static group *dihedral(const char *name, int m, bool mirrors, err *e) {
    int n = m == 2 && mirrors ? 4 : m, step = n / m, size = mirrors ? 2 * m : m;
    char label[2 * GROUP_MAX_DEGREE][8];
    const char *names[2 * GROUP_MAX_DEGREE];
    uint8_t *all = mem_alloc((size_t)(size * n), 1, "a group", e);
    if (!all)
        return NULL;
    for (int a = 0; a < size; a++) {
        for (int i = 0; i < n; i++)
            all[a * n + i] = (uint8_t)((a % m * step + (a < m ? i : n - i)) % n);
        snprintf(label[a], sizeof label[a], "%c%d", a < m ? 'r' : 's', a % m);
        names[a] = label[a];
    }
    group *g = group_from(name, n, size, all, names, e);
    free(all);
    return g;
}

group *group_named(const char *name, err *e) {
    char kind = (char)toupper((unsigned char)name[0]), shown[32], *end = NULL;
    long n = name[0] && isdigit((unsigned char)name[1]) ? strtol(name + 1, &end, 10) : -1;
    if (end && !*end && n < 1000) {
        snprintf(shown, sizeof shown, "%c%ld", kind, n);
        if (kind == 'S' && n >= 2 && n <= 6)
            return symmetric(shown, (int)n, false, e);
        if (kind == 'A' && n >= 3 && n <= 6)
            return symmetric(shown, (int)n, true, e);
        if (kind == 'C' && n >= 2 && n <= 64)
            return dihedral(shown, (int)n, false, e);
        if (kind == 'D' && n >= 2 && n <= 32)
            return dihedral(shown, (int)n, true, e);
    }
    err_set(e, ERR_USAGE, "%s: no such group; there are S2 to S6, A3 to A6, C2 to C64, D2 to D32",
            text_show(name));
    return NULL;
}

int permutation_swaps(const uint8_t *p, int n, int (*swaps)[2]) {
    bool seen[GROUP_MAX_DEGREE] = {false};
    int count = 0;
    for (int first = 0; first < n; first++) {
        seen[first] = true;
        for (int c = p[first]; !seen[c]; c = p[c]) {
            seen[c] = true;
            swaps[count][0] = first;
            swaps[count++][1] = c;
        }
    }
    return count;
}

int group_swaps(const group *g, int a, int (*swaps)[2]) {
    return permutation_swaps(group_perm(g, a), g->degree, swaps);
}

int group_sign(const group *g, int a) {
    return permutation_sign(group_perm(g, a), g->degree);
}
