#include "cli/say.h"

#include "cli/progress.h"
#include "cli/signals.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool quiet_mode, mute;

void say_set_quiet(bool quiet) {
    quiet_mode = quiet;
}

void say_set_mute(bool on) {
    mute = on;
}

bool say_is_quiet(void) {
    return quiet_mode;
}

static void say(const char *kind, const char *text) {
    char line[1400];
    int n = snprintf(line, sizeof line - 1, "deltop: %s%s", kind, text);
    if (n < 0)
        return;
    size_t len = (size_t)n < sizeof line - 1 ? (size_t)n : sizeof line - 2;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
    line[len++] = '\n';
    progress_hide();
    fwrite(line, 1, len, stderr);
}

void say_error(const err *e) {
    say("", e->code == ERR_NONE ? "failed without a reason" : e->text);
}

void say_warning(const char *fmt, ...) {
    if (mute)
        return;
    char text[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say("warning: ", text);
}

void say_note(const char *fmt, ...) {
    if (quiet_mode || mute)
        return;
    char text[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say("", text);
}

int say_exit_code(err_code code) {
    switch (code) {
    case ERR_NONE:
        return EXIT_DONE;
    case ERR_USAGE:
        return EXIT_USAGE;
    case ERR_DEVICE:
        return EXIT_DEVICE;
    case ERR_CANCELLED:
        return signals_caught() ? EXIT_SIGNAL + signals_caught() : EXIT_FAILED;
    default:
        return EXIT_FAILED;
    }
}
