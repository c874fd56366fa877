// cli/dash/reading.h - a document becomes token ids, and the text they stand for.
#ifndef DELTOP_DASH_READING_H
#define DELTOP_DASH_READING_H

#include "cli/dash/run.h"
#include "cli/options.h"

// Reads DOCUMENT as the tokenizer of MODEL cuts it (.npy: ids; the model's tokenizer, when there is
// one, still says what they stand for). n_vocab: rows of the embedding. length 0: all of it.
// marks: PCRE2 pattern whose matches are marked like document starts, or NULL. *bos: the id of
// --add-bos and --reset-at-bos, else -1. remark: something to tell the user, "" when nothing is.
reading *reading_open(const options *o, const char *model, const char *document, int64_t n_vocab,
                      const char *marks, int32_t *bos, char *remark, size_t remark_size, err *e);

// The token that holds byte `at` of the text; T for what lies behind it.
int64_t reading_token(const reading *r, int64_t at);

#endif
