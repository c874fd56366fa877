// cli/say.h - everything the program says on standard error, and the only place where an error
// becomes an exit code.
//
// One message is one line and one write. Text from files must be escaped before it comes here
// (text_show); control bytes that slip through become spaces. A progress bar on the screen is
// taken away first.
#ifndef DELTOP_SAY_H
#define DELTOP_SAY_H

#include "core/err.h"

// The table of design.md section 5.
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,    // bad input, I/O, memory, a number that cannot be computed
    EXIT_USAGE = 2,     // unknown option, value out of range
    EXIT_DEVICE = 3,    // the device that was asked for is not there
    EXIT_CHECK = 4,     // a check failed
    EXIT_UNDECIDED = 5, // nothing to compare
    EXIT_SIGNAL = 128,  // + the signal's number
};

// --quiet: no notes and no progress. Warnings and errors stay.
void say_set_quiet(bool quiet);
bool say_is_quiet(void);

// Warnings and notes are said by another process, which does the same: not again here.
void say_set_mute(bool mute);

void say_error(const err *e);                                                 // "deltop: text"
void say_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2))); // "deltop: warning: "
void say_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));    // "deltop: text"

// Exit code of a failure: EXIT_USAGE for ERR_USAGE, EXIT_DEVICE for ERR_DEVICE, EXIT_DONE for
// ERR_NONE, EXIT_SIGNAL + n for ERR_CANCELLED when signal n was caught, else EXIT_FAILED.
int say_exit_code(err_code code);

#endif
