// What a tokenizer.json may not be: each is refused with a message that names the file and the key.
// And how a pattern is spelled for PCRE2.
#include "core/tok.h"
#include "tests/files.h"
#include "tests/tok_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[600];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s", files_folder());
    return 0;
}

static const char *put(const char *name, const char *text, size_t n) {
    static char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
    return path;
}

// A small good file with one section replaced.
typedef struct bad {
    const char *section, *text;
    err_code code;
    const char *says; // beside the file's name
} bad;

static const char *const sections[][2] = {
    {"truncation", "null"},
    {"padding", "null"},
    {"added_tokens", "[]"},
    {"normalizer", "null"},
    {"pre_tokenizer", "null"},
    {"post_processor", "null"},
    {"decoder", "null"},
    {"model.type", "\"BPE\""},
    {"model.dropout", "null"},
    {"model.unk_token", "null"},
    {"model.fuse_unk", "false"},
    {"model.end_of_word_suffix", "\"\""},
    {"model.vocab", "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"<s>\":4}"},
    {"model.merges", "[\"a b\"]"},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

static const char *compose(const char *section, const char *text) {
    static char buf[8192];
    size_t n = 0;
    bool in_model = false, used = section == NULL;
    n += (size_t)snprintf(buf + n, sizeof buf - n, "{\"version\":\"1.0\"");
    for (int k = 0; k < SECTIONS; k++) {
        const char *name = sections[k][0];
        bool model = !strncmp(name, "model.", 6), mine = section && !strcmp(name, section);
        n += (size_t)snprintf(buf + n, sizeof buf - n, ",%s\"%s\":%s",
                              model && !in_model ? "\"model\":{" : "", name + (model ? 6 : 0),
                              mine ? text : sections[k][1]);
        if (model && !in_model) // the comma before the first key belongs to "model"
            in_model = true;
        used = used || mine;
    }
    if (!used && !strncmp(section, "model.", 6)) {
        n += (size_t)snprintf(buf + n, sizeof buf - n, ",\"%s\":%s", section + 6, text);
        used = true;
    }
    n += (size_t)snprintf(buf + n, sizeof buf - n, "}");
    if (!used)
        n += (size_t)snprintf(buf + n, sizeof buf - n, ",\"%s\":%s", section, text);
    snprintf(buf + n, sizeof buf - n, "}");
    return buf;
}

static void refused(const char *json, size_t n, err_code code, const char *says) {
    err e = {0};
    const char *path = put("tokenizer.json", json, n);
    tokenizer *t = tokenizer_open(folder, &e);
    if (t)
        fail_msg("accepted, but should say \"%s\": %s", says, json);
    if (e.code != code || !strstr(e.text, says) || !strstr(e.text, path))
        fail_msg("code %d (should be %d): \"%s\" should name %s and say \"%s\"", e.code, code,
                 e.text, path, says);
    assert_null(strchr(e.text, '\n'));
}

#define TOKEN(id, text)                                                                            \
    "{\"id\":" id ",\"content\":\"" text                                                           \
    "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":" \
    "true}"

static const bad cases[] = {
    {"model.type", "\"WordPiece\"", ERR_UNSUPPORTED, "model.type: \"WordPiece\" is not supported"},
    {"model.type", "\"Unigram\"", ERR_UNSUPPORTED, "model.type: \"Unigram\""},
    {"model.type", "7", ERR_INPUT, "model.type: not a string"},
    {"model.dropout", "0.1", ERR_UNSUPPORTED, "model.dropout"},
    {"model.end_of_word_suffix", "\"</w>\"", ERR_UNSUPPORTED, "model.end_of_word_suffix"},
    {"model.continuing_subword_prefix", "\"##\"", ERR_UNSUPPORTED,
     "model.continuing_subword_prefix"},
    {"model.surprise", "1", ERR_UNSUPPORTED, "model.surprise: unknown setting"},
    {"model.fuse_unk", "1", ERR_INPUT, "model.fuse_unk: not true or false"},
    {"model.unk_token", "\"<none>\"", ERR_INPUT, "model.unk_token: \"<none>\" is not in"},
    {"model.vocab", "{}", ERR_INPUT, "model.vocab"},
    {"model.vocab", "[\"a\"]", ERR_INPUT, "model.vocab"},
    {"model.vocab", "{\"a\":0,\"b\":0}", ERR_INPUT, "id 0 belongs to \"a\" already"},
    {"model.vocab", "{\"a\":0,\"a\":1}", ERR_INPUT, "duplicate"},
    {"model.vocab", "{\"a\":-1}", ERR_INPUT, "model.vocab[\"a\"]: id -1 is out of range"},
    {"model.vocab", "{\"a\":4000000000}", ERR_INPUT, "id 4000000000 is out of range"},
    {"model.vocab", "{\"a\":99999999999999999999}", ERR_INPUT, "JSON"},
    {"model.vocab", "{\"a\":0.5}", ERR_INPUT, "model.vocab[\"a\"]: not an integer"},
    {"model.merges", "null", ERR_INPUT, "model.merges: missing or not a list"},
    {"model.merges", "[\"a b\",\"ab\"]", ERR_INPUT, "model.merges[1]"},
    {"model.merges", "[\"a b c\"]", ERR_INPUT, "model.merges[0]"},
    {"model.merges", "[[\"a\"]]", ERR_INPUT, "model.merges[0]"},
    {"model.merges", "[[\"a\",1]]", ERR_INPUT, "model.merges[0]"},
    {"model.merges", "[[\"\",\"a\"]]", ERR_INPUT, "model.merges[0]"},
    {"model.merges", "[\"a x\"]", ERR_INPUT, "model.merges[0]: \"x\" is not in model.vocab"},
    {"model.merges", "[\"b c\"]", ERR_INPUT, "model.merges[0]: \"bc\" is not in model.vocab"},
    {"surprise", "1", ERR_UNSUPPORTED, "surprise: unknown setting"},
    {"truncation", "{\"max_length\":5}", ERR_UNSUPPORTED, "truncation"},
    {"padding", "{\"strategy\":{\"Fixed\":8}}", ERR_UNSUPPORTED, "padding"},
    {"added_tokens", "{}", ERR_INPUT, "added_tokens: not a list"},
    {"added_tokens", "[" TOKEN("5", "x") "," TOKEN("5", "y") "]", ERR_INPUT,
     "added_tokens[1]: \"y\" (id 5) is listed twice"},
    {"added_tokens", "[" TOKEN("5", "x") "," TOKEN("6", "x") "]", ERR_INPUT, "added_tokens[1]"},
    {"added_tokens", "[" TOKEN("9", "x") "]", ERR_INPUT, "added_tokens[0].id: \"x\" has id 9"},
    {"added_tokens", "[" TOKEN("5", "<s>") "]", ERR_INPUT, "added_tokens[0].id: \"<s>\" has id 5"},
    {"added_tokens", "[" TOKEN("99999999", "x") "]", ERR_INPUT, "added_tokens[0].id: 99999999"},
    {"added_tokens", "[" TOKEN("5", "") "]", ERR_INPUT, "added_tokens[0].content: empty"},
    {"added_tokens", "[{\"id\":5}]", ERR_INPUT, "added_tokens[0].content: missing"},
    {"added_tokens", "[{\"id\":5,\"content\":\"x\",\"shout\":1}]", ERR_UNSUPPORTED,
     "added_tokens[0].shout"},
    {"normalizer", "{\"type\":\"Lowercase\"}", ERR_UNSUPPORTED, "normalizer.type: \"Lowercase\""},
    {"normalizer", "{\"type\":\"NFC\",\"x\":1}", ERR_UNSUPPORTED, "normalizer.x"},
    {"normalizer",
     "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Nmt\"}]}",
     ERR_UNSUPPORTED, "normalizer.normalizers[1].type: \"Nmt\""},
    {"normalizer", "{\"type\":\"Sequence\"}", ERR_INPUT, "normalizer.normalizers"},
    {"normalizer", "{\"type\":\"Prepend\"}", ERR_INPUT, "normalizer.prepend: missing"},
    {"normalizer", "{\"type\":\"Replace\",\"content\":\"x\",\"pattern\":\"y\"}", ERR_INPUT,
     "normalizer.pattern"},
    {"normalizer", "\"NFC\"", ERR_INPUT, "normalizer: not an object"},
    {"pre_tokenizer", "{\"type\":\"BertPreTokenizer\"}", ERR_UNSUPPORTED, "pre_tokenizer.type"},
    {"pre_tokenizer", "{\"type\":\"ByteLevel\",\"add_prefix_space\":\"no\"}", ERR_INPUT,
     "pre_tokenizer.add_prefix_space"},
    {"pre_tokenizer",
     "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a(\"},\"behavior\":\"Isolated\",\"invert\":"
     "false}",
     ERR_INPUT, "pre_tokenizer.pattern"},
    {"pre_tokenizer",
     "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\"}",
     ERR_UNSUPPORTED, "pre_tokenizer.pattern"},
    {"pre_tokenizer",
     "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Sideways\"}",
     ERR_UNSUPPORTED, "pre_tokenizer.behavior: \"Sideways\""},
    {"pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"ab\"}", ERR_INPUT,
     "pre_tokenizer.replacement"},
    {"pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"often\"}",
     ERR_INPUT, "pre_tokenizer.prepend_scheme"},
    {"decoder", "{\"type\":\"WordPiece\"}", ERR_UNSUPPORTED, "decoder.type: \"WordPiece\""},
    {"decoder", "{\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0}", ERR_INPUT,
     "decoder.start"},
    {"decoder", "{}", ERR_INPUT, "decoder.type: missing"},
    {"post_processor", "{\"type\":\"BertProcessing\"}", ERR_UNSUPPORTED, "post_processor.type"},
    {"post_processor", "{\"type\":\"TemplateProcessing\",\"single\":[]}", ERR_UNSUPPORTED,
     "post_processor.single"},
    {"post_processor",
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{"
     "\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[77]}}}",
     ERR_INPUT, "post_processor.special_tokens[\"<s>\"].ids[0]"},
    {"post_processor",
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"B\"}}]}", ERR_INPUT,
     "post_processor.single[0]"},
};

static void every_unknown_or_broken_setting_is_named(void **state) {
    (void)state;
    put("tokenizer.json", compose(NULL, NULL), strlen(compose(NULL, NULL)));
    tokenizer *t = tok_open(folder); // the file is good when nothing is replaced
    assert_int_equal(tokenizer_size(t), 5);
    tokenizer_close(t);
    size_t n = sizeof cases / sizeof *cases;
    for (size_t k = 0; k < n; k++) {
        const char *json = compose(cases[k].section, cases[k].text);
        refused(json, strlen(json), cases[k].code, cases[k].says);
    }
    printf("measured settings refused by name: %zu\n", n);
}

static void a_file_cut_anywhere_is_an_error_that_names_it(void **state) {
    (void)state;
    const char *json = compose(NULL, NULL);
    for (size_t n = 0; n < strlen(json); n++)
        refused(json, n, ERR_INPUT, "not valid JSON");
    refused("[]", 2, ERR_INPUT, "not a JSON object");
    refused("{\"a\x1b[31m\":1}", 12, ERR_INPUT, "JSON"); // and the escape is not passed on
    refused("\xFF\xFE{}", 4, ERR_INPUT, "not valid JSON");
}

// What is no tokenizer here, by name; test_tokenizer_formats.c has the formats that are read.
static void a_folder_without_a_tokenizer_says_what_is_there_instead(void **state) {
    (void)state;
    static const char *const files[][2] = {
        {"merges.txt", "vocab.json and merges.txt are not read"},
        {"tokenizer.tiktoken", "tiktoken files are not read"},
        {"vocab.txt", "WordPiece vocabularies are not read"},
    };
    char path[700];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    unlink(path);
    err e = {0};
    assert_null(tokenizer_open(folder, &e));
    assert_int_equal(e.code, ERR_MISSING);
    assert_non_null(strstr(e.text, "no tokenizer.json in this folder"));
    assert_non_null(strstr(e.text, ".npy"));
    for (int k = 0; k < 3; k++) {
        const char *made = put(files[k][0], "x", 1);
        err_clear(&e);
        assert_null(tokenizer_open(folder, &e));
        assert_int_equal(e.code, ERR_MISSING);
        assert_non_null(strstr(e.text, files[k][0]));
        assert_non_null(strstr(e.text, files[k][1]));
        unlink(made);
    }
    err_clear(&e);
    assert_null(tokenizer_open("/nowhere/at/all", &e));
    assert_int_equal(e.code, ERR_MISSING);
    assert_non_null(strstr(e.text, "/nowhere/at/all"));
}

static void names_of_bos_and_eos_come_from_the_config_beside(void **state) {
    (void)state;
    static const char plain[] = "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"ab\"},"
                                "\"model_max_length\":1000000000000000019884624838656}";
    static const char none[] = "{\"bos_token\":null}";
    put("tokenizer.json", compose(NULL, NULL), strlen(compose(NULL, NULL)));
    put("tokenizer_config.json", plain, strlen(plain));
    tokenizer *t = tok_open(folder);
    assert_int_equal(tokenizer_bos(t), 4);
    assert_int_equal(tokenizer_eos(t), 3);
    tokenizer_close(t);
    put("tokenizer_config.json", none, strlen(none)); // B74
    t = tok_open(folder);
    assert_int_equal(tokenizer_bos(t), -1);
    assert_int_equal(tokenizer_eos(t), -1);
    tokenizer_close(t);
    const char *path = put("tokenizer_config.json", "{", 1);
    err e = {0};
    assert_null(tokenizer_open(folder, &e));
    assert_non_null(strstr(e.text, "tokenizer_config.json"));
    unlink(path);
}

static void patterns_are_spelled_for_pcre2_or_refused(void **state) {
    (void)state;
    static const struct {
        const char *from, *to; // NULL: refused
    } spelled[] = {
        {"a+b?|c*", "a+b?|c*"},
        {"\\d\\D", "\\p{Nd}\\P{Nd}"},
        {"\\p{L}\\P{N}\\p{^Lu}", "\\p{L}\\P{N}\\P{Lu}"},
        {"\\p{Han}", "\\p{sc:Han}"},
        {"\\u00e9\\x41\\x{1F600}", "\\x{00e9}\\x{41}\\x{1F600}"},
        {"a{,3}b{2}c{1,}d{x", "a{0,3}b{2}c{1,}d\\{x"},
        {"[^\\r\\n]++(?!\\S)", NULL},
        {"(?i:'re|'ll)", "(?i:'re|'ll)"},
        {"\\v", "\\x0B"},
        {"(?i:ss)", NULL},
        {"(?:ss)", "(?:ss)"},
        {"(?i:a)\xC3\xA9", "(?i:a)\xC3\xA9"},
        {"(?i:\xC3\xA9)", NULL},
        {"[[:alpha:]]", NULL},
        {"[a&&b]", NULL},
        {"\\h", NULL},
        {"\\R", NULL},
        {"\\1", NULL},
        {"\\K", NULL},
        {"a{2}?", NULL},
        {"a{1,2}+", NULL},
        {"(?<n>a)", NULL},
        {"(*UTF)a", NULL},
        {"\\", NULL},
        {"[a", NULL},
    };
    for (size_t k = 0; k < sizeof spelled / sizeof *spelled; k++) {
        tok_buf out = {0};
        err e = {0};
        const char *from = spelled[k].from, *to = spelled[k].to;
        bool ok = tok_regex_translate(from, strlen(from), false, &out, &e);
        if (strstr(from, "\\S")) { // its spelling is long; that it is one is what counts
            assert_true(ok);
            assert_non_null(strstr(out.p, "(?![^\\t-\\r"));
        } else if (ok != (to != NULL) || (ok && strcmp(out.p, to) != 0)) {
            fail_msg("%s became %s, should be %s", from, ok ? out.p : e.text, to ? to : "refused");
        }
        free(out.p);
    }
}

// White_Space as the library's engine has it: U+0085, U+00A0, U+2028, U+3000 are in, U+200B and
// U+180E are not.
static void blanks_are_white_space_and_nothing_else(void **state) {
    (void)state;
    static const uint32_t in[] = {9,      10,     11,     12,     13,     0x20,   0x85,   0xA0,
                                  0x1680, 0x2000, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
    static const uint32_t out[] = {0, 8, 14, 0x1C, 0x84, 0x86, 0x180E, 0x200B, 0x2060, 0xFEFF};
    static const char *const regex[] = {"\\s", "[\\s]", "\\S", "[\\S]"};
    tok_finder f = {0};
    for (int k = 0; k < 4; k++) {
        tok_pattern p = {0};
        err e = {0};
        assert_true(tok_pattern_regex(&p, regex[k], strlen(regex[k]), &e));
        for (int i = 0; i < 26; i++) {
            char one[4];
            size_t n = (size_t)tok_char_put(i < 16 ? in[i] : out[i - 16], one), a = 0, b = 0;
            tok_find it = {0};
            bool found = false;
            assert_true(tok_pattern_next(&p, &f, &it, one, n, &a, &b, &found, &e));
            assert_int_equal(found, (i < 16) == (k < 2));
            assert_int_equal(tok_blank(i < 16 ? in[i] : out[i - 16]), i < 16);
        }
        tok_pattern_free(&p);
    }
    tok_finder_free(&f);
}

// The quick form of a pattern must cut text below U+0800 as the full one does, and matching without
// the compiler (where the system forbids it) as matching with it.
static void all_forms_of_a_pattern_find_the_same(void **state) {
    (void)state;
    static const char *const regex[] = {
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|\\P{L}\\W|\\w+\\b"};
    uint32_t seed = 3;
    size_t matches = 0;
    tok_finder f = {0};
    for (int k = 0; k < 2; k++) {
        tok_pattern p = {0}, full, slow;
        err e = {0};
        assert_true(tok_pattern_regex(&p, regex[k], strlen(regex[k]), &e));
        assert_non_null(p.plain);
        full = p;
        full.plain = NULL;
        slow = full;
        slow.jit = false;
        for (int round = 0; round < 2000; round++) {
            const tok_pattern *second = round % 4 < 2 ? &full : &slow;
            char text[256];
            size_t n = 0, a = 0, b = 0, c = 0, d = 0;
            while (n < 200) {
                seed = seed * 1664525u + 1013904223u;
                uint32_t x = (seed >> 8) % (round % 2 ? 0x800 : 0x80);
                n += (size_t)tok_char_put(x, text + n);
            }
            tok_find one = {0}, two = {0};
            bool found = true, other = true;
            while (found) {
                assert_true(tok_pattern_next(&p, &f, &one, text, n, &a, &b, &found, &e));
                assert_true(tok_pattern_next(second, &f, &two, text, n, &c, &d, &other, &e));
                assert_int_equal(found, other);
                assert_true(!found || (a == c && b == d));
                matches += found;
            }
        }
        tok_pattern_free(&p);
    }
    tok_finder_free(&f);
    printf("measured matches equal in all forms: %zu\n", matches);
}

static void the_byte_alphabet_is_one_to_one(void **state) {
    (void)state;
    for (int b = 0; b < 256; b++)
        assert_int_equal(tok_char_byte(tok_byte_char((unsigned char)b)), b);
    int found = 0;
    for (uint32_t c = 0; c < 0x10000; c++)
        found += tok_char_byte(c) >= 0;
    assert_int_equal(found, 256);
    assert_int_equal(tok_byte_char(' '), 0x120); // the G with a dot that every such file shows
    assert_int_equal(tok_byte_char('\n'), 0x10A);
}

// Unicode 3.9, table 3-8: the bytes and the replacement characters they give.
static void maximal_bad_parts_are_those_of_the_unicode_standard(void **state) {
    (void)state;
    static const char raw[] = "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64";
#define R "\xEF\xBF\xBD"
    static const char want[] = "a" R R R "b" R "c" R R "d";
#undef R
    tok_buf out = {0};
    assert_true(tok_utf8_lossy(&out, raw, sizeof raw - 1, NULL));
    assert_string_equal(out.p, want);
    assert_false(tok_utf8_valid(raw, sizeof raw - 1));
    assert_true(tok_utf8_valid(out.p, out.n));
    free(out.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_unknown_or_broken_setting_is_named),
        cmocka_unit_test(a_file_cut_anywhere_is_an_error_that_names_it),
        cmocka_unit_test(a_folder_without_a_tokenizer_says_what_is_there_instead),
        cmocka_unit_test(names_of_bos_and_eos_come_from_the_config_beside),
        cmocka_unit_test(patterns_are_spelled_for_pcre2_or_refused),
        cmocka_unit_test(blanks_are_white_space_and_nothing_else),
        cmocka_unit_test(all_forms_of_a_pattern_find_the_same),
        cmocka_unit_test(the_byte_alphabet_is_one_to_one),
        cmocka_unit_test(maximal_bad_parts_are_those_of_the_unicode_standard),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
