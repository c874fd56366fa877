#include "cli/plot/png_file.h"

#include "core/mem.h"
#include "core/text.h"

#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 16, ESCAPED = 4096 };

typedef struct failure {
    char text[200];
} failure;

// libpng reports through this and expects it not to return.
static void on_error(png_structp png, png_const_charp message) {
    failure *f = png_get_error_ptr(png);
    if (!*f->text)
        snprintf(f->text, sizeof f->text, "%s", message);
    png_longjmp(png, 1);
}

// libpng's own writer says "Write Error" and forgets why (fault B100).
// libpng's own writer says only "Write Error"; the system knows the reason (fault B100).
static void put_bytes(png_structp png, png_bytep data, size_t n) {
    failure *f = png_get_error_ptr(png);
    if (fwrite(data, 1, n, png_get_io_ptr(png)) == n)
        return;
    snprintf(f->text, sizeof f->text, "cannot write: %s", err_system(errno));
    png_error(png, "write");
}

static void put_out(png_structp png) { // outfile_commit flushes
    (void)png;
}

static void on_warning(png_structp png, png_const_charp message) {
    (void)png;
    (void)message;
}

static bool plain(const char *s) {
    for (; *s; s++)
        if ((*s < 0x20 || *s > 0x7e) && *s != '\n')
            return false;
    return true;
}

// Only calls that may jump stand here; every local is set before setjmp and not changed after it.
static bool write_all(png_structp png, png_infop info, FILE *out, const unsigned char *rgb,
                      int width, int height, double dpi, png_textp text, int n_text) {
    if (setjmp(png_jmpbuf(png)))
        return false;
    png_set_write_fn(png, out, put_bytes, put_out);
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_sRGB(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
    png_uint_32 per_metre = (png_uint_32)lround(dpi / 0.0254);
    png_set_pHYs(png, info, per_metre, per_metre, PNG_RESOLUTION_METER);
    if (n_text)
        png_set_text(png, info, text, n_text);
    png_set_compression_level(png, 6);
    png_write_info(png, info);
    for (int y = 0; y < height; y++)
        png_write_row(png, rgb + (size_t)y * (size_t)width * 3);
    png_write_end(png, NULL);
    return true;
}

bool png_file_write(FILE *out, const unsigned char *rgb, int width, int height, double dpi,
                    const png_text_entry *text, int n_text, err *e) {
    bool ok = false;
    failure why = {""};
    png_text entry[MAX_TEXT];
    char lang[] = "";
    int n = 0;
    png_infop info = NULL;
    png_structp png = NULL;
    char *copies = mem_alloc(MAX_TEXT, ESCAPED, "the texts of a picture", e);
    if (!copies)
        return false;
    memset(entry, 0, sizeof entry);
    for (int i = 0; i < n_text && n < MAX_TEXT; i++) {
        if (!text[i].value)
            continue;
        char *value = copies + (size_t)n * ESCAPED;
        if (plain(text[i].value))
            snprintf(value, ESCAPED, "%s", text[i].value);
        else // what is not UTF-8, and control bytes, become escapes
            text_escape(text[i].value, strlen(text[i].value), value, ESCAPED);
        bool latin = plain(value);
        entry[n].compression = latin ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE;
        entry[n].key = (char *)text[i].keyword;
        entry[n].text = value;
        entry[n].lang = entry[n].lang_key = latin ? NULL : lang;
        n++;
    }
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &why, on_error, on_warning);
    info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        err_set(e, ERR_NOMEM, "out of memory: libpng");
        goto done;
    }
    ok = write_all(png, info, out, rgb, width, height, dpi, entry, n);
    if (!ok)
        err_set(e, ERR_IO, "%s", *why.text ? why.text : "libpng failed");
done:
    png_destroy_write_struct(&png, &info);
    free(copies);
    return ok;
}
