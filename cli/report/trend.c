// The training run that a report's models are checkpoints of: its facts so far, and their figures.
//
// DIR/trend.jsonl keeps them, because trainers take old checkpoints away; those that were read with
// other settings are forgotten.
#include "analyses/trend.h"

#include "analyses/facts_read.h"
#include "cli/report/parts.h"
#include "core/file.h"
#include "core/sha256.h"

#include <stdlib.h>
#include <string.h>

// What numbers of different checkpoints must have in common: "cpu, f32; samples 16 every 64 ...; kjv, 2
// of 4096 tokens, sha256 64bdee465e4c".
static void how_of(const assembly *a, char *buf, size_t size) {
    const report *r = a->r;
    size_t n = (size_t)snprintf(buf, size, "%s; samples %lld every %lld, jump %g%s%s", r->how,
                                (long long)r->own->samples, (long long)r->own->every, r->own->jump,
                                r->o->add_bos ? ", BOS added" : "",
                                r->o->reset_at_bos ? ", emptied at BOS" : "");
    for (size_t d = 0; d < r->o->n_documents; d++)
        for (size_t m = 0; m < r->o->n_models; m++) {
            const report_pair *p = &r->pair[m * r->o->n_documents + d];
            if (!assembly_has(assembly_at(a, m, d)) || n >= size)
                continue;
            n += (size_t)snprintf(buf + n, size - n, "; %s, %lld of %lld tokens, sha256 %.12s",
                                  output_document(r->out, d), (long long)p->rows,
                                  (long long)p->length, p->sha256);
            break;
        }
}

static bool is_ours(const report *r, const char *model) {
    for (size_t m = 0; m < r->o->n_models; m++)
        if (strcmp(output_model(r->out, m), model) == 0)
            return true;
    return false;
}

// Models of earlier reports, in the same settings, that are not there any more.
static bool add_earlier(const assembly *a, const char *how, facts *out, err *e) {
    char *path = file_join(a->r->o->out, "trend.jsonl", e);
    facts f = {0};
    bool ok = path != NULL;
    if (ok && file_exists(path)) {
        err ignored = {0};
        if (!facts_read(path, &f, &ignored)) // not ours, or damaged: it begins anew
            facts_free(&f);
    }
    const char *model = NULL; // the one whose facts follow; NULL: it is left out
    for (size_t i = 0; ok && i < f.n; i++) {
        const fact *x = &f.v[i];
        if (strcmp(x->name, TREND_STEP) == 0)
            model = strcmp(x->how, how) == 0 && !is_ours(a->r, x->model) ? x->model : NULL;
        if (model && strcmp(x->model, model) == 0)
            ok = facts_add(out, x, e);
    }
    facts_free(&f);
    free(path);
    return ok;
}

static bool add_present(const assembly *a, const char *how, facts *out, err *e) {
    const report *r = a->r;
    bool ok = true;
    for (size_t m = 0; ok && m < r->o->n_models; m++) {
        fact step = FACT_EMPTY;
        step.name = TREND_STEP;
        step.unit = "1";
        step.model = (char *)output_model(r->out, m);
        step.how = (char *)how;
        step.value = r->of->step[m] >= 0 ? (double)r->of->step[m] : NAN;
        bool there = false;
        for (size_t i = 0; ok && i < a->facts.n; i++) {
            const fact *x = &a->facts.v[i];
            if (strcmp(x->model, step.model) != 0 || !trend_takes(x))
                continue;
            ok = (there || facts_add(out, &step, e)) && facts_add(out, x, e);
            there = true;
        }
    }
    return ok;
}

bool report_trend(assembly *a, figures *out, err *e) {
    char how[1024];
    facts f = {0};
    how_of(a, how, sizeof how);
    char *path = file_join(a->r->o->out, "trend.jsonl", e);
    bool ok = path && add_earlier(a, how, &f, e) && add_present(a, how, &f, e) &&
              facts_save(&f, path, e) && output_wrote(a->r->out, path, e) &&
              trend_figures(&f, out, e);
    facts_free(&f);
    free(path);
    return ok;
}
