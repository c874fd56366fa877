// cli/session.h - what commands that read documents with a model do before their own work: open the
// device, a model and its tokenizer, and cut a document into rows.
#ifndef DELTOP_SESSION_H
#define DELTOP_SESSION_H

#include "cli/options.h"
#include "core/document.h"
#include "core/forward.h"
#include "core/tokenizer.h"

#include <jansson.h>
#include <stdio.h>

typedef struct session {
    const options *o;
    backend *be;  // owned
    model *m;     // the model opened last, owned
    tokenizer *t; // its tokenizer, NULL when no document needs one; owned
    int32_t bos;  // for --add-bos and --reset-at-bos, -1 otherwise
    FILE *input;  // standard input kept, so that several models can read it; owned
    bool told;    // remarks about models and documents have been made before: not again
} session;

// Opens the device of --device in the precision of --precision.
bool session_open(session *s, const options *o, err *e);
void session_close(session *s); // also after a failed open

// Opens o->model[i] and, when a document needs one, its tokenizer; the one before is closed. What
// the loader noticed (stray files, old names) is said as notes, tensors that nothing reads as a
// warning. Without a backend only the head is read: names and shapes. The training length is that of --train-length, else the config's.
bool session_model(session *s, size_t i, err *e);
int64_t session_train_length(const session *s);

// Opens every model in turn, and does WORK with each of its documents. A number that cannot be
// computed, a selection that is not there and a model that the work does not apply to are told
// with the model's name in front.
typedef bool (*session_work)(void *ctx, size_t model, size_t document, err *e);
bool session_each(session *s, session_work work, void *ctx, err *e);

// A document cut into rows of --length tokens (default: all of it), --rows of them (default 1,
// 0 = all whole ones), each from a zero state.
typedef struct rows {
    document d;     // owned
    int64_t length; // tokens of a row
    int64_t n;      // rows
    int64_t unread; // tokens of the document after the last row
    int64_t
        resets; // how often a state that had read something was emptied: row and document starts
    int64_t
        dropped; // tokens that such states had read: context that later tokens did not get (B127)
    row_options *opt; // [n]: where the state is emptied inside a row; owned
    int64_t *starts;  // storage of opt; owned
} rows;

// least: tokens that a row must have for the command to make sense (2 for losses). A document with
// fewer than --length tokens is one shorter row, with a note.
bool session_rows(session *s, size_t document, int64_t least, rows *r, err *e);
void rows_free(rows *r); // an empty one is fine
static inline const int32_t *rows_ids(const rows *r, int64_t row) {
    return r->d.ids + row * r->length;
}

// Tokens per block: --block, else a size that keeps activations small beside the weights.
int64_t session_block(const session *s);

// "cpu, f32" and the like, for subtitles: device, precision.
const char *session_how(const session *s, char *buf, size_t size);

// Facts about a reading for JSON: tokens, rows, row_tokens, tokens_unread, state ("each row from a
// zero state, ..."), state_resets, context_dropped, added ids, sha256, train_length. NULL on failed
// allocation.
json_t *session_rows_json(const session *s, const rows *r);

#endif
