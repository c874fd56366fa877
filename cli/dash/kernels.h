// cli/dash/kernels.h - what the kernel panel shows: the cases of a model (bench/model_cases.h), each
// waiting, being measured or done. The worker hands over a fresh object for every change (shared.h).
#ifndef DELTOP_DASH_KERNELS_H
#define DELTOP_DASH_KERNELS_H

#include "bench/case.h"
#include "cli/dash/shared.h"
#include "core/precision.h"

struct bench_row; // bench/record.h

typedef enum {
    KERNEL_WAITING,
    KERNEL_CHECKED, // being measured: the gate has passed
    KERNEL_DONE,
    KERNEL_WRONG,  // the gate did not pass: no time
    KERNEL_FAILED, // could not be run here
} kernel_state;

typedef struct kernel_row {
    char op[24], shape[48]; // "deltaproduct", "1x512x4": rows x tokens x heads, or all sizes
    char name[CASE_NAME];   // as `deltop bench` has it
    kernel_state state;
    int round;         // rounds of samples that are done
    double ms, spread; // median of a call; half of its 95 % interval as a share of it
    double rate;       // items a second
    double floor;      // share of the floor that it reaches
    double error;      // worst relative L2 distance from float64
    char item[16], why[200];
} kernel_row;

typedef struct kernels {
    shared ref;
    int slot, reload; // of the request
    int asked;        // number of the run; 0: never started
    int n, done;      // done: measured, wrong or failed
    char device[64];
    precision prec;
    int threads; // 0: no CPU
    double clock_mhz;
    char why[200];    // why there are no cases; ""
    kernel_row row[]; // [n]
} kernels;

enum { KERNEL_ROUNDS = 10 };

// Every case waiting. NULL: no memory.
kernels *kernels_new(const case_list *cases, err *e);
kernels *kernels_copy(const kernels *k, err *e);
const char *kernels_dtype(const kernels *k); // as the axis has it: "bf16"
// A measured row so far: its state stays WAITING until the gate has spoken.
void kernels_take(kernel_row *out, const struct bench_row *row);

#endif
