// cli/dash/screen.h - a surface on a terminal, and the keys that come back. The only header that
// stands for ncurses; screen_ncurses.c is the only file that includes curses.h.
#ifndef DELTOP_DASH_SCREEN_H
#define DELTOP_DASH_SCREEN_H

#include "cli/dash/surface.h"

typedef struct screen_event {
    char key[32];    // "" for a mouse event
    int y, x, wheel; // mouse: cell, -1 up, +1 down
    bool press, release, twice;
} screen_event;

// Whether TERM can be used; otherwise *why.
bool screen_possible(char *why, size_t size);

// colours: as many as may be used, 0 for none, -1 as the terminal has. mouse: reporting on.
bool screen_open(int colours, bool mouse, err *e);
void screen_close(void);
void screen_size(int *rows, int *cols); // asks the terminal
void screen_resize(int rows, int cols); // after WINCH
// One frame, one write. caret_y < 0: no caret.
void screen_show(const surface *s, int caret_y, int caret_x);
bool screen_next(screen_event *out); // false: no more input now
void screen_repaint(void);           // the next frame paints every cell
void screen_suspend(void);           // gives the terminal back for a while
void screen_resume(void);
bool screen_alternate(void); // leaving brings back what was there before

// Prepares what screen_emergency does. It only writes bytes and sets modes: for handlers of signals
// that end the process.
void screen_prepare_emergency(void);
void screen_emergency(void);

void screen_write(const char *bytes, size_t n); // to the terminal as they are (OSC 52)

#endif
