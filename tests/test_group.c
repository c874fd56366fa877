// Groups of permutations and word problems: closed forms, both multiplication orders, files good and
// bad.
#include "analyses/words/task.h"
#include "tests/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static group *named(const char *name) {
    err e = {0};
    group *g = group_named(name, &e);
    if (!g)
        fail_msg("%s: %s", name, e.text);
    return g;
}

static int order_of(const group *g, int a) {
    int n = 1;
    for (int x = a; x != g->identity; x = group_mul(g, x, a))
        n++;
    return n;
}

static void groups_have_their_sizes_and_element_orders(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int size, orders[8]; // elements of order 1, 2, 3 ...
    } known[] = {
        {"S3", 6, {1, 3, 2}},
        {"s4", 24, {1, 9, 8, 6}},
        {"S5", 120, {1, 25, 20, 30, 24, 20}},
        {"S6", 720, {0}},
        {"A4", 12, {1, 3, 8}},
        {"A5", 60, {1, 15, 20, 0, 24}},
        {"C6", 6, {1, 1, 2, 0, 0, 2}},
        {"D4", 8, {1, 5, 0, 2}},
        {"D2", 4, {1, 3}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        group *g = named(known[i].name);
        int orders[9] = {0};
        assert_int_equal(g->size, known[i].size);
        for (int a = 0; a < g->size; a++) {
            int n = order_of(g, a);
            if (n <= 8)
                orders[n - 1]++;
        }
        for (int n = 0; n < 8 && known[i].orders[0]; n++)
            assert_int_equal(orders[n], known[i].orders[n]);
        group_free(g);
    }
}

// (a.b)[i] = a[b[i]]: with a = (0 1), b = (1 2), a.b sends 2 to 0 and b.a sends 2 to 1.
static void b_acts_first(void **state) {
    (void)state;
    group *g = named("S3");
    int a = 2, b = 1; // 102 and 021
    assert_string_equal(g->label[a], "102");
    assert_string_equal(g->label[b], "021");
    assert_string_equal(g->label[group_mul(g, a, b)], "120");
    assert_string_equal(g->label[group_mul(g, b, a)], "201");
    group_free(g);
}

// Applied one after the other, the first one first, the swaps make the element; there are degree -
// cycles of them.
static void swaps_make_the_element(void **state) {
    (void)state;
    group *g = named("S5");
    for (int a = 0; a < g->size; a++) {
        int swaps[8][2], n = group_swaps(g, a, swaps);
        assert_true(n <= 4);
        assert_int_equal(n % 2 ? -1 : 1, group_sign(g, a));
        for (int i = 0; i < 5; i++) {
            int at = i;
            for (int j = 0; j < n; j++)
                at = at == swaps[j][0] ? swaps[j][1] : at == swaps[j][1] ? swaps[j][0] : at;
            assert_int_equal(at, group_perm(g, a)[i]);
        }
    }
    group_free(g);
}

static void no_such_group_is_a_usage_error(void **state) {
    (void)state;
    const char *bad[] = {"S7", "S1", "Q8", "", "S", "S4x", "D1", "C65", "-3", "S99999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err e = {0};
        assert_null(group_named(bad[i], &e));
        assert_int_equal(e.code, ERR_USAGE);
    }
}

// S3 words tell left from right: x = 102, 021 gives 021.102 = 201 on the left, 102.021 = 120 on the
// right.
static void both_orders_multiply(void **state) {
    (void)state;
    err e = {0};
    word_task *t = task_of_group(named("S3"), true, 1, &e);
    int s = t->start;
    s = t->next[s * 6 + 2];
    s = t->next[s * 6 + 1];
    assert_string_equal(t->state[s], "201");
    assert_true(task_set_order(t, false, &e));
    s = t->start;
    s = t->next[s * 6 + 2];
    s = t->next[s * 6 + 1];
    assert_string_equal(t->state[s], "120");
    task_free(t);
}

static void save(const char *path, const word_task *t) {
    json_t *j = task_json(t);
    assert_non_null(j);
    assert_int_equal(json_dump_file(j, path, 0), 0);
    json_decref(j);
}

static void files_come_back_as_they_were(void **state) {
    (void)state;
    err e = {0};
    word_task *list[] = {task_of_group(named("D5"), false, 2, &e), task_named("mod4-reset", &e),
                         task_named("five-state", &e)};
    for (int i = 0; i < 3; i++) {
        save(files_path("task.json"), list[i]);
        word_task *t = task_read(files_path("task.json"), &e);
        if (!t)
            fail_msg("%s", e.text);
        assert_string_equal(t->name, list[i]->name);
        assert_int_equal(t->n_inputs, list[i]->n_inputs);
        assert_int_equal(t->n_states, list[i]->n_states);
        assert_int_equal(t->n_prefix, list[i]->n_prefix);
        assert_int_equal(t->start, list[i]->start);
        assert_int_equal(t->left, list[i]->left);
        assert_memory_equal(t->prefix, list[i]->prefix, sizeof t->prefix);
        size_t n = (size_t)t->n_inputs * (size_t)t->n_states * sizeof *t->next;
        assert_memory_equal(t->next, list[i]->next, n);
        for (int k = 0; k < t->n_inputs; k++) {
            assert_int_equal(t->input_id[k], list[i]->input_id[k]);
            assert_string_equal(t->input[k], list[i]->input[k]);
        }
        for (int k = 0; k < t->n_states; k++)
            assert_int_equal(t->answer_id[k], list[i]->answer_id[k]);
        task_free(t);
        task_free(list[i]);
    }
}

static void refused(const char *text, const char *part) {
    err e = {0};
    files_text(files_path("bad.json"), text);
    word_task *t = task_read(files_path("bad.json"), &e);
    if (t || !strstr(e.text, part))
        fail_msg("%s: says \"%s\", should hold \"%s\"", text, t ? "nothing" : e.text, part);
    assert_int_equal(e.code, ERR_INPUT);
}

static void bad_files_are_named_with_what_is_wrong(void **state) {
    (void)state;
    refused("{}", "neither \"automaton\" nor \"group\"");
    refused("[]", "neither");
    refused("{\"group\": \"G\"}", "list of permutations");
    refused("{\"group\": \"G\", \"elements\": [[0, 1], [1, 1]], \"convention\": \"y_t = x_t . "
            "y_{t-1}\"}",
            "element 1 is no permutation");
    refused("{\"group\": \"G\", \"elements\": [[0, 1], [1, 2]]}", "no permutation");
    refused("{\"group\": \"G\", \"elements\": [[0, 1], [0]]}", "of one length");
    refused("{\"group\": \"G\", \"elements\": [[0, 1], [1, 0]]}", "convention");
    refused(
        "{\"group\": \"G\", \"elements\": [[0, 1, 2], [1, 2, 0]], \"convention\": \"y_t = x_t . "
        "y_{t-1}\"}",
        "the product of elements 1 and 1 is none");
    refused("{\"group\": \"G\", \"elements\": [[0, 1], [0, 1]], \"convention\": \"y_t = x_t . "
            "y_{t-1}\"}",
            "are the same");
    refused("{\"automaton\": \"a\"}", "\"tokens\"");
    refused("{\"automaton\": \"a\", \"tokens\": [\"x\", \"x\"]}", "stands there twice");
    refused("{\"automaton\": \"a\", \"tokens\": [\"x\"], \"states\": [\"p\"], \"start\": \"q\"}",
            "\"start\"");
    refused("{\"automaton\": \"a\", \"tokens\": [\"x\"], \"states\": [\"p\"], \"start\": \"p\"}",
            "state \"p\" and token \"x\"");
    refused("{\"automaton\": \"a\", \"tokens\": [\"x\"], \"states\": [\"p\"], \"start\": \"p\", "
            "\"next\": {\"p\": {\"x\": \"p\"}}, \"ids\": {\"x\": -1}}",
            "need a token id");
    refused("{\"automaton\": \"a\", \"tokens\": [\"x\"], \"states\": [\"p\"], \"start\": \"p\", "
            "\"next\": {\"p\": {\"x\": \"p\"}}, \"prefix\": [1,2,3,4,5,6,7,8,9]}",
            "at most 8");
}

static void trained_group_files_are_read(void **state) {
    (void)state;
    const char *path = files_shared("checkpoints/group-s4-nh2-l1");
    if (!path)
        skip();
    err e = {0};
    word_task *t = task_of_model(path, &e);
    assert_non_null(t);
    assert_string_equal(t->name, "S4");
    assert_int_equal(t->n_states, 24);
    assert_int_equal(t->prefix[0], 24);
    assert_int_equal(t->train_length, 128);
    assert_true(t->left && !t->theory);
    task_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_have_their_sizes_and_element_orders),
        cmocka_unit_test(b_acts_first),
        cmocka_unit_test(swaps_make_the_element),
        cmocka_unit_test(no_such_group_is_a_usage_error),
        cmocka_unit_test(both_orders_multiply),
        cmocka_unit_test(files_come_back_as_they_were),
        cmocka_unit_test(bad_files_are_named_with_what_is_wrong),
        cmocka_unit_test(trained_group_files_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
