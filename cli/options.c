#include "cli/options.h"

#include "cli/commands.h"
#include "cli/option_value.h"
#include "core/mem.h"
#include "core/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// A row beyond these is a typing mistake, not a wish; the products that follow stay far from 2^63.
#define MOST_TOKENS 1099511627776.0 // 2^40

static const option_spec shared[N_SHARED] = {
    {"device", OPT_TEXT, offsetof(options, device), .value = "auto|cpu|cuda[:N]|cuda:all",
     .help = "where to compute (default auto); cuda:all is for report and watch"},
    {"precision", OPT_CHOICE, offsetof(options, precision), .choices = "f32|tf32|bf16|f64",
     .help = "number format of the computation (default f32 on the CPU)"},
    {"length", OPT_INT, offsetof(options, length), .lo = 1, .hi = MOST_TOKENS,
     .help = "tokens of a row, such as 4096 or 4k (default the whole document)"},
    {"rows", OPT_INT, offsetof(options, rows), .lo = 0, .hi = 1e9,
     .help = "consecutive stretches of --length tokens, each from a zero state; 0 = all whole ones "
             "(default 1)"},
    {"block", OPT_INT, offsetof(options, block), .lo = 1, .hi = 16777216,
     .help =
         "tokens computed at a time; changes memory and speed, not results (default: what suits "
         "the device, for losses also its free memory)"},
    {"layers", OPT_LIST, offsetof(options, layers), .lo = 0, .hi = 65535,
     .help = "only these layers, counted from 0, like 0-3,7"},
    {"heads", OPT_LIST, offsetof(options, heads), .lo = 0, .hi = 65535,
     .help = "only these heads, counted from 0"},
    {"add-bos", OPT_FLAG, offsetof(options, add_bos),
     .help = "put the tokenizer's begin-of-text token in front of every document"},
    {"reset-at-bos", OPT_FLAG, offsetof(options, reset_at_bos),
     .help = "empty the state before every begin-of-text token"},
    {"train-length", OPT_INT, offsetof(options, train_length), .lo = 1, .hi = MOST_TOKENS,
     .help = "training length of the model in tokens (default from its config)"},
    {"out", OPT_TEXT, offsetof(options, out), .value = "DIR",
     .help = "write files to this folder; it is created when absent"},
    {"json", OPT_FLAG, offsetof(options, json),
     .help = "print one JSON value on standard output and nothing else (keys: docs/json.md)"},
    {"quiet", OPT_FLAG, offsetof(options, quiet), .help = "no progress and no notes"},
    {"threads", OPT_INT, offsetof(options, threads), .lo = 1, .hi = 1024,
     .help = "threads on the CPU (default all cores)"},
    {"seed", OPT_INT, offsetof(options, seed), .lo = 0, .hi = 9007199254740992.0,
     .help = "seed of everything random (default 0)"},
};

const option_spec *options_shared(void) {
    return shared;
}

static const option_spec *find_in(const option_spec *table, size_t n, const char *name,
                                  size_t len) {
    for (size_t i = 0; i < n; i++)
        if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
            return &table[i];
    return NULL;
}

// The nearest name the command takes; a beginning of a name counts as near.
static const char *nearest(const command *c, const char *name, size_t len) {
    char word[64];
    if (len == 0 || len >= sizeof word)
        return NULL;
    memcpy(word, name, len);
    word[len] = 0;
    int best = len < 4 ? 1 : len < 8 ? 2 : 3;
    const char *found = NULL;
    for (size_t i = 0; i < N_SHARED + c->n_own + 1; i++) {
        const char *x = i == N_SHARED + c->n_own ? "help"
                        : i < N_SHARED           ? shared[i].name
                                                 : c->own[i - N_SHARED].name;
        if (i < N_SHARED && !(c->takes >> i & 1))
            continue;
        int d = strncmp(x, word, len) == 0 ? 0 : text_distance(word, x, best);
        if (d < best || (d == best && !found)) {
            best = d;
            found = x;
        }
    }
    return found;
}

static bool unknown(const command *c, const char *arg, size_t name_len, err *e) {
    char shown[128];
    text_escape(arg, name_len + 2, shown, sizeof shown);
    const option_spec *s = find_in(shared, N_SHARED, arg + 2, name_len);
    if (s)
        return err_set(e, ERR_USAGE,
                       "option %s: `deltop %s` does not take it; see deltop %s --help", shown,
                       c->name, c->name);
    const char *near = nearest(c, arg + 2, name_len);
    if (near)
        return err_set(e, ERR_USAGE, "option %s: not known; did you mean --%s?", shown, near);
    return err_set(e, ERR_USAGE, "option %s: not known; see deltop %s --help", shown, c->name);
}

static const option_spec *lookup(const options *o, const char *name, size_t len, size_t *slot) {
    const command *c = o->command;
    const option_spec *s = find_in(c->own, c->n_own, name, len);
    if (s) {
        *slot = N_SHARED + (size_t)(s - c->own);
        return s;
    }
    s = find_in(shared, N_SHARED, name, len);
    if (!s || !(c->takes >> (s - shared) & 1))
        return NULL;
    *slot = (size_t)(s - shared);
    return s;
}

// One option at argv[*i]; moves *i over its value.
static bool take_option(options *o, int argc, char *const *argv, int *i, err *e) {
    const char *arg = argv[*i], *equals = strchr(arg, '=');
    size_t len = (equals ? (size_t)(equals - arg) : strlen(arg)) - 2, slot = 0;
    if (len == 4 && memcmp(arg + 2, "help", 4) == 0 && !equals) {
        o->help = true;
        return true;
    }
    const option_spec *s = lookup(o, arg + 2, len, &slot);
    if (!s)
        return unknown(o->command, arg, len, e);
    const char *text = equals ? equals + 1 : NULL;
    char allowed[256];
    if (s->kind == OPT_FLAG) {
        if (text)
            return err_set(e, ERR_USAGE, "option --%s: takes no value, got \"%s\"", s->name,
                           text_show(text));
        text = "";
    } else if (!text) {
        // A word that starts with two dashes is the next option, not a folder of that name.
        if (*i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0)
            return err_set(e, ERR_USAGE, "option --%s: its value is missing; it takes %s", s->name,
                           option_value_allowed(s, allowed, sizeof allowed));
        text = argv[++*i];
    }
    const char *before = o->given[slot];
    if (before && s->kind != OPT_TEXTS) {
        if (strcmp(before, text) == 0)
            return true;
        return err_set(e, ERR_USAGE, "option --%s: given twice, \"%s\" and \"%s\"", s->name,
                       text_show(before), text_show(text));
    }
    o->given[slot] = text;
    return option_value_read(s, text, slot < N_SHARED ? (void *)o : o->own, e);
}

// What the values say about each other and about this build.
static bool check_device(const options *o, err *e) {
    const char *d = o->device;
    bool cuda = strncmp(d, "cuda", 4) == 0;
    if (cuda && d[4] == ':') {
        int64_t n = 0;
        cuda = strcmp(d + 5, "all") == 0 ||
               (d[5] >= '0' && d[5] <= '9' && options_read_int(d + 5, &n) && n < 1024);
    } else if (cuda) {
        cuda = d[4] == 0;
    }
    if (!cuda && strcmp(d, "auto") != 0 && strcmp(d, "cpu") != 0)
        return err_set(e, ERR_USAGE,
                       "option --device: \"%s\" is not known; it takes auto, cpu, cuda, cuda:N or "
                       "cuda:all",
                       text_show(d));
    if (!cuda && (o->precision == PRECISION_TF32 || o->precision == PRECISION_BF16))
        return err_set(e, ERR_USAGE,
                       "option --precision: %s needs a GPU; the CPU computes in f32 or f64",
                       o->given[1]);
    if (cuda && o->precision == PRECISION_F64)
        return err_set(e, ERR_USAGE,
                       "option --precision: f64 is the CPU's; a GPU computes in bf16, tf32 or f32");
    return true;
}

bool options_parse(options *o, const command *c, int argc, char *const *argv, err *e) {
    *o = (options){.command = c, .device = "auto", .rows = 1};
    assert(c->n_own <= MAX_OWN_OPTIONS);
    if (c->own_size) {
        o->own = mem_zalloc(1, c->own_size, "options", e);
        if (!o->own)
            return false;
        if (c->own_defaults)
            memcpy(o->own, c->own_defaults, c->own_size);
    }
    o->operand = mem_zalloc((size_t)argc + 1, sizeof *o->operand, "the command line", e);
    if (!o->operand)
        return false;
    bool open = true; // no "--" so far
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        if (open && strcmp(a, "--") == 0) {
            open = false;
        } else if (open && strncmp(a, "--", 2) == 0) {
            if (!take_option(o, argc, argv, &i, e))
                return false;
            if (o->help)
                return true;
        } else if (open && strcmp(a, "-h") == 0) {
            o->help = true;
            return true;
        } else if (open && a[0] == '-' && a[1]) {
            return err_set(e, ERR_USAGE,
                           "option %s: not known; options start with two dashes (a file of that "
                           "name is ./%s)",
                           text_show(a), text_show(a));
        } else {
            o->operand[o->n_operands++] = a;
        }
    }
    return check_device(o, e);
}

void options_free(options *o) {
    for (size_t i = 0; i < N_SHARED; i++)
        option_value_free(&shared[i], o);
    if (o->command && o->own)
        for (size_t i = 0; i < o->command->n_own; i++)
            option_value_free(&o->command->own[i], o->own);
    free(o->own);
    free(o->operand);
    free(o->model);
    free(o->document);
    *o = (options){0};
}

bool options_given(const options *o, const char *name) {
    size_t slot = 0;
    return lookup(o, name, strlen(name), &slot) && o->given[slot];
}

bool options_need(const options *o, const char *const *names, bool there, const char *partner,
                  err *e) {
    for (; !there && *names; names++)
        if (options_given(o, *names))
            return err_set(e, ERR_USAGE, "option --%s: needs %s", *names, partner);
    return true;
}

const char *options_text(const options *o, const char *name) {
    size_t slot = 0;
    return lookup(o, name, strlen(name), &slot) ? o->given[slot] : NULL;
}

// Options may stand in front of the command, whose table is not known yet: any command's row tells
// whether a value follows.
static bool takes_value(const char *name) {
    const option_spec *s = find_in(shared, N_SHARED, name, strlen(name));
    for (size_t i = 0; i < n_commands && !s; i++)
        s = find_in(commands[i]->own, commands[i]->n_own, name, strlen(name));
    return s && s->kind != OPT_FLAG;
}

int options_find_command(int argc, char *const *argv) {
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        if (strcmp(a, "--") == 0)
            return i + 1 < argc ? i + 1 : -1;
        if (a[0] != '-' || !a[1])
            return i;
        if (strncmp(a, "--", 2) == 0 && !strchr(a, '=') && takes_value(a + 2))
            i++;
    }
    return -1;
}
