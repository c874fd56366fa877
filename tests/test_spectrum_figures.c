// Histograms, summaries and pictures of spectra, on values that are known in advance.
#include "analyses/spectrum.h"
#include "analyses/spectrum_tokens.h"
#include "kernels/cpu/cpu.h"
#include "tests/spectrum_cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEST(name) static void name(void **state __attribute__((unused)))

enum { K = 3, WINDOWS = 3, SAMPLES = 2, POINTS = 4 };

// One layer, one head, K = 3, n_h = 2, no gate: W = 1 leaves a direction frozen, W = 4 turns by 60
// degrees with modulus 1/2 and has a mode that stays, W = 16 was never measured.
typedef struct made {
    spectrum_result r;
    spectrum_layer layer;
    spectrum_head head;
    int64_t windows[WINDOWS], ends[SAMPLES], end_row[SAMPLES];
    double complex eig[WINDOWS * SAMPLES * K];
    double cond[WINDOWS * SAMPLES * K], lyapunov[K], rate[POINTS];
    window_facts facts[WINDOWS * SAMPLES];
    int64_t rate_n[POINTS];
} made;

static made *make(decay_kind decay) {
    static made m;
    m = (made){.windows = {1, 4, 16},
               .ends = {3, 7},
               .rate = {-3, -3, -6, -12},
               .rate_n = {2, 2, 2, 2},
               .lyapunov = {0, -1, -INFINITY}};
    err e = {0};
    for (int w = 0; w < WINDOWS; w++)
        for (int k = 0; k < SAMPLES; k++) {
            int at = w * SAMPLES + k;
            double complex *z = m.eig + at * K;
            if (w == 0) {
                z[0] = 1;
                z[1] = -0.5;
                z[2] = 0.25;
                m.facts[at] = (window_facts){.norm2 = 1, .radius = 1, .frozen = 1};
            } else if (w == 1) {
                z[0] = 1;
                z[1] = CMPLX(0.25, -sqrt(3) / 4);
                z[2] = conj(z[1]);
                m.facts[at] =
                    (window_facts){.norm2 = 1.5, .radius = 1, .asymmetry = 0.5, .logabsdet = -1};
            } else {
                z[0] = z[1] = z[2] = CMPLX(NAN, NAN);
                m.facts[at].norm2 = m.facts[at].radius = NAN;
            }
            for (int i = 0; i < K; i++)
                m.cond[at * K + i] = 1 + i;
        }
    m.head = (spectrum_head){.eig = m.eig,
                             .cond = m.cond,
                             .facts = m.facts,
                             .lyapunov = m.lyapunov,
                             .rate = m.rate,
                             .rate_n = m.rate_n};
    assert_true(spectrum_tokens_init(&m.head.tokens, 16, &e));
    m.layer = (spectrum_layer){
        .layer = 5,
        .shape = {.H = 1, .Hk = 1, .K = K, .V = K, .n_h = 2, .decay = decay, .erase = ERASE_KEY},
        .head = &m.head,
        .n_heads = 1};
    m.r = (spectrum_result){.T = 8,
                            .rows = 1,
                            .windows = m.windows,
                            .n_windows = WINDOWS,
                            .samples = SAMPLES,
                            .ends = m.ends,
                            .end_row = m.end_row,
                            .points = POINTS,
                            .lyapunov_tokens = 8,
                            .layer = &m.layer,
                            .n_layers = 1,
                            .K = K};
    return &m;
}

static void unmake(made *m) {
    spectrum_tokens_free(&m->head.tokens);
}

static spectrum_span window(const made *m, int w) {
    spectrum_span s;
    err e = {0};
    assert_true(spectrum_window_summary(&m->r, -1, -1, w, &s, &e));
    return s;
}

TEST(half_life_of_a_mode_in_closed_form) {
    // exp(-1) over 8 tokens; half of it in one; underflow told by the scale.
    assert_true(fabs(spectrum_mode_half_life(exp(-1), 0, 8) - 8 * log(2)) < 1e-14);
    assert_true(fabs(spectrum_mode_half_life(0.5, 0, 1) - 1) < 1e-15);
    assert_true(fabs(spectrum_mode_half_life(1, -1000 * log(2), 1000) - 1) < 1e-12);
    assert_true(spectrum_mode_half_life(0, 0, 3) == 0);
    assert_true(isinf(spectrum_mode_half_life(1, 0, 3)));
    assert_true(isinf(spectrum_mode_half_life(1 + 1e-7, 0, 3)));
    assert_true(isnan(spectrum_mode_half_life(NAN, 0, 3)));
}

TEST(window_numbers_of_known_eigenvalues) {
    made *m = make(DECAY_NONE);
    spectrum_span a = window(m, 0), b = window(m, 1), c = window(m, 2);
    assert_int_equal(a.products, SAMPLES);
    assert_int_equal(a.frozen, 1);
    assert_true(isnan(a.half_life[1]) && isnan(a.never)); // W n_h < K: says nothing (G11)
    assert_true(a.complex_share == 0);
    // Modes 1, 1/2, 1/2 over 4 tokens: one third for ever, the others 4 tokens.
    assert_true(fabs(b.half_life[1] - 4) < 1e-12 && isinf(b.half_life[2]));
    assert_true(fabs(b.never - 1 / 3.0) < 1e-15 && fabs(b.complex_share - 2 / 3.0) < 1e-15);
    assert_true(b.norm2[1] == 1.5 && b.radius[1] == 1 && b.asymmetry == 0.5 && b.lost == 0);
    assert_true(b.cond == 2 && fabs(b.error - 4.5e-15) < 1e-25);
    assert_int_equal(c.products, 0);
    assert_true(isnan(c.norm2[1]) && isnan(c.half_life[1]) && isnan(c.complex_share));
    unmake(m);
    m = make(DECAY_HEAD); // with a gate the short window counts
    assert_false(isnan(window(m, 0).half_life[1]));
    unmake(m);
}

TEST(modes_below_rounding_count_as_shortest_and_have_no_value) {
    made *m = make(DECAY_NONE);
    for (int k = 0; k < SAMPLES; k++)
        m->eig[(SAMPLES + k) * K + 1] = m->eig[(SAMPLES + k) * K + 2] = 1e-15;
    spectrum_span b = window(m, 1);
    assert_true(fabs(b.lost - 2 / 3.0) < 1e-15);
    assert_true(isnan(b.half_life[0]) && isnan(b.half_life[1]) && isinf(b.half_life[2]));
    // A true zero is known to be one.
    for (int k = 0; k < SAMPLES; k++)
        m->eig[(SAMPLES + k) * K + 1] = m->eig[(SAMPLES + k) * K + 2] = 0;
    b = window(m, 1);
    assert_true(b.lost == 0 && b.half_life[0] == 0);
    unmake(m);
}

TEST(summary_of_known_numbers) {
    made *m = make(DECAY_NONE);
    spectrum_summary s;
    err e = {0};
    assert_true(spectrum_summarise(&m->r, -1, -1, &s, &e));
    assert_true(fabs(s.rate - -24.0 / (8 * K)) < 1e-15); // ledger / (K tokens), G12
    assert_true(s.largest_exponent == 0 && s.smallest_exponent == -INFINITY);
    assert_true(fabs(s.exponent_half_life - log(2)) < 1e-15); // of 0, -1, -inf the middle one
    assert_int_equal(s.half_life_window, 4);
    assert_true(s.largest_norm == 1.5);
    assert_true(isnan(s.complex_share)); // no token was looked at
    unmake(m);
}

// Tokens of DeltaProduct: keys 60 degrees apart, beta 2, 2: rotations by 120 degrees (G02).
TEST(g02_tokens_land_in_their_bins) {
    tcase c = case_new(TRANSITION_KEYS, TDECAY_NONE, 10, K, 2);
    for (int t = 0; t < 10; t++) {
        double *k = c.k + t * 2 * K;
        k[0] = 1;
        k[K] = 0.5;
        k[K + 1] = sqrt(3) / 2;
        c.beta[2 * t] = c.beta[2 * t + 1] = 2;
    }
    for (int j = 0; j < 2; j++)
        c.beta[j] = 0.5; // token 0: two real values
    spectrum_tokens s;
    err e = {0};
    backend *be = cpu_open(PRECISION_F64, 1, &e);
    assert_true(be && spectrum_tokens_init(&s, 16, &e));
    assert_true(spectrum_tokens_add(&s, &c.x, 0, 10, be, &e));
    assert_int_equal(s.tokens, 10);
    assert_int_equal(s.complex_tokens, 9);
    assert_int_equal(s.values, 20);
    assert_int_equal(s.negative, 0);
    int64_t pairs = 0, reals = 0;
    for (int i = 0; i < SPECTRUM_BINS; i++) {
        pairs += s.angle[i];
        reals += s.real[i];
        if (s.angle[i])
            assert_true(abs(i - SPECTRUM_BINS * 2 / 3) <= 1); // 120 of 180 degrees
    }
    assert_int_equal(pairs, 9);
    assert_int_equal(reals, 2);
    assert_int_equal(s.modulus[SPECTRUM_BINS - 1], 18);
    assert_true(fabs(spectrum_bins_median(s.modulus, 0, 1) - 1) < 1e-3);
    assert_int_equal(s.strong, 0);
    assert_true(s.strongest == 2);
    spectrum_tokens_free(&s);
    case_free(&c);
    backend_close(be);
}

TEST(g08_factors_above_two_are_counted) {
    tcase c = case_random(TDECAY_NONE, 20, 4, 1, 2, 7);
    c.beta[3] = c.beta[11] = 2.1;
    spectrum_tokens s;
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    assert_true(be && spectrum_tokens_init(&s, 16, &e));
    assert_true(spectrum_tokens_add(&s, &c.x, 0, 20, be, &e));
    assert_int_equal(s.strong, 2);
    assert_true(fabs(s.strongest - 2.1) < 1e-14 && fabs(s.least_real - -1.1) < 1e-14);
    assert_true(fabs(s.largest - 1.1) < 1e-14);
    spectrum_tokens_free(&s);
    case_free(&c);
    backend_close(be);
}

TEST(diagonal_kinds_have_the_exponentials_of_their_decays) {
    static const transition_decay kinds[] = {TDECAY_NONE, TDECAY_HEAD, TDECAY_CHANNEL};
    for (int i = 0; i < 3; i++) {
        tcase c = case_new(TRANSITION_DIAGONAL, kinds[i], 5, K, 0);
        int n = kinds[i] == TDECAY_CHANNEL ? K : 1;
        for (int j = 0; kinds[i] != TDECAY_NONE && j < 5 * n; j++)
            c.g[j] = -0.1 * (j + 1);
        spectrum_tokens s;
        err e = {0};
        backend *be = cpu_open(PRECISION_F64, 1, &e);
        assert_true(be && spectrum_tokens_init(&s, 64, &e));
        assert_true(spectrum_tokens_add(&s, &c.x, 0, 5, be, &e));
        assert_int_equal(s.values, 5 * n);
        for (int j = 0; j < 5 * n; j++) {
            double want = kinds[i] == TDECAY_NONE ? 1 : exp(-0.1 * (j + 1));
            assert_true(creal(s.kept[j]) == want && cimag(s.kept[j]) == 0);
        }
        assert_true(isnan(s.strongest));
        spectrum_tokens_free(&s);
        case_free(&c);
        backend_close(be);
    }
}

static const figure *find(const figures *f, const char *id) {
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->v[i]->id, id) == 0)
            return f->v[i];
    fail_msg("there is no figure %s", id);
    return NULL;
}

static bool noted(const figure *f, const char *part) {
    for (size_t i = 0; i < f->n_notes; i++)
        if (strstr(f->notes[i], part))
            return true;
    return false;
}

// Adds one complex pair at 2 pi / 3 and one real value to the tokens.
static void add_tokens(made *m) {
    spectrum_tokens *t = &m->head.tokens;
    t->tokens = 2;
    t->complex_tokens = 1;
    t->values = 3;
    t->negative = 1;
    t->angle[SPECTRUM_BINS * 2 / 3] = 1;
    t->real[0] = 1;
    t->modulus[SPECTRUM_BINS - 1] = 3;
    t->kept[t->n_kept++] = cexp(2 * M_PI / 3 * I);
    t->kept[t->n_kept++] = cexp(-2 * M_PI / 3 * I);
    t->kept[t->n_kept++] = -1;
}

static figures draw(made *m, size_t n) {
    spectrum_item item[2] = {{"one", "doc, 8 tokens", &m->r}, {"two", "doc, 8 tokens", &m->r}};
    figures f;
    err e = {0};
    if (!spectrum_figures(item, n, &f, &e))
        fail_msg("%s", e.text);
    return f;
}

TEST(planes_hold_the_eigenvalues_and_the_unit_circle) {
    made *m = make(DECAY_NONE);
    add_tokens(m);
    figures f = draw(m, 1);
    const figure *p = find(&f, "plane-tokens-0");
    assert_true(p->equal_scale && p->n_marks == 1 && p->marks[0].kind == MARK_CIRCLE);
    assert_true(p->marks[0].value == 1);
    assert_int_equal(p->n_series, 1);
    assert_string_equal(p->series[0].name, "layer 5");
    assert_int_equal(p->series[0].n, 3);
    assert_true(fabs(p->series[0].y[0] - sqrt(3) / 2) < 1e-15 && p->series[0].x[2] == -1);
    p = find(&f, "plane-long-0"); // the shortest window without frozen directions: W = 4
    assert_non_null(strstr(p->title, "W = 4"));
    assert_int_equal(p->series[0].n, SAMPLES * K);
    assert_true(noted(p, "Condition number"));
    figures_free(&f);
    unmake(m);
}

TEST(histograms_are_shares_that_sum_to_a_hundred) {
    made *m = make(DECAY_NONE);
    add_tokens(m);
    figures f = draw(m, 2);
    static const char *const ids[] = {"angles", "reals", "modulus-0", "modulus-1"};
    for (int i = 0; i < 4; i++) {
        const figure *h = find(&f, ids[i]);
        assert_int_equal(h->kind, FIG_HIST);
        assert_int_equal(h->n_series, 2); // two models, or tokens and W = 4
        for (size_t s = 0; s < h->n_series; s++) {
            double sum = 0;
            for (size_t b = 0; b < h->series[s].n; b++)
                sum += h->series[s].y[b];
            assert_true(fabs(sum - 100) < 1e-9);
        }
    }
    assert_string_equal(find(&f, "angles")->series[0].name, "one: 50 % of tokens rotate");
    assert_string_equal(find(&f, "reals")->series[1].name, "two: 33.3 % below 0");
    figures_free(&f);
    unmake(m);
}

TEST(where_nothing_rotates_no_angles_are_drawn_and_a_note_says_so) {
    made *m = make(DECAY_NONE);
    m->head.tokens.tokens = 2;
    figures f = draw(m, 1);
    for (size_t i = 0; i < f.n; i++)
        assert_string_not_equal(f.v[i]->id, "angles");
    assert_true(noted(find(&f, "reals"), "No token rotates"));
    figures_free(&f);
    unmake(m);
}

TEST(curves_hold_known_numbers_and_gaps) {
    made *m = make(DECAY_NONE);
    figures f = draw(m, 1);
    const figure *n = find(&f, "norm-0");
    assert_true(n->series[0].y[1] == 1.5 && n->series[1].y[1] == 1 && isnan(n->series[0].y[2]));
    const figure *l = find(&f, "ledger"); // running mean of -3 -3 -6 -12 over 2 tokens each, / K
    static const double mean[] = {-0.5, -0.5, -2 / 3.0, -1};
    for (int i = 0; i < POINTS; i++) {
        assert_true(fabs(l->series[0].y[i] - mean[i]) < 1e-15);
        assert_true(l->series[0].x[i] == 2 * (i + 1));
    }
    const figure *x = find(&f, "lyapunov");
    assert_true(x->series[0].y[1] == -1 && isnan(x->series[0].y[2]));
    const figure *h = find(&f, "half-life");
    assert_true(isnan(h->series[0].y[0]) && fabs(h->series[0].y[1] - 4) < 1e-12);
    assert_true(isnan(h->series[0].hi[1])); // never
    assert_true(noted(h, "K / n_h = 2 tokens"));
    figures_free(&f);
    unmake(m);
}

TEST(tables_have_a_line_a_head_and_a_line_a_window) {
    made *m = make(DECAY_NONE);
    figures f = draw(m, 2);
    const figure *h = find(&f, "heads"), *w = find(&f, "windows");
    assert_int_equal(h->columns[0].n, 2);
    assert_string_equal(h->columns[1].text[0], "L5.H0");
    assert_int_equal(w->columns[0].n, 2 * WINDOWS);
    assert_string_equal(w->columns[0].text[3], "two");
    assert_true(w->columns[1].num[1] == 4);
    figures_free(&f);
    unmake(m);
}

TEST(a_run_without_exponents_or_windows_still_has_pictures) {
    made *m = make(DECAY_NONE);
    m->r.lyapunov_tokens = 0;
    m->head.lyapunov = NULL;
    for (int i = 0; i < WINDOWS * SAMPLES; i++)
        m->facts[i].norm2 = NAN;
    figures f = draw(m, 1);
    for (size_t i = 0; i < f.n; i++) {
        assert_null(strstr(f.v[i]->id, "lyapunov"));
        assert_null(strstr(f.v[i]->id, "plane-long"));
    }
    figures_free(&f);
    unmake(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_life_of_a_mode_in_closed_form),
        cmocka_unit_test(window_numbers_of_known_eigenvalues),
        cmocka_unit_test(modes_below_rounding_count_as_shortest_and_have_no_value),
        cmocka_unit_test(summary_of_known_numbers),
        cmocka_unit_test(g02_tokens_land_in_their_bins),
        cmocka_unit_test(g08_factors_above_two_are_counted),
        cmocka_unit_test(diagonal_kinds_have_the_exponentials_of_their_decays),
        cmocka_unit_test(planes_hold_the_eigenvalues_and_the_unit_circle),
        cmocka_unit_test(histograms_are_shares_that_sum_to_a_hundred),
        cmocka_unit_test(where_nothing_rotates_no_angles_are_drawn_and_a_note_says_so),
        cmocka_unit_test(curves_hold_known_numbers_and_gaps),
        cmocka_unit_test(tables_have_a_line_a_head_and_a_line_a_window),
        cmocka_unit_test(a_run_without_exponents_or_windows_still_has_pictures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
