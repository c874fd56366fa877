// S3 in four layers with n_h = 1: the general construction with a look-up MLP (T03, DeltaProduct
// Theorem 3; science.md 3.3), built for the one case that fits: m = 2 tokens a block, 2 m (n!)^(2m) =
// 5184 table entries.
//
//     layer 0, 1  position mod 4: layer 1 turns by 90 degrees a token, with the trick of dihedral.c
//     MLP 1       position one-hot
//     layer 2     the last four tokens: key e_position, beta = 1, value the token's one-hot; four
//                 heads read the four slots
//     MLP 2       the table: (position, four tokens) to the swap of this token and to the query
//     layer 3     token r of a block applies swap r of the block BEFORE; its state is behind the true
//                 element by a known K_t, so it is read with K_t^T q
//
// Four prefix tokens fill the buffer with identities and write the start states.
#include "analyses/theory/net.h"
#include "analyses/theory/theory.h"

#include "core/mem.h"

#include <math.h>
#include <stdlib.h>

enum { N = 6, PREFIX = 4, VOCAB = N + PREFIX, BLOCK = 2, PERIOD = 4, TABLE = 5184 };
enum { HEADS = 4, HEAD_K = 4, HEAD_V = 8, WIDTH = 64 };
// Coordinates of the residual stream; tokens from 0 on.
enum {
    SIGN = VOCAB,
    TURN,                      // 2: the position as a direction (+-2, +-2)
    POSITION = TURN + 2,       // 4: one-hot
    SLOT = POSITION + PERIOD,  // 4 x 6: one-hots of the last four tokens
    FOUND = SLOT + PERIOD * N, // 8: what the table says
    OUT = FOUND + 8,           // 3
    USED = OUT + 3,
};
_Static_assert((int)USED <= (int)WIDTH, "the stream is too narrow");
// Parts of FOUND: the key's pre-activations, +1 (swap) or -1 (none), the query's, and what makes the
// norm 2.
enum { KEY = 0, SWAP = 3, QUERY = 4, REST = 7 };

#define GATE  100.0 // pre-activation of an open gate; closed ones are at -GATE or below
#define ROOT  8.0   // sqrt(WIDTH): value of a one-hot
#define HALF  4.0   // factor of FOUND, whose norm is 2: mean square 1
#define READ  4.0   // pre-activations of the query are stored divided by this
#define VALUE 2.8284271247461903 // sqrt(HEAD_V): norm of a head's output

// Values are written large, so that o_norm's eps does not show.
#define WRITTEN 8.0

// Mean squares of the stream, of word tokens and, where it matters, prefix tokens.
#define MS_SIGN     (1 + 8.0 / WIDTH)
#define MS_TURN     (1 + 16.0 / WIDTH)
#define MS_POSITION (2 + 16.0 / WIDTH)
#define MS_SLOTS    (2 + 48.0 / WIDTH)
#define MS_FOUND    (3 + 48.0 / WIDTH)
#define MS_END      (3 + 56.0 / WIDTH)

static const double query[3] = {0, 1, 2};

// A projection's row reads z at every word token (and nothing at prefix tokens).
static void at_words(product_model *m, float *w, int64_t row, double ms, double z) {
    for (int x = 0; x < N; x++)
        net_add(m, w, row, &(source){x, ROOT, ms}, z);
}

static void unit(double *x, int n, int at, double value) {
    for (int i = 0; i < n; i++)
        x[i] = i == at ? value : 0;
}

static void count_tokens(product_model *m) {
    double k[HEAD_K], v[HEAD_V];
    unit(k, HEAD_K, 0, 1);
    unit(v, HEAD_V, 0, WRITTEN);
    for (int id = 0; id < VOCAB; id++) {
        source s = {id, ROOT, 1};
        micro x = {id < N ? 2 : id == N ? 1 : 0, k, id == N ? v : NULL};
        net_micro(m, 0, 0, 0, &s, &x);
        net_query(m, 0, 0, &s, k);
    }
    net_output(m, 0, 0, SIGN, 1);
}

// Keys and queries are z(sign) = mean + half difference x sign. The sign stands on its own
// coordinate at prefix tokens too (there it is 1), so these take its share away.
static void turn(product_model *m) {
    double r = sqrt(0.5), key[2][2], read[2][2];
    for (int i = 0; i < 2; i++) {
        double sign = i ? -1 : 1;
        silu_vector((double[]){-sign * r, r}, 2, true, key[i]);
        silu_vector((double[]){r, sign * r}, 2, false, read[i]);
    }
    for (int i = 0; i < 2; i++) {
        float *w[2] = {m->layer[1].k, m->layer[1].q};
        for (int which = 0; which < 2; which++) {
            const double(*z)[2] = which ? read : key;
            double mean = (z[0][i] + z[1][i]) / 2, part = (z[0][i] - z[1][i]) / 2;
            at_words(m, w[which], i, MS_SIGN, mean);
            net_add(m, w[which], i, &(source){SIGN, VALUE, MS_SIGN}, part);
            for (int j = 0; j < PREFIX; j++)
                net_add(m, w[which], i, &(source){N + j, ROOT, MS_SIGN}, -part);
        }
    }
    at_words(m, m->layer[1].b, 0, MS_SIGN, BETA_TWO);
    for (int j = 0; j < PREFIX; j++) {
        double k[HEAD_K], v[HEAD_V];
        source s = {N + j, ROOT, MS_SIGN};
        unit(k, HEAD_K, j, 1);
        unit(v, HEAD_V, j, WRITTEN);
        net_micro(m, 1, 0, 0, &s, &(micro){j < 2 ? 1 : 0, k, j < 2 ? v : NULL});
        net_query(m, 1, 0, &s, (double[]){r, r, 0, 0});
    }
    net_output(m, 1, 0, TURN, 2);
}

// Prefix tokens find nothing: `up` is 0 there. After k words the direction is R(k 90 degrees)^T (1, 1): position k - 1 mod 4.
static void find_position(product_model *m) {
    const product_layer *l = &m->layer[1];
    for (int p = 0; p < PERIOD; p++) {
        double a = M_PI / 2 * (p + 1);
        double x = cos(a) + sin(a), y = cos(a) - sin(a); // +1 or -1
        net_add(m, l->gate, p, &(source){TURN, 2, MS_TURN}, GATE * x);
        net_add(m, l->gate, p, &(source){TURN + 1, 2, MS_TURN}, GATE * y);
        at_words(m, l->gate, p, MS_TURN, -GATE);
        at_words(m, l->up, p, MS_TURN, 1);
        l->down[(int64_t)(POSITION + p) * m->s.inter + p] = (float)(ROOT / GATE);
    }
}

static void keep_tokens(product_model *m, int identity) {
    for (int h = 0; h < HEADS; h++) {
        double k[HEAD_K], v[HEAD_V], z[HEAD_K];
        for (int p = 0; p < PERIOD; p++) {
            unit(k, HEAD_K, p, 1);
            silu_vector(k, HEAD_K, false, z);
            for (int i = 0; i < HEAD_K; i++)
                net_add(m, m->layer[2].k, h * HEAD_K + i,
                        &(source){POSITION + p, ROOT, MS_POSITION}, z[i]);
        }
        for (int id = 0; id < VOCAB; id++) {
            source s = {id, ROOT, id < N ? MS_POSITION : MS_TURN};
            unit(v, HEAD_V, id < N ? id : identity, WRITTEN);
            unit(k, HEAD_K, id < N ? 0 : id - N, 1);
            if (id >= N) {
                net_micro(m, 2, h, 0, &s, &(micro){1, k, v});
            } else {
                for (int i = 0; i < HEAD_V; i++)
                    net_add(m, m->layer[2].v, h * HEAD_V + i, &s, silu_inverse(v[i]));
            }
            unit(k, HEAD_K, h, 1);
            net_query(m, 2, h, &s, k);
        }
        net_output(m, 2, h, SLOT + h * N, N);
    }
}

// ---- the table --------------------------------------------------------------------------------------

// swap . a
static int apply_swap(const group *g, const int *swap, int a) {
    uint8_t p[3] = {0, 1, 2};
    p[swap[0]] = (uint8_t)swap[1];
    p[swap[1]] = (uint8_t)swap[0];
    for (int s = 0; s < g->size; s++)
        if (group_perm(g, s)[0] == p[0] && group_perm(g, s)[1] == p[1])
            return group_mul(g, s, a);
    return a;
}

// What the table says at position p with the tokens x [4] in their slots: FOUND's eight numbers.
static void look_up(const group *g, int p, const int *x, double *found) {
    int first = p / BLOCK * BLOCK, r = p % BLOCK, before = (first + BLOCK) % PERIOD;
    int swaps[3][2], ahead = g->identity; // g_m .. g_{r+1}: swaps still to come
    int product = group_mul(g, x[before + 1], x[before]);
    int count = group_swaps(g, product, swaps);
    for (int j = r + 1; j < count; j++)
        ahead = apply_swap(g, swaps[j], ahead);
    for (int j = 0; j <= r; j++)
        ahead = group_mul(g, x[first + j], ahead); // K_t
    double key[3] = {0}, read[3], z[3], sum = 0;
    for (int i = 0; i < 8; i++)
        found[i] = 0;
    found[SWAP] = r < count ? 1 : -1;
    if (r < count) {
        key[swaps[r][0]] = 1;
        key[swaps[r][1]] = -1;
        silu_vector(key, 3, true, z);
        for (int i = 0; i < 3; i++)
            found[KEY + i] = z[i];
    }
    for (int i = 0; i < 3; i++)
        read[i] = query[group_perm(g, ahead)[i]]; // K^T q
    silu_vector(read, 3, false, z);
    for (int i = 0; i < 3; i++)
        found[QUERY + i] = z[i] / READ;
    for (int i = 0; i < 8; i++)
        sum += found[i] * found[i];
    found[REST] = sqrt(4 - sum);
}

static void fill_table(product_model *m, const group *g) {
    const product_layer *l = &m->layer[2];
    for (int64_t unit = 0; unit < TABLE; unit++) {
        int rest = (int)unit, x[PERIOD], p = rest % PERIOD;
        double found[8];
        rest /= PERIOD;
        net_add(m, l->gate, unit, &(source){POSITION + p, ROOT, MS_SLOTS}, 2 * GATE);
        for (int i = 0; i < PERIOD; i++) {
            x[i] = rest % N;
            rest /= N;
            net_add(m, l->gate, unit, &(source){SLOT + i * N + x[i], VALUE, MS_SLOTS}, 2 * GATE);
        }
        at_words(m, l->gate, unit, MS_SLOTS, -9 * GATE); // five hits of 2 are 10
        at_words(m, l->up, unit, MS_SLOTS, 1);
        look_up(g, p, x, found);
        for (int i = 0; i < 8; i++)
            l->down[(int64_t)(FOUND + i) * m->s.inter + unit] = (float)(HALF * found[i] / GATE);
    }
}

static void apply(product_model *m) {
    for (int i = 0; i < 3; i++) {
        net_add(m, m->layer[3].k, i, &(source){FOUND + KEY + i, HALF, MS_FOUND}, 1);
        net_add(m, m->layer[3].q, i, &(source){FOUND + QUERY + i, HALF / READ, MS_FOUND}, 1);
    }
    at_words(m, m->layer[3].b, 0, MS_FOUND, (BETA_TWO + BETA_ZERO) / 2);
    net_add(m, m->layer[3].b, 0, &(source){FOUND + SWAP, HALF, MS_FOUND},
            (BETA_TWO - BETA_ZERO) / 2);
    for (int j = 0; j < PREFIX; j++) {
        double k[HEAD_K], v[HEAD_V];
        source s = {N + j, ROOT, 1}; // one entry of k: its size does not matter
        unit(k, HEAD_K, j, 1);
        unit(v, HEAD_V, j, 1);
        net_micro(m, 3, 0, 0, &s, &(micro){j < 3 ? 1 : 0, k, j < 3 ? v : NULL});
    }
    net_output(m, 3, 0, OUT, 3);
}

bool theory_s3_lookup(int n, theory_built *b, err *e) {
    (void)n;
    *b = (theory_built){0};
    group *g = group_named("S3", e);
    word_task *t = g ? task_of_group(g, true, PREFIX, e) : NULL;
    product_sizes s = {.D = WIDTH,
                       .n_vocab = VOCAB,
                       .n_layers = 4,
                       .H = HEADS,
                       .K = HEAD_K,
                       .V = HEAD_V,
                       .n_h = 1,
                       .inter = TABLE,
                       .bos = N,
                       .train_length = 4096};
    product_model *m = t ? product_new(&s, e) : NULL;
    if (!m) {
        task_free(t);
        return false;
    }
    net_embed(m);
    count_tokens(m);
    turn(m);
    find_position(m);
    keep_tokens(m, g->identity);
    fill_table(m, g);
    apply(m);
    double answer[N * 3];
    for (int a = 0; a < N; a++)
        for (int i = 0; i < 3; i++)
            answer[3 * a + i] = query[group_perm(g, a)[i]] / sqrt(5);
    b->margin = 1 - net_worst_cosine(answer, N, 3);
    for (int a = 0; a < N; a++)
        net_template(m, a, OUT, answer + 3 * a, 3, 14 / (b->margin * VALUE), MS_END);
    t->train_length = s.train_length;
    b->m = m;
    b->task = t;
    return true;
}
