// The table of constructions.
#include "analyses/theory/theory.h"

#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const theory theories[] = {
    {"s<n>", 2, 6, "T01 T02", "S_n in one layer with n_h = n - 1 (DeltaProduct, Theorem 1)",
     "A permutation with c cycles is n - c swaps. The swap of a and b is the reflection with key "
     "(e_a - e_b)/sqrt 2 and beta 2; micro-steps that are left over have beta 0. BOS writes the "
     "centred identity with n - 1 orthonormal keys and beta 1, so the state is the permutation "
     "matrix of all tokens so far. It is read with q ~ (1..n); the n! read-outs are permutations "
     "of "
     "one vector, so the largest product tells the element.\n"
     "Keys pass SiLU, which never goes below -0.278: whole keys are scaled to entries of 0.27. "
     "FLA's "
     "L2 norm (eps 1e-6) then costs 1.4e-5 of beta |k|^2 a reflection: the state shrinks by some "
     "percent over 4096 tokens, its direction stays.",
     NULL, theory_symmetric},
    {"s3-rotations", 0, 0, "T04", "S3 as D3 in O(2), n_h = 2 (Theorem 4)",
     "Odd elements are one reflection of the plane, even ones two: a rotation by twice the angle "
     "between the keys. BOS writes I_2.",
     NULL, theory_s3_rotations},
    {"a4-rotations", 0, 0, "T04", "A4 as rotations of the tetrahedron, n_h = 2 (Theorem 4)",
     "A rotation by theta about an axis is two reflections whose keys are perpendicular to the "
     "axis, "
     "theta/2 apart. Two prefix tokens write I_3, which has rank 3 > n_h.",
     NULL, theory_a4_rotations},
    {"s4-rotations", 0, 0, "T04", "S4 as rotations of the cube, n_h = 2 (Theorem 4)",
     "The 24 rotations move the cube's four diagonals like S4. Keys as in a4-rotations; two prefix "
     "tokens write I_3.",
     NULL, theory_s4_rotations},
    {"a5-rotations", 0, 0, "T04", "A5 as rotations of the dodecahedron, n_h = 2 (Theorem 4)",
     "The 60 rotations move five frames of orthogonal two-fold axes like A5. Keys as in "
     "a4-rotations; two prefix tokens write I_3. A5 is the smallest group that is not solvable.",
     NULL, theory_a5_rotations},
    {"c<n>", 2, 16, "T04 T08", "C_n, addition modulo n, as rotations of the plane, n_h = 2",
     "Token r_i turns by 360 i/n degrees: keys 180 i/n degrees apart, beta 2 and 2. c3 is the "
     "mod-3 "
     "counter of DeltaProduct 2.4, whose r1 has the keys (1, 0) and (1/2, sqrt 3/2).",
     NULL, theory_cyclic},
    {"mod3", 0, 0, "T08 G02", "the mod-3 counter: one 120-degree rotation a token (c3)",
     "Keys (1, 0) and (1/2, sqrt 3/2), beta 2 and 2: F2 F1 turns by 120 degrees and has the "
     "eigenvalues exp(+-2 pi i/3), which no single factor can have.",
     NULL, theory_cyclic},
    {"d<n>-rotations", 2, 16, "T04", "D_n as symmetries of the n-gon, one layer, n_h = 2",
     "Rotations are two reflections, reflections one. BOS writes I_2; q halfway between two "
     "mirrors.",
     NULL, theory_dihedral_rotations},
    {"d<n>", 2, 16, "T05", "D_n in two layers with n_h = 1 (Theorem 7)",
     "With one reflection a token, t tokens have determinant (-1)^t: wrong whenever the number e "
     "of "
     "rotations so far is odd. Layer 0 keeps the sign (-1)^e; layer 1 keeps S^e y, for which every "
     "token is a reflection with mirror angle (-1)^e alpha, and reads it with S^e q. An MLP "
     "between "
     "them multiplies the token by the sign. The paper only sketches this; the derivation is ours.",
     NULL, theory_dihedral},
    {"s3-lookup", 0, 0, "T03", "S3 in four layers with n_h = 1 and a look-up MLP (Theorem 3)",
     "Blocks of m = 2 tokens. Layers 0 and 1 count positions mod 4, layer 2 keeps the last four "
     "tokens, an MLP with 2m (n!)^(2m) = 5184 hidden units looks up which swap of the previous "
     "block's product to apply now and how to read a state that is behind. An existence proof: a "
     "table of this size says nothing about what training finds. theory --cost counts the others.",
     NULL, theory_s3_lookup},
    {"parity", 0, 0, "T06", "parity of the ones read, one number as state",
     "K = V = 1. Token 1 has beta 2: H <- -H. Token 0 has beta 0.", NULL, theory_parity},
    {"flip-flop", 0, 0, "T06", "one bit that tokens set, clear or keep",
     "K = V = 1. beta 1 overwrites the state with +-v, beta 0 keeps it.", NULL, theory_flip_flop},
    {"mod<n>-reset", 2, 16, "T06", "a counter modulo n with a reset token",
     "Rotations as in c<n>; the reset has gate 0, which empties the state, and writes I_2 anew.",
     NULL, theory_counter_reset},
    {"five-state", 0, 0, "T06", "a permutation-reset automaton with five states",
     "Column 0 of the state holds the unit vector of the automaton's state, column 1 a coordinate "
     "that no swap touches: o_norm keeps their quotient. Permutations are swaps, resets gate 0 and "
     "two writes. theory FILE.json builds any automaton of this kind.",
     NULL, theory_five_state},
    {"rwkv7-swap", 0, 0, "T07", "any map of n points by RWKV-7 factors I - c (a kappa) kappa^T",
     "With c = 2, a = e_x copies coordinate y into x and a = (1..1) swaps them (kappa = (e_x - "
     "e_y)/"
     "sqrt 2).",
     "RWKV-7's rate in FLA's layout is a = sigmoid(.), so c a stays below 1: eigenvalues of one "
     "token lie in (0, 1], and the swap needs -1",
     NULL},
    {"krohn-rhodes", 0, 0, "T06",
     "every regular language, by a cascade of permutation-reset automata",
     "Each stage is a layer like five-state's, its input the token and the states of the stages "
     "before.",
     "the cascade of a given automaton has to be found first (Krohn-Rhodes decomposition), which "
     "this program does not do; single stages can be built with theory FILE.json",
     NULL},
    {"s<n>-lookup", 4, 6, "T03", "S_n with n_h < n - 1 by look-up (Theorem 3)",
     "As s3-lookup, with three layers for n_h > 1 and four for n_h = 1.",
     "the table is too large for a file: 1327104 hidden units for S4 with n_h = 2, and more for "
     "all "
     "others (theory --cost)",
     NULL},
    {"tc0-nc1", 0, 0, "T09", "complexity: what needs more than TC0",
     "S5's word problem is complete for NC1; one layer of real eigenvalues stays in TC0.",
     "a statement about classes of circuits, not a construction: expressivity, not learned "
     "behaviour",
     NULL},
};
const size_t n_theories = sizeof theories / sizeof *theories;

// NAME against "s<n>-lookup": the number, 0 without one; -1: another name.
static int match(const theory *t, const char *name) {
    const char *hole = strstr(t->name, "<n>");
    if (!hole)
        return strcmp(t->name, name) == 0 ? 0 : -1;
    size_t front = (size_t)(hole - t->name), digits;
    if (strncmp(t->name, name, front) != 0)
        return -1;
    digits = strspn(name + front, "0123456789");
    if (digits == 0 || digits > 3 || strcmp(name + front + digits, hole + 3) != 0)
        return -1;
    return atoi(name + front);
}

const theory *theory_find(const char *name, int *n, err *e) {
    int best = text_near(name) + 1;
    const char *near = NULL;
    for (size_t i = 0; i < n_theories; i++) {
        const theory *t = &theories[i];
        int got = match(t, name);
        if (got >= 0 && (t->hi == 0 || (got >= t->lo && got <= t->hi))) {
            *n = strcmp(name, "mod3") == 0 ? 3 : got;
            return t;
        }
        if (got >= 0) {
            err_set(e, ERR_USAGE, "theory %s: n goes from %d to %d", text_show(name), t->lo, t->hi);
            return NULL;
        }
        int d = text_distance(name, t->name, best);
        if (d < best) {
            best = d;
            near = t->name;
        }
    }
    err_set(e, ERR_USAGE, "theory %s: no such construction%s%s (deltop theory --list)",
            text_show(name), near ? "; the nearest is " : "", near ? near : "");
    return NULL;
}

void theory_built_free(theory_built *b) {
    product_free(b->m);
    task_free(b->task);
    *b = (theory_built){0};
}

bool theory_build(const char *name, theory_built *b, err *e) {
    int n = 0;
    *b = (theory_built){0};
    if (file_ends_with(name, ".json")) {
        word_task *t = task_read(name, e);
        if (t && t->g) {
            err_set(e, ERR_INPUT,
                    "%s: is a group; its construction has a name (deltop theory --list)",
                    text_show(name));
            task_free(t);
            return false;
        }
        return t && theory_automaton(t, b, e);
    }
    const theory *t = theory_find(name, &n, e);
    if (!t)
        return false;
    if (t->why_not)
        return err_set(e, ERR_UNSUPPORTED, "theory %s: cannot be written in FLA's layout: %s",
                       text_show(name), t->why_not);
    return t->build(n, b, e);
}

// ---- look-up sizes (T03) ----------------------------------------------------------------------------

int theory_block(int n, int n_h) {
    return (n - 1 + n_h - 1) / n_h;
}

enum { LIMB = 1000000000, LIMBS = THEORY_COST_DIGITS / 9 };

// x *= by; false when it grows out of LIMBS.
static bool multiply(uint32_t *x, int *n, uint32_t by) {
    uint64_t carry = 0;
    for (int i = 0; i < *n; i++) {
        uint64_t v = (uint64_t)x[i] * by + carry;
        x[i] = (uint32_t)(v % LIMB);
        carry = v / LIMB;
    }
    if (carry && *n == LIMBS)
        return false;
    if (carry)
        x[(*n)++] = (uint32_t)carry;
    return true;
}

bool theory_cost(int n, int n_h, char *buf, size_t size) {
    uint32_t x[LIMBS] = {1};
    int limbs = 1, m = theory_block(n, n_h);
    bool ok = multiply(x, &limbs, 2 * (uint32_t)m);
    for (int i = 0; ok && i < 2 * m; i++)
        for (int f = 2; ok && f <= n; f++)
            ok = multiply(x, &limbs, (uint32_t)f);
    if (!ok || (size_t)limbs * 9 >= size)
        return false;
    int at = snprintf(buf, size, "%u", x[limbs - 1]);
    for (int i = limbs - 2; i >= 0; i--)
        at += snprintf(buf + at, size - (size_t)at, "%09u", x[i]);
    return true;
}
