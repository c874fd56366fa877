// cli/plot/palette.h - the colours of lines and maps, and the lightness arithmetic that tests hold
// them to. sRGB components 0..1.
#ifndef DELTOP_PALETTE_H
#define DELTOP_PALETTE_H

#include <stddef.h>

typedef struct rgb {
    double r, g, b;
} rgb;

enum { PALETTE_SERIES = 8 };

// Okabe and Ito, Color Universal Design (2008), in the order for lines on white: blue, vermillion,
// green, purple, sky, orange, black, yellow. i wraps around.
rgb palette_series(int i);

// Dash pattern of curve i in points (0 entries: solid). Curves differ in it for grey print.
const double *palette_dash(int i, int *n);

typedef enum {
    PALETTE_VIRIDIS,
    PALETTE_CIVIDIS,
    PALETTE_DIVERGING, // ColorBrewer RdBu reversed: blue below, red above the middle
    PALETTE_CYCLIC,    // same colour at both ends
    PALETTE_MAPS
} palette_map_id;

// t in 0..1, clamped; linear in sRGB between the anchors. NaN gives palette_missing().
rgb palette_map(palette_map_id map, double t);
rgb palette_missing(void); // a grey outside every map, drawn with a hatch

// CIE L* (D65) of an sRGB colour, and the WCAG contrast ratio of two.
double palette_lightness(rgb c);
double palette_contrast(rgb a, rgb b);

#endif
