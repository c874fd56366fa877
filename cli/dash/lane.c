#include "cli/dash/lane.h"

#include "analyses/rank.h"
#include "cli/dash/lane_parts.h"
#include "core/mem.h"

#include <stdlib.h>
#include <string.h>

lane *lane_new(const model *m, run *r, const row_options *how, int64_t block, int64_t state_mem,
               bool losses_only, lane_stop stop, void *ctx, err *e) {
    lane *l = mem_zalloc(1, sizeof *l, "a pass", e);
    if (!l)
        return NULL;
    *l = (lane){.r = shared_take(r),
                .how = *how,
                .block = block,
                .losses_only = losses_only,
                .stop = stop,
                .stop_ctx = ctx,
                .apart = block,
                .chunks = r->n_base,
                .most_fine = (size_t)state_mem / 2};
    l->how.off = r->off;
    l->how.n_off = r->n_off;
    l->f = fwd_new(m, block, r->T, e);
    if (!l->f || !fwd_begin(l->f, r->of->d.ids, r->T, &l->how, e))
        goto fail;
    int64_t bytes = fwd_point_bytes(l->f);
    l->most_points = bytes > 0 ? state_mem / bytes : INT32_MAX;
    l->most_points = l->most_points < 2 ? 2 : l->most_points;
    int widest = 1;
    for (int L = 0; L < r->n_layers; L++)
        widest = r->first[L + 1] - r->first[L] > widest ? r->first[L + 1] - r->first[L] : widest;
    l->all = mem_alloc((size_t)widest, sizeof *l->all, "heads", e);
    l->last_key = mem_zalloc((size_t)r->n_layers + 1, sizeof *l->last_key, "keys", e);
    l->stride = mem_alloc((size_t)r->n_heads * (size_t)l->chunks + 1, 1, "strides", e);
    if (!l->all || !l->last_key || !l->stride)
        goto fail;
    for (int i = 0; i < widest; i++)
        l->all[i] = i;
    memset(l->stride, RANK_EVERY, (size_t)r->n_heads * (size_t)l->chunks);
    return l;
fail:
    lane_free(l);
    return NULL;
}

void lane_free(lane *l) {
    if (!l)
        return;
    for (size_t i = 0; i < l->n_points; i++)
        fwd_point_free(l->point[i]);
    free(l->point);
    fwd_point_free(l->resume);
    for (int i = 0; l->last_key && i < l->r->n_layers; i++)
        free(l->last_key[i]);
    free(l->last_key);
    free(l->stride);
    free(l->host);
    free(l->sv);
    free(l->fro);
    free(l->all);
    fwd_free(l->f);
    shared_drop(l->r);
    free(l);
}

bool lane_over(const lane *l) {
    return atomic_load(&l->r->over);
}

static bool stopped(lane *l, err *e) {
    return l->stop && l->stop(l->stop_ctx) ? !err_set(e, ERR_CANCELLED, "stopped") : false;
}

static bool read_host(lane *l, backend *be, mat m, err *e) {
    if (!mem_grow((void **)&l->host, &l->cap_host, (size_t)(m.rows * m.cols), sizeof *l->host,
                  "steps", e))
        return false;
    be->op->read(be, m, l->host);
    return backend_check(be, e);
}

// Gates -------------------------------------------------------------------------------------------

static bool take_betas(lane *l, int first, int64_t t0, const steps *s, backend *be, err *e) {
    run *r = l->r;
    int n_h = s->s.n_h;
    if (!r->head[first].beta)
        return true;
    bool given = !mat_none(s->beta);
    if (given && !read_host(l, be, s->beta, e))
        return false;
    for (int h = 0; h < s->s.H; h++)
        for (int64_t t = 0; t < s->T; t++)
            for (int j = 0; (t0 + t) % r->every == 0 && j < n_h; j++)
                r->head[first + h].beta[j * r->stored + (t0 + t) / r->every] =
                    given ? (float)l->host[(t * n_h + j) * s->s.H + h] : 1;
    return true;
}

static bool take_decays(lane *l, int first, int64_t t0, const steps *s, backend *be, err *e) {
    run *r = l->r;
    if (s->s.decay == DECAY_NONE || mat_none(s->decay))
        return true;
    if (!read_host(l, be, s->decay, e))
        return false;
    int64_t width = s->s.decay == DECAY_HEAD ? 1 : s->s.K;
    for (int h = 0; h < s->s.H; h++)
        for (int64_t t = 0; t < s->T; t++) {
            if ((t0 + t) % r->every)
                continue;
            const double *g = l->host + (t * s->s.H + h) * width;
            double sum = 0, least = INFINITY;
            for (int64_t c = 0; c < width; c++) {
                double w = exp(g[c]);
                sum += w;
                least = w < least ? w : least;
            }
            r->head[first + h].decay[(t0 + t) / r->every] = (float)(sum / (double)width);
            if (r->head[first + h].least)
                r->head[first + h].least[(t0 + t) / r->every] = (float)least;
        }
    return true;
}

// Degrees between two lines, 0..90; NaN when one of them is zero.
static float angle(const double *a, const double *b, int K) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < K; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    double c = fabs(ab) / sqrt(aa * bb);
    return (float)(acos(c > 1 ? 1 : c) * 180 / M_PI);
}

static bool take_angles(lane *l, int layer, int64_t t0, const steps *s, backend *be, err *e) {
    run *r = l->r;
    int K = s->s.K, n_h = s->s.n_h, group = s->s.H / s->s.Hk, first = r->first[layer];
    int64_t row = (int64_t)s->s.Hk * K;
    if (!read_host(l, be, s->k, e))
        return false;
    if (!l->last_key[layer] &&
        !(l->last_key[layer] = mem_zalloc((size_t)row, sizeof(double), "keys", e)))
        return false;
    for (int64_t t = 0; t < s->T; t++) {
        if ((t0 + t) % r->every)
            continue;
        for (int kh = 0; kh < s->s.Hk; kh++)
            for (int j = 0; j < (n_h > 1 ? n_h - 1 : 1); j++) {
                const double *now = l->host + (t * n_h + j) * row + kh * K;
                const double *other = n_h > 1 ? now + row
                                      : t > 0 ? now - row
                                              : l->last_key[layer] + kh * K;
                float a = t0 + t == 0 && n_h == 1 ? NAN : angle(now, other, K);
                for (int h = kh * group; h < (kh + 1) * group; h++)
                    r->head[first + h].angle[j * r->stored + (t0 + t) / r->every] = a;
            }
    }
    memcpy(l->last_key[layer], l->host + (s->T * n_h - 1) * row, (size_t)row * sizeof(double));
    return true;
}

// Ranks -------------------------------------------------------------------------------------------

bool lane_look(lane *l, const steps *s, mat state, const int *heads, int n_heads, const int64_t *at,
               int64_t n, lane_put put, void *ctx, backend *be, err *e) {
    int rank = s->s.K < s->s.V ? s->s.K : s->s.V;
    size_t states = (size_t)n_heads * (size_t)n;
    if (!mem_grow((void **)&l->sv, &l->cap_sv, states * (size_t)rank, sizeof *l->sv, "ranks", e) ||
        !mem_grow((void **)&l->fro, &l->cap_fro, states, sizeof *l->fro, "norms", e) ||
        !be->op->state_svals(be, s, state, heads, n_heads, at, n, l->sv, l->fro, e))
        return false;
    double cut = be->prec == PRECISION_F64 ? 0 : RANK_CUT;
    for (int h = 0; h < n_heads; h++)
        for (int64_t i = 0; i < n; i++) {
            float q[Q_N];
            size_t k = (size_t)h * (size_t)n + (size_t)i;
            run_quantities(l->sv + k * (size_t)rank, rank, l->fro[k], cut, q);
            put(ctx, heads[h], i, q);
        }
    return true;
}

typedef struct base_put {
    run *r;
    int first;
    int64_t sample;
} base_put;

static void put_base(void *ctx, int head, int64_t i, const float *q) {
    base_put *b = ctx;
    memcpy(b->r->head[b->first + head].base + (b->sample + i) * Q_N, q, Q_N * sizeof *q);
}

// Samples of a block that starts at t0: tokens t with t + 1 a multiple of RANK_EVERY in
// [t0, t0 + T). The state a block starts from costs no replay, so that of its end is left to the
// next block.
static bool sample_base(lane *l, int layer, int64_t t0, const steps *s, mat state, backend *be,
                        err *e) {
    int64_t first = t0 == 0 ? RANK_EVERY : (t0 + RANK_EVERY - 1) / RANK_EVERY * RANK_EVERY, n = 0;
    int64_t at[64];
    base_put b = {l->r, l->r->first[layer], first / RANK_EVERY - 1};
    for (int64_t t = first; t < t0 + s->T; t += RANK_EVERY) {
        at[n++] = (t - t0) * s->s.n_h;
        if (n == 64 || t + RANK_EVERY >= t0 + s->T) {
            if (!lane_look(l, s, state, l->all, s->s.H, at, n, put_base, &b, be, e))
                return false;
            b.sample += n;
            n = 0;
        }
    }
    return true;
}

// The pass ----------------------------------------------------------------------------------------

static bool on_steps(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                     err *e) {
    lane *l = ctx;
    if (l->losses_only)
        return true;
    int first = l->r->first[layer];
    return take_betas(l, first, t0, s, be, e) && take_decays(l, first, t0, s, be, e) &&
           take_angles(l, layer, t0, s, be, e) && sample_base(l, layer, t0, s, state, be, e);
}

bool lane_may_go_on(void *ctx, int layer, int64_t t0, mat x, backend *be, err *e) {
    (void)layer, (void)t0, (void)x, (void)be;
    return !stopped(ctx, e);
}

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    run *r = ((lane *)ctx)->r;
    (void)best, (void)e;
    for (int64_t i = 0; i < n && t0 + i + 1 < r->T; i++)
        r->loss[t0 + i + 1] = loss[i];
    for (int64_t t = t0; t < t0 + n; t++) {
        bool odd = !isfinite(r->loss[t]);
        r->sum[t + 1] = r->sum[t] + (odd ? 0 : r->loss[t]);
        r->odd[t + 1] = r->odd[t] + odd;
    }
    return true;
}

static bool on_final(void *ctx, int layer, mat state, backend *be, err *e) {
    lane *l = ctx;
    run *r = l->r;
    // Only sizes are looked at when no micro-step is to be taken.
    steps s = {.s = r->head[r->first[layer]].s, .T = 0};
    base_put b = {r, r->first[layer], r->n_base - 1};
    return lane_look(l, &s, state, l->all, s.s.H, (int64_t[]){0}, 1, put_base, &b, be, e);
}

// Too many points: every second one goes, and the rest stand twice as far apart.
static void thin(lane *l) {
    size_t n = 0;
    for (size_t i = 0; i < l->n_points; i++)
        if (i % 2)
            fwd_point_free(l->point[i]);
        else
            l->point[n++] = l->point[i];
    l->n_points = n;
    l->apart *= 2;
}

static bool keep_point(lane *l, err *e) {
    int64_t at = fwd_tokens(l->f);
    if (l->losses_only ||
        (l->n_points && at < fwd_point_tokens(l->point[l->n_points - 1]) + l->apart))
        return true;
    if ((int64_t)l->n_points >= l->most_points) {
        thin(l);
        if (at < fwd_point_tokens(l->point[l->n_points - 1]) + l->apart)
            return true;
    }
    if (!mem_grow((void **)&l->point, &l->cap_points, l->n_points + 1, sizeof *l->point, "points",
                  e))
        return false;
    fwd_point *p = fwd_point_new(l->f, e);
    if (!p)
        return false;
    l->point[l->n_points++] = p;
    return true;
}

static bool go_back_to_pass(lane *l, err *e) {
    if (!l->resume)
        return true;
    bool ok = fwd_return(l->f, l->resume, e);
    fwd_point_free(l->resume);
    l->resume = NULL;
    l->at_layers = 0;
    return ok;
}

bool lane_step(lane *l, int64_t hold, err *e) {
    run *r = l->r;
    if (!go_back_to_pass(l, e) || !keep_point(l, e))
        return false;
    int64_t at = fwd_tokens(l->f), most = l->block;
    if (hold >= 0 && hold - at < most)
        most = hold - at;
    if (most <= 0)
        return true;
    probe p = {.ctx = l,
               .on_steps = on_steps,
               .on_hidden = lane_may_go_on,
               .on_loss = on_loss,
               .on_final_state = on_final};
    const probe *probes[] = {&p};
    if (!fwd_block(l->f, most, r->n_layers, probes, 1, e))
        return false;
    at = fwd_tokens(l->f);
    bool over = at >= r->T;
    if (over && !l->losses_only && !fwd_final_states(l->f, probes, 1, e))
        return false;
    if (!l->losses_only)
        atomic_store_explicit(&r->sampled, over ? r->n_base : (at - 1) / RANK_EVERY,
                              memory_order_release);
    atomic_store_explicit(&r->read, at, memory_order_release);
    if (over)
        atomic_store(&r->over, true);
    return true;
}
