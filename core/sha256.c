#include "core/sha256.h"

#include <string.h>

// First 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4,
// section 4.2.2).
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t right(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static void compress(uint32_t hash[8], const unsigned char *block) {
    uint32_t w[64];
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    for (int t = 16; t < 64; t++) {
        uint32_t x = w[t - 15], y = w[t - 2];
        w[t] = w[t - 16] + (right(x, 7) ^ right(x, 18) ^ x >> 3) + w[t - 7] +
               (right(y, 17) ^ right(y, 19) ^ y >> 10);
    }
    uint32_t a = hash[0], b = hash[1], c = hash[2], d = hash[3];
    uint32_t e = hash[4], f = hash[5], g = hash[6], h = hash[7];
    for (int t = 0; t < 64; t++) {
        uint32_t t1 =
            h + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + w[t];
        uint32_t t2 = (right(a, 2) ^ right(a, 13) ^ right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    hash[0] += a, hash[1] += b, hash[2] += c, hash[3] += d;
    hash[4] += e, hash[5] += f, hash[6] += g, hash[7] += h;
}

void sha256_init(sha256 *s) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->h, start, sizeof start);
    s->bytes = 0;
}

void sha256_add(sha256 *s, const void *data, size_t n) {
    const unsigned char *p = data;
    size_t have = s->bytes % 64;
    s->bytes += n;
    if (have > 0) {
        size_t take = n < 64 - have ? n : 64 - have;
        if (take > 0)
            memcpy(s->block + have, p, take);
        p += take, n -= take;
        if (have + take < 64)
            return;
        compress(s->h, s->block);
    }
    for (; n >= 64; p += 64, n -= 64)
        compress(s->h, p);
    if (n > 0)
        memcpy(s->block, p, n);
}

void sha256_hex(sha256 *s, char out[65]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char end[72] = {0x80};
    uint64_t bits = s->bytes * 8;
    size_t pad = (s->bytes % 64 < 56 ? 56 : 120) - s->bytes % 64;
    for (int i = 0; i < 8; i++)
        end[pad + (size_t)i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_add(s, end, pad + 8);
    for (int i = 0; i < 64; i++)
        out[i] = digits[s->h[i / 8] >> (28 - 4 * (i % 8)) & 15];
    out[64] = 0;
}
