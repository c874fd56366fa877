// core/sha256.h - SHA-256 (FIPS 180-4), for naming a source by its content.
#ifndef DELTOP_SHA256_H
#define DELTOP_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct sha256 {
    uint32_t h[8];
    uint64_t bytes;
    unsigned char block[64]; // bytes % 64 of it are waiting
} sha256;

void sha256_init(sha256 *s);
void sha256_add(sha256 *s, const void *data, size_t n);
// 64 hexadecimal digits and a NUL. *s is used up.
void sha256_hex(sha256 *s, char out[65]);

#endif
