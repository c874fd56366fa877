// cli/plot/panel.h - one figure in its place on the page: what the drawing files share.
//
// All lengths are points, y downwards. panel_draw lays the panel out (title, legend, ticks, frame)
// and then calls the file of its kind.
#ifndef DELTOP_PANEL_H
#define DELTOP_PANEL_H

#include "cli/plot/axes.h"
#include "cli/plot/canvas.h"
#include "cli/plot/plot.h"

typedef struct look {
    rgb colour;
    double alpha, width;
    int dash, marker; // dash 0: solid
} look;

typedef enum { ENTRY_LINE, ENTRY_POINT, ENTRY_BAND, ENTRY_FILL } entry_kind;

typedef struct legend_entry {
    char text[200];
    look look;
    entry_kind kind;
    double value; // last value of a curve, for a label at its end; NaN: none
} legend_entry;

typedef enum { LEGEND_NONE, LEGEND_INSIDE, LEGEND_RIGHT, LEGEND_BELOW } legend_where;

enum { LEGEND_MAX = 40, LEGEND_ENDS = 4, PANEL_NOTES = 12, PANEL_NOTE = 512 };

typedef struct legend {
    legend_entry v[LEGEND_MAX];
    int n;
    legend_where where;
    double x, y;  // top left
    double width; // of one column, swatch included
    int columns;  // more than one only below
} legend;

// Which parts of the frame data cover, coarsely: labels and legends look for free places.
enum { BUSY_W = 160, BUSY_H = 120 };
typedef enum { BUSY_FREE = 0, BUSY_DATA = 1, BUSY_MARK = 2 } busy_kind;
typedef struct busy {
    unsigned char cell[BUSY_H][BUSY_W]; // bits of busy_kind
} busy;

typedef struct mark_place {
    bool line, label; // can be drawn
    bool turned;      // the label runs up along the line
    double at;        // place of the line
    rect box;         // of the label
} mark_place;
enum { PANEL_MARKS = 64 };

typedef struct panel {
    canvas *c;
    const figure *f;
    const plot_options *o;
    rect box, frame;
    axes x, y, value; // value: of a heat map's colours
    axes_span x_span, y_span;
    legend legend;
    legend_entry end[LEGEND_ENDS]; // names at the ends of curves
    double end_y[LEGEND_ENDS];     // where they stand, apart from each other
    int n_end;
    double end_width;
    busy busy;
    mark_place mark[PANEL_MARKS];
    char note[PANEL_NOTES][PANEL_NOTE]; // the figure's and the drawing's own, escaped
    int n_notes;
    bool solid;  // no dashes on this page
    double tilt; // height of slanted category names, 0: they stand upright
} panel;

// solid: dashes are left out; one answer for a whole page, or a dash would mean something in one panel
// and nothing in the next.
bool panel_draw(canvas *c, const figure *f, const plot_options *o, rect box, bool solid, err *e);

double panel_x(const panel *p, double x); // NaN for what the axis cannot show
double panel_y(const panel *p, double y);
look look_of(const figure *f, size_t series);
look panel_look(const panel *p, size_t series); // as the page has it
void panel_note(panel *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *panel_number(double x, char *buf, size_t size); // for sentences: 4 digits
void panel_clip(const panel *p);  // cairo_save and clip to the frame; cairo_restore ends it
rect panel_reach(const panel *p); // the frame and a little more: where pens are cut

// busy.c
void busy_fill(panel *p);
bool busy_at(const panel *p, rect r, int kinds); // anything of these kinds in r?

// legend.c
void legend_collect(panel *p);       // entries, and which curves carry their name at the end
double legend_right(const panel *p); // room taken beside the frame
double legend_below(const panel *p); // room taken below the axis
bool legend_fits_inside(panel *p);   // a free corner of the frame; sets the legend's place
void legend_move_outside(panel *p);  // right or below
void legend_place_ends(panel *p);    // once the frame is known
void legend_draw(panel *p);

// frame.c
double frame_left(panel *p);   // room for the names along y and the axis' title
double frame_bottom(panel *p); // the same along x
void frame_x_ticks(panel *p);  // as many as fit without touching
void frame_draw_grid(panel *p);
void frame_draw(panel *p);

// marks.c
void marks_place(panel *p); // once the frame is known
void marks_draw_lines(panel *p);
void marks_draw_labels(panel *p);

// Has a curve that would be dashed, but runs up and down all the time: dashes along it are noise.
bool curves_restless(const figure *f);

// curves.c, points.c, bars.c, heat.c
void curves_draw(panel *p);
void points_draw(panel *p, const series *s, const look *l, double radius);
bool scatter_draw(panel *p, err *e);
void hist_draw(panel *p);
void bars_draw(panel *p);
void heat_limits(panel *p); // range of the colours
void heat_notes(panel *p);  // what the picture averages, clips and leaves out
bool heat_draw(panel *p, err *e);
void heat_draw_bar(panel *p, double x);

// Sizes of text.
enum { NOTE_LEADING = 9, SUBTITLE_LEADING = 11, LEGEND_LEADING = 12 };
extern const text_style text_tick, text_axis, text_title, text_subtitle, text_note, text_legend;

#endif
