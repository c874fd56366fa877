// Numbers of a panel alone, as CSV, NPY or lines of JSON.
#include "cli/dash/export.h"

#include "cli/dash/losses.h"
#include "cli/output.h"
#include "cli/table.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/npy.h"
#include "core/outfile.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool save_losses(const scene *x, const char *path, err *e) {
    int model[CURVES], n = losses_curves(x, model);
    int64_t T = x->s->shown[model[0]]->T;
    int64_t dims[] = {0, T - 1};
    for (int i = 0; i < n; i++)
        dims[0] += x->s->shown[model[i]]->T == T;
    npy_writer *w = npy_writer_open(path, NPY_F8, 2, dims, e);
    bool ok = w != NULL;
    for (int i = 0; ok && i < n; i++)
        if (x->s->shown[model[i]]->T == T)
            ok = npy_writer_append(w, x->s->shown[model[i]]->loss + 1, (size_t)(T - 1), e);
    ok = ok && npy_writer_finish(w, e);
    npy_writer_close(w);
    return ok;
}

// Heat maps as they are; series as [series, points], those with as many points as the first one; points of the plane as
// complex numbers.
static bool save_array(const figure *f, const char *path, err *e) {
    if (f->kind == FIG_HEATMAP)
        return npy_write(path, NPY_F8, 2,
                         (int64_t[]){(int64_t)f->heat->rows, (int64_t)f->heat->cols}, f->heat->cell,
                         e);
    if (f->n_series == 0)
        return err_set(e, ERR_UNSUPPORTED, "no numbers to write");
    size_t n = f->series[0].n, rows = 0;
    for (size_t i = 0; i < f->n_series; i++)
        rows += f->series[i].n == n;
    bool plane = f->kind == FIG_SCATTER;
    double *v = mem_alloc(rows * n * 2 + 1, sizeof *v, "an array", e);
    if (!v)
        return false;
    size_t at = 0;
    for (size_t i = 0; i < f->n_series; i++)
        for (size_t k = 0; f->series[i].n == n && k < n; k++) {
            if (plane)
                v[at++] = f->series[i].x[k];
            v[at++] = f->series[i].y[k];
        }
    bool ok =
        npy_write(path, plane ? NPY_C16 : NPY_F8, 2, (int64_t[]){(int64_t)rows, (int64_t)n}, v, e);
    free(v);
    return ok;
}

static void json_number(FILE *f, const char *key, double v) {
    char text[48];
    text_real(v, 17, text, sizeof text);
    fprintf(f, ", \"%s\": %s", key, isfinite(v) ? text : "null");
}

static void json_word(FILE *f, const char *s) {
    json_t *j = output_json_text(s);
    char *text = j ? json_dumps(j, JSON_ENCODE_ANY) : NULL;
    fputs(text ? text : "\"\"", f);
    free(text);
    json_decref(j);
}

// One point a line.
static bool save_lines(const figures *all, const char *path, err *e) {
    outfile *o = outfile_open(path, e);
    if (!o)
        return false;
    FILE *out = outfile_stream(o);
    for (size_t g = 0; g < all->n; g++) {
        const figure *f = all->v[g];
        for (size_t r = 0; f->heat && r < f->heat->rows; r++)
            for (size_t c = 0; c < f->heat->cols; c++) {
                fputs("{\"figure\": ", out);
                json_word(out, f->id);
                fprintf(out, ", \"row\": %zu, \"column\": %zu", r, c);
                json_number(out, "value", f->heat->cell[r * f->heat->cols + c]);
                fputs("}\n", out);
            }
        for (size_t i = 0; i < f->n_series; i++)
            for (size_t k = 0; k < f->series[i].n; k++) {
                fputs("{\"figure\": ", out);
                json_word(out, f->id);
                fputs(", \"series\": ", out);
                json_word(out, f->series[i].name);
                json_number(out, "x", f->series[i].x[k]);
                json_number(out, "y", f->series[i].y[k]);
                fputs("}\n", out);
            }
    }
    bool ok = outfile_commit(o, e);
    outfile_close(o);
    return ok;
}

bool export_data(const scene *x, int panel, const char *path, err *e) {
    figures f;
    bool npy = file_ends_with(path, ".npy"), lines = file_ends_with(path, ".jsonl");
    if (!npy && !lines && !file_ends_with(path, ".csv"))
        return err_set(e, ERR_USAGE, "%s: expected a name that ends in .csv, .npy or .jsonl",
                       text_show(path));
    if (!export_figures(x, 1u << panel, &f, e))
        return false;
    bool ok;
    if (npy && panel == 3)
        ok = save_losses(x, path, e);
    else if (npy)
        ok = save_array(f.v[0], path, e);
    else if (lines)
        ok = save_lines(&f, path, e);
    else {
        char *command = export_command(x, panel, NULL, e);
        ok = command && table_csv_save(&f, command, path, e);
        free(command);
    }
    figures_free(&f);
    return ok;
}
