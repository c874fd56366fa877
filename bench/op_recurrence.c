// Every recurrence of core/steps.h as an operation to measure: one row of the table below for each,
// over prompts (T > 1) and single tokens (T = 1, decoding).
#include "bench/op.h"
#include "bench/plugin_load.h"
#include "bench/recurrence_gate.h"
#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { LINEAR, GLA, MAMBA2, DELTANET, GDN, PRODUCT, GPRODUCT, KDA, COMBA, RWKV7 } kind;

static const struct {
    decay_kind decay;
    erase_kind erase;
} kinds[] = {
    [LINEAR] = {DECAY_NONE, ERASE_NONE},  [GLA] = {DECAY_CHANNEL, ERASE_NONE},
    [MAMBA2] = {DECAY_HEAD, ERASE_NONE},  [DELTANET] = {DECAY_NONE, ERASE_KEY},
    [GDN] = {DECAY_HEAD, ERASE_KEY},      [PRODUCT] = {DECAY_NONE, ERASE_KEY},
    [GPRODUCT] = {DECAY_HEAD, ERASE_KEY}, [KDA] = {DECAY_CHANNEL, ERASE_KEY},
    [COMBA] = {DECAY_HEAD, ERASE_PAIR},   [RWKV7] = {DECAY_CHANNEL, ERASE_PAIR},
};

enum { LEAST_ROW = 64 }; // tokens

typedef struct work {
    recurrence_set r;
    bench_setup set;
    int64_t sequences; // in rows, not in heads
} work;

static bool check(const bench_case *c, err *e) {
    if (c->at[AXIS_HV] % c->at[AXIS_H] != 0)
        return err_set(e, ERR_USAGE, "%lld value heads are no multiple of %lld key heads",
                       (long long)c->at[AXIS_HV], (long long)c->at[AXIS_H]);
    if (c->at[AXIS_DOCS] > c->at[AXIS_T])
        return err_set(e, ERR_USAGE, "%lld documents of %lld tokens", (long long)c->at[AXIS_DOCS],
                       (long long)c->at[AXIS_T]);
    if (c->at[AXIS_B] * c->at[AXIS_HV] > 1 << 20)
        return err_set(e, ERR_USAGE, "more than a million heads");
    return true;
}

static void release(void *p) {
    work *w = p;
    if (w)
        recurrence_free(&w->r);
    free(w);
}

// So many sequences as rows, and so many folded into heads.
static bool make(work *w, int64_t sequences, int64_t folded, err *e) {
    const bench_case *c = w->set.c;
    head_shape s = recurrence_shape(c, folded, kinds[c->op->kind].decay, kinds[c->op->kind].erase);
    bool keyed = c->at[AXIS_KEYS] != AXIS_UNSET;
    w->sequences = sequences;
    return recurrence_make(&w->r, &w->set, s, sequences, sequences * c->at[AXIS_T],
                           keyed ? (bench_keys)c->at[AXIS_KEYS] : BENCH_KEYS_RANDOM, s.beta_max, e);
}

static void *prepare(const bench_setup *set, err *e) {
    const bench_case *c = set->c;
    work *w = mem_zalloc(1, sizeof *w, "a case", e);
    if (!w)
        return NULL;
    w->set = *set;
    int64_t B = c->at[AXIS_B];
    // Sequences shorter than a chunk (single tokens above all) are folded into heads: a step a head, all at once.
    bool in_rows = B > 1 && c->at[AXIS_T] >= LEAST_ROW && c->at[AXIS_DOCS] == 1 && !set->kernel &&
                   set->be->op->recurrence_rows;
    bool made = make(w, in_rows ? B : 1, in_rows ? 1 : B, e);
    if (made && in_rows && !recurrence_takes_rows(&w->r)) {
        recurrence_free(&w->r);
        made = make(w, 1, B, e);
    }
    if (!made) {
        release(w);
        return NULL;
    }
    if (set->kernel && (w->r.rows.starts || w->r.rows.every)) {
        err_set(e, ERR_UNSUPPORTED, "plugins take one row, and give no boundary states");
        release(w);
        return NULL;
    }
    if (set->kernel) {
        deltop_recurrence call = plugin_call(set->be, &w->r.s, w->r.state, w->r.o);
        if (!plugin_supports(set->kernel, &call, e)) {
            release(w);
            return NULL;
        }
    }
    return w;
}

static void run(void *p, double share) {
    work *w = p;
    int64_t T = (int64_t)((double)w->r.s.T * share + 0.5);
    int Hk = w->r.s.s.Hk;
    if (T < 1) { // of a single token, a share of the heads
        T = 1;
        Hk = (int)(Hk * share + 0.5) > 1 ? (int)(Hk * share + 0.5) : 1;
    }
    recurrence_call(&w->r, T, Hk);
}

// Nothing to compare with, or something that is not finite: as wrong as can be. NaN would say "not there".
static double sure(double error) {
    return isnan(error) ? (double)INFINITY : error;
}

// Keys that lean on one direction and repeat, and betas up to 2: what costs kernels their digits.
static bool stress(work *w, bench_gate *g, err *e) {
    enum { TOKENS = 1024 };
    recurrence_set hard;
    head_shape s = w->r.s.s;
    int64_t T = w->r.s.T < TOKENS ? w->r.s.T : TOKENS;
    char how[sizeof g->how];
    double output, state;
    if (!recurrence_make(&hard, &w->set, s, w->sequences, T, BENCH_KEYS_CORRELATED, 2, e))
        return false;
    bool ok = recurrence_gate(&hard, &output, &state, how, sizeof how, e);
    recurrence_free(&hard);
    if (ok)
        g->stress = fmax(sure(output), sure(state));
    return ok;
}

static bool gate(void *p, bench_gate *g, err *e) {
    work *w = p;
    g->stress = NAN;
    if (!recurrence_gate(&w->r, &g->error, &g->state_error, g->how, sizeof g->how, e))
        return false;
    g->error = sure(g->error);
    g->state_error = sure(g->state_error);
    if (w->r.s.s.erase != ERASE_NONE && w->set.c->at[AXIS_INPUT] == INPUT_RANDOM &&
        !stress(w, g, e))
        return false;
    bench_judge(g);
    return true;
}

// On a GPU dense tiles of a chunk of 64, residual route, everything fused (performance notes, section
// 2.1); for single tokens, and on a CPU, where no tile is faster than a multiplication, step by step.
static void cost(const bench_case *c, const void *p, bench_cost *out) {
    enum { CHUNK = 64 };
    const work *w = p; // NULL before the case is prepared
    const bench_op *op = c->op;
    double K = (double)c->at[AXIS_K], V = (double)c->at[AXIS_V], C = CHUNK;
    double n = c->at[AXIS_N] == AXIS_UNSET ? 1 : (double)c->at[AXIS_N];
    double T = (double)c->at[AXIS_T], Hv = (double)c->at[AXIS_HV], r = Hv / (double)c->at[AXIS_H];
    double N = (double)c->at[AXIS_B] * T * Hv, flop, numbers, exact, size = case_esize(c);
    decay_kind decay = kinds[op->kind].decay;
    bool decode = T < CHUNK / 4 || c->at[AXIS_DEVICE] == ON_CPU;
    switch (kinds[op->kind].erase) {
    case ERASE_NONE:
        flop = decode ? 4 * K * V : 4 * K * V + 2 * C * (K + V);
        numbers = 2 * K / r + 2 * V;
        exact = 0;
        break;
    case ERASE_PAIR:
        flop = decode ? 8 * K * V : 8 * K * V + 10 * C * K + 8 * C * V + C * C / 3;
        numbers = 3 * K / r + K + 2 * V;
        exact = 0;
        break;
    default:
        if (decode)
            flop = n * 4 * K * V + 2 * K * V;
        else if (n == 1)
            flop = 6 * K * V + 4 * C * (K + V) + C * C / 3 - 4 * C * K * (1 - 1 / r);
        else
            flop = n * (4 * K * V + 2 * C * (K + V) + C * C / 3) + 2 * K * V + 2 * C * (K + V);
        numbers = (n + 1) * (K / r + V);
        exact = n;
    }
    numbers += decay == DECAY_CHANNEL ? K : 0;
    exact += decay == DECAY_HEAD ? 1 : 0;
    double exact_size = size > 4 ? size : 4;
    out->flop = flop * N;
    // A prompt's state is read once and written once; for single tokens it is all that counts.
    double states = 2 * (double)c->at[AXIS_DOCS];
    if (w) // boundary states of all sequences that are rows
        states += (double)rows_states(&w->r.rows, w->r.s.T) / (double)w->sequences;
    out->bytes = N * (numbers * size + exact * exact_size) +
                 states * (double)c->at[AXIS_B] * Hv * K * V * exact_size;
    double longest = w && w->r.starts ? 0 : T;
    for (int64_t i = 0; w && w->r.starts && i < w->r.rows.n; i++)
        longest = fmax(longest, (double)(w->r.starts[i + 1] - w->r.starts[i]));
    out->chain = T < CHUNK / 4 ? 1 : ceil(longest * n / C);
    out->items = (double)c->at[AXIS_B] * T;
    out->item = "tokens";
}

static const char *kernel(const void *p) {
    const work *w = p;
    return w->r.kernel ? w->r.kernel->impl : w->r.be->kernel ? w->r.be->kernel : "";
}

static double bytes(const bench_case *c) {
    double T = (double)c->at[AXIS_T], B = (double)c->at[AXIS_B];
    double n = c->at[AXIS_N] == AXIS_UNSET ? 1 : (double)c->at[AXIS_N];
    double per = ((n + 4) * (double)(c->at[AXIS_H] * c->at[AXIS_K]) +
                  (n + 1) * (double)(c->at[AXIS_HV] * c->at[AXIS_V]));
    double Hv = (double)c->at[AXIS_HV], docs = (double)c->at[AXIS_DOCS],
           every = (double)c->at[AXIS_EVERY], states = docs + (every > 0 ? T / every + docs : 0);
    return B * (T * per * case_esize(c) +
                states * Hv * (double)(c->at[AXIS_K] * c->at[AXIS_V]) * sizeof(float));
}

#define ALL                                                                                        \
    (BIT(AXIS_B) | BIT(AXIS_T) | BIT(AXIS_H) | BIT(AXIS_HV) | BIT(AXIS_K) | BIT(AXIS_V) |          \
     BIT(AXIS_INPUT) | BIT(AXIS_FORM) | BIT(AXIS_DOCS) | BIT(AXIS_EVERY))
#define KEYED (ALL | BIT(AXIS_KEYS) | BIT(AXIS_BETA))
#define SIZES "B=1 T=1024 H=4 K=64 V=64"

BENCH_OP(linear, LINEAR, ALL, SIZES, "linear attention: no decay, no erasing", .check = check,
         .bytes = bytes)
BENCH_OP(gla, GLA, ALL, SIZES, "GLA: a decay per key channel", .check = check, .bytes = bytes)
BENCH_OP(mamba2, MAMBA2, ALL, SIZES, "Mamba-2, simple GLA: a decay per head", .check = check,
         .bytes = bytes)
BENCH_OP(deltanet, DELTANET, KEYED, SIZES, "DeltaNet: delta rule", .check = check, .bytes = bytes)
BENCH_OP(gdn, GDN, KEYED, SIZES, "Gated DeltaNet: delta rule, a decay per head", .check = check,
         .bytes = bytes)
BENCH_OP(deltaproduct, PRODUCT, KEYED | BIT(AXIS_N), SIZES " n=2 beta=2",
         "DeltaProduct: n delta steps per token", .check = check, .bytes = bytes)
BENCH_OP(gdeltaproduct, GPRODUCT, KEYED | BIT(AXIS_N), SIZES " n=2 beta=2",
         "gated DeltaProduct: the same with a decay per head", .check = check, .bytes = bytes)
BENCH_OP(kda, KDA, KEYED, SIZES, "KDA: delta rule, a decay per key channel", .check = check,
         .bytes = bytes)
BENCH_OP(comba, COMBA, ALL | BIT(AXIS_KEYS), SIZES,
         "Comba: a decay per head, erase along a key of its own", .check = check, .bytes = bytes)
BENCH_OP(rwkv7, RWKV7, ALL | BIT(AXIS_KEYS), SIZES,
         "RWKV-7 (DPLR): a decay per channel, erase apart", .check = check, .bytes = bytes)

const bench_op *bench_op_of_shape(const head_shape *s) {
    for (size_t i = 0; i < n_bench_ops; i++) {
        const bench_op *op = bench_ops[i];
        if (op->run == run && kinds[op->kind].decay == s->decay &&
            kinds[op->kind].erase == s->erase && (s->n_h > 1) == ((op->axes & BIT(AXIS_N)) != 0))
            return op;
    }
    return NULL;
}
