// core/random.h - random numbers that are the same on every machine: splitmix64 (Steele, Lea and
// Flood 2014). Any seed will do, and *seed is the whole state.
#ifndef DELTOP_RANDOM_H
#define DELTOP_RANDOM_H

#include <math.h>
#include <stdint.h>

static inline uint64_t random_next(uint64_t *seed) {
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// In (0, 1).
static inline double random_uniform(uint64_t *seed) {
    return ((double)(random_next(seed) >> 11) + 0.5) / 9007199254740992.0;
}

static inline double random_normal(uint64_t *seed) {
    double r = sqrt(-2 * log(random_uniform(seed)));
    return r * cos(2 * 3.14159265358979323846 * random_uniform(seed));
}

// 0 .. n-1, all alike: what is left over of 2^64 is drawn again. n >= 1.
static inline int64_t random_below(uint64_t *seed, int64_t n) {
    uint64_t m = (uint64_t)n, over = (0 - m) % m, x = random_next(seed);
    while (x < over)
        x = random_next(seed);
    return (int64_t)(x % m);
}

#endif
