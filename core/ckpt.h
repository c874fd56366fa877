// core/ckpt.h - read-only view of a trained checkpoint: safetensors, one file or shards with an
// index.
//
// Knows tensor names, dtypes and shapes. Does not know what a layer is: see core/model.h.
// Ownership: ckpt_open maps and allocates, ckpt_close frees; everything else is lent and valid
// until close. Every check of the format is made here, before any number is used; a message names
// file and tensor (faults B1 to B15, B102, B103).
#ifndef DELTOP_CKPT_H
#define DELTOP_CKPT_H

#include "core/err.h"
#include "core/tensor.h"

typedef struct ckpt ckpt;

// PATH: a folder (model.safetensors.index.json and its shards, else model.safetensors, else the
// only *.safetensors file), or one .safetensors file. Headers are parsed; tensor data is mapped,
// not read. On failure NULL, *e filled, nothing left open. Hub names ("org/name" that is no path),
// .bin, .pth, .pt, .gguf are refused with a hint what to do.
ckpt *ckpt_open(const char *path, err *e);
void ckpt_close(ckpt *c); // NULL is fine
ckpt *ckpt_none(err *e);  // a checkpoint without tensors or files

// Tensors in natural order of their names ("layers.2" before "layers.10").
int64_t ckpt_count(const ckpt *c);
const tensor *ckpt_at(const ckpt *c, int64_t i);

// ERR_MISSING when NAME is absent; the message names the closest tensor that exists.
bool ckpt_find(const ckpt *c, const char *name, const tensor **out, err *e);
// The same without a message: NULL when absent. ckpt_index: its place for ckpt_at, -1 when absent.
const tensor *ckpt_get(const ckpt *c, const char *name);
int64_t ckpt_index(const ckpt *c, const char *name);

// Files in the order of the index; paths as given by the user joined with the shard's name.
int ckpt_files(const ckpt *c);
const char *ckpt_file(const ckpt *c, int i);
size_t ckpt_file_bytes(const ckpt *c, int i);

// __metadata__ of all files, keys sorted. Values lent.
int ckpt_metadata_count(const ckpt *c);
const char *ckpt_metadata_key(const ckpt *c, int i);
const char *ckpt_metadata_value(const ckpt *c, int i);

// Remarks worth telling the user ("model.safetensors is beside an index and was not read").
int ckpt_note_count(const ckpt *c);
const char *ckpt_note(const ckpt *c, int i);

// False, with a message that names the file, when a mapped file has changed its size since
// ckpt_open (fault B8). Whoever reads tensor.data without ckpt_read_* does so inside busguard_run
// (core/busguard.h) and asks this afterwards, so that a page that cannot be read becomes an error,
// not a signal.
bool ckpt_still_whole(const ckpt *c, err *e);

// Copies elements first .. first+n-1, which must exist, as double/float. Checks the dtype, and
// survives a file that shrinks while it is read (SIGBUS is caught for the duration of the copy and
// becomes ERR_IO with the file's name).
bool ckpt_read_f64(const ckpt *c, const tensor *t, int64_t first, int64_t n, double *dst, err *e);
bool ckpt_read_f32(const ckpt *c, const tensor *t, int64_t first, int64_t n, float *dst, err *e);

#endif
