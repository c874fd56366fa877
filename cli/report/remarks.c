// What else a report says about a model and a document.
#include "analyses/report/boundary.h"
#include "cli/report/teller.h"

#include <inttypes.h>
#include <math.h>

// ---- what else ----------------------------------------------------------------------------------

static void loss_remark(teller *t) {
    const pair *p = &t->x->p;
    char text[96];
    const fact *f = assembly_fact(t->a, t->x, "extrapolation_index", FACT_NONE);
    if (!f || isnan(f->value))
        teller_say(t, WEIGHT_PLAIN,
                   "Loss %.4f nats/token at %" PRId64 " tokens (perplexity %.2f)%s%s.",
                   teller_value(t, "loss", assembly_end(t->x)), assembly_end(t->x),
                   teller_value(t, "ppl", assembly_end(t->x)), f && f->how[0] ? "; " : "",
                   f && f->how[0] ? f->how : "");
    else
        teller_say(t, f->value <= RISES ? WEIGHT_GOOD : WEIGHT_PLAIN,
                   "Loss %.4f nats/token at %" PRId64
                   " tokens (perplexity %.2f); beyond the training "
                   "length of %" PRId64 " %+.3f%s.",
                   teller_value(t, "loss", assembly_end(t->x)), assembly_end(t->x),
                   teller_value(t, "ppl", assembly_end(t->x)), p->loss.train_length, f->value,
                   teller_interval(f, text, sizeof text));
}

static void check_remark(teller *t) {
    const row_record *r = &t->x->p.row[0];
    if (r->n_check)
        teller_say(t, WEIGHT_PLAIN,
                   "Against float64, first %" PRId64
                   " tokens: no loss differs by more than %.2g nats, the "
                   "mean by %+.2g.",
                   r->n_check, r->check_error, r->check_bias);
    else if (r->check_why[0])
        teller_say(t, WEIGHT_PLAIN, "Not compared with float64: %s.", r->check_why);
}

static void rank_remark(teller *t) {
    const pair *p = &t->x->p;
    char name[32];
    int64_t end = assembly_end(t->x);
    assembly_heads(t->a, t->x, "erank", end, t->v);
    size_t high = teller_most(t->v, t->H, 1);
    if (high == t->H)
        return;
    teller_say(t, WEIGHT_PLAIN,
               "Effective rank %.1f of %d at %" PRId64
               " tokens, mean over %zu heads; %s is highest "
               "(%.1f); states have norm %.3g.",
               teller_value(t, "erank", end), p->erank.max_rank, end, t->H,
               assembly_head_name(t->x, high, name, sizeof name), t->v[high],
               teller_value(t, "state_norm", end));
}

static void rotation_remark(teller *t) {
    char name[32];
    double share = teller_value(t, "complex_share", FACT_NONE);
    if (isnan(share))
        return;
    assembly_heads(t->a, t->x, "complex_share", FACT_NONE, t->v);
    size_t h = teller_most(t->v, t->H, 1), n = teller_above(t->v, t->H, ROTATES);
    if (share > 0 && h < t->H)
        teller_say(
            t, WEIGHT_PLAIN,
            "%.3g %% of tokens rotate (a complex pair), %s most (%.3g %%); in %zu of %zu heads "
            "more "
            "than %.0f %% do.",
            100 * share, assembly_head_name(t->x, h, name, sizeof name), 100 * t->v[h], n, t->H,
            100 * ROTATES);
    else
        teller_say(t, WEIGHT_PLAIN, "No token rotates: all single-token eigenvalues are real.");
}

static void half_life_remark(teller *t) {
    char name[32];
    const fact *f = assembly_fact(t->a, t->x, "half_life", FACT_NONE);
    if (!f)
        return;
    assembly_heads(t->a, t->x, "half_life", FACT_NONE, t->v);
    size_t h = teller_most(t->v, t->H, 1);
    if (isnan(f->value))
        teller_say(t, WEIGHT_PLAIN, "Half-life: %s.", f->how);
    else if (h < t->H)
        teller_say(t, WEIGHT_PLAIN,
                   "Half-life of a mode: median %.4g tokens; longest in %s (%.4g).", f->value,
                   assembly_head_name(t->x, h, name, sizeof name), t->v[h]);
}

static void saturation_remark(teller *t, const char *name, const char *what) {
    char list[160];
    assembly_heads(t->a, t->x, name, assembly_end(t->x), t->v);
    size_t n = teller_above(t->v, t->H, SATURATED_SHARE);
    if (n)
        teller_say(t, WEIGHT_PLAIN,
                   "%zu of %zu heads have saturated %s (more than %.0f %% of them): %s.", n, t->H,
                   what, 100 * SATURATED_SHARE,
                   teller_list_above(t, t->v, SATURATED_SHARE, list, sizeof list));
}

static void boundary_remark(teller *t) {
    char name[32], chance[64] = "";
    double n = teller_value(t, "boundaries", FACT_NONE);
    if (!(n > 0))
        return;
    assembly_heads(t->a, t->x, "boundary_auc", FACT_NONE, t->v);
    size_t h = teller_most(t->v, t->H, 1), found = teller_above(t->v, t->H, NOTICES_BOUNDARY);
    if (h == t->H)
        return;
    // Gates and norms are looked at: two chances a head.
    double lucky = 2 * (double)t->H * boundary_by_chance((int64_t)n, NOTICES_BOUNDARY);
    if (lucky >= 0.5)
        snprintf(chance, sizeof chance, " (of so few, about %.0f would by chance)", lucky);
    teller_say(
        t, WEIGHT_PLAIN,
        "Document boundaries (%.0f): %zu of %zu heads tell them from other tokens with an AUC "
        "above %.1f%s; %s best (%.3f).",
        n, found, t->H, NOTICES_BOUNDARY, chance, assembly_head_name(t->x, h, name, sizeof name),
        t->v[h]);
}

bool report_remarks(assembly *a, const assembly_pair *x, err *e) {
    teller t;
    if (teller_open(&t, a, x, e)) {
        loss_remark(&t);
        rank_remark(&t);
        teller_growth(&t, false);
        rotation_remark(&t);
        half_life_remark(&t);
        saturation_remark(&t, "gate_saturated", "gates");
        saturation_remark(&t, "beta_saturated", "betas");
        boundary_remark(&t);
        check_remark(&t);
    }
    return teller_close(&t);
}
