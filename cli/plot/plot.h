// cli/plot/plot.h - figures -> PNG.
//
// Every kind but FIG_TABLE is drawn (a table is text: cli/text and cli/table). The same figures and
// options give the same bytes, whatever the locale. Text from files is escaped before it is drawn.
// Heat maps: with row names the first row is at the top, as in a table; without names the y axis
// counts rows upwards.
#ifndef DELTOP_PLOT_H
#define DELTOP_PLOT_H

#include "analyses/figure.h"

typedef struct plot_options {
    double dpi;           // pixels per inch: 10 to 2400
    double width, height; // inches of the whole page; NaN: from the number of panels
    bool cividis;         // the strictest map for colour-blind readers instead of viridis
    const char *heading;  // above all panels; NULL: none
    // Texts of the PNG file, NULL: left out. Plain or UTF-8.
    const char *title, *software;
    const char *comment;     // the command line that draws it again
    const char *source;      // checkpoint and document, with SHA-256
    const char *description; // range, smoothing, device, precision
} plot_options;

// 150 dpi; 6.4 x 4.0 inches for one column of panels, 4.8 x 3.3 a panel for more columns.
plot_options plot_defaults(void);

// Pixels of the page these figures need. ERR_USAGE when a side is below 1 or above 32767 pixels or
// the page has more than 268 million; ERR_UNSUPPORTED when there is nothing but tables.
bool plot_size(const figures *f, const plot_options *o, int *width, int *height, err *e);

// Draws into fresh memory: width x height x 3 bytes of sRGB, rows from the top. Caller frees.
unsigned char *plot_pixels(const figures *f, const plot_options *o, int *width, int *height,
                           err *e);

// Draws and writes PATH, which appears whole or not at all (errors: ERR_IO with the path).
bool plot_png(const figures *f, const plot_options *o, const char *path, err *e);

// NULL when labels are set in DejaVu Sans; otherwise a sentence for the user. Static text.
const char *plot_font_remark(void);

#endif
