#include "cli/dash/export.h"

#include "cli/dash/losses.h"
#include "cli/dash/panel.h"
#include "cli/head_list.h"
#include "cli/output.h"
#include "cli/plot/plot.h"
#include "cli/results.h"
#include "cli/table.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/outfile.h"
#include "core/precision.h"
#include "core/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Command lines -----------------------------------------------------------------------------------

typedef struct words {
    char *s;
    size_t n, cap;
    bool failed;
} words;

static void say(words *w, err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(words *w, err *e, const char *fmt, ...) {
    char one[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(one, sizeof one, fmt, ap);
    va_end(ap);
    size_t n = strlen(one);
    if (w->failed || !mem_grow((void **)&w->s, &w->cap, w->n + n + 1, 1, "a command line", e)) {
        w->failed = true;
        return;
    }
    memcpy(w->s + w->n, one, n + 1);
    w->n += n;
}

static void word(words *w, err *e, const char *option, const char *text) {
    char *quoted = results_shell_word(text, e);
    if (!quoted)
        w->failed = true;
    else
        say(w, e, "%s%s %s", option ? " --" : "", option ? option : "", quoted);
    free(quoted);
}

// A shared option as it was given.
static void as_given(words *w, const options *o, const char *name, err *e) {
    for (size_t i = 0; i < N_SHARED; i++)
        if (o->given[i] && strcmp(options_shared()[i].name, name) == 0)
            word(w, e, name, o->given[i]);
}

static void operands(words *w, const scene *x, const int *model, int n, err *e) {
    for (int i = 0; i < n; i++)
        word(w, e, NULL, x->d->in.model[model ? model[i] : i]->path);
    if (x->d->in.document)
        word(w, e, NULL, x->d->in.document);
}

static int64_t block_of(const scene *x) {
    if (x->d->o->block)
        return x->d->o->block;
    return strcmp(x->r->device, "cpu") == 0 ? RANK_EVERY : 0;
}

// " --head L1.H2,L3.H0": nothing for an empty list. name ends in a blank.
static void heads_option(words *w, const char *name, const head_ref *v, int n, err *e) {
    for (int i = 0; i < n; i++)
        say(w, e, "%s%sL%d.H%d", i ? "," : " --", i ? "" : name, v[i].layer, v[i].head);
}

// Options in the order of their tables: the command writes itself into its files like that.
static char *loss_command(const scene *x, const char *out, err *e) {
    words w = {0};
    const options *o = x->d->o;
    int model[CURVES], n = losses_curves(x, model);
    say(&w, e, "deltop loss");
    operands(&w, x, model, n, e);
    as_given(&w, o, "device", e);
    as_given(&w, o, "precision", e);
    say(&w, e, " --length %lld --rows 1", (long long)x->T);
    if (block_of(x))
        say(&w, e, " --block %lld", (long long)block_of(x));
    say(&w, e, "%s%s", o->add_bos ? " --add-bos" : "", o->reset_at_bos ? " --reset-at-bos" : "");
    as_given(&w, o, "train-length", e);
    if (out)
        word(&w, e, "out", out);
    as_given(&w, o, "threads", e);
    say(&w, e, " --smooth %lld --resamples 0", (long long)losses_window(x));
    heads_option(&w, "ablate ", x->r->off, x->r->n_off, e);
    if (!w.failed)
        return w.s;
    free(w.s);
    return NULL;
}

static char *view_command(const scene *x, int panel, const char *out, err *e) {
    const dash *d = x->d;
    words w = {0};
    char number[64];
    head_ref cursor = {d->layer, d->head};
    static const char *const comparing[COMPARES] = {"both", "a", "b", "a-b"};
    say(&w, e, "deltop view");
    operands(&w, x, NULL, d->in.n_models, e);
    if (x->T && d->o->length)
        say(&w, e, " --length %lld", (long long)x->T);
    static const char *const kept[] = {"device", "precision", "block", "train-length", "threads"};
    for (int i = 0; i < 5; i++)
        as_given(&w, d->o, kept[i], e);
    say(&w, e, "%s%s", d->o->add_bos ? " --add-bos" : "",
        d->o->reset_at_bos ? " --reset-at-bos" : "");
    say(&w, e, " --at %lld", (long long)d->t);
    if (d->t1 > 0)
        say(&w, e, " --view %lld:%lld", (long long)d->t0, (long long)d->t1);
    heads_option(&w, "head ", &cursor, 1, e);
    heads_option(&w, "marked ", d->mark, d->n_marks, e);
    heads_option(&w, "ablate ", d->want.off, d->want.n_off, e);
    say(&w, e, " --metric %s --window %lld --smooth %lld", metric_name(d->look.metric),
        (long long)d->look.W, (long long)d->look.smooth);
    if (d->in.n_models > 1)
        say(&w, e, " --compare %s", comparing[d->look.compare]);
    text_real(d->look.surprise, 6, number, sizeof number);
    if (d->look.surprise != 6)
        say(&w, e, " --surprise %s", number);
    if (panel >= 0)
        say(&w, e, " --export %d", panel);
    if (out)
        word(&w, e, "out", out);
    if (w.failed) {
        free(w.s);
        return NULL;
    }
    return w.s;
}

// Times are never the same bytes: the command measures the same cases.
static char *bench_command(const scene *x, const char *out, err *e) {
    words w = {0};
    const kernels *k = x->s->kernels;
    say(&w, e, "deltop bench --suite shapes");
    word(&w, e, "model", x->d->in.model[k->slot]->path);
    say(&w, e, " --axis dtype=%s --no-cold --rounds %d --device %s", kernels_dtype(k),
        KERNEL_ROUNDS, k->threads ? "cpu" : x->d->o->device);
    if (k->threads)
        say(&w, e, " --threads %d", k->threads);
    if (out)
        word(&w, e, "out", out);
    if (!w.failed)
        return w.s;
    free(w.s);
    return NULL;
}

char *export_command(const scene *x, int panel, const char *out, err *e) {
    // Losses over bytes, of a part or as a difference alone are the view's own.
    if (panel == 3 && x->r && !x->bytes && x->read >= x->T && losses_window(x) < x->T)
        return loss_command(x, out, e);
    if (panel == 9 && x->s->kernels && x->s->kernels->n)
        return bench_command(x, out, e);
    return view_command(x, panel, out, e);
}

// Files -------------------------------------------------------------------------------------------

// Of the figures from `from` on the one with this id stays, where there is one.
static void keep_one(figures *f, size_t from, const char *id) {
    size_t kept = f->n;
    for (size_t i = from; i < f->n; i++)
        if (strcmp(f->v[i]->id, id) == 0)
            kept = i;
    if (kept == f->n)
        return;
    for (size_t i = from; i < f->n; i++)
        if (i != kept)
            figure_free(f->v[i]);
    f->v[from] = f->v[kept];
    f->n = from + 1;
}

// A page of panels is as wide as it is high, and no wider than three: more could not be read.
static int columns_for(const figures *f) {
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        n += f->v[i]->kind != FIG_TABLE;
    return n > 4 ? 3 : n > 1 ? 2 : 1;
}

bool export_figures(const scene *x, unsigned which, figures *out, err *e) {
    bool page = which & (which - 1); // several panels
    figures_init(out, 2);
    int wanted = 0, got = 0;
    for (int i = 0; i < n_panels; i++) {
        const panel *p = panels[i];
        if (!(which >> p->number & 1))
            continue;
        wanted++;
        if (!p->figures)
            continue;
        err why = {0};
        size_t from = out->n;
        if (!p->no_reading && (!x->r || x->read < 1))
            err_set(&why, ERR_INPUT, "nothing is computed yet");
        else if (p->figures(x, out, &why))
            got++;
        if (why.code != ERR_NONE && (why.code == ERR_NOMEM || which == 1u << p->number)) {
            figures_free(out);
            return err_set(e, why.code, "%s: %s", p->name, why.text);
        }
        // A page shows of the losses what the screen does; the panel's own picture has the rest.
        if (page && p->number == 3)
            keep_one(out, from, x->d->look.compare == COMPARE_DIFFERENCE ? "difference" : "loss");
    }
    if (got == 0) {
        figures_free(out);
        return err_set(e, ERR_UNSUPPORTED, "%s",
                       wanted == 1 ? "this panel is text: it has no picture and no data"
                                   : "no panel here has a picture");
    }
    if (page || out->n == 1)
        out->columns = columns_for(out);
    return true;
}

bool export_files(const scene *x, unsigned which, const char *png, const char *csv,
                  const char *command, err *e) {
    figures f;
    char source[512], description[160];
    if (!export_figures(x, which, &f, e))
        return false;
    if (x->text)
        snprintf(source, sizeof source, "%s sha256 %s", losses_document(x->text),
                 x->text->d.sha256);
    else
        snprintf(source, sizeof source, "%s", x->d->in.model[0]->name);
    snprintf(description, sizeof description, "%s, %s", x->s->device ? x->s->device : "no device",
             precision_name(x->s->prec));
    plot_options p = plot_defaults();
    p.title = f.v[0]->title;
    p.software = "deltop " DELTOP_VERSION;
    p.comment = command;
    p.source = source;
    p.description = description;
    bool ok = (!csv || table_csv_save(&f, command, csv, e)) && (!png || plot_png(&f, &p, png, e));
    if (!ok && csv && png)
        unlink(csv);
    figures_free(&f);
    return ok;
}

// Names -------------------------------------------------------------------------------------------

enum { NUMBERS = 10000 };

char *export_number(const char *dir, const char *stem, err *e) {
    size_t size = strlen(dir) + strlen(stem) + 32;
    char *path = mem_alloc(size, 1, "a path", e);
    if (!path || !output_make_folder(dir, e)) {
        free(path);
        return NULL;
    }
    for (int n = 1; n < NUMBERS; n++) {
        struct stat st;
        snprintf(path, size, "%s/deltop-%04d-%s.csv", dir, n, stem);
        if (stat(path, &st) == 0)
            continue;
        snprintf(path, size, "%s/deltop-%04d-%s.npy", dir, n, stem);
        if (stat(path, &st) == 0)
            continue;
        snprintf(path, size, "%s/deltop-%04d-%s.png", dir, n, stem);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) {
            close(fd);
            path[strlen(path) - 4] = 0;
            return path;
        }
        if (errno != EEXIST) {
            err_set(e, ERR_IO, "%s: %s", text_show(path), err_system(errno));
            free(path);
            return NULL;
        }
    }
    err_set(e, ERR_IO, "%s: all numbers up to %d are taken", text_show(dir), NUMBERS - 1);
    free(path);
    return NULL;
}

void export_unclaim(const char *path) {
    char name[4096];
    struct stat st;
    snprintf(name, sizeof name, "%s.png", path);
    if (stat(name, &st) == 0 && st.st_size == 0)
        unlink(name);
}
