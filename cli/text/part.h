// cli/text/part.h - what the text drawings of the single kinds share.
#ifndef DELTOP_TEXT_PART_H
#define DELTOP_TEXT_PART_H

#include "cli/plot/axes.h"
#include "cli/text/grid.h"

typedef struct textplot {
    const figure *f;
    int columns, rows;
    bool utf8, colour;
    FILE *out;
} textplot;

enum { TEXT_GREY = 245 };

bool text_curves(const textplot *t, err *e); // curves and scatter plots
bool text_heat(const textplot *t, err *e);
bool text_hist(const textplot *t, err *e);
bool text_bars(const textplot *t, err *e);
bool text_table(const textplot *t, err *e);

// Colour of series i, GRID_PLAIN without colours; its letter: a, b, c ...
int text_colour(const textplot *t, size_t i);
char text_letter(size_t i);

// The row(s) below a frame: ticks, their labels and the title. The frame begins at column `left`
// and is `w` wide; y is the first row below the data.
enum { TEXT_X_ROWS = 2 };
void text_x_axis(grid *g, const axes *x, int left, int w, int y);
// Ticks at the left of the frame; labels end at column left - 2, the line stands at left - 1.
void text_y_axis(grid *g, const axes *y, int left, int top, int h);
int text_label_width(const axes *a);
// "name (unit)" as a line above the frame (y), or centred below it (x).
void text_title_above(const textplot *t, const axes *y);
void text_title_below(const textplot *t, const axes *x, int left, int w);
// A number for a sentence, four digits.
char *text_number_short(double x, char *buf, size_t size);
// A sentence below the picture, wrapped.
void text_say(const textplot *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool text_nothing(const textplot *t, const char *why); // says why there is no picture

#endif
