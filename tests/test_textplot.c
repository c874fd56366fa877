#include "cli/text/textplot.h"
#include "core/mem.h"
#include "tests/gallery.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include <cmocka.h>

static char *print(const figure *f, int columns, int rows, bool utf8, bool colour) {
    char *text = NULL;
    size_t n = 0;
    FILE *m = open_memstream(&text, &n);
    err e = {0};
    bool ok = textplot_print(f, columns, rows, utf8, colour, m, &e);
    fclose(m);
    if (!ok)
        print_message("%s\n", e.text);
    assert_true(ok);
    return text;
}

// Every kind in turn, NULL at the end.
static figure *kind(int i) {
    switch (i) {
    case 0:
        return gallery_loss();
    case 1:
        return gallery_models(3);
    case 2:
        return gallery_models(30);
    case 3:
        return gallery_erank(6, 4, 512);
    case 4:
        return gallery_erank(24, 16, 200);
    case 5:
        return gallery_delta();
    case 6:
        return gallery_angles();
    case 7:
        return gallery_eigen();
    case 8:
        return gallery_hist();
    case 9:
        return gallery_bars();
    case 10:
        return gallery_table();
    case 11:
        return gallery_log_axis();
    case 12:
        return gallery_odd_names();
    }
    return NULL;
}

// Cells of a line without its colour escapes; -1 for a byte that must not be there.
static int line_width(const char *s, size_t n, bool colour) {
    int w = 0;
    for (size_t i = 0; i < n;) {
        if (colour && s[i] == '\033') {
            while (i < n && s[i] != 'm')
                i++;
            i++;
            continue;
        }
        utf8proc_int32_t c = 0;
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)s + i, (utf8proc_ssize_t)(n - i), &c);
        if (k <= 0 || c < 0x20 || (c >= 0x7f && c < 0xa0))
            return -1;
        w += utf8proc_charwidth(c);
        i += (size_t)k;
    }
    return w;
}

// B91, B92: any width and height; and B95: ASCII only, when the locale is not UTF-8.
static void no_line_is_too_long_and_none_ends_in_blanks(void **state) {
    (void)state;
    const int columns[] = {-5, 1, 24, 37, 80, 184, 1000};
    for (int k = 0;; k++) {
        figure *f = kind(k);
        if (!f)
            break;
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
            for (int mode = 0; mode < 4; mode++) {
                bool utf8 = mode & 1, colour = mode & 2;
                int limit = columns[c] < 24 ? 24 : columns[c] > 400 ? 400 : columns[c];
                char *text = print(f, columns[c], (int)c * 4 - 3, utf8, colour);
                for (const char *p = text; *p;) {
                    size_t n = strcspn(p, "\n");
                    int w = line_width(p, n, colour);
                    if (w < 0 || w > limit || (n && p[n - 1] == ' '))
                        print_message("kind %d, %d columns, mode %d: %.*s\n", k, limit, mode,
                                      (int)n, p);
                    assert_true(w >= 0 && w <= limit);
                    assert_true(n == 0 || p[n - 1] != ' ');
                    p += n + 1;
                }
                for (const char *p = text; !utf8 && *p; p++)
                    assert_true((unsigned char)*p < 0x80);
                assert_true(colour || !strchr(text, '\033'));
                free(text);
            }
        figure_free(f);
    }
}

static void names_units_ends_and_marks_are_there(void **state) {
    (void)state;
    figure *f = gallery_loss();
    char *text = print(f, 80, 16, true, false);
    const char *want[] = {"loss over position, two models",
                          "position (tokens, 1k = 1024)",
                          "loss (nats/token)",
                          "32k",
                          "train length 2048",
                          "ln 32 = 3.466",
                          "small-deltanet, mean of 501 tokens",
                          "(not drawn: small-deltanet, single tokens)",
                          "Extrapolation index"};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_non_null(strstr(text, want[i]));
    free(text);
    figure_free(f);
}

// Row and column of the only occurrence of a sign, counted in cells.
static void find(const char *text, const char *sign, int *row, int *col) {
    const char *p = strstr(text, sign);
    assert_non_null(p);
    *row = 0;
    const char *start = text;
    for (const char *q = text; q < p; q++)
        if (*q == '\n')
            (*row)++, start = q + 1;
    *col = line_width(start, (size_t)(p - start), false);
}

static void a_single_point_stands_where_its_value_is(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3, 4}, y[] = {NAN, NAN, 5, NAN, NAN};
    figure *f = gallery_curve(5, x, y, SCALE_LINEAR);
    f->x.lo = 0, f->x.hi = 4, f->y.lo = 0, f->y.hi = 10;
    char *text = print(f, 60, 21, true, false);
    int row, col, top, foot, left;
    find(text, "\u2022", &row, &col);
    find(text, "10\u2524", &top, &left);
    find(text, "\u2514", &foot, &left);
    assert_true(abs(row - (top + foot - 1) / 2) <= 1);
    assert_true(abs(col - (left + 1 + 59) / 2) <= 2);
    free(text);
    figure_free(f);
}

// B93 and faults of log axes: no picture is better than a wrong one, and it says why.
static void empty_figures_say_why(void **state) {
    (void)state;
    const double x[] = {1, 2}, nan[] = {NAN, NAN}, minus[] = {0, -3};
    struct {
        figure *f;
        const char *want;
    } c[] = {
        {gallery_curve(0, x, x, SCALE_LINEAR), "no data"},
        {gallery_curve(2, x, nan, SCALE_LINEAR), "nothing was measured"},
        {gallery_curve(2, x, minus, SCALE_LOG10), "2 values are zero or negative"},
        {figure_new(FIG_HEATMAP, "h", "h", "", NULL), "no data"},
        {figure_new(FIG_HIST, "h", "h", "", NULL), "no data"},
        {figure_new(FIG_BARS, "h", "h", "", NULL), "no data"},
        {figure_new(FIG_SCATTER, "h", "h", "", NULL), "no data"},
        {figure_new(FIG_TABLE, "h", "h", "", NULL), "no columns"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char *text = print(c[i].f, 80, 10, false, false);
        assert_non_null(strstr(text, c[i].want));
        free(text);
        figure_free(c[i].f);
    }
    figure *f = figure_new(FIG_HEATMAP, "h", "h", "", NULL);
    assert_true(figure_heat(f, 1, 1, nan, x, NULL, "v", "1", NAN, NAN, MAP_SEQUENTIAL, NULL));
    char *text = print(f, 80, 10, false, false);
    assert_non_null(strstr(text, "every cell is NaN"));
    free(text);
    figure_free(f);
    f = gallery_log_axis();
    text = print(f, 80, 10, false, false);
    assert_non_null(strstr(text, "2 values are zero or negative"));
    assert_non_null(strchr(strstr(text, "nats"), 'o')); // the one positive point
    free(text);
    figure_free(f);
}

static void heat_rows_keep_their_names_and_gaps(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3, 4}, cell[] = {0, 1, NAN, 0.5, 1, 1, 1, 1};
    const char *name[] = {"L0.H0", "L0.H1"};
    figure *f = figure_new(FIG_HEATMAP, "h", "h", "", NULL);
    assert_true(
        figure_heat(f, 2, 4, cell, x, name, "rank", "of 2", NAN, NAN, MAP_SEQUENTIAL, NULL));
    char *text = print(f, 28, 10, true, false);
    // 28 cells less name, frame and margin leave five signs a column.
    assert_non_null(strstr(text, "L0.H0 \u2502\u2581\u2581\u2581\u2581\u2581\u2588\u2588\u2588"
                                 "\u2588\u2588/////\u2585\u2585\u2585\u2585\u2585\n"));
    assert_non_null(strstr(text, "rank (of 2)"));
    free(text);
    figure_free(f);
}

static void bars_are_as_long_as_their_values(void **state) {
    (void)state;
    const double y[] = {10, 5, NAN};
    figure *f = figure_new(FIG_BARS, "b", "b", "", NULL);
    assert_true(figure_axis(&f->y, "time", "ms", SCALE_LINEAR, NULL));
    assert_true(figure_category(f, "one", NULL) && figure_category(f, "two", NULL) &&
                figure_category(f, "three", NULL));
    assert_true(figure_series(f, "", STYLE_LINE, 3, NULL, y, NULL, NULL, NULL, NULL));
    f->y.hi = 10;
    char *text = print(f, 57, 10, false, false); // 57 - 6 - 11 = 40 cells
    assert_non_null(strstr(text, "one   ######################################## 10\n"));
    assert_non_null(strstr(text, "two   #################### 5\n"));
    assert_non_null(strstr(text, "three not measured\n"));
    free(text);
    figure_free(f);
}

static void tables_are_aligned_by_cells_not_bytes(void **state) {
    (void)state;
    figure *f = gallery_table();
    char *text = print(f, 80, 10, true, false);
    // The wide name takes two cells a character: its number ends where the others do.
    assert_non_null(strstr(text, "\nL3.H0               12.25            3.14\n"));
    assert_non_null(strstr(text, "\n\u5c42 3                1e-07            -0.5\n"));
    assert_non_null(strstr(text, "nan")); // not measured is not zero
    free(text);
    text = print(f, 30, 10, true, false); // the third column in a second block
    assert_non_null(strstr(text, "\n\nhead            effective rank\n"));
    free(text);
    figure_free(f);
}

// B90
static void the_locale_changes_no_byte(void **state) {
    (void)state;
    figure *f = gallery_hist();
    char *plain = print(f, 80, 16, true, false);
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        printf("SKIP: locale de_DE.UTF-8 is not installed\n");
        free(plain);
        figure_free(f);
        skip();
    }
    char *german = print(f, 80, 16, true, false);
    setlocale(LC_ALL, "C");
    assert_string_equal(plain, german);
    free(plain);
    free(german);
    figure_free(f);
}

static void every_failing_allocation_is_reported(void **state) {
    (void)state;
    for (int k = 0;; k++) {
        figure *f = kind(k);
        if (!f)
            break;
        for (long n = 1;; n++) {
            FILE *out = fopen("/dev/null", "w");
            assert_non_null(out);
            err e = {0};
            mem_fail_after(n);
            bool ok = textplot_print(f, 80, 16, true, true, out, &e);
            mem_fail_after(0);
            fclose(out);
            if (ok)
                break;
            assert_int_equal(e.code, ERR_NOMEM);
            assert_true(n < 200);
        }
        figure_free(f);
    }
}

static void a_full_disk_is_an_error(void **state) {
    (void)state;
    FILE *out = fopen("/dev/full", "w");
    if (!out) {
        printf("SKIP: no /dev/full here\n");
        skip();
    }
    setvbuf(out, NULL, _IONBF, 0);
    figure *f = gallery_table();
    err e = {0};
    assert_false(textplot_print(f, 80, 16, true, false, out, &e));
    assert_int_equal(e.code, ERR_IO);
    figure_free(f);
    fclose(out);
}

static void hostile_numbers_do_no_harm(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < 400; seed++) {
        figure *f = gallery_hostile(seed);
        free(print(f, 60, 12, seed & 1, seed & 2));
        figure_free(f);
    }
}

// With DELTOP_SHOW=1 (or 2: colours, 0: ASCII) all kinds on standard output, to look at.
static int show(const char *how) {
    for (int k = 0;; k++) {
        figure *f = kind(k);
        if (!f)
            return 0;
        textplot_print(f, 80, 16, *how != '0', *how == '2', stdout, NULL);
        printf("\n");
        figure_free(f);
    }
}

int main(void) {
    if (getenv("DELTOP_SHOW"))
        return show(getenv("DELTOP_SHOW"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_line_is_too_long_and_none_ends_in_blanks),
        cmocka_unit_test(names_units_ends_and_marks_are_there),
        cmocka_unit_test(a_single_point_stands_where_its_value_is),
        cmocka_unit_test(empty_figures_say_why),
        cmocka_unit_test(heat_rows_keep_their_names_and_gaps),
        cmocka_unit_test(bars_are_as_long_as_their_values),
        cmocka_unit_test(tables_are_aligned_by_cells_not_bytes),
        cmocka_unit_test(the_locale_changes_no_byte),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(hostile_numbers_do_no_harm),
        cmocka_unit_test(a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
