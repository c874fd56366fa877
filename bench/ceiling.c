// Compiled like the kernels, for the machine at hand (Makefile).
#include "bench/ceiling.h"

#include "bench/yardstick.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double cpu_copy_rate(void) {
    enum { BYTES = 32 << 20, TURNS = 10 };
    static double rate;
    if (rate > 0)
        return rate;
    char *a = malloc(2 * (size_t)BYTES);
    double best = INFINITY;
    if (a)
        memset(a, 1, 2 * (size_t)BYTES);
    for (int i = 0; a && i < TURNS; i++) {
        double t = clock_thread();
        memcpy(a + (i % 2 ? BYTES : 0), a + (i % 2 ? 0 : BYTES), BYTES);
        t = clock_thread() - t;
        best = t < best ? t : best;
    }
    free(a);
    return rate = 2.0 * BYTES / best;
}

// Ten vectors that do not wait for each other, each as wide as the machine has them.
typedef float lanes __attribute__((vector_size(
#ifdef __AVX512F__
    64
#elif defined(__AVX__)
    32
#else
    16
#endif
    )));

double cpu_multiply_rate(void) {
    enum { CHAINS = 10, STEPS = 100000, TURNS = 10, WIDTH = sizeof(lanes) / sizeof(float) };
    static double rate;
    if (rate > 0)
        return rate;
    double best = INFINITY;
    for (int i = 0; i < TURNS; i++) {
        lanes x[CHAINS], a = (lanes){0} + 0.999f, b = (lanes){0} + 0.5f;
        for (int k = 0; k < CHAINS; k++)
            x[k] = (lanes){0} + (float)(k + i);
        double t = clock_thread();
        for (int n = 0; n < STEPS; n++)
#pragma GCC unroll 10
            for (int k = 0; k < CHAINS; k++)
                x[k] = x[k] * a + b;
        t = clock_thread() - t;
        for (int k = 1; k < CHAINS; k++)
            x[0] += x[k];
        volatile float keep = x[0][0];
        (void)keep;
        best = t < best ? t : best;
    }
    return rate = 2.0 * CHAINS * WIDTH * STEPS / best;
}
