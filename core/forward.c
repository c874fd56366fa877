#include "core/forward.h"

#include "core/forward_row.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>

void fwd_free(fwd *f) {
    if (!f)
        return;
    fwd_end(f);
    for (int i = 0; f->carry && i < f->n_modules * MODULE_MAX_CARRY; i++)
        f->be->op->free(f->be, f->carry[i]);
    free(f->carry);
    arena_free(f->tmp);
    arena_free(f->kept);
    free(f);
}

static void forget(fwd *f) {
    for (int i = 0; i < f->n_modules * MODULE_MAX_CARRY; i++)
        if (!mat_none(f->carry[i]))
            f->be->op->zero(f->be, f->carry[i]);
    f->pos = 0;
}

static bool healthy(fwd *f, err *e) {
    if (f->fail.code != ERR_NONE)
        return err_set(e, f->fail.code, "%s", f->fail.text);
    return backend_check(f->be, e);
}

static bool tell_hidden(fwd *f, int layer, mat x, err *e) {
    for (int i = 0; i < f->n_probes; i++) {
        const probe *p = f->probes[i];
        if (p->on_hidden && !p->on_hidden(p->ctx, layer, f->t0, x, f->be, e))
            return false;
    }
    return true;
}

static void run_norm(fwd *f, const row_norm *n, mat x, mat y) {
    const backend_ops *op = f->be->op;
    double eps = n->eps > 0 ? n->eps : f->m->info.norm_eps;
    if (n->kind == NORM_LAYER)
        op->layer_norm(f->be, x, n->w, n->bias, x.cols, eps, y);
    else
        op->rms_norm(f->be, x, n->w, eps, y);
}

static bool tell_output(fwd *f, mat y, err *e) {
    for (int i = 0; i < f->n_probes; i++) {
        const probe *p = f->probes[i];
        if (p->on_output && !p->on_output(p->ctx, f->t0, y, f->m->head, f->be, e))
            return false;
    }
    return true;
}

// One branch: x <- x + scale * post_norm(body(pre_norm(x))). *in is what the body read.
static void run_branch(fwd *f, const branch *b, mat x, mat *in) {
    if (!b->beside) {
        arena_reset(f->tmp);
        *in = x;
    }
    mat y = fwd_tmp(f, x.rows, x.cols);
    if (mat_none(y))
        return;
    if (!mat_none(b->pre_norm.w)) {
        *in = fwd_tmp(f, x.rows, x.cols);
        if (mat_none(*in))
            return;
        run_norm(f, &b->pre_norm, x, *in);
    }
    bool straight = mat_none(b->post_norm.w);
    f->onto_for = straight ? b->body : NULL;
    f->onto = x;
    f->onto_scale = b->scale;
    b->body->run(b->body, f, *in, y);
    if (f->be->fail.code != ERR_NONE || f->fail.code != ERR_NONE)
        return;
    if (straight && !f->onto_for) // the body's last product went onto x itself
        return;
    if (!straight)
        run_norm(f, &b->post_norm, y, y);
    f->be->op->add(f->be, y, b->scale, x);
}

// The whole block through all layers. targets[i] = the id after ids[i], -1 when there is none.
// layers: only the first so many.
static bool run_block(fwd *f, mat x, mat scratch, int layers, const int32_t *ids,
                      const int32_t *targets, double *loss, int32_t *best, err *e) {
    const backend_ops *op = f->be->op;
    op->embed(f->be, f->m->embed, ids, x);
    op->activate(f->be, x, ACT_NONE, f->m->embed_scale);
    f->layer = -1;
    if (!healthy(f, e) || !tell_hidden(f, -1, x, e))
        return false;
    arena_reset(f->kept);
    for (int i = 0; i < FWD_SLOTS; i++)
        f->left[i] = MAT_NONE;
    if (!mat_none(f->m->embed_norm.w))
        run_norm(f, &f->m->embed_norm, x, x);
    for (int L = 0; L < f->m->info.n_layers && L < layers; L++) {
        mat in = x;
        f->layer = L;
        for (int b = 0; b < f->m->layers[L].n; b++) {
            run_branch(f, &f->m->layers[L].branch[b], x, &in);
            if (!healthy(f, e))
                return err_prefix(e, "layer %d", L);
        }
        if (!tell_hidden(f, L, x, e))
            return false;
    }
    bool want_loss = false, want_output = false;
    for (int i = 0; i < f->n_probes; i++) {
        want_loss |= f->probes[i]->on_loss != NULL || f->probes[i]->on_logits != NULL;
        want_output |= f->probes[i]->on_output != NULL;
    }
    if (!(want_loss || want_output) || layers < f->m->info.n_layers)
        return true;
    run_norm(f, &f->m->norm, x, scratch);
    op->activate(f->be, scratch, ACT_NONE, f->m->logit_scale);
    if (want_loss)
        op->losses(f->be, scratch, f->m->head, targets, loss, best);
    return healthy(f, e) && tell_output(f, scratch, e);
}

// Tokens at a time for a backend that tells its free memory: a few tokens are read and the scratch
// that they take is counted, which holds for every family.
static bool choose_block(fwd *f, err *e) {
    enum { FEW = 64 };
    const int64_t reserve = INT64_C(3) << 28; // logits of a tile, work spaces of products
    backend *be = f->be;
    f->block = be->block;
    if (!be->op->free_bytes || be->most_block <= be->block)
        return true;
    int32_t ids[FEW] = {0}, targets[FEW] = {0}, best[FEW];
    double loss[FEW];
    mat x = be->op->alloc(be, FEW, f->m->info.D), y = be->op->alloc(be, FEW, f->m->info.D);
    bool ok = backend_check(be, e);
    f->T = f->longest < FEW ? f->longest : FEW;
    ok = ok && (f->T < 1 || run_block(f, mat_rows(x, 0, f->T), mat_rows(y, 0, f->T),
                                      f->m->info.n_layers, ids, targets, loss, best, e));
    be->op->free(be, x);
    be->op->free(be, y);
    if (!ok)
        return false;
    int64_t tokens = f->T > 0 ? f->T : 1;
    int64_t each =
        (arena_peak(f->tmp) + arena_peak(f->kept)) / tokens + 2 * f->m->info.D * be->esize;
    // Half of the rest: kernels have scratch of their own, and an arena that grows holds both sizes.
    int64_t n = (be->op->free_bytes(be) / 8 * 7 - reserve) / 2 / each / FEW * FEW;
    n = n < FEW ? FEW : n > be->most_block ? be->most_block : n;
    f->block = n;
    return backend_check(be, e);
}

fwd *fwd_new(const model *m, int64_t block, int64_t longest, err *e) {
    fwd *f = mem_zalloc(1, sizeof *f, "a forward pass", e);
    if (!f)
        return NULL;
    f->m = m;
    f->be = m->be;
    f->block = block;
    f->longest = longest;
    f->tmp = arena_new(m->be, e);
    f->kept = arena_new(m->be, e);
    for (int L = 0; L < m->info.n_layers; L++)
        f->n_modules += m->layers[L].n;
    f->carry = mem_zalloc((size_t)f->n_modules * MODULE_MAX_CARRY, sizeof *f->carry, "states", e);
    if (!f->tmp || !f->kept || !f->carry)
        goto fail;
    for (int L = 0; L < m->info.n_layers; L++)
        for (int b = 0; b < m->layers[L].n; b++) {
            const module *body = m->layers[L].branch[b].body;
            for (int i = 0; i < body->n_carry; i++) {
                const carry_spec *c = &body->carry[i];
                mat (*alloc)(backend *, int64_t, int64_t) =
                    c->exact ? f->be->op->alloc_exact : f->be->op->alloc;
                mat got = alloc(f->be, c->rows ? c->rows : longest, c->cols);
                if (mat_none(got)) {
                    backend_check(f->be, e);
                    goto fail;
                }
                f->carry[body->index * MODULE_MAX_CARRY + i] = got;
            }
        }
    if (block <= 0 && !choose_block(f, e))
        goto fail;
    return f;
fail:
    fwd_free(f);
    return NULL;
}

static bool tell_logits(fwd *f, mat last, int64_t t, err *e) {
    bool wanted = false, ok = false;
    for (int i = 0; i < f->n_probes; i++)
        wanted |= f->probes[i]->on_logits != NULL;
    if (!wanted)
        return true;
    double *logits = mem_alloc((size_t)f->m->head.rows, sizeof *logits, "logits", e);
    if (!logits)
        return false;
    arena_reset(f->tmp);
    mat y = fwd_linear(f, last, f->m->head, MAT_NONE);
    if (!healthy(f, e))
        goto done;
    f->be->op->read(f->be, y, logits);
    ok = healthy(f, e);
    for (int i = 0; ok && i < f->n_probes; i++)
        if (f->probes[i]->on_logits)
            ok = f->probes[i]->on_logits(f->probes[i]->ctx, t, logits, f->m->head.rows, e);
done:
    free(logits);
    return ok;
}

static bool tell_final_states(fwd *f, err *e) {
    for (int L = 0; L < f->m->info.n_layers; L++) {
        const module *mixer = model_mixer(f->m, L);
        for (int i = 0; mixer && i < f->n_probes; i++) {
            const probe *p = f->probes[i];
            if (p->on_final_state &&
                !p->on_final_state(p->ctx, L, fwd_carry(f, mixer, mixer->state_carry), f->be, e))
                return false;
        }
    }
    return true;
}

// Tokens from t up to the next place where the state is emptied, at most `most`.
static int64_t until_reset(const int32_t *ids, int64_t n, int64_t t, int64_t most,
                           const row_options *opt, int64_t *next_start) {
    int64_t end = t + most < n ? t + most : n;
    if (!opt)
        return end - t;
    while (*next_start < opt->n_starts && opt->starts[*next_start] <= t)
        (*next_start)++;
    if (*next_start < opt->n_starts && opt->starts[*next_start] < end)
        end = opt->starts[*next_start];
    if (opt->reset_id >= 0)
        for (int64_t i = t + 1; i < end; i++)
            if (ids[i] == opt->reset_id)
                end = i;
    return end - t;
}

static bool resets_at(const int32_t *ids, int64_t t, const row_options *opt, int64_t next_start) {
    if (!opt || t == 0)
        return false;
    if (opt->reset_id >= 0 && ids[t] == opt->reset_id)
        return true;
    return next_start < opt->n_starts && opt->starts[next_start] == t;
}

static bool check_ids(const model *m, const int32_t *ids, int64_t n, err *e) {
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= m->embed.rows)
            return err_set(e, ERR_INPUT,
                           "token %lld has id %d, but the embedding has %lld rows: the tokenizer "
                           "does not belong to this model",
                           (long long)i, ids[i], (long long)m->embed.rows);
    return true;
}

bool fwd_check_heads(const model *m, const head_ref *off, int n, err *e) {
    for (int i = 0; i < n; i++) {
        int L = off[i].layer, H = off[i].head;
        if (L < 0 || L >= m->info.n_layers)
            return err_set(e, ERR_USAGE, "there is no layer %d (0 to %d)", L, m->info.n_layers - 1);
        const module *mixer = model_mixer(m, L);
        if (!mixer)
            return err_set(e, ERR_USAGE,
                           "layer %d has no recurrent state, so no head to switch off", L);
        if (H < 0 || H >= mixer->heads.H)
            return err_set(e, ERR_USAGE, "layer %d has no head %d (0 to %d)", L, H,
                           mixer->heads.H - 1);
    }
    return true;
}

void fwd_end(fwd *f) {
    if (!f || !f->r)
        return;
    f->be->op->free(f->be, f->r->x);
    f->be->op->free(f->be, f->r->y);
    free(f->r->targets);
    free(f->r->loss);
    free(f->r->best);
    free(f->r);
    f->r = NULL;
}

bool fwd_begin(fwd *f, const int32_t *ids, int64_t n, const row_options *opt, err *e) {
    if (!check_ids(f->m, ids, n, e) || (opt && !fwd_check_heads(f->m, opt->off, opt->n_off, e)))
        return false;
    if (n > f->longest)
        return err_set(e, ERR_INPUT, "row of %lld tokens, longest expected %lld", (long long)n,
                       (long long)f->longest);
    fwd_end(f);
    struct fwd_reading *r = f->r = mem_zalloc(1, sizeof *r, "a row", e);
    if (!r)
        return false;
    *r = (struct fwd_reading){.ids = ids, .n = n, .opt = opt};
    err_clear(&f->fail);
    forget(f);
    int64_t most = f->block < n ? f->block : n;
    r->targets = mem_alloc((size_t)most, sizeof *r->targets, "targets", e);
    r->loss = mem_alloc((size_t)most, sizeof *r->loss, "losses of a block", e);
    r->best = mem_alloc((size_t)most, sizeof *r->best, "likeliest tokens", e);
    r->x = f->be->op->alloc(f->be, most, f->m->info.D);
    r->y = f->be->op->alloc(f->be, most, f->m->info.D);
    if (r->targets && r->loss && r->best && backend_check(f->be, e))
        return true;
    fwd_end(f);
    return false;
}

int64_t fwd_tokens(const fwd *f) {
    return f->r ? f->r->at : 0;
}

bool fwd_block(fwd *f, int64_t most, int layers, const probe *const *probes, int n_probes, err *e) {
    struct fwd_reading *r = f->r;
    bool ok = false;
    if (r->at >= r->n)
        return true;
    f->probes = probes;
    f->n_probes = n_probes;
    if (resets_at(r->ids, r->at, r->opt, r->next_start))
        forget(f);
    f->T =
        until_reset(r->ids, r->n, r->at, most < f->block ? most : f->block, r->opt, &r->next_start);
    f->t0 = r->at;
    for (int64_t i = 0; i < f->T; i++) {
        r->targets[i] = r->at + i + 1 < r->n ? r->ids[r->at + i + 1] : -1;
        r->loss[i] = NAN;
    }
    if (!run_block(f, mat_rows(r->x, 0, f->T), mat_rows(r->y, 0, f->T), layers, r->ids + r->at,
                   r->targets, r->loss, r->best, e))
        goto done;
    for (int i = 0; i < n_probes && layers >= f->m->info.n_layers; i++)
        if (probes[i]->on_loss &&
            !probes[i]->on_loss(probes[i]->ctx, r->at, f->T, r->loss, r->best, e))
            goto done;
    r->at += f->T;
    f->pos += f->T;
    ok = true;
done:
    f->probes = NULL;
    f->n_probes = 0;
    return ok;
}

bool fwd_final_states(fwd *f, const probe *const *probes, int n_probes, err *e) {
    f->probes = probes;
    f->n_probes = n_probes;
    bool ok = tell_final_states(f, e);
    f->probes = NULL;
    f->n_probes = 0;
    return ok;
}

bool fwd_row(fwd *f, const int32_t *ids, int64_t n, const row_options *opt,
             const probe *const *probes, int n_probes, progress_fn progress, void *progress_ctx,
             err *e) {
    bool ok = false;
    if (!fwd_begin(f, ids, n, opt, e))
        return false;
    while (f->r->at < n) {
        if (!fwd_block(f, f->block, f->m->info.n_layers, probes, n_probes, e))
            goto done;
        if (progress && !progress(progress_ctx, f->r->at, n)) {
            err_set(e, ERR_CANCELLED, "stopped at token %lld of %lld", (long long)f->r->at,
                    (long long)n);
            goto done;
        }
    }
    f->probes = probes;
    f->n_probes = n_probes;
    if (n > 0 &&
        (!tell_logits(f, mat_rows(f->r->y, f->T - 1, 1), n - 1, e) || !tell_final_states(f, e)))
        goto done;
    ok = true;
done:
    fwd_end(f);
    f->probes = NULL;
    f->n_probes = 0;
    return ok;
}
