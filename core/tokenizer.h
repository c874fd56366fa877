// core/tokenizer.h - text to token ids and back, as the model's own tokenizer says.
//
// Reads three kinds of file, looked for in a folder in this order:
//   tokenizer.json    Hugging Face's, of the byte-level BPE kind and of the Metaspace / byte-fallback
//                     BPE kind, with their normalizers, pre-tokenizers, added tokens and
//                     post-processors; every setting that is not known is refused by name. Ids are
//                     those of the `tokenizers` library (0.23) for the same file; NFC and its kin
//                     follow the installed utf8proc, whose Unicode is newer than the library's
//                     (some marks of rare scripts order differently).
//   rwkv_vocab_*.txt  RWKV World: greedy longest match over bytes, no special tokens in a text;
//                     id 0 ends a text and decodes to nothing (fault B73).
//   tokenizer.model   SentencePiece (also spiece.model, sentencepiece.bpe.model), by the library of
//                     that name where the program was built with it. As in the library: no special
//                     tokens are looked for in a text, control tokens decode to nothing.
// tokenizer_config.json beside any of them names BOS and EOS (as a string or as an object; null
// takes the token away) and, for tokenizers of the Llama and Gemma classes and for tokenizer.model,
// says with add_bos_token and add_eos_token which of them add_special puts around a text.
//
// Input is bytes: what is not UTF-8 becomes one U+FFFD per maximal bad part before anything else
// (fault B69). A tokenizer never changes after opening and may be shared by threads.
#ifndef DELTOP_TOKENIZER_H
#define DELTOP_TOKENIZER_H

#include "core/err.h"
#include "core/progress.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tokenizer tokenizer;

typedef struct ids {
    int32_t *v; // owned: free with ids_free
    size_t n, cap;
} ids;
void ids_free(ids *x);

// PATH: one of these files, or a folder that holds one. ERR_MISSING names the files that were looked
// for, or the tokenizer_class that has no file, and says what to do. ERR_UNSUPPORTED for a
// tokenizer.model in a program that was built without SentencePiece.
tokenizer *tokenizer_open(const char *path, err *e);
void tokenizer_close(tokenizer *t);
// The file that tokenizer_open reads in FOLDER: *file, owned by the caller, NULL when there is none.
// False: out of memory.
bool tokenizer_find(const char *folder, char **file, err *e);
bool tokenizer_is_file(const char *path);       // has PATH the name of such a file?
const char *tokenizer_kind(const tokenizer *t); // "tokenizer.json", "RWKV World vocabulary" ...
bool tokenizer_has_sentencepiece(void);

// Appends the ids of TEXT (n bytes, NUL is an ordinary character) to *out. The whole text is one
// string: call it once per document. add_special: run the post-processor (a BOS in front, say).
// progress counts bytes that have become ids; it and its ctx may be NULL. The SentencePiece library takes a text in one go and asks nobody.
bool tokenizer_encode(const tokenizer *t, const char *text, size_t n, bool add_special,
                      progress_fn progress, void *progress_ctx, ids *out, err *e);

// Decoded text, NUL-terminated, *n = its bytes without the NUL; caller frees. skip_special drops
// special tokens. An id without a token is an error that names it.
char *tokenizer_decode(const tokenizer *t, const int32_t *v, size_t n, bool skip_special,
                       size_t *bytes, err *e);

// Largest id + 1 (there may be gaps), and the text of one token as it would appear when decoded
// alone (caller frees; byte tokens give their raw byte). For a text strip.
int32_t tokenizer_size(const tokenizer *t);
char *tokenizer_piece(const tokenizer *t, int32_t id, size_t *bytes, err *e);

// -1 when the file names none.
int32_t tokenizer_bos(const tokenizer *t);
int32_t tokenizer_eos(const tokenizer *t);
// True when encoding with add_special puts ids around the text; describes them ("<s> (1) in
// front").
bool tokenizer_adds_special(const tokenizer *t, char *buf, size_t size);
// Text of an added token's id, -1 when TEXT is no token.
int32_t tokenizer_id(const tokenizer *t, const char *token);

#endif
