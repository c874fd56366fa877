// bench/plugin_guard.h - calls into a plugin, whose crash must not be ours.
//
// A call that ends in SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT on the calling thread returns to the
// caller, who makes a failed row of it: other kernels are still measured. In a thread of the plugin's own
// nothing can return: one sentence says which kernel and case it was, and the signal ends the program.
#ifndef DELTOP_BENCH_PLUGIN_GUARD_H
#define DELTOP_BENCH_PLUGIN_GUARD_H

// Installs the handlers; before the first call into a plugin. Twice is fine.
void guard_install(void);
// What is running, for the sentence: a copy is kept ("gdn.B1.T512.H4.K64.V64.f32.cpu.mine:fast").
void guard_name(const char *what);
// 0: work(arg) returned; otherwise the signal that ended it. Costs tens of nanoseconds, so that calls
// can be timed. Not nested, one thread at a time.
int guard_run(void (*work)(void *arg), void *arg);
const char *guard_signal(int signal); // "Segmentation fault"

#endif
