#include "cli/progress.h"

#include "cli/say.h"
#include "cli/signals.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

// MAX_STRIDE: a loop that suddenly becomes slow must not wait long for its next frame.
enum { MAX_COLUMNS = 200, MAX_STRIDE = 64 };
static const double patience = 1.0;      // seconds before anything is shown
static const double redraw = 0.1;        // at most ten frames a second
static const double line_every = 5.0;    // TERM=dumb
static const double check_every = 0.020; // aim for the clock

static progress *active;

static double monotonic(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static progress_mode choose_mode(int fd) {
    if (say_is_quiet() || !isatty(fd))
        return PROGRESS_OFF;
    const char *term = getenv("TERM");
    return !term || !*term || strcmp(term, "dumb") == 0 ? PROGRESS_LINES : PROGRESS_BAR;
}

void progress_begin(progress *p, const char *title, int phases, int fd) {
    memset(p, 0, sizeof *p);
    p->mode = choose_mode(fd);
    p->fd = fd;
    p->clock = monotonic;
    snprintf(p->title, sizeof p->title, "%s", title);
    p->phases = phases;
    p->begun = p->phase_begun = p->checked = p->drawn = p->clock();
    p->next = p->stride = 1;
    active = p;
}

void progress_phase(progress *p, const char *unit) {
    snprintf(p->unit, sizeof p->unit, "%s", unit);
    if (p->phase < p->phases)
        p->phase++;
    p->phase_begun = p->checked = p->clock();
    p->calls = 0;
    p->next = p->stride = 1;
}

static int columns_of(int fd) {
    struct winsize w;
    if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        return w.ws_col;
    const char *c = getenv("COLUMNS");
    int n = c ? atoi(c) : 0;
    return n > 0 ? n : 80;
}

// 950 -> "950", 12300 -> "12.3k": k is 1000 here, a rate is no size.
static void short_number(double x, char *buf, size_t size) {
    static const char *const unit[] = {"", "k", "M", "G", "T"};
    int u = 0;
    while (x >= 999.5 && u < 4) {
        x /= 1000;
        u++;
    }
    snprintf(buf, size, x < 9.995 ? "%.2f%s" : x < 99.95 ? "%.1f%s" : "%.0f%s", x, unit[u]);
}

static void short_time(double s, char *buf, size_t size) {
    if (!(s < 360000)) {
        snprintf(buf, size, "over 99 h");
        return;
    }
    long t = (long)(s + 0.5);
    if (t >= 3600)
        snprintf(buf, size, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
    else
        snprintf(buf, size, "%ld:%02ld", t / 60, t % 60);
}

int progress_line(const progress *p, int64_t done, int64_t total, double seconds, int width,
                  char *buf, size_t size) {
    char head[128], tail[128] = "", rate[32], left[32];
    bool known = total > 0;
    double f = known ? (double)done / (double)total : 0;
    f = f < 0 ? 0 : f > 1 ? 1 : f;
    int n = snprintf(head, sizeof head, "%s", p->title);
    if (p->phases > 1)
        n += snprintf(head + n, sizeof head - (size_t)n, " [%d/%d]", p->phase, p->phases);
    if (known)
        snprintf(head + n, sizeof head - (size_t)n, " %3.0f%%", floor(100 * f));
    if (seconds > 0 && done > 0) {
        short_number((double)done / seconds, rate, sizeof rate);
        n = snprintf(tail, sizeof tail, " %s %s/s", rate, p->unit[0] ? p->unit : "steps");
        if (known && f > 0) {
            short_time(seconds * (1 - f) / f, left, sizeof left);
            snprintf(tail + n, sizeof tail - (size_t)n, " %s left", left);
        }
    }
    char line[512];
    int room = width - (int)strlen(head) - (int)strlen(tail) - 3; // " [" and "]"
    if (room > 40)
        room = 40;
    if (known && room >= 4) {
        int filled = (int)(f * room);
        n = snprintf(line, sizeof line, "%s [", head);
        memset(line + n, '#', (size_t)filled);
        memset(line + n + filled, '.', (size_t)(room - filled));
        n += room;
        snprintf(line + n, sizeof line - (size_t)n, "]%s", tail);
    } else {
        snprintf(line, sizeof line, "%s%s", head, tail);
    }
    // Titles may hold UTF-8 names: cut before a whole character, count characters as columns.
    int columns = 0;
    size_t bytes = 0;
    while (line[bytes]) {
        size_t step = 1;
        while ((line[bytes + step] & 0xc0) == 0x80)
            step++;
        if (columns >= width || bytes + step >= size)
            break;
        bytes += step;
        columns++;
    }
    if (size) {
        memcpy(buf, line, bytes);
        buf[bytes] = 0;
    }
    return columns;
}

static void put(const progress *p, const char *text, size_t n) {
    while (n > 0) {
        ssize_t w = write(p->fd, text, n);
        if (w <= 0)
            return; // a terminal that went away is no reason to stop
        text += w;
        n -= (size_t)w;
    }
}

static void wipe(progress *p) {
    if (p->shown <= 0)
        return;
    char blank[MAX_COLUMNS + 3];
    size_t n = (size_t)p->shown;
    blank[0] = '\r';
    memset(blank + 1, ' ', n);
    blank[n + 1] = '\r';
    put(p, blank, n + 2);
    p->shown = 0;
}

static void draw(progress *p, double now, int64_t done, int64_t total) {
    double wait = p->mode == PROGRESS_BAR ? redraw : line_every;
    if (now - p->begun < patience || now - p->drawn < wait)
        return;
    p->drawn = now;
    char line[5 * MAX_COLUMNS], out[6 * MAX_COLUMNS];
    // The last column stays empty: writing it makes some terminals wrap.
    int width = columns_of(p->fd) - 1;
    if (width > MAX_COLUMNS)
        width = MAX_COLUMNS;
    if (p->mode == PROGRESS_LINES)
        width = 79;
    int columns = progress_line(p, done, total, now - p->phase_begun, width, line, sizeof line);
    int n;
    if (p->mode == PROGRESS_LINES) {
        n = snprintf(out, sizeof out, "%s\n", line);
    } else {
        int pad = p->shown > columns && p->shown <= width ? p->shown - columns : 0;
        n = snprintf(out, sizeof out, "\r%s%*s", line, pad, "");
        p->shown = columns + pad;
    }
    put(p, out, (size_t)n);
}

bool progress_tick(void *ctx, int64_t done, int64_t total) {
    progress *p = ctx;
    if (signals_caught())
        return false;
    if (p->mode == PROGRESS_OFF || ++p->calls < p->next)
        return true;
    // The stride follows the pace of the caller: a clock read costs more than a short step, and a
    // step may also last a second.
    double now = p->clock(), since = now - p->checked;
    if (since < check_every / 2 && p->stride < MAX_STRIDE)
        p->stride *= 2;
    else if (since > check_every * 2)
        p->stride = since > 10 * check_every ? 1 : (p->stride + 1) / 2;
    p->checked = now;
    p->next = p->calls + p->stride;
    draw(p, now, done, total);
    return true;
}

void progress_end(progress *p) {
    wipe(p);
    if (active == p)
        active = NULL;
}

void progress_hide(void) {
    if (active)
        wipe(active);
}
