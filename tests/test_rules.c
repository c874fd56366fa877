// Rules over facts: the language, what names mean, what is not decided, mistakes with their place, and
// the reader of results.jsonl. Values are worked out by hand.
#include "analyses/facts_names.h"
#include "analyses/facts_read.h"
#include "analyses/rules/rules.h"
#include "core/mem.h"
#include "tests/files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Facts of two models on two documents ------------------------------------------------------------

static facts some;

static void put(const char *name, double value, const char *model, const char *document, int layer,
                int head, int64_t position) {
    err e = {0};
    fact f = FACT_EMPTY;
    f.name = (char *)name;
    f.value = value;
    f.unit = "1";
    f.model = (char *)model;
    f.document = (char *)document;
    f.layer = layer;
    f.head = head;
    f.position = position;
    if (!facts_add(&some, &f, &e))
        fail_msg("%s", e.text);
}

// dp: two layers of three heads; L1 has no gate. Ranks at 4k: 10 (3 layer + head); at 8k two more.
static void model_dp(void) {
    put("layers", 2, "dp", "", -1, -1, -1);
    for (int L = 0; L < 2; L++)
        put("K", 64, "dp", "", L, -1, -1);
    put("loss", 3.0, "dp", "kjv", -1, -1, 4096);
    put("loss", 3.25, "dp", "kjv", -1, -1, 8192);
    put("loss", INFINITY, "dp", "kjv", -1, -1, 16384);
    put("loss", 2.0, "dp", "code", -1, -1, 4096);
    put("extrapolation_index", 0.125, "dp", "kjv", -1, -1, -1);
    put("accuracy", NAN, "dp", "kjv", -1, -1, -1);
    for (int h = 0; h < 6; h++) {
        put("erank", 10 * h, "dp", "kjv", h / 3, h % 3, 4096);
        put("erank", 10 * h + 2, "dp", "kjv", h / 3, h % 3, 8192);
        put("norm_outlier", h == 4 ? -7 : 0.5, "dp", "kjv", h / 3, h % 3, -1);
        if (h < 3)
            put("gate", 0.9 + 0.01 * h, "dp", "kjv", 0, h, 8192);
    }
    put("erank", 27, "dp", "kjv", -1, -1, 8192);
    put("gate", 0.5, "dp", "kjv", -1, -1, 8192); // the model's mean: no head's own
    put("key_norm", NAN, "dp", "kjv", 1, 2, 8192);
    put("key_norm", 1, "dp", "kjv", 1, 1, 8192);
}

static int set_up(void **state) {
    (void)state;
    model_dp();
    put("loss", 2.5, "gla", "kjv", -1, -1, 4096);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    facts_free(&some);
    return 0;
}

static bool read_text(const char *text, rules *r, err *e) {
    const char *path = files_path("rules.ini");
    files_text(path, text);
    return rules_read(path, r, e);
}

static rule_outcomes outcomes_of(const char *text, const facts *base, rules *r) {
    rule_outcomes o;
    err e = {0};
    if (!read_text(text, r, &e) || !rules_check(r, &some, base, &o, &e))
        fail_msg("%s: %s", text, e.text);
    return o;
}

// Checks one rule for dp on kjv.
static void expect(const char *text, rule_verdict verdict, double value, double bound,
                   const char *part) {
    char all[600];
    rules r;
    snprintf(all, sizeof all, "[only]\nmodel = dp\ndocument = kjv\nx = %s\n", text);
    rule_outcomes o = outcomes_of(all, NULL, &r);
    assert_int_equal(o.n, 1);
    const rule_outcome *v = &o.v[0];
    bool same =
        (isnan(value) ? isnan(v->value) : fabs(v->value - value) < 1e-12 * fabs(value) + 1e-12) &&
        (isnan(bound) ? isnan(v->bound) : fabs(v->bound - bound) < 1e-12 * fabs(bound) + 1e-12);
    if (v->verdict != verdict || !same || !strstr(v->sentence, part))
        fail_msg("%s: %s, %.17g and %.17g: \"%s\" (expected %s, %.17g, %.17g, \"%s\")", text,
                 rule_verdict_name(v->verdict), v->value, v->bound, v->sentence,
                 rule_verdict_name(verdict), value, bound, part);
    rule_outcomes_free(&o);
    rules_free(&r);
}

#define HOLDS(text, value, bound)        expect(text, RULE_HOLDS, value, bound, "")
#define BROKEN(text, value, bound, part) expect(text, RULE_BROKEN, value, bound, part)
#define UNDECIDED(text, part)            expect(text, RULE_UNDECIDED, NAN, NAN, part)

// The language ------------------------------------------------------------------------------------

static void operators_mean_what_they_say(void **state) {
    (void)state;
    HOLDS("loss(4k) < 3.25", 3, 3.25);
    BROKEN("loss(4k) < 3", 3, 3, "loss(4k) = 3, must be < 3");
    HOLDS("loss(4k) <= 3", 3, 3);
    BROKEN("loss(4k) <= 2.5", 3, 2.5, "must be <= 2.5");
    HOLDS("loss(4k) > 2.5", 3, 2.5);
    BROKEN("loss(4k) > 3", 3, 3, "must be > 3");
    HOLDS("loss(4k) >= 3", 3, 3);
    BROKEN("loss(4k) >= 4", 3, 4, "must be >= 4");
    HOLDS("loss(4k) == 3", 3, 3);
    BROKEN("loss(4k) == 4", 3, 4, "must be == 4");
    HOLDS("loss(4k) != 4", 3, 4);
    BROKEN("loss(4k) != 3", 3, 3, "must be != 3");
    HOLDS("loss(8k) - loss(4k) + 1 == 1.25", 1.25, 1.25);
    HOLDS("loss(8k) * 2 / 4 == 1.625", 1.625, 1.625);
    HOLDS("-loss(4k) < 0", -3, 0);
    HOLDS("not loss(4k) > 4", 3, 4);
    BROKEN("not loss(4k) < 4", 3, 4, "must be >= 4");
    HOLDS("loss(4k) < 4 and loss(8k) < 4", 3, 4);
    BROKEN("loss(4k) < 4 and loss(8k) < 3.2", 3.25, 3.2, "loss(8k) = 3.25, must be < 3.2");
    HOLDS("loss(4k) > 4 or loss(8k) < 4", 3.25, 4);
    BROKEN("loss(4k) > 4 or loss(8k) > 5", 3, 4, "; loss(8k) = 3.25, must be > 5");
}

static void operators_bind_as_in_arithmetic(void **state) {
    (void)state;
    HOLDS("2 + 3 * 4 == 14", 14, 14);
    HOLDS("(2 + 3) * 4 == 20", 20, 20);
    HOLDS("10 - 3 - 2 == 5", 5, 5);
    HOLDS("16 / 4 / 2 == 2", 2, 2);
    HOLDS("-2 * 3 == -6", -6, -6);
    HOLDS("2 - -3 == 5", 5, 5);
    HOLDS("1k + 1 == 1025", 1025, 1025);
    HOLDS("2M == 2097152", 2097152, 2097152);
    HOLDS("1.5k == 1536", 1536, 1536);
    HOLDS(".5e1 == 5", 5, 5);
    // and binds tighter than or, not tighter than and, comparisons tighter than all three
    HOLDS("1 == 1 or 1 == 2 and 1 == 2", 1, 1);
    BROKEN("(1 == 1 or 1 == 2) and 1 == 2", 1, 2, "1, must be == 2");
    BROKEN("not 1 == 2 and 1 == 2", 1, 2, "");
    HOLDS("not (1 == 2 and 1 == 1)", 1, 2);
    HOLDS("1 == 1 && 2 == 2 || 1 == 2", 1, 1);
}

static void numbers_close_to_the_bound_can_be_told_apart(void **state) {
    (void)state;
    BROKEN("loss(4k) < 3 - 0.0000001", 3, 2.9999999, "loss(4k) = 3, must be < 2.9999999");
}

// What names mean ---------------------------------------------------------------------------------

static void perplexity_is_the_exponential_of_the_loss(void **state) {
    (void)state;
    HOLDS("ppl(4k) == exp(loss(4k))", exp(3), exp(3));
    HOLDS("log(ppl(8k)) - 3.25 < 0.000001", log(exp(3.25)) - 3.25, 0.000001);
}

static void names_without_a_position_are_the_whole_else_the_longest(void **state) {
    (void)state;
    HOLDS("extrapolation_index == 0.125", 0.125, 0.125);
    HOLDS("erank == 27", 27, 27);           // of the model, at 8k
    HOLDS("heads(erank == 52) == 1", 1, 1); // of a head, at 8k
    HOLDS("layers == 2", 2, 2);             // of the weights: no document
}

static void heads_are_counted_and_named(void **state) {
    (void)state;
    HOLDS("heads(erank(4k) >= 30) == 3", 3, 3);
    BROKEN("heads(erank(8k) > 0.5*K) == 0", 2, 0, "= 2 of 6: L1.H2 (52), L1.H1 (42), must be == 0");
    HOLDS("heads(erank(4k) > 5 and layer == 0) == 2", 2, 2);
    HOLDS("heads(head == 1) == 2", 2, 2);
    HOLDS("heads(not erank(4k) > 5) == 1", 1, 1);
    HOLDS("heads(abs(norm_outlier) > 3.5) == 1", 1, 1);
    BROKEN("heads(abs(norm_outlier) > 3.5) == 0", 1, 0, ": L1.H1 (7),");
    BROKEN("max(erank(4k)) < 40", 50, 40, "max(erank(4k)) = 50 at L1.H2, must be < 40");
    BROKEN("min(erank(8k)) > 2", 2, 2, "at L0.H0");
    HOLDS("mean(erank(4k)) == 25", 25, 25);
    HOLDS("heads(erank(4k) > mean(erank(4k))) == 3", 3, 3);
    HOLDS("max(1, loss(4k), 2) == 3", 3, 3);
    HOLDS("min(1, loss(4k), 2) == 1", 1, 1);
    HOLDS("mean(1, loss(4k), 2) == 2", 2, 2);
    HOLDS("heads(erank(8k) - erank(4k) == 2) == 6", 6, 6);
}

static void heads_without_a_name_are_left_out(void **state) {
    (void)state;
    // Layer 1 has no gate: the mean over all heads does not stand in for one of its own.
    HOLDS("heads(gate > 0.4) == 3", 3, 3);
    HOLDS("gate == 0.5", 0.5, 0.5);
    UNDECIDED("heads(beta > 0.4) == 0", "no head of dp has a number for beta (does it apply?");
}

// A rule that cannot be decided never passes.
static void what_is_missing_or_no_number_is_not_decided(void **state) {
    (void)state;
    UNDECIDED("loss(2k) < 4", "there is no loss(2k); it is given at 4k, 8k");
    UNDECIDED("accuracy > 0", "accuracy is no number");
    UNDECIDED("accuracy != 0", "accuracy is no number");
    UNDECIDED("not accuracy > 0", "accuracy is no number");
    UNDECIDED("loss(4k) < 4 or accuracy > 0", "accuracy is no number");
    UNDECIDED("loss(4k) > 4 and accuracy > 0", "accuracy is no number");
    UNDECIDED("loss(16k) > 1", "loss(16k) is not a finite number");
    UNDECIDED("ppl(16k) <= ppl(16k)", "ppl(16k) is not a finite number");
    UNDECIDED("heads(key_norm > 0) == 1", "key_norm(8k) of L1.H2 is no number");
    UNDECIDED("max(key_norm) < 3", "key_norm(8k) of L1.H2 is no number");
    UNDECIDED("heads(erank(2k) > 3) == 0", "there is no erank(2k) of L0.H0; it is given at 4k, 8k");
    UNDECIDED("1 / (loss(4k) - 3) > 0", "divides by zero");
    UNDECIDED("loss_mean < 3", "there is no loss_mean for dp on kjv");
    UNDECIDED("exp(1k) > 0", "exp(1k) is not a finite number");
    UNDECIDED("log(0 - 1) < 0", "is not a finite number");
    UNDECIDED("beta < 1", "there is no beta for dp on kjv");
    UNDECIDED("key_norm < 3", "key_norm is given for each head only: write heads(key_norm ...)");
}

// Baselines ---------------------------------------------------------------------------------------

static facts base_of(const char *model, double at_4k) {
    facts was = some, out;
    some = (facts){0};
    put("loss", at_4k, model, "kjv", -1, -1, 4096);
    for (int h = 0; h < 6; h++)
        put("erank", h == 1 ? 5 : 10 * h, model, "kjv", h / 3, h % 3, 4096);
    out = some;
    some = was;
    return out;
}

static void expect_base(const char *text, const facts *base, rule_verdict verdict,
                        const char *part) {
    char all[600];
    rules r;
    snprintf(all, sizeof all, "[only]\nmodel = dp\ndocument = kjv\nx = %s\n", text);
    rule_outcomes o = outcomes_of(all, base, &r);
    if (o.v[0].verdict != verdict || !strstr(o.v[0].sentence, part))
        fail_msg("%s: %s, \"%s\"", text, rule_verdict_name(o.v[0].verdict), o.v[0].sentence);
    rule_outcomes_free(&o);
    rules_free(&r);
}

static void baselines_are_the_left_side_of_another_run(void **state) {
    (void)state;
    facts same = base_of("dp", 2.9), old = base_of("an older state", 3.0);
    expect_base("loss(4k) <= baseline*1.02", &same, RULE_BROKEN,
                "loss(4k) = 3, must be <= 2.958 = baseline*1.02");
    expect_base("loss(4k) <= baseline*1.02", &old, RULE_HOLDS, ""); // its only model
    expect_base("ppl(4k) <= baseline", &old, RULE_HOLDS, "");
    expect_base("loss(4k) - baseline(loss(4k)) < 0.2", &same, RULE_HOLDS, "");
    expect_base("loss(8k) < baseline", &same, RULE_UNDECIDED, "the baseline: there is no loss(8k)");
    expect_base("heads(erank(4k) > baseline) == 0", &same, RULE_BROKEN, "= 1 of 6: L0.H1 (10)");
    expect_base("heads(erank(4k) > 1.5*baseline(erank(4k))) == 1", &same, RULE_HOLDS, "");
    expect_base("heads(erank(4k) > 0) <= baseline", &same, RULE_HOLDS, "");
    facts_free(&same);
    facts_free(&old);
    facts other = base_of("x", 3), more = base_of("y", 3);
    err e = {0};
    assert_true(facts_add(&other, &more.v[0], &e));
    expect_base("loss(4k) < baseline", &other, RULE_UNDECIDED, "the baseline has no model dp");
    facts_free(&other);
    facts_free(&more);
}

static void a_rule_that_needs_a_baseline_says_so(void **state) {
    (void)state;
    rules r;
    rule_outcomes o;
    err e = {0};
    assert_true(read_text("a = loss(4k) < 3\nb = loss(4k) < baseline\n", &r, &e));
    assert_non_null(rules_baseline(&r));
    assert_false(rules_check(&r, &some, NULL, &o, &e));
    files_assert_error_holds(&e, ERR_USAGE, "line 2: rule \"b\" needs a baseline: give --baseline");
    rules_free(&r);
}

// The file ----------------------------------------------------------------------------------------

static void sections_choose_models_and_documents(void **state) {
    (void)state;
    rules r;
    rule_outcomes o = outcomes_of("\xef\xbb\xbf# a comment\r\n"
                                  "loss(4k) < 3 ; by its text\r\n"
                                  "\n[small ones]\r\n  a name = loss(4k) <= 3\n"
                                  "model = g*  # globs\nmodel = nobody\n"
                                  "[documents]\ndocument = c?de\nb = loss(4k) < 2\n"
                                  "[nothing]\nmodel = x*\nc = 1 < 2\n",
                                  NULL, &r);
    assert_int_equal(r.n, 4);
    assert_string_equal(r.v[0].name, "loss(4k) < 3");
    assert_string_equal(r.v[1].name, "small ones: a name");
    assert_int_equal(r.v[1].line, 5);
    assert_int_equal(o.n, 3 + 1 + 1 + 1); // dp on kjv and on code, gla on kjv; gla; code; none
    assert_string_equal(o.v[3].model, "gla");
    assert_string_equal(o.v[4].document, "code");
    assert_int_equal(o.v[4].verdict, RULE_BROKEN);
    assert_int_equal(o.v[5].verdict, RULE_UNDECIDED);
    assert_string_equal(o.v[5].sentence, "it fits no model and document of the results");
    assert_int_equal(o.count[RULE_HOLDS], 3);
    assert_false(rule_outcomes_good(&o));
    rule_outcomes_free(&o);
    rules_free(&r);
}

static void mistakes_name_line_and_character(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a = loss(4k) <\n", "line 1, character 15: expected a number or a name"},
        {"\n a = loss(4k < 3\n", "line 2, character 17: expected \")\" or"},
        {"a = loss(4k)) < 3\n", "character 13: expected the end"},
        {"a = 1 < 2 < 3\n", "character 11: expected \"and\" between two comparisons"},
        {"a = loss(4k)\n", "character 5: expected a comparison, this is a number"},
        {"a = (1 < 2) + 1 < 3\n", "character 6: expected a number, this is true or false"},
        {"a = 1 and 2 < 3\n", "character 5: expected a comparison"},
        {"a = heads(erank) > 1\n", "character 11: heads(...) takes a comparison"},
        {"a = max(1 < 2) > 1\n", "character 9: max(...) takes a number"},
        {"a = abs(1, 2) > 1\n", "character 5: abs(...) takes one argument"},
        {"a = loss(4.5) < 1\n", "character 10: loss(...) takes a number of tokens"},
        {"a = loss(erank) < 1\n", "character 10: loss(...) takes a number of tokens"},
        {"a = half_life(4k) < 1\n", "character 5: half_life is not given at a number of tokens"},
        {"a = K < 1\n", "character 5: K is a number of each head"},
        {"a = layer < 1\n", "character 5: \"layer\" needs a head"},
        {"a = baseline < 1\n", "character 5: \"baseline\" stands for the left side"},
        {"a = baseline(1) < baseline\n",
         "character 19: \"baseline\" stands for the left side, which"},
        {"a = 1 < baseline(baseline(2))\n", "character 18: baseline inside baseline(...)"},
        {"\xc3\xa9 = 1 < \xc3\xbc\n", "character 9: expected a number or a name"},
        {"a = nosuch(erank) < 1\n", "character 5: there is no nosuch(...)"},
        {"a = 1e999 < 1\n", "character 5: too large a number"},
        {"a = 1e < 1\n", "character 5: expected a number"},
        {"a = 4kb < 1\n", "character 5: expected a number"},
        {"a = 1 < 2\nb = 1 < 2\na = 1 < 3\n",
         "line 3, character 1: line 1 has a rule of this name"},
        {"[s\n", "line 1, character 3: expected \"]\""},
        {"[s] x\n", "line 1, character 5: expected the end of the line"},
        {"[]\n", "line 1, character 2: expected a name"},
        {"[s]\nmodel = x\n", "section [s] has no rule"},
        {"a =\n", "line 1, character 4: expected something behind \"=\""},
        {"= 1 < 2\n", "line 1, character 1: expected a name before \"=\""},
        {"# nothing\n", "holds no rule"},
        {"", "holds no rule"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rules r;
        err e = {0};
        if (read_text(cases[i].text, &r, &e) || e.code != ERR_INPUT ||
            !strstr(e.text, cases[i].message) || r.n || r.path)
            fail_msg("%s-> \"%s\", not \"%s\"", cases[i].text, e.text, cases[i].message);
    }
}

static void deep_and_long_rules_are_refused(void **state) {
    (void)state;
    rules r;
    err e = {0};
    char text[5000] = "a = ";
    memset(text + 4, '(', 4000);
    text[4004] = 0;
    assert_false(read_text(text, &r, &e));
    files_assert_error_holds(&e, ERR_INPUT, "expected fewer brackets");
    err_clear(&e);
    for (size_t i = 4; i < 4000; i += 2)
        memcpy(text + i, "1+", 2);
    assert_false(read_text(text, &r, &e));
    files_assert_error_holds(&e, ERR_INPUT, "too long an expression");
}

// Whatever the bytes: read or refused with a place, and what was read is checked.
static void random_text_is_read_or_refused(void **state) {
    (void)state;
    static const char seedling[] =
        "[s]\nmodel = d*\na b = heads(erank(4k) > 0.9*K and layer != 1) <= baseline*1.02 ; c\n"
        "not max(erank, 1e-3) < -ppl(8k) or loss(4k) == (1 + 2)/3\nq = abs(mean(gate)) > 0\n";
    static const char odd[] = "()<>=!&|*/+-,.;#[]\n \tkM0e9_\xc3\xff\0";
    uint64_t x = 12345;
    int read = 0, refused = 0;
    facts base = base_of("dp", 2.9);
    for (int i = 0; i < 3000; i++) {
        char text[sizeof seedling + 8];
        size_t n = sizeof seedling - 1;
        memcpy(text, seedling, sizeof seedling);
        for (int k = 0; k < 1 + i % 5; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            size_t at = (size_t)(x >> 33) % n, from = (size_t)(x >> 17) % n;
            if (x >> 63)
                text[at] = odd[(x >> 40) % (sizeof odd - 1)];
            else // a piece of itself
                memmove(text + at, text + from, n - (at > from ? at : from));
        }
        rules r;
        rule_outcomes o;
        err e = {0};
        files_write(files_path("fuzz.ini"), text, n);
        bool ok = rules_read(files_path("fuzz.ini"), &r, &e);
        if (ok)
            ok = rules_check(&r, &some, &base, &o, &e);
        if (ok) {
            for (size_t k = 0; k < o.n; k++)
                assert_true(o.v[k].sentence[0] != 0);
            rule_outcomes_free(&o);
        }
        assert_true(ok || (e.code == ERR_INPUT && e.text[0]));
        rules_free(&r);
        read += ok;
        refused += !ok;
    }
    facts_free(&base);
    printf("    measured: %d read, %d refused\n", read, refused);
    assert_true(read > 50 && refused > 50);
}

static void unknown_names_are_refused_with_the_nearest(void **state) {
    (void)state;
    rules r;
    rule_outcomes o;
    err e = {0};
    assert_true(read_text("a = 1 < 2\n b = heads(erankk > 3) == 0\n", &r, &e));
    assert_false(rules_names_known(&r, NULL, &e)); // before anything was measured
    files_assert_error_holds(
        &e, ERR_INPUT, "line 2, character 12: no fact is called \"erankk\" (did you mean erank?)");
    err_clear(&e);
    assert_false(rules_check(&r, &some, NULL, &o, &e));
    files_assert_error_holds(&e, ERR_INPUT, "no fact is called \"erankk\"");
    rules_free(&r);
    err_clear(&e);
    // A fact that somebody else put into the file is known there.
    put("mmlu", 0.5, "dp", "kjv", -1, -1, -1);
    HOLDS("mmlu > 0.4", 0.5, 0.4);
}

static void positions_that_rules_name_are_listed(void **state) {
    (void)state;
    rules r;
    err e = {0};
    size_t n = 0;
    assert_true(read_text("a = loss(32k) - loss(4k) < 1\nb = heads(erank(8k) > loss(4k)) == 0\n"
                          "c = ppl(100) < baseline(ppl(300))\n",
                          &r, &e));
    int64_t *at = rules_positions(&r, &n, &e);
    static const int64_t want[] = {100, 300, 4096, 8192, 32768};
    assert_non_null(at);
    assert_int_equal(n, 5);
    assert_memory_equal(at, want, sizeof want);
    free(at);
    rules_free(&r);
}

static void two_values_of_one_fact_are_refused(void **state) {
    (void)state;
    rules r;
    rule_outcomes o;
    err e = {0};
    facts was = some;
    some = (facts){0};
    put("loss", 2.5, "gla", "kjv", -1, -1, 4096);
    put("loss", 2.5, "gla", "kjv", -1, -1, 4096);
    assert_true(read_text("a = loss(4k) < 4\n", &r, &e));
    assert_true(rules_check(&r, &some, NULL, &o, &e));
    rule_outcomes_free(&o);
    put("loss", 2.6, "gla", "kjv", -1, -1, 4096);
    assert_false(rules_check(&r, &some, NULL, &o, &e));
    files_assert_error_holds(&e, ERR_INPUT, "two values of loss at 4096 tokens for gla on kjv");
    rules_free(&r);
    facts_free(&some);
    some = was;
}

// Every failing allocation is an error, no crash.
static void failing_allocations_are_errors(void **state) {
    (void)state;
    int failed = 0;
    files_text(files_path("kept.ini"),
               "[s]\nmodel = dp\na = heads(erank > 3) == 0\nb = loss(4k) < 3\n");
    for (long n = 1; n < 400; n++) {
        rules r;
        rule_outcomes o = {0};
        err e = {0};
        mem_fail_after(n);
        bool ok =
            rules_read(files_path("kept.ini"), &r, &e) && rules_check(&r, &some, NULL, &o, &e);
        mem_fail_after(0);
        failed += !ok;
        if (!ok)
            assert_int_equal(e.code, ERR_NOMEM);
        rule_outcomes_free(&o);
        rules_free(&r);
    }
    printf("    measured: %d runs out of memory\n", failed);
    assert_true(failed > 10);
}

// results.jsonl -----------------------------------------------------------------------------------

static void lines_become_facts(void **state) {
    (void)state;
    facts f = {0};
    err e = {0};
    const char *path = files_path("results.jsonl");
    files_text(
        path,
        "\xef\xbb\xbf{\"name\": \"loss\", \"value\": 2.5, \"unit\": \"nats/token\", \"model\": "
        "\"m\", \"document\": \"d\", \"position\": 4096, \"lo\": 2.4, \"hi\": null, "
        "\"how\": \"mean\", \"colour\": [1]}\r\n"
        "\n"
        "{\"name\": \"erank\", \"value\": null, \"model\": \"m\", \"layer\": 1, \"head\": 0}");
    if (!facts_read(path, &f, &e))
        fail_msg("%s", e.text);
    assert_int_equal(f.n, 2);
    assert_true(f.v[0].value == 2.5 && f.v[0].lo == 2.4 && isnan(f.v[0].hi));
    assert_int_equal(f.v[0].position, 4096);
    assert_int_equal(f.v[0].row, FACT_NONE);
    assert_string_equal(f.v[0].how, "mean");
    assert_true(isnan(f.v[1].value));
    assert_string_equal(f.v[1].document, "");
    assert_int_equal(f.v[1].layer, 1);
    facts_free(&f);
}

static void what_is_written_is_read_back(void **state) {
    (void)state;
    facts f = {0};
    err e = {0};
    const char *path = files_path("again.jsonl");
    assert_true(facts_save(&some, path, &e));
    assert_true(facts_read(path, &f, &e));
    assert_int_equal(f.n, some.n);
    for (size_t i = 0; i < f.n; i++) {
        const fact *a = &some.v[i], *b = &f.v[i];
        bool same = a->value == b->value || (isnan(b->value) && !isfinite(a->value));
        if (!same || strcmp(a->name, b->name) || strcmp(a->model, b->model) ||
            strcmp(a->document, b->document) || a->layer != b->layer || a->head != b->head ||
            a->position != b->position || a->row != b->row)
            fail_msg("fact %zu, %s", i, a->name);
    }
    facts_free(&f);
}

static void bad_lines_name_file_and_line(void **state) {
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"{\"name\": \"loss\", \"value\": 2.5", "bad.jsonl: line 2 is not JSON at column "},
        {"[1]", "bad.jsonl, line 2: is an array, need an object"},
        {"{\"value\": 1, \"model\": \"m\"}", "line 2: \"name\" is absent, need a string"},
        {"{\"name\": \"\", \"value\": 1, \"model\": \"m\"}",
         "\"name\" is \"\", need a string that"},
        {"{\"name\": \"x\", \"model\": \"m\"}", "\"value\" is absent, need a number or null"},
        {"{\"name\": \"x\", \"value\": \"1\", \"model\": \"m\"}",
         "\"value\" is \"1\", need a number or null"},
        {"{\"name\": \"x\", \"value\": 1}", "\"model\" is absent"},
        {"{\"name\": \"x\", \"value\": 1, \"model\": \"m\", \"layer\": -1}",
         "\"layer\" is -1, need"},
        {"{\"name\": \"x\", \"value\": 1, \"model\": \"m\", \"layer\": 0.5}",
         "\"layer\" is 0.5, need"},
        {"{\"name\": \"x\", \"value\": 1, \"model\": \"m\", \"layer\": 3000000000}",
         "\"layer\" is"},
        {"{\"name\": \"x\", \"value\": 1, \"model\": \"m\", \"head\": 1}",
         "\"layer\" is absent, need"},
        {"{\"name\": \"x\", \"value\": NaN, \"model\": \"m\"}", "line 2 is not JSON"},
        {"{\"name\": \"x\", \"name\": \"y\"}", "line 2 holds the key \"name\" twice (column "},
    };
    const char *path = files_path("bad.jsonl");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        facts f = {0};
        err e = {0};
        snprintf(text, sizeof text, "{\"name\": \"x\", \"value\": 1, \"model\": \"m\"}\n%s\n",
                 cases[i].line);
        files_text(path, text);
        if (facts_read(path, &f, &e) || !strstr(e.text, cases[i].message))
            fail_msg("%s -> \"%s\"", cases[i].line, e.text);
        facts_free(&f);
    }
}

// The table of names is the list that users read.
static void names_are_those_of_the_documentation(void **state) {
    (void)state;
    size_t n = 0, found = 0;
    char *text = files_read("docs/facts.md", &n);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *cell = strncmp(line, "| `", 3) == 0 ? line + 2 : NULL,
             *end = cell ? strchr(cell, '|') : NULL;
        if (!cell || !end)
            continue;
        *end = 0;
        for (char *a = strchr(cell, '`'); a; a = strchr(a, '`')) {
            char *b = strchr(++a, '`');
            assert_non_null(b);
            *b = 0;
            const fact_name *f = fact_name_find(a);
            if (!f)
                fail_msg("docs/facts.md has %s, analyses/facts_names.c has not", a);
            found++;
            a = b + 1;
        }
    }
    assert_int_equal(found, n_fact_names);
    free(text);
}

// The first example of docs/rules.md is what it says it is.
static void the_example_of_the_documentation_is_read(void **state) {
    (void)state;
    size_t n = 0, at = 0;
    char *page = files_read("docs/rules.md", &n), *begin = strstr(page, "    # rules.ini"),
         text[2000];
    err e = {0};
    rules r;
    assert_non_null(begin);
    for (char *line = begin; strncmp(line, "    ", 4) == 0 || *line == '\n';
         line = strchr(line, '\n') + 1)
        at += (size_t)snprintf(text + at, sizeof text - at, "%.*s", (int)strcspn(line, "\n") + 1,
                               line);
    if (!read_text(text, &r, &e) || !rules_names_known(&r, NULL, &e))
        fail_msg("%s", e.text);
    assert_int_equal(r.n, 4);
    assert_string_equal(r.v[3].name, "small models: no worse");
    assert_int_equal(r.v[3].model.n, 1);
    rules_free(&r);
    free(page);
}

// Its rules name only facts that a report gives.
static void the_rules_of_the_examples_are_read(void **state) {
    (void)state;
    size_t n = 0;
    char *text = files_read("examples/rules.ini", &n);
    err e = {0};
    rules r;
    if (!read_text(text, &r, &e) || !rules_names_known(&r, NULL, &e))
        fail_msg("%s", e.text);
    assert_int_equal(r.n, 5);
    rules_free(&r);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_mean_what_they_say),
        cmocka_unit_test(operators_bind_as_in_arithmetic),
        cmocka_unit_test(numbers_close_to_the_bound_can_be_told_apart),
        cmocka_unit_test(perplexity_is_the_exponential_of_the_loss),
        cmocka_unit_test(names_without_a_position_are_the_whole_else_the_longest),
        cmocka_unit_test(heads_are_counted_and_named),
        cmocka_unit_test(heads_without_a_name_are_left_out),
        cmocka_unit_test(what_is_missing_or_no_number_is_not_decided),
        cmocka_unit_test(baselines_are_the_left_side_of_another_run),
        cmocka_unit_test(a_rule_that_needs_a_baseline_says_so),
        cmocka_unit_test(sections_choose_models_and_documents),
        cmocka_unit_test(mistakes_name_line_and_character),
        cmocka_unit_test(deep_and_long_rules_are_refused),
        cmocka_unit_test(random_text_is_read_or_refused),
        cmocka_unit_test(unknown_names_are_refused_with_the_nearest),
        cmocka_unit_test(positions_that_rules_name_are_listed),
        cmocka_unit_test(two_values_of_one_fact_are_refused),
        cmocka_unit_test(failing_allocations_are_errors),
        cmocka_unit_test(lines_become_facts),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(bad_lines_name_file_and_line),
        cmocka_unit_test(names_are_those_of_the_documentation),
        cmocka_unit_test(the_example_of_the_documentation_is_read),
        cmocka_unit_test(the_rules_of_the_examples_are_read),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
