#include "core/mem.h"
#include "core/npy.h"
#include "tests/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *file(void) {
    return files_path("a.npy");
}

// A file of the given version with DICT, padded as NumPy does, and n bytes of data.
static void write_npy(int version, const char *dict, const void *data, size_t n) {
    unsigned char *all = calloc(1, 4096 + n);
    size_t head = version == 1 ? 10 : 12, length = (head + strlen(dict) + 1 + 63) / 64 * 64 - head;
    memcpy(all, "\x93NUMPY", 6);
    all[6] = (unsigned char)version;
    all[8] = (unsigned char)(length & 0xff);
    all[9] = (unsigned char)(length >> 8);
    memset(all + head, ' ', length);
    memcpy(all + head, dict, strlen(dict));
    all[head + length - 1] = '\n';
    memcpy(all + head + length, data, n);
    files_write(file(), all, head + length + n);
    free(all);
}

static npy opened(void) {
    npy a;
    err e = {0};
    if (!npy_read(file(), &a, &e))
        fail_msg("%s", e.text);
    return a;
}

static void refused(const char *dict, size_t bytes, err_code code, const char *want) {
    npy a;
    err e = {0};
    void *zeros = calloc(bytes + 1, 1);
    write_npy(1, dict, zeros, bytes);
    free(zeros);
    assert_false(npy_read(file(), &a, &e));
    files_assert_error(&e, code, "%s: %s", file(), want);
    assert_null(a.data);
}

static void all_versions_and_spellings_are_read(void **state) {
    (void)state;
    static const double x[6] = {1, 2, 3, 4, 5, 6};
    static const char *const dicts[] = {
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }",
        "{\"shape\":(2,3),\"descr\":\"<f8\",\"fortran_order\":False}",
        "{'descr': '=f8', 'fortran_order': False, 'shape': (2L, 3L)}",
    };
    for (int v = 1; v <= 3; v++)
        for (int k = 0; k < 3; k++) {
            write_npy(v, dicts[k], x, sizeof x);
            npy a = opened();
            assert_int_equal(a.type, NPY_F8);
            assert_int_equal(a.rank, 2);
            assert_true(a.dims[0] == 2 && a.dims[1] == 3 && a.count == 6);
            assert_memory_equal(a.data, x, sizeof x);
            npy_free(&a);
        }
}

static void every_type_is_read_and_converted(void **state) {
    (void)state;
    // The number 3 in each type.
    static const struct {
        const char *code;
        npy_type type;
        unsigned char bytes[8];
    } cases[] = {
        {"<f8", NPY_F8, {0, 0, 0, 0, 0, 0, 8, 0x40}},
        {"<f4", NPY_F4, {0, 0, 0x40, 0x40}},
        {"<f2", NPY_F2, {0, 0x42}},
        {"<i8", NPY_I8, {3}},
        {"<i4", NPY_I4, {3}},
        {"<i2", NPY_I2, {3}},
        {"|i1", NPY_I1, {3}},
        {"<u8", NPY_U8, {3}},
        {"<u4", NPY_U4, {3}},
        {"<u2", NPY_U2, {3}},
        {"|u1", NPY_U1, {3}},
    };
    char dict[128];
    err e = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (1,), }",
                 cases[i].code);
        write_npy(1, dict, cases[i].bytes, npy_type_size(cases[i].type));
        npy a = opened();
        assert_int_equal(a.type, cases[i].type);
        assert_string_equal(npy_type_code(a.type), cases[i].code);
        double *d = npy_as_f64(&a, &e);
        assert_true(d && d[0] == 3);
        free(d);
        if (i >= 3) {
            int32_t *v = npy_as_i32(&a, &e);
            assert_true(v && v[0] == 3);
            free(v);
        }
        npy_free(&a);
    }
    write_npy(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (), }", "\1", 1);
    npy a = opened();
    assert_true(a.rank == 0 && a.count == 1 && a.type == NPY_B1);
    npy_free(&a);
    static const double z[2] = {1, -1};
    write_npy(1, "{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }", z, 16);
    a = opened();
    assert_memory_equal(a.data, z, 16);
    assert_null(npy_as_f64(&a, &e));
    files_assert_error(&e, ERR_INPUT, "%s: holds complex numbers, need real ones", file());
    npy_free(&a);
}

static void fortran_order_becomes_c_order(void **state) {
    (void)state;
    // a[i][j][k] = 100 i + 10 j + k, the first index fastest in the file.
    int32_t x[24];
    int n = 0;
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 3; j++)
            for (int i = 0; i < 2; i++)
                x[n++] = 100 * i + 10 * j + k;
    write_npy(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3, 4), }", x, sizeof x);
    npy a = opened();
    n = 0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 4; k++)
                assert_int_equal(((int32_t *)a.data)[n++], 100 * i + 10 * j + k);
    npy_free(&a);
    write_npy(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (24,), }", x, sizeof x);
    a = opened();
    assert_memory_equal(a.data, x, sizeof x);
    npy_free(&a);
    write_npy(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (0, 5), }", x, 0);
    a = opened();
    assert_int_equal(a.count, 0);
    npy_free(&a);
}

static void what_is_not_read_is_named(void **state) {
    (void)state;
#define DICT(descr, shape) "{'descr': " descr ", 'fortran_order': False, 'shape': " shape ", }"
    refused(DICT("'>f8'", "(1,)"), 8, ERR_UNSUPPORTED,
            "holds big-endian numbers ('>f8'), need little-endian");
    refused(DICT("'>c16'", "(1,)"), 16, ERR_UNSUPPORTED,
            "holds big-endian numbers ('>c16'), need little-endian");
    refused(DICT("'|O'", "(1,)"), 8, ERR_UNSUPPORTED,
            "holds elements of type '|O', which is not read");
    refused(DICT("'<U5'", "(1,)"), 20, ERR_UNSUPPORTED,
            "holds elements of type '<U5', which is not read");
    refused(DICT("''", "(1,)"), 8, ERR_UNSUPPORTED, "holds elements of type '', which is not read");
    refused(DICT("[('a', '<f8')]", "(1,)"), 8, ERR_UNSUPPORTED,
            "holds structures, need plain numbers");
    refused(DICT("'<f8'", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), 8, ERR_UNSUPPORTED,
            "more than 8 dimensions");
}

static void sizes_are_checked(void **state) {
    (void)state;
    refused(DICT("'<f8'", "(4,)"), 24, ERR_INPUT,
            "file is 8 bytes shorter than its header says (got 152, need 160)");
    refused(DICT("'<f8'", "(4,)"), 40, ERR_INPUT, "8 bytes after the array (got 168, need 160)");
    refused(DICT("'<f8'", "(4294967296, 4294967296)"), 0, ERR_INPUT, "shape overflows");
    refused(DICT("'<f8'", "(2305843009213693952,)"), 0, ERR_INPUT, "shape overflows");
    refused(DICT("'<f8'", "(99999999999999999999,)"), 0, ERR_INPUT,
            "bad .npy header: 'shape' overflows");
}

static void damaged_headers_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *dict, *want;
    } cases[] = {
        {"", "it does not begin with '{'"},
        {"{}", "no 'descr'"},
        {"{'descr': '<f8'}", "no 'shape'"},
        {"{'descr': '<f8', 'shape': (1,)}", "no 'fortran_order'"},
        {"{'descr': '<f8', 'descr': '<f8'}", "key 'descr' is there twice"},
        {"{'colour': 3}", "key 'colour' is not known"},
        {"{'descr': 3}", "'descr' is not a type name"},
        {"{'shape': 3}", "'shape' is not a tuple"},
        {"{'shape': (3", "'shape' is not closed"},
        {"{'shape': (-3,)}", "'shape' holds something that is no whole number"},
        {"{'shape': (3.5,)}", "'shape' is not closed"},
        {"{'fortran_order': 0}", "'fortran_order' is neither True nor False"},
        {"{'descr': '<f8'", "it is not closed"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,)} x", "text after its end"},
        {"{descr: 1}", "a key is not what it should be"},
    };
    char want[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(want, sizeof want, "bad .npy header: %s", cases[i].want);
        refused(cases[i].dict, 8, ERR_INPUT, want);
    }
    npy a;
    err e = {0};
    files_text(file(), "PK\3\4 not an array");
    assert_false(npy_read(file(), &a, &e));
    files_assert_error(&e, ERR_INPUT, "%s: not a .npy file (it must begin with \\x93NUMPY)",
                       file());
    err_clear(&e);
    files_text(file(), "\x93NUMPY");
    assert_false(npy_read(file(), &a, &e));
    files_assert_error(&e, ERR_INPUT, "%s: only 6 bytes, too short for a .npy file", file());
    err_clear(&e);
    files_write(file(), "\x93NUMPY\x09\0\x10\0{'descr': ", 20);
    assert_false(npy_read(file(), &a, &e));
    files_assert_error(&e, ERR_UNSUPPORTED, "%s: .npy version 9.0 is not known", file());
    err_clear(&e);
    files_write(file(), "\x93NUMPY\x01\0\x10\0{'descr': ", 20);
    assert_false(npy_read(file(), &a, &e));
    files_assert_error(&e, ERR_INPUT,
                       "%s: file ends inside its header (got 20 bytes, the header needs 26)",
                       file());
    err_clear(&e);
    assert_false(npy_read(files_path("absent.npy"), &a, &e));
    files_assert_error(&e, ERR_MISSING, "%s: no such file or folder", files_path("absent.npy"));
}

static void every_shorter_file_is_refused(void **state) {
    (void)state;
    static const double x[2] = {1, 2};
    write_npy(1, DICT("'<f8'", "(2,)"), x, sizeof x);
    size_t n;
    char *whole = files_read(file(), &n);
    for (size_t cut = 0; cut < n; cut++) {
        npy a;
        err e = {0};
        files_write(file(), whole, cut);
        assert_false(npy_read(file(), &a, &e));
        assert_int_equal(e.code, ERR_INPUT);
    }
    free(whole);
}

static void damaged_bytes_never_crash(void **state) {
    (void)state;
    static const double x[2] = {1, 2};
    static const unsigned char put[] = {0, 1, '9', '(', ')', '\'', ',', '}', '>', 0xff};
    size_t n, refused_ones = 0;
    write_npy(1, DICT("'<f8'", "(2,)"), x, sizeof x);
    char *whole = files_read(file(), &n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof put; k++) {
            npy a;
            err e = {0};
            char old = whole[i];
            whole[i] = (char)put[k];
            files_write(file(), whole, n);
            whole[i] = old;
            if (npy_read(file(), &a, &e)) {
                assert_true(a.bytes == 16);
                npy_free(&a);
            } else {
                assert_int_not_equal(e.code, ERR_NONE);
                refused_ones++;
            }
        }
    free(whole);
    assert_true(refused_ones > n);
}

static void numbers_that_do_not_fit_are_named(void **state) {
    (void)state;
    static const int64_t big[3] = {5, -6, 2147483648}, bigger[1] = {9007199254740993};
    static const uint64_t huge[1] = {UINT64_MAX};
    err e = {0};
    write_npy(1, DICT("'<i8'", "(3,)"), big, sizeof big);
    npy a = opened();
    assert_null(npy_as_i32(&a, &e));
    files_assert_error(&e, ERR_INPUT, "%s: element 2 is 2147483648, more than 32 bits hold",
                       file());
    npy_free(&a);
    err_clear(&e);
    write_npy(1, DICT("'<u8'", "(1,)"), huge, sizeof huge);
    a = opened();
    assert_null(npy_as_i32(&a, &e));
    files_assert_error(&e, ERR_INPUT,
                       "%s: element 0 is 18446744073709551615, more than 32 bits hold", file());
    err_clear(&e);
    assert_null(npy_as_f64(&a, &e));
    files_assert_error(&e, ERR_INPUT,
                       "%s: element 0 is 18446744073709551615, more than a double holds exactly",
                       file());
    npy_free(&a);
    err_clear(&e);
    write_npy(1, DICT("'<i8'", "(1,)"), bigger, sizeof bigger);
    a = opened();
    assert_null(npy_as_f64(&a, &e));
    files_assert_error(&e, ERR_INPUT,
                       "%s: element 0 is 9007199254740993, more than a double holds exactly",
                       file());
    npy_free(&a);
    err_clear(&e);
    static const float f[1] = {1};
    write_npy(1, DICT("'<f4'", "(1,)"), f, sizeof f);
    a = opened();
    assert_null(npy_as_i32(&a, &e));
    files_assert_error(&e, ERR_INPUT, "%s: holds float32, need whole numbers", file());
    npy_free(&a);
}

static void what_is_written_is_byte_for_byte_as_numpy_writes_it(void **state) {
    (void)state;
    // numpy.save of arange(6, dtype='<i4').reshape(2, 3), and of a scalar and a vector's header.
    static const char matrix[] = "\x93NUMPY\x01\x00v\x00{'descr': '<i4', 'fortran_order': False, "
                                 "'shape': (2, 3), }";
    static const int32_t x[6] = {0, 1, 2, 3, 4, 5};
    static const int64_t dims[2] = {2, 3};
    err e = {0};
    size_t n;
    assert_true(npy_write(file(), NPY_I4, 2, dims, x, &e));
    char *got = files_read(file(), &n);
    assert_int_equal(n, 128 + 24);
    assert_memory_equal(got, matrix, sizeof matrix - 1);
    for (size_t i = sizeof matrix - 1; i < 127; i++)
        assert_int_equal(got[i], ' ');
    assert_int_equal(got[127], '\n');
    assert_memory_equal(got + 128, x, sizeof x);
    free(got);
    assert_true(npy_write(file(), NPY_I4, 0, NULL, x, &e));
    got = files_read(file(), &n);
    assert_non_null(strstr(got + 10, "'shape': (), }"));
    free(got);
    assert_true(npy_write(file(), NPY_C16, 1, (int64_t[]){0}, x, &e));
    got = files_read(file(), &n);
    assert_non_null(strstr(got + 10, "'<c16', 'fortran_order': False, 'shape': (0,), }"));
    free(got);
}

static void a_stream_in_odd_portions_equals_the_whole(void **state) {
    (void)state;
    enum { R = 7, C = 33 };
    static const int64_t dims[2] = {R, C};
    double x[R * C];
    err e = {0};
    for (int i = 0; i < R * C; i++)
        x[i] = i * 0.5 - 3;
    assert_true(npy_write(file(), NPY_F8, 2, dims, x, &e));
    npy_writer *w = npy_writer_open(files_path("b.npy"), NPY_F8, 2, dims, &e);
    assert_non_null(w);
    size_t at = 0;
    for (size_t n = 0; at < R * C; n = (n + 5) % 17) {
        if (n > R * C - at)
            n = R * C - at;
        assert_true(npy_writer_append(w, x + at, n, &e));
        at += n;
    }
    assert_true(npy_writer_finish(w, &e));
    npy_writer_close(w);
    size_t n, m;
    char *a = files_read(file(), &n), *b = files_read(files_path("b.npy"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a), free(b);
}

static void a_stream_that_is_short_or_long_leaves_nothing(void **state) {
    (void)state;
    static const double x[4] = {1, 2, 3, 4};
    const char *path = files_path("c.npy");
    err e = {0};
    int before = files_count(files_folder());
    npy_writer *w = npy_writer_open(path, NPY_F8, 2, (int64_t[]){2, 2}, &e);
    assert_true(npy_writer_append(w, x, 3, &e));
    assert_false(npy_writer_finish(w, &e));
    files_assert_error(&e, ERR_IO, "%s: only 3 of 4 elements were written", path);
    npy_writer_close(w);
    err_clear(&e);
    w = npy_writer_open(path, NPY_F8, 2, (int64_t[]){1, 2}, &e);
    assert_true(npy_writer_append(w, x, 1, &e));
    assert_false(npy_writer_append(w, x, 4, &e));
    files_assert_error(&e, ERR_IO, "%s: 3 elements more than its shape has", path);
    npy_writer_close(w);
    npy_writer_close(NULL);
    err_clear(&e);
    assert_null(npy_writer_open(path, NPY_F8, 1, (int64_t[]){-1}, &e));
    files_assert_error(&e, ERR_INPUT, "%s: an array with a side of -1 cannot be written", path);
    assert_int_equal(files_count(files_folder()), before);
}

static void running_out_of_memory_is_an_error_at_every_point(void **state) {
    (void)state;
    static const int32_t x[6] = {0, 1, 2, 3, 4, 5};
    write_npy(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }", x, sizeof x);
    bool done = false;
    for (long n = 1; !done; n++) {
        npy a = {0};
        err e = {0};
        mem_fail_after(n);
        bool ok = npy_read(file(), &a, &e);
        double *d = ok ? npy_as_f64(&a, &e) : NULL;
        int32_t *v = d ? npy_as_i32(&a, &e) : NULL;
        done = v && npy_write(files_path("d.npy"), NPY_I4, 1, (int64_t[]){6}, v, &e);
        mem_fail_after(0);
        if (!done)
            assert_int_equal(e.code, ERR_NOMEM);
        npy_free(&a);
        free(d), free(v);
    }
}

static void reference_arrays_are_read(void **state) {
    (void)state;
    const char *path = files_shared("golden/kda/nll.npy"),
               *ids = files_shared("golden/kda/input_ids.npy"),
               *eig = files_shared("golden/kda/eig_l0.npy"),
               *er = files_shared("golden/gla/erank_l0.npy");
    if (!path || !ids || !eig || !er)
        skip();
    npy a;
    err e = {0};
    assert_true(npy_read(path, &a, &e));
    assert_true(a.type == NPY_F8 && a.rank == 1 && a.dims[0] == 199);
    const double *x = a.data;
    double mean = 0;
    for (int i = 0; i < 199; i++)
        mean += x[i] / 199;
    // golden/README.md gives the mean to 6 places.
    assert_true(mean > 14.528654 - 5.1e-7 && mean < 14.528654 + 5.1e-7);
    npy_free(&a);
    assert_true(npy_read(ids, &a, &e));
    int32_t *v = npy_as_i32(&a, &e);
    assert_true(v && a.dims[0] == 200);
    for (int i = 0; i < 200; i++)
        assert_true(v[i] >= 0 && v[i] < 1 << 20);
    free(v);
    npy_free(&a);
    assert_true(npy_read(eig, &a, &e));
    assert_true(a.type == NPY_C16 && a.rank == 4);
    npy_free(&a);
    // In Fortran order [H, T]: the rank of a state grows from 1, head by head.
    assert_true(npy_read(er, &a, &e));
    assert_true(a.rank == 2 && a.dims[1] == 200);
    for (int64_t h = 0; h < a.dims[0]; h++)
        assert_true(((double *)a.data)[h * 200] < 1 + 1e-6); // one token: rank 1 up to rounding
    npy_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_versions_and_spellings_are_read),
        cmocka_unit_test(every_type_is_read_and_converted),
        cmocka_unit_test(fortran_order_becomes_c_order),
        cmocka_unit_test(what_is_not_read_is_named),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(damaged_headers_are_refused),
        cmocka_unit_test(every_shorter_file_is_refused),
        cmocka_unit_test(damaged_bytes_never_crash),
        cmocka_unit_test(numbers_that_do_not_fit_are_named),
        cmocka_unit_test(what_is_written_is_byte_for_byte_as_numpy_writes_it),
        cmocka_unit_test(a_stream_in_odd_portions_equals_the_whole),
        cmocka_unit_test(a_stream_that_is_short_or_long_leaves_nothing),
        cmocka_unit_test(running_out_of_memory_is_an_error_at_every_point),
        cmocka_unit_test(reference_arrays_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
