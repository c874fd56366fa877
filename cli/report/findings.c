// What a report says in words. Thresholds stand here, beside the sentences that use them; every
// sentence carries its numbers.
#include "cli/report/parts.h"

#include "core/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define FULL_SHARE       0.9  // of min(K, V): a state that is nearly full
#define GROWS            1.0  // effective rank: a head that grows
#define MANY_HEADS       0.25 // share of heads that makes growth a finding
#define SATURATED_SHARE  0.9  // of a head's gates or betas
#define RISES            0.05 // nats/token beyond the training length
#define NORM_GROWS       2.0  // factor beyond the training length
#define OUTLIER          5.0  // robust standard deviations
#define ROTATES          0.01 // share of tokens
#define NOTICES_BOUNDARY 0.9  // AUC
// Largest change of one loss against float64 that rounding explains: measured 1e-5 to 1e-4 in f32 on
// trained models, 0.05 to 0.2 in bf16 and tf32 (docs/accuracy.md).
#define OFF_F32  1e-2
#define OFF_BF16 1.0

typedef struct teller {
    assembly *a;
    const assembly_pair *x;
    size_t H;
    double *v, *w; // [H]
    size_t said;
    err *e;
    bool ok;
} teller;

static void say(teller *t, item_weight weight, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void say(teller *t, item_weight weight, const char *fmt, ...) {
    va_list ap;
    char *text = NULL;
    if (!t->ok)
        return;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    t->ok = n >= 0 || err_set(t->e, ERR_NOMEM, "out of memory: a sentence");
    if (t->ok)
        t->ok = page_item(&t->a->page, weight, t->e, "%s", text);
    if (n >= 0)
        free(text);
    t->said++;
}

static bool open(teller *t, assembly *a, const assembly_pair *x, err *e) {
    *t = (teller){.a = a, .x = x, .H = assembly_n_heads(x), .e = e};
    t->v = mem_alloc(t->H, sizeof *t->v, "values of heads", e);
    t->w = mem_alloc(t->H, sizeof *t->w, "values of heads", e);
    t->ok = t->v && t->w;
    return t->ok;
}

static bool close(teller *t) {
    free(t->v);
    free(t->w);
    return t->ok;
}

static double value(const teller *t, const char *name, int64_t position) {
    return assembly_value(t->a, t->x, name, position);
}

// " (95 % 0.1 to 0.3 over rows)", "" without an interval.
static const char *interval(const fact *f, char *buf, size_t size) {
    buf[0] = 0;
    if (f && !isnan(f->lo) && !isnan(f->hi))
        snprintf(buf, size, " (95 %% %+.3f to %+.3f over rows)", f->lo, f->hi);
    return buf;
}

// The head with the largest value (sign -1: smallest) of v; H when there is none.
static size_t most(const double *v, size_t H, double sign) {
    size_t best = H;
    for (size_t h = 0; h < H; h++)
        if (!isnan(v[h]) && (best == H || sign * v[h] > sign * v[best]))
            best = h;
    return best;
}

static size_t above(const double *v, size_t H, double bound) {
    size_t n = 0;
    for (size_t h = 0; h < H; h++)
        n += v[h] > bound;
    return n;
}

// "L0.H1, L2.H3 and 4 more" of those above bound, into buf.
static const char *list_above(const teller *t, const double *v, double bound, char *buf,
                              size_t size) {
    enum { SHOWN = 4 };
    size_t n = above(v, t->H, bound), shown = 0, at = 0;
    char name[32];
    buf[0] = 0;
    for (size_t h = 0; h < t->H && shown < SHOWN; h++)
        if (v[h] > bound)
            at += (size_t)snprintf(buf + at, size - at, "%s%s", shown++ ? ", " : "",
                                   assembly_head_name(t->x, h, name, sizeof name));
    if (n > shown)
        snprintf(buf + at, size - at, " and %zu more", n - shown);
    return buf;
}

// ---- what is wrong ------------------------------------------------------------------------------

static void not_finite(teller *t) {
    const pair *p = &t->x->p;
    double losses = value(t, "loss_not_finite", FACT_NONE),
           states = value(t, "state_not_finite", FACT_NONE);
    if (losses > 0)
        say(t, WEIGHT_BAD, "%s on %s: %.0f losses are NaN or infinite.", p->model, p->document,
            losses);
    if (states > 0)
        say(t, WEIGHT_BAD, "%s on %s: %.0f sampled states hold a NaN or an infinity.", p->model,
            p->document, states);
}

static void flags(teller *t) {
    const loss_result *r = &t->x->p.loss;
    for (int64_t i = 0; i < r->n_flags; i++)
        // The text itself may jump, from prose to a table, say.
        say(t, r->flag[i].kind == FLAG_JUMP ? WEIGHT_WARN : WEIGHT_BAD,
            "%s on %s, row %" PRId64 ", position %" PRId64 ": %s.", r->model, r->document,
            r->flag[i].row, r->flag[i].position, r->flag[i].what);
}

static void precision_of(teller *t) {
    const pair *p = &t->x->p;
    double worst = value(t, "precision_error", FACT_NONE),
           bias = value(t, "precision_bias", FACT_NONE);
    bool exact = strstr(t->a->r->how, "f32") && !strstr(t->a->r->how, "tf32");
    if (worst > (exact ? OFF_F32 : OFF_BF16))
        say(t, WEIGHT_WARN,
            "%s on %s: losses differ from float64 by up to %.2g nats (mean %+.2g) within the first "
            "%" PRId64 " tokens (%s).",
            p->model, p->document, worst, bias, p->row[0].n_check, t->a->r->how);
}

static void no_spectra(teller *t) {
    const pair *p = &t->x->p;
    for (int64_t i = 0; i < p->n; i++)
        if (p->row[i].spectrum_why[0])
            say(t, WEIGHT_BAD, "%s on %s, row %" PRId64 ": spectra %s.", p->model, p->document, i,
                p->row[i].spectrum_why);
}

static void contraction(teller *t) {
    const pair *p = &t->x->p;
    double n = value(t, "not_contracting", FACT_NONE);
    if (n > 0)
        say(t, WEIGHT_BAD,
            "%s on %s: transitions that are no contraction, %.0f factors and windows (largest "
            "beta |k|^2 %.4g, largest |P|_2 %.4g): is this the right model?",
            p->model, p->document, n, value(t, "strength", FACT_NONE),
            value(t, "product_norm", FACT_NONE));
}

static void extrapolation(teller *t) {
    const pair *p = &t->x->p;
    char text[96];
    const fact *f = assembly_fact(t->a, t->x, "extrapolation_index", FACT_NONE);
    bool sure = f && (isnan(f->lo) || f->lo > 0);
    if (f && f->value > RISES && sure)
        say(t, WEIGHT_WARN,
            "%s on %s: beyond the training length of %" PRId64 " the loss is %+.3f nats/token%s "
            "against the tokens before it.",
            p->model, p->document, p->loss.train_length, f->value, interval(f, text, sizeof text));
}

// Heads whose effective rank grows beyond the training length, and whether they still do at the end:
// against the end of the octave before. wrong: tell when they are many; else when they are few.
static void growth(teller *t, bool wrong) {
    const pair *p = &t->x->p;
    char name[32];
    int64_t end = assembly_end(t->x), before = 64;
    assembly_heads(t->a, t->x, "erank_growth", FACT_NONE, t->v);
    size_t n = above(t->v, t->H, GROWS), h = most(t->v, t->H, 1), still = 0;
    if (n == 0 || wrong != ((double)n >= MANY_HEADS * (double)t->H))
        return;
    while (before * 4 <= end)
        before *= 2;
    double rise = t->v[h];
    assembly_heads(t->a, t->x, "erank", end, t->w);
    assembly_heads(t->a, t->x, "erank", before, t->v);
    for (size_t i = 0; i < t->H; i++)
        still += t->w[i] - t->v[i] > GROWS;
    say(t, wrong ? WEIGHT_WARN : WEIGHT_PLAIN,
        "%s on %s: %zu of %zu heads grow%s in effective rank beyond the training length by more "
        "than "
        "%.0f, %s most (%+.1f, to %.1f of %d); %zu still grow%s at %" PRId64 ".",
        p->model, p->document, n, t->H, n == 1 ? "s" : "", GROWS,
        assembly_head_name(t->x, h, name, sizeof name), rise, t->w[h], p->erank.max_rank, still,
        still == 1 ? "s" : "", end);
}

static void full(teller *t) {
    const pair *p = &t->x->p;
    char list[160];
    int64_t end = assembly_end(t->x);
    double bound = FULL_SHARE * p->erank.max_rank;
    assembly_heads(t->a, t->x, "erank", end, t->w);
    size_t n = above(t->w, t->H, bound);
    if (n)
        say(t, WEIGHT_WARN,
            "%s on %s: %zu of %zu heads are nearly full at %" PRId64
            ", effective rank above %.1f of %d: %s.",
            p->model, p->document, n, t->H, end, bound, p->erank.max_rank,
            list_above(t, t->w, bound, list, sizeof list));
}

static void norms(teller *t) {
    const pair *p = &t->x->p;
    char name[32];
    assembly_heads(t->a, t->x, "state_norm_growth", FACT_NONE, t->v);
    size_t n = above(t->v, t->H, NORM_GROWS), h = most(t->v, t->H, 1);
    if (n)
        say(t, WEIGHT_WARN,
            "%s on %s: the state of %zu of %zu heads grows more than %.0f-fold in size beyond the "
            "training length, %s most (x %.2f).",
            p->model, p->document, n, t->H, NORM_GROWS,
            assembly_head_name(t->x, h, name, sizeof name), t->v[h]);
    assembly_heads(t->a, t->x, "norm_outlier", FACT_NONE, t->v);
    assembly_heads(t->a, t->x, "state_norm", assembly_end(t->x), t->w);
    for (size_t i = 0; i < t->H; i++)
        t->v[i] = fabs(t->v[i]);
    h = most(t->v, t->H, 1);
    if (h < t->H && t->v[h] > OUTLIER)
        say(t, WEIGHT_WARN,
            "%s on %s: the state of %s is out of line, norm %.3g, %.1f robust standard deviations "
            "from the median head's.",
            p->model, p->document, assembly_head_name(t->x, h, name, sizeof name), t->w[h],
            t->v[h]);
}

bool report_problems(assembly *a, const assembly_pair *x, size_t *n, err *e) {
    teller t;
    if (open(&t, a, x, e)) {
        not_finite(&t);
        flags(&t);
        no_spectra(&t);
        contraction(&t);
        precision_of(&t);
        extrapolation(&t);
        growth(&t, true);
        full(&t);
        norms(&t);
    }
    *n += t.said;
    return close(&t);
}

// ---- what else ----------------------------------------------------------------------------------

static void loss_remark(teller *t) {
    const pair *p = &t->x->p;
    char text[96];
    const fact *f = assembly_fact(t->a, t->x, "extrapolation_index", FACT_NONE);
    if (!f || isnan(f->value))
        say(t, WEIGHT_PLAIN, "Loss %.4f nats/token at %" PRId64 " tokens (perplexity %.2f)%s%s.",
            value(t, "loss", assembly_end(t->x)), assembly_end(t->x),
            value(t, "ppl", assembly_end(t->x)), f && f->how[0] ? "; " : "",
            f && f->how[0] ? f->how : "");
    else
        say(t, f->value <= RISES ? WEIGHT_GOOD : WEIGHT_PLAIN,
            "Loss %.4f nats/token at %" PRId64 " tokens (perplexity %.2f); beyond the training "
            "length of %" PRId64 " %+.3f%s.",
            value(t, "loss", assembly_end(t->x)), assembly_end(t->x),
            value(t, "ppl", assembly_end(t->x)), p->loss.train_length, f->value,
            interval(f, text, sizeof text));
}

static void check_remark(teller *t) {
    const row_record *r = &t->x->p.row[0];
    if (r->n_check)
        say(t, WEIGHT_PLAIN,
            "Against float64, first %" PRId64
            " tokens: no loss differs by more than %.2g nats, the "
            "mean by %+.2g.",
            r->n_check, r->check_error, r->check_bias);
    else if (r->check_why[0])
        say(t, WEIGHT_PLAIN, "Not compared with float64: %s.", r->check_why);
}

static void rank_remark(teller *t) {
    const pair *p = &t->x->p;
    char name[32];
    int64_t end = assembly_end(t->x);
    assembly_heads(t->a, t->x, "erank", end, t->v);
    size_t high = most(t->v, t->H, 1);
    if (high == t->H)
        return;
    say(t, WEIGHT_PLAIN,
        "Effective rank %.1f of %d at %" PRId64 " tokens, mean over %zu heads; %s is highest "
        "(%.1f); states have norm %.3g.",
        value(t, "erank", end), p->erank.max_rank, end, t->H,
        assembly_head_name(t->x, high, name, sizeof name), t->v[high], value(t, "state_norm", end));
}

static void rotation_remark(teller *t) {
    char name[32];
    double share = value(t, "complex_share", FACT_NONE);
    if (isnan(share))
        return;
    assembly_heads(t->a, t->x, "complex_share", FACT_NONE, t->v);
    size_t h = most(t->v, t->H, 1), n = above(t->v, t->H, ROTATES);
    if (share > 0 && h < t->H)
        say(t, WEIGHT_PLAIN,
            "%.3g %% of tokens rotate (a complex pair), %s most (%.3g %%); in %zu of %zu heads "
            "more "
            "than %.0f %% do.",
            100 * share, assembly_head_name(t->x, h, name, sizeof name), 100 * t->v[h], n, t->H,
            100 * ROTATES);
    else
        say(t, WEIGHT_PLAIN, "No token rotates: all single-token eigenvalues are real.");
}

static void half_life_remark(teller *t) {
    char name[32];
    const fact *f = assembly_fact(t->a, t->x, "half_life", FACT_NONE);
    if (!f)
        return;
    assembly_heads(t->a, t->x, "half_life", FACT_NONE, t->v);
    size_t h = most(t->v, t->H, 1);
    if (isnan(f->value))
        say(t, WEIGHT_PLAIN, "Half-life: %s.", f->how);
    else if (h < t->H)
        say(t, WEIGHT_PLAIN, "Half-life of a mode: median %.4g tokens; longest in %s (%.4g).",
            f->value, assembly_head_name(t->x, h, name, sizeof name), t->v[h]);
}

static void saturation_remark(teller *t, const char *name, const char *what) {
    char list[160];
    assembly_heads(t->a, t->x, name, assembly_end(t->x), t->v);
    size_t n = above(t->v, t->H, SATURATED_SHARE);
    if (n)
        say(t, WEIGHT_PLAIN, "%zu of %zu heads have saturated %s (more than %.0f %% of them): %s.",
            n, t->H, what, 100 * SATURATED_SHARE,
            list_above(t, t->v, SATURATED_SHARE, list, sizeof list));
}

static void boundary_remark(teller *t) {
    char name[32];
    double n = value(t, "boundaries", FACT_NONE);
    if (!(n > 0))
        return;
    assembly_heads(t->a, t->x, "boundary_auc", FACT_NONE, t->v);
    size_t h = most(t->v, t->H, 1), found = above(t->v, t->H, NOTICES_BOUNDARY);
    if (h == t->H)
        return;
    say(t, WEIGHT_PLAIN,
        "Document boundaries (%.0f): %zu of %zu heads tell them from other tokens with an AUC "
        "above "
        "%.1f; %s best (%.3f).",
        n, found, t->H, NOTICES_BOUNDARY, assembly_head_name(t->x, h, name, sizeof name), t->v[h]);
}

bool report_remarks(assembly *a, const assembly_pair *x, err *e) {
    teller t;
    if (open(&t, a, x, e)) {
        loss_remark(&t);
        rank_remark(&t);
        growth(&t, false);
        rotation_remark(&t);
        half_life_remark(&t);
        saturation_remark(&t, "gate_saturated", "gates");
        saturation_remark(&t, "beta_saturated", "betas");
        boundary_remark(&t);
        check_remark(&t);
    }
    return close(&t);
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
    char how[96] = "", rest[64] = "";
    int64_t end = assembly_end(best);
    if (others)
        snprintf(rest, sizeof rest, " (%zu model%s left out, other tokens)", others,
                 others == 1 ? "" : "s");
    pair_options o = {.resamples = (int)a->r->own->resamples, .seed = (uint64_t)a->r->o->seed};
    if (!pair_loss_change(&best->p, &next->p, end / 2, end - 1, &o, &mean, &lo, &hi, e))
        return false;
    if (!isnan(lo))
        snprintf(how, sizeof how, ", paired %+.3f (95 %% %+.3f to %+.3f)", mean, lo, hi);
    return page_item(
        &a->page, WEIGHT_PLAIN, e,
        "On %s at %" PRId64 " tokens %s has the lowest loss (%.4f nats/token), then %s "
        "(%.4f%s); %s has the highest (%.4f)%s.",
        best->p.document, end, best->p.model, b, next->p.model, n, how, worst->p.model, w, rest);
}
