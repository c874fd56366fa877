// The dashboard's numbers against the reference: ranks, losses, eigenvalues, states of nothing, a pass
// that is held (dashboard checks 6 to 10).
#include "cli/dash/numbers.h"
#include "core/npy.h"
#include "tests/dash_play.h"
#include "tests/files.h"
#include "tests/tiny_model.h"
#include "tests/worst.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODEL "examples/small-deltaproduct2"
#define OTHER "examples/small-deltanet"
#define TEXT  "examples/text_kjv.txt"
#define CASE  "tests/cases/golden/deltaproduct2-odd-dims"

// The line of a frame that begins with (or holds) a text.
static void line_with(const char *text, const char *part, char *out, size_t size) {
    const char *at = strstr(text, part);
    if (!at)
        fail_msg("no \"%s\" in:\n%s", part, text);
    while (at > text && at[-1] != '\n')
        at--;
    snprintf(out, size, "%.*s", (int)strcspn(at, "\n"), at);
}

static double *numbers(const char *folder, const char *name, int64_t *count) {
    char path[900];
    npy a;
    err e = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!npy_read(path, &a, &e))
        fail_msg("%s", e.text);
    double *v = npy_as_f64(&a, &e);
    if (!v)
        fail_msg("%s", e.text);
    *count = a.count;
    npy_free(&a);
    return v;
}

// Check 6: ranks and norms of the reference's last token, to the printed digit.
static void the_grid_shows_the_reference(void **state) {
    (void)state;
    char *out[2];
    for (int k = 0; k < 2; k++) {
        run r = VIEW(CASE, CASE "/input_ids.npy", "--at", "199", "--snapshot", "24x80",
                     "--precision", "f64", "--metric", k ? "norm" : "erank");
        out[k] = strdup(r.out);
        run_free(&r);
    }
    int compared = 0;
    for (int L = 0; L < 2; L++) {
        char name[64], row[400], text[32], key[16];
        int64_t n, m;
        snprintf(name, sizeof name, "erank_l%d.npy", L);
        double *rank = numbers(CASE, name, &n);
        snprintf(name, sizeof name, "state_l%d.npy", L);
        double *H = numbers(CASE, name, &m);
        int64_t heads = n / 200, size = m / heads;
        snprintf(key, sizeof key, "\n L%d ", L);
        for (int64_t h = 0; h < heads; h++) {
            double norm = 0;
            for (int64_t i = 0; i < size; i++)
                norm += H[h * size + i] * H[h * size + i];
            for (int k = 0; k < 2; k++) {
                const char *at = strstr(out[k], key);
                assert_non_null(at);
                snprintf(row, sizeof row, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
                scene_number(k ? sqrt(norm) : rank[h * 200 + 199], 4, text, sizeof text);
                if (!strstr(row, text))
                    fail_msg("L%d.H%d: %s is not in \"%s\"", L, (int)h, text, row);
                compared++;
            }
        }
        free(rank);
        free(H);
    }
    free(out[0]);
    free(out[1]);
    printf("    measured: %d numbers agree to the printed digit\n", compared);
}

// Columns x and y of the first block of a CSV file that follows its header.
static int64_t csv_xy(const char *path, int at_x, int at_y, double *x, double *y, int64_t most) {
    size_t n;
    char *text = files_read(path, &n), *save = NULL;
    int64_t count = 0;
    bool header = false;
    for (char *line = text; line && *line; line = save) {
        save = strchr(line, '\n');
        if (save)
            *save++ = 0;
        if (*line == '#')
            continue;
        if (strncmp(line, "figure,", 7) == 0) {
            if (header)
                break;
            header = true;
            continue;
        }
        if (!*line || count == most)
            break;
        char *field = line;
        for (int c = 0; field; c++) {
            char *end = strchr(field, ',');
            if (c == at_x)
                x[count] = field[0] == ',' || !field[0] ? NAN : strtod(field, NULL);
            if (c == at_y)
                y[count] = field[0] == ',' || !field[0] ? NAN : strtod(field, NULL);
            field = end ? end + 1 : NULL;
        }
        count++;
    }
    free(text);
    return count;
}

// Check 7
static void losses_are_the_reference(void **state) {
    (void)state;
    int64_t n;
    double *nll = numbers(CASE, "nll.npy", &n), x[300], y[300], worst[2] = {0, 0};
    assert_int_equal(n, 199);
    for (int f64 = 0; f64 < 2; f64++) {
        char script[2400], path[600], folder[600];
        snprintf(path, sizeof path, "%s", files_path("loss%d.csv", f64));
        snprintf(folder, sizeof folder, "%s", files_path("losses%d", f64));
        snprintf(script, sizeof script,
                 "wait idle\nkey 3\ncmd smooth 1\ncmd data %s\ncmd data %s.npy\n"
                 "cmd data %s.jsonl\ncmd smooth 501\nkey Enter\nframe wide\n",
                 path, path, path);
        run r = play(0, script, folder,
                     LIST(CASE, CASE "/input_ids.npy", "--precision", f64 ? "f64" : "f32"));
        run_free(&r);
        assert_int_equal(csv_xy(path, 2, 3, x, y, 300), 199); // token 0 has no row
        for (int i = 0; i < 199; i++) {
            assert_true(x[i] == i + 1);
            worst[f64] = worse(worst[f64], fabs(y[i] - nll[i]));
        }
        char name[640];
        snprintf(name, sizeof name, "loss%d.csv.npy", f64);
        int64_t k;
        double *array = numbers(files_folder(), name, &k);
        assert_int_equal(k, 199);
        assert_true(fabs(array[7] - y[7]) < 1e-12);
        free(array);
        char *wide = frame(folder, "001-wide");
        holds(wide, "the mean of 501 is longer than the 199 losses"); // says so
        free(wide);
    }
    free(nll);
    printf("    measured: %.1e in float32, %.1e in float64\n", worst[0], worst[1]);
    assert_true(worst[0] < 3e-4 && worst[1] < 1e-9);
}

static int by_place(const void *a, const void *b) {
    const double *x = a, *y = b;
    if (fabs(x[0] - y[0]) > 1e-9)
        return (x[0] > y[0]) - (x[0] < y[0]);
    return (x[1] > y[1]) - (x[1] < y[1]);
}

// Check 8: the plane's numbers as sets, and its digits count them.
static void eigenvalues_are_the_reference(void **state) {
    (void)state;
    int64_t n, n_ends, n_windows;
    double *ends = numbers(CASE, "eig_ends.npy", &n_ends),
           *windows = numbers(CASE, "eig_windows.npy", &n_windows);
    char path[1000];
    snprintf(path, sizeof path, "%s/eig_l1.npy", CASE);
    npy a;
    err e = {0};
    assert_true(npy_read(path, &a, &e));
    const double *eig = a.data;
    int64_t K = a.dims[3];
    double worst = 0, worst_fact = 0, *norm2 = numbers(CASE, "norm2_l1.npy", &n),
           *logabsdet = numbers(CASE, "logabsdet_l1.npy", &n);
    int sets = 0;
    for (int64_t i = 0; i < n_ends; i++)
        for (int64_t w = 0; w < n_windows; w++) {
            char at[32], W[32], out[600];
            snprintf(at, sizeof at, "%.0f", ends[i]);
            snprintf(W, sizeof W, "%.0f", windows[w]);
            snprintf(out, sizeof out, "%s", files_path("eig%d-%d", (int)i, (int)w));
            if (windows[w] > 512)
                continue;
            run r = VIEW(CASE, CASE "/input_ids.npy", "--precision", "f64", "--at", at, "--window",
                         W, "--head", "L1.H1", "--export", "4", "--out", out);
            run_free(&r);
            snprintf(path, sizeof path, "%s/eigen.csv", out);
            double x[300], y[300], got[600], want[600];
            n = csv_xy(path, 2, 3, x, y, 300);
            assert_int_equal(n, K);
            for (int64_t k = 0; k < K; k++) {
                got[2 * k] = x[k], got[2 * k + 1] = y[k];
                const double *ref = eig + ((((1 * a.dims[1]) + i) * a.dims[2] + w) * K + k) * 2;
                want[2 * k] = ref[0], want[2 * k + 1] = ref[1];
            }
            qsort(got, (size_t)K, 2 * sizeof *got, by_place);
            qsort(want, (size_t)K, 2 * sizeof *want, by_place);
            for (int64_t k = 0; k < 2 * K; k++)
                worst = worse(worst, fabs(got[k] - want[k]));
            // The table of the product's numbers, behind the points: radius, norm2, ln|det|.
            size_t bytes;
            char *csv = files_read(path, &bytes);
            const char *row = strstr(csv, "\nwindow,");
            assert_non_null(row);
            double radius, norm, det;
            assert_int_equal(sscanf(row, "\nwindow,%lf,%lf,%lf", &radius, &norm, &det), 3);
            free(csv);
            int64_t at_head = (1 * n_ends + i) * n_windows + w;
            worst_fact = worse(worst_fact, fabs(norm / norm2[at_head] - 1));
            worst_fact = worse(worst_fact, fabs(det - logabsdet[at_head]));
            sets++;
        }
    npy_free(&a);
    free(ends);
    free(windows);
    free(norm2);
    free(logabsdet);
    printf("    measured: %d sets, largest difference %.1e; norm2 and ln|det| %.1e\n", sets, worst,
           worst_fact);
    assert_true(sets >= 4);
    assert_true(worst_fact < 1e-9);
    assert_true(worst < 1e-6); // ill-conditioned ones move far more than 1e-9 (eig_cond)
    // Digits: as many as values with Im >= 0.
    run r =
        VIEW(MODEL, TEXT, "--length", "400", "--precision", "f64", "--at", "150", "--window", "32",
             "--head", "L1.H1", "--panels", "4", "--zoom", "--focus", "4", "--snapshot", "70x200");
    K = 32;
    long sum = 0;
    int row = 0;
    for (const char *p = r.out; *p; p += strcspn(p, "\n") + 1, row++) {
        int col = 0;
        if (row < 3 || row > 66) // title and tick labels
            continue;
        for (const char *c = p; *c && *c != '\n' && col < 180; c++) {
            col += ((unsigned char)*c & 0xc0) != 0x80;
            assert_true(*c != '*');
            sum += *c >= '1' && *c <= '9' ? *c - '0' : 0;
        }
    }
    assert_int_equal(sum, K); // zoomed: the whole plane
    run_free(&r);
}

// Check 9, B93: a state of nothing is nan, a gap and an empty field; never 0.
static void a_state_of_nothing_is_nan(void **state) {
    (void)state;
    tiny_model *t = tiny_new((tiny_spec){.family = "delta_net", .conv = 4, .L = 2, .n_vocab = 64});
    tiny_tensor *v = tiny_get(t, "model.layers.1.attn.v_proj.weight");
    for (int64_t i = 0; i < v->n; i++)
        v->v[i] = 0;
    char model[600], ids[600], script[1400], csv[600], folder[600];
    snprintf(model, sizeof model, "%s", tiny_save(t, "zero"));
    tiny_free(t);
    int32_t id[300];
    for (int i = 0; i < 300; i++)
        id[i] = i * 7 % 64;
    err e = {0};
    snprintf(ids, sizeof ids, "%s", files_path("ids.npy"));
    assert_true(npy_write(ids, NPY_I4, 1, (int64_t[]){300}, id, &e));
    snprintf(csv, sizeof csv, "%s", files_path("zero.csv"));
    snprintf(folder, sizeof folder, "%s", files_path("zeros"));
    snprintf(script, sizeof script,
             "wait idle\ncmd head L1.H0\nwait idle\nframe z\nkey 2\ncmd data %s\n"
             "key t > > >\nframe t\n",
             csv);
    run r = play(0, script, folder, LIST(model, ids, "--snapshot", "30x100"));
    run_free(&r);
    char *text = frame(folder, "001-z"), row[400];
    line_with(text, "\n L1 ", row, sizeof row);
    line_with(text, "heads: erank", row, sizeof row);
    holds(row, "nan"); // the title counts them
    holds(text, "nan");
    holds(text, "states of nothing have no rank");
    free(text);
    size_t n;
    char *data = files_read(csv, &n);
    holds(data, "rank,L1.H0,63,\n");
    free(data);
}

// Check 10
static void a_held_pass_shows_exactly_what_is_read(void **state) {
    (void)state;
    const char *folder = files_path("held");
    char dir[600];
    snprintf(dir, sizeof dir, "%s", folder);
    run r = play(0,
                 "hold 704\nwait forward\nwait idle\nframe half\nexpect forward 704 of 1,638 "
                 "42%\ngo\nwait idle\n"
                 "frame whole\nexpect forward done\nreject \u00b7\u00b7\u00b7\n",
                 dir,
                 LIST(MODEL, OTHER, TEXT, "--length", "1638", "--at", "100", "--snapshot", "24x80",
                      "--panels", "1,2,3,4"));
    run_free(&r);
    char *text = frame(dir, "001-half");
    // The last plot row of both curves: a dot in every column behind token 704, none before.
    int rows = 0;
    for (const char *p = text; *p; p += strcspn(p, "\n") + 1) {
        char line[600];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(p, "\n"), p);
        const char *first = strstr(line, "\u00b7\u00b7\u00b7");
        if (first && !strstr(line, "forward"))
            rows++;
    }
    assert_true(rows >= 2);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_grid_shows_the_reference),
        cmocka_unit_test(losses_are_the_reference),
        cmocka_unit_test(eigenvalues_are_the_reference),
        cmocka_unit_test(a_state_of_nothing_is_nan),
        cmocka_unit_test(a_held_pass_shows_exactly_what_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
