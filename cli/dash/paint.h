// cli/dash/paint.h - a whole frame: header, panels, bars, prompt and pages over them.
#ifndef DELTOP_DASH_PAINT_H
#define DELTOP_DASH_PAINT_H

#include "cli/dash/panel.h"

// Paints the scene on a cleared surface of the size it was made for.
void paint_frame(surface *s, const scene *x);

// Parts of it -------------------------------------------------------------------------------------
void paint_header(surface *s, const scene *x);
void paint_strip(surface *s, const scene *x);
void paint_bottom(surface *s, const scene *x); // message row, key bar, prompt
void paint_lines(surface *s, const scene *x);  // below 8 rows or 36 columns

// The page that covers the body: help, info, options; 0 when there is none. s NULL: only counts. Both
// return the lines of the whole page, or the first line that may stand at the top.
int page_draw(surface *s, const scene *x, int scroll);
int page_scroll(const scene *x, int scroll);

// Where the caret of an open prompt stands; false: there is none.
bool paint_caret(const scene *x, int *y, int *col);

// Parts of the header that are told elsewhere too.
void paint_progress(const scene *x, char *buf, size_t size); // "43%", "done"
void paint_rate(const scene *x, char *buf, size_t size);     // "1.1k tok/s"
void paint_left(const scene *x, char *buf, size_t size);     // "0:09 left"

#endif
