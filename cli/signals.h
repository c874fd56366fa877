// cli/signals.h - interrupt, terminate, hang-up, broken pipe.
//
// The first INT, TERM or HUP only sets a flag: the progress callback (cli/progress.h) then returns
// false, the computation unwinds with ERR_CANCELLED, and main ends the process. A second one ends
// it at once, and so does a grace period of SIGNALS_GRACE seconds without an end (a step that asks
// rarely, a read that nothing answers). A broken pipe always does. Whichever way it goes,
// unfinished output files are removed and the process ends by that signal, so a shell reports 128 +
// n and stops its loop. A signal that was ignored when the program started (nohup) stays ignored.
#ifndef DELTOP_SIGNALS_H
#define DELTOP_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

enum { SIGNALS_GRACE = 3 };

// Opens descriptors 0, 1 and 2 when the caller closed them, so that no file opened later takes
// their number and receives messages. Reading or writing them still fails, as it should.
void signals_guard_descriptors(void);

void signals_install(void);

// The first signal caught, 0 when there was none.
int signals_caught(void);

// A progress_fn (core/progress.h) that shows nothing: true until a signal was caught. ctx is not used.
bool signals_go_on(void *ctx, int64_t done, int64_t total);

// Called in the handler before the process ends at once: must be async-signal-safe. At most 4.
void signals_at_end(void (*clean)(void));

// Runs the cleaners and ends the process by signal n. Does not return.
void signals_end(int n) __attribute__((noreturn));

#endif
