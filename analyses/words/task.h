// analyses/words/task.h - a word problem: which token ids come in, and which id is right after each.
//
// Every task is a finite automaton over ids. State s and input x give next[s, x]; the answer behind
// the input is the id of the new state. A word problem of a group G has G's elements as inputs and as
// states:
//
//     left   y_t = x_t . y_{t-1}      newest factor on the left, as the recurrences multiply
//     right  y_t = y_{t-1} . x_t
//
// The row that a model reads is the prefix (BOS, or more tokens that write a start state), then the
// word. Files: group.json and automaton.json of a checkpoint, and automata written by hand:
//
//     {"automaton": "parity", "tokens": ["0", "1"], "states": ["even", "odd"], "start": "even",
//      "next": {"even": {"0": "even", "1": "odd"}, "odd": {"0": "odd", "1": "even"}}}
//
// Ids there (optional): "ids" {token: id}, "answers" {state: id}, "prefix" [ids]. Silent: tokens from
// 0 on, then one BOS, then the states.
#ifndef DELTOP_TASK_H
#define DELTOP_TASK_H

#include "analyses/words/group.h"

#include <jansson.h>

enum { TASK_MAX_PREFIX = 8, TASK_MAX_STATES = GROUP_MAX_SIZE };

typedef struct word_task {
    char name[64];
    int n_inputs, n_states, start;
    int32_t *next;                                     // [n_states, n_inputs]
    int32_t *input_id;                                 // [n_inputs]
    int32_t *answer_id;                                // [n_states]
    char (*input)[GROUP_LABEL], (*state)[GROUP_LABEL]; // their names
    int32_t prefix[TASK_MAX_PREFIX];
    int n_prefix;
    group *g;             // NULL for other automata; owned
    bool left;            // the order, for groups
    int64_t train_length; // 0: unknown
    bool theory;          // of a checkpoint that deltop theory wrote
} word_task;

// Word problem of G, which it takes (also on failure). Elements have the ids 0 .. size-1, prefix:
// ids size .. size+n_prefix-1.
word_task *task_of_group(group *g, bool left, int n_prefix, err *e);
// By hand: next [n_states, n_inputs] and names are copied; ids as in a silent file.
word_task *task_of_automaton(const char *name, int n_inputs, const char *const *input, int n_states,
                             const char *const *state, int start, const int32_t *next, err *e);
// "parity", "flip-flop", "modM-reset" (M = 2 to 16), "five-state"; NULL and no error: none of that
// name.
word_task *task_named(const char *name, err *e);
void task_free(word_task *t); // NULL is fine
// Ids as in a silent file: inputs, one BOS, states.
void task_default_ids(word_task *t);

// group.json or automaton.json of a model's folder (PATH: the folder, or a file in it); NULL and no
// error when there is neither.
word_task *task_of_model(const char *path, err *e);
word_task *task_read(const char *file, err *e);
// The other multiplication order. ERR_USAGE for a task that is no group's.
bool task_set_order(word_task *t, bool left, err *e);

// What group.json or automaton.json holds. NULL on failed allocation.
json_t *task_json(const word_task *t);
const char *task_file_name(const word_task *t);

// The largest id that it uses, and the share of right answers of somebody who guesses.
int32_t task_last_id(const word_task *t);
double task_chance(const word_task *t);

#endif
