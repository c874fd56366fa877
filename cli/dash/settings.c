#include "cli/dash/settings.h"

#include "cli/dash/keys.h"
#include "cli/output.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/outfile.h"
#include "core/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { SET_INT, SET_REAL, SET_BOOL, SET_WORD, SET_TEXT } setting_kind;

typedef struct setting {
    const char *name;
    setting_kind kind;
    size_t at;
    double lo, hi;
    const char *words;
    const char *help;
} setting;

static const setting table[] = {
    {"smooth", SET_INT, offsetof(dash, look.smooth), 0, 1e6, NULL,
     "tokens of the loss's mean; 0: by length"},
    {"window", SET_INT, offsetof(dash, look.W), 1, 512, NULL, "tokens of a window product"},
    {"surprise", SET_REAL, offsetof(dash, look.surprise), 0, 1000, NULL,
     "nats from which a token is marked"},
    {"metric", SET_WORD, offsetof(dash, look.metric), 0, 0,
     "erank|norm|growth|gate|beta|rho|t1/2|abl", "number of the grid"},
    {"glyphs", SET_WORD, offsetof(dash, look.glyphs), 0, 0, "braille|block|ascii",
     "what curves are made of"},
    {"mouse", SET_BOOL, offsetof(dash, look.mouse), 0, 0, NULL,
     "clicks and wheel (from the next start)"},
    {"band", SET_BOOL, offsetof(dash, look.band), 0, 0, NULL, "10 to 90% of the losses"},
    {"autoscale", SET_BOOL, offsetof(dash, look.autoscale), 0, 0, NULL,
     "colours over the values there are"},
    {"export", SET_TEXT, offsetof(dash, look.export_dir), 0, 0, NULL,
     "folder of pictures and data"},
};
enum { SETTINGS = sizeof table / sizeof *table };

int settings_count(void) {
    return SETTINGS;
}

const char *settings_name(int i) {
    return table[i].name;
}

const char *settings_help(int i) {
    return table[i].help;
}

static void *place_of(const dash *d, const setting *s) {
    return (char *)d + s->at;
}

// Word number i of "a|b|c"; its length, 0: there is none.
static size_t word_at(const char *words, int i, const char **out) {
    while (i-- > 0) {
        words = strchr(words, '|');
        if (!words)
            return 0;
        words++;
    }
    *out = words;
    return strcspn(words, "|");
}

char *settings_show(const dash *d, int i, char *buf, size_t size) {
    const setting *s = &table[i];
    const void *p = place_of(d, s);
    const char *word = "";
    size_t n;
    switch (s->kind) {
    case SET_INT:
        snprintf(buf, size, "%lld", (long long)*(const int64_t *)p);
        break;
    case SET_REAL:
        text_real(*(const double *)p, 6, buf, size);
        break;
    case SET_BOOL:
        snprintf(buf, size, "%s", *(const bool *)p ? "on" : "off");
        break;
    case SET_WORD:
        n = word_at(s->words, *(const int *)p, &word);
        snprintf(buf, size, "%.*s", (int)n, word);
        break;
    case SET_TEXT:
        snprintf(buf, size, "%s", (const char *)p);
        break;
    }
    return buf;
}

bool settings_set(dash *d, const char *name, const char *text, err *e) {
    const setting *s = NULL;
    for (int i = 0; i < SETTINGS; i++)
        if (strcmp(table[i].name, name) == 0)
            s = &table[i];
    if (!s)
        return err_set(e, ERR_USAGE, "no option \"%s\"; o lists them", text_show(name));
    void *p = place_of(d, s);
    int64_t whole = 0;
    double v = 0;
    const char *word;
    switch (s->kind) {
    case SET_INT:
        if (!options_read_int(text, &whole) || (double)whole < s->lo || (double)whole > s->hi)
            return err_set(e, ERR_USAGE, "%s takes a whole number from %g to %g", name, s->lo,
                           s->hi);
        *(int64_t *)p = whole;
        return true;
    case SET_REAL:
        if (!text_number(text, &v) || !(v >= s->lo && v <= s->hi))
            return err_set(e, ERR_USAGE, "%s takes a number from %g to %g", name, s->lo, s->hi);
        *(double *)p = v;
        return true;
    case SET_BOOL:
        if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
            return err_set(e, ERR_USAGE, "%s takes on or off", name);
        *(bool *)p = strcmp(text, "on") == 0;
        return true;
    case SET_WORD:
        for (int i = 0; word_at(s->words, i, &word); i++)
            if (strlen(text) == word_at(s->words, i, &word) &&
                memcmp(text, word, strlen(text)) == 0) {
                *(int *)p = i;
                return true;
            }
        return err_set(e, ERR_USAGE, "%s takes %s", name, s->words);
    case SET_TEXT:
        if (!*text || strlen(text) >= sizeof d->look.export_dir)
            return err_set(e, ERR_USAGE, "%s takes 1 to %zu bytes", name,
                           sizeof d->look.export_dir - 1);
        snprintf(p, sizeof d->look.export_dir, "%s", text);
        return true;
    }
    return false;
}

const char *settings_path(void) {
    static char path[4096];
    const char *own = getenv("DELTOP_CONFIG"), *xdg = getenv("XDG_CONFIG_HOME"),
               *home = getenv("HOME");
    if (own && *own)
        snprintf(path, sizeof path, "%s", own);
    else if (xdg && *xdg)
        snprintf(path, sizeof path, "%s/deltop/config.ini", xdg);
    else if (home && *home)
        snprintf(path, sizeof path, "%s/.config/deltop/config.ini", home);
    else
        return NULL;
    return path;
}

static char *trim(char *s) {
    while (isspace((unsigned char)*s))
        s++;
    char *end = s + strlen(s);
    while (end > s && isspace((unsigned char)end[-1]))
        *--end = 0;
    return s;
}

void settings_load(dash *d, const char *path) {
    FILE *f = path ? fopen(path, "r") : NULL;
    char line[1024];
    if (!f)
        return;
    for (int n = 1; fgets(line, sizeof line, f); n++) {
        char *s = trim(line), *equals = strchr(s, '=');
        err e = {0};
        if (!*s || *s == '#' || *s == ';' || *s == '[')
            continue;
        if (!equals) {
            dash_say(d, '!', "%s, line %d: no \"name = value\"", text_show(path), n);
            continue;
        }
        *equals = 0;
        char *name = trim(s), *value = trim(equals + 1);
        bool ok = strncmp(name, "bind ", 5) == 0 ? keys_bind(trim(name + 5), value, &e)
                                                 : settings_set(d, name, value, &e);
        if (!ok)
            dash_say(d, '!', "%s, line %d: %s", text_show(path), n, e.text);
    }
    fclose(f);
}

bool settings_save(const dash *d, const char *path, err *e) {
    if (!path)
        return err_set(e, ERR_IO, "neither DELTOP_CONFIG, XDG_CONFIG_HOME nor HOME is set");
    // Lines of the file that are no settings (bindings, comments) stay.
    char *folder = file_folder(path, e);
    bool ok = folder && output_make_folder(folder, e);
    free(folder);
    outfile *o = ok ? outfile_open(path, e) : NULL;
    if (!o)
        return false;
    FILE *old = fopen(path, "r"), *f = outfile_stream(o);
    char line[1024];
    while (old && fgets(line, sizeof line, old)) {
        char copy[1024];
        snprintf(copy, sizeof copy, "%s", line);
        char *s = trim(copy), *equals = strchr(s, '=');
        bool mine = false;
        if (equals) {
            *equals = 0;
            for (int i = 0; i < SETTINGS; i++)
                mine |= strcmp(trim(s), table[i].name) == 0;
        }
        if (!mine)
            fputs(line, f);
    }
    if (old)
        fclose(old);
    for (int i = 0; i < SETTINGS; i++) {
        char v[300];
        fprintf(f, "%s = %s\n", table[i].name, settings_show(d, i, v, sizeof v));
    }
    ok = outfile_commit(o, e);
    outfile_close(o);
    return ok;
}

void settings_print_default(void) {
    dash d;
    dash_init(&d, NULL);
    puts("# deltop: settings of the dashboard ($DELTOP_CONFIG, ~/.config/deltop/config.ini).\n"
         "# Keys are bound to commands like this (deltop view, key ?, lists them):\n"
         "# bind T = table");
    for (int i = 0; i < SETTINGS; i++) {
        char v[300];
        printf("\n# %s%s%s\n%s = %s\n", table[i].help, table[i].words ? ": " : "",
               table[i].words ? table[i].words : "", table[i].name,
               settings_show(&d, i, v, sizeof v));
    }
    dash_free(&d);
}

bool settings_in_group(const char *name, const char *pattern) {
    while (*pattern) {
        if (*pattern == '#') {
            if (!isdigit((unsigned char)*name))
                return false;
            while (isdigit((unsigned char)*name))
                name++;
            pattern++;
        } else if (*pattern++ != *name++) {
            return false;
        }
    }
    return *name == 0;
}
