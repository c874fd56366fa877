// deltop loss as users run it: rows, files, JSON, text, notes, exit codes. Uses examples/.
#include "core/npy.h"
#include "tests/files.h"
#include "tests/run.h"
#include "tests/tiny_model.h"
#include "tests/worst.h"

#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL "examples/small-deltanet" // 2048 words, BOS 1, trained at 512
#define OTHER "examples/small-deltaproduct2"
#define TEXT  "examples/text_kjv.txt"

enum { MAX_WORDS = 24 };

// Runs "loss" with the words, NULL at the end, and expects the exit code.
static run loss_of(int code, const char *input, const char *const *words) {
    const char *argv[MAX_WORDS + 2] = {"loss"};
    run r = {.argv = argv, .timeout = 120, .input = input, .n_input = input ? strlen(input) : 0};
    for (int i = 0; words[i] && i < MAX_WORDS; i++)
        argv[i + 1] = words[i];
    assert_true(run_program(&r));
    r.argv = NULL;
    if (r.code != code)
        fail_msg("exit code %d, not %d: %s", r.code, code, r.err);
    return r;
}

#define WORDS(...)         ((const char *const[]){__VA_ARGS__, NULL})
#define LOSS(...)          loss_of(0, NULL, WORDS(__VA_ARGS__))
#define LOSS_FAILS(c, ...) loss_of(c, NULL, WORDS(__VA_ARGS__))

static void refused(run r, const char *part) {
    run_holds(r.err, part);
    assert_null(strstr(r.out, "nan"));
    run_free(&r);
}

// The JSON value that a run printed; its one (i-th) result.
static json_t *value_of(run *r) {
    json_error_t why;
    json_t *v = json_loads(r->out, 0, &why);
    if (!v)
        fail_msg("%s in %s", why.text, r->out);
    run_free(r);
    return v;
}

static const json_t *result(const json_t *v, size_t i) {
    const json_t *r = json_array_get(json_object_get(v, "results"), i);
    assert_non_null(r);
    return r;
}

static double number(const json_t *v, const char *key) {
    const json_t *x = json_object_get(v, key);
    if (!json_is_number(x))
        fail_msg("%s is not a number", key);
    return json_number_value(x);
}

static double reading(const json_t *one, const char *key) {
    return number(json_object_get(one, "reading"), key);
}

static npy array(const char *path, int64_t rows, int64_t n) {
    err e = {0};
    npy a;
    if (!npy_read(path, &a, &e))
        fail_msg("%s", e.text);
    assert_int_equal(a.type, NPY_F8);
    assert_int_equal(a.rank, 2);
    assert_int_equal(a.dims[0], rows);
    assert_int_equal(a.dims[1], n);
    return a;
}

static double mean(const double *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

// A document of ids, pseudo-random and no special ones.
static const char *ids_file(const char *name, int64_t rows, int64_t T, uint64_t seed,
                            int32_t *keep) {
    err e = {0};
    const char *path = files_path("%s", name);
    int32_t *ids = malloc((size_t)(rows * T + 1) * sizeof *ids);
    for (int64_t i = 0; i < rows * T; i++)
        ids[i] = (int32_t)(3 + tiny_next(&seed) % 2000);
    if (keep)
        memcpy(ids, keep, (size_t)(rows * T) * sizeof *ids);
    int64_t dims[] = {rows, T};
    if (!npy_write(path, NPY_I4, rows > 1 ? 2 : 1, rows > 1 ? dims : dims + 1, ids, &e))
        fail_msg("%s", e.text);
    free(ids);
    return path;
}

// B82: first, while no other child has raised the peak. 2048 tokens x 248,320 words of float32 are
// 1.9 GB; blocks keep a fraction of them at a time.
static void B82_a_large_vocabulary_is_read_blockwise(void **state) {
    (void)state;
    enum { WORDS_KNOWN = 248320, T = 2048 };
    tiny_model *t = tiny_new((tiny_spec){.family = "delta_net",
                                         .D = 8,
                                         .L = 1,
                                         .H = 1,
                                         .K = 4,
                                         .V = 8,
                                         .tied = true,
                                         .n_vocab = WORDS_KNOWN,
                                         .seed = 80});
    run r = LOSS(tiny_save(t, "large"), ids_file("large.npy", 1, T, 1, NULL), "--json");
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    double peak = (double)used.ru_maxrss / 1024;
    printf("measured %d tokens x %d words: peak %.0f MB (all logits: %.0f MB)\n", T, WORDS_KNOWN,
           peak, T * (double)WORDS_KNOWN * 4 / 1048576);
    assert_true(peak < 800); // a sanitizer's shadow included
    json_t *v = value_of(&r);
    assert_true(number(result(v, 0), "scored") == T - 1);
    assert_true(fabs(number(result(v, 0), "mean") - log(WORDS_KNOWN)) < 3); // knows nothing
    json_decref(v);
    tiny_free(t);
}

// B78: token count, first scored position, mean in nats; JSON and array say the same.
static void B78_json_and_array_agree_and_count_what_was_scored(void **state) {
    (void)state;
    const char *out = files_path("rows");
    run r = LOSS(MODEL, TEXT, "--length", "700", "--rows", "3", "--json", "--out", out);
    json_t *v = value_of(&r);
    npy a = array(files_path("rows/loss.npy"), 3, 699);
    const double *x = a.data;
    const json_t *one = result(v, 0), *list = json_object_get(one, "stretches");
    assert_true(number(one, "scored") == 3 * 699);
    assert_true(number(one, "first_scored") == 1);
    assert_true(fabs(number(one, "mean") - mean(x, a.count)) < 1e-12);
    assert_true(fabs(number(one, "total_ppl") - exp(mean(x, a.count))) < 1e-9);
    assert_true(number(one, "mean_lo") < number(one, "mean"));
    assert_true(number(one, "mean_hi") > number(one, "mean"));
    assert_true(number(one, "accuracy") > 0.1 && number(one, "accuracy") < 0.9);
    assert_int_equal(json_array_size(list), 2);
    double second = 0, before = 0, beyond = 0;
    for (int row = 0; row < 3; row++) {
        second += mean(x + row * 699 + 512, 187) / 3;
        before += mean(x + row * 699 + 256, 256) / 3;
        beyond += mean(x + row * 699 + 512, 187) / 3;
    }
    const json_t *s = json_array_get(list, 1);
    assert_true(number(s, "from") == 512 && number(s, "to") == 699 && number(s, "rows") == 3);
    assert_true(fabs(number(s, "mean") - second) < 1e-12);
    assert_true(fabs(number(s, "block_ppl") - exp(second)) < 1e-9);
    assert_true(fabs(number(one, "extrapolation") - (beyond - before)) < 1e-12);
    assert_true(reading(one, "train_length") == 512);
    assert_int_equal(json_array_size(json_object_get(v, "files")), 4);
    const char *const files[] = {"rows/loss.npy", "rows/loss.png", "rows/loss.csv",
                                 "rows/loss.json"};
    for (int i = 0; i < 4; i++)
        assert_int_equal(access(files_path("%s", files[i]), R_OK), 0);
    npy_free(&a);
    json_decref(v);
}

// B78: how a run is cut into blocks, and rows into calls, changes neither count nor total.
static void B78_two_splits_give_the_same_total(void **state) {
    (void)state;
    double first = NAN;
    const char *const blocks[] = {"1", "7", "64", "512"};
    for (int i = 0; i < 4; i++) {
        run r = LOSS(MODEL, TEXT, "--length", "700", "--block", blocks[i], "--json");
        json_t *v = value_of(&r);
        double total = number(result(v, 0), "mean") * number(result(v, 0), "scored");
        first = i ? first : total;
        assert_true(fabs(total - first) < 699 * 1e-5); // float32 sums in another order
        json_decref(v);
    }
    int32_t ids[800];
    uint64_t seed = 2;
    for (int i = 0; i < 800; i++)
        ids[i] = (int32_t)(3 + tiny_next(&seed) % 2000);
    const char *whole = ids_file("whole.npy", 1, 800, 0, ids),
               *a = ids_file("a.npy", 1, 400, 0, ids), *b = ids_file("b.npy", 1, 400, 0, ids + 400);
    run r = LOSS(MODEL, whole, "--length", "400", "--rows", "2", "--json"),
        s = LOSS(MODEL, a, b, "--json");
    json_t *v = value_of(&r), *w = value_of(&s);
    double rows = number(result(v, 0), "mean"),
           files = (number(result(w, 0), "mean") + number(result(w, 1), "mean")) / 2;
    assert_true(fabs(rows - files) < 1e-12);
    json_decref(v);
    json_decref(w);
}

// B79: nothing of one document reaches the next, and every document has its final line.
static void B79_two_files_in_one_call_equal_two_calls(void **state) {
    (void)state;
    const char *a = ids_file("a.npy", 1, 600, 3, NULL), *b = ids_file("b.npy", 1, 600, 4, NULL);
    run both = LOSS(MODEL, a, b, "--json"), first = LOSS(MODEL, a, "--json"),
        second = LOSS(MODEL, b, "--json");
    json_t *v = value_of(&both), *x = value_of(&first), *y = value_of(&second);
    assert_int_equal(json_array_size(json_object_get(v, "results")), 2);
    assert_true(json_equal(result(v, 0), result(x, 0)));
    assert_true(json_equal(result(v, 1), result(y, 0)));
    json_decref(v);
    json_decref(x);
    json_decref(y);
    run r = LOSS(MODEL, a, b);
    run_holds(r.out, "small-deltanet on a: 599 tokens scored in 1 row of 600");
    const char *at = strstr(r.out, "small-deltanet on b: 599 tokens scored in 1 row of 600");
    assert_non_null(at);
    run_holds(at, "mean ");
    run_holds(at, "total perplexity ");
    run_free(&r);
}

// B80: running, block and total perplexity have names of their own.
static void B80_three_perplexities_have_three_names(void **state) {
    (void)state;
    run r = LOSS(MODEL, TEXT, "--length", "1k", "--out", files_path("ppl"));
    run_holds(r.out, "total perplexity ");
    run_holds(r.out, "block ppl");
    run_free(&r);
    size_t n = 0;
    char *csv = files_read(files_path("ppl/loss.csv"), &n);
    run_holds(csv, "\"small-deltanet, block\"");
    run_holds(csv, "loss (nats/token)");
    run_holds(csv, "figure,series,position (tokens),running and block perplexity "
                   "(1)\nperplexity,\"small-deltanet, running\",1,");
    free(csv);
    char *json = files_read(files_path("ppl/loss.json"), &n);
    run_holds(json, "\"total_ppl\"");
    run_holds(json, "\"block_ppl\"");
    run_holds(json, "\"rows\"");
    free(json);
}

// B126: one row of 100 out of 1,000 tokens scores 99, and says so.
static void B126_a_cut_document_divides_by_what_was_scored(void **state) {
    (void)state;
    const char *doc = ids_file("thousand.npy", 1, 1000, 5, NULL);
    run r = LOSS(MODEL, doc, "--length", "100", "--rows", "1");
    run_holds(r.out, "99 tokens scored in 1 row of 100");
    run_holds(r.out, "900 tokens after the last row unread");
    run_free(&r);
    r = LOSS(MODEL, doc, "--length", "100", "--rows", "1", "--json", "--out", files_path("cut"));
    json_t *v = value_of(&r);
    npy a = array(files_path("cut/loss.npy"), 1, 99);
    assert_true(number(result(v, 0), "scored") == 99);
    assert_true(fabs(number(result(v, 0), "mean") - mean(a.data, 99)) < 1e-12);
    assert_true(reading(result(v, 0), "tokens") == 1000);
    assert_true(reading(result(v, 0), "tokens_unread") == 900);
    npy_free(&a);
    json_decref(v);
}

// B127: rows from a zero state and one row of everything are told apart, and the context that rows
// drop is counted.
static void B127_rows_and_one_long_row_are_named_and_dropped_context_is_counted(void **state) {
    (void)state;
    const char *doc = ids_file("thousand.npy", 1, 1000, 5, NULL);
    run r = LOSS(MODEL, doc, "--length", "300", "--rows", "0", "--json"),
        s = LOSS(MODEL, doc, "--json");
    json_t *v = value_of(&r), *w = value_of(&s);
    const json_t *rows = result(v, 0), *whole = result(w, 0);
    assert_true(reading(rows, "rows") == 3 && reading(rows, "row_tokens") == 300);
    assert_true(reading(rows, "tokens_unread") == 100);
    assert_true(reading(rows, "state_resets") == 2 && reading(rows, "context_dropped") == 600);
    assert_true(number(rows, "scored") == 3 * 299);
    assert_true(reading(whole, "rows") == 1 && reading(whole, "row_tokens") == 1000);
    assert_true(reading(whole, "state_resets") == 0 && reading(whole, "context_dropped") == 0);
    const char *state_is =
        json_string_value(json_object_get(json_object_get(whole, "reading"), "state"));
    assert_string_equal(state_is, "each row from a zero state, carried through it");
    json_decref(v);
    json_decref(w);
    r = LOSS(MODEL, doc, "--length", "300", "--rows", "0");
    run_holds(r.out, "state emptied 2 times: 600 tokens of context dropped");
    run_free(&r);
}

// B121: with --reset-at-bos the first of two documents may be any other of its length.
static void B121_reset_at_bos_keeps_documents_apart(void **state) {
    (void)state;
    enum { T = 90 };
    int32_t ids[2 * T];
    npy got[2][2];
    for (int k = 0; k < 2; k++) {
        uint64_t seed = 6;
        for (int i = 0; i < 2 * T; i++)
            ids[i] = (int32_t)(3 + tiny_next(&seed) % 2000);
        for (int i = 0; k && i < T; i++)
            ids[i] = ids[i] % 1000 + 7;
        const char *doc = ids_file("two.npy", 2, T, 0, ids);
        for (int reset = 0; reset < 2; reset++) {
            const char *out = files_path("b121-%d-%d", k, reset);
            run r = LOSS(MODEL, doc, "--json", "--out", out, reset ? "--reset-at-bos" : NULL);
            json_t *v = value_of(&r);
            assert_true(reading(result(v, 0), "state_resets") == reset);
            assert_true(reading(result(v, 0), "context_dropped") == reset * T);
            json_decref(v);
            got[k][reset] = array(files_path("b121-%d-%d/loss.npy", k, reset), 1, 2 * T - 1);
        }
    }
    // Loss T - 1 is the second document's first token, which the first one foretells.
    const double *with = (double *)got[0][1].data + T, *other = (double *)got[1][1].data + T;
    assert_memory_equal(with, other, (T - 1) * sizeof *with);
    double apart = 0;
    for (int i = T; i < 2 * T - 1; i++)
        apart = worse(apart, fabs(((double *)got[0][0].data)[i] - ((double *)got[1][0].data)[i]));
    assert_true(apart > 1e-3);
    for (int i = 0; i < 4; i++)
        npy_free(&got[i / 2][i % 2]);
}

// B121: the BOS id inside a row empties the state too; without the option it is a token like others.
static void B121_a_bos_inside_a_row_is_a_reset_only_when_asked_for(void **state) {
    (void)state;
    enum { T = 100, AT = 40 };
    int32_t ids[T];
    uint64_t seed = 7;
    for (int i = 0; i < T; i++)
        ids[i] = (int32_t)(3 + tiny_next(&seed) % 2000);
    ids[AT] = 1;
    const char *whole = ids_file("bos.npy", 1, T, 0, ids),
               *tail = ids_file("tail.npy", 1, T - AT, 0, ids + AT);
    run r = LOSS(MODEL, whole, "--reset-at-bos", "--json", "--out", files_path("w"));
    json_t *v = value_of(&r);
    assert_true(reading(result(v, 0), "state_resets") == 1);
    assert_true(reading(result(v, 0), "context_dropped") == AT);
    run_holds(json_string_value(json_object_get(json_object_get(result(v, 0), "reading"), "state")),
              "emptied at document starts");
    json_decref(v);
    r = LOSS(MODEL, tail, "--out", files_path("t"));
    run_free(&r);
    npy a = array(files_path("w/loss.npy"), 1, T - 1),
        b = array(files_path("t/loss.npy"), 1, T - AT - 1);
    for (int i = 0; i < T - AT - 1; i++) // other blocks, other order of sums
        assert_true(fabs(((double *)a.data)[AT + i] - ((double *)b.data)[i]) < 1e-5);
    npy_free(&a);
    npy_free(&b);
    // Resets in several rows are cut to their rows: row 0 has the BOS, row 1 none.
    r = LOSS(MODEL, whole, "--length", "50", "--rows", "2", "--reset-at-bos", "--json");
    v = value_of(&r);
    assert_true(reading(result(v, 0), "state_resets") == 2);
    assert_true(reading(result(v, 0), "context_dropped") == 50);
    json_decref(v);
}

// B74: BOS 1; BOS 0 which is EOS too; no BOS at all.
static void B74_the_ids_that_were_added_are_said(void **state) {
    (void)state;
    run r = LOSS(MODEL, TEXT, "--length", "50");
    assert_null(strstr(r.out, "ids that the text does not hold"));
    run_free(&r);
    r = LOSS(MODEL, TEXT, "--length", "50", "--add-bos");
    run_holds(r.out, "ids that the text does not hold: id 1 in front of 1 document");
    run_free(&r);
    r = LOSS(MODEL, TEXT, "--length", "50", "--add-bos", "--json");
    json_t *v = value_of(&r);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(result(v, 0), "reading"), "added")),
        "id 1 in front of 1 document");
    json_decref(v);
    const char *doc = NULL;
    for (int bos = -1; bos < 1; bos++) {
        tiny_model *t = tiny_new((tiny_spec){.family = "delta_net", .n_vocab = 40, .seed = 1});
        tiny_set(t, "bos_token_id", bos < 0 ? json_null() : json_integer(bos));
        tiny_set(t, "eos_token_id", json_integer(0));
        const char *m = tiny_save(t, bos < 0 ? "no-bos" : "bos0");
        int32_t ids[20];
        for (int i = 0; i < 20; i++)
            ids[i] = 1 + i;
        doc = ids_file("few.npy", 1, 20, 0, ids);
        if (bos < 0) {
            refused(LOSS_FAILS(1, m, doc, "--add-bos"),
                    "neither the tokenizer nor the config names a begin-of-text token, which "
                    "--add-bos and --reset-at-bos need");
            refused(LOSS_FAILS(1, m, doc, "--reset-at-bos"), "begin-of-text token");
            // A tokenizer beside the weights is asked, though ids need none.
            size_t n = 0;
            char *tokenizer = files_read(MODEL "/tokenizer.json", &n);
            files_write(files_path("no-bos/tokenizer.json"), tokenizer, n);
            free(tokenizer);
            files_text(files_path("no-bos/tokenizer_config.json"), "{\"bos_token\":\"<|bos|>\"}");
            r = LOSS(m, doc, "--reset-at-bos", "--json"); // its 1 is the first id of the document
            json_t *v1 = value_of(&r);
            assert_true(reading(result(v1, 0), "state_resets") == 0);
            json_decref(v1);
            r = LOSS(m, doc, "--add-bos");
            run_holds(r.out, "19 tokens scored in 1 row of 20"); // it is there already
            run_free(&r);
        } else {
            r = LOSS(m, doc, "--add-bos");
            run_holds(r.out, "20 tokens scored in 1 row of 21");
            run_holds(r.out, "id 0 in front of 1 document");
            run_free(&r);
        }
        tiny_free(t);
    }
}

// B44: short rows; B45: an empty document alone, and between two.
static void B44_short_and_B45_empty_documents(void **state) {
    (void)state;
    const int sizes[] = {2, 3, 4, 7, 8};
    for (int i = 0; i < 5; i++) {
        run r = LOSS(MODEL, ids_file("s.npy", 1, sizes[i], 8, NULL), "--json");
        json_t *v = value_of(&r);
        assert_true(number(result(v, 0), "scored") == sizes[i] - 1);
        assert_true(isfinite(number(result(v, 0), "mean")));
        assert_true(json_is_null(json_object_get(result(v, 0), "extrapolation")));
        json_decref(v);
    }
    refused(LOSS_FAILS(1, MODEL, ids_file("s.npy", 1, 1, 8, NULL)),
            "s.npy: a row of 1 token, at least 2 are needed");
    const char *empty = files_path("empty.txt"), *a = ids_file("a.npy", 1, 30, 8, NULL);
    files_text(empty, "");
    refused(LOSS_FAILS(1, MODEL, empty), "empty.txt: a row of 0 tokens, at least 2 are needed");
    refused(LOSS_FAILS(1, MODEL, a, empty, a), "empty.txt: a row of 0 tokens");
    // In one file an empty document is no document at all.
    const char *three = files_path("three.jsonl"), *two = files_path("two.jsonl");
    files_text(three,
               "{\"text\":\"In the beginning\"}\n{\"text\":\"\"}\n{\"text\":\"God created\"}\n");
    files_text(two, "{\"text\":\"In the beginning\"}\n{\"text\":\"God created\"}\n");
    run r = LOSS(MODEL, three, "--reset-at-bos", "--json"),
        s = LOSS(MODEL, two, "--reset-at-bos", "--json");
    json_t *v = value_of(&r), *w = value_of(&s);
    assert_true(number(result(v, 0), "mean") == number(result(w, 0), "mean"));
    assert_true(reading(result(v, 0), "state_resets") == 1);
    assert_true(reading(result(w, 0), "state_resets") == 1);
    json_decref(v);
    json_decref(w);
}

// The same text as a file, as one line of JSON, as ids and through a pipe that two models read.
static void every_form_of_a_document_has_the_same_losses(void **state) {
    (void)state;
    const char *text = "In the beginning God created the heaven and the earth.";
    const char *file = files_path("gen.txt"), *line = files_path("gen.jsonl");
    char json[256];
    files_text(file, text);
    snprintf(json, sizeof json, "{\"id\":3,\"text\":\"%s\"}\n", text);
    files_text(line, json);
    const char *argv[] = {"tokens", MODEL, file, "--out", files_path("ids"), NULL};
    run t = {.argv = argv};
    assert_true(run_program(&t));
    assert_int_equal(t.code, 0);
    run_free(&t);
    run r = LOSS(MODEL, OTHER, file, "--json");
    json_t *want = value_of(&r);
    const char *const forms[] = {line, files_path("ids/ids.npy"), "-"};
    for (int i = 0; i < 3; i++) {
        r = loss_of(0, text, WORDS(MODEL, OTHER, forms[i], "--json"));
        json_t *v = value_of(&r);
        for (size_t m = 0; m < 2; m++) {
            assert_true(number(result(v, m), "mean") == number(result(want, m), "mean"));
            assert_true(number(result(v, m), "scored") == number(result(want, m), "scored"));
        }
        if (i == 2) { // the digest is of the bytes, however they came
            assert_string_equal(json_string_value(json_object_get(result(v, 1), "document")),
                                "stdin");
            assert_string_equal(json_string_value(json_object_get(
                                    json_object_get(result(v, 1), "reading"), "sha256")),
                                json_string_value(json_object_get(
                                    json_object_get(result(want, 0), "reading"), "sha256")));
        }
        json_decref(v);
    }
    json_decref(want);
}

static void several_models_and_documents_have_their_folders_and_one_picture(void **state) {
    (void)state;
    const char *a = ids_file("a.npy", 1, 80, 3, NULL), *b = ids_file("b.npy", 1, 60, 4, NULL);
    run r = LOSS(MODEL, a, OTHER, b, "--out", files_path("grid"));
    const char *const names[] = {"small-deltanet/a", "small-deltanet/b", "small-deltaproduct2/a",
                                 "small-deltaproduct2/b"};
    for (int i = 0; i < 4; i++) {
        npy x = array(files_path("grid/%s/loss.npy", names[i]), 1, i % 2 ? 59 : 79);
        npy_free(&x);
        run_holds(r.out, names[i]);
    }
    run_holds(r.out, "loss.png");
    run_free(&r);
    size_t n = 0;
    char *csv = files_read(files_path("grid/loss.csv"), &n);
    const char *const lines[] = {"\nloss,small-deltanet,", "\nloss,small-deltaproduct2,",
                                 "\nloss-2,small-deltanet,", "\ndifference,small-deltaproduct2,",
                                 "\nperplexity-2,\"small-deltaproduct2, block\","};
    for (int i = 0; i < 5; i++)
        run_holds(csv, lines[i]);
    free(csv);
    assert_int_equal(files_count(files_path("grid")), 5);
}

// B124: what a person should look at is said in text and in JSON.
static void B124_flags_reach_the_reader(void **state) {
    (void)state;
    enum { T = 900 };
    int32_t ids[T];
    uint64_t seed = 9;
    for (int i = 0; i < T; i++)
        ids[i] = i < 500 ? 300 : (int32_t)(3 + tiny_next(&seed) % 2000);
    const char *doc = ids_file("loop.npy", 1, T, 0, ids);
    run r = LOSS(MODEL, doc);
    run_holds(r.out, "flag: row 0, position ");
    run_holds(r.out, "the likeliest token is 300 for 256 tokens on end");
    run_holds(r.out, "the mean of 64 losses jumps by ");
    run_free(&r);
    r = LOSS(MODEL, doc, "--json", "--jump", "900");
    json_t *v = value_of(&r);
    const json_t *flags = json_object_get(result(v, 0), "flags");
    assert_int_equal(json_array_size(flags), 1);
    assert_true(number(json_array_get(flags, 0), "row") == 0);
    json_decref(v);
}

// B87: bytes of a path that are no text, quotes and line ends leave the JSON whole.
static void B87_a_hostile_path_leaves_the_json_whole(void **state) {
    (void)state;
    char here[1024];
    assert_non_null(getcwd(here, sizeof here));
    char target[1200];
    snprintf(target, sizeof target, "%s/%s", here, MODEL);
    const char *odd = files_path("qu\"ote\n\xff\\end");
    if (symlink(target, odd) != 0) {
        printf("SKIP: this file system refuses such names\n");
        skip();
    }
    run r = LOSS(odd, TEXT, "--length", "20", "--json", "--out", files_path("odd"));
    json_t *v = value_of(&r);
    assert_non_null(json_object_get(result(v, 0), "model"));
    json_decref(v);
    json_error_t why;
    v = json_load_file(files_path("odd/loss.json"), 0, &why);
    assert_non_null(v);
    json_decref(v);
}

// B90: a locale with a decimal comma changes no byte of text, JSON or CSV, and options keep the point.
static void B90_a_comma_locale_changes_nothing(void **state) {
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        printf("SKIP: no locale de_DE.UTF-8 on this machine\n");
        skip();
    }
    setlocale(LC_ALL, "C");
    char *text[2], *csv[2];
    size_t n = 0;
    for (int i = 0; i < 2; i++) {
        const char *out = files_path("locale");
        const char *argv[] = {"loss",  MODEL, TEXT,     "--length", "40",
                              "--out", out,   "--jump", "0.5",      NULL};
        const char *const env[] = {i ? "LC_ALL=de_DE.UTF-8" : "LC_ALL=C", NULL};
        run r = {.argv = argv, .env = env, .timeout = 60};
        assert_true(run_program(&r));
        assert_int_equal(r.code, 0);
        text[i] = strdup(r.out);
        csv[i] = files_read(files_path("locale/loss.csv"), &n);
        run_free(&r);
    }
    assert_string_equal(text[0], text[1]);
    assert_string_equal(csv[0], csv[1]);
    for (int i = 0; i < 2; i++) {
        free(text[i]);
        free(csv[i]);
    }
}

static void what_was_cut_or_odd_is_noted_on_standard_error(void **state) {
    (void)state;
    const char *doc = ids_file("short.npy", 1, 100, 5, NULL), *bad = files_path("bad.txt");
    run r = LOSS(MODEL, doc, "--length", "1k", "--json");
    run_holds(r.err, "short.npy has 100 tokens, fewer than --length 1024: one row of 100");
    json_t *v = value_of(&r); // and the note is not in the JSON
    json_decref(v);
    r = LOSS(MODEL, doc, "--length", "40", "--rows", "5");
    run_holds(r.err, "2 whole rows of 40 tokens, fewer than --rows 5");
    run_holds(r.out, "78 tokens scored in 2 rows of 40");
    run_free(&r);
    files_text(bad, "In the \xff beginning \xe6\xad");
    r = LOSS(MODEL, bad, "--json");
    run_holds(r.err, "2 parts that are no UTF-8, read as U+FFFD");
    v = value_of(&r);
    assert_true(reading(result(v, 0), "invalid_utf8") == 2);
    json_decref(v);
    tiny_model *t = tiny_new((tiny_spec){.family = "delta_net", .n_vocab = 40, .seed = 1});
    int64_t one = 1;
    tiny_add(t, "model.layers.0.attn.spare", 1, &one)->v[0] = 0;
    int32_t ids[20];
    for (int i = 0; i < 20; i++)
        ids[i] = i;
    r = LOSS(tiny_save(t, "spare"), ids_file("few.npy", 1, 20, 0, ids));
    run_holds(r.err, "1 tensor that nothing reads (model.layers.0.attn.spare)");
    run_free(&r);
    // B77: an id beyond the embedding
    ids[7] = 40;
    refused(LOSS_FAILS(1, files_path("spare"), ids_file("few.npy", 1, 20, 0, ids)), "40");
    tiny_free(t);
}

static void mistakes_have_their_exit_codes_and_sentences(void **state) {
    (void)state;
    const struct {
        int code;
        const char *option, *value, *says;
    } cases[] = {
        {2, "--smooth", "0", "--smooth"},       {2, "--jump", "0", "--jump"},
        {2, "--jump", "nan", "--jump"},         {2, "--resamples", "-1", "--resamples"},
        {2, "--length", "none", "--length"},    {2, "--layers", "1", "--layers"},
        {3, "--device", "cuda", "device cuda"}, {2, "--precision", "bf16", "needs a GPU"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(LOSS_FAILS(cases[i].code, MODEL, TEXT, "--length", "64", cases[i].option,
                           cases[i].value),
                cases[i].says);
    refused(LOSS_FAILS(1, MODEL, "no-such-file.txt"), "no-such-file.txt: no such file");
}

static void seed_and_resamples_make_the_band(void **state) {
    (void)state;
    const char *const seeds[] = {"1", "1", "2"};
    double lo[3];
    for (int i = 0; i < 3; i++) {
        run r = LOSS(MODEL, TEXT, "--length", "64", "--rows", "8", "--seed", seeds[i], "--json");
        json_t *v = value_of(&r);
        lo[i] = number(result(v, 0), "mean_lo");
        json_decref(v);
    }
    assert_true(lo[0] == lo[1] && lo[0] != lo[2]);
    run r = LOSS(MODEL, TEXT, "--length", "64", "--rows", "8", "--resamples", "0", "--json");
    json_t *v = value_of(&r);
    assert_true(json_is_null(json_object_get(result(v, 0), "mean_lo")));
    json_decref(v);
}

// --ablate: the change is the paired mean of the arrays, stretches and all, and the reading without is
// what it was.
static void switched_off_heads_are_compared_token_by_token(void **state) {
    (void)state;
    enum { T = 1500 };
    char out[600], path[800];
    snprintf(out, sizeof out, "%s", files_path("ablate"));
    run r = LOSS(MODEL, TEXT, "--length", "1500", "--ablate", "L1.H2", "--ablate", "0.0,L3.H3",
                 "--out", out, "--json");
    json_t *v = value_of(&r);
    snprintf(path, sizeof path, "%s/loss.npy", out);
    npy base = array(path, 1, T - 1);
    static const char *const heads[] = {"L1.H2", "L0.H0+L3.H3"};
    assert_null(json_object_get(result(v, 0), "ablated"));
    for (int i = 0; i < 2; i++) {
        const json_t *one = result(v, (size_t)i + 1), *changes = json_object_get(one, "changes");
        assert_string_equal(json_string_value(json_object_get(one, "ablated")), heads[i]);
        snprintf(path, sizeof path, "%s/loss-%s.npy", out, heads[i]);
        npy off = array(path, 1, T - 1);
        const double *a = base.data, *b = off.data;
        assert_int_equal(json_array_size(changes), 3); // 0-512, 512-1499, all
        for (size_t k = 0; k < 3; k++) {
            const json_t *c = json_array_get(changes, k);
            int64_t from = (int64_t)number(c, "from"), n = (int64_t)number(c, "to") - from;
            double change = mean(b + from, n) - mean(a + from, n);
            assert_true(fabs(number(c, "change") - change) < 1e-12); // sums of 1500 numbers
            assert_true(number(c, "change_lo") <= change && change <= number(c, "change_hi"));
        }
        assert_true(fabs(number(one, "mean") - mean(b, T - 1)) < 1e-12);
        npy_free(&off);
    }
    npy_free(&base);
    json_decref(v);
    r = LOSS(MODEL, TEXT, "--length", "300", "--ablate", "L1.H2");
    run_holds(r.out, "L1.H2 off: change of the loss, paired token by token");
    run_free(&r);
    refused(LOSS_FAILS(2, MODEL, TEXT, "--ablate", "L9.H0"), "--ablate: there is no layer 9");
    refused(LOSS_FAILS(2, MODEL, TEXT, "--ablate", "L1H0"), "expected heads like");
    refused(LOSS_FAILS(2, MODEL, TEXT, "--ablate", "L1.H1,L1.H1"), "stands there twice");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B82_a_large_vocabulary_is_read_blockwise),
        cmocka_unit_test(B78_json_and_array_agree_and_count_what_was_scored),
        cmocka_unit_test(B78_two_splits_give_the_same_total),
        cmocka_unit_test(B79_two_files_in_one_call_equal_two_calls),
        cmocka_unit_test(B80_three_perplexities_have_three_names),
        cmocka_unit_test(B126_a_cut_document_divides_by_what_was_scored),
        cmocka_unit_test(B127_rows_and_one_long_row_are_named_and_dropped_context_is_counted),
        cmocka_unit_test(B121_reset_at_bos_keeps_documents_apart),
        cmocka_unit_test(B121_a_bos_inside_a_row_is_a_reset_only_when_asked_for),
        cmocka_unit_test(B74_the_ids_that_were_added_are_said),
        cmocka_unit_test(B44_short_and_B45_empty_documents),
        cmocka_unit_test(every_form_of_a_document_has_the_same_losses),
        cmocka_unit_test(several_models_and_documents_have_their_folders_and_one_picture),
        cmocka_unit_test(B124_flags_reach_the_reader),
        cmocka_unit_test(B87_a_hostile_path_leaves_the_json_whole),
        cmocka_unit_test(B90_a_comma_locale_changes_nothing),
        cmocka_unit_test(what_was_cut_or_odd_is_noted_on_standard_error),
        cmocka_unit_test(mistakes_have_their_exit_codes_and_sentences),
        cmocka_unit_test(seed_and_resamples_make_the_band),
        cmocka_unit_test(switched_off_heads_are_compared_token_by_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
