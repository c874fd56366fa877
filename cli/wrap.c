#include "cli/wrap.h"

#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int wrap_columns(const char *s, size_t n) {
    int w = 0;
    for (size_t i = 0; i < n; i++)
        w += ((unsigned char)s[i] & 0xc0) != 0x80;
    return w;
}

int wrap_terminal(void) {
    struct winsize w = {0};
    bool tty = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col;
    return tty ? w.ws_col : WRAP_COLUMNS;
}

void wrap_print(const output *out, const char *s, int at, int indent) {
    wrap_print_in(out, s, at, indent, WRAP_COLUMNS);
}

void wrap_print_in(const output *out, const char *s, int at, int indent, int columns) {
    bool first = true;
    while (*s) {
        size_t n = strcspn(s, " ");
        int width = wrap_columns(s, n);
        if (!first && at + 1 + width > columns) {
            output_print(out, "\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            output_print(out, " ");
            at++;
        }
        output_print(out, "%.*s", (int)n, s);
        at += width;
        s += n + (s[n] == ' ');
        first = false;
    }
    output_print(out, "\n");
}
