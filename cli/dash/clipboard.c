#include "cli/dash/clipboard.h"

#include <stdio.h>
#include <string.h>

size_t clipboard_sequence(const char *text, char *out, size_t size) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = strlen(text), at = (size_t)snprintf(out, size, "\033]52;c;");
    for (size_t i = 0; i < n && at + 8 < size; i += 3) {
        unsigned v = (unsigned char)text[i] << 16;
        v |= i + 1 < n ? (unsigned)(unsigned char)text[i + 1] << 8 : 0;
        v |= i + 2 < n ? (unsigned char)text[i + 2] : 0;
        out[at++] = digit[v >> 18];
        out[at++] = digit[v >> 12 & 63];
        out[at++] = i + 1 < n ? digit[v >> 6 & 63] : '=';
        out[at++] = i + 2 < n ? digit[v & 63] : '=';
    }
    out[at++] = '\a';
    return at;
}
