#include "cli/report/timing.h"

#include "core/mem.h"
#include "core/outfile.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// Untouched pages of a mapping cost nothing: there is room for every report there will be.
enum { MOST_TIMES = 1 << 20 };

struct timing {
    atomic_size_t n; // claimed; may go beyond MOST_TIMES
    struct {
        size_t task;
        double seconds; // 0: not written yet
    } v[MOST_TIMES];
};

timing *timing_new(err *e) {
    timing *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (t != MAP_FAILED)
        return t;
    err_set(e, ERR_NOMEM, "out of memory: times");
    return NULL;
}

void timing_free(timing *t) {
    if (t)
        munmap(t, sizeof *t);
}

void timing_add(timing *t, size_t task, double seconds) {
    size_t i = atomic_fetch_add(&t->n, 1);
    if (i >= MOST_TIMES)
        return;
    t->v[i].task = task;
    t->v[i].seconds = seconds;
}

static json_t *row(const report *r, size_t task, double seconds) {
    const report_pair *p = &r->pair[r->task[task].pair];
    return json_pack("{s:o, s:o, s:I, s:I, s:f, s:f}", "model",
                     output_json_text(output_model(r->out, p->model)), "document",
                     output_json_text(output_document(r->out, p->document)), "row",
                     (json_int_t)r->task[task].row, "tokens", (json_int_t)p->length, "seconds",
                     seconds, "tokens_per_second", (double)p->length / seconds);
}

static json_t *all_of(const timing *t, const report *r) {
    double *took = calloc(r->n_tasks + 1, sizeof *took), all = 0;
    json_t *list = json_array();
    size_t n = t->n < MOST_TIMES ? t->n : MOST_TIMES;
    int bad = !took || !list;
    for (size_t i = 0; !bad && i < n; i++)
        if (t->v[i].seconds > 0 && t->v[i].task < r->n_tasks)
            took[t->v[i].task] = t->v[i].seconds;
    for (size_t i = 0; !bad && i < r->n_tasks; i++) {
        all += took[i];
        bad = took[i] > 0 && json_array_append_new(list, row(r, i, took[i])) != 0;
    }
    free(took);
    json_t *v =
        bad ? NULL : json_pack("{s:s, s:f, s:O}", "how", r->how, "seconds", all, "rows", list);
    json_decref(list);
    return v;
}

bool timing_save(const timing *t, const report *r, err *e) {
    json_t *v = all_of(t, r);
    char *text = v ? json_dumps(v, JSON_INDENT(2)) : NULL,
         *path = output_path(r->out, "timing.json", e);
    bool ok = path && (text || err_set(e, ERR_NOMEM, "out of memory: the times")) &&
              outfile_save(path, text, strlen(text), e) && output_wrote(r->out, path, e);
    json_decref(v);
    free(text);
    free(path);
    return ok;
}
