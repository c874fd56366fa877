// cli/progress.h - a bar with rate and time left on standard error.
//
//     loss small-deltanet [2/3]  43% [########............]  12.3k tokens/s  0:32 left
//
// Shown only when standard error is a terminal, nobody asked for --quiet and the job has lasted
// more than a second; taken away at the end. Plain ASCII, no colour and no escape sequence, so
// NO_COLOR and unknown terminals need nothing special. TERM=dumb (or no TERM): a line every five
// seconds instead of a bar.
#ifndef DELTOP_PROGRESS_H
#define DELTOP_PROGRESS_H

#include "core/progress.h"

#include <stddef.h>

typedef enum { PROGRESS_OFF, PROGRESS_BAR, PROGRESS_LINES } progress_mode;

typedef struct progress {
    progress_mode mode;
    int fd;
    double (*clock)(void); // seconds; tests bring their own
    char title[64], unit[24];
    int phase, phases;
    double begun, phase_begun; // seconds
    double drawn;              // when the line was last drawn
    double checked;            // when the clock was last read
    unsigned long calls, next, stride;
    int shown; // columns that our line occupies now
} progress;

// TITLE is shown in front of the bar. fd is STDERR_FILENO outside tests.
void progress_begin(progress *p, const char *title, int phases, int fd);
// Starts the next phase; its rate counts UNIT ("tokens", "states").
void progress_phase(progress *p, const char *unit);
// A progress_fn with ctx = progress*. Returns false once a signal asked the program to stop. Reads
// the clock about fifty times a second however often it is called.
bool progress_tick(void *ctx, int64_t done, int64_t total);
// Takes the bar away.
void progress_end(progress *p);

// Takes the bar of whichever progress is active off the screen until its next tick: for messages.
void progress_hide(void);

// The line itself, at most `width` columns; a pure function. done, total and seconds as in the
// callback; returns the number of columns.
int progress_line(const progress *p, int64_t done, int64_t total, double seconds, int width,
                  char *buf, size_t size);

#endif
