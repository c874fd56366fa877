#include "bench/yardstick.h"

#include <time.h>

static double seconds(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_now(void) {
    return seconds(CLOCK_MONOTONIC);
}

double clock_thread(void) {
    return seconds(CLOCK_THREAD_CPUTIME_ID);
}

double clock_process(void) {
    return seconds(CLOCK_PROCESS_CPUTIME_ID);
}

enum { NUMBERS = 4096, PASSES = 24 };
static float numbers[NUMBERS];

// Four sums that do not wait for each other; the numbers change, so that nothing can be left out.
static float __attribute__((noinline)) loop(float *x, float a) {
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int p = 0; p < PASSES; p++)
        for (int i = 0; i < NUMBERS; i += 4) {
            s0 += x[i] * a;
            s1 += x[i + 1] * a;
            s2 += x[i + 2] * a;
            s3 += x[i + 3] * a;
        }
    x[0] = 0.5f + 1e-9f * s0;
    return s0 + s1 + s2 + s3;
}

double yardstick(void) {
    static volatile float keep;
    if (numbers[1] == 0)
        for (int i = 0; i < NUMBERS; i++)
            numbers[i] = (float)(1 + i % 7) * 0.125f;
    double t = clock_thread();
    keep = loop(numbers, 1.0f + keep * 0);
    return clock_thread() - t;
}
