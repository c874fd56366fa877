// cli/watch/fail.h - rules that new checkpoints break, and the command that is told of them.
#ifndef DELTOP_WATCH_FAIL_H
#define DELTOP_WATCH_FAIL_H

#include "analyses/rules/rules.h"

typedef struct watch_failures {
    struct watch_failure {
        size_t checkpoint; // the caller's number
        char *sentence;    // owned
    } * v;                 // owned
    size_t n, room;
    bool failed; // memory ran out
} watch_failures;

void watch_failures_add(watch_failures *f, size_t checkpoint, const rule_outcome *o);
bool watch_failures_take(watch_failures *f, size_t checkpoint, char *sentence, err *e); // takes it
void watch_failures_free(watch_failures *f); // an empty one is fine
// All of one checkpoint, one a line; "" for none. To be freed; NULL: *e is filled.
char *watch_failures_of(const watch_failures *f, size_t checkpoint, err *e);

// Runs COMMAND by sh and waits for it; a failure is a warning.
void watch_on_fail(const char *command, const char *path, int64_t step, const char *sentences,
                   const char *report);

#endif
