// Every rule on every model and document that it fits.
#include "analyses/rules/rules.h"

#include "analyses/inspect.h"
#include "analyses/rules/eval.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *rule_verdict_name(rule_verdict v) {
    static const char *const name[] = {"holds", "BROKEN", "NOT DECIDED"};
    return name[v];
}

bool rule_outcomes_good(const rule_outcomes *o) {
    return o->n > 0 && o->count[RULE_BROKEN] == 0 && o->count[RULE_UNDECIDED] == 0;
}

void rule_outcomes_free(rule_outcomes *o) {
    for (size_t i = 0; i < o->n; i++) {
        free(o->v[i].model);
        free(o->v[i].document);
        free(o->v[i].sentence);
    }
    free(o->v);
    *o = (rule_outcomes){0};
}

// A model on a document; what there is in the baseline for it.
typedef struct pair {
    place here, there;
    bool has_there;
    char why_not[300];
} pair;

typedef struct pairs {
    pair *v;
    size_t n, room;
} pairs;

static void pairs_free(pairs *p) {
    for (size_t i = 0; i < p->n; i++) {
        free(p->v[i].here.heads);
        free(p->v[i].there.heads);
    }
    free(p->v);
}

static bool make_place(place *p, const fact_index *x, int model, const char *document,
                       const char *what, err *e) {
    *p = (place){.x = x,
                 .model = model,
                 .document = word_find(&x->documents, document),
                 .none = word_find(&x->documents, ""),
                 .model_name = x->models.v[model],
                 .document_name = document,
                 .what = what};
    p->heads = fact_index_heads(x, model, p->document, &p->n_heads, e);
    return p->heads != NULL;
}

static bool find_baseline(pair *p, const fact_index *base, err *e) {
    int model = word_find(&base->models, p->here.model_name);
    if (model < 0 && base->models.n == 1)
        model = 0; // an older state of the model under another name
    if (model < 0) {
        snprintf(p->why_not, sizeof p->why_not, "the baseline has no model %s and holds %zu others",
                 text_show(p->here.model_name), base->models.n);
        return true;
    }
    p->has_there = true;
    return make_place(&p->there, base, model, p->here.document_name, "the baseline: ", e);
}

static bool add_pair(pairs *l, const fact_index *x, const fact_index *base, int model, int document,
                     err *e) {
    if (!mem_grow((void **)&l->v, &l->room, l->n + 1, sizeof *l->v, "models and documents", e))
        return false;
    pair *p = &l->v[l->n++];
    *p = (pair){.why_not = "there is no baseline"};
    return make_place(&p->here, x, model, document < 0 ? "" : x->documents.v[document], "", e) &&
           (!base || find_baseline(p, base, e));
}

static bool has_facts(const fact_index *x, int model, int document) {
    for (size_t name = 0; name < x->names.n; name++) {
        size_t n;
        fact_index_span(x, model, document, (int)name, &n);
        if (n)
            return true;
    }
    return false;
}

// Models in the order of their first facts, each with its documents; one that has none stands alone.
static bool make_pairs(pairs *l, const fact_index *x, const fact_index *base, err *e) {
    for (size_t m = 0; m < x->models.n; m++) {
        size_t before = l->n;
        for (size_t d = 0; d < x->documents.n; d++)
            if (x->documents.v[d][0] && has_facts(x, (int)m, (int)d) &&
                !add_pair(l, x, base, (int)m, (int)d, e))
                return false;
        if (l->n == before && !add_pair(l, x, base, (int)m, INDEX_MISSING, e))
            return false;
    }
    return true;
}

static bool fits_globs(const rule_globs *g, const char *name) {
    for (size_t i = 0; i < g->n; i++)
        if (inspect_glob(g->v[i], name))
            return true;
    return g->n == 0;
}

static rule_outcome *add_outcome(rule_outcomes *out, const rule *r, const char *model,
                                 const char *document, err *e) {
    if (!mem_grow((void **)&out->v, &out->room, out->n + 1, sizeof *out->v, "outcomes", e))
        return NULL;
    rule_outcome *o = &out->v[out->n++];
    *o = (rule_outcome){.rule = r,
                        .model = mem_strdup(model, e),
                        .document = mem_strdup(document, e),
                        .verdict = RULE_UNDECIDED,
                        .value = NAN,
                        .bound = NAN,
                        .sign = ""};
    return o->model && o->document ? o : NULL;
}

static bool check_pair(evaluation *x, const rule *r, const pair *p, rule_outcomes *out, err *e) {
    rule_outcome *o = add_outcome(out, r, p->here.model_name, p->here.document_name, e);
    if (!o)
        return false;
    x->r = r;
    x->here = &p->here;
    x->there = p->has_there ? &p->there : NULL;
    x->why_not = p->why_not;
    x->e = e;
    return rule_evaluate(x) && rule_words(x, o, e);
}

static bool check_rule(evaluation *x, const rule *r, const pairs *l, rule_outcomes *out, err *e) {
    size_t fitting = 0;
    for (size_t i = 0; i < l->n; i++) {
        const place *p = &l->v[i].here;
        if (!fits_globs(&r->model, p->model_name) || !fits_globs(&r->document, p->document_name))
            continue;
        fitting++;
        if (!check_pair(x, r, &l->v[i], out, e))
            return false;
    }
    if (fitting)
        return true;
    rule_outcome *o = add_outcome(out, r, "", "", e);
    return o && (o->sentence = mem_strdup("it fits no model and document of the results", e));
}

bool rules_check(const rules *r, const facts *f, const facts *baseline, rule_outcomes *out,
                 err *e) {
    fact_index x = {0}, base = {0};
    pairs l = {0};
    *out = (rule_outcomes){0};
    evaluation *v = mem_zalloc(1, sizeof *v, "an evaluation", e); // too large for a stack
    const rule *needs = rules_baseline(r);
    bool ok = v != NULL;
    if (ok && needs && !baseline)
        ok =
            err_set(e, ERR_USAGE, "%s, line %d: rule \"%s\" needs a baseline: give --baseline FILE",
                    text_show(r->path), needs->line, needs->name);
    ok = ok && rules_names_known(r, f, e) && fact_index_make(f, &x, e);
    if (ok && baseline)
        ok = fact_index_make(baseline, &base, e) || err_prefix(e, "baseline");
    if (ok && x.n == 0)
        ok = err_set(e, ERR_INPUT, "the results hold no fact that rules are about");
    ok = ok && make_pairs(&l, &x, baseline ? &base : NULL, e);
    for (size_t i = 0; ok && i < r->n; i++)
        ok = check_rule(v, &r->v[i], &l, out, e);
    out->models = x.models.n;
    out->pairs = l.n;
    for (size_t i = 0; i < out->n; i++)
        out->count[out->v[i].verdict]++;
    if (v)
        evaluation_free(v);
    free(v);
    pairs_free(&l);
    fact_index_free(&x);
    fact_index_free(&base);
    if (!ok)
        rule_outcomes_free(out);
    return ok;
}
