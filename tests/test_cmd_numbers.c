// What is no number must not look like success: deltop loss, erank and spectrum, as users run them, on
// models whose weights are finite and whose pass overflows float32.
#include "core/npy.h"
#include "tests/files.h"
#include "tests/run.h"
#include "tests/tiny_model.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { T = 40, COMMANDS = 3 };

static const char *const command[COMMANDS] = {"loss", "erank", "spectrum"};
static const char *const array[COMMANDS] = {"loss.npy", "erank.npy", "eig.npy"};

// Weights become `value`: all of a tensor, or of one row of it (the embedding of one token).
typedef struct broken {
    const char *what, *family, *tensor, *precision;
    int row; // -1: all
    double value;
    const char *says[COMMANDS]; // on standard error; NULL: the command is done, exit code 0
} broken;

static const broken table[] = {
    {"a sound model", "delta_net", "lm_head.weight", "f32", 0, 0.5, {NULL, NULL, NULL}},
    // Squares of 1e38 are beyond float32: the norm's quotient was 0, and every loss ln(n_vocab).
    {"every embedding",
     "delta_net",
     "model.embeddings.weight",
     "f32",
     -1,
     1e38,
     {"m on ids: 39 of 39 losses are not finite", "160 states with NaN or infinity",
      "is not a finite number"}},
    {"every embedding, with room for squares",
     "delta_net",
     "model.embeddings.weight",
     "f64",
     -1,
     1e38,
     {NULL, NULL, NULL}},
    // Token 5 comes last: only its own state breaks, which no loss shows.
    {"the last token",
     "delta_net",
     "model.embeddings.weight",
     "f32",
     5,
     1e38,
     {"m on ids: row 0, position 40: the state of L0.H0 is not finite",
      "4 states with NaN or infinity", "is not a finite number"}},
    {"the last token, one decay a channel",
     "kda",
     "model.embeddings.weight",
     "f32",
     5,
     1e38,
     {"the state of L0.H0 is not finite", "4 states with NaN or infinity",
      "is not a finite number"}},
    // States are sound: what reads them is not.
    {"the head",
     "delta_net",
     "lm_head.weight",
     "f32",
     -1,
     3e38,
     {"losses are not finite", NULL, NULL}},
    {"one word of the head",
     "delta_net",
     "lm_head.weight",
     "f32",
     9,
     3e38,
     {"losses are not finite", NULL, NULL}},
    // Zero states have no rank; nothing was measured then. Losses and transitions are numbers.
    {"no values",
     "delta_net",
     "model.layers.#.attn.v_proj.weight",
     "f32",
     -1,
     0,
     {NULL, "every state is zero", NULL}},
    {"no values in one layer",
     "delta_net",
     "model.layers.0.attn.v_proj.weight",
     "f32",
     -1,
     0,
     {NULL, NULL, NULL}},
};

static void fill(const tiny_model *m, const broken *b) {
    for (int L = 0; L < m->s.L; L++) {
        char name[128];
        snprintf(name, sizeof name, "%s", b->tensor);
        char *layer = strchr(name, '#');
        if (layer)
            *layer = (char)('0' + L);
        tiny_tensor *t = tiny_get(m, "%s", name);
        int64_t width = t->n / t->dims[0];
        for (int64_t i = 0; i < t->n; i++)
            if (b->row < 0 || i / width == b->row)
                t->v[i] = (float)b->value;
    }
}

static bool holds_no_number(const char *path) {
    err e = {0};
    npy a;
    if (!npy_read(path, &a, &e))
        fail_msg("%s", e.text);
    bool found = false;
    for (int64_t i = 0; i < a.count; i++)
        found |= a.type == NPY_F8 && !isfinite(((double *)a.data)[i]);
    npy_free(&a);
    return found;
}

// 15, 100: the exit code, one line that says why, and results as documented: loss and erank write
// everything, spectrum nothing of this model.
static void a_command_whose_results_are_no_numbers_fails(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        const broken *b = &table[k];
        tiny_model *m = tiny_new(
            (tiny_spec){.family = b->family, .L = 2, .H = 2, .K = 8, .V = 8, .D = 16, .seed = 9});
        int32_t ids[T];
        uint64_t seed = 4;
        for (int i = 0; i < T; i++)
            ids[i] =
                i == T - 1 ? 5 : (int32_t)(6 + tiny_next(&seed) % (uint64_t)(m->s.n_vocab - 6));
        fill(m, b);
        char model[600], doc[600], out[600], file[700];
        snprintf(model, sizeof model, "%s", tiny_save(m, "m"));
        tiny_free(m);
        snprintf(doc, sizeof doc, "%s", files_path("ids.npy"));
        err e = {0};
        assert_true(npy_write(doc, NPY_I4, 1, (int64_t[]){T}, ids, &e));
        for (int c = 0; c < COMMANDS; c++) {
            snprintf(out, sizeof out, "%s", files_path("out-%s", command[c]));
            const char *argv[] = {command[c], model,   doc, "--precision", b->precision, "--device",
                                  "cpu",      "--out", out, "--json",      NULL};
            run r = {.argv = argv, .timeout = 60};
            assert_true(run_program(&r));
            printf("measured %s, %s: exit code %d %s", b->what, command[c], r.code,
                   r.n_err ? r.err : "\n");
            if (r.code != (b->says[c] ? 1 : 0))
                fail_msg("%s, %s: exit code %d: %s", b->what, command[c], r.code, r.err);
            bool written = !b->says[c] || c != 2;
            if (b->says[c])
                run_holds(r.err, b->says[c]);
            json_t *v = json_loads(r.out, 0, NULL);
            if (written != (v != NULL))
                fail_msg("%s, %s: standard output is \"%s\"", b->what, command[c], r.out);
            json_decref(v);
            snprintf(file, sizeof file, "%s/%s", out, array[c]);
            if (!written)
                assert_true(files_count(out) <= 0);
            else if (b->says[c] && !strstr(b->says[c], "the state of")) // which no loss shows
                assert_true(holds_no_number(file));
            else
                assert_true(files_count(out) >= 4);
            run_free(&r);
        }
        files_clear();
    }
}

// More rows than flags are kept, each with a state so large that it is flagged: the one state that is none, behind the last
// token of all, is found nevertheless.
static void a_broken_state_is_found_behind_flags(void **state) {
    (void)state;
    enum { ROWS = 20, LENGTH = 16 };
    tiny_model *m = tiny_load("examples/small-deltanet");
    tiny_tensor *t = tiny_get(m, "model.embeddings.weight"),
                *v = tiny_get(m, "model.layers.0.attn.v_proj.weight");
    const int32_t rare = (int32_t)t->dims[0] - 1;
    for (int64_t i = 0; i < t->dims[1]; i++)
        t->v[rare * t->dims[1] + i] = 1e25f;
    for (int64_t i = 0; i < v->n; i++)
        v->v[i] = 1e9f;
    int32_t ids[ROWS * LENGTH];
    uint64_t seed = 4;
    for (int i = 0; i < ROWS * LENGTH; i++)
        ids[i] = i == ROWS * LENGTH - 1 ? rare : (int32_t)(tiny_next(&seed) % (uint64_t)rare);
    char model[600], doc[600];
    snprintf(model, sizeof model, "%s", tiny_save(m, "m"));
    tiny_free(m);
    snprintf(doc, sizeof doc, "%s", files_path("ids.npy"));
    err e = {0};
    assert_true(npy_write(doc, NPY_I4, 1, (int64_t[]){ROWS * LENGTH}, ids, &e));
    const char *words[] = {model, doc, "--length", "16", "--rows", "20", "--device", "cpu", NULL};
    run r = run_command(1, 60, "loss", words);
    run_holds(r.err, "row 19, position 16: the state of L0.H");
    run_holds(r.out, "beyond 1e+06");
    run_free(&r);
}

// Among logits that are no numbers none is the likeliest: token 0 is not right, and not the same for long.
static void no_token_is_the_likeliest_without_numbers(void **state) {
    (void)state;
    enum { LONG = 300 };
    tiny_model *m = tiny_load("examples/small-deltanet");
    tiny_tensor *t = tiny_get(m, "model.embeddings.weight");
    for (int64_t i = 0; i < t->n; i++)
        t->v[i] = 1e38f;
    char model[600], doc[600];
    snprintf(model, sizeof model, "%s", tiny_save(m, "m"));
    tiny_free(m);
    snprintf(doc, sizeof doc, "%s", files_path("ids.npy"));
    int32_t ids[LONG] = {0};
    err e = {0};
    assert_true(npy_write(doc, NPY_I4, 1, (int64_t[]){LONG}, ids, &e));
    const char *words[] = {model, doc, "--device", "cpu", NULL};
    run r = run_command(1, 60, "loss", words);
    if (strstr(r.out, "likeliest token is"))
        fail_msg("%s", r.out);
    run_free(&r);
    const char *json[] = {model, doc, "--device", "cpu", "--json", NULL};
    r = run_command(1, 60, "loss", json);
    json_t *v = json_loads(r.out, 0, NULL),
           *right = json_object_get(json_array_get(json_object_get(v, "results"), 0), "accuracy");
    if (!json_is_number(right) || json_number_value(right) != 0)
        fail_msg("accuracy in %s", r.out);
    json_decref(v);
    run_free(&r);
    files_clear();
}

// Before its first token a state is zero, and nothing is wrong with that.
static void states_before_the_first_token_may_all_be_zero(void **state) {
    (void)state;
    const char *words[] = {"examples/small-deltanet",
                           "examples/text_kjv.txt",
                           "--length",
                           "1",
                           "--before",
                           "--device",
                           "cpu",
                           NULL};
    run r = run_command(0, 60, "erank", words);
    run_free(&r);
}

// What is sound beside it is written too, and the message names what is not.
static void other_models_are_read_and_the_broken_one_is_named(void **state) {
    (void)state;
    const broken all = table[1];
    tiny_model *m = tiny_new((tiny_spec){.family = "delta_net", .L = 2, .seed = 9});
    char good[600], bad[600], doc[600], out[600];
    snprintf(good, sizeof good, "%s", tiny_save(m, "good"));
    fill(m, &all);
    snprintf(bad, sizeof bad, "%s", tiny_save(m, "bad"));
    int32_t ids[T];
    uint64_t seed = 4;
    for (int i = 0; i < T; i++)
        ids[i] = (int32_t)(tiny_next(&seed) % (uint64_t)m->s.n_vocab);
    tiny_free(m);
    snprintf(doc, sizeof doc, "%s", files_path("ids.npy"));
    err e = {0};
    assert_true(npy_write(doc, NPY_I4, 1, (int64_t[]){T}, ids, &e));
    for (int c = 0; c < 2; c++) {
        snprintf(out, sizeof out, "%s", files_path("pair-%s", command[c]));
        const char *words[] = {bad, good, doc, "--device", "cpu", "--out", out, NULL};
        run r = run_command(1, 60, command[c], words);
        run_holds(r.err, "deltop: bad on ids: ");
        run_holds(r.out, "good on ids: ");
        assert_false(holds_no_number(files_path("pair-%s/good/ids/%s", command[c], array[c])));
        assert_true(holds_no_number(files_path("pair-%s/bad/ids/%s", command[c], array[c])));
        run_free(&r);
    }
}

// Windows and exponents are samples: a token that none of them holds is seen too, for one decay a channel
// without and with an erase factor (few of a long row's single tokens are evaluated), and for keys.
static void spectrum_sees_tokens_that_no_window_holds(void **state) {
    (void)state;
    const char *const folder[] = {"gla-ek05", "kda-gva-bounded", "deltaproduct2-odd-dims"};
    enum { LONG = 1500, AT = 1001 }; // odd: not one of every second token
    for (int k = 0; k < 3; k++)
        for (int broken = 0; broken < 2; broken++) {
            char from[100], model[600], doc[600];
            snprintf(from, sizeof from, "tests/cases/golden/%s", folder[k]);
            tiny_model *m = tiny_load(from);
            tiny_tensor *t = tiny_get(m, "model.embeddings.weight");
            int32_t ids[LONG], rare = (int32_t)t->dims[0] - 1;
            uint64_t seed = 4;
            for (int i = 0; i < LONG; i++)
                ids[i] = i == AT ? rare : (int32_t)(tiny_next(&seed) % (uint64_t)rare);
            for (int64_t i = 0; broken && i < t->dims[1]; i++)
                t->v[rare * t->dims[1] + i] = 1e38f;
            snprintf(model, sizeof model, "%s", tiny_save(m, "m"));
            tiny_free(m);
            snprintf(doc, sizeof doc, "%s", files_path("ids.npy"));
            err e = {0};
            assert_true(npy_write(doc, NPY_I4, 1, (int64_t[]){LONG}, ids, &e));
            const char *words[] = {model,      doc,        "--windows",   "1",          "--ends",
                                   "3",        "--layers", "0",           "--lyapunov", "0",
                                   "--device", "cpu",      "--precision", "f32",        NULL};
            run r = run_command(broken, 60, "spectrum", words);
            if (broken) {
                printf("measured %s: %s", folder[k], r.err);
                run_holds(r.err, "layer 0: head 0: transition of token 1001: ");
            }
            run_free(&r);
            if (broken) { // a window that holds it names it alike, though less than the row is kept for it
                words[3] = "64", words[5] = "1010";
                r = run_command(1, 60, "spectrum", words);
                printf("measured %s: %s", folder[k], r.err);
                run_holds(r.err,
                          "layer 0: head 0: window of 64 tokens: transition of token 1001: ");
                run_free(&r);
            }
            files_clear();
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_whose_results_are_no_numbers_fails),
        cmocka_unit_test(spectrum_sees_tokens_that_no_window_holds),
        cmocka_unit_test(a_broken_state_is_found_behind_flags),
        cmocka_unit_test(no_token_is_the_likeliest_without_numbers),
        cmocka_unit_test(states_before_the_first_token_may_all_be_zero),
        cmocka_unit_test(other_models_are_read_and_the_broken_one_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
