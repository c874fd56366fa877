// Against the ids of the `tokenizers` library in ../shared/golden/tokenizers: corner cases,
// decoding, documents, and vocabularies with other settings.
#include "tests/tok_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"llama2", "qwen3", "llama3", "gpt4o", "deltanet"};
static const char *const variants[] = {
    "merges_as_strings", "space_inside_tokens",         "neox_style",
    "llama_small",       "llama_small_metaspace_first", "llama_small_unk_fused"};
static const char *const documents[] = {"code_ext4", "text_kjv"};
enum { NAMES = 5, VARIANTS = 6, DOCUMENTS = 2 };

static const char *file_of(const char *name) {
    const char *path = strcmp(name, "deltanet") == 0
                           ? tok_shared("checkpoints/deltanet/tokenizer.json")
                           : tok_shared("tokenizers/%s/tokenizer.json", name);
    tok_need(path);
    return path;
}

// Opened once for all tests: the large vocabularies take a third of a second each.
static tokenizer *opened[NAMES];

static tokenizer *open_once(int k) {
    if (!opened[k]) {
        const char *path = file_of(names[k]);
        double start = tok_cpu_seconds();
        opened[k] = tok_open(path);
        printf("measured opening %s: %.3f s\n", names[k], tok_cpu_seconds() - start);
    }
    return opened[k];
}

static int close_all(void **state) {
    (void)state;
    for (int k = 0; k < NAMES; k++)
        tokenizer_close(opened[k]);
    return 0;
}

static void corner_cases_give_the_ids_of_the_library(void **state) {
    (void)state;
    size_t n = 0;
    for (int k = 0; k < NAMES; k++) {
        tokenizer *t = open_once(k);
        n += tok_run_corner(t, tok_shared("golden/tokenizers/%s.corner.json", names[k]));
    }
    printf("measured corner cases equal: %zu\n", n);
}

static void decoding_gives_the_text_of_the_library(void **state) {
    (void)state;
    size_t n = 0;
    for (int k = 0; k < NAMES; k++) {
        tokenizer *t = open_once(k);
        n += tok_run_decode(t, tok_shared("golden/tokenizers/%s.decode.json", names[k]));
    }
    printf("measured decode cases equal: %zu\n", n);
}

// B67 merges as strings and as pairs, one with a space inside; B68 byte fallback; B71 NFC
static void other_settings_give_the_ids_of_the_library(void **state) {
    (void)state;
    size_t n = 0;
    for (int k = 0; k < VARIANTS; k++) {
        const char *path = tok_shared("golden/tokenizers/variants/%s.tokenizer.json", variants[k]);
        tok_need(path);
        tokenizer *t = tok_open(path);
        n +=
            tok_run_corner(t, tok_shared("golden/tokenizers/variants/%s.corner.json", variants[k]));
        tokenizer_close(t);
    }
    printf("measured variant cases equal: %zu\n", n);
}

// The .npy files are version 1.0, '<i4', one axis: the data begin behind the header.
static void document_starts_give_the_ids_of_the_library(void **state) {
    (void)state;
    for (int k = 0; k < NAMES; k++) {
        tokenizer *t = open_once(k);
        for (int d = 0; d < DOCUMENTS; d++) {
            size_t n = 0, bytes = 0;
            char *npy = tok_slurp(
                tok_shared("golden/tokenizers/%s.%s.ids.npy", names[k], documents[d]), &bytes);
            char *text = tok_slurp(tok_shared("documents/%s.txt", documents[d]), &n);
            size_t head = 10 + (unsigned char)npy[8] + 256u * (unsigned char)npy[9];
            size_t count = (bytes - head) / 4;
            int32_t *want = malloc(count * sizeof *want + 1);
            memcpy(want, npy + head, count * 4);
            tok_expect(t, text, 200000, false, want, count, names[k]);
            free(want);
            free(text);
            free(npy);
        }
    }
}

static void whole_documents_have_the_count_and_sha256_of_the_library(void **state) {
    (void)state;
    const char *path = tok_shared("golden/tokenizers/library_timings.json");
    tok_need(path);
    json_t *all = tok_json(path);
    for (int k = 0; k < NAMES; k++) {
        tokenizer *t = open_once(k);
        for (int d = 0; d < DOCUMENTS; d++) {
            const json_t *want = json_object_get(json_object_get(all, names[k]), documents[d]);
            size_t n = 0, back_n = 0;
            char hex[65], *text = tok_slurp(tok_shared("documents/%s.txt", documents[d]), &n);
            err e = {0};
            ids got = tok_encode(t, text, n, false);
            tok_sha256(got.v, got.n * 4, hex); // little-endian here
            assert_int_equal(got.n, json_integer_value(json_object_get(want, "whole_tokens")));
            assert_string_equal(hex,
                                json_string_value(json_object_get(want, "whole_ids_sha256_i32le")));
            char *back = tokenizer_decode(t, got.v, got.n, false, &back_n, &e);
            assert_non_null(back);
            assert_int_equal(back_n, n);
            assert_memory_equal(back, text, n);
            free(back);
            ids_free(&got);
            free(text);
        }
    }
    json_decref(all);
}

static void sha256_of_abc_is_that_of_fips_180(void **state) {
    (void)state;
    char hex[65];
    tok_sha256("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// B72: for every kind of file, a megabyte that gives the pattern or the merging nothing to break
// at; the fault row asks for 5 s.
static void a_megabyte_without_spaces_takes_less_than_five_seconds(void **state) {
    (void)state;
    static const char *const units[] = {
        "a",  "A",  "1", "!", " ", "\n", " \n", "ab", "\xC3\xA9", "\xE4\xB8\xAD", "\xCC\x81",
        NULL, // random letters
        "'s", "A1",
    };
    enum { UNITS = sizeof units / sizeof *units };
    size_t n = 1000000;
    char *text = malloc(n);
    for (int k = 0; k < NAMES; k++) {
        tokenizer *t = open_once(k);
        double worst = 0;
        for (int u = 0; u < UNITS; u++) {
            uint32_t x = 1;
            size_t len = units[u] ? strlen(units[u]) : 1, m = 0;
            for (size_t i = 0; i < n; i++) {
                x = x * 1664525u + 1013904223u;
                text[i] = units[u] ? units[u][i % len] : (char)('a' + (int)((x >> 16) % 26));
            }
            size_t whole = n / len * len;
            double start = tok_cpu_seconds();
            ids got = tok_encode(t, text, whole, false);
            double took = tok_cpu_seconds() - start;
            worst = took > worst ? took : worst;
            char *back = tokenizer_decode(t, got.v, got.n, false, &m, NULL);
            if (took >= 5 || !back || m != whole || memcmp(back, text, whole) != 0)
                fail_msg("%s, unit %d: %.1f s, %zu bytes back", names[k], u, took, m);
            free(back);
            ids_free(&got);
        }
        printf("measured %s, 1 MB without a break, slowest of %d kinds: %.3f s\n", names[k], UNITS,
               worst);
    }
    free(text);
}

// B74: what encoding adds is said in words.
static void sizes_and_special_tokens_are_those_of_the_file(void **state) {
    (void)state;
    static const int32_t sizes[] = {32000, 151669, 128256, 200019, 4096};
    for (int k = 0; k < NAMES; k++) {
        tokenizer *t = open_once(k);
        char says[100];
        bool adds = tokenizer_adds_special(t, says, sizeof says);
        assert_int_equal(tokenizer_size(t), sizes[k]);
        assert_int_equal(adds, k == 0);
        assert_string_equal(says, k == 0 ? "<s> (1) in front" : "");
    }
    tokenizer *t = open_once(0);
    assert_int_equal(tokenizer_bos(t), 1); // model_max_length 10^30 beside it is no obstacle
    assert_int_equal(tokenizer_eos(t), 2);
    assert_int_equal(tokenizer_id(t, "</s>"), 2);
    assert_int_equal(tokenizer_id(t, "no such token"), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_of_abc_is_that_of_fips_180),
        cmocka_unit_test(corner_cases_give_the_ids_of_the_library),
        cmocka_unit_test(decoding_gives_the_text_of_the_library),
        cmocka_unit_test(other_settings_give_the_ids_of_the_library),
        cmocka_unit_test(document_starts_give_the_ids_of_the_library),
        cmocka_unit_test(whole_documents_have_the_count_and_sha256_of_the_library),
        cmocka_unit_test(a_megabyte_without_spaces_takes_less_than_five_seconds),
        cmocka_unit_test(sizes_and_special_tokens_are_those_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, close_all);
}
