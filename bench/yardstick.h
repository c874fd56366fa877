// bench/yardstick.h - a piece of arithmetic that never changes, to measure a core's present speed with.
#ifndef DELTOP_BENCH_YARDSTICK_H
#define DELTOP_BENCH_YARDSTICK_H

// Processor seconds (of this thread) that the loop just took: multiplications and additions over 16 KB,
// some 50 microseconds. A core that is shared, throttled or emulated takes longer.
double yardstick(void);

double clock_now(void);     // seconds, monotonic
double clock_thread(void);  // processor seconds of this thread
double clock_process(void); // of all threads of this process
#endif
