// deltop explain from outside: what is printed at 80 columns, in UTF-8 and in ASCII, and as JSON.
#include "analyses/explain.h"
#include "tests/files.h"
#include "tests/run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *const utf8[] = {"LC_ALL=C.UTF-8", NULL};
static const char *const plain[] = {"LC_ALL=C", NULL};

static run start(const char *const *argv, const char *const *env) {
    run r = {.argv = argv, .env = env};
    if (!run_program(&r))
        fail_msg("%s: cannot be started (make deltop, or set DELTOP)", run_program_path());
    return r;
}

static void every_row_fits_80_columns_in_both_alphabets(void **state) {
    (void)state;
    for (size_t k = 0; k <= n_recurrences; k++)
        for (int ascii = 0; ascii < 2; ascii++) {
            const char *word = k < n_recurrences ? recurrences[k].id : "--table";
            run r = start(ARGS("explain", word), ascii ? plain : utf8);
            assert_int_equal(r.code, 0);
            assert_int_equal(r.n_err, 0);
            int columns = 0;
            for (size_t i = 0; i < r.n_out; i++) {
                unsigned char c = (unsigned char)r.out[i];
                if (ascii && c >= 0x80)
                    fail_msg("explain %s in ASCII holds byte %d:\n%s", word, c, r.out);
                columns = c == '\n' ? 0 : columns + ((c & 0xc0) != 0x80);
                if (columns > 80)
                    fail_msg("explain %s: a line is over 80 columns:\n%s", word, r.out);
            }
            run_free(&r);
        }
}

static void the_table_has_a_line_for_every_recurrence(void **state) {
    (void)state;
    run r = start(ARGS("explain", "--table"), utf8);
    run m = start(ARGS("explain", "--table", "--markdown"), plain);
    for (size_t k = 0; k < n_recurrences; k++) {
        char line[64];
        snprintf(line, sizeof line, "\n%s ", recurrences[k].name);
        assert_non_null(strstr(r.out, line));
        snprintf(line, sizeof line, "| %s | %s |", recurrences[k].id, recurrences[k].name);
        assert_non_null(strstr(m.out, line));
    }
    // Every row of the Markdown table has the ten cells of its head.
    for (const char *s = strstr(m.out, "| R01"); s && *s == '|'; s = strchr(s, '\n') + 1) {
        int bars = 0;
        for (const char *c = s; *c != '\n'; c++)
            bars += *c == '|';
        assert_int_equal(bars, 11);
    }
    run_free(&r);
    run_free(&m);
}

static void formulas_are_written_out_where_the_terminal_is_not_utf8(void **state) {
    (void)state;
    run r = start(ARGS("explain", "gdn"), plain), s = start(ARGS("explain", "gdn"), utf8);
    assert_non_null(strstr(r.out, "H <- (I - beta k k') alpha H + beta k v'"));
    assert_non_null(strstr(s.out, "H ← (I − β k kᵀ) α H + β k vᵀ"));
    run_free(&r);
    run_free(&s);
}

static void json_holds_the_figures_and_nothing_else(void **state) {
    (void)state;
    run r = start(ARGS("explain", "--table", "--json", "--draws", "64"), plain);
    json_error_t why;
    json_t *v = json_loadb(r.out, r.n_out, 0, &why);
    if (!v)
        fail_msg("no JSON: %s", why.text);
    const json_t *list = json_object_get(v, "recurrences");
    assert_int_equal(json_array_size(list), n_recurrences);
    for (size_t k = 0; k < n_recurrences; k++) {
        const json_t *row = json_array_get(list, k), *m = json_object_get(row, "measured");
        assert_string_equal(json_string_value(json_object_get(row, "id")), recurrences[k].id);
        assert_string_equal(json_string_value(json_object_get(row, "loss")), recurrences[k].loss);
        assert_int_equal(json_integer_value(json_object_get(m, "draws")), 64);
        const json_t *error = json_object_get(m, "gradient_error");
        assert_true(recurrences[k].loss_at ? json_is_real(error) : json_is_null(error));
    }
    json_decref(v);
    run_free(&r);
}

static void equal_seeds_give_equal_bytes_and_others_do_not(void **state) {
    (void)state;
    run a = start(ARGS("explain", "kda", "--seed", "3"), utf8);
    run b = start(ARGS("explain", "kda", "--seed", "3"), utf8);
    run c = start(ARGS("explain", "kda", "--seed", "4"), utf8);
    assert_string_equal(a.out, b.out);
    assert_string_not_equal(a.out, c.out);
    run_free(&a);
    run_free(&b);
    run_free(&c);
}

static void says(int code, const char *part, const char *const *argv) {
    run r = start(argv, plain);
    if (r.code != code || !strstr(r.err, part))
        fail_msg("code %d, says \"%s\", should be %d with \"%s\"", r.code, r.err, code, part);
    run_free(&r);
}

static void mistakes_name_what_would_be_right(void **state) {
    (void)state;
    says(2, "the nearest is gated_deltanet", ARGS("explain", "gated_deltanett"));
    says(2, "FAMILY: no such family or recurrence (deltop", ARGS("explain", "FAMILY"));
    says(2, "name a family", ARGS("explain"));
    says(2, "leave kda away", ARGS("explain", "kda", "--table"));
    says(1, "RWKV-4", ARGS("explain", "rwkv"));
}

static void a_model_stands_for_its_model_type(void **state) {
    (void)state;
    files_mkdir(files_path("m"));
    files_text(files_path("m/config.json"), "{\"model_type\": \"kda\"}");
    run r = start(ARGS("explain", files_path("m")), plain);
    assert_int_equal(r.code, 0);
    assert_memory_equal(r.out, "KDA ", 4);
    run_free(&r);
    files_text(files_path("m/config.json"), "{\"model_type\": \"gpt2\"}");
    says(1, "no recurrence is known for its model_type \"gpt2\"", ARGS("explain", files_path("m")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_fits_80_columns_in_both_alphabets),
        cmocka_unit_test(the_table_has_a_line_for_every_recurrence),
        cmocka_unit_test(formulas_are_written_out_where_the_terminal_is_not_utf8),
        cmocka_unit_test(json_holds_the_figures_and_nothing_else),
        cmocka_unit_test(equal_seeds_give_equal_bytes_and_others_do_not),
        cmocka_unit_test(mistakes_name_what_would_be_right),
        cmocka_unit_test(a_model_stands_for_its_model_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
