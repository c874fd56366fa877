// What a report finds wrong, and how models compare, in words.
#include "cli/report/teller.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// ---- what is wrong ------------------------------------------------------------------------------

static void not_finite(teller *t) {
    const pair *p = &t->x->p;
    double losses = teller_value(t, "loss_not_finite", FACT_NONE),
           states = teller_value(t, "state_not_finite", FACT_NONE);
    if (losses > 0)
        teller_say(t, WEIGHT_BAD, "%s on %s: %.0f losses are NaN or infinite.", p->model,
                   p->document, losses);
    if (states > 0)
        teller_say(t, WEIGHT_BAD, "%s on %s: %.0f sampled states hold a NaN or an infinity.",
                   p->model, p->document, states);
}

static void flags(teller *t) {
    const loss_result *r = &t->x->p.loss;
    for (int64_t i = 0; i < r->n_flags; i++)
        // The text itself may jump, from prose to a table, say.
        teller_say(t, r->flag[i].kind == FLAG_JUMP ? WEIGHT_WARN : WEIGHT_BAD,
                   "%s on %s, row %" PRId64 ", position %" PRId64 ": %s.", r->model, r->document,
                   r->flag[i].row, r->flag[i].position, r->flag[i].what);
}

static void precision_of(teller *t) {
    const pair *p = &t->x->p;
    double worst = teller_value(t, "precision_error", FACT_NONE),
           bias = teller_value(t, "precision_bias", FACT_NONE);
    bool exact = strstr(t->a->r->how, "f32") && !strstr(t->a->r->how, "tf32");
    if (worst > (exact ? OFF_F32 : OFF_BF16))
        teller_say(
            t, WEIGHT_WARN,
            "%s on %s: losses differ from float64 by up to %.2g nats (mean %+.2g) within the first "
            "%" PRId64 " tokens (%s).",
            p->model, p->document, worst, bias, p->row[0].n_check, t->a->r->how);
}

static void no_spectra(teller *t) {
    const pair *p = &t->x->p;
    for (int64_t i = 0; i < p->n; i++)
        if (p->row[i].spectrum_why[0])
            teller_say(t, WEIGHT_BAD, "%s on %s, row %" PRId64 ": spectra %s.", p->model,
                       p->document, i, p->row[i].spectrum_why);
}

static void contraction(teller *t) {
    const pair *p = &t->x->p;
    double n = teller_value(t, "not_contracting", FACT_NONE);
    if (n > 0)
        teller_say(
            t, WEIGHT_BAD,
            "%s on %s: transitions that are no contraction, %.0f factors and windows (largest "
            "beta |k|^2 %.4g, largest |P|_2 %.4g): is this the right model?",
            p->model, p->document, n, teller_value(t, "strength", FACT_NONE),
            teller_value(t, "product_norm", FACT_NONE));
}

static void extrapolation(teller *t) {
    const pair *p = &t->x->p;
    char text[96];
    const fact *f = assembly_fact(t->a, t->x, "extrapolation_index", FACT_NONE);
    bool sure = f && (isnan(f->lo) || f->lo > 0);
    if (f && f->value > RISES && sure)
        teller_say(t, WEIGHT_WARN,
                   "%s on %s: beyond the training length of %" PRId64
                   " the loss is %+.3f nats/token%s "
                   "against the tokens before it.",
                   p->model, p->document, p->loss.train_length, f->value,
                   teller_interval(f, text, sizeof text));
}

static void full(teller *t) {
    const pair *p = &t->x->p;
    char list[160];
    int64_t end = assembly_end(t->x);
    double bound = FULL_SHARE * p->erank.max_rank;
    assembly_heads(t->a, t->x, "erank", end, t->w);
    size_t n = teller_above(t->w, t->H, bound);
    if (n)
        teller_say(t, WEIGHT_WARN,
                   "%s on %s: %zu of %zu heads are nearly full at %" PRId64
                   ", effective rank above %.1f of %d: %s.",
                   p->model, p->document, n, t->H, end, bound, p->erank.max_rank,
                   teller_list_above(t, t->w, bound, list, sizeof list));
}

static void norms(teller *t) {
    const pair *p = &t->x->p;
    char name[32];
    assembly_heads(t->a, t->x, "state_norm_growth", FACT_NONE, t->v);
    size_t n = teller_above(t->v, t->H, NORM_GROWS), h = teller_most(t->v, t->H, 1);
    if (n)
        teller_say(
            t, WEIGHT_WARN,
            "%s on %s: the state of %zu of %zu heads grows more than %.0f-fold in size beyond the "
            "training length, %s most (x %.2f).",
            p->model, p->document, n, t->H, NORM_GROWS,
            assembly_head_name(t->x, h, name, sizeof name), t->v[h]);
    assembly_heads(t->a, t->x, "norm_outlier", FACT_NONE, t->v);
    assembly_heads(t->a, t->x, "state_norm", assembly_end(t->x), t->w);
    for (size_t i = 0; i < t->H; i++)
        t->v[i] = fabs(t->v[i]);
    h = teller_most(t->v, t->H, 1);
    if (h < t->H && t->v[h] > OUTLIER)
        teller_say(
            t, WEIGHT_WARN,
            "%s on %s: the state of %s is out of line, norm %.3g, %.1f robust standard deviations "
            "from the median head's.",
            p->model, p->document, assembly_head_name(t->x, h, name, sizeof name), t->w[h],
            t->v[h]);
}

bool report_problems(assembly *a, const assembly_pair *x, size_t *n, err *e) {
    teller t;
    if (teller_open(&t, a, x, e)) {
        not_finite(&t);
        flags(&t);
        no_spectra(&t);
        contraction(&t);
        precision_of(&t);
        extrapolation(&t);
        teller_growth(&t, true);
        full(&t);
        norms(&t);
    }
    *n += t.said;
    return teller_close(&t);
}

// ---- models against each other ------------------------------------------------------------------

bool report_comparison(assembly *a, size_t document, err *e) {
    const assembly_pair *best = NULL, *next = NULL, *worst = NULL;
    double b = NAN, n = NAN, w = NAN;
    const assembly_pair *first = NULL;
    size_t others = 0;
    for (size_t m = 0; m < a->r->o->n_models; m++) {
        const assembly_pair *x = assembly_at(a, m, document);
        double v = assembly_has(x) ? assembly_value(a, x, "loss", assembly_end(x)) : NAN;
        if (isnan(v))
            continue;
        first = first ? first : x;
        if (!pair_same_tokens(&first->p, &x->p)) {
            others++;
            continue;
        }
        if (!best || v < b) {
            next = best, n = b;
            best = x, b = v;
        } else if (!next || v < n) {
            next = x, n = v;
        }
        if (!worst || v > w)
            worst = x, w = v;
    }
    if (!next)
        return true;
    double mean, lo, hi;
    char how[96] = "", rest[64] = "", last[320] = "";
    int64_t end = assembly_end(best);
    if (others)
        snprintf(rest, sizeof rest, " (%zu model%s left out, other tokens)", others,
                 others == 1 ? "" : "s");
    pair_options o = {.resamples = (int)a->r->own->resamples, .seed = (uint64_t)a->r->o->seed};
    if (!pair_loss_change(&best->p, &next->p, end / 2, end - 1, &o, &mean, &lo, &hi, e))
        return false;
    if (!isnan(lo))
        snprintf(how, sizeof how, ", paired %+.3f (95 %% %+.3f to %+.3f)", mean, lo, hi);
    if (w > n)
        snprintf(last, sizeof last, "; %.250s has the highest (%.4f)", worst->p.model, w);
    return page_item(&a->page, WEIGHT_PLAIN, e,
                     "On %s at %" PRId64
                     " tokens %s has the lowest loss (%.4f nats/token), then %s "
                     "(%.4f%s)%s%s.",
                     best->p.document, end, best->p.model, b, next->p.model, n, how, last, rest);
}
