// cli/manual.h - the manual page deltop(1), made from the tables of commands and options, so that it
// says what `--help` says. `deltop help --man` prints it, `make install` installs it.
#ifndef DELTOP_MANUAL_H
#define DELTOP_MANUAL_H

#include <stdio.h>

// roff source, macros of man(7), plain ASCII.
void manual_write(FILE *f);

#endif
