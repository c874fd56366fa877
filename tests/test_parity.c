// Models against reference dumps (golden/README.md, "Delta families"): 17 cases and two twins in
// other layouts, in float64 and in float32, and the 13 of the other families in FLA's layout. Six
// small cases lie in tests/cases/golden, so that a checkout without the reference data still proves
// something.
#include "analyses/parity.h"
#include "core/npy.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"
#include "tests/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static const char *const cases[] = {
    "deltanet-beta01",
    "deltanet-neg",
    "deltanet-gate-noconv",
    "deltanet-sum-elu",
    "gdn-v2-gate",
    "gdn-gva-neg",
    "gdn-nogate-untied",
    "deltaproduct2",
    "gated-deltaproduct3",
    "deltaproduct1-gated",
    "kda",
    "kda-gva-bounded",
    "comba",
    "comba-flags-off",
    "gdn-hybrid-swa",
    "gdn-odd-dims",
    "deltaproduct2-odd-dims",
    "deltaproduct2-lists",  // B19: nll and logits only
    "gdn-gva-neg-bf16file", // B55, B114: BF16 matrices beside F32 gates
};

// golden/README.md, "Other families" and "Hugging Face layouts": rows that each dump must give,
// and its tokens (0: 200).
static const struct {
    const char *name;
    size_t rows;
    int64_t tokens;
} others[] = {
    {"rwkv7-fuse", 18, 0},
    {"rwkv7-nofuse", 18, 0},
    {"rwkv7-smallkey", 13, 0},
    {"rwkv7-fuse-old", 2, 0},
    {"gla", 9, 0},
    {"gla-ek05", 9, 0},
    {"gla-gqa", 9, 0},
    {"hgrn2", 12, 0},
    {"hgrn2-conv", 9, 0},
    {"retnet", 11, 0},
    {"retnet-old-bf16", 3, 0},
    {"linear_attn", 7, 0},
    {"linear_attn-elu", 7, 0},
    {"mamba2-g1", 15, 0}, // one group, a bare Infinity (B36)
    {"mamba2-g2", 11, 0}, // B122, limits of dt (B61), tied
    {"mamba2-hf", 11, 0}, // Hugging Face's keys, projection biases
    {"mamba2-ssm", 2, 0}, // the authors' naming
    {"hf-mamba2", 15, 150},
    {"hf-bamba", 11, 150},             // Infinity as an object, half rotary
    {"hf-granitemoehybrid", 11, 150},  // experts and a shared MLP, four factors
    {"hf-falcon-h1", 15, 150},         // side by side, factors everywhere
    {"hf-nemotron-h", 11, 150},        // squared ReLU, sizes from the list of layers
    {"hf-qwen3-next", 18, 150},        // fused per key head, experts, a dense layer
    {"hf-qwen3-next-shards", 18, 150}, // three files, chosen p not divided by their sum
    {"hf-qwen3-5-text", 18, 150},      // split projections, tied
    {"hf-qwen3-5-text-bf16", 18, 150}, // B55
    {"hf-qwen3-5-moe-fused", 8, 150},  // all experts in two tensors
    {"hf-qwen3-5-vl", 18, 150},        // B38
    {"hf-olmo-hybrid", 18, 150},       // B28
    {"hf-olmo-hybrid-resaved", 13, 150},
    {"hf-kimi-linear", 18, 150}, // B26
    {"hf-rwkv4", 3, 150},
};

static const char *const kept[] = {"kda-gva-bounded", "gdn-hybrid-swa",  "deltaproduct2-odd-dims",
                                   "rwkv7-smallkey",  "retnet-old-bf16", "gla-ek05"};

// Rows a full dump must have produced: nothing is compared when a file is not found, so a wrong
// folder must not pass.
static void check(const char *folder, const char *name, precision p, size_t at_least,
                  int64_t tokens) {
    err e = {0};
    parity out = {0};
    backend *be = cpu_open(p, 1, &e); // threads: tests/test_forward.c
    assert_non_null(be);
    model *m = model_open(folder, be, &e);
    if (!m)
        fail_msg("%s: %s", name, e.text);
    // Blocks of 64 do not divide the 200 tokens: the seams are part of the test.
    if (!parity_run(m, folder, 64, NULL, NULL, &out, &e))
        fail_msg("%s: %s", name, e.text);
    double worst_loss = 0, worst = 0;
    const parity_row *at = NULL;
    for (size_t i = 0; i < out.n; i++) {
        const parity_row *r = &out.row[i];
        if (i == 0)
            worst_loss = r->error;
        double share = r->tolerance > 0 ? r->error / r->tolerance : 0;
        if (share >= worst) {
            worst = share;
            at = r;
        }
        if (!r->pass)
            print_message("%s %s: %s of layer %d is off by %g (%s, tolerance %g)\n", name,
                          precision_name(p), r->what, r->layer, r->error, r->how, r->tolerance);
    }
    print_message("measured %s %s: %zu rows, nll %.1e; nearest its tolerance: %s layer %d %.1e "
                  "of %.0e (%s)\n",
                  name, precision_name(p), out.n, worst_loss, at ? at->what : "-",
                  at ? at->layer : -1, at ? at->error : 0, at ? at->tolerance : 0,
                  at ? at->how : "-");
    assert_true(out.n >= at_least);
    assert_int_equal(out.tokens, tokens);
    assert_true(out.pass);
    // Hugging Face's layouts: 1e-4 in float32 for delta kinds too (golden/README.md).
    assert_true(strncmp(name, "hf-", 3) != 0 || worst_loss <= 1e-4);
    parity_free(&out);
    model_free(m);
    backend_close(be);
}

static void all_cases(precision p) {
    size_t n = sizeof cases / sizeof *cases;
    for (size_t i = 0; i < n; i++) {
        char name[128];
        snprintf(name, sizeof name, "golden/%s", cases[i]);
        const char *folder = files_shared(name);
        if (!folder)
            skip();
        check(folder, cases[i], p, i < 17 ? 6 : 2, 200);
    }
}

static void other_cases(precision p) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char name[128];
        snprintf(name, sizeof name, "golden/%s", others[i].name);
        const char *folder = files_shared(name);
        if (!folder)
            skip();
        check(folder, others[i].name, p, others[i].rows, others[i].tokens ? others[i].tokens : 200);
    }
}

static void every_case_of_the_other_families_agrees_in_float64(void **state) {
    (void)state;
    other_cases(PRECISION_F64);
}

// 1e-4 (golden/README.md, F32 path): these kinds do not feed their rounding back along keys.
static void every_case_of_the_other_families_agrees_in_float32(void **state) {
    (void)state;
    other_cases(PRECISION_F32);
}

static void every_delta_case_agrees_in_float64(void **state) {
    (void)state;
    all_cases(PRECISION_F64);
}

static void every_delta_case_agrees_in_float32(void **state) {
    (void)state;
    all_cases(PRECISION_F32);
}

static void the_kept_cases_agree_in_both_precisions(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        char folder[128];
        snprintf(folder, sizeof folder, "tests/cases/golden/%s", kept[i]);
        check(folder, kept[i], PRECISION_F64, i < 3 ? 6 : 3, 200);
        check(folder, kept[i], PRECISION_F32, i < 3 ? 6 : 3, 200);
    }
}

static void a_folder_without_ids_is_no_dump(void **state) {
    (void)state;
    err e = {0};
    parity out = {0};
    backend *be = cpu_open(PRECISION_F64, 1, &e);
    model *m = model_open("tests/cases/golden/gdn-hybrid-swa", be, &e);
    assert_non_null(m);
    assert_false(parity_run(m, files_folder(), 64, NULL, NULL, &out, &e));
    files_assert_error_holds(&e, ERR_MISSING, "no input_ids.npy");
    model_free(m);
    backend_close(be);
}

// A dump of another model must fail: the comparison is able to say no.
static void the_dump_of_another_model_does_not_pass(void **state) {
    (void)state;
    err e = {0};
    parity out = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    model *m = model_open("tests/cases/golden/deltaproduct2-odd-dims", be, &e);
    assert_non_null(m);
    bool ran = parity_run(m, "tests/cases/golden/kda-gva-bounded", 64, NULL, NULL, &out, &e);
    assert_true(!ran || !out.pass);
    parity_free(&out);
    model_free(m);
    backend_close(be);
}

static void write_array(const char *folder, const char *name, const npy *a) {
    err e = {0};
    char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!npy_write(path, a->type, a->rank, a->dims, a->data, &e))
        fail_msg("%s", e.text);
}

static npy read_array(const char *name) {
    err e = {0};
    npy a;
    char path[256];
    snprintf(path, sizeof path, "tests/cases/golden/gdn-hybrid-swa/%s", name);
    if (!npy_read(path, &a, &e))
        fail_msg("%s", e.text);
    return a;
}

// One loss of 199 that is off by ten times the tolerance, or is no number, is seen.
static void one_wrong_number_is_a_mismatch_with_code_4(void **state) {
    (void)state;
    char dump[600];
    snprintf(dump, sizeof dump, "%s", files_path("dump"));
    assert_int_equal(mkdir(dump, 0777), 0);
    npy ids = read_array("input_ids.npy"), nll = read_array("nll.npy");
    assert_int_equal(nll.type, NPY_F8);
    double *loss = nll.data, right = loss[100];
    write_array(dump, "input_ids.npy", &ids);
    const struct {
        double value;
        int code;
    } cases[] = {{right, 0}, {right + 1e-8, 4}, {NAN, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        loss[100] = cases[i].value;
        write_array(dump, "nll.npy", &nll);
        run r = {.argv = (const char *const[]){"parity", "--precision", "f64",
                                               "tests/cases/golden/gdn-hybrid-swa", "--reference",
                                               dump, NULL}};
        assert_true(run_program(&r));
        if (r.code != cases[i].code)
            fail_msg("exit code %d for %g instead of %g: %s%s", r.code, cases[i].value, right,
                     r.out, r.err);
        assert_non_null(strstr(r.out, cases[i].code ? "FAIL" : "pass"));
        run_free(&r);
    }
    npy_free(&ids);
    npy_free(&nll);
}

// A dump of gdn-hybrid-swa, whose layer 1 has no state, with one more file of one or two numbers.
static void refused_dump(const char *more, const int32_t *two, const char *without,
                         const char *const *words) {
    static int n;
    char dump[600], model[] = "tests/cases/golden/gdn-hybrid-swa";
    snprintf(dump, sizeof dump, "%s", files_path("refused%d", n++));
    assert_int_equal(mkdir(dump, 0777), 0);
    static const char *const usual[] = {"input_ids.npy", "nll.npy", "eig_ends.npy",
                                        "eig_windows.npy", "eig_l0.npy"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (without && strstr(without, usual[i]))
            continue;
        npy a = read_array(usual[i]);
        write_array(dump, usual[i], &a);
        npy_free(&a);
    }
    npy odd = {.type = NPY_I4, .rank = 1, .dims = {2}, .data = (void *)two};
    if (more)
        write_array(dump, more, &odd);
    run r = run_command(1, 20, "parity", (const char *const[]){model, "--reference", dump, NULL});
    for (; *words; words++)
        run_holds(r.err, *words);
    run_holds(r.err, "/refused"); // which dump
    assert_int_equal(r.n_out, 0);
    run_free(&r);
}

static void what_cannot_be_compared_is_refused_with_its_file(void **state) {
    (void)state;
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
    // Required parts.
    refused_dump(NULL, NULL, "input_ids.npy", WORDS("no input_ids.npy"));
    refused_dump(NULL, NULL, "nll.npy", WORDS("no nll.npy"));
    // Windows that do not lie in the row of 200 tokens.
    static const int32_t odd[][2] = {{1, 0}, {8, -3}, {1, 1000000000}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char value[32];
        snprintf(value, sizeof value, "window of %d tokens", odd[i][1]);
        refused_dump("eig_windows.npy", odd[i], NULL, WORDS("/eig_windows.npy: ", value));
    }
    static const int32_t ends[][2] = {{63, 200}, {63, -1}, {63, 2147483647}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char value[32];
        snprintf(value, sizeof value, "token %d;", ends[i][1]);
        refused_dump("eig_ends.npy", ends[i], NULL,
                     WORDS("/eig_ends.npy: ", value, "tokens 0 to 199"));
    }
    // Layers that the model has not, or that have no such thing.
    static const char *const stems[] = {"state", "state77",  "erank",    "erank_micro",
                                        "beta",  "loggate",  "eig",      "eig_cond",
                                        "norm2", "logdecay", "logabsdet"};
    static const struct {
        const char *layer, *why;
    } layers[] = {{"9", "no such layer"},
                  {"2", "no such layer"},
                  {"99999999999999999999", "no such layer"},
                  {"1", "no recurrent state"}};
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++)
        for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
            char name[64];
            snprintf(name, sizeof name, "%s_l%s.npy", stems[i], layers[k].layer);
            refused_dump(name, odd[0], NULL, WORDS(name, layers[k].why));
        }
    // Parts that need another part.
    refused_dump(NULL, NULL, "eig_ends.npy", WORDS("eig_l0.npy", "eig_ends.npy"));
    refused_dump(NULL, NULL, "eig_windows.npy", WORDS("eig_l0.npy", "eig_windows.npy"));
    refused_dump("norm2_l0.npy", odd[0], "eig_l0.npy", WORDS("norm2_l0.npy", "eig_lN.npy"));
    refused_dump(NULL, NULL, NULL, WORDS("no eig_cond_l0.npy"));
#undef WORDS
}

// Names that only look a little like the dump's are the user's own.
static void other_files_may_lie_beside_a_dump(void **state) {
    (void)state;
    char dump[600];
    snprintf(dump, sizeof dump, "%s", files_path("beside"));
    assert_int_equal(mkdir(dump, 0777), 0);
    static const char *const names[] = {"state_l09.npy",   "state_l.npy",   "state_l9.npy.bak",
                                        "my_state_l9.npy", "state_l-1.npy", "notes_l9.npy"};
    npy ids = read_array("input_ids.npy"), nll = read_array("nll.npy");
    write_array(dump, "input_ids.npy", &ids);
    write_array(dump, "nll.npy", &nll);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        write_array(dump, names[i], &ids);
    npy_free(&ids);
    npy_free(&nll);
    run r = run_command(
        0, 20, "parity",
        (const char *const[]){"tests/cases/golden/gdn-hybrid-swa", "--reference", dump, NULL});
    run_free(&r);
}

static bool stop(void *ctx, int64_t done, int64_t total) {
    *(int64_t *)ctx = total;
    return done < 128;
}

static void a_comparison_tells_how_far_it_is_and_can_be_stopped(void **state) {
    (void)state;
    err e = {0};
    parity out = {0};
    int64_t total = 0;
    backend *be = cpu_open(PRECISION_F64, 1, &e);
    model *m = model_open("tests/cases/golden/gdn-hybrid-swa", be, &e);
    assert_non_null(m);
    assert_false(parity_run(m, "tests/cases/golden/gdn-hybrid-swa", 64, stop, &total, &out, &e));
    assert_int_equal(e.code, ERR_CANCELLED);
    assert_int_equal(total, 200);
    assert_null(out.row);
    model_free(m);
    backend_close(be);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kept_cases_agree_in_both_precisions),
        cmocka_unit_test(every_delta_case_agrees_in_float64),
        cmocka_unit_test(every_delta_case_agrees_in_float32),
        cmocka_unit_test(every_case_of_the_other_families_agrees_in_float64),
        cmocka_unit_test(every_case_of_the_other_families_agrees_in_float32),
        cmocka_unit_test(a_folder_without_ids_is_no_dump),
        cmocka_unit_test(one_wrong_number_is_a_mismatch_with_code_4),
        cmocka_unit_test(what_cannot_be_compared_is_refused_with_its_file),
        cmocka_unit_test(other_files_may_lie_beside_a_dump),
        cmocka_unit_test(a_comparison_tells_how_far_it_is_and_can_be_stopped),
        cmocka_unit_test(the_dump_of_another_model_does_not_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
