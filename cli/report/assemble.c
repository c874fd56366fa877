#include "cli/report/assemble.h"

#include "cli/report/parts.h"
#include "cli/results.h"
#include "cli/say.h"
#include "core/mem.h"
#include "core/outfile.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

// ---- results ------------------------------------------------------------------------------------

// What is not there, as a sentence a task.
static bool add_missing(assembly *a, err *e, const char *name, const char *why) {
    if (!mem_grow((void **)&a->missing, &a->cap_missing, a->n_missing + 1, sizeof *a->missing,
                  "a list", e))
        return false;
    if (asprintf(&a->missing[a->n_missing], "%s: %s", name, why) < 0)
        return err_set(e, ERR_NOMEM, "out of memory: a list");
    a->n_missing++;
    return true;
}

// The rows of one pair; *n of them are there. A pair with missing rows is reported over those it has.
static row_record *load_rows(assembly *a, size_t pair, int64_t *n, err *e) {
    const report *r = a->r;
    const report_pair *p = &r->pair[pair];
    row_record *row = mem_zalloc((size_t)p->rows, sizeof *row, "rows", e);
    *n = 0;
    for (int64_t i = 0; row && i < p->rows; i++) {
        size_t task = p->first_task + (size_t)i;
        char name[256];
        err why = {0}, stored = {0};
        if (report_task_load(r, task, &row[*n], &why)) {
            ++*n;
            continue;
        }
        report_task_failure(r, task, &stored);
        const char *text = stored.code != ERR_NONE   ? stored.text
                           : why.code == ERR_MISSING ? "was not run"
                                                     : why.text;
        if (!add_missing(a, e, report_task_name(r, task, name, sizeof name), text)) {
            *n = -1;
            break;
        }
    }
    return row;
}

static void free_rows(row_record *row, int64_t n) {
    for (int64_t i = 0; row && i < n; i++)
        row_record_free(&row[i]);
    free(row);
}

static bool load_pair(assembly *a, size_t i, err *e) {
    const report_pair *p = &a->r->pair[i];
    const char *model = output_model(a->r->out, p->model),
               *document = output_document(a->r->out, p->document);
    if (p->failed.code != ERR_NONE) {
        char name[256];
        snprintf(name, sizeof name, "%s on %s", text_show(model), text_show(document));
        return add_missing(a, e, name, p->failed.text);
    }
    int64_t n = 0;
    row_record *row = load_rows(a, i, &n, e);
    if (!row || n < 0)
        return free_rows(row, p->rows), false;
    if (n == 0) {
        free(row);
        return true;
    }
    assembly_pair *x = &a->pair[i];
    a->n_there++;
    return pair_join(&x->p, model, document, row, n, e) &&
           loss_summarise(&x->p.loss, (int)a->r->own->resamples, (uint64_t)a->r->o->seed, e);
}

// ---- facts --------------------------------------------------------------------------------------

static bool make_facts(assembly *a, err *e) {
    const report *r = a->r;
    pair_options o = {.at = r->rules.at,
                      .n_at = r->rules.n_at,
                      .resamples = (int)r->own->resamples,
                      .seed = (uint64_t)r->o->seed};
    for (size_t m = 0; m < r->o->n_models; m++) {
        bool said = false;
        for (size_t d = 0; d < r->o->n_documents; d++) {
            size_t i = m * r->o->n_documents + d;
            assembly_pair *x = &a->pair[i], *base = &a->pair[d];
            if (!assembly_has(x))
                continue;
            if (!said &&
                !pair_model_facts(&x->p, r->pair[i].n_layers, r->pair[i].state_bytes, &a->facts, e))
                return false;
            said = true;
            x->first = a->facts.n;
            if (!pair_facts(&x->p, &o, &a->facts, e) ||
                (m > 0 && assembly_has(base) &&
                 !pair_difference(&base->p, &x->p, &o, &a->facts, e)))
                return false;
            x->n = a->facts.n - x->first;
        }
    }
    return true;
}

const fact *assembly_fact(const assembly *a, const assembly_pair *x, const char *name,
                          int64_t position) {
    for (size_t i = x->first; i < x->first + x->n; i++) {
        const fact *f = &a->facts.v[i];
        if (f->layer == FACT_NONE && f->row == FACT_NONE && f->position == position &&
            strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

double assembly_value(const assembly *a, const assembly_pair *x, const char *name,
                      int64_t position) {
    const fact *f = assembly_fact(a, x, name, position);
    return f ? f->value : NAN;
}

size_t assembly_n_heads(const assembly_pair *x) {
    const head_stats *s = &x->p.row[0].heads;
    size_t n = 0;
    for (int i = 0; i < s->n_layers; i++)
        n += (size_t)s->shape[i].H;
    return n;
}

void assembly_heads(const assembly *a, const assembly_pair *x, const char *name, int64_t position,
                    double *v) {
    const head_stats *s = &x->p.row[0].heads;
    size_t n = assembly_n_heads(x), first = 0;
    int at = 0; // layer of heads first, first + 1, ...
    for (size_t i = 0; i < n; i++)
        v[i] = NAN;
    for (size_t i = x->first; i < x->first + x->n; i++) {
        const fact *f = &a->facts.v[i];
        if (f->head == FACT_NONE || f->position != position || strcmp(f->name, name) != 0)
            continue;
        // Facts of one name come layer by layer.
        while (at + 1 < s->n_layers && s->layer[at] != f->layer)
            first += (size_t)s->shape[at++].H;
        if (first + (size_t)f->head < n)
            v[first + (size_t)f->head] = f->value;
    }
}

const char *assembly_head_name(const assembly_pair *x, size_t i, char *buf, size_t size) {
    const head_stats *s = &x->p.row[0].heads;
    int at = 0;
    while (at + 1 < s->n_layers && i >= (size_t)s->shape[at].H)
        i -= (size_t)s->shape[at++].H;
    snprintf(buf, size, "L%d.H%zu", s->n_layers ? s->layer[at] : 0, i);
    return buf;
}

char *report_command_line(const report *r, err *e) {
    static const char *const left_out[] = {"out",     "threads",  "timing", "json", "quiet",
                                           "workers", "assemble", "run",    "once", "poll",
                                           "settle",  "on-fail",  "until",  NULL};
    char *line = results_command_line_but(r->o, left_out, e), *out = NULL;
    if (line && asprintf(&out, "%s --out DIR", line) < 0) {
        out = NULL;
        err_set(e, ERR_NOMEM, "out of memory: a command line");
    }
    free(line);
    return out;
}

// ---- files --------------------------------------------------------------------------------------

typedef bool (*writer)(const assembly *a, FILE *out, err *e);

static bool write_facts(const assembly *a, FILE *out, err *e) {
    return facts_write(&a->facts, out, e);
}

static bool write_html(const assembly *a, FILE *out, err *e) {
    return page_html(&a->page, a->r->o->out, out, e);
}

static bool write_markdown(const assembly *a, FILE *out, err *e) {
    return page_markdown(&a->page, out, e);
}

static bool save(const assembly *a, const char *name, writer write, err *e) {
    char *path = output_path(a->r->out, name, e);
    outfile *f = path ? outfile_open(path, e) : NULL;
    err mine = {0};
    bool ok = f != NULL;
    if (ok) {
        // A stream that failed is told by the commit, with the system's reason.
        bool wrote = write(a, outfile_stream(f), &mine) || mine.code == ERR_IO;
        ok = wrote ? outfile_commit(f, e) && mine.code == ERR_NONE : false;
        if (!ok)
            err_set(e, mine.code, "%s", mine.text);
    }
    outfile_close(f);
    ok = ok && output_wrote(a->r->out, path, e);
    free(path);
    return ok;
}

static void release(assembly *a) {
    for (size_t i = 0; a->pair && i < a->r->n_pairs; i++)
        pair_free(&a->pair[i].p);
    for (size_t i = 0; i < a->n_missing; i++)
        free(a->missing[i]);
    free(a->missing);
    free(a->pair);
    free(a->has_writes);
    free(a->has_boundaries);
    rule_outcomes_free(&a->outcomes);
    facts_free(&a->facts);
    page_free(&a->page);
}

static bool check_rules(assembly *a, err *e) {
    const report_rules *r = &a->r->rules;
    return r->rules.n == 0 || rules_check(&r->rules, &a->facts,
                                          r->has_baseline ? &r->baseline : NULL, &a->outcomes, e);
}

bool report_assemble(const report *r, int *code, err *e) {
    assembly a = {.r = r};
    a.pair = mem_zalloc(r->n_pairs, sizeof *a.pair, "results", e);
    a.has_writes = mem_zalloc(r->o->n_documents, sizeof *a.has_writes, "results", e);
    a.has_boundaries = mem_zalloc(r->o->n_documents, sizeof *a.has_boundaries, "results", e);
    bool ok = a.pair && a.has_writes && a.has_boundaries;
    for (size_t i = 0; ok && i < r->n_pairs; i++)
        ok = load_pair(&a, i, e);
    if (ok && a.n_there == 0)
        ok = err_set(e, ERR_INPUT, "%s", a.n_missing ? a.missing[0] : "nothing was measured");
    ok = ok && make_facts(&a, e) && check_rules(&a, e) &&
         save(&a, "results.jsonl", write_facts, e) && report_pictures(&a, e) &&
         report_arrays(&a, e) && report_page(&a, e) && save(&a, "report.md", write_markdown, e) &&
         save(&a, "index.html", write_html, e);
    if (ok && r->of && r->of->rules)
        r->of->rules(r->of->ctx, r, &a.outcomes);
    if (ok) {
        bool broken = r->rules.rules.n && !rule_outcomes_good(&a.outcomes);
        *code = a.n_missing ? EXIT_FAILED : broken ? EXIT_CHECK : EXIT_DONE;
        ok = report_say(&a, e);
    }
    release(&a);
    return ok;
}
