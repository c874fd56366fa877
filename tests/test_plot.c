#include "cli/plot/axes.h"
#include "cli/plot/plot.h"
#include "core/mem.h"
#include "tests/files.h"
#include "tests/gallery.h"

#include <cairo.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char *at(const char *name) {
    static char path[700];
    snprintf(path, sizeof path, "%s", files_path("%s", name));
    return path;
}

// Files in the folder; they are removed.
static int sweep(void) {
    int n = files_count(files_folder());
    files_clear();
    return n;
}

typedef struct image {
    int w, h;
    unsigned char *rgb;
} image;

static image draw(figures f, const plot_options *o) {
    image x;
    err e = {0};
    plot_options usual = plot_defaults();
    x.rgb = plot_pixels(&f, o ? o : &usual, &x.w, &x.h, &e);
    if (!x.rgb)
        print_message("%s\n", e.text);
    assert_non_null(x.rgb);
    figures_free(&f);
    return x;
}

static image draw_one(figure *f) {
    return draw(gallery_one(f), NULL);
}

// Pixels of (nearly) this colour; where: their mean position.
static size_t count(const image *x, int r, int g, int b, double *mean_x, double *mean_y) {
    size_t n = 0;
    double sx = 0, sy = 0;
    for (int i = 0; i < x->w * x->h; i++) {
        const unsigned char *p = x->rgb + 3 * (size_t)i;
        if (abs(p[0] - r) > 3 || abs(p[1] - g) > 3 || abs(p[2] - b) > 3)
            continue;
        n++;
        sx += i % x->w;
        sy += i / x->w;
    }
    if (mean_x)
        *mean_x = sx / (double)n, *mean_y = sy / (double)n;
    return n;
}

enum { BLUE_R = 0x00, BLUE_G = 0x72, BLUE_B = 0xB2 };

static size_t blue(const image *x) {
    return count(x, BLUE_R, BLUE_G, BLUE_B, NULL, NULL);
}

// With DELTOP_GALLERY=DIR: a PNG of each kind there, to look at.
static void every_kind_can_be_drawn(void **state) {
    (void)state;
    const char *dir = getenv("DELTOP_GALLERY");
    struct {
        const char *name;
        figures f;
    } page[] = {
        {"loss", gallery_one(gallery_loss())},
        {"models1", gallery_one(gallery_models(1))},
        {"models3", gallery_one(gallery_models(3))},
        {"models12", gallery_one(gallery_models(12))},
        {"erank", gallery_one(gallery_erank(6, 4, 512))},
        {"erank-large", gallery_one(gallery_erank(24, 16, 2048))},
        {"delta", gallery_one(gallery_delta())},
        {"angles", gallery_one(gallery_angles())},
        {"eigen", gallery_one(gallery_eigen())},
        {"hist", gallery_one(gallery_hist())},
        {"bars", gallery_one(gallery_bars())},
        {"log-axis", gallery_one(gallery_log_axis())},
        {"odd-names", gallery_one(gallery_odd_names())},
        {"sheet", {0}},
    };
    figures *sheet = &page[sizeof page / sizeof *page - 1].f;
    figures_init(sheet, 2);
    figures_add(sheet, gallery_loss(), NULL);
    figures_add(sheet, gallery_models(4), NULL);
    figures_add(sheet, gallery_erank(6, 4, 512), NULL);
    figures_add(sheet, gallery_eigen(), NULL);
    figures_add(sheet, gallery_hist(), NULL);
    figures_add(sheet, gallery_bars(), NULL);
    figures_add(sheet, gallery_table(), NULL);
    for (size_t i = 0; i < sizeof page / sizeof *page; i++) {
        plot_options o = plot_defaults();
        o.heading = page[i].f.n > 1 ? "small-deltanet on war-and-peace.txt" : NULL;
        err e = {0};
        image x;
        x.rgb = plot_pixels(&page[i].f, &o, &x.w, &x.h, &e);
        assert_non_null(x.rgb);
        // A picture is neither blank nor full.
        size_t white = count(&x, 255, 255, 255, NULL, NULL), all = (size_t)x.w * (size_t)x.h;
        assert_true(white > all / 8 && white < all - all / 100);
        free(x.rgb);
        char path[512];
        snprintf(path, sizeof path, "%s/%s.png", dir ? dir : files_folder(), page[i].name);
        assert_true(plot_png(&page[i].f, &o, path, &e));
        figures_free(&page[i].f);
    }
    sweep();
}

static void page_size_follows_panels_and_resolution(void **state) {
    (void)state;
    plot_options o = plot_defaults();
    int w, h;
    figures one = gallery_one(gallery_hist());
    assert_true(plot_size(&one, &o, &w, &h, NULL));
    assert_true(w == 960 && h == 600);
    o.dpi = 300;
    assert_true(plot_size(&one, &o, &w, &h, NULL));
    assert_true(w == 1920 && h == 1200);
    o.width = 3, o.height = 2, o.dpi = 100;
    assert_true(plot_size(&one, &o, &w, &h, NULL));
    assert_true(w == 300 && h == 200);
    figures_free(&one);
    figures sheet;
    figures_init(&sheet, 3);
    for (int i = 0; i < 5; i++)
        figures_add(&sheet, gallery_hist(), NULL);
    figures_add(&sheet, gallery_table(), NULL); // not drawn, takes no room
    o = plot_defaults();
    assert_true(plot_size(&sheet, &o, &w, &h, NULL));
    assert_true(w == 3 * 720 && h == 2 * 495);
    figures_free(&sheet);
}

// B100: 0 x 0 and 60000 x 60000 pixels.
static void impossible_sizes_are_errors_before_anything_is_allocated(void **state) {
    (void)state;
    const double size[][2] = {{0, 0},     {0, 4},         {-1, 4},          {60000, 60000},
                              {32768, 1}, {1, 40000},     {1e300, 1},       {INFINITY, 4},
                              {0.001, 1}, {32000, 32000}, {1e-300, 1e-300}, {-INFINITY, -1}};
    figures f = gallery_one(gallery_hist());
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        plot_options o = plot_defaults();
        o.dpi = 100;
        o.width = size[i][0] / 100;
        o.height = size[i][1] / 100;
        err e = {0};
        mem_fail_after(1); // an allocation would end in another error
        assert_false(plot_png(&f, &o, at("size.png"), &e));
        mem_fail_after(0);
        assert_int_equal(e.code, ERR_USAGE);
        assert_non_null(strstr(e.text, "pixels"));
        assert_int_equal(sweep(), 0);
    }
    const double dpi[] = {0, -150, NAN, INFINITY, 1e9};
    for (size_t i = 0; i < sizeof dpi / sizeof *dpi; i++) {
        plot_options o = plot_defaults();
        o.dpi = dpi[i];
        err e = {0};
        assert_false(plot_png(&f, &o, at("dpi.png"), &e));
        assert_int_equal(e.code, ERR_USAGE);
    }
    figures_free(&f);
}

static void small_pages_are_drawn_without_harm(void **state) {
    (void)state;
    for (int side = 1; side < 300; side += side < 30 ? 1 : 31) {
        figures s;
        figures_init(&s, 2);
        figures_add(&s, gallery_models(3), NULL);
        figures_add(&s, gallery_erank(3, 2, 20), NULL);
        figures_add(&s, gallery_eigen(), NULL);
        figures_add(&s, gallery_bars(), NULL);
        plot_options o = plot_defaults();
        o.width = side / o.dpi;
        o.height = (side % 7 + 1) * 20 / o.dpi;
        image x = draw(s, &o);
        assert_int_equal(x.w, side);
        free(x.rgb);
    }
}

static void only_tables_are_nothing_to_draw(void **state) {
    (void)state;
    figures f = gallery_one(gallery_table());
    plot_options o = plot_defaults();
    err e = {0};
    assert_false(plot_png(&f, &o, at("t.png"), &e));
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    figures_free(&f);
}

// B100: 0 points, only NaN; B93: all equal, one point.
static void empty_figures_say_so_and_single_points_are_seen(void **state) {
    (void)state;
    const double x[] = {1, 2, 3, 4}, nan[] = {NAN, NAN, NAN, NAN}, same[] = {7, 7, 7, 7},
                 far[] = {INFINITY, -INFINITY, NAN, INFINITY};
    image none = draw_one(gallery_curve(0, x, x, SCALE_LINEAR));
    image all_nan = draw_one(gallery_curve(4, x, nan, SCALE_LINEAR));
    image all_inf = draw_one(gallery_curve(4, x, far, SCALE_LINEAR));
    image equal = draw_one(gallery_curve(4, x, same, SCALE_LINEAR));
    image one = draw_one(gallery_curve(1, x, x, SCALE_LINEAR));
    assert_int_equal(blue(&none), 0);
    assert_int_equal(blue(&all_nan), 0);
    assert_int_equal(blue(&all_inf), 0);
    assert_true(blue(&equal) > 500); // a line across the frame
    assert_true(blue(&one) > 4);     // a dot
    // The frame of an empty figure is filled in light grey.
    assert_true(count(&none, 245, 245, 245, NULL, NULL) > 100000);
    assert_true(count(&all_nan, 245, 245, 245, NULL, NULL) > 100000);
    free(none.rgb), free(all_nan.rgb), free(all_inf.rgb), free(equal.rgb), free(one.rgb);
}

// matplotlib#10782: zero and negative values on a log axis neither move the limits nor hide the
// rest.
static void log_axis_with_zero_negative_nan_shows_the_positive_point(void **state) {
    (void)state;
    figure *f = gallery_log_axis();
    axes x, y;
    axes_span xs, ys;
    axes_of_figure(f, &x, &y, &xs, &ys);
    assert_int_equal(ys.not_shown, 2);
    assert_int_equal(ys.finite, 1);
    assert_true(y.lo > 1 && y.lo < 2.5 && y.hi > 2.5 && y.hi < 5 && !y.empty);
    assert_true(isnan(axes_place(&y, 0)) && isnan(axes_place(&y, -1)));
    image m = draw_one(f);
    assert_true(blue(&m) > 4);
    free(m.rgb);
    const double px[] = {1, 2}, py[] = {0, -3};
    image none = draw_one(gallery_curve(2, px, py, SCALE_LOG10));
    assert_int_equal(blue(&none), 0);
    free(none.rgb);
}

static void a_gap_is_a_gap(void **state) {
    (void)state;
    double x[101], y[101], full[101];
    for (int i = 0; i <= 100; i++) {
        x[i] = i;
        full[i] = 5;
        y[i] = i > 20 && i < 80 ? NAN : 5;
    }
    image a = draw_one(gallery_curve(101, x, full, SCALE_LINEAR));
    image b = draw_one(gallery_curve(101, x, y, SCALE_LINEAR));
    double share = (double)blue(&b) / (double)blue(&a);
    printf("measured share of a line left by a gap of 60%%: %.3f\n", share);
    assert_true(share > 0.35 && share < 0.47); // 40% of the line, the label and two round ends
    free(a.rgb);
    free(b.rgb);
}

// B100: 10^6 points. Every pixel column keeps its extremes, so a single spike is not lost.
static void a_million_points_are_drawn_fast_and_keep_their_spikes(void **state) {
    (void)state;
    enum { N = 1000000 };
    double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    assert_true(x && y);
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = 0;
    }
    y[543210] = 100;
    struct timespec t0, t1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    image m = draw_one(gallery_curve(N, x, y, SCALE_LINEAR));
    clock_gettime(CLOCK_MONOTONIC, &t1);
    double s = (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec);
    printf("measured time for a curve of 10^6 points: %.2f s\n", s);
    assert_true(s < 5); // well below a second; sanitizers and a busy machine take longer
    // The spike runs through most of the height in the column it belongs to.
    size_t high = 0;
    for (int row = 100; row < 400; row++)
        for (int col = 480; col < 580; col++) {
            const unsigned char *p = m.rgb + 3 * ((size_t)row * (size_t)m.w + (size_t)col);
            high += p[0] < 128 && p[2] > 128;
        }
    assert_true(high > 250);
    free(m.rgb);
    figure *f = figure_new(FIG_SCATTER, "s", "10^6 points", "", NULL);
    unsigned seed = 1;
    for (int i = 0; i < N; i++) {
        x[i] = gallery_normal(&seed);
        y[i] = gallery_normal(&seed);
    }
    assert_true(figure_series(f, "", STYLE_POINTS, N, x, y, NULL, NULL, NULL, NULL));
    clock_gettime(CLOCK_MONOTONIC, &t0);
    m = draw_one(f);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    s = (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec);
    printf("measured time for a scatter plot of 10^6 points: %.2f s\n", s);
    assert_true(s < 20);
    free(m.rgb);
    free(x);
    free(y);
}

// Two curves, the second of which goes up and down so many times.
static figure *waves(int times) {
    enum { N = 400 };
    double x[N], flat[N], wave[N];
    for (int i = 0; i < N; i++) {
        x[i] = i;
        flat[i] = 0.5;
        wave[i] = 0.5 + 0.4 * sin(2 * M_PI * times * i / N);
    }
    figure *f = figure_new(FIG_CURVES, "waves", "waves", "", NULL);
    assert_true(figure_axis(&f->x, "time", "s", SCALE_LINEAR, NULL));
    assert_true(figure_axis(&f->y, "height", "m", SCALE_LINEAR, NULL));
    assert_true(figure_series(f, "flat", STYLE_LINE, N, x, flat, NULL, NULL, NULL, NULL));
    assert_true(figure_series(f, "wave", STYLE_LINE, N, x, wave, NULL, NULL, NULL, NULL));
    return f;
}

// Pixels of the second curve in the left one of two panels; the right one holds so many waves.
static size_t left_of(int waves_on_the_right) {
    figures f;
    figures_init(&f, 2);
    assert_true(figures_add(&f, waves(1), NULL));
    assert_true(figures_add(&f, waves(waves_on_the_right), NULL));
    image x = draw(f, NULL);
    for (int i = 0; i < x.h; i++) // what is on the right does not count
        memset(x.rgb + ((size_t)i * (size_t)x.w + (size_t)x.w / 2) * 3, 255, (size_t)x.w / 2 * 3);
    size_t n = count(&x, 0xD5, 0x5E, 0x00, NULL, NULL);
    free(x.rgb);
    return n;
}

// A dash tells curves apart, or there is none: never dashed in one panel and solid in the next.
static void dashes_mean_the_same_in_all_panels_of_a_page(void **state) {
    (void)state;
    size_t calm = left_of(2), restless = left_of(40);
    printf("measured pixels of a curve: %zu beside a calm one, %zu beside a restless one\n", calm,
           restless);
    assert_true((double)restless > 1.3 * (double)calm); // 6 of 9 points are drawn
    assert_true((double)restless < 1.8 * (double)calm);
}

static void cells_of_a_heat_map_have_the_exact_colours(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3}, cell[] = {0, 0.5, 1, 1, NAN, 0};
    const char *top[] = {"top", "bottom"};
    image m[2];
    for (int named = 0; named < 2; named++) {
        figure *f = figure_new(FIG_HEATMAP, "h", "h", "", NULL);
        assert_true(figure_heat(f, 2, 3, cell, x, named ? top : NULL, "v", "1", NAN, NAN,
                                MAP_SEQUENTIAL, NULL));
        m[named] = draw_one(f);
    }
    double x0, y0, x1, y1;
    // viridis: 0 is 440154, 0.5 is 21918C, 1 is FDE725. Two cells each of 0 and 1, one of 0.5.
    size_t low = count(&m[1], 0x44, 0x01, 0x54, NULL, NULL);
    size_t mid = count(&m[1], 0x21, 0x91, 0x8C, &x1, &y1);
    size_t high = count(&m[1], 0xFD, 0xE7, 0x25, NULL, NULL);
    assert_true(mid > 10000);
    assert_true(fabs((double)low / (double)mid - 2) < 0.03);
    assert_true(fabs((double)high / (double)mid - 2) < 0.03);
    // Named rows run from the top, numbered ones from the foot.
    count(&m[0], 0x21, 0x91, 0x8C, &x0, &y0);
    assert_true(fabs(x0 - x1) < 30 && y0 > y1 + 100);
    // The missing cell is grey with a hatch, not the lowest colour.
    assert_true(count(&m[1], 0xD0, 0xD0, 0xD0, NULL, NULL) > mid / 2);
    assert_true(count(&m[1], 0xA0, 0xA0, 0xA0, NULL, NULL) > mid / 20);
    free(m[0].rgb);
    free(m[1].rgb);
}

// Alternating 0 and 1 in more columns than pixels: the mean is 0.5 everywhere, no moire.
static void more_cells_than_pixels_are_averaged(void **state) {
    (void)state;
    enum { N = 20000 };
    double *x = malloc((N + 1) * sizeof *x), *cell = malloc(N * sizeof *cell);
    assert_true(x && cell);
    for (int i = 0; i <= N; i++)
        x[i] = i;
    for (int i = 0; i < N; i++)
        cell[i] = i % 2;
    figure *f = figure_new(FIG_HEATMAP, "h", "h", "", NULL);
    assert_true(figure_heat(f, 1, N, cell, x, NULL, "v", "1", NAN, NAN, MAP_SEQUENTIAL, NULL));
    image m = draw_one(f);
    size_t extremes = count(&m, 0x44, 0x01, 0x54, NULL, NULL) +
                      count(&m, 0xFD, 0xE7, 0x25, NULL, NULL); // only those of the colour bar
    assert_true(extremes < 2000);
    free(m.rgb);
    free(x);
    free(cell);
}

static void a_circle_on_an_equal_scale_is_round(void **state) {
    (void)state;
    figure *f = figure_new(FIG_SCATTER, "c", "circle", "", NULL);
    const double far[] = {-3, 3}, zero[] = {0, 0};
    f->equal_scale = true;
    assert_true(figure_series(f, "", STYLE_POINTS, 2, far, zero, NULL, NULL, NULL, NULL));
    for (int i = 0; i < 400; i++) {
        double x = cos(i * M_PI / 200), y = sin(i * M_PI / 200);
        assert_true(figure_series(f, "", STYLE_POINTS, 1, &x, &y, NULL, NULL, NULL, NULL));
        f->series[f->n_series - 1].colour = 1;
    }
    f->series[0].colour = 0;
    image m = draw_one(f);
    int left = m.w, right = 0, top = m.h, foot = 0;
    for (int i = 0; i < m.w * m.h; i++) {
        const unsigned char *p = m.rgb + 3 * (size_t)i;
        if (p[0] < 180 || p[1] > 160 || p[2] > 120) // vermillion at 75%
            continue;
        left = i % m.w < left ? i % m.w : left;
        right = i % m.w > right ? i % m.w : right;
        top = i / m.w < top ? i / m.w : top;
        foot = i / m.w > foot ? i / m.w : foot;
    }
    printf("measured circle: %d x %d pixels\n", right - left, foot - top);
    assert_true(right - left > 100 && abs((right - left) - (foot - top)) <= 2);
    free(m.rgb);
}

// ---- the file -----------------------------------------------------------------------------------

static unsigned char *slurp(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    unsigned char *b = malloc(*n + 1);
    assert_int_equal(fread(b, 1, *n, f), *n);
    fclose(f);
    return b;
}

static unsigned be32(const unsigned char *p) {
    return (unsigned)p[0] << 24 | (unsigned)p[1] << 16 | (unsigned)p[2] << 8 | p[3];
}

static void png_decodes_to_the_pixels_and_its_chunks_are_in_order(void **state) {
    (void)state;
    figures f = gallery_one(gallery_hist());
    plot_options o = plot_defaults();
    o.title = "rotation angles";
    o.software = "deltop 0.1.0";
    o.comment = "deltop spectrum model doc.txt --out out";
    o.source = "\u03bb \u2014 sha256 00ff";
    err e = {0};
    assert_true(plot_png(&f, &o, at("a.png"), &e));
    int w, h;
    unsigned char *rgb = plot_pixels(&f, &o, &w, &h, &e);
    png_image image = {.version = PNG_IMAGE_VERSION};
    assert_true(png_image_begin_read_from_file(&image, at("a.png")));
    assert_true((int)image.width == w && (int)image.height == h);
    assert_int_equal(image.format, PNG_FORMAT_RGB);
    unsigned char *back = malloc(PNG_IMAGE_SIZE(image));
    assert_true(png_image_finish_read(&image, NULL, back, 0, NULL));
    assert_memory_equal(back, rgb, (size_t)w * (size_t)h * 3);
    size_t n;
    unsigned char *file = slurp(at("a.png"), &n);
    char order[256] = "";
    for (size_t i = 8; i + 12 <= n; i += 12 + be32(file + i)) {
        char type[6];
        snprintf(type, sizeof type, "%.4s ", file + i + 4);
        if (strcmp(type, "IDAT ") || !strstr(order, "IDAT"))
            strcat(order, type);
        const char *body = (const char *)file + i + 8;
        if (!strncmp(type, "pHYs", 4)) {
            assert_int_equal(be32(file + i + 8), 5906); // 150 dpi
            assert_int_equal(file[i + 16], 1);
        }
        if (!strncmp(type, "tEXt", 4) && !strcmp(body, "Comment"))
            assert_memory_equal(body + 8, o.comment, strlen(o.comment));
        if (!strncmp(type, "iTXt", 4)) {
            assert_string_equal(body, "Source");
            // keyword, NUL, two flags, two empty strings, then the text
            assert_memory_equal(body + 7 + 2 + 2, o.source, strlen(o.source));
        }
    }
    assert_string_equal(order, "IHDR sRGB pHYs tEXt tEXt tEXt iTXt IDAT IEND ");
    printf("measured with libpng %s, cairo %s\n", png_get_libpng_ver(NULL), cairo_version_string());
    free(file);
    free(back);
    free(rgb);
    figures_free(&f);
    sweep();
}

// B90, and plots: the same bytes on every run and in every locale.
static void bytes_are_the_same_twice_and_in_another_locale(void **state) {
    (void)state;
    figures f;
    figures_init(&f, 2);
    figures_add(&f, gallery_loss(), NULL);
    figures_add(&f, gallery_erank(6, 4, 128), NULL);
    figures_add(&f, gallery_eigen(), NULL);
    figures_add(&f, gallery_bars(), NULL);
    plot_options o = plot_defaults();
    o.description = "mean of 501 tokens";
    err e = {0};
    assert_true(plot_png(&f, &o, at("a.png"), &e));
    assert_true(plot_png(&f, &o, at("b.png"), &e));
    bool german = setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    if (!german)
        printf("SKIP: locale de_DE.UTF-8 is not installed\n");
    assert_true(plot_png(&f, &o, at("c.png"), &e));
    setlocale(LC_ALL, "C");
    size_t na, nb, nc;
    unsigned char *a = slurp(at("a.png"), &na), *b = slurp(at("b.png"), &nb),
                  *c = slurp(at("c.png"), &nc);
    assert_true(na == nb && na == nc);
    assert_memory_equal(a, b, na);
    assert_memory_equal(a, c, na);
    printf("measured bytes of a sheet of four panels: %zu\n", na);
    free(a), free(b), free(c);
    figures_free(&f);
    sweep();
}

// B100: a folder that is not there, and a disk that is full after 4096 bytes.
static void a_failed_write_leaves_no_file(void **state) {
    (void)state;
    figures f = gallery_one(gallery_hist());
    plot_options o = plot_defaults();
    err e = {0};
    assert_false(plot_png(&f, &o, "/nonexistent-folder/x.png", &e));
    assert_true(e.code == ERR_IO || e.code == ERR_MISSING);
    assert_non_null(strstr(e.text, "/nonexistent-folder/x.png"));

    // A picture that was there before stays.
    assert_true(plot_png(&f, &o, at("full.png"), NULL));
    size_t before, after;
    unsigned char *old = slurp(at("full.png"), &before);
    struct rlimit limit, small;
    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 4096;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    err_clear(&e);
    bool ok = plot_png(&f, &o, at("full.png"), &e);
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, handler);
    assert_false(ok);
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.text, "full.png"));
    assert_non_null(strstr(e.text, strerror(EFBIG))); // the system's reason
    unsigned char *now = slurp(at("full.png"), &after);
    assert_int_equal(before, after);
    assert_memory_equal(old, now, before);
    assert_int_equal(sweep(), 1); // no temporary beside it
    free(old);
    free(now);
    figures_free(&f);
}

static void every_failing_allocation_of_a_drawing_is_reported(void **state) {
    (void)state;
    figures f;
    figures_init(&f, 2);
    figures_add(&f, gallery_erank(2, 2, 32), NULL);
    figures_add(&f, gallery_eigen(), NULL);
    plot_options o = plot_defaults();
    o.width = o.height = 2;
    long n = 1;
    for (;; n++) {
        err e = {0};
        mem_fail_after(n);
        bool ok = plot_png(&f, &o, at("m.png"), &e);
        mem_fail_after(0);
        if (ok)
            break;
        assert_int_equal(e.code, ERR_NOMEM);
        assert_int_equal(sweep(), 0);
        assert_true(n < 100);
    }
    assert_true(n > 5);
    figures_free(&f);
    sweep();
}

static void odd_names_and_texts_do_no_harm(void **state) {
    (void)state;
    char *longest = malloc(20001);
    memset(longest, 'W', 20000);
    longest[20000] = 0;
    const double x[] = {1, 2};
    figure *f = figure_new(FIG_CURVES, "long", longest, longest, NULL);
    assert_true(figure_axis(&f->x, longest, longest, SCALE_LINEAR, NULL));
    assert_true(figure_axis(&f->y, longest, longest, SCALE_LINEAR, NULL));
    assert_true(figure_series(f, longest, STYLE_LINE, 2, x, x, x, x, longest, NULL));
    assert_true(figure_mark(f, MARK_X, 1.5, longest, NULL));
    assert_true(figure_note(f, NULL, "%s", longest));
    figures s = gallery_one(f);
    plot_options o = plot_defaults();
    o.heading = longest;
    o.title = "esc \x1b[31m \xff";
    o.comment = longest;
    err e = {0};
    assert_true(plot_png(&s, &o, at("long.png"), &e));
    size_t n;
    unsigned char *file = slurp(at("long.png"), &n);
    assert_null(memmem(file, n, "\x1b[31m", 5));
    free(file);
    figures_free(&s);
    free(longest);
    sweep();
}

static void hostile_numbers_do_no_harm(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < 200; seed++) {
        plot_options o = plot_defaults();
        o.width = 2 + seed % 3;
        o.height = 2;
        o.dpi = 72;
        image m = draw(gallery_one(gallery_hostile(seed)), &o);
        free(m.rgb);
    }
}

// Draws in a process of its own, whose fontconfig knows no folder with fonts.
static int without_fonts(void) {
    figures f = gallery_one(gallery_hist());
    plot_options o = plot_defaults();
    err e = {0};
    int w, h;
    unsigned char *rgb = plot_pixels(&f, &o, &w, &h, &e);
    printf("%s\n", rgb ? "drawn" : e.text);
    free(rgb);
    figures_free(&f);
    return e.code == ERR_MISSING ? 0 : 1;
}

static void a_machine_without_fonts_gets_an_error_that_names_the_package(void **state) {
    (void)state;
    if (plot_font_remark()) {
        printf("SKIP: %s\n", plot_font_remark());
        skip();
    }
    FILE *conf = fopen(at("fonts.conf"), "w");
    assert_non_null(conf);
    fputs("<?xml version=\"1.0\"?><fontconfig></fontconfig>\n", conf);
    fclose(conf);
    char command[2 * 4096], exe[512], conf_path[4096], line[512] = "";
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    assert_true(n > 0);
    exe[n] = 0;
    assert_non_null(realpath(at("fonts.conf"), conf_path)); // fontconfig looks elsewhere otherwise
    snprintf(command, sizeof command, "FONTCONFIG_FILE='%s' '%s' --without-fonts 2>/dev/null",
             conf_path, exe);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    assert_non_null(fgets(line, sizeof line, p));
    assert_int_equal(pclose(p), 0);
    assert_non_null(strstr(line, "fonts-dejavu-core"));
    sweep();
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--without-fonts"))
        return without_fonts();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_can_be_drawn),
        cmocka_unit_test(page_size_follows_panels_and_resolution),
        cmocka_unit_test(impossible_sizes_are_errors_before_anything_is_allocated),
        cmocka_unit_test(small_pages_are_drawn_without_harm),
        cmocka_unit_test(only_tables_are_nothing_to_draw),
        cmocka_unit_test(empty_figures_say_so_and_single_points_are_seen),
        cmocka_unit_test(log_axis_with_zero_negative_nan_shows_the_positive_point),
        cmocka_unit_test(a_gap_is_a_gap),
        cmocka_unit_test(a_million_points_are_drawn_fast_and_keep_their_spikes),
        cmocka_unit_test(dashes_mean_the_same_in_all_panels_of_a_page),
        cmocka_unit_test(cells_of_a_heat_map_have_the_exact_colours),
        cmocka_unit_test(more_cells_than_pixels_are_averaged),
        cmocka_unit_test(a_circle_on_an_equal_scale_is_round),
        cmocka_unit_test(png_decodes_to_the_pixels_and_its_chunks_are_in_order),
        cmocka_unit_test(bytes_are_the_same_twice_and_in_another_locale),
        cmocka_unit_test(a_failed_write_leaves_no_file),
        cmocka_unit_test(every_failing_allocation_of_a_drawing_is_reported),
        cmocka_unit_test(odd_names_and_texts_do_no_harm),
        cmocka_unit_test(hostile_numbers_do_no_harm),
        cmocka_unit_test(a_machine_without_fonts_gets_an_error_that_names_the_package),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
