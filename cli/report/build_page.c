// What stands on the page, in order: findings, models beside each other, pictures, every model and
// document, what the words mean.
#include "cli/report/parts.h"

#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- head ---------------------------------------------------------------------------------------

static bool put_head(assembly *a, err *e) {
    const report *r = a->r;
    char *again = report_command_line(r, e);
    size_t M = r->o->n_models, D = r->o->n_documents;
    bool ok =
        again && page_heading(&a->page, 1, e, "%s", a->page.title) &&
        page_text(&a->page, e,
                  "%zu model%s, %zu document%s, %zu row%s. Computed on %s; deltop %s. Made by: "
                  "%s",
                  M, M == 1 ? "" : "s", D, D == 1 ? "" : "s", r->n_tasks,
                  r->n_tasks == 1 ? "" : "s", r->how, DELTOP_VERSION, again);
    free(again);
    return ok;
}

static bool put_missing(assembly *a, err *e) {
    if (a->n_missing == 0)
        return true;
    bool ok = page_heading(&a->page, 2, e, "Missing") &&
              page_text(&a->page, e, "Run the same command again to read what is missing.");
    for (size_t i = 0; ok && i < a->n_missing; i++)
        ok = page_item(&a->page, WEIGHT_BAD, e, "%s", a->missing[i]);
    return ok;
}

// Forty checkpoints on three documents say more than anybody reads at once.
enum { MOST_FINDINGS = 60 };

// Readings that end before the training length, or of models without one, say nothing about what is
// behind it, and "nothing broke" must not sound as if they did.
static size_t not_beyond(const assembly *a, size_t *read, bool *unknown) {
    size_t n = 0;
    *read = 0;
    *unknown = false;
    for (size_t i = 0; i < a->r->n_pairs; i++) {
        const assembly_pair *x = &a->pair[i];
        if (!assembly_has(x))
            continue;
        bool short_of = x->p.loss.train_length <= 0 || assembly_end(x) <= x->p.loss.train_length;
        *unknown |= x->p.loss.train_length <= 0;
        n += short_of;
        ++*read;
    }
    return n;
}

static bool put_findings(assembly *a, err *e) {
    const report *r = a->r;
    size_t n = 0;
    bool ok = page_heading(&a->page, 2, e, "Findings");
    for (size_t d = 0; ok && d < r->o->n_documents; d++)
        ok = report_comparison(a, d, e);
    size_t first = a->page.n;
    for (size_t i = 0; ok && i < r->n_pairs; i++)
        if (assembly_has(&a->pair[i]))
            ok = report_problems(a, &a->pair[i], &n, e);
    ok = ok && page_weigh_items(&a->page, first, MOST_FINDINGS, e);
    size_t read;
    bool unknown;
    size_t inside = not_beyond(a, &read, &unknown);
    if (ok && n == 0)
        ok = page_item(&a->page, WEIGHT_GOOD, e,
                       "Nothing broke%s: no loss or state that is not finite, no jump%s.",
                       a->n_missing ? " in what was read" : "",
                       inside == read ? ", no state out of line"
                                      : ", no rise beyond the training length, no head that grows "
                                        "or is out of line");
    if (ok && inside)
        ok =
            inside == read
                ? page_item(&a->page, WEIGHT_PLAIN, e,
                            "Nothing was read beyond the training length%s: what happens there is "
                            "not known.",
                            unknown ? " (--train-length names one where the config does not)" : "")
                : page_item(&a->page, WEIGHT_PLAIN, e,
                            "%zu of %zu readings do not go beyond the training length%s: what "
                            "happens there is not known.",
                            inside, read,
                            unknown ? " (--train-length names one where the config does not)" : "");
    return ok;
}

static bool put_rules(assembly *a, err *e) {
    const rule_outcomes *r = &a->outcomes;
    static const item_weight weights[] = {
        [RULE_HOLDS] = WEIGHT_GOOD, [RULE_BROKEN] = WEIGHT_BAD, [RULE_UNDECIDED] = WEIGHT_WARN};
    if (a->r->rules.rules.n == 0)
        return true;
    char file[256];
    file_base(a->r->rules.rules.path, file, sizeof file);
    bool ok = page_heading(&a->page, 2, e, "Rules");
    for (size_t i = 0; ok && i < r->n; i++) {
        const rule_outcome *o = &r->v[i];
        if (o->verdict != RULE_HOLDS)
            ok = page_item(&a->page, weights[o->verdict], e, "%s: %s%s%s%s%s: %s",
                           rule_verdict_name(o->verdict), o->rule->name, o->model[0] ? ", " : "",
                           o->model, o->document[0] ? " on " : "", o->document, o->sentence);
    }
    return ok &&
           page_item(&a->page, r->count[RULE_HOLDS] == r->n ? WEIGHT_GOOD : WEIGHT_PLAIN, e,
                     "%zu of %zu hold, %zu broken, %zu not decided (%s).", r->count[RULE_HOLDS],
                     r->n, r->count[RULE_BROKEN], r->count[RULE_UNDECIDED], file);
}

// ---- documents ----------------------------------------------------------------------------------

static bool put_picture(assembly *a, size_t d, const char *name, const char *what, err *e) {
    const report *r = a->r;
    char file[600], text[800];
    bool one = r->o->n_documents == 1;
    snprintf(file, sizeof file, "%s%s%.500s.png", name, one ? "" : "-",
             one ? "" : output_document(r->out, d));
    snprintf(text, sizeof text, "%s, %.500s", what, output_document(r->out, d));
    return page_picture(&a->page, file, text, false, e);
}

static bool any_state(const assembly *a, size_t d) {
    bool any = false;
    for (size_t m = 0; m < a->r->o->n_models; m++) {
        const assembly_pair *x = assembly_at(a, m, d);
        any = any || (assembly_has(x) && x->p.erank.n_layers);
    }
    return any;
}

static const report_pair *first_read(const assembly *a, size_t d) {
    for (size_t m = 0; m < a->r->o->n_models; m++)
        if (assembly_has(assembly_at(a, m, d)))
            return &a->r->pair[m * a->r->o->n_documents + d];
    return NULL;
}

static bool put_document(assembly *a, size_t d, err *e) {
    const report *r = a->r;
    const report_pair *p = first_read(a, d);
    if (!p)
        return true;
    bool ok =
        page_heading(&a->page, 2, e, "%s", output_document(r->out, d)) &&
        page_text(&a->page, e,
                  "%" PRId64 " row%s of %" PRId64 " tokens, each from a zero state%s; unread after "
                  "the last row: %" PRId64 " of the document's %" PRId64 " tokens%s%s. sha256 %s",
                  p->rows, p->rows == 1 ? "" : "s", p->length,
                  r->o->reset_at_bos ? ", emptied at document starts" : "", p->unread, p->tokens,
                  p->added[0] ? "; ids that the text does not hold: " : "", p->added, p->sha256) &&
        report_overview_table(a, d, e) &&
        put_picture(a, d, "loss", "loss, difference to the first model, perplexity", e);
    if (ok && any_state(a, d))
        ok = put_picture(a, d, "states", "effective rank and norm of the states", e);
    if (ok && a->has_writes[d])
        ok = put_picture(a, d, "writes", "delta-rule loss, write strength, half-life of the gates",
                         e);
    if (ok && a->has_boundaries[d])
        ok = put_picture(a, d, "boundaries", "gates and states around document boundaries", e);
    if (ok && r->o->n_models > 1)
        ok = page_fold(&a->page, e, "Loss of each model less each other's") &&
             report_difference_table(a, d, e) && page_unfold(&a->page, e);
    return ok;
}

// ---- each model on each document ----------------------------------------------------------------

static bool own_picture(assembly *a, size_t i, const char *name, const char *what, bool colours,
                        err *e) {
    const report *r = a->r;
    const report_pair *p = &r->pair[i];
    char file[1200], text[800];
    if (output_is_flat(r->out))
        snprintf(file, sizeof file, "%s", name);
    else
        snprintf(file, sizeof file, "%.500s/%.500s/%s", output_model(r->out, p->model),
                 output_document(r->out, p->document), name);
    snprintf(text, sizeof text, "%s, %.300s on %.300s", what, output_model(r->out, p->model),
             output_document(r->out, p->document));
    return page_picture(&a->page, file, text, colours, e);
}

static bool put_pair(assembly *a, size_t i, err *e) {
    const assembly_pair *x = &a->pair[i];
    if (!assembly_has(x))
        return true;
    bool ok = page_heading(&a->page, 3, e, "%s on %s", x->p.model, x->p.document) &&
              report_remarks(a, x, e);
    if (ok && x->p.erank.n_layers)
        ok = page_fold(&a->page, e, "Heads and spectra") && report_heads_table(a, x, e) &&
             own_picture(a, i, "heads.png", "effective rank and norm of each head", true, e) &&
             (x->p.spectrum.n_layers == 0 ||
              own_picture(a, i, "spectrum.png", "spectra of transitions", false, e)) &&
             page_unfold(&a->page, e);
    return ok;
}

// ---- words --------------------------------------------------------------------------------------

static bool put_words(assembly *a, err *e) {
    static const char *const words[] = {
        "L is the training length. \"At N\" is over the second half of the first N tokens.",
        "Extrapolation: mean loss past L less that over L/2 to L, on the same rows.",
        "Effective rank: exp of the entropy of a state's normalised singular values. It says "
        "nothing about size, so norms stand beside it.",
        "Delta-rule loss: |v - H^T k| / |v|, what a write finds missing in the state.",
        "Saturated: decays of at least 0.999 or at most 0.001; betas within 1 % of 0 or of their "
        "bound. Reflecting: beta |k|^2 above 1.",
        "Half-life: median over the modes of the longest sampled product of transitions.",
        "Boundary AUC: how well a head's gate, or the shrinking of its state, tells the start of a "
        "document from other tokens (0.5 is chance).",
        "Intervals are 95 % by bootstrap over rows; with few rows they are rough.",
    };
    bool ok = page_heading(&a->page, 2, e, "Words");
    for (size_t i = 0; ok && i < sizeof words / sizeof *words; i++)
        ok = page_item(&a->page, WEIGHT_PLAIN, e, "%s", words[i]);
    return ok && page_text(&a->page, e,
                           "Every number with its name, unit and place: results.jsonl. Arrays lie "
                           "as .npy in MODEL/DOCUMENT, curves as .csv beside the pictures.");
}

static bool put_trend(assembly *a, err *e) {
    return !a->has_trend ||
           (page_heading(&a->page, 2, e, "Over the training run") &&
            page_picture(&a->page, "trend.png", "facts over training steps", false, e));
}

bool report_page(assembly *a, err *e) {
    const report *r = a->r;
    const char *first = output_model(r->out, 0);
    int n = r->o->n_models == 1 ? asprintf(&a->page.title, "deltop report: %s", first)
                                : asprintf(&a->page.title, "deltop report: %s and %zu more", first,
                                           r->o->n_models - 1);
    if (n < 0) {
        a->page.title = NULL;
        return err_set(e, ERR_NOMEM, "out of memory: a page");
    }
    bool ok = put_head(a, e) && put_missing(a, e) && put_rules(a, e) && put_findings(a, e) &&
              put_trend(a, e);
    for (size_t d = 0; ok && d < r->o->n_documents; d++)
        ok = put_document(a, d, e);
    ok = ok && page_heading(&a->page, 2, e, "States out of line") && report_outlier_table(a, e) &&
         page_heading(&a->page, 2, e, "Each model");
    for (size_t i = 0; ok && i < r->n_pairs; i++)
        ok = put_pair(a, i, e);
    return ok && put_words(a, e);
}
