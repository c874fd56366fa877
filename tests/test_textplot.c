#include "cli/text/textplot.h"
#include "tests/gallery.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

int main(void) {
    for (int utf8 = 1; utf8 >= 0; utf8--) {
        figure *f[] = {gallery_loss(),  gallery_models(3), gallery_erank(6, 4, 512), gallery_delta(),
                       gallery_angles(), gallery_eigen(),  gallery_hist(), gallery_bars(),
                       gallery_table(), gallery_log_axis(), gallery_odd_names()};
        for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
            err e = {0};
            if (!textplot_print(f[i], 80, 16, utf8, getenv("COL") != NULL, stdout, &e))
                printf("ERR %s\n", e.text);
            printf("\n");
            figure_free(f[i]);
        }
    }
}
