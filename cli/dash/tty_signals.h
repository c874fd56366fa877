// cli/dash/tty_signals.h - signals while the screen is ours.
//
// INT, TERM, HUP, QUIT, TSTP, CONT and WINCH only leave a note and wake the loop. ABRT, SEGV, BUS,
// FPE and ILL give the terminal back (screen_emergency) and strike again, so that a core file and the
// shell's message are what they would have been.
#ifndef DELTOP_DASH_TTY_SIGNALS_H
#define DELTOP_DASH_TTY_SIGNALS_H

#include "core/err.h"

#include <stdbool.h>

typedef struct tty_pending {
    int end; // TERM, HUP or QUIT: leave by it; 0
    int interrupts;
    bool stop, resumed, resized;
} tty_pending;

bool tty_signals_install(err *e);
void tty_signals_restore(void); // what was installed before
int tty_signals_fd(void);       // readable when there is a note
tty_pending tty_signals_take(void);
void tty_signals_stop(void); // stops the process as ^Z would; returns when it goes on

#endif
