// core/document.h - a DOCUMENT of the command line becomes token ids.
//
//   file.txt      one document, encoded as one string (no borders between read buffers, fault B75)
//   -             the same from standard input
//   file.jsonl    one document a line, from its field "text"; blank lines are skipped
//   file.npy      token ids: [T] is one document, [rows, T] one document a row
//
// Bytes are handed to the tokenizer as they are: BOM, CRLF and NUL stay (fault B76). Does not know
// lengths, rows or blocks of a run: see the commands.
#ifndef DELTOP_DOCUMENT_H
#define DELTOP_DOCUMENT_H

#include "core/err.h"
#include "core/tokenizer.h"

#include <stdio.h>

// Most bytes of a text that are taken: a quarter of the memory, since its tokens need room too. A
// pipe that never ends stops here.
size_t document_max(void);

typedef struct document_options {
    const tokenizer *tokenizer; // may be NULL for .npy
    int64_t n_vocab;            // ids must be below it (rows of the embedding); 0: no limit
    bool add_special;           // let the tokenizer's post-processor put its ids around each text
    bool add_bos;               // put `bos` in front of each document that does not begin with it
    int32_t bos;
    bool digest; // fill sha256
    FILE *input; // what "-" reads; NULL: stdin
    // Asked often enough to stop a reader at once (ERR_CANCELLED); counts bytes, from 0 again with every
    // step from a file to ids. May be NULL.
    progress_fn progress;
    void *progress_ctx;
} document_options;

typedef struct document {
    char *name;      // last part of the path, or "standard input"; escape before showing
    int32_t *ids;    // all documents, one behind the other
    int64_t n;       // 0 for an empty document: no error here
    int64_t *starts; // index of the first token of each document that has one
    int64_t n_starts;
    int64_t n_empty; // documents without a token; they have no entry in starts
    size_t bytes;    // read, of the file
    size_t bad_utf8; // parts that are no UTF-8, read as U+FFFD (fault B69)
    int64_t n_bos;   // how often options.bos was put in front
    char added[160]; // for people: which ids the text itself does not hold ("" when none, B74)
    char sha256[65]; // of the bytes read; "" unless asked for
} document;

// On failure *out is empty; messages name the document and, in .jsonl, the line; an id that is out
// of range is named with its place (fault B77).
bool document_read(const char *path, const document_options *o, document *out, err *e);
void document_free(document *d); // an empty one is fine

#endif
