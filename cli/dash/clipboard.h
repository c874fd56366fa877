// cli/dash/clipboard.h - text for the clipboard of whoever sits at the terminal.
#ifndef DELTOP_DASH_CLIPBOARD_H
#define DELTOP_DASH_CLIPBOARD_H

#include <stddef.h>

// The escape sequence OSC 52 (xterm's control sequences), which hands TEXT to the terminal as base64. At
// most SIZE bytes into OUT, not NUL-terminated; SIZE is 16 at least. What does not fit is left out.
// Returns the bytes.
size_t clipboard_sequence(const char *text, char *out, size_t size);

#endif
