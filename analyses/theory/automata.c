// Permutation-reset automata in one layer: swaps for tokens that permute the states, a gate of 0 and
// a write for tokens that reset (T06, DeltaProduct Theorem 2; science.md 3.6).
#include "analyses/theory/single.h"

#include "core/text.h"

#include <math.h>
#include <string.h>

bool theory_parity(int n, theory_built *b, err *e) {
    (void)n;
    single s;
    if (!single_init(&s, task_named("parity", e), 1, 1, 1, 8, e))
        return false;
    double one[1] = {1};
    s.q[0] = 1;
    single_set(&s, s.task->prefix[0], 0, 1, one, one);
    single_set(&s, 1, 0, 2, one, NULL);
    s.answer[0] = 1;
    s.answer[1] = -1;
    return single_build(&s, b, e);
}

// beta = 1 alone overwrites the one number that there is.
bool theory_flip_flop(int n, theory_built *b, err *e) {
    (void)n;
    single s;
    if (!single_init(&s, task_named("flip-flop", e), 1, 1, 1, 16, e))
        return false;
    double one[1] = {1}, on[1] = {SILU_LOW}, off[1] = {-SILU_LOW};
    s.q[0] = 1;
    single_set(&s, s.task->prefix[0], 0, 1, one, off);
    single_set(&s, 1, 0, 1, one, on);
    single_set(&s, 2, 0, 1, one, off);
    s.answer[0] = -1;
    s.answer[1] = 1;
    return single_build(&s, b, e);
}

// +i turns the plane by 2 pi i / m; reset wipes it and writes I_2, as BOS does.
bool theory_counter_reset(int m, theory_built *b, err *e) {
    single s;
    char name[32];
    snprintf(name, sizeof name, "mod%d-reset", m);
    if (!single_init(&s, task_named(name, e), 2, 2, 2, (size_t)(m + 4) * 8, e))
        return false;
    s.q[0] = cos(M_PI / 8);
    s.q[1] = sin(M_PI / 8);
    for (int i = 0; i < m; i++) {
        double theta = 2 * M_PI * i / m;
        if (i > 0) {
            single_set(&s, i, 0, 2, (double[]){1, 0}, NULL);
            single_set(&s, i, 1, 2, (double[]){cos(theta / 2), sin(theta / 2)}, NULL);
        }
        s.answer[2 * i] = cos(theta) * s.q[0] + sin(theta) * s.q[1];
        s.answer[2 * i + 1] = -sin(theta) * s.q[0] + cos(theta) * s.q[1];
    }
    s.wipe[m] = true;
    const int writers[] = {m, s.task->prefix[0]};
    for (int i = 0; i < 2; i++) {
        single_set(&s, writers[i], 0, 1, (double[]){1, 0}, (double[]){1, 0});
        single_set(&s, writers[i], 1, 1, (double[]){0, 1}, (double[]){0, 1});
    }
    return single_build(&s, b, e);
}

// ---- any permutation-reset automaton ----------------------------------------------------------------

enum { MOST_STATES = 48 };

typedef enum { PERMUTES, RESETS, NEITHER } action;

static action what_it_does(const word_task *t, int x, uint8_t *p) {
    bool seen[MOST_STATES] = {false}, same = true, all = true;
    for (int s = 0; s < t->n_states; s++) {
        int to = t->next[s * t->n_inputs + x];
        same &= to == t->next[x];
        all &= !seen[to];
        seen[to] = true;
        p[s] = (uint8_t)to;
    }
    return all ? PERMUTES : same ? RESETS : NEITHER;
}

// Fewest micro-steps: the swaps of the worst token, and two for a write. 0: *e says which token is
// neither.
static int micro_steps(const word_task *t, err *e) {
    int most = 2, swaps[MOST_STATES][2];
    uint8_t p[MOST_STATES];
    for (int x = 0; x < t->n_inputs; x++) {
        action a = what_it_does(t, x, p);
        int n = a == PERMUTES ? permutation_swaps(p, t->n_states, swaps) : 2;
        if (a == NEITHER) {
            err_set(
                e, ERR_UNSUPPORTED,
                "automaton %s: token \"%s\" neither permutes the states nor resets them to one; "
                "such automata need a cascade (Krohn-Rhodes), which one layer is not and which "
                "this program does not decompose",
                text_show(t->name), text_show(t->input[x]));
            return 0;
        }
        most = n > most ? n : most;
    }
    return most;
}

// H has the state's unit vector in column 0, and a coordinate that no swap touches in column 1: their
// quotient tells the state after o_norm, q = (1 .. n, 3).
static void write_state(single *s, int id, int state) {
    double k[64] = {0}, v[2] = {1, 0}, reference[2] = {0, 1};
    k[state] = 1;
    single_set(s, id, 0, 1, k, v);
    k[state] = 0;
    k[s->K - 1] = 1;
    single_set(s, id, 1, 1, k, reference);
}

bool theory_automaton(word_task *t, theory_built *b, err *e) {
    single s;
    *b = (theory_built){0};
    task_default_ids(t);
    if (t->n_states < 2 || t->n_states > MOST_STATES) {
        err_set(e, ERR_UNSUPPORTED,
                "automaton %s: %d states and %d prefix tokens; 2 to %d and 1 are built",
                text_show(t->name), t->n_states, t->n_prefix, MOST_STATES);
        task_free(t);
        return false;
    }
    int n = t->n_states, n_h = micro_steps(t, e), swaps[MOST_STATES][2];
    if (!n_h) {
        task_free(t);
        return false;
    }
    size_t vectors = (size_t)(t->n_inputs + 2) * (size_t)n_h * (size_t)(n + 3);
    if (!single_init(&s, t, n + 1, 2, n_h, vectors, e))
        return false;
    for (int i = 0; i <= n; i++)
        s.q[i] = i < n ? i + 1 : 3;
    for (int i = 0; i < n; i++) {
        s.answer[2 * i] = i + 1;
        s.answer[2 * i + 1] = 3;
    }
    write_state(&s, t->prefix[0], t->start);
    for (int x = 0; x < t->n_inputs; x++) {
        uint8_t p[MOST_STATES];
        if (what_it_does(t, x, p) == RESETS) {
            s.wipe[x] = true;
            write_state(&s, x, p[0]);
            continue;
        }
        int count = permutation_swaps(p, n, swaps);
        for (int j = 0; j < count; j++) {
            double k[64] = {0};
            k[swaps[j][0]] = 1;
            k[swaps[j][1]] = -1;
            single_set(&s, x, j, 2, k, NULL);
        }
    }
    return single_build(&s, b, e);
}

bool theory_five_state(int n, theory_built *b, err *e) {
    (void)n;
    word_task *t = task_named("five-state", e);
    return t && theory_automaton(t, b, e);
}
