// One recurrence in full; the comparison of all lies in explain_table.c.
#include "cli/explain_print.h"

#include "cli/wrap.h"
#include "core/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LABEL = 15, NUMBERS = 52 };

static const struct {
    const char *from, *to;
} ascii[] = {
    {"α", "alpha"}, {"β", "beta"}, {"γ", "gamma"}, {"ε", "eps"},   {"κ", "kap"},
    {"Δ", "dt"},    {"Σ", "sum"},  {"ρ", "rho"},   {"∇", "grad "}, {"ᵀ", "'"},
    {"‖", "|"},     {"²", "^2"},   {"½", "1/2"},   {"←", "<-"},    {"−", "-"},
    {"·", "."},     {"⊙", "*"},    {"⟨", "<"},     {"⟩", ">"},     {"≤", "<="},
    {"≥", ">="},    {"√", "sqrt"}, {"₁", "1"},     {"₂", "2"},     {"ⱼ", "_j"},
};

char *explain_symbols(const char *s, bool utf8, char *buf, size_t size) {
    size_t n = 0;
    while (*s && n + 1 < size) {
        size_t len = 1, k = 0, N = sizeof ascii / sizeof *ascii;
        for (k = 0; !utf8 && k < N; k++)
            if (strncmp(s, ascii[k].from, len = strlen(ascii[k].from)) == 0)
                break;
        if (!utf8 && k < N) {
            n += (size_t)snprintf(buf + n, size - n, "%s", ascii[k].to);
            n = n < size ? n : size - 1;
            s += len;
        } else {
            buf[n++] = *s++;
        }
    }
    buf[n] = 0;
    return buf;
}

typedef struct writer {
    const output *out;
    const explain_look *look;
} writer;

static void fact(const writer *w, const char *label, const char *text) {
    char buf[2048];
    bool formula = strcmp(label, "loss") == 0 || strcmp(label, "gradient") == 0 ||
                   strcmp(label, "update") == 0 || strcmp(label, "transition") == 0;
    if (!text[0])
        return;
    explain_symbols(text, w->look->utf8 || w->look->markdown, buf, sizeof buf);
    if (w->look->markdown) {
        output_print(w->out, "- **%s**: %s%s%s\n", label, formula ? "`" : "", buf,
                     formula ? "`" : "");
        return;
    }
    output_print(w->out, "  %-*s", LABEL - 2, label);
    wrap_print(w->out, buf, LABEL, LABEL);
}

static void number(const writer *w, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void number(const writer *w, const char *what, const char *fmt, ...) {
    char text[160], value[160], buf[400];
    bool md = w->look->markdown, utf8 = w->look->utf8 || md;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    explain_symbols(text, utf8, value, sizeof value);
    explain_symbols(what, utf8, buf, sizeof buf);
    int pad = NUMBERS - wrap_columns(buf, strlen(buf));
    if (md)
        output_print(w->out, "- %s: %s\n", buf, value);
    else
        output_print(w->out, "  %s%*s %s\n", buf, pad > 0 ? pad : 0, "", value);
}

static void print_gradient(const writer *w, const recurrence *r, const explain_figures *f) {
    switch (r->kind) {
    case GRADIENT_LITERAL:
        number(w, "H − ∇L(H) is the new H, to", "%.1e", f->gradient);
        break;
    case GRADIENT_DECAYED:
        number(w, "X − ∇L(X) at the decayed state is the new H, to", "%.1e", f->gradient);
        break;
    case GRADIENT_STEPS:
        number(w, "n_h gradient steps give the new H, to", "%.1e", f->gradient);
        break;
    case GRADIENT_IMPLICIT:
        number(w, "∇L at the new H is zero, to", "%.1e", f->gradient);
        number(w, "one explicit step from H misses it by", "%.2g (median)", f->at_old);
        return;
    case GRADIENT_FORMAL:
        number(w, "H − ∇L(H) misses the new H by", "%.2g (median), at most %.2g",
               f->gradient_median, f->gradient);
        break;
    case GRADIENT_NONE:
        break;
    }
    if (!isnan(f->at_old))
        number(w, "the same gradient taken at H misses by", "%.2g (median)", f->at_old);
    if (!isnan(f->tied))
        number(w, "with p = k it is the new H, to", "%.1e", f->tied);
}

static void print_measured(const writer *w, const recurrence *r, const explain_figures *f) {
    output_print(w->out, w->look->markdown ? "\nMeasured" : "\n  Measured");
    output_print(w->out,
                 " over %d random tokens (K = %d, V = %d, float64; central differences,\n"
                 "%serrors over the largest entry of the new state):\n%s",
                 f->draws, EXPLAIN_K, EXPLAIN_V, w->look->markdown ? "" : "  ",
                 w->look->markdown ? "\n" : "");
    print_gradient(w, r, f);
    number(w, "A H + B of core/steps.h is the new H, to", "%.1e", f->steps);
    number(w, "‖A − Aᵀ‖ / ‖A‖, up to", "%.2g", f->asymmetry);
    // Rounding splits equal eigenvalues into pairs with an imaginary part near sqrt(1e-16).
    if (f->imag < 1e-6)
        number(w, "eigenvalues of one A", "%.3g to %.3g, all real", f->real_lo, f->real_hi);
    else
        number(w, "eigenvalues of one A, largest modulus", "%.4g, imaginary to %.2g", f->radius,
               f->imag);
    number(w, "largest singular value of one A", "%.4g", f->norm);
    number(w, "products of 8 tokens, largest |eigenvalue|", "%.4g", f->window_radius);
    number(w, "products of 8 tokens, largest singular value", "%.4g", f->window_norm);
}

static const char *decay_word(decay_kind k) {
    return k == DECAY_NONE   ? "no decay"
           : k == DECAY_HEAD ? "one decay a head"
                             : "one decay a key channel";
}

static const char *erase_word(erase_kind k) {
    return k == ERASE_NONE  ? "nothing is erased"
           : k == ERASE_KEY ? "erases along the key it writes"
                            : "reads along one vector, erases along another";
}

// "a b c" -> "a, b, c"
static void listed(const char *words, char *buf, size_t size) {
    size_t n = 0;
    for (; *words && n + 2 < size; words++) {
        if (*words == ' ')
            buf[n++] = ',';
        buf[n++] = *words;
    }
    buf[n] = 0;
}

void explain_print(const output *out, const recurrence *r, const explain_figures *f,
                   const explain_look *look) {
    writer w = {out, look};
    char text[1024];
    bool utf8 = look->utf8 || look->markdown;
    if (look->markdown) {
        output_print(out, "## %s\n\n%s\n\n", r->name, r->idea);
    } else {
        output_print(out, "%s%*s%s\n  ", r->name,
                     (int)(WRAP_COLUMNS - strlen(r->name) - strlen(r->id)), "", r->id);
        wrap_print(out, explain_symbols(r->idea, utf8, text, sizeof text), 2, 2);
        output_print(out, "\n");
    }
    listed(r->families, text, sizeof text);
    fact(&w, "model types", text[0] ? text : "none by this name in the layouts read here");
    fact(&w, "loss", r->loss);
    fact(&w, "gradient", r->gradient);
    fact(&w, "update", r->update);
    fact(&w, "transition", r->transition);
    fact(&w, "eigenvalues", r->spectrum);
    fact(&w, "bounded by", r->bound);
    fact(&w, "literal?", r->caution);
    snprintf(text, sizeof text, "%s; %s; %s", decay_word(r->decay), erase_word(r->erase),
             r->n_h > 1 ? "n_h micro-steps a token" : "one step a token");
    fact(&w, "as steps", text);
    print_measured(&w, r, f);
    if (r->known) {
        snprintf(text, sizeof text, "%.10g: %s.", f->known, r->known_what);
        if (look->markdown)
            output_print(out, "- known case, computed: %s\n", text);
        else
            output_print(out, "\n"), fact(&w, "known case", text);
    }
}

static void add_text(json_t *j, const char *key, const char *text, int *bad) {
    *bad |= json_object_set_new(j, key, json_string(text));
}

static void add_words(json_t *j, const char *key, const char *words, int *bad) {
    json_t *a = json_array();
    while (*words) {
        size_t n = strcspn(words, " ");
        *bad |= json_array_append_new(a, json_stringn(words, n));
        words += n + (words[n] == ' ');
    }
    *bad |= json_object_set_new(j, key, a);
}

json_t *explain_json(const recurrence *r, const explain_figures *f) {
    static const char *const decay[] = {"none", "head", "channel"};
    static const char *const erase[] = {"none", "key", "pair"};
    int bad = 0;
    json_t *j = json_object(), *m = json_object();
    add_text(j, "id", r->id, &bad);
    add_text(j, "name", r->name, &bad);
    add_words(j, "also_called", r->alias, &bad);
    add_words(j, "model_types", r->families, &bad);
    add_text(j, "idea", r->idea, &bad);
    add_text(j, "loss", r->loss, &bad);
    add_text(j, "gradient", r->gradient, &bad);
    add_text(j, "gradient_is", explain_gradient_word(r->kind), &bad);
    add_text(j, "update", r->update, &bad);
    add_text(j, "transition", r->transition, &bad);
    add_text(j, "eigenvalues", r->spectrum, &bad);
    add_text(j, "bound", r->bound, &bad);
    add_text(j, "caution", r->caution, &bad);
    add_text(j, "decay", decay[r->decay], &bad);
    add_text(j, "erase", erase[r->erase], &bad);
    bad |= json_object_set_new(m, "draws", json_integer(f->draws));
    bad |= json_object_set_new(m, "K", json_integer(EXPLAIN_K));
    bad |= json_object_set_new(m, "V", json_integer(EXPLAIN_V));
    bad |= json_object_set_new(m, "micro_steps", json_integer(r->n_h));
    bad |= json_object_set_new(m, "window", json_integer(EXPLAIN_WINDOW));
    const struct {
        const char *key;
        double x;
    } real[] = {
        {"gradient_error", f->gradient},
        {"gradient_error_median", f->gradient_median},
        {"gradient_at_old_state_error_median", f->at_old},
        {"gradient_error_with_p_equal_k", f->tied},
        {"steps_error", f->steps},
        {"asymmetry", f->asymmetry},
        {"eigenvalue_real_smallest", f->real_lo},
        {"eigenvalue_real_largest", f->real_hi},
        {"eigenvalue_imaginary_largest", f->imag},
        {"spectral_radius", f->radius},
        {"norm2", f->norm},
        {"window_spectral_radius", f->window_radius},
        {"window_norm2", f->window_norm},
        {"known_case", f->known},
    };
    for (size_t i = 0; i < sizeof real / sizeof *real; i++)
        bad |= json_object_set_new(m, real[i].key, output_json_real(real[i].x));
    if (r->known)
        add_text(m, "known_case_is", r->known_what, &bad);
    bad |= json_object_set_new(j, "measured", m);
    if (bad) {
        json_decref(j);
        return NULL;
    }
    return j;
}
