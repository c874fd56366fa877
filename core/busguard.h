// core/busguard.h - touching mapped memory whose file may shrink or whose disk may fail.
//
// A page of a mapping that cannot be read raises SIGBUS (fault B8). busguard_run turns that into
// `false`. Any number of threads may be inside at once; a SIGBUS of a thread that is not inside
// goes to the handler that was there before, and that handler is back when the last one leaves.
#ifndef DELTOP_BUSGUARD_H
#define DELTOP_BUSGUARD_H

#include <stdbool.h>

// Calls work(arg) and returns true, or false when a page could not be read; then work did not
// finish and was left where it stood: it must hold no lock and own no memory. Nested calls are
// fine.
bool busguard_run(void (*work)(void *arg), void *arg);

#endif
