#include "cli/plot/palette.h"

#include <math.h>
#include <stdint.h>

static const uint32_t series_colour[PALETTE_SERIES] = {0x0072B2, 0xD55E00, 0x009E73, 0xCC79A7,
                                                       0x56B4E9, 0xE69F00, 0x000000, 0xF0E442};

// 17 anchors each; the largest error of a channel against the full tables is 5.8 of 255 (viridis)
// and 10.5 (cividis), with L* strictly rising.
static const uint32_t viridis[] = {0x440154, 0x48186A, 0x472D7B, 0x424086, 0x3B528B, 0x33638D,
                                   0x2C728E, 0x26828E, 0x21918C, 0x1F9F88, 0x27AD81, 0x3DBC74,
                                   0x5CC863, 0x81D34D, 0xAADC32, 0xD5E21A, 0xFDE725};
static const uint32_t cividis[] = {0x00224E, 0x002E6A, 0x1A386F, 0x32436D, 0x434E6C, 0x535A6D,
                                   0x61656F, 0x6F7073, 0x7D7C78, 0x8B8778, 0x9A9376, 0xAAA073,
                                   0xBBAD6D, 0xCCBA64, 0xDDC858, 0xEFD748, 0xFEE838};
static const uint32_t diverging[] = {0x053061, 0x2166AC, 0x4393C3, 0x92C5DE, 0xD1E5F0, 0xF7F7F7,
                                     0xFDDBC7, 0xF4A582, 0xD6604D, 0xB2182B, 0x67001F};
// Light at both ends, dark in the middle, blue on the way down and red on the way up: lightness
// tells the distance from the middle, hue the side.
static const uint32_t cyclic[] = {0xE8E6EA, 0xA9BFDD, 0x6693CC, 0x3A62AE, 0x2B2A55,
                                  0x7C2D55, 0xBC5A4E, 0xDBA083, 0xE8E6EA};

static const struct {
    const uint32_t *anchor;
    int n;
} maps[PALETTE_MAPS] = {
    [PALETTE_VIRIDIS] = {viridis, sizeof viridis / sizeof *viridis},
    [PALETTE_CIVIDIS] = {cividis, sizeof cividis / sizeof *cividis},
    [PALETTE_DIVERGING] = {diverging, sizeof diverging / sizeof *diverging},
    [PALETTE_CYCLIC] = {cyclic, sizeof cyclic / sizeof *cyclic},
};

static rgb from_hex(uint32_t c) {
    return (rgb){(c >> 16 & 255) / 255.0, (c >> 8 & 255) / 255.0, (c & 255) / 255.0};
}

rgb palette_series(int i) {
    return from_hex(series_colour[i < 0 ? 0 : i % PALETTE_SERIES]);
}

const double *palette_dash(int i, int *n) {
    static const double long_dash[] = {6, 3}, dots[] = {2, 2}, mixed[] = {8, 3, 2, 3};
    static const struct {
        const double *v;
        int n;
    } dash[] = {{NULL, 0}, {long_dash, 2}, {dots, 2}, {mixed, 4}};
    i = i < 0 ? 0 : i % 4;
    *n = dash[i].n;
    return dash[i].v;
}

rgb palette_map(palette_map_id map, double t) {
    if (isnan(t))
        return palette_missing();
    int last = maps[map].n - 1;
    double at = fmin(fmax(t, 0), 1) * last;
    int i = (int)at;
    if (i >= last)
        return from_hex(maps[map].anchor[last]);
    rgb a = from_hex(maps[map].anchor[i]), b = from_hex(maps[map].anchor[i + 1]);
    double w = at - i;
    return (rgb){a.r + w * (b.r - a.r), a.g + w * (b.g - a.g), a.b + w * (b.b - a.b)};
}

rgb palette_missing(void) {
    return from_hex(0xD0D0D0);
}

static double linear(double s) {
    return s <= 0.04045 ? s / 12.92 : pow((s + 0.055) / 1.055, 2.4);
}

static double luminance(rgb c) {
    return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
}

double palette_lightness(rgb c) {
    double y = luminance(c);
    return y > 216.0 / 24389 ? 116 * cbrt(y) - 16 : 24389.0 / 27 * y;
}

double palette_contrast(rgb a, rgb b) {
    double ya = luminance(a), yb = luminance(b);
    return (fmax(ya, yb) + 0.05) / (fmin(ya, yb) + 0.05);
}
