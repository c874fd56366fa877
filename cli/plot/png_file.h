// cli/plot/png_file.h - 8-bit RGB pixels -> a PNG file with resolution and texts.
#ifndef DELTOP_PNG_FILE_H
#define DELTOP_PNG_FILE_H

#include "core/err.h"

#include <stdio.h>

typedef struct png_text_entry {
    const char *keyword; // 1 to 79 Latin-1 bytes
    const char *value;   // NULL: left out. Plain text becomes tEXt, other UTF-8 iTXt
} png_text_entry;

// Chunks: IHDR, sRGB (perceptual), pHYs, texts in the given order, IDAT, IEND. No time stamp, so
// the same input gives the same bytes. rgb: height x width x 3.
bool png_file_write(FILE *out, const unsigned char *rgb, int width, int height, double dpi,
                    const png_text_entry *text, int n_text, err *e);

#endif
