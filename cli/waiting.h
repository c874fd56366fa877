// cli/waiting.h - how threads wait for each other.
//
// At the end of a parallel loop OpenMP's threads spin for about a millisecond by default: harmless
// on an idle machine, but on a shared one they spin on the core that the slow one needs (measured
// on 2 busy cores: 27 s instead of 7 s for one document). libgomp reads its settings once, before
// main, from the environment; so the program starts itself again with a short spin. What the user
// has set wins, and where the program cannot find itself it goes on as it is.
//
// The threads of OpenBLAS are not used (products run inside our own loops), but each maps a large
// buffer when the library is loaded, and under a tight `ulimit -v` tries that for ever, also at the
// end of the process. The same new start keeps them from being made.
#ifndef DELTOP_WAITING_H
#define DELTOP_WAITING_H

void waiting_politely(char **argv);

#endif
