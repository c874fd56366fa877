// --device where there is no GPU: one sentence, exit code 3, and everything that needs none works
// (B62, B99). What a GPU computes: tests/test_cuda_*.c.
#include "tests/files.h"
#include "tests/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL    "examples/small-deltanet"
#define DOCUMENT "examples/text_kjv.txt"

// No library; a library and no device; a file that is no library.
static const char *const no_library[] = {"DELTOP_CUDA_SO=/nonexistent/deltop-cuda.so", NULL};
static const char *const no_device[] = {"CUDA_VISIBLE_DEVICES=", NULL};
static const char *const no_code[] = {"DELTOP_CUDA_SO=examples/text_kjv.txt", NULL};
static const char *const *const places[] = {no_library, no_device, no_code};

static void assert_one_sentence(const run *r, const char *part) {
    assert_non_null(strstr(r->err, part));
    const char *end = strchr(r->err, '\n');
    assert_non_null(end);
    assert_string_equal(end, "\n");
}

static void B99_a_gpu_that_is_not_there_is_exit_code_3_and_one_sentence(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        run r = {.argv = (const char *const[]){"loss", MODEL, DOCUMENT, "--length", "128",
                                               "--device", "cuda", NULL},
                 .env = places[i]};
        assert_true(run_program(&r));
        assert_int_equal(r.code, 3);
        assert_int_equal(r.n_out, 0);
        assert_one_sentence(&r, "device cuda: no CUDA");
        run_free(&r);
    }
}

static void B62_a_library_that_does_not_load_is_named(void **state) {
    (void)state;
    run r = {.argv = (const char *const[]){"loss", MODEL, DOCUMENT, "--device", "cuda:1", NULL},
             .env = no_code};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 3);
    // Without a driver nothing is loaded, and that is what is said.
    bool driver = !strstr(r.err, "libcuda.so.1");
    assert_one_sentence(&r, driver ? "device cuda:1: no CUDA: deltop-cuda.so does not load"
                                   : "device cuda:1: no CUDA: the NVIDIA driver");
    run_free(&r);
}

static void B99_auto_takes_the_cpu_and_says_so(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        run r = {.argv = (const char *const[]){"loss", MODEL, DOCUMENT, "--length", "128",
                                               "--device", "auto", "--json", NULL},
                 .env = places[i]};
        assert_true(run_program(&r));
        assert_int_equal(r.code, 0);
        assert_non_null(strstr(r.out, "\"device_asked\": \"auto\""));
        assert_non_null(strstr(r.out, "\"device\": \"cpu\""));
        run_free(&r);
    }
}

// A file in the library's place would be opened by nobody, so its errors cannot come.
static void B99_inspect_never_opens_a_device(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        run r = {.argv = (const char *const[]){"inspect", MODEL, NULL}, .env = places[i]};
        assert_true(run_program(&r));
        assert_int_equal(r.code, 0);
        assert_int_equal(r.n_err, 0);
        run_free(&r);
    }
}

// The CPU is asked for by name: nothing of CUDA is looked at.
static void B99_the_cpu_needs_no_library(void **state) {
    (void)state;
    run r = {.argv = (const char *const[]){"loss", MODEL, DOCUMENT, "--length", "128", "--device",
                                           "cpu", "--precision", "f64", NULL},
             .env = no_code};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 0);
    run_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B99_a_gpu_that_is_not_there_is_exit_code_3_and_one_sentence),
        cmocka_unit_test(B62_a_library_that_does_not_load_is_named),
        cmocka_unit_test(B99_auto_takes_the_cpu_and_says_so),
        cmocka_unit_test(B99_inspect_never_opens_a_device),
        cmocka_unit_test(B99_the_cpu_needs_no_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
