// tests/pty.h - runs the built program on a terminal of our own and looks at what it says there.
#ifndef DELTOP_TESTS_PTY_H
#define DELTOP_TESTS_PTY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <termios.h>

typedef struct pty {
    int master, slave; // the slave stays open here: its modes can be asked for after the end
    pid_t pid, shell;  // the program; its parent, which ends as it does
    struct termios before;
    char *out; // all bytes so far, NUL-terminated
    size_t n, cap;
    int code, ended_by; // after pty_end
} pty;

// argv: words behind the program's name. env: "NAME=value" to set, "NAME" to unset; NULL at the end;
// may be NULL. Fails the test when the program cannot be started.
pty pty_start(const char *const *argv, const char *const *env, int rows, int cols);
void pty_send(pty *p, const char *bytes);
void pty_resize(pty *p, int rows, int cols);
// Collects until the bytes behind `from` hold TEXT; false after so many seconds.
bool pty_until(pty *p, const char *text, size_t from, double seconds);
// Collects for so long; returns the bytes that came.
size_t pty_listen(pty *p, double seconds);
// Collects until the program has ended (killed after so many seconds: then code is -2).
void pty_end(pty *p, double seconds);
bool pty_modes_as_before(const pty *p);
void pty_free(pty *p);

#endif
