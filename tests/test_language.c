// Formal languages: every drawn expression is parsed again by a grammar of this file's own and
// evaluated; lengths, balance, and what a model that knows parity scores.
#include "analyses/theory/theory.h"
#include "analyses/words/language.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Recursive descent over the text: sum = product (+|- product)*, product = atom (* atom)*, atom =
// digit | ( sum ) | ( - sum ).
typedef struct parser {
    const char *s;
    int m;
} parser;

static int parse_sum(parser *p);

static int parse_atom(parser *p) {
    if (*p->s == '(') {
        p->s++;
        bool minus = *p->s == '-';
        p->s += minus;
        int v = parse_sum(p);
        assert_int_equal(*p->s, ')');
        p->s++;
        return minus ? (p->m - v) % p->m : v;
    }
    assert_true(*p->s >= '0' && *p->s <= '9');
    return *p->s++ - '0';
}

static int parse_product(parser *p) {
    int v = parse_atom(p);
    while (*p->s == '*') {
        p->s++;
        v = v * parse_atom(p) % p->m;
    }
    return v;
}

static int parse_sum(parser *p) {
    int v = parse_product(p);
    while (*p->s == '+' || *p->s == '-') {
        bool minus = *p->s++ == '-';
        int w = parse_product(p);
        v = (minus ? v - w + p->m : v + w) % p->m;
    }
    return v;
}

static void expressions_have_the_value_that_is_said(void **state) {
    (void)state;
    uint64_t seed = 1;
    int drawn = 0;
    for (int kind = LANGUAGE_ARITHMETIC; kind <= LANGUAGE_BRACKETS; kind++)
        for (int m = 2; m <= 7; m++)
            for (int length = 1; length <= 90; length++) {
                language l;
                int symbols[128], value, n;
                char text[256] = "";
                language_init(&l, (language_kind)kind, m);
                n = language_draw(&l, length, &seed, symbols, &value);
                for (int i = 0; i < n; i++) {
                    char one[8];
                    strcat(text, language_symbol(&l, symbols[i], one, sizeof one));
                }
                parser p = {text, m};
                if (parse_sum(&p) != value)
                    fail_msg("%s is not %d modulo %d", text, value, m);
                assert_string_equal(p.s, "=");
                // The next length that there is: odd ones, or all but 2, 3 and 6.
                int want = kind == LANGUAGE_ARITHMETIC  ? length + (length % 2 == 0)
                           : length == 2 || length == 3 ? 4
                           : length == 6                ? 7
                                                        : length;
                assert_int_equal(n, want + 1);
                drawn++;
            }
    printf("measured %d expressions parsed again: all values agree\n", drawn);
}

static void parity_counts_ones(void **state) {
    (void)state;
    uint64_t seed = 2;
    language l;
    language_init(&l, LANGUAGE_PARITY, 5);
    assert_int_equal(l.modulus, 2);
    for (int length = 1; length < 60; length++) {
        int bits[64], value, ones = 0;
        assert_int_equal(language_draw(&l, length, &seed, bits, &value), length);
        for (int i = 0; i < length; i++)
            ones += bits[i];
        assert_int_equal(value, ones % 2);
    }
}

static void scaled_accuracy_is_0_at_chance_and_1_at_best(void **state) {
    (void)state;
    assert_true(fabs(language_scaled(0.2, 0.2)) < 1e-15);
    assert_true(fabs(language_scaled(1, 0.2) - 1) < 1e-15);
    assert_true(fabs(language_scaled(0.6, 0.2) - 0.5) < 1e-15);
}

static void the_parity_construction_scores_1_and_another_model_nothing(void **state) {
    (void)state;
    err e = {0};
    theory_built b;
    language l;
    language_result r;
    files_mkdir(files_path("parity"));
    assert_true(theory_build("parity", &b, &e));
    assert_true(theory_write(&b, "parity", files_path("parity"), &e));
    backend *be = cpu_open(PRECISION_F32, 0, &e);
    model *m = model_open(files_path("parity"), be, &e);
    language_init(&l, LANGUAGE_PARITY, 2);
    memcpy(l.answer, b.task->answer_id, 2 * sizeof *l.answer);
    l.prefix[0] = b.task->prefix[0];
    assert_true(language_run(m, &l, 40, 256, 300, 1, 0, 0, NULL, NULL, &r, &e));
    assert_int_equal(r.right, 300);
    int64_t seen = 0;
    for (int n = 0; n < 40; n++)
        assert_int_equal(r.seen[n], 0);
    for (int n = 40; n <= 256; n++)
        seen += r.seen[n];
    assert_int_equal(seen, 300);
    language_free(&r);
    l.answer[0] = 2; // BOS
    l.answer[1] = 2;
    assert_true(language_run(m, &l, 5, 9, 50, 1, 0, 0, NULL, NULL, &r, &e));
    assert_int_equal(r.right, 0);
    language_free(&r);
    language_init(&l, LANGUAGE_BRACKETS, 5);
    assert_false(language_run(m, &l, 5, 9, 50, 1, 0, 0, NULL, NULL, &r, &e));
    files_assert_error_holds(&e, ERR_INPUT, "uses ids up to 11, but the embedding has 5 rows");
    theory_built_free(&b);
    model_free(m);
    backend_close(be);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_have_the_value_that_is_said),
        cmocka_unit_test(parity_counts_ones),
        cmocka_unit_test(scaled_accuracy_is_0_at_chance_and_1_at_best),
        cmocka_unit_test(the_parity_construction_scores_1_and_another_model_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
