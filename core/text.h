// core/text.h - small helpers for text that people see: escapes, natural order, nearest names,
// numbers that no locale changes.
#ifndef DELTOP_TEXT_H
#define DELTOP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

// Copies s (n bytes) into buf so that it is safe to show: control bytes, DEL, C1 controls, bidi
// overrides and bytes that are not UTF-8 become \xNN or \u{NNNN}; a backslash becomes \\. Cut with
// "..." when it does not fit. Returns buf.
char *text_escape(const char *s, size_t n, char *buf, size_t size);
// The same for a NUL-terminated string, in one of 8 rotating static per-thread buffers: for error
// messages.
const char *text_show(const char *s);

// strcmp, but runs of digits compare as numbers ("layers.2" < "layers.10").
int text_natural_cmp(const char *a, const char *b);

// Levenshtein distance, at most `limit` (returns limit + 1 beyond, and for names that differ over more
// than 255 bytes).
int text_distance(const char *a, const char *b, int limit);

// The largest distance at which a name may be what a mistyped word meant: a third of the word.
int text_near(const char *word);

// Number to text and back in the C locale whatever setlocale said ("0.5", never "0,5").
// text_number takes decimal numbers, inf and nan, all of s and nothing else: no blanks in front, no
// hexadecimal.
void text_real(double x, int significant_digits, char *buf, size_t size);
bool text_number(const char *s, double *out);

// How many parts of s (n bytes) are not UTF-8, counted as a decoder would replace them by U+FFFD:
// the longest beginning of a character that is cut short counts once, any other bad byte once.
size_t text_utf8_bad(const char *s, size_t n);

#endif
