#include "analyses/words/task.h"

#include "core/mem.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void task_free(word_task *t) {
    if (!t)
        return;
    free(t->next);
    free(t->input_id);
    free(t->answer_id);
    free(t->input);
    free(t->state);
    group_free(t->g);
    free(t);
}

// Names and ids are left to the caller.
static word_task *blank(const char *name, int n_inputs, int n_states, err *e) {
    word_task *t = mem_zalloc(1, sizeof *t, "a word problem", e);
    if (!t)
        return NULL;
    size_t in = (size_t)n_inputs, states = (size_t)n_states;
    snprintf(t->name, sizeof t->name, "%s", name);
    t->n_inputs = n_inputs;
    t->n_states = n_states;
    t->next = mem_zalloc(in * states, sizeof *t->next, "an automaton", e);
    t->input_id = mem_zalloc(in, sizeof *t->input_id, "ids", e);
    t->answer_id = mem_zalloc(states, sizeof *t->answer_id, "ids", e);
    t->input = mem_zalloc(in, sizeof *t->input, "names", e);
    t->state = mem_zalloc(states, sizeof *t->state, "names", e);
    if (t->next && t->input_id && t->answer_id && t->input && t->state)
        return t;
    task_free(t);
    return NULL;
}

static void multiply(word_task *t) {
    for (int y = 0; y < t->n_states; y++)
        for (int x = 0; x < t->n_inputs; x++)
            t->next[y * t->n_inputs + x] = t->left ? group_mul(t->g, x, y) : group_mul(t->g, y, x);
}

word_task *task_of_group(group *g, bool left, int n_prefix, err *e) {
    word_task *t = blank(g->name, g->size, g->size, e);
    if (!t) {
        group_free(g);
        return NULL;
    }
    t->g = g;
    t->left = left;
    t->start = g->identity;
    t->n_prefix = n_prefix;
    for (int a = 0; a < g->size; a++) {
        t->input_id[a] = t->answer_id[a] = a;
        memcpy(t->input[a], g->label[a], GROUP_LABEL);
        memcpy(t->state[a], g->label[a], GROUP_LABEL);
    }
    for (int i = 0; i < n_prefix; i++)
        t->prefix[i] = g->size + i;
    multiply(t);
    return t;
}

bool task_set_order(word_task *t, bool left, err *e) {
    if (!t->g)
        return err_set(e, ERR_USAGE, "option --order: %s is no group, its words have one order",
                       text_show(t->name));
    t->left = left;
    multiply(t);
    return true;
}

void task_default_ids(word_task *t) {
    t->n_prefix = 1;
    t->prefix[0] = t->n_inputs;
    for (int i = 0; i < t->n_inputs; i++)
        t->input_id[i] = i;
    for (int i = 0; i < t->n_states; i++)
        t->answer_id[i] = t->n_inputs + 1 + i;
}

word_task *task_of_automaton(const char *name, int n_inputs, const char *const *input, int n_states,
                             const char *const *state, int start, const int32_t *next, err *e) {
    word_task *t = blank(name, n_inputs, n_states, e);
    if (!t)
        return NULL;
    t->start = start;
    task_default_ids(t);
    memcpy(t->next, next, (size_t)n_inputs * (size_t)n_states * sizeof *next);
    for (int i = 0; i < n_inputs; i++)
        snprintf(t->input[i], GROUP_LABEL, "%s", input[i]);
    for (int i = 0; i < n_states; i++)
        snprintf(t->state[i], GROUP_LABEL, "%s", state[i]);
    return t;
}

// ---- built-in automata ----------------------------------------------------------------------------

// Counts modulo m: inputs +0 .. +(m-1), and "reset" to 0.
static word_task *counter(int m, err *e) {
    char in[17][8], st[16][8], name[32];
    const char *input[17], *state[16];
    int32_t next[16 * 17];
    for (int i = 0; i < m; i++) {
        snprintf(in[i], sizeof in[i], "+%d", i);
        snprintf(st[i], sizeof st[i], "=%d", i);
        input[i] = in[i];
        state[i] = st[i];
        for (int s = 0; s < m; s++)
            next[s * (m + 1) + i] = (s + i) % m;
        next[i * (m + 1) + m] = 0;
    }
    input[m] = "reset";
    snprintf(name, sizeof name, "mod%d-reset", m);
    return task_of_automaton(name, m + 1, input, m, state, 0, next, e);
}

word_task *task_named(const char *name, err *e) {
    int m = 0, end = 0;
    if (strcmp(name, "parity") == 0)
        return task_of_automaton(name, 2, (const char *[]){"0", "1"}, 2,
                                 (const char *[]){"even", "odd"}, 0, (int32_t[]){0, 1, 1, 0}, e);
    if (strcmp(name, "flip-flop") == 0)
        return task_of_automaton(name, 3, (const char *[]){"keep", "set", "clear"}, 2,
                                 (const char *[]){"off", "on"}, 0, (int32_t[]){0, 1, 0, 1, 1, 0},
                                 e);
    // A cycle of all states, a swap of two, and a reset to the middle one.
    if (strcmp(name, "five-state") == 0)
        return task_of_automaton(
            name, 4, (const char *[]){"stay", "cycle", "swap", "middle"}, 5,
            (const char *[]){"q0", "q1", "q2", "q3", "q4"}, 0,
            (int32_t[]){0, 1, 1, 2, 1, 2, 0, 2, 2, 3, 2, 2, 3, 4, 3, 2, 4, 0, 4, 2}, e);
    if (sscanf(name, "mod%d-reset%n", &m, &end) == 1 && end && !name[end] && m >= 2 && m <= 16)
        return counter(m, e);
    return NULL;
}

// ---- facts ------------------------------------------------------------------------------------------

int32_t task_last_id(const word_task *t) {
    int32_t last = 0;
    for (int i = 0; i < t->n_inputs; i++)
        last = t->input_id[i] > last ? t->input_id[i] : last;
    for (int i = 0; i < t->n_states; i++)
        last = t->answer_id[i] > last ? t->answer_id[i] : last;
    for (int i = 0; i < t->n_prefix; i++)
        last = t->prefix[i] > last ? t->prefix[i] : last;
    return last;
}

double task_chance(const word_task *t) {
    return 1.0 / t->n_states;
}

const char *task_file_name(const word_task *t) {
    return t->g ? "group.json" : "automaton.json";
}
