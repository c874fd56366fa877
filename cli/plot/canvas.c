#include "cli/plot/canvas.h"

#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FONT "DejaVu Sans"
enum { MAX_PIXELS = 1 << 28 };

#ifdef __SANITIZE_ADDRESS__
// fontconfig keeps a pattern for each font it has opened until the process ends (some hundred
// bytes, however much is drawn). The leak checker looks for this name.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libfontconfig\n";
}
#endif

static void set_font(cairo_t *cr, double size, bool bold) {
    cairo_select_font_face(cr, FONT, CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, size);
}

// Hints and subpixels are what makes glyphs differ from one machine to the next.
static void set_antialias(cairo_t *cr) {
    cairo_font_options_t *o = cairo_font_options_create();
    cairo_font_options_set_antialias(o, CAIRO_ANTIALIAS_GRAY);
    cairo_font_options_set_hint_style(o, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(o, CAIRO_HINT_METRICS_OFF);
    cairo_set_font_options(cr, o);
    cairo_font_options_destroy(o);
    cairo_set_antialias(cr, CAIRO_ANTIALIAS_GRAY);
}

static double advance(cairo_t *cr, const char *s) {
    cairo_text_extents_t x;
    cairo_text_extents(cr, s, &x);
    return x.x_advance;
}

bool canvas_font(bool *other) {
    cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    cairo_t *cr = cairo_create(s);
    set_antialias(cr);
    set_font(cr, 2048, false);
    // Advance widths in font units (2048 per em) of DejaVu Sans 2.37: M 1767, l 569, U+2212 1716.
    double m = advance(cr, "M"), l = advance(cr, "l"), minus = advance(cr, "\u2212");
    cairo_destroy(cr);
    cairo_surface_destroy(s);
    *other = !(fabs(m - 1767) < 2 && fabs(l - 569) < 2 && fabs(minus - 1716) < 2);
    // Without any font cairo draws built-in stick letters and reports no error. Theirs are 1251.6
    // (M) and 341.3 (l) wide, measured with cairo 1.16, and they know no U+2212.
    bool stick = fabs(m - 1251.6) < 2 && fabs(l - 341.3) < 2;
    return m > 0 && l > 0 && !stick;
}

bool canvas_size_ok(double width_px, double height_px, err *e) {
    if (!(width_px >= 1 && height_px >= 1 && width_px <= CANVAS_MAX_SIDE &&
          height_px <= CANVAS_MAX_SIDE))
        return err_set(e, ERR_USAGE, "a picture of %.0f x %.0f pixels: 1 to %d a side are possible",
                       width_px, height_px, CANVAS_MAX_SIDE);
    if (width_px * height_px > MAX_PIXELS)
        return err_set(e, ERR_USAGE,
                       "a picture of %.0f x %.0f pixels: at most %d million are possible", width_px,
                       height_px, MAX_PIXELS / 1000000);
    return true;
}

bool canvas_open(canvas *c, double width_px, double height_px, double dpi, err *e) {
    memset(c, 0, sizeof *c);
    if (!canvas_size_ok(width_px, height_px, e))
        return false;
    bool other;
    if (!canvas_font(&other))
        return err_set(e, ERR_MISSING,
                       "no font for the labels of a picture: install DejaVu Sans (Debian: "
                       "fonts-dejavu-core)");
    c->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)width_px, (int)height_px);
    c->cr = cairo_create(c->surface);
    if (!canvas_ok(c, e)) {
        canvas_close(c);
        return false;
    }
    c->scale = dpi / 72;
    c->width = width_px / c->scale;
    c->height = height_px / c->scale;
    set_antialias(c->cr);
    cairo_scale(c->cr, c->scale, c->scale);
    cairo_set_line_join(c->cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_source_rgb(c->cr, 1, 1, 1);
    cairo_paint(c->cr);
    return true;
}

bool canvas_ok(const canvas *c, err *e) {
    cairo_status_t s = cairo_surface_status(c->surface);
    if (s == CAIRO_STATUS_SUCCESS)
        s = cairo_status(c->cr);
    if (s == CAIRO_STATUS_SUCCESS)
        return true;
    return err_set(e, s == CAIRO_STATUS_NO_MEMORY ? ERR_NOMEM : ERR_NUMERIC, "drawing failed: %s",
                   cairo_status_to_string(s));
}

void canvas_close(canvas *c) {
    if (c->cr)
        cairo_destroy(c->cr);
    if (c->surface)
        cairo_surface_destroy(c->surface);
    memset(c, 0, sizeof *c);
}

void canvas_colour(canvas *c, rgb colour, double alpha) {
    cairo_set_source_rgba(c->cr, colour.r, colour.g, colour.b, alpha);
}

// Length of the character at s in bytes; the text has been through text_escape, so it is UTF-8.
static size_t char_bytes(const char *s) {
    size_t n = 1;
    while (((unsigned char)s[n] & 0xC0) == 0x80)
        n++;
    return n;
}

static bool has_glyph(canvas *c, const char *s, size_t n) {
    cairo_scaled_font_t *font = cairo_get_scaled_font(c->cr);
    cairo_glyph_t *glyph = NULL;
    int count = 0;
    if (cairo_scaled_font_text_to_glyphs(font, 0, 0, s, (int)n, &glyph, &count, NULL, NULL, NULL) !=
        CAIRO_STATUS_SUCCESS)
        return false;
    bool has = true;
    for (int i = 0; i < count; i++)
        has = has && glyph[i].index != 0;
    cairo_glyph_free(glyph);
    return has;
}

static unsigned code_point(const char *s, size_t n) {
    unsigned v = (unsigned char)s[0] & (0xFFu >> (n > 1 ? n + 1 : 0));
    for (size_t i = 1; i < n; i++)
        v = v << 6 | ((unsigned char)s[i] & 0x3F);
    return v;
}

char *canvas_known(canvas *c, const char *s, char *buf, size_t size) {
    set_font(c->cr, 10, false);
    size_t at = 0;
    for (const char *p = s; *p;) {
        size_t n = char_bytes(p), room = size - at;
        int w = n == 1 || has_glyph(c, p, n)
                    ? snprintf(buf + at, room, "%.*s", (int)n, p)
                    : snprintf(buf + at, room, "\\u{%04x}", code_point(p, n));
        if (w < 0 || (size_t)w >= room)
            break;
        at += (size_t)w;
        p += n;
    }
    buf[at] = 0;
    return buf;
}

char *canvas_escape(canvas *c, const char *s, char *buf, size_t size) {
    char safe[2048];
    text_escape(s, strlen(s), safe, size < sizeof safe ? size : sizeof safe);
    return canvas_known(c, safe, buf, size);
}

double canvas_text_width(canvas *c, const char *s, const text_style *t) {
    set_font(c->cr, t->size, t->bold);
    return advance(c->cr, s);
}

void canvas_text(canvas *c, const char *s, double x, double y, double across, double up,
                 const text_style *t) {
    if (!*s || !isfinite(x) || !isfinite(y))
        return;
    cairo_t *cr = c->cr;
    double cap = 0.729 * t->size; // height of DejaVu's capitals
    cairo_save(cr);
    set_font(cr, t->size, t->bold);
    cairo_translate(cr, x, y);
    cairo_rotate(cr, -t->angle);
    cairo_move_to(cr, -across * advance(cr, s), up * cap);
    if (t->halo) {
        cairo_text_path(cr, s);
        cairo_set_source_rgba(cr, 1, 1, 1, 0.85);
        cairo_set_line_width(cr, 0.3 * t->size);
        cairo_stroke(cr);
        cairo_move_to(cr, -across * advance(cr, s), up * cap);
    }
    canvas_colour(c, t->colour, 1);
    cairo_show_text(cr, s);
    cairo_new_path(cr);
    cairo_restore(cr);
}

// The longest beginning of s (whole characters) that with `tail` is at most `width` wide.
static size_t fitting(canvas *c, const char *s, const char *tail, double width,
                      const text_style *t) {
    char buf[2048];
    size_t n = 0, best = 0;
    while (s[n]) {
        size_t next = n + char_bytes(s + n);
        if (next + strlen(tail) + 1 > sizeof buf)
            break;
        memcpy(buf, s, next);
        strcpy(buf + next, tail);
        if (canvas_text_width(c, buf, t) > width)
            break;
        best = n = next;
    }
    return best;
}

char *canvas_fit(canvas *c, const char *s, double width, const text_style *t, char *buf,
                 size_t size) {
    snprintf(buf, size, "%s", s);
    if (canvas_text_width(c, buf, t) <= width)
        return buf;
    const char *dots = "\u2026";
    size_t n = fitting(c, s, dots, width, t);
    if (n + strlen(dots) + 1 <= size)
        snprintf(buf, size, "%.*s%s", (int)n, s, dots);
    return buf;
}

int canvas_paragraph(canvas *c, const char *s, double x, double y, double width, double leading,
                     int max_lines, bool draw, const text_style *t) {
    char line[2048];
    int lines = 0;
    while (*s && lines < max_lines) {
        size_t n = fitting(c, s, "", width, t);
        if (s[n]) { // break after the last space, when there is one
            size_t space = n;
            while (space > 0 && s[space] != ' ')
                space--;
            if (space > 0)
                n = space;
        }
        if (n == 0)
            n = char_bytes(s);
        bool last = lines + 1 == max_lines && s[n];
        snprintf(line, sizeof line, "%.*s", (int)n, s);
        if (last) {
            char cut[2048];
            snprintf(cut, sizeof cut, "%.2000s", s);
            canvas_fit(c, cut, width, t, line, sizeof line);
        }
        if (draw)
            canvas_text(c, line, x, y + lines * leading, 0, 0, t);
        lines++;
        s += n;
        while (*s == ' ')
            s++;
    }
    return lines;
}

static double whole(const canvas *c, double x) {
    return round(x * c->scale) / c->scale;
}

void canvas_snap(const canvas *c, rect *r) {
    double x1 = whole(c, r->x + r->w), y1 = whole(c, r->y + r->h);
    r->x = whole(c, r->x);
    r->y = whole(c, r->y);
    r->w = x1 - r->x;
    r->h = y1 - r->y;
}

void canvas_rule(canvas *c, double x0, double y0, double x1, double y1, double width) {
    double px = fmax(1, round(width * c->scale));
    // An odd width sits on the middle of a pixel, an even one between two.
    double shift = fmod(px, 2) / 2 / c->scale;
    bool upright = x0 == x1;
    double a = whole(c, x0) + (upright ? shift : 0), b = whole(c, y0) + (upright ? 0 : shift);
    double d = whole(c, x1) + (upright ? shift : 0), f = whole(c, y1) + (upright ? 0 : shift);
    cairo_set_line_width(c->cr, px / c->scale);
    cairo_move_to(c->cr, a, b);
    cairo_line_to(c->cr, d, f);
    cairo_stroke(c->cr);
}

void canvas_hatch(canvas *c, rect r) {
    cairo_t *cr = c->cr;
    cairo_save(cr);
    cairo_rectangle(cr, r.x, r.y, r.w, r.h);
    cairo_clip(cr);
    canvas_colour(c, palette_missing(), 1);
    cairo_paint(cr);
    canvas_colour(c, (rgb){0.62, 0.62, 0.62}, 1);
    cairo_set_line_width(cr, 0.5);
    // Phase from the page, so that neighbouring pieces continue each other.
    double step = 4, first = floor((r.x + r.y) / step) * step;
    for (double d = first; d < r.x + r.w + r.y + r.h; d += step) {
        cairo_move_to(cr, d - r.y, r.y);
        cairo_line_to(cr, d - r.y - r.h, r.y + r.h);
    }
    cairo_stroke(cr);
    cairo_restore(cr);
}

void canvas_marker(canvas *c, int shape, double x, double y, double r) {
    cairo_t *cr = c->cr;
    switch (shape % 4) {
    case 0:
        cairo_new_sub_path(cr);
        cairo_arc(cr, x, y, r, 0, 2 * M_PI);
        break;
    case 1:
        cairo_rectangle(cr, x - 0.87 * r, y - 0.87 * r, 1.74 * r, 1.74 * r);
        break;
    case 2:
        cairo_move_to(cr, x, y - 1.2 * r);
        cairo_line_to(cr, x + 1.1 * r, y + 0.8 * r);
        cairo_line_to(cr, x - 1.1 * r, y + 0.8 * r);
        cairo_close_path(cr);
        break;
    default:
        cairo_move_to(cr, x, y - 1.3 * r);
        cairo_line_to(cr, x + 1.3 * r, y);
        cairo_line_to(cr, x, y + 1.3 * r);
        cairo_line_to(cr, x - 1.3 * r, y);
        cairo_close_path(cr);
    }
}

void pen_start(pen *p, canvas *c, rect clip) {
    *p = (pen){.c = c, .clip = clip};
}

// Liang and Barsky: the part [*t0, *t1] of the segment inside the rectangle; false: none.
static bool clip_segment(const rect *r, double x0, double y0, double x1, double y1, double *t0,
                         double *t1) {
    double dx = x1 - x0, dy = y1 - y0;
    double p[4] = {-dx, dx, -dy, dy};
    double q[4] = {x0 - r->x, r->x + r->w - x0, y0 - r->y, r->y + r->h - y0};
    *t0 = 0;
    *t1 = 1;
    for (int i = 0; i < 4; i++) {
        if (p[i] == 0) {
            if (q[i] < 0)
                return false;
            continue;
        }
        double t = q[i] / p[i];
        if (p[i] < 0)
            *t0 = fmax(*t0, t);
        else
            *t1 = fmin(*t1, t);
    }
    return *t0 <= *t1;
}

void pen_to(pen *p, double x, double y) {
    if (isnan(x) || isnan(y)) {
        p->down = p->joined = false;
        return;
    }
    // Infinite places (an overflow upstream) are as good as far away.
    x = fmin(fmax(x, -1e15), 1e15);
    y = fmin(fmax(y, -1e15), 1e15);
    if (p->down) {
        double t0, t1;
        if (clip_segment(&p->clip, p->x, p->y, x, y, &t0, &t1)) {
            double dx = x - p->x, dy = y - p->y;
            if (!p->joined || t0 > 0)
                cairo_move_to(p->c->cr, p->x + t0 * dx, p->y + t0 * dy);
            cairo_line_to(p->c->cr, p->x + t1 * dx, p->y + t1 * dy);
            p->joined = t1 == 1;
        } else {
            p->joined = false;
        }
    }
    p->x = x;
    p->y = y;
    p->down = true;
}
