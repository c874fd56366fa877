// Tokenizers that are no tokenizer.json: RWKV World vocabularies and SentencePiece models, against
// ids of the package `rwkv` and of the SentencePiece library; what lies in a folder; BOS rules.
#include "core/mem.h"
#include "tests/files.h"
#include "tests/run.h"
#include "tests/tok_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES "tests/cases/tokenizer/"

static void is_error(const char *path, err_code code, const char *part) {
    err e = {0};
    tokenizer *t = tokenizer_open(path, &e);
    if (t)
        fail_msg("%s opens, should say \"%s\"", path, part);
    files_assert_error_holds(&e, code, part);
}

static ids wanted(const json_t *list) {
    ids x = {0};
    x.v = malloc((json_array_size(list) + 1) * sizeof *x.v);
    for (; x.n < json_array_size(list); x.n++)
        x.v[x.n] = (int32_t)json_integer_value(json_array_get(list, x.n));
    return x;
}

// The encode cases of an expected.json; returns how many.
static size_t run_encode(const tokenizer *t, const json_t *expected, bool compare_decoded) {
    const json_t *list = json_object_get(expected, "encode");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i), *text = json_object_get(c, "text");
        const json_t *back = json_object_get(c, "decoded");
        size_t n = json_string_length(text), got_n = 0;
        ids x = wanted(json_object_get(c, "ids"));
        tok_expect(t, json_string_value(text), n, false, x.v, x.n, json_string_value(text));
        err e = {0};
        char *got = tokenizer_decode(t, x.v, x.n, false, &got_n, &e);
        const json_t *want = compare_decoded ? back : text;
        if (!got || got_n != json_string_length(want) ||
            memcmp(got, json_string_value(want), got_n) != 0)
            fail_msg("case %zu decodes to \"%s\"", i, got ? got : e.text);
        free(got);
        ids_free(&x);
    }
    return json_array_size(list);
}

// ---- RWKV World ---------------------------------------------------------------------------------

static void a_folder_with_only_the_world_vocabulary_works_B73(void **state) {
    (void)state;
    tokenizer *t = tok_open(CASES "rwkv_world"); // a folder: the file is found by its name
    json_t *expected = tok_json(CASES "rwkv_world/expected.json");
    assert_string_equal(tokenizer_kind(t), "RWKV World vocabulary");
    assert_int_equal(tokenizer_size(t), json_integer_value(json_object_get(expected, "size")));
    printf("measured RWKV World cut, cases equal: %zu\n", run_encode(t, expected, false));
    const json_t *list = json_object_get(expected, "decode");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        ids x = wanted(json_object_get(c, "ids"));
        size_t n = 0;
        char *raw = tokenizer_piece(t, x.v[0], &n, NULL); // its bytes, not repaired
        char hex[3];
        snprintf(hex, sizeof hex, "%02x", (unsigned char)raw[0]);
        assert_memory_equal(hex, json_string_value(json_object_get(c, "bytes")), 2);
        free(raw);
        ids_free(&x);
    }
    assert_int_equal(tokenizer_bos(t), -1);
    assert_int_equal(tokenizer_eos(t), 0);
    assert_int_equal(tokenizer_id(t, "hello"), 34550);
    json_decref(expected);
    tokenizer_close(t);
}

static void world_bytes_are_joined_before_they_are_read(void **state) {
    (void)state;
    tokenizer *t = tok_open(CASES "rwkv_world");
    // e2 | 82 ac: half a character each, one character together; 0 ends a text
    const int32_t euro[] = {1 + 0xE2, 1 + 0x82, 1 + 0xAC, 0}, half[] = {1 + 0xE2, 1 + 0x82};
    size_t n = 0;
    char *s = tokenizer_decode(t, euro, 4, false, &n, NULL);
    assert_int_equal(n, 3);
    assert_string_equal(s, "\xE2\x82\xAC");
    free(s);
    s = tokenizer_decode(t, half, 2, false, &n, NULL);
    assert_string_equal(s, "\xEF\xBF\xBD");
    free(s);
    err e = {0};
    const int32_t gap[] = {268}; // the cut has no line for it
    assert_null(tokenizer_decode(t, gap, 1, false, &n, &e));
    files_assert_error_holds(&e, ERR_INPUT, "no token has the id 268");
    err_clear(&e);
    const int32_t below[] = {-1};
    assert_null(tokenizer_decode(t, below, 1, false, &n, &e));
    files_assert_error_holds(&e, ERR_INPUT, "-1");
    tokenizer_close(t);
}

static void text_that_no_token_begins_is_an_error_that_names_the_byte_B73(void **state) {
    (void)state;
    const char *file = files_path("rwkv_vocab_tiny.txt");
    files_text(file, "1 'a' 1\n2 'abc' 3\n7 b'\\xff\\x00' 2\r\n\n9 \"it's \\\"\\u4e16\\\"\" 10\n");
    tokenizer *t = tok_open(file);
    ids x = {0};
    err e = {0};
    assert_true(tokenizer_encode(t, "aabc", 4, true, NULL, NULL, &x, &e)); // a, then the longest
    assert_int_equal(x.n, 2);
    assert_int_equal(x.v[0], 1);
    assert_int_equal(x.v[1], 2);
    assert_false(tokenizer_encode(t, "aab", 3, false, NULL, NULL, &x, &e));
    files_assert_error_holds(&e, ERR_INPUT, "no token begins with byte 0x62");
    assert_non_null(strstr(e.text, "byte 2 of the text"));
    assert_int_equal(x.n, 2); // the list is as it was
    assert_int_equal(tokenizer_id(t, "it's \"\xE4\xB8\x96\""), 9);
    ids_free(&x);
    tokenizer_close(t);
}

static void broken_world_lines_are_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"1 'a' 1\nfoo\n", "line 2: not \"id literal length\""},
        {"1 'a'\n", "line 1: not"},
        {"-1 'a' 1\n", "line 1: not"},
        {"0 'a' 1\n", "line 1: not"},
        {"99999999 'a' 1\n", "line 1: not"},
        {"1 'a' 2\n", "line 1: the literal has 1 bytes, the line says 2"},
        {"1 'a 1\n", "line 1: the middle is no Python string"},
        {"1 x'a' 1\n", "line 1: the middle is no Python string"},
        {"1 'a'b' 3\n", "a quote stands inside"},
        {"1 '\\q' 1\n", "an escape that is not known"},
        {"1 '\\' 1\n", "an escape that is not known"},
        {"1 '\\ud800' 3\n", "an escape that is not known"},
        {"1 b'\\u0041' 1\n", "an escape that is not known"},
        {"1 '\\x4' 1\n", "an escape that is not known"},
        {"1 b'\xC3\xA9' 2\n", "only ASCII"},
        {"1 'a' 1\n2 'a' 1\n", "line 2: the token is id 1 already"},
        {"1 'a' 1\n1 'b' 1\n", "line 2: id 1 stands there twice"},
        {"\n\n", "no tokens"},
        {"", "no tokens"},
    };
    const char *file = files_path("rwkv_vocab_bad.txt");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        files_text(file, bad[i].text);
        is_error(file, ERR_INPUT, bad[i].says);
        is_error(file, ERR_INPUT, "rwkv_vocab_bad.txt: ");
    }
    printf("measured broken vocabularies refused: %zu\n", sizeof bad / sizeof *bad);
}

static void a_world_file_cut_anywhere_opens_or_is_an_error(void **state) {
    (void)state;
    size_t n = 0;
    char *text = files_read(CASES "rwkv_world/rwkv_vocab_cut.txt", &n);
    const char *file = files_path("rwkv_vocab_cut.txt");
    for (size_t cut = 0; cut < n; cut += cut < 200 ? 1 : 37) {
        err e = {0};
        files_write(file, text, cut);
        tokenizer *t = tokenizer_open(file, &e);
        assert_true(t || e.code == ERR_INPUT);
        tokenizer_close(t);
    }
    free(text);
}

static void every_failing_allocation_of_a_world_file_is_an_error(void **state) {
    (void)state;
    for (long k = 1; k < 2000; k++) {
        err e = {0};
        mem_fail_after(k);
        tokenizer *t = tokenizer_open(CASES "rwkv_world", &e);
        mem_fail_after(0);
        if (t) {
            printf("measured allocations of a World vocabulary: %ld\n", k - 1);
            tokenizer_close(t);
            return;
        }
        assert_int_equal(e.code, ERR_NOMEM);
    }
    fail_msg("never opens");
}

// The whole vocabulary is not part of this repository: DELTOP_RWKV_VOCAB names it.
static void the_whole_world_vocabulary_gives_the_golden_ids(void **state) {
    (void)state;
    const char *path = getenv("DELTOP_RWKV_VOCAB");
    if (!path || !path[0]) {
        printf("SKIP: DELTOP_RWKV_VOCAB does not name rwkv_vocab_v20230424.txt (it is in the PyPI "
               "package rwkv)\n");
        skip();
    }
    size_t bytes = 0;
    char hex[65], *all = tok_slurp(path, &bytes);
    tok_sha256(all, bytes, hex);
    free(all);
    assert_string_equal(hex, "8324476023347dec2964625ccb2075c864d250a9c6d9a74f36daba628de8c008");
    double start = tok_seconds();
    tokenizer *t = tok_open(path);
    printf("measured opening the World vocabulary: %.3f s\n", tok_seconds() - start);
    assert_int_equal(tokenizer_size(t), 65530);

    const char *golden = tok_shared("golden/tokenizers/rwkv_world.corner.json");
    tok_need(golden);
    json_t *list = tok_json(golden);
    for (size_t i = 0; i < json_array_size(list); i++) { // no ids_special: nothing is added
        json_t *c = json_array_get(list, i);
        if (json_object_get(c, "ids"))
            json_object_set(c, "ids_special", json_object_get(c, "ids"));
        if (json_object_get(c, "ids_rle"))
            json_object_set(c, "ids_special_rle", json_object_get(c, "ids_rle"));
    }
    const char *copy = files_path("corner.json");
    assert_int_equal(json_dump_file(list, copy, 0), 0);
    json_decref(list);
    printf("measured RWKV World corner cases equal: %zu\n", tok_run_corner(t, copy));

    static const char *const documents[] = {"code_ext4", "text_kjv"};
    for (int d = 0; d < 2; d++) {
        size_t n = 0, m = 0, back_n = 0;
        char *npy =
            tok_slurp(tok_shared("golden/tokenizers/rwkv_world.%s.ids.npy", documents[d]), &m);
        char *text = tok_slurp(tok_shared("documents/%s.txt", documents[d]), &n);
        size_t head = 10 + (unsigned char)npy[8] + 256u * (unsigned char)npy[9];
        size_t count = (m - head) / 4;
        int32_t *want = malloc(count * sizeof *want + 1);
        memcpy(want, npy + head, count * 4);
        start = tok_seconds();
        tok_expect(t, text, 200000, false, want, count, documents[d]);
        printf("measured RWKV World on 200000 bytes of %s: %zu ids equal, %.3f s\n", documents[d],
               count, tok_seconds() - start);
        char *back = tokenizer_decode(t, want, count, false, &back_n, NULL);
        assert_int_equal(back_n, 200000);
        assert_memory_equal(back, text, back_n);
        free(back);
        free(want);
        free(text);
        free(npy);
    }
    tokenizer_close(t);
}

// ---- SentencePiece ------------------------------------------------------------------------------

static bool no_library(void) {
    if (!tokenizer_has_sentencepiece())
        printf("SKIP: this build has no SentencePiece (libsentencepiece-dev, g++)\n");
    return !tokenizer_has_sentencepiece();
}

static void sentencepiece_gives_the_ids_of_its_library(void **state) {
    (void)state;
    if (no_library())
        skip();
    tokenizer *t = tok_open(CASES "sentencepiece");
    json_t *expected = tok_json(CASES "sentencepiece/expected.json");
    assert_string_equal(tokenizer_kind(t), "SentencePiece model");
    assert_int_equal(tokenizer_size(t), json_integer_value(json_object_get(expected, "size")));
    assert_int_equal(tokenizer_bos(t), 1);
    assert_int_equal(tokenizer_eos(t), 2);
    assert_int_equal(tokenizer_id(t, "</s>"), 2);
    printf("measured SentencePiece cases equal: %zu\n", run_encode(t, expected, true));
    const json_t *list = json_object_get(expected, "decode");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i), *want = json_object_get(c, "decoded");
        ids x = wanted(json_object_get(c, "ids"));
        size_t n = 0;
        char *got = tokenizer_decode(t, x.v, x.n, false, &n, NULL);
        assert_non_null(got);
        assert_int_equal(n, json_string_length(want));
        assert_memory_equal(got, json_string_value(want), n);
        free(got);
        ids_free(&x);
    }
    size_t n = 0;
    char *s = tokenizer_piece(t, 3 + 0xE2, &n, NULL); // a byte piece is its byte
    assert_int_equal(n, 1);
    assert_int_equal((unsigned char)s[0], 0xE2);
    free(s);
    s = tokenizer_piece(t, 302, &n, NULL);
    assert_string_equal(s, " I");
    free(s);
    err e = {0};
    const int32_t far[] = {600};
    assert_null(tokenizer_decode(t, far, 1, false, &n, &e));
    files_assert_error_holds(&e, ERR_INPUT, "600");
    // B69: half a character is one U+FFFD, which this model spells in bytes
    ids a = tok_encode(t, "x\xE2\x82", 3, false), b = tok_encode(t, "x\xEF\xBF\xBD", 4, false);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.v, b.v, a.n * sizeof *a.v);
    ids_free(&a);
    ids_free(&b);
    json_decref(expected);
    tokenizer_close(t);
}

static void a_model_without_its_library_says_what_to_install(void **state) {
    (void)state;
    if (tokenizer_has_sentencepiece()) {
        const char *file = files_path("tokenizer.model");
        files_text(file, "IQ== 0\nIg== 1\n"); // tiktoken files have this name, too
        is_error(file, ERR_INPUT, "not a SentencePiece model");
        is_error(file, ERR_INPUT, "tiktoken");
        files_text(file, "");
        is_error(file, ERR_INPUT, "not a SentencePiece model");
        return;
    }
    is_error(CASES "sentencepiece", ERR_UNSUPPORTED, "libsentencepiece-dev");
    is_error(CASES "sentencepiece", ERR_UNSUPPORTED, "tokenizer.model: ");
    is_error(CASES "sentencepiece", ERR_UNSUPPORTED, ".npy");
}

// ---- folders and BOS ----------------------------------------------------------------------------

static void copy_file(const char *from, const char *to) {
    size_t n = 0;
    char *s = files_read(from, &n);
    files_write(to, s, n);
    free(s);
}

static void tokenizer_json_comes_first_then_world_then_sentencepiece(void **state) {
    (void)state;
    files_mkdir(files_path("all"));
    char *file = NULL;
    assert_true(tokenizer_find(files_path("all"), &file, NULL));
    assert_null(file);
    const char *const order[][2] = {
        {CASES "sentencepiece/tokenizer.model", "tokenizer.model"},
        {CASES "rwkv_world/rwkv_vocab_cut.txt", "rwkv_vocab_cut.txt"},
        {CASES "byte_pairs.tokenizer.json", "tokenizer.json"},
    };
    for (int i = 0; i < 3; i++) {
        copy_file(order[i][0], files_path("all/%s", order[i][1]));
        assert_true(tokenizer_find(files_path("all"), &file, NULL));
        assert_string_equal(file, files_path("all/%s", order[i][1]));
        free(file);
    }
    tokenizer *t = tok_open(files_path("all"));
    assert_string_equal(tokenizer_kind(t), "tokenizer.json");
    tokenizer_close(t);
}

static void unknown_tokenizer_classes_are_named_with_what_to_do(void **state) {
    (void)state;
    files_mkdir(files_path("none"));
    is_error(files_path("none"), ERR_MISSING, "pass token ids as .npy");
    files_text(
        files_path("none/tokenizer_config.json"),
        "{\"tokenizer_class\": \"TikTokenTokenizer\", \"auto_map\": {\"AutoTokenizer\": []}}");
    is_error(files_path("none"), ERR_MISSING, "tokenizer_class TikTokenTokenizer is code of the");
    is_error(files_path("none"), ERR_MISSING, ".npy");
    files_text(files_path("none/tokenizer_config.json"), "{\"tokenizer_class\": \"T5Tokenizer\"}");
    is_error(files_path("none"), ERR_MISSING, "tokenizer_class T5Tokenizer has no file here");
    files_text(files_path("none/tiktoken.model"), "IQ== 0\n");
    is_error(files_path("none"), ERR_MISSING, "tiktoken files are not read");
}

// B74: add_bos_token, and bos_token as a string, an object or null.
static void the_config_beside_says_what_is_added_B74(void **state) {
    (void)state;
    if (no_library())
        skip();
    static const struct {
        const char *config;
        int32_t bos, eos;
        const char *adds;
    } rule[] = {
        {"{}", 1, 2, ""},
        {"{\"tokenizer_class\": \"LlamaTokenizer\"}", 1, 2, "<s> (1) in front"},
        {"{\"tokenizer_class\": \"LlamaTokenizer\", \"add_bos_token\": false}", 1, 2, ""},
        {"{\"add_bos_token\": true, \"add_eos_token\": true}", 1, 2,
         "<s> (1) in front, </s> (2) at the end"},
        {"{\"add_bos_token\": true, \"bos_token\": {\"content\": \"</s>\"}}", 2, 2,
         "</s> (2) in front"},
        {"{\"add_bos_token\": false, \"bos_token\": \"</s>\", \"eos_token\": null}", 2, -1, ""},
    };
    files_mkdir(files_path("bos"));
    copy_file(CASES "sentencepiece/tokenizer.model", files_path("bos/tokenizer.model"));
    for (size_t i = 0; i < sizeof rule / sizeof *rule; i++) {
        char says[100];
        files_text(files_path("bos/tokenizer_config.json"), rule[i].config);
        tokenizer *t = tok_open(files_path("bos"));
        tokenizer_adds_special(t, says, sizeof says);
        assert_int_equal(tokenizer_bos(t), rule[i].bos);
        assert_int_equal(tokenizer_eos(t), rule[i].eos);
        assert_string_equal(says, rule[i].adds);
        tokenizer_close(t);
    }
    files_text(files_path("bos/tokenizer_config.json"),
               "{\"add_bos_token\": true, \"bos_token\": null}");
    is_error(files_path("bos"), ERR_INPUT, "add_bos_token is true, but");
}

// The class of llama2 rebuilds the post-processor of its tokenizer.json from the switches.
static void llama_classes_follow_the_switch_also_with_tokenizer_json(void **state) {
    (void)state;
    files_mkdir(files_path("json"));
    copy_file(CASES "fallback.tokenizer.json", files_path("json/tokenizer.json"));
    char says[2][100];
    tokenizer *t = tok_open(files_path("json"));
    tokenizer_adds_special(t, says[0], sizeof says[0]);
    tokenizer_close(t);
    const char *const configs[] = {
        "{\"tokenizer_class\": \"LlamaTokenizer\", \"bos_token\": \"<s>\", \"add_bos_token\": "
        "false}",
        "{\"tokenizer_class\": \"LlamaTokenizer\", \"bos_token\": \"<s>\", \"add_bos_token\": "
        "true}",
        "{\"tokenizer_class\": \"GPT2Tokenizer\", \"bos_token\": \"<s>\", \"add_bos_token\": "
        "false}",
    };
    const char *const want[] = {"", "<s> (1) in front", says[0]};
    for (int i = 0; i < 3; i++) {
        files_text(files_path("json/tokenizer_config.json"), configs[i]);
        t = tok_open(files_path("json"));
        tokenizer_adds_special(t, says[1], sizeof says[1]);
        assert_string_equal(says[1], want[i]);
        tokenizer_close(t);
    }
}

static void expect_run(const char *const *argv, const char *input, const char *out) {
    run r = {.argv = argv, .input = input, .n_input = input ? strlen(input) : 0};
    if (!run_program(&r))
        fail_msg("%s: cannot be started (make deltop, or set DELTOP)", run_program_path());
    if (r.code != 0 || strcmp(r.out, out) != 0)
        fail_msg("code %d, \"%s\" instead of \"%s\"; %s", r.code, r.out, out, r.err);
    run_free(&r);
}

static void the_tokens_command_takes_folders_and_files_of_every_kind(void **state) {
    (void)state;
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
    const char *text = "In the beginning hello\n", *world = "1136 22590 59220 33 34550 11\n";
    expect_run(WORDS("tokens", CASES "rwkv_world", "-"), text, world);
    expect_run(WORDS("tokens", CASES "rwkv_world/rwkv_vocab_cut.txt", "-"), text, world);
    expect_run(WORDS("tokens", CASES "rwkv_world", "--decode", "-"), world, text);
    if (no_library())
        return;
    expect_run(WORDS("tokens", CASES "sentencepiece", "-"), "as", "429\n");
    expect_run(WORDS("tokens", CASES "sentencepiece/tokenizer.model", "--add-bos", "-"), "as",
               "1 429\n");
#undef WORDS
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_with_only_the_world_vocabulary_works_B73),
        cmocka_unit_test(world_bytes_are_joined_before_they_are_read),
        cmocka_unit_test(text_that_no_token_begins_is_an_error_that_names_the_byte_B73),
        cmocka_unit_test(broken_world_lines_are_named),
        cmocka_unit_test(a_world_file_cut_anywhere_opens_or_is_an_error),
        cmocka_unit_test(every_failing_allocation_of_a_world_file_is_an_error),
        cmocka_unit_test(the_whole_world_vocabulary_gives_the_golden_ids),
        cmocka_unit_test(sentencepiece_gives_the_ids_of_its_library),
        cmocka_unit_test(a_model_without_its_library_says_what_to_install),
        cmocka_unit_test(tokenizer_json_comes_first_then_world_then_sentencepiece),
        cmocka_unit_test(unknown_tokenizer_classes_are_named_with_what_to_do),
        cmocka_unit_test(the_config_beside_says_what_is_added_B74),
        cmocka_unit_test(the_tokens_command_takes_folders_and_files_of_every_kind),
        cmocka_unit_test(llama_classes_follow_the_switch_also_with_tokenizer_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
