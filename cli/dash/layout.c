#include "cli/dash/layout.h"

static const int tile_order[] = {1, 2, 3, 4, 6, 7, 8, 9, PANEL_MESSAGES};
enum { TILES = sizeof tile_order / sizeof *tile_order };

static int clamp(int x, int lo, int hi) {
    return x < lo ? lo : x > hi ? hi : x;
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

// Bands for s tiles in h x w cells: the number whose tiles are nearest to 4:1 with few holes. Costs
// are ratios max/min x nm/s, compared by cross products.
static int choose_bands(int h, int w, int s) {
    int best = 0;
    long long best_top = 0, best_bottom = 1;
    for (int m = 1; m <= h / TILE_H; m++) {
        int n = (s + m - 1) / m;
        if (n > w / TILE_W || m > s)
            continue;
        long long a = (long long)w * m, b = 4LL * h * n;
        long long top = (a > b ? a : b) * n * m, bottom = (a > b ? b : a) * s;
        if (!best || top * best_bottom < best_top * bottom) {
            best = m;
            best_top = top;
            best_bottom = bottom;
        }
    }
    return larger(best, 1);
}

static void add_separator(layout *l, int x, int y, int h) {
    if (l->n_sep < MAX_SEPARATORS)
        l->sep[l->n_sep++] = (separator){x, y, h};
}

static void place_tiles(layout *l, rect area, const int *tile, int s) {
    int m = choose_bands(area.h, area.w, s), y = area.y, at = 0;
    for (int b = 0; b < m; b++) {
        int h = area.h / m + (b < area.h % m), n = s / m + (b < s % m), x = area.x;
        int room = area.w - (n - 1);
        for (int i = 0; i < n; i++) {
            int w = room / n + (i < room % n);
            l->panel[tile[at++]] = (rect){y, x, h, w};
            x += w;
            if (i + 1 < n)
                add_separator(l, x++, y, h);
        }
        y += h;
    }
}

// The panels below the tiles; returns the rows that are left.
static int place_bottom(layout *l, unsigned open, int focus, bool *messages_below) {
    rect body = l->body;
    int left = body.h;
    bool others = open & ~(1u << PANEL_TEXT | 1u << PANEL_MESSAGES);
    *messages_below = open & 1u << PANEL_MESSAGES && (body.h >= 30 || !others);
    if (!others) { // these two share the body
        bool text = open & 1u << PANEL_TEXT, messages = open & 1u << PANEL_MESSAGES;
        int low = text && messages ? clamp(body.h / 3, 2, body.h - 2) : text ? body.h : 0;
        if (text)
            l->panel[PANEL_TEXT] = (rect){body.y + body.h - low, body.x, low, body.w};
        if (messages)
            l->panel[PANEL_MESSAGES] = (rect){body.y, body.x, body.h - low, body.w};
        return 0;
    }
    if (open & 1u << PANEL_TEXT) {
        int h = 1 + clamp(body.h / 7, 2, 8);
        left -= h;
        l->panel[PANEL_TEXT] = (rect){body.y + left, body.x, h, body.w};
    }
    if (*messages_below) {
        int h = 1 + clamp(body.h / 10, 2, 6);
        left -= h;
        l->panel[PANEL_MESSAGES] = (rect){body.y + left, body.x, h, body.w};
    }
    (void)focus;
    return left;
}

layout layout_make(int rows, int cols, unsigned open, int focus, bool zoom, bool gpu) {
    layout l = {.rows = rows, .cols = cols};
    open |= 1u << focus;
    if (rows < 8 || cols < TILE_W) {
        l.lines = true;
        return l;
    }
    int top = rows < 16 ? 1 : 2, bottom = rows - 1;
    l.header = (rect){0, 0, top, cols};
    if (gpu && rows >= 30)
        l.strip = (rect){top++, 0, 1, cols};
    l.keys = (rect){bottom, 0, 1, cols};
    if (rows >= 30)
        l.message = (rect){--bottom, 0, 1, cols};
    l.body = (rect){top, 0, bottom - top, cols};
    if (l.body.h < 14 || zoom) {
        l.panel[focus] = l.body;
        l.hidden = open & ~(1u << focus);
        return l;
    }
    bool messages_below = false;
    int h = place_bottom(&l, open, focus, &messages_below);
    if (h <= 0)
        return l;
    int tile[TILES], n = 0;
    for (int i = 0; i < TILES; i++) {
        int p = tile_order[i];
        bool wanted = open >> p & 1;
        // Messages become a tile only where they have no rows of their own and are looked at.
        if (p == PANEL_MESSAGES && (messages_below || focus != PANEL_MESSAGES))
            wanted = false;
        if (wanted)
            tile[n++] = p;
    }
    int most = cols / TILE_W * (h / TILE_H), s = n < most ? n : most;
    for (int i = s; i < n; i++)
        if (tile[i] == focus)
            tile[s - 1] = focus;
    place_tiles(&l, (rect){l.body.y, 0, h, cols}, tile, s);
    for (int p = 0; p < PANELS; p++)
        if (open >> p & 1 && l.panel[p].h == 0)
            l.hidden |= 1u << p;
    return l;
}
