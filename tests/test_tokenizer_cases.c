// Small vocabularies in tests/cases/tokenizer (made by scripts/tokenizer_cases.py; the ids are
// those of the `tokenizers` library), and what must hold for every text. Needs nothing outside the
// repository.
#include "core/mem.h"
#include "tests/tok_support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES "tests/cases/tokenizer/"

static void check(const char *name, const char *corner) {
    char path[200];
    snprintf(path, sizeof path, CASES "%s.tokenizer.json", name);
    tokenizer *t = tok_open(path);
    snprintf(path, sizeof path, CASES "%s.corner.json", corner);
    assert_true(tok_run_corner(t, path) > 40);
    tokenizer_close(t);
}

static void B67_merges_as_pairs_and_as_strings_give_the_same_ids(void **state) {
    (void)state;
    check("byte_pairs", "byte_pairs");
    check("byte_strings", "byte_pairs");
}

static void B67_merges_with_spaces_inside_give_the_ids_of_the_library(void **state) {
    (void)state;
    check("inner_spaces", "inner_spaces");
    tokenizer *t = tok_open(CASES "inner_spaces.tokenizer.json");
    bool inner = false;
    for (int32_t id = 0; id < tokenizer_size(t); id++) {
        size_t n = 0;
        char *s = tokenizer_piece(t, id, &n, NULL);
        inner = inner || (s && n > 2 && memchr(s + 1, ' ', n - 2));
        free(s);
    }
    assert_true(inner); // the case is worth its name
    tokenizer_close(t);
}

static void B68_byte_fallback_goes_both_ways(void **state) {
    (void)state;
    check("fallback", "fallback");
    check("unknown_fused", "unknown_fused");
    tokenizer *t = tok_open(CASES "fallback.tokenizer.json");
    // U+1F600 and U+AE70: the bytes behind the space piece in front
    static const char text[] = "\xF0\x9F\x98\x80\xEA\xB9\xB0";
    ids x = tok_encode(t, text, 7, false);
    assert_int_equal(x.n, 8);
    for (size_t i = 0; i < 7; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned char)text[i]);
        assert_int_equal(x.v[i + 1], tokenizer_id(t, name));
        size_t n = 0;
        char *piece = tokenizer_piece(t, x.v[i + 1], &n, NULL);
        assert_int_equal(n, 1);
        assert_int_equal((unsigned char)piece[0], (unsigned char)text[i]);
        free(piece);
    }
    size_t n = 0;
    char *back = tokenizer_decode(t, x.v, x.n, false, &n, NULL);
    assert_int_equal(n, 7);
    assert_memory_equal(back, text, 7);
    free(back);
    ids_free(&x);
    tokenizer_close(t);
}

// B69: half a character at the end, a lone FF, an encoded surrogate: the ids of U+FFFD in their
// place
static void B69_bad_bytes_become_one_replacement_per_maximal_part(void **state) {
    (void)state;
    static const struct {
        const char *raw, *same;
    } cases[] = {
        {"abc\xE6\xAD", "abc\xEF\xBF\xBD"},
        {"\xFF", "\xEF\xBF\xBD"},
        {"a\xED\xA0\x80", "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF0\x9F\x98 \xC0\xAF", "\xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xE2\x82\xE2\x82\xAC", "\xEF\xBF\xBD\xE2\x82\xAC"},
    };
    static const char *const names[] = {"byte_pairs", "fallback", "inner_spaces"};
    for (int k = 0; k < 3; k++) {
        char path[200];
        snprintf(path, sizeof path, CASES "%s.tokenizer.json", names[k]);
        tokenizer *t = tok_open(path);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            ids want = tok_encode(t, cases[c].same, strlen(cases[c].same), true);
            tok_expect(t, cases[c].raw, strlen(cases[c].raw), true, want.v, want.n, names[k]);
            ids_free(&want);
        }
        tokenizer_close(t);
    }
}

// B70: tokens cut the text before anything else happens to it.
static void B70_special_tokens_in_the_text_are_their_ids(void **state) {
    (void)state;
    tokenizer *t = tok_open(CASES "fallback.tokenizer.json");
    int32_t space = tokenizer_id(t, "\xE2\x96\x81"), a = tokenizer_id(t, "\xE2\x96\x81"
                                                                         "a");
    assert_true(space > 0 && a > 0);
    ids x = tok_encode(t, "a</s> a", 7, false);
    // the piece behind </s> gets a space piece of its own in front of its space
    assert_true(x.n >= 3);
    assert_int_equal(x.v[0], a);
    assert_int_equal(x.v[1], 2);
    size_t n = 0;
    char *back = tokenizer_decode(t, x.v, x.n, false, &n, NULL);
    assert_string_equal(back, "a</s>  a");
    free(back);
    back = tokenizer_decode(t, x.v, x.n, true, &n, NULL);
    assert_string_equal(back, "a  a");
    free(back);
    ids_free(&x);
    x = tok_encode(t, "</s>", 4, false);
    assert_int_equal(x.n, 1); // nothing around it
    ids_free(&x);
    tokenizer_close(t);
}

static void B71_decomposed_text_has_the_ids_of_composed_text_under_nfc(void **state) {
    (void)state;
    static const char composed[] = "caf\xC3\xA9 \xED\x95\x9C";
    static const char decomposed[] = "cafe\xCC\x81 \xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB";
    tokenizer *nfc = tok_open(CASES "byte_pairs.tokenizer.json");
    tokenizer *none = tok_open(CASES "fallback.tokenizer.json");
    ids want = tok_encode(nfc, composed, strlen(composed), false);
    tok_expect(nfc, decomposed, strlen(decomposed), false, want.v, want.n, "NFC");
    ids_free(&want);
    ids x = tok_encode(none, decomposed, strlen(decomposed), false);
    size_t n = 0;
    char *back = tokenizer_decode(none, x.v, x.n, false, &n, NULL);
    assert_string_equal(back, decomposed);
    free(back);
    ids_free(&x);
    tokenizer_close(nfc);
    tokenizer_close(none);
}

// B72: marks out of order are sorted in one pass; sorting by neighbours would take minutes here.
static void B72_a_megabyte_of_marks_out_of_order_takes_less_than_five_seconds(void **state) {
    (void)state;
    static const char *const units[] = {"\xCC\x81\xCC\x96", "a", "  ", "\xE1\x84\x92"};
    static const char *const names[] = {"byte_pairs", "fallback", "unknown_fused", "inner_spaces"};
    for (int u = 0; u < 4; u++) {
        size_t len = strlen(units[u]), n = 1000000 / len * len;
        char *text = malloc(n);
        for (size_t i = 0; i < n; i++)
            text[i] = units[u][i % len];
        for (int k = 0; k < 4; k++) {
            char path[200];
            snprintf(path, sizeof path, CASES "%s.tokenizer.json", names[k]);
            tokenizer *t = tok_open(path);
            double start = tok_seconds();
            ids x = tok_encode(t, text, n, false);
            double took = tok_seconds() - start;
            printf("measured %s, 1 MB of unit %d: %.3f s\n", names[k], u, took);
            assert_true(took < 5);
            ids_free(&x);
            tokenizer_close(t);
        }
        free(text);
    }
}

// B76: the four forms of a line end differ as the reference's do (corner cases crlf, lf, bom, nul);
// here: nothing is lost at a NUL.
static void B76_a_nul_is_an_ordinary_character(void **state) {
    (void)state;
    static const char text[] = "ab\0cd\0\r\n";
    tokenizer *t = tok_open(CASES "byte_pairs.tokenizer.json");
    ids x = tok_encode(t, text, sizeof text, false);
    size_t n = 0;
    char *back = tokenizer_decode(t, x.v, x.n, false, &n, NULL);
    assert_int_equal(n, sizeof text);
    assert_memory_equal(back, text, n);
    free(back);
    ids_free(&x);
    tokenizer_close(t);
}

static void B77_added_ids_beyond_the_vocabulary_show_in_the_size(void **state) {
    (void)state;
    tokenizer *t = tok_open(CASES "byte_pairs.tokenizer.json");
    int32_t last = tokenizer_id(t, "\xC3\xA9\xC3\xA9");
    assert_int_equal(tokenizer_size(t), last + 1);
    ids x = tok_encode(t, "\xC3\xA9\xC3\xA9", 4, false);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.v[0], last);
    ids_free(&x);
    for (int k = 0; k < 2; k++) {
        int32_t wrong = k ? -1 : last + 1;
        size_t n = 0;
        err e = {0};
        char text[20];
        snprintf(text, sizeof text, "id %ld", (long)wrong);
        assert_null(tokenizer_decode(t, &wrong, 1, false, &n, &e));
        assert_int_equal(e.code, ERR_INPUT);
        assert_non_null(strstr(e.text, text));
        assert_null(tokenizer_piece(t, wrong, &n, NULL));
    }
    char says[100];
    assert_true(tokenizer_adds_special(t, says, sizeof says)); // B74
    assert_string_equal(says, "<s> (1) in front, </s> (2) at the end");
    assert_true(tokenizer_adds_special(t, says, 8));
    assert_string_equal(says, "<s> (1)");
    assert_true(tokenizer_adds_special(t, NULL, 0));
    tokenizer_close(t);
}

static void a_failed_call_leaves_the_list_and_an_encoded_text_is_appended(void **state) {
    (void)state;
    tokenizer *t = tok_open(CASES "byte_pairs.tokenizer.json");
    ids x = {0};
    err e = {0};
    assert_true(tokenizer_encode(t, "and", 3, false, NULL, NULL, &x, &e));
    size_t one = x.n;
    assert_true(tokenizer_encode(t, "and", 3, false, NULL, NULL, &x, &e));
    assert_int_equal(x.n, 2 * one);
    assert_memory_equal(x.v, x.v + one, one * sizeof *x.v);
    ids_free(&x);
    tokenizer_close(t);
}

static uint32_t noise(uint32_t *x) {
    *x = *x * 1664525u + 1013904223u;
    return *x >> 8;
}

// Whatever the bytes: ids are in range, and a byte-level file without a normalizer in play gives
// the text back.
static void random_bytes_give_ids_in_range_and_come_back(void **state) {
    (void)state;
    static const char *const names[] = {"byte_strings", "fallback", "unknown_fused",
                                        "inner_spaces"};
    uint32_t seed = 7;
    for (int k = 0; k < 4; k++) {
        char path[200];
        snprintf(path, sizeof path, CASES "%s.tokenizer.json", names[k]);
        tokenizer *t = tok_open(path);
        for (int round = 0; round < 300; round++) {
            char text[200];
            size_t n = noise(&seed) % sizeof text, m = 0;
            bool ascii = round % 3 == 0;
            for (size_t i = 0; i < n; i++)
                text[i] = (char)(ascii ? noise(&seed) % 128 : noise(&seed) % 256);
            ids x = tok_encode(t, text, n, false);
            for (size_t i = 0; i < x.n; i++)
                assert_in_range(x.v[i], 0, tokenizer_size(t) - 1);
            char *back = tokenizer_decode(t, x.v, x.n, false, &m, NULL);
            assert_non_null(back);
            if (ascii && k < 2) {
                assert_int_equal(m, n);
                assert_memory_equal(back, text, n);
            }
            free(back);
            ids_free(&x);
        }
        tokenizer_close(t);
    }
}

enum { THREADS = 4 };
typedef struct job {
    const tokenizer *t;
    const char *text;
    size_t n;
    ids out;
} job;

static void *work(void *p) {
    job *j = p;
    for (int r = 0; r < 20; r++) {
        ids_free(&j->out);
        if (!tokenizer_encode(j->t, j->text, j->n, true, NULL, NULL, &j->out, NULL))
            return p;
    }
    return NULL;
}

static void threads_share_a_tokenizer(void **state) {
    (void)state;
    size_t n = 0;
    char *text = tok_slurp(CASES "byte_pairs.corner.json", &n);
    tokenizer *t = tok_open(CASES "byte_pairs.tokenizer.json");
    ids want = tok_encode(t, text, n, true);
    job jobs[THREADS];
    pthread_t id[THREADS];
    for (int k = 0; k < THREADS; k++) {
        jobs[k] = (job){t, text, n, {0}};
        assert_int_equal(pthread_create(&id[k], NULL, work, &jobs[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) {
        void *failed = NULL;
        pthread_join(id[k], &failed);
        assert_null(failed);
        assert_int_equal(jobs[k].out.n, want.n);
        assert_memory_equal(jobs[k].out.v, want.v, want.n * sizeof *want.v);
        ids_free(&jobs[k].out);
    }
    ids_free(&want);
    tokenizer_close(t);
    free(text);
}

// Every allocation of opening, encoding and decoding fails once: an error and no leak.
static void every_failed_allocation_is_an_error_and_not_a_crash(void **state) {
    (void)state;
    static const char *const names[] = {"byte_pairs", "fallback"};
    static const char text[] =
        "And LORD</s> e\xCC\x81\xCC\x96  \xFF \xF0\x9F\x98\x80 the earth, the "
        "earthwithoutanyspaceatallforalongwhileindeedandmore";
    for (int k = 0; k < 2; k++) {
        char path[200];
        snprintf(path, sizeof path, CASES "%s.tokenizer.json", names[k]);
        long n = 1;
        for (bool done = false; !done; n++) {
            err e = {0};
            ids x = {0};
            size_t bytes = 0;
            char *back = NULL;
            mem_fail_after(n);
            tokenizer *t = tokenizer_open(path, &e);
            bool ok = t && tokenizer_encode(t, text, sizeof text - 1, true, NULL, NULL, &x, &e);
            if (ok)
                back = tokenizer_decode(t, x.v, x.n, false, &bytes, &e);
            mem_fail_after(0);
            done = back != NULL;
            assert_int_equal(e.code, done ? ERR_NONE : ERR_NOMEM);
            free(back);
            ids_free(&x);
            tokenizer_close(t);
            assert_true(n < 100000);
        }
        printf("measured allocations that failed in turn, %s: %ld\n", names[k], n - 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B67_merges_as_pairs_and_as_strings_give_the_same_ids),
        cmocka_unit_test(B67_merges_with_spaces_inside_give_the_ids_of_the_library),
        cmocka_unit_test(B68_byte_fallback_goes_both_ways),
        cmocka_unit_test(B69_bad_bytes_become_one_replacement_per_maximal_part),
        cmocka_unit_test(B70_special_tokens_in_the_text_are_their_ids),
        cmocka_unit_test(B71_decomposed_text_has_the_ids_of_composed_text_under_nfc),
        cmocka_unit_test(B72_a_megabyte_of_marks_out_of_order_takes_less_than_five_seconds),
        cmocka_unit_test(B76_a_nul_is_an_ordinary_character),
        cmocka_unit_test(B77_added_ids_beyond_the_vocabulary_show_in_the_size),
        cmocka_unit_test(a_failed_call_leaves_the_list_and_an_encoded_text_is_appended),
        cmocka_unit_test(random_bytes_give_ids_in_range_and_come_back),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_not_a_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
