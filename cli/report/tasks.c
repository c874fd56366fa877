#include "cli/report/tasks.h"

#include "analyses/report/row_store.h"
#include "cli/report/plan.h"
#include "cli/session.h"
#include "core/file.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/outfile.h"
#include "core/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "tasks"

// A folder that only looks as if it could be written is found out before hours of work.
static bool make_folder(const report *r, err *e) {
    char *path = file_join(r->o->out, FOLDER, e);
    bool ok = path && output_make_folder(path, e);
    free(path);
    return ok;
}

// ---- the list -----------------------------------------------------------------------------------

static bool list_tasks(report *r, err *e) {
    for (size_t i = 0; i < r->n_pairs; i++) {
        r->pair[i].first_task = r->n_tasks;
        r->n_tasks += r->pair[i].failed.code == ERR_NONE ? (size_t)r->pair[i].rows : 0;
    }
    r->task = mem_alloc(r->n_tasks, sizeof *r->task, "the list of tasks", e);
    size_t n = 0;
    for (size_t i = 0; r->task && i < r->n_pairs; i++)
        for (int64_t row = 0; row < r->pair[i].rows; row++)
            if (r->pair[i].failed.code == ERR_NONE)
                r->task[n++] = (report_task){i, row};
    return r->task != NULL;
}

report *report_open(const options *o, const backend *be, err *e) {
    report *r = mem_zalloc(1, sizeof *r, "a report", e);
    if (!r)
        return NULL;
    r->o = o;
    r->own = o->own;
    r->n_pairs = o->n_models * o->n_documents;
    plan_how(be, r->how, sizeof r->how);
    r->pair = mem_zalloc(r->n_pairs, sizeof *r->pair, "a report", e);
    if (r->pair && report_rules_open(&r->rules, r->own->rules, r->own->baseline, e) &&
        (r->out = output_open(o, e)) != NULL && make_folder(r, e) && plan_make(r, e) &&
        list_tasks(r, e))
        return r;
    report_free(r);
    return NULL;
}

void report_free(report *r) {
    if (!r)
        return;
    if (r->input)
        fclose(r->input);
    report_rules_free(&r->rules);
    output_free(r->out);
    free(r->pair);
    free(r->task);
    free(r);
}

const char *report_task_name(const report *r, size_t i, char *buf, size_t size) {
    const report_pair *p = &r->pair[r->task[i].pair];
    snprintf(buf, size, "%s on %s, row %" PRId64, text_show(output_model(r->out, p->model)),
             text_show(output_document(r->out, p->document)), r->task[i].row);
    return buf;
}

// DIR/tasks/MODEL/DOCUMENT, made when asked for; caller frees.
static char *folder_of(const report *r, const report_pair *p, bool make, err *e) {
    char *path = NULL;
    if (asprintf(&path, "%s/" FOLDER "/%s/%s", r->o->out, output_model(r->out, p->model),
                 output_document(r->out, p->document)) < 0) {
        err_set(e, ERR_NOMEM, "out of memory: a path");
        return NULL;
    }
    if (make && !output_make_folder(path, e)) {
        free(path);
        return NULL;
    }
    return path;
}

static char *file_of(const report *r, size_t i, const char *end, bool make, err *e) {
    const report_task *t = &r->task[i];
    char *folder = folder_of(r, &r->pair[t->pair], make, e), *path = NULL;
    if (folder && asprintf(&path, "%s/row-%" PRId64 ".%s", folder, t->row, end) < 0) {
        path = NULL;
        err_set(e, ERR_NOMEM, "out of memory: a path");
    }
    free(folder);
    return path;
}

static row_origin origin(const report_pair *p) {
    return (row_origin){p->settings, p->sha256, p->tokens};
}

bool report_task_load(const report *r, size_t i, row_record *out, err *e) {
    const report_pair *p = &r->pair[r->task[i].pair];
    char *path = file_of(r, i, "safetensors", false, e);
    err mine = {0};
    row_origin from = origin(p);
    bool ok = path && row_record_load(out, path, &from, output_model(r->out, p->model),
                                      output_document(r->out, p->document), &mine);
    // What looks like a result and is none would be taken for done by the next run, too.
    if (!ok && path && mine.code == ERR_INPUT && row_record_is(path, &from)) {
        unlink(path);
        err_set(e, ERR_INPUT, "%s; it was removed, run the same command again", mine.text);
    } else if (!ok) {
        err_set(e, mine.code, "%s", mine.text);
    }
    free(path);
    return ok;
}

bool report_task_done(const report *r, size_t i) {
    const report_pair *p = &r->pair[r->task[i].pair];
    char *path = file_of(r, i, "safetensors", false, NULL);
    row_origin from = origin(p);
    bool there = path && row_record_is(path, &from);
    free(path);
    return there;
}

// ---- failures -----------------------------------------------------------------------------------

static bool keep_failure(const report *r, size_t i, const err *why, err *e) {
    char *path = file_of(r, i, "failed", true, e);
    json_t *v = json_pack("{s:s, s:i, s:s}", "settings", r->pair[r->task[i].pair].settings, "code",
                          (int)why->code, "why", why->text);
    char *text = v ? json_dumps(v, JSON_INDENT(2)) : NULL;
    bool ok = path && (text || err_set(e, ERR_NOMEM, "out of memory: a message")) &&
              outfile_save(path, text, strlen(text), e);
    json_decref(v);
    free(text);
    free(path);
    return ok;
}

bool report_task_give_up(const report *r, size_t i, const char *why, err *e) {
    err x = {0};
    err_set(&x, ERR_IO, "%s", why);
    return keep_failure(r, i, &x, e);
}

void report_task_failure(const report *r, size_t i, err *why) {
    err_clear(why);
    err mine = {0};
    char *path = file_of(r, i, "failed", false, &mine);
    json_t *v = path ? jsonio_read(path, 1 << 16, &mine) : NULL;
    const char *settings = json_string_value(json_object_get(v, "settings"));
    const char *text = json_string_value(json_object_get(v, "why"));
    int code = (int)json_integer_value(json_object_get(v, "code"));
    if (settings && text && strcmp(settings, r->pair[r->task[i].pair].settings) == 0)
        err_set(why, code > ERR_NONE && code <= ERR_CANCELLED ? (err_code)code : ERR_INPUT, "%s",
                text);
    json_decref(v);
    free(path);
}

static void forget_failure(const report *r, size_t i) {
    char *path = file_of(r, i, "failed", false, NULL);
    if (path)
        unlink(path);
    free(path);
}

// ---- a worker -----------------------------------------------------------------------------------

struct report_worker {
    const report *r;
    session s;
    backend *exact;
    size_t model, pair; // held now; SIZE_MAX: none
    rows rows;          // of the pair
    int32_t bos;        // boundary token, -1
};

report_worker *report_worker_open(const report *r, backend *be, backend *exact, err *e) {
    report_worker *w = mem_zalloc(1, sizeof *w, "a worker", e);
    if (!w)
        return NULL;
    *w = (report_worker){.r = r,
                         .s = {.o = r->o, .be = be, .bos = -1, .input = r->input, .told = true},
                         .exact = exact,
                         .model = SIZE_MAX,
                         .pair = SIZE_MAX};
    return w;
}

void report_worker_free(report_worker *w) {
    if (!w)
        return;
    rows_free(&w->rows);
    w->s.input = NULL; // the report's
    w->s.be = NULL;    // the caller's
    session_close(&w->s);
    free(w);
}

static bool hold(report_worker *w, size_t pair, err *e) {
    const report_pair *p = &w->r->pair[pair];
    if (w->pair == pair)
        return true;
    rows_free(&w->rows);
    w->pair = SIZE_MAX;
    if (w->model != p->model) {
        w->model = SIZE_MAX;
        if (!session_model(&w->s, p->model, e))
            return false;
        w->model = p->model;
        int32_t bos = w->s.t ? tokenizer_bos(w->s.t) : -1;
        w->bos = bos >= 0 ? bos : w->s.m->info.bos;
    }
    if (!session_rows(&w->s, p->document, 2, &w->rows, e))
        return false;
    // Between planning and now a file has been written to: what was planned is not there any more.
    if (w->rows.n != p->rows || w->rows.length != p->length ||
        strcmp(w->rows.d.sha256, p->sha256) != 0)
        return err_set(e, ERR_INPUT, "%s: has changed since the report began",
                       text_show(w->r->o->document[p->document]));
    w->pair = pair;
    return true;
}

// Memory that a float64 copy of a model may take for the comparison.
enum { EXACT_GIB = 16 };

static bool too_large(const report_worker *w) {
    ckpt *c = ckpt_open(w->r->o->model[w->model], NULL);
    double elements = 0;
    for (int64_t i = 0; c && i < ckpt_count(c); i++)
        elements += (double)ckpt_at(c, i)->count;
    ckpt_close(c);
    return elements * 8 > EXACT_GIB * 0x1p30;
}

// Precision against float64, on the first row of every document. What keeps it from being done is
// said in the report and is no failure of the row.
static void check_precision(report_worker *w, const int32_t *ids, const row_options *how,
                            row_record *x) {
    err mine = {0};
    if (!w->exact)
        return;
    if (too_large(w)) {
        snprintf(x->check_why, sizeof x->check_why,
                 "the model needs more than %d GiB in float64: not compared", EXACT_GIB);
        return;
    }
    model *m = model_open(w->r->o->model[w->model], w->exact, &mine);
    if (!m || !row_record_check(x, m, ids, how, &mine))
        snprintf(x->check_why, sizeof x->check_why, "%.200s", mine.text);
    model_free(m);
}

static bool measure(report_worker *w, size_t i, progress_fn progress, void *ctx, row_record *x,
                    err *e) {
    const report *r = w->r;
    const report_pair *p = &r->pair[r->task[i].pair];
    int64_t row = r->task[i].row;
    if (!hold(w, r->task[i].pair, e))
        return false;
    const rows *rows = &w->rows;
    int64_t *starts = mem_alloc((size_t)rows->d.n_starts, sizeof *starts, "document starts", e);
    if (!starts)
        return false;
    for (int64_t k = 0; k < rows->d.n_starts; k++)
        starts[k] = rows->d.starts[k] - row * rows->length;
    measure_options how = {.every = plan_every(r->own, p->length),
                           .block = session_block(&w->s),
                           .train_length = p->train_length,
                           .windows = plan_windows,
                           .n_windows = PLAN_WINDOWS,
                           .samples = plan_samples(r->own, w->s.m, p->rows),
                           .bos = w->bos,
                           .starts = starts,
                           .n_starts = rows->d.n_starts,
                           .jump = r->own->jump,
                           .model = output_model(r->out, p->model),
                           .document = output_document(r->out, p->document)};
    const int32_t *ids = rows_ids(rows, row);
    bool ok =
        row_record_measure(w->s.m, ids, p->length, &rows->opt[row], &how, progress, ctx, x, e);
    if (ok && row == 0)
        check_precision(w, ids, &rows->opt[row], x);
    free(starts);
    return ok;
}

task_outcome report_task_run(report_worker *w, size_t i, progress_fn progress, void *progress_ctx,
                             double *seconds, err *e) {
    const report *r = w->r;
    const report_pair *p = &r->pair[r->task[i].pair];
    struct timespec from, to;
    row_record x = {0};
    err why = {0};
    clock_gettime(CLOCK_MONOTONIC, &from);
    bool ok = measure(w, i, progress, progress_ctx, &x, &why);
    clock_gettime(CLOCK_MONOTONIC, &to);
    if (seconds)
        *seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    if (!ok) {
        err_set(e, why.code, "%s", why.text);
        err later = {0};
        return why.code == ERR_CANCELLED || !keep_failure(r, i, &why, &later) ? TASK_STOP
                                                                              : TASK_FAILED;
    }
    snprintf(x.device, sizeof x.device, "%s", r->how);
    char *comma = strrchr(x.device, ',');
    if (comma)
        *comma = 0;
    char *folder = folder_of(r, p, true, e), *path = file_of(r, i, "safetensors", false, e);
    row_origin made = origin(p);
    ok = folder && path && row_record_save(&x, &made, path, e);
    if (ok)
        forget_failure(r, i);
    free(folder);
    free(path);
    row_record_free(&x);
    return ok ? TASK_STORED : TASK_STOP;
}
