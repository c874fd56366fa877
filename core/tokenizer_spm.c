// SentencePiece models (tokenizer.model). The library does the work, so the ids are its own: no
// special tokens are looked for in the text, and control tokens have no text when decoded.
#include "core/mem.h"
#include "core/sentencepiece.h"
#include "core/tok.h"

#include <stdlib.h>
#include <string.h>

#ifdef DELTOP_SENTENCEPIECE

static bool encode(const tokenizer *t, tok_work *w, const char *s, size_t n, ids *out, err *e) {
    (void)w;
    int *got = NULL;
    size_t count = 0;
    if (!spm_encode(t->own, s, n, &got, &count))
        return err_set(e, ERR_NUMERIC, "%s: SentencePiece could not encode a text of %zu bytes",
                       t->path, n);
    bool ok = ids_add(out, got, count, e); // int is int32_t here
    free(got);
    return ok;
}

static bool decode(const tokenizer *t, const int32_t *v, size_t n, tok_buf *out, err *e) {
    char *text = NULL;
    size_t len = 0;
    if (!spm_decode(t->own, v, n, &text, &len))
        return err_set(e, ERR_NUMERIC, "%s: SentencePiece could not decode %zu ids", t->path, n);
    bool ok = tok_buf_add(out, text, len, e);
    free(text);
    return ok;
}

// U+2581 stands for a space; <0xNN> for a byte.
static bool piece(const tokenizer *t, int32_t id, tok_buf *out, err *e) {
    const char *s = spm_piece(t->own, id);
    if (spm_is_byte(t->own, id)) {
        char byte = (char)strtol(s + 3, NULL, 16);
        return tok_buf_add(out, &byte, 1, e);
    }
    bool ok = true;
    while (ok && *s) {
        bool space = strncmp(s, "\xE2\x96\x81", 3) == 0;
        ok = space ? tok_buf_add(out, " ", 1, e) : tok_buf_add(out, s, 1, e);
        s += space ? 3 : 1;
    }
    return ok;
}

static void close_model(void *own) {
    spm_close(own);
}

bool tok_load_spm(tokenizer *t, const char *model, size_t n, err *e) {
    static const tok_other kind = {"SentencePiece model", encode, decode, piece, close_model};
    char why[200];
    spm *m = spm_open(model, n, why, sizeof why);
    if (!m)
        return err_set(e, ERR_INPUT,
                       "not a SentencePiece model: %s (tiktoken files of the same name are not "
                       "read: convert it to tokenizer.json, or pass token ids as .npy)",
                       tok_show(why, strlen(why)));
    t->other = &kind;
    t->own = m;
    t->size = (uint32_t)spm_size(m);
    t->bos = spm_bos(m);
    t->eos = spm_eos(m);
    // Texts of the pieces, for tokenizer_id.
    size_t bytes = 0;
    for (uint32_t id = 0; id < t->size; id++)
        bytes += strlen(spm_piece(m, (int)id));
    if (!tok_vocab_init(&t->vocab, t->size, t->size, bytes, e))
        return false;
    for (uint32_t id = 0; id < t->size; id++) {
        uint32_t other = 0;
        const char *s = spm_piece(m, (int)id);
        tok_vocab_add(&t->vocab, id, s, strlen(s), &other); // the library lets no piece stand twice
    }
    return true;
}

bool tokenizer_has_sentencepiece(void) {
    return true;
}

#else

bool tok_load_spm(tokenizer *t, const char *model, size_t n, err *e) {
    (void)t, (void)model, (void)n;
    return err_set(e, ERR_UNSUPPORTED,
                   "this program was built without SentencePiece, which this file needs: install "
                   "libsentencepiece-dev and g++ and build again, convert the file to "
                   "tokenizer.json, or pass token ids as .npy");
}

bool tokenizer_has_sentencepiece(void) {
    return false;
}

#endif
