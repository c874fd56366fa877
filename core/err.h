// core/err.h - how a failure travels from where it happened to the one place that speaks.
//
// Functions that can fail return bool (or a pointer) and fill an `err` that the caller owns. The
// first message wins: it is nearest the cause. Callers add where they were with err_prefix. Only
// cli/ prints, and only cli/ turns a code into an exit status. A broken promise inside the program
// is an assert, not an err.
#ifndef DELTOP_ERR_H
#define DELTOP_ERR_H

#include <stdbool.h>

typedef enum {
    ERR_NONE = 0,
    ERR_INPUT,       // a file, a config or a document is not what it claims to be
    ERR_MISSING,     // something named is not there (file, tensor, key)
    ERR_IO,          // reading or writing failed
    ERR_NOMEM,       // memory
    ERR_NUMERIC,     // a number that cannot be computed
    ERR_UNSUPPORTED, // understood, but this program does not do it
    ERR_DEVICE,      // the device that was asked for is not there
    ERR_USAGE,       // the command line is wrong
    ERR_CANCELLED,   // the user stopped it
} err_code;

typedef struct err {
    err_code code;
    char text[1024]; // one sentence, no newline at the end; non-printable bytes already escaped
} err;

// Fills *e if it is still empty (e may be NULL) and returns false, so that `return err_set(...)`
// is the whole failure path. Text that does not fit is cut at the end.
bool err_set(err *e, err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// Puts "WHERE: " in front of a message that is already there; nothing when *e is empty. Returns
// false.
bool err_prefix(err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// What the system says about an errno, in this program's words: "no such file or folder".
const char *err_system(int number);

// Empties *e.
void err_clear(err *e);

#endif
