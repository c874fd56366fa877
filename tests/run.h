// tests/run.h - runs the built program and catches everything it says.
#ifndef DELTOP_TESTS_RUN_H
#define DELTOP_TESTS_RUN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct run {
    // What to do; set before run_program.
    const char *const *argv; // words behind the program's name, NULL at the end
    const char *const *env;  // "NAME=value" to set, "NAME" to unset; NULL at the end; may be NULL
    const char *input;       // bytes for standard input; NULL: empty
    size_t n_input;
    const char *stdout_to;                        // a file instead of a pipe ("/dev/full")
    bool close_stdin, close_stdout, close_stderr; // start with the descriptor closed
    bool ignore_sigpipe;                          // the program starts with SIGPIPE ignored
    bool drop_stdout; // read the first bytes of standard output, then close the pipe
    bool hold_stdin;  // keep standard input open and say nothing
    int signal;       // send this `signal_after` seconds after the start
    double signal_after;
    double timeout; // seconds; 0: 20
    // What happened:
    char *out, *err; // NUL-terminated; run_free
    size_t n_out, n_err;
    int code;       // exit code, -1 when ended by a signal
    int ended_by;   // that signal, 0
    bool timed_out; // killed after the timeout
} run;

// $DELTOP, else ./deltop. False when the program cannot be started.
bool run_program(run *r);
void run_free(run *r);
// Runs COMMAND with words (NULL at the end, at most 18) for so many seconds at most; fails the test when the
// exit code is another.
run run_command(int code, double timeout, const char *command, const char *const *words);
// Fails the test, with both, unless part stands in text.
void run_holds(const char *text, const char *part);
const char *run_program_path(void);

#endif
