#include "cli/table.h"

#include "core/mem.h"
#include "core/outfile.h"
#include "core/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD = 512 };

// Plain ASCII stays as it is; anything else is made safe to show.
static const char *clean(const char *s, char *buf) {
    for (const char *p = s; *p; p++)
        if (*p < 0x20 || *p > 0x7e)
            return text_escape(s, strlen(s), buf, FIELD);
    return s;
}

static void put_text(FILE *out, const char *raw) {
    char buf[FIELD];
    const char *s = clean(raw, buf);
    if (!s[strcspn(s, ",\"\r\n")] && *s != ' ' && (!*s || s[strlen(s) - 1] != ' ')) {
        fputs(s, out);
        return;
    }
    fputc('"', out);
    for (; *s; s++) {
        if (*s == '"')
            fputc('"', out);
        fputc(*s, out);
    }
    fputc('"', out);
}

static void put_number(FILE *out, double x) {
    char buf[48];
    if (isnan(x))
        return;
    text_real(x, 17, buf, sizeof buf);
    fputs(buf, out);
}

static void next_number(FILE *out, double x) {
    fputc(',', out);
    put_number(out, x);
}

// "name MORE (unit)" as one field.
static void put_title(FILE *out, const char *name, const char *more, const char *unit) {
    char buf[FIELD];
    snprintf(buf, sizeof buf, "%.200s%s%.60s%s%.200s%s", name, *more && *name ? " " : "", more,
             *unit ? " (" : "", unit, *unit ? ")" : "");
    put_text(out, buf);
}

// Positions and counts: in full, however large; an exponent would round them for the eye.
static bool whole(double x) {
    return fabs(x) < 1e15 && x == rint(x);
}

// The shortest digits that read back as x: for edges in a header.
static void shortest(double x, char *buf, size_t size) {
    double back;
    for (int digits = whole(x) ? 17 : 1; digits <= 17; digits++) {
        text_real(x, digits, buf, size);
        if (text_number(buf, &back) && back == x)
            return;
    }
}

static const char *name_of(const axis *a, const char *otherwise) {
    return a->name && *a->name ? a->name : otherwise;
}

static bool has_band(const figure *f) {
    for (size_t i = 0; i < f->n_series; i++)
        if (f->series[i].lo)
            return true;
    return false;
}

static void series_header(const figure *f, bool bands, FILE *out) {
    const char *ux = f->x.unit ? f->x.unit : "", *uy = f->y.unit ? f->y.unit : "";
    fputs("figure,series,", out);
    if (f->kind == FIG_HIST) {
        put_title(out, name_of(&f->x, "x"), "from", ux);
        fputc(',', out);
        put_title(out, name_of(&f->x, "x"), "to", ux);
    } else {
        put_title(out, name_of(&f->x, f->kind == FIG_BARS ? "category" : "x"), "", ux);
    }
    fputc(',', out);
    put_title(out, name_of(&f->y, "y"), "", uy);
    if (bands) {
        fputc(',', out);
        put_title(out, name_of(&f->y, "y"), "low", uy);
        fputc(',', out);
        put_title(out, name_of(&f->y, "y"), "high", uy);
    }
    fputc('\n', out);
}

static void series_rows(const figure *f, bool bands, FILE *out) {
    for (size_t i = 0; i < f->n_series; i++) {
        const series *s = &f->series[i];
        for (size_t k = 0; k < s->n; k++) {
            put_text(out, f->id);
            fputc(',', out);
            put_text(out, s->name);
            if (f->kind == FIG_BARS) {
                fputc(',', out);
                put_text(out, k < f->n_category ? f->category[k] : "");
            } else {
                next_number(out, s->x[k]);
            }
            if (f->kind == FIG_HIST)
                next_number(out, s->x[k + 1]);
            next_number(out, s->y[k]);
            if (bands) {
                next_number(out, s->lo ? s->lo[k] : NAN);
                next_number(out, s->lo ? s->hi[k] : NAN);
            }
            fputc('\n', out);
        }
    }
}

static void heat_header(const figure *f, FILE *out) {
    const heat *h = f->heat;
    const char *ux = f->x.unit ? f->x.unit : "";
    fputs("figure,", out);
    put_title(out, name_of(&f->y, "row"), "", "");
    fputs(",value", out);
    for (size_t j = 0; j < h->cols; j++) {
        char from[32], to[32], range[72];
        fputc(',', out);
        if (h->col_label) {
            put_title(out, name_of(&f->x, "x"), h->col_label[j], ux);
            continue;
        }
        shortest(h->x[j], from, sizeof from);
        shortest(h->x[j + 1], to, sizeof to);
        snprintf(range, sizeof range, "%s..%s", from, to);
        put_title(out, name_of(&f->x, "x"), range, ux);
    }
    fputc('\n', out);
}

// Where a row begins: a sum of steps, whose last digits mean nothing unless it is a whole number.
static void put_edge(FILE *out, double x) {
    char buf[48];
    text_real(x, whole(x) ? 17 : 6, buf, sizeof buf);
    fputs(buf, out);
}

static void heat_rows(const figure *f, FILE *out) {
    const heat *h = f->heat;
    for (size_t i = 0; i < h->rows; i++) {
        put_text(out, f->id);
        fputc(',', out);
        if (h->row_label)
            put_text(out, h->row_label[i]);
        else
            put_edge(out, heat_row_edge(h, i));
        fputc(',', out);
        put_title(out, h->value.name, "", h->value.unit);
        for (size_t j = 0; j < h->cols; j++)
            next_number(out, h->cell[i * h->cols + j]);
        fputc('\n', out);
    }
}

static void table_header(const figure *f, bool named, FILE *out) {
    if (named)
        fputs(f->n_columns ? "figure," : "figure", out);
    for (size_t j = 0; j < f->n_columns; j++) {
        if (j)
            fputc(',', out);
        put_title(out, f->columns[j].name, "", f->columns[j].unit);
    }
    fputc('\n', out);
}

static void table_rows(const figure *f, bool named, FILE *out) {
    size_t n = f->n_columns ? f->columns[0].n : 0;
    for (size_t i = 0; i < n; i++) {
        if (named)
            put_text(out, f->id);
        for (size_t j = 0; j < f->n_columns; j++) {
            const column *c = &f->columns[j];
            if (j || named)
                fputc(',', out);
            if (c->text)
                put_text(out, c->text[i]);
            else
                put_number(out, c->num[i]);
        }
        fputc('\n', out);
    }
}

typedef struct layout {
    bool bands; // any figure of the set has them: all blocks then have the columns
    bool named; // tables carry their figure's name
} layout;

static void header(const figure *f, const layout *l, FILE *out) {
    if (f->kind == FIG_TABLE)
        table_header(f, l->named, out);
    else if (f->kind == FIG_HEATMAP)
        heat_header(f, out);
    else
        series_header(f, l->bands && f->kind != FIG_HIST, out);
}

// The header as text, to see whether two figures share it. NULL and ERR_NOMEM on failure.
static char *header_text(const figure *f, const layout *l, err *e) {
    char *text = NULL;
    size_t n = 0;
    FILE *m = open_memstream(&text, &n);
    if (!m) {
        err_set(e, ERR_NOMEM, "out of memory: the header of a table");
        return NULL;
    }
    header(f, l, m);
    bool bad = ferror(m);
    if (fclose(m) || bad) {
        err_set(e, ERR_NOMEM, "out of memory: the header of a table");
        free(text);
        return NULL;
    }
    return text;
}

bool table_csv(const figures *f, const char *command, FILE *out, err *e) {
    layout l = {false, f->n > 1};
    for (size_t i = 0; i < f->n; i++)
        l.bands |= has_band(f->v[i]);
    if (command) {
        char *safe = mem_alloc(strlen(command) * 8 + 1, 1, "a command line", e);
        if (!safe)
            return false;
        // Any byte takes at most eight as an escape. A line that shows as it is stays a command
        // that can be pasted, backslashes included.
        bool plain = true;
        for (const char *p = command; *p; p++)
            plain = plain && *p >= 0x20 && *p <= 0x7e;
        text_escape(command, strlen(command), safe, strlen(command) * 8 + 1);
        fprintf(out, "# command: %s\n", plain ? command : safe);
        free(safe);
    }
    char *before = NULL;
    for (size_t i = 0; i < f->n; i++) {
        const figure *g = f->v[i];
        if (g->kind == FIG_HEATMAP && !g->heat)
            continue;
        char *now = header_text(g, &l, e);
        if (!now) {
            free(before);
            return false;
        }
        if (!before || strcmp(before, now))
            fprintf(out, "%s%s", before ? "\n" : "", now);
        free(before);
        before = now;
        if (g->kind == FIG_TABLE)
            table_rows(g, l.named, out);
        else if (g->kind == FIG_HEATMAP)
            heat_rows(g, out);
        else
            series_rows(g, l.bands && g->kind != FIG_HIST, out);
    }
    free(before);
    if (ferror(out))
        return err_set(e, ERR_IO, "cannot write CSV: %s",
                       errno ? err_system(errno) : "stream error");
    return true;
}

bool table_csv_save(const figures *f, const char *command, const char *path, err *e) {
    outfile *o = outfile_open(path, e);
    if (!o)
        return false;
    bool ok = table_csv(f, command, outfile_stream(o), e);
    ok = ok ? outfile_commit(o, e) : err_prefix(e, "%s", text_show(path));
    outfile_close(o);
    return ok;
}
