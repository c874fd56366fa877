#include "cli/compare_files.h"

#include "bench/figures.h"
#include "cli/bench_print.h"
#include "cli/results.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/outfile.h"
#include "core/text.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_RUNS = 10 };

static bool add(record_files *f, const char *path, err *e) {
    if (!mem_grow((void **)&f->v, &f->cap, f->n + 1, sizeof *f->v, "results", e))
        return false;
    record_init(&f->v[f->n]);
    return record_read(&f->v[f->n++], path, e);
}

static const char *date_of(const record *r) {
    const char *s =
        json_string_value(json_object_get(json_object_get(r->about, "environment"), "date"));
    return s ? s : "";
}

static int by_date(const void *a, const void *b) {
    const record *x = a, *y = b;
    int c = strcmp(date_of(x), date_of(y));
    return c ? c : strcmp(x->path, y->path);
}

// Everything in a folder that is a result: FOLDER/NAME.json or FOLDER/NAME/bench.json.
static bool add_folder(record_files *f, const char *folder, err *e) {
    DIR *d = opendir(folder);
    size_t first = f->n;
    bool ok = d != NULL || err_set(e, ERR_IO, "%s: cannot be listed", text_show(folder));
    for (struct dirent *x; ok && (x = readdir(d));) {
        if (x->d_name[0] == '.')
            continue;
        char *path = file_join(folder, x->d_name, e);
        char *inner = path && file_is_folder(path) ? file_join(path, "bench.json", e) : NULL;
        const char *file = inner ? inner : path;
        ok = path && (!file_is_folder(path) || inner);
        if (ok && file_ends_with(file, ".json") && file_exists(file))
            ok = add(f, file, e);
        free(inner);
        free(path);
    }
    if (d)
        closedir(d);
    if (ok && f->n == first)
        return err_set(e, ERR_MISSING, "%s: holds no result of deltop bench", text_show(folder));
    if (!ok)
        return false;
    qsort(f->v + first, f->n - first, sizeof *f->v, by_date);
    while (f->n - first > LAST_RUNS) {
        record_free(&f->v[first]);
        memmove(f->v + first, f->v + first + 1, (f->n - first - 1) * sizeof *f->v);
        f->n--;
    }
    return true;
}

bool record_files_read(record_files *f, const char *const *path, size_t n, err *e) {
    for (size_t i = 0; i < n; i++) {
        char *inner = file_is_folder(path[i]) ? file_join(path[i], "bench.json", e) : NULL;
        bool whole = inner && !file_exists(inner);
        bool ok =
            whole && i + 1 < n ? add_folder(f, path[i], e) : add(f, inner ? inner : path[i], e);
        free(inner);
        if (!ok)
            return false;
    }
    return true;
}

void record_files_free(record_files *f) {
    for (size_t i = 0; i < f->n; i++)
        record_free(&f->v[i]);
    free(f->v);
    *f = (record_files){0};
}

bool compare_copy(const char *from, const char *to, err *e) {
    enum { MOST = 256 << 20 };
    size_t n = 0;
    char *bytes = file_read(from, MOST, &n, e);
    bool ok = bytes && outfile_save(to, bytes, n, e);
    free(bytes);
    return ok;
}

typedef struct printed {
    const comparison *c;
    const char *command;
    size_t max_bytes;
    bool strict;
} printed;

static void csv(const printed *p, FILE *f) {
    compare_print_csv(p->c, p->command, f);
}

static void markdown(const printed *p, FILE *f) {
    compare_print_markdown(p->c, p->max_bytes, f);
}

static void junit_xml(const printed *p, FILE *f) {
    compare_print_junit(p->c, p->strict, f);
}

static bool save(output *x, const char *path, const printed *p,
                 void (*print)(const printed *, FILE *), err *e) {
    outfile *f = outfile_open(path, e);
    if (!f)
        return false;
    print(p, outfile_stream(f));
    bool ok = outfile_commit(f, e) && output_wrote(x, path, e);
    outfile_close(f);
    return ok;
}

bool compare_save(output *x, const options *o, const comparison *c, const char *junit,
                  size_t max_bytes, bool strict, const record *runs, size_t n, err *e) {
    static const struct {
        const char *name;
        void (*print)(const printed *, FILE *);
    } files[] = {{"compare.csv", csv}, {"compare.md", markdown}, {"compare.xml", junit_xml}};
    char *command = results_command_line(o, e);
    printed p = {c, command, max_bytes, strict};
    bool ok = command && (!junit || save(x, junit, &p, junit_xml, e));
    for (size_t i = 0; ok && output_wants_files(x) && i < sizeof files / sizeof *files; i++) {
        char *path = output_path(x, files[i].name, e);
        ok = path && save(x, path, &p, files[i].print, e);
        free(path);
    }
    figures f;
    figures_init(&f, 1);
    results_about about = {.name = "compare", .source = command, .description = "deltop compare"};
    ok = ok && (!output_wants_files(x) ||
                (compare_figures(c, command, &f, e) && bench_history(runs, n, &f, e) &&
                 results_png(x, o, &f, &about, e)));
    figures_free(&f);
    free(command);
    return ok;
}
