#define PCRE2_CODE_UNIT_WIDTH 8
#include "cli/dash/script.h"

#include "cli/dash/keys.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "core/mem.h"
#include "core/outfile.h"
#include "core/text.h"

#include <errno.h>
#include <pcre2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE = 8 * SURFACE_MOST, WAIT_SECONDS = 60 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool matches(const char *pattern, const char *text, bool *yes, err *e) {
    int code;
    PCRE2_SIZE at;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                   PCRE2_MULTILINE | PCRE2_UTF, &code, &at, NULL);
    if (!re)
        return err_set(e, ERR_USAGE, "\"%s\" is no pattern (character %zu)", text_show(pattern),
                       (size_t)at + 1);
    pcre2_match_data *m = pcre2_match_data_create_from_pattern(re, NULL);
    *yes = m && pcre2_match(re, (PCRE2_SPTR)text, strlen(text), 0, 0, m, NULL) >= 0;
    pcre2_match_data_free(m);
    pcre2_code_free(re);
    return true;
}

// "43%" and no more than 100%.
static bool per_cent(const char *what, int *out) {
    int n = 0;
    return sscanf(what, "%3d%%%n", out, &n) == 1 && n > 0 && !what[n] && *out >= 0 && *out <= 100;
}

static bool came(app *a, const char *what, bool *yes, err *e) {
    int part;
    *yes = false;
    if (strcmp(what, "idle") == 0) {
        *yes = app_idle(a);
    } else if (strcmp(what, "forward") == 0) {
        *yes = app_forward(a);
    } else if (strncmp(what, "msg ", 4) == 0) {
        for (int i = 0; !*yes && i < a->d.log.n; i++)
            if (!matches(what + 4, a->d.log.v[(a->d.log.first + i) % MESSAGES_MOST].text, yes, e))
                return false;
    } else if (per_cent(what, &part)) {
        const run *r = a->s.shown[a->d.in.slot];
        *yes = r && 100 * run_read(r) >= part * r->T;
    } else {
        return err_set(e, ERR_USAGE,
                       "wait: \"%s\": expected forward, idle, 0%% to 100%% or msg REGEX",
                       text_show(what));
    }
    return true;
}

bool script_wait(app *a, const char *what, double limit, err *e) {
    double end = seconds() + limit;
    for (;;) {
        bool yes = false;
        app_pump(a);
        app_ask(a);
        // A message may be what is waited for when something failed; results cannot come any more.
        if (app_fatal(a)->code != ERR_NONE && strncmp(what, "msg ", 4) != 0)
            return err_set(e, app_fatal(a)->code, "%s", app_fatal(a)->text);
        if (!came(a, what, &yes, e))
            return false;
        if (yes)
            return true;
        if (signals_caught())
            return err_set(e, ERR_CANCELLED, "stopped");
        double left = end - seconds();
        if (left <= 0)
            return err_set(e, ERR_INPUT, "wait %s: not within %g s", what, limit);
        struct pollfd p = {worker_fd(a->w), POLLIN, 0};
        poll(&p, 1, left > 0.5 ? 500 : (int)(left * 1000) + 1);
    }
}

bool script_print(app *a, FILE *out, bool attrs, err *e) {
    char *line = mem_alloc(LINE, 1, "a line", e);
    if (!line)
        return false;
    const surface *s = app_paint(a);
    for (int y = 0; y < s->rows; y++) {
        surface_line(s, y, line, LINE);
        fprintf(out, "%s\n", line);
    }
    for (int y = 0; attrs && y < s->rows; y++) {
        surface_attr_line(s, y, line, LINE);
        fprintf(out, "%s\n", line);
    }
    free(line);
    return true;
}

// The whole frame as one string; caller frees.
static char *frame_text(app *a, err *e) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) {
        err_set(e, ERR_NOMEM, "out of memory: a frame");
        return NULL;
    }
    bool ok = script_print(a, f, false, e);
    fclose(f);
    if (ok)
        return text;
    free(text);
    return NULL;
}

static bool save_frame(app *a, const char *dir, int number, const char *name, err *e) {
    if (!dir)
        return err_set(e, ERR_USAGE, "frame: --frames DIR is missing");
    for (const char *p = name; *p; p++)
        if (*p == '/' || (unsigned char)*p < 0x20)
            return err_set(e, ERR_USAGE, "frame: \"%s\" is no file name", text_show(name));
    bool ok = true;
    for (int attrs = 0; ok && attrs < 2; attrs++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/%03d-%s.%s", dir, number, name, attrs ? "attr" : "txt");
        outfile *o = outfile_open(path, e);
        if (!o)
            return false;
        const surface *s = app_paint(a);
        char *line = mem_alloc(LINE, 1, "a line", e);
        ok = line != NULL;
        for (int y = 0; ok && y < s->rows; y++) {
            if (attrs)
                surface_attr_line(s, y, line, LINE);
            else
                surface_line(s, y, line, LINE);
            fprintf(outfile_stream(o), "%s\n", line);
        }
        free(line);
        ok = ok && outfile_commit(o, e);
        outfile_close(o);
    }
    return ok;
}

// A character, a bound key, or one that only the prompt knows.
static bool is_key(const char *key) {
    static const char *const others[] = {"Backspace", "Delete", "^A", "^E", "^U", "^W"};
    uint32_t cp;
    int w;
    if (keys_command(key) || surface_char(key, strlen(key), &cp, &w) == strlen(key))
        return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(key, others[i]) == 0)
            return true;
    return false;
}

static bool keys(app *a, const char *rest, err *e) {
    char key[32];
    while (*rest) {
        size_t n = strcspn(rest, " ");
        snprintf(key, sizeof key, "%.*s", (int)(n < 31 ? n : 31), rest);
        if (*key && !is_key(key))
            return err_set(e, ERR_USAGE, "key: there is no key \"%s\"", text_show(key));
        rest += n;
        while (*rest == ' ')
            rest++;
        app_pump(a);
        scene x = app_scene(a);
        if (*key)
            cmd_key(&a->d, &x, key);
        app_ask(a);
    }
    return true;
}

static bool wait_step(app *a, const char *rest, err *e) {
    char what[1024];
    double limit = WAIT_SECONDS;
    snprintf(what, sizeof what, "%s", rest);
    // A number behind is the limit, but not that of "43%".
    char *blank = strrchr(what, ' ');
    double v;
    if (blank && text_number(blank + 1, &v) && v > 0) {
        limit = v;
        *blank = 0;
    }
    return script_wait(a, what, limit, e);
}

static bool step(app *a, char *line, const char *frames, int *number, err *e) {
    char *rest = line + strcspn(line, " ");
    if (*rest)
        *rest++ = 0;
    int rows, cols;
    bool yes = false;
    if (strcmp(line, "key") == 0)
        return keys(a, rest, e);
    if (strcmp(line, "type") == 0) {
        app_pump(a);
        scene x = app_scene(a);
        cmd_type(&a->d, &x, rest);
        app_ask(a);
        return true;
    }
    if (strcmp(line, "cmd") == 0) {
        app_pump(a);
        scene x = app_scene(a);
        bool ok = cmd_run(&a->d, &x, rest, e);
        app_ask(a);
        return ok;
    }
    if (strcmp(line, "wait") == 0)
        return wait_step(a, rest, e);
    if (strcmp(line, "hold") == 0)
        return cmd_tokens(rest, &a->d.want.hold, "hold", e);
    if (strcmp(line, "go") == 0) {
        a->d.want.hold = -1;
        app_ask(a);
        return true;
    }
    if (strcmp(line, "resize") == 0)
        return view_read_size(rest, &rows, &cols, e) && app_resize(a, rows, cols, e);
    if (strcmp(line, "frame") == 0) {
        app_pump(a);
        return save_frame(a, frames, ++*number, rest, e);
    }
    if (strcmp(line, "expect") == 0 || strcmp(line, "reject") == 0) {
        app_pump(a);
        char *text = frame_text(a, e);
        bool ok = text && matches(rest, text, &yes, e);
        free(text);
        if (!ok)
            return false;
        if (yes != (line[0] == 'e'))
            return err_set(e, ERR_INPUT, "%s %s: the frame %s it", line, rest,
                           yes ? "holds" : "does not hold");
        return true;
    }
    return err_set(
        e, ERR_USAGE,
        "\"%s\" is no step: key, type, cmd, wait, hold, go, resize, frame, expect, reject",
        text_show(line));
}

bool script_play(app *a, const char *path, const char *frames, err *e) {
    FILE *f = fopen(path, "r");
    char line[4096];
    int n = 0, number = 0;
    bool ok = true;
    if (!f)
        return err_set(e, ERR_MISSING, "%s: cannot be opened: %s", text_show(path),
                       err_system(errno));
    if (frames && !output_make_folder(frames, e))
        ok = false;
    while (ok && fgets(line, sizeof line, f)) {
        n++;
        size_t end = strcspn(line, "\r\n");
        if (end == sizeof line - 1) {
            ok = err_set(e, ERR_USAGE, "%s, line %d: longer than %zu bytes", text_show(path), n,
                         sizeof line - 2);
            break;
        }
        line[end] = 0;
        char *s = line + strspn(line, " \t");
        if (!*s || *s == '#')
            continue;
        ok = step(a, s, frames, &number, e);
        if (!ok && e->code != ERR_CANCELLED) {
            err_prefix(e, "%s, line %d", text_show(path), n);
            err ignored = {0};
            script_print(a, stderr, false, &ignored);
        }
        if (a->d.quit)
            break;
    }
    if (ok && ferror(f)) // a folder opens like a file and fails here
        ok = err_set(e, ERR_IO, "%s: cannot be read: %s", text_show(path), err_system(errno));
    fclose(f);
    return ok;
}
