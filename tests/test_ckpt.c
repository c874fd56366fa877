// The faults that a safetensors file can have, one test each, with the message a user sees.

#include "core/ckpt.h"
#include "core/mem.h"
#include "tests/files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const PLAIN =
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}";
static const float FOUR[4] = {1, -2, 0.5f, 4};

// Writes HEADER and n bytes of zeros, opens, and checks that this is refused with FMT behind the
// file's name.
static void refused(const char *header, size_t n, err_code code, const char *want) {
    const char *path = files_path("bad.safetensors");
    void *zeros = calloc(n + 1, 1);
    files_safetensors(path, header, zeros, n);
    free(zeros);
    err e = {0};
    assert_null(ckpt_open(path, &e));
    files_assert_error(&e, code, "%s: %s", path, want);
}

static ckpt *opened(const char *path) {
    err e = {0};
    ckpt *c = ckpt_open(path, &e);
    if (!c)
        fail_msg("%s", e.text);
    return c;
}

static void refused_as_is(const char *path, err_code code, const char *want) {
    err e = {0};
    assert_null(ckpt_open(path, &e));
    files_assert_error(&e, code, "%s: %s", path, want);
}

static void a_plain_file_is_read(void **state) {
    (void)state;
    files_safetensors(files_path("a.safetensors"), PLAIN, FOUR, sizeof FOUR);
    ckpt *c = opened(files_path("a.safetensors"));
    const tensor *t = NULL;
    err e = {0};
    assert_int_equal(ckpt_count(c), 1);
    assert_true(ckpt_find(c, "w", &t, &e));
    assert_ptr_equal(t, ckpt_at(c, 0));
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->count, 4);
    double d[4];
    float f[2];
    assert_true(ckpt_read_f64(c, t, 0, 4, d, &e));
    assert_true(ckpt_read_f32(c, t, 2, 2, f, &e));
    for (int i = 0; i < 4; i++)
        assert_true(d[i] == FOUR[i]);
    assert_true(f[0] == 0.5f && f[1] == 4);
    assert_int_equal(ckpt_files(c), 1);
    assert_string_equal(ckpt_file(c, 0), files_path("a.safetensors"));
    assert_int_equal(ckpt_file_bytes(c, 0), 8 + strlen(PLAIN) + 16);
    assert_int_equal(ckpt_note_count(c), 0);
    assert_true(ckpt_still_whole(c, &e));
    ckpt_close(c);
    ckpt_close(NULL);
}

static void b1_a_key_that_is_there_twice_is_named(void **state) {
    (void)state;
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
            "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
            2, ERR_INPUT, "its header holds the key \"a\" twice (line 1, column 56)");
    refused("{\"model.layers.10.attn.o_proj.weight\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0,
            ERR_INPUT, "its header holds the key \"dtype\" twice (line 1, column 59)");
    refused("{\"a very long name that jansson leaves out of its message \\\" \":1,"
            "\"a very long name that jansson leaves out of its message \\\" \":2}",
            0, ERR_INPUT,
            "its header holds the key \"a very long name that jansson leaves out of its message "
            "\\\\\" \" twice (line 1, column 126)");
}

static void b2_offsets_must_fit_shape_and_dtype(void **state) {
    (void)state;
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1000,1000],\"data_offsets\":[0,4]}}", 4,
            ERR_INPUT,
            "tensor w: F32 [1000, 1000] needs 4000000 bytes, but data_offsets [0, 4] hold 4");
    refused("{\"w\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, ERR_INPUT,
            "tensor w: BF16 [] needs 2 bytes, but data_offsets [0, 4] hold 4");
}

static void b3_other_kinds_of_file_are_recognised(void **state) {
    (void)state;
    static const struct {
        const char *begin, *want;
    } kinds[] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22ea"
         "dbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n",
         "is a Git LFS pointer, not the weights: run `git lfs pull` in its folder"},
        {"<!DOCTYPE html><html><head><title>404</title></head></html>",
         "is an HTML page (a failed download?), not the weights"},
        {"\n<html lang=\"en\">", "is an HTML page (a failed download?), not the weights"},
        {"PK\x03\x04\x14\x14\x14\x14 archive/data.pkl",
         "is a zip archive, as torch.save writes .bin and .pth files: save the model as "
         "safetensors first"},
        {"\x80\x02}q\x01(X\x06 weight", "is a Python pickle, as old .bin and .pth files are: save "
                                        "the model as safetensors first"},
        {"GGUF\x03\x01\x01\x01\x01\x01", "is a GGUF file: save the model as safetensors first"},
        {"{\"metadata\": {\"total_size\": 1}}",
         "is JSON text, not safetensors (8 bytes of length come first)"},
        {"", "file is empty"},
        {"abc", "only 3 bytes, too short for a safetensors file"},
        {"12345678{}", "not a safetensors file (its first 8 bytes would mean a header of "
                       "4050765991979987505 bytes; the file has 10, the limit is 100000000)"},
    };
    const char *path = files_path("kind.safetensors");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        files_text(path, kinds[i].begin);
        refused_as_is(path, ERR_INPUT, kinds[i].want);
    }
}

static void b3_a_true_file_whose_length_looks_like_another_kind_is_read(void **state) {
    (void)state;
    // 0x7b = '{' as the low byte of the length.
    char header[0x7b + 1];
    memset(header, ' ', 0x7b);
    memcpy(header, PLAIN, strlen(PLAIN));
    header[0x7b] = 0;
    files_safetensors(files_path("a.safetensors"), header, FOUR, sizeof FOUR);
    ckpt_close(opened(files_path("a.safetensors")));
}

static void b4_a_header_may_end_in_spaces_and_begins_with_a_brace(void **state) {
    (void)state;
    char header[256];
    for (int pad = 1; pad <= 7; pad++) {
        snprintf(header, sizeof header, "%s%*s", PLAIN, pad, "");
        files_safetensors(files_path("a.safetensors"), header, FOUR, sizeof FOUR);
        ckpt_close(opened(files_path("a.safetensors")));
    }
    snprintf(header, sizeof header, " %s", PLAIN);
    refused(header, 16, ERR_INPUT,
            "not a safetensors file (the header begins with byte 0x20, need '{')");
}

static void b5_holes_and_trailing_bytes_are_refused(void **state) {
    (void)state;
    refused(PLAIN, 32, ERR_INPUT, "16 bytes after the last tensor (got 97, need 81)");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
            "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}",
            16, ERR_INPUT, "a hole of 8 bytes before tensor b");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, ERR_INPUT,
            "a hole of 4 bytes before tensor a");
    refused("{}", 8, ERR_INPUT, "8 bytes after the last tensor (got 18, need 10)");
}

static void b6_a_short_file_says_both_sizes(void **state) {
    (void)state;
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[2048],\"data_offsets\":[0,8192]}}", 4096,
            ERR_INPUT, "file is 4096 bytes shorter than its header says (got 4164, need 8260)");
    const char *path = files_path("cut.safetensors");
    files_write(path, "\x40\0\0\0\0\0\0\0{\"w\":", 13);
    refused_as_is(path, ERR_INPUT,
                  "file ends inside its header (got 13 bytes, the header alone needs 72)");
}

static void b7_data_at_an_odd_byte_reads_the_same(void **state) {
    (void)state;
    char header[256];
    for (int pad = 0; pad < 8; pad++) {
        snprintf(header, sizeof header, "%s%*s", PLAIN, pad, "");
        files_safetensors(files_path("a.safetensors"), header, FOUR, sizeof FOUR);
        ckpt *c = opened(files_path("a.safetensors"));
        double d[4];
        err e = {0};
        assert_true(ckpt_read_f64(c, ckpt_at(c, 0), 0, 4, d, &e));
        for (int i = 0; i < 4; i++)
            assert_true(d[i] == FOUR[i]);
        ckpt_close(c);
    }
}

static void b8_a_file_that_shrinks_while_it_is_read_is_an_error(void **state) {
    (void)state;
    enum { N = 1 << 18 };
    char header[128];
    const char *path = files_path("shrinks.safetensors");
    snprintf(header, sizeof header,
             "{\"w\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", N, 4 * N);
    float *data = calloc(N, sizeof *data);
    files_safetensors(path, header, data, 4 * N);
    ckpt *c = opened(path);
    size_t size = ckpt_file_bytes(c, 0);
    err e = {0};
    assert_true(ckpt_read_f32(c, ckpt_at(c, 0), 0, N, data, &e));
    // In the middle of a page: the rest of that page reads as zeros, only the size tells.
    assert_int_equal(truncate(path, 100000), 0);
    assert_false(ckpt_read_f32(c, ckpt_at(c, 0), 0, 10, data, &e));
    files_assert_error(
        &e, ERR_IO, "%s: file changed while it was in use (had %zu bytes, has 100000)", path, size);
    err_clear(&e);
    assert_false(ckpt_read_f32(c, ckpt_at(c, 0), 0, N, data, &e)); // SIGBUS on the way
    files_assert_error(
        &e, ERR_IO, "%s: file changed while it was in use (had %zu bytes, has 100000)", path, size);
    err_clear(&e);
    assert_false(ckpt_still_whole(c, &e));
    files_assert_error_holds(&e, ERR_IO, path);
    ckpt_close(c);
    free(data);
}

static void b12_a_shape_that_overflows_is_refused(void **state) {
    (void)state;
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[8589934592,8589934592],\"data_offsets\":[0,4]}}",
            4, ERR_INPUT, "tensor w: shape [8589934592, 8589934592] overflows");
    refused("{\"w\":{\"dtype\":\"F4\",\"shape\":[0,8589934592,8589934592],"
            "\"data_offsets\":[0,0]}}",
            0, ERR_INPUT, "tensor w: shape [0, 8589934592, 8589934592] overflows");
    // Bytes overflow although elements do not.
    refused("{\"w\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
            ERR_INPUT, "tensor w: shape [4611686018427387904] overflows");
}

static void b13_empty_tensors_and_scalars_are_legal(void **state) {
    (void)state;
    files_safetensors(files_path("a.safetensors"),
                      "{\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                      "\"z\":{\"dtype\":\"F32\",\"shape\":[0,64],\"data_offsets\":[0,0]},"
                      "\"zz\":{\"dtype\":\"F32\",\"shape\":[64,0],\"data_offsets\":[4,4]}}",
                      FOUR, 4);
    ckpt *c = opened(files_path("a.safetensors"));
    assert_int_equal(ckpt_count(c), 3);
    assert_int_equal(ckpt_get(c, "s")->count, 1);
    assert_int_equal(ckpt_get(c, "s")->rank, 0);
    assert_int_equal(ckpt_get(c, "z")->count, 0);
    assert_int_equal(ckpt_get(c, "zz")->bytes, 0);
    double d = 0;
    err e = {0};
    assert_true(ckpt_read_f64(c, ckpt_get(c, "s"), 0, 1, &d, &e) && d == 1);
    assert_true(ckpt_read_f64(c, ckpt_get(c, "z"), 0, 0, &d, &e));
    ckpt_close(c);
}

static void b14_overlapping_and_reversed_offsets_are_refused(void **state) {
    (void)state;
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
            "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
            12, ERR_INPUT, "tensors a and b overlap in the file");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, ERR_INPUT,
            "tensor a: data_offsets [8, 0] are reversed");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, ERR_INPUT,
            "tensor a: data_offsets must be two whole numbers of 0 or more");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
            "\"data_offsets\":[9223372036854775806,9223372036854775807]}}",
            1, ERR_INPUT, "a hole of 9223372036854775806 bytes before tensor a");
}

static void b15_nan_and_infinity_are_read_as_they_are(void **state) {
    (void)state;
    static const uint16_t bf16[] = {0x3f80, 0x7fc0, 0x7f80, 0xff80};
    files_safetensors(files_path("a.safetensors"),
                      "{\"b_proj\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0,8]}}",
                      bf16, sizeof bf16);
    ckpt *c = opened(files_path("a.safetensors"));
    double d[4];
    err e = {0};
    assert_true(ckpt_read_f64(c, ckpt_at(c, 0), 0, 4, d, &e));
    assert_true(d[0] == 1 && isnan(d[1]) && isinf(d[2]) && d[3] < 0 && isinf(d[3]));
    ckpt_close(c);
}

static void b16_f64_is_read_and_other_types_are_listed_but_not_read(void **state) {
    (void)state;
    static const double two[] = {0.1, -3};
    unsigned char data[24] = {0};
    memcpy(data, two, 16);
    files_safetensors(files_path("a.safetensors"),
                      "{\"d\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]},"
                      "\"f4\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[16,18]},"
                      "\"f8\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[18,22]},"
                      "\"i\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[22,24]}}",
                      data, 24);
    const char *path = files_path("a.safetensors");
    ckpt *c = opened(path);
    double d[4];
    err e = {0};
    assert_true(ckpt_read_f64(c, ckpt_get(c, "d"), 0, 2, d, &e));
    assert_true(d[0] == 0.1 && d[1] == -3);
    assert_int_equal(ckpt_get(c, "f4")->type, DT_UNKNOWN);
    assert_string_equal(ckpt_get(c, "f4")->type_name, "F4");
    static const char *const names[] = {"f4", "f8", "i"}, *const types[] = {"F4", "F8_E4M3", "I16"};
    for (int k = 0; k < 3; k++) {
        err_clear(&e);
        assert_false(ckpt_read_f64(c, ckpt_get(c, names[k]), 0, 1, d, &e));
        files_assert_error(&e, ERR_UNSUPPORTED,
                           "%s: tensor %s is stored as %s; weights must be F64, F32, F16 or BF16",
                           path, names[k], types[k]);
    }
    ckpt_close(c);
}

static void b102_metadata_may_be_absent_or_empty_but_not_null(void **state) {
    (void)state;
    char header[256];
    snprintf(header, sizeof header, "{\"__metadata__\":{},%s", PLAIN + 1);
    files_safetensors(files_path("a.safetensors"), header, FOUR, sizeof FOUR);
    ckpt *c = opened(files_path("a.safetensors"));
    assert_int_equal(ckpt_count(c), 1);
    assert_int_equal(ckpt_metadata_count(c), 0);
    ckpt_close(c);
    snprintf(header, sizeof header, "{\"__metadata__\":null,%s", PLAIN + 1);
    refused(header, 16, ERR_INPUT, "__metadata__ is null, need an object of strings");
    refused("{\"__metadata__\":{\"epoch\":3}}", 0, ERR_INPUT,
            "__metadata__: the value of \"epoch\" is a number, need a string");
}

static void b103_metadata_without_tensors_is_legal_and_broken_json_has_a_place(void **state) {
    (void)state;
    files_safetensors(files_path("a.safetensors"), "{\"__metadata__\":{\"format\":\"pt\"}}", "", 0);
    ckpt *c = opened(files_path("a.safetensors"));
    assert_int_equal(ckpt_count(c), 0);
    assert_int_equal(ckpt_metadata_count(c), 1);
    ckpt_close(c);
    refused("{},\"__metadata__\":{\"format\":\"pt\"}}", 0, ERR_INPUT,
            "its header is not JSON at line 1, column 3 (byte 3): end of file expected near ','");
}

static void b105_metadata_comes_sorted(void **state) {
    (void)state;
    files_safetensors(files_path("a.safetensors"),
                      "{\"__metadata__\":{\"sig\":\"x\",\"epoch\":\"3\",\"a\":\"\"}}", "", 0);
    ckpt *c = opened(files_path("a.safetensors"));
    assert_int_equal(ckpt_metadata_count(c), 3);
    assert_string_equal(ckpt_metadata_key(c, 0), "a");
    assert_string_equal(ckpt_metadata_key(c, 1), "epoch");
    assert_string_equal(ckpt_metadata_value(c, 1), "3");
    assert_string_equal(ckpt_metadata_key(c, 2), "sig");
    ckpt_close(c);
}

static void every_wrong_entry_of_a_header_is_named(void **state) {
    (void)state;
    refused("{\"w\":3}", 0, ERR_INPUT, "tensor w is a number in the header, need an object");
    refused("{\"w\":{}}", 0, ERR_INPUT, "tensor w: no \"dtype\" in the header");
    refused("{\"w\":{\"dtype\":\"F32\"}}", 0, ERR_INPUT, "tensor w: no \"shape\" in the header");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, ERR_INPUT,
            "tensor w: no \"data_offsets\" in the header");
    refused("{\"w\":{\"dtype\":32,\"shape\":[],\"data_offsets\":[0,0]}}", 0, ERR_INPUT,
            "tensor w: dtype is a number, need a string");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,0]}}", 0, ERR_INPUT,
            "tensor w: shape is a number, need an array");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,0]}}", 0, ERR_INPUT,
            "tensor w: shape holds -1, need whole numbers of 0 or more");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,0]}}", 0, ERR_INPUT,
            "tensor w: shape holds 1.5, need whole numbers of 0 or more");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
            ERR_UNSUPPORTED, "tensor w has 9 dimensions, at most 8 are read");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0]}}", 0, ERR_INPUT,
            "tensor w: data_offsets must be two whole numbers of 0 or more");
    refused("{\"w\x1b[2J\":{}}", 0, ERR_INPUT,
            "its header is not JSON at line 1, column 3 (byte 3): control character 0x1b near "
            "'\"w'");
    refused("{\"w\\u001b[2J\":{}}", 0, ERR_INPUT, "tensor w\\x1b[2J: no \"dtype\" in the header");
}

static void names_come_in_natural_order_and_the_closest_is_told(void **state) {
    (void)state;
    const char *path = files_path("a.safetensors");
    files_safetensors(path,
                      "{\"layers.10.w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                      "\"layers.2.attn.q_proj.weight\":{\"dtype\":\"U8\",\"shape\":[1],"
                      "\"data_offsets\":[1,2]},"
                      "\"embed\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
                      "abc", 3);
    ckpt *c = opened(path);
    assert_string_equal(ckpt_at(c, 0)->name, "embed");
    assert_string_equal(ckpt_at(c, 1)->name, "layers.2.attn.q_proj.weight");
    assert_string_equal(ckpt_at(c, 2)->name, "layers.10.w");
    const tensor *t;
    err e = {0};
    assert_false(ckpt_find(c, "layers.2.attn.k_proj.weight", &t, &e));
    assert_null(t);
    files_assert_error(&e, ERR_MISSING,
                       "%s: no tensor layers.2.attn.k_proj.weight (the closest name is "
                       "layers.2.attn.q_proj.weight)",
                       path);
    err_clear(&e);
    assert_false(ckpt_find(c, "something else entirely", &t, &e));
    files_assert_error(&e, ERR_MISSING, "%s: no tensor something else entirely among its 3", path);
    ckpt_close(c);
}

static void what_is_no_regular_file_is_refused_without_waiting(void **state) {
    (void)state;
    const char *fifo = files_path("fifo.safetensors"), *folder = files_path("dir.safetensors");
    assert_int_equal(mkfifo(fifo, 0666), 0);
    refused_as_is(fifo, ERR_INPUT, "is a pipe, need a regular file");
    files_mkdir(folder);
    refused_as_is(folder, ERR_MISSING, "no .safetensors file in this folder");
    refused_as_is("/dev/null", ERR_INPUT, "is a device or socket, need a regular file");
    const char *locked = files_path("locked.safetensors");
    files_text(locked, "x");
    assert_int_equal(chmod(locked, 0), 0);
    if (access(locked, R_OK) == 0)
        print_message("SKIP: this user may read every file\n");
    else
        refused_as_is(locked, ERR_IO, "Permission denied");
}

static void a_header_of_500_tensors_is_quick(void **state) {
    (void)state;
    enum { N = 500, ROOM = 200 * N };
    char *header = malloc(ROOM);
    size_t at = (size_t)snprintf(header, ROOM, "{");
    for (int i = 0; i < N; i++)
        at += (size_t)snprintf(header + at, ROOM - at,
                               "%s\"model.layers.%d.attn.some_projection.weight\":{\"dtype\":"
                               "\"BF16\",\"shape\":[4,8],\"data_offsets\":[%d,%d]}",
                               i ? "," : "", i, 64 * i, 64 * (i + 1));
    snprintf(header + at, ROOM - at, "}");
    void *zeros = calloc(64, N);
    files_safetensors(files_path("many.safetensors"), header, zeros, 64 * N);
    double best = 1;
    for (int r = 0; r < 5; r++) {
        double t = files_seconds();
        ckpt *c = opened(files_path("many.safetensors"));
        assert_int_equal(ckpt_count(c), N);
        ckpt_close(c);
        t = files_seconds() - t;
        best = t < best ? t : best;
    }
    print_message("measured opening 500 tensors: %.2f ms\n", best * 1e3);
    assert_true(best < 0.010); // `inspect` has 50 ms for everything
    free(header), free(zeros);
}

static void running_out_of_memory_is_an_error_at_every_point(void **state) {
    (void)state;
    char header[256];
    snprintf(header, sizeof header, "{\"__metadata__\":{\"a\":\"b\"},%s", PLAIN + 1);
    const char *path = files_path("a.safetensors");
    files_safetensors(path, header, FOUR, sizeof FOUR);
    ckpt *c = NULL;
    int failed = 0;
    for (long n = 1; !c; n++) {
        err e = {0};
        mem_fail_after(n);
        c = ckpt_open(path, &e);
        mem_fail_after(0);
        if (!c)
            assert_int_equal(e.code, ERR_NOMEM);
        failed += !c;
    }
    ckpt_close(c);
    assert_true(failed > 5);
    c = NULL;
    for (long n = 1; !c; n++) {
        err e = {0};
        files_json_fail_after(n);
        c = ckpt_open(path, &e);
        files_json_fail_after(0);
        if (!c)
            assert_int_not_equal(e.code, ERR_NONE);
    }
    ckpt_close(c);
}

// Every byte of a small file changed to some other ones: refused or read, never a crash.
static void damaged_bytes_never_crash(void **state) {
    (void)state;
    const char *path = files_path("a.safetensors");
    size_t n, read = 0, refused_ones = 0;
    files_safetensors(path, PLAIN, FOUR, sizeof FOUR);
    char *whole = files_read(path, &n);
    static const unsigned char put[] = {0, 1, ' ', '"', '[', '}', '9', '-', 0x7f, 0xff};
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof put; k++) {
            char old = whole[i];
            whole[i] = (char)put[k];
            files_write(path, whole, n);
            whole[i] = old;
            err e = {0};
            ckpt *c = ckpt_open(path, &e);
            if (c) {
                double d[4];
                for (int64_t t = 0; t < ckpt_count(c); t++)
                    if (dtype_is_weight(ckpt_at(c, t)->type))
                        assert_true(
                            ckpt_read_f64(c, ckpt_at(c, t), 0, ckpt_at(c, t)->count, d, &e));
                ckpt_close(c);
                read++;
            } else {
                assert_int_not_equal(e.code, ERR_NONE);
                refused_ones++;
            }
        }
    free(whole);
    assert_true(read > 0 && refused_ones > read);
    for (size_t cut = 0; cut < n; cut++) { // and every shorter file is refused
        err e = {0};
        whole = NULL;
        files_safetensors(path, PLAIN, FOUR, sizeof FOUR);
        assert_int_equal(truncate(path, (off_t)cut), 0);
        assert_null(ckpt_open(path, &e));
        assert_int_equal(e.code, ERR_INPUT);
    }
}

static int clean(void **state) {
    (void)state;
    files_clear();
    return 0;
}

#define CASE(f) cmocka_unit_test_teardown(f, clean)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_plain_file_is_read),
        CASE(b1_a_key_that_is_there_twice_is_named),
        CASE(b2_offsets_must_fit_shape_and_dtype),
        CASE(b3_other_kinds_of_file_are_recognised),
        CASE(b3_a_true_file_whose_length_looks_like_another_kind_is_read),
        CASE(b4_a_header_may_end_in_spaces_and_begins_with_a_brace),
        CASE(b5_holes_and_trailing_bytes_are_refused),
        CASE(b6_a_short_file_says_both_sizes),
        CASE(b7_data_at_an_odd_byte_reads_the_same),
        CASE(b8_a_file_that_shrinks_while_it_is_read_is_an_error),
        CASE(b12_a_shape_that_overflows_is_refused),
        CASE(b13_empty_tensors_and_scalars_are_legal),
        CASE(b14_overlapping_and_reversed_offsets_are_refused),
        CASE(b15_nan_and_infinity_are_read_as_they_are),
        CASE(b16_f64_is_read_and_other_types_are_listed_but_not_read),
        CASE(b102_metadata_may_be_absent_or_empty_but_not_null),
        CASE(b103_metadata_without_tensors_is_legal_and_broken_json_has_a_place),
        CASE(b105_metadata_comes_sorted),
        CASE(every_wrong_entry_of_a_header_is_named),
        CASE(names_come_in_natural_order_and_the_closest_is_told),
        CASE(what_is_no_regular_file_is_refused_without_waiting),
        CASE(a_header_of_500_tensors_is_quick),
        CASE(running_out_of_memory_is_an_error_at_every_point),
        CASE(damaged_bytes_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
