// core/sentencepiece.h - Debian's libsentencepiece behind plain C: what core/tokenizer_spm.c needs
// and nothing else. Implemented by core/sentencepiece.cpp, which is built only where the library
// is installed (DELTOP_SENTENCEPIECE).
#ifndef DELTOP_SENTENCEPIECE_H
#define DELTOP_SENTENCEPIECE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spm spm;

// model: the bytes of a tokenizer.model. NULL on failure, with the library's reason in why.
spm *spm_open(const char *model, size_t n, char *why, size_t size);
void spm_close(spm *m); // NULL is fine

int spm_size(const spm *m);
int spm_bos(const spm *m); // -1: the model has none
int spm_eos(const spm *m);
// Lent, NUL-terminated; 0 <= id < spm_size.
const char *spm_piece(const spm *m, int id);
bool spm_is_control(const spm *m, int id);
bool spm_is_byte(const spm *m, int id);

// text must be UTF-8. *ids: malloc'd, the caller frees. False: the library failed, or no memory.
bool spm_encode(const spm *m, const char *text, size_t n, int **ids, size_t *count);
// *text: malloc'd, NUL-terminated. Every id must be below spm_size.
bool spm_decode(const spm *m, const int *ids, size_t count, char **text, size_t *n);

#ifdef __cplusplus
}
#endif

#endif
