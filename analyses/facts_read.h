// analyses/facts_read.h - results.jsonl becomes facts (analyses/facts.h).
#ifndef DELTOP_FACTS_READ_H
#define DELTOP_FACTS_READ_H

#include "analyses/facts.h"

// Adds the facts of PATH, one JSON object a line, behind those that *f holds (an empty one is fine).
// Empty lines and unknown keys are passed over, a value of null is NaN; `name`, `value` and `model` must
// be there. Messages name file, line and key. On failure *f may hold some facts of the file; free it
// with facts_free.
bool facts_read(const char *path, facts *f, err *e);
// PATH, or results.jsonl in the folder PATH.
bool facts_read_at(const char *path, facts *f, err *e);

#endif
