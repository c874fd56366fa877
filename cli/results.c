#include "cli/results.h"

#include "cli/commands.h"
#include "cli/plot/plot.h"
#include "cli/table.h"
#include "cli/text/textplot.h"
#include "cli/wrap.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/npy.h"
#include "core/text.h"

#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A growing line of words.
typedef struct line {
    char *s;
    size_t n, cap;
    bool failed;
} line;

static void put(line *l, const char *s, err *e) {
    size_t n = strlen(s);
    if (l->failed || !mem_grow((void **)&l->s, &l->cap, l->n + n + 1, 1, "a command line", e)) {
        l->failed = true;
        return;
    }
    memcpy(l->s + l->n, s, n + 1);
    l->n += n;
}

// Quoted for a shell when it holds anything but plain characters; absolute paths are cut to their
// last part, so that no home folder ends up in a picture.
static void put_word(line *l, const char *s, err *e) {
    char base[512];
    if (s[0] == '/')
        s = file_base(s, base, sizeof base);
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+%@";
    if (s[0] && strspn(s, plain) == strlen(s)) {
        put(l, s, e);
        return;
    }
    put(l, "'", e);
    for (; *s; s++) {
        char one[2] = {*s, 0};
        put(l, *s == '\'' ? "'\\''" : one, e);
    }
    put(l, "'", e);
}

char *results_shell_word(const char *s, err *e) {
    line l = {0};
    put_word(&l, s, e);
    if (!l.failed)
        return l.s;
    free(l.s);
    return NULL;
}

static bool left_out_of(const char *const *left_out, const char *name) {
    for (; left_out && *left_out; left_out++)
        if (strcmp(*left_out, name) == 0)
            return true;
    return false;
}

char *results_command_line(const options *o, err *e) {
    return results_command_line_but(o, NULL, e);
}

char *results_command_line_but(const options *o, const char *const *left_out, err *e) {
    line l = {0};
    put(&l, "deltop ", e);
    put(&l, o->command->name, e);
    for (size_t i = 0; i < o->n_operands; i++) {
        put(&l, " ", e);
        put_word(&l, o->operand[i], e);
    }
    for (size_t i = 0; i < N_SHARED + o->command->n_own; i++) {
        const option_spec *s = i < N_SHARED ? &options_shared()[i] : &o->command->own[i - N_SHARED];
        if (!o->given[i] || left_out_of(left_out, s->name))
            continue;
        if (s->kind == OPT_TEXTS) { // every one of them
            const text_list *all = (const text_list *)((const char *)o->own + s->at);
            for (size_t k = 0; k < all->n; k++) {
                put(&l, " --", e);
                put(&l, s->name, e);
                put(&l, " ", e);
                put_word(&l, all->v[k], e);
            }
            continue;
        }
        put(&l, " --", e);
        put(&l, s->name, e);
        if (s->kind != OPT_FLAG) {
            put(&l, " ", e);
            put_word(&l, o->given[i], e);
        }
    }
    if (l.failed) {
        free(l.s);
        return NULL;
    }
    return l.s;
}

static bool save_png(output *x, const options *o, const figures *f, const results_about *about,
                     err *e) {
    char name[128];
    snprintf(name, sizeof name, "%s.png", about->name);
    char *path = output_path(x, name, e), *again = results_command_line(o, e);
    plot_options p = plot_defaults();
    p.title = f->n ? f->v[0]->title : about->name;
    p.software = "deltop " DELTOP_VERSION;
    p.comment = again;
    p.source = about->source;
    p.description = about->description;
    bool ok = path && again && plot_png(f, &p, path, e) && output_wrote(x, path, e);
    free(path);
    free(again);
    return ok;
}

bool results_png(output *x, const options *o, const figures *f, const results_about *about,
                 err *e) {
    return !output_wants_files(x) || f->n == 0 || save_png(x, o, f, about, e);
}

static bool save_csv(output *x, const options *o, const figures *f, const results_about *about,
                     err *e) {
    char name[128];
    snprintf(name, sizeof name, "%s.csv", about->name);
    char *path = output_path(x, name, e), *again = results_command_line(o, e);
    bool ok = path && again && table_csv_save(f, again, path, e) && output_wrote(x, path, e);
    free(path);
    free(again);
    return ok;
}

static bool print_figure(const figure *f, err *e) {
    bool tty = isatty(STDOUT_FILENO);
    int columns = wrap_terminal();
    const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");
    bool utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    bool colour = tty && !(plain && plain[0]) && term && strstr(term, "256color");
    return textplot_print(f, columns > 120 ? 120 : columns, 14, utf8, colour, stdout, e);
}

bool results_figures(output *x, const options *o, const figures *f, const results_about *about,
                     int print_first, err *e) {
    if (output_wants_files(x))
        return save_png(x, o, f, about, e) && save_csv(x, o, f, about, e);
    if (o->json || print_first < 0 || (size_t)print_first >= f->n)
        return true;
    output_print(x, "\n");
    return print_figure(f->v[print_first], e);
}

static bool save_array(output *x, size_t model, size_t document, const char *name, npy_type type,
                       int rank, const int64_t *dims, const void *data, err *e) {
    if (!output_wants_files(x))
        return true;
    char *path = output_array_path(x, model, document, name, e);
    bool ok = path && npy_write(path, type, rank, dims, data, e) && output_wrote(x, path, e);
    free(path);
    return ok;
}

bool results_f64(output *x, size_t model, size_t document, const char *name, int rank,
                 const int64_t *dims, const double *data, err *e) {
    return save_array(x, model, document, name, NPY_F8, rank, dims, data, e);
}

bool results_c128(output *x, size_t model, size_t document, const char *name, int rank,
                  const int64_t *dims, const void *data, err *e) {
    return save_array(x, model, document, name, NPY_C16, rank, dims, data, e);
}

bool results_finish(output *x, const char *name, json_t *results, err *e) {
    json_t *v = output_head(x);
    if (v && json_object_set(v, "results", results) != 0) {
        json_decref(v);
        v = NULL;
    }
    return output_finish(x, name, v, e);
}

bool results_no_number(const char *model, const char *document, bool out_of_range, err *e) {
    err_prefix(e, "%s on %s", text_show(model), text_show(document));
    size_t at = strlen(e->text);
    if (out_of_range)
        snprintf(
            e->text + at, sizeof e->text - at,
            " (inspect --stats shows outliers among the weights, --precision f64 has more range)");
    return false;
}

void results_add_source(char *buf, size_t size, const char *document, const char *sha256) {
    size_t at = strlen(buf);
    snprintf(buf + at, size - at, "%s%s sha256 %s", at ? "; " : "", document, sha256);
}
