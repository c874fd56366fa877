// analyses/explain.h - every recurrence of the field as a row of one table (science.md R01-R14).
//
// A row says in words and symbols what one token does to the state H (K x V): the loss that the
// update descends, its gradient, the update, the transition matrix A, what bounds A's eigenvalues,
// and how far the "gradient" is to be taken literally (E18). Beside the words stand the same things
// as functions, so that explain_measure can check the words with numbers, and the tests with it.
// Formulas are UTF-8; whoever needs ASCII transcribes them (cli/explain_print.h).
#ifndef DELTOP_EXPLAIN_H
#define DELTOP_EXPLAIN_H

#include "core/err.h"
#include "core/progress.h"
#include "core/steps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    GRADIENT_LITERAL,  // H - grad L(H) is the update
    GRADIENT_DECAYED,  // the same, but the gradient is taken at the decayed state
    GRADIENT_STEPS,    // n_h gradient steps, each on its own pair, from the decayed state
    GRADIENT_IMPLICIT, // the update is the minimiser: grad L(new H) = 0
    GRADIENT_FORMAL,   // the loss is quoted, but its gradient is not the update
    GRADIENT_NONE,     // no loss is known
} gradient_kind;

enum { EXPLAIN_K = 8, EXPLAIN_V = 6, EXPLAIN_MICRO = 2, EXPLAIN_WINDOW = 8 };

// One random token in front of a random state (analyses/explain_math.c).
typedef struct explain_draw explain_draw;

typedef struct recurrence {
    const char *id;       // row of science.md: "R07"
    const char *name;     // "Gated DeltaNet"
    const char *alias;    // other words for it, separated by blanks, lower case
    const char *families; // model_type values that use it, separated by blanks; "" = none
    const char *idea;     // one sentence

    const char *loss;       // in H (or X)
    const char *gradient;   // of that loss
    const char *update;     // "H ← ..."
    const char *transition; // A
    const char *brief;      // A in a few characters, with F = I − β k kᵀ: for the comparison
    const char *spectrum;   // eigenvalues of one A
    const char *bound;      // what keeps them, and products of them, where they are
    const char *caution;    // where the gradient is literal or formal, errata; may be ""

    gradient_kind kind;
    decay_kind decay;
    erase_kind erase;
    int n_h;         // micro-steps of the random token
    double beta_max; // of the random token; 0: the recurrence has no write strength

    // Loss of micro-step j at X [K, V]; NULL: none.
    double (*loss_at)(const explain_draw *d, int j, const double *X);
    // The recurrence as its own source writes it, without core/steps.h: H -> out.
    void (*own)(const explain_draw *d, double *out);
    // Overwrites what is special in a random token (keys of another kind ...); NULL: nothing.
    void (*special)(explain_draw *d, uint64_t *seed);
    // A known case that is told beside the random ones; NULL: none.
    double (*known)(void);
    const char *known_what; // "spectral radius of a product of two allowed steps ..."
    double known_want;      // its value in closed form
} recurrence;

extern const recurrence recurrences[];
extern const size_t n_recurrences;

// By model_type, name, alias or id, whatever its case and with '-', '_' and blanks alike. NULL when
// there is none; *nearest is then the closest word that there is, NULL when none is near.
const recurrence *explain_find(const char *word, const char **nearest);
// Why a word that is a model_type has no row (RWKV-4 has no matrix state); NULL: it is unknown.
const char *explain_why_not(const char *word);

// Measured over `draws` random tokens (K = 8, V = 6), float64. NaN: does not apply.
typedef struct explain_figures {
    int draws;
    double steps; // largest |A H + B - own(H)| / |own(H)|: the row as core/steps.h has it

    // Central differences of the loss, taken where the row says. GRADIENT_IMPLICIT: the largest
    // entry of the gradient at the new state, else |X - grad L(X) - own(H)|; both over the largest
    // entry of the new state. Formal rows: by how much the formal gradient misses.
    double gradient, gradient_median; // largest and median over the draws
    double at_old;                    // the same with the gradient at the old state H, median (E18)
    double tied;                      // Comba: largest, with p = k
    double asymmetry;                 // largest |A - A^T|_F / |A|_F

    double real_lo, real_hi, imag; // of the eigenvalues of one A
    double radius, norm;           // largest |eigenvalue| and |A|_2 of one A
    double window_radius,
        window_norm; // of products of EXPLAIN_WINDOW tokens' A, newest on the left
    double known;
} explain_figures;

// progress counts draws; it and its ctx may be NULL.
bool explain_measure(const recurrence *r, int draws, uint64_t seed, progress_fn progress,
                     void *progress_ctx, explain_figures *f, err *e);

// "literal", "at the decayed state" ...
const char *explain_gradient_word(gradient_kind k);

#endif
