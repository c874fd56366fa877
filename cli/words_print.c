#include "cli/words_print.h"

#include "core/text.h"

#include <math.h>
#include <stdio.h>

enum { BLOCK = 32, SHOWN_HEADS = 4, SHOWN_ELEMENTS = 24 };

// ---- text -----------------------------------------------------------------------------------------------

static double share(const int64_t *count, const words_result *r, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t i = from; i < to; i++)
        sum += (double)count[i];
    return sum / (double)(to - from) / (double)r->count;
}

void words_print(const output *out, const words_result *r, const word_task *t) {
    output_print(out, "%s: word problem of %s%s%s\n", text_show(r->model), text_show(r->task),
                 r->order[0] ? ", " : "", r->order);
    output_print(out, "  %lld %s of %lld tokens", (long long)r->count,
                 r->all ? "words, all there are," : "random words", (long long)r->length);
    if (r->train_length)
        output_print(out, "; training length %lld", (long long)r->train_length);
    output_print(out, "\n");
    if (r->beta_max > 0)
        output_print(
            out, "  INTERVENTION: write strengths cut to %g in a model that was not trained so\n",
            r->beta_max);
    output_print(out, "  %-14s %14s %14s\n", "positions", "at a position", "right so far");
    for (int64_t from = 0, to = 1; from < r->length; from = to, to = to < 8 ? to * 2 : to * 4) {
        int64_t end = to < r->length ? to : r->length;
        char range[48];
        snprintf(range, sizeof range, end - from > 1 ? "%lld-%lld" : "%lld", (long long)from + 1,
                 (long long)end);
        output_print(out, "  %-14s %14.4f %14.4f\n", range, share(r->right, r, from, end),
                     share(r->so_far, r, from, end));
    }
    output_print(out, "  %lld of %lld words without a mistake; guessing gives %.4f\n",
                 (long long)r->perfect, (long long)r->count, task_chance(t));
    int64_t half = words_falls(r, 0.5);
    if (half < r->length && task_chance(t) < 0.5)
        output_print(out, "  from position %lld on, below half of the words are right\n",
                     (long long)half + 1);
}

static void print_odd(const output *out, const mechanism_head *h, const word_task *t) {
    int list[8], n = mechanism_odd(h, t->n_inputs, list, 8);
    if (n == 0)
        return;
    output_print(out, "  represented but for %d element%s:", n, n > 1 ? "s" : "");
    for (int i = 0; i < n && i < 8; i++)
        output_print(out, " %s (error %.2g)", text_show(t->input[list[i]]), h->error[list[i]]);
    output_print(out, n > 8 ? " ...\n" : "\n");
}

static void print_elements(const output *out, const mechanism_head *h, const word_task *t) {
    output_print(out, "\n  elements in L%d.H%d\n  %-12s %8s %8s %8s  %s\n", h->layer, h->head,
                 "element", "error", "angle", "det", "beta");
    for (int g = 0; g < t->n_inputs && g < SHOWN_ELEMENTS; g++) {
        output_print(out, "  %-12.12s", text_show(t->input[g]));
        if (h->dims)
            output_print(out, " %8.1e %8.2f %8.3f ", h->error[g], h->angle[g], h->determinant[g]);
        else
            output_print(out, " %8s %8s %8s ", "-", "-", "-");
        for (int j = 0; j < h->n_h; j++)
            output_print(out, " %.3f", h->beta[g * h->n_h + j]);
        output_print(out, "\n");
    }
    if (t->n_inputs > SHOWN_ELEMENTS)
        output_print(out, "  ... %d more: --json has all\n", t->n_inputs - SHOWN_ELEMENTS);
}

void words_print_mechanism(const output *out, const mechanism *x, const word_task *t) {
    output_print(out,
                 "\n  how elements are represented: A_g A_h = A_gh on the leading directions of "
                 "the\n  states (error 0 a representation, 1 as wrong as another element)\n");
    output_print(out, "  %-8s %5s %12s %12s %10s %14s %8s\n", "head", "dims", "median error",
                 "rms error", "key PCA 3", "mean max beta", "spread");
    for (int i = 0; i < x->n_heads && i < SHOWN_HEADS; i++) {
        const mechanism_head *h = &x->head[i];
        char name[32];
        double beta = 0;
        snprintf(name, sizeof name, "L%d.H%d", h->layer, h->head);
        for (int g = 0; g < t->n_inputs; g++) {
            double most = NAN;
            for (int j = 0; j < h->n_h; j++)
                most = fmax(most, h->beta[g * h->n_h + j]);
            beta += most / t->n_inputs;
        }
        output_print(out, "  %-8s", name);
        if (h->dims)
            output_print(out, " %5d %12.2e %12.2e", h->dims, h->fit_median, h->fit_rms);
        else
            output_print(out, " %5s %12s %12s", "-", "none", "-");
        output_print(out, " %10.3f %14.3f %8.1e\n", h->pca[2], beta, h->spread);
    }
    if (x->n_heads > SHOWN_HEADS)
        output_print(out, "  ... %d more heads: --json has all\n", x->n_heads - SHOWN_HEADS);
    if (x->n_heads > 0) {
        print_odd(out, &x->head[0], t);
        print_elements(out, &x->head[0], t);
    }
}

void words_print_language(const output *out, const language_result *r) {
    double accuracy = (double)r->right / (double)r->count;
    output_print(out, "%s: %s\n", text_show(r->model), text_show(r->name));
    output_print(out, "  %lld expressions of %lld to %lld tokens\n", (long long)r->count,
                 (long long)r->from, (long long)r->to);
    if (r->beta_max > 0)
        output_print(
            out, "  INTERVENTION: write strengths cut to %g in a model that was not trained so\n",
            r->beta_max);
    output_print(out, "  accuracy %.4f, guessing %.4f; scaled accuracy %.4f\n", accuracy, r->chance,
                 language_scaled(accuracy, r->chance));
    output_print(out, "  always the commonest answer: %.4f, scaled %.4f\n", language_commonest(r),
                 language_scaled(language_commonest(r), r->chance));
}

// ---- JSON -----------------------------------------------------------------------------------------------

// n means of BLOCK positions each (the last may be of fewer).
static json_t *blocks(const int64_t *count, const words_result *r) {
    json_t *list = json_array();
    for (int64_t from = 0; from < r->length; from += BLOCK) {
        int64_t to = from + BLOCK < r->length ? from + BLOCK : r->length;
        json_array_append_new(list, json_real(share(count, r, from, to)));
    }
    return list;
}

static json_t *reals(const double *x, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, output_json_real(x[i]));
    return list;
}

static json_t *eigenvalues(const mechanism_head *h, int g) {
    json_t *list = json_array();
    for (int i = 0; i < h->dims; i++) {
        double complex z = h->eig[g * h->dims + i];
        json_array_append_new(
            list, json_pack("[o, o]", output_json_real(creal(z)), output_json_real(cimag(z))));
    }
    return list;
}

static json_t *head_json(const mechanism_head *h, const word_task *t) {
    json_t *elements = json_array();
    for (int g = 0; g < t->n_inputs; g++)
        json_array_append_new(elements, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "element",
                                                  t->input[g], "eigenvalues", eigenvalues(h, g),
                                                  "beta", reals(h->beta + g * h->n_h, h->n_h),
                                                  "error", output_json_real(h->error[g]), "angle",
                                                  output_json_real(h->angle[g]), "determinant",
                                                  output_json_real(h->determinant[g])));
    return json_pack("{s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "layer", h->layer, "head",
                     h->head, "dimensions", h->dims, "median_error",
                     output_json_real(h->fit_median), "rms_error", output_json_real(h->fit_rms),
                     "spread", output_json_real(h->spread), "key_pca", reals(h->pca, MECHANISM_PCA),
                     "key_pca_centred", reals(h->pca_centred, MECHANISM_PCA), "elements", elements);
}

json_t *words_json(const words_result *r, const word_task *t, const mechanism *x) {
    json_t *heads = x ? json_array() : json_null();
    for (int i = 0; x && i < x->n_heads; i++)
        json_array_append_new(heads, head_json(&x->head[i], t));
    return json_pack(
        "{s:o, s:o, s:s, s:I, s:I, s:b, s:f, s:o, s:o, s:I, s:f, s:i, s:o, s:o, s:o}", "model",
        output_json_text(r->model), "task", output_json_text(r->task), "order", r->order, "length",
        (json_int_t)r->length, "words", (json_int_t)r->count, "all", (int)r->all, "chance",
        r->chance, "train_length", r->train_length ? json_integer(r->train_length) : json_null(),
        "beta_cut_to", r->beta_max > 0 ? json_real(r->beta_max) : json_null(), "without_mistake",
        (json_int_t)r->perfect, "mean", words_mean(r, 0, r->length), "block", BLOCK, "accuracy",
        blocks(r->right, r), "right_so_far", blocks(r->so_far, r), "heads", heads);
}

json_t *words_language_json(const language_result *r) {
    double accuracy = (double)r->right / (double)r->count;
    return json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o}", "model",
                     output_json_text(r->model), "language", r->name, "expressions",
                     (json_int_t)r->count, "from", (json_int_t)r->from, "to", (json_int_t)r->to,
                     "right", (json_int_t)r->right, "accuracy", accuracy, "chance", r->chance,
                     "scaled_accuracy", language_scaled(accuracy, r->chance), "commonest",
                     language_commonest(r), "beta_cut_to",
                     r->beta_max > 0 ? json_real(r->beta_max) : json_null());
}
