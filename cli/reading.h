// cli/reading.h - from the words of the command line to token ids: which tokenizer, which BOS.
#ifndef DELTOP_READING_H
#define DELTOP_READING_H

#include "cli/options.h"
#include "core/document.h"
#include "core/tokenizer.h"

// The tokenizer that belongs to MODEL (a folder, a .safetensors file, a tokenizer.json). Close it
// with tokenizer_close.
tokenizer *reading_tokenizer(const char *model, err *e);

// The id that --add-bos puts in front and --reset-at-bos watches for: the tokenizer's, else
// "bos_token_id" of the model's config. t NULL: a tokenizer that lies with the model is asked too.
// ERR_MISSING when neither names one.
bool reading_bos(const char *model, const tokenizer *t, int32_t *bos, err *e);

// True when DOCUMENT is read without a tokenizer (.npy).
bool reading_is_ids(const char *document);

#endif
