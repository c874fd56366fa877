// Folders, indices and shards: which files a checkpoint is made of (faults B9, B10).

#include "core/ckpt.h"
#include "core/mem.h"
#include "tests/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const SHARD[] = {"m/model-00001-of-00003.safetensors",
                                    "m/model-00002-of-00003.safetensors",
                                    "m/model-00003-of-00003.safetensors"};

// One file with one-element tensors of the given names, the last argument NULL.
static void shard(const char *path, float value, ...) {
    char header[1024];
    float data[16];
    size_t at = (size_t)snprintf(header, sizeof header, "{\"__metadata__\":{\"format\":\"pt\"}");
    size_t n = 0;
    va_list ap;
    va_start(ap, value);
    for (const char *name; (name = va_arg(ap, const char *)); n++) {
        at +=
            (size_t)snprintf(header + at, sizeof header - at,
                             ",\"%s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[%zu,%zu]}",
                             name, 4 * n, 4 * n + 4);
        data[n] = value;
    }
    va_end(ap);
    snprintf(header + at, sizeof header - at, "}");
    files_safetensors(files_path("%s", path), header, data, 4 * n);
}

static void index_text(const char *text) {
    files_text(files_path("m/model.safetensors.index.json"), text);
}

// Three shards a, b, c and their index.
static int three_shards(void **state) {
    (void)state;
    files_mkdir(files_path("m"));
    shard(SHARD[0], 1, "a", NULL);
    shard(SHARD[1], 2, "b", NULL);
    shard(SHARD[2], 3, "c", NULL);
    index_text("{\"metadata\":{\"total_size\":12},\"weight_map\":{"
               "\"a\":\"model-00001-of-00003.safetensors\","
               "\"b\":\"model-00002-of-00003.safetensors\","
               "\"c\":\"model-00003-of-00003.safetensors\"}}");
    return 0;
}

static int clean(void **state) {
    (void)state;
    files_clear();
    return 0;
}

static ckpt *opened(const char *path) {
    err e = {0};
    ckpt *c = ckpt_open(path, &e);
    if (!c)
        fail_msg("%s", e.text);
    return c;
}

static double value_of(const ckpt *c, const char *name) {
    const tensor *t;
    double d = 0;
    err e = {0};
    if (!ckpt_find(c, name, &t, &e) || !ckpt_read_f64(c, t, 0, 1, &d, &e))
        fail_msg("%s", e.text);
    return d;
}

static void refused(const char *path, err_code code, const char *where, const char *want) {
    err e = {0};
    assert_null(ckpt_open(path, &e));
    files_assert_error(&e, code, "%s: %s", where, want);
}

static void an_index_gathers_its_shards(void **state) {
    (void)state;
    ckpt *c = opened(files_path("m"));
    assert_int_equal(ckpt_count(c), 3);
    assert_int_equal(ckpt_files(c), 3);
    assert_true(value_of(c, "a") == 1 && value_of(c, "b") == 2 && value_of(c, "c") == 3);
    assert_int_equal(ckpt_get(c, "b")->file, 1);
    assert_string_equal(ckpt_file(c, 1), files_path("%s", SHARD[1]));
    assert_int_equal(ckpt_metadata_count(c), 1); // three times the same is told once
    assert_int_equal(ckpt_note_count(c), 0);
    ckpt_close(c);
    c = opened(files_path("m/")); // a slash at the end changes nothing
    assert_string_equal(ckpt_file(c, 1), files_path("%s", SHARD[1]));
    ckpt_close(c);
}

static void b9_a_missing_shard_is_named(void **state) {
    (void)state;
    unlink(files_path("%s", SHARD[1]));
    refused(files_path("m"), ERR_MISSING, files_path("%s", SHARD[1]),
            "the index names this file, but it is not there (1 of 3 files missing)");
}

static void b9_a_short_shard_is_named(void **state) {
    (void)state;
    assert_int_equal(truncate(files_path("%s", SHARD[2]), 94), 0);
    err e = {0};
    assert_null(ckpt_open(files_path("m"), &e));
    files_assert_error_holds(&e, ERR_INPUT, SHARD[2]);
    files_assert_error_holds(&e, ERR_INPUT,
                             "file is 2 bytes shorter than its header says (got 94, need 96)");
}

static void b10_a_stray_file_beside_an_index_is_mentioned_and_not_read(void **state) {
    (void)state;
    shard("m/model.safetensors", 9, "a", "stray", NULL);
    ckpt *c = opened(files_path("m"));
    assert_null(ckpt_get(c, "stray"));
    assert_true(value_of(c, "a") == 1);
    assert_int_equal(ckpt_note_count(c), 1);
    assert_string_equal(ckpt_note(c, 0), "model.safetensors is beside an index that does not name "
                                         "it, and was not read");
    ckpt_close(c);
    shard("m/model-00001-of-00002.safetensors", 9, "a", NULL); // of an older count of shards
    c = opened(files_path("m"));
    assert_string_equal(ckpt_note(c, 0),
                        "model-00001-of-00002.safetensors and 1 more are beside an index that does "
                        "not name them, and were not read");
    ckpt_close(c);
}

static void a_tensor_that_its_shard_lacks_is_named(void **state) {
    (void)state;
    shard(SHARD[1], 2, "x", NULL);
    refused(files_path("m"), ERR_MISSING, files_path("%s", SHARD[1]),
            "no tensor b, although the index says so");
}

static void a_tensor_that_the_index_does_not_mention_is_read_and_remarked_on(void **state) {
    (void)state;
    shard(SHARD[1], 2, "b", "x", NULL);
    ckpt *c = opened(files_path("m"));
    assert_true(value_of(c, "x") == 2);
    assert_string_equal(ckpt_note(c, 0),
                        "the index does not mention tensor x, which is in its files");
    ckpt_close(c);
    shard(SHARD[2], 3, "c", "x", NULL); // now in two files: nobody says which one counts
    char want[512];
    snprintf(want, sizeof want, "tensor x is also in %s, and the index names neither",
             files_path("%s", SHARD[1]));
    refused(files_path("m"), ERR_INPUT, files_path("%s", SHARD[2]), want);
}

static void the_index_decides_between_two_files_that_hold_one_name(void **state) {
    (void)state;
    shard(SHARD[0], 1, "a", "b", NULL);
    ckpt *c = opened(files_path("m"));
    assert_true(value_of(c, "b") == 2);
    assert_int_equal(ckpt_count(c), 3);
    ckpt_close(c);
}

static void an_index_that_leaves_its_folder_is_refused(void **state) {
    (void)state;
    static const char *const names[] = {"../x.safetensors", "/etc/x.safetensors", "a/../../x", "..",
                                        ""};
    char text[256], want[256];
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "{\"weight_map\":{\"a\":\"%s\"}}", names[i]);
        index_text(text);
        snprintf(want, sizeof want, "weight_map: file \"%s\" lies outside the folder", names[i]);
        refused(files_path("m"), ERR_INPUT, files_path("m/model.safetensors.index.json"), want);
    }
}

static void a_wrong_index_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "is empty, need JSON"},
        {"{\"weight_map\":", "is not JSON at line 1, column 14 (byte 14): unexpected token near "
                             "end of file"},
        {"{}", "weight_map is absent, need an object"},
        {"{\"weight_map\":[]}", "weight_map is an array, need an object"},
        {"{\"weight_map\":{}}", "weight_map names no tensor"},
        {"{\"weight_map\":{\"a\":3}}", "weight_map: a is a number, need a file name"},
        {"{\"weight_map\":{\"a\":\"x\",\"a\":\"x\"}}",
         "holds the key \"a\" twice (line 1, column 26)"},
        {"[]", "weight_map is absent, need an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        index_text(cases[i].text);
        refused(files_path("m"), ERR_INPUT, files_path("m/model.safetensors.index.json"),
                cases[i].want);
    }
}

static void shards_without_their_index_are_refused(void **state) {
    (void)state;
    unlink(files_path("m/model.safetensors.index.json"));
    refused(files_path("m"), ERR_MISSING, files_path("m"),
            "holds model-00001-of-00003.safetensors (3 of 3 shards) but no "
            "model.safetensors.index.json");
    ckpt *c = opened(files_path("%s", SHARD[1])); // one alone may be looked at
    assert_int_equal(ckpt_count(c), 1);
    assert_string_equal(ckpt_note(c, 0), "model-00002-of-00003.safetensors is one of 3 shards; the "
                                         "others were not read (give the folder to read all)");
    ckpt_close(c);
}

static void memory_may_end_at_any_point(void **state) {
    (void)state;
    shard("m/model.safetensors", 9, "a", NULL);
    ckpt *c = NULL;
    for (long n = 1; !c; n++) {
        err e = {0};
        mem_fail_after(n);
        c = ckpt_open(files_path("m"), &e);
        mem_fail_after(0);
        if (!c)
            assert_int_equal(e.code, ERR_NOMEM);
    }
    ckpt_close(c);
    c = NULL;
    for (long n = 1; !c; n++) {
        err e = {0};
        files_json_fail_after(n);
        c = ckpt_open(files_path("m"), &e);
        files_json_fail_after(0);
        if (!c)
            assert_int_not_equal(e.code, ERR_NONE);
    }
    assert_int_equal(ckpt_count(c), 3);
    ckpt_close(c);
}

static void a_folder_is_searched_for_the_one_file(void **state) {
    (void)state;
    files_mkdir(files_path("d"));
    const char *d = files_path("d");
    refused(d, ERR_MISSING, d, "no .safetensors file in this folder");
    shard("d/other.safetensors", 1, "o", NULL);
    ckpt *c = opened(d);
    assert_true(value_of(c, "o") == 1);
    ckpt_close(c);
    shard("d/second.safetensors", 2, "s", NULL);
    refused(d, ERR_INPUT, d,
            "holds 2 .safetensors files (other.safetensors, second.safetensors) and no index: name "
            "the one to read");
    shard("d/model.safetensors", 3, "m", NULL);
    c = opened(d);
    assert_true(value_of(c, "m") == 3);
    ckpt_close(c);
}

static void other_formats_are_refused_with_a_hint(void **state) {
    (void)state;
    static const char pickle[] =
        "is a PyTorch pickle, which can run code when read: save the model "
        "as safetensors first";
    static const char *const names[] = {"x.bin", "x.pth", "x.pt"};
    for (int i = 0; i < 3; i++) {
        files_text(files_path("%s", names[i]), "x");
        refused(files_path("%s", names[i]), ERR_UNSUPPORTED, files_path("%s", names[i]), pickle);
    }
    files_text(files_path("x.gguf"), "GGUF");
    refused(files_path("x.gguf"), ERR_UNSUPPORTED, files_path("x.gguf"),
            "is a GGUF file (mostly quantised): use the safetensors files it was made from");
    files_text(files_path("config.json"), "{}");
    refused(files_path("config.json"), ERR_INPUT, files_path("config.json"),
            "is JSON, not weights: give its folder or a .safetensors file");
    files_mkdir(files_path("d"));
    files_text(files_path("d/pytorch_model.bin"), "x");
    files_text(files_path("d/training_args.bin"), "x");
    char want[256];
    snprintf(want, sizeof want, "holds no .safetensors file; pytorch_model.bin %s", pickle);
    refused(files_path("d"), ERR_UNSUPPORTED, files_path("d"), want);
}

static void a_name_that_is_no_path_gets_the_hint_about_hubs(void **state) {
    (void)state;
    refused("org-xyz/some-model-1.3B", ERR_MISSING, "org-xyz/some-model-1.3B",
            "no such file or folder. If this is a model on a hub, download it first and give the "
            "folder");
    refused("core/absent-folder", ERR_MISSING, "core/absent-folder", "no such file or folder");
    refused("./a/b", ERR_MISSING, "./a/b", "no such file or folder");
    refused("absent.safetensors", ERR_MISSING, "absent.safetensors", "no such file or folder");
    refused("a\x1b[2J/x\xff/y", ERR_MISSING, "a\\x1b[2J/x\\xff/y", "no such file or folder");
}

static void reference_checkpoints_are_read(void **state) {
    (void)state;
    const char *shards = files_shared("golden/hf-qwen3-next-shards");
    if (!shards)
        skip();
    ckpt *c = opened(shards);
    assert_int_equal(ckpt_files(c), 3);
    assert_int_equal(ckpt_count(c), 130);
    assert_int_equal(ckpt_note_count(c), 0);
    double x;
    err e = {0};
    for (int64_t i = 0; i < ckpt_count(c); i++) {
        const tensor *t = ckpt_at(c, i);
        assert_ptr_equal(ckpt_get(c, t->name), t);
        assert_true(ckpt_read_f64(c, t, t->count - 1, 1, &x, &e));
    }
    ckpt_close(c);
}

#define SHARDS(f) cmocka_unit_test_setup_teardown(f, three_shards, clean)
#define CASE(f)   cmocka_unit_test_teardown(f, clean)

int main(void) {
    const struct CMUnitTest tests[] = {
        SHARDS(an_index_gathers_its_shards),
        SHARDS(b9_a_missing_shard_is_named),
        SHARDS(b9_a_short_shard_is_named),
        SHARDS(b10_a_stray_file_beside_an_index_is_mentioned_and_not_read),
        SHARDS(a_tensor_that_its_shard_lacks_is_named),
        SHARDS(a_tensor_that_the_index_does_not_mention_is_read_and_remarked_on),
        SHARDS(the_index_decides_between_two_files_that_hold_one_name),
        SHARDS(an_index_that_leaves_its_folder_is_refused),
        SHARDS(a_wrong_index_is_refused_by_name),
        SHARDS(shards_without_their_index_are_refused),
        SHARDS(memory_may_end_at_any_point),
        CASE(a_folder_is_searched_for_the_one_file),
        CASE(other_formats_are_refused_with_a_hint),
        CASE(a_name_that_is_no_path_gets_the_hint_about_hubs),
        CASE(reference_checkpoints_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
