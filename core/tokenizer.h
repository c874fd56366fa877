// core/tokenizer.h - text to token ids and back, as the model's own tokenizer.json says.
//
// Reads Hugging Face tokenizer.json files of the byte-level BPE kind and of the Metaspace /
// byte-fallback BPE kind, with their normalizers, pre-tokenizers, added tokens and
// post-processors; every setting that is not known is refused by name. Ids are those of the
// `tokenizers` library (0.23) for the same file; NFC and its kin follow the installed utf8proc,
// whose Unicode is newer than the library's (some marks of rare scripts order differently). Input
// is bytes: what is not UTF-8 becomes one U+FFFD per maximal bad part before anything else (fault
// B69). A tokenizer never changes after opening and may be shared by threads.
#ifndef DELTOP_TOKENIZER_H
#define DELTOP_TOKENIZER_H

#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tokenizer tokenizer;

typedef struct ids {
    int32_t *v; // owned: free with ids_free
    size_t n, cap;
} ids;
void ids_free(ids *x);

// PATH: a tokenizer.json, or a folder that holds one (tokenizer_config.json beside it is read for
// the BOS/EOS names when there). ERR_MISSING names the files that were looked for.
tokenizer *tokenizer_open(const char *path, err *e);
void tokenizer_close(tokenizer *t);

// Appends the ids of TEXT (n bytes, NUL is an ordinary character) to *out. The whole text is one
// string: call it once per document. add_special: run the post-processor (a BOS in front, say).
bool tokenizer_encode(const tokenizer *t, const char *text, size_t n, bool add_special, ids *out,
                      err *e);

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
