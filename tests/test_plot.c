#include "cli/plot/plot.h"
#include "tests/gallery.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

// With DELTOP_GALLERY=DIR: one PNG of each kind there, to look at.
static void every_kind_can_be_drawn(void **state) {
    (void)state;
    const char *dir = getenv("DELTOP_GALLERY");
    struct {
        const char *name;
        figures f;
    } page[] = {
        {"loss", gallery_one(gallery_loss())},
        {"models3", gallery_one(gallery_models(3))},
        {"models12", gallery_one(gallery_models(12))},
        {"erank", gallery_one(gallery_erank(6, 4, 512))},
        {"erank-large", gallery_one(gallery_erank(24, 16, 4096))},
        {"delta", gallery_one(gallery_delta())},
        {"angles", gallery_one(gallery_angles())},
        {"eigen", gallery_one(gallery_eigen())},
        {"hist", gallery_one(gallery_hist())},
        {"bars", gallery_one(gallery_bars())},
        {"log-axis", gallery_one(gallery_log_axis())},
        {"odd-names", gallery_one(gallery_odd_names())},
    };
    for (size_t i = 0; i < sizeof page / sizeof *page; i++) {
        plot_options o = plot_defaults();
        err e = {0};
        int w, h;
        unsigned char *rgb = plot_pixels(&page[i].f, &o, &w, &h, &e);
        if (!rgb)
            print_message("%s: %s\n", page[i].name, e.text);
        assert_non_null(rgb);
        free(rgb);
        char path[512];
        snprintf(path, sizeof path, "%s/%s.png", dir ? dir : "", page[i].name);
        if (dir)
            assert_true(plot_png(&page[i].f, &o, path, &e));
        figures_free(&page[i].f);
    }
    figures sheet;
    figures_init(&sheet, 2);
    figures_add(&sheet, gallery_loss(), NULL);
    figures_add(&sheet, gallery_models(4), NULL);
    figures_add(&sheet, gallery_erank(6, 4, 512), NULL);
    figures_add(&sheet, gallery_eigen(), NULL);
    figures_add(&sheet, gallery_hist(), NULL);
    figures_add(&sheet, gallery_bars(), NULL);
    figures_add(&sheet, gallery_table(), NULL);
    plot_options o = plot_defaults();
    o.heading = "small-deltanet on war-and-peace.txt";
    err e = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/sheet.png", dir ? dir : "");
    if (dir)
        assert_true(plot_png(&sheet, &o, path, &e));
    figures_free(&sheet);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_can_be_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
