// bench/ceiling.h - what one core of this machine reaches at most, measured once a process.
#ifndef DELTOP_BENCH_CEILING_H
#define DELTOP_BENCH_CEILING_H

double cpu_copy_rate(void);     // bytes a second of a copy within memory, read and written counted
double cpu_multiply_rate(void); // float multiplications and additions a second of one core

#endif
