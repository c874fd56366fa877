// analyses/theory/single.h - one layer, one head: what a construction has to say about each token.
#ifndef DELTOP_THEORY_SINGLE_H
#define DELTOP_THEORY_SINGLE_H

#include "analyses/theory/net.h"
#include "analyses/theory/theory.h"

typedef struct single {
    word_task *task; // taken, also on failure
    int K, V, n_h;
    bool forget;
    micro *micro;    // [tokens, n_h]: token = id of inputs and prefix
    bool *wipe;      // [tokens]: the state is emptied before the token
    double *answer;  // [n_states, V]: the ideal read-out of each state; any length above 0
    double q[64];    // [K]
    double *vectors; // room for keys and values that micro points to
    size_t used, room;
} single;

// Ids 0 .. tokens-1 have micro-steps, all with beta 0 so far.
bool single_init(single *s, word_task *task, int K, int V, int n_h, size_t vectors, err *e);
// A copy of x [n] that lives as long as s; NULL stays NULL.
const double *single_keep(single *s, const double *x, int n);
// Micro-step j of token `id`.
void single_set(single *s, int id, int j, double beta, const double *key, const double *v);
// Makes the model; frees what s holds, also on failure.
bool single_build(single *s, theory_built *b, err *e);
void single_free(single *s);

#endif
