#include "analyses/report/pair.h"

#include "analyses/spectrum_tokens.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool join_loss(pair *p, err *e) {
    const loss_result *first = &p->row[0].loss;
    loss_result *out = &p->loss;
    if (!loss_init(out, p->model, p->document, p->n, first->n, first->train_length, e))
        return false;
    for (int64_t i = 0; i < p->n; i++) {
        const loss_result *r = &p->row[i].loss;
        if (r->n)
            memcpy(out->loss + i * out->n, r->loss, (size_t)r->n * sizeof *r->loss);
        out->right += r->right;
        // Only ever compared with another pair's, which is made alike.
        out->ids_mark = (out->ids_mark ^ r->ids_mark) * 1099511628211u;
        for (int64_t k = 0; k < r->n_flags && out->n_flags < LOSS_MAX_FLAGS; k++) {
            out->flag[out->n_flags] = r->flag[k];
            out->flag[out->n_flags++].row = i;
        }
    }
    return true;
}

static int *copy_ints(const int *v, int n, err *e) {
    int *out = mem_alloc((size_t)n, sizeof *out, "a list", e);
    if (out && n)
        memcpy(out, v, (size_t)n * sizeof *v);
    return out;
}

static bool join_erank(pair *p, err *e) {
    const erank_result *first = &p->row[0].erank;
    erank_result *out = &p->erank;
    if (first->n_layers == 0)
        return true;
    *out = *first;
    out->rows = p->n;
    out->zero = out->broken = 0;
    out->layer = out->head = out->left_out = NULL;
    memset(out->v, 0, sizeof out->v);
    out->model = mem_strdup(first->model, e);
    out->document = mem_strdup(first->document, e);
    out->layer = copy_ints(first->layer, first->n_layers, e);
    out->head = copy_ints(first->head, first->n_heads, e);
    out->left_out = copy_ints(first->left_out, first->n_left_out, e);
    size_t each = (size_t)first->n_layers * (size_t)first->n_heads * (size_t)first->positions;
    bool ok = out->model && out->document && out->layer && out->head && out->left_out;
    for (int q = 0; ok && q < ERANK_QUANTITIES; q++) {
        out->v[q] = mem_alloc(each * (size_t)p->n, sizeof(double), "ranks", e);
        ok = out->v[q] != NULL;
        for (int64_t i = 0; ok && i < p->n; i++)
            memcpy(out->v[q] + (size_t)i * each, p->row[i].erank.v[q], each * sizeof(double));
    }
    for (int64_t i = 0; i < p->n; i++) {
        out->zero += p->row[i].erank.zero;
        out->broken += p->row[i].erank.broken;
    }
    return ok;
}

// ---- spectra ------------------------------------------------------------------------------------

static int64_t take_values(double complex *to, int64_t n, int64_t most, const double complex *from,
                           int64_t more) {
    for (int64_t i = 0; i < more && n < most; i++)
        to[n++] = from[i];
    return n;
}

static void join_tokens(spectrum_tokens *to, const spectrum_tokens *t, int64_t rows) {
    // Every row brings its share of the values that are kept for pictures.
    int64_t share = to->cap_kept / rows, rotating = 512 / rows;
    to->tokens += t->tokens;
    to->complex_tokens += t->complex_tokens;
    to->values += t->values;
    to->negative += t->negative;
    to->strong += t->strong;
    to->least_real = fmin(to->least_real, t->least_real);
    to->largest = fmax(to->largest, t->largest);
    to->strongest = fmax(to->strongest, t->strongest);
    for (int i = 0; i < 3 * SPECTRUM_BINS; i++)
        to->modulus[i] += t->modulus[i]; // the three histograms lie behind each other
    int64_t kept = t->n_kept < share || rows == 1 ? t->n_kept : share;
    int64_t turned = t->n_rotating < rotating || rows == 1 ? t->n_rotating : rotating;
    to->n_kept = take_values(to->kept, to->n_kept, to->cap_kept, t->kept, kept);
    to->n_rotating = take_values(to->rotating, to->n_rotating, 512, t->rotating, turned);
}

static bool join_head(pair *p, int layer, int head, spectrum_head *to, err *e) {
    spectrum_result *out = &p->spectrum;
    int64_t K = out->layer[layer].shape.K, each = p->row[0].spectrum.samples;
    size_t products = (size_t)out->n_windows * (size_t)out->samples;
    to->head = p->row[0].spectrum.layer[layer].head[head].head;
    to->eig = mem_alloc(products * (size_t)K, sizeof *to->eig, "eigenvalues", e);
    to->facts = mem_alloc(products, sizeof *to->facts, "facts of windows", e);
    to->rate = mem_zalloc((size_t)out->points, sizeof *to->rate, "a ledger", e);
    to->rate_n = mem_zalloc((size_t)out->points, sizeof *to->rate_n, "a ledger", e);
    if (!to->eig || !to->facts || !to->rate || !to->rate_n ||
        !spectrum_tokens_init(&to->tokens, p->row[0].spectrum.layer[0].head[0].tokens.cap_kept, e))
        return false;
    for (int64_t i = 0; i < p->n; i++) {
        const spectrum_head *from = &p->row[i].spectrum.layer[layer].head[head];
        for (int w = 0; w < out->n_windows; w++) {
            int64_t at = w * out->samples + i * each;
            memcpy(to->facts + at, from->facts + w * each, (size_t)each * sizeof *to->facts);
            memcpy(to->eig + at * K, from->eig + w * each * K,
                   (size_t)(each * K) * sizeof *to->eig);
        }
        for (int b = 0; b < out->points; b++) {
            to->rate[b] += from->rate[b];
            to->rate_n[b] += from->rate_n[b];
        }
        to->singular += from->singular;
        to->over_norm += from->over_norm;
        join_tokens(&to->tokens, &from->tokens, p->n);
    }
    return true;
}

static bool join_spectrum(pair *p, err *e) {
    const spectrum_result *first = &p->row[0].spectrum;
    spectrum_result *out = &p->spectrum;
    for (int64_t i = 0; i < p->n; i++)
        if (p->row[i].spectrum.n_layers == 0)
            return true;
    *out = (spectrum_result){.T = first->T,
                             .rows = p->n,
                             .n_windows = first->n_windows,
                             .samples = first->samples * p->n,
                             .points = first->points,
                             .prec = first->prec,
                             .K = first->K};
    size_t samples = (size_t)out->samples;
    out->windows = mem_alloc((size_t)out->n_windows, sizeof *out->windows, "windows", e);
    out->ends = mem_alloc(samples, sizeof *out->ends, "positions", e);
    out->end_row = mem_alloc(samples, sizeof *out->end_row, "positions", e);
    out->layer = mem_zalloc((size_t)first->n_layers, sizeof *out->layer, "layers", e);
    if (!out->windows || !out->ends || !out->end_row || !out->layer)
        return false;
    memcpy(out->windows, first->windows, (size_t)out->n_windows * sizeof *out->windows);
    for (int64_t i = 0; i < out->samples; i++) {
        out->ends[i] = p->row[i / first->samples].spectrum.ends[i % first->samples];
        out->end_row[i] = i / first->samples;
    }
    for (int L = 0; L < first->n_layers; L++) {
        const spectrum_layer *from = &first->layer[L];
        spectrum_layer *to = &out->layer[out->n_layers++];
        *to = (spectrum_layer){.layer = from->layer, .shape = from->shape};
        to->head = mem_zalloc((size_t)from->n_heads, sizeof *to->head, "heads", e);
        if (!to->head)
            return false;
        for (int h = 0; h < from->n_heads; h++) {
            to->n_heads++;
            if (!join_head(p, L, h, &to->head[h], e))
                return false;
        }
    }
    return true;
}

// ---- all ----------------------------------------------------------------------------------------

static bool same_shape(const head_shape *a, const head_shape *b) {
    return a->H == b->H && a->Hk == b->Hk && a->K == b->K && a->V == b->V && a->n_h == b->n_h &&
           a->decay == b->decay && a->erase == b->erase;
}

// Rows of one model and one document agree in these unless a file was tampered with.
static bool agree(const row_record *a, const row_record *b) {
    if (a->loss.n != b->loss.n || a->erank.n_layers != b->erank.n_layers ||
        a->erank.n_heads != b->erank.n_heads || a->erank.positions != b->erank.positions ||
        a->heads.n_layers != b->heads.n_layers || a->heads.bins != b->heads.bins)
        return false;
    for (int i = 0; i < a->heads.n_layers; i++)
        if (!same_shape(&a->heads.shape[i], &b->heads.shape[i]))
            return false;
    const spectrum_result *x = &a->spectrum, *y = &b->spectrum;
    if (x->n_layers == 0 || y->n_layers == 0)
        return true;
    if (x->n_layers != y->n_layers || x->samples != y->samples || x->n_windows != y->n_windows ||
        x->points != y->points)
        return false;
    for (int i = 0; i < x->n_layers; i++)
        if (x->layer[i].n_heads != y->layer[i].n_heads ||
            x->layer[i].shape.K != y->layer[i].shape.K)
            return false;
    return true;
}

bool pair_join(pair *p, const char *model, const char *document, row_record *row, int64_t n,
               err *e) {
    *p = (pair){.model = model, .document = document, .n = n, .row = row};
    bool ok = true;
    for (int64_t i = 1; ok && i < n; i++)
        ok = agree(&row[0], &row[i]) || err_set(e, ERR_INPUT,
                                                "%s on %s: stored rows 0 and %lld do not have the "
                                                "same shape; remove the folder tasks",
                                                model, document, (long long)i);
    ok = ok && join_loss(p, e) && join_erank(p, e) && join_spectrum(p, e);
    if (!ok)
        pair_free(p);
    return ok;
}

void pair_free(pair *p) {
    for (int64_t i = 0; p->row && i < p->n; i++)
        row_record_free(&p->row[i]);
    free(p->row);
    loss_free(&p->loss);
    erank_free(&p->erank);
    spectrum_result_free(&p->spectrum);
    *p = (pair){0};
}
