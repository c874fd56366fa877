// analyses/theory/theory.h - checkpoints that do what the theorems say (science.md 1E, 3).
//
// A row of the table is one construction, or a family of them with a number in its name (s4, d5).
// Building gives a DeltaProduct model in FLA's layout and the word problem that it solves; writing
// puts both into a folder with a tokenizer whose words are the inputs' names.
#ifndef DELTOP_THEORY_H
#define DELTOP_THEORY_H

#include "analyses/words/task.h"
#include "core/families/fla_write.h"

typedef struct theory_built {
    product_model *m; // owned
    word_task *task;  // owned
    double margin;    // 1 less the largest cosine between the read-outs of two answers
} theory_built;
void theory_built_free(theory_built *b); // an empty one is fine

typedef struct theory {
    const char *name;    // "s<n>", "parity"
    int lo, hi;          // of <n>
    const char *ids;     // "T01 T02"
    const char *what;    // the statement, one sentence
    const char *how;     // the construction, several sentences
    const char *why_not; // NULL: it can be built
    bool (*build)(int n, theory_built *b, err *e);
} theory;

extern const theory theories[];
extern const size_t n_theories;

// By name ("s4"): the row, and its number. ERR_USAGE names the nearest or the allowed numbers.
const theory *theory_find(const char *name, int *n, err *e);
// Builds NAME, or the automaton in NAME when that is a file that ends in .json. On failure *b is
// empty. ERR_UNSUPPORTED with the reason when it does not fit FLA's layout.
bool theory_build(const char *name, theory_built *b, err *e);
// config.json, model.safetensors, tokenizer.json, tokenizer_config.json, group.json or
// automaton.json, and sample.npy (a random word of 4096 tokens behind its prefix) into FOLDER, which
// exists. name goes into group.json ("theory").
bool theory_write(const theory_built *b, const char *name, const char *folder, err *e);

// Constructions (one file each) --------------------------------------------------------------------
bool theory_symmetric(int n, theory_built *b, err *e);    // S_n by swaps, n_h = n - 1
bool theory_s3_rotations(int n, theory_built *b, err *e); // in O(2), n_h = 2
bool theory_a4_rotations(int n, theory_built *b, err *e); // SO(3), n_h = 2
bool theory_s4_rotations(int n, theory_built *b, err *e);
bool theory_a5_rotations(int n, theory_built *b, err *e);
bool theory_cyclic(int m, theory_built *b, err *e);             // C_m, n_h = 2
bool theory_dihedral_rotations(int m, theory_built *b, err *e); // D_m, n_h = 2
bool theory_dihedral(int m, theory_built *b, err *e);           // D_m, two layers, n_h = 1
bool theory_parity(int n, theory_built *b, err *e);             // K = V = 1
bool theory_counter_reset(int m, theory_built *b, err *e);      // modulo m with reset, n_h = 2
bool theory_flip_flop(int n, theory_built *b, err *e);
bool theory_five_state(int n, theory_built *b, err *e);
// Any permutation-reset automaton; takes t, also on failure.
bool theory_automaton(word_task *t, theory_built *b, err *e);
bool theory_s3_lookup(int n, theory_built *b, err *e); // four layers, n_h = 1, a table in an MLP

// What layers and tables the general construction needs (T03).
// m = ceil((n - 1) / n_h) tokens a block; table entries 2 m (n!)^(2 m), exact.
int theory_block(int n, int n_h);
enum { THEORY_COST_DIGITS = 4096 };
// Decimal digits of the number of entries into buf; false when they do not fit.
bool theory_cost(int n, int n_h, char *buf, size_t size);

#endif
