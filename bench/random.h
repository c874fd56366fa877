// bench/random.h - seeded numbers: the same on every machine.
#ifndef DELTOP_BENCH_RANDOM_H
#define DELTOP_BENCH_RANDOM_H

#include <math.h>
#include <stdint.h>

typedef struct random_state {
    uint64_t s;
} random_state;

static inline uint64_t random_bits(random_state *r) { // splitmix64
    uint64_t z = r->s += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline double random_uniform(random_state *r) { // in (0, 1)
    return ((double)(random_bits(r) >> 11) + 0.5) * 0x1p-53;
}

static inline double random_normal(random_state *r) {
    double u = random_uniform(r), v = random_uniform(r);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

#endif
