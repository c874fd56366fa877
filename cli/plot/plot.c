#include "cli/plot/plot.h"

#include "cli/plot/panel.h"
#include "cli/plot/png_file.h"
#include "core/mem.h"
#include "core/outfile.h"
#include "core/text.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HEADING = 26 }; // points for the heading above all panels

static const text_style heading_style = {13, true, {0, 0, 0}, 0, false};

plot_options plot_defaults(void) {
    return (plot_options){.dpi = 150, .width = NAN, .height = NAN};
}

const char *plot_font_remark(void) {
    bool other;
    if (canvas_font(&other) && !other)
        return NULL;
    return "labels are not set in DejaVu Sans, which is not installed (Debian: fonts-dejavu-core): "
           "some signs may be missing";
}

static size_t drawable(const figures *f) {
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        n += f->v[i]->kind != FIG_TABLE;
    return n;
}

static int columns_of(const figures *f) {
    size_t n = drawable(f);
    int columns = f->columns < 1 ? 1 : f->columns;
    return (size_t)columns > n ? (int)n : columns;
}

static bool has_heading(const plot_options *o) {
    return o->heading && *o->heading;
}

// Pixels of the page as doubles, so that no size overflows before it is checked.
static bool page(const figures *f, const plot_options *o, double *w, double *h, err *e) {
    size_t n = drawable(f);
    if (n == 0)
        return err_set(e, ERR_UNSUPPORTED, "nothing to draw: %s",
                       f->n ? "tables are written as CSV" : "no figure");
    int columns = columns_of(f);
    double rows = ceil((double)n / columns);
    double wide = columns > 1 ? 4.8 : 6.4, tall = columns > 1 ? 3.3 : 4.0;
    double width = isnan(o->width) ? wide * columns : o->width;
    double height =
        isnan(o->height) ? tall * rows + (has_heading(o) ? HEADING / 72.0 : 0) : o->height;
    if (!(o->dpi >= 10 && o->dpi <= 2400))
        return err_set(e, ERR_USAGE, "%.0f dots per inch: 10 to 2400 are possible", o->dpi);
    *w = round(width * o->dpi);
    *h = round(height * o->dpi);
    return canvas_size_ok(*w, *h, e);
}

bool plot_size(const figures *f, const plot_options *o, int *width, int *height, err *e) {
    double w = 0, h = 0;
    if (!page(f, o, &w, &h, e))
        return false;
    *width = (int)w;
    *height = (int)h;
    return true;
}

static bool draw_page(canvas *c, const figures *f, const plot_options *o, err *e) {
    double top = 0;
    if (has_heading(o)) {
        char whole[512], line[512];
        canvas_escape(c, o->heading, whole, sizeof whole);
        canvas_fit(c, whole, c->width - 18, &heading_style, line, sizeof line);
        canvas_text(c, line, 9, 20, 0, 0, &heading_style);
        top = HEADING;
    }
    int columns = columns_of(f);
    double rows = ceil((double)drawable(f) / columns);
    double w = c->width / columns, h = (c->height - top) / rows;
    int at = 0;
    bool solid = false;
    for (size_t i = 0; i < f->n; i++)
        solid |= curves_restless(f->v[i]);
    for (size_t i = 0; i < f->n; i++) {
        if (f->v[i]->kind == FIG_TABLE)
            continue;
        rect box = {at % columns * w, top + at / columns * h, w, h};
        cairo_save(c->cr);
        cairo_rectangle(c->cr, box.x, box.y, box.w, box.h);
        cairo_clip(c->cr);
        bool ok = panel_draw(c, f->v[i], o, box, solid, e);
        cairo_restore(c->cr);
        if (!ok)
            return err_prefix(e, "figure %s", f->v[i]->id);
        at++;
    }
    return canvas_ok(c, e);
}

// cairo keeps 0x00RRGGBB in the machine's byte order; PNG wants R, G, B.
static unsigned char *unpack(const canvas *c, int w, int h, err *e) {
    unsigned char *rgb = mem_alloc((size_t)w * 3, (size_t)h, "the pixels of a picture", e);
    if (!rgb)
        return NULL;
    cairo_surface_flush(c->surface);
    const unsigned char *data = cairo_image_surface_get_data(c->surface);
    size_t stride = (size_t)cairo_image_surface_get_stride(c->surface);
    unsigned char *out = rgb;
    for (int y = 0; y < h; y++) {
        const uint32_t *row = (const uint32_t *)(data + (size_t)y * stride);
        for (int x = 0; x < w; x++) {
            *out++ = (unsigned char)(row[x] >> 16);
            *out++ = (unsigned char)(row[x] >> 8);
            *out++ = (unsigned char)row[x];
        }
    }
    return rgb;
}

unsigned char *plot_pixels(const figures *f, const plot_options *o, int *width, int *height,
                           err *e) {
    canvas c;
    if (!plot_size(f, o, width, height, e) || !canvas_open(&c, *width, *height, o->dpi, e))
        return NULL;
    unsigned char *rgb = NULL;
    if (draw_page(&c, f, o, e))
        rgb = unpack(&c, *width, *height, e);
    canvas_close(&c);
    return rgb;
}

bool plot_png(const figures *f, const plot_options *o, const char *path, err *e) {
    int w, h;
    unsigned char *rgb = plot_pixels(f, o, &w, &h, e);
    if (!rgb)
        return err_prefix(e, "%s", text_show(path));
    const png_text_entry text[] = {{"Title", o->title},
                                   {"Software", o->software},
                                   {"Comment", o->comment},
                                   {"Source", o->source},
                                   {"Description", o->description}};
    outfile *out = outfile_open(path, e);
    bool ok = false;
    if (out) {
        ok = png_file_write(outfile_stream(out), rgb, w, h, o->dpi, text,
                            sizeof text / sizeof *text, e);
        ok = ok ? outfile_commit(out, e) : err_prefix(e, "%s", text_show(path));
    }
    outfile_close(out);
    free(rgb);
    return ok;
}
