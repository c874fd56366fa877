#include "analyses/words/language.h"

#include "core/mem.h"
#include "core/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { PLUS, MINUS, TIMES, OPEN, CLOSE, EQUALS } sign;

void language_init(language *l, language_kind kind, int modulus) {
    *l = (language){.kind = kind, .modulus = kind == LANGUAGE_PARITY ? 2 : modulus, .n_prefix = 1};
    for (int i = 0; i < l->modulus; i++)
        l->digit[i] = l->answer[i] = i;
    int signs = kind == LANGUAGE_PARITY ? 0 : LANGUAGE_SIGNS;
    for (int i = 0; i < signs; i++)
        l->sign[i] = l->modulus + i;
    l->prefix[0] = l->modulus + signs;
}

const char *language_name(const language *l) {
    static const char *const names[] = {"parity", "modular arithmetic without brackets",
                                        "modular arithmetic with brackets"};
    return names[l->kind];
}

const char *language_symbol(const language *l, int i, char *buf, size_t size) {
    if (i < l->modulus)
        snprintf(buf, size, "%d", i);
    else
        snprintf(buf, size, "%c", "+-*()="[i - l->modulus]);
    return buf;
}

// ---- drawing ------------------------------------------------------------------------------------------

typedef struct pen {
    const language *l;
    uint64_t *seed;
    int *out, n;
} pen;

static int put(pen *p, int symbol) {
    p->out[p->n++] = symbol;
    return symbol;
}

static int draw_digit(pen *p) {
    return put(p, (int)random_below(p->seed, p->l->modulus));
}

static int modulo(int x, int m) {
    return ((x % m) + m) % m;
}

static int combine(int a, sign op, int b, int m) {
    return modulo(op == PLUS ? a + b : op == MINUS ? a - b : a * b, m);
}

static sign draw_sign(pen *p) {
    sign op = (sign)random_below(p->seed, 3);
    put(p, p->l->modulus + (int)op);
    return op;
}

static int parity(pen *p, int64_t length) {
    int value = 0;
    for (int64_t i = 0; i < length; i++)
        value ^= draw_digit(p);
    return value;
}

// sum + (op) product: a product is added when the next + or - comes.
static int flat(pen *p, int64_t length) {
    int m = p->l->modulus, sum = 0, product = draw_digit(p);
    sign pending = PLUS;
    for (int64_t i = 1; i + 1 < length + (length % 2 == 0); i += 2) {
        sign op = draw_sign(p);
        int d = draw_digit(p);
        if (op == TIMES) {
            product = modulo(product * d, m);
        } else {
            sum = combine(sum, pending, product, m);
            pending = op;
            product = d;
        }
    }
    return combine(sum, pending, product, m);
}

// Lengths that bracketed expressions have: 1, 4, 5 and all from 7 on.
static bool can_be(int64_t length) {
    return length == 1 || length == 4 || length == 5 || length >= 7;
}

static int bracketed(pen *p, int64_t length) {
    int m = p->l->modulus;
    if (length == 1)
        return draw_digit(p);
    put(p, m + OPEN);
    int64_t inside = length - 3, left = 0; // of "( a op b )", or "( - a )"
    bool alone = can_be(inside);
    if (inside >= 2) {
        int64_t ways = 0;
        for (int64_t a = 1; a < inside; a++)
            ways += can_be(a) && can_be(inside - a);
        // Alone as often as any one way of dividing the rest.
        int64_t pick = random_below(p->seed, ways + alone);
        alone = alone && pick == ways;
        for (int64_t a = 1; !alone && a < inside; a++)
            if (can_be(a) && can_be(inside - a) && pick-- == 0)
                left = a;
    }
    int value;
    if (alone) {
        put(p, m + MINUS);
        value = modulo(-bracketed(p, inside), m);
    } else {
        int a = bracketed(p, left);
        sign op = draw_sign(p);
        value = combine(a, op, bracketed(p, inside - left), m);
    }
    put(p, m + CLOSE);
    return value;
}

int language_draw(const language *l, int64_t length, uint64_t *seed, int *symbols, int *value) {
    pen p = {l, seed, symbols, 0};
    if (l->kind == LANGUAGE_PARITY) {
        *value = parity(&p, length);
        return p.n;
    } else if (l->kind == LANGUAGE_ARITHMETIC) {
        *value = flat(&p, length);
    } else {
        while (!can_be(length))
            length++;
        *value = bracketed(&p, length);
    }
    put(&p, l->modulus + EQUALS);
    return p.n;
}

// ---- reading ------------------------------------------------------------------------------------------

typedef struct job {
    const language *l;
    language_result *r;
    uint64_t seed;
} job;

static void make(void *ctx, int64_t i, int32_t *ids, int32_t *want, int64_t *n) {
    const job *j = ctx;
    const language *l = j->l;
    int value = 0, symbols[4096 + 8];
    uint64_t seed = j->seed * 0x2545f4914f6cdd1du + (uint64_t)i;
    seed = random_next(&seed);
    int64_t length = j->r->from + random_below(&seed, j->r->to - j->r->from + 1);
    int count = language_draw(l, length, &seed, symbols, &value);
    *n = l->n_prefix + count;
    for (int64_t k = 0; k < *n; k++) {
        int s = k < l->n_prefix ? -1 : symbols[k - l->n_prefix];
        ids[k] = s < 0 ? l->prefix[k] : s < l->modulus ? l->digit[s] : l->sign[s - l->modulus];
        want[k] = k + 1 == *n ? l->answer[value] : -1;
    }
}

static void took(void *ctx, int64_t i, const int32_t *best, const int32_t *want, int64_t n) {
    job *j = ctx;
    (void)i;
    int64_t length = n - j->l->n_prefix - (j->l->kind != LANGUAGE_PARITY);
    bool right = best[n - 1] == want[n - 1];
    for (int v = 0; v < j->l->modulus; v++)
        j->r->value[v] += j->l->answer[v] == want[n - 1];
    j->r->seen[length]++;
    j->r->hit[length] += right;
    j->r->right += right;
}

static int32_t last_id(const language *l) {
    int32_t last = 0;
    for (int i = 0; i < l->modulus; i++) {
        last = l->digit[i] > last ? l->digit[i] : last;
        last = l->answer[i] > last ? l->answer[i] : last;
    }
    for (int i = 0; i < LANGUAGE_SIGNS; i++)
        last = l->sign[i] > last ? l->sign[i] : last;
    for (int i = 0; i < l->n_prefix; i++)
        last = l->prefix[i] > last ? l->prefix[i] : last;
    return last;
}

bool language_run(const model *m, const language *l, int64_t from, int64_t to, int64_t count,
                  uint64_t seed, int64_t block, double beta_max, progress_fn progress,
                  void *progress_ctx, language_result *r, err *e) {
    *r = (language_result){.from = from, .to = to, .count = count, .beta_max = beta_max};
    if (last_id(l) >= m->embed.rows)
        return err_set(
            e, ERR_INPUT,
            "%s uses ids up to %d, but the embedding has %lld rows; a tokenizer.json that "
            "names the symbols 0 .. %d + - * ( ) = says which ids they have",
            language_name(l), last_id(l), (long long)m->embed.rows, l->modulus - 1);
    snprintf(r->name, sizeof r->name, "%s", language_name(l));
    if (l->kind != LANGUAGE_PARITY)
        snprintf(r->name, sizeof r->name, "%s, modulo %d", language_name(l), l->modulus);
    r->chance = 1.0 / l->modulus;
    r->train_length = m->info.train_length;
    r->seen = mem_zalloc((size_t)to + 8, sizeof *r->seen, "accuracies", e);
    r->hit = mem_zalloc((size_t)to + 8, sizeof *r->hit, "accuracies", e);
    r->value = mem_zalloc((size_t)l->modulus, sizeof *r->value, "accuracies", e);
    r->modulus = l->modulus;
    job j = {l, r, seed};
    word_source s = {&j, count, l->n_prefix + to + 8, make, took};
    if (r->seen && r->hit && r->value &&
        words_read(m, &s, block, beta_max, progress, progress_ctx, e))
        return true;
    language_free(r);
    return false;
}

void language_free(language_result *r) {
    free(r->seen);
    free(r->hit);
    free(r->value);
    *r = (language_result){0};
}

double language_commonest(const language_result *r) {
    int64_t most = 0;
    for (int v = 0; v < r->modulus; v++)
        most = r->value[v] > most ? r->value[v] : most;
    return (double)most / (double)r->count;
}

double language_scaled(double accuracy, double chance) {
    return (accuracy - chance) / (1 - chance);
}

// ---- pictures -----------------------------------------------------------------------------------------

enum { STRETCHES = 24 };

static bool curve(figure *f, const language_result *r, err *e) {
    double x[STRETCHES], y[STRETCHES];
    int64_t lengths = r->to + 8 - r->from, n = lengths < STRETCHES ? lengths : STRETCHES;
    size_t used = 0;
    char name[200];
    for (int64_t i = 0; i < n; i++) {
        int64_t a = r->from + lengths * i / n, b = r->from + lengths * (i + 1) / n, seen = 0,
                hit = 0;
        for (int64_t k = a; k < b; k++) {
            seen += r->seen[k];
            hit += r->hit[k];
        }
        if (seen == 0)
            continue;
        x[used] = (double)(a + b - 1) / 2;
        y[used++] = language_scaled((double)hit / (double)seen, r->chance);
    }
    if (r->beta_max > 0)
        snprintf(name, sizeof name, "%s, beta cut to %g (intervention)", r->model, r->beta_max);
    else
        snprintf(name, sizeof name, "%s", r->model);
    return figure_series(f, name, STYLE_LINE, used, x, y, NULL, NULL, NULL, e);
}

bool language_figures(const language_result *r, size_t n, const char *how, figures *out, err *e) {
    char title[200], sub[300];
    figures_init(out, 1);
    snprintf(title, sizeof title, "scaled accuracy, %s", r[0].name);
    snprintf(sub, sizeof sub, "%lld expressions of %lld to %lld tokens, means of stretches; %s",
             (long long)r[0].count, (long long)r[0].from, (long long)r[0].to, how);
    figure *f = figure_new(FIG_CURVES, "words-language", title, sub, e);
    bool ok = f && figure_axis(&f->x, "length of the expression", "tokens", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "scaled accuracy", "0 chance, 1 perfect", SCALE_LINEAR, e);
    if (ok) {
        f->x.whole = true;
        f->y.hi = 1.05;
    }
    for (size_t i = 0; ok && i < n; i++)
        ok = curve(f, &r[i], e);
    ok = ok && figure_mark(f, MARK_Y, 0, "chance", e);
    if (ok && r[0].train_length > 0 && r[0].train_length > r[0].from && r[0].train_length < r[0].to)
        ok = figure_mark(f, MARK_X, (double)r[0].train_length, "training length", e);
    if (!ok) {
        figure_free(f);
        figures_free(out);
        return false;
    }
    return figures_add(out, f, e);
}
