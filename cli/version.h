// cli/version.h - `deltop --version`: the program and the libraries under it.
#ifndef DELTOP_VERSION_H
#define DELTOP_VERSION_H

#include <stdio.h>

// One library a line: the version that runs, and the one that the program was built with where its
// headers tell. Loads nothing; the CUDA backend is looked for, not opened.
void version_print(FILE *f);

#endif
