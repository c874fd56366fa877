// What a checkpoint holds, needs and lacks: folding, globs, statistics, findings, exit codes.
#include "analyses/inspect.h"
#include "core/mem.h"
#include "tests/files.h"
#include "tests/inspect_models.h"
#include "tests/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST(name) static void name(void **state __attribute__((unused)))

static const small_model gated = {
    .layers = 3, .D = 8, .H = 2, .K = 4, .V = 8, .n_h = 1, .n_vocab = 6, .mlp = 16};

static const char *model_folder(const small_model *m) {
    static int n;
    const char *folder = files_path("model%d", n++);
    small_model_write(folder, m);
    return folder;
}

// Runs deltop inspect; words end with NULL. The caller frees *r.
static int inspect_cli(run *r, const char *const *words) {
    const char *argv[16] = {"inspect"};
    for (int i = 0; words[i]; i++)
        argv[i + 1] = words[i];
    *r = (run){.argv = argv};
    if (!run_program(r))
        fail_msg("%s cannot be started", run_program_path());
    r->argv = NULL;
    return r->code;
}

static int exit_code(const char *path, const char *option) {
    run r;
    int code = inspect_cli(&r, (const char *const[]){path, option, NULL});
    run_free(&r);
    return code;
}

TEST(include_and_exclude_select_tensors) {
    const char *folder = model_folder(&gated);
    const char *in[] = {"*attn.*", "model.norm.weight"}, *not [] = {"*conv1d*"};
    inspection x;
    small_open(&x, folder,
               &(inspect_options){.include = in, .n_include = 2, .exclude = not, .n_exclude = 1});
    assert_int_equal(x.n_selected, 3 * 10 + 1);
    assert_int_equal(x.groups.n, 11);
    assert_int_equal(x.leftover.n + x.n_missing, 0); // of the whole file all the same
    inspect_close(&x);
}

// Sizes --------------------------------------------------------------------------------------

TEST(state_bytes_are_heads_times_K_times_V_times_4_B117) {
    inspection x;
    memory_need need;
    small_open(&x, model_folder(&gated), NULL); // V = 2 K: 2 * 4 * 8 * 4
    assert_int_equal(x.kind[0].state_bytes, 256);
    assert_int_equal(x.kind[0].n, 3);
    assert_string_equal(x.kind[0].layers, "0-2");
    assert_int_equal(4 * x.kind[0].carry_count, 384); // 3 rows of 8 + 8 + 16 channels
    assert_int_equal(model_state_bytes(x.m), 768);
    // 64 tokens in blocks of 16: carries 3 (256 + 384), losses 64 * 8, weights 4 bytes an element
    assert_true(inspect_need(&x, PRECISION_F32, 64, 16, &need));
    assert_int_equal(need.carries, 1920);
    assert_int_equal(need.losses, 512);
    assert_int_equal(need.weights, 4 * x.parameters);
    assert_int_equal(need.erank, 8 * 3 * 2 * 64);
    assert_true(inspect_need(&x, PRECISION_BF16, 64, 16, &need)); // states stay float32
    assert_int_equal(need.carries, 3 * (256 + 192));
    inspect_close(&x);

    small_model product = gated; // n_h = 3, K = V: 2 * 4 * 4 * 4, not three times that
    product.V = 4;
    product.n_h = 3;
    small_open(&x, model_folder(&product), NULL);
    assert_int_equal(x.kind[0].state_bytes, 128);
    assert_int_equal(4 * x.kind[0].carry_count, 672); // 3 rows of 8 + 24 + 24 channels
    assert_int_equal(x.kind[0].body->heads.n_h, 3);
    assert_false(inspect_is_wrong(&x));
    inspect_close(&x);
}

TEST(a_rounded_A_log_is_seen_among_float32_ones_B114) {
    small_model m = gated;
    m.a_log_type = "BF16";
    inspection x;
    small_open(&x, model_folder(&m), NULL);
    assert_string_equal(small_group(&x.groups, "model.layers.#.attn.A_log", 0)->of->type_name,
                        "BF16");
    assert_string_equal(small_group(&x.groups, "model.layers.#.attn.A_log", 1)->numbers, "1-2");
    inspect_close(&x);
}

// Findings and exit codes --------------------------------------------------------------------

TEST(a_sound_model_passes_strict) {
    const char *folder = model_folder(&gated);
    inspection x;
    small_open(&x, folder, NULL);
    assert_int_equal(x.n_findings + x.n_missing + x.leftover.n, 0);
    assert_int_equal(x.n_unread, 3); // the keys of the other family
    assert_string_equal(x.unread[0], "num_householder");
    inspect_close(&x);
    assert_int_equal(exit_code(folder, "--strict"), 0);
}

// --strict reads the values for itself, says which tensor it is, and shows no figures.
TEST(nan_fails_strict_in_every_form_B15) {
    tensor_file f = {0};
    const char *path = files_path("nan.safetensors");
    float v[5] = {NAN, NAN, NAN, INFINITY, -INFINITY};
    tensor_file_add(&f, "a", "F32", 4, "[5]", 5, v);
    tensor_file_write(&f, path);
    assert_int_equal(exit_code(path, "--full"), 0); // nobody asked for the values
    run r;
    assert_int_equal(inspect_cli(&r, (const char *const[]){path, "--strict", NULL}), 4);
    assert_non_null(strstr(r.out, "a holds 3 NaN and 2 Inf among 5 values"));
    assert_null(strstr(r.out, "3 NaN, 2 Inf"));
    run_free(&r);
    assert_int_equal(inspect_cli(&r, (const char *const[]){path, "--strict", "--json", NULL}), 4);
    assert_non_null(strstr(r.out, "\"strict_pass\": false"));
    assert_null(strstr(r.out, "\"q50\""));
    run_free(&r);
    assert_int_equal(inspect_cli(&r, (const char *const[]){path, "--stats", "--strict", NULL}), 4);
    assert_non_null(strstr(r.out, "3 NaN, 2 Inf"));
    run_free(&r);
}

TEST(an_unknown_tensor_in_a_known_layer_is_listed_and_fails_strict_B29) {
    small_model m = gated;
    m.extra = "model.layers.1.attn.in_proj_qkv.weight";
    const char *folder = model_folder(&m);
    inspection x;
    small_open(&x, folder, NULL);
    assert_int_equal(x.leftover.n, 1);
    assert_string_equal(x.leftover.v[0].of->name, m.extra);
    inspect_close(&x);
    assert_int_equal(exit_code(folder, NULL), 0);
    run r;
    assert_int_equal(inspect_cli(&r, (const char *const[]){folder, "--strict", NULL}), 4);
    assert_non_null(strstr(r.out, "left over"));
    assert_non_null(strstr(r.out, "! model.layers.1.attn.in_proj_qkv.weight"));
    run_free(&r);
}

TEST(a_missing_tensor_is_named_with_its_nearest_and_fails_strict_B108) {
    small_model m = gated;
    m.without = "model.layers.2.attn.dt_bias";
    m.extra = "model.layers.2.attn.dt_bia";
    const char *folder = model_folder(&m);
    inspection x;
    small_open(&x, folder, NULL);
    assert_int_equal(x.n_missing, 1);
    assert_string_equal(x.missing[0].pattern, m.without);
    assert_string_equal(x.missing[0].nearest, m.extra);
    inspect_close(&x);
    assert_int_equal(exit_code(folder, "--strict"), 4);
    assert_int_equal(exit_code(folder, NULL), 0);
    m.without = "model.norm.weight";
    m.extra = "model.norm.weights";
    small_open(&x, model_folder(&m), NULL);
    assert_string_equal(x.missing[0].nearest, m.extra);
    inspect_close(&x);
}

TEST(tensors_of_other_parts_are_folded_with_a_count_B38) {
    small_model m = gated;
    const char *folder = model_folder(&m), *path = files_path("parts.safetensors");
    inspection x;
    tensor_file f = {0};
    char name[80];
    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "model.visual.blocks.%d.w", i);
        tensor_file_add(&f, name, "F32", 4, "[1]", 1, NULL);
    }
    tensor_file_write(&f, path);
    // as the second shard of the model
    char config[700], index[4096] = "{\"weight_map\":{", target[700];
    small_open(&x, folder, NULL);
    for (int64_t i = 0; i < ckpt_count(x.c); i++)
        snprintf(index + strlen(index), sizeof index - strlen(index), "\"%s\":\"a.safetensors\",",
                 ckpt_at(x.c, i)->name);
    inspect_close(&x);
    for (int i = 0; i < 7; i++)
        snprintf(index + strlen(index), sizeof index - strlen(index),
                 "\"model.visual.blocks.%d.w\":\"b.safetensors\"%s", i, i < 6 ? "," : "}}");
    snprintf(config, sizeof config, "%s/model.safetensors", folder);
    snprintf(target, sizeof target, "%s/a.safetensors", folder);
    assert_int_equal(rename(config, target), 0);
    snprintf(target, sizeof target, "%s/b.safetensors", folder);
    assert_int_equal(rename(path, target), 0);
    snprintf(target, sizeof target, "%s/model.safetensors.index.json", folder);
    files_text(target, index);
    small_open(&x, folder, NULL);
    assert_int_equal(x.leftover.n, 1);
    assert_string_equal(x.leftover.v[0].pattern, "model.visual.blocks.#.w");
    assert_int_equal(x.leftover.v[0].n, 7);
    assert_int_equal(x.n_missing, 0);
    inspect_close(&x);
}

TEST(an_unknown_family_is_listed_with_the_closest_one) {
    small_model m = gated;
    const char *folder = model_folder(&m);
    char path[600];
    snprintf(path, sizeof path, "%s/config.json", folder);
    files_text(path, "{\"model_type\":\"gated_deltanet2\",\"vocab_size\":9,\"hidden_size\":8}");
    inspection x;
    small_open(&x, folder, NULL);
    assert_string_equal(x.nearest, "gated_deltanet");
    assert_null(x.m);
    assert_int_equal(x.groups.n, 20);
    // B110: embedding rows against the config
    assert_true(small_finding(&x, true, "vocab_size 9, but model.embeddings.weight has 6 rows"));
    inspect_close(&x);
    assert_int_equal(exit_code(folder, NULL), 0);
    assert_int_equal(exit_code(folder, "--strict"), 4);
}

TEST(what_the_loader_refuses_is_a_finding_B23_B109) {
    small_model m = gated;
    m.config = ",\"qk_norm\":\"\"";
    const char *folder = model_folder(&m);
    char path[600], *text;
    size_t n;
    inspection x;
    snprintf(path, sizeof path, "%s/config.json", folder);
    text = files_read(path, &n);
    memcpy(strstr(text, "\"hidden_size\":8"), "\"hidden_size\":9", 15);
    memcpy(strstr(text, "\"num_hidden_layers\":3"), "\"num_hidden_layers\":4", 21);
    files_text(path, text);
    free(text);
    small_open(&x, folder, NULL);
    assert_true(small_finding(&x, true, "the loader refuses this model"));
    assert_true(
        small_finding(&x, true, "hidden_size 9, but model.embeddings.weight has 8 columns"));
    assert_true(small_finding(&x, true, "config says 4 layers, but the tensors model.layers.0"));
    assert_int_equal(x.groups.n, 20);
    inspect_close(&x);
    files_text(path, "{\"model_type\": ");
    small_open(&x, folder, NULL);
    assert_true(small_finding(&x, true, "config.json: "));
    inspect_close(&x);
    assert_int_equal(exit_code(folder, NULL), 0);
}

TEST(a_gap_in_the_layers_is_named_and_stray_words_are_no_layers_B109) {
    tensor_file f = {0};
    inspection x;
    const char *path = files_path("gap.safetensors");
    static const char *const names[] = {"blocks.0.x", "blocks.1.x", "blocks.3.x", "blocks.extra.x"};
    for (int i = 0; i < 4; i++)
        tensor_file_add(&f, names[i], "F32", 4, "[1]", 1, NULL);
    tensor_file_write(&f, path);
    small_open(&x, path, NULL);
    assert_true(small_finding(&x, false, "blocks. counts to 3 with a gap: no tensors of 2"));
    inspect_close(&x);
}

TEST(a_file_without_tensors_lists_metadata_sorted_B103a_B105) {
    tensor_file f = {0};
    char long_value[400], json[600];
    const char *path = files_path("empty.safetensors");
    memset(long_value, 'v', 399);
    long_value[399] = 0;
    snprintf(json, sizeof json, "{\"zeta\":\"1\",\"epoch\":\"%s\",\"alpha\":\"a\\u001b[31m\"}",
             long_value);
    tensor_file_metadata(&f, json);
    tensor_file_write(&f, path);
    run r;
    assert_int_equal(inspect_cli(&r, (const char *const[]){path, "--strict", NULL}), 0);
    const char *a = strstr(r.out, "  alpha: a\\x1b[31m\n"), *e = strstr(r.out, "  epoch: v"),
               *z = strstr(r.out, "  zeta: 1\n");
    assert_true(a && e && z && a < e && e < z);
    assert_null(strstr(r.out, long_value));
    assert_null(strchr(r.out, '\x1b'));
    for (char *line = strtok(r.out, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= 80);
    run_free(&r);
    assert_int_equal(inspect_cli(&r, (const char *const[]){path, "--full", NULL}), 0);
    assert_non_null(strstr(r.out, long_value));
    run_free(&r);
}

TEST(a_bare_file_says_that_no_config_is_beside_it) {
    tensor_file f = {0};
    const char *folder = files_path("bare");
    files_mkdir(folder);
    char path[600];
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    tensor_file_add(&f, "w\\u001b[2J\\u202e", "F32", 4, "[1]", 1, NULL);
    tensor_file_write(&f, path);
    run r;
    assert_int_equal(inspect_cli(&r, (const char *const[]){path, NULL}), 0);
    assert_non_null(strstr(r.out, "no config.json beside the file"));
    assert_non_null(strstr(r.out, "w\\x1b[2J\\u{202e}")); // shown escaped
    assert_null(strchr(r.out, '\x1b'));
    run_free(&r);
}

// Tokenizer ----------------------------------------------------------------------------------

static const char tokenizer_text[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[{\"id\":5,"
    "\"content\":\"<s>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":"
    "false,\"special\":true}],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
    "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,"
    "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,"
    "\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
    "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
    "\"byte_fallback\":false,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\u010a\":3,\"\u0120\":4},"
    "\"merges\":[\"a b\"]}}\n";

TEST(a_tokenizer_with_more_ids_than_embedding_rows_is_named_B106_B110) {
    small_model m = gated; // 6 rows, 6 ids
    inspection x;
    char path[600];
    const char *folder = model_folder(&m);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    files_text(path, tokenizer_text);
    small_open(&x, folder, NULL);
    assert_true(x.tokenizer.loaded);
    assert_int_equal(x.tokenizer.size, 6);
    assert_string_equal(x.tokenizer.kind, "byte-level BPE");
    assert_int_equal(x.tokenizer.special.n, 1);
    assert_string_equal(x.tokenizer.special.v[0], "<s> (5)");
    assert_false(inspect_is_wrong(&x));
    inspect_close(&x);
    m.n_vocab = 4;
    folder = model_folder(&m);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    files_text(path, tokenizer_text);
    small_open(&x, folder, NULL);
    assert_true(
        small_finding(&x, true, "the tokenizer has ids 0 to 5, but the embedding has 4 row"));
    inspect_close(&x);
    assert_int_equal(exit_code(folder, "--strict"), 4);
    files_text(path, "{\"model\":");
    small_open(&x, folder, NULL); // a broken one is a finding too
    assert_true(small_finding(&x, true, "tokenizer: "));
    inspect_close(&x);
}

TEST(a_world_vocabulary_alone_is_the_tokenizer_B73) {
    small_model m = gated;
    inspection x;
    char path[600];
    const char *folder = model_folder(&m);
    snprintf(path, sizeof path, "%s/rwkv_vocab_v1.txt", folder);
    files_text(path, "1 'a' 1\n2 b'\\xff' 1\n5 'ab' 2\n");
    small_open(&x, folder, NULL);
    assert_true(x.tokenizer.loaded);
    assert_int_equal(x.tokenizer.size, 6);
    assert_int_equal(x.tokenizer.eos, 0);
    assert_string_equal(x.tokenizer.kind, "RWKV World vocabulary");
    inspect_close(&x);
    run r = {.argv = (const char *const[]){"inspect", folder, NULL}};
    assert_true(run_program(&r));
    assert_non_null(strstr(r.out, "rwkv_vocab_v1.txt, 29 bytes"));
    run_free(&r);
    assert_int_equal(remove(path), 0);
}

TEST(a_large_tokenizer_is_only_looked_at_unless_asked_for) {
    const char *folder = model_folder(&gated);
    size_t n = strlen(tokenizer_text), room = (1 << 20) + 1;
    char path[600], *text = malloc(n + room);
    inspection x;
    memcpy(text, tokenizer_text, n);
    memset(text + n, ' ', room); // blanks behind JSON are fine
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    files_write(path, text, n + room);
    free(text);
    small_open(&x, folder, NULL);
    assert_false(x.tokenizer.loaded);
    assert_string_equal(x.tokenizer.kind, "BPE");
    inspect_close(&x);
    small_open(&x, folder, &(inspect_options){.tokenizer = true});
    assert_true(x.tokenizer.loaded);
    assert_int_equal(x.tokenizer.size, 6);
    inspect_close(&x);
}

// JSON and Markdown --------------------------------------------------------------------------

TEST(json_parses_whatever_the_path_holds_B87) {
    const char *folder = files_path("q\"uo\\te\nnew\xff line");
    run r;
    json_error_t why;
    small_model_write(folder, &gated);
    assert_int_equal(
        inspect_cli(&r, (const char *const[]){folder, "--json", "--stats", "--dry-run", NULL}), 0);
    json_t *v = json_loadb(r.out, r.n_out, 0, &why);
    if (!v)
        fail_msg("line %d: %s", why.line, why.text);
    json_t *m = json_array_get(json_object_get(v, "results"), 0);
    assert_int_equal(json_integer_value(json_object_get(m, "state_bytes")), 768);
    assert_int_equal(json_array_size(json_object_get(m, "tensors")), 3 * 18 + 2);
    assert_true(json_is_true(json_object_get(m, "strict_pass")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(m, "memory"), "length")),
                     64);
    json_t *t = json_array_get(json_object_get(m, "tensors"), 0);
    assert_true(json_is_number(json_object_get(json_object_get(t, "stats"), "median")));
    json_decref(v);
    run_free(&r);
}

TEST(statistics_of_no_tensor_are_no_empty_table) {
    const char *folder = model_folder(&gated);
    run r;
    assert_int_equal(
        inspect_cli(&r, (const char *const[]){folder, "--stats", "--include", "none*", NULL}), 0);
    assert_non_null(strstr(r.out, "no tensor matches --include and --exclude"));
    assert_null(strstr(r.out, "statistics"));
    run_free(&r);
    assert_int_equal(
        inspect_cli(&r, (const char *const[]){folder, "--stats", "--include", "*A_log", NULL}), 0);
    assert_non_null(strstr(r.out, "statistics"));
    run_free(&r);
}

TEST(inspect_json_is_written_under_out) {
    const char *folder = model_folder(&gated), *dir = files_path("out");
    char path[700];
    run r;
    size_t n;
    json_error_t why;
    assert_int_equal(inspect_cli(&r, (const char *const[]){folder, "--out", dir, NULL}), 0);
    run_free(&r);
    snprintf(path, sizeof path, "%s/inspect.json", dir);
    char *text = files_read(path, &n);
    json_t *v = json_loadb(text, n, 0, &why);
    assert_non_null(v);
    json_decref(v);
    free(text);
}

// Cells of a table row: pipes that no backslash stands before, less one.
static int cells(const char *line) {
    int n = 0;
    for (const char *s = line; *s; s++)
        n += *s == '|' && (s == line || s[-1] != '\\');
    return n - 1;
}

TEST(markdown_holds_a_table_whose_rows_have_equal_cells) {
    tensor_file f = {0};
    run r;
    int rows = 0;
    const char *path = files_path("pipe.safetensors");
    tensor_file_add(&f, "a|b`c", "F32", 4, "[1]", 1, NULL);
    tensor_file_add(&f, "layers.0.w", "F32", 4, "[1,2]", 2, NULL);
    tensor_file_add(&f, "layers.1.w", "F32", 4, "[1,2]", 2, NULL);
    tensor_file_write(&f, path);
    assert_int_equal(inspect_cli(&r, (const char *const[]){path, "--markdown", NULL}), 0);
    assert_non_null(strstr(r.out, "| `a\\|b\\x60c` | 1 | `F32` | [1] | 1 |"));
    assert_non_null(strstr(r.out, "| `layers.#.w` | 2 | `F32` | [1, 2] | 4 | 0-1 |"));
    for (char *line = strtok(r.out, "\n"); line; line = strtok(NULL, "\n"))
        if (*line == '|') {
            assert_int_equal(cells(line), 6);
            rows++;
        }
    assert_int_equal(rows, 4); // head, rule, two groups
    run_free(&r);
}

// Devices, speed, reference models -----------------------------------------------------------

TEST(no_device_is_needed_B99) {
    const char *folder = model_folder(&gated);
    run r = {.argv = (const char *const[]){"inspect", folder, NULL},
             .env = (const char *const[]){"CUDA_VISIBLE_DEVICES=", NULL}};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 0);
    assert_int_equal(r.n_err, 0);
    run_free(&r);
}

TEST(five_hundred_tensors_take_milliseconds) {
    small_model m = gated;
    m.layers = 28; // 28 * 18 + 2 = 506
    const char *folder = model_folder(&m);
    inspection x;
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        double t = files_seconds();
        small_open(&x, folder, NULL);
        t = files_seconds() - t;
        assert_int_equal(ckpt_count(x.c), 506);
        inspect_close(&x);
        best = t < best ? t : best;
    }
    printf("measured %.1f ms for 506 tensors (the goal is 50; 500 are allowed on a busy machine)\n",
           1e3 * best);
    assert_true(best < 0.5);
}

TEST(a_failed_allocation_leaves_nothing_behind) {
    const char *folder = model_folder(&gated);
    static const inspect_options o = {.stats = true};
    long n = 1;
    for (; n < 5000; n += n < 200 ? 1 : 37) {
        inspection x;
        err e = {0};
        mem_fail_after(n);
        bool ok = inspect_open(&x, folder, &o, &e);
        mem_fail_after(0);
        if (ok) {
            inspect_close(&x);
            break;
        }
        assert_int_equal(e.code, ERR_NOMEM);
    }
    assert_true(n > 20 && n < 5000);
}

TEST(every_reference_model_is_listed) {
    static const char *const known[] = {"delta_net", "gated_deltanet", "gated_deltaproduct", "kda",
                                        "comba"};
    const char *root = files_shared("golden");
    if (!root)
        skip();
    glob_t list;
    char pattern[1200];
    int n = 0, n_known = 0;
    snprintf(pattern, sizeof pattern, "%s/*/config.json", root);
    assert_int_equal(glob(pattern, 0, NULL, &list), 0);
    for (size_t k = 0; k < list.gl_pathc; k++) {
        inspection x;
        char *path = list.gl_pathv[k];
        *strrchr(path, '/') = 0;
        small_open(&x, path, NULL);
        assert_true(x.groups.n > 0);
        bool is_known = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            is_known |= strcmp(x.type, known[i]) == 0;
        if (is_known && inspect_is_wrong(&x))
            fail_msg("%s: %zu missing, %zu left over, %s", path, x.n_missing, x.leftover.n,
                     x.n_findings ? x.finding[0].text : "");
        if (!x.summary && x.type[0] && !small_finding(&x, true, "the closest known family is"))
            fail_msg("%s: no closest family", path);
        inspect_close(&x);
        n_known += is_known;
        n++;
    }
    globfree(&list);
    printf("measured %d reference models listed, %d of them of the delta families\n", n, n_known);
    assert_true(n >= 50 && n_known >= 19);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(include_and_exclude_select_tensors),
        cmocka_unit_test(state_bytes_are_heads_times_K_times_V_times_4_B117),
        cmocka_unit_test(a_rounded_A_log_is_seen_among_float32_ones_B114),
        cmocka_unit_test(a_sound_model_passes_strict),
        cmocka_unit_test(nan_fails_strict_in_every_form_B15),
        cmocka_unit_test(an_unknown_tensor_in_a_known_layer_is_listed_and_fails_strict_B29),
        cmocka_unit_test(a_missing_tensor_is_named_with_its_nearest_and_fails_strict_B108),
        cmocka_unit_test(tensors_of_other_parts_are_folded_with_a_count_B38),
        cmocka_unit_test(an_unknown_family_is_listed_with_the_closest_one),
        cmocka_unit_test(what_the_loader_refuses_is_a_finding_B23_B109),
        cmocka_unit_test(a_gap_in_the_layers_is_named_and_stray_words_are_no_layers_B109),
        cmocka_unit_test(a_file_without_tensors_lists_metadata_sorted_B103a_B105),
        cmocka_unit_test(a_bare_file_says_that_no_config_is_beside_it),
        cmocka_unit_test(a_tokenizer_with_more_ids_than_embedding_rows_is_named_B106_B110),
        cmocka_unit_test(a_world_vocabulary_alone_is_the_tokenizer_B73),
        cmocka_unit_test(a_large_tokenizer_is_only_looked_at_unless_asked_for),
        cmocka_unit_test(json_parses_whatever_the_path_holds_B87),
        cmocka_unit_test(statistics_of_no_tensor_are_no_empty_table),
        cmocka_unit_test(inspect_json_is_written_under_out),
        cmocka_unit_test(markdown_holds_a_table_whose_rows_have_equal_cells),
        cmocka_unit_test(no_device_is_needed_B99),
        cmocka_unit_test(five_hundred_tensors_take_milliseconds),
        cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
        cmocka_unit_test(every_reference_model_is_listed),
    };
    return cmocka_run_group_tests(tests, NULL, files_cleared);
}
