#include "analyses/tape.h"

#include "core/mem.h"

#include <stdlib.h>
#include <string.h>

// One kind of row per token and head: keys, betas, decays ...
typedef struct strip {
    int64_t width; // numbers per token and head; 0: the kind is absent
    double *v;     // [n_heads, cap, width]
} strip;

enum { KEYS, BETA, DECAY, WRITE, READ, STRIPS };

struct tape {
    head_shape s;
    int *heads;
    int n_heads;
    int64_t keep, cap, n, dropped;
    strip strip[STRIPS];
};

static void widths(tape *t) {
    const head_shape *s = &t->s;
    if (s->erase == ERASE_KEY) {
        t->strip[KEYS].width = (int64_t)s->n_h * s->K;
        t->strip[BETA].width = s->n_h;
    }
    if (s->erase == ERASE_PAIR)
        t->strip[WRITE].width = t->strip[READ].width = s->K;
    if (s->decay != DECAY_NONE)
        t->strip[DECAY].width = s->decay == DECAY_HEAD ? 1 : s->K;
}

tape *tape_new(const head_shape *s, const int *heads, int n_heads, int64_t keep, int64_t block,
               err *e) {
    tape *t = mem_zalloc(1, sizeof *t, "a tape of transitions", e);
    if (!t)
        return NULL;
    t->s = *s;
    t->n_heads = n_heads;
    t->keep = keep;
    t->cap = keep + block;
    widths(t);
    t->heads = mem_alloc((size_t)n_heads, sizeof *t->heads, "a list of heads", e);
    bool ok = t->heads != NULL;
    for (int i = 0; ok && i < STRIPS; i++) {
        size_t n = (size_t)n_heads * (size_t)t->cap * (size_t)t->strip[i].width;
        t->strip[i].v = mem_alloc(n, sizeof(double), "a tape of transitions", e);
        ok = t->strip[i].v != NULL;
    }
    if (!ok) {
        tape_free(t);
        return NULL;
    }
    memcpy(t->heads, heads, (size_t)n_heads * sizeof *heads);
    return t;
}

void tape_free(tape *t) {
    if (!t)
        return;
    for (int i = 0; i < STRIPS; i++)
        free(t->strip[i].v);
    free(t->heads);
    free(t);
}

void tape_clear(tape *t) {
    t->dropped += t->n;
    t->n = 0;
}

// Makes room by dropping tokens from the front, never below `keep`.
static void drop_front(tape *t, int64_t incoming) {
    if (t->n + incoming <= t->cap)
        return;
    int64_t gone = t->n - (t->keep < t->n ? t->keep : t->n);
    for (int i = 0; i < STRIPS; i++) {
        int64_t w = t->strip[i].width;
        for (int h = 0; w && h < t->n_heads; h++) {
            double *v = t->strip[i].v + h * t->cap * w;
            memmove(v, v + gone * w, (size_t)((t->n - gone) * w) * sizeof *v);
        }
    }
    t->n -= gone;
    t->dropped += gone;
}

// Copies columns of a mat into a strip: head i takes `width` columns at column[i] of each of the
// `per_token` rows of a token.
static bool take(tape *t, backend *be, mat m, strip *to, int per_token, int64_t width,
                 bool key_head, int64_t T, err *e) {
    if (to->width == 0)
        return true;
    double *host = mem_alloc((size_t)(m.rows * m.cols), sizeof *host, "steps", e);
    if (!host)
        return false;
    be->op->read(be, m, host);
    int group = t->s.H / t->s.Hk;
    for (int i = 0; i < t->n_heads; i++) {
        int64_t h = key_head ? t->heads[i] / group : t->heads[i];
        double *out = to->v + (i * t->cap + t->n) * to->width;
        for (int64_t row = 0; row < T * per_token; row++)
            memcpy(out + row * width, host + row * m.cols + h * width,
                   (size_t)width * sizeof *host);
    }
    free(host);
    return backend_check(be, e);
}

bool tape_append(tape *t, backend *be, const steps *s, err *e) {
    drop_front(t, s->T);
    int K = t->s.K;
    bool ok = take(t, be, s->k, &t->strip[KEYS], t->s.n_h, K, true, s->T, e) &&
              take(t, be, s->decay, &t->strip[DECAY], 1, t->strip[DECAY].width, false, s->T, e) &&
              take(t, be, s->a, &t->strip[WRITE], 1, K, false, s->T, e) &&
              take(t, be, s->b, &t->strip[READ], 1, K, true, s->T, e);
    if (ok && t->strip[BETA].width && mat_none(s->beta)) {
        for (int i = 0; i < t->n_heads; i++)
            for (int64_t j = 0; j < s->T * t->s.n_h; j++)
                t->strip[BETA].v[(i * t->cap + t->n) * t->s.n_h + j] = 1;
    } else if (ok) {
        ok = take(t, be, s->beta, &t->strip[BETA], t->s.n_h, 1, false, s->T, e);
    }
    if (ok)
        t->n += s->T;
    return ok;
}

int64_t tape_tokens(const tape *t) {
    return t->n;
}

int64_t tape_dropped(const tape *t) {
    return t->dropped;
}

static const double *head_of(const tape *t, int strip, int i) {
    int64_t w = t->strip[strip].width;
    return w ? t->strip[strip].v + i * t->cap * w : NULL;
}

transitions tape_view(const tape *t, int i) {
    transitions x = {
        .kind = t->s.erase == ERASE_KEY    ? TRANSITION_KEYS
                : t->s.erase == ERASE_PAIR ? TRANSITION_DPLR
                                           : TRANSITION_DIAGONAL,
        .decay = t->s.decay == DECAY_NONE   ? TDECAY_NONE
                 : t->s.decay == DECAY_HEAD ? TDECAY_HEAD
                                            : TDECAY_CHANNEL,
        .T = t->n,
        .K = t->s.K,
        .n_h = t->s.erase == ERASE_NONE ? 0 : t->s.n_h,
        .k = head_of(t, KEYS, i),
        .beta = head_of(t, BETA, i),
        .a = head_of(t, WRITE, i),
        .b = head_of(t, READ, i),
        .g = head_of(t, DECAY, i),
    };
    return x;
}
